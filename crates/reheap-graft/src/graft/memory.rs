//! musl's memory functions in an executable, known by every byte.
//!
//! musl writes these three in assembly for x86-64 (`src/string/x86_64/`), so they are the same in every build of it: those of
//! Rust, Alpine and Debian. Only the distance from memmove to memcpy differs. memmove relies on it that memcpy copies forwards,
//! so both are replaced or none.

use super::program::Program;
use crate::processor::Processor;
use crate::prologue;
use memchr::memmem;
use object::LittleEndian as LE;
use object::elf;
use object::read::elf::ProgramHeader as _;

const MEMCPY: &[u8] = b"\
\x48\x89\xf8\x48\x83\xfa\x08\x72\x14\xf7\xc7\x07\0\0\0\x74\x0c\xa4\x48\xff\xca\xf7\xc7\x07\0\0\0\x75\xf4\x48\x89\xd1\
\x48\xc1\xe9\x03\xf3\x48\xa5\x83\xe2\x07\x74\x05\xa4\xff\xca\x75\xfb\xc3";
const MEMSET: &[u8] = b"\
\x48\x0f\xb6\xc6\x49\xb8\x01\x01\x01\x01\x01\x01\x01\x01\x49\x0f\xaf\xc0\x48\x83\xfa\x7e\x77\x78\x85\xd2\x74\x70\x40\
\x88\x37\x40\x88\x74\x17\xff\x83\xfa\x02\x76\x63\x66\x89\x47\x01\x66\x89\x44\x17\xfd\x83\xfa\x06\x76\x55\x89\x47\x03\
\x89\x44\x17\xf9\x83\xfa\x0e\x76\x49\x48\x89\x47\x07\x48\x89\x44\x17\xf1\x83\xfa\x1e\x76\x3b\x48\x89\x47\x0f\x48\x89\
\x47\x17\x48\x89\x44\x17\xe1\x48\x89\x44\x17\xe9\x83\xfa\x3e\x76\x24\x48\x89\x47\x1f\x48\x89\x47\x27\x48\x89\x47\x2f\
\x48\x89\x47\x37\x48\x89\x44\x17\xc1\x48\x89\x44\x17\xc9\x48\x89\x44\x17\xd1\x48\x89\x44\x17\xd9\x48\x89\xf8\xc3\xf7\
\xc7\x0f\0\0\0\x49\x89\xf8\x48\x89\x44\x17\xf8\x48\x89\xd1\x75\x0b\x48\xc1\xe9\x03\xf3\x48\xab\x4c\x89\xc0\xc3\x31\
\xd2\x29\xfa\x83\xe2\x0f\x48\x89\x07\x48\x89\x47\x08\x48\x29\xd1\x48\x01\xd7\xeb\xdf";
/// In front of the distance to memcpy, and behind it.
const MEMMOVE: [&[u8]; 2] = [
    b"\x48\x89\xf8\x48\x29\xf0\x48\x39\xd0\x0f\x83",
    b"\x48\x89\xd1\x48\x8d\x7c\x17\xff\x48\x8d\x74\x16\xff\xfd\xf3\xa4\xfc\x48\x8d\x47\x01\xc3",
];
/// Names and addresses.
pub(super) fn find(program: &Program<'_>) -> Vec<(&'static str, u64)> {
    let codes: Vec<Code<'_>> = program
        .loaded()
        .filter(|segment| segment.p_flags(LE).0 & elf::PF_X.0 != 0)
        .filter_map(|segment| {
            let bytes = segment.data(LE, program.bytes).ok()?;
            Some(Code {
                address: segment.p_vaddr(LE),
                bytes,
            })
        })
        .collect();
    let [code] = codes.as_slice() else {
        return Vec::new();
    };
    let memset = code.only(MEMSET).filter(|&at| code.jump_into(at).is_none());
    let mut found: Vec<_> = memset.map(|at| ("memset", at)).into_iter().collect();
    found.extend(code.copies().into_iter().flatten());
    found
}

/// An executable segment.
struct Code<'a> {
    address: u64,
    bytes: &'a [u8],
}

impl Code<'_> {
    /// Where these bytes are, if they are there once.
    fn only(&self, function: &[u8]) -> Option<u64> {
        let mut found = memmem::find_iter(self.bytes, function);
        let first = found.next()?;
        found.next().is_none().then(|| self.address + first as u64)
    }

    /// memcpy, and memmove if it is there.
    fn copies(&self) -> Option<Vec<(&'static str, u64)>> {
        let memcpy = self
            .only(MEMCPY)
            .filter(|&at| self.jump_into(at).is_none())?;
        if memmem::find(self.bytes, MEMMOVE[0]).is_none() {
            return Some(vec![("memcpy", memcpy)]);
        }
        let memmove = self
            .only(MEMMOVE[0])
            .filter(|&at| self.jump_into(at).is_none())?;
        let place = memmove + MEMMOVE[0].len() as u64;
        let (distance, rest) = self
            .bytes
            .get((place - self.address) as usize..)?
            .split_first_chunk()?;
        let target = (place + 4).wrapping_add_signed(i32::from_le_bytes(*distance).into());
        (target == memcpy && rest.starts_with(MEMMOVE[1]))
            .then(|| vec![("memcpy", memcpy), ("memmove", memmove)])
    }

    /// A call or a jump into the middle of what a jump takes at `function`; or other data that looks like one.
    fn jump_into(&self, function: u64) -> Option<u64> {
        let taken = function + 1..function + prologue::jump_bytes(Processor::X86_64) as u64;
        let mut places = (self.address..).zip(self.bytes.windows(6));
        let leads_into = |&(place, code): &(u64, &[u8])| {
            let is_branch = matches!(code, [_, 0xe8 | 0xe9, ..] | [0x0f, 0x80..=0x8f, ..]);
            let distance = i32::from_le_bytes(code[2..].try_into().expect("four bytes"));
            is_branch && taken.contains(&(place + 6).wrapping_add_signed(distance.into()))
        };
        places.find(leads_into).map(|(place, _)| place)
    }
}
