//! Hooks in a process that runs already, and out of it again.
//!
//! All threads stop while the code changes, and between the two changes nothing stops. A thread that is in the middle of
//! the bytes that a jump takes runs on for a moment, until it is elsewhere.
//!
//! Leaving has an order. First the original bytes come back, so no thread enters a hook any more. Then reheap waits
//! until no thread is in one. Only then does it unmap what it had mapped. A thread that waits for a lock inside a hook
//! can make that impossible. Then the memory stays, and nothing leads to it.
//!
//! A process that forked meanwhile has given the jumps to its child, which reheap cleans in the same way.

use super::layout::{Jump, Layout};
use super::memory::{Memory, write_code};
use super::stopped::{PAUSE, Stopped, stop_outside};
use super::tracee::Tracee;
use super::{
    HooksLibrary, InjectError, Injection, Obstacle, Target, check_code, injection, layout,
    leftover, obstacle, open_hooks, page_bytes, process, with_system_calls,
};
use nix::errno::Errno;
use nix::unistd::Pid;
use reheap_graft::{Function, Located, Processor, prologue};
use reheap_proc::maps::Mapping;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

/// A running process with hooks in it.
#[derive(Debug)]
pub struct Attached {
    pid: Pid,
    jumps: Vec<Jump>,
    /// The first bytes of the block, with its token: only forks of the process have them.
    block_start: (u64, Vec<u8>),
    mapped: Vec<Range<u64>>,
    injection: Injection,
    /// The jumps of an earlier reheap were in it.
    was_left: bool,
}

/// What reheap left in a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// Nothing: it is as it was before.
    Nothing,
    /// The process has ended or executed another program.
    NoProcess,
    /// Its code is as it was before, but a thread was in a hook all the time, so the hooks' memory is still mapped.
    Memory {
        /// How many bytes.
        bytes: u64,
    },
}

/// Puts hooks into a running process.
///
/// # Errors
/// When the system does not allow it, or the hooks cannot get in. The process is as it was before then.
pub fn attach(
    target: &Target,
    hooks: &HooksLibrary,
    recording: &Path,
) -> Result<Attached, InjectError> {
    let Target { pid, located, bias } = target;
    if [located.processor, hooks.processor()] != [Processor::native(); 2] {
        return Err(InjectError::Processor);
    }
    obstacle::before(pid.as_raw())?;
    let memory = process::memory(*pid)?;
    let was_left = leftover::take_out(*pid, located, *bias, &memory)?;
    check_code(&memory, located, *bias)?;
    let taken = taken_bytes(located, *bias);
    let stopped = stop_outside(*pid, &taken)?;
    let entered = enter(&stopped, located, *bias, hooks, recording, &memory);
    let resumed = stopped.resume();
    let attached = entered?;
    resumed?;
    Ok(Attached {
        was_left,
        ..attached
    })
}

/// The middles of the instructions that jumps take: no thread may be there.
fn taken_bytes(located: &Located, bias: u64) -> Vec<Range<u64>> {
    let taken = |function: &Function| {
        let bytes = prologue::taken_bytes(located.processor, &function.code);
        let address = function.address.wrapping_add(bias);
        address + 1..address + bytes as u64
    };
    located.functions.iter().map(taken).collect()
}

fn enter(
    stopped: &Stopped,
    located: &Located,
    bias: u64,
    hooks: &HooksLibrary,
    recording: &Path,
    memory: &Memory,
) -> Result<Attached, InjectError> {
    let pid = stopped.process;
    let mappings: Vec<Mapping> = process::mappings(pid)?;
    let layout = layout::lay_out(located, bias, hooks, &mappings, page_bytes(), token())?;
    let mut tracee = stopped.borrow()?;
    let opened = open_hooks(&mut tracee, memory, &layout, recording);
    stopped.give_back(tracee)?;
    let mapped = opened?;
    let attached = Attached {
        pid,
        jumps: layout.changes().cloned().collect(),
        block_start: (layout.base, block_start(&layout)),
        mapped,
        injection: injection(located, &layout),
        was_left: false,
    };
    let thread = stopped.any();
    for (index, jump) in attached.jumps.iter().enumerate() {
        if let Err(error) = write_code(thread, jump.address, &jump.jump) {
            // Those before it were possible, so taking them back is.
            for written in &attached.jumps[..index] {
                write_code(thread, written.address, &written.original)?;
            }
            let mut tracee = stopped.borrow()?;
            let unmapped = attached.unmap(&mut tracee, memory);
            stopped.give_back(tracee)?;
            return unmapped.and(Err(error));
        }
    }
    Ok(attached)
}

/// Whether something failed because the process ended meanwhile, which may happen at any time.
fn has_gone(error: &InjectError) -> bool {
    match error {
        InjectError::Ended | InjectError::Obstacle(Obstacle::NoProcess(_)) => true,
        InjectError::Trace { errno, .. } => *errno == Errno::ESRCH,
        InjectError::Proc { error, .. } => {
            error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
        }
        _ => false,
    }
}

