//! What a function does with its arguments before it gives them away, and what it returns.

use super::code::Code;
use super::instruction::{immediate, is_call};
use iced_x86::{FlowControl, InstructionInfoFactory, Mnemonic, OpAccess, Register};

pub(super) const EINVAL: u64 = 22;
pub(super) const ENOMEM: u64 = 12;

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
