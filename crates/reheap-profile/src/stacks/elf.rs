//! An ELF file of a process, read in pieces.
//!
//! A browser with its debug information takes gigabytes, and a profile needs some sections of it. So only the tables are
//! read when a file is opened, and each section when somebody asks for it. It is read, not mapped: a mapped file that
//! another process truncates kills this one. Files are whatever processes have mapped, so nothing in them is trusted:
//! each size is held against the file's before memory is taken for it.

use super::{UnwindSections, branches, signed_returns};
use flate2::read::ZlibDecoder;
use object::LittleEndian as LE;
use object::elf;
use object::pod;
use reheap_graft::Processor;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, OnceLock};

/// No section above this is read: the largest `.debug_info` of Chromium has about as much.
const SECTION_BYTES_MAX: u64 = 1 << 30;
/// zlib makes at most 1032 bytes of one, zstd's usual output is far below.
const EXPANSION_MAX: u64 = 1100;
/// Names of sections are cut here.
const NAME_BYTES_MAX: usize = 64;

/// The bytes of a file.
#[derive(Debug)]
pub enum Bytes {
    /// A file that is open. It stays so: it may be deleted before its symbols are needed.
    File(File),
    /// Bytes without a file, such as the vdso.
    Memory(Vec<u8>),
}

impl Bytes {
    fn size(&self) -> u64 {
        match self {
            Bytes::File(file) => file.metadata().map_or(0, |metadata| metadata.len()),
            Bytes::Memory(bytes) => bytes.len() as u64,
        }
    }

    /// That many bytes from there; `None` if there are fewer.
    fn read(&self, offset: u64, size: u64) -> Option<Vec<u8>> {
        if offset.checked_add(size)? > self.size() {
            return None;
        }
        let (start, size) = (usize::try_from(offset).ok()?, usize::try_from(size).ok()?);
        match self {
            Bytes::Memory(bytes) => Some(bytes[start..start + size].to_vec()),
            Bytes::File(file) => {
                let mut buffer = vec![0; size];
                file.read_exact_at(&mut buffer, offset).ok()?;
                Some(buffer)
            }
        }
    }

    /// The whole, in pieces.
    pub(super) fn pieces(&self, mut look: impl FnMut(&[u8])) {
        const PIECE_BYTES: u64 = 1 << 20;
        let size = self.size();
        let mut offset = 0;
        while offset < size {
            let Some(piece) = self.read(offset, PIECE_BYTES.min(size - offset)) else {
                return;
            };
            look(&piece);
            offset += piece.len() as u64;
        }
    }
}

/// A part of the file that is loaded.
#[derive(Debug, Clone, Copy)]
struct Segment {
    address: u64,
    offset: u64,
    file_bytes: u64,
    executable: bool,
}

/// A section, where it is and what it is called.
#[derive(Debug, Clone)]
pub(crate) struct Section {
    pub(super) name: String,
    pub(crate) kind: elf::SectionType,
    pub(super) address: u64,
    pub(super) size: u64,
    pub(crate) link: u32,
    offset: u64,
    compressed: bool,
}

/// An ELF file of 64 bits, little-endian, for a processor that reheap unwinds.
#[derive(Debug)]
pub struct Elf {
    bytes: Bytes,
    processor: Processor,
    segments: Vec<Segment>,
    eh_frame_hdr: Option<Segment>,
    sections: Vec<Section>,
    build_id: Option<Vec<u8>>,
    unwind_sections: OnceLock<UnwindSections>,
}

impl Elf {
    /// Reads the tables; `None` if the bytes are not such a file.
    pub fn parse(bytes: Bytes) -> Option<Self> {
        let header = bytes.read(0, size_of::<elf::FileHeader64<LE>>() as u64)?;
        let (header, _) = pod::from_bytes::<elf::FileHeader64<LE>>(&header).ok()?;
        let ident = &header.e_ident;
        if ident.magic != elf::ELFMAG
            || ident.class != elf::ELFCLASS64
            || ident.data != elf::ELFDATA2LSB
        {
            return None;
        }
        let processor = Processor::from_machine(header.e_machine.get(LE))?;
        let programs = program_headers(&bytes, header)?;
        let segments_of = |kind| {
            programs
                .iter()
                .filter(move |program| program.p_type.get(LE) == kind)
        };
        let sections = sections(&bytes, header).unwrap_or_default();
        Some(Self {
            processor,
            segments: segments_of(elf::PT_LOAD).map(segment).collect(),
            eh_frame_hdr: segments_of(elf::PT_GNU_EH_FRAME).map(segment).next(),
            build_id: build_id(
                &bytes,
                segments_of(elf::PT_NOTE).map(segment).collect(),
                &sections,
            ),
            sections,
            bytes,
            unwind_sections: OnceLock::new(),
        })
    }

