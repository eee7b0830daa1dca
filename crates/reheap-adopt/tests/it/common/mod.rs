//! Projects of a few files, and what is found in them.

use reheap_adopt::findings::{self, Finding};
use reheap_adopt::project::Project;
use std::fs;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// The head of a manifest.
pub(crate) const PACKAGE: &str =
    "[package]\nname = \"example\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";
/// A program with mimalloc on all targets.
pub(crate) const MAIN: &str = "#[global_allocator]\nstatic GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;\n\nfn main() {}\n";

/// A directory with these files.
pub(crate) fn directory(files: &[(&str, &str)]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, contents) in files {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
    }
    directory
}

pub(crate) fn project(directory: &Path) -> Project {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    Project::read(&Command::new(cargo), &directory.join("Cargo.toml")).unwrap()
}

/// What is found, each as `path:line rule: what; fix`.
pub(crate) fn found(files: &[(&str, &str)]) -> Vec<String> {
    let directory = directory(files);
    let project = project(directory.path());
    let line = |finding: &Finding| {
        let path = finding.path.strip_prefix(&project.root).unwrap();
        let (rule, what, fix) = (finding.rule.name(), &finding.what, &finding.fix);
        format!("{}:{} {rule}: {what}; {fix}", path.display(), finding.line)
    };
    findings::of(&project).iter().map(line).collect()
}

/// What is found in a package with this manifest after its head, and this program.
pub(crate) fn in_package(manifest: &str, main: &str) -> Vec<String> {
    let manifest = format!("{PACKAGE}\n{manifest}");
    found(&[("Cargo.toml", &manifest), ("src/main.rs", main)])
}

/// Checks that nothing is found.
#[track_caller]
pub(crate) fn assert_clean(found: &[String]) {
    assert!(found.is_empty(), "{found:#?}");
}
