//! Another allocator in a finished static executable, or in a process that is about to execute one.
//!
//! In the file, the library with the allocator is appended to the file as new segments. At the beginning of each function of the
//! program's malloc stands a jump to the allocator's. Everything else of the file stays where it is. A note has what was
//! overwritten, so that [`undo`] gives back the original bytes.
//!
//! - The program headers move behind the program's last address, where there is room for more. The difference of their
//!   place in the file and their address is that of the first segment: kernels before 5.18 compute AT_PHDR with it
//!   (`load_elf_binary` in fs/binfmt_elf.c). So there may be a hole in the file.
//! - On x86-64 the thread-local memory ends at the thread pointer (variant II of the ELF handling for thread-local storage).
//!   The allocator's variables go in front of the program's, so that no offset in the program's code changes.
//! - A position-independent executable relocates itself by the table that DT_RELA names. A new table with the library's
//!   relocations in front takes its place.
//!
//! No block crosses between the two allocators, because all functions of the family are replaced together. What stays is
//! musl's own `__libc_malloc` and `__libc_free`, with which it allocates for itself where a program may have another malloc:
//! those blocks never leave the libc, and it never gives a program's block to them.

mod error;
mod layout;
mod memory;
mod note;
mod program;
mod thread_offsets;

pub use error::GraftError;
pub use note::{Entry, Graft, UndoError, undo};

use crate::library::{Library, Protection};
use crate::locate::{Access, LocateError, Located};
use crate::processor::Processor;
use crate::prologue;
use layout::{Layout, Target};
use note::Patch;
use program::Program;
use reheap_elf::identify::{self, Identity, Provider};
use std::ops::Range;

/// An executable with another allocator in it.
#[derive(Debug, Clone)]
pub struct Grafted {
    /// The file.
    pub bytes: Vec<u8>,
    /// How the functions were found.
    pub access: Access,
    /// The program's functions, and where each leads now.
    pub entries: Vec<Entry>,
}

/// What a library for this has beside the family: where it keeps how far `errno` is from the thread pointer, and what
/// differs between the libcs.
#[derive(Debug, Clone, Copy)]
pub struct Contract<'a> {
    /// The name of that word.
    pub errno_at: &'a str,
    /// The name of a realloc to zero bytes that frees, as glibc's does.
    pub realloc_of_glibc: &'a str,
}

/// An executable that another allocator can be put into, as far as is known without the allocator.
pub struct Stock<'a> {
    program: Program<'a>,
    located: Located,
    errno_at: i64,
}

impl<'a> Stock<'a> {
    /// Examines an executable.
    ///
    /// # Errors
    /// When it is not shown that it would work with another allocator.
    pub fn examine(bytes: &'a [u8]) -> Result<Self, GraftError> {
        let identity =
            identify::identify(bytes).map_err(|error| GraftError::Damaged(error.to_string()))?;
        if identity.architecture != "x86_64" {
            return Err(GraftError::Processor);
        }
        if Graft::read(bytes)?.is_some() {
            return Err(GraftError::Grafted);
        }
        refuse_other_allocators(&identity)?;
        let located = crate::locate(bytes)?;
        refuse_own_code(&identity)?;
        if located.is_glibc && located.access == Access::Code {
            return Err(GraftError::StrippedGlibc);
        }
        let program = Program::read(bytes, &located)?;
        let errno_at = located.errno_at.ok_or(GraftError::NoErrno)?;
        if let Some(missing) = located.not_located.first() {
            return Err(GraftError::NotLocated((*missing).to_owned()));
        }
        if !located.is_complete {
            return Err(GraftError::Incomplete);
        }
        Ok(Self {
            program,
            located,
            errno_at,
        })
    }

    /// Its functions and code.
    pub fn located(&self) -> &Located {
        &self.located
    }

    /// Whether its libc is glibc; else it is musl.
    pub fn has_glibc(&self) -> bool {
        self.located.is_glibc
    }
}

