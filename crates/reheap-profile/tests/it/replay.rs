//! A trace is performed again, by the real replayer under real allocators.

use crate::support;
use proptest::prelude::*;
use reheap_trace::replay::{self, Options, Outcome, Plan, ReplayError, Speed, Touch};
use reheap_trace::ring::Clock;
use reheap_trace::writer::Writer;
use reheap_trace::{Function, INTO_REALLOC, Process, RawEvent};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Instant;

/// The replayers of both libcs, compiled once.
fn replayers() -> &'static [(&'static str, PathBuf)] {
    static REPLAYERS: OnceLock<(tempfile::TempDir, Vec<(&'static str, PathBuf)>)> = OnceLock::new();
    let made = REPLAYERS.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap();
        let mut made = Vec::new();
        for (name, compiler, flags) in [
            ("glibc", "gcc", &["-Wextra"][..]),
            ("static musl", "musl-gcc", &["-Wextra", "-static"]),
        ] {
            let path = directory.path().join(name.replace(' ', "-"));
            let flags = [&replay::COMPILER_FLAGS[..], flags].concat();
            support::compile(
                compiler,
                &["../reheap-trace/replayer/replayer.c"],
                &flags,
                &path,
            );
            made.push((name, path));
        }
        (directory, made)
    });
    &made.1
}

/// Performs a plan. Nothing is printed, whatever happens.
fn perform(replayer: &Path, plan: &Path, report: &Path) -> Outcome {
    let mut child = Command::new(replayer)
        .args([plan, report])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > support::LIMIT {
            child.kill().unwrap();
            panic!("the replayer waits for ever");
        }
        std::thread::yield_now();
    }
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", output.status);
    assert_eq!(output.stdout, b"");
    serde_json::from_slice(&fs::read(report).unwrap()).unwrap()
}

/// Each replayer makes as many calls as the plan has, and every block keeps what was written to it.
fn perform_everywhere(directory: &Path, plan: &Plan) -> Vec<Outcome> {
    let perform = |(name, replayer): &(&str, PathBuf)| {
        let outcome = perform(replayer, &directory.join("plan"), &directory.join("report"));
        assert_eq!(outcome.calls(), plan.calls, "{name}");
        assert_eq!((outcome.damaged, outcome.failed), (0, 0), "{name}");
        let over = outcome.points.last().map(|point| point.2);
        assert_eq!(over, Some(plan.epochs.len() as u64), "{name}");
        outcome
    };
    replayers().iter().map(perform).collect()
}

/// A file for a plan.
fn empty(directory: &Path) -> File {
    File::create(directory.join("plan")).unwrap()
}

fn written(directory: &Path, raw: &[(u32, RawEvent)]) -> PathBuf {
    let mut writer = Writer::new(Vec::new()).unwrap();
    let stream = writer.begin_process(&Process::default()).unwrap();
    for (thread, event) in raw {
        writer.push(stream, *thread, &[*event]);
    }
    writer.end_process(stream, 0).unwrap();
    let path = directory.join("trace");
    fs::write(&path, writer.finish().unwrap().0).unwrap();
    path
}

fn event(nanoseconds: u64, function: Function, block: u64, size: u64) -> RawEvent {
    RawEvent {
        nanoseconds,
        block,
        size,
        alignment: 0,
        function: function as u32,
    }
}

#[test]
fn a_recorded_program_makes_the_same_calls_again() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("calls");
    support::compile("gcc", &["tests/programs/calls.c"], &[], &program);
    let mut command = Command::new(&program);
    command.args(["32", "3000"]);
    let recorded = support::record(&mut command, directory.path(), Clock::of_this_machine());
    for touch in [Touch::None, Touch::Ends, Touch::Pages, Touch::All] {
        let options = Options {
            touch,
            speed: Speed::Max,
        };
        let plan = replay::prepare(&recorded.trace, &options, empty(directory.path())).unwrap();
        assert_eq!(plan.calls, recorded.written.totals.calls);
        // Consumers free what producers made: 64 threads, and the one that starts them.
        assert_eq!(plan.threads, 65);
        // What a table needs is what is live, and what waits until nobody can be behind.
        assert!(plan.slots < plan.calls / 5, "{plan:?}");
        for outcome in perform_everywhere(directory.path(), &plan) {
            assert_eq!(outcome.reallocations.calls, 32 * 3000);
            assert!(outcome.frees.calls >= 2 * 32 * 3000);
            assert!(outcome.nanoseconds_in_allocator().is_some());
        }
    }
}

/// Thread 0 allocates 1,000 blocks of 100,000 bytes, thread 1 frees them in another order.
#[test]
fn resident_memory_at_the_peak_is_what_was_live() {
    let directory = tempfile::tempdir().unwrap();
    let mut raw = Vec::new();
    for number in 0..1000 {
        raw.push((
            0,
            event(number * 1000, Function::Malloc, 1 + number, 100_000),
        ));
    }
    for number in 0..1000u64 {
        let block = 1 + number * 7 % 1000;
        raw.push((
            1,
            event(2_000_000 + number * 1000, Function::Free, block, 0),
        ));
    }
    let trace = written(directory.path(), &raw);
    let options = Options::default();
    let plan = replay::prepare(&trace, &options, empty(directory.path())).unwrap();
    assert_eq!((plan.peak.blocks, plan.peak.bytes), (1000, 100_000_000));
    assert_eq!(plan.end.blocks, 0);
    for outcome in perform_everywhere(directory.path(), &plan) {
        // The allocators round 100,000 up to pages, and keep some more.
        let peak = outcome.resident_bytes_at_live_peak;
        assert!((100_000_000..115_000_000).contains(&peak), "{outcome:?}");
        assert!(outcome.resident_bytes_peak >= peak);
        assert!(outcome.resident_bytes_before < 2_000_000, "{outcome:?}");
    }
}

