//! `reheap run --verify`: watches the command with the allocator for some seconds, ends it, and judges it.
//!
//! The probe of `reheap bench` is in front of the library here too. It counts the calls that reach it, and asks whose
//! malloc is behind it. Calls that arrive say nothing about what becomes of the program. So reheap watches it for a
//! while, and counts every process that dies by a signal. Programs also crash for reasons of their own. If something
//! went wrong, the same command runs again without the allocator, watched in the same way. reheap does not blame the
//! allocator for what happens there too. It says nothing about programs that had not started yet.

mod finding;
mod observe;

use crate::census::Census;
use anyhow::Context as _;
pub(super) use finding::Finding;
use observe::{Observed, Run};
use reheap_allocators::probe::Recording;
use reheap_allocators::target::Target;
use reheap_allocators::watch::{self, Watch};
use reheap_bench::results::Outcome;
use reheap_command::choice::Choice;
use reheap_command::interrupt;
use reheap_subject::program::Program;
use reheap_workshop::preloading;
use reheap_workshop::workshop::Workshop;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// A command, and how long to watch it.
pub struct Verification<'a> {
    /// What the command executes.
    pub program: &'a Program,
    /// The allocator that it gets.
    pub choice: &'a Choice,
    /// What makes the preload.
    pub workshop: &'a Workshop,
    /// Variables for the program with the allocator, in addition to those that load it.
    pub variables: Option<(OsString, OsString)>,
    /// The command.
    pub command: &'a [OsString],
    /// How long it may run.
    pub time: Duration,
}

/// Runs the command, and runs it again if that is needed to tell whose fault a problem is.
///
/// # Errors
/// If it cannot be run. What is wrong with it is in the finding.
pub fn verify(verification: &Verification<'_>) -> anyhow::Result<Finding> {
    let bench = Bench::prepare(verification)?;
    let recording = Recording::create()?;
    let mut census = Census::new(&bench.library, bench.target.libc());
    let with = bench.with(&recording, &mut census)?;
    let without = if is_trouble(&with) {
        Some(bench.without()?)
    } else {
        None
    };
    let observation = recording.observation()?;
    Ok(Finding::new(finding::Facts {
        verification,
        library: &bench.library,
        observation: &observation,
        census: &census,
        with,
        without,
    }))
}

/// Whether anything happened that may be the allocator's fault.
fn is_trouble(observed: &Observed) -> bool {
    let ended_well = matches!(observed.end, None | Some(Outcome::Exited(0)));
    !(ended_well && observed.deaths.is_empty() && observed.lost.is_empty())
}

/// All that both runs need.
struct Bench<'a> {
    verification: &'a Verification<'a>,
    target: Target,
    /// The file of the library, without links.
    library: PathBuf,
    watch: PathBuf,
    interrupted: Arc<AtomicBool>,
}

impl<'a> Bench<'a> {
    fn prepare(verification: &'a Verification<'a>) -> anyhow::Result<Self> {
        let program = verification.program;
        let target = program.target().context("there is no library for it")?;
        let workshop = verification.workshop;
        let watch = workshop.own_library(&watch::LIBRARY, &target)?;
        Ok(Self {
            verification,
            library: workshop.preload(verification.choice, &target)?,
            watch: preloading::for_variable(&watch, &target, workshop)?,
            target,
            interrupted: interrupt::on_signals()?,
        })
    }

    fn with(&self, recording: &Recording, census: &mut Census) -> anyhow::Result<Observed> {
        let Verification {
            program,
            choice,
            workshop,
            variables,
            ..
        } = self.verification;
        let library = preloading::library(choice, program, workshop)?;
        let mut environment = preloading::environment(choice, library.as_deref());
        let preload = preloading::take_out(&mut environment);
        let probe = preloading::probe(&self.target, workshop)?;
        environment.extend(variables.clone());
        environment.extend(recording.environment(&probe, preload.as_deref()));
        self.run(environment, Stdio::inherit())?
            .observe(Some(census))
    }

    /// Runs the command without the library, the probe and the allocator's options. Its output would repeat that of the
    /// first run, so it goes nowhere.
    fn without(&self) -> anyhow::Result<Observed> {
        self.run(Vec::new(), Stdio::null())?.observe(None)
    }

    fn run(
        &self,
        mut environment: Vec<(OsString, OsString)>,
        stderr: Stdio,
    ) -> anyhow::Result<Run<'_>> {
        let watch = Watch::create()?;
        let preload = preloading::take_out(&mut environment).or_else(preloading::present);
        environment.extend(watch.environment(&self.watch, preload.as_deref()));
        let (file, first_arguments) = self.verification.program.route.launch();
        let mut command = Command::new(file);
        command
            .args(first_arguments)
            .args(&self.verification.command[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr);
        Ok(Run {
            command,
            environment,
            watch,
            time: self.verification.time,
            interrupted: &self.interrupted,
        })
    }
}
