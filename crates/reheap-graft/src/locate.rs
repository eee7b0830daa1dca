//! Where the malloc family is in an executable that contains it.
//!
//! Three kinds of evidence, from sure to sure: the marker that reheap leaves in what it links, the symbols, and code
//! that the stock allocators of musl and glibc are known to have. A wrong address would crash the program or count
//! something else, so two candidates for one function are an error, never a choice.
//!
//! Rust's jemalloc and mimalloc crates call their allocator by names of its own (`_rjem_mallocx`, `mi_malloc_aligned`),
//! past malloc. So these are located besides malloc, under whatever prefix they have.
//!
//! To add an allocator with entry points of its own: a row in `names`, and a hook of that name.

mod arguments;
mod code;
mod errno;
mod glibc;
mod instruction;
mod musl;
mod names;
mod stripped;

use crate::processor::Processor;
use crate::prologue::{self, PrologueError};
use memchr::memchr;
use object::elf::{self, FileHeader64};
use object::read::elf::{
    ElfFile64, ElfSymbolIterator64, FileHeader as _, ProgramHeader as _, Sym as _, SymbolTable,
};
use object::{
    LittleEndian, Object as _, ObjectSection as _, ObjectSegment as _, ObjectSymbol as _, ReadRef,
};
use reheap_elf::{Class, marker};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;

/// Why the functions of an executable cannot be located.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LocateError {
    /// The file is not ELF, or its tables are damaged.
    #[error("damaged ELF: {0}")]
    Damaged(String),
    /// Not a 64-bit little-endian executable of a known processor.
    #[error("it is {0}, and reheap can profile only 64-bit x86-64 and aarch64 executables")]
    Unsupported(String),
    /// A shared library or an object.
    #[error("it is not an executable")]
    NotExecutable,
    /// The Go runtime allocates by itself.
    #[error("it is a Go program, whose memory comes from the Go runtime and not from a malloc")]
    Go,
    /// The executable takes its malloc from a library.
    #[error("its dynamic linker `{0}` gives it a malloc from a library")]
    Dynamic(String),
    /// No symbols, no marker, and no code that is known.
    #[error(
        "it is stripped and has no reheap marker, and reheap does not know its malloc by its code"
    )]
    Unknown,
    /// There is a second allocator, which cannot be located.
    #[error(
        "it is stripped and contains several allocators ({0}), and reheap cannot tell which calls go where"
    )]
    SeveralAllocators(String),
    /// It has symbols, and none is of a malloc.
    #[error("it contains no malloc")]
    NoMalloc,
    /// A function that belongs to every malloc was not found.
    #[error("it has a `{found}`, but no `{missing}` that belongs to it")]
    Incomplete {
        /// What there is.
        found: String,
        /// What is missing.
        missing: &'static str,
    },
    /// Two places for one function.
    #[error("`{name}` could be at {first:#x} or at {second:#x}")]
    Ambiguous {
        /// The function.
        name: String,
        /// A place.
        first: u64,
        /// Another one.
        second: u64,
    },
    /// A function that is chosen when the program starts.
    #[error("`{0}` is chosen when the program starts (IFUNC), so its code is not known before")]
    ChosenAtStart(String),
    /// A function whose code is not in the file's executable segments.
    #[error("`{name}` is at {address:#x}, outside the code")]
    OutsideCode {
        /// The function.
        name: String,
        /// Where it should be.
        address: u64,
    },
    /// A jump cannot take the place of its first instructions.
    #[error("`{name}` at {address:#x} cannot be hooked: {reason}")]
    Prologue {
        /// The function.
        name: String,
        /// Where it is.
        address: u64,
        /// Why.
        reason: PrologueError,
    },
}

impl From<object::read::Error> for LocateError {
    fn from(error: object::read::Error) -> Self {
        Self::Damaged(error.to_string())
    }
}

/// How the functions were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// By the marker that reheap left.
    Marker,
    /// By the symbol table.
    Symbols,
    /// By code that only this allocator has.
    Code,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Marker => "reheap's marker",
            Self::Symbols => "symbols",
            Self::Code => "known code",
        })
    }
}

