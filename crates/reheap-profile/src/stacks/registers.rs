//! What a hook captured: the layout that `hooks/capture.c` writes.

/// The registers of a hook's caller, as they are after the hook returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registers {
    /// The address that the hook returns to.
    pub program_counter: u64,
    /// rsp or sp.
    pub stack_pointer: u64,
    /// rbp or x29.
    pub frame_pointer: u64,
}

impl Registers {
    /// From the words that `CAPTURE_CALLER` fills.
    pub fn parse(words: [u64; 3]) -> Self {
        Self {
            program_counter: words[0],
            stack_pointer: words[1],
            frame_pointer: words[2],
        }
    }
}

/// Registers and stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Captured<'a> {
    /// Of the hook's caller.
    pub registers: Registers,
    /// What is at the stack pointer and above.
    pub stack: &'a [u8],
}

impl<'a> Captured<'a> {
    const HEADER_BYTES: usize = 32;

    /// From the bytes of a `struct captured`; `None` if they end too early.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (header, rest) = bytes.split_at_checked(Self::HEADER_BYTES)?;
        let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|i| header[at + i]));
        let stack_bytes = u32::from_ne_bytes(std::array::from_fn(|i| header[24 + i]));
        Some(Self {
            registers: Registers::parse([word(0), word(8), word(16)]),
            stack: rest.get(..stack_bytes as usize)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capture_that_is_cut_off_is_refused() {
        let mut bytes = Vec::new();
        for word in [1_u64, 2, 3, 16] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend([7; 16]);
        let captured = Captured::parse(&bytes).expect("whole");
        assert_eq!(captured.registers, Registers::parse([1, 2, 3]));
        assert_eq!(captured.stack, [7; 16]);
        for length in 0..bytes.len() {
            assert_eq!(Captured::parse(&bytes[..length]), None);
        }
    }
}
