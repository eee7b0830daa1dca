//! Real programs, recorded by the C code that the hooks have.

use crate::support;
use reheap_trace::reader::{Reader, Record};
use reheap_trace::ring::{Clock, State};
use reheap_trace::{Event, Function, Taken};
use std::collections::HashMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

fn events(trace: &Path) -> Vec<Event> {
    let reader = Reader::new(BufReader::new(File::open(trace).unwrap())).unwrap();
    let event = |record: Result<Record, _>| match record.unwrap() {
        Record::Event(_, event) => Some(event),
        _ => None,
    };
    reader.filter_map(event).collect()
}

fn count(events: &[Event], function: Function) -> usize {
    events.iter().filter(|e| e.function == function).count()
}

/// 32 producers, 32 consumers: every call is there, and every free has its block.
fn recorded_calls_are_exact(clock: Clock) {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("calls");
    support::compile("gcc", &["tests/programs/calls.c"], &[], &program);
    let mut command = Command::new(&program);
    command.args(["32", "2000"]);
    let recorded = support::record(&mut command, directory.path(), clock);
    let totals = recorded.written.totals;
    assert_eq!((totals.lost_frees, totals.unknown_frees), (0, 0));
    let events = events(&recorded.trace);
    assert_eq!(events.len() as u64, totals.calls);
    let rounds = 32 * 2000;
    assert_eq!(count(&events, Function::Realloc), rounds);
    assert_eq!(count(&events, Function::Malloc), rounds);
    // libc allocates for threads too, and frees these blocks with the threads or not at all.
    assert!(count(&events, Function::Calloc) >= rounds);
    assert!(count(&events, Function::Free) >= 2 * rounds);
    let is_foreign = |e: &&Event| matches!(e.taken, Taken::Block(b) if b.thread != e.thread);
    assert!(events.iter().filter(is_foreign).count() >= rounds);
    assert!(recorded.written.bytes <= 4 * totals.calls);
}

#[test]
fn all_calls_of_64_threads_are_recorded_by_the_processors_counter() {
    recorded_calls_are_exact(Clock::of_this_machine());
}

#[test]
fn all_calls_of_64_threads_are_recorded_by_the_systems_clock() {
    recorded_calls_are_exact(Clock::of_system());
}

#[test]
fn real_programs_take_at_most_4_bytes_a_call() {
    let directory = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/traced.c");
    let mut gcc = Command::new("gcc");
    gcc.args(["-print-prog-name=cc1"]);
    let cc1 = String::from_utf8(gcc.output().unwrap().stdout).unwrap();
    let mut compiler = Command::new(cc1.trim());
    let preprocessed = directory.path().join("traced.i");
    let path = source.to_str().unwrap();
    support::compile("gcc", &["tests/programs/traced.c"], &["-E"], &preprocessed);
    compiler
        .args(["-quiet", "-O2", "-o", "/dev/null", "-fpreprocessed"])
        .arg(&preprocessed);
    let mut python = Command::new("/usr/bin/python3");
    python.env("PYTHONMALLOC", "malloc").args(["-c", PYTHON]);
    let mut sort = Command::new("sort");
    sort.arg(path).stdout(std::process::Stdio::null());
    for (name, command) in [
        ("cc1", &mut compiler),
        ("python3", &mut python),
        ("sort", &mut sort),
    ] {
        let directory = directory.path().join(name);
        std::fs::create_dir(&directory).unwrap();
        let recorded = support::record(command, &directory, Clock::of_this_machine());
        let calls = recorded.written.totals.calls;
        let per_call = recorded.written.bytes as f64 / calls as f64;
        // `sort` makes so few that the frame around them counts.
        let is_short = calls < 1000 && recorded.written.bytes < 4000;
        assert!(
            per_call <= 4.0 || is_short,
            "{name}: {per_call} bytes a call"
        );
        assert_lives(&events(&recorded.trace));
    }
}

const PYTHON: &str = "import json, random\n\
    random.seed(1)\n\
    data = [{'name': 'x' * random.randrange(50), 'values': [random.random() for _ in range(random.randrange(20))]} for _ in range(2000)]\n\
    for _ in range(3): data = json.loads(json.dumps(data))\n\
    random.shuffle(data)\n\
    data.clear()\n";

/// Every block is made before it is taken, and taken once.
fn assert_lives(events: &[Event]) {
    let mut live = HashMap::new();
    for event in events {
        if let Taken::Block(block) = event.taken {
            assert!(live.remove(&block).is_some(), "{event:?} takes no block");
        }
        if let Some(block) = event.made {
            live.insert(block, event.size);
        }
    }
}

#[test]
fn a_program_goes_on_when_its_recorder_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("calls");
    support::compile("gcc", &["tests/programs/calls.c"], &[], &program);
    let clock = Clock::of_this_machine();
    let shared = support::Shared::new(directory.path(), 8, clock);
    let patience = std::time::Duration::from_millis(50);
    shared.area().begin_with_patience(&clock, patience);
    let start = Instant::now();
    let mut child = Command::new(&program)
        .args(["2", "20000"])
        .env("LD_PRELOAD", support::preload(directory.path()))
        .env("TRACED_FILE", &shared.path)
        .spawn()
        .unwrap();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > support::LIMIT {
            child.kill().unwrap();
            panic!("the program waits for nobody");
        }
        std::thread::yield_now();
    };
    assert!(status.success());
    assert_eq!(shared.area().state(), State::Abandoned);
    let lost: u64 = shared.rings().iter().map(|ring| ring.lost()).sum();
    assert!(lost > 0);
}
