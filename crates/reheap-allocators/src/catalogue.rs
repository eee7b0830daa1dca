//! The catalogue: the allocators that reheap knows.
//!
//! To add an allocator:
//!
//! 1. Add its package and features to `sources/manifest.toml`, then run `cargo xtask update-sources`.
//! 2. Add a row to [`CATALOGUE`], a recipe to `catalogue/recipes.rs` and its options to `catalogue/tunables.rs`.
//! 3. Write glue under `glue/` for each of the six primitives that it lacks, and for the three functions that
//!    `glue/glibc.c` asks it for.
//! 4. Add its name to the tests `crates/reheap/tests/it/conformance_*.rs`.
//!
//! No other code decides by the name of an allocator how to build, link or preload it. Three other places know names,
//! for other reasons:
//!
//! - `reheap_elf::identify` recognises allocators in files: these of the catalogue and a dozen others
//!   (`identify/signatures.rs`).
//! - `reheap-subject/src/program/linked.rs` lists allocators whose shared library a program may load without using it.
//! - Advice and examples in the help texts of `reheap` mention some.

pub mod file;
mod limits;
mod recipes;
pub mod system;
mod tunables;

use crate::complaints::Complaints;
use crate::link_kind::LinkKind;
use crate::options::TuningOption;
use crate::target::{Architecture, Libc};
use file::AllocatorFile;
use limits::{
    HARDENED_MALLOC_ADDRESS_SPACE, HARDENED_MALLOC_LIGHT_ADDRESS_SPACE,
    HARDENED_MALLOC_LIGHT_LIMITS, HARDENED_MALLOC_LIMITS, HARDENED_MALLOC_MISSING_ON,
    MIMALLOC_3_LIMITS, SNMALLOC_CHECKS_LIMITS, SNMALLOC_LIMITS, SNMALLOC_MISSING_ON,
};
use recipes::{
    AT_REST, ENVIRONMENT, EXTEND, GROWN, GROWN_FREE, HUGE_PAGES, JEMALLOC, LAST_BLOCK, LOCKS,
    MIMALLOC, MIMALLOC_2_FLAGS, MIMALLOC_2_GRAFT, MIMALLOC_2_REDIRECTS, MIMALLOC_2_SECURE_FLAGS,
    MIMALLOC_3_FLAGS, MIMALLOC_3_SECURE_FLAGS, MIMALLOC_ENTRY_POINTS, REFILL, RPMALLOC,
    SHARED_HEAPS, SNMALLOC_CHECKS_FLAGS, SNMALLOC_CHECKS_REDIRECTS, SNMALLOC_FLAGS,
    SNMALLOC_REDIRECTS, SYSTEM, hardened_malloc, mimalloc, snmalloc,
};
use std::fmt;
use tunables::{
    GLIBC_TUNING, JEMALLOC_TUNING, MIMALLOC_2_SECURE_TUNING, MIMALLOC_2_TUNING,
    MIMALLOC_3_SECURE_TUNING, MIMALLOC_3_TUNING,
};

/// A row of the catalogue.
#[derive(Debug)]
pub struct Allocator {
    /// The name that the user types.
    pub name: &'static str,
    /// The allocator's own version, which a package's minor update may change.
    pub version: &'static str,
    /// What sets it apart from the others, in a few words: it has to fit the table of `reheap list`.
    pub summary: &'static str,
    /// What else there is to say of it, in half a line; may be empty.
    pub details: &'static str,
    /// Its licence, as an SPDX expression.
    pub licence: &'static str,
    /// What its build has against misuse of memory. Which attacks that stops is measured, and never said here.
    pub hardening: &'static str,
    /// Whether it stops any attack on the heap. Plain allocators stop none.
    pub is_hardened: bool,
    /// What it writes when it notices a misuse.
    pub complaints: Complaints,
    /// What it is known not to work with.
    pub limits: &'static [&'static str],
    /// The processors that it cannot be built for, and why.
    pub missing_on: &'static [MissingOn],
    /// The address space that a limit such as `ulimit -v` must leave it.
    pub address_space: AddressSpace,
    /// Its options for `-t`.
    pub tuning: &'static [TuningOption],
    /// Where it comes from; `None` for the libc's own.
    pub build: Option<Recipe>,
}

