//! Runs a command with hooks in front of its malloc, and watches it.
//!
//! A dynamic program gets the hooks as a preload, and so do all programs that it starts. One whose Rust code has an
//! allocator of its own calls that past malloc, so it gets jumps, as a static program does. This process runs beside the
//! command and waits for it, as `time` does: Ctrl-C is for the command, which has it from the terminal, and other requests
//! to end are passed on to it.

mod attached;
mod unseen;

use anyhow::Context as _;
use reheap_allocators::own_library::{self, OwnLibrary};
use reheap_allocators::preload;
use reheap_allocators::target::{Libc, Target};
use reheap_command::env_vars;
use reheap_command::output::GrowingFile;
use reheap_command::sys::handover;
use reheap_command::ui::{self, Failure};
use reheap_elf::identify::Kind;
use reheap_graft::Located;
use reheap_profile::hooks;
use reheap_profile::inject::{self, HooksLibrary, Injection};
use reheap_profile::observer::{INTERVAL, Injected, Observer};
use reheap_profile::profile::{Access, Ending, FORMAT, Profile};
use reheap_profile::recording::{self, Recording};
use reheap_subject::limits;
use reheap_subject::program::Program;
use reheap_trace::TraceError;
use reheap_trace::ring::Clock;
use reheap_trace::writer::Written;
use reheap_workshop::workshop::Workshop;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

/// The hooks.
const HOOKS: OwnLibrary = own_library::hooks(hooks::SOURCE, hooks::EXPORTS);

/// How long to wait for the threads of a process to leave the hooks.
const HOOKS_PATIENCE: Duration = Duration::from_secs(5);

/// What is to be profiled.
pub(crate) struct Plan<'a> {
    pub(crate) subject: Subject<'a>,
    /// Mean distance between two sampled stacks, in allocated bytes; 0 for none.
    pub(crate) every: u64,
    /// The file that every call is written to.
    pub(crate) trace: Option<&'a Path>,
}

/// A command that is started, or a process that runs.
pub(crate) enum Subject<'a> {
    Command(&'a [OsString]),
    Process { pid: u32, time: Duration },
}

/// What was seen.
pub(crate) struct Profiled {
    pub(crate) profile: Profile,
    /// Whether the trace is whole, if there is to be one.
    pub(crate) trace: anyhow::Result<()>,
}

/// Watches to the end, and says what the hooks saw.
pub(crate) fn profile(plan: &Plan<'_>, workshop: &Workshop) -> anyhow::Result<Profiled> {
    let clock = plan.trace.map(|_| Clock::of_this_machine());
    let recording = recording(plan.every, clock.as_ref())?;
    let mut observer = Observer::new(recording).map_err(no_thread)?;
    let trace = match (plan.trace, clock) {
        (Some(path), Some(clock)) => Some(Trace::begin(path, clock, &mut observer)?),
        _ => None,
    };
    let (command, ending) = match plan.subject {
        Subject::Command(words) => {
            let ending = run(words, &mut observer, workshop)?;
            let words = words.iter().map(|word| word.to_string_lossy().into_owned());
            (words.collect(), ending)
        }
        Subject::Process { pid, time } => attached::watch(pid, time, &mut observer, workshop)?,
    };
    let observed = observer.finish();
    let trace = match (trace, observed.traced) {
        (Some(trace), Some(traced)) => trace.finish(traced),
        _ => Ok(()),
    };
    let (processes, mut unseen) = unseen::identified(observed.processes);
    unseen.extend(observed.others.iter().map(unseen::without_hooks));
    unseen.extend(unseen::refused(
        observed.refused,
        observed.uncounted_starts,
        observed.hidden,
    ));
    let profile = Profile {
        format: FORMAT,
        reheap: env!("CARGO_PKG_VERSION").to_owned(),
        command,
        seconds: observed.time.as_secs_f64(),
        ending,
        every_bytes: (plan.every > 0).then_some(plan.every),
        processes,
        unseen: unseen::merged(unseen),
    };
    Ok(Profiled { profile, trace })
}

/// What the command shares with reheap.
fn recording(every: u64, clock: Option<&Clock>) -> anyhow::Result<Recording> {
    let needed = recording::bytes(clock.is_some());
    let limit = limits::address_space_bytes().filter(|limit| *limit < needed);
    Recording::create(every, clock).map_err(|error| {
        let text = format!("cannot make memory to share with the command: {error}");
        let (failure, needed) = (Failure::failed(text), limits::shown(needed));
        match limit.map(limits::shown) {
            Some(limit) => failure.hint(format!(
                "it needs {needed} of address space, though little memory, and the limit is {limit}: lift it with \
                 `ulimit -v unlimited`"
            )),
            None => failure,
        }
        .into()
    })
}

