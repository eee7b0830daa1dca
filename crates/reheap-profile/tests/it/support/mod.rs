//! Records the calls of a program, as `reheap profile --trace` does, with the preload of `programs/traced.c`.

use reheap_trace::Process;
use reheap_trace::SharedMemory;
use reheap_trace::ring::{AREA_WORDS, Area, Clock, RING_WORDS, Ring, State};
use reheap_trace::writer::{Writer, Written};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// No program of a test runs longer.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// Compiles C sources of this crate into an executable, or with `-shared` among the flags into a library.
pub(crate) fn compile(compiler: &str, sources: &[&str], flags: &[&str], output: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let status = Command::new(compiler)
        .args(["-O2", "-g", "-Wall", "-Werror", "-pthread"])
        .args(flags)
        .args(sources.iter().map(|source| root.join(source)))
        .arg("-o")
        .arg(output)
        .status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "{compiler} failed: apt-get install gcc musl-tools"
    );
}

/// The preload that records.
pub(crate) fn preload(directory: &Path) -> PathBuf {
    let library = directory.join("libtraced.so");
    let flags = ["-shared", "-fPIC", "-ldl"];
    compile("gcc", &["tests/programs/traced.c"], &flags, &library);
    library
}

/// The memory that a program and its recorder share.
pub(crate) struct Shared {
    pub(crate) path: PathBuf,
    pub(crate) memory: SharedMemory,
    pub(crate) clock: Clock,
    threads: usize,
}

impl Shared {
    pub(crate) fn new(directory: &Path, threads: usize, clock: Clock) -> Self {
        let path = directory.join("shared");
        let file = File::create_new(&path).expect("a new file can be made");
        let words = 2 * AREA_WORDS + threads * RING_WORDS;
        file.set_len(words as u64 * 8).expect("it can be long");
        drop(file);
        let file = File::options().read(true).write(true).open(&path);
        let file = file.expect("it was just made");
        let memory = SharedMemory::map(file, words * 8).expect("it can be mapped");
        Self {
            path,
            memory,
            clock,
            threads,
        }
    }

    pub(crate) fn area(&self) -> Area<'_> {
        Area::new(self.memory.words(0, AREA_WORDS))
    }

    /// The rings that threads took.
    pub(crate) fn rings(&self) -> Vec<Ring<'_>> {
        let taken = self.memory.words(8 * AREA_WORDS, 1)[0].load(Ordering::Acquire);
        let taken = (taken as usize).min(self.threads);
        let ring = |index| {
            let start = 8 * (2 * AREA_WORDS + index * RING_WORDS);
            Ring::new(self.memory.words(start, RING_WORDS))
        };
        (0..taken).map(ring).collect()
    }
}

/// What was recorded.
pub(crate) struct Recorded {
    pub(crate) trace: PathBuf,
    pub(crate) written: Written,
}

/// Runs a command that succeeds, and records all its calls.
pub(crate) fn record(command: &mut Command, directory: &Path, clock: Clock) -> Recorded {
    let shared = Shared::new(directory, 600, clock);
    shared.area().begin(&clock);
    let path = directory.join("trace");
    let output = File::create(&path).expect("a file can be made");
    let mut writer = Writer::new(output).unwrap();
    let stream = writer.begin_process(&Process::default()).unwrap();
    let start = Instant::now();
    let mut child = command
        .env("LD_PRELOAD", preload(directory))
        .env("TRACED_FILE", &shared.path)
        .spawn()
        .expect("the program can be started");
    let mut events = Vec::new();
    loop {
        // Before the rings are emptied: the last round must come after the end.
        let ended = has_ended(&mut child, start);
        shared.area().beat();
        let now = shared.clock.now();
        for (thread, ring) in shared.rings().iter().enumerate() {
            events.clear();
            ring.drain(&shared.clock, &mut events).unwrap();
            writer.push(stream, thread as u32, &events);
        }
        writer.advance(stream, now).unwrap();
        if ended {
            break;
        }
        std::thread::yield_now();
    }
    assert_eq!(child.wait().expect("it was waited for").code(), Some(0));
    let lost = shared.rings().iter().map(Ring::lost).sum();
    assert_eq!((shared.area().state(), lost), (State::On, 0));
    writer.end_process(stream, lost).unwrap();
    let (_, written) = writer.finish().unwrap();
    Recorded {
        trace: path,
        written,
    }
}

fn has_ended(child: &mut Child, start: Instant) -> bool {
    if start.elapsed() > LIMIT {
        let _ = child.kill();
        panic!("the program did not end in {LIMIT:?}");
    }
    child
        .try_wait()
        .expect("a child can be waited for")
        .is_some()
}
