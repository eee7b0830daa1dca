//! What machine code shows when neither symbols nor texts are left.
//!
//! AArch64 instructions have one size and start at multiples of it, so this module reads them word by word and needs no
//! disassembler. On x86-64 it searches only for constants, which appear unchanged in instructions. Data in a code
//! segment can look like either. The patterns here make that rare, and a single instruction is never enough.

use super::image::Image;
use super::masked::{Masked, masked};
use crate::error::ElfError;
use memchr::memmem;
use object::elf;
use std::ops::Range;

/// Fewer may be data.
const INSTRUCTIONS_MIN: usize = 8;
/// How far in front of an instruction the test of the processor may be, in a function made for just that instruction
/// (the `__aarch64_*` functions of GCC and LLVM: load the flag, branch, do it, return).
const TEST_DISTANCE: usize = 3;

/// How many words before and after a word are examined with it.
const WORDS_AROUND: u64 = 32;

/// Shows the words of AArch64 code piece by piece: each with some before and behind it, and which are the piece's own.
fn for_each_words(
    image: &Image<'_>,
    visit: &mut dyn FnMut(&[u32], Range<usize>),
) -> Result<(), ElfError> {
    let is_readable = image.machine() == elf::EM_AARCH64 && image.format().is_little_endian;
    let ranges = if is_readable { &image.code[..] } else { &[] };
    for range in ranges {
        let around = (4 * WORDS_AROUND, 4 * WORDS_AROUND);
        image.view().walk(range.clone(), around, &mut |piece| {
            let words: Vec<u32> = piece
                .bytes
                .chunks_exact(4)
                .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
                .collect();
            let own = piece.own.start / 4..(piece.own.end / 4).min(words.len());
            visit(&words, own);
        })?;
    }
    Ok(())
}

/// LSE instructions (Armv8.1 atomics) outside functions that test for them; 0 if they are too few to be sure.
pub(super) fn lse_instructions(image: &Image<'_>) -> Result<usize, ElfError> {
    let mut untested = 0;
    if !image.code_is_exact {
        return Ok(0);
    }
    for_each_words(image, &mut |words, own| {
        let is_tested = |index: usize| {
            let before = &words[index.saturating_sub(TEST_DISTANCE)..index];
            before.iter().any(|&word| is_branch_on_flag(word))
        };
        untested += own
            .filter(|&index| is_lse(words[index]) && !is_tested(index))
            .count();
    })?;
    Ok(if untested < INSTRUCTIONS_MIN {
        0
    } else {
        untested
    })
}

/// LDADD and its kin, SWP and CAS (Arm Architecture Reference Manual, "Loads and Stores", atomic memory operations and
/// compare and swap).
fn is_lse(word: u32) -> bool {
    let is_atomic_operation = word & 0x3f20_0c00 == 0x3820_0000 && {
        let operation = word >> 12 & 0xf; // o3 and opc
        operation <= 8
    };
    let is_compare_and_swap = word & 0x3fa0_7c00 == 0x08a0_7c00;
    is_atomic_operation || is_compare_and_swap
}

/// CBZ, CBNZ, TBZ and TBNZ on w16, the register that the dispatching functions use.
fn is_branch_on_flag(word: u32) -> bool {
    const REGISTER: u32 = 16;
    let is_compare = word & 0x7e00_0000 == 0x3400_0000;
    let is_test = word & 0x7e00_0000 == 0x3600_0000;
    (is_compare || is_test) && word & 0x1f == REGISTER
}

