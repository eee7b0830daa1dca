//! Compiles programs with `probe.c`, runs them, and reads what they wrote.

use reheap_profile::profile::Frame;
use reheap_profile::stacks::{Captured, Modules, Processor, Stack, Symbols, Unwinder};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

pub(crate) fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/stacks")
        .join(name)
}

/// The standard output of a command that succeeds.
pub(crate) fn command(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| {
            panic!("cannot run {program}: {error}; apt-get install gcc g++ binutils dwz musl-tools gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user")
        });
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) struct Workshop {
    directory: tempfile::TempDir,
}

impl Workshop {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        Self { directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn path_text(&self, name: &str) -> String {
        self.path(name).to_str().expect("UTF-8").to_owned()
    }

    fn hooks() -> String {
        format!("-I{}/hooks", env!("CARGO_MANIFEST_DIR"))
    }

    /// A program or library with `probe` in it.
    pub(crate) fn compile(&self, compiler: &str, name: &str, flags: &[&str]) -> PathBuf {
        let c_compiler = compiler.replace("g++", "gcc");
        let probe = self.path_text("probe.o");
        // As programs are with -rdynamic or stripped, `probe` keeps to itself what it needs.
        command(
            &c_compiler,
            &[
                "-O2",
                "-fPIC",
                "-c",
                &Self::hooks(),
                source("probe.c").to_str().expect("UTF-8"),
                "-o",
                &probe,
            ],
        );
        self.link(compiler, name, flags, &[&probe])
    }

    pub(crate) fn compile_without_probe(
        &self,
        compiler: &str,
        name: &str,
        flags: &[&str],
    ) -> PathBuf {
        self.link(compiler, name, flags, &[])
    }

    fn link(&self, compiler: &str, name: &str, flags: &[&str], objects: &[&str]) -> PathBuf {
        let program = self.path(
            Path::new(name)
                .file_stem()
                .and_then(|stem| stem.to_str())
                .expect("UTF-8"),
        );
        let source = source(name);
        let mut arguments = flags.to_vec();
        arguments.extend([
            source.to_str().expect("UTF-8"),
            "-o",
            program.to_str().expect("UTF-8"),
        ]);
        arguments.extend(objects);
        command(compiler, &arguments);
        program
    }

    pub(crate) fn compile_rust(&self, name: &str, flags: &[&str]) -> PathBuf {
        let probe = self.path_text("probe.o");
        let musl = flags.iter().any(|flag| flag.ends_with("musl"));
        command(
            if musl { "musl-gcc" } else { "gcc" },
            &[
                "-O2",
                "-fPIC",
                "-c",
                &Self::hooks(),
                source("probe.c").to_str().expect("UTF-8"),
                "-o",
                &probe,
            ],
        );
        command("ar", &["rcs", &self.path_text("libprobe.a"), &probe]);
        let program = self.path_text("generic");
        let mut arguments = vec![
            "-O",
            "--edition=2024",
            "-L",
            self.directory.path().to_str().expect("UTF-8"),
            "-o",
            &program,
        ];
        arguments.extend(flags);
        let source = source(name);
        arguments.push(source.to_str().expect("UTF-8"));
        command("rustc", &arguments);
        program.into()
    }

    /// A library that captures a program's calls of getuid.
    pub(crate) fn preload_probe(&self) -> PathBuf {
        let library = self.path("preload.so");
        command(
            "gcc",
            &[
                "-O2",
                "-fPIC",
                "-shared",
                &Self::hooks(),
                "-DPROBE=unsigned getuid(void)",
                "-DPROBE_RESULT=geteuid()",
                source("probe.c").to_str().expect("UTF-8"),
                "-o",
                library.to_str().expect("UTF-8"),
            ],
        );
        library
    }

    /// Moves a program's debug information out of it; the directory to give to `Symbols`.
    pub(crate) fn split_debug_information(&self, program: &Path, form: &str) -> PathBuf {
        let program_text = program.to_str().expect("UTF-8");
        let global = self.path("global");
        let debug = if form == "build-id" {
            let notes = command("readelf", &["-n", program_text]);
            let id = notes
                .split("Build ID: ")
                .nth(1)
                .and_then(|rest| rest.split_whitespace().next())
                .expect("a build-id");
            global.join(format!(".build-id/{}/{}.debug", &id[..2], &id[2..]))
        } else {
            self.path(".debug/separate.debug")
        };
        std::fs::create_dir_all(debug.parent().expect("it has one")).expect("a directory");
        let debug_text = debug.to_str().expect("UTF-8");
        command("objcopy", &["--only-keep-debug", program_text, debug_text]);
        command("strip", &[program_text]);
        if form == "link" {
            command(
                "objcopy",
                &[&format!("--add-gnu-debuglink={debug_text}"), program_text],
            );
        }
        global
    }

    pub(crate) fn copy(&self, program: &Path, name: &str) -> PathBuf {
        let copy = self.path(name);
        std::fs::copy(program, &copy).expect("it can be copied");
        copy
    }

    /// Moves what the programs' debug information has in common to a file of its own.
    pub(crate) fn share_debug_information(&self, programs: &[&Path]) {
        let common = self.path_text("common.debug");
        let mut arguments = vec!["-m", &common, "-M", &common];
        arguments.extend(
            programs
                .iter()
                .map(|program| program.to_str().expect("UTF-8")),
        );
        command("dwz", &arguments);
        assert!(
            self.path("common.debug").exists(),
            "dwz found nothing in common"
        );
    }

    pub(crate) fn run(&self, program: &Path, arguments: &[&str]) -> Vec<Sample> {
        self.samples(Command::new(program).args(arguments), Processor::native())
    }

