//! A running process, stopped: all its threads, also those that it starts meanwhile.

use super::memory::write_code;
use super::sys::{self, Resume, Stop};
use super::tracee::Tracee;
use super::{InjectError, obstacle, process, registers};
use nix::errno::Errno;
use nix::sys::ptrace;
use nix::unistd::Pid;
use reheap_proc::status::Status;
use std::collections::BTreeSet;
use std::ops::Range;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a thread may take to leave code that is about to change.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often reheap looks whether it has.
pub(super) const PAUSE: Duration = Duration::from_millis(1);

/// Writes code while all threads of a process are stopped.
pub(super) fn write_stopped<'a>(
    pid: Pid,
    mut code: impl Iterator<Item = (u64, &'a [u8])>,
) -> Result<(), InjectError> {
    let stopped = Stopped::stop(pid)?;
    let thread = stopped.any();
    let written = code.try_for_each(|(address, bytes)| write_code(thread, address, bytes));
    let resumed = stopped.resume();
    written.and(resumed)
}

/// Stops a process while no thread is in one of the ranges.
pub(super) fn stop_outside(pid: Pid, ranges: &[Range<u64>]) -> Result<Stopped, InjectError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let stopped = Stopped::stop(pid)?;
        let counters = match stopped.program_counters() {
            Ok(counters) => counters,
            Err(error) => {
                stopped.resume()?;
                return Err(error);
            }
        };
        let is_inside = |counter: &u64| ranges.iter().any(|range| range.contains(counter));
        if !counters.iter().any(is_inside) {
            return Ok(stopped);
        }
        stopped.resume()?;
        if Instant::now() > deadline {
            return Err(InjectError::trace(
                "wait until no thread begins a malloc",
                Errno::ETIMEDOUT,
            ));
        }
        sleep(PAUSE);
    }
}

/// A process all of whose threads are stopped and traced by this thread.
#[derive(Debug)]
pub(super) struct Stopped {
    pub(super) process: Pid,
    threads: Vec<Pid>,
}

impl Stopped {
    /// Stops every thread, also those that others start meanwhile.
    pub(super) fn stop(process: Pid) -> Result<Self, InjectError> {
        let mut stopped = Self {
            process,
            threads: Vec::new(),
        };
        let mut seen = BTreeSet::new();
        loop {
            let new: Vec<Pid> = process::threads(process)
                .into_iter()
                .filter(|thread| !seen.contains(thread))
                .collect();
            if new.is_empty() {
                break;
            }
            for thread in new {
                seen.insert(thread);
                match stop_thread(thread) {
                    Ok(true) => stopped.threads.push(thread),
                    Ok(false) => {}
                    Err(errno) => {
                        stopped.resume()?;
                        return Err(refusal(process, errno));
                    }
                }
            }
        }
        if stopped.threads.is_empty() {
            Err(InjectError::Ended)
        } else {
            Ok(stopped)
        }
    }

    pub(super) fn any(&self) -> Pid {
        self.threads[0]
    }

    pub(super) fn program_counters(&self) -> Result<Vec<u64>, InjectError> {
        let counter = |&thread: &Pid| {
            let registers = ptrace::getregs(thread)
                .map_err(|errno| InjectError::trace("read its registers", errno))?;
            Ok(registers::program_counter(&registers))
        };
        self.threads.iter().map(counter).collect()
    }

    /// A thread for system calls. One that is in a system call is best: another may be in the middle of a restartable
    /// sequence (rseq(2)), which the kernel forgets when the thread does something else.
    pub(super) fn borrow(&self) -> Result<Tracee, InjectError> {
        let is_waiting = |thread: &&Pid| {
            ptrace::getregs(**thread)
                .is_ok_and(|registers| registers::is_in_system_call(&registers))
        };
        let thread = self.threads.iter().find(is_waiting);
        Tracee::borrow(*thread.unwrap_or(&self.any()), None)
    }

    /// Stops the thread as it was stopped before, and gives it its state back. Only in such a stop does the kernel
    /// restart the system call that the thread was in.
    pub(super) fn give_back(&self, tracee: Tracee) -> Result<(), InjectError> {
        let thread = tracee.pid();
        let error = |errno| InjectError::trace("stop it", errno);
        ptrace::interrupt(thread).map_err(error)?;
        sys::resume(thread, Resume::Continue, tracee.held_signal()).map_err(error)?;
        if !wait_for_stop(thread).map_err(error)? {
            return Err(InjectError::Ended);
        }
        tracee.give_back()
    }

    /// Lets every thread go on, untraced.
    pub(super) fn resume(self) -> Result<(), InjectError> {
        let mut result = Ok(());
        for thread in self.threads {
            match sys::resume(thread, Resume::Detach, 0) {
                // ESRCH: it was killed meanwhile.
                Ok(()) | Err(Errno::ESRCH) => {}
                Err(errno) => result = Err(InjectError::trace("let it go on", errno)),
            }
        }
        result
    }
}

/// Stops a thread. `false` if it ends instead.
fn stop_thread(thread: Pid) -> Result<bool, Errno> {
    match ptrace::seize(thread, ptrace::Options::PTRACE_O_TRACESYSGOOD) {
        Ok(()) => {}
        // It ended, or has ended and waits for the process to end.
        Err(Errno::ESRCH) => return Ok(false),
        Err(Errno::EPERM) if has_ended(thread) => return Ok(false),
        Err(errno) => return Err(errno),
    }
    match ptrace::interrupt(thread) {
        Ok(()) => wait_for_stop(thread),
        Err(Errno::ESRCH) => wait_for_stop(thread),
        Err(errno) => Err(errno),
    }
}

/// A main thread that ended stays as a zombie while others run.
fn has_ended(thread: Pid) -> bool {
    Status::of(thread).is_none_or(|status| status.has_ended())
}

/// Waits until an interrupted thread stops. Signals that come first are delivered. `false` if it ends.
///
/// A thread that waits for a device or for the child of its vfork does not stop before that is over.
fn wait_for_stop(thread: Pid) -> Result<bool, Errno> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match sys::look(thread)? {
            Some(Stop::Event) => return Ok(true),
            Some(Stop::SystemCall) => sys::resume(thread, Resume::Continue, 0)?,
            Some(Stop::Signal(signal)) => sys::resume(thread, Resume::Continue, signal)?,
            Some(Stop::Exited(_) | Stop::Killed(_)) => return Ok(false),
            None if Instant::now() > deadline => return Err(Errno::ETIMEDOUT),
            None => sleep(PAUSE / 10),
        }
    }
}

pub(super) fn refusal(process: Pid, errno: Errno) -> InjectError {
    match errno {
        Errno::EPERM => obstacle::after_refusal(process.as_raw()).into(),
        Errno::ETIMEDOUT => InjectError::trace("stop it: a thread waits in the kernel", errno),
        errno => InjectError::trace("attach to it", errno),
    }
}
