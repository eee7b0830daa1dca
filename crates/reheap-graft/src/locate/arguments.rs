//! What a function does with its arguments before it gives them away, and what it returns.

use super::code::Code;
use iced_x86::{
    FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
};

pub(super) const EINVAL: u64 = 22;
pub(super) const ENOMEM: u64 = 12;

pub(super) fn is_call(instruction: &Instruction) -> bool {
    matches!(
        instruction.flow_control(),
        FlowControl::Call | FlowControl::IndirectCall
    )
}

/// The number in an instruction.
pub(super) fn immediate(instruction: &Instruction) -> Option<u64> {
    let is_immediate = |operand: &u32| {
        matches!(
            instruction.op_kind(*operand),
            OpKind::Immediate8
                | OpKind::Immediate32
                | OpKind::Immediate64
                | OpKind::Immediate8to32
                | OpKind::Immediate8to64
                | OpKind::Immediate32to64
        )
    };
    let operand = (0..instruction.op_count()).find(is_immediate)?;
    Some(instruction.immediate(operand))
}

/// Whether a function puts this number into the register of its result.
pub(super) fn returns_number(code: &Code<'_>, function: u64, number: u64) -> bool {
    code.instructions(function).any(|instruction| {
        instruction.mnemonic() == Mnemonic::Mov
            && instruction.op0_register() == Register::EAX
            && immediate(&instruction) == Some(number)
    })
}

/// Whether a function jumps to another one with both of its own arguments unchanged.
pub(super) fn passes_arguments(code: &Code<'_>, function: u64, target: u64) -> bool {
    let mut factory = InstructionInfoFactory::new();
    for instruction in code.instructions(function) {
        let is_jump = instruction.flow_control() == FlowControl::UnconditionalBranch;
        if is_jump && instruction.near_branch_target() == target {
            return true;
        }
        let changes_argument = factory
            .info(&instruction)
            .used_registers()
            .iter()
            .any(|used| {
                let is_argument = matches!(
                    used.register().full_register(),
                    Register::RDI | Register::RSI
                );
                is_argument && !matches!(used.access(), OpAccess::Read | OpAccess::CondRead)
            });
        if is_call(&instruction) || changes_argument {
            return false;
        }
    }
    false
}
