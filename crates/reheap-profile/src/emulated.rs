//! The hooks on another processor: programs for aarch64 run under qemu's user mode, and write into a recording that this
//! process reads, because the layout is the same on both.
//!
//! These are unit tests, because they look at parts of this crate that nobody else sees.

use crate::hooks;
use crate::recording::{Place, Recording, Sample, VARIABLE};
use crate::stacks::{Modules, Registers, StackEnd, Symbols, Unwinder};
use reheap_graft::Processor;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub(crate) const GCC: &[&str] = &["aarch64-linux-gnu-gcc"];
pub(crate) const ZIG: &[&str] = &[
    "python3",
    "-m",
    "ziglang",
    "cc",
    "-g0",
    "-fno-sanitize=undefined",
    "-target",
    "aarch64-linux-gnu.2.17",
];
/// As reheap compiles its own libraries that call no libc.
const HOOKS_FLAGS: [&str; 15] = [
    "-std=gnu11",
    "-O2",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-fPIC",
    "-fvisibility=hidden",
    "-ffreestanding",
    "-fno-builtin",
    "-fno-stack-protector",
    "-fno-omit-frame-pointer",
    "-fcf-protection=none",
    "-shared",
    "-nostdlib",
    "-Wl,-Bsymbolic,-z,defs,-z,now,-z,relro",
];
/// qemu keeps a note of each page that a program reserves. Without this limit, in KiB, it would take gigabytes for the notes
/// on what the hooks reserve. With it, they reserve less.
const ADDRESS_SPACE: u64 = 600_000_000;

/// A directory with what a test compiles.
pub(crate) struct Workshop {
    pub(crate) directory: tempfile::TempDir,
}

impl Workshop {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        Self { directory }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    #[track_caller]
    pub(crate) fn hooks(&self, compiler: &[&str]) -> PathBuf {
        let (source, library) = (self.path("hooks.c"), self.path("hooks.so"));
        std::fs::write(&source, hooks::SOURCE).expect("the directory is writable");
        let exported = hooks::EXPORTS.join("; ");
        let exports = self.path("exports");
        std::fs::write(&exports, format!("{{ global: {exported}; local: *; }};"))
            .expect("the directory is writable");
        let mut command = Command::new(compiler[0]);
        command
            .args(&compiler[1..])
            .args(HOOKS_FLAGS)
            .arg(format!("-Wl,--version-script={}", exports.display()))
            .arg(&source)
            .arg("-o")
            .arg(&library);
        succeeds(&mut command);
        library
    }

    /// A program from the C sources of this crate's tests.
    #[track_caller]
    pub(crate) fn program(&self, sources: &[&str], flags: &[&str]) -> PathBuf {
        let output = self.path("program");
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
        let mut command = Command::new(GCC[0]);
        command
            .args(["-std=gnu11", "-O2", "-g", "-Wall", "-Werror"])
            .args(["-fno-builtin", "-pthread"])
            .args(flags)
            .args(sources.iter().map(|name| directory.join(name)))
            .arg("-o")
            .arg(&output);
        succeeds(&mut command);
        output
    }
}

#[track_caller]
pub(crate) fn succeeds(command: &mut Command) -> Output {
    let output = command.output();
    let output = output.unwrap_or_else(|error| {
        panic!("{command:?}: {error}; `xtask/prepare install` installs what the tests need")
    });
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}:\n{stderr}");
    output
}

/// What qemu runs on the newest processor that it knows, with variables that only the program gets.
pub(crate) fn emulated(program: &Path, variables: &[(&str, &Path)]) -> Command {
    let mut command = Command::new("sh");
    let limited = format!("ulimit -v {ADDRESS_SPACE} && exec qemu-aarch64 -cpu max \"$@\"");
    command.args(["-c", &limited, "sh", "-L", "/usr/aarch64-linux-gnu"]);
    for (name, value) in variables {
        command.arg("-E").arg(format!("{name}={}", value.display()));
    }
    command.arg(program);
    command
}

/// Runs `emulated.c` and looks at what it should have left in the recording.
#[track_caller]
pub(crate) fn run_and_check(command: &mut Command, recording: &Recording) {
    const THREADS: u64 = 4;
    const ROUNDS: u64 = 500;
    let output = command
        .args([THREADS.to_string(), ROUNDS.to_string()])
        .output()
        .expect("there is a shell");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{command:?}:\n{stderr}");
    assert_eq!(recording.refused(), 0);

    let places: Vec<Place> = recording.taken().collect();
    let [place] = places[..] else {
        panic!("{} places", places.len());
    };
    let lost = recording.lost(place);
    assert_eq!((lost.calls, lost.blocks, lost.stacks), (0, 0, 0));
    let calls = recording.counts(place).calls;
    for name in ["realloc", "posix_memalign", "aligned_alloc"] {
        assert_eq!(calls[name], THREADS * ROUNDS, "{name}");
    }
    // The libc allocates on the main thread. Each round has four blocks, and one more by realloc.
    let threads = recording.threads(place).into_iter();
    let blocks: Vec<_> = threads
        .map(|thread| (thread.allocated.blocks, thread.freed.blocks))
        .take(THREADS as usize)
        .collect();
    assert_eq!(blocks, [(5 * ROUNDS, 5 * ROUNDS); THREADS as usize]);
    check_stack(recording, place);
}

/// The stack of the one large block.
#[track_caller]
fn check_stack(recording: &Recording, place: Place) {
    let maps = recording.maps(place);
    let mut modules = Modules::new();
    let mut unwinder = Unwinder::from_maps(&mut modules, Processor::Aarch64, &maps, None);
    let mut samples = std::iter::repeat_with(|| recording.take_samples(place))
        .take_while(|samples| !samples.is_empty())
        .flatten();
    let stack = samples.find_map(|sample| match sample {
        Sample::Allocated {
            size,
            registers,
            stack,
            ..
        } if size == 50 << 20 => Some((Registers::parse(registers), stack)),
        _ => None,
    });
    let (registers, stack) = stack.expect("a large block is always sampled");
    let unwound = unwinder.unwind(&mut modules, &registers, &stack);
    let mut symbols = Symbols::new();
    let frames = unwound.addresses.iter();
    let names: Vec<String> = frames
        .flat_map(|address| symbols.frames(&modules, *address))
        .map(|frame| frame.function)
        .collect();
    let mut expected = vec!["inner_function"];
    expected.extend(["outer_function"; 4]);
    expected.push("main");
    assert_eq!(names[..expected.len().min(names.len())], expected);
    assert_eq!(unwound.end, StackEnd::Root, "{names:?}");
}

fn run_with_preload(compiler: &[&str], flags: &[&str]) {
    let workshop = Workshop::new();
    let hooks = workshop.hooks(compiler);
    let program = workshop.program(&["emulated.c"], flags);
    let recording = Recording::create(1 << 20, None).expect("there is memory");
    let path = recording.path();
    let variables = [("LD_PRELOAD", &*hooks), (VARIABLE, &*path)];
    run_and_check(&mut emulated(&program, &variables), &recording);
}

#[test]
fn a_preload_made_by_gcc_counts_and_samples_on_aarch64() {
    run_with_preload(GCC, &[]);
}

#[test]
fn a_preload_made_by_clang_counts_and_samples_on_aarch64_also_signed_stacks() {
    run_with_preload(ZIG, &["-mbranch-protection=standard"]);
}
