//! The first instructions of a function: whether a jump can take their place, and what runs instead of them.
//!
//! A jump overwrites the first bytes of a function. The instructions that were there move into a *relocated prologue*,
//! which ends with a jump back behind the overwritten bytes. That changes nothing if three things hold, and each is
//! shown before anything is written: no branch of the function goes into the overwritten bytes, no call returns into
//! them, and nothing else begins there.
//!
//! A call in the prologue needs care: its return address would be in the relocated prologue, and stay on the stack when
//! reheap wants to leave the process. So the relocated prologue puts the original return address there and jumps.

mod aarch64;
mod x86_64;

use crate::processor::Processor;

/// Why a jump cannot take the place of a function's first instructions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PrologueError {
    /// Its code ends before the jump does.
    #[error("it has only {0} bytes of code, and a jump needs {1}")]
    Short(usize, usize),
    /// The bytes are no instruction.
    #[error("the bytes at {0:#x} are no instruction")]
    NoInstruction(u64),
    /// A branch goes into the bytes that the jump takes.
    #[error(
        "the branch at {branch:#x} goes to {target:#x}, in the middle of the bytes that a jump takes"
    )]
    BranchInto {
        /// Where the branch is.
        branch: u64,
        /// Where it goes.
        target: u64,
    },
    /// A call that returns into the bytes that the jump takes.
    #[error("the call at {0:#x} returns into the bytes that a jump takes")]
    ReturnInto(u64),
    /// An instruction that works only where it is.
    #[error("the instruction at {0:#x} cannot be moved: {1}")]
    Immovable(u64, String),
}

/// The most bytes that a relocated prologue takes.
pub const RELOCATED_BYTES_MAX: usize = 160;

/// The size of a jump or a call.
pub fn jump_bytes(processor: Processor) -> usize {
    match processor {
        Processor::X86_64 => x86_64::JUMP_BYTES,
        Processor::Aarch64 => aarch64::JUMP_BYTES,
    }
}

/// How many bytes of a function that begins with `code` its replacement takes.
pub fn taken_bytes(processor: Processor, code: &[u8]) -> usize {
    match processor {
        Processor::X86_64 => x86_64::JUMP_BYTES,
        Processor::Aarch64 => aarch64::taken_bytes(code),
    }
}

/// How far a jump reaches, less what the hooks themselves take.
pub fn reach_bytes(processor: Processor) -> u64 {
    match processor {
        Processor::X86_64 => 0x7fff_0000,
        Processor::Aarch64 => 0x7ff_0000,
    }
}

/// Shows that a jump can take the place of the first instructions of the function at `address`, whose code begins with
/// `code`. `size` is its size, if the file says so.
///
/// # Errors
/// When one of the three things does not hold.
pub fn check(
    processor: Processor,
    code: &[u8],
    address: u64,
    size: Option<u64>,
) -> Result<(), PrologueError> {
    match processor {
        Processor::X86_64 => x86_64::check(code, address, size),
        Processor::Aarch64 => aarch64::check(code, address, size),
    }
}

/// The relocated prologue of the function at `address`, for `place`.
///
/// # Errors
/// When an instruction works only where it is.
pub fn relocate(
    processor: Processor,
    code: &[u8],
    address: u64,
    place: u64,
) -> Result<Vec<u8>, PrologueError> {
    let relocated = match processor {
        Processor::X86_64 => x86_64::relocate(code, address, place),
        Processor::Aarch64 => aarch64::relocate(code, address, place),
    }?;
    assert!(
        relocated.len() <= RELOCATED_BYTES_MAX,
        "a prologue of {} bytes",
        relocated.len()
    );
    Ok(relocated)
}

/// What takes the place of the first bytes of a function at `address`, whose code begins with `code`: a jump to
/// `target`. `None` if that is out of reach.
pub fn replacement(
    processor: Processor,
    code: &[u8],
    address: u64,
    target: u64,
) -> Option<Vec<u8>> {
    match processor {
        Processor::X86_64 => x86_64::jump(address, target),
        Processor::Aarch64 => aarch64::replacement(code, address, target),
    }
}

/// Where a jump or call at `address` leads, if these bytes are one.
pub fn target(processor: Processor, address: u64, bytes: &[u8]) -> Option<u64> {
    match (processor, bytes) {
        (Processor::X86_64, [0xe8 | 0xe9, distance @ ..]) => {
            let distance = i32::from_le_bytes(distance.try_into().ok()?);
            let end = address + x86_64::JUMP_BYTES as u64;
            Some(end.wrapping_add_signed(distance.into()))
        }
        (Processor::X86_64, _) => None,
        (Processor::Aarch64, bytes) => {
            let word = u32::from_le_bytes(bytes.try_into().ok()?);
            // `b` and `bl`, with a distance of 26 bits in instructions.
            let is_jump = matches!(word >> 26, 0b00_0101 | 0b10_0101);
            let distance = i64::from((word << 6) as i32 >> 6) * 4;
            is_jump.then(|| address.wrapping_add_signed(distance))
        }
    }
}

/// The direct calls of `target` in `code`, which is at `address`: where each is, and its bytes.
pub fn calls_of(
    processor: Processor,
    code: &[u8],
    address: u64,
    target: u64,
) -> Vec<(u64, Vec<u8>)> {
    let bytes = jump_bytes(processor);
    let step = match processor {
        Processor::X86_64 => 1,
        Processor::Aarch64 => bytes,
    };
    let is_call = |&(place, bytes): &(u64, &[u8])| {
        call(processor, place, target).is_some_and(|call| call == bytes)
    };
    (address..)
        .zip(code.windows(bytes))
        .step_by(step)
        .filter(is_call)
        .map(|(place, bytes)| (place, bytes.to_vec()))
        .collect()
}

/// A call of `target` at `address`; `None` if it is out of reach.
pub fn call(processor: Processor, address: u64, target: u64) -> Option<Vec<u8>> {
    match processor {
        Processor::X86_64 => x86_64::call(address, target),
        Processor::Aarch64 => aarch64::call(address, target),
    }
}
