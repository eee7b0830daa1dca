//! Tests for processors that this machine does not have. They take minutes, so `make test` leaves them out.
//!
//! Two kinds of emulation, because neither is enough. qemu's user mode runs a test as if it were a program of this machine;
//! what needs no ptrace(2) is tested there. A whole machine, with Debian's kernel and nothing else in it, has ptrace, and
//! so runs the tests of what reheap does to static programs and to running ones. It has no compiler, so their programs are
//! compiled here.
//!
//! Static programs are built for more processors, and run in user mode (`static_programs`).

pub(crate) mod debian;
pub(crate) mod machine;
mod static_programs;

use crate::tests;
use anyhow::{Context as _, Result, bail};
use debian::Debian;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use xtask::aarch64::{TARGET, build_for};
use xtask::command::stdout_of;
use xtask::files;
use xtask::progress::Progress;
use xtask::workspace::Workspace;

const GCC: &str = "aarch64-linux-gnu-gcc";
const MUSL: &str = "python3 -m ziglang cc -g0 -fno-sanitize=undefined -target aarch64-linux-musl";

/// The programs of `crates/reheap-profile/tests/programs` that run in the machine.
const PROGRAMS: &str = "forever known_counts manners own_names sandboxed waits";
/// Those that are also dynamic programs of musl.
const MUSL_DYNAMIC: [&str; 2] = ["forever", "waits"];
/// How they are linked, by the names of `Link` in the tests.
const LINKS: [(&str, &str, &str); 4] = [
    ("Glibc", GCC, "-static"),
    ("GlibcPie", GCC, "-static-pie"),
    ("Musl", MUSL, "-static"),
    ("Dynamic", GCC, "-pie"),
];
/// As `hooks` in the tests compiles them.
const HOOKS_FLAGS: &str = "-fPIC -shared -nostdlib -fvisibility=hidden -fno-stack-protector \
    -mno-outline-atomics -Wl,-Bsymbolic";

/// Unit tests that user mode cannot run: those that start it themselves, and one that finds qemu's own files in `/proc`.
const USER_MODE_WITHOUT: [&str; 2] = [
    "emulated::",
    "the_files_of_a_process_and_its_vdso_are_read_once",
];
/// The modules of tests that run in the machine.
const MACHINE_TESTS: [&str; 2] = ["inject::", "attach::"];
/// Those of them that cannot: their programs are stripped, which reheap refuses for this processor, or need a compiler,
/// another user's shell or perl.
const MACHINE_WITHOUT: [&str; 3] = [
    "every_call_of_a_stripped_program",
    "a_program_of_somebody_else",
    "a_running_program_of_somebody_else",
];

/// Runs them all.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let progress = Progress::start();
    progress.step(
        "the Rust target",
        Command::new("rustup").args(["target", "add", TARGET]),
    )?;
    let mut clippy = workspace.cargo();
    clippy
        .args(["clippy", "--workspace", "--all-targets", "--locked"])
        // Some packages have C sources, and there is a compiler for this one.
        .args(["--target", "aarch64-unknown-linux-gnu"])
        .args(tests::ALL)
        .args(["--", "-D", "warnings"]);
    progress.step("clippy for AArch64, which has code of its own", &mut clippy)?;
    test_memory_functions(workspace, &progress)?;
    let tests = build(workspace, &progress)?;
    let emulated = |name: &str| {
        let test = tests.get(name);
        test.with_context(|| format!("there is no test `{name}`"))
    };
    progress.step(
        "unit tests in qemu's user mode",
        Command::new("qemu-aarch64")
            .args(["-cpu", "max"])
            .arg(emulated("reheap_profile")?)
            .args(USER_MODE_WITHOUT.iter().flat_map(|name| ["--skip", name])),
    )?;
    let directory = workspace.target.join("aarch64-machine");
    let _ = fs::remove_dir_all(&directory);
    let programs = directory.join("programs");
    files::make_directory(&programs)?;
    progress.say("programs for the machine, and its kernel");
    let debian = Debian::get(workspace.target.join("aarch64-debian"))?;
    compile_programs(workspace, &debian, &programs)?;
    let mut machine = machine::Machine::new(&directory, &debian, workspace)?;
    machine.add_directory(&programs, "programs")?;
    // Where tests expect to write.
    machine.make_directory(&workspace.target.join(TARGET).join("tmp"));
    let skipped = MACHINE_WITHOUT.iter().flat_map(|name| ["--skip", name]);
    machine.add_test(
        emulated("it")?,
        "it",
        MACHINE_TESTS.into_iter().chain(skipped),
    )?;
    progress.say("a machine with an AArch64 processor");
    eprintln!("{}", machine.run()?);
    static_programs::test(workspace, &progress)?;
    progress.say("all passed");
    Ok(())
}

