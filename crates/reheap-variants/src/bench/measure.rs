//! Measures variants that are ready, writes the results, and turns them into an exit code.

use crate::bench::clock::{Clock, Part, refusal};
use crate::bench::last_words;
use crate::bench::options::{Measuring, Server};
use crate::bench::outputs::Outputs;
use crate::bench::progress::{Bar, waiting_for};
use crate::bench::ready::{ReadyVariant, command_line};
use crate::bench::sweep::Parameters;
use crate::bench::write;
use reheap_bench::analysis::ended;
use reheap_bench::experiment::{self, FirstRun, MeasureError, Plan, PlannedVariant};
use reheap_bench::failures;
use reheap_bench::machine;
use reheap_bench::outlook::{Share, TooLittleTime};
use reheap_bench::overview::Overview;
use reheap_bench::results::{
    Benchmark, Ending, FORMAT, LeftOut, Outcome, OutputCheck, Results, Role, Settings,
};
use reheap_bench::run::{CommandLine, Launcher, Limits};
use reheap_bench::server::{self, ReadySign, ServeError, Waiting};
use reheap_command::exit;
use reheap_command::interrupt;
use reheap_command::pulse::{self, Pulse};
use reheap_command::ui::{self, Failure};
use std::cell::Cell;
use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// How to measure, whatever the variants are; checked before reheap builds anything.
pub struct Measurement {
    pub(crate) settings: Settings,
    pub(crate) launcher: Launcher,
    pub(crate) server: Option<Server>,
    pub(crate) clock: Clock,
    measuring: Measuring,
    /// How many values of the sweep, from the first, did not fit into the time.
    skipped: Cell<usize>,
    interrupted: Arc<AtomicBool>,
    name: String,
    started: SystemTime,
}

impl Measurement {
    /// Begins to measure: from now on, Ctrl-C ends runs and not reheap. Reports use the name for what ran.
    pub fn new(measuring: Measuring, name: String, server: Option<Server>) -> anyhow::Result<Self> {
        let mut settings = measuring.settings.clone();
        if server.is_some() {
            // What a load generator prints are times and rates.
            settings.output = OutputCheck::Ignored;
        }
        Ok(Self {
            clock: Clock::new(&settings),
            settings,
            launcher: Launcher::new()?,
            server,
            measuring,
            skipped: Cell::new(0),
            interrupted: interrupt::on_signals()?,
            name,
            started: SystemTime::now(),
        })
    }

    /// The values of a sweep, without those that do not fit into the time.
    fn sweep(&self) -> &[Parameters] {
        &self.measuring.sweep[self.skipped.get()..]
    }

    /// The values of the first measurement of a sweep, with which reheap tries a variant out.
    pub(crate) fn first_parameters(&self) -> &Parameters {
        &self.sweep()[0]
    }

    /// Leaves out the first values of a sweep if the time is not enough for them, because it may be for others.
    ///
    /// # Errors
    /// If that is not the reason for the error, or if there are no others.
    pub(crate) fn go_on_with_other_values(&self, error: anyhow::Error) -> anyhow::Result<()> {
        let Some(time) = too_little_time(&error) else {
            return Err(error);
        };
        if self.sweep().len() == 1 {
            return Err(refusal(time).into());
        }
        say_not_measured(self.first_parameters(), time);
        self.skipped.set(self.skipped.get() + 1);
        self.clock.give_up_step();
        Ok(())
    }

    /// The memory limit of the first measurement.
    pub(crate) fn first_memory_limit_bytes(&self) -> Option<u64> {
        self.measuring.memory_limits_bytes[0]
    }

    /// Ctrl-C is the cause of every error after it.
    ///
    /// # Errors
    /// If it was pressed.
    pub fn go_on(&self) -> anyhow::Result<()> {
        if !self.interrupted.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err(interrupt::failure("interrupted before anything was measured").into())
    }

    /// The part of the time for the first of so many comparisons that are left: one for each value of the sweep, under
    /// each memory limit.
    fn part(&self, left: usize) -> Part {
        Part {
            of_left: 1.0 / left as f64,
            of_given: 1.0 / self.measuring.comparisons() as f64,
        }
    }

    /// The part for the first comparison.
    fn first_part(&self) -> Part {
        self.part(self.sweep().len() * self.measuring.memory_limits_bytes.len())
    }

    /// Begins to count the time of the first comparison, if the baseline was tried out.
    ///
    /// # Errors
    /// Those of [`Measurement::refuse_unserved`].
    pub fn begin_step(&self, baseline: &ReadyVariant, wanted: usize) -> anyhow::Result<()> {
        self.refuse_unserved(baseline)?;
        if let Some(first_run) = &baseline.first_run {
            let part = self.first_part();
            self.clock.begin_step(part, first_run.took, wanted);
        }
        Ok(())
    }

