//! Judges what `--verify` saw, and gives the result as lines and as JSON.

use super::Verification;
use super::observe::{Death, Lost, Observed};
use crate::census::{Census, ProcessWithoutLibrary, Uncounted};
use reheap_allocators::probe::{Observation, WhyNot};
use reheap_bench::results::{Outcome, signal_name};
use reheap_command::exit;
use reheap_command::ui::{self, Failure};
use reheap_workshop::preloading;
use rustix::process::Signal;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A libc itself makes fewer calls than this when a program starts, prints and looks something up.
const ENOUGH_CALLS: u64 = 100;
const WATCH_IT_LONGER: &str = "if it needs longer to start, watch it longer: `--for SECONDS`";
/// How many processes an error names.
const NAMED_MAX: usize = 3;

/// What the two runs showed.
pub(super) struct Facts<'a> {
    pub(super) verification: &'a Verification<'a>,
    pub(super) library: &'a Path,
    pub(super) observation: &'a Observation,
    pub(super) census: &'a Census,
    pub(super) with: Observed,
    pub(super) without: Option<Observed>,
}

impl Facts<'_> {
    /// The program whose calls would count and cannot be counted: the one that the command became, or any where no calls
    /// came at all.
    fn uncounted(&self) -> Option<(PathBuf, Uncounted)> {
        let unheard = self.observation.unheard.iter();
        let is_command = |program: &&PathBuf| match &self.with.became {
            Some(name) => name.is_of(program),
            None => self.census.latest(self.with.command) == Some(program),
        };
        let nothing_came = self.observation.calls_total() == 0;
        let program = unheard
            .clone()
            .find(is_command)
            .or_else(|| unheard.clone().find(|_| nothing_came))?;
        Some((program.clone(), self.census.uncounted(program)))
    }
}

/// What was seen, and what it means.
#[derive(Debug, Serialize)]
pub struct Finding {
    verdict: Verdict,
    /// Why it is not verified.
    problems: Vec<String>,
    allocator: &'static str,
    version: &'static str,
    /// The program that the command leads to.
    program: String,
    /// Calls of the malloc family that reached the library.
    calls: u64,
    /// How many processes loaded it.
    processes: u64,
    /// The calls and processes as a clause, where calls reached the library.
    seen: Option<String>,
    #[serde(flatten)]
    with: Ending,
    /// Processes that ran without the library.
    without_library: Vec<ProcessWithoutLibrary>,
    /// The run without the allocator, if one was needed.
    without_allocator: Option<Ending>,
    #[serde(skip)]
    hint: Option<String>,
}

/// What `--verify` says about the allocator in the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Verified,
    /// The command has it, and something that it started does not.
    Partial,
    /// The library is in the program's memory, and nobody can count the calls.
    Loaded,
    Failed,
    /// It dies with any allocator, so this says nothing about the chosen one.
    Undecided,
    /// Too little was seen.
    Unknown,
}

/// How a run went.
#[derive(Debug, Serialize)]
struct Ending {
    seconds: f64,
    /// Whether something was still running, so that reheap ended it.
    ended: bool,
    exit_code: Option<i32>,
    signals: Vec<Signalled>,
    /// Processes that did not exit, and whose end no parent reported.
    lost: Vec<Lost>,
}

/// A process that died by a signal.
#[derive(Debug, Serialize)]
struct Signalled {
    process: Option<u32>,
    program: String,
    signal: String,
    /// Whether it also does so without the allocator.
    also_without: bool,
    /// Whether it is a crash. Most other signals are sent on purpose, at times that differ from run to run. They count
    /// for the command itself only. SIGKILL counts for all, because the kernel uses it to end a process that needs too
    /// much memory.
    #[serde(skip)]
    counts: bool,
    /// Whether it says nothing about the allocator if it also happens without it. Children may be killed on purpose.
    #[serde(skip)]
    leaves_doubt: bool,
    #[serde(skip)]
    death: Death,
}

