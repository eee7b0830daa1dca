//! musl's mallocng (musl 1.2.1 and later) without symbols.
//!
//! Its `malloc` begins with two comparisons of its argument: with the largest size there can be, PTRDIFF_MAX - 4096, and
//! with the size from which it maps blocks, 131052 (`MMAP_THRESHOLD` in mallocng/meta.h). `realloc` does the same with
//! its second argument. From there the calls inside the libc lead to the rest:
//!
//! - `calloc` is the one caller of the public `malloc` that multiplies and checks for overflow first; musl has two
//!   wrappers of the same malloc, and only the public one is called from there;
//! - `free` wraps what `realloc` calls and what has a wrapper;
//! - `aligned_alloc` is the only other function that calls the malloc behind the wrappers;
//! - `posix_memalign` calls that, and has the result EINVAL ready.
//!
//! - `malloc_usable_size` looks in front of a block as `free` does, and is none of the others.
//!
//! musl's other functions (`memalign`, `valloc`, `reallocarray`) end in these, so their calls are counted there.

use super::arguments::{EINVAL, ENOMEM, returns_number};
use super::code::{Code, only};
use super::errno;
use super::instruction::{immediate, is_call};
use iced_x86::{FlowControl, Instruction, MemorySize, Mnemonic, OpKind, Register};
use std::collections::{BTreeMap, BTreeSet};

/// `n >= PTRDIFF_MAX - 4096`, as compilers write it.
const LARGEST: [u64; 2] = [i64::MAX as u64 - 4096, i64::MAX as u64 - 4097];
/// `n >= MMAP_THRESHOLD`, as compilers write it.
const MAPPED_FROM: [u64; 2] = [131_052, 131_051];
/// Both comparisons come at once.
const NEAR: usize = 40;

/// What the code shows.
pub(super) struct Found {
    pub(super) functions: BTreeMap<&'static str, u64>,
    pub(super) errno_at: Option<i64>,
    /// Whether every function that makes a block or takes one is among these, or does so by one of these.
    pub(super) is_complete: bool,
}

/// Where the functions are; `None` if one of those that every malloc has cannot be shown.
pub(super) fn find(code: &mut Code<'_>) -> Option<Found> {
    // Only its wrappers may lead to musl's malloc, and they jump.
    code.add_tail_calls();
    let code = &*code;
    let compares = |register| {
        let found = code
            .functions()
            .filter(|&at| compares_size(code, at, register));
        found.collect::<BTreeSet<u64>>()
    };
    let inner_malloc = only(&compares(Register::RDI))?;
    let inner_realloc = only(&compares(Register::RSI))?;

    let wrappers = code.wrappers(inner_malloc);
    let calls_wrapper = |&function: &u64| !code.callees(function).is_disjoint(&wrappers);
    let callocs = wrappers
        .iter()
        .flat_map(|&wrapper| code.callers(wrapper))
        .filter(|&function| is_calloc(code, function));
    let calloc = only(&callocs.filter(calls_wrapper).collect())?;
    let called = code.callees(calloc);
    let malloc = only(&wrappers.intersection(&called).copied().collect())?;

    let realloc = only(&code.wrappers(inner_realloc))?;
    let frees = code.callees(inner_realloc).into_iter();
    let frees =
        frees.filter(|&function| function != inner_malloc && tests_argument(code, function));
    let inner_free = only(
        &frees
            .filter(|&inner| !code.wrappers(inner).is_empty())
            .collect(),
    )?;
    let free = only(&code.wrappers(inner_free))?;

    let mut found = BTreeMap::from([
        ("malloc", malloc),
        ("calloc", calloc),
        ("realloc", realloc),
        ("free", free),
    ]);
    let aligned = find_aligned(code, inner_malloc, inner_realloc);
    let known = [inner_malloc, inner_realloc, inner_free];
    let known = known.into_iter().chain(aligned.values().copied());
    let usable_size = find_usable_size(code, calloc, inner_free, &known.collect());
    found.extend(
        usable_size
            .ok()
            .flatten()
            .map(|at| ("malloc_usable_size", at)),
    );
    found.extend(aligned);
    let is_complete = usable_size.is_ok()
        && that_align(code, inner_malloc, inner_realloc).len() <= 1
        && found.values().all(|&function| code.is_beginning(function));
    Some(Found {
        functions: found,
        errno_at: find_errno(code, inner_malloc),
        is_complete,
    })
}

/// Where malloc_usable_size is, if anywhere; an error if that is not clear.
///
/// All functions of mallocng that get a block look at what is in front of it (`get_meta` in mallocng/meta.h), in their own
/// code or in a function that they call. Of these, calloc calls another one.
fn find_usable_size(
    code: &Code<'_>,
    calloc: u64,
    inner_free: u64,
    known: &BTreeSet<u64>,
) -> Result<Option<u64>, ()> {
    let that_look: BTreeSet<u64> = code
        .that_compare_bytes_in_front()
        .into_iter()
        .filter(|&function| looks_in_front(code, function))
        .collect();
    let called: BTreeSet<u64> = known
        .iter()
        .flat_map(|&function| code.callees(function))
        .collect();
    let helpers = &(&that_look & &called) - known;
    let callers = helpers.iter().flat_map(|&helper| code.callers(helper));
    let users: BTreeSet<u64> = that_look.iter().copied().chain(callers).collect();
    if !users.contains(&inner_free) {
        return Err(());
    }
    let others = &(&(&users - known) - &called) - &code.callees(calloc);
    match others.len() {
        0 | 1 => Ok(others.first().copied()),
        _ => Err(()),
    }
}

