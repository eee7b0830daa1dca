//! Identification of damaged and hostile files: always an answer or an error, and never much work.

use crate::workshop::{PROGRAM, Workshop, without_sections};
use proptest::prelude::*;
use reheap_elf::bindings::malloc_slots;
use reheap_elf::error::ElfError;
use reheap_elf::identify::identify;
use reheap_elf::linkage;
use std::sync::LazyLock;

/// A small dynamic program with symbols, notes, versions and sections, to be damaged.
static SEED: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let workshop = Workshop::with(&["gcc"]);
    workshop.write("a.c", PROGRAM);
    workshop.run("gcc -O1 a.c -o a");
    workshop.bytes("a")
});

/// The seed without a section table, so that everything is found by way of the dynamic segment.
static WITHOUT_SECTIONS: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut bytes = SEED.clone();
    if bytes.len() > 64 {
        without_sections(&mut bytes);
    }
    bytes
});

/// Everything that reads linked files.
fn read_all(bytes: &Vec<u8>) {
    let _ = identify(bytes);
    let _ = malloc_slots(bytes);
    let _ = linkage::read(bytes);
    let _ = linkage::for_each_name(bytes, &mut |_, _| {});
}

fn u64_at(bytes: &[u8], offset: usize) -> usize {
    u64::from_le_bytes(bytes[offset..offset + 8].try_into().unwrap()) as usize
}

/// Where the program headers and the section table of a 64-bit file begin, and the number of their entries.
fn tables(bytes: &[u8]) -> [(usize, usize, usize); 2] {
    let count = |offset: usize| usize::from(u16::from_le_bytes([bytes[offset], bytes[offset + 1]]));
    [
        (u64_at(bytes, 32), 56, count(56)),
        (u64_at(bytes, 40), 64, count(60)),
    ]
}

/// Where the dynamic segment of a 64-bit file is; nowhere if there is none.
fn dynamic_segment(bytes: &[u8]) -> std::ops::Range<usize> {
    const PT_DYNAMIC: u8 = 2;
    if bytes.len() < 64 {
        return 0..0;
    }
    let [(start, size, count), _] = tables(bytes);
    let mut headers = (0..count).map(|index| start + index * size);
    let header = headers.find(|at| bytes[*at] == PT_DYNAMIC);
    header.map_or(0..0, |at| {
        u64_at(bytes, at + 8)..u64_at(bytes, at + 8) + u64_at(bytes, at + 32)
    })
}

#[test]
fn a_file_cut_off_at_any_boundary_is_an_error() {
    let entry_ends = tables(&SEED)
        .into_iter()
        .flat_map(|(start, size, count)| (0..=count).map(move |index| start + index * size));
    let last = entry_ends.clone().max().unwrap();
    for length in entry_ends
        .chain(0..64)
        .chain((64..last).step_by(61))
        .filter(|&length| length < last)
    {
        assert!(identify(&SEED[..length]).is_err(), "cut off at {length}");
    }
}

#[test]
fn counts_and_sizes_that_no_file_can_hold_are_errors() {
    let [_, (sections, section_size, section_count)] = tables(&SEED);
    let damaged = |offset: usize, value: &[u8]| {
        let mut bytes = SEED.clone();
        bytes[offset..offset + value.len()].copy_from_slice(value);
        identify(&bytes)
    };
    for (what, result) in [
        ("65,534 program headers", damaged(56, &[0xfe, 0xff])),
        ("65,279 sections", damaged(60, &[0xff, 0xfe])),
        ("the place of the section table", damaged(40, &[0xff; 8])),
        ("the place of the program headers", damaged(32, &[0xff; 8])),
    ] {
        assert!(result.is_err(), "{what}: {result:?}");
    }
    for index in 1..section_count {
        // Whether this is an error depends on the section; that it returns is what counts.
        let _ = damaged(sections + index * section_size + 24, &[0xff; 16]);
        let _ = damaged(sections + index * section_size + 32, &[0xff; 8]);
    }
}

