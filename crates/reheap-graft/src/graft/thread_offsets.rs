//! The distances of the library's variables from the thread pointer.
//!
//! A shared library does not know them, so its code loads each from a table. In the program they are known, and a linker would
//! write them into the code (System V ABI, x86-64, "Initial Exec to Local Exec"). So this is done here too: malloc and free read
//! such variables each time.

use crate::library::{Library, Protection, put_word};
use iced_x86::{Decoder, DecoderOptions};
use std::collections::BTreeMap;

/// Fills the table in the image of a library, and writes the distances into its code. The thread-local memory of program and
/// library is so large.
pub(super) fn fill_in(image: &mut [u8], library: &Library, memory_bytes: u64) {
    let distances = library.thread_offsets().iter();
    let distances = distances.map(|&(word, variable)| (word, variable.wrapping_sub(memory_bytes)));
    let distances: BTreeMap<u64, u64> = distances.collect();
    for (&word, &distance) in &distances {
        put_word(image, word, distance);
    }
    for (range, protection) in library.protections() {
        if *protection == Protection::Execute {
            let code = &mut image[range.start as usize..range.end as usize];
            write_into(code, range.start, &distances);
        }
    }
}

fn write_into(code: &mut [u8], address: u64, distances: &BTreeMap<u64, u64>) {
    let copy = code.to_vec();
    for instruction in Decoder::with_ip(64, &copy, address, DecoderOptions::NONE).iter() {
        if !instruction.is_ip_rel_memory_operand() {
            continue;
        }
        let Some(&distance) = distances.get(&instruction.ip_rel_memory_address()) else {
            continue;
        };
        let start = (instruction.ip() - address) as usize;
        let place = &mut code[start..start + instruction.len()];
        if let Some(with_number) = with_number(place, distance as i32) {
            place.copy_from_slice(&with_number);
        }
    }
}

/// `mov reg, [rip + …]` and `add reg, [rip + …]` with a number in place of the memory. Others stay.
fn with_number(code: &[u8], number: i32) -> Option<[u8; 7]> {
    let &[prefix @ (0x48 | 0x4c), operation, operands, _, _, _, _] = code else {
        return None;
    };
    let operation = match operation {
        0x8b => 0xc7,
        0x03 => 0x81,
        _ => return None,
    };
    // The register is the second operand of the one form, and the first of the other.
    let prefix = 0x48 | (prefix >> 2 & 1);
    let [a, b, c, d] = number.to_le_bytes();
    Some([prefix, operation, 0xc0 | (operands >> 3 & 7), a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The code at 0x1000 with the table at 0x2000, of which the first word is -8.
    fn written(code: &[u8]) -> Vec<u8> {
        let mut code = code.to_vec();
        write_into(
            &mut code,
            0x1000,
            &BTreeMap::from([(0x2000, -8_i64 as u64)]),
        );
        code
    }

    #[test]
    fn loads_and_sums_get_the_number() {
        // mov rax, [rip + 0xff9]
        let code = written(b"\x48\x8b\x05\xf9\x0f\0\0");
        assert_eq!(code, b"\x48\xc7\xc0\xf8\xff\xff\xff"); // mov rax, -8
        // mov r10, [rip + 0xff9]
        let code = written(b"\x4c\x8b\x15\xf9\x0f\0\0");
        assert_eq!(code, b"\x49\xc7\xc2\xf8\xff\xff\xff"); // mov r10, -8
        // nop; add rcx, [rip + 0xff8]
        let code = written(b"\x90\x48\x03\x0d\xf8\x0f\0\0");
        assert_eq!(code, b"\x90\x48\x81\xc1\xf8\xff\xff\xff"); // add rcx, -8
    }

    #[test]
    fn other_code_stays() {
        // mov rax, [rip + 0x1001]; cmp rax, [rip + 0xff2]; mov eax, [rip + 0xfec]
        let code = b"\x48\x8b\x05\x01\x10\0\0\x48\x3b\x05\xf2\x0f\0\0\x8b\x05\xec\x0f\0\0";
        assert_eq!(written(code), code);
    }
}
