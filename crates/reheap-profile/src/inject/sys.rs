//! The requests of ptrace(2) and waitpid(2) that no crate offers for every signal, and a child that asks to be traced.
//!
//! nix knows the 31 standard signals and gives an error for others. A program that reheap attaches to may receive a
//! real-time signal at any time, and that must reach the program. So signals are plain numbers here.

// `pre_exec`, and system calls with pointers; see the comment at each.
#![allow(unsafe_code)]

use nix::errno::Errno;
use nix::unistd::Pid;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::{io, ptr};

/// How a traced thread goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resume {
    /// To its next event.
    Continue,
    /// To its next event, or the beginning or end of a system call.
    ToSystemCall,
    /// Without a tracer.
    Detach,
}

/// Why a traced thread stopped, or that it did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// At the beginning or end of a system call.
    SystemCall,
    /// A signal of that number is about to be delivered.
    Signal(i32),
    /// By `PTRACE_INTERRUPT`, or together with its process.
    Event,
    /// It exited with that code.
    Exited(i32),
    /// That signal killed it.
    Killed(i32),
}

/// Lets a stopped thread go on, and delivers the signal if it is not 0.
pub(crate) fn resume(pid: Pid, how: Resume, signal: i32) -> Result<(), Errno> {
    let request = match how {
        Resume::Continue => libc::PTRACE_CONT,
        Resume::ToSystemCall => libc::PTRACE_SYSCALL,
        Resume::Detach => libc::PTRACE_DETACH,
    };
    // Safety: these requests take numbers, no pointers (ptrace(2)).
    let result = unsafe {
        libc::ptrace(
            request as _,
            pid.as_raw(),
            ptr::null_mut::<libc::c_void>(),
            ptr::without_provenance_mut::<libc::c_void>(signal as usize),
        )
    };
    Errno::result(result).map(drop)
}

/// Waits for a traced thread.
pub(crate) fn wait(pid: Pid) -> Result<Stop, Errno> {
    loop {
        match wait_once(pid, 0) {
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
            Ok(stop) => return Ok(stop.expect("without WNOHANG, a wait ends with an event")),
        }
    }
}

/// What a traced thread did, if it did anything.
pub(crate) fn look(pid: Pid) -> Result<Option<Stop>, Errno> {
    wait_once(pid, libc::WNOHANG)
}

fn wait_once(pid: Pid, flags: i32) -> Result<Option<Stop>, Errno> {
    let mut status = 0;
    // Safety: `status` lives across the call, which writes one number to it.
    let result = unsafe { libc::waitpid(pid.as_raw(), &mut status, libc::__WALL | flags) };
    Ok(match Errno::result(result)? {
        0 => None,
        _ => Some(decode(status)),
    })
}

fn decode(status: i32) -> Stop {
    const EVENT_STOP: i32 = 128; // PTRACE_EVENT_STOP
    if libc::WIFEXITED(status) {
        return Stop::Exited(libc::WEXITSTATUS(status));
    }
    if libc::WIFSIGNALED(status) {
        return Stop::Killed(libc::WTERMSIG(status));
    }
    match (libc::WSTOPSIG(status), status >> 16) {
        (_, EVENT_STOP) => Stop::Event,
        // PTRACE_O_TRACESYSGOOD sets this bit.
        (signal, _) if signal == libc::SIGTRAP | 0x80 => Stop::SystemCall,
        (signal, _) => Stop::Signal(signal),
    }
}

const PTRACE_GETSIGMASK: u32 = 0x420a;
const PTRACE_SETSIGMASK: u32 = 0x420b;

/// The signals that a stopped thread blocks: bit n - 1 for signal n.
pub(crate) fn signal_mask(pid: Pid) -> Result<u64, Errno> {
    let mut mask = 0_u64;
    // Safety: the kernel writes as many bytes as `addr` says, 8, and `mask` has them.
    let result = unsafe {
        libc::ptrace(
            PTRACE_GETSIGMASK as _,
            pid.as_raw(),
            ptr::without_provenance_mut::<libc::c_void>(8),
            ptr::from_mut(&mut mask).cast::<libc::c_void>(),
        )
    };
    Errno::result(result).map(|_| mask)
}

/// Sets the signals that a stopped thread blocks.
pub(crate) fn set_signal_mask(pid: Pid, mask: u64) -> Result<(), Errno> {
    // Safety: the kernel reads as many bytes as `addr` says, 8, and `mask` has them.
    let result = unsafe {
        libc::ptrace(
            PTRACE_SETSIGMASK as _,
            pid.as_raw(),
            ptr::without_provenance_mut::<libc::c_void>(8),
            ptr::from_ref(&mask).cast_mut().cast::<libc::c_void>(),
        )
    };
    Errno::result(result).map(drop)
}

/// The vector and floating-point registers of a stopped thread: which set, and as the kernel lays it out.
#[derive(Debug, Clone)]
pub(crate) struct VectorRegisters(usize, Vec<u8>);

