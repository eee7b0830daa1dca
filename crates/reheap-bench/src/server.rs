//! Measures a program that does not end by itself, while a load generator asks it for something.
//!
//! What is measured is the server: its memory, its CPU time, its page faults, from its start to its stop. Only the wall
//! time is the load generator's, because how long a server stands there says nothing; and so are the metrics and the
//! outputs, because it is the load generator that knows how fast the answers came.

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
    },
}

/// Starts a server, runs the load generator when it is ready, and stops the server.
///
/// The outcome is the load generator's; or the server's, if that ended before it was to, or [`Outcome::TimedOut`] if it
/// did not get ready. The time limit is the load generator's, the memory limit the server's.
///
/// # Errors
/// If one of both cannot be started or ended, if somebody pressed Ctrl-C, if another program listens on the port
/// already, or if the server ends by itself and says that all went well, as one does that goes into the background.
pub fn serve(
    launcher: &Launcher,
    server: &CommandLine,
    load: &Load,
    limits: &Limits<'_>,
    metrics: &[Metric],
) -> Result<Finished, ServeError> {
    if let ReadySign::Port(port) = load.ready
        && accepts(port)
    {
        return Err(ServeError::PortInUse {
            server: server.program.clone(),
            port,
        });
    }
    let server_limits = Limits {
        time: None,
        ..*limits
    };
    let load_limits = Limits {
        memory: None,
        ..*limits
    };
    let stop = AtomicBool::new(false);
    let (line_seen, ready) = channel();
    thread::scope(|scope| {
        let running = scope.spawn(|| {
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
        });
        let readiness = wait_until_ready(load, &ready, limits);
        let loaded = (readiness == Readiness::Ready).then(|| {
            let stop = || running.is_finished().then_some(Duration::ZERO);
            launcher.run_until(&load.command, &load_limits, metrics, &stop)
        });
        stop.store(true, Ordering::Relaxed);
        let (ending, served) = running.join().expect("following a server does not panic")?;
        match loaded {
            _ if ending == Ending::ByItself && served.outcome.is_success() => {
                Err(ServeError::NotInForeground {
                    server: server.program.clone(),
                })
            }
            _ if ending == Ending::ByItself => Ok(served),
            Some(loaded) => Ok(together(served, loaded?)),
            None => Ok(Finished {
                outcome: Outcome::TimedOut,
                ..served
            }),
        }
    })
}

fn together(served: Finished, loaded: Finished) -> Finished {
    Finished {
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

fn wait_until_ready(load: &Load, line_seen: &Receiver<()>, limits: &Limits<'_>) -> Readiness {
    let began = Instant::now();
    loop {
        if matches!(load.ready, ReadySign::Port(port) if accepts(port)) {
            return Readiness::Ready;
        }
        match line_seen.recv_timeout(KNOCK_EVERY) {
            Ok(()) => return Readiness::Ready,
            Err(RecvTimeoutError::Disconnected) => return Readiness::Ended,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if limits
            .interrupted
            .is_some_and(|it| it.load(Ordering::Relaxed))
        {
            return Readiness::Interrupted;
        }
        if began.elapsed() > load.ready_within {
            return Readiness::TooLate;
        }
    }
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