    /// Measures the variants, the first being the baseline, with each value of the sweep and under each memory limit.
    pub fn run(&self, variants: &[ReadyVariant], left_out: &[LeftOut]) -> anyhow::Result<Results> {
        let mut results = self.without_benchmarks();
        for parameters in self.sweep() {
            self.planned(variants, parameters, None)?; // a program that only a later one names may not be there
        }
        let limits = &self.measuring.memory_limits_bytes;
        let of_value = |parameters| limits.iter().map(move |&limit| (parameters, limit));
        let comparisons: Vec<_> = self.sweep().iter().flat_map(of_value).collect();
        let mut refused = None;
        for (place, &(parameters, limit)) in comparisons.iter().enumerate() {
            let part = self.part(comparisons.len() - place);
            match self.benchmark(variants, left_out, parameters, limit, part) {
                Ok(benchmark) => results.benchmarks.push(benchmark),
                // What is measured with other values is worth having.
                Err(error) => match too_little_time(&error) {
                    Some(time) => {
                        if comparisons.len() > 1 {
                            say_not_measured(parameters, time);
                        }
                        refused.get_or_insert(*time);
                    }
                    None => return Err(error),
                },
            }
            if was_interrupted(&results) {
                return Ok(results);
            }
        }
        match (results.benchmarks.is_empty(), refused) {
            (true, Some(time)) => Err(refusal(&time).into()),
            _ => Ok(results),
        }
    }

    /// Starts a server once, and stops it when it is ready: before reheap builds anything for it. Its time counts.
    ///
    /// # Errors
    /// If it does not get ready.
    pub(crate) fn rehearse(&self, words: &[OsString]) -> anyhow::Result<()> {
        let Some(server) = &self.server else {
            return Ok(());
        };
        let mut command = command_line(words, self.first_parameters())?;
        command.input = self.measuring.input.clone();
        let load = server.load(self.first_parameters())?;
        let limits = self.limits_of_trials();
        let rehearse = || server::rehearse(&self.launcher, &command, &load, &limits, &mut |_| ());
        let showing = || pulse::while_spinning(&waiting_for(&load), rehearse);
        let (ready, _) = self.clock.count(showing);
        self.go_on()?;
        ready.map_err(|error| explained(error.into()))
    }

    /// Runs a command once: as a server under its load, if it is one. How it ends does not matter yet. But reheap
    /// reports a run that uses up its time or crashes, so that nobody waits for the sixth allocator without knowing
    /// what happened to the first.
    ///
    /// Its time counts, and is the result.
    pub(crate) fn try_out(&self, name: &str, mut command: CommandLine) -> anyhow::Result<FirstRun> {
        command.input = self.measuring.input.clone();
        let limits = self.limits_of_trials();
        let trying_out = format!("trying out {name}");
        let began = Instant::now();
        let run = |says: &Pulse| match &self.server {
            Some(server) => {
                let load = server.load(self.first_parameters())?;
                let waits = format!("{name}: {}", waiting_for(&load));
                let mut on_wait = |waiting| match waiting {
                    Waiting::Since(began) => says.now(pulse::so_far(&waits, began)),
                    Waiting::Over => says.now(pulse::so_far(&trying_out, began)),
                };
                match server::serve(&self.launcher, &command, &load, &limits, &[], &mut on_wait) {
                    Err(ServeError::NotReady { finished, .. }) => Ok(*finished),
                    other => other.map_err(|error| explained(error.into())),
                }
            }
            None => {
                let run = self.launcher.run(&command, &limits, &[]);
                run.map_err(anyhow::Error::new)
            }
        };
        let (finished, took) = self.clock.count(|| pulse::while_telling(&trying_out, run));
        self.go_on()?;
        let finished = finished?;
        if let Some(too_slow) = self.clock.too_slow(took) {
            return Err(too_slow.into());
        }
        if !matches!(finished.outcome, Outcome::Exited(_)) {
            let ended = ended(finished.outcome);
            ui::note(&format!("{name} {ended} when it was tried out"));
        }
        Ok(FirstRun { took, finished })
    }

    /// Refuses a baseline whose load failed when it was tried out, before reheap builds anything else and asks for more
    /// time. One value of a sweep that does not work is a result.
    ///
    /// # Errors
    /// With the last words of the load.
    pub(crate) fn refuse_unserved(&self, baseline: &ReadyVariant) -> anyhow::Result<()> {
        let Some(FirstRun { finished, .. }) = &baseline.first_run else {
            return Ok(());
        };
        let has_failed = matches!(finished.outcome, Outcome::Exited(code) if code != 0);
        if self.server.is_none() || self.measuring.comparisons() > 1 || !has_failed {
            return Ok(());
        }
        let (program, ended) = (finished.program.display(), ended(finished.outcome));
        let (name, words) = (&baseline.name, last_words::quoted(finished));
        let text = format!("there is nothing to measure: with {name}, `{program}` {ended}{words}");
        let failure = Failure::failed(text).code(exit::COMMAND_FAILED);
        Err(failure.hint(UNSERVED_HINT).into())
    }

