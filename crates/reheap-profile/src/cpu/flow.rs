//! Which instructions can be reached from a function, and how far each has moved the stack pointer since its function
//! began.
//!
//! musl is compiled without the tables that stacks are unwound by, and without frame pointers. A sample in its malloc
//! would lead nowhere. But which functions malloc calls, and what they do with the stack pointer, is in their code: so
//! where the return address is, is known for each instruction. Only x86-64 code is read; for others nothing is found.

use crate::stacks::Elf;
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, OpKind, Register};
use reheap_graft::Processor;
use std::collections::HashMap;
use std::ops::Range;

/// More is not followed: no allocator has so much code.
const INSTRUCTIONS_MAX: usize = 200_000;
/// The longest instruction.
const INSTRUCTION_BYTES_MAX: u64 = 15;
/// How much code is read at a time.
const WINDOW_BYTES: u64 = 4096;

/// The instructions that were reached, in addresses of the file.
#[derive(Debug, Default)]
pub(super) struct Flow {
    /// How many bytes above the stack pointer the return address is, and where the instruction ends.
    depths: HashMap<u64, (u32, u64)>,
}

impl Flow {
    /// From these functions on, with all that they call.
    pub(super) fn of(elf: &Elf, functions: &[u64]) -> Self {
        let mut flow = Self::default();
        if elf.processor() != Processor::X86_64 {
            return flow;
        }
        let mut code = CodeReader::new(elf);
        let mut waiting: Vec<(u64, u32)> = functions.iter().map(|address| (*address, 0)).collect();
        while let Some((address, depth)) = waiting.pop() {
            if flow.depths.contains_key(&address) || flow.depths.len() == INSTRUCTIONS_MAX {
                continue;
            }
            let Some(instruction) = code.instruction(address) else {
                continue;
            };
            flow.depths.insert(address, (depth, instruction.next_ip()));
            waiting.extend(next(&instruction, depth).into_iter().flatten());
        }
        flow
    }

    /// How far above the stack pointer the return address is before this instruction; `None` if it was not reached.
    pub(super) fn depth(&self, address: u64) -> Option<u64> {
        self.depths
            .get(&address)
            .map(|(depth, _)| u64::from(*depth))
    }

    /// The function's instructions that are next to each other, with what aligns them.
    pub(super) fn extent(&self, function: u64) -> Option<Range<u64>> {
        const PADDING_MAX: u64 = 16;
        let mut end = function;
        let next = |end: u64| {
            let near = (end..end + PADDING_MAX).find_map(|address| self.depths.get(&address));
            near.map(|(_, next)| *next)
        };
        while let Some(next) = next(end) {
            end = next;
        }
        (end > function).then_some(function..end)
    }
}

/// Where the program goes on after an instruction, with the depth there: behind it, and where it jumps to or calls.
fn next(instruction: &Instruction, depth: u32) -> [Option<(u64, u32)>; 2] {
    let target = instruction.near_branch_target();
    let behind = || depth_after(instruction, depth).map(|depth| (instruction.next_ip(), depth));
    match instruction.flow_control() {
        FlowControl::Next | FlowControl::IndirectCall => [behind(), None],
        FlowControl::Call if instruction.is_call_near() => {
            [Some((instruction.next_ip(), depth)), Some((target, 0))]
        }
        FlowControl::Call => [Some((instruction.next_ip(), depth)), None], // syscall
        FlowControl::ConditionalBranch => [behind(), Some((target, depth))],
        FlowControl::UnconditionalBranch => [Some((target, depth)), None],
        _ => [None, None],
    }
}

fn depth_after(instruction: &Instruction, depth: u32) -> Option<u32> {
    if instruction.flow_control() == FlowControl::IndirectCall {
        return Some(depth); // it returns with the stack pointer as it was
    }
    let moved = match instruction.code() {
        Code::Sub_rm64_imm8 | Code::Sub_rm64_imm32 if is_stack_pointer(instruction) => {
            instruction.immediate(1) as i64
        }
        Code::Add_rm64_imm8 | Code::Add_rm64_imm32 if is_stack_pointer(instruction) => {
            -(instruction.immediate(1) as i64)
        }
        Code::Lea_r64_m if is_stack_pointer(instruction) => {
            let plain = instruction.memory_base() == Register::RSP
                && instruction.memory_index() == Register::None;
            plain.then_some(-(instruction.memory_displacement64() as i64))?
        }
        Code::Leaveq => return None,
        _ if instruction.stack_pointer_increment() != 0 => {
            -i64::from(instruction.stack_pointer_increment())
        }
        // It was aligned, or comes from elsewhere.
        _ if is_stack_pointer(instruction) && !is_compared(instruction) => return None,
        _ => 0,
    };
    u32::try_from(i64::from(depth) + moved).ok()
}

fn is_stack_pointer(instruction: &Instruction) -> bool {
    instruction.op_count() > 0
        && instruction.op0_kind() == OpKind::Register
        && instruction.op0_register() == Register::RSP
}

fn is_compared(instruction: &Instruction) -> bool {
    use iced_x86::Mnemonic::{Cmp, Test};
    matches!(instruction.mnemonic(), Cmp | Test)
}

/// Reads code in larger pieces.
struct CodeReader<'a> {
    elf: &'a Elf,
    start: u64,
    window: Vec<u8>,
}

impl<'a> CodeReader<'a> {
    fn new(elf: &'a Elf) -> Self {
        Self {
            elf,
            start: 0,
            window: Vec::new(),
        }
    }

    fn instruction(&mut self, address: u64) -> Option<Instruction> {
        let end = self.start + self.window.len() as u64;
        if address < self.start || address + INSTRUCTION_BYTES_MAX > end {
            let sizes = [WINDOW_BYTES, 64, INSTRUCTION_BYTES_MAX, 5, 1];
            let mut read = sizes
                .into_iter()
                .filter_map(|bytes| self.elf.code(address, bytes));
            (self.window, self.start) = (read.next()?, address);
        }
        let code = &self.window[(address - self.start) as usize..];
        let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
        let instruction = decoder.decode();
        (!instruction.is_invalid()).then_some(instruction)
    }
}