/// Only the static programs.
pub(crate) fn test_static_programs(workspace: &Workspace) -> Result<()> {
    static_programs::test(workspace, &Progress::start())
}

/// `make test` runs them too, but with one in seven offsets of both blocks.
fn test_memory_functions(workspace: &Workspace, progress: &Progress) -> Result<()> {
    let mut command = workspace.cargo();
    command.args([
        "test",
        "--locked",
        "--package",
        "reheap-mem",
        "--test",
        "it",
    ]);
    progress.step(
        "the memory functions in qemu's user mode",
        build_for(&mut command)
            .env(
                "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUNNER",
                "qemu-aarch64 -cpu max",
            )
            .env("REHEAP_TEST_EVERY_OFFSET", "1"),
    )
}

/// What Cargo says of each thing that it built.
#[derive(Deserialize)]
struct Built {
    target: Option<BuiltTarget>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct BuiltTarget {
    name: String,
}

/// The executables with tests of reheap-profile, by their names.
fn build(workspace: &Workspace, progress: &Progress) -> Result<BTreeMap<String, PathBuf>> {
    progress.say("the tests of reheap-profile");
    let mut command = workspace.cargo();
    command.args(["test", "--no-run", "--locked", "--package=reheap-profile"]);
    build_for(&mut command)
        .args(["--lib", "--test=it", "--message-format=json"])
        // For the C of dependencies. glibc's headers do for it, but musl lacks what libgcc asks about the processor.
        .env("CC_aarch64_unknown_linux_musl", GCC)
        .env("CFLAGS_aarch64_unknown_linux_musl", "-mno-outline-atomics")
        .stderr(Stdio::inherit());
    let output = command.output().context("cannot start cargo")?;
    if !output.status.success() {
        bail!("cannot build the tests for {TARGET}");
    }
    let lines = output.stdout.split(|byte| *byte == b'\n');
    let built = lines.filter_map(|line| serde_json::from_slice::<Built>(line).ok());
    let tests = built.filter_map(|built| Some((built.target?.name, built.executable?)));
    Ok(tests.collect())
}

fn compile_programs(workspace: &Workspace, debian: &Debian, directory: &Path) -> Result<()> {
    const FLAGS: [&str; 3] = ["-std=gnu11", "-fno-builtin", "-pthread"];
    let sources = workspace.root.join("crates/reheap-profile/tests/programs");
    for name in PROGRAMS.split(' ') {
        let source = sources.join(format!("{name}.c"));
        for (link, compiler, flag) in LINKS {
            let mut command = compiler_command(compiler);
            command.args(FLAGS).arg(flag).arg(&source);
            compile(&mut command, &directory.join(format!("{name}-{link}")))?;
        }
        if MUSL_DYNAMIC.contains(&name) {
            let (before, behind) = debian.musl_flags();
            let mut command = compiler_command(GCC);
            command.args(FLAGS).args(before).arg(source).args(behind);
            compile(&mut command, &directory.join(format!("{name}-MuslDynamic")))?;
        }
    }
    let mut command = compiler_command(GCC);
    command
        .args(HOOKS_FLAGS.split(' '))
        .arg(sources.join("hooks.c"));
    compile(&mut command, &directory.join("hooks.so"))
}

fn compiler_command(compiler: &str) -> Command {
    let mut words = compiler.split(' ');
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words).args(["-O2", "-w"]);
    command
}

fn compile(command: &mut Command, output: &Path) -> Result<()> {
    stdout_of(command.arg("-o").arg(output)).map(drop)
}
