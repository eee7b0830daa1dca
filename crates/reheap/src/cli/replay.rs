//! `reheap replay`: performs a recorded program's calls under an allocator.

use anyhow::Context as _;
use reheap_command::choice::{AllocatorArguments, Choice};
use reheap_command::interrupt;
use reheap_command::pulse;
use reheap_command::ui::{self, Failure};
use reheap_trace::reader::Ending;
use reheap_trace::replay::{Outcome, Plan};
use reheap_variants::replaying::{self, PerformingArguments, Prepared, Replayer, UnnamedFile};
use reheap_workshop::workshop::{Network, Workshop};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

pub(crate) const EXAMPLES: &str = "Examples:
  reheap profile --trace calls.rht -- ./server --selftest
  reheap replay calls.rht
  reheap replay -a jemalloc -t narenas=2 --speed recorded calls.rht
  reheap replay --static -a mimalloc calls.rht";

#[derive(Debug, clap::Args)]
pub(crate) struct ReplayArguments {
    #[command(flatten)]
    allocator: AllocatorArguments,
    /// Link the allocator statically with musl, instead of preloading it
    #[arg(long)]
    r#static: bool,
    #[command(flatten)]
    performing: PerformingArguments,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
    /// A trace of `reheap profile --trace`
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
}

/// Performs a trace and says what was seen.
pub(crate) fn run(arguments: &ReplayArguments) -> anyhow::Result<ExitCode> {
    let choice = arguments.allocator.check()?;
    if arguments.r#static {
        choice.check_for_static()?;
    }
    let prepared = replaying::prepare(&arguments.trace, &arguments.performing.options())?;
    let workshop = Workshop::new(Network::AsConfigured);
    let replayer = if arguments.r#static {
        Replayer::of_static(replaying::linked(&choice, &workshop)?.0)
    } else {
        replaying::preloaded(&choice, &workshop)?
    };
    // Not before: until the replayer runs, Ctrl-C may end reheap at once.
    let interrupted = interrupt::on_signals()?;
    let outcome = perform(&replayer, &prepared, &interrupted)?;
    check_allocator(&replayer, &outcome, &choice)?;
    let replay = Replay {
        arguments,
        choice: &choice,
        plan: &prepared.plan,
        outcome: &outcome,
    };
    ui::data(&if arguments.json {
        format!("{:#}\n", replay.as_json())
    } else {
        replay.as_text()
    })?;
    Ok(ExitCode::SUCCESS)
}

fn perform(
    replayer: &Replayer,
    prepared: &Prepared,
    interrupted: &AtomicBool,
) -> anyhow::Result<Outcome> {
    let report = UnnamedFile::new()?;
    let program = replayer.program.display();
    let child = Command::new(&replayer.program)
        .args([prepared.file.path(), report.path()])
        .envs(
            replayer
                .environment
                .iter()
                .map(|(name, value)| (name, value)),
        )
        .spawn();
    let mut child = child.with_context(|| format!("cannot start `{program}`"))?;
    let status = pulse::while_spinning("replaying", || wait(&mut child, interrupted))?;
    match status.code() {
        Some(0) => read(report),
        Some(124) => {
            let text = "the allocator damaged a block: it did not keep what was written to it";
            Err(Failure::failed(text).into())
        }
        _ => {
            let text = format!("the replayer did not get to the end of the trace: {status}");
            Err(Failure::failed(text).into())
        }
    }
}

/// reheap says whose figures these are only after it saw whose malloc it was.
fn check_allocator(replayer: &Replayer, outcome: &Outcome, choice: &Choice) -> anyhow::Result<()> {
    let seen = outcome.malloc_in.file_name();
    if replayer.malloc_in.is_some() && seen != replayer.malloc_in.as_deref() {
        let (name, file) = (choice.allocator.name, outcome.malloc_in.display());
        let text = format!("the replayer did not get {name}: its malloc was in `{file}`");
        return Err(Failure::failed(text).into());
    }
    Ok(())
}

