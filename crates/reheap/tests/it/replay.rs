//! `reheap replay`, and traces in place of commands: what is performed, what is said of it, and what is refused.

use crate::common::command::{EVENT_DEADLINE, Running, in_time, make_fifo};
use crate::common::{Outcome, reheap, run, run_with_input, started_by};
use reheap_trace::writer::Writer;
use reheap_trace::{Function, Process, RawEvent};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;

/// A recording: one thread makes blocks, another frees half of them, and the rest is live at the end.
struct Recording {
    directory: tempfile::TempDir,
}

const BLOCKS: u64 = 20_000;
const SIZE: u64 = 1000;

fn event(nanoseconds: u64, function: Function, block: u64, size: u64) -> RawEvent {
    RawEvent {
        nanoseconds,
        block,
        size,
        alignment: 0,
        function: function as u32,
    }
}

fn malloc(block: u64, size: u64) -> RawEvent {
    event(block * 1000, Function::Malloc, block, size)
}

impl Recording {
    fn new() -> Self {
        let calls = (1..=BLOCKS).flat_map(|block| {
            let freed = event(block * 1000 + 500, Function::Free, block, SIZE);
            let freed = (block % 2 == 0).then_some((1, freed));
            [(0, malloc(block, SIZE))].into_iter().chain(freed)
        });
        Self::of(calls)
    }

    /// A trace of these calls, each with its thread.
    fn of(calls: impl Iterator<Item = (u32, RawEvent)>) -> Self {
        let mut writer = Writer::new(Vec::new()).unwrap();
        let process = Process {
            pid: 77,
            command: vec!["/opt/service".to_owned(), "--all".to_owned()],
            ..Process::default()
        };
        let stream = writer.begin_process(&process).unwrap();
        for (thread, call) in calls {
            writer.push(stream, thread, &[call]);
        }
        writer.end_process(stream, 0).unwrap();
        let recording = Self {
            directory: tempfile::tempdir().unwrap(),
        };
        fs::write(recording.path(), writer.finish().unwrap().0).unwrap();
        recording
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("calls.rht")
    }

    fn replay(&self, flags: &str) -> Outcome {
        run(reheap(&format!("replay {flags}"))
            .env_remove("LD_PRELOAD")
            .arg(self.path()))
    }
}

/// What a replay says as JSON, after checks of what is the same everywhere.
fn figures(outcome: Outcome, allocator: &str) -> Value {
    let figures: Value = serde_json::from_str(&outcome.succeeded().stdout).unwrap();
    assert_eq!(figures["allocator"], allocator);
    assert_eq!(figures["process"]["command"][0], "/opt/service");
    assert_eq!(figures["threads"], 2);
    assert_eq!(figures["calls"], BLOCKS + BLOCKS / 2);
    let performed = &figures["outcome"];
    assert_eq!(performed["allocations"]["calls"], BLOCKS);
    assert_eq!(performed["frees"]["calls"], BLOCKS / 2);
    assert_eq!(performed["damaged"], 0);
    let live = BLOCKS / 2 * SIZE;
    assert_eq!(figures["live_at_end"]["bytes"], live);
    let peak = figures["live_peak"]["bytes"].as_u64().unwrap();
    assert!((live..live + 2 * SIZE).contains(&peak), "{peak}");
    let resident = performed["resident_bytes_peak"].as_u64().unwrap();
    assert!(resident >= live, "{figures:#}");
    figures
}

#[test]
fn a_trace_is_performed_under_preloaded_and_static_allocators() {
    let recording = Recording::new();
    let preloaded = figures(recording.replay("-a mimalloc --json"), "mimalloc");
    let library = preloaded["outcome"]["malloc_in"].as_str().unwrap();
    assert!(library.ends_with("/libmimalloc-2.3.2.so"), "{library}");
    let linked = figures(recording.replay("-a mimalloc --static --json"), "mimalloc");
    let program = linked["outcome"]["malloc_in"].as_str().unwrap();
    assert!(program.ends_with("/replayer"), "{program}");
    let stock = figures(recording.replay("-a stock --json"), "stock");
    let libc = stock["outcome"]["malloc_in"].as_str().unwrap();
    assert!(libc.contains("libc"), "{libc}");
}

#[test]
fn one_screen_says_what_was_seen() {
    let recording = Recording::new();
    let outcome = recording.replay("-a stock").succeeded();
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert_eq!(
        lines[0],
        "stock: 30000 calls of service on 2 threads, recorded in 20.0 ms"
    );
    for (line, begins) in lines[2..].iter().zip([
        "time            ",
        "in allocator    ",
        "peak memory     ",
        "average memory  ",
        "waiting         ",
    ]) {
        assert!(line.starts_with(begins), "{lines:#?}");
    }
    assert_eq!(lines.len(), 7, "{lines:#?}");
}

#[test]
fn a_trace_that_was_cut_off_is_performed_as_far_as_it_goes() {
    let recording = Recording::new();
    let whole = fs::read(recording.path()).unwrap();
    fs::write(recording.path(), &whole[..whole.len() - 7]).unwrap();
    let text = "note: the recording was cut off; its last 13 bytes are left out";
    let stdout = recording.replay("-a stock").succeeded().stdout;
    assert_eq!(stdout.lines().nth(1), Some(text), "{stdout}");
}