/// Processors that an allocator is not available for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissingOn {
    /// The processors.
    pub architectures: &'static [Architecture],
    /// Why, as a clause.
    pub reason: &'static str,
}

impl Allocator {
    /// Why there is none for a processor; `None` where there is one.
    pub fn missing_on(&self, architecture: Architecture) -> Option<&'static str> {
        let mut missing = self.missing_on.iter();
        let missing = missing.find(|missing| missing.architectures.contains(&architecture));
        missing.map(|missing| missing.reason)
    }

    /// The package that reheap builds it from, if it does.
    pub fn package(&self) -> Option<&Package> {
        match &self.build.as_ref()?.package {
            Code::Package(package) => Some(package),
            Code::File(_) => None,
        }
    }

    /// The file that it is in, if the user named one.
    pub fn file(&self) -> Option<&'static AllocatorFile> {
        match &self.build.as_ref()?.package {
            Code::File(file) => Some(file),
            Code::Package(_) => None,
        }
    }

    /// Its name in files and in names of files. The name that a user types may be a path.
    pub fn plain_name(&self) -> &str {
        self.file().map_or(self.name, |file| &file.name)
    }

    /// Name and version, in names of files.
    pub(crate) fn stem(&self) -> String {
        match self.file() {
            Some(file) => format!("{}-{}", file.name, &file.sha256[..16]),
            None => format!("{}-{}", self.name, self.version),
        }
    }
}

/// The address space that an allocator reserves before a program's first block, in MiB, rounded down.
///
/// It counts against RLIMIT_AS. If it is private and writable, it also counts against RLIMIT_DATA. A program with a lower
/// limit cannot start. A program with a slightly higher limit may not start either, because it needs some
/// address space for itself.
///
/// The figures come from the program of `tests/it/address_space.rs`, which makes a thousand blocks. Bisection finds the
/// lowest `ulimit -v` with which it starts; the figure is the difference to the same limit without the allocator. The
/// test measures it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressSpace {
    /// Preloaded into a program of glibc.
    pub glibc_mib: u64,
    /// In a static executable, or preloaded into a program of musl.
    pub musl_mib: u64,
    /// Whether it counts against RLIMIT_DATA. What is inaccessible until it is used does not.
    pub counts_as_data: bool,
}

impl AddressSpace {
    /// Too little to matter.
    pub const NONE: Self = Self::of(0);

    const fn of(mib: u64) -> Self {
        Self {
            glibc_mib: mib,
            musl_mib: mib,
            counts_as_data: true,
        }
    }

    const fn inaccessible(mib: u64) -> Self {
        Self {
            counts_as_data: false,
            ..Self::of(mib)
        }
    }

    /// In a program of this libc, in bytes.
    pub fn bytes(self, libc: Libc) -> u64 {
        let mib = match libc {
            Libc::Glibc => self.glibc_mib,
            Libc::Musl => self.musl_mib,
        };
        mib << 20
    }
}

/// How an allocator is built and bound.
#[derive(Debug)]
pub struct Recipe {
    /// Where its code comes from.
    pub package: Code,
    /// Whether its build needs a C++ compiler.
    pub needs_cxx: bool,
    /// Whether its build script calls `make`.
    pub needs_make: bool,
    /// Flags for its compiler, in addition to those of the package and of the file that it goes into.
    pub compiler_flags: &'static [&'static str],
    /// Function of the family to upstream symbol. The glue defines the others.
    pub entry_points: &'static [(&'static str, &'static str)],
    /// Glue in addition to the family's.
    pub glue: &'static [Glue],
    /// Settings for jemalloc's `malloc_conf` that reheap always bakes in, before those of the user.
    pub malloc_conf: &'static [&'static str],
    /// Functions that the allocator takes from the glue: of the libc, or its own in other objects.
    pub redirects: &'static [(&'static str, &'static str)],
    /// Functions of its own that a preload offers beside the family. An executable offers none of them: a program may
    /// bring the same allocator, and what it looks for must then be that one's.
    pub interface: &'static [&'static str],
    /// What an executable adds.
    pub executable: Additions,
    /// What a preload adds.
    pub preload: Additions,
    /// What it adds to go into a finished executable, or why it cannot.
    pub graft: Result<Additions, &'static str>,
    /// Whether a build lasts longer than about twenty seconds.
    pub builds_slowly: bool,
}

