//! The wheel, which pip, pipx and uv install without reaching any index.

use super::installed::{self, Libc};
use super::outcome::{self, Outcome};
use super::{Kind, TestDist};
use anyhow::{Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use xtask::files;

/// Makes an environment for each program, and puts links to its commands into a directory.
struct Tool {
    name: &'static str,
    install: &'static [&'static str],
    uninstall: &'static [&'static str],
}

const TOOLS: [Tool; 2] = [
    Tool {
        name: "pipx",
        install: &["install", "--pip-args=--no-index"],
        uninstall: &["uninstall", "reheap"],
    },
    Tool {
        name: "uv",
        install: &["tool", "install", "--offline", "--no-index"],
        uninstall: &["tool", "uninstall", "reheap"],
    },
];

pub(super) fn check(test: &TestDist<'_>) -> Result<()> {
    with_pip(test)?;
    for tool in &TOOLS {
        with_tool(test, tool)?;
    }
    Ok(())
}

fn with_pip(test: &TestDist<'_>) -> Result<()> {
    let environment = test.new_directory("venv-")?;
    let mut make = Command::new("python3");
    outcome::succeed(make.args(["-m", "venv"]).arg(&environment))?;
    let before = files_of_reheap(&environment)?;
    ensure!(before.is_empty(), "an empty environment has {before}");
    if let Some(foreign) = test.foreign_file(Kind::Wheel)? {
        pip(&environment, &["install", "--no-index"], Some(&foreign))?
            .failed()?
            .said("not a supported wheel on this platform")?;
        test.saw("the wheel for another processor is refused");
    }
    let file = test.file(Kind::Wheel)?;
    let since = Instant::now();
    pip(&environment, &["install", "--no-index"], Some(&file))?.succeeded()?;
    use_it(test, &environment.join("bin"), since)?;
    pip(&environment, &["check"], None)?.succeeded()?;
    pip(&environment, &["uninstall", "--yes", "reheap"], None)?.succeeded()?;
    let left = files_of_reheap(&environment)?;
    ensure!(left.is_empty(), "pip left {left}");
    test.saw("pip uninstall leaves nothing");
    Ok(())
}

fn with_tool(test: &TestDist<'_>, tool: &Tool) -> Result<()> {
    let tools = environment_with(test, "python-tools", &TOOLS.map(|tool| tool.name))?;
    let directory = test.new_directory(tool.name)?;
    let command = || {
        let mut command = Command::new(tools.join("bin").join(tool.name));
        for (name, place) in [
            ("PIPX_HOME", "home"),
            ("PIPX_BIN_DIR", "bin"),
            ("PIPX_MAN_DIR", "man"),
            ("UV_TOOL_DIR", "home"),
            ("UV_TOOL_BIN_DIR", "bin"),
            ("UV_CACHE_DIR", "cache"),
        ] {
            command.env(name, directory.join(place));
        }
        command.env("UV_PYTHON_DOWNLOADS", "never");
        command
    };
    let file = test.file(Kind::Wheel)?;
    let since = Instant::now();
    outcome::succeed(command().args(tool.install).arg(file))?;
    test.saw(tool.name);
    let bin = directory.join("bin");
    use_it(test, &bin, since)?;
    outcome::succeed(command().args(tool.uninstall))?;
    let left = files::entries(&bin)?;
    ensure!(left.is_empty(), "{} left {left:?}", tool.name);
    Ok(())
}

/// The programs in `bin`.
fn use_it(test: &TestDist<'_>, bin: &Path, since: Instant) -> Result<()> {
    let cache = test.new_directory("cache-")?;
    let program = bin.join("reheap").display().to_string();
    let image = cache.join("image.tar").display().to_string();
    let reheap = |words: &[&str]| {
        let mut command = Command::new(&program);
        // No cache of this machine, so that all comes from the wheel.
        command.env("REHEAP_CACHE_DIR", &cache);
        command.env_remove("REHEAP_PREBUILT");
        outcome::of(command.args(words))
    };
    let image = [program.as_str(), &image];
    installed::check_first_commands(test, since, Libc::Glibc.show_maps(), image, reheap)?;
    let cargo_reheap = bin.join("cargo-reheap");
    outcome::succeed(Command::new(cargo_reheap).args(["reheap", "--version"]))?.said("reheap")?;
    Ok(())
}

fn pip(environment: &Path, arguments: &[&str], file: Option<&Path>) -> Result<Outcome> {
    let mut command = Command::new(environment.join("bin/python3"));
    command.args(["-m", "pip", "--disable-pip-version-check"]);
    outcome::of(command.args(arguments).args(file))
}

/// A Python environment with these packages, which pip gets the first time.
pub(super) fn environment_with(
    test: &TestDist<'_>,
    name: &str,
    packages: &[&str],
) -> Result<PathBuf> {
    let environment = test.cache.join(name);
    let finished = environment.join("finished");
    if !finished.exists() {
        _ = fs::remove_dir_all(&environment);
        let mut make = Command::new("python3");
        outcome::succeed(make.args(["-m", "venv"]).arg(&environment))?;
        let mut pip = Command::new(environment.join("bin/python3"));
        pip.args(["-m", "pip", "install", "--quiet"]).args(packages);
        test.progress.quietly(&format!("  {name}"), &mut pip)?;
        files::write(&finished, "")?;
    }
    Ok(environment)
}

/// Files and not directories: pip leaves the directories of data files.
fn files_of_reheap(environment: &Path) -> Result<String> {
    let mut find = Command::new("find");
    // From inside: the environment itself may be below a directory of that name.
    find.current_dir(environment)
        .args([".", "-not", "-type", "d", "-path", "*reheap*"]);
    Ok(outcome::succeed(&mut find)?.stdout)
}