/// The program may use another allocator besides the libc's, and what is in a packed file nobody knows.
fn refuse_other_allocators(identity: &Identity) -> Result<(), GraftError> {
    if identity.packed {
        return Err(GraftError::Packed);
    }
    if identity.marker.is_some() {
        return Err(GraftError::Marked);
    }
    let mut allocators = identity.allocators.iter();
    let other = allocators.find(|allocator| !TRIED.contains(&allocator.name.as_str()));
    match other.map(|other| other.name.as_str()) {
        None => Ok(()),
        Some("go-runtime") => Err(LocateError::Go.into()),
        Some(other) => Err(GraftError::OwnAllocator(other.to_owned())),
    }
}

/// A malloc of the program's own may have functions of other names that make blocks for its `free`.
fn refuse_own_code(identity: &Identity) -> Result<(), GraftError> {
    match &identity.malloc.provider {
        Provider::Allocator { name } if TRIED.contains(&name.as_str()) => Ok(()),
        _ => Err(GraftError::UnknownMalloc),
    }
}

/// The allocators that can be replaced.
const TRIED: [&str; 2] = ["musl-mallocng", "glibc"];

/// Puts the library's malloc into an executable in place of its own.
///
/// # Errors
/// When the library does not fit, or does not have all functions that the program has.
pub fn graft(
    stock: &Stock<'_>,
    library: &Library,
    contract: Contract<'_>,
) -> Result<Grafted, GraftError> {
    let Plan {
        jumps,
        places,
        errno,
    } = Plan::new(stock, library, contract)?;
    let mut patches = Patch::of_headers(&stock.program);
    patches.extend(places);
    note::refuse_overlaps(&patches)?;
    let layout = Layout::new(&stock.program, library, &jumps, &patches, Target::File)?;
    let mut grafted = layout.file(&patches, errno)?;
    let places = &patches[patches.len() - jumps.len()..];
    for (entry, place) in layout.entries.iter().zip(places) {
        let code = jump(stock.located.processor, entry, place)?;
        grafted[place.offset..place.offset + code.len()].copy_from_slice(&code);
    }
    Ok(Grafted {
        bytes: grafted,
        access: stock.located.access,
        entries: layout.entries,
    })
}

/// Lays the library out for a process that waits in front of the first instruction of the program, which is there `bias` bytes
/// from where its file says. `room` finds so much free address space in reach of the program's code.
///
/// # Errors
/// Those of [`graft`]; also when there is no room.
pub fn graft_process(
    stock: &Stock<'_>,
    library: &Library,
    contract: Contract<'_>,
    bias: u64,
    room: impl FnOnce(u64) -> Option<u64>,
) -> Result<InProcess, GraftError> {
    let Plan {
        jumps,
        places,
        errno,
    } = Plan::new(stock, library, contract)?;
    note::refuse_overlaps(&places)?;
    let layout_at = |start| {
        let target = Target::Process { start, bias };
        Layout::new(&stock.program, library, &jumps, &[], target)
    };
    let span_bytes = layout_at(0)?.span_bytes();
    let base = room(span_bytes).ok_or(GraftError::NoRoom(span_bytes))?;
    let layout = layout_at(base.wrapping_sub(bias))?;
    let changes = layout.entries.iter().zip(&places).map(|(entry, place)| {
        Ok(Change {
            address: entry.address.wrapping_add(bias),
            original: place.original.clone(),
            code: jump(stock.located.processor, entry, place)?,
        })
    });
    Ok(InProcess {
        base,
        span_bytes,
        bytes: layout.memory(errno)?,
        protections: layout.protections(),
        segment_count: layout.segment_count(),
        changes: changes.collect::<Result<_, GraftError>>()?,
    })
}