impl Finding {
    pub(super) fn new(facts: Facts<'_>) -> Self {
        let Verification {
            program, choice, ..
        } = facts.verification;
        let active = facts.observation.active(facts.library);
        let others = facts.without.as_ref();
        let mut finding = Self {
            verdict: Verdict::Verified,
            problems: Vec::new(),
            allocator: choice.allocator.name,
            version: choice.allocator.version,
            program: program.route.file.display().to_string(),
            calls: facts.observation.calls_total(),
            processes: facts.observation.processes,
            seen: active.as_ref().ok().cloned(),
            with: Ending::new(&facts.with, others),
            without_library: facts.census.without(),
            without_allocator: others.map(|other| Ending::new(other, Some(&facts.with))),
            hint: None,
        };
        finding.blame_for_signals(others);
        finding.blame_for_lost(&facts.with, others);
        let why = active.err();
        let why = why.map(|why| preloading::explained(why, program, facts.library));
        if !matches!(why, Some(WhyNot::NotLoadable(_))) {
            finding.blame_for_exit_code(&facts.with, others);
        }
        let uncounted = facts.uncounted();
        match why {
            Some(why) if uncounted.is_none() => finding.say_why_not(why),
            None if uncounted.is_none() => finding.say_what_it_became(&facts.with),
            _ => {}
        }
        if !finding.problems.is_empty() {
            finding.verdict = Verdict::Failed;
        } else if finding
            .with
            .signals
            .iter()
            .any(|signal| signal.leaves_doubt)
        {
            finding.say_that_it_dies_anyway();
        } else if let Some((program, uncounted)) = uncounted {
            finding.say_that_it_is_uncounted(&program, uncounted);
        } else if finding.calls < ENOUGH_CALLS && program.takes_no_malloc().is_some() {
            finding.say_that_it_is_too_little();
        } else if finding
            .without_library
            .iter()
            .any(|process| !process.is_hidden)
        {
            finding.say_that_it_is_a_part();
        }
        finding
    }

    fn say_that_it_is_uncounted(&mut self, program: &Path, uncounted: Uncounted) {
        let (shown, allocator) = (program.display(), self.allocator);
        let (verdict, but) = match uncounted {
            Uncounted::Loaded => (
                Verdict::Loaded,
                format!(
                    "{allocator} is in the memory of `{shown}`, but its calls are not countable"
                ),
            ),
            Uncounted::Unknown => (
                Verdict::Unknown,
                format!("it is not known whether `{shown}` loaded {allocator}"),
            ),
        };
        self.verdict = verdict;
        self.problems
            .push(format!("{but}: {}", preloading::UNHEARD));
    }

    fn say_that_it_is_a_part(&mut self) {
        self.verdict = Verdict::Partial;
        let without = self
            .without_library
            .iter()
            .filter(|process| !process.is_hidden);
        let named = without.clone().take(NAMED_MAX).map(|found| {
            let (program, process) = (found.program.display(), found.process);
            format!("`{program}` (process {process}): {}", found.reason)
        });
        let named: Vec<String> = named.collect();
        let more = and_more(without.count());
        self.problems.push(format!(
            "a part of it runs without {}: {}{more}",
            self.allocator,
            named.join("; ")
        ));
    }

    fn say_that_it_dies_anyway(&mut self) {
        self.verdict = Verdict::Undecided;
        let doubtful = self
            .with
            .signals
            .iter()
            .filter(|signal| signal.leaves_doubt);
        let (named, allocator) = (named(&doubtful.collect::<Vec<_>>()), self.allocator);
        self.problems.push(format!(
            "{named}, and without {allocator} as well: this says nothing about {allocator}"
        ));
    }

    fn say_that_it_is_too_little(&mut self) {
        self.verdict = Verdict::Unknown;
        let (seen, allocator) = (self.seen.as_deref().unwrap_or_default(), self.allocator);
        self.problems.push(format!(
            "only {seen}, too few to tell whether the program uses {allocator}: it imports no malloc itself, so its \
             libraries may have made these calls"
        ));
        if self.with.ended {
            self.hint = Some(WATCH_IT_LONGER.to_owned());
        }
    }

