//! The files of a package, below `/usr` or another prefix.

use super::notices::Notices;
use super::programs::{PROGRAMS, cargo_home};
use super::{Dist, Extent, Programs, sbom};
use anyhow::{Context as _, Result, ensure};
use reheap_allocators::target::Architecture;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;
use xtask::command::stdout_of;
use xtask::files;

/// What is the same for all processors.
pub(super) struct Documents {
    pub(super) notices: Notices,
    /// The bill of materials, if it is made.
    pub(super) bill: Option<String>,
}

/// Makes the tree for a processor.
pub(super) fn make(
    dist: &Dist<'_>,
    architecture: Architecture,
    programs: &Path,
    prebuilt: &Path,
    documents: &Documents,
) -> Result<PathBuf> {
    let tree = dist.scratch.join("tree").join(architecture.name());
    files::make_empty(&tree)?;
    for name in PROGRAMS {
        files::copy(&programs.join(name), &tree.join("bin").join(name))?;
    }
    copy_directory(
        &prebuilt.join(architecture.name()),
        &tree.join("share/reheap"),
    )?;
    write_generated(dist, &tree)?;
    let directory = tree.join("share/doc/reheap");
    documents.notices.write(dist, &directory)?;
    if let Some(bill) = &documents.bill {
        sbom::write_to(bill, &directory, &dist.version)?;
    }
    require_prebuilt(architecture, &tree)?;
    // Those that the tests have run say in panics where their sources are.
    let portable = match dist.extent {
        Extent::Short(Programs::OfTests) => tree.join("share"),
        _ => tree.clone(),
    };
    refuse_paths(&portable, &paths_of_this_machine(dist)?)?;
    set_attributes(&tree, dist.time()?)?;
    Ok(tree)
}

/// Man pages and completions, which the program for this machine prints: they are the same for all.
fn write_generated(dist: &Dist<'_>, tree: &Path) -> Result<()> {
    for program in PROGRAMS {
        let files = [
            ("man", format!("share/man/man1/{program}.1")),
            (
                "bash",
                format!("share/bash-completion/completions/{program}"),
            ),
            ("zsh", format!("share/zsh/site-functions/_{program}")),
            (
                "fish",
                format!("share/fish/vendor_completions.d/{program}.fish"),
            ),
        ];
        for (what, path) in files {
            let mut reheap = dist.command(dist.workspace.target.join("debug/reheap"));
            let text = stdout_of(reheap.args(["generate", what, "--of", program]))?;
            files::write(tree.join(path), text)?;
        }
    }
    Ok(())
}

/// Copies the files of a directory into another.
pub(super) fn copy_directory(from: &Path, to: &Path) -> Result<()> {
    for path in files::entries(from)? {
        let place = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy_directory(&path, &place)?;
        } else {
            files::copy(&path, &place)?;
        }
    }
    Ok(())
}

/// The programs must find all allocators that are in the tree: each has a key, which the programs compute, too.
pub(crate) fn require_prebuilt(architecture: Architecture, tree: &Path) -> Result<()> {
    let program = tree.join("bin/reheap");
    let mut reheap = if architecture.name() == std::env::consts::ARCH {
        Command::new(program)
    } else {
        let mut emulated = Command::new(format!("qemu-{architecture}"));
        emulated.arg(program);
        emulated
    };
    // Without variables there is no other place for allocators than the tree.
    let text = stdout_of(reheap.env_clear().args(["list", "--json"]))?;
    let rows: Vec<serde_json::Value> = serde_json::from_str(&text)?;
    let mut found = 0;
    for row in rows {
        for (libc, origin) in row["comes_from"].as_object().into_iter().flatten() {
            let is_there = origin == "prebuilt" || !row["not_prebuilt"][libc].is_null();
            ensure!(is_there, "reheap does not find {} for {libc}", row["name"]);
            found += 1;
        }
    }
    ensure!(found > 0, "reheap lists no allocator");
    Ok(())
}

/// How paths begin that nobody else has: of the clone, of Cargo's packages, and of tools in the home directory.
fn paths_of_this_machine(dist: &Dist<'_>) -> Result<Vec<String>> {
    let mut paths = vec![
        dist.workspace.root.display().to_string(),
        cargo_home()?.display().to_string(),
    ];
    if let Some(home) = std::env::home_dir() {
        paths.push(format!("{}/.", home.display()));
    }
    Ok(paths)
}

/// With such a path in a file, another machine would make another file.
fn refuse_paths(path: &Path, refused: &[String]) -> Result<()> {
    if path.is_dir() {
        for entry in files::entries(path)? {
            refuse_paths(&entry, refused)?;
        }
        return Ok(());
    }
    let bytes = files::read_bytes(path)?;
    for text in refused {
        let mut windows = bytes.windows(text.len());
        let contains = windows.any(|window| window == text.as_bytes());
        ensure!(!contains, "`{}` contains the path `{text}`", path.display());
    }
    Ok(())
}

/// Lets everybody execute a file.
pub(super) fn make_executable(path: &Path) -> Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("cannot make `{}` executable", path.display()))
}

/// Every tool takes the permissions from the tree, and the umask must not be in them. nfpm takes the times of directories
/// too.
pub(super) fn set_attributes(path: &Path, time: SystemTime) -> Result<()> {
    let metadata = path.symlink_metadata()?;
    let is_for_all = metadata.is_dir() || metadata.permissions().mode() & 0o100 != 0;
    let mode = if is_for_all { 0o755 } else { 0o644 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    if metadata.is_dir() {
        for entry in files::entries(path)? {
            set_attributes(&entry, time)?;
        }
    }
    let file = fs::File::open(path)?;
    file.set_modified(time)
        .with_context(|| format!("cannot set the time of `{}`", path.display()))
}
