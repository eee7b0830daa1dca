//! aarch64: every instruction has four bytes, and so has a jump.
//!
//! One instruction moves, or two if the first marks where indirect branches may land (`bti c`, `paciasp`): in a page that
//! is guarded, the processor ends a program whose call through a pointer lands on anything else. So a landing pad stays, and
//! the jump follows it. `paciasp` also signs the return address, and the hook needs that as it is: so `bti c` takes its
//! place, and the signing moves. The relocated prologue needs no landing pad, because its page is not guarded.
//!
//! The encodings are those of the Arm Architecture Reference Manual, C4.1 "A64 instruction set encoding".

use super::PrologueError;

/// `b imm26`.
pub(super) const JUMP_BYTES: usize = 4;
/// `bti c`, where calls and jumps by `x16` and `x17` may land. Older processors do nothing there.
const LANDING_PAD: u32 = 0xd503_245f;
/// `bti c`, `bti jc`, `paciasp` and `pacibsp`.
const LANDING_PADS: [u32; 4] = [LANDING_PAD, 0xd503_24df, 0xd503_233f, 0xd503_237f];

/// How many bytes of a function that begins with `code` its replacement takes.
pub(super) fn taken_bytes(code: &[u8]) -> usize {
    if begins_with_landing_pad(code) {
        2 * JUMP_BYTES
    } else {
        JUMP_BYTES
    }
}

fn begins_with_landing_pad(code: &[u8]) -> bool {
    word_at(code, 0).is_some_and(|word| LANDING_PADS.contains(&word))
}

/// What takes the place of the first bytes of a function at `address`: a jump to `target`, behind the landing pad that
/// stays. `None` if that is out of reach.
pub(super) fn replacement(code: &[u8], address: u64, target: u64) -> Option<Vec<u8>> {
    if begins_with_landing_pad(code) {
        let jump = jump(address.wrapping_add(4), target)?;
        return Some([&LANDING_PAD.to_le_bytes()[..], &jump].concat());
    }
    jump(address, target)
}

/// A call of `target` at `address`; `None` if it is out of reach.
pub(super) fn call(address: u64, target: u64) -> Option<Vec<u8>> {
    let word = branch(address, target)?;
    Some((word | 0x8000_0000).to_le_bytes().to_vec())
}

fn jump(address: u64, target: u64) -> Option<Vec<u8>> {
    branch(address, target).map(|word| word.to_le_bytes().to_vec())
}

fn branch(address: u64, target: u64) -> Option<u32> {
    let distance = target.wrapping_sub(address) as i64;
    let in_reach = (-(1 << 27)..1 << 27).contains(&distance) && distance % 4 == 0;
    in_reach.then_some(0x1400_0000 | (distance >> 2) as u32 & 0x03ff_ffff)
}

fn word_at(code: &[u8], index: usize) -> Option<u32> {
    let bytes = code.get(4 * index..)?.first_chunk::<4>()?;
    Some(u32::from_le_bytes(*bytes))
}

/// Shows that a jump can take the place of the first instructions of the function at `address`.
pub(super) fn check(code: &[u8], address: u64, size: Option<u64>) -> Result<(), PrologueError> {
    let taken = taken_bytes(code);
    let size = size.filter(|&size| size > 0).map(|size| size as usize);
    if let Some(size) = size.filter(|&size| size < taken) {
        return Err(PrologueError::Short(size, taken));
    }
    let extent = size.map_or(code, |size| &code[..size.min(code.len())]);
    check_branches(extent, address, address + taken as u64)?;
    relocate(code, address, address.wrapping_add(0x10_0000)).map(|_| ())
}

/// Looks for branches that go behind the first instruction, but not behind the last that is taken. What looks like one and
/// is data would only make reheap refuse.
fn check_branches(code: &[u8], address: u64, behind: u64) -> Result<(), PrologueError> {
    let places = (address..).step_by(4);
    for (branch, bytes) in places.zip(code.chunks_exact(4)) {
        let word = u32::from_le_bytes(bytes.try_into().expect("four bytes"));
        let target = match meaning(word, branch) {
            Ok(Meaning::Jump(target) | Meaning::Call(target) | Meaning::Condition(_, target)) => {
                target
            }
            _ => continue,
        };
        if (address + 1..behind).contains(&target) {
            return Err(PrologueError::BranchInto { branch, target });
        }
    }
    Ok(())
}

/// The field of `word` from bit `low`, `bits` wide, with its sign.
fn signed(word: u32, low: u32, bits: u32) -> i64 {
    i64::from((word << (32 - low - bits)) as i32 >> (32 - bits))
}