    /// The processor that it is for.
    pub fn processor(&self) -> Processor {
        self.processor
    }

    /// What the linker calls this very build.
    pub fn build_id(&self) -> Option<&[u8]> {
        self.build_id.as_deref()
    }

    /// The lowest address that is loaded: 0 for what may be anywhere, and where it must be for what may not.
    pub fn first_address(&self) -> u64 {
        self.segments
            .iter()
            .map(|segment| segment.address)
            .min()
            .unwrap_or(0)
    }

    /// What has to be added to an address in the file to get that in memory, if code at `offset` of the file is at
    /// `start`.
    pub(super) fn bias(&self, start: u64, offset: u64) -> Option<u64> {
        // The kernel maps whole pages, so a mapping begins before its segment: by less than 4 KiB, or up to 64 KiB on
        // some aarch64 machines.
        let segment = [0xfff, 0xffff].into_iter().find_map(|slack| {
            self.segments.iter().find(|segment| {
                segment.executable
                    && offset.saturating_add(slack) >= segment.offset
                    && offset < segment.offset.saturating_add(segment.file_bytes)
            })
        })?;
        let address = segment
            .address
            .wrapping_add(offset.wrapping_sub(segment.offset));
        Some(start.wrapping_sub(address))
    }

    /// That many bytes of code, from an address in the file.
    pub(crate) fn code(&self, address: u64, bytes: u64) -> Option<Vec<u8>> {
        let segment = self.segments.iter().find(|segment| {
            segment.executable
                && address >= segment.address
                && address - segment.address < segment.file_bytes
        })?;
        let skipped = address - segment.address;
        self.bytes.read(segment.offset.checked_add(skipped)?, bytes)
    }

    /// The section of that name, decompressed; `None` if there is none with bytes.
    pub(super) fn section(&self, name: &str) -> Option<Arc<[u8]>> {
        self.contents(self.named(name)?)
    }

    pub(super) fn named(&self, name: &str) -> Option<&Section> {
        let has_bytes = |section: &&Section| section.kind != elf::SHT_NOBITS && section.size > 0;
        self.sections
            .iter()
            .filter(has_bytes)
            .find(|section| section.name == name)
    }

    pub(crate) fn sections(&self) -> &[Section] {
        &self.sections
    }

    pub(crate) fn contents(&self, section: &Section) -> Option<Arc<[u8]>> {
        if section.size > SECTION_BYTES_MAX || section.kind == elf::SHT_NOBITS {
            return None;
        }
        let bytes = self.bytes.read(section.offset, section.size)?;
        if section.compressed {
            decompress(&bytes).map(Arc::from)
        } else {
            Some(Arc::from(bytes))
        }
    }

    pub(super) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// What framehop unwinds with.
    pub(crate) fn unwind_sections(&self) -> &UnwindSections {
        self.unwind_sections
            .get_or_init(|| self.read_unwind_sections())
    }

    fn read_unwind_sections(&self) -> UnwindSections {
        let range = |name: &str| {
            let section = self.sections.iter().find(|section| section.name == name)?;
            Some(section.address..section.address.checked_add(section.size)?)
        };
        let mut sections = UnwindSections {
            base_svma: self.first_address(),
            text_svma: range(".text"),
            got_svma: range(".got"),
            eh_frame_svma: range(".eh_frame"),
            eh_frame: self.section(".eh_frame"),
            eh_frame_hdr_svma: range(".eh_frame_hdr"),
            eh_frame_hdr: self.section(".eh_frame_hdr"),
            debug_frame: self.section(".debug_frame"),
            ..Default::default()
        };
        if sections.eh_frame.is_none() {
            self.find_unwind_segments(&mut sections);
        }
        if sections
            .eh_frame
            .as_ref()
            .is_none_or(|bytes| bytes.len() < 16)
        {
            // Only the terminator: framehop would look no further.
            (sections.eh_frame, sections.eh_frame_hdr) = (None, None);
        }
        if let (Processor::Aarch64, Some(eh_frame)) = (self.processor, &mut sections.eh_frame) {
            signed_returns::forget(Arc::make_mut(eh_frame));
        }
        branches::forget(&mut sections);
        sections
    }