/// Each of these files is a few megabytes and would take hours if every table in it were believed.
#[test]
fn repetition_does_not_multiply_the_work() {
    let header = |program_headers: u16, sections: u16, section_table: u64| {
        let mut bytes = vec![0u8; 64];
        bytes[..16].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
        bytes[16..20].copy_from_slice(&[3, 0, 62, 0]);
        bytes[20] = 1;
        bytes[32..40].copy_from_slice(&64u64.to_le_bytes());
        bytes[40..48].copy_from_slice(&section_table.to_le_bytes());
        bytes[52..64].copy_from_slice(
            &[64, 56, program_headers, 64, sections, 0]
                .map(u16::to_le_bytes)
                .concat(),
        );
        bytes
    };
    let segment = |segment_type: u32, size: u64| {
        let words = [u64::from(segment_type) | 4 << 32, 0, 0, 0, size, size, 4];
        words.map(u64::to_le_bytes).concat()
    };
    let count = 60_000u16;
    let size = 64 + 56 * u64::from(count);
    for segment_type in [1, 2, 4] {
        let mut bytes = header(count, 0, 0);
        for _ in 0..count {
            bytes.extend(segment(segment_type, size));
        }
        let _ = identify(&bytes);
    }

    // A hundred thousand symbols whose names are the same four megabytes.
    let (symbols, names) = (100_000usize, 4 << 20);
    let section_table = 64 + symbols * 24 + names;
    let mut bytes = header(0, 3, section_table as u64);
    bytes.extend([1, 0, 0, 0, 18, 0, 1, 0].repeat(3).repeat(symbols));
    bytes.extend(vec![b'm'; names]);
    let section = |section_type: u32, offset: usize, size: usize, link: u32| {
        let mut section = vec![0u8; 64];
        section[4..8].copy_from_slice(&section_type.to_le_bytes());
        section[24..32].copy_from_slice(&offset.to_le_bytes());
        section[32..40].copy_from_slice(&size.to_le_bytes());
        section[40..44].copy_from_slice(&link.to_le_bytes());
        section
    };
    bytes.extend(section(3, 0, 64, 0));
    bytes.extend(section(2, 64, symbols * 24, 2));
    bytes.extend(section(3, 64 + symbols * 24, names, 0));
    let _ = identify(&bytes);

    // Sixty thousand segments, and symbols whose place is in none of them.
    let symbols = 400_000;
    let symbol_table = 64 + 56 * usize::from(count);
    let names = symbol_table + symbols * 24;
    let name = b"\0__libc_version\0";
    let mut bytes = header(count, 3, (names + name.len()) as u64);
    for _ in 0..count {
        bytes.extend(segment(1, 64));
    }
    let symbol = [1 | 0x11 << 32 | 1 << 48, 1 << 60, 8].map(u64::to_le_bytes);
    bytes.extend(symbol.concat().repeat(symbols));
    bytes.extend(name);
    bytes.extend(section(3, 0, 64, 0));
    bytes.extend(section(2, symbol_table, symbols * 24, 2));
    bytes.extend(section(3, names, name.len(), 0));
    let _ = identify(&bytes);

    // Members whose names all begin in one name table that never ends.
    let mut archive = b"!<arch>\n".to_vec();
    archive.extend(format!("{:<48}{names:<10}`\n", "//").as_bytes());
    archive.extend(vec![b'n'; names]);
    for _ in 0..100_000 {
        archive.extend(format!("{:<48}{:<10}`\n", "/0", 0).as_bytes());
    }
    assert_eq!(
        identify(&archive),
        Err(ElfError::NoObjects { others: 100_000 })
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn damaged_headers_never_panic(
        changes in prop::collection::vec((0usize..5_000, any::<u8>()), 1..6),
        in_tables in any::<bool>(),
    ) {
        let mut bytes = SEED.clone();
        let start = if in_tables && bytes.len() > 64 { tables(&bytes)[1].0 } else { 0 };
        for (offset, value) in changes {
            let length = bytes.len();
            bytes[(start + offset % 2_500) % length] = value;
        }
        read_all(&bytes);
    }

    #[test]
    fn damaged_dynamic_segments_never_panic(
        changes in prop::collection::vec((any::<usize>(), any::<u64>(), any::<bool>()), 1..6),
    ) {
        let mut bytes = WITHOUT_SECTIONS.clone();
        let dynamic = dynamic_segment(&bytes);
        for (entry, value, is_small) in changes {
            // Half of them are numbers that a file of this size could have.
            let value = if is_small { value % bytes.len().max(1) as u64 } else { value };
            let at = dynamic.start + entry % dynamic.len().max(1) / 8 * 8;
            if let Some(word) = bytes.get_mut(at..at + 8) {
                word.copy_from_slice(&value.to_le_bytes());
            }
        }
        read_all(&bytes);
    }

    #[test]
    fn damaged_words_without_a_section_table_never_panic(offset in any::<usize>(), word in any::<u64>()) {
        let mut bytes = WITHOUT_SECTIONS.clone();
        let offset = offset % bytes.len();
        for (byte, new) in bytes[offset..].iter_mut().zip(word.to_le_bytes()) {
            *byte = new;
        }
        read_all(&bytes);
    }

    #[test]
    fn damaged_words_anywhere_never_panic(offset in any::<usize>(), word in any::<u64>(), length in any::<usize>()) {
        let mut bytes = SEED.clone();
        let offset = offset % bytes.len();
        for (byte, new) in bytes[offset..].iter_mut().zip(word.to_le_bytes()) {
            *byte = new;
        }
        bytes.truncate(length % (2 * bytes.len()) + 1);
        let _ = identify(&bytes);
    }

    #[test]
    fn damaged_archives_never_panic(changes in prop::collection::vec((any::<usize>(), any::<u8>()), 1..10)) {
        let member = reheap_elf::archive::Member { name: "a-long-name-for-a-member.o".to_owned(), data: SEED.clone() };
        let mut bytes = reheap_elf::archive::write(&[member.clone(), member]).unwrap_or_default();
        for (offset, value) in changes {
            let length = bytes.len().clamp(1, 400);
            if let Some(byte) = bytes.get_mut(offset % length) {
                *byte = value;
            }
        }
        let _ = identify(&bytes);
    }
}
