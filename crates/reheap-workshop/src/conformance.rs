//! Checks an allocator in a user's own file when it is first used: one that nobody has tried may lack half of what
//! programs rely on, and they would crash far from the cause.
//!
//! A failed check is a warning: allocators differ in what they promise, and whoever writes one wants to go on. Only a
//! file that no program can be started with is refused. Without a compiler, a prebuilt program makes the checks of a
//! library; if there is none, reheap says that nothing was checked.

use crate::static_program;
use crate::workshop::{Built, Workshop};
use reheap_allocators::catalogue::file::AllocatorFile;
use reheap_allocators::checker::{self, CHECKER, Findings};
use reheap_allocators::libc::LibcError;
use reheap_allocators::load::{self, LoadFailure, Loading, is_same_file};
use reheap_allocators::target::Target;
use reheap_bench::results::{Outcome, signal_name};
use reheap_bench::run::{CommandLine, Launcher, Limits};
use reheap_command::choice::Choice;
use reheap_command::env_vars;
use reheap_command::pulse;
use reheap_command::ui::{self, Failure};
use reheap_elf::derive::DeriveError;
use reheap_elf::identify;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// All checks together take a second. One that hangs gives up by itself, but a library may hang at its start.
const TIME_MAX: Duration = Duration::from_secs(60);

/// What came of an earlier check of this file.
pub fn known(
    file: &AllocatorFile,
    target: &Target,
    workshop: &Workshop,
) -> anyhow::Result<Option<Findings>> {
    let printed = checker::printed(file, target, workshop.cache()?);
    Ok(printed.map(|printed| Findings::parse(&printed, signal_name)))
}

/// Checks a library, unless that was done.
pub(crate) fn of_library(
    choice: &Choice,
    target: &Target,
    library: &Path,
    workshop: &Workshop,
) -> anyhow::Result<()> {
    let make = || workshop.program(&CHECKER, target);
    once(choice, target, workshop, make, |program| {
        let environment = vec![(env_vars::LD_PRELOAD.into(), library.into())];
        let not_loaded = || {
            let why = why_not_loaded(target, program, library)?;
            Some(unusable(choice, &why.to_string()))
        };
        let printed = run(choice, program, environment);
        let printed = printed.map_err(|error| not_loaded().unwrap_or(error))?;
        let malloc_in = Findings::parse(&printed, signal_name).malloc_in;
        if malloc_in.is_some_and(|file| is_same_file(&file, library)) {
            return Ok(printed);
        }
        let elsewhere = || unusable(choice, "programs that load it have another malloc");
        Err(not_loaded().unwrap_or_else(elsewhere))
    })
}

/// Checks objects in a static program, unless that was done.
pub(crate) fn of_objects(
    choice: &Choice,
    target: &Target,
    built: &Built,
    workshop: &Workshop,
) -> anyhow::Result<()> {
    let make = || static_program::of_built(&CHECKER, choice, target, built, workshop);
    once(choice, target, workshop, make, |program| {
        run(choice, program, Vec::new())
    })
}

fn once(
    choice: &Choice,
    target: &Target,
    workshop: &Workshop,
    make: impl FnOnce() -> anyhow::Result<PathBuf>,
    check: impl FnOnce(&Path) -> anyhow::Result<String>,
) -> anyhow::Result<()> {
    let Some(file) = choice.allocator.file() else {
        return Ok(());
    };
    if known(file, target, workshop)?.is_some() {
        return Ok(());
    }
    let name = choice.allocator.name;
    let unchecked =
        |reason: &str| ui::note(&format!("warning: `{name}` was not checked: {reason}"));
    if Target::of_this_machine(target.libc()) != Some(*target) {
        unchecked(&format!("it is for {}", target.arch()));
        return Ok(());
    }
    let program = match make() {
        Ok(program) => program,
        Err(error) => {
            return match error.downcast_ref() {
                Some(LibcError::Derive { source, .. }) => Err(unfit(choice, source)),
                _ => {
                    unchecked(&format!("{error:#}"));
                    Ok(())
                }
            };
        }
    };
    let printed = pulse::while_spinning(&format!("checking `{name}`"), || check(&program))?;
    checker::keep(&printed, file, target, workshop.cache()?)?;
    let findings = Findings::parse(&printed, signal_name);
    let kind = if findings.faults.is_empty() {
        ""
    } else {
        "warning: "
    };
    ui::note(&format!("{kind}checked `{name}`: {}", findings.in_words()));
    Ok(())
}

/// Why its objects do not go into a libc.
fn unfit(choice: &Choice, error: &DeriveError) -> anyhow::Error {
    let name = choice.allocator.name;
    let DeriveError::Undefined { symbol, .. } = error else {
        return unusable(choice, &error.to_string());
    };
    let text = format!("cannot use `{name}`: it needs `{symbol}`, which musl does not have");
    let hint = "compile it for musl: CC=musl-gcc, or CC='zig cc -target x86_64-linux-musl'";
    Failure::failed(text).hint(hint).into()
}

/// What the checker prints with the allocator.
fn run(
    choice: &Choice,
    program: &Path,
    environment: Vec<(OsString, OsString)>,
) -> anyhow::Result<String> {
    let command = CommandLine {
        program: program.to_owned(),
        environment,
        ..CommandLine::default()
    };
    let limits = Limits {
        time: Some(TIME_MAX),
        ..Limits::default()
    };
    let finished = Launcher::new()?.run(&command, &limits, &[])?;
    let how = match finished.outcome {
        Outcome::Exited(0) => {
            return Ok(String::from_utf8_lossy(&finished.stdout.head).into_owned());
        }
        Outcome::Signalled(signal) => {
            let signal = signal_name(signal).map_or(signal.to_string(), str::to_owned);
            format!("ends by {signal}")
        }
        Outcome::TimedOut => "does not end".to_owned(),
        other => format!("fails: {other}"),
    };
    let said = finished.stderr.last_lines(3);
    let said = if said.is_empty() {
        said
    } else {
        format!("\n{said}")
    };
    Err(unusable(
        choice,
        &format!("a small program with it {how}{said}"),
    ))
}

fn unusable(choice: &Choice, reason: &str) -> anyhow::Error {
    let name = choice.allocator.name;
    Failure::failed(format!("cannot use `{name}`: {reason}")).into()
}

/// What the dynamic linker says.
fn why_not_loaded(target: &Target, program: &Path, library: &Path) -> Option<LoadFailure> {
    let identity = identify::identify(&fs::read(program).ok()?).ok()?;
    let loading = Loading {
        libc: target.libc(),
        loader: Path::new(identity.interpreter.as_ref()?),
        program,
    };
    load::failure(loading, library)
}