    fn limits_of_trials(&self) -> Limits<'_> {
        // A command that never ends must not use up the time.
        let limits = [
            self.time_limit(),
            self.clock.limit_of_trials(self.first_part().of_left),
        ];
        Limits {
            time: limits.into_iter().flatten().min(),
            memory: None,
            interrupted: Some(&self.interrupted),
        }
    }

    fn time_limit(&self) -> Option<Duration> {
        let seconds = self.settings.time_limit_seconds?;
        Duration::try_from_secs_f64(seconds).ok()
    }

    /// The variants with the values of a sweep, and the baseline once more.
    fn planned(
        &self,
        variants: &[ReadyVariant],
        parameters: &Parameters,
        memory_limit_bytes: Option<u64>,
    ) -> anyhow::Result<Vec<PlannedVariant>> {
        let input = self.measuring.input.as_ref();
        let is_as_tried_out = parameters == self.first_parameters() && memory_limit_bytes.is_none();
        let mut planned = Vec::new();
        for (index, variant) in variants.iter().enumerate() {
            let mut of_variant = variant.planned(parameters, input)?;
            of_variant.first_run = variant.first_run.clone().filter(|_| is_as_tried_out);
            planned.push(of_variant);
            if index == 0 {
                planned.push(variant.copy().planned(parameters, input)?);
            }
        }
        Ok(planned)
    }

    /// Measures the variants, the first being the baseline, in one setting, and in this part of the time that is left.
    pub(crate) fn benchmark(
        &self,
        variants: &[ReadyVariant],
        left_out: &[LeftOut],
        parameters: &Parameters,
        memory_limit_bytes: Option<u64>,
        part: Part,
    ) -> anyhow::Result<Benchmark> {
        let mut settings = self.settings.clone();
        if let Some(left) = self.clock.left() {
            settings.budget_seconds = left.as_secs_f64() * part.of_left;
        }
        let plan = Plan {
            name: self.name.clone(),
            parameters: parameters.clone(),
            memory_limit_bytes,
            metrics: self.measuring.metrics.clone(),
            variants: self.planned(variants, parameters, memory_limit_bytes)?,
            left_out: left_out.to_vec(),
            settings,
            share: Share {
                given: self.settings.budget(),
                part: part.of_given,
            },
            load: match &self.server {
                Some(server) => Some(server.load(parameters)?),
                None => None,
            },
        };
        let mut bar = Bar::new(&plan);
        let measure = || experiment::measure(&self.launcher, &plan, &self.interrupted, &mut bar);
        let (measured, _) = self.clock.count(measure);
        bar.finish();
        measured.map_err(explained)
    }

    /// Results without any measurement yet.
    pub(crate) fn without_benchmarks(&self) -> Results {
        Results {
            format: FORMAT,
            reheap_version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: humantime::format_rfc3339_seconds(self.started).to_string(),
            typed: typed(),
            machine: machine::describe(&self.launcher),
            settings: self.settings.clone(),
            benchmarks: Vec::new(),
        }
    }
}

/// The error with what the server printed last, and with a way out where there is one.
fn explained(error: MeasureError) -> anyhow::Error {
    let error = match error {
        MeasureError::Serve(error) => error,
        MeasureError::WorksOnce(_) => {
            let failure = Failure::failed(error.to_string()).code(exit::COMMAND_FAILED);
            return failure.hint(WORKS_ONCE_HINT).into();
        }
        other => return other.into(),
    };
    let finished = error.finished();
    let words = finished.map(last_words::quoted).unwrap_or_default();
    let failure = Failure::failed(format!("{error}{words}"));
    let of_output = finished.and_then(last_words::hint).map(str::to_owned);
    match of_output.or_else(|| way_out(&error)) {
        Some(hint) => failure.hint(hint).into(),
        None => failure.into(),
    }
}

/// What to do about a command that finds what it left behind.
const WORKS_ONCE_HINT: &str =
    "remove what a run leaves behind before the next one: sh -c 'rm -rf DIRECTORY; COMMAND'";

fn way_out(error: &ServeError) -> Option<String> {
    match error {
        ServeError::PortInUse { .. } => {
            Some("end that program, or give the server and its load another port".to_owned())
        }
        ServeError::NotInForeground { .. } => Some(
            "look for an option of the server such as `--foreground` or `--no-daemon`".to_owned(),
        ),
        ServeError::NotReady {
            sign,
            within,
            finished,
            ..
        } if finished.outcome == Outcome::TimedOut => {
            let seconds = within.as_secs_f64() * 2.0;
            let longer = format!("a server that needs longer: --ready-within {seconds}");
            Some(match sign {
                ReadySign::Port(port) => {
                    format!("check that the server uses port {port}; {longer}")
                }
                ReadySign::Line(_) => format!("check what the server prints; {longer}"),
            })
        }
        _ => None,
    }
}