/// A function of the malloc family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// The name of its hook.
    pub name: String,
    /// Its address in the file's own address space.
    pub address: u64,
    /// The code that begins there, at least as much as a jump takes.
    pub code: Vec<u8>,
}

/// The functions of an executable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// The processor.
    pub processor: Processor,
    /// How they were found.
    pub access: Access,
    /// The functions, each address once.
    pub functions: Vec<Function>,
    /// Functions of the family that the executable may have, but whose place nothing shows. Their calls stay uncounted.
    pub not_located: Vec<&'static str>,
    /// Whether the functions are glibc's.
    pub is_glibc: bool,
    /// Where its libc keeps a thread's number, in bytes from the thread pointer on; `None` where that is not known.
    pub thread_number_at: Option<u64>,
    /// Where `errno` is, in bytes from the thread pointer on; `None` where nothing shows it.
    pub errno_at: Option<i64>,
    /// Whether every function that makes a block or takes one is among these, or does so by one of these.
    pub is_complete: bool,
    /// Calls of `free` by glibc's malloc itself; see [`Executable::own_frees`].
    pub own_frees: Vec<Call>,
    /// Where the program begins, in the file's own address space.
    pub entry: u64,
    /// The range that the file takes when it is loaded.
    pub image: Range<u64>,
}

/// A direct call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Where it is, in the file's own address space.
    pub address: u64,
    /// Its bytes.
    pub code: Vec<u8>,
}

/// Linux gives programs no higher addresses: 56 bits on x86-64 with five levels of page tables, 52 on aarch64. So sums of an
/// address in a file and a size in it do not overflow.
const ADDRESS_MAX: u64 = 1 << 56;
/// How much of a function's code is kept, to compare it with what the process really runs.
const KEPT_CODE_BYTES: usize = 32;
/// How much of a function's code is examined.
const EXAMINED_CODE_BYTES: u64 = 64 << 10;

/// An executable, and what its headers say.
pub(crate) struct Executable<'data, R: ReadRef<'data>> {
    file: ElfFile64<'data, LittleEndian, R>,
    pub processor: Processor,
}

/// A symbol that defines something.
struct Definition {
    address: u64,
    size: u64,
    is_global: bool,
    is_chosen_at_start: bool,
}

/// Where the malloc family is in a static executable, or in a dynamic one that contains an allocator of its own.
///
/// # Errors
/// When it cannot be shown where, or when the functions cannot be hooked.
pub fn locate<'data, R: ReadRef<'data>>(bytes: R) -> Result<Located, LocateError> {
    let executable = Executable::parse(bytes)?;
    if executable.is_go() {
        return Err(LocateError::Go);
    }
    let symbols = executable.symbols();
    let mut places = Places {
        are_all_named: !symbols.is_empty(),
        ..Places::default()
    };
    let marker = executable.marker()?;
    let access = match (&marker, symbols.is_empty()) {
        (Some(marker), _) => {
            places.add_marker(marker);
            Access::Marker
        }
        (None, false) => Access::Symbols,
        (None, true) => {
            places.add_known_code(&executable)?;
            Access::Code
        }
    };
    places.add_family(&symbols)?;
    places.add_own_entry_points(&symbols)?;
    places.is_glibc |= symbols.contains_key(names::ONLY_IN_GLIBC);
    places.errno_at = places.errno_at.or_else(|| executable.errno_at(&symbols));
    if !places.has_malloc() {
        return Err(executable.interpreter().unwrap_or(LocateError::NoMalloc));
    }
    places.check_complete()?;
    executable.located(access, &places)
}

/// Where the malloc family is in a shared library that offers it to others.
///
/// # Errors
/// Those of [`locate`].
pub fn locate_in_library<'data, R: ReadRef<'data>>(bytes: R) -> Result<Located, LocateError> {
    let executable = Executable::parse(bytes)?;
    let symbols = executable.dynamic_symbols();
    let mut places = Places {
        are_all_named: true,
        ..Places::default()
    };
    places.add_family(&symbols)?;
    places.is_glibc |= symbols.contains_key(names::ONLY_IN_GLIBC);
    if !places.has_malloc() {
        return Err(LocateError::NoMalloc);
    }
    executable.located(Access::Symbols, &places)
}

