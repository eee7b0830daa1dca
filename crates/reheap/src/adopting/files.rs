//! Writes the files of a plan: all of them, or none.
//!
//! Each file appears whole, by a rename. If one cannot be written, those written before get their old contents back. If
//! reheap is killed in between, some files are new and some are old; `reheap adopt --undo` takes out what is there.

use crate::ui::Failure;
use anyhow::Context as _;
use reheap_adopt::adoption::{Change, Plan};
use reheap_allocators::cache::write_by_rename;
use rustix::fs::{Access, access};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Refuses files that cannot be written, before any is.
pub(super) fn check_writable(plan: &Plan) -> anyhow::Result<()> {
    for change in plan.changes() {
        let path = &change.path;
        let mut directories = path.ancestors().skip(1);
        let directory = directories.find(|it| it.is_dir());
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

/// Writes all files, or none.
pub(super) fn write(plan: &Plan) -> anyhow::Result<()> {
    let mut written: Vec<&Change> = Vec::new();
    for change in plan.changes() {
        if let Err(error) = write_one(&change.path, change.after.as_deref()) {
            for change in written {
                write_one(&change.path, change.before.as_deref())?;
            }
            return Err(error);
        }
        written.push(change);
    }
    Ok(())
}

/// Gives all files their old contents back.
pub(super) fn restore(plan: &Plan) -> anyhow::Result<()> {
    let mut changes = plan.changes();
    changes.try_for_each(|change| write_one(&change.path, change.before.as_deref()))
}

/// Writes a file with the permissions that it has, or takes it away.
pub(super) fn write_one(path: &Path, contents: Option<&str>) -> anyhow::Result<()> {
    let cannot = || format!("cannot write `{}`", path.display());
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
    let mode = fs::metadata(path).map_or(0o644, |it| it.permissions().mode() & 0o7777);
    fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).with_context(cannot)?;
    write_by_rename(path, contents.as_bytes(), mode)?;
    Ok(())
}