/// The largest page that a jemalloc in AArch64 code supports.
///
/// When it starts, it calls `sysconf(_SC_PAGESIZE)` and compares the answer with the size that it was built for. In the
/// code that is `mov w0, #30`, a call, and soon after it a `cmp` with that size, a 12-bit number shifted by 12.
pub(super) fn jemalloc_page_bytes(image: &Image<'_>) -> Result<Option<u64>, ElfError> {
    const ASK_PAGE_SIZE: u32 = 0x5280_03c0; // mov w0, #30
    const NEAR: usize = 16;
    let mut sizes: Vec<u64> = Vec::new();
    for_each_words(image, &mut |words, own| {
        for index in own.filter(|&index| words[index] == ASK_PAGE_SIZE) {
            let mut after = words[index + 1..].iter().take(NEAR);
            let is_call = |word: &&u32| **word >> 26 == 0b10_0101;
            if after.find(is_call).is_some() {
                let compared = after.find_map(|&word| compared_pages(word));
                sizes.extend(compared.filter(|size| !sizes.contains(size)));
            }
        }
    })?;
    // Other code asks for the page size too, but does not compare it with a constant. If some does, the answer is
    // `None`.
    Ok(match sizes.as_slice() {
        [size] => Some(*size),
        _ => None,
    })
}

/// The number in `cmp xN, #imm, lsl #12` (SUBS to the zero register), if it is a page size.
fn compared_pages(word: u32) -> Option<u64> {
    let is_compare = word & 0xffc0_001f == 0xf140_001f;
    let bytes = u64::from(word >> 10 & 0xfff) << 12;
    let is_page_size = bytes.is_power_of_two() && (4 << 10..=64 << 10).contains(&bytes);
    (is_compare && is_page_size).then_some(bytes)
}

/// Two numbers in x86 code, the second one soon after the first.
struct Pair {
    first: &'static [u8],
    second: &'static [u8],
    distance_bytes: usize,
}

impl Pair {
    fn is_in(&self, image: &Image<'_>) -> Result<bool, ElfError> {
        // A program has the first one in a few places. A hostile file could have it everywhere.
        const PLACES_MAX: usize = 10_000;
        let first = memmem::Finder::new(self.first);
        let second = memmem::Finder::new(self.second);
        let around = (8, self.distance_bytes as u64);
        let mut is_there = false;
        let mut masked = Masked::default();
        for range in &image.code {
            let mut places_seen = 0;
            image.view().walk(range.clone(), around, &mut |piece| {
                masked.fill(&piece.bytes[piece.own.start..]);
                let code = masked.bytes();
                let own_bytes = piece.own.end - piece.own.start;
                let places = first.find_iter(code).take_while(|place| *place < own_bytes);
                for place in places.take(PLACES_MAX - places_seen) {
                    places_seen += 1;
                    let after = &code[place..code.len().min(place + self.distance_bytes)];
                    is_there |= second.find(after).is_some();
                }
            })?;
        }
        Ok(is_there)
    }
}