impl<'data, R: ReadRef<'data>> Executable<'data, R> {
    fn parse(bytes: R) -> Result<Self, LocateError> {
        let start = bytes.read_bytes_at(0, 20).unwrap_or_default();
        if start.starts_with(&elf::ELFMAG) && start[4..6] != [2, 1] {
            let what = match start[4] {
                1 => "a 32-bit executable",
                _ => "a big-endian executable",
            };
            return Err(LocateError::Unsupported(what.to_owned()));
        }
        let file = ElfFile64::<LittleEndian, R>::parse(bytes)?;
        let header = file.elf_header();
        let machine = header.e_machine(LittleEndian);
        let Some(processor) = Processor::from_machine(machine) else {
            let what = format!("for machine number {}", machine.0);
            return Err(LocateError::Unsupported(what));
        };
        if !matches!(header.e_type(LittleEndian), elf::ET_EXEC | elf::ET_DYN) {
            return Err(LocateError::NotExecutable);
        }
        for segment in file.elf_program_headers() {
            let (start, size) = (segment.p_vaddr(LittleEndian), segment.p_memsz(LittleEndian));
            let size = size.max(segment.p_filesz(LittleEndian));
            if start.checked_add(size).is_none_or(|end| end > ADDRESS_MAX) {
                let what = format!("a segment at {start:#x}, where no program can be");
                return Err(LocateError::Damaged(what));
            }
        }
        Ok(Self { file, processor })
    }

    /// Go's linker leaves both in every program, stripped or not.
    fn is_go(&self) -> bool {
        [".note.go.buildid", ".gopclntab"]
            .iter()
            .any(|name| self.file.section_by_name(name).is_some())
    }

    /// The error for an executable that asks for a dynamic linker.
    fn interpreter(&self) -> Option<LocateError> {
        self.file.elf_program_headers().iter().find_map(|segment| {
            let name = segment
                .interpreter(LittleEndian, self.file.data())
                .ok()
                .flatten()?;
            let name = String::from_utf8_lossy(name).into_owned();
            Some(LocateError::Dynamic(name))
        })
    }

    fn marker(&self) -> Result<Option<marker::FoundMarker>, LocateError> {
        for segment in self.file.elf_program_headers() {
            let Some(mut notes) = segment.notes(LittleEndian, self.file.data())? else {
                continue;
            };
            let mut address = segment.p_vaddr(LittleEndian);
            while let Some(note) = notes.next()? {
                // A note is its header, its name and its description, the last two each filled to four bytes.
                let filled = |bytes: usize| bytes.next_multiple_of(4) as u64;
                let description = address + 12 + filled(note.name().len() + 1);
                let note_type = note.n_type(LittleEndian).0;
                if marker::is_marker(note.name(), note_type) {
                    let found = marker::parse_description(
                        note_type,
                        note.desc(),
                        description,
                        Class::Bits64,
                    )
                    .map_err(|error| LocateError::Damaged(error.to_string()))?;
                    return Ok(Some(found));
                }
                address = description + filled(note.desc().len());
            }
        }
        Ok(None)
    }

    fn symbols(&self) -> BTreeMap<String, Vec<Definition>> {
        // An executable that is stripped still has the names that it offers to libraries.
        let mut all = definitions(
            self.file.symbols(),
            self.names(self.file.elf_symbol_table()),
        );
        for (name, found) in self.dynamic_symbols() {
            all.entry(name).or_default().extend(found);
        }
        all
    }

    fn dynamic_symbols(&self) -> BTreeMap<String, Vec<Definition>> {
        let names = self.names(self.file.elf_dynamic_symbol_table());
        definitions(self.file.dynamic_symbols(), names)
    }

    /// The section that a table has its names in.
    fn names(&self, table: &SymbolTable<'data, FileHeader64<LittleEndian>, R>) -> &'data [u8] {
        let section = self.file.section_by_index(table.string_section());
        let bytes = section.and_then(|section| section.data());
        bytes.unwrap_or_default()
    }

    /// The code from an address on.
    fn code_at(&self, address: u64, bytes_max: u64) -> Option<&'data [u8]> {
        let segment = self.file.elf_program_headers().iter().find(|segment| {
            let start = segment.p_vaddr(LittleEndian);
            let end = start.saturating_add(segment.p_filesz(LittleEndian));
            segment.p_type(LittleEndian) == elf::PT_LOAD
                && segment.p_flags(LittleEndian).0 & elf::PF_X.0 != 0
                && (start..end).contains(&address)
        })?;
        let within = address - segment.p_vaddr(LittleEndian);
        let rest = segment.p_filesz(LittleEndian) - within;
        let offset = segment.p_offset(LittleEndian).checked_add(within)?;
        self.file
            .data()
            .read_bytes_at(offset, rest.min(bytes_max))
            .ok()
    }

    fn located(&self, access: Access, places: &Places) -> Result<Located, LocateError> {
        let functions = names::IN_ORDER_OF_FITNESS
            .iter()
            .filter_map(|&name| Some((name, places.by_hook.get(name)?)))
            .collect::<Vec<_>>();
        let mut located: Vec<Function> = Vec::new();
        for (name, place) in functions {
            let is_known = |function: &Function| function.address == place.address;
            if !located.iter().any(is_known) {
                located.push(self.function(name, place)?);
            }
        }
        let not_located = match access {
            // What is not among the symbols is not there, and all of musl's other functions end in those that are known.
            _ if places.are_all_named => Vec::new(),
            Access::Code if !places.is_glibc => Vec::new(),
            _ => names::THAT_ALLOCATE
                .into_iter()
                .filter(|name| !places.by_hook.contains_key(name) && !places.absent.contains(name))
                .filter(|name| places.is_glibc || *name != names::NOT_IN_MUSL)
                .collect(),
        };
        let own_frees = if places.is_glibc {
            self.own_frees(&located)
        } else {
            Vec::new()
        };
        let segments = || self.file.segments();
        let start = segments().map(|segment| segment.address()).min();
        let end = segments()
            .map(|segment| segment.address().saturating_add(segment.size()))
            .max();
        Ok(Located {
            processor: self.processor,
            access,
            functions: located,
            not_located,
            is_glibc: places.is_glibc,
            thread_number_at: self.thread_number_at(access, places.is_glibc),
            errno_at: places.errno_at,
            is_complete: places.are_all_named || places.is_complete,
            own_frees,
            entry: self.file.entry(),
            image: start.unwrap_or_default()..end.unwrap_or_default(),
        })
    }

    /// By the function that tells, or by the variable.
    fn errno_at(&self, symbols: &BTreeMap<String, Vec<Definition>>) -> Option<i64> {
        let function = symbols
            .get(names::ERRNO_LOCATION)
            .and_then(|found| found.first());
        let code = function.and_then(|found| self.code_at(found.address, KEPT_CODE_BYTES as u64));
        if let Some(distance) = code.and_then(errno::distance) {
            return Some(distance);
        }
        let mut variables = self.file.symbols();
        let variable = variables.find(|symbol| {
            symbol.elf_symbol().st_type() == elf::STT_TLS && symbol.name() == Ok(names::ERRNO)
        })?;
        let segments = self.file.elf_program_headers();
        let memory = segments
            .iter()
            .find(|segment| segment.p_type(LittleEndian) == elf::PT_TLS)?;
        let bytes = memory
            .p_memsz(LittleEndian)
            .checked_next_multiple_of(memory.p_align(LittleEndian).max(1))?;
        Some(
            variable
                .elf_symbol()
                .st_value(LittleEndian)
                .wrapping_sub(bytes) as i64,
        )
    }

    /// `tid` in `struct pthread`, which has been where it is for many years in both libcs (nptl/descr.h in glibc,
    /// src/internal/pthread_impl.h in musl).
    fn thread_number_at(&self, access: Access, is_glibc: bool) -> Option<u64> {
        match (self.processor, access) {
            (Processor::X86_64, _) if is_glibc => Some(0x2d0),
            (Processor::X86_64, Access::Marker | Access::Code) => Some(0x30),
            _ => None,
        }
    }

    /// The calls of `free` in glibc's `malloc.c`.
    ///
    /// When a thread ends, glibc gives the blocks in the thread's cache to its own `free`. The program has freed each of
    /// them before, so these calls must not be counted. All that `malloc.c` defines is together, between the first and the
    /// last of its public functions.
    fn own_frees(&self, located: &[Function]) -> Vec<Call> {
        let address_of = |name: &str| located.iter().find(|found| found.name == name);
        let Some(free) = address_of("free") else {
            return Vec::new();
        };
        let addresses = names::IN_GLIBC_MALLOC
            .iter()
            .filter_map(|name| Some(address_of(name)?.address));
        let start = addresses.clone().min().unwrap_or(free.address);
        let end = addresses.max().unwrap_or(free.address);
        let code = self.code_at(start, end - start).unwrap_or_default();
        prologue::calls_of(self.processor, code, start, free.address)
            .into_iter()
            .map(|(address, code)| Call { address, code })
            .collect()
    }

    fn function(&self, name: &str, place: &Place) -> Result<Function, LocateError> {
        let address = place.address;
        let code = self.code_at(address, EXAMINED_CODE_BYTES);
        let code = code.ok_or_else(|| LocateError::OutsideCode {
            name: name.to_owned(),
            address,
        })?;
        if names::is_hooked(name) {
            prologue::check(self.processor, code, address, place.size).map_err(|reason| {
                LocateError::Prologue {
                    name: name.to_owned(),
                    address,
                    reason,
                }
            })?;
        }
        Ok(Function {
            name: name.to_owned(),
            address,
            code: code[..code.len().min(KEPT_CODE_BYTES)].to_vec(),
        })
    }
}

