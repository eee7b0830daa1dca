//! The symbol table of one relocatable object, as far as linking from an archive needs it.

use crate::{Architecture, Class, Platform};
use object::elf;
use object::read::elf::{FileHeader, Sym as _};
use object::{LittleEndian, SymbolIndex};

/// How a symbol takes part in linking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Defined; a second strong definition is an error. Common symbols count as strong here.
    Strong,
    /// Defined, but any strong definition replaces it.
    Weak,
    /// Needed: linking fails without a definition.
    Needed,
    /// Used if some definition is there anyway.
    WeaklyNeeded,
}

impl Role {
    /// Whether the object defines the symbol.
    pub fn is_definition(self) -> bool {
        matches!(self, Self::Strong | Self::Weak)
    }
}

/// A global symbol of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    /// The name.
    pub name: String,
    /// What it means for linking.
    pub role: Role,
    /// Hidden or internal: not for other modules. In a libc it is not part of the interface.
    pub hidden: bool,
}

/// Why the bytes of an object cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// LLVM bitcode, from `-flto`.
    #[error("LLVM bitcode, not ELF")]
    Bitcode,
    /// Some other format.
    #[error("not an ELF object")]
    NotElf,
    /// A byte order that reheap does not write.
    #[error("big-endian ELF, and reheap derives only from little-endian ELF")]
    BigEndian,
    /// A processor that reheap does not know.
    #[error("ELF for machine number {0}, which reheap does not know")]
    OtherMachine(u16),
    /// An executable or a shared library.
    #[error("ELF, but not a relocatable object")]
    NotRelocatable,
    /// Tables that lie outside the file or contradict each other.
    #[error("damaged ELF: {0}")]
    Damaged(String),
}

impl From<object::read::Error> for ObjectError {
    fn from(error: object::read::Error) -> Self {
        Self::Damaged(error.to_string())
    }
}

/// How wide the addresses of a relocatable object are, if it is one that reheap can read.
pub(crate) fn class_of(bytes: &[u8]) -> Result<Class, ObjectError> {
    if bytes.starts_with(b"BC\xC0\xDE") || bytes.starts_with(b"\xDE\xC0\x17\x0B") {
        return Err(ObjectError::Bitcode);
    }
    if !bytes.starts_with(&elf::ELFMAG) {
        return Err(ObjectError::NotElf);
    }
    match (
        bytes.get(4).map(|&b| elf::FileClass(b)),
        bytes.get(5).map(|&b| elf::DataEncoding(b)),
    ) {
        (Some(elf::ELFCLASS64), Some(elf::ELFDATA2LSB)) => Ok(Class::Bits64),
        (Some(elf::ELFCLASS32), Some(elf::ELFDATA2LSB)) => Ok(Class::Bits32),
        (Some(_), Some(elf::ELFDATA2MSB)) => Err(ObjectError::BigEndian),
        _ => Err(ObjectError::Damaged("the file header".to_owned())),
    }
}

/// The ELF header of a relocatable object of that class, and what it is for.
pub(crate) fn relocatable_header<Elf>(bytes: &[u8]) -> Result<(&Elf, Platform), ObjectError>
where
    Elf: FileHeader<Endian = LittleEndian>,
{
    let header = Elf::parse(bytes)?;
    let machine = header.e_machine(LittleEndian);
    let class = Class::of_64_bit(header.is_type_64());
    let architecture =
        Architecture::from_machine(machine, class).ok_or(ObjectError::OtherMachine(machine.0))?;
    if header.e_type(LittleEndian) != elf::ET_REL {
        return Err(ObjectError::NotRelocatable);
    }
    let platform = Platform {
        architecture,
        flags: header.e_flags(LittleEndian).0,
    };
    Ok((header, platform))
}

/// What a relocatable object is for, and its global symbols.
///
/// # Errors
/// When the bytes are not a relocatable object of an architecture that reheap knows, or its tables are damaged.
pub fn read(bytes: &[u8]) -> Result<(Platform, Vec<Symbol>), ObjectError> {
    match class_of(bytes)? {
        Class::Bits32 => read_of::<elf::FileHeader32<LittleEndian>>(bytes),
        Class::Bits64 => read_of::<elf::FileHeader64<LittleEndian>>(bytes),
    }
}

fn read_of<Elf>(bytes: &[u8]) -> Result<(Platform, Vec<Symbol>), ObjectError>
where
    Elf: FileHeader<Endian = LittleEndian>,
{
    let (header, platform) = relocatable_header::<Elf>(bytes)?;
    let sections = header.sections(LittleEndian, bytes)?;
    let table = sections.symbols(LittleEndian, bytes, elf::SHT_SYMTAB)?;
    let mut symbols = Vec::new();
    for index in 1..table.len() {
        let symbol = table.symbol(SymbolIndex(index))?;
        if symbol.is_local() {
            continue;
        }
        let name = symbol.name(LittleEndian, table.strings())?;
        let defined = symbol.st_shndx(LittleEndian) != elf::SHN_UNDEF;
        let role = match (defined, symbol.is_weak()) {
            (true, false) => Role::Strong,
            (true, true) => Role::Weak,
            (false, false) => Role::Needed,
            (false, true) => Role::WeaklyNeeded,
        };
        symbols.push(Symbol {
            name: String::from_utf8_lossy(name).into_owned(),
            role,
            hidden: matches!(symbol.st_visibility(), elf::STV_HIDDEN | elf::STV_INTERNAL),
        });
    }
    Ok((platform, symbols))
}
