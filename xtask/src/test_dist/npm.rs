//! The packages for npm, from a registry on this machine that has nothing else.
//!
//! npm asks a registry for a document about each package, and downloads what that names. So files are a registry.

use super::installed::{self, Libc};
use super::outcome;
use super::server::{Archives, Server};
use super::{Kind, TestDist, VERSION};
use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use xtask::command::stdout_of;
use xtask::files;

/// The number of the process that it is.
const PRINT_NUMBER: &str = "echo number $$; exit 7";

/// An empty project of npm, set up for the registry of the test.
struct Project {
    directory: PathBuf,
    cache: PathBuf,
    server: Server,
}

pub(super) fn check(test: &TestDist<'_>) -> Result<()> {
    let foreign = test.foreign_file(Kind::Npm)?;
    let registry = test.new_directory("registry-")?;
    let server = Server::of(registry.clone(), Archives::Whole);
    let server = server.context("cannot start a registry")?;
    let files = [test.file(Kind::NpmStarter)?, test.file(Kind::Npm)?];
    for file in files.iter().chain(&foreign) {
        add(&registry, &server, file)?;
    }
    let project = Project {
        directory: test.new_directory("project-")?,
        cache: test.new_directory("npm-cache-")?,
        server,
    };
    let since = Instant::now();
    project.npm(&["install", "reheap"])?;
    let packages = project.directory.join("node_modules");
    let programs = files::entries(&packages.join("@reheap"))?;
    ensure!(programs.len() == 1, "npm installed {programs:?}");
    test.saw("npm installs the programs for this processor, and no others");
    use_it(test, &project, since)?;
    outcome::succeed(project.command("npm").args(["uninstall", "reheap"]))?;
    ensure!(!programs[0].exists(), "npm left {programs:?}");
    says_what_is_missing(test, &project)?;
    // Then npm puts the programs into the package `reheap`, and not beside it.
    project.npm(&["install", "--global", "--prefix=global", "reheap"])?;
    let reheap = project.directory.join("global/bin/reheap");
    outcome::succeed(Command::new(reheap).arg("--version"))?.said(VERSION)?;
    test.saw("npm install --global");
    Ok(())
}

/// Puts a package into the registry.
fn add(registry: &Path, server: &Server, file: &Path) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--to-stdout", "--file"]).arg(file);
    let text = stdout_of(tar.arg("package/package.json"))?;
    let mut manifest: Value = serde_json::from_str(&text)?;
    let name = manifest["name"].as_str().context("no name")?.to_owned();
    let version = manifest["version"]
        .as_str()
        .context("no version")?
        .to_owned();
    let archive = file.file_name().context("no file name")?.to_string_lossy();
    manifest["dist"] = json!({ "tarball": format!("{}/{archive}", server.address) });
    let document = json!({
        "name": name,
        "dist-tags": { "latest": version },
        "versions": { version: manifest },
    });
    files::copy(file, &registry.join(&*archive))?;
    // As npm asks for it.
    let requested = name.replace('/', "%2f");
    files::write(registry.join(requested), files::json(&document)?)
}

fn use_it(test: &TestDist<'_>, project: &Project, since: Instant) -> Result<()> {
    let npx = |words: &[&str]| {
        let mut command = project.command("npx");
        command.arg("reheap").args(words);
        command
    };
    let image = ["/bin/busybox", "image.tar"];
    installed::check_first_commands(test, since, Libc::Glibc.show_maps(), image, |words| {
        outcome::of(&mut npx(words))
    })?;
    outcome::succeed(&mut npx(&["list"]))?.said("\njemalloc ")?;
    let run = ["run", "-a", "jemalloc", "--"];
    let start = project.directory.join("node_modules/.bin/reheap");
    let child = Command::new(start)
        .args(run)
        .args(["sh", "-c", PRINT_NUMBER])
        .env("REHEAP_CACHE_DIR", project.directory.join("cache"))
        .env_remove("REHEAP_PREBUILT")
        .stdout(std::process::Stdio::piped())
        .spawn()
        .context("cannot start `node_modules/.bin/reheap`")?;
    let number = child.id();
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        said == format!("number {number}\n") && output.status.code() == Some(7),
        "the process {number} printed `{said}` and ended with {}",
        output.status
    );
    let mut cargo_reheap = project.command("npx");
    cargo_reheap.args(["cargo-reheap", "reheap", "--version"]);
    outcome::succeed(&mut cargo_reheap)?.said("reheap")?;
    test.saw("npx reheap becomes the program, in the process that npm starts");
    Ok(())
}

/// Some turn optional packages off, and then only the start is there.
fn says_what_is_missing(test: &TestDist<'_>, project: &Project) -> Result<()> {
    project.npm(&["install", "--omit=optional", "reheap"])?;
    outcome::of(project.command("npx").args(["reheap", "list"]))?
        .ended_with(1)?
        .said("cannot find the package `@reheap/linux-")?
        .said("hint: npm install --include=optional reheap")?;
    project.npm(&["install", "--include=optional", "reheap"])?;
    outcome::succeed(project.command("npx").args(["reheap", "list"]))?;
    test.saw("without the optional package it says so, and its hint helps");
    Ok(())
}

impl Project {
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(&self.directory)
            .env("npm_config_registry", &self.server.address)
            .env("npm_config_cache", &self.cache)
            .env("REHEAP_CACHE_DIR", self.directory.join("cache"))
            .env_remove("REHEAP_PREBUILT");
        command
    }

    fn npm(&self, words: &[&str]) -> Result<()> {
        // Only what belongs to the project tells npm that this is one.
        files::write(self.directory.join("package.json"), "{}")?;
        _ = fs::remove_file(self.directory.join("package-lock.json"));
        outcome::succeed(self.command("npm").args(words))?;
        Ok(())
    }
}
