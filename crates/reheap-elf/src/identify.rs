//! What an ELF file is: kind, libc, allocators, and who provides its `malloc`, with the evidence for each.
//!
//! `nm FILE | grep malloc` answers this for a file that is not stripped and contains one allocator. Shipped programs
//! are stripped, and many contain two: a Rust program with the `mimalloc` crate on musl also has musl's own. So this
//! module first gathers several kinds of evidence, and concludes afterwards. If the evidence does not suffice, the
//! answer is "unknown" with the reason. In a stripped file, the absence of something proves nothing.
//!
//! Three steps, one module each: `image` (for archives `members`) reads the file with bounded cost, `findings` collects
//! the evidence that `signatures` describes, and `verdict` concludes. No step holds the file: see [`crate::source`].

mod code;
mod findings;
mod hazards;
mod image;
mod masked;
mod members;
mod protections;
mod roles;
mod signatures;
mod verdict;

use crate::Class;
use crate::error::ElfError;
use crate::marker::{self, FoundMarker, Marker};
use crate::source::{Source, View};
use findings::Findings;
use image::{Image, SymbolTable};
use object::elf;
use serde::Serialize;
use std::fmt;

pub use hazards::Hazard;
pub use protections::{Protections, Relro, Stack};
pub use roles::Role;
pub use signatures::{allocator_of_library, allocators};

/// What a file is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Identity {
    /// How it is linked.
    pub kind: Kind,
    /// The processor, as `uname -m` spells it.
    pub architecture: String,
    /// The dynamic linker that the file asks for.
    pub interpreter: Option<String>,
    /// The libc that it is linked with or will meet.
    pub libc: Libc,
    /// It has no symbol table beside that of the dynamic linker.
    pub stripped: bool,
    /// It unpacks itself when it runs, so its real contents are hidden.
    pub packed: bool,
    /// The name under which others need it, if it is a library.
    pub soname: Option<String>,
    /// Shared libraries that it needs, in search order.
    pub needed: Vec<String>,
    /// What reheap left in it.
    pub marker: Option<MarkerIdentity>,
    /// The allocators whose code is in the file.
    pub allocators: Vec<FoundAllocator>,
    /// Who provides `malloc`.
    pub malloc: MallocVerdict,
    /// Who provides C++'s `operator new`, if the file defines or needs it.
    pub operator_new: Option<MallocVerdict>,
    /// The functions of the malloc family, and C++'s operators, that it offers to other files.
    pub exports: Vec<String>,
    /// Rust's global allocator, if the file holds Rust code.
    pub rust_global_allocator: Option<RustGlobalAllocator>,
    /// What compiler and linker do in it against the use of memory errors, if it is linked.
    pub protections: Option<Protections>,
    /// What can go wrong with its allocators.
    pub hazards: Vec<Hazard>,
    /// The members of an archive.
    pub members: Option<Members>,
}

/// How a file is linked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// An executable without a dynamic linker, at a fixed address.
    Static,
    /// An executable without a dynamic linker, at any address.
    StaticPie,
    /// An executable that a dynamic linker starts.
    Dynamic,
    /// A shared library.
    SharedLibrary,
    /// A relocatable object.
    Object,
    /// An archive of relocatable objects.
    Archive,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Static => "static",
            Self::StaticPie => "static-pie",
            Self::Dynamic => "dynamic",
            Self::SharedLibrary => "shared library",
            Self::Object => "object",
            Self::Archive => "archive",
        })
    }
}

/// How sure a statement is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Confidence {
    /// A hint that other programs could give too.
    Possible,
    /// Only an unusual program would be otherwise.
    Likely,
    /// The file itself shows it.
    Certain,
}

impl fmt::Display for Confidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Possible => "possible",
            Self::Likely => "likely",
            Self::Certain => "certain",
        })
    }
}

/// Something in the file that supports a statement.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind", content = "value")]
pub enum Evidence {
    /// An ELF note.
    Note(String),
    /// A symbol that the file defines.
    Symbol(String),
    /// A table of numbers that the code uses.
    Table(String),
    /// A text that the code holds.
    Text(String),
    /// Instructions with characteristic numbers.
    Code(String),
    /// A shared library that the file needs, or its own name as one.
    Library(String),
    /// The dynamic linker.
    Interpreter(String),
    /// The highest version of a symbol that the file needs of its libc.
    SymbolVersion(String),
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Note(note) => write!(f, "note `{}`", note.escape_debug()),
            Self::Symbol(symbol) => write!(f, "symbol `{}`", symbol.escape_debug()),
            Self::Table(table) => write!(f, "{table}"),
            Self::Code(code) => write!(f, "code: {code}"),
            Self::Text(text) => write!(f, "text `{}`", text.escape_debug()),
            Self::Library(library) => write!(f, "library `{}`", library.escape_debug()),
            Self::Interpreter(path) => write!(f, "interpreter `{}`", path.escape_debug()),
            Self::SymbolVersion(version) => {
                write!(f, "symbol version `{}`", version.escape_debug())
            }
        }
    }
}