/// The allocator as it goes into a process. It begins with the new headers of segments.
#[derive(Debug, Clone)]
pub struct InProcess {
    /// Where it begins.
    pub base: u64,
    /// How much address space it takes.
    pub span_bytes: u64,
    /// What is there; behind it are zeroes.
    pub bytes: Vec<u8>,
    /// The pages, and what may be done with them.
    pub protections: Vec<(Range<u64>, Protection)>,
    /// How many headers of segments there are.
    pub segment_count: u64,
    /// The jumps.
    pub changes: Vec<Change>,
}

/// New code of the program.
#[derive(Debug, Clone)]
pub struct Change {
    /// Where it is in the process.
    pub address: u64,
    /// What is there before.
    pub original: Vec<u8>,
    /// What takes its place.
    pub code: Vec<u8>,
}

/// What has to change in any case.
struct Plan {
    jumps: Vec<Jump>,
    /// What each jump overwrites.
    places: Vec<Patch>,
    /// Where the library keeps how far the program's `errno` is from the thread pointer, and that distance.
    errno: (u64, i64),
}

impl Plan {
    fn new(
        stock: &Stock<'_>,
        library: &Library,
        contract: Contract<'_>,
    ) -> Result<Self, GraftError> {
        let Stock {
            program,
            located,
            errno_at,
        } = stock;
        if library.processor() != located.processor {
            return Err(GraftError::OtherProcessor);
        }
        let mut jumps = jumps(located, library, contract)?;
        jumps.extend(jumps_of_memory_functions(program, library));
        let errno_word = library
            .symbol(contract.errno_at)
            .ok_or(GraftError::Library(contract.errno_at.to_owned()))?;
        let place = |jump: &Jump| {
            let offset = program.offset_of(jump.address, jump.taken_bytes)?;
            Ok(Patch::new(program.bytes, offset, jump.taken_bytes))
        };
        let places: Result<_, GraftError> = jumps.iter().map(place).collect();
        Ok(Self {
            places: places?,
            jumps,
            errno: (errno_word, *errno_at),
        })
    }
}

/// The jump of a function, in place of its first instructions.
fn jump(processor: Processor, entry: &Entry, place: &Patch) -> Result<Vec<u8>, GraftError> {
    let code = prologue::replacement(processor, &place.original, entry.address, entry.target);
    code.ok_or_else(|| GraftError::TooFar(entry.name.clone()))
}

/// A jump that takes the place of the first bytes of one of the program's functions.
struct Jump {
    name: String,
    address: u64,
    taken_bytes: usize,
    /// Where it leads in the library.
    target: u64,
}

/// The located functions of the family.
fn jumps(
    located: &Located,
    library: &Library,
    contract: Contract<'_>,
) -> Result<Vec<Jump>, GraftError> {
    let functions = located.functions.iter();
    // The first two limit system calls, and are located for hooks only. The last one calls realloc.
    let functions = functions
        .filter(|function| !matches!(&*function.name, "prctl" | "syscall" | "reallocarray"));
    functions
        .map(|function| {
            let name = match (function.name.as_str(), located.is_glibc) {
                ("realloc", true) => contract.realloc_of_glibc,
                (name, _) => name,
            };
            let target = library.function(name);
            let target = target.ok_or_else(|| GraftError::NoSuchFunction(function.name.clone()))?;
            Ok(Jump {
                name: function.name.clone(),
                address: function.address,
                taken_bytes: prologue::taken_bytes(located.processor, &function.code),
                target,
            })
        })
        .collect()
}

/// Those of musl that are known by every byte.
fn jumps_of_memory_functions(program: &Program<'_>, library: &Library) -> Vec<Jump> {
    let found = memory::find(program).into_iter();
    let jump = |(name, address): (&str, u64)| {
        Some(Jump {
            name: name.to_owned(),
            address,
            taken_bytes: prologue::jump_bytes(Processor::X86_64),
            target: library.function(name)?,
        })
    };
    found.filter_map(jump).collect()
}
