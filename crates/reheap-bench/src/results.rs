//! What was measured, as it is written to JSON and read back.
//!
//! Everything that a report needs is in here, so reports are made offline, also of files from several machines. Only
//! what was seen is kept: raw runs, no medians. A reader computes the rest with [`reheap_stats`], so a mistake in a
//! formula can be fixed without measuring again.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// The version of the format, in the member `reheap_bench` of each file. A file with another one is refused.
pub const FORMAT: u32 = 1;

/// One file: what one call of reheap measured on one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// [`FORMAT`].
    #[serde(rename = "reheap_bench")]
    pub format: u32,
    /// The version of reheap that measured.
    pub reheap_version: String,
    /// When it began, in UTC, as RFC 3339 writes it.
    pub started_at: String,
    /// What a person types to measure again.
    pub typed: Vec<String>,
    /// Where it ran.
    pub machine: Machine,
    /// How it measured.
    pub settings: Settings,
    /// The comparisons: one, or one for each setting of a sweep, each memory limit and each workload.
    pub benchmarks: Vec<Benchmark>,
}

/// Where a measurement was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// A name for reports, from the host name or the user.
    pub name: String,
    /// `x86_64`, `aarch64`.
    pub architecture: String,
    /// As `/proc/cpuinfo` calls it.
    pub processor: String,
    /// Processors that this process may use.
    pub processors: usize,
    /// All of the machine's memory.
    pub memory_bytes: u64,
    /// `uname -sr`.
    pub kernel: String,
    /// The system's libc with its version, where it is known: `glibc 2.36`.
    pub libc: Option<String>,
    /// The distribution, from `/etc/os-release`.
    pub distribution: Option<String>,
    /// Transparent huge pages: the chosen word of `/sys/kernel/mm/transparent_hugepage/enabled`.
    pub huge_pages: Option<String>,
    /// The frequency governor of the first processor.
    pub governor: Option<String>,
    /// Whether it is known to be a virtual machine (the processor says so).
    pub is_virtual: bool,
    /// The one-minute load average when it began.
    pub load_average: Option<f64>,
    /// Why there are no hardware counters; none where there are.
    pub no_counters_because: Option<String>,
}

/// How it was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Where the order of the runs comes from.
    pub seed: u64,
    /// `--rounds`: the rounds that were asked for; without it they end by time or precision.
    pub rounds: Option<usize>,
    /// How long all may take when no rounds were asked for.
    pub budget_seconds: f64,
    /// Rounds end early when each interval of the wall-time ratios is narrower than this: 0.02 for 2 %.
    pub precision: f64,
    /// How long one run may take.
    pub time_limit_seconds: Option<f64>,
    /// Whether other output than the baseline's is accepted.
    pub output: OutputCheck,
}

impl Settings {
    /// How long all may take; a time beyond what the clock can say is no limit.
    pub fn budget(&self) -> Duration {
        Duration::try_from_secs_f64(self.budget_seconds).unwrap_or(Duration::MAX)
    }
}

/// Whether the output has to be that of the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutputCheck {
    /// Standard output has to be the same in each run.
    Same,
    /// It may differ: `--ignore-output`.
    Ignored,
}

/// Variants that were run side by side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Benchmark {
    /// What was run, in a few words: the command, or the name of a workload.
    pub name: String,
    /// The values of a sweep: `threads` to `4`.
    pub parameters: BTreeMap<String, String>,
    /// The memory limit that all runs had.
    pub memory_limit_bytes: Option<u64>,
    /// Figures that were read from the output, with the direction in which they are better.
    pub metrics: BTreeMap<String, Direction>,
    /// The variants; the first is the baseline.
    pub variants: Vec<Variant>,
    /// Variants that were asked for and took no part.
    pub left_out: Vec<LeftOut>,
    /// Why it ended.
    pub ended: Ending,
    /// Whether the variants are servers under a load. Then only success is expected: a load generator says with its
    /// exit code that it was not served, and its figures are no longer the server's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub served: bool,
}

/// In which direction a figure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// More is better: a throughput.
    Higher,
    /// Less is better: a time, a size.
    Lower,
}

