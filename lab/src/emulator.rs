//! What is measured in qemu's user mode: its version, and the plugins that look on.

use anyhow::{Context as _, Result};
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::command::stdout_of;
use xtask::progress::Progress;
use xtask::workspace::Workspace;

/// An emulator's name and version, without that of its package.
pub(crate) fn version(emulator: &str) -> Result<String> {
    let text = stdout_of(Command::new(emulator).arg("--version"))?;
    let first = text.lines().next().context("qemu has no version")?;
    let line = first.split(" (").next().unwrap_or(first);
    Ok(line.replace(" version ", " "))
}

/// Compiles a plugin, `lab/<name>.c`, into a directory.
pub(crate) fn plugin(
    workspace: &Workspace,
    progress: &Progress,
    name: &str,
    directory: &Path,
) -> Result<PathBuf> {
    let plugin = directory.join(format!("{name}.so"));
    let source = workspace.root.join(format!("lab/{name}.c"));
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-shared", "-fPIC", "-o"]).arg(&plugin);
    progress.quietly("building the plugin", cc.arg(source))?;
    Ok(plugin)
}
