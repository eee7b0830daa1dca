//! Checks what reheap is built from, with `cargo deny` and `deny.toml`: licences, where packages come from, advisories.
//!
//! Advisories are in a database on GitHub. Without it, for want of a network, the other checks still count. Then this
//! says that advisories were not checked.

use anyhow::{Context as _, Result};
use xtask::progress::Progress;
use xtask::workspace::Workspace;

/// All that needs no network, then the advisories if their database can be had.
pub(crate) fn run(workspace: &Workspace, progress: &Progress) -> Result<()> {
    // The tests need no packages for other systems, but `cargo deny` looks into all of them.
    let fetch = ["fetch", "--quiet", "--locked"];
    progress.step("fetching all packages", workspace.cargo().args(fetch))?;
    let checks = ["deny", "--offline", "check", "licenses", "bans", "sources"];
    let what = "licences and sources of all packages";
    progress.step(what, workspace.cargo().args(checks))?;
    let mut fetch = workspace.cargo();
    let fetched = fetch
        .args(["deny", "fetch", "db"])
        .output()
        .context("cannot start cargo deny")?;
    if !fetched.status.success() {
        let said = String::from_utf8_lossy(&fetched.stderr);
        let last = said.lines().rfind(|line| !line.trim().is_empty());
        let why = last.unwrap_or("cargo deny does not say why");
        progress.say(format!(
            "advisories were NOT checked: their database cannot be fetched: {why}"
        ));
        return Ok(());
    }
    let check = ["deny", "check", "--disable-fetch", "advisories"];
    progress.step("advisories", workspace.cargo().args(check))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use xtask::workspace::Workspace;

    /// A package with that licence, and whether `cargo deny` takes it.
    fn is_taken(licence: &str) -> (bool, String) {
        let directory = tempfile::tempdir().unwrap();
        let manifest = format!(
            "[package]\nname = \"a\"\nversion = \"1.0.0\"\nedition = \"2024\"\nlicense = \"{licence}\"\n"
        );
        fs::create_dir(directory.path().join("src")).unwrap();
        fs::write(directory.path().join("src/lib.rs"), "").unwrap();
        fs::write(directory.path().join("Cargo.toml"), manifest).unwrap();
        let workspace = Workspace::find().unwrap();
        let mut deny = workspace.cargo();
        deny.args(["deny", "--offline", "--manifest-path"])
            .arg(directory.path().join("Cargo.toml"))
            .arg("--config")
            .arg(workspace.root.join("deny.toml"))
            .args(["check", "licenses"]);
        let output = deny.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !said.contains("no such command"),
            "{said}; `xtask/prepare install` installs what the tests need"
        );
        (output.status.success(), said)
    }

    #[test]
    fn a_package_under_a_licence_that_is_not_listed_is_refused() {
        let (is_taken_mit, said) = is_taken("MIT OR Apache-2.0");
        assert!(is_taken_mit, "{said}");
        let (is_taken_gpl, said) = is_taken("GPL-3.0-only");
        assert!(!is_taken_gpl && said.contains("GPL-3.0"), "{said}");
    }
}