/// The libc of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Libc {
    /// Which one.
    pub name: LibcName,
    /// Its version, where the file tells.
    pub version: Option<LibcVersion>,
    /// How sure the name is; `None` if it is unknown.
    pub confidence: Option<Confidence>,
    /// What supports it.
    pub evidence: Vec<Evidence>,
}

/// Names of libcs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LibcName {
    /// The musl libc.
    Musl,
    /// The GNU C library.
    Glibc,
    /// Android's libc.
    Bionic,
    /// The file uses none.
    None,
    /// The file does not tell.
    Unknown,
}

impl fmt::Display for LibcName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Musl => "musl",
            Self::Glibc => "glibc",
            Self::Bionic => "bionic",
            Self::None => "no libc",
            Self::Unknown => "unknown libc",
        })
    }
}

/// What is known about the version of a libc.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LibcVersion {
    /// This one.
    Exactly(String),
    /// This one or a later one.
    AtLeast(String),
}

impl fmt::Display for LibcVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(version) => f.write_str(version),
            Self::AtLeast(version) => write!(f, "{version} or later"),
        }
    }
}

/// The marker and what it proves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MarkerIdentity {
    /// What it says.
    #[serde(flatten)]
    pub marker: Marker,
    /// The functions of the malloc family that the linked program took from elsewhere; empty if the swap is active.
    pub replaced: Vec<&'static str>,
    /// Whether a linker has bound the words that prove it. In an object or archive they are unbound.
    pub is_linked: bool,
    /// Whether the program was linked without it, and jumps in its own functions lead to it.
    pub is_grafted: bool,
}

impl MarkerIdentity {
    fn linked(found: FoundMarker) -> Self {
        Self {
            marker: found.marker,
            replaced: found.replaced,
            is_linked: true,
            is_grafted: found.is_grafted,
        }
    }
}

/// An allocator whose code is in the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FoundAllocator {
    /// Its name.
    pub name: String,
    /// Its own version; `3.x` if only that much is known.
    pub version: Option<String>,
    /// A build with other promises, such as `secure`.
    pub variant: Option<String>,
    /// It is the libc's own.
    pub is_stock: bool,
    /// What it is for.
    pub role: Role,
    /// What its build does when the program misuses memory.
    pub hardening: Vec<&'static str>,
    /// How sure it is that the code is there.
    pub confidence: Confidence,
    /// What shows it.
    pub evidence: Vec<Evidence>,
}

/// Who provides `malloc`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MallocVerdict {
    /// Whose code runs.
    pub provider: Provider,
    /// How sure that is; `None` if it is unknown or there is nothing to know.
    pub confidence: Option<Confidence>,
    /// How we know, or why we do not, as a clause.
    pub reason: String,
}

/// Whose code runs when `malloc` is called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "by")]
pub enum Provider {
    /// An allocator in the file.
    Allocator {
        /// Its name, as in [`Identity::allocators`].
        name: String,
    },
    /// A shared library of an allocator.
    Library {
        /// The allocator's name.
        name: String,
        /// The library's file name.
        library: String,
    },
    /// The shared libc, unless something is preloaded.
    SharedLibc,
    /// Code in the file that is no allocator reheap knows.
    OwnCode,
    /// Whatever the file is linked or loaded into.
    Outside,
    /// Nothing in the file has to do with `malloc`.
    Nobody,
    /// The file does not tell.
    Unknown,
}

/// Rust's global allocator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum RustGlobalAllocator {
    /// Rust's default, which calls `malloc`.
    System {
        /// What shows it.
        evidence: Evidence,
    },
    /// One that the program sets with `#[global_allocator]`.
    Custom {
        /// Its name, if only one allocator in the file can be meant.
        name: Option<String>,
        /// How sure it is that there is one.
        confidence: Confidence,
        /// What shows it.
        evidence: Evidence,
    },
    /// The symbols that tell are gone: the file is stripped, or they were inlined.
    Unknown,
}

/// What an archive consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Members {
    /// ELF objects.
    pub elf: usize,
    /// Anything else, such as LLVM bitcode or Rust metadata.
    pub other: usize,
}