/// Why a benchmark ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// All rounds that were asked for were run.
    Rounds,
    /// The time was used up.
    Budget,
    /// The intervals were narrow enough.
    Precise,
    /// No candidate was left to measure.
    Decided,
    /// Somebody pressed Ctrl-C.
    Interrupted,
}

/// A variant and all its runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Variant {
    /// As reports write it: `glibc+jemalloc`.
    pub name: String,
    /// What it is there for.
    pub role: Role,
    /// The allocator's name and version, where reheap knows it.
    pub allocator: Option<AllocatorVersion>,
    /// Allocator options.
    pub tuning: BTreeMap<String, String>,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The environment variables that were set for it.
    pub environment: BTreeMap<String, String>,
    /// The size of the executable file.
    pub executable_bytes: Option<u64>,
    /// Of the baseline's files, as [`crate::command_files::sha256`]; none of other variants and in earlier results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files_sha256: Option<String>,
    /// How its allocator was seen to be active.
    pub activity: Activity,
    /// The programs of the command that its allocator did not reach.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreached: Vec<Unreached>,
    /// Its runs, in the order in which they happened.
    pub runs: Vec<Run>,
    /// Why it ran in fewer rounds than the others; none if it stayed to the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<Left>,
}

/// Why a variant stopped taking part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// The rounds that it took part in.
    pub rounds: usize,
    /// Why.
    pub because: LeftBecause,
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let because = match self.because {
            LeftBecause::FarWorse => "far worse in each round",
            LeftBecause::Worse => "worse beyond doubt",
            LeftBecause::Failed => "every run failed",
        };
        write!(f, "left after round {}: {because}", self.rounds)
    }
}

/// Why a variant stopped taking part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeftBecause {
    /// It was far worse than the baseline in each round.
    FarWorse,
    /// It was worse than the baseline beyond doubt.
    Worse,
    /// None of its runs counts.
    Failed,
}

/// An allocator, with its own version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocatorVersion {
    /// The name of the catalogue.
    pub name: String,
    /// The allocator's own version; empty for the libc's own.
    pub version: String,
}

/// What a variant is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// What the others are compared with.
    Baseline,
    /// The second run of the baseline in each round. Its figures are the baseline's.
    BaselineCopy,
    /// One to choose from.
    Candidate,
}

/// Whether an allocator was seen to be active (invariant 7).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activity {
    /// Seen, and where.
    Seen(String),
    /// There was nothing to show: the variant is a command of the user's, or has its own libc's allocator.
    NothingClaimed,
}

/// A program of a command that gets its memory from elsewhere than its variant's allocator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unreached {
    /// The name of its file.
    pub program: String,
    /// Why, as a sentence: `it is static`.
    pub reason: String,
}

/// A variant that took no part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// As it was asked for.
    pub name: String,
    /// Why.
    pub reason: String,
}

/// One run of a variant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The round, from 0.
    pub round: usize,
    /// Its place in the round, from 0.
    pub position: usize,
    /// When it began, after the beginning of the benchmark.
    pub started_seconds: f64,
    /// How it ended.
    pub outcome: Outcome,
    /// What it cost.
    #[serde(flatten)]
    pub cost: Cost,
    /// Hardware counters, where the machine has them.
    pub counters: Option<Counters>,
    /// The figures that were read from its output, or the load generator's.
    pub metrics: BTreeMap<String, f64>,
    /// Bytes that it wrote to standard output.
    pub stdout_bytes: u64,
    /// The SHA-256 of what it wrote to standard output, in hexadecimal.
    pub stdout_sha256: String,
    /// Whether it left programs running, which reheap ended then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub left_running: bool,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// With this exit code.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
    /// It took longer than a run may take, and was ended.
    TimedOut,
    /// The kernel ended it because it reached its memory limit.
    OutOfMemory,
}

impl Outcome {
    /// Whether the program says that all went well.
    pub fn is_success(self) -> bool {
        self == Outcome::Exited(0)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Exited(code) => write!(f, "exit code {code}"),
            Outcome::Signalled(signal) => write!(f, "signal {signal}"),
            Outcome::TimedOut => f.write_str("took too long"),
            Outcome::OutOfMemory => f.write_str("out of memory"),
        }
    }
}

/// The signals that programs end by; their numbers are the same on all Linux that reheap measures on (signal(7)).
pub fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        31 => "SIGSYS",
        _ => return None,
    })
}

