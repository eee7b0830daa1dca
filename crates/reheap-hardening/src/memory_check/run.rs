//! One run of the command.

use super::GLIBCS_CHECKS;
use super::seen::Seen;
use super::stderr::Stderr;
use anyhow::Context as _;
use reheap_allocators::complaints::Complaints;
use reheap_allocators::probe::Recording;
use reheap_allocators::recording::RecordingError;
use reheap_allocators::target::Target;
use reheap_bench::run::kill_everything;
use reheap_command::choice::Choice;
use reheap_command::interrupt;
use reheap_command::ui::Failure;
use reheap_preload::census::Census;
use reheap_proc::tree::signal_descendants;
use reheap_profile::deaths::{self, Stop, WatchError};
use reheap_subject::program::Program;
use reheap_variants::bench::reach::Unreachable;
use reheap_workshop::preloading;
use reheap_workshop::workshop::Workshop;
use rustix::process::{Signal, getpid};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// How soon the command ends after the user's wish, or the time limit.
const INTERVAL: Duration = Duration::from_millis(50);
/// How long a command has to end by itself after the time limit.
const GRACE: Duration = Duration::from_secs(3);

/// What every run needs.
pub(super) struct Bench<'a> {
    program: &'a Program,
    command: &'a [OsString],
    workshop: &'a Workshop,
    target: Target,
    interrupted: Arc<AtomicBool>,
    unreachable: Unreachable,
}

