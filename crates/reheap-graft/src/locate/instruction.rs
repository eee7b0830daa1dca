//! What one x86-64 instruction does.

use iced_x86::{FlowControl, Instruction, OpKind};

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
