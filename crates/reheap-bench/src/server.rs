//! Measures a program that does not end by itself, while a load generator asks it for something.
//!
//! What is measured is the server: its memory, its CPU time, its page faults, from its start to its stop. Only the wall
//! time is the load generator's, because how long a server stands there says nothing; and so are the metrics and the
//! outputs, because it is the load generator that knows how fast the answers came.

use crate::failures::ended;
use crate::metrics::Metric;
use crate::output::{OnLine, Source};
use crate::results::{Cost, Outcome};
use crate::run::{CommandLine, Ending, Finished, Launcher, Limits, RunError};
use regex::bytes::Regex;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How often it is tried whether the server answers.
const KNOCK_EVERY: Duration = Duration::from_millis(10);
/// How long a server takes to get ready before somebody is told that it is waited for.
const TELL_AFTER: Duration = Duration::from_secs(1);
/// SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV and SIGSYS, by their numbers on Linux.
const CRASHES: [i32; 7] = [4, 5, 6, 7, 8, 11, 31];
/// How long a server on this machine may take to accept a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(1);

/// What a server is asked for, and how it is started and stopped.
#[derive(Clone, Debug)]
pub struct Load {
    /// The load generator.
    pub command: CommandLine,
    /// How the server shows that it can be asked.
    pub ready: ReadySign,
    /// How long the server may take until then.
    pub ready_within: Duration,
    /// How long the server may take to end when it was asked to (SIGTERM), before it is killed.
    pub stop_within: Duration,
}

/// How a server shows that it is ready.
#[derive(Clone, Debug)]
pub enum ReadySign {
    /// It accepts connections on this TCP port of this machine. It gets some that ask for nothing.
    Port(u16),
    /// It prints a line that contains this, on standard output or error.
    Line(Regex),
}

impl ReadySign {
    /// What is not there yet, for a person who waits: `nothing listens on port 80 yet`.
    pub fn missing(&self) -> String {
        match self {
            ReadySign::Port(port) => format!("nothing listens on port {port} yet"),
            ReadySign::Line(pattern) => format!("no line of its output matches `{pattern}` yet"),
        }
    }
}

/// What somebody who waits for a server is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// It takes a while, and began then.
    Since(Instant),
    /// Nobody has to wait any more.
    Over,
}

/// Why a server could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The server or the load generator could not be started or followed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Something else would answer in the server's place.
    #[error("cannot start `{}`: something listens on port {port} already", server.display())]
    PortInUse {
        /// The server's program.
        server: PathBuf,
        /// The port.
        port: u16,
    },
    /// It ended and said that all went well: most servers do that when they become a daemon.
    #[error("cannot measure `{}`: it ended by itself; a server has to stay in the foreground", server.display())]
    NotInForeground {
        /// The server's program.
        server: PathBuf,
        /// How it ended.
        finished: Box<Finished>,
    },
    /// It was not ready in time, or ended before it was.
    #[error("cannot measure `{}`: {}", server.display(), why_not_ready(sign, *within, finished.outcome))]
    NotReady {
        /// The server's program.
        server: PathBuf,
        /// What was waited for.
        sign: ReadySign,
        /// How long.
        within: Duration,
        /// [`Outcome::TimedOut`] if it was not ready in time, or how it ended.
        finished: Box<Finished>,
    },
}

impl ServeError {
    /// The server's run, if there was one.
    pub fn finished(&self) -> Option<&Finished> {
        match self {
            ServeError::NotInForeground { finished, .. }
            | ServeError::NotReady { finished, .. } => Some(finished),
            ServeError::Run(_) | ServeError::PortInUse { .. } => None,
        }
    }
}

fn why_not_ready(sign: &ReadySign, within: Duration, outcome: Outcome) -> String {
    let seconds = within.as_secs_f64();
    match (outcome, sign) {
        (Outcome::TimedOut, ReadySign::Port(port)) => {
            format!("nothing listened on port {port} within {seconds} s")
        }
        (Outcome::TimedOut, ReadySign::Line(pattern)) => {
            format!("no line of its output matched `{pattern}` within {seconds} s")
        }
        (other, ReadySign::Port(port)) => {
            format!("it {} before it listened on port {port}", ended(other))
        }
        (other, ReadySign::Line(pattern)) => {
            let ended = ended(other);
            format!("it {ended} before a line of its output matched `{pattern}`")
        }
    }
}

/// Starts a server, runs the load generator when it is ready, and stops the server.
///
/// The outcome is the load generator's; or the server's, if that ended before it was to, or crashed when it was to. The time limit is the load
/// generator's, the memory limit the server's. If the server takes a while to get ready, `on_wait` is called when that
/// is clear and when it is over, because nobody likes to look at a program that says nothing.
///
/// # Errors
/// If one of both cannot be started or ended, if somebody pressed Ctrl-C, if another program listens on the port
/// already, if the server does not get ready, or if it ends by itself and says that all went well, as one does that goes
/// into the background.
pub fn serve(
    launcher: &Launcher,
    server: &CommandLine,
    load: &Load,
    limits: &Limits<'_>,
    metrics: &[Metric],
    on_wait: &mut dyn FnMut(Waiting),
) -> Result<Finished, ServeError> {
    let load_limits = Limits {
        memory: None,
        ..*limits
    };
    let (ending, served, loaded) =
        while_ready(launcher, server, load, limits, on_wait, |has_ended| {
            let stop = || has_ended().then_some(Duration::ZERO);
            launcher.run_until(&load.command, &load_limits, metrics, &stop)
        })?;
    match ending {
        Ending::ByItself if served.outcome.is_success() => Err(ServeError::NotInForeground {
            server: server.program.clone(),
            finished: Box::new(served),
        }),
        Ending::ByItself => Ok(served),
        _ => Ok(together(served, loaded?)),
    }
}