impl<'a> Bench<'a> {
    pub(super) fn prepare(
        program: &'a Program,
        command: &'a [OsString],
        workshop: &'a Workshop,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            program,
            command,
            workshop,
            target: program.target().context("there is no library for it")?,
            interrupted: interrupt::on_signals()?,
            unreachable: Unreachable::default(),
        })
    }

    /// The library of an allocator, built if need be.
    pub(super) fn library(&self, choice: &Choice) -> anyhow::Result<PathBuf> {
        let library = preloading::file(choice, self.program, self.workshop)?;
        library.ok_or_else(|| {
            let failure = Failure::usage("the command runs with `stock` anyway: name others");
            let hint = format!("glibc's own checks: -a '{GLIBCS_CHECKS}'");
            failure.hint(hint).into()
        })
    }

    /// A run with the libc's own allocator.
    pub(super) fn run_as_it_is(
        &self,
        stock: &Choice,
        time_limit: Duration,
    ) -> anyhow::Result<Seen> {
        let complaints = &stock.allocator.complaints;
        self.watch(Vec::new(), complaints, Some(time_limit), &mut |_| {})
    }

    /// A run with this allocator, which must have been there.
    pub(super) fn run(
        &self,
        choice: &Choice,
        library: &Path,
        time_limit: Option<Duration>,
    ) -> anyhow::Result<Seen> {
        let complaints = &choice.allocator.complaints;
        let preload = preloading::for_variable(library, &self.target, self.workshop)?;
        let mut environment = preloading::environment(choice, Some(&preload));
        let preload = preloading::take_out(&mut environment);
        let recording = Recording::create()?;
        let probe = preloading::probe(&self.target, self.workshop)?;
        environment.extend(recording.environment(&probe, preload.as_deref()));
        environment.extend(
            complaints
                .variable
                .map(|(name, value)| (name.into(), value.into())),
        );
        let file = library
            .canonicalize()
            .unwrap_or_else(|_| library.to_owned());
        let mut census = Census::new(&file, self.target.libc());
        let mut before_end = |process: i32| census.look(process.unsigned_abs());
        let mut seen = self.watch(environment, complaints, time_limit, &mut before_end)?;
        seen.leave_out(&probe);
        let observation = match recording.observation() {
            // It is in the memory of the command.
            Err(RecordingError::Damaged { .. }) => {
                seen.overwrote_record = true;
                return Ok(seen);
            }
            observation => observation?,
        };
        let active = observation.active(library);
        seen.activity = Some(active.or_else(|why| {
            census
                .loaded_by(&why)
                .ok_or_else(|| preloading::explained(why, self.program, library).to_string())
        }));
        let unreachable = &self.unreachable;
        seen.unreached = unreachable.of(&observation, self.target.libc(), |read| read());
        let (uncounted, unknown) = census.unheard(&observation);
        seen.uncounted = uncounted;
        seen.unreached.extend(unknown);
        Ok(seen)
    }

    fn watch(
        &self,
        environment: Vec<(OsString, OsString)>,
        complaints: &Complaints,
        time_limit: Option<Duration>,
        before_end: &mut (dyn FnMut(i32) + Send),
    ) -> anyhow::Result<Seen> {
        let (file, words) = self.program.route.words(self.command);
        let (reader, writer) = io::pipe().context("cannot make a pipe")?;
        let mut command = Command::new(file);
        command
            .arg0(words[0])
            .args(&words[1..])
            .envs(environment)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(writer);
        let stderr = Stderr::new(reader, complaints).context("cannot prepare a pipe")?;
        let (began, interrupted): (_, &AtomicBool) = (Instant::now(), &self.interrupted);
        let (running, has_ended) = mpsc::channel();
        let watched = thread::scope(|scope| {
            let (read, end) = (thread::Builder::new(), thread::Builder::new());
            let reading = read.spawn_scoped(scope, || stderr.read())?;
            let in_time = move || end_in_time(time_limit, interrupted, &has_ended);
            let ending = end.spawn_scoped(scope, in_time)?;
            let watched = deaths::watch(command, &mut |stop| match stop {
                Stop::BeforeSignal(process) => stderr.signalled(process),
                Stop::BeforeEnd(process) => before_end(process),
            });
            drop(running);
            Ok::<_, io::Error>((watched, joined(reading), joined(ending)))
        });
        let (watched, read, limit) =
            watched.map_err(|error| Failure::no_thread("watches the command", &error))?;
        let took = began.elapsed();
        if interrupted.load(Ordering::SeqCst) {
            interrupt::wait_if_ending();
            return Err(interrupt::failure("interrupted").into());
        }
        let shown = self.program.route.file.display();
        let watched = watched.map_err(|error| untraceable(&error, &shown))?;
        read.with_context(|| format!("cannot read what `{shown}` writes"))?;
        let seen = Seen::new(watched, stderr.into_words(), took);
        Ok(match limit {
            Limit::Reached => seen.until_limit(),
            Limit::NotReached => seen,
        })
    }
}

/// Whether a run came to the time limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    NotReached,
    Reached,
}

/// Ends the command when the user wants that, or its time is over, until `has_ended` has no sender any more. The thread
/// that traces it cannot: it waits for the command.
fn end_in_time(
    time: Option<Duration>,
    interrupted: &AtomicBool,
    has_ended: &Receiver<()>,
) -> Limit {
    let began = Instant::now();
    let mut limit = Limit::NotReached;
    while has_ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
        let over = time.and_then(|time| began.elapsed().checked_sub(time));
        match over {
            _ if interrupted.load(Ordering::SeqCst) => kill_everything(),
            Some(over) if over > GRACE => kill_everything(),
            Some(_) if limit == Limit::NotReached => {
                limit = Limit::Reached;
                signal_descendants(getpid(), Signal::TERM);
            }
            _ => {}
        }
    }
    limit
}

fn joined<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    let result = thread.join();
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn untraceable(error: &WatchError, shown: &dyn std::fmt::Display) -> Failure {
    let failure = Failure::failed(format!("cannot check `{shown}`: {error}"));
    match error {
        WatchError::Trace(_) => failure.hint(
            "containers need the right to trace: docker run --cap-add SYS_PTRACE, and kernel.yama.ptrace_scope below 3",
        ),
        _ => failure,
    }
}