fn no_thread(error: io::Error) -> Failure {
    Failure::no_thread("watches the command", &error)
}

/// The trace while it is recorded. What had its name before is not lost to a command that cannot even start.
struct Trace<'a> {
    path: &'a Path,
    file: GrowingFile,
}

impl<'a> Trace<'a> {
    fn begin(path: &'a Path, clock: Clock, observer: &mut Observer) -> anyhow::Result<Self> {
        let cannot = || format!("cannot write the trace `{}`", path.display());
        let file = GrowingFile::begin(path).with_context(cannot)?;
        let writes = file.file().with_context(cannot)?;
        observer.trace(clock, writes).map_err(no_thread)?;
        Ok(Self { path, file })
    }

    /// Gives the trace its name, if it is whole. If not, what had that name before is not lost for a part.
    fn finish(self, traced: Result<Written, TraceError>) -> anyhow::Result<()> {
        let shown = self.path.display();
        let cannot = || format!("cannot write the trace `{shown}`");
        let written = match traced {
            Ok(written) => written,
            Err(error) => {
                let part = self.file.keep_unfinished().with_context(cannot)?;
                let failure = Failure::failed(format!("{}: {error}", cannot()));
                return Err(match part {
                    Some(part) => failure.hint(format!(
                        "what was written is in `{}`, and can be performed as far as it goes",
                        part.display()
                    )),
                    None => failure,
                }
                .into());
            }
        };
        self.file.finish().with_context(cannot)?;
        let (calls, bytes) = (written.totals.calls, written.bytes);
        let each = bytes as f64 / calls.max(1) as f64;
        let missing = match written.totals.lost_calls {
            0 => String::new(),
            lost => format!("; at least {lost} calls are missing"),
        };
        ui::note(&format!(
            "wrote {shown}: {calls} calls in {bytes} bytes, {each:.1} each{missing}"
        ));
        Ok(())
    }
}

/// Runs the command to its end.
fn run(words: &[OsString], observer: &mut Observer, workshop: &Workshop) -> anyhow::Result<Ending> {
    let program = Program::to_run(&words[0])?;
    let library = library(program.target(), workshop)?;
    // A signal that is ignored, as by nohup(1), stays ignored for both.
    let requests = [SIGINT, SIGQUIT, SIGTERM, SIGHUP];
    let watched = requests
        .into_iter()
        .filter(|signal| !handover::is_ignored(*signal));
    let mut signals = Signals::new(watched);
    let signals = signals
        .as_mut()
        .map_err(|_| Failure::failed("cannot watch for signals"))?;
    let mut child = start(&program, words, &library, observer, workshop)?;
    observer.sample_cpu_time(child.id());
    observer.begins_with(child.id());
    watch(&child, observer, signals)?;
    observer.look_last();
    ending(&mut child)
}

/// What the command's environment has more: the hooks as its first preload. A static program ignores that, but not the
/// programs that it starts.
fn variables(
    recording: &Recording,
    library: &Path,
    workshop: &Workshop,
) -> anyhow::Result<[(OsString, OsString); 2]> {
    let mut preloads = for_variable(library, workshop)?.into_os_string();
    if let Some(present) = env_vars::variable(env_vars::LD_PRELOAD) {
        preloads.push(":");
        preloads.push(present);
    }
    Ok([
        (env_vars::LD_PRELOAD.into(), preloads),
        (recording::VARIABLE.into(), recording.path().into()),
    ])
}

/// Starts the command, with hooks that are in it before its first instruction.
fn start(
    program: &Program,
    words: &[OsString],
    library: &Path,
    observer: &mut Observer,
    workshop: &Workshop,
) -> anyhow::Result<Child> {
    let shown = program.route.file.display();
    if let Some(privilege) = program.privilege {
        let text = format!("cannot profile `{shown}`: it is {privilege}, so it ignores LD_PRELOAD");
        return Err(Failure::failed(text).into());
    }
    if let Some(reason) = unseen::other_processor(&program.identity) {
        return Err(Failure::failed(format!("cannot profile `{shown}`: {reason}")).into());
    }
    let located = located(program)?;
    let variables = variables(observer.recording(), library, workshop)?;
    // The hooks must not get into the same process twice.
    let variables = match &located {
        Some(_) if program.identity.kind == Kind::Dynamic => &variables[1..],
        _ => &variables[..],
    };
    let (file, words) = program.route.words(words);
    let mut command = Command::new(file);
    let executes = |command: &mut Command| {
        let cannot = || format!("cannot run `{shown}`");
        handover::execute_in_child(command, file, &words, variables).with_context(cannot)
    };
    let Some(located) = located else {
        executes(&mut command)?;
        observer.begin().map_err(no_thread)?;
        return command
            .spawn()
            .with_context(|| format!("cannot run `{shown}`"));
    };
    start_with_jumps(program, &located, command, executes, library, observer)
}

