//! The code of a stripped executable, read once from beginning to end: who calls what, and who uses which address.
//!
//! Compilers put no data between instructions on x86-64, so decoding in order finds every instruction. A function
//! begins where a call goes, where a pointer in the data leads, or where the unwinding table says so.

use super::instruction::immediate;
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, MemorySize, Mnemonic, OpKind};
use std::collections::{BTreeMap, BTreeSet};

/// A branch or a use of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Use {
    site: u64,
    target: u64,
}

/// What the code does, by address.
#[derive(Debug, Default)]
pub(super) struct Code<'data> {
    segments: Vec<(u64, &'data [u8])>,
    functions: BTreeSet<u64>,
    calls: Vec<Use>,
    jumps: Vec<Use>,
    uses: Vec<Use>,
    /// Where the byte four in front of a pointer is compared with 0.
    bytes_in_front: Vec<u64>,
    /// The instructions that follow a return or a jump, without what fills up between functions; sorted.
    after_ends: Vec<u64>,
    is_after_end: bool,
}

impl<'data> Code<'data> {
    /// Reads executable segments. `starts` are functions that are known already, `words` what may be a pointer to one, or any
    /// number, and `interesting` the addresses whose uses matter.
    pub(super) fn read(
        segments: Vec<(u64, &'data [u8])>,
        starts: impl Iterator<Item = u64>,
        words: impl Iterator<Item = u64>,
        interesting: &BTreeMap<u64, &'static str>,
    ) -> Self {
        let mut code = Self {
            segments,
            ..Self::default()
        };
        code.functions = starts
            .filter(|&start| code.bytes_from(start).is_some())
            .collect();
        for index in 0..code.segments.len() {
            let (address, bytes) = code.segments[index];
            for instruction in Decoder::with_ip(64, bytes, address, DecoderOptions::NONE).iter() {
                code.note(&instruction, interesting);
            }
        }
        let called: Vec<u64> = code
            .calls
            .iter()
            .map(|call| call.target)
            .filter(|&at| code.bytes_from(at).is_some())
            .collect();
        code.functions.extend(called);
        let begins = |word: &u64| code.after_ends.binary_search(word).is_ok();
        let pointed_at: Vec<u64> = words.filter(begins).collect();
        code.functions.extend(pointed_at);
        code
    }

    /// Takes the target of a jump out of a function for a function. Not for code with parts for rare cases elsewhere: these
    /// jump back into the middle.
    pub(super) fn add_tail_calls(&mut self) {
        let leaves = |jump: &&Use| {
            let function = self.function_of(jump.site);
            function.is_none_or(|function| {
                jump.target < function || jump.target >= self.end_of(function)
            })
        };
        let targets: Vec<u64> = self
            .jumps
            .iter()
            .filter(leaves)
            .map(|jump| jump.target)
            .filter(|&target| self.bytes_from(target).is_some())
            .collect();
        self.functions.extend(targets);
    }

    fn note(&mut self, instruction: &Instruction, interesting: &BTreeMap<u64, &'static str>) {
        let site = instruction.ip();
        if !matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3) {
            if self.is_after_end {
                self.after_ends.push(site);
            }
            self.is_after_end = matches!(
                instruction.flow_control(),
                FlowControl::Return
                    | FlowControl::UnconditionalBranch
                    | FlowControl::IndirectBranch
            );
        }
        let mut add_use = |target: u64| {
            if interesting.contains_key(&target) {
                self.uses.push(Use { site, target });
            }
        };
        if instruction.is_ip_rel_memory_operand() {
            add_use(instruction.ip_rel_memory_address());
        }
        for operand in 0..instruction.op_count() {
            if instruction.op_kind(operand) == OpKind::Immediate32 {
                add_use(u64::from(instruction.immediate32()));
            }
        }
        if compares_byte_in_front(instruction) {
            self.bytes_in_front.push(site);
        }
        if instruction.op0_kind() == OpKind::NearBranch64 {
            let target = instruction.near_branch_target();
            match instruction.flow_control() {
                FlowControl::Call => self.calls.push(Use { site, target }),
                FlowControl::UnconditionalBranch => self.jumps.push(Use { site, target }),
                _ => {}
            }
        }
    }

