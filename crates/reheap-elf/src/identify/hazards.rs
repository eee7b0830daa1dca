//! What can go wrong with the allocators of a file, even if the file is as its authors built it.
//!
//! A hazard is only what the file itself shows, and it comes with its evidence. Nobody reads warnings that are often
//! wrong.

use super::code;
use super::image::{FileType, Image, Note};
use super::{FoundAllocator, Kind, MallocVerdict, Provider, Role, RustGlobalAllocator};
use crate::error::ElfError;
use object::elf;
use serde::Serialize;
use std::fmt;

/// Something that can go wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "hazard")]
#[non_exhaustive]
pub enum Hazard {
    /// Rust code and C code allocate from different heaps, so a block must be freed on the side that made it.
    TwoHeaps {
        /// Rust's allocator.
        rust: String,
        /// Who provides malloc.
        malloc: String,
    },
    /// The file defines one of `malloc` and `free` and takes the other from elsewhere.
    HalfReplaced {
        /// What it defines.
        defined: &'static str,
        /// What it takes from elsewhere.
        missing: &'static str,
    },
    /// jemalloc stops on kernels with larger pages than it was built for.
    JemallocPageSize {
        /// The largest page that it can work with.
        page_bytes: u64,
    },
    /// A library with an allocator asks for thread-local storage that only programs loaded with it are sure to get.
    InitialExecTls {
        /// How much of it.
        bytes: u64,
    },
    /// Instructions that the oldest processors of the architecture do not have, outside functions that test for them.
    AboveBaseline {
        /// Which extension.
        extension: &'static str,
        /// How many instructions of it; `None` where a note says it.
        instructions: Option<usize>,
    },
    /// An allocator came along but is not used.
    UnusedAllocator {
        /// Its name.
        name: String,
    },
}

impl Hazard {
    /// What it is called, in a word or two.
    pub fn name(&self) -> &'static str {
        match self {
            Self::TwoHeaps { .. } => "two heaps",
            Self::HalfReplaced { .. } => "half replaced",
            Self::JemallocPageSize { .. } => "page size",
            Self::InitialExecTls { .. } => "static TLS",
            Self::AboveBaseline { .. } => "above the baseline",
            Self::UnusedAllocator { .. } => "unused",
        }
    }
}

impl fmt::Display for Hazard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.name())?;
        match self {
            Self::TwoHeaps { rust, malloc } => write!(
                f,
                "Rust's is {rust} and C's is {malloc}; a block must be freed on the side that made it"
            ),
            Self::HalfReplaced { defined, missing } => write!(
                f,
                "the file defines {defined} and takes {missing} from elsewhere"
            ),
            Self::JemallocPageSize { page_bytes } => write!(
                f,
                "this jemalloc stops on kernels with pages over {} KiB",
                page_bytes >> 10
            ),
            Self::InitialExecTls { bytes } => write!(
                f,
                "dlopen of this library fails where {bytes} bytes of static thread-local storage are no longer free"
            ),
            Self::AboveBaseline {
                extension,
                instructions,
            } => {
                write!(f, "needs {extension}")?;
                match instructions {
                    Some(number) => write!(
                        f,
                        " ({number} instructions outside functions that test for it)"
                    ),
                    None => f.write_str(", as its note says"),
                }
            }
            Self::UnusedAllocator { name } => {
                write!(f, "{name} came along, and nothing allocates from it")
            }
        }
    }
}

/// What the hazards of a file are concluded from.
pub(super) struct Subject<'a> {
    pub(super) kind: Kind,
    pub(super) image: &'a Image<'a>,
    pub(super) allocators: &'a [FoundAllocator],
    pub(super) malloc: &'a MallocVerdict,
    pub(super) rust: Option<&'a RustGlobalAllocator>,
    pub(super) exports: &'a [String],
    pub(super) libc: String,
}

