//! What a reheap that was killed with SIGKILL left in a process: its jumps, and the block that they lead to.
//!
//! The program works on with them, because nothing was unmapped, but nobody can attach again. The file says which bytes
//! were there. So reheap writes them back, if each change is a jump into a block as [`super::layout`] makes it. The block
//! stays mapped: nothing tells whether a thread is in it.

use super::layout::TOKEN_OFFSET;
use super::memory::Memory;
use super::{InjectError, Obstacle, process, registers, stopped};
use nix::unistd::Pid;
use reheap_graft::{Located, prologue};
use reheap_proc::maps::Mapping;
use std::fs;

/// How many mappings a block has at most: relocated prologues, and the segments of the hooks.
const MAPPINGS_MAX: usize = 8;

/// Takes the jumps of a reheap that is gone out of a process. `false` if there are none.
///
/// # Errors
/// When that reheap still runs, or the process cannot be stopped. Changes by somebody else are left alone.
pub(super) fn take_out(
    pid: Pid,
    located: &Located,
    bias: u64,
    memory: &Memory,
) -> Result<bool, InjectError> {
    let changes = changes(located, bias, memory);
    if changes.is_empty() {
        return Ok(false);
    }
    let mappings = process::mappings(pid)?;
    for change in &changes {
        // A landing pad stays in front of the jump.
        let pad = change.found.len() - prologue::jump_bytes(located.processor);
        let jump = (change.address + pad as u64, &change.found[pad..]);
        let target = prologue::target(located.processor, jump.0, jump.1);
        let block = target.and_then(|target| block_of(target, &mappings, memory));
        match block {
            Some(block) => refuse_running(pid, block, memory)?,
            None => return Ok(false),
        }
    }
    stopped::write_stopped(
        pid,
        changes
            .iter()
            .map(|change| (change.address, change.original)),
    )?;
    Ok(true)
}

/// Code that is not as in the file.
struct Change<'a> {
    address: u64,
    found: Vec<u8>,
    original: &'a [u8],
}

fn changes<'a>(located: &'a Located, bias: u64, memory: &Memory) -> Vec<Change<'a>> {
    let processor = located.processor;
    let functions = located.functions.iter().map(|function| {
        let taken = prologue::taken_bytes(processor, &function.code);
        (function.address, &function.code, taken)
    });
    let calls = located.own_frees.iter().map(|call| {
        let taken = prologue::jump_bytes(processor);
        (call.address, &call.code, taken)
    });
    functions
        .chain(calls)
        .filter_map(|(address, code, bytes)| {
            let address = address.wrapping_add(bias);
            let original = code.get(..bytes)?;
            let found = memory.read(address, bytes).ok()?;
            (found != original).then_some(Change {
                address,
                found,
                original,
            })
        })
        .collect()
}

/// Where the block begins that an address is in, if it is in one.
fn block_of(target: u64, mappings: &[Mapping], memory: &Memory) -> Option<u64> {
    let mut last = mappings
        .iter()
        .position(|mapping| (mapping.start..mapping.end).contains(&target))?;
    for _ in 0..MAPPINGS_MAX {
        let start = mappings[last].start;
        let code = memory.read(start, registers::CALLER.len()).ok()?;
        if code == registers::CALLER {
            return Some(start);
        }
        last = last.checked_sub(1)?;
        if mappings[last].end != start {
            return None;
        }
    }
    None
}

/// The token names the process that made the block.
fn refuse_running(pid: Pid, block: u64, memory: &Memory) -> Result<(), InjectError> {
    let maker = memory
        .read(block + TOKEN_OFFSET as u64 + 8, 4)
        .ok()
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, u32::from_le_bytes);
    let program = fs::read_link(format!("/proc/{maker}/exe")).unwrap_or_default();
    if program.to_string_lossy().contains("reheap") {
        Err(Obstacle::AlreadyWatched {
            pid: pid.as_raw(),
            by: maker,
        }
        .into())
    } else {
        Ok(())
    }
}