/// The two bytes in front of a pointer are its place in its group, and what does not fit ends the program.
fn looks_in_front(code: &Code<'_>, function: u64) -> bool {
    let is_place = |instruction: &Instruction| {
        instruction.mnemonic() == Mnemonic::Movzx
            && instruction.memory_size() == MemorySize::UInt16
            && instruction.memory_displacement64() as i64 == -2
    };
    let is_end = |instruction: &Instruction| instruction.mnemonic() == Mnemonic::Hlt;
    let all: Vec<Instruction> = code.instructions(function).take(NEAR).collect();
    all.iter().any(is_place) && all.iter().any(is_end)
}

/// More than it has. What follows in musl calls the same function for errno, if any.
const MALLOC_INSTRUCTIONS: usize = 600;

/// Where malloc writes ENOMEM, by the function that it calls before.
fn find_errno(code: &Code<'_>, inner_malloc: u64) -> Option<i64> {
    let mut called = None;
    let mut found = BTreeSet::new();
    for instruction in code
        .instructions_from(inner_malloc)
        .take(MALLOC_INSTRUCTIONS)
    {
        let is_enomem = instruction.mnemonic() == Mnemonic::Mov
            && instruction.op0_kind() == OpKind::Memory
            && instruction.memory_base() == Register::RAX
            && immediate(&instruction) == Some(ENOMEM);
        if is_enomem {
            found.extend(called);
        }
        let is_lost = instruction.op0_register().full_register() == Register::RAX;
        called = match instruction.flow_control() {
            FlowControl::Call => Some(instruction.near_branch_target()),
            FlowControl::Next if !is_lost => called,
            _ => None,
        };
    }
    errno::distance(code.bytes_from(only(&found)?)?)
}

/// What calls the malloc behind the wrappers besides realloc, and uses the block.
fn that_align(code: &Code<'_>, inner_malloc: u64, inner_realloc: u64) -> BTreeSet<u64> {
    let mut callers = code.callers_that_go_on(inner_malloc);
    callers.remove(&inner_realloc);
    callers
}

fn find_aligned(
    code: &Code<'_>,
    inner_malloc: u64,
    inner_realloc: u64,
) -> BTreeMap<&'static str, u64> {
    let mut found = BTreeMap::new();
    if let Some(aligned_alloc) = only(&that_align(code, inner_malloc, inner_realloc)) {
        found.insert("aligned_alloc", aligned_alloc);
        let callers = code
            .callers_that_go_on(aligned_alloc)
            .into_iter()
            .filter(|&function| returns_number(code, function, EINVAL));
        if let Some(posix_memalign) = only(&callers.collect()) {
            found.insert("posix_memalign", posix_memalign);
        }
    }
    found
}

/// Whether a function compares this argument of its own with both sizes, before it changes or passes it.
fn compares_size(code: &Code<'_>, function: u64, argument: Register) -> bool {
    let (mut knows_largest, mut compares_threshold) = (false, false);
    let mut compares_largest = false;
    for instruction in code.instructions(function).take(NEAR) {
        if let Some(number) = immediate(&instruction) {
            let is_compare = instruction.mnemonic() == Mnemonic::Cmp;
            knows_largest |= LARGEST.contains(&number);
            compares_threshold |= is_compare
                && MAPPED_FROM.contains(&number)
                && instruction.op0_register() == argument;
        }
        let registers = [instruction.op0_register(), instruction.op1_register()];
        compares_largest |= knows_largest
            && instruction.mnemonic() == Mnemonic::Cmp
            && registers.contains(&argument);
        if is_call(&instruction) {
            break;
        }
    }
    match argument {
        // realloc compares with the threshold later.
        Register::RSI => compares_largest,
        _ => compares_largest && compares_threshold,
    }
}

/// Whether a function multiplies its arguments with a check for overflow, before its first call.
fn is_calloc(code: &Code<'_>, function: u64) -> bool {
    let before_call: Vec<Instruction> = code
        .instructions(function)
        .take_while(|instruction| !is_call(instruction))
        .take(NEAR)
        .collect();
    let has = |mnemonics: &[Mnemonic]| {
        before_call
            .iter()
            .any(|instruction| mnemonics.contains(&instruction.mnemonic()))
    };
    has(&[Mnemonic::Mul, Mnemonic::Div]) && has(&[Mnemonic::Jo, Mnemonic::Jb, Mnemonic::Ja])
}

/// Whether a function begins with a test of its argument for null.
fn tests_argument(code: &Code<'_>, function: u64) -> bool {
    code.instructions(function).take(2).any(|instruction| {
        instruction.mnemonic() == Mnemonic::Test
            && instruction.op0_register() == Register::RDI
            && instruction.op1_register() == Register::RDI
    })
}
