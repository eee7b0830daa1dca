//! x86-64: a jump of five bytes, instructions of one to fifteen.

use super::PrologueError;
use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, Decoder, DecoderOptions, FlowControl, Instruction,
    InstructionBlock, MemoryOperand, Mnemonic, Register,
};
use std::collections::BTreeSet;

/// `jmp rel32`.
pub(super) const JUMP_BYTES: usize = 5;
/// More than any allocator's function has. A branch back to the beginning of a longer one is not seen.
const INSTRUCTIONS_MAX: usize = 20_000;

/// A call of `target` at `address`; `None` if it is out of reach.
pub(super) fn call(address: u64, target: u64) -> Option<Vec<u8>> {
    let mut call = jump(address, target)?;
    call[0] = 0xe8;
    Some(call)
}

/// A jump to `target` at `address`; `None` if it is out of reach.
pub(super) fn jump(address: u64, target: u64) -> Option<Vec<u8>> {
    let distance = target.wrapping_sub(address.wrapping_add(JUMP_BYTES as u64)) as i64;
    let distance = i32::try_from(distance).ok()?;
    Some([&[0xe9][..], &distance.to_le_bytes()].concat())
}

/// The instructions whose bytes the jump takes, at least in part.
fn taken(code: &[u8], address: u64) -> Result<Vec<Instruction>, PrologueError> {
    let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
    let mut instructions: Vec<Instruction> = Vec::new();
    let mut bytes = 0;
    let mut ended_at = None;
    while bytes < JUMP_BYTES {
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            return Err(match ended_at {
                Some(end) => PrologueError::Short(end, JUMP_BYTES),
                None => PrologueError::NoInstruction(instruction.ip()),
            });
        }
        bytes += instruction.len();
        match ended_at {
            // Behind the function's end there may be filling, but nothing that anybody uses.
            Some(end) if !is_filling(&instruction) => {
                return Err(PrologueError::Short(end, JUMP_BYTES));
            }
            Some(_) => {}
            None => {
                instructions.push(instruction);
                if ends_flow(&instruction) {
                    ended_at = Some(bytes);
                }
            }
        }
    }
    Ok(instructions)
}

fn is_filling(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3)
        || instruction.code() == Code::Xchg_rm16_r16 // 66 90 in another spelling
}

fn ends_flow(instruction: &Instruction) -> bool {
    matches!(
        instruction.flow_control(),
        FlowControl::Return
            | FlowControl::UnconditionalBranch
            | FlowControl::IndirectBranch
            | FlowControl::Interrupt
            | FlowControl::Exception
    )
}

/// Shows that a jump can take the place of the first instructions of the function at `address`.
pub(super) fn check(code: &[u8], address: u64, size: Option<u64>) -> Result<(), PrologueError> {
    let instructions = taken(code, address)?;
    let own_bytes: usize = instructions.iter().map(Instruction::len).sum();
    if let Some(size) = size
        && size > 0
        && (size as usize) < own_bytes
    {
        return Err(PrologueError::Short(size as usize, JUMP_BYTES));
    }
    for instruction in &instructions {
        let returns_to = instruction.next_ip();
        if is_call(instruction) && returns_to < address + JUMP_BYTES as u64 {
            return Err(PrologueError::ReturnInto(instruction.ip()));
        }
    }
    let size = size.filter(|&size| size > 0).map(|size| size as usize);
    let extent = size.map_or(code, |size| &code[..size.min(code.len())]);
    check_branches(extent, address)?;
    // What can be relocated here can be relocated anywhere in reach.
    relocate(code, address, address.wrapping_add(0x10_0000)).map(|_| ())
}

