//! What the conformance suites share: the programs under test, scratch folders, and commands that must end in time.
//!
//! A deadlock is one of the failures that these suites look for, so nothing waits without a deadline. Waiting is for the
//! end of the output, not for the process: a process that left children behind has not ended, and must not hang the tests.
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Building an allocator is part of the first test that needs it.
pub(crate) const BUILD_DEADLINE: Duration = Duration::from_secs(900);
/// Longer than the deadline that each program sets for itself, whose message says more.
pub(crate) const RUN_DEADLINE: Duration = Duration::from_secs(300);

/// What a command left.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A folder under the build folder that goes when the value does.
pub(crate) fn scratch_folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("the build folder is writable")
}

/// A source file or folder of the suites.
pub(crate) fn program(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/programs")
        .join(path)
}

/// `reheap`, with a cache that the tests share and the user does not have.
#[allow(
    dead_code,
    reason = "each suite is a crate of its own and uses its part of this module"
)]
pub(crate) fn reheap() -> Command {
    with_cache_of_the_tests(Command::new(env!("CARGO_BIN_EXE_reheap")))
}

/// `cargo-reheap`, likewise.
#[allow(
    dead_code,
    reason = "each suite is a crate of its own and uses its part of this module"
)]
pub(crate) fn cargo_reheap() -> Command {
    with_cache_of_the_tests(Command::new(env!("CARGO_BIN_EXE_cargo-reheap")))
}

fn with_cache_of_the_tests(mut command: Command) -> Command {
    command.env(
        "REHEAP_CACHE_DIR",
        Path::new(env!("CARGO_TARGET_TMPDIR")).join("reheap-cache"),
    );
    for name in ["REHEAP_ALLOCATOR", "REHEAP_TUNING"] {
        command.env_remove(name);
    }
    command
}

/// Runs `command` to its end and returns what it printed; panics with all of it when it is not done by the deadline.
pub(crate) fn finish(command: &mut Command, deadline: Duration) -> Outcome {
    let shown = format!("{command:?}");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| {
            panic!("cannot start {shown}: {error}; `xtask/prepare install` installs what the tests need")
        });
    let started = Instant::now();
    let stdout = collect(child.stdout.take().expect("stdout is piped"));
    let stderr = collect(child.stderr.take().expect("stderr is piped"));
    let mut texts = Vec::new();
    for output in [stdout, stderr] {
        match output.recv_timeout(deadline.saturating_sub(started.elapsed())) {
            Ok(text) => texts.push(text),
            Err(_) => {
                let killed = child.kill();
                panic!("{shown} was not done after {deadline:?} ({killed:?}); so far: {texts:?}");
            }
        }
    }
    let status = child.wait().expect("the child was started here");
    let stderr = texts.pop().expect("two texts");
    let stdout = texts.pop().expect("two texts");
    Outcome {
        status,
        stdout,
        stderr,
    }
}

/// Reads to the end in a thread of its own, so that neither pipe can fill up.
fn collect(mut output: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = output.read_to_end(&mut bytes);
        let mut text = String::from_utf8_lossy(&bytes).into_owned();
        if let Err(error) = read {
            text.push_str(&format!("\n(cannot read on: {error})"));
        }
        // The receiver is gone when the deadline passed: then nobody wants the text.
        let _ = sender.send(text);
    });
    receiver
}

/// Runs `command`, which must succeed.
#[track_caller]
pub(crate) fn succeed(command: &mut Command, deadline: Duration) -> Outcome {
    let outcome = finish(command, deadline);
    assert!(
        outcome.status.success(),
        "{command:?}\nended with {}\n--- stdout\n{}--- stderr\n{}",
        outcome.status,
        outcome.stdout,
        outcome.stderr
    );
    outcome
}

/// Runs a program of the suites, which says `ok NAME` and nothing else when all its checks hold.
#[track_caller]
pub(crate) fn passes(executable: &Path, name: &str) {
    let outcome = succeed(&mut Command::new(executable), RUN_DEADLINE);
    assert_eq!(
        outcome.stdout,
        format!("ok {name}\n"),
        "--- stderr\n{}",
        outcome.stderr
    );
}

/// How an executable is loaded: `ET_EXEC` at a fixed address, `ET_DYN` anywhere (ELF specification, `e_type`).
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    Fixed,
    Anywhere,
}

/// Reads `e_type` and makes sure that no program header asks for an interpreter; offsets are those of `Elf64_Ehdr`.
#[track_caller]
pub(crate) fn placement_of_static_executable(executable: &Path) -> Placement {
    const ET_EXEC: u16 = 2;
    const ET_DYN: u16 = 3;
    const PT_INTERP: u32 = 3;
    let bytes = std::fs::read(executable).expect("the executable was built");
    assert_eq!(bytes[..6], *b"\x7fELF\x02\x01", "{}", executable.display());
    let half = |offset: usize| u16::from_le_bytes([bytes[offset], bytes[offset + 1]]);
    let headers_start = usize::from(half(0x20)); // the upper bits are 0: linkers put the table behind the file header
    let (header_size, header_count) = (usize::from(half(0x36)), usize::from(half(0x38)));
    for header in 0..header_count {
        let start = headers_start + header * header_size;
        let segment_type = u32::from(half(start)) | u32::from(half(start + 2)) << 16;
        assert_ne!(
            segment_type,
            PT_INTERP,
            "{} wants an interpreter",
            executable.display()
        );
    }
    match half(0x10) {
        ET_EXEC => Placement::Fixed,
        ET_DYN => Placement::Anywhere,
        other => panic!("{}: e_type {other}", executable.display()),
    }
}
