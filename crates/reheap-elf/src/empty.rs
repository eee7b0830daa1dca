//! Empty shared libraries, for processors that reheap has no compiler for.
//!
//! A dynamic linker complains of a library for another processor, so it gets one of these instead. Each has what glibc
//! reads of every library: a segment to load, a dynamic section, tables of names without a name, and a stack that is
//! not executable.

use object::elf;

/// A processor and its word size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    is_64_bit: bool,
    /// `e_machine`.
    number: u16,
    /// `e_flags`.
    flags: u32,
}

impl Machine {
    /// 32-bit x86.
    pub const I386: Self = Self::new(false, elf::EM_386.0, 0);
    /// x86-64.
    pub const X86_64: Self = Self::new(true, elf::EM_X86_64.0, 0);
    /// 32-bit Arm.
    pub const ARM: Self = Self::new(false, elf::EM_ARM.0, elf::EF_ARM_EABI_VER5.0);
    /// 64-bit Arm.
    pub const AARCH64: Self = Self::new(true, elf::EM_AARCH64.0, 0);

    const fn new(is_64_bit: bool, number: u16, flags: u32) -> Self {
        Self {
            is_64_bit,
            number,
            flags,
        }
    }
}

/// The largest page of any of these processors.
const ALIGNMENT: u64 = 0x1_0000;
const SEGMENTS: u64 = 3;
/// The bytes of `e_ident`.
const IDENTIFICATION: usize = 16;
/// One bucket with no name, and one symbol, which is none.
const HASH: [u32; 4] = [1, 1, 0, 0];
/// The one string, which is empty.
const STRINGS: u64 = 1;

/// The bytes of an empty library.
pub fn library(machine: Machine) -> Vec<u8> {
    let layout = Layout::of(machine);
    let mut file = File {
        is_64_bit: machine.is_64_bit,
        bytes: Vec::new(),
    };
    file.header(machine, &layout);
    file.segment(elf::PT_LOAD.0, 0, layout.end, ALIGNMENT);
    let dynamic_bytes = layout.hash - layout.dynamic;
    file.segment(
        elf::PT_DYNAMIC.0,
        layout.dynamic,
        dynamic_bytes,
        layout.word,
    );
    file.segment(elf::PT_GNU_STACK.0, 0, 0, 0);
    for (tag, value) in layout.dynamic_entries() {
        file.word(tag);
        file.word(value);
    }
    HASH.iter().for_each(|number| file.four(*number));
    file.bytes.resize(layout.end as usize, 0);
    file.bytes
}

/// Where each part is: the headers of the file and of its segments, what follows, and the end.
struct Layout {
    word: u64,
    file_header: u64,
    segment_header: u64,
    symbol: u64,
    dynamic: u64,
    hash: u64,
    symbols: u64,
    strings: u64,
    end: u64,
}

impl Layout {
    fn of(machine: Machine) -> Self {
        let (word, file_header, segment_header, symbol) = if machine.is_64_bit {
            (8, 64, 56, 24)
        } else {
            (4, 52, 32, 16)
        };
        let dynamic = u64::next_multiple_of(file_header + SEGMENTS * segment_header, word);
        let hash = dynamic + Self::DYNAMIC_ENTRIES * 2 * word;
        let symbols = hash + size_of_val(&HASH) as u64;
        let strings = symbols + symbol;
        Self {
            word,
            file_header,
            segment_header,
            symbol,
            dynamic,
            hash,
            symbols,
            strings,
            end: strings + STRINGS,
        }
    }

    const DYNAMIC_ENTRIES: u64 = 6;

    fn dynamic_entries(&self) -> [(u64, u64); Self::DYNAMIC_ENTRIES as usize] {
        [
            (elf::DT_HASH.0 as u64, self.hash),
            (elf::DT_SYMTAB.0 as u64, self.symbols),
            (elf::DT_SYMENT.0 as u64, self.symbol),
            (elf::DT_STRTAB.0 as u64, self.strings),
            (elf::DT_STRSZ.0 as u64, STRINGS),
            (elf::DT_NULL.0 as u64, 0),
        ]
    }
}

/// A little-endian file that grows.
struct File {
    is_64_bit: bool,
    bytes: Vec<u8>,
}

impl File {
    fn header(&mut self, machine: Machine, layout: &Layout) {
        let class = if machine.is_64_bit {
            elf::ELFCLASS64
        } else {
            elf::ELFCLASS32
        };
        self.bytes.extend(elf::ELFMAG);
        self.bytes
            .extend([class.0, elf::ELFDATA2LSB.0, elf::EV_CURRENT.0]);
        self.bytes.resize(IDENTIFICATION, 0);
        self.two(elf::ET_DYN.0);
        self.two(machine.number);
        self.four(elf::EV_CURRENT.0.into());
        self.word(0); // no entry point
        self.word(layout.file_header);
        self.word(0); // no sections
        self.four(machine.flags);
        let sizes = [layout.file_header, layout.segment_header, SEGMENTS, 0, 0, 0];
        sizes.iter().for_each(|size| self.two(*size as u16));
    }

    /// All of them may be written, as older versions of glibc write into the dynamic section.
    fn segment(&mut self, kind: u32, offset: u64, size: u64, alignment: u64) {
        let flags = (elf::PF_R | elf::PF_W).0;
        self.four(kind);
        if self.is_64_bit {
            self.four(flags);
        }
        for word in [offset, offset, offset, size, size] {
            self.word(word);
        }
        if !self.is_64_bit {
            self.four(flags);
        }
        self.word(alignment);
    }

    fn word(&mut self, value: u64) {
        let bytes = value.to_le_bytes();
        let length = if self.is_64_bit { 8 } else { 4 };
        self.bytes.extend(&bytes[..length]);
    }

    fn four(&mut self, value: u32) {
        self.bytes.extend(value.to_le_bytes());
    }

    fn two(&mut self, value: u16) {
        self.bytes.extend(value.to_le_bytes());
    }
}