/// Follows the function's branches and looks where they go.
fn check_branches(code: &[u8], address: u64) -> Result<(), PrologueError> {
    let end = address + code.len() as u64;
    let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
    let mut seen = BTreeSet::new();
    let mut pending = vec![address];
    while let Some(start) = pending.pop() {
        let mut at = start;
        while (address..end).contains(&at) && seen.len() < INSTRUCTIONS_MAX && seen.insert(at) {
            let place = (at - address) as usize;
            if decoder.set_position(place).is_err() {
                break;
            }
            decoder.set_ip(at);
            let instruction = decoder.decode();
            if instruction.is_invalid() {
                break;
            }
            if has_near_target(&instruction) {
                let target = instruction.near_branch_target();
                if target > address && target < address + JUMP_BYTES as u64 {
                    let branch = instruction.ip();
                    return Err(PrologueError::BranchInto { branch, target });
                }
                if !is_call(&instruction) {
                    pending.push(target);
                }
            }
            if ends_flow(&instruction) {
                break;
            }
            at = instruction.next_ip();
        }
    }
    Ok(())
}

fn has_near_target(instruction: &Instruction) -> bool {
    matches!(
        instruction.op0_kind(),
        iced_x86::OpKind::NearBranch16
            | iced_x86::OpKind::NearBranch32
            | iced_x86::OpKind::NearBranch64
    )
}

fn is_call(instruction: &Instruction) -> bool {
    matches!(
        instruction.flow_control(),
        FlowControl::Call | FlowControl::IndirectCall
    )
}

/// The relocated prologue of the function at `address`, for `place`.
pub(super) fn relocate(code: &[u8], address: u64, place: u64) -> Result<Vec<u8>, PrologueError> {
    let taken = taken(code, address)?;
    let immovable =
        |error: iced_x86::IcedError| PrologueError::Immovable(address, error.to_string());
    let mut moved = Vec::new();
    for instruction in &taken {
        if is_call(instruction) {
            moved.extend(call_from_afar(instruction)?)
        } else {
            moved.push(*instruction)
        }
    }
    let last = taken.last().expect("a jump takes at least one instruction");
    if !ends_flow(last) && !is_call(last) {
        let back = Instruction::with_branch(Code::Jmp_rel32_64, last.next_ip());
        moved.push(back.map_err(immovable)?);
    }
    let block = InstructionBlock::new(&moved, place);
    let encoded = BlockEncoder::encode(64, block, BlockEncoderOptions::NONE).map_err(immovable)?;
    Ok(encoded.code_buffer)
}

