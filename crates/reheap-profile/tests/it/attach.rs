//! Hooks in running programs, and out of them again without a trace.

use crate::common::{
    DEADLINE, Link, Recording, compile, ends, hooks, scratch_directory, wait_until,
};
use reheap_profile::inject::{Attached, InjectError, Left, Obstacle, ProcessError, Target, attach};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

const ALL: [Link; 5] = [
    Link::Musl,
    Link::Glibc,
    Link::GlibcPie,
    Link::Dynamic,
    Link::MuslDynamic,
];

/// A program that runs until it is dropped.
struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Running {
    fn start(program: &Path) -> Self {
        Self::start_command(&mut Command::new(program))
    }

    fn start_command(command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
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
    let target = Target::of_process(pid).unwrap_or_else(|error| panic!("{error}"));
    let hooks = hooks();
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

#[test]
fn system_calls_and_registers_survive() {
    for link in ALL {
        let directory = scratch_directory();
        let program = compile("waits", link, directory.path());
        let mut running = Running::start(&program);
        for round in 0..10 {
            let recording = Recording::new(&directory.path().join(format!("{link:?}-{round}")));
            let attached = enter(running.pid(), &recording);
            wait_until("calls are counted", || recording.count("malloc") > 10);
            assert_eq!(leave(attached, &recording), Left::Nothing, "{link:?}");
        }
        running.child.stdin.take().unwrap().write_all(b"x").unwrap();
        assert_eq!(running.line(), "undisturbed", "{link:?}");
        assert_eq!(ends(&mut running.child).code(), Some(5), "{link:?}");
    }
}

#[test]
fn a_child_that_was_forked_meanwhile_is_left_too() {
    for link in ALL {
        let directory = scratch_directory();
        let program = compile("forever", link, directory.path());
        let mut running = Running::start(&program);
        let maps_before = lasting_maps(running.pid());
        let code_before = code(running.pid());
        let recording = Recording::new(directory.path());
        let attached = enter(running.pid(), &recording);
        running.signal(libc::SIGUSR2);
        let line = running.line();
        let child: i32 = line.strip_prefix("forked ").unwrap().parse().unwrap();
        assert_ne!(code(child), code_before, "{link:?}");
        assert_eq!(leave(attached, &recording), Left::Nothing, "{link:?}");
        assert_eq!(lasting_maps(child), maps_before, "{link:?}");
        assert!(code(child) == code_before, "{link:?}: the code changed");
        let counted = recording.counts();
        send(child, libc::SIGTERM);
        running.signal(libc::SIGTERM);
        assert_eq!(running.line(), "ended");
        assert_eq!(recording.counts(), counted, "{link:?}");
    }
}

#[test]
fn a_process_that_ended_meanwhile_is_no_error() {
    let directory = scratch_directory();
    let program = compile("forever", Link::Glibc, directory.path());
    let mut running = Running::start(&program);
    let recording = Recording::new(directory.path());
    let attached = enter(running.pid(), &recording);
    running.signal(libc::SIGTERM);
    assert_eq!(running.line(), "ended");
    ends(&mut running.child);
    assert_eq!(leave(attached, &recording), Left::NoProcess);
}

#[test]
fn a_stopped_process_stays_stopped() {
    let directory = scratch_directory();
    let program = compile("forever", Link::Musl, directory.path());
    let mut running = Running::start(&program);
    running.signal(libc::SIGSTOP);
    wait_until("it stops", || {
        status(running.pid(), "State").contains("stopped")
    });
    let recording = Recording::new(directory.path());
    let attached = enter(running.pid(), &recording);
    wait_until("it stops again", || {
        status(running.pid(), "State").contains("stopped")
    });
    running.signal(libc::SIGCONT);
    wait_until("calls are counted", || recording.count("malloc") > 100);
    assert_eq!(leave(attached, &recording), Left::Nothing);
    running.signal(libc::SIGTERM);
    assert_eq!(running.line(), "ended");
}

#[test]
fn a_thread_that_stays_in_a_hook_keeps_the_memory_but_not_the_code() {
    let directory = scratch_directory();
    let program = compile("forever", Link::GlibcPie, directory.path());
    let mut running = Running::start(&program);
    let pid = running.pid();
    let code_before = code(pid);
    let recording = Recording::new(directory.path());
    let attached = enter(pid, &recording);
    let patience = std::time::Duration::from_millis(200);
    let left = attached.detach(&|| 1, patience).unwrap();
    assert!(
        matches!(left, Left::Memory { bytes } if bytes > 0),
        "{left:?}"
    );
    let code_now: Vec<_> = code(pid)
        .into_iter()
        .filter(|(line, _)| line.contains('/'))
        .collect();
    let code_before: Vec<_> = code_before
        .into_iter()
        .filter(|(line, _)| line.contains('/'))
        .collect();
    assert!(code_now == code_before, "the code changed");
    running.signal(libc::SIGTERM);
    assert_eq!(running.line(), "ended");
}

/// A command whose `running` has been read.
#[track_caller]
fn refusal(pid: i32) -> Obstacle {
    match Target::of_process(pid) {
        Err(ProcessError::Process(InjectError::Obstacle(obstacle))) => obstacle,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_obstacle_is_named() {
    let directory = scratch_directory();
    let program = compile("sandboxed", Link::Glibc, directory.path());
    let running = Running::start(&program);
    assert_eq!(refusal(running.pid()), Obstacle::Seccomp(running.pid()));

    let program = compile("forever", Link::Glibc, directory.path());
    let mut running = Running::start(&program);
    let thread = nix::unistd::Pid::from_raw(running.pid());
    nix::sys::ptrace::seize(thread, nix::sys::ptrace::Options::empty()).unwrap();
    assert!(matches!(
        refusal(running.pid()),
        Obstacle::AlreadyTraced { .. }
    ));
    running.child.kill().unwrap();
    ends(&mut running.child);
    assert_eq!(refusal(running.pid()), Obstacle::NoProcess(running.pid()));
}

/// Opening a pipe waits until somebody writes, and a device may do anything.
#[test]
fn a_library_that_is_no_regular_file_is_not_opened() {
    let directory = scratch_directory();
    let program = compile("misnamed", Link::Dynamic, directory.path());
    let pipe = directory.path().join("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    for path in [&pipe, Path::new("/dev/null")] {
        let running = Running::start_command(Command::new(&program).arg(path));
        let refused = Target::of_process(running.pid()).unwrap_err();
        let expected = format!(
            "its library `{}` cannot be read: it is not a regular file",
            path.display()
        );
        assert_eq!(refused.to_string(), expected);
    }
    let running = Running::start_command(&mut Command::new(&program));
    assert!(Target::of_process(running.pid()).is_ok());
}

#[test]
fn leaving_one_process_leaves_the_hooks_in_another_alone() {
    let directory = scratch_directory();
    let program = compile("forever", Link::Musl, directory.path());
    let processes = [Running::start(&program), Running::start(&program)];
    let recordings = ["a", "b"].map(|name| Recording::new(&directory.path().join(name)));
    let first = enter(processes[0].pid(), &recordings[0]);
    let second = enter(processes[1].pid(), &recordings[1]);
    assert_eq!(leave(first, &recordings[0]), Left::Nothing);
    let before = recordings[1].count("malloc");
    wait_until("the other is still counted", || {
        recordings[1].count("malloc") > before + 1000
    });
    assert_eq!(leave(second, &recordings[1]), Left::Nothing);
}

#[test]
fn a_running_program_of_somebody_else_is_left_as_it_was() {
    const LOOP: &str =
        r#"$| = 1; print "running\n"; while (1) { my @all = map { "x" x $_ } 1 .. 300; }"#;
    let mut command = Command::new("perl");
    let running = Running::start_command(command.args(["-e", LOOP]));
    let directory = scratch_directory();
    let (maps_before, code_before) = (lasting_maps(running.pid()), code(running.pid()));
    let recording = Recording::new(directory.path());
    let attached = enter(running.pid(), &recording);
    wait_until("calls are counted", || recording.count("malloc") > 1000);
    assert_eq!(leave(attached, &recording), Left::Nothing);
    assert_eq!(lasting_maps(running.pid()), maps_before);
    assert!(code(running.pid()) == code_before, "the code changed");
}