/// What an instruction does that depends on where it is.
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
        // PACIASPPC and the like.
        _ if word & 0xffff_dbff == 0xdac1_83fe => {
            return immovable("it signs the return address with its own address");
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

/// The relocated prologue of the function at `address`, for `place`.
pub(super) fn relocate(code: &[u8], address: u64, place: u64) -> Result<Vec<u8>, PrologueError> {
    let mut words = Vec::new();
    let mut goes_to = address;
    for index in 0..taken_bytes(code) / 4 {
        let address = address.wrapping_add(4 * index as u64);
        let word = word_at(code, index).ok_or(PrologueError::NoInstruction(address))?;
        // A landing pad, the only one that another follows, is copied, and goes on behind itself.
        goes_to = put_instruction(&mut words, word, address, place)?;
    }
    let end = place + 4 * words.len() as u64;
    words.push(branch_or_error(end, goes_to, address)?);
    Ok(words.into_iter().flat_map(u32::to_le_bytes).collect())
}

/// Moves one instruction from `address` to the end of the words at `place`. Says where it goes on.
fn put_instruction(
    words: &mut Vec<u32>,
    word: u32,
    address: u64,
    place: u64,
) -> Result<u64, PrologueError> {
    const LINK: u32 = 30;
    let behind = address.wrapping_add(4);
    Ok(match meaning(word, address)? {
        Meaning::Anywhere => {
            words.push(word);
            behind
        }
        Meaning::Jump(target) => target,
        Meaning::Call(target) => {
            put_address(words, LINK, behind);
            target
        }
        Meaning::Condition(word, target) => {
            words.push(word);
            let here = place + 4 * words.len() as u64;
            words.push(branch_or_error(here, behind, address)?);
            target
        }
        Meaning::Address(register, value) => {
            put_address(words, register, value);
            behind
        }
        Meaning::Load(register, value, load) => {
            put_address(words, register, value);
            words.push(load);
            behind
        }
    })
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

    const BTI_C: u32 = 0xd503_245f;
    const PACIASP: u32 = 0xd503_233f;
    const STP: u32 = 0xa9be_7bfd; // stp x29, x30, [sp, #-32]!

    fn bytes(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn words(bytes: &[u8]) -> Vec<u32> {
        (0..bytes.len() / 4)
            .map(|index| word_at(bytes, index).unwrap())
            .collect()
    }

    fn moved_all(code: &[u32]) -> Vec<u32> {
        words(&relocate(&bytes(code), ADDRESS, PLACE).unwrap())
    }

    fn moved(word: u32) -> Vec<u32> {
        moved_all(&[word])
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
        let words = moved(STP);
        assert_eq!(words[0], STP);
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
    fn a_landing_pad_stays_and_the_jump_follows_it() {
        for first in [BTI_C, PACIASP] {
            let code = bytes(&[first, STP, STP]);
            assert_eq!(taken_bytes(&code), 8);
            let there = words(&replacement(&code, ADDRESS, PLACE).unwrap());
            assert_eq!(there[0], BTI_C);
            let target = (ADDRESS + 4).wrapping_add_signed(signed(there[1], 0, 26) * 4);
            assert_eq!((there.len(), target), (2, PLACE));
            assert_eq!(check(&code, ADDRESS, Some(12)), Ok(()));
        }
    }

    #[test]
    fn what_signs_the_return_address_moves_with_the_instruction_behind_it() {
        let words = moved_all(&[PACIASP, STP]);
        assert_eq!(words[..2], [PACIASP, STP]);
        assert_eq!(target(&words, 2), ADDRESS + 8);
        let words = moved_all(&[BTI_C, 0xb400_0080]); // cbz x0, +0x10
        assert_eq!(words[..2], [BTI_C, 0xb400_0040]);
        assert_eq!(target(&words, 2), ADDRESS + 8);
        assert_eq!(target(&words, 3), ADDRESS + 0x14);
    }

    #[test]
    fn a_loop_that_begins_behind_the_landing_pad_is_refused() {
        const BACK: u32 = 0xb5ff_ffe0; // cbnz x0, -4
        let into = Err(PrologueError::BranchInto {
            branch: ADDRESS + 8,
            target: ADDRESS + 4,
        });
        let code = bytes(&[BTI_C, STP, BACK, STP]);
        assert_eq!(check(&code, ADDRESS, Some(16)), into);
        assert_eq!(check(&code, ADDRESS, None), into);
        assert_eq!(
            check(&code, ADDRESS, Some(8)),
            Ok(()),
            "behind the function"
        );
        assert_eq!(check(&bytes(&[STP, STP, BACK]), ADDRESS, None), Ok(()));
    }

    #[test]
    fn a_function_that_is_only_a_landing_pad_is_refused() {
        let code = bytes(&[BTI_C, STP]);
        let short = Err(PrologueError::Short(4, 8));
        assert_eq!(check(&code, ADDRESS, Some(4)), short);
        assert!(check(&code[..4], ADDRESS, None).is_err());
    }

    #[test]
    fn what_cannot_move_is_refused() {
        // blr x8; ldr d0, +16; paciasppc; pacnbibsppc; nothing
        for word in [0xd63f_0100_u32, 0x9c00_0080, 0xdac1_a3fe, 0xdac1_87fe, 0] {
            assert!(
                relocate(&word.to_le_bytes(), ADDRESS, PLACE).is_err(),
                "{word:#x}"
            );
        }
    }
}
