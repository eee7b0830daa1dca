//! Writes the files of a plan: all of them, or none.
//!
//! Each file appears whole, by a rename. If one cannot be written, those written before get their old contents back. If
//! reheap is killed in between, some files are new and some are old; `reheap adopt --undo` takes out what is there.
//!
//! `cargo check` takes minutes, and people edit their files meanwhile. So a file is only replaced if it has the contents
//! that reheap last saw in it: nobody's edits are lost. Two `reheap adopt` at a time would still mix theirs, so the
//! second one is refused.

use anyhow::Context as _;
use reheap_adopt::adoption::{Change, Plan};
use reheap_command::output;
use reheap_command::ui::Failure;
use rustix::fs::{Access, access};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;

/// Refuses files that cannot be written, before any is.
pub(super) fn check_writable(plan: &Plan) -> anyhow::Result<()> {
    for change in plan.changes() {
        let path = &change.path;
        let mut directories = path.ancestors().skip(1);
        let directory = directories.find(|directory| directory.is_dir());
        let directory = directory.unwrap_or(Path::new("."));
        let is_read_only = change.before.is_some() && fs::metadata(path)?.permissions().readonly();
        // The superuser may write files that say that nobody should.
        if is_read_only || access(directory, Access::WRITE_OK).is_err() {
            let text = format!("cannot write `{}`: it is read-only", path.display());
            let hint = format!("chmod u+w {}", path.display());
            return Err(Failure::failed(text).hint(hint).into());
        }
    }
    Ok(())
}

/// Keeps other runs of `reheap adopt` out of a project until it is dropped.
pub(super) fn lock(root: &Path) -> anyhow::Result<Option<File>> {
    // Some network file systems lock no directories. Then nobody is kept out.
    let Ok(directory) = File::open(root) else {
        return Ok(None);
    };
    if let Err(TryLockError::WouldBlock) = directory.try_lock() {
        let text = format!(
            "another `reheap adopt` is changing the project in `{}`",
            root.display()
        );
        return Err(Failure::failed(text)
            .hint("try again when it has ended")
            .into());
    }
    Ok(Some(directory))
}

/// Writes all files, or none.
pub(super) fn write(plan: &Plan) -> anyhow::Result<()> {
    let mut written: Vec<&Change> = Vec::new();
    for change in plan.changes() {
        if let Err(error) = replace(change, Side::After) {
            for change in written {
                replace(change, Side::Before)?;
            }
            return Err(error);
        }
        written.push(change);
    }
    Ok(())
}

/// Gives all files their old contents back, but for those that somebody else changed.
pub(super) fn restore(plan: &Plan) -> anyhow::Result<()> {
    let results: Vec<anyhow::Result<()>> = plan
        .changes()
        .map(|change| replace(change, Side::Before))
        .collect();
    results.into_iter().collect()
}

/// Which contents of a change.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Before,
    After,
}

/// Gives a file these contents, if it has the others or these.
fn replace(change: &Change, side: Side) -> anyhow::Result<()> {
    let path = &change.path;
    let (from, to) = match side {
        Side::After => (&change.before, &change.after),
        Side::Before => (&change.after, &change.before),
    };
    let now = match fs::read(path) {
        Ok(contents) => Some(contents),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error).with_context(|| cannot_write(path)),
    };
    let is = |contents: &Option<String>| now.as_deref() == contents.as_deref().map(str::as_bytes);
    if is(to) {
        return Ok(());
    }
    if is(from) {
        return write_one(path, to.as_deref());
    }
    let path = path.display();
    Err(match side {
        Side::After => {
            let text = format!("cannot edit `{path}`: somebody changed it in the meantime");
            Failure::failed(text).hint("try again")
        }
        Side::Before => {
            let text = format!(
                "`{path}` was changed while Cargo checked the project, so it keeps that, and what adopt put in"
            );
            Failure::failed(text).hint("to take that out: reheap adopt --undo")
        }
    }
    .into())
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write `{}`", path.display())
}

/// Writes a file, or takes it away.
pub(super) fn write_one(path: &Path, contents: Option<&str>) -> anyhow::Result<()> {
    let cannot = || cannot_write(path);
    let Some(contents) = contents else {
        fs::remove_file(path).with_context(cannot)?;
        // The directories of a workflow, if there is nothing else in them.
        for directory in path.ancestors().skip(1) {
            if fs::remove_dir(directory).is_err() {
                break;
            }
        }
        return Ok(());
    };
    fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).with_context(cannot)?;
    output::replace(path, contents.as_bytes())
}