    pub(crate) fn run_with_preload(
        &self,
        program: &Path,
        arguments: &[&str],
        preload: &Path,
    ) -> Vec<Sample> {
        self.samples(
            Command::new(program)
                .args(arguments)
                .env("LD_PRELOAD", preload),
            Processor::native(),
        )
    }

    pub(crate) fn run_aarch64(&self, program: &Path, arguments: &[&str]) -> Vec<Sample> {
        let mut qemu = Command::new("qemu-aarch64");
        qemu.args(["-L", "/usr/aarch64-linux-gnu"])
            .arg(program)
            .args(arguments);
        self.samples(&mut qemu, Processor::Aarch64)
    }

    fn samples(&self, command: &mut Command, machine: Processor) -> Vec<Sample> {
        for number in 0..10 {
            let _ = std::fs::remove_file(self.path(&format!("sample.{number}")));
        }
        let status = command
            .env("PROBE_OUT", self.path("sample"))
            .stdout(Stdio::null())
            .status()
            .unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
        assert!(status.success(), "{command:?}: {status}");
        (0..10)
            .map_while(|number| std::fs::read(self.path(&format!("sample.{number}"))).ok())
            .map(|bytes| Sample::parse(&bytes, machine))
            .collect()
    }

    /// Starts `host`, up to where it waits.
    pub(crate) fn start(&self, program: &Path, arguments: &[&str]) -> Running {
        let mut child = Command::new(program)
            .args(arguments)
            .env("PROBE_OUT", self.path("sample"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it can be started");
        let lines = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut running = Running {
            child,
            lines,
            sample: self.path("sample.0"),
        };
        running.expect("ready");
        running
    }
}

/// A program that waits for lines.
pub(crate) struct Running {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
    sample: PathBuf,
}

pub(crate) struct Watched {
    pub(crate) modules: Modules,
    pub(crate) unwinder: Unwinder,
}

impl Running {
    pub(crate) fn watch(&self) -> Watched {
        let mut modules = Modules::new();
        let unwinder = Unwinder::new(&mut modules, self.child.id());
        Watched { modules, unwinder }
    }

    pub(crate) fn next_sample(&mut self) -> Sample {
        self.say();
        self.expect("done");
        Sample::parse(
            &std::fs::read(&self.sample).expect("it was written"),
            Processor::native(),
        )
    }

    pub(crate) fn end(mut self) {
        self.say();
        assert!(self.child.wait().expect("it ends").success());
    }

    fn say(&mut self) {
        self.child
            .stdin
            .as_mut()
            .expect("a pipe")
            .write_all(b"\n")
            .expect("it listens");
    }

    fn expect(&mut self, text: &str) {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a line");
        assert_eq!(line.trim(), text);
    }
}

/// One call of `probe`.
pub(crate) struct Sample {
    pub(crate) machine: Processor,
    /// The stack as backtrace(3) saw it, from the caller of `probe` on; empty without glibc.
    pub(crate) backtrace: Vec<u64>,
    pub(crate) captured: Vec<u8>,
    pub(crate) maps: Vec<u8>,
}

impl Sample {
    fn parse(bytes: &[u8], machine: Processor) -> Self {
        const CAPTURED_BYTES: usize = 32 + (16 << 10);
        let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight"));
        let count = word(0) as usize;
        let all: Vec<u64> = (0..count).map(|index| word(8 + index * 8)).collect();
        let (captured, maps) = bytes[8 + count * 8..].split_at(CAPTURED_BYTES);
        let captured = captured.to_vec();
        let caller = Captured::parse(&captured)
            .expect("whole")
            .registers
            .program_counter;
        // Without tables, backtrace(3) sees nothing.
        let from_caller = all
            .iter()
            .position(|address| *address == caller)
            .unwrap_or(count);
        Self {
            machine,
            backtrace: all[from_caller..].to_vec(),
            captured,
            maps: maps.to_vec(),
        }
    }

    pub(crate) fn captured(&self) -> Captured<'_> {
        Captured::parse(&self.captured).expect("whole")
    }

    pub(crate) fn unwind(&self) -> Unwound {
        let mut modules = Modules::new();
        let mut unwinder = Unwinder::from_maps(&mut modules, self.machine, &self.maps, None);
        let captured = self.captured();
        let stack = unwinder.unwind(&mut modules, &captured.registers, captured.stack);
        Unwound {
            modules,
            unwinder,
            stack,
        }
    }
}

pub(crate) struct Unwound {
    modules: Modules,
    unwinder: Unwinder,
    pub(crate) stack: Stack,
}

impl Unwound {
    pub(crate) fn frames(&self, symbols: &mut Symbols) -> Vec<Frame> {
        let addresses = self.stack.addresses.iter();
        addresses
            .flat_map(|address| symbols.frames(&self.modules, *address))
            .collect()
    }

    pub(crate) fn functions(&mut self, symbols: &mut Symbols) -> Vec<String> {
        self.frames(symbols)
            .into_iter()
            .map(|frame| frame.function)
            .collect()
    }

    pub(crate) fn assert_same_as_backtrace(&mut self, sample: &Sample) {
        let (unwinder, modules) = (&mut self.unwinder, &mut self.modules);
        let reference: Vec<_> = sample
            .backtrace
            .iter()
            .map(|address| unwinder.locate(modules, *address).expect("it is mapped"))
            .map(|address| (address.module, address.offset))
            .collect();
        let found: Vec<_> = self
            .stack
            .addresses
            .iter()
            .map(|address| (address.module, address.offset))
            .collect();
        assert_eq!(found, reference);
    }
}
