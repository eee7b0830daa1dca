//! Another allocator in a static program that starts.
//!
//! What `reheap graft` appends to a file goes into the process instead, while it waits in front of its first instruction. So
//! the program finds its own file under `/proc/self/exe`, and nothing is written anywhere. The libc reads the headers of the
//! program's segments where the auxiliary vector says (getauxval(3)): there are those with the allocator's thread-local memory.

use super::memory::{Memory, write_code};
use super::process;
use super::room::room_near;
use super::sys::{self, Resume, Side, Stop};
use super::tracee::Tracee;
use super::{
    Calls, InjectError, Obstacle, TRACED, check_code, check_privileges, page_bytes, registers,
    stopped, with_system_calls,
};
use memchr::memmem;
use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reheap_graft::{Contract, InProcess, Library, Processor, Stock, graft_process, prologue};
use reheap_proc::maps::Mapping;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// An allocator, and a program that it fits.
#[derive(Clone, Copy)]
pub struct Replacement<'a> {
    /// The program, as its file has it.
    pub stock: &'a Stock<'a>,
    /// The allocator.
    pub library: &'a Library,
    /// What the library has beside the functions of the family.
    pub contract: Contract<'a>,
}

/// Puts the allocator into a process that waits in front of its first instruction, and lets it go on, untraced.
///
/// # Errors
/// When that is not possible. The process still waits then, and may have a part of it: end it.
fn put_into(pid: Pid, replacement: &Replacement<'_>) -> Result<(), InjectError> {
    let located = replacement.stock.located();
    if located.processor != Processor::native() {
        return Err(InjectError::Processor);
    }
    check_privileges(pid)?;
    let memory = process::memory(pid)?;
    let bias = process::entry(pid)?.wrapping_sub(located.entry);
    check_code(&memory, located, bias)?;
    let mappings = process::mappings(pid)?;
    let image = located.image.start.wrapping_add(bias)..located.image.end.wrapping_add(bias);
    let reach = prologue::reach_bytes(located.processor);
    let room = |bytes| room_near(&mappings, &image, bytes, reach, page_bytes());
    let Replacement {
        stock,
        library,
        contract,
    } = replacement;
    let allocator = graft_process(stock, library, *contract, bias, room)?;
    let vector = AuxiliaryVector::read(pid, &memory, &mappings)?;

    let mut tracee = Tracee::borrow(pid, None)?;
    map(&mut tracee, &memory, &allocator)?;
    vector.lead_to(&allocator, pid, &memory)?;
    for change in &allocator.changes {
        write_code(pid, change.address, &change.code)?;
    }
    let signal = tracee.held_signal();
    tracee.give_back()?;
    sys::resume(pid, Resume::Detach, signal)
        .map_err(|errno| InjectError::trace("detach from it", errno))
}

fn map(tracee: &mut Tracee, memory: &Memory, allocator: &InProcess) -> Result<(), InjectError> {
    let site = allocator.changes.first();
    let site = site.expect("a program with a malloc").address;
    with_system_calls(tracee, memory, site, |calls: &mut Calls<'_>| {
        calls.map(Some(allocator.base), allocator.span_bytes)?;
        calls.write(allocator.base, &allocator.bytes)?;
        allocator
            .protections
            .iter()
            .try_for_each(|(range, protection)| calls.protect(range, *protection))
    })
}

/// The auxiliary vector, which the kernel puts at the end of the stack, behind the environment (System V ABI, "Process
/// Initialization").
struct AuxiliaryVector {
    address: u64,
    words: Vec<u64>,
}

impl AuxiliaryVector {
    fn read(pid: Pid, memory: &Memory, mappings: &[Mapping]) -> Result<Self, InjectError> {
        let registers = ptrace::getregs(pid);
        let registers =
            registers.map_err(|errno| InjectError::trace("read its registers", errno))?;
        let start = registers::stack_pointer(&registers);
        let is_stack = |mapping: &&Mapping| (mapping.start..mapping.end).contains(&start);
        let end = mappings
            .iter()
            .find(is_stack)
            .map_or(start, |stack| stack.end);
        let stack = memory.read(start, (end - start) as usize);
        let stack = stack.map_err(|error| process::memory_error(pid, error))?;
        let bytes = process::auxiliary_vector(pid)?;
        let place = memmem::find(&stack, &bytes).ok_or(InjectError::AuxiliaryVector)?;
        let (words, _) = bytes.as_chunks::<8>();
        Ok(Self {
            address: start + place as u64,
            words: words.iter().copied().map(u64::from_le_bytes).collect(),
        })
    }

