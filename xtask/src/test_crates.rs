//! `cargo install reheap` as a stranger types it: from packages alone, without this clone and without a network.
//!
//! The packages become a directory of sources, as `cargo vendor` makes one of those of others. So Cargo takes them as if
//! they were in the registry. To publish them is the last step of a release, and what is wrong with them shows here.

use anyhow::{Context as _, Result, ensure};
use cargo_metadata::Package;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use xtask::command::stdout_of;
use xtask::files;
use xtask::progress::Progress;
use xtask::workspace::Workspace;

/// Prints the libraries that it has loaded.
const SHOW_MAPS: [&str; 2] = ["cat", "/proc/self/maps"];
/// A program that allocates.
const PROGRAM: &str = "#include <stdlib.h>\nint main(void) { free(malloc(1)); return 0; }\n";

/// Packages all crates, installs the program from them, and uses it.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let progress = Progress::start();
    // New each time: Cargo takes a package for the one that it has compiled if only the version is the same.
    let scratch =
        TempDir::new_in(&workspace.target).context("cannot make a temporary directory")?;
    let scratch = scratch.path();
    let mut publish = workspace.cargo();
    // The installation compiles everything, so verifying each package would only do that again.
    publish.args(["publish", "--workspace", "--dry-run", "--no-verify"]);
    publish.args(["--locked", "--allow-dirty"]);
    progress.step(
        "the rules of the registry, without publishing",
        &mut publish,
    )?;
    let sources = sources(workspace, &progress, scratch)?;
    let home = scratch.join("cargo");
    let configuration = format!(
        "[source.crates-io]\nreplace-with = \"packages\"\n[source.packages]\ndirectory = {sources:?}\n"
    );
    files::write(home.join("config.toml"), configuration)?;
    install(workspace, &progress, scratch, &home)?;
    use_it(&progress, scratch, &home.join("bin"))
}

/// The packages that are published.
fn published(workspace: &Workspace) -> impl Iterator<Item = &Package> {
    let is_published = |package: &&Package| package.publish.is_none();
    workspace.packages.iter().filter(is_published)
}

/// A directory with the sources of reheap's packages, and of all that they need.
fn sources(workspace: &Workspace, progress: &Progress, scratch: &Path) -> Result<PathBuf> {
    let directory = scratch.join("sources");
    let mut vendor = workspace.cargo();
    vendor.args(["vendor", "--quiet", "--locked", "--versioned-dirs"]);
    progress.step("the packages of others", vendor.arg(&directory))?;
    let mut package = workspace.cargo();
    // The step before has asked the registry for all that is needed.
    package.args([
        "package",
        "--no-verify",
        "--locked",
        "--allow-dirty",
        "--offline",
    ]);
    for published in published(workspace) {
        package.args(["--package", published.name.as_str()]);
    }
    progress.step("the packages of reheap", &mut package)?;
    for published in published(workspace) {
        let name = format!("{}-{}", published.name, published.version);
        let file = workspace.target.join(format!("package/{name}.crate"));
        let mut tar = Command::new("tar");
        tar.args(["--extract", "--gzip", "--file"]).arg(&file);
        stdout_of(tar.arg("--directory").arg(&directory))?;
        let checksum = json!({
            "files": {},
            "package": files::sha256(&files::read_bytes(&file)?),
        });
        let place = directory.join(name).join(".cargo-checksum.json");
        files::write(place, files::json(&checksum)?)?;
    }
    Ok(directory)
}

/// Without debug information and optimization: in half of the time, and the same sources.
fn install(workspace: &Workspace, progress: &Progress, scratch: &Path, home: &Path) -> Result<()> {
    let mut install = workspace.cargo();
    install
        .args(["install", "reheap", "--locked", "--offline", "--debug"])
        .current_dir("/") // no configuration of this clone
        .env("CARGO_HOME", home)
        .env("CARGO_TARGET_DIR", scratch.join("build"))
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env("CARGO_INCREMENTAL", "0");
    progress.step("cargo install reheap", &mut install)
}

/// What its sources contain is built by it: an allocator for a preload, and one in a static program.
fn use_it(progress: &Progress, scratch: &Path, programs: &Path) -> Result<()> {
    let cache = scratch.join("cache");
    let reheap = |words: &[&str]| {
        let mut command = Command::new(programs.join("reheap"));
        command.args(words).env("REHEAP_CACHE_DIR", &cache);
        command.env_remove("REHEAP_PREBUILT").current_dir(scratch);
        command
    };
    let list = stdout_of(&mut reheap(&["list"]))?;
    ensure!(
        list.contains("\nrpmalloc "),
        "`reheap list` prints:\n{list}"
    );
    let run = ["run", "-a", "rpmalloc", "--"]; // it is built fastest
    let maps = stdout_of(reheap(&run).args(SHOW_MAPS))?;
    ensure!(maps.contains("/librpmalloc"), "no rpmalloc is in:\n{maps}");
    let source = scratch.join("program.c");
    files::write(&source, PROGRAM)?;
    let compile = ["cc", "-a", "rpmalloc", "program.c", "-o", "program"];
    stdout_of(&mut reheap(&compile))?;
    stdout_of(&mut reheap(&["inspect", "--expect", "rpmalloc", "program"]))?;
    let mut cargo_reheap = Command::new(programs.join("cargo-reheap"));
    let version = stdout_of(cargo_reheap.args(["reheap", "--version"]))?;
    let version = version.trim();
    ensure!(!version.is_empty(), "`cargo reheap --version` is silent");
    progress.say(format!("{version} works as it is packaged"));
    Ok(())
}
