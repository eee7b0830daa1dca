//! `reheap check-memory`: runs a command under the strictest allocators in turn, and says what each of them noticed.
//!
//! A command of its own and not a goal of `recommend`: it asks whether the program has errors, not which allocator is
//! best for it, and one run under each allocator answers that, while a comparison of times needs many.
//!
//! Each run has the probe of `reheap bench` in front of the allocator's library, because "nothing noticed" is worth
//! something only from an allocator that was there. The processes run under ptrace(2) (`reheap_profile::deaths`), which
//! shows where they die.
//!
//! glibc's own checks are one of the allocators: they see overflows of a single byte, which need no neighbour.

mod finding;
mod report;
mod run;
mod seen;
mod stderr;

use reheap_allocators::target::Libc;
use reheap_bench::outlook::duration;
use reheap_bench::results::LeftOut;
use reheap_command::choice::{Choice, Hardened};
use reheap_command::pulse;
use reheap_command::ui::{self, Failure};
use reheap_subject::other_preloads;
use reheap_subject::program::{Obstacle, Program};
use reheap_variants::bench::variants;
use reheap_workshop::debugging;
use reheap_workshop::workshop::Workshop;
use report::Checked;
use run::Bench;
use seen::{Seen, UsualBehaviour};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

pub(crate) use report::Report;

/// How long the command may run as it is, unless the user gives a limit: after so long it seems that it never ends, and
/// all runs together would take hours.
const PATIENCE: Duration = Duration::from_secs(600);
/// glibc's own checks, as a value of `-a`. `full` has all that glibc can look for.
const GLIBCS_CHECKS: &str = "stock[debug=full]";

/// What the user wants.
pub struct Plan<'a> {
    /// The allocators, with their options in brackets; none for all that are hardened, and glibc's own checks.
    pub allocators: &'a [String],
    /// How often each one is tried: what an allocator notices may depend on chance.
    pub runs: usize,
    /// How long one run may take.
    pub time_limit: Option<Duration>,
    /// The command.
    pub command: &'a [OsString],
}

/// Runs the command under each allocator, and first as it is.
///
/// # Errors
/// When the command cannot be run or traced, no allocator can get into it, or a library cannot be had.
pub fn check(plan: &Plan<'_>, workshop: &Workshop) -> anyhow::Result<Report> {
    let program = Program::to_run(&plan.command[0])?;
    if let Some(refusal) = refusal(&program) {
        return Err(refusal.into());
    }
    let (choices, left_out) = choices(plan.allocators, &program)?;
    let bench = Bench::prepare(&program, plan.command, workshop)?;
    let libraries = choices.iter().map(|choice| bench.library(choice));
    let libraries: Vec<PathBuf> = libraries.collect::<anyhow::Result<_>>()?;
    let stock = Choice::of("stock", &[])?;
    let runs = plan.run("its own allocator", || {
        let seen = bench.run_as_it_is(&stock, plan.time_limit.unwrap_or(PATIENCE))?;
        match plan.time_limit {
            None if seen.end.is_none() => Err(endless(&program).into()),
            _ => Ok(seen),
        }
    })?;
    let usual = UsualBehaviour::of(&runs);
    let time_limit = plan.time_limit.or(usual.patience());
    let as_it_is = Checked::new(&stock, None, &runs, &UsualBehaviour::default());
    let mut checked = Vec::new();
    for (choice, library) in choices.iter().zip(&libraries) {
        let name = variants::allocator_name(choice);
        let runs = plan.run(&name, || bench.run(choice, library, time_limit))?;
        checked.push(Checked::new(choice, Some(library), &runs, &usual));
    }
    let command = plan.command.iter().map(ui::printable);
    let command = command.collect();
    Ok(Report::new(command, usual.end, as_it_is, checked, left_out))
}

/// Why no allocator can be tried.
fn refusal(program: &Program) -> Option<Failure> {
    let obstacles = program.obstacles().into_iter();
    let obstacle = obstacles
        .chain(other_preloads::obstacle_to_stock())
        .next()?;
    let shown = program.route.file.display();
    let failure = Failure::failed(format!("cannot check `{shown}`: {obstacle}"));
    let way_out = match obstacle {
        Obstacle::OtherPreload { .. } => Some("remove it from LD_PRELOAD"),
        // `reheap run --force` would check nothing.
        Obstacle::OwnAllocator(_) | Obstacle::Unknown(_) => None,
        _ => obstacle.way_out(),
    };
    Some(match way_out {
        Some(way_out) => failure.hint(way_out),
        None => failure,
    })
}

fn endless(program: &Program) -> Failure {
    let shown = program.route.file.display();
    let limit = duration(PATIENCE);
    Failure::failed(format!(
        "cannot check `{shown}`: it did not end within {limit} without another allocator"
    ))
    .hint("for a server, or what needs longer: reheap check-memory --time-limit SECONDS")
}

impl Plan<'_> {
    /// All runs under one allocator.
    fn run(
        &self,
        allocator: &str,
        run: impl Fn() -> anyhow::Result<Seen>,
    ) -> anyhow::Result<Vec<Seen>> {
        let shown = ui::printable(&self.command[0]);
        let numbers = 1..=self.runs;
        let runs = numbers.map(|number| {
            let what = format!("{shown} with {allocator}, run {number} of {}", self.runs);
            pulse::while_spinning(&what, &run)
        });
        runs.collect()
    }
}

/// What the command runs under in turn, and what it cannot run under.
fn choices(names: &[String], program: &Program) -> anyhow::Result<(Vec<Choice>, Vec<LeftOut>)> {
    if !names.is_empty() {
        let choices = names.iter().map(|name| variants::allocator(name));
        return Ok((choices.collect::<anyhow::Result<_>>()?, Vec::new()));
    }
    let mut choices = Choice::to_try(Hardened::Only)?;
    let mut left_out = Vec::new();
    if program
        .target()
        .is_some_and(|target| target.libc() == Libc::Glibc)
    {
        let checks = variants::allocator(GLIBCS_CHECKS)?;
        match debugging::library(&checks, program) {
            Ok(_) => choices.push(checks),
            Err(why) => left_out.push(LeftOut {
                name: GLIBCS_CHECKS.to_owned(),
                reason: why.in_a_line(),
            }),
        }
    }
    Ok((choices, left_out))
}