    fn set(&self, key: u64, value: u64, pid: Pid, memory: &Memory) -> Result<(), InjectError> {
        let index = self.words.chunks_exact(2).position(|pair| pair[0] == key);
        let index = index.ok_or(InjectError::AuxiliaryVector)? as u64;
        let place = self.address + 16 * index + 8;
        let written = memory.write(place, &value.to_le_bytes());
        written.map_err(|error| process::memory_error(pid, error))
    }

    /// The headers of the program's segments are now where the allocator begins.
    fn lead_to(&self, allocator: &InProcess, pid: Pid, memory: &Memory) -> Result<(), InjectError> {
        const AT_PHDR: u64 = 3;
        const AT_PHNUM: u64 = 5;
        self.set(AT_PHDR, allocator.base, pid, memory)?;
        self.set(AT_PHNUM, allocator.segment_count, pid, memory)
    }
}

/// Starts a process that puts the allocator into this one as soon as it executes the program. It is nobody's child then, so the
/// program does not meet it. If the allocator cannot get in, that process gives the reason to `report`, and ends this one with
/// `exit_code` before the program has executed an instruction.
///
/// This process must have one thread: the new one has only that, and any lock of another thread would stay taken.
///
/// # Errors
/// When this process may not be traced.
pub fn wait_for_exec(
    replacement: &Replacement<'_>,
    exit_code: i32,
    report: impl FnOnce(&InjectError),
) -> Result<(), InjectError> {
    let program = nix::unistd::getpid();
    let (mut ours, mut theirs) = UnixStream::pair().map_err(InjectError::Spawn)?;
    match sys::fork_away().map_err(InjectError::Spawn)? {
        Side::New => {
            drop(ours);
            if attach(program, &mut theirs).is_ok()
                && let Err(error) = replace_at_exec(program, replacement)
            {
                report(&error);
                end(program, replacement, exit_code);
            }
            sys::leave(0)
        }
        Side::Old => {
            drop(theirs);
            let tracer = receive(&mut ours)?;
            sys::let_trace(tracer);
            send(&mut ours, 0)?;
            match receive(&mut ours)? {
                0 => Ok(()),
                errno => Err(refusal(program, Errno::from_raw(errno))),
            }
        }
    }
}

/// Why this process may not be traced. It does not protect itself.
fn refusal(program: Pid, errno: Errno) -> InjectError {
    match stopped::refusal(program, errno) {
        InjectError::Obstacle(Obstacle::Protected(_)) => InjectError::trace("trace it", errno),
        error => error,
    }
}

fn send(to: &mut UnixStream, number: i32) -> Result<(), InjectError> {
    let sent = to.write_all(&number.to_ne_bytes());
    sent.map_err(InjectError::Spawn)
}

fn receive(from: &mut UnixStream) -> Result<i32, InjectError> {
    let mut number = [0; 4];
    let received = from.read_exact(&mut number);
    received.map_err(InjectError::Spawn)?;
    Ok(i32::from_ne_bytes(number))
}

/// Begins to trace the process at the other end, which must allow it first.
fn attach(program: Pid, other: &mut UnixStream) -> Result<(), InjectError> {
    send(other, nix::unistd::getpid().as_raw())?;
    receive(other)?;
    let attached = ptrace::attach(program).and_then(|()| {
        run_to_signal(program, libc::SIGSTOP)?;
        ptrace::setoptions(program, UP_TO_EXEC)?;
        sys::resume(program, Resume::Continue, 0)
    });
    send(other, attached.err().map_or(0, |errno| errno as i32))?;
    attached.map_err(|errno| InjectError::trace("attach to it", errno))
}

/// A launcher that runs, and the program that it has started, which has the allocator.
#[derive(Debug)]
pub struct Launched {
    /// The launcher, an ordinary child.
    pub launcher: Child,
    /// How long the program waited in front of its first instruction.
    pub stopped: Duration,
}

