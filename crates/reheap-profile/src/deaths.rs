//! How processes of a command die by signals: which one, by which signal, and with what stack.
//!
//! The command runs under ptrace(2) with all that it starts. Processes stop only when they begin, when they execute a
//! program, when they get a signal and when they end, so they run at full speed between those. Rejected: core files (where they go is
//! the system's choice, and most systems pipe them away), a signal handler in a preload (programs install their own, and
//! one that runs on a broken heap sees little).
//!
//! A traced process gets no rights from set-user-ID bits, and cannot be traced by others, such as gdb.

mod sys;
mod traps;

use crate::inject::sys as ptrace;
use crate::profile::Frame;
use crate::stacks::{Modules, Registers, Symbols, Unwinder};
use nix::errno::Errno;
use nix::unistd::Pid;
use ptrace::Resume;
use reheap_graft::Processor;
use reheap_proc::status::Status;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use sys::Event;

pub use traps::trap;

/// Enough for all that [`trap`] knows.
const INSTRUCTION_BYTES: usize = 4;

/// How much of a stack is kept.
const STACK_BYTES_MAX: usize = 256 << 10;

/// The signals that a program gets for a fault of its own, or sends itself to end.
const SIGNALS: [i32; 7] = [
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGSEGV,
    libc::SIGSYS,
    libc::SIGTRAP,
];

/// What became of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched {
    /// How its first process ended.
    pub end: End,
    /// All processes that died by a signal of their own fault, in the order in which they died.
    pub deaths: Vec<Death>,
    /// The programs of the processes that still ran when the first one had ended, and were killed then.
    pub killed: Vec<PathBuf>,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal.
    Killed(i32),
}

/// A process that died by a signal of its own fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Death {
    /// Its number.
    pub pid: i32,
    /// The file of its program, as the kernel named it.
    pub program: PathBuf,
    /// The signal.
    pub signal: i32,
    /// The address that could not be used, if that was the fault.
    pub address: Option<u64>,
    /// Whether the instruction has no other purpose than to end a program, such as `ud2`: somebody noticed a fault.
    pub is_deliberate: bool,
    /// The functions, the innermost first.
    pub stack: Vec<Frame>,
    /// How many of the command's processes had died when this one began.
    pub deaths_before: usize,
}

/// Why a command could not be watched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// It could not be started.
    #[error("it cannot be started: {0}")]
    Spawn(#[from] io::Error),
    /// The system does not let reheap trace it.
    #[error("reheap cannot trace it: {0}")]
    Trace(Errno),
}

/// When a process waits, with the process's number. Whatever it wrote before has been written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Before it gets a signal that it may die of.
    BeforeSignal(i32),
    /// Before it ends, and `/proc` still shows its memory.
    BeforeEnd(i32),
}