    pub(super) fn bytes_from(&self, address: u64) -> Option<&'data [u8]> {
        self.segments.iter().find_map(|(start, bytes)| {
            let offset = usize::try_from(address.checked_sub(*start)?).ok()?;
            bytes.get(offset..).filter(|rest| !rest.is_empty())
        })
    }

    /// The function that an address is in.
    pub(super) fn function_of(&self, address: u64) -> Option<u64> {
        self.functions.range(..=address).next_back().copied()
    }

    /// Where the next function begins.
    pub(super) fn end_of(&self, function: u64) -> u64 {
        let next = self.functions.range(function + 1..).next();
        next.copied().unwrap_or(u64::MAX)
    }

    /// The instructions of a function in the order of their addresses, up to the next function.
    pub(super) fn instructions(&self, function: u64) -> impl Iterator<Item = Instruction> {
        let end = self.end_of(function);
        self.instructions_from(function)
            .take_while(move |instruction| instruction.ip() < end && !instruction.is_invalid())
    }

    pub(super) fn functions(&self) -> impl Iterator<Item = u64> {
        self.functions.iter().copied()
    }

    /// Whether a function begins at an address for sure: something calls it, or it follows the end of another one. A word of
    /// the data that is the address of some code may also be any number.
    pub(super) fn is_beginning(&self, address: u64) -> bool {
        self.calls.iter().any(|call| call.target == address)
            || self.after_ends.binary_search(&address).is_ok()
    }

    /// The instructions from an address on.
    pub(super) fn instructions_from(&self, address: u64) -> impl Iterator<Item = Instruction> {
        let bytes = self.bytes_from(address).unwrap_or_default();
        Decoder::with_ip(64, bytes, address, DecoderOptions::NONE).into_iter()
    }

    /// The functions that call this one, or jump to it from their end.
    pub(super) fn callers(&self, function: u64) -> BTreeSet<u64> {
        self.calls
            .iter()
            .chain(&self.jumps)
            .filter(|call| call.target == function)
            .filter_map(|call| self.function_of(call.site))
            .filter(|&caller| caller != function)
            .collect()
    }

    /// The functions that call this one and use its result.
    pub(super) fn callers_that_go_on(&self, function: u64) -> BTreeSet<u64> {
        let calls = self.calls.iter().filter(|call| call.target == function);
        calls
            .filter_map(|call| self.function_of(call.site))
            .collect()
    }

    /// What a function calls, or jumps to outside of itself.
    pub(super) fn callees(&self, function: u64) -> BTreeSet<u64> {
        let range = function..self.end_of(function);
        self.calls
            .iter()
            .chain(&self.jumps)
            .filter(|call| range.contains(&call.site) && !range.contains(&call.target))
            .map(|call| call.target)
            .collect()
    }

    /// The functions that do nothing but jump to this one.
    pub(super) fn wrappers(&self, function: u64) -> BTreeSet<u64> {
        let jumps = self.jumps.iter().filter(|jump| jump.target == function);
        jumps
            .map(|jump| jump.site)
            .filter(|site| self.functions.contains(site))
            .collect()
    }

    /// The functions that compare the byte four in front of a pointer with 0.
    pub(super) fn that_compare_bytes_in_front(&self) -> BTreeSet<u64> {
        let sites = self.bytes_in_front.iter();
        sites.filter_map(|&site| self.function_of(site)).collect()
    }

    /// The functions that use an interesting address.
    pub(super) fn users(&self, targets: &BTreeSet<u64>) -> BTreeSet<u64> {
        let uses = self
            .uses
            .iter()
            .filter(|used| targets.contains(&used.target));
        uses.filter_map(|used| self.function_of(used.site))
            .collect()
    }
}

/// `cmp byte ptr [… - 4], 0`
fn compares_byte_in_front(instruction: &Instruction) -> bool {
    instruction.mnemonic() == Mnemonic::Cmp
        && instruction.memory_size() == MemorySize::UInt8
        && instruction.memory_displacement64() as i64 == -4
        && immediate(instruction) == Some(0)
}

/// The only element.
pub(super) fn only(set: &BTreeSet<u64>) -> Option<u64> {
    match set.len() {
        1 => set.first().copied(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_data_are_functions_only_where_one_can_begin() {
        // xor eax, eax; inc eax; ret; nop; inc eax; call 0x1000; ret
        let bytes = b"\x31\xc0\xff\xc0\xc3\x90\xff\xc0\xe8\xf3\xff\xff\xff\xc3";
        let words = [0x1002, 0x1006, 0x1008, 4];
        let code = Code::read(
            vec![(0x1000, bytes)],
            std::iter::empty(),
            words.into_iter(),
            &BTreeMap::new(),
        );
        assert!(code.functions().eq([0x1000, 0x1006]));
        assert!([0x1000, 0x1006].iter().all(|&at| code.is_beginning(at)));
        assert!(![0x1002, 0x1008].iter().any(|&at| code.is_beginning(at)));
    }
}
