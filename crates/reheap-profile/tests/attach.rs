//! Hooks in running programs, and out of them again without a trace.

mod common;

use common::{DEADLINE, Link, Recording, compile, ends, hooks, scratch_directory, wait_until};
use reheap_profile::inject::{Attached, Left, Target, attach};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

const ALL: [Link; 4] = [Link::Musl, Link::Glibc, Link::GlibcPie, Link::Dynamic];

/// A program that runs until it is dropped.
struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Running {
    fn start(program: &Path) -> Self {
        let mut command = Command::new(program);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut running = Self { child, stdout };
        assert_eq!(running.line(), "running");
        running
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    fn signal(&self, signal: i32) {
        send(self.pid(), signal);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn send(pid: i32, signal: i32) {
    let signal = rustix::process::Signal::from_named_raw(signal).unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), signal).unwrap();
}

/// All code of a process: each executable mapping that has bytes, and they.
fn code(pid: i32) -> Vec<(String, Vec<u8>)> {
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    let maps = maps(pid);
    let code = maps
        .iter()
        .filter(|line| line.contains("r-xp") && !line.contains("[v"));
    code.map(|line| {
        let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let number = |text| u64::from_str_radix(text, 16).unwrap();
        let mut bytes = vec![0; (number(end) - number(start)) as usize];
        memory.read_exact_at(&mut bytes, number(start)).unwrap();
        (line.clone(), bytes)
    })
    .collect()
}

fn maps(pid: i32) -> Vec<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// The mappings of files and code: what allocators map for themselves changes all the time.
fn lasting_maps(pid: i32) -> Vec<String> {
    let lines = maps(pid).into_iter();
    lines
        .filter(|line| line.contains('/') || line.contains("r-xp"))
        .collect()
}

#[track_caller]
fn enter(pid: i32, recording: &Recording) -> Attached {
    let directory = scratch_directory();
    let target = Target::of_process(pid).unwrap_or_else(|error| panic!("{error}"));
    let hooks = hooks(directory.path());
    attach(&target, &hooks, &recording.path).unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
fn leave(attached: Attached, recording: &Recording) -> Left {
    let inside = || recording.count("inside");
    attached
        .detach(&inside, DEADLINE)
        .unwrap_or_else(|error| panic!("{error}"))
}

/// What a signal's field in `/proc/PID/status` says.
fn status(pid: i32, name: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find(|line| line.starts_with(name));
    line.unwrap().to_owned()
}

#[test]
fn a_running_program_is_counted_and_left_as_it_was() {
    for link in ALL {
        let directory = scratch_directory();
        let program = compile("forever", link, directory.path());
        let mut running = Running::start(&program);
        let pid = running.pid();
        let (maps_before, code_before) = (lasting_maps(pid), code(pid));
        let signals = ["SigBlk", "SigIgn", "SigCgt"].map(|name| status(pid, name));
        for round in 0..5 {
            let recording = Recording::new(&directory.path().join(format!("{link:?}-{round}")));
            let attached = enter(pid, &recording);
            assert_ne!(code(pid), code_before, "{link:?}");
            wait_until("calls are counted", || recording.count("malloc") > 1000);
            assert_eq!(leave(attached, &recording), Left::Nothing, "{link:?}");
            let counted = recording.counts();
            assert_eq!(lasting_maps(pid), maps_before, "{link:?}");
            assert!(code(pid) == code_before, "{link:?}: the code changed");
            assert_eq!(status(pid, "TracerPid"), "TracerPid:\t0");
            assert_eq!(recording.counts(), counted, "nothing is counted any more");
        }
        assert_eq!(
            ["SigBlk", "SigIgn", "SigCgt"].map(|name| status(pid, name)),
            signals
        );
        running.signal(libc::SIGTERM);
        assert_eq!(running.line(), "ended");
        assert_eq!(ends(&mut running.child).code(), Some(5), "{link:?}");
    }
}