/// Runs a launcher, which starts the program by vfork(2) and execve(2) as the first thing that it starts, and puts the
/// allocator into the program. Both are untraced then.
///
/// # Errors
/// When that is not possible. Nothing runs then.
pub fn spawn_below(
    mut launcher: Command,
    replacement: &Replacement<'_>,
) -> Result<Launched, InjectError> {
    let (mut mask_reader, mask_writer) = io::pipe().map_err(InjectError::Spawn)?;
    sys::trace_from_start(&mut launcher, mask_writer.into());
    let child = launcher.spawn().map_err(InjectError::Spawn)?;
    drop(launcher);
    let pid = Pid::from_raw(child.id() as i32);
    let mut mask = [0; 8];
    let stopped = mask_reader
        .read_exact(&mut mask)
        .map_err(InjectError::Spawn)
        .and_then(|()| super::wait_for_start(pid))
        .and_then(|()| started_by(pid, u64::from_ne_bytes(mask)))
        .and_then(|program| replace_at_exec(program, replacement));
    match stopped {
        Ok(stopped) => Ok(Launched {
            launcher: child,
            stopped,
        }),
        Err(error) => {
            super::kill(child);
            Err(error)
        }
    }
}

/// Lets a launcher go on from its first instruction until it has started a process, which is traced in its place.
fn started_by(launcher: Pid, mask: u64) -> Result<Pid, InjectError> {
    let follow = || {
        sys::set_signal_mask(launcher, mask)?;
        ptrace::setoptions(launcher, TRACED | ptrace::Options::PTRACE_O_TRACEVFORK)?;
        sys::resume(launcher, Resume::Continue, 0)?;
        run_to_signal(launcher, libc::SIGTRAP)?;
        let started = Pid::from_raw(ptrace::getevent(launcher)? as i32);
        sys::resume(launcher, Resume::Detach, 0)?;
        // What is traced from its beginning stops there.
        run_to_signal(started, libc::SIGSTOP)?;
        ptrace::setoptions(started, UP_TO_EXEC)?;
        sys::resume(started, Resume::Continue, 0)?;
        Ok(started)
    };
    follow().map_err(|errno| InjectError::trace("follow its launcher", errno))
}

/// Waits until a traced process stops with this signal, and delivers all others.
fn run_to_signal(process: Pid, awaited: i32) -> Result<(), Errno> {
    loop {
        let signal = match sys::wait(process)? {
            Stop::Signal(signal) if signal == awaited => return Ok(()),
            Stop::Signal(signal) => signal,
            Stop::SystemCall | Stop::Event => 0,
            Stop::Exited(_) | Stop::Killed(_) => return Err(Errno::ESRCH),
        };
        sys::resume(process, Resume::Continue, signal)?;
    }
}

/// How a process is traced that is about to execute the program. The event comes also where SIGTRAP is blocked.
const UP_TO_EXEC: ptrace::Options = TRACED.union(ptrace::Options::PTRACE_O_TRACEEXEC);

/// Waits until a process that is traced so has executed the program. Says how long it waited then.
fn replace_at_exec(program: Pid, replacement: &Replacement<'_>) -> Result<Duration, InjectError> {
    let executed = run_to_signal(program, libc::SIGTRAP).and_then(|()| {
        // The event is inside of execve(2), whose end would still change a register.
        sys::resume(program, Resume::ToSystemCall, 0)?;
        sys::wait(program)
    });
    match executed {
        Ok(Stop::SystemCall) => {}
        // It could not execute it, and said so.
        Err(Errno::ESRCH) => return Ok(Duration::ZERO),
        Ok(_) => return Err(InjectError::Ended),
        Err(errno) => return Err(InjectError::trace("wait for the program's start", errno)),
    }
    let began = Instant::now();
    put_into(program, replacement)?;
    Ok(began.elapsed())
}

/// Lets the program, which waits in front of its first instruction, end itself.
fn end(program: Pid, replacement: &Replacement<'_>, exit_code: i32) {
    let exit = || {
        let located = replacement.stock.located();
        let bias = process::entry(program)?.wrapping_sub(located.entry);
        let site = located.entry.wrapping_add(bias);
        let memory = process::memory(program)?;
        let mut tracee = Tracee::borrow(program, None)?;
        with_system_calls(&mut tracee, &memory, site, |calls| calls.exit(exit_code))
    };
    if !matches!(exit(), Err(InjectError::Ended)) {
        // It is stopped and traced, so the number is still its own.
        let _ = kill(program, Signal::SIGKILL);
    }
}