/// Runs a command and all that it starts, until its first process ends; what runs then is killed.
///
/// If this process ends, so do all of them. `look` is called in the thread that watches.
///
/// # Errors
/// When the command cannot be started or traced. Then nothing of it runs any more.
pub fn watch(command: Command, look: &mut (dyn FnMut(Stop) + Send)) -> Result<Watched, WatchError> {
    // When a thread ends, the kernel kills what it traces (PTRACE_O_EXITKILL). Otherwise, what is stopped would stay so
    // after an error, and whoever waits for the end of its output would wait for ever.
    thread::scope(|scope| {
        let tracer = thread::Builder::new().spawn_scoped(scope, || trace(command, look))?;
        tracer
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn trace(command: Command, look: &mut dyn FnMut(Stop)) -> Result<Watched, WatchError> {
    // The thread that seizes a process has to wait for it too, and `spawn` returns only after the exec. So another
    // thread spawns.
    let (mut child, gate) = sys::hold_before_exec(command)?;
    let spawner = thread::Builder::new().spawn(move || child.spawn())?;
    let first = match gate.wait_for_child() {
        Ok(first) => first,
        Err(error) => return Err(spawn_error(spawner).unwrap_or(WatchError::Spawn(error))),
    };
    sys::seize(first).map_err(WatchError::Trace)?;
    gate.open()?;
    let executed = wait_for_exec(first);
    if let Some(error) = spawn_error(spawner) {
        return Err(error);
    }
    executed.map_err(WatchError::Trace)?;
    let mut watch = Watch::new(first, look);
    let end = watch.until_all_ended();
    Ok(Watched {
        end: end.map_err(WatchError::Trace)?,
        deaths: watch.deaths,
        killed: watch.killed,
    })
}

type Spawner = thread::JoinHandle<io::Result<std::process::Child>>;

fn spawn_error(spawner: Spawner) -> Option<WatchError> {
    let result = spawner
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    result.err().map(WatchError::Spawn)
}

/// Leads a process into its program. If it ends before, that is left to whoever started it.
fn wait_for_exec(first: Pid) -> Result<(), Errno> {
    while let Some(event) = sys::wait_for_stop(first)? {
        if event == Event::Executed {
            unless_killed(sys::trace_all(first))?;
            return go_on(first, event);
        }
        go_on(first, event)?;
    }
    Ok(())
}

/// Lets a stopped thread go on.
fn go_on(thread: Pid, event: Event) -> Result<(), Errno> {
    let result = match event {
        Event::Signal(signal) => ptrace::resume(thread, Resume::Continue, signal),
        Event::StoppedWithItsProcess => sys::listen(thread),
        Event::Exited(_) | Event::Killed(_) => Ok(()),
        Event::Began | Event::Executed | Event::Ends => ptrace::resume(thread, Resume::Continue, 0),
    };
    unless_killed(result).map(drop)
}

/// What a request to a stopped thread gave; `None` if it was killed meanwhile, which ends the stop. Its end comes next.
fn unless_killed<T>(result: Result<T, Errno>) -> Result<Option<T>, Errno> {
    match result {
        Err(Errno::ESRCH) => Ok(None),
        result => result.map(Some),
    }
}

/// All processes of a command.
struct Watch<'a> {
    look: &'a mut dyn FnMut(Stop),
    first: Pid,
    /// How the first process ended.
    end: Option<End>,
    /// All threads, and how many deaths there were when they began.
    alive: HashMap<Pid, usize>,
    /// The programs of processes that have to end because the first one did.
    left: HashMap<Pid, PathBuf>,
    killed: Vec<PathBuf>,
    /// What each process got last, in case it dies of it.
    faults: HashMap<i32, Fault>,
    deaths: Vec<Death>,
    modules: Modules,
    symbols: Symbols,
}

impl<'a> Watch<'a> {
    fn new(first: Pid, look: &'a mut dyn FnMut(Stop)) -> Self {
        Self {
            look,
            first,
            end: None,
            alive: HashMap::from([(first, 0)]),
            left: HashMap::new(),
            killed: Vec::new(),
            faults: HashMap::new(),
            deaths: Vec::new(),
            modules: Modules::new(),
            symbols: Symbols::new(),
        }
    }

    fn until_all_ended(&mut self) -> Result<End, Errno> {
        loop {
            let (thread, event) = match sys::wait_for_any() {
                Ok(event) => event,
                Err(Errno::ECHILD) => return self.end.ok_or(Errno::ECHILD),
                Err(errno) => return Err(errno),
            };
            let ended = match event {
                Event::Exited(code) => End::Exited(code),
                Event::Killed(signal) => End::Killed(signal),
                _ => {
                    self.stopped(thread, event)?;
                    continue;
                }
            };
            let ended = self.ended(thread, ended);
            if thread == self.first {
                self.end = Some(ended);
                let left: Vec<Pid> = self.alive.keys().copied().collect();
                left.into_iter().for_each(|thread| self.kill(thread));
            }
        }
    }

    fn stopped(&mut self, thread: Pid, event: Event) -> Result<(), Errno> {
        if let Entry::Vacant(place) = self.alive.entry(thread) {
            place.insert(self.deaths.len());
            if self.end.is_some() {
                self.kill(thread);
            }
        }
        match event {
            Event::Signal(signal) if SIGNALS.contains(&signal) => self.note(thread, signal),
            Event::Ends if process_of(thread) == Some(thread.as_raw()) => {
                (self.look)(Stop::BeforeEnd(thread.as_raw()));
            }
            Event::Executed => {
                let former = unless_killed(sys::former_number(thread))?;
                if let Some(former) = former.filter(|former| *former != thread) {
                    self.alive.remove(&former);
                }
            }
            _ => {}
        }
        go_on(thread, event)
    }

    /// Keeps what a process was doing when it got a signal. It may well survive.
    fn note(&mut self, thread: Pid, signal: i32) {
        let Some(fault) = Fault::of(thread, signal) else {
            return;
        };
        (self.look)(Stop::BeforeSignal(fault.process));
        if fault.is_lost_on_init {
            kill(Pid::from_raw(fault.process));
        }
        // A handler that reports a fault sends the same signal again. The fault itself says more.
        let is_repeated =
            |before: &Fault| before.signal == signal && before.is_by_kernel && !fault.is_by_kernel;
        if !self.faults.get(&fault.process).is_some_and(is_repeated) {
            self.faults.insert(fault.process, fault);
        }
    }

    /// Gives how it would have ended without a tracer.
    fn ended(&mut self, thread: Pid, how: End) -> End {
        let deaths_before = self.alive.remove(&thread).unwrap_or_default();
        let left = self.left.remove(&thread);
        self.killed
            .extend(left.filter(|_| how == End::Killed(libc::SIGKILL)));
        let Some(fault) = self.faults.remove(&thread.as_raw()) else {
            return how;
        };
        let end = End::Killed(fault.signal);
        if how != end && !(fault.is_lost_on_init && how == End::Killed(libc::SIGKILL)) {
            return how;
        }
        let mut death = fault.death(&mut self.modules, &mut self.symbols);
        death.deaths_before = deaths_before;
        self.deaths.push(death);
        end
    }

    fn kill(&mut self, thread: Pid) {
        let is_process = process_of(thread) == Some(thread.as_raw());
        if is_process && let Some(program) = program_of(thread) {
            self.left.insert(thread, program);
        }
        kill(thread);
    }
}

fn kill(thread: Pid) {
    // It may have ended meanwhile.
    let _ = nix::sys::signal::kill(thread, nix::sys::signal::Signal::SIGKILL);
}

/// Whether a thread is of the init of a PID namespace: the last number is the one that it has there.
fn is_of_init(status: &Status) -> bool {
    let numbers = status.field("NStgid").unwrap_or_default();
    numbers.split_whitespace().last() == Some("1")
}

/// Whether the process has a handler for a signal.
fn handles(status: &Status, signal: i32) -> bool {
    status
        .set("SigCgt")
        .is_some_and(|set| set >> (signal - 1) & 1 == 1)
}

/// The process that a thread is of.
fn process_of(thread: Pid) -> Option<i32> {
    Status::of(thread)?.number("Tgid")
}

/// The file of its program, or only its name if the process lets nobody look into it (`PR_SET_DUMPABLE`).
fn program_of(thread: Pid) -> Option<PathBuf> {
    let file = fs::read_link(format!("/proc/{thread}/exe")).ok();
    file.or_else(|| {
        let name = fs::read_to_string(format!("/proc/{thread}/comm")).ok()?;
        Some(name.trim_end().into())
    })
}

/// A thread in front of a signal.
struct Fault {
    process: i32,
    program: PathBuf,
    signal: i32,
    /// Not sent by a process.
    is_by_kernel: bool,
    /// The init of a PID namespace dies of a fault only if nobody traces it: the kernel drops the signal that a tracer
    /// passes on, and the faulting instruction runs again, for ever. So reheap kills it.
    is_lost_on_init: bool,
    address: Option<u64>,
    is_deliberate: bool,
    registers: Registers,
    stack: Vec<u8>,
    maps: Vec<u8>,
}

impl Fault {
    fn of(thread: Pid, signal: i32) -> Option<Self> {
        let source = sys::source(thread).ok()?;
        let status = Status::of(thread)?;
        let is_by_kernel = source.code > 0;
        let registers = registers(&nix::sys::ptrace::getregs(thread).ok()?);
        // A process may let nobody look into it. Then only its stack is unknown.
        let memory = File::open(format!("/proc/{thread}/mem")).ok();
        let is_memory = matches!(signal, libc::SIGSEGV | libc::SIGBUS);
        Some(Self {
            process: status.number("Tgid")?,
            program: program_of(thread).unwrap_or_default(),
            signal,
            is_by_kernel,
            is_lost_on_init: is_by_kernel && is_of_init(&status) && !handles(&status, signal),
            address: (is_memory && is_by_kernel && source.code != SI_KERNEL)
                .then_some(source.address),
            is_deliberate: is_by_kernel
                && is_deliberate(
                    memory.as_ref(),
                    registers.program_counter,
                    signal,
                    source.address,
                ),
            stack: read(memory.as_ref(), registers.stack_pointer, STACK_BYTES_MAX),
            registers,
            maps: fs::read(format!("/proc/{thread}/maps")).unwrap_or_default(),
        })
    }

    fn death(self, modules: &mut Modules, symbols: &mut Symbols) -> Death {
        let stack = if self.maps.is_empty() {
            Vec::new()
        } else {
            self.unwound(modules, symbols)
        };
        Death {
            pid: self.process,
            program: self.program,
            signal: self.signal,
            address: self.address,
            is_deliberate: self.is_deliberate,
            deaths_before: 0,
            stack,
        }
    }

    fn unwound(&self, modules: &mut Modules, symbols: &mut Symbols) -> Vec<Frame> {
        let mut unwinder = Unwinder::from_maps(modules, Processor::native(), &self.maps, None);
        let stack = unwinder.unwind_interrupted(modules, &self.registers, &self.stack);
        let addresses = stack.addresses.into_iter();
        addresses
            .flat_map(|address| symbols.frames(modules, address))
            .collect()
    }
}

/// By the kernel, for a reason without an address (sigaction(2)).
const SI_KERNEL: i32 = 0x80;

#[cfg(target_arch = "x86_64")]
fn registers(all: &libc::user_regs_struct) -> Registers {
    Registers::parse([all.rip, all.rsp, all.rbp])
}

#[cfg(target_arch = "aarch64")]
fn registers(all: &libc::user_regs_struct) -> Registers {
    Registers::parse([all.pc, all.sp, all.regs[29]])
}

/// Whether the instruction that gave the signal is one for that.
fn is_deliberate(memory: Option<&File>, program_counter: u64, signal: i32, address: u64) -> bool {
    let start = match signal {
        libc::SIGILL | libc::SIGSEGV => program_counter,
        // x86-64 is behind it then.
        libc::SIGTRAP if cfg!(target_arch = "x86_64") => program_counter.wrapping_sub(1),
        libc::SIGTRAP => program_counter,
        _ => return false,
    };
    trap(&read(memory, start, INSTRUCTION_BYTES), address).is_some()
}

/// What is there, as far as it can be read.
fn read(memory: Option<&File>, address: u64, bytes: usize) -> Vec<u8> {
    let Some(memory) = memory else {
        return Vec::new();
    };
    let mut buffer = vec![0; bytes];
    let mut length = 0;
    while length < bytes {
        match memory.read_at(&mut buffer[length..], address.wrapping_add(length as u64)) {
            Ok(0) | Err(_) => break,
            Ok(more) => length += more,
        }
    }
    buffer.truncate(length);
    buffer
}
