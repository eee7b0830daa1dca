//! Commands that the tests start, and events that they wait for. A deadlock is one of the failures that the tests look
//! for, so everything that is waited for has a deadline.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Building an allocator, or a whole project, is part of the first test that needs it.
pub(crate) const DEADLINE: Duration = Duration::from_secs(900);
/// Far longer than anything takes on a busy machine that needs no compiler.
pub(crate) const EVENT_DEADLINE: Duration = Duration::from_secs(120);

/// Ends the message of a test that lacks a tool.
pub(crate) const INSTALL: &str = "`xtask/prepare install` installs what the tests need";

/// What a command left.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Outcome {
    /// The exit code; none if a signal ended it.
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// The outcome, which must be a success.
    #[track_caller]
    pub(crate) fn succeeded(self) -> Self {
        self.ended_with(0)
    }

    /// The outcome, which must be this exit code.
    #[track_caller]
    pub(crate) fn ended_with(self, code: i32) -> Self {
        let Self { stdout, stderr, .. } = &self;
        assert!(
            self.code() == Some(code),
            "{} instead of {code}\n--- stdout\n{stdout}--- stderr\n{stderr}",
            self.status
        );
        self
    }

    /// The outcome, which must have said these on standard error.
    #[track_caller]
    pub(crate) fn said(self, texts: &[&str]) -> Self {
        for text in texts {
            assert!(
                self.stderr.contains(text),
                "no `{text}` in:\n{}",
                self.stderr
            );
        }
        self
    }

    /// The outcome, which must have printed these on standard output.
    #[track_caller]
    pub(crate) fn printed(self, texts: &[&str]) -> Self {
        for text in texts {
            assert!(
                self.stdout.contains(text),
                "no `{text}` in:\n{}",
                self.stdout
            );
        }
        self
    }

    /// The outcome, which must not have printed this.
    #[track_caller]
    pub(crate) fn did_not_print(self, text: &str) -> Self {
        assert!(!self.stdout.contains(text), "`{text}` in:\n{}", self.stdout);
        self
    }

    /// The outcome, which must not have said this.
    #[track_caller]
    pub(crate) fn did_not_say(self, text: &str) -> Self {
        assert!(!self.stderr.contains(text), "`{text}` in:\n{}", self.stderr);
        self
    }
}

/// Runs to the end, without input.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> Outcome {
    run_within(command, DEADLINE)
}

/// Runs to the end, which must come by the deadline.
#[track_caller]
pub(crate) fn run_within(command: &mut Command, deadline: Duration) -> Outcome {
    Running::start(command.stdin(Stdio::null())).finish(deadline)
}

/// Runs to the end with this on standard input.
#[track_caller]
pub(crate) fn run_with_input(command: &mut Command, input: &[u8]) -> Outcome {
    let mut running = Running::start(command.stdin(Stdio::piped()));
    let mut stdin = running.child.stdin.take().expect("it is piped");
    let input = input.to_vec();
    std::thread::spawn(move || {
        // The program may end before it has read everything: that is its right.
        let _ = stdin.write_all(&input);
    });
    running.finish(DEADLINE)
}

/// A command whose output is being read, so that no pipe can fill up.
#[derive(Debug)]
pub(crate) struct Running {
    shown: String,
    child: Child,
    outputs: [Output; 2],
}