fn wait(child: &mut Child, interrupted: &AtomicBool) -> anyhow::Result<std::process::ExitStatus> {
    loop {
        if let Some(status) = child.try_wait()? {
            if interrupted.load(Ordering::SeqCst) {
                return Err(interrupt::failure("interrupted").into());
            }
            return Ok(status);
        }
        if interrupted.load(Ordering::SeqCst) {
            // It may have ended by itself meanwhile.
            let _ = child.kill();
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn read(report: UnnamedFile) -> anyhow::Result<Outcome> {
    let read = || -> anyhow::Result<Outcome> { Ok(serde_json::from_slice(&report.read()?)?) };
    read().context("cannot read what the replayer measured")
}

/// What is shown.
struct Replay<'a> {
    arguments: &'a ReplayArguments,
    choice: &'a Choice,
    plan: &'a Plan,
    outcome: &'a Outcome,
}

impl Replay<'_> {
    fn as_text(&self) -> String {
        let (plan, outcome) = (self.plan, self.outcome);
        let mut text = String::new();
        let mut line = |text_of_line: String| {
            let _ = writeln!(text, "{}", ui::printable(text_of_line));
        };
        line(self.headline());
        for remark in self.remarks() {
            line(format!("note: {remark}"));
        }
        line(String::new());
        let seconds = seconds(outcome.nanoseconds);
        let user = self::seconds(outcome.user_nanoseconds);
        let system = self::seconds(outcome.system_nanoseconds);
        line(format!(
            "time            {seconds}, and of CPU time {user} in user mode, {system} in the kernel"
        ));
        if let Some(inside) = outcome.nanoseconds_in_allocator() {
            let per_call = inside / outcome.calls().max(1) as f64;
            let inside = self::seconds(inside as u64);
            line(format!(
                "in allocator    {inside} of all threads, {per_call:.1} ns a call (from one call of 64)"
            ));
        }
        line(format!(
            "peak memory     {} resident, {} in live blocks{}",
            bytes(outcome.resident_bytes_peak),
            bytes(plan.peak.bytes),
            self.fragmentation_in_words(),
        ));
        let average = bytes(outcome.resident_bytes_average);
        line(format!("average memory  {average} resident"));
        if plan.threads > 1 {
            line(format!(
                "waiting         {} for blocks of other threads, {} because others were behind",
                self::seconds(outcome.block_wait_nanoseconds),
                self::seconds(outcome.epoch_wait_nanoseconds),
            ));
        }
        text
    }

    fn headline(&self) -> String {
        let plan = self.plan;
        let program = plan.process.command.first().map(String::as_str);
        let program = program.map(Path::new).and_then(Path::file_name);
        let of = program.map_or(String::new(), |name| format!(" of {}", name.display()));
        let threads = match plan.threads {
            1 => "1 thread".to_owned(),
            threads => format!("{threads} threads"),
        };
        let linked = if self.arguments.r#static {
            ", static"
        } else {
            ""
        };
        format!(
            "{}{linked}: {} calls{of} on {threads}, recorded in {}",
            self.choice.allocator.name,
            plan.calls,
            seconds(plan.recorded_nanoseconds),
        )
    }

    /// What makes the replay other than the program.
    fn remarks(&self) -> Vec<String> {
        let (plan, outcome) = (self.plan, self.outcome);
        let mut remarks = Vec::new();
        match plan.ending {
            Ending::Finished => {}
            Ending::CutOff { bytes: 0 } => remarks.push("the recording was cut off".to_owned()),
            Ending::CutOff { bytes } => remarks.push(format!(
                "the recording was cut off; its last {bytes} bytes are left out"
            )),
        }
        if plan.processes > 1 {
            let (pid, processes) = (plan.process.pid, plan.processes);
            remarks.push(format!(
                "of {processes} processes, this is {pid}, which made most calls"
            ));
        }
        if plan.unknown_frees > 0 {
            remarks.push(format!(
                "{} frees are left out: the recording does not have their blocks",
                plan.unknown_frees
            ));
        }
        if plan.lost_calls > 0 {
            remarks.push(format!(
                "the recording lacks at least {} calls",
                plan.lost_calls
            ));
        }
        if outcome.failed > 0 {
            remarks.push(format!("{} calls got no memory", outcome.failed));
        }
        remarks
    }

    /// How much more memory was resident than live, when most was live.
    fn fragmentation(&self) -> Option<f64> {
        let live = self.plan.peak.bytes;
        let resident = self.outcome.resident_bytes_at_live_peak;
        (live > 0 && resident > 0).then(|| resident as f64 / live as f64)
    }

    fn fragmentation_in_words(&self) -> String {
        match self.fragmentation() {
            Some(ratio) => format!(" (then {ratio:.2} bytes resident for each live one)"),
            None => String::new(),
        }
    }

    fn as_json(&self) -> Value {
        let plan = self.plan;
        let live =
            |live: reheap_trace::replay::Live| json!({"blocks": live.blocks, "bytes": live.bytes});
        json!({
            "format": 1,
            "allocator": self.choice.allocator.name,
            "static": self.arguments.r#static,
            "process": plan.process,
            "recording_is_whole": plan.ending == Ending::Finished,
            "processes": plan.processes,
            "threads": plan.threads,
            "calls": plan.calls,
            "failed_in_recording": plan.failed,
            "unknown_frees": plan.unknown_frees,
            "lost_calls": plan.lost_calls,
            "recorded_nanoseconds": plan.recorded_nanoseconds,
            "live_peak": live(plan.peak),
            "live_at_end": live(plan.end),
            "live_bytes_by_epoch": plan.epochs.iter().map(|live| live.bytes).collect::<Vec<u64>>(),
            "nanoseconds_in_allocator": self.outcome.nanoseconds_in_allocator(),
            "resident_for_each_live_byte": self.fragmentation(),
            "outcome": self.outcome,
        })
    }
}

/// A time in a unit that suits it.
fn seconds(nanoseconds: u64) -> String {
    match nanoseconds as f64 / 1e9 {
        seconds if seconds >= 1.0 => format!("{seconds:.2} s"),
        seconds => format!("{:.1} ms", seconds * 1e3),
    }
}

/// A size in a unit that suits it.
fn bytes(bytes: u64) -> String {
    match bytes as f64 / 1024.0 {
        kibibytes if kibibytes < 1024.0 => format!("{kibibytes:.1} KiB"),
        kibibytes if kibibytes < 1024.0 * 1024.0 => format!("{:.1} MiB", kibibytes / 1024.0),
        kibibytes => format!("{:.2} GiB", kibibytes / 1024.0 / 1024.0),
    }
}