/// What is missing, if that is the reason why nothing was measured.
pub(crate) fn too_little_time(error: &anyhow::Error) -> Option<&TooLittleTime> {
    match error.downcast_ref()? {
        MeasureError::TooLittleTime(time) => Some(time),
        _ => None,
    }
}

fn say_not_measured(parameters: &Parameters, time: &TooLittleTime) {
    ui::note(&format!("not measured{}: {time}", with(parameters)));
}

/// The values of a sweep, to follow a sentence: ` with n = 3`.
fn with(parameters: &Parameters) -> String {
    let values = parameters
        .iter()
        .map(|(name, value)| format!("{name} = {value}"));
    let values: Vec<String> = values.collect();
    if values.is_empty() {
        String::new()
    } else {
        format!(" with {}", values.join(", "))
    }
}

/// The command line of this process as a person types it.
fn typed() -> Vec<String> {
    let mut arguments = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let program = arguments.next().unwrap_or_default();
    let name = program.rsplit('/').next().unwrap_or_default();
    // For `cargo reheap bench`, Cargo starts `cargo-reheap reheap bench`.
    let name = if name == "cargo-reheap" {
        "cargo"
    } else {
        name
    };
    std::iter::once(name.to_owned()).chain(arguments).collect()
}

/// Writes the results, and says with the exit code whether all variants did what the baseline does.
pub fn finish(results: &Results, outputs: &Outputs) -> anyhow::Result<ExitCode> {
    let overview = Overview::of(std::slice::from_ref(results));
    if was_interrupted(results) {
        write::all(&overview, outputs)?;
        let mut variants = results
            .benchmarks
            .iter()
            .flat_map(|benchmark| &benchmark.variants);
        ui::note(if variants.any(|variant| !variant.runs.is_empty()) {
            "interrupted: these are the runs so far"
        } else {
            "interrupted before the first run ended"
        });
        return Ok(ExitCode::from(interrupt::exit_code()));
    }
    if let Some(failure) = nothing_works(results) {
        write::files(&overview, outputs)?;
        return Err(failure.into());
    }
    write::all(&overview, outputs)?;
    let roles = [Role::Baseline, Role::BaselineCopy, Role::Candidate];
    Ok(if any_failed(&overview, &roles) {
        ExitCode::from(exit::COMMAND_FAILED)
    } else {
        ExitCode::SUCCESS
    })
}

/// What to do about a load that fails.
const UNSERVED_HINT: &str =
    "start the server by itself, and run the load against it until it succeeds";

/// What to say in place of a table of failures, if no variant works in any of the benchmarks.
fn nothing_works(results: &Results) -> Option<Failure> {
    let benchmarks = results.benchmarks.iter();
    let outcomes: Option<Vec<Outcome>> = benchmarks.map(failures::nothing_works).collect();
    let first = *outcomes?.first()?;
    let is_server = results.benchmarks.iter().all(|benchmark| benchmark.served);
    let hint = match first {
        Outcome::Exited(_) if is_server => UNSERVED_HINT,
        Outcome::TimedOut => "a command that only needs longer: --time-limit SECONDS",
        Outcome::OutOfMemory => "use a higher limit: --memory-limit",
        Outcome::Exited(126) => "with 126 a shell says that it cannot execute a program",
        Outcome::Exited(_) => "with 127 a shell says that it does not find a program",
        Outcome::Signalled(_) => "run the command by itself, and measure it when it works",
    };
    let what = if is_server {
        "the server under its load"
    } else {
        "the command"
    };
    let text = if results
        .benchmarks
        .iter()
        .all(|benchmark| benchmark.variants.len() <= 2)
    {
        format!("there is nothing to measure: {what} does not work")
    } else {
        format!("there is nothing to measure: {what} works with no variant")
    };
    let failure = Failure::failed(text).code(exit::COMMAND_FAILED);
    Some(failure.hint(hint))
}

fn was_interrupted(results: &Results) -> bool {
    let mut benchmarks = results.benchmarks.iter();
    benchmarks.any(|benchmark| benchmark.ended == Ending::Interrupted)
}

/// Whether a run of a variant in one of these roles crashed, or printed something else.
pub fn any_failed(overview: &Overview<'_>, roles: &[Role]) -> bool {
    overview.benchmarks.iter().any(|findings| {
        let mut variants = findings.benchmark.variants.iter().zip(&findings.failures);
        variants.any(|(variant, failures)| roles.contains(&variant.role) && failures.count() > 0)
    })
}