/// What one run of a command cost. Processes that the command started and waited for are part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// From before the process was made until its end was noticed. Where a server is measured, it is the load
    /// generator's time, and all others are the server's.
    pub wall_seconds: f64,
    /// CPU time in the program's own code, of all threads.
    pub user_seconds: f64,
    /// CPU time in the kernel, of all threads.
    pub system_seconds: f64,
    /// The largest resident set: of the largest process, if there were several. Linux counts pages for each processor
    /// by itself and adds them up in steps of 32 (since 6.2), so this is off by up to 128 KiB a processor.
    pub peak_rss_bytes: u64,
    /// The resident set of all processes of the command, averaged over time; none where it was too short to see.
    pub mean_rss_bytes: Option<u64>,
    /// Page faults that needed no input or output.
    pub minor_faults: u64,
    /// Page faults that had to wait for a disk.
    pub major_faults: u64,
    /// How often the command gave up the CPU by waiting.
    pub voluntary_context_switches: u64,
    /// How often the kernel took the CPU from the command.
    pub involuntary_context_switches: u64,
}

impl Cost {
    /// User and system time together.
    pub fn cpu_seconds(&self) -> f64 {
        self.user_seconds + self.system_seconds
    }
}

/// Hardware counters of one run, user space only, all threads and children.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Instructions executed.
    pub instructions: Option<u64>,
    /// Processor cycles.
    pub cycles: Option<u64>,
    /// Misses of the last cache.
    pub cache_misses: Option<u64>,
    /// Misses of the data TLB.
    pub tlb_misses: Option<u64>,
}

/// A figure of a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    /// Wall time in seconds.
    Wall,
    /// User and system time in seconds.
    Cpu,
    /// User time in seconds.
    User,
    /// System time in seconds.
    System,
    /// Peak resident memory in bytes.
    PeakRss,
    /// Average resident memory in bytes.
    MeanRss,
    /// Minor page faults.
    MinorFaults,
    /// Instructions in user space, where there are hardware counters.
    Instructions,
    /// A figure of the program's own.
    Metric(String),
}

impl Quantity {
    /// The figure, where the run has it.
    pub fn of(&self, run: &Run) -> Option<f64> {
        let cost = &run.cost;
        match self {
            Quantity::Wall => Some(cost.wall_seconds),
            Quantity::Cpu => Some(cost.cpu_seconds()),
            Quantity::User => Some(cost.user_seconds),
            Quantity::System => Some(cost.system_seconds),
            Quantity::PeakRss => Some(cost.peak_rss_bytes as f64),
            Quantity::MeanRss => cost.mean_rss_bytes.map(|bytes| bytes as f64),
            Quantity::MinorFaults => Some(cost.minor_faults as f64),
            Quantity::Instructions => Some(run.counters?.instructions? as f64),
            Quantity::Metric(name) => run.metrics.get(name).copied(),
        }
    }

    /// What every program has: all that is no figure of its own.
    pub const COSTS: [Quantity; 8] = [
        Quantity::Wall,
        Quantity::Cpu,
        Quantity::User,
        Quantity::System,
        Quantity::PeakRss,
        Quantity::MeanRss,
        Quantity::MinorFaults,
        Quantity::Instructions,
    ];

    /// The quantity that users call so; what is none of the others is a metric.
    pub fn named(name: &str) -> Quantity {
        Quantity::COSTS
            .into_iter()
            .find(|quantity| quantity.name() == name)
            .unwrap_or_else(|| Quantity::Metric(name.to_owned()))
    }

    /// The name that users type and read: `wall`, `cpu`, `peak-rss`; a metric has its own.
    pub fn name(&self) -> &str {
        match self {
            Quantity::Wall => "wall",
            Quantity::Cpu => "cpu",
            Quantity::User => "user",
            Quantity::System => "system",
            Quantity::PeakRss => "peak-rss",
            Quantity::MeanRss => "mean-rss",
            Quantity::MinorFaults => "minor-faults",
            Quantity::Instructions => "instructions",
            Quantity::Metric(name) => name,
        }
    }
}

impl Benchmark {
    /// The variant that the others are compared with.
    pub fn baseline(&self) -> Option<&Variant> {
        self.variants
            .iter()
            .find(|variant| variant.role == Role::Baseline)
    }