fn definitions<'data, R: ReadRef<'data>>(
    symbols: ElfSymbolIterator64<'data, '_, LittleEndian, R>,
    names: &[u8],
) -> BTreeMap<String, Vec<Definition>> {
    let mut definitions: BTreeMap<String, Vec<Definition>> = BTreeMap::new();
    for symbol in symbols {
        let raw = symbol.elf_symbol();
        let kind = raw.st_type();
        let is_chosen_at_start = kind == elf::STT_GNU_IFUNC;
        let is_code = is_chosen_at_start || matches!(kind, elf::STT_FUNC | elf::STT_NOTYPE);
        let name = name_at(names, raw.st_name(LittleEndian));
        let (Some(name), true, false) = (name, is_code, symbol.is_undefined()) else {
            continue;
        };
        if names::concerns(name) {
            let name = name.split('@').next().unwrap_or_default();
            definitions
                .entry(name.to_owned())
                .or_default()
                .push(Definition {
                    address: symbol.address(),
                    size: symbol.size(),
                    is_global: symbol.is_global(),
                    is_chosen_at_start,
                });
        }
    }
    definitions
}

/// The name that begins there, if it is not too long to concern anyone. Names may overlap, so all of them together can be
/// far longer than the file.
fn name_at(names: &[u8], offset: u32) -> Option<&str> {
    let rest = names.get(offset as usize..)?;
    let rest = &rest[..rest.len().min(names::BYTES_MAX + 1)];
    std::str::from_utf8(&rest[..memchr(0, rest)?]).ok()
}