    fn blame_for_signals(&mut self, without: Option<&Observed>) {
        let blamed: Vec<&Signalled> = self
            .with
            .signals
            .iter()
            .filter(|signal| signal.counts && !signal.also_without)
            .collect();
        if blamed.is_empty() {
            return;
        }
        let within = match without {
            Some(without) if without.was_ended => {
                format!(" in {:.1} s", without.time.as_secs_f64())
            }
            _ => String::new(),
        };
        let (named, allocator) = (named(&blamed), self.allocator);
        let problem = format!("{named}; this did not happen without {allocator}{within}");
        self.problems.push(problem);
    }

    /// No parent reported how these ended, so what counts is that they exit without the allocator.
    fn blame_for_lost(&mut self, with: &Observed, without: Option<&Observed>) {
        let lost_too = |lost: &Lost| {
            let mut others = without.into_iter().flat_map(|without| &without.lost);
            others.any(|other| other.program == lost.program)
        };
        if let Some(lost) = with.lost.iter().find(|lost| !lost_too(lost)) {
            let (program, process) = (lost.program.display(), lost.process);
            let allocator = self.allocator;
            self.problems.push(format!(
                "`{program}` (process {process}) did not exit, like a program that crashes; without {allocator} it \
                 exits"
            ));
        }
    }

    /// A shell reports a program that died as an exit code above 128.
    fn blame_for_exit_code(&mut self, with: &Observed, without: Option<&Observed>) {
        let (Some(Outcome::Exited(code)), Some(without)) = (with.end, without) else {
            return;
        };
        let usual = match without.end {
            _ if code == 0 => return,
            Some(Outcome::Exited(usual)) if usual == code => return,
            Some(Outcome::Exited(usual)) => format!("it ends with {usual}"),
            Some(Outcome::Signalled(signal)) => format!("it dies by {}", name(signal)),
            _ => format!(
                "it was still running after {:.1} s",
                without.time.as_secs_f64()
            ),
        };
        let signal = signal_name(code.saturating_sub(128));
        let means = signal.map_or_else(String::new, |signal| {
            format!(" (a shell's code for {signal})")
        });
        let allocator = self.allocator;
        self.problems.push(format!(
            "it ended with exit code {code}{means}; without {allocator} {usual}"
        ));
    }

    fn say_why_not(&mut self, why: WhyNot) {
        let is_plain = matches!(why, WhyNot::NeverLoaded | WhyNot::NeverCalled);
        // A program that crashed at once may not have had time to report.
        if is_plain && !self.problems.is_empty() {
            return;
        }
        if is_plain && self.with.ended {
            self.hint = Some(WATCH_IT_LONGER.to_owned());
        }
        let dropped = self
            .without_library
            .first()
            .map_or_else(String::new, |without| {
                format!(
                    "; `{}` ran without it: {}",
                    without.program.display(),
                    without.reason
                )
            });
        let allocator = self.allocator;
        self.problems.insert(
            0,
            format!("it does not get its memory from {allocator}: {why}{dropped}"),
        );
    }

    /// Wrappers such as `env -i` become the program that the user means, and that program must have the allocator.
    fn say_what_it_became(&mut self, with: &Observed) {
        let allocator = self.allocator;
        let is_command = |without: &&ProcessWithoutLibrary| without.process == with.command;
        if let Some(became) = self.without_library.iter().find(is_command) {
            let (program, reason) = (became.program.display(), &became.reason);
            self.problems.push(format!(
                "the command became `{program}`, which does not have {allocator}: {reason}"
            ));
        } else if let Some(became) = &with.became {
            let program = became.0.display();
            self.problems.push(format!(
                "the command became `{program}`, which did not have {allocator}: it was static, or started without LD_PRELOAD"
            ));
        }
    }