/// What came out of a pipe until now.
#[derive(Debug)]
struct Output {
    bytes: Shared,
    /// Closed at the end of the pipe; nothing is sent.
    end: Receiver<()>,
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Running {
    /// Starts it with what standard input is set to.
    #[track_caller]
    pub(crate) fn start(command: &mut Command) -> Self {
        let shown = format!("{command:?}");
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {shown}: {error}; {INSTALL}"));
        let stdout = Output::of(child.stdout.take().expect("it is piped"));
        let stderr = Output::of(child.stderr.take().expect("it is piped"));
        Self {
            shown,
            child,
            outputs: [stdout, stderr],
        }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(crate) fn has_ended(&self) -> bool {
        ends_within(self.pid(), Duration::ZERO)
    }

    /// Whether it has written this to standard error until now.
    pub(crate) fn has_said(&self, text: &str) -> bool {
        self.outputs[1].bytes.text().contains(text)
    }

    /// What the command writes into a FIFO until it has closed that; it must not end before.
    #[track_caller]
    pub(crate) fn says_through(&self, fifo: &Path) -> String {
        let (sender, events) = mpsc::channel();
        let (of_fifo, path, pid) = (sender.clone(), fifo.to_owned(), self.pid());
        // Opening waits for whoever writes, and so for ever if nobody does; then the end of the command comes first.
        // The receiver is gone when it knows.
        std::thread::spawn(move || of_fifo.send(Some(std::fs::read_to_string(path))));
        std::thread::spawn(move || ends_within(pid, DEADLINE).then(|| sender.send(None)));
        match events.recv_timeout(DEADLINE) {
            Ok(Some(text)) => text.expect("the FIFO is readable"),
            other => panic!(
                "{} said nothing through `{}` ({other:?}): {:?}",
                self.shown,
                fifo.display(),
                self.outputs
            ),
        }
    }

    /// Waits for the end of the output and of the process. A process that left children behind with its output open has
    /// not ended.
    #[track_caller]
    pub(crate) fn finish(mut self, deadline: Duration) -> Outcome {
        let until = Instant::now() + deadline;
        let left = || until.saturating_duration_since(Instant::now());
        let has_ended = |output: &Output| {
            output.end.recv_timeout(left()) == Err(RecvTimeoutError::Disconnected)
        };
        let is_over = self.outputs.iter().all(has_ended) && ends_within(self.pid(), left());
        let killed = (!is_over).then(|| self.child.kill());
        let [stdout, stderr] = self.outputs.map(|output| output.bytes.text());
        if let Some(killed) = killed {
            let shown = self.shown;
            panic!(
                "{shown} was not done after {deadline:?} ({killed:?})\n--- stdout\n{stdout}--- stderr\n{stderr}"
            );
        }
        Outcome {
            status: self.child.wait().expect("it was started here"),
            stdout,
            stderr,
        }
    }
}

impl Output {
    fn of(mut pipe: impl Read + Send + 'static) -> Self {
        let bytes = Shared::default();
        let (sender, end) = mpsc::channel();
        let mut to = bytes.clone();
        std::thread::spawn(move || {
            if let Err(error) = io::copy(&mut pipe, &mut to) {
                let _ = write!(to, "\n(cannot read on: {error})"); // cannot fail
            }
            drop(sender);
        });
        Self { bytes, end }
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("nobody panics").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{:?}", self.text())
    }
}

impl Shared {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().expect("nobody panics")).into_owned()
    }
}

/// Whether a process ends in that time. One that nobody has waited for yet has ended too.
pub(crate) fn ends_within(pid: Pid, time: Duration) -> bool {
    let process = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => process,
        Err(Errno::SRCH) => return true,
        Err(error) => panic!("cannot wait for process {pid}: {error}"),
    };
    let time = Timespec::try_from(time).expect("deadlines are short");
    let mut waited_for = [PollFd::new(&process, PollFlags::IN)];
    rustix::io::retry_on_intr(|| poll(&mut waited_for, Some(&time))).expect("it is open") > 0
}

/// Waits for the end of a process that need not be a child.
#[track_caller]
pub(crate) fn wait_for_end(pid: Pid) {
    assert!(
        ends_within(pid, EVENT_DEADLINE),
        "process {pid} still runs after {EVENT_DEADLINE:?}"
    );
}

/// How a child ended, which must be by the deadline.
#[track_caller]
pub(crate) fn status_of(child: &mut Child) -> ExitStatus {
    wait_for_end(Pid::from_child(child));
    child.wait().expect("it was started by the test")
}

/// What something gives that waits for an event, such as opening a FIFO; `event` is what has not come by the deadline.
#[track_caller]
pub(crate) fn in_time<T: Send + 'static>(
    event: &str,
    wait: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (sender, receiver) = mpsc::channel();
    // The receiver is gone when the deadline has passed: then nobody wants the answer.
    std::thread::spawn(move || drop(sender.send(wait())));
    receiver
        .recv_timeout(EVENT_DEADLINE)
        .unwrap_or_else(|_| panic!("after {EVENT_DEADLINE:?} there is not yet: {event}"))
}

/// Makes a FIFO that processes say through how far they are.
#[track_caller]
pub(crate) fn make_fifo(path: &Path) {
    run(Command::new("mkfifo").arg(path)).succeeded();
}

/// Tries until there is an answer, for what tells nobody when it is ready, such as a server that begins to listen.
/// Between two attempts it waits a moment for the end of a process, which is the one event that there may be.
#[track_caller]
pub(crate) fn try_until<T, E: std::fmt::Display>(
    what: &str,
    process: Pid,
    mut attempt: impl FnMut() -> Result<T, E>,
) -> T {
    let started = Instant::now();
    loop {
        let error = match attempt() {
            Ok(answer) => return answer,
            Err(error) => error,
        };
        assert!(
            started.elapsed() < EVENT_DEADLINE,
            "{what} did not succeed within {EVENT_DEADLINE:?}: {error}"
        );
        ends_within(process, Duration::from_millis(2));
    }
}

/// Connects to a server that was just started, and must not end before it listens.
#[track_caller]
pub(crate) fn connect<T, E: std::fmt::Display>(
    server: &mut Child,
    mut attempt: impl FnMut() -> Result<T, E>,
) -> T {
    let process = Pid::from_child(server);
    try_until("connecting to the server", process, || {
        if let Some(status) = server.try_wait().expect("it was started by the test") {
            panic!("the server ended with {status}");
        }
        attempt()
    })
}