/// Where the functions are that jumps have to be put into; none if a preload reaches them.
fn located(program: &Program) -> anyhow::Result<Option<Located>> {
    let cannot = || format!("cannot profile `{}`", program.route.file.display());
    let is_dynamic = program.identity.kind == Kind::Dynamic;
    if is_dynamic && !unseen::allocates_past_preloads(&program.identity) {
        return Ok(None);
    }
    let bytes = fs::read(&program.route.file).with_context(cannot)?;
    match reheap_graft::locate(&*bytes) {
        Ok(located) => Ok(Some(located)),
        // What the preload misses is named in the profile.
        Err(_) if is_dynamic => Ok(None),
        Err(error) => Err(error).with_context(cannot),
    }
}

/// Starts a program, and puts the hooks into its code.
fn start_with_jumps(
    program: &Program,
    located: &Located,
    command: Command,
    executes: impl FnOnce(&mut Command) -> anyhow::Result<()>,
    library: &Path,
    observer: &mut Observer,
) -> anyhow::Result<Child> {
    let cannot = || format!("cannot profile `{}`", program.route.file.display());
    let hooks = fs::read(library).with_context(cannot)?;
    let hooks = HooksLibrary::parse(&hooks).with_context(cannot)?;
    if program.identity.stripped {
        observer.recording().be_cautious(located.thread_number_at);
    }
    let recording = observer.recording().path();
    let mut prepared = Ok(());
    observer.begin().map_err(no_thread)?;
    let last = |command: &mut Command| prepared = executes(command);
    let started = inject::spawn_by(command, last, located, &hooks, &recording);
    prepared?;
    let started = started.with_context(cannot)?;
    observer.injected(injected(&started.injection));
    Ok(started.child)
}

fn injected(injection: &Injection) -> Injected {
    let not_located = injection.not_located.iter().map(|name| (*name).to_owned());
    Injected {
        access: match injection.access {
            reheap_graft::Access::Marker => Access::Marker,
            reheap_graft::Access::Symbols => Access::Symbols,
            reheap_graft::Access::Code => Access::Signature,
        },
        not_counted: injection
            .not_hooked
            .iter()
            .cloned()
            .chain(not_located)
            .collect(),
        hooks: injection.hooks.clone(),
        functions: injection
            .functions
            .iter()
            .map(|(_, address)| *address)
            .collect(),
    }
}

/// The library of the hooks.
fn library(target: Option<Target>, workshop: &Workshop) -> anyhow::Result<PathBuf> {
    // It is the same for each libc, so any for which there is a compiler will do.
    let target = target.or_else(|| Target::of_this_machine(Libc::Glibc));
    let target = target.context("there are no hooks for this machine")?;
    workshop.own_library(&HOOKS, &target)
}

/// The path by which processes of either libc find the hooks: as a library for musl, with itself as what processes of
/// glibc get.
fn for_variable(library: &Path, workshop: &Workshop) -> anyhow::Result<PathBuf> {
    let musl =
        Target::of_this_machine(Libc::Musl).context("there are no hooks for this machine")?;
    let for_glibc = || Some(library.to_owned());
    Ok(preload::path_for_variable(
        library,
        &musl,
        for_glibc,
        workshop.cache()?,
    )?)
}

/// Looks until the command has ended. It is not reaped yet, so that its last figures can be read.
fn watch(child: &Child, observer: &mut Observer, signals: &mut Signals) -> anyhow::Result<()> {
    let pid = Pid::from_child(child);
    let mut next = Instant::now();
    loop {
        observer.look();
        pass_on(pid, signals);
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let ended = rustix::process::waitid(WaitId::Pid(pid), options);
        if ended.context("cannot wait for the command")?.is_some() {
            return Ok(());
        }
        next = (next + INTERVAL).max(Instant::now());
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

/// The terminal sends Ctrl-C to the command as well. Other signals were meant for the whole.
fn pass_on(command: Pid, signals: &mut Signals) {
    for signal in signals.pending() {
        let signal = match signal {
            SIGTERM => Signal::TERM,
            SIGHUP => Signal::HUP,
            _ => continue,
        };
        // It may have ended just now.
        let _ = rustix::process::kill_process(command, signal);
    }
}

fn ending(child: &mut Child) -> anyhow::Result<Ending> {
    use std::os::unix::process::ExitStatusExt as _;
    let status = child.wait().context("cannot wait for the command")?;
    Ok(match (status.code(), status.signal()) {
        (Some(code), _) => Ending::Exited(code),
        (None, signal) => Ending::Killed(signal.unwrap_or(0)),
    })
}
