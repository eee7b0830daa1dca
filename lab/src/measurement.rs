//! Where a measurement is written, and what must not be in it.

use crate::machine::{Machine, today};
use anyhow::Result;
use std::env;
use std::path::{Path, PathBuf};
use xtask::files;
use xtask::progress::Progress;
use xtask::workspace::Workspace;

/// All measurements, with a directory for each day and machine.
pub(crate) const ALL: &str = "docs/measurements";

/// The directory for what is measured today on this machine, or on one of that name.
pub(crate) fn directory(workspace: &Workspace, machine: &Machine, name: Option<String>) -> PathBuf {
    let name = name.unwrap_or_else(|| machine.short_name());
    let directory = workspace.root.join(ALL);
    directory.join(format!("{}-{name}", today()))
}

/// The text of results, without the places of directories: these mean nothing on another machine.
pub(crate) fn without_places(workspace: &Workspace, text: &str) -> String {
    let text = text.replace(&format!("{}/", workspace.root.display()), "");
    match env::var("HOME") {
        Ok(home) => text.replace(&format!("{home}/"), "~/"),
        Err(_) => text,
    }
}

/// Writes raw data and what is made from them into a directory.
pub(crate) fn write(progress: &Progress, directory: &Path, files: &[(&str, String)]) -> Result<()> {
    for (name, text) in files {
        let path = directory.join(name);
        files::write(&path, text)?;
        progress.say(format!("written to `{}`", path.display()));
    }
    Ok(())
}
