//! A stopped thread that makes system calls and calls functions for reheap.
//!
//! Its registers are saved first and restored last. Signals wait meanwhile, except those that an error of the called
//! code itself would raise. The thread stops at system calls and never at a breakpoint: a breakpoint's SIGTRAP would
//! replace the program's own handler for that signal if the program ignores it.

use super::InjectError;
use super::registers::{self, Registers};
use super::sys::{self, Resume, Stop, VectorRegisters};
use nix::errno::Errno;
use nix::sys::ptrace;
use nix::unistd::Pid;
use reheap_proc::status::Status;
use std::ops::Range;

/// Signals that the processor raises, which no mask should hold back.
const SYNCHRONOUS: [i32; 5] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGTRAP,
];

/// A stopped thread whose state reheap has saved.
#[derive(Debug)]
pub(super) struct Tracee {
    pid: Pid,
    registers: Registers,
    vectors: VectorRegisters,
    signal_mask: u64,
    /// A signal that no mask holds back and that arrived meanwhile.
    held_signal: i32,
}

impl Tracee {
    /// Saves the state of a stopped thread. It should block the signals of `signal_mask` in the end; if there is none,
    /// those that it blocks now.
    pub(super) fn borrow(pid: Pid, signal_mask: Option<u64>) -> Result<Self, InjectError> {
        let error = |errno| InjectError::trace("read its registers", errno);
        let tracee = Self {
            pid,
            registers: ptrace::getregs(pid).map_err(error)?,
            vectors: sys::vector_registers(pid).map_err(error)?,
            signal_mask: match signal_mask {
                Some(mask) => mask,
                None => sys::signal_mask(pid).map_err(error)?,
            },
            held_signal: 0,
        };
        let synchronous = SYNCHRONOUS
            .iter()
            .fold(0, |mask, &signal| mask | bit(signal));
        // A program that handles SIGSEGV may have just raised one, which the kernel has not delivered yet. It waits too.
        tracee.set_signal_mask(!synchronous | pending_signals(pid))?;
        Ok(tracee)
    }

    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// The signal that it should be resumed with, or 0.
    pub(super) fn held_signal(&self) -> i32 {
        self.held_signal
    }

    fn set_signal_mask(&self, mask: u64) -> Result<(), InjectError> {
        sys::set_signal_mask(self.pid, mask)
            .map_err(|errno| InjectError::trace("hold its signals back", errno))
    }

    /// Gives the thread its state back.
    pub(super) fn give_back(self) -> Result<(), InjectError> {
        let error = |errno| InjectError::trace("restore its registers", errno);
        sys::set_vector_registers(self.pid, &self.vectors).map_err(error)?;
        ptrace::setregs(self.pid, self.registers).map_err(error)?;
        self.set_signal_mask(self.signal_mask)
    }

    /// Makes a system call by the instruction at `site`.
    pub(super) fn system_call(
        &mut self,
        site: u64,
        what: &'static str,
        number: i64,
        arguments: [u64; 6],
    ) -> Result<u64, InjectError> {
        let mut registers = self.registers;
        registers::prepare_system_call(&mut registers, site, number, arguments);
        self.set_registers(registers)?;
        self.run_to_system_call()?;
        self.run_to_system_call()?;
        let result = registers::system_call_result(&self.registers_now()?);
        match result as i64 {
            errno @ -4095..0 => Err(InjectError::SystemCall {
                what,
                errno: Errno::from_raw(-errno as i32),
            }),
            _ => Ok(result),
        }
    }

    /// Calls `function(argument)` by the code at `caller`. Says what it returned, and what it mapped.
    pub(super) fn call(
        &mut self,
        caller: u64,
        function: u64,
        argument: u64,
        stack: u64,
    ) -> Result<(i32, Vec<Range<u64>>), InjectError> {
        let mut registers = self.registers;
        registers::prepare_call(&mut registers, caller, function, argument, stack);
        self.set_registers(registers)?;
        let end = caller + registers::CALLER.len() as u64;
        let mut mapped = Vec::new();
        loop {
            self.run_to_system_call()?;
            let begins = self.registers_now()?;
            let (number, [address, bytes]) = registers::system_call(&begins);
            self.run_to_system_call()?;
            let result = registers::system_call_result(&self.registers_now()?);
            if registers::program_counter(&begins) == end {
                return Ok((registers::call_result(&begins), mapped));
            }
            let has_failed = (-4095..0).contains(&(result as i64));
            if number == libc::SYS_mmap && !has_failed {
                mapped.push(result..result + bytes);
            } else if number == libc::SYS_munmap && !has_failed {
                mapped.retain(|range: &Range<u64>| range.start != address);
            }
        }
    }

    fn registers_now(&self) -> Result<Registers, InjectError> {
        ptrace::getregs(self.pid).map_err(|errno| InjectError::trace("read its registers", errno))
    }

    fn set_registers(&self, registers: Registers) -> Result<(), InjectError> {
        ptrace::setregs(self.pid, registers)
            .map_err(|errno| InjectError::trace("set its registers", errno))
    }

    /// Runs to the next beginning or end of a system call.
    fn run_to_system_call(&mut self) -> Result<(), InjectError> {
        loop {
            sys::resume(self.pid, Resume::ToSystemCall, 0)
                .map_err(|errno| InjectError::trace("let it go on", errno))?;
            match sys::wait(self.pid).map_err(|errno| InjectError::trace("wait for it", errno))? {
                Stop::SystemCall => return Ok(()),
                Stop::Signal(signal) if SYNCHRONOUS.contains(&signal) => {
                    return Err(InjectError::Crashed(signal));
                }
                Stop::Signal(signal) => self.held_signal = signal,
                Stop::Event => {}
                Stop::Exited(_) | Stop::Killed(_) => return Err(InjectError::Ended),
            }
        }
    }
}

/// The signals that wait for this very thread.
fn pending_signals(thread: Pid) -> u64 {
    Status::of(thread)
        .and_then(|status| status.set("SigPnd"))
        .unwrap_or(0)
}

fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}
