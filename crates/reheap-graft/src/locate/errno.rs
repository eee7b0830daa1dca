//! Where `errno` is: both libcs have it at a fixed distance from the thread pointer.

use super::instruction::immediate;
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

/// The distance, from the code of `__errno_location`, which returns the place.
///
/// It takes the thread pointer, which is also the first word that it points to, and adds a number (musl,
/// `src/errno/__errno_location.c`; glibc, `csu/errno-loc.c`).
pub(super) fn distance(code: &[u8]) -> Option<i64> {
    let mut result = Result::default();
    for instruction in Decoder::new(64, code, DecoderOptions::NONE).iter() {
        match (instruction.flow_control(), instruction.mnemonic()) {
            (FlowControl::Return, _) => return result.number.filter(|_| result.is_relative),
            (_, Mnemonic::Endbr64) => {}
            _ => result = result.after(&instruction)?,
        }
    }
    None
}

/// What is in RAX: the thread pointer, a number, or the sum of both.
#[derive(Debug, Clone, Copy, Default)]
struct Result {
    is_relative: bool,
    number: Option<i64>,
}

impl Result {
    /// `None` if the instruction does something else.
    fn after(self, instruction: &Instruction) -> Option<Self> {
        let is_first = !self.is_relative && self.number.is_none();
        match instruction.mnemonic() {
            _ if instruction.op0_register() != Register::RAX => return None,
            Mnemonic::Mov if is_first => {}
            Mnemonic::Add if !is_first => {}
            _ => return None,
        }
        let reads_thread_pointer = instruction.op1_kind() == OpKind::Memory
            && instruction.memory_segment() == Register::FS
            && instruction.memory_base() == Register::None
            && instruction.memory_displacement64() == 0;
        match immediate(instruction) {
            None if reads_thread_pointer && !self.is_relative => Some(Self {
                is_relative: true,
                ..self
            }),
            Some(number) if self.number.is_none() => Some(Self {
                number: Some(number as i64),
                ..self
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_functions_of_both_libcs_are_understood() {
        let musl = b"\x64\x48\x8b\x04\x25\0\0\0\0\x48\x83\xc0\x34\xc3";
        assert_eq!(distance(musl), Some(0x34));
        let glibc = b"\xf3\x0f\x1e\xfa\x48\xc7\xc0\xc0\xff\xff\xff\x64\x48\x03\x04\x25\0\0\0\0\xc3";
        assert_eq!(distance(glibc), Some(-0x40));
    }

    #[test]
    fn nothing_else_is() {
        let constant = b"\x48\xc7\xc0\xc0\xff\xff\xff\xc3";
        let thread_pointer = b"\x64\x48\x8b\x04\x25\0\0\0\0\xc3";
        let other_register = b"\x64\x48\x8b\x04\x25\0\0\0\0\x48\x83\xc1\x34\xc3";
        for code in [
            constant.as_slice(),
            thread_pointer,
            other_register,
            b"\xc3",
            b"",
        ] {
            assert_eq!(distance(code), None);
        }
    }
}