#[test]
fn what_is_no_trace_is_refused() {
    let recording = Recording::new();
    let refused = |bytes: &[u8], reason: &str| {
        fs::write(recording.path(), bytes).unwrap();
        let shown = recording.path();
        let text = format!("cannot replay `{}`: {reason}", shown.display());
        recording.replay("-a stock").ended_with(1).said(&[&text]);
    };
    let mut trace = fs::read(recording.path()).unwrap();
    let middle = trace.len() / 2;
    trace[middle] ^= 1;
    refused(&trace, "it is damaged at byte ");
    trace[8] = 2;
    refused(
        &trace,
        "it has format 2; this version of reheap reads format 1",
    );
    refused(b"#!/bin/sh\n", "it is not a trace of reheap's");
    fs::remove_file(recording.path()).unwrap();
    recording.replay("").ended_with(1).said(&["No such file"]);
}

#[test]
fn blocks_of_more_bytes_than_there_are_numbers_are_only_performed_untouched() {
    const HUGE: u64 = 1 << 48;
    let recording = Recording::of((1..=1 << 17).map(|block| (0, malloc(block, HUGE))));
    let outcome = recording.replay("-a stock").ended_with(1);
    outcome.said(&[
        &format!("its blocks have {} MiB when most are in use", 1u64 << 44),
        "hint: do not write to all pages of the blocks: --touch ends",
    ]);
    let outcome = recording.replay("-a stock --touch none").succeeded();
    let text = "note: 131072 calls got no memory";
    assert!(outcome.stdout.contains(text), "{}", outcome.stdout);
}

/// A trace of some hundred kilobytes that takes a minute to read: a chunk with 65,536 calls, a thousand times.
fn long_trace() -> Vec<u8> {
    let calls = (1..=1 << 16).map(|block| (0, event(0, Function::Malloc, block, 8)));
    let trace = fs::read(Recording::of(calls).path()).unwrap();
    let chunk_after = |from: usize| {
        let mut places = trace[from..].windows(4);
        from + places.position(|window| window == b"RHch").unwrap()
    };
    let events = chunk_after(chunk_after(0) + 1);
    let end = chunk_after(events + 1);
    let many = trace[events..end].repeat(1000);
    [&trace[..events], &many, &trace[end..]].concat()
}

/// Whether a process has a file open.
fn has_open(process: Pid, file: &Path) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{process}/fd"));
    let mut links = descriptors.into_iter().flatten().flatten();
    links.any(|link| fs::read_link(link.path()).is_ok_and(|target| target == file))
}

#[test]
fn a_replay_that_is_ended_while_it_reads_leaves_nothing_behind() {
    for signal in [Signal::INT, Signal::KILL] {
        let recording = Recording::new();
        fs::write(recording.path(), long_trace()).unwrap();
        let temporary = tempfile::tempdir().unwrap();
        let mut command = reheap("replay -a stock");
        command.arg(recording.path());
        command.env("TMPDIR", temporary.path());
        // A shell's background jobs, as the tests may be one, ignore SIGINT.
        let mut command = started_by("env --default-signal=INT", &command);
        let running = Running::start(command.stdin(Stdio::null()));
        let (process, trace) = (running.pid(), fs::canonicalize(recording.path()).unwrap());
        in_time("the trace, open", move || {
            while !has_open(process, &trace) {
                thread::yield_now();
            }
        });
        kill_process(process, signal).unwrap();
        let status = running.finish(EVENT_DEADLINE).status;
        assert_eq!(status.signal(), Some(signal.as_raw()), "{status}");
        assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0);
    }
}

#[test]
fn a_pipe_is_refused_because_a_trace_is_read_twice() {
    let recording = Recording::new();
    let trace = fs::read(recording.path()).unwrap();
    let text = "it is not a regular file\n\nhint: write the trace to a file first";
    let outcome = run_with_input(&mut reheap("replay -a stock /dev/stdin"), &trace);
    outcome.ended_with(1).said(&[text]);
    // Nobody will ever write to this one.
    fs::remove_file(recording.path()).unwrap();
    make_fifo(&recording.path());
    recording.replay("-a stock").ended_with(1).said(&[text]);
}

#[test]
fn a_static_replayer_has_no_stock_allocator_to_tune() {
    let recording = Recording::new();
    let text = "`stock` in a static executable is musl's allocator, which has no tuning options";
    let outcome = recording.replay("--static -a stock -t arena_max=1");
    outcome.ended_with(2).said(&[text]);
}

#[test]
fn bench_runs_a_trace_under_preloaded_and_static_allocators() {
    let recording = Recording::new();
    let results = recording.directory.path().join("results.json");
    let variants = "glibc,musl+mimalloc,glibc+mimalloc";
    let mut command = reheap(&format!("bench --rounds 2 --variant {variants} --json"));
    command.env_remove("LD_PRELOAD").arg(&results);
    run(command.arg("--trace").arg(recording.path())).succeeded();
    let results: Value = serde_json::from_str(&fs::read_to_string(results).unwrap()).unwrap();
    let benchmark = &results["benchmarks"][0];
    assert_eq!(benchmark["name"], "replay of calls.rht", "{results:#}");
    let names: Vec<&str> = benchmark["variants"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|variant| variant["name"].as_str())
        .filter(|name| !name.contains("again"))
        .collect();
    assert_eq!(names, ["glibc", "musl+mimalloc", "glibc+mimalloc"]);
}

#[test]
fn flags_about_a_trace_need_one() {
    let text = "--touch and --speed are about a trace";
    for command in ["bench --touch all -- true", "recommend --speed max -- true"] {
        run(&mut reheap(command)).ended_with(2).said(&[text]);
    }
}