    /// A file without section headers still tells the C++ runtime where its frames are: `.eh_frame_hdr` is a segment,
    /// and begins with the distance to `.eh_frame` (Linux Standard Base, 10.6.2).
    fn find_unwind_segments(&self, sections: &mut UnwindSections) -> Option<()> {
        const SIGNED_4_BYTES_FROM_HERE: u8 = 0x1b;
        let hdr = self.eh_frame_hdr?;
        let hdr_bytes = self
            .bytes
            .read(hdr.offset, hdr.file_bytes.min(SECTION_BYTES_MAX))?;
        if hdr_bytes.get(..2)? != [1, SIGNED_4_BYTES_FROM_HERE] {
            return None;
        }
        let distance = i32::from_le_bytes(hdr_bytes.get(4..8)?.try_into().ok()?);
        let address = hdr
            .address
            .checked_add(4)?
            .checked_add_signed(i64::from(distance))?;
        let segment = self.segments.iter().find(|segment| {
            address >= segment.address && address - segment.address < segment.file_bytes
        })?;
        let skipped = address - segment.address;
        let size = segment.file_bytes - skipped;
        let bytes = self.bytes.read(
            segment.offset.checked_add(skipped)?,
            size.min(SECTION_BYTES_MAX),
        )?;
        sections.eh_frame_svma = Some(address..address.checked_add(size)?);
        sections.eh_frame = Some(Arc::from(bytes));
        sections.eh_frame_hdr_svma = Some(hdr.address..hdr.address.checked_add(hdr.file_bytes)?);
        sections.eh_frame_hdr = Some(Arc::from(hdr_bytes));
        Some(())
    }
}

fn segment(program: &elf::ProgramHeader64<LE>) -> Segment {
    Segment {
        address: program.p_vaddr.get(LE),
        offset: program.p_offset.get(LE),
        file_bytes: program.p_filesz.get(LE),
        executable: program.p_flags.get(LE).0 & elf::PF_X.0 != 0,
    }
}

fn program_headers(
    bytes: &Bytes,
    header: &elf::FileHeader64<LE>,
) -> Option<Vec<elf::ProgramHeader64<LE>>> {
    let count = header.e_phnum.get(LE);
    table(bytes, header.e_phoff.get(LE), u64::from(count))
}

fn table<T: pod::Pod>(bytes: &Bytes, offset: u64, count: u64) -> Option<Vec<T>> {
    let raw = bytes.read(offset, count.checked_mul(size_of::<T>() as u64)?)?;
    let (entries, _) = pod::slice_from_bytes::<T>(&raw, usize::try_from(count).ok()?).ok()?;
    Some(entries.to_vec())
}

fn sections(bytes: &Bytes, header: &elf::FileHeader64<LE>) -> Option<Vec<Section>> {
    let offset = header.e_shoff.get(LE);
    if offset == 0 {
        return None;
    }
    let first: Vec<elf::SectionHeader64<LE>> = table(bytes, offset, 1)?;
    // With more than 65,279 sections, the first header has the number and the place of the names.
    let count = match header.e_shnum.get(LE) {
        0 => first[0].sh_size.get(LE).min(1 << 24),
        count => u64::from(count),
    };
    let names_at = match header.e_shstrndx.get(LE) {
        elf::SHN_XINDEX => u64::from(first[0].sh_link.get(LE)),
        index => u64::from(index.0),
    };
    let headers: Vec<elf::SectionHeader64<LE>> = table(bytes, offset, count)?;
    let names = headers.get(usize::try_from(names_at).ok()?)?;
    let names = bytes.read(names.sh_offset.get(LE), names.sh_size.get(LE).min(1 << 24))?;
    Some(
        headers
            .iter()
            .map(|header| section(header, &names))
            .collect(),
    )
}