/// What shows rpmalloc 1.4 in x86-64 code. It contains barely any text of its own.
///
/// When it starts, it calls `sysconf(_SC_PAGESIZE)`. Soon after it computes how many blocks fit into a span: 64 KiB
/// less a header of 128 bytes. GCC and Clang put both constants into the same function from -O2 on, and Clang also at
/// -Os. None of about 700 other programs and libraries had both together. The same function can read the size of huge
/// pages from `/proc/meminfo`, so only a program that names that size there needs to be searched. The code of a large
/// program takes longer to read than all the rest.
pub(super) fn rpmalloc(image: &Image<'_>) -> Result<Option<&'static str>, ElfError> {
    const PAIR: Pair = Pair {
        first: masked!(&[0xbf, 30, 0, 0, 0]), // mov edi, 30
        second: masked!(&((64 << 10) - 128_u32).to_le_bytes()),
        distance_bytes: 1200,
    };
    let is_there = image.machine() == elf::EM_X86_64 && PAIR.is_in(image)?;
    Ok(is_there.then_some("the page size and the size of a span less its header in one function"))
}

/// What shows musl's mallocng beside its table of size classes, which any program may contain.
///
/// Its `malloc` begins with two comparisons of its argument: with the largest size there can be (`PTRDIFF_MAX - 4096`)
/// and with `MMAP_THRESHOLD`, 131052. Each is a limit that belongs to the group above or below it, as compilers like.
/// Only known sections count: in a segment, a whole program that another one has as data may look like code.
pub(super) fn mallocng(image: &Image<'_>) -> Result<Option<&'static str>, ElfError> {
    const NEAR_BYTES: usize = 128;
    const THRESHOLDS: [&[u8]; 2] = [
        masked!(&131_051_u32.to_le_bytes()),
        masked!(&131_052_u32.to_le_bytes()),
    ];
    // Without the first byte, which is fe or ff.
    let largest = match image.machine() {
        elf::EM_X86_64 => masked!(&[0xef, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]),
        elf::EM_386 => masked!(&[0xef, 0xff, 0x7f]),
        _ => &[],
    };
    let mut is_there = false;
    if image.code_is_exact && largest.is_empty() {
        is_there = has_mallocng_limits(image)?;
    } else if image.code_is_exact {
        for threshold in THRESHOLDS {
            let pair = Pair {
                first: largest,
                second: threshold,
                distance_bytes: NEAR_BYTES,
            };
            is_there |= pair.is_in(image)?;
        }
    }
    Ok(is_there.then_some("the largest size and the threshold of its malloc in one function"))
}

/// The limits of [`mallocng`] in AArch64 code.
fn has_mallocng_limits(image: &Image<'_>) -> Result<bool, ElfError> {
    let mut is_there = false;
    for_each_words(image, &mut |words, own| {
        for index in own.filter(|&index| is_largest_size(words[index])) {
            let near = &words[index..words.len().min(index + WORDS_AROUND as usize)];
            let has = |is_wanted: fn(u32) -> bool| near.iter().any(|&word| is_wanted(word));
            is_there |= has(is_low_threshold) && has(is_high_threshold);
        }
    })?;
    Ok(is_there)
}

/// `mov xN, #-4097` or `#-4098`, which loses its highest bit next.
fn is_largest_size(word: u32) -> bool {
    matches!(word & !0x1f, 0x9282_0000 | 0x9282_0020)
}

/// `mov wN, #0xffeb` or `#0xffec`, or with xN.
fn is_low_threshold(word: u32) -> bool {
    matches!(word & 0x7fff_ffe0, 0x529f_fd60 | 0x529f_fd80)
}

/// `movk wN, #1, lsl #16`, or with xN.
fn is_high_threshold(word: u32) -> bool {
    word & 0x7fff_ffe0 == 0x72a0_0020
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lse_instructions_are_told_from_ordinary_ones() {
        // ldadd w1, w0, [x2]; ldaddal x1, x0, [x2]; swpal x1, x0, [x2]; cas w0, w1, [x2]; casal x0, x1, [x2]
        for word in [
            0xb821_0040,
            0xf8e1_0040,
            0xf8e1_8040,
            0x88a0_7c41,
            0xc8e0_fc41,
        ] {
            assert!(is_lse(word), "{word:#x}");
        }
        // ldr w0, [x1, x2]; str x0, [x1, x2]; ldxr w0, [x1]; ldaxr; stlxr w2, w0, [x1]; ldr x0, [x1]; ret; nop
        for word in [
            0xb862_6820,
            0xf822_6820,
            0x885f_7c20,
            0x885f_fc20,
            0x8802_fc20,
            0xf940_0020,
            0xd65f_03c0,
            0xd503_201f,
        ] {
            assert!(!is_lse(word), "{word:#x}");
        }
    }

    #[test]
    fn a_page_size_is_read_from_a_comparison_only() {
        assert_eq!(compared_pages(0xf140_041f), Some(4 << 10)); // cmp x0, #0x1, lsl #12
        assert_eq!(compared_pages(0xf140_401f), Some(64 << 10)); // cmp x0, #0x10, lsl #12
        assert_eq!(compared_pages(0xf140_0c1f), None); // cmp x0, #0x3, lsl #12
        assert_eq!(compared_pages(0xd140_0400), None); // sub x0, x0, #0x1, lsl #12
    }
}