/// Identifies an ELF file or an archive of them: a slice of bytes, or anything that bytes can be read from.
///
/// It needs time in proportion to the file's size, whatever is in it, and at most some ten megabytes of memory. Where
/// sections say what is code, it mostly does not read the code.
///
/// # Errors
/// When the bytes cannot be read, or are neither ELF nor an archive with an ELF object, or are damaged.
pub fn identify<S: Source + ?Sized>(source: &S) -> Result<Identity, ElfError> {
    let file = View::of(&source);
    let beginning = file.bytes_from(0, BEGINNING_BYTES)?;
    check_beginning(&beginning)?;
    if beginning.starts_with(&elf::ELFMAG) {
        identify_elf(file)
    } else {
        identify_archive(file)
    }
}

/// Identifies the executable of a process, into which reheap has put an allocator. `marker` is in its memory.
///
/// # Errors
/// Those of [`identify`].
pub fn identify_grafted<S: Source + ?Sized>(
    source: &S,
    marker: FoundMarker,
) -> Result<Identity, ElfError> {
    let image = Image::read(View::of(&source))?;
    let mut findings = Findings::default();
    findings.add(&image)?;
    let kind = verdict::kind(&image);
    conclude(
        kind,
        &image,
        &findings,
        Some(MarkerIdentity::linked(marker)),
    )
}

/// Enough bytes to tell the kind of file.
const BEGINNING_BYTES: u64 = 64;

/// Says from its first bytes whether a file is of a kind that can be identified.
fn check_beginning(bytes: &[u8]) -> Result<(), ElfError> {
    if bytes.starts_with(&elf::ELFMAG) || bytes.starts_with(&object::archive::MAGIC) {
        return Ok(());
    }
    if bytes.starts_with(&object::archive::THIN_MAGIC) {
        return Err(ElfError::ThinArchive);
    }
    const KINDS: [(&[u8], &str); 7] = [
        (b"#!", "a script"),
        (b"BC\xc0\xde", "LLVM bitcode"),
        (b"MZ", "a Windows program"),
        (b"\xcf\xfa\xed\xfe", "a macOS program"),
        (b"\xca\xfe\xba\xbe", "a Java class or a macOS program"),
        (b"\0asm", "WebAssembly"),
        (b"PK", "a ZIP archive"),
    ];
    let known = KINDS.iter().find(|(magic, _)| bytes.starts_with(magic));
    match (bytes, known) {
        ([], _) => Err(ElfError::Empty),
        (_, Some((_, what))) => Err(ElfError::NotElf { what }),
        (_, None) => Err(ElfError::NotElf { what: "other data" }),
    }
}

fn identify_elf(file: View<'_>) -> Result<Identity, ElfError> {
    let image = Image::read(file)?;
    let mut findings = Findings::default();
    findings.add(&image)?;
    let kind = verdict::kind(&image);
    let marker = match kind {
        Kind::Object => unlinked_marker(&image, &findings)?,
        _ => linked_marker(&image)?,
    };
    conclude(kind, &image, &findings, marker)
}

fn identify_archive(file: View<'_>) -> Result<Identity, ElfError> {
    let mut findings = Findings::default();
    let mut members = Members { elf: 0, other: 0 };
    let mut marker = None;
    let mut first = None;
    for member in members::members(file) {
        let member = member?;
        let beginning = member.bytes_from(0, BEGINNING_BYTES)?;
        if !beginning.starts_with(&elf::ELFMAG) {
            members.other += 1;
            continue;
        }
        let image = Image::read(member).map_err(|error| ElfError::Member {
            index: members.elf + members.other,
            error: Box::new(error),
        })?;
        members.elf += 1;
        findings.add(&image)?;
        if marker.is_none() {
            marker = unlinked_marker(&image, &findings)?;
        }
        first.get_or_insert(image);
    }
    let first = match (first, members.other) {
        (Some(first), _) => first,
        (None, 0) => return Err(ElfError::EmptyArchive),
        (None, others) => return Err(ElfError::NoObjects { others }),
    };
    let mut identity = conclude(Kind::Archive, &first, &findings, marker)?;
    identity.members = Some(members);
    Ok(identity)
}

