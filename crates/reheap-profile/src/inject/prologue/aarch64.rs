//! aarch64: every instruction has four bytes, and so has a jump.
//!
//! One instruction moves. The encodings are those of the Arm Architecture Reference Manual, C4.1 "A64 instruction set
//! encoding". No machine with this processor ran this so far; the tests here compare encodings.

use super::PrologueError;

/// `b imm26`.
pub(crate) const JUMP_BYTES: usize = 4;

/// See [`super::jump`].
pub(super) fn jump(address: u64, target: u64) -> Option<Vec<u8>> {
    branch(address, target).map(|word| word.to_le_bytes().to_vec())
}

fn branch(address: u64, target: u64) -> Option<u32> {
    let distance = target.wrapping_sub(address) as i64;
    let in_reach = (-(1 << 27)..1 << 27).contains(&distance) && distance % 4 == 0;
    in_reach.then_some(0x1400_0000 | (distance >> 2) as u32 & 0x03ff_ffff)
}

fn first_word(code: &[u8], address: u64) -> Result<u32, PrologueError> {
    let bytes = code.first_chunk::<4>();
    bytes
        .map(|bytes| u32::from_le_bytes(*bytes))
        .ok_or(PrologueError::NoInstruction(address))
}

/// See [`super::check`]. Nothing can go into the middle of one instruction.
pub(super) fn check(code: &[u8], address: u64, _size: Option<u64>) -> Result<(), PrologueError> {
    relocate(code, address, address.wrapping_add(0x10_0000)).map(|_| ())
}

/// The field of `word` from bit `low`, `bits` wide, with its sign.
fn signed(word: u32, low: u32, bits: u32) -> i64 {
    i64::from((word << (32 - low - bits)) as i32 >> (32 - bits))
}

/// What the first instruction does that depends on where it is.
enum Meaning {
    /// Nothing: it can be copied.
    Anywhere,
    /// It goes on at an address.
    Jump(u64),
    /// It calls an address.
    Call(u64),
    /// It goes on at an address, or behind itself; the word has its distance cleared to eight bytes.
    Condition(u32, u64),
    /// It puts an address into a register.
    Address(u32, u64),
    /// It loads from an address into a register, by this instruction with the register as the base.
    Load(u32, u64, u32),
}

fn meaning(word: u32, address: u64) -> Result<Meaning, PrologueError> {
    let to = |distance: i64| address.wrapping_add_signed(distance);
    let immovable = |reason: &str| Err(PrologueError::Immovable(address, reason.to_owned()));
    let register = word & 31;
    Ok(match word {
        // BTI, PACIASP and PACIBSP: where indirect branches may land. A jump may not take that place.
        0xd503_245f | 0xd503_24df | 0xd503_233f | 0xd503_237f => {
            return immovable("it marks where indirect branches may land");
        }
        _ if word & 0xfc00_0000 == 0x1400_0000 => Meaning::Jump(to(signed(word, 0, 26) * 4)),
        _ if word & 0xfc00_0000 == 0x9400_0000 => Meaning::Call(to(signed(word, 0, 26) * 4)),
        // B.cond and BC.cond; CBZ and CBNZ
        _ if word & 0xff00_0000 == 0x5400_0000 || word & 0x7e00_0000 == 0x3400_0000 => {
            Meaning::Condition(
                word & !(0x7_ffff << 5) | 2 << 5,
                to(signed(word, 5, 19) * 4),
            )
        }
        // TBZ and TBNZ
        _ if word & 0x7e00_0000 == 0x3600_0000 => {
            Meaning::Condition(word & !(0x3fff << 5) | 2 << 5, to(signed(word, 5, 14) * 4))
        }
        // ADR and ADRP
        _ if word & 0x1f00_0000 == 0x1000_0000 => {
            let distance = signed(word, 5, 19) << 2 | i64::from(word >> 29 & 3);
            Meaning::Address(
                register,
                match word >> 31 {
                    0 => to(distance),
                    _ => (address & !0xfff).wrapping_add_signed(distance << 12),
                },
            )
        }
        // Load register (literal)
        _ if word & 0x3b00_0000 == 0x1800_0000 => {
            let base = match (word >> 26 & 1, word >> 30) {
                (0, 0b00) => 0xb940_0000, // LDR w
                (0, 0b01) => 0xf940_0000, // LDR x
                (0, 0b10) => 0xb980_0000, // LDRSW
                _ => return immovable("it loads a vector or prefetches from an address near it"),
            };
            let load = base | register << 5 | register;
            Meaning::Load(register, to(signed(word, 5, 19) * 4), load)
        }
        // Calls by a register return behind themselves, and exceptions report where they were.
        _ if word & 0xfe00_0000 == 0xd600_0000 && word >> 21 & 3 == 1 => {
            return immovable("an indirect call");
        }
        0 => return Err(PrologueError::NoInstruction(address)),
        _ => Meaning::Anywhere,
    })
}