/// The sets that have all of them; the first that the machine has counts. A system call zeroes what SVE has beyond 128 bits,
/// which glibc's memcpy uses, so the older set (NT_PRFPREG) is enough only where there is no SVE.
#[cfg(target_arch = "x86_64")]
const VECTOR_SETS: [usize; 1] = [0x202]; // NT_X86_XSTATE
#[cfg(target_arch = "aarch64")]
const VECTOR_SETS: [usize; 2] = [0x405, 2]; // NT_ARM_SVE, NT_PRFPREG

/// Reads the vector registers of a stopped thread.
pub(crate) fn vector_registers(pid: Pid) -> Result<VectorRegisters, Errno> {
    let mut result = Err(Errno::EINVAL);
    for set in VECTOR_SETS {
        result = register_set(pid, set).map(|bytes| VectorRegisters(set, bytes));
        if result.is_ok() {
            break;
        }
    }
    result
}

fn register_set(pid: Pid, set: usize) -> Result<Vec<u8>, Errno> {
    // The largest state known, with AMX tiles, has 11 KiB.
    let mut bytes = vec![0_u8; 64 << 10];
    let mut range = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    // Safety: the kernel writes at most `iov_len` bytes to `iov_base`, the buffer above, and its length to `range`.
    let result = unsafe {
        libc::ptrace(
            libc::PTRACE_GETREGSET as _,
            pid.as_raw(),
            ptr::without_provenance_mut::<libc::c_void>(set),
            ptr::from_mut(&mut range).cast::<libc::c_void>(),
        )
    };
    Errno::result(result)?;
    bytes.truncate(range.iov_len);
    Ok(bytes)
}

/// Sets the vector registers of a stopped thread.
pub(crate) fn set_vector_registers(pid: Pid, registers: &VectorRegisters) -> Result<(), Errno> {
    let VectorRegisters(set, bytes) = registers;
    let mut range = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    // Safety: the kernel reads `iov_len` bytes from `iov_base`, the buffer of `registers`.
    let result = unsafe {
        libc::ptrace(
            libc::PTRACE_SETREGSET as _,
            pid.as_raw(),
            ptr::without_provenance_mut::<libc::c_void>(*set),
            ptr::from_mut(&mut range).cast::<libc::c_void>(),
        )
    };
    Errno::result(result).map(drop)
}

/// Makes a command stop at the first instruction of its program, to be traced by the thread that starts it.
///
/// A traced process stops at every signal, and one between here and the new program would stop it while the thread that
/// could let it go on waits in `spawn`. So all signals wait until the program is there, except the one that says that it
/// is (SIGTRAP). `mask` receives the eight bytes
/// of the mask that the program should have.
pub(crate) fn trace_from_start(command: &mut Command, mask: OwnedFd) {
    // Safety: between fork and exec only functions may run that are async-signal-safe, because another thread may have
    // held any lock when this one forked. These are three bare system calls, and an error is made without allocating.
    unsafe {
        command.pre_exec(move || {
            let before = block_signals()?;
            rustix::io::write(&mask, &before.to_ne_bytes()).map_err(io::Error::from)?;
            nix::sys::ptrace::traceme().map_err(io::Error::from)
        });
    }
}

/// Which of two processes this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// The one that was there before.
    Old,
    /// The new one, which has a session of its own, so that no terminal's signal reaches it.
    New,
}

/// Forks twice, so that the new process is not a child of this one. This process must have one thread.
pub(crate) fn fork_away() -> io::Result<Side> {
    // Safety: this process has one thread, says the caller, so no lock is taken that nobody would release in the child.
    let child = Errno::result(unsafe { libc::fork() })?;
    if child != 0 {
        let ended = wait(Pid::from_raw(child))?;
        return match ended {
            Stop::Exited(0) => Ok(Side::Old),
            _ => Err(Errno::EAGAIN.into()),
        };
    }
    // Safety: as above. setsid takes nothing.
    match unsafe { (libc::setsid(), libc::fork()).1 } {
        0 => Ok(Side::New),
        -1 => leave(1),
        _ => leave(0),
    }
}

/// Ends this process without what a library would do at the end of the other one, such as to write what is in its buffers.
pub(crate) fn leave(code: i32) -> ! {
    // Safety: takes a number, and does not come back.
    unsafe { libc::_exit(code) }
}

/// Lets a process that is no ancestor trace this one, where only ancestors may (Yama).
pub(crate) fn let_trace(tracer: i32) {
    // Safety: takes numbers. Without Yama there is no such request, and it says EINVAL.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, tracer as libc::c_ulong, 0, 0, 0) };
}

/// Blocks all signals of this thread but SIGTRAP, and says which were blocked before.
fn block_signals() -> io::Result<u64> {
    let all = !(1_u64 << (libc::SIGTRAP - 1));
    let mut before = 0_u64;
    // Safety: the kernel reads eight bytes and writes eight bytes, as the last argument says; both numbers have them.
    let result = unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            ptr::from_ref(&all),
            ptr::from_mut(&mut before),
            8_usize,
        )
    };
    match result {
        0 => Ok(before),
        _ => Err(io::Error::last_os_error()),
    }
}
