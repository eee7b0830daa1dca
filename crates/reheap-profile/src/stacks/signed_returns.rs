//! Unwind tables of aarch64 code that signs return addresses.
//!
//! Such code is what most distributions compile by now. Its tables have an instruction that says where the return
//! address is signed, with a number that means another thing on SPARC. framehop 0.16 does not tell gimli that the tables
//! are aarch64's, and so gives up such functions, falls back to frame pointers, and loses the stack pointer. To know
//! where an address is signed is needless here, because the signature is masked away. So the instruction becomes one
//! that does nothing.

/// `DW_CFA_AARCH64_negate_ra_state` (DWARF for the Arm 64-bit Architecture, 4.6), and its form with the program counter.
const NEGATE_RA_STATE: [u8; 2] = [0x2d, 0x2c];
const NOTHING: u8 = 0;

/// Makes these instructions in an `.eh_frame` section do nothing. What it does not understand, it leaves as it is.
pub(super) fn forget(eh_frame: &mut [u8]) {
    let mut start = 0;
    while let Some(entry) = Entry::read(eh_frame, start) {
        start = entry.end;
        if let Some(at) = entry.instructions(eh_frame) {
            forget_in(&mut eh_frame[at..entry.end]);
        }
    }
}

/// A common information entry, or a frame description entry (Linux Standard Base, 10.6.1).
struct Entry {
    /// Where its identifier is: 0, or the distance back to the common entry.
    id_at: usize,
    end: usize,
}

impl Entry {
    fn read(section: &[u8], start: usize) -> Option<Self> {
        let length = word(section, start)? as usize;
        // 0 ends the section; all ones would begin one of 4 GiB.
        let end = start.checked_add(4)?.checked_add(length)?;
        (length >= 4 && end <= section.len()).then_some(Self {
            id_at: start + 4,
            end,
        })
    }

    /// Where its instructions begin.
    fn instructions(&self, section: &[u8]) -> Option<usize> {
        let distance = word(section, self.id_at)? as usize;
        if distance == 0 {
            return Some(self.end - Common::read(section, self)?.instructions.len());
        }
        let common_start = self.id_at.checked_sub(distance)?;
        let common = Entry::read(section, common_start)?;
        let common = Common::read(section, &common)?;
        let mut rest = section.get(self.id_at + 4..self.end)?;
        skip(&mut rest, 2 * common.pointer_bytes)?;
        if common.has_augmentation_data {
            skip_block(&mut rest)?;
        }
        Some(self.end - rest.len())
    }
}

/// What a common information entry says of those that refer to it.
struct Common<'a> {
    has_augmentation_data: bool,
    pointer_bytes: usize,
    instructions: &'a [u8],
}

impl<'a> Common<'a> {
    fn read(section: &'a [u8], entry: &Entry) -> Option<Self> {
        let mut rest = section.get(entry.id_at + 4..entry.end)?;
        let version = take(&mut rest)?;
        let letters = rest.iter().position(|byte| *byte == 0)?;
        let augmentation = &rest[..letters];
        rest = &rest[letters + 1..];
        skip_number(&mut rest)?; // code alignment
        skip_number(&mut rest)?; // data alignment
        if version == 1 {
            take(&mut rest)?;
        } else {
            skip_number(&mut rest)?;
        }
        let mut pointer_bytes = 8;
        if augmentation.first() == Some(&b'z') {
            let mut data = rest;
            skip_block(&mut rest)?;
            skip_number(&mut data)?; // their length
            for letter in &augmentation[1..] {
                match letter {
                    b'R' => pointer_bytes = encoded_bytes(take(&mut data)?)?,
                    b'L' => skip(&mut data, 1)?,
                    b'P' => {
                        let bytes = encoded_bytes(take(&mut data)?)?;
                        skip(&mut data, bytes)?;
                    }
                    _ => {} // B, G and S have no data
                }
            }
        }
        Some(Self {
            has_augmentation_data: augmentation.first() == Some(&b'z'),
            pointer_bytes,
            instructions: rest,
        })
    }
}

/// How long a pointer is in that encoding (Linux Standard Base, 10.5.1).
fn encoded_bytes(encoding: u8) -> Option<usize> {
    match encoding & 0x0f {
        0x02 | 0x0a => Some(2),
        0x03 | 0x0b => Some(4),
        0x00 | 0x04 | 0x08 | 0x0c => Some(8),
        _ => None,
    }
}

fn forget_in(instructions: &mut [u8]) {
    let mut at = 0;
    while let Some(&opcode) = instructions.get(at) {
        if NEGATE_RA_STATE.contains(&opcode) {
            instructions[at] = NOTHING;
        }
        let mut rest = &instructions[at + 1..];
        if skip_operands(opcode, &mut rest).is_none() {
            return;
        }
        at = instructions.len() - rest.len();
    }
}

/// The operands of call frame instructions (DWARF 5, table 7.29).
fn skip_operands(opcode: u8, rest: &mut &[u8]) -> Option<()> {
    match opcode {
        0x80..=0xbf => skip_number(rest), // offset
        0x40..=0xff => Some(()),          // advance_loc, restore
        0x00 | 0x0a | 0x0b | 0x2c | 0x2d => Some(()),
        0x02 => skip(rest, 1),
        0x03 => skip(rest, 2),
        0x04 => skip(rest, 4),
        0x06..=0x08 | 0x0d | 0x0e | 0x13 | 0x2e => skip_number(rest),
        0x05 | 0x09 | 0x0c | 0x11 | 0x12 | 0x14 | 0x15 | 0x2f => {
            skip_number(rest)?;
            skip_number(rest)
        }
        0x0f => skip_block(rest),
        0x10 | 0x16 => {
            skip_number(rest)?;
            skip_block(rest)
        }
        _ => None,
    }
}

fn word(section: &[u8], at: usize) -> Option<u32> {
    let bytes = section.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

fn take(rest: &mut &[u8]) -> Option<u8> {
    let (first, behind) = rest.split_first()?;
    *rest = behind;
    Some(*first)
}

fn skip(rest: &mut &[u8], bytes: usize) -> Option<()> {
    *rest = rest.get(bytes..)?;
    Some(())
}

/// Past a LEB128 number, signed or not; its value.
fn number(rest: &mut &[u8]) -> Option<usize> {
    let mut value = 0_usize;
    for shift in (0..).step_by(7) {
        let byte = take(rest)?;
        value |= usize::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn skip_number(rest: &mut &[u8]) -> Option<()> {
    number(rest).map(|_| ())
}

fn skip_block(rest: &mut &[u8]) -> Option<()> {
    let bytes = number(rest)?;
    skip(rest, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_instruction_is_forgotten_and_not_its_number_elsewhere() {
        let common = [
            0x10, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 4, 0x78, 30, 1, 0x1b, 0x0c, 31, 0,
        ];
        // Pointers and operands with the same number, and the instruction twice.
        let description = [
            0x14, 0, 0, 0, 0x18, 0, 0, 0, 0x2d, 0, 0, 0, 0x2d, 0, 0, 0, 0, 0x2d, 0x0e, 0x2d, 0x2d,
            0x41, 0x2d, 0,
        ];
        let mut section = [&common[..], &description, &[0, 0, 0, 0]].concat();
        let mut expected = section.clone();
        for index in [17, 20, 22] {
            expected[common.len() + index] = 0;
        }
        forget(&mut section);
        assert_eq!(section, expected);
    }

    proptest::proptest! {
        #[test]
        fn no_section_makes_it_fail(mut section: Vec<u8>) {
            forget(&mut section);
        }
    }
}