/// `ldr x<register>, <the eight bytes that follow the next instruction>`, a jump over them, and them.
fn put_address(words: &mut Vec<u32>, register: u32, value: u64) {
    words.extend([0x5800_0040 | register, 0x1400_0003]);
    words.extend([value as u32, (value >> 32) as u32]);
}

/// See [`super::relocate`].
pub(super) fn relocate(code: &[u8], address: u64, place: u64) -> Result<Vec<u8>, PrologueError> {
    const LINK: u32 = 30;
    let word = first_word(code, address)?;
    let behind = address.wrapping_add(4);
    let mut words = Vec::new();
    let goes_to = match meaning(word, address)? {
        Meaning::Anywhere => {
            words.push(word);
            behind
        }
        Meaning::Jump(target) => target,
        Meaning::Call(target) => {
            put_address(&mut words, LINK, behind);
            target
        }
        Meaning::Condition(word, target) => {
            words.push(word);
            words.push(branch_or_error(place + 4, behind, address)?);
            target
        }
        Meaning::Address(register, value) => {
            put_address(&mut words, register, value);
            behind
        }
        Meaning::Load(register, value, load) => {
            put_address(&mut words, register, value);
            words.push(load);
            behind
        }
    };
    let end = place + 4 * words.len() as u64;
    words.push(branch_or_error(end, goes_to, address)?);
    Ok(words.into_iter().flat_map(u32::to_le_bytes).collect())
}

fn branch_or_error(from: u64, to: u64, address: u64) -> Result<u32, PrologueError> {
    branch(from, to).ok_or_else(|| {
        PrologueError::Immovable(address, format!("{to:#x} is out of reach of a jump"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: u64 = 0x40_1000;
    const PLACE: u64 = 0x3f_0000;

    fn moved(word: u32) -> Vec<u32> {
        let bytes = relocate(&word.to_le_bytes(), ADDRESS, PLACE).unwrap();
        let words = bytes.chunks_exact(4);
        words
            .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
            .collect()
    }

    /// Where the branch at an index goes.
    fn target(words: &[u32], index: usize) -> u64 {
        assert_eq!(
            words[index] >> 26,
            0b101,
            "{:#x} is no branch",
            words[index]
        );
        (PLACE + 4 * index as u64).wrapping_add_signed(signed(words[index], 0, 26) * 4)
    }

    #[test]
    fn most_instructions_are_copied() {
        let words = moved(0xa9be_7bfd); // stp x29, x30, [sp, #-32]!
        assert_eq!(words[0], 0xa9be_7bfd);
        assert_eq!(target(&words, 1), ADDRESS + 4);
    }

    #[test]
    fn branches_keep_their_targets() {
        assert_eq!(target(&moved(0x1400_0010), 0), ADDRESS + 0x40); // b +0x40
        let words = moved(0xb400_0080); // cbz x0, +0x10
        assert_eq!(words[0], 0xb400_0040); // cbz x0, +8
        assert_eq!(target(&words, 1), ADDRESS + 4);
        assert_eq!(target(&words, 2), ADDRESS + 0x10);
        let words = moved(0x36ff_ffe1); // tbz w1, #31, -4
        assert_eq!(words[0], 0x36f8_0041);
        assert_eq!(target(&words, 2), ADDRESS - 4);
    }

    #[test]
    fn a_call_returns_into_the_function_itself() {
        let words = moved(0x9400_0010); // bl +0x40
        assert_eq!(words[..2], [0x5800_005e, 0x1400_0003]); // ldr x30, +8; b +12
        assert_eq!(words[2..4], [ADDRESS as u32 + 4, 0]);
        assert_eq!(target(&words, 4), ADDRESS + 0x40);
    }

    #[test]
    fn addresses_relative_to_the_instruction_stay_the_same() {
        let words = moved(0x9000_0008); // adrp x8, +0
        assert_eq!(words[0], 0x5800_0048);
        assert_eq!(words[2..4], [ADDRESS as u32, 0]);
        assert_eq!(target(&words, 4), ADDRESS + 4);
        assert_eq!(moved(0x3000_0008)[2], ADDRESS as u32 + 1); // adr x8, +1
        let words = moved(0x5800_0089); // ldr x9, +0x10
        assert_eq!(words[2], ADDRESS as u32 + 0x10);
        assert_eq!(words[4], 0xf940_0129); // ldr x9, [x9]
    }

    #[test]
    fn what_cannot_move_is_refused() {
        for word in [0xd503_245f_u32, 0xd503_233f, 0xd63f_0100, 0x9c00_0080, 0] {
            assert!(
                relocate(&word.to_le_bytes(), ADDRESS, PLACE).is_err(),
                "{word:#x}"
            );
        }
    }
}