/// Where an allocator's code comes from.
pub enum Code {
    /// Upstream's sources, which reheap builds.
    Package(Package),
    /// A file that a user named, which is built already.
    File(&'static AllocatorFile),
}

/// Without a word about the kind: the text of a recipe is in the keys of all caches, which are older than files.
impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Package(package) => package.fmt(f),
            Self::File(file) => file.fmt(f),
        }
    }
}

/// A package of the Rust registry whose build script compiles an allocator.
#[derive(Debug)]
pub struct Package {
    /// Its name.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
    /// The feature of `sources/manifest.toml` that selects package and variant.
    pub feature: &'static str,
    /// The static library that the build script makes, as a path in its output directory.
    pub library: &'static str,
    /// What proves that the build is the one in the row of the catalogue.
    pub evidence: Evidence,
}

impl Recipe {
    /// What it adds for one kind of file.
    pub(crate) fn additions(&self, kind: LinkKind) -> &Additions {
        match kind {
            LinkKind::Executable => &self.executable,
            LinkKind::Preload => &self.preload,
            LinkKind::Graft => self.graft.as_ref().unwrap_or(&recipes::NOTHING_MORE),
        }
    }

    /// Where the code comes from, as the marker gives it.
    pub fn origin(&self) -> String {
        match &self.package {
            Code::Package(package) => format!("{} {}", package.name, package.version),
            Code::File(_) => "a file".to_owned(),
        }
    }
}

/// What an allocator needs only in one kind of file.
#[derive(Debug)]
pub struct Additions {
    /// Flags for its compiler.
    pub compiler_flags: &'static [&'static str],
    /// Glue.
    pub glue: &'static [Glue],
    /// Libc functions that the allocator takes from the glue.
    pub redirects: &'static [(&'static str, &'static str)],
}

/// Strings that a build of the right version, variant and kind has or lacks.
///
/// The search leaves out a `|` in a string. With the `|`, reheap itself does not contain the text, so it does not look
/// like a program with that allocator in it.
#[derive(Debug)]
pub struct Evidence {
    /// Strings or symbols that the objects must contain.
    pub present: &'static [&'static str],
    /// Strings or symbols that the objects must not contain, such as those of a debug build.
    pub absent: &'static [&'static str],
    /// A header of the package and the line in it that gives the allocator's own version.
    pub version_line: (&'static str, &'static str),
}

/// A C source of reheap's own.
#[derive(Debug, Clone, Copy)]
pub struct Glue {
    /// File name without `.c`.
    pub name: &'static str,
    /// The source text.
    pub source: &'static str,
}

/// Glue for every allocator: the rest of the family.
pub const FAMILY_GLUE: Glue = Glue {
    name: "family",
    source: include_str!("../glue/family.c"),
};
/// System calls without a libc.
const KERNEL: Glue = Glue {
    name: "kernel",
    source: include_str!("../glue/kernel.c"),
};
/// Glue for every preload: its own system calls, and what glibc has beside the family, which is nothing for musl.
pub const PRELOAD_GLUE: [Glue; 3] = [
    KERNEL,
    Glue {
        name: "glibc",
        source: include_str!("../glue/glibc.c"),
    },
    Glue {
        name: "dlopen",
        source: include_str!("../glue/dlopen.c"),
    },
];