    /// In which direction a figure is better: all costs are better when lower.
    pub fn direction(&self, quantity: &Quantity) -> Direction {
        match quantity {
            Quantity::Metric(name) => *self.metrics.get(name).unwrap_or(&Direction::Lower),
            _ => Direction::Lower,
        }
    }

    /// What the baseline's runs mostly ended with, whatever that is.
    pub fn usual_outcome(&self) -> Option<Outcome> {
        most_frequent(self.baseline()?.runs.iter().map(|run| run.outcome))
    }

    /// What every run is held to: the exit code that the baseline's runs mostly ended with, or 0 for a load. A crash is
    /// nothing to expect, nor is to be ended from outside: where the baseline never got as far as an exit code, it is 0.
    pub fn expected_outcome(&self) -> Outcome {
        if self.served {
            return Outcome::Exited(0);
        }
        let runs = self
            .baseline()
            .into_iter()
            .flat_map(|variant| &variant.runs);
        let exits = runs.map(|run| run.outcome);
        most_frequent(exits.filter(|outcome| matches!(outcome, Outcome::Exited(_))))
            .unwrap_or(Outcome::Exited(0))
    }

    /// What the baseline printed in most of its runs that ended as expected, as the SHA-256 of it; none without such
    /// runs.
    pub fn expected_stdout(&self) -> Option<&str> {
        let expected = self.expected_outcome();
        let runs = self.baseline()?.runs.iter();
        let counting = runs.filter(|run| run.outcome == expected);
        most_frequent(counting.map(|run| run.stdout_sha256.as_str()))
    }

    /// Runs of a variant that did not end, or did not print, as is expected of all. Where the baseline has no output to
    /// be held to, none is wrong.
    pub fn failures<'a>(
        &'a self,
        variant: &'a Variant,
        output: OutputCheck,
    ) -> impl Iterator<Item = &'a Run> {
        let (outcome, stdout) = (self.expected_outcome(), self.expected_stdout());
        variant.runs.iter().filter(move |run| {
            let is_other = |stdout: &str| run.stdout_sha256 != stdout;
            run.outcome != outcome || (output == OutputCheck::Same && stdout.is_some_and(is_other))
        })
    }
}

impl Results {
    /// Reads a file that reheap wrote.
    ///
    /// # Errors
    /// If it is no such file, was cut short, or has another version of the format.
    pub fn from_json(text: &str) -> Result<Results, FormatError> {
        if text.trim().is_empty() {
            return Err(FormatError::Empty);
        }
        let value: Value = serde_json::from_str(text).map_err(FormatError::NotJson)?;
        match value.get("reheap_bench").and_then(Value::as_u64) {
            None => Err(FormatError::NotResults),
            Some(version) if version == u64::from(FORMAT) => {
                serde_json::from_str(text).map_err(FormatError::NotAsExpected)
            }
            Some(other) => Err(FormatError::OtherVersion(other)),
        }
    }

    /// The file's text.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("results have only string keys");
        text.push('\n');
        text
    }
}

/// Why a file has no results to read.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// Nothing is in it.
    #[error("it is empty")]
    Empty,
    /// Cut short, or something else.
    #[error("it is not JSON, or was cut short ({0})")]
    NotJson(serde_json::Error),
    /// JSON of something else.
    #[error("it has no results of `reheap bench` in it")]
    NotResults,
    /// Of another reheap.
    #[error("it has version {0} of the results, and this reheap reads version {FORMAT}")]
    OtherVersion(u64),
    /// The version fits, the content does not.
    #[error("it is not as `reheap bench` writes it ({0})")]
    NotAsExpected(serde_json::Error),
}

/// The value that occurs most often; of several, the one that occurs first.
fn most_frequent<T: PartialEq + Copy>(values: impl Iterator<Item = T> + Clone) -> Option<T> {
    let mut best: Option<(usize, T)> = None;
    let all = values.clone().count();
    for value in values.clone() {
        let count = values.clone().filter(|other| *other == value).count();
        // The usual case, in which all values are equal, is over after the first.
        if count * 2 > all {
            return Some(value);
        }
        if best.is_none_or(|(most, _)| count > most) {
            best = Some((count, value));
        }
    }
    best.map(|(_, value)| value)
}
