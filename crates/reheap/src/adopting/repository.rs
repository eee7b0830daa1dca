//! Asks Git for changes that are not committed: edits on top of them could not be told from them.

use crate::ui::Failure;
use reheap_adopt::adoption::Plan;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::Command;

/// Refuses files with changes that are not committed. What adopt itself put in is no such change.
pub(super) fn check_clean(root: &Path, plan: &Plan, without_pieces: &Plan) -> anyhow::Result<()> {
    let mut dirty = Vec::new();
    for change in plan.changes() {
        if change.before.is_none() || !is_changed(&change.path) {
            continue;
        }
        let own = without_pieces.changes().find(|it| it.path == change.path);
        let without = own.map(|it| it.after.as_deref());
        if without.is_some_and(|text| text.is_some() && text == committed(&change.path).as_deref())
        {
            continue;
        }
        let path = change.path.strip_prefix(root).unwrap_or(&change.path);
        dirty.push(format!("`{}`", path.display()));
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

/// Whether Git knows of changes. Without Git, or outside a repository, there are none.
fn is_changed(path: &Path) -> bool {
    let output = git(path, &["status", "--porcelain", "--"], path.file_name());
    output.is_some_and(|output| !output.is_empty())
}

/// What the last commit has in a file.
fn committed(path: &Path) -> Option<String> {
    let mut argument = b"HEAD:./".to_vec();
    argument.extend(path.file_name()?.as_bytes());
    let output = git(path, &["show"], Some(OsStr::from_bytes(&argument)))?;
    String::from_utf8(output).ok()
}

fn git(path: &Path, arguments: &[&str], last: Option<&OsStr>) -> Option<Vec<u8>> {
    let mut command = Command::new("git");
    command
        .arg("-C")
        .arg(path.parent()?)
        .args(arguments)
        .args(last);
    let output = command.output().ok()?;
    output.status.success().then_some(output.stdout)
}
