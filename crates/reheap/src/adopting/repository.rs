//! Asks Git for changes that are not committed: edits on top of them could not be told from them.

use reheap_adopt::adoption::Plan;
use reheap_adopt::project::Project;
use reheap_command::env_vars;
use reheap_command::ui::{self, Failure};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::Output;

/// Refuses files with changes that are not committed. What adopt itself put in is no such change.
pub(super) fn check_clean(
    project: &Project,
    plan: &Plan,
    without_pieces: &Plan,
) -> anyhow::Result<()> {
    let mut dirty = Vec::new();
    for change in plan.changes() {
        if change.before.is_none() || !is_changed(&change.path)? {
            continue;
        }
        let own = without_pieces
            .changes()
            .find(|other| other.path == change.path);
        let without = own.map(|own| own.after.as_deref());
        if without.is_some_and(|text| text.is_some() && text == committed(&change.path).as_deref())
        {
            continue;
        }
        dirty.push(format!("`{}`", super::relative(project, &change.path)));
    }
    if dirty.is_empty() {
        return Ok(());
    }
    let text = format!(
        "cannot edit {}: there are changes that are not committed",
        dirty.join(", ")
    );
    let hint = "commit them, or add --allow-dirty";
    Err(Failure::failed(text).hint(hint).into())
}

/// Whether Git knows of changes. Outside a repository, there are none.
fn is_changed(path: &Path) -> anyhow::Result<bool> {
    let output = git(path, &["status", "--porcelain", "--"], path.file_name());
    let reason = match output {
        Ok(output) if output.status.success() => return Ok(!output.stdout.is_empty()),
        _ if !path
            .ancestors()
            .any(|directory| directory.join(".git").exists()) =>
        {
            return Ok(false);
        }
        Ok(output) => {
            let words = String::from_utf8_lossy(&output.stderr);
            ui::printable(words.lines().next().unwrap_or("it does not say why"))
        }
        Err(error) => format!("cannot start `git`: {error}"),
    };
    let text = format!("cannot see whether Git has changes that are not committed: {reason}");
    let hint = "to edit the files all the same, add --allow-dirty";
    Err(Failure::failed(text).hint(hint).into())
}

/// What the last commit has in a file.
fn committed(path: &Path) -> Option<String> {
    let mut argument = b"HEAD:./".to_vec();
    argument.extend(path.file_name()?.as_bytes());
    let output = git(path, &["show"], Some(OsStr::from_bytes(&argument))).ok()?;
    let output = output.status.success().then_some(output.stdout)?;
    String::from_utf8(output).ok()
}

fn git(path: &Path, arguments: &[&str], last: Option<&OsStr>) -> io::Result<Output> {
    let mut command = env_vars::command(env_vars::usual_program("git"));
    command
        .arg("-C")
        .arg(path.parent().unwrap_or(Path::new("/")));
    command.args(arguments).args(last).output()
}