/// Glue for every allocator that goes into a finished executable.
const GRAFT_GLUE: [Glue; 2] = [
    KERNEL,
    Glue {
        name: "graft",
        source: include_str!("../glue/graft.c"),
    },
];

/// The glue that every allocator gets in one kind of file.
pub(crate) fn shared_glue(kind: LinkKind) -> impl Iterator<Item = &'static Glue> {
    let more: &[Glue] = match kind {
        LinkKind::Executable => &[],
        LinkKind::Preload => &PRELOAD_GLUE,
        LinkKind::Graft => &GRAFT_GLUE,
    };
    std::iter::once(&FAMILY_GLUE).chain(more)
}

// Guard pages behind blocks would be level 5.
const MIMALLOC_SECURE_HARDENING: &str = "encoded free lists, randomised order, padding behind blocks that `free` checks; guard pages around its own data, and around blocks only with -t guard_pages";

/// All allocators; the first is the default.
pub const CATALOGUE: &[Allocator] = &[
    Allocator {
        name: "mimalloc",
        version: "2.3.2",
        summary: "the default; good with many threads",
        details: "reheap changes one path of its `free` and one of its `malloc`, shares heaps between threads that allocate little, and gives memory back earlier",
        licence: "MIT",
        hardening: "none: it notices neither a double free nor an overflow",
        is_hardened: false,
        complaints: Complaints::MIMALLOC,
        limits: &[],
        missing_on: &[],
        address_space: AddressSpace::of(32),
        tuning: MIMALLOC_2_TUNING,
        build: Some(Recipe {
            entry_points: MIMALLOC_ENTRY_POINTS.split_at(2).0,
            glue: &[
                LOCKS,
                MIMALLOC,
                ENVIRONMENT,
                HUGE_PAGES,
                SYSTEM,
                REFILL,
                EXTEND,
                LAST_BLOCK,
                SHARED_HEAPS,
                GROWN,
                AT_REST,
            ],
            redirects: MIMALLOC_2_REDIRECTS,
            graft: Ok(MIMALLOC_2_GRAFT),
            ..mimalloc(
                "mimalloc",
                MIMALLOC_2_FLAGS,
                Evidence {
                    present: &["mi_malloc", "abandoned_reclaim_on_free"],
                    absent: &["mimalloc: assertion failed", "double free detected"],
                    version_line: (
                        "c_src/mimalloc/v2/include/mimalloc.h",
                        "#define MI_MALLOC_VERSION 20302",
                    ),
                },
            )
        }),
    },
    Allocator {
        name: "mimalloc3",
        version: "3.3.2",
        summary: "the third generation of mimalloc",
        details: "",
        licence: "MIT",
        hardening: "none: it notices neither a double free nor an overflow",
        is_hardened: false,
        complaints: Complaints::MIMALLOC,
        limits: MIMALLOC_3_LIMITS,
        missing_on: &[],
        address_space: AddressSpace::of(2),
        tuning: MIMALLOC_3_TUNING,
        build: Some(mimalloc(
            "mimalloc3",
            MIMALLOC_3_FLAGS,
            Evidence {
                present: &["mi_malloc", "page_max_reclaim"],
                absent: &["mimalloc: assertion failed", "double free detected"],
                version_line: (
                    "c_src/mimalloc/v3/include/mimalloc.h",
                    "#define MI_MALLOC_VERSION 30302",
                ),
            },
        )),
    },
    Allocator {
        name: "mimalloc-secure",
        version: "3.3.2",
        summary: "mimalloc 3 with its mitigations",
        details: "built with levels 1 to 4 of 5",
        licence: "MIT",
        hardening: MIMALLOC_SECURE_HARDENING,
        is_hardened: true,
        complaints: Complaints::MIMALLOC,
        limits: MIMALLOC_3_LIMITS,
        missing_on: &[],
        address_space: AddressSpace::of(2),
        tuning: MIMALLOC_3_SECURE_TUNING,
        build: Some(mimalloc(
            "mimalloc-secure",
            MIMALLOC_3_SECURE_FLAGS,
            Evidence {
                present: &["mi_malloc", "page_max_reclaim", "double free detected"],
                absent: &["mimalloc: assertion failed"],
                version_line: (
                    "c_src/mimalloc/v3/include/mimalloc.h",
                    "#define MI_MALLOC_VERSION 30302",
                ),
            },
        )),
    },
    Allocator {
        name: "mimalloc2-secure",
        version: "2.3.2",
        summary: "mimalloc 2 with its mitigations",
        details: "built with levels 1 to 4 of 5",
        licence: "MIT",
        hardening: MIMALLOC_SECURE_HARDENING,
        is_hardened: true,
        complaints: Complaints::MIMALLOC,
        limits: &[],
        missing_on: &[],
        address_space: AddressSpace::of(32),
        tuning: MIMALLOC_2_SECURE_TUNING,
        build: Some(Recipe {
            glue: &[
                LOCKS,
                MIMALLOC,
                ENVIRONMENT,
                HUGE_PAGES,
                SYSTEM,
                GROWN,
                GROWN_FREE,
                AT_REST,
            ],
            redirects: MIMALLOC_2_REDIRECTS,
            graft: Ok(MIMALLOC_2_GRAFT),
            ..mimalloc(
                "mimalloc2-secure",
                MIMALLOC_2_SECURE_FLAGS,
                Evidence {
                    present: &[
                        "mi_malloc",
                        "abandoned_reclaim_on_free",
                        "double free detected",
                    ],
                    absent: &["mimalloc: assertion failed"],
                    version_line: (
                        "c_src/mimalloc/v2/include/mimalloc.h",
                        "#define MI_MALLOC_VERSION 20302",
                    ),
                },
            )
        }),
    },
    Allocator {
        name: "jemalloc",
        version: "5.3.1",
        summary: "suits long-running servers",
        details: "little fragmentation, many options",
        licence: "BSD-2-Clause",
        hardening: "none with its default options",
        is_hardened: false,
        complaints: Complaints::JEMALLOC,
        limits: &["background threads do not run in a static musl executable"],
        missing_on: &[],
        address_space: AddressSpace {
            glibc_mib: 10,
            musl_mib: 2,
            counts_as_data: true,
        },
        tuning: JEMALLOC_TUNING,
        build: Some(JEMALLOC),
    },
    Allocator {
        name: "rpmalloc",
        version: "1.4.3",
        summary: "small code, and caches without locks",
        details: "each thread has a cache of its own",
        licence: "MIT OR Unlicense",
        hardening: "none",
        is_hardened: false,
        complaints: Complaints::NONE,
        limits: &[],
        missing_on: &[],
        address_space: AddressSpace::of(6),
        tuning: &[],
        build: Some(RPMALLOC),
    },
    Allocator {
        name: "snmalloc",
        version: "0.7.6",
        summary: "suits threads that pass blocks on",
        details: "it does well where one thread allocates and another frees",
        licence: "MIT",
        hardening: "none: it stops the program at no memory error",
        is_hardened: false,
        complaints: Complaints::NONE,
        limits: SNMALLOC_LIMITS,
        // snmalloc makes one flat table at once: 16 bytes for each 16 KiB of 48 bits of addresses. No compile option
        // makes it small. With SNMALLOC_PAGESIZE=65536 the preload for glibc still needs more than 66 GiB, and musl's
        // headers refuse that option.
        missing_on: SNMALLOC_MISSING_ON,
        address_space: AddressSpace::of(256 << 10),
        tuning: &[],
        build: Some(snmalloc(
            SNMALLOC_FLAGS,
            SNMALLOC_REDIRECTS,
            Evidence {
                present: &["sn_rust_alloc"],
                absent: &["assert fail", "MetaProtectedRange|LocalState"],
                version_line: ("Cargo.toml", "version = \"0.7.6\""),
            },
        )),
    },
    Allocator {
        name: "snmalloc-checks",
        version: "0.7.6",
        summary: "snmalloc with its checks",
        details: "built with SNMALLOC_CHECK_CLIENT",
        licence: "MIT",
        hardening: "encoded free lists, randomised order, checks of what is freed; nothing between blocks",
        is_hardened: true,
        complaints: Complaints::SNMALLOC,
        limits: SNMALLOC_CHECKS_LIMITS,
        missing_on: SNMALLOC_MISSING_ON,
        address_space: AddressSpace::inaccessible(1280 << 10),
        tuning: &[],
        build: Some(snmalloc(
            SNMALLOC_CHECKS_FLAGS,
            SNMALLOC_CHECKS_REDIRECTS,
            Evidence {
                present: &["sn_rust_alloc", "MetaProtectedRange|LocalState"],
                absent: &["assert fail"],
                version_line: ("Cargo.toml", "version = \"0.7.6\""),
            },
        )),
    },
    Allocator {
        name: "hardened_malloc",
        version: "2026071503",
        summary: "GrapheneOS's allocator; slow",
        details: "as it is by default; it uses much address space",
        licence: "MIT AND (Zlib OR BSL-1.0)",
        hardening: "canaries behind blocks, guard regions, randomised order, zeroed and quarantined memory, metadata apart from blocks",
        is_hardened: true,
        complaints: Complaints::HARDENED_MALLOC,
        limits: HARDENED_MALLOC_LIMITS,
        missing_on: HARDENED_MALLOC_MISSING_ON,
        address_space: HARDENED_MALLOC_ADDRESS_SPACE,
        tuning: &[],
        build: Some(hardened_malloc(
            "hardened_malloc",
            &["detected write after| free", "double free| (quarantine)"],
            &[],
        )),
    },
    Allocator {
        name: "hardened_malloc-light",
        version: "2026071503",
        summary: "hardened_malloc, less strict",
        details: "it has fewer guard regions and no quarantine of small blocks",
        licence: "MIT AND (Zlib OR BSL-1.0)",
        hardening: "canaries behind blocks, guard regions, zeroed memory, quarantine of large blocks, metadata apart from blocks",
        is_hardened: true,
        complaints: Complaints::HARDENED_MALLOC,
        limits: HARDENED_MALLOC_LIGHT_LIMITS,
        missing_on: HARDENED_MALLOC_MISSING_ON,
        address_space: HARDENED_MALLOC_LIGHT_ADDRESS_SPACE,
        tuning: &[],
        build: Some(hardened_malloc(
            "hardened_malloc-light",
            &["canary corrupted"],
            &["detected write after| free", "double free| (quarantine)"],
        )),
    },
    Allocator {
        name: "stock",
        version: "",
        summary: "the libc's own allocator",
        details: "",
        licence: "MIT",
        hardening: "musl's: metadata apart from blocks, checked headers; glibc's: consistency checks",
        is_hardened: true,
        complaints: Complaints::GLIBC,
        limits: &["with musl it is slow on several threads: it takes one global lock"],
        missing_on: &[],
        address_space: AddressSpace::NONE,
        tuning: GLIBC_TUNING,
        build: None,
    },
];

/// The allocator for users who name none.
pub fn default_allocator() -> &'static Allocator {
    &CATALOGUE[0]
}

/// A name that is not in the catalogue.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown allocator `{name}`")]
pub struct UnknownAllocator {
    /// What was asked for.
    pub name: String,
    /// The name that the user may have meant.
    pub nearest: Option<&'static str>,
}

/// The row of that name.
///
/// # Errors
/// [`UnknownAllocator`] when there is none. It carries the nearest name that exists.
pub fn find(name: &str) -> Result<&'static Allocator, UnknownAllocator> {
    CATALOGUE
        .iter()
        .find(|a| a.name == name)
        .ok_or_else(|| UnknownAllocator {
            name: name.to_owned(),
            nearest: nearest(name, CATALOGUE.iter().map(|a| a.name)),
        })
}

/// The candidate that the user most likely meant by a mistyped name.
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(similarity, _)| *similarity > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}