/// Starts a server, and stops it when it is ready: shows in little time whether it can be measured at all.
///
/// # Errors
/// Those of [`serve`].
pub fn rehearse(
    launcher: &Launcher,
    server: &CommandLine,
    load: &Load,
    limits: &Limits<'_>,
    on_wait: &mut dyn FnMut(Waiting),
) -> Result<(), ServeError> {
    while_ready(launcher, server, load, limits, on_wait, |_| ()).map(|_| ())
}

/// Does this work while a server is ready, and says how the server ended after it. The work is told whether the server
/// has ended early.
fn while_ready<T>(
    launcher: &Launcher,
    server: &CommandLine,
    load: &Load,
    limits: &Limits<'_>,
    on_wait: &mut dyn FnMut(Waiting),
    work: impl FnOnce(&dyn Fn() -> bool) -> T,
) -> Result<(Ending, Finished, T), ServeError> {
    let program = || server.program.clone();
    if let ReadySign::Port(port) = load.ready
        && accepts(port)
    {
        return Err(ServeError::PortInUse {
            server: program(),
            port,
        });
    }
    let server_limits = Limits {
        time: None,
        ..*limits
    };
    let stop = AtomicBool::new(false);
    let (line_seen, ready) = channel();
    thread::scope(|scope| {
        let follow = || {
            // Dropped with this thread, which tells the other one that the server has ended.
            let line_seen = line_seen;
            let mut on_line = |_: Source, line: &[u8]| {
                if matches!(&load.ready, ReadySign::Line(pattern) if pattern.is_match(line)) {
                    // The other side is gone when it has seen enough.
                    let _ = line_seen.send(());
                }
            };
            let on_line: Option<&mut OnLine<'_>> = match load.ready {
                ReadySign::Line(_) => Some(&mut on_line),
                ReadySign::Port(_) => None,
            };
            let stop = || stop.load(Ordering::Relaxed).then_some(load.stop_within);
            launcher.follow(server, &server_limits, on_line, &stop)
        };
        let running = thread::Builder::new().spawn_scoped(scope, follow);
        let running = running.map_err(|reason| RunError::Follow {
            program: program(),
            reason,
        })?;
        let readiness = wait_until_ready(load, &ready, limits, on_wait);
        let done = (readiness == Readiness::Ready).then(|| work(&|| running.is_finished()));
        stop.store(true, Ordering::Relaxed);
        let (ending, served) = running.join().expect("following a server does not panic")?;
        if let Some(done) = done {
            return Ok((ending, served, done));
        }
        if readiness == Readiness::Interrupted {
            return Err(RunError::Interrupted.into());
        }
        let outcome = match ending {
            Ending::ByItself => served.outcome,
            _ => Outcome::TimedOut,
        };
        let server = program();
        let finished = Box::new(Finished { outcome, ..served });
        if outcome.is_success() {
            return Err(ServeError::NotInForeground { server, finished });
        }
        Err(ServeError::NotReady {
            server,
            sign: load.ready.clone(),
            within: load.ready_within,
            finished,
        })
    })
}

fn together(served: Finished, loaded: Finished) -> Finished {
    let outcome = match served.outcome {
        Outcome::Signalled(signal) if CRASHES.contains(&signal) => served.outcome,
        Outcome::OutOfMemory => served.outcome,
        _ => loaded.outcome,
    };
    Finished {
        outcome,
        cost: Cost {
            wall_seconds: loaded.cost.wall_seconds,
            ..served.cost
        },
        counters: served.counters,
        ..loaded
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Readiness {
    Ready,
    Ended,
    TooLate,
    Interrupted,
}

fn wait_until_ready(
    load: &Load,
    line_seen: &Receiver<()>,
    limits: &Limits<'_>,
    on_wait: &mut dyn FnMut(Waiting),
) -> Readiness {
    let began = Instant::now();
    let mut was_told = false;
    let readiness = loop {
        if matches!(load.ready, ReadySign::Port(port) if accepts(port)) {
            break Readiness::Ready;
        }
        match line_seen.recv_timeout(KNOCK_EVERY) {
            Ok(()) => break Readiness::Ready,
            Err(RecvTimeoutError::Disconnected) => break Readiness::Ended,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if limits
            .interrupted
            .is_some_and(|flag| flag.load(Ordering::Relaxed))
        {
            break Readiness::Interrupted;
        }
        if began.elapsed() > load.ready_within {
            break Readiness::TooLate;
        }
        if began.elapsed() >= TELL_AFTER && !was_told {
            on_wait(Waiting::Since(began));
            was_told = true;
        }
    };
    if was_told {
        on_wait(Waiting::Over);
    }
    readiness
}

/// Whether something listens on this port, under either version of the address of this machine.
fn accepts(port: u16) -> bool {
    [
        SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        (Ipv6Addr::LOCALHOST, port).into(),
    ]
    .iter()
    .any(|address| TcpStream::connect_timeout(address, CONNECT_WITHIN).is_ok())
}