/// A call that returns to where the original one does: the return address is stored by hand, without changing a flag.
fn call_from_afar(call: &Instruction) -> Result<Vec<Instruction>, PrologueError> {
    if call.code() != Code::Call_rel32_64 {
        let reason = "an indirect call".to_owned();
        return Err(PrologueError::Immovable(call.ip(), reason));
    }
    let immovable =
        |error: iced_x86::IcedError| PrologueError::Immovable(call.ip(), error.to_string());
    let below = |displacement| MemoryOperand::with_base_displ(Register::RSP, displacement);
    let returns_to = call.next_ip();
    let half = |code, displacement, value: u64| {
        Instruction::with2(code, below(displacement), value as u32 as i32).map_err(immovable)
    };
    Ok(vec![
        Instruction::with2(Code::Lea_r64_m, Register::RSP, below(-8)).map_err(immovable)?,
        half(Code::Mov_rm32_imm32, 0, returns_to)?,
        half(Code::Mov_rm32_imm32, 4, returns_to >> 32)?,
        Instruction::with_branch(Code::Jmp_rel32_64, call.near_branch_target())
            .map_err(immovable)?,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: u64 = 0x40_1000;
    const PLACE: u64 = 0x3f_0000;

    fn text(code: &[u8], address: u64) -> Vec<(u64, Instruction)> {
        Decoder::with_ip(64, code, address, DecoderOptions::NONE)
            .iter()
            .map(|instruction| (instruction.ip(), instruction))
            .collect()
    }

    #[test]
    fn a_wrapper_that_only_jumps_becomes_a_jump_to_the_same_place() {
        let code = [0xe9, 0x10, 0, 0, 0, 0x90];
        check(&code, ADDRESS, Some(5)).unwrap();
        let moved = relocate(&code, ADDRESS, PLACE).unwrap();
        let moved = text(&moved, PLACE);
        assert_eq!(moved.len(), 1);
        assert_eq!(moved[0].1.near_branch_target(), ADDRESS + 0x15);
    }

    #[test]
    fn an_operand_relative_to_the_instruction_keeps_its_address() {
        // cmp byte [rip+0x94690], 0; je +7
        let code = [0x80, 0x3d, 0x90, 0x46, 0x09, 0, 0, 0x74, 0x07];
        check(&[&code[..], &[0xc3]].concat(), ADDRESS, None).unwrap();
        let moved = relocate(&code, ADDRESS, PLACE).unwrap();
        let moved = text(&moved, PLACE);
        assert_eq!(moved[0].1.ip_rel_memory_address(), ADDRESS + 7 + 0x94690);
        assert_eq!(moved[1].1.near_branch_target(), ADDRESS + 7);
    }

    #[test]
    fn a_short_branch_becomes_a_long_one() {
        // test rdi, rdi; je +0x20; nop...
        let code = [0x48, 0x85, 0xff, 0x74, 0x20, 0x90, 0xc3];
        let moved = relocate(&code, ADDRESS, PLACE).unwrap();
        let moved = text(&moved, PLACE);
        assert_eq!(moved[1].1.near_branch_target(), ADDRESS + 0x25);
        assert_eq!(moved[2].1.near_branch_target(), ADDRESS + 5);
    }

    #[test]
    fn a_call_returns_into_the_function_itself() {
        // push rax; call +0x100; pop rdx; ret
        let code = [0x50, 0xe8, 0, 1, 0, 0, 0x5a, 0xc3];
        check(&code, ADDRESS, Some(8)).unwrap();
        let moved = relocate(&code, ADDRESS, PLACE).unwrap();
        let moved = text(&moved, PLACE);
        let stored: Vec<_> = moved[2..4]
            .iter()
            .map(|(_, instruction)| instruction.immediate32())
            .collect();
        assert_eq!(stored, [ADDRESS as u32 + 6, 0]);
        assert_eq!(moved[4].1.near_branch_target(), ADDRESS + 0x106);
        assert!(moved.iter().all(|(_, instruction)| !is_call(instruction)));
    }

    #[test]
    fn a_branch_into_the_taken_bytes_is_refused() {
        // push rbp; push rbx; dec edi; jne back to `push rbx`; ret
        let code = [0x55, 0x53, 0xff, 0xcf, 0x75, 0xfb, 0xc3];
        assert_eq!(
            check(&code, ADDRESS, Some(7)),
            Err(PrologueError::BranchInto {
                branch: ADDRESS + 4,
                target: ADDRESS + 1
            })
        );
    }

    #[test]
    fn a_function_that_ends_too_early_is_refused_unless_filling_follows() {
        // xor eax, eax; ret; then another function
        assert_eq!(
            check(
                &[0x31, 0xc0, 0xc3, 0x55, 0x48, 0x89, 0xe5],
                ADDRESS,
                Some(3)
            ),
            Err(PrologueError::Short(3, 5))
        );
        let filled = [0x31, 0xc0, 0xc3, 0x66, 0x90, 0x55, 0x48, 0x89, 0xe5];
        check(&filled, ADDRESS, Some(3)).unwrap();
        assert_eq!(
            relocate(&filled, ADDRESS, PLACE).unwrap(),
            [0x31, 0xc0, 0xc3]
        );
    }

    #[test]
    fn a_call_that_returns_into_the_taken_bytes_is_refused() {
        // call rax; ret; nops
        let code = [0xff, 0xd0, 0xc3, 0x90, 0x90, 0x90];
        assert_eq!(
            check(&code, ADDRESS, None),
            Err(PrologueError::ReturnInto(ADDRESS))
        );
    }

    #[test]
    fn a_jump_out_of_reach_is_not_made() {
        assert_eq!(jump(0x40_0000, 0x7f00_0000_0000), None);
        assert_eq!(
            jump(0x40_0000, 0x40_0000),
            Some(vec![0xe9, 0xfb, 0xff, 0xff, 0xff])
        );
    }
}