    /// The error, if it is not verified.
    pub fn failure(&self) -> Option<Failure> {
        let code = match self.verdict {
            Verdict::Verified => return None,
            Verdict::Partial => exit::PARTIAL,
            Verdict::Loaded => exit::UNKNOWN,
            Verdict::Failed => exit::FAILED,
            Verdict::Undecided => exit::COMMAND_FAILED,
            Verdict::Unknown => exit::UNKNOWN,
        };
        let problems = self.problems.join("; ");
        let text = format!(
            "cannot verify `{}` with {}: {problems}",
            self.program, self.allocator
        );
        let failure = Failure::failed(ui::printable(text)).code(code);
        Some(match &self.hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        })
    }

    /// The result for people: one line, and one more for each thing that may matter.
    pub fn lines(&self) -> String {
        let (program, allocator, version) = (&self.program, self.allocator, self.version);
        let seen = self.seen.as_deref().unwrap_or("nothing was seen");
        let mut text = String::new();
        let mut line = |words: String| {
            let words = ui::printable(words);
            let _ = writeln!(text, "{words}"); // writing to a String cannot fail
        };
        line(format!(
            "verified: `{program}` has {allocator} {version}: {seen}; {}",
            self.with
        ));
        for signalled in &self.with.signals {
            line(if signalled.also_without {
                format!("also without {allocator}: {signalled}")
            } else {
                format!("only with {allocator}: {signalled}, which somebody sent it")
            });
        }
        if let Some(code) = self.with.exit_code.filter(|&code| code != 0) {
            line(format!("also without {allocator}: exit code {code}"));
        }
        for without in &self.without_library {
            let (program, process) = (without.program.display(), without.process);
            line(format!(
                "without {allocator}: `{program}` (process {process}): {}",
                without.reason
            ));
        }
        text
    }
}

impl Ending {
    fn new(observed: &Observed, other: Option<&Observed>) -> Self {
        let leaves_doubt =
            |death: &Death| death.is_fault() || death.process == Some(observed.command);
        let signalled = |death: &Death| Signalled {
            process: death.process,
            program: death.program.display().to_string(),
            signal: name(death.signal),
            also_without: other.is_some_and(|other| {
                other
                    .deaths
                    .iter()
                    .any(|candidate| candidate.is_like(death))
            }),
            counts: leaves_doubt(death) || death.signal == Signal::KILL.as_raw(),
            leaves_doubt: leaves_doubt(death),
            death: death.clone(),
        };
        Self {
            seconds: (observed.time.as_secs_f64() * 1000.0).round() / 1000.0,
            ended: observed.was_ended,
            exit_code: match observed.end {
                Some(Outcome::Exited(code)) => Some(code),
                _ => None,
            },
            signals: observed.deaths.iter().map(signalled).collect(),
            lost: observed.lost.clone(),
        }
    }
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let time = Duration::from_secs_f64(self.seconds).as_secs_f64();
        if self.ended {
            write!(
                f,
                "it was still running after {time:.1} s, so reheap ended it"
            )
        } else {
            write!(f, "it ended after {time:.1} s")
        }
    }
}

impl std::fmt::Display for Signalled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.death.is_of_child {
            f.write_str("a child of ")?;
        }
        write!(f, "`{}`", self.program)?;
        if let Some(process) = self.process {
            write!(f, " (process {process})")?;
        }
        write!(f, " died by {}", self.signal)
    }
}

/// The first few of them, as a clause.
fn named(signalled: &[&Signalled]) -> String {
    let shown: Vec<String> = signalled
        .iter()
        .take(NAMED_MAX)
        .map(ToString::to_string)
        .collect();
    format!("{}{}", shown.join(", "), and_more(signalled.len()))
}

fn and_more(all: usize) -> String {
    match all.saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(", and {more} more"),
    }
}

fn name(signal: i32) -> String {
    signal_name(signal).map_or_else(|| format!("signal {signal}"), str::to_owned)
}