/// Where a function is.
#[derive(Debug, Clone, Copy)]
struct Place {
    address: u64,
    size: Option<u64>,
}

/// Where the functions are, by the names of their hooks.
#[derive(Default)]
struct Places {
    by_hook: BTreeMap<&'static str, Place>,
    /// Functions that the executable does not have.
    absent: BTreeSet<&'static str>,
    is_glibc: bool,
    errno_at: Option<i64>,
    is_complete: bool,
    /// There is a symbol table.
    are_all_named: bool,
}

impl Places {
    /// Whether there is more than what limits system calls.
    fn has_malloc(&self) -> bool {
        let mut names = self.by_hook.keys();
        names.any(|name| !names::THAT_LIMIT.contains(name))
    }

    fn add_marker(&mut self, marker: &marker::FoundMarker) {
        let core = marker
            .functions
            .iter()
            .map(|function| (function.name, Some(function.program)));
        for (name, address) in core.chain(marker.aligned.iter().copied()) {
            match address {
                Some(address) => {
                    let place = Place {
                        address,
                        size: None,
                    };
                    self.by_hook.insert(name, place);
                }
                None => {
                    self.absent.insert(name);
                }
            }
        }
    }

    fn add_known_code<'data, R: ReadRef<'data>>(
        &mut self,
        executable: &Executable<'data, R>,
    ) -> Result<(), LocateError> {
        if let Some(error) = executable.interpreter() {
            return Err(error);
        }
        let found = stripped::find(executable)?;
        self.is_glibc = found.is_glibc;
        self.errno_at = found.errno_at;
        self.is_complete = found.is_complete;
        for (name, address) in found.functions {
            self.by_hook.insert(
                name,
                Place {
                    address,
                    size: None,
                },
            );
        }
        Ok(())
    }