#[test]
fn untouched_blocks_take_no_memory() {
    let directory = tempfile::tempdir().unwrap();
    let raw: Vec<(u32, RawEvent)> = (0..100)
        .map(|number| {
            (
                0,
                event(number * 1000, Function::Malloc, 1 + number, 1_000_000),
            )
        })
        .collect();
    let trace = written(directory.path(), &raw);
    let options = Options {
        touch: Touch::None,
        ..Options::default()
    };
    let plan = replay::prepare(&trace, &options, empty(directory.path())).unwrap();
    assert_eq!(plan.peak.bytes, 100_000_000);
    for outcome in perform_everywhere(directory.path(), &plan) {
        assert!(outcome.resident_bytes_peak < 10_000_000, "{outcome:?}");
    }
}

/// The allocator gives each block a mapping of its own, so that the list of mappings is far longer than the replayer reads.
#[test]
fn the_file_of_malloc_is_known_however_many_mappings_there_are() {
    let directory = tempfile::tempdir().unwrap();
    let library = directory.path().join("libmapping.so");
    let sources = ["tests/programs/maps_each_block.c"];
    support::compile("gcc", &sources, &["-shared", "-fPIC"], &library);
    let raw: Vec<(u32, RawEvent)> = (0..15_000)
        .map(|number| (0, event(number * 1000, Function::Malloc, 1 + number, 8)))
        .collect();
    let trace = written(directory.path(), &raw);
    replay::prepare(&trace, &Options::default(), empty(directory.path())).unwrap();
    let report = directory.path().join("report");
    let status = Command::new(&replayers()[0].1)
        .args([&directory.path().join("plan"), &report])
        .env("LD_PRELOAD", &library)
        .status();
    assert!(status.unwrap().success());
    let outcome: Outcome = serde_json::from_slice(&fs::read(report).unwrap()).unwrap();
    assert_eq!(outcome.malloc_in, library);
}

#[test]
fn at_recorded_speed_a_pause_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let pause = 300_000_000;
    let raw = [
        (0, event(5_000, Function::Malloc, 1, 10)),
        (1, event(5_000 + pause, Function::Free, 1, 0)),
    ];
    let trace = written(directory.path(), &raw);
    for (speed, waits) in [(Speed::Max, false), (Speed::Recorded, true)] {
        let options = Options {
            speed,
            ..Options::default()
        };
        let plan = replay::prepare(&trace, &options, empty(directory.path())).unwrap();
        for outcome in perform_everywhere(directory.path(), &plan) {
            // It cannot end before the time of its last call; at full speed nothing makes it wait.
            let waited = outcome.nanoseconds + 1000 >= pause;
            assert!(waited || !waits, "{outcome:?}");
        }
    }
}

#[test]
fn a_trace_without_calls_has_no_plan() {
    let directory = tempfile::tempdir().unwrap();
    let trace = written(directory.path(), &[]);
    let result = replay::prepare(&trace, &Options::default(), empty(directory.path()));
    assert!(matches!(result, Err(ReplayError::Empty)), "{result:?}");
}

proptest! {
    // A replayer that waits for ever takes its time in every attempt to make a failure smaller.
    #![proptest_config(ProptestConfig { cases: 40, max_shrink_iters: 5, ..ProptestConfig::default() })]

    /// Threads that make, pass on, reallocate and free blocks at random, and some that contradict each other.
    #[test]
    fn any_trace_is_performed_to_its_end(
        seed in 1u64..,
        length in 1usize..20_000,
        threads in 1u64..30,
        blocks in 1u64..3000,
    ) {
        let directory = tempfile::tempdir().unwrap();
        let trace = written(directory.path(), &random_calls(seed, length, threads, blocks));
        match replay::prepare(&trace, &Options::default(), empty(directory.path())) {
            Ok(plan) => drop(perform_everywhere(directory.path(), &plan)),
            Err(error) => prop_assert!(matches!(error, ReplayError::Empty), "{}", error),
        }
    }
}

fn random_calls(mut seed: u64, length: usize, threads: u64, blocks: u64) -> Vec<(u32, RawEvent)> {
    let mut random = |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed >> 20) % below
    };
    let mut calls = Vec::new();
    for position in 0..length as u64 {
        let thread = random(threads) as u32;
        let (block, size, alignment) = (random(blocks), random(3000), 1 << random(12));
        let call = |function, block| {
            let nanoseconds = position * 200;
            let event = RawEvent {
                nanoseconds,
                block,
                size,
                alignment,
                function,
            };
            (thread, event)
        };
        match random(30) as u32 {
            // Every address is someone's after a while, and then a free of it takes that block.
            18..24 => calls.push(call(Function::Malloc as u32, block)),
            24.. => calls.push(call(Function::Free as u32, block)),
            function => {
                let name = Function::of_number(function).map(Function::name);
                if name.is_some_and(|name| name.contains("realloc")) {
                    calls.push(call(INTO_REALLOC, block));
                }
                calls.push(call(function, random(blocks)));
            }
        }
    }
    calls
}