/// The marker of a linked file, where the linker has filled in what proves it.
fn linked_marker(image: &Image<'_>) -> Result<Option<MarkerIdentity>, ElfError> {
    let mut notes = image.notes.iter();
    let note = notes.find(|note| marker::is_marker(&note.name, note.note_type));
    let Some(note) = note.filter(|_| image.format().is_little_endian) else {
        return Ok(None);
    };
    let class = Class::of_64_bit(image.format().is_64_bit);
    let found = marker::parse_description(note.note_type, &note.description, note.address, class);
    let mut found = found.map_err(|error| ElfError::Marker {
        reason: error.to_string(),
    })?;
    if image.machine() == elf::EM_X86_64 {
        found.follow_jumps(|address, size| image.bytes_at(address, size));
    }
    Ok(Some(MarkerIdentity::linked(found)))
}

fn unlinked_marker(
    image: &Image<'_>,
    findings: &Findings,
) -> Result<Option<MarkerIdentity>, ElfError> {
    if !findings.defines_marker || !image.format().is_little_endian {
        return Ok(None);
    }
    let section = image.marker_section()?;
    let class = Class::of_64_bit(image.format().is_64_bit);
    let marker = section.and_then(|section| marker::of_section(&section, class));
    Ok(marker.map(|marker| MarkerIdentity {
        marker,
        replaced: Vec::new(),
        is_linked: false,
        is_grafted: false,
    }))
}

fn conclude(
    kind: Kind,
    image: &Image<'_>,
    findings: &Findings,
    marker: Option<MarkerIdentity>,
) -> Result<Identity, ElfError> {
    let mut allocators = verdict::allocators(kind, findings);
    if let Some(marker) = &marker {
        verdict::add_marker(&mut allocators, marker);
    }
    let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
    let needed: Vec<String> = image.needed.iter().map(text).collect();
    let malloc = verdict::Question {
        kind,
        symbol_table: image.symbol_table,
        needed: &needed,
        findings,
        allocators: &allocators,
        marker: marker.as_ref(),
    }
    .malloc();
    let put_in = marker.as_ref().map(|found| found.marker.allocator.as_str());
    let rust_global_allocator =
        verdict::rust_global_allocator(findings, &allocators, put_in, &malloc);
    let rust = rust_global_allocator.as_ref();
    roles::assign(&mut allocators, &malloc, rust);
    for found in &mut allocators {
        found.hardening = roles::hardening(&found.name, found.variant.as_deref());
    }
    let exports = findings.exports();
    let protections = match kind {
        Kind::Object | Kind::Archive => None,
        Kind::Static | Kind::StaticPie | Kind::Dynamic | Kind::SharedLibrary => {
            let is_anywhere = image.file_type == image::FileType::SharedObject;
            Some(protections::of(image, &findings.protections, is_anywhere)?)
        }
    };
    let libc = verdict::libc(kind, image, findings, marker.as_ref());
    let hazards = hazards::Subject {
        kind,
        image,
        allocators: &allocators,
        malloc: &malloc,
        rust,
        exports: &exports,
        libc: libc.name.to_string(),
    }
    .hazards()?;
    Ok(Identity {
        kind,
        architecture: architecture(image),
        interpreter: image.interpreter.as_ref().map(text),
        libc,
        stripped: image.symbol_table != SymbolTable::Full,
        // A program that looks for packed files contains that text too, but it also shows other evidence.
        packed: findings.is_packed
            && image.symbol_table != SymbolTable::Full
            && kind != Kind::Dynamic
            && allocators.is_empty(),
        soname: image.soname.as_ref().map(text),
        needed,
        marker,
        operator_new: verdict::operator_new(findings, &malloc),
        exports,
        malloc,
        rust_global_allocator,
        allocators,
        protections,
        hazards,
        members: None,
    })
}

fn architecture(image: &Image<'_>) -> String {
    let format = image.format();
    let name = match (image.machine(), format.is_64_bit, format.is_little_endian) {
        (elf::EM_X86_64, true, _) => "x86_64",
        (elf::EM_X86_64, false, _) => "x32",
        (elf::EM_386, ..) => "i686",
        (elf::EM_AARCH64, _, true) => "aarch64",
        (elf::EM_AARCH64, _, false) => "aarch64_be",
        (elf::EM_ARM, ..) => "arm",
        (elf::EM_RISCV, true, _) => "riscv64",
        (elf::EM_RISCV, false, _) => "riscv32",
        (elf::EM_PPC64, _, true) => "ppc64le",
        (elf::EM_PPC64, _, false) => "ppc64",
        (elf::EM_PPC, ..) => "ppc",
        (elf::EM_S390, true, _) => "s390x",
        (elf::EM_LOONGARCH, true, _) => "loongarch64",
        (elf::EM_MIPS, true, _) => "mips64",
        (elf::EM_MIPS, false, _) => "mips",
        (machine, ..) => return format!("machine {}", machine.0),
    };
    name.to_owned()
}
