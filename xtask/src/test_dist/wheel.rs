//! The wheel, which pip installs into an environment without reaching any index.

use super::outcome::{self, Outcome};
use super::{Kind, TestDist};
use anyhow::{Result, ensure};
use std::path::Path;
use std::process::Command;

const PRINT_MAPS: &str = "print(open('/proc/self/maps').read())";

pub(super) fn check(test: &TestDist<'_>) -> Result<()> {
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
    pip(&environment, &["install", "--no-index"], Some(&file))?.succeeded()?;
    pip(&environment, &["check"], None)?.succeeded()?;
    use_it(&environment)?;
    test.saw("list, inspect and run");
    pip(&environment, &["uninstall", "--yes", "reheap"], None)?.succeeded()?;
    let left = files_of_reheap(&environment)?;
    ensure!(left.is_empty(), "pip left {left}");
    test.saw("pip uninstall leaves nothing");
    Ok(())
}

fn use_it(environment: &Path) -> Result<()> {
    let python = environment.join("bin/python3");
    let reheap = || {
        let mut command = Command::new(environment.join("bin/reheap"));
        // No cache of this machine, so that all comes from the wheel.
        command.env("REHEAP_CACHE_DIR", environment.join("cache"));
        command.env_remove("REHEAP_PREBUILT");
        command
    };
    outcome::succeed(reheap().arg("list"))?.said("\njemalloc ")?;
    outcome::succeed(reheap().arg("inspect").arg(&python))?.said("glibc")?;
    let mut run = reheap();
    run.args(["run", "-a", "jemalloc", "--"]).arg(&python);
    let library = environment.join("share/reheap/preloads");
    outcome::succeed(run.args(["-c", PRINT_MAPS]))?.said(&library.display().to_string())?;
    let cargo_reheap = environment.join("bin/cargo-reheap");
    outcome::succeed(Command::new(cargo_reheap).args(["reheap", "--version"]))?.said("reheap")?;
    Ok(())
}

fn pip(environment: &Path, arguments: &[&str], file: Option<&Path>) -> Result<Outcome> {
    let mut command = Command::new(environment.join("bin/python3"));
    command.args(["-m", "pip", "--disable-pip-version-check"]);
    outcome::of(command.args(arguments).args(file))
}

/// Files and not directories: pip leaves the directories of data files.
fn files_of_reheap(environment: &Path) -> Result<String> {
    let mut find = Command::new("find");
    // From inside: the environment itself may be below a directory of that name.
    find.current_dir(environment)
        .args([".", "-not", "-type", "d", "-path", "*reheap*"]);
    Ok(outcome::succeed(&mut find)?.stdout)
}