/// Different for each attachment on this machine.
fn token() -> layout::Token {
    static ATTACHMENTS: AtomicU32 = AtomicU32::new(0);
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let nanoseconds = since.map_or(0, |since| since.as_nanos() as u64);
    let mut token = layout::Token::default();
    token[..8].copy_from_slice(&nanoseconds.to_le_bytes());
    token[8..12].copy_from_slice(&std::process::id().to_le_bytes());
    let number = ATTACHMENTS.fetch_add(1, Ordering::Relaxed);
    token[12..].copy_from_slice(&number.to_le_bytes());
    token
}

fn block_start(layout: &Layout) -> Vec<u8> {
    const BYTES: usize = 512;
    layout.bytes[..layout.bytes.len().min(BYTES)].to_vec()
}

impl Attached {
    /// What is in the process.
    pub fn injection(&self) -> &Injection {
        &self.injection
    }

    /// Whether reheap first took out the jumps of another that was killed. The memory that they led to is still mapped.
    pub fn was_left_by_another(&self) -> bool {
        self.was_left
    }

    /// Leaves the process, and every process that it forked meanwhile, as they were before.
    ///
    /// `inside` says how many threads are in a hook. reheap waits for them until `patience` is over.
    ///
    /// # Errors
    /// When the code cannot be restored.
    pub fn detach(self, inside: &dyn Fn() -> u64, patience: Duration) -> Result<Left, InjectError> {
        let deadline = Instant::now() + patience;
        let left = self.leave(self.pid, inside, deadline)?;
        let mut seen = BTreeSet::from([self.pid]);
        // A fork may be under way while reheap looks.
        loop {
            let forked: Vec<Pid> = process::all()
                .into_iter()
                .filter(|pid| !seen.contains(pid))
                .filter(|&pid| self.is_in(pid))
                .collect();
            if forked.is_empty() {
                return Ok(left);
            }
            for pid in forked {
                seen.insert(pid);
                self.leave(pid, inside, deadline)?;
            }
        }
    }

    /// Whether the hooks are in a process: only the one that they were put into, and its forks, have them there.
    fn is_in(&self, pid: Pid) -> bool {
        Memory::open(pid).is_ok_and(|memory| self.is_block_in(&memory))
    }

    fn is_block_in(&self, memory: &Memory) -> bool {
        let (base, start) = &self.block_start;
        memory
            .read(*base, start.len())
            .is_ok_and(|bytes| bytes == *start)
    }

    fn leave(
        &self,
        pid: Pid,
        inside: &dyn Fn() -> u64,
        deadline: Instant,
    ) -> Result<Left, InjectError> {
        if !self.is_in(pid) {
            return Ok(Left::NoProcess);
        }
        let mut is_restored = false;
        loop {
            let stopped = match Stopped::stop(pid) {
                Err(error) if has_gone(&error) => return Ok(Left::NoProcess),
                stopped => stopped?,
            };
            let left = self.leave_stopped(&stopped, inside, &mut is_restored);
            let resumed = stopped.resume();
            match left {
                Ok(None) => {}
                Err(error) if has_gone(&error) => return Ok(Left::NoProcess),
                Err(error) => return Err(error),
                Ok(Some(left)) => return resumed.map(|()| left),
            }
            resumed?;
            if Instant::now() > deadline {
                let bytes = self.mapped.iter().map(|range| range.end - range.start);
                return Ok(Left::Memory { bytes: bytes.sum() });
            }
            sleep(PAUSE);
        }
    }

    /// `None` if a thread is still in a hook.
    fn leave_stopped(
        &self,
        stopped: &Stopped,
        inside: &dyn Fn() -> u64,
        is_restored: &mut bool,
    ) -> Result<Option<Left>, InjectError> {
        let memory = process::memory(stopped.process)?;
        if !self.is_block_in(&memory) {
            return Ok(Some(Left::NoProcess));
        }
        if !*is_restored {
            self.restore(stopped, &memory)?;
            *is_restored = true;
        }
        let is_in_block = |counter: u64| self.mapped.iter().any(|range| range.contains(&counter));
        if inside() > 0 || stopped.program_counters()?.into_iter().any(is_in_block) {
            return Ok(None);
        }
        let mut tracee = stopped.borrow()?;
        let unmapped = self.unmap(&mut tracee, &memory);
        stopped.give_back(tracee)?;
        unmapped.map(|()| Some(Left::Nothing))
    }

    /// Puts the original instructions back, and reads them back.
    fn restore(&self, stopped: &Stopped, memory: &Memory) -> Result<(), InjectError> {
        let changed = |jump: &Jump| InjectError::CodeChanged {
            address: jump.address,
        };
        let is_there = |jump: &Jump, expected: &[u8]| {
            let bytes = memory.read(jump.address, expected.len());
            bytes.is_ok_and(|bytes| bytes == expected)
        };
        for jump in &self.jumps {
            if !is_there(jump, &jump.jump) {
                return Err(changed(jump));
            }
        }
        for jump in &self.jumps {
            write_code(stopped.any(), jump.address, &jump.original)?;
            if !is_there(jump, &jump.original) {
                return Err(changed(jump));
            }
        }
        Ok(())
    }

    fn unmap(&self, tracee: &mut Tracee, memory: &Memory) -> Result<(), InjectError> {
        let site = self.jumps[0].address;
        with_system_calls(tracee, memory, site, |calls| {
            self.mapped.iter().try_for_each(|range| calls.unmap(range))
        })
    }
}