    /// The functions with their names in C.
    ///
    /// A local symbol of such a name may be some other function. But a linker makes symbols local that were hidden in an
    /// object, as glibc's malloc is in a static-pie. So a local symbol counts if there is no global one, and it is of the
    /// four that every malloc has, or also has glibc's internal name.
    fn add_family(
        &mut self,
        symbols: &BTreeMap<String, Vec<Definition>>,
    ) -> Result<(), LocateError> {
        for name in names::FAMILY {
            let definitions = symbols.get(name).map(Vec::as_slice).unwrap_or_default();
            if definitions.iter().any(|found| found.is_global) {
                self.add(
                    name,
                    name,
                    definitions.iter().filter(|found| found.is_global),
                )?;
                continue;
            }
            let internal = symbols
                .get(&format!("__libc_{name}"))
                .map(Vec::as_slice)
                .unwrap_or_default();
            let is_core = reheap_elf::family::CORE.contains(&name);
            let counts = |found: &&Definition| {
                is_core || internal.iter().any(|other| other.address == found.address)
            };
            self.add(name, name, definitions.iter().filter(counts))?;
        }
        Ok(())
    }

    /// The entry points that an allocator has besides the malloc family.
    fn add_own_entry_points(
        &mut self,
        symbols: &BTreeMap<String, Vec<Definition>>,
    ) -> Result<(), LocateError> {
        for set in names::OWN_ENTRY_POINTS {
            let prefixes = symbols.keys().filter_map(|name| {
                let prefix = name.strip_suffix(set.characteristic)?;
                (!prefix.starts_with(reheap_elf::family::PREFIX)).then_some(prefix)
            });
            for prefix in prefixes {
                for (hook, name) in set.functions {
                    let name = format!("{prefix}{name}");
                    // Without a prefix, these are names of the family, and located already.
                    if !names::FAMILY.contains(&name.as_str())
                        && let Some(definitions) = symbols.get(&name)
                    {
                        self.add(hook, &name, definitions.iter())?;
                    }
                }
            }
        }
        Ok(())
    }

    fn add<'a>(
        &mut self,
        hook: &'static str,
        name: &str,
        definitions: impl Iterator<Item = &'a Definition>,
    ) -> Result<(), LocateError> {
        for definition in definitions {
            if definition.is_chosen_at_start {
                return Err(LocateError::ChosenAtStart(name.to_owned()));
            }
            let place = Place {
                address: definition.address,
                size: (definition.size > 0).then_some(definition.size),
            };
            match self.by_hook.insert(hook, place) {
                Some(before) if before.address != place.address => {
                    return Err(LocateError::Ambiguous {
                        name: name.to_owned(),
                        first: before.address,
                        second: place.address,
                    });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A malloc without its free would count blocks that nobody frees.
    fn check_complete(&self) -> Result<(), LocateError> {
        for (found, missing) in names::PAIRS {
            if self.by_hook.contains_key(found) && !self.by_hook.contains_key(missing) {
                let found = found.to_owned();
                return Err(LocateError::Incomplete { found, missing });
            }
        }
        Ok(())
    }
}

/// Where the program begins, and where its dynamic segment is, as addresses of the file.
///
/// # Errors
/// When the file is damaged, is for another processor, or has no dynamic segment.
pub fn dynamic_segment<'data, R: ReadRef<'data>>(bytes: R) -> Result<(u64, u64), LocateError> {
    let executable = Executable::parse(bytes)?;
    let mut segments = executable.file.elf_program_headers().iter();
    let dynamic = segments
        .find(|segment| segment.p_type(LittleEndian) == elf::PT_DYNAMIC)
        .ok_or_else(|| LocateError::Damaged("no dynamic segment".to_owned()))?;
    Ok((executable.file.entry(), dynamic.p_vaddr(LittleEndian)))
}