fn section(header: &elf::SectionHeader64<LE>, names: &[u8]) -> Section {
    let name = names
        .get(header.sh_name.get(LE) as usize..)
        .unwrap_or_default();
    let length = name
        .iter()
        .take(NAME_BYTES_MAX)
        .position(|byte| *byte == 0)
        .unwrap_or(0);
    Section {
        name: String::from_utf8_lossy(&name[..length]).into_owned(),
        kind: header.sh_type.get(LE),
        address: header.sh_addr.get(LE),
        size: header.sh_size.get(LE),
        link: header.sh_link.get(LE),
        offset: header.sh_offset.get(LE),
        compressed: header.sh_flags.get(LE).0 & elf::SHF_COMPRESSED.0 != 0,
    }
}

fn decompress(bytes: &[u8]) -> Option<Vec<u8>> {
    let (header, data) = pod::from_bytes::<elf::CompressionHeader64<LE>>(bytes).ok()?;
    let size = header.ch_size.get(LE);
    if size > (data.len() as u64).saturating_mul(EXPANSION_MAX) || size > SECTION_BYTES_MAX {
        return None;
    }
    let mut whole = Vec::new();
    let read = match header.ch_type.get(LE) {
        elf::ELFCOMPRESS_ZLIB => ZlibDecoder::new(data).take(size).read_to_end(&mut whole),
        elf::ELFCOMPRESS_ZSTD => zstd::Decoder::with_buffer(data)
            .ok()?
            .take(size)
            .read_to_end(&mut whole),
        _ => return None,
    };
    (read.ok()? as u64 == size).then_some(whole)
}

fn build_id(bytes: &Bytes, segments: Vec<Segment>, sections: &[Section]) -> Option<Vec<u8>> {
    let of_sections = sections
        .iter()
        .filter(|section| section.kind == elf::SHT_NOTE)
        .map(|section| (section.offset, section.size));
    let of_segments = segments
        .iter()
        .map(|segment| (segment.offset, segment.file_bytes));
    of_segments
        .chain(of_sections)
        .filter_map(|(offset, size)| bytes.read(offset, size.min(1 << 16)))
        .find_map(|notes| gnu_build_id(&notes))
}

fn gnu_build_id(mut notes: &[u8]) -> Option<Vec<u8>> {
    const HEADER_BYTES: usize = 12;
    while notes.len() >= HEADER_BYTES {
        let word = |at: usize| {
            notes[at..at + 4]
                .iter()
                .rev()
                .fold(0, |all, byte| all << 8 | usize::from(*byte))
        };
        let (name_bytes, id_bytes, kind) = (word(0), word(4), word(8));
        let id_at = HEADER_BYTES + name_bytes.next_multiple_of(4);
        let name = notes.get(HEADER_BYTES..HEADER_BYTES + name_bytes)?;
        let id = notes.get(id_at..id_at.checked_add(id_bytes)?)?;
        if name == b"GNU\0" && kind == elf::NT_GNU_BUILD_ID.0 as usize && !id.is_empty() {
            return Some(id.to_vec());
        }
        notes = notes.get(id_at + id_bytes.next_multiple_of(4)..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn run(command: &mut Command) {
        let status = command.status().expect("gcc and binutils are there");
        assert!(status.success(), "{command:?}: {status}");
    }

    #[test]
    fn compressed_sections_are_read_as_if_they_were_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let function =
            |number| format!("int function_{number}(int a) {{ return a + {number}; }}\n");
        std::fs::write(path("a.c"), (0..99).map(function).collect::<String>()).unwrap();
        run(Command::new("gcc")
            .args(["-g", "-c", "a.c"])
            .current_dir(&directory));
        let read = |name: &str| {
            let elf = Elf::parse(Bytes::File(File::open(path(name)).unwrap())).unwrap();
            let is_compressed = elf.named(".debug_info").unwrap().compressed;
            (is_compressed, elf.section(".debug_info").unwrap())
        };
        let (_, plain) = read("a.o");
        for format in ["zlib", "zstd"] {
            let mut objcopy = Command::new("objcopy");
            objcopy.arg(format!("--compress-debug-sections={format}"));
            run(objcopy.args(["a.o", format]).current_dir(&directory));
            assert_eq!(read(format), (true, plain.clone()), "{format}");
        }
    }
}