impl Subject<'_> {
    pub(super) fn hazards(&self) -> Result<Vec<Hazard>, ElfError> {
        let mut hazards = Vec::new();
        hazards.extend(self.two_heaps());
        hazards.extend(self.half_replaced());
        hazards.extend(self.jemalloc_page_size()?);
        hazards.extend(self.initial_exec_tls());
        hazards.extend(self.above_baseline()?);
        let unused = |found: &&FoundAllocator| found.role == Role::Unused;
        hazards.extend(self.allocators.iter().filter(unused).map(|found| {
            Hazard::UnusedAllocator {
                name: found.name.clone(),
            }
        }));
        Ok(hazards)
    }

    fn is_linked(&self) -> bool {
        !matches!(self.kind, Kind::Object | Kind::Archive)
    }

    fn two_heaps(&self) -> Option<Hazard> {
        let Some(RustGlobalAllocator::Custom { name, .. }) = self.rust else {
            return None;
        };
        let rust = name.clone().filter(|_| self.is_linked())?;
        let malloc = match &self.malloc.provider {
            Provider::Allocator { name } | Provider::Library { name, .. } => name.clone(),
            Provider::SharedLibc => self.libc.clone(),
            Provider::Outside => "the malloc of the program that loads it".to_owned(),
            Provider::OwnCode => "the file's own".to_owned(),
            Provider::Nobody | Provider::Unknown => return None,
        };
        (rust != malloc).then_some(Hazard::TwoHeaps { rust, malloc })
    }

    fn half_replaced(&self) -> Option<Hazard> {
        // The linker binds a static program's calls itself, so only what others see can be half replaced unnoticed.
        if !matches!(self.kind, Kind::Dynamic | Kind::SharedLibrary) {
            return None;
        }
        let exports = |name: &str| self.exports.iter().any(|export| export == name);
        match (exports("malloc"), exports("free")) {
            (true, false) => Some(Hazard::HalfReplaced {
                defined: "malloc",
                missing: "free",
            }),
            (false, true) => Some(Hazard::HalfReplaced {
                defined: "free",
                missing: "malloc",
            }),
            _ => None,
        }
    }

    fn jemalloc_page_size(&self) -> Result<Option<Hazard>, ElfError> {
        const LARGEST_PAGE: u64 = 64 << 10;
        let has_jemalloc = self.allocators.iter().any(|found| found.name == "jemalloc");
        if self.image.machine() != elf::EM_AARCH64 || !has_jemalloc {
            return Ok(None);
        }
        let page_bytes = code::jemalloc_page_bytes(self.image)?;
        let too_small = page_bytes.filter(|page_bytes| *page_bytes < LARGEST_PAGE);
        Ok(too_small.map(|page_bytes| Hazard::JemallocPageSize { page_bytes }))
    }

    fn initial_exec_tls(&self) -> Option<Hazard> {
        let bytes = self.image.tls_bytes;
        let is_a_library = self.kind == Kind::SharedLibrary
            && self.image.has_static_tls
            && bytes > 0
            && self.allocators.iter().any(|found| !found.is_stock);
        is_a_library.then_some(Hazard::InitialExecTls { bytes })
    }

    fn above_baseline(&self) -> Result<Option<Hazard>, ElfError> {
        if self.image.file_type == FileType::Relocatable {
            return Ok(None);
        }
        if self.image.machine() == elf::EM_AARCH64 {
            let instructions = code::lse_instructions(self.image)?;
            return Ok((instructions > 0).then_some(Hazard::AboveBaseline {
                extension: "LSE atomics (Armv8.1)",
                instructions: Some(instructions),
            }));
        }
        let needed = self.image.notes.iter().filter_map(x86_isa_needed).max();
        Ok(needed.map(|level| Hazard::AboveBaseline {
            extension: match level {
                2 => "x86-64-v2",
                3 => "x86-64-v3",
                _ => "x86-64-v4",
            },
            instructions: None,
        }))
    }
}

/// The level in `GNU_PROPERTY_X86_ISA_1_NEEDED` (x86-64 psABI, "Program Property"), if it is above the baseline.
fn x86_isa_needed(note: &Note) -> Option<u32> {
    const PROPERTIES: u32 = 5;
    const ISA_NEEDED: u32 = 0xc000_8002;
    if note.name != b"GNU" || note.note_type != PROPERTIES {
        return None;
    }
    let mut rest = note.description.as_slice();
    while let Some((header, after)) = rest.split_first_chunk::<8>() {
        let word = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let (kind, size) = (word(&header[..4]), word(&header[4..]) as usize);
        if let (ISA_NEEDED, Some(bits)) = (kind, after.first_chunk::<4>()) {
            // One bit for each level, from the baseline on.
            let level = 32 - word(bits).leading_zeros();
            return (level > 1).then_some(level);
        }
        rest = after.get(size.next_multiple_of(8)..)?;
    }
    None
}
