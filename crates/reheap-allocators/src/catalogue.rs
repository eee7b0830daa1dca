//! The catalogue: the allocators that reheap knows.
//!
//! To add an allocator:
//!
//! 1. Add its package and features to `sources/manifest.toml`, then run `cargo xtask update-sources`.
//! 2. Add a row to [`CATALOGUE`].
//! 3. Write glue under `glue/` for each of the six primitives that it lacks, and for the three functions that
//!    `glue/glibc.c` asks it for.
//! 4. Add its name to the tests `crates/reheap/tests/conformance_*.rs`.
//!
//! No other code decides by the name of an allocator how to build, link or preload it. Three other places know names,
//! for other reasons:
//!
//! - `reheap_elf::identify` recognises allocators in files: these of the catalogue and a dozen others
//!   (`identify/signatures.rs`).
//! - `reheap/src/program/linked.rs` lists allocators whose shared library a program may load without using it.
//! - Advice and examples in the help texts of `reheap` mention some.

use crate::options::{Applied, Domain, TuningOption};
use crate::target::Libc;

/// A row of the catalogue.
#[derive(Debug)]
pub struct Allocator {
    /// The name that the user types.
    pub name: &'static str,
    /// The allocator's own version, which a package's minor update may change.
    pub version: &'static str,
    /// What sets it apart from the others, in half a line.
    pub summary: &'static str,
    /// Its licence, as an SPDX expression.
    pub licence: &'static str,
    /// What it does when the program misuses memory.
    pub hardening: &'static str,
    /// Whether it stops most attacks on the heap that corrupt its blocks or their bookkeeping.
    pub is_hardened: bool,
    /// What it is known not to work with.
    pub limits: &'static [&'static str],
    /// The address space that a limit such as `ulimit -v` must leave it.
    pub address_space: AddressSpace,
    /// Its options for `-t`.
    pub tuning: &'static [TuningOption],
    /// Where it comes from; `None` for the libc's own.
    pub build: Option<Recipe>,
}

/// The address space that an allocator reserves before a program's first block, in MiB, rounded down.
///
/// It counts against RLIMIT_AS. It also counts against RLIMIT_DATA, because it is private and writable. A program with
/// a lower limit cannot start. A program with a slightly higher limit may not start either, because it needs some
/// address space for itself.
///
/// The figures come from the program of `tests/address_space.rs`, which makes a thousand blocks. Bisection finds the
/// lowest `ulimit -v` with which it starts; the figure is the difference to the same limit without the allocator. The
/// test measures it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressSpace {
    /// Preloaded into a program of glibc.
    pub glibc_mib: u64,
    /// In a static executable, or preloaded into a program of musl.
    pub musl_mib: u64,
}

impl AddressSpace {
    /// Too little to matter.
    pub const NONE: Self = Self::of(0);

    const fn of(mib: u64) -> Self {
        Self {
            glibc_mib: mib,
            musl_mib: mib,
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
    /// The package that upstream's code comes from.
    pub package: Package,
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
    /// What an executable adds.
    pub executable: Additions,
    /// What a preload adds.
    pub preload: Additions,
    /// Whether a build lasts longer than about twenty seconds.
    pub builds_slowly: bool,
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
    /// Where the code comes from, as the marker gives it.
    pub fn origin(&self) -> String {
        format!("{} {}", self.package.name, self.package.version)
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
/// Glue for every preload: what glibc has beside the family. For musl, these files are empty.
pub const PRELOAD_GLUE: [Glue; 2] = [
    Glue {
        name: "glibc",
        source: include_str!("../glue/glibc.c"),
    },
    Glue {
        name: "dlopen",
        source: include_str!("../glue/dlopen.c"),
    },
];
const NOTHING_MORE: Additions = Additions {
    compiler_flags: &[],
    glue: &[],
    redirects: &[],
};
/// For glue with a `__malloc_atfork`. Only a libc that contains the allocator calls that function.
const FORK_HANDLERS: Glue = Glue {
    name: "fork",
    source: include_str!("../glue/fork.c"),
};
/// For allocators that read the clock.
const CLOCK: Glue = Glue {
    name: "clock",
    source: include_str!("../glue/clock.c"),
};
const CLOCK_REDIRECTS: &[(&str, &str)] = &[("clock_gettime", "__reheap_clock_gettime")];
const LOCKS: Glue = Glue {
    name: "locks",
    source: include_str!("../glue/locks.c"),
};
const MIMALLOC: Glue = Glue {
    name: "mimalloc",
    source: include_str!("../glue/mimalloc.c"),
};
const HUGE_PAGES: Glue = Glue {
    name: "huge_pages",
    source: include_str!("../glue/huge_pages.c"),
};
/// For jemalloc, which assumes that every thread gets an arena.
const ARENAS: Glue = Glue {
    name: "arenas",
    source: include_str!("../glue/arenas.c"),
};
/// Defines `free`, so it goes with entry points that lack it.
const LAST_BLOCK: Glue = Glue {
    name: "last_block",
    source: include_str!("../glue/last_block.c"),
};

const MIMALLOC_ENTRY_POINTS: &[(&str, &str)] = &[
    ("malloc", "mi_malloc"),
    ("realloc", "mi_realloc"),
    ("memalign", "mi_memalign"),
    ("malloc_usable_size", "mi_malloc_usable_size"),
    ("free", "mi_free"),
];
const MUTEX_REDIRECTS: &[(&str, &str)] = &[
    ("pthread_mutex_lock", "__reheap_mutex_lock"),
    ("pthread_mutex_trylock", "__reheap_mutex_trylock"),
    ("pthread_mutex_unlock", "__reheap_mutex_unlock"),
];
const MIMALLOC_REDIRECTS: &[(&str, &str)] = &[
    MUTEX_REDIRECTS[0],
    MUTEX_REDIRECTS[1],
    MUTEX_REDIRECTS[2],
    ("prctl", "__reheap_prctl"),
    ("mmap", "__reheap_mmap"),
];
// With MI_USE_ENVIRON=0, mimalloc asks getenv for its options, and the glue answers.
const MIMALLOC_EXECUTABLE: Additions = Additions {
    compiler_flags: &["-DMI_USE_ENVIRON=0"],
    glue: &[Glue {
        name: "environment",
        source: include_str!("../glue/environment.c"),
    }],
    redirects: &[("getenv", "__reheap_getenv")],
};
// mimalloc reads its options from `environ`, as usual; the glue appends the baked-in ones. getenv would come too late:
// in a preload the dynamic linker allocates before the libc is ready, and mimalloc reads some options then and never
// again.
const MIMALLOC_PRELOAD: Additions = Additions {
    compiler_flags: &["-Denviron=(*__reheap_environ())"],
    glue: &[
        FORK_HANDLERS,
        CLOCK,
        Glue {
            name: "environ",
            source: include_str!("../glue/environ.c"),
        },
        Glue {
            name: "usage",
            source: include_str!("../glue/usage_mimalloc.c"),
        },
    ],
    redirects: CLOCK_REDIRECTS,
};
// When no memory is left for the data that version 3 keeps for a thread, it leaves NULL there. The thread's next
// allocation then crashes, unless mimalloc is built for platforms on which every thread begins with NULL.
const MIMALLOC_3_FLAGS: &[&str] = &["-DMI_THEAP_INITASNULL=1"];
// The package's feature sets the first flag. The glue needs it too.
const MIMALLOC_SECURE_FLAGS: &[&str] = &["-DMI_SECURE=4", MIMALLOC_3_FLAGS[0]];

const PURGE_DELAY: TuningOption = TuningOption {
    key: "purge_delay",
    domain: Domain::Milliseconds { never: true },
    applied: Applied::Environment("MIMALLOC_PURGE_DELAY"),
    preset: None,
    summary: "how long to keep freed memory for reuse; 0 keeps none, -1 keeps it for ever",
    worth_trying: &["0", "-1"],
};
/// A huge page is 2 MiB of memory at once, even where a program uses a few KiB of it. Without huge pages, mimalloc 2 has
/// 0.75 to 0.96 of the peak memory in real programs, and a program that prints one line 0.3 MB instead of 2.3 MB.
///
/// What they do to time depends on the machine's free memory. A guest whose host has to back a huge page first spends
/// 5 ms on it, otherwise 0.1 ms; the same 2 MiB in small pages take 0.8 ms. `passwords`, which mostly fills new memory,
/// needs 0.94 of glibc's CPU time with huge pages, anywhere from 0.68 to 1.56, if the machine idles before each run (12
/// rounds). In a tight loop, which finds them still backed, it needs 0.55 (40 rounds). Without huge pages it needs 0.76
/// to 0.78 either way. Without them `tokenize` needs 5 % less time, and `wasm-compile` on SQLite's module 2 to 5 % less.
/// `churn`, `readers` and `requests` show no loss, and the 4 % more in `json` are within the noise (30 rounds).
const MIMALLOC_HUGE_PAGES: TuningOption = TuningOption {
    key: "huge_pages",
    domain: Domain::OneOf(&[("never", "0"), ("allow", "1")]),
    applied: Applied::Environment("MIMALLOC_ALLOW_THP"),
    preset: Some("never"),
    summary: "whether the kernel may use transparent huge pages for the heap",
    worth_trying: &["allow"],
};
/// mimalloc 2 gives memory back after ten times the delay. With upstream's 10 ms, a program that frees and allocates in
/// waves faults its pages in again. wasmtime's compiler on a module of 14 MB has 244 thousand page faults and 0.52 s of
/// system time with 10 ms, 128 thousand and 0.33 s with 100 ms. Its peak memory grows from 1.00 of glibc's to 1.07. With
/// 500 ms it grows to 1.14, and the system time barely falls. Smaller programs show no difference in time.
const MIMALLOC_2_TUNING: &[TuningOption] = &[
    TuningOption {
        preset: Some("100"),
        ..PURGE_DELAY
    },
    MIMALLOC_HUGE_PAGES,
];

/// mimalloc 3 gives memory back after the delay itself, which is 1 s with upstream's default. In `json` that means 2.8
/// times glibc's peak memory. With 250 ms it is a fifth less, in no measurably different time. With 100 ms the memory is
/// the same, and `json` needs 7 % more time than with 1 s (24 rounds).
const MIMALLOC_3_TUNING: &[TuningOption] = &[
    TuningOption {
        preset: Some("250"),
        ..PURGE_DELAY
    },
    MIMALLOC_HUGE_PAGES,
];

/// Options of glibc's own allocator (glibc manual, "Memory Allocation Tunables"). musl's has none.
const GLIBC_TUNING: &[TuningOption] = &[
    TuningOption {
        key: "arena_max",
        domain: Domain::Count {
            least: 1,
            most: 65_536,
        },
        applied: Applied::GlibcTunable("glibc.malloc.arena_max"),
        preset: None,
        summary: "glibc: how many arenas the threads share; default: eight per processor",
        worth_trying: &["1"],
    },
    TuningOption {
        key: "tcache_count",
        domain: Domain::Count {
            least: 0,
            most: 65_535,
        },
        applied: Applied::GlibcTunable("glibc.malloc.tcache_count"),
        preset: None,
        summary: "glibc: how many freed blocks of each size a thread keeps; default: 7",
        worth_trying: &["64"],
    },
    TuningOption {
        key: "mmap_threshold",
        domain: Domain::Bytes,
        applied: Applied::GlibcTunable("glibc.malloc.mmap_threshold"),
        preset: None,
        summary: "glibc: the size from which a block gets a mapping of its own",
        worth_trying: &["33554432"],
    },
    TuningOption {
        key: "trim_threshold",
        domain: Domain::Bytes,
        applied: Applied::GlibcTunable("glibc.malloc.trim_threshold"),
        preset: None,
        summary: "glibc: how much free memory to keep at the end of the heap",
        worth_trying: &["268435456"],
    },
    TuningOption {
        key: "hugetlb",
        domain: Domain::OneOf(&[("off", "0"), ("transparent", "1"), ("reserved", "2")]),
        applied: Applied::GlibcTunable("glibc.malloc.hugetlb"),
        preset: None,
        summary: "glibc 2.35 or later: whether the heap asks for huge pages, transparent or reserved",
        worth_trying: &["transparent"],
    },
];

/// A variant of mimalloc: the same package and glue, another feature.
const fn mimalloc(
    feature: &'static str,
    compiler_flags: &'static [&'static str],
    evidence: Evidence,
) -> Recipe {
    Recipe {
        package: Package {
            name: "libmimalloc-sys",
            version: "0.1.49",
            feature,
            library: "libmimalloc.a",
            evidence,
        },
        needs_cxx: false,
        needs_make: false,
        compiler_flags,
        entry_points: MIMALLOC_ENTRY_POINTS,
        glue: &[LOCKS, MIMALLOC, HUGE_PAGES],
        malloc_conf: &[],
        redirects: MIMALLOC_REDIRECTS,
        executable: MIMALLOC_EXECUTABLE,
        preload: MIMALLOC_PRELOAD,
        builds_slowly: false,
    }
}

const MIMALLOC_3_LIMITS: &[&str] = &[
    "a thread that starts when no memory is left may crash in `realloc` of another thread's block",
];

/// All allocators; the first is the default.
pub const CATALOGUE: &[Allocator] = &[
    Allocator {
        name: "mimalloc",
        version: "2.3.2",
        summary: "the fast, small default, good with many threads; reheap changes one path of its `free`",
        licence: "MIT",
        hardening: "none: it notices neither a double free nor an overflow",
        is_hardened: false,
        limits: &[],
        address_space: AddressSpace::of(32),
        tuning: MIMALLOC_2_TUNING,
        build: Some(Recipe {
            entry_points: MIMALLOC_ENTRY_POINTS.split_at(4).0,
            glue: &[LOCKS, MIMALLOC, HUGE_PAGES, LAST_BLOCK],
            ..mimalloc(
                "mimalloc",
                &[],
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
        licence: "MIT",
        hardening: "none: it notices neither a double free nor an overflow",
        is_hardened: false,
        limits: MIMALLOC_3_LIMITS,
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
        summary: "mimalloc 3 with all its protections (level 4)",
        licence: "MIT",
        hardening: "guard pages, encoded free lists; catches double frees, ignores other invalid frees",
        is_hardened: true,
        limits: MIMALLOC_3_LIMITS,
        address_space: AddressSpace::of(2),
        tuning: MIMALLOC_3_TUNING,
        build: Some(mimalloc(
            "mimalloc-secure",
            MIMALLOC_SECURE_FLAGS,
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
        name: "jemalloc",
        version: "5.3.1",
        summary: "suits long-running servers; little fragmentation, many options",
        licence: "BSD-2-Clause",
        hardening: "none with its default options",
        is_hardened: false,
        limits: &["background threads do not run in a static musl executable"],
        address_space: AddressSpace {
            glibc_mib: 10,
            musl_mib: 2,
        },
        tuning: &[
            TuningOption {
                key: "dirty_decay_ms",
                domain: Domain::Milliseconds { never: true },
                applied: Applied::MallocConf("dirty_decay_ms"),
                preset: None,
                summary: "how long to keep unused dirty pages; 0 keeps none, -1 keeps them for ever",
                worth_trying: &["0", "-1"],
            },
            TuningOption {
                key: "muzzy_decay_ms",
                domain: Domain::Milliseconds { never: true },
                applied: Applied::MallocConf("muzzy_decay_ms"),
                preset: None,
                summary: "how long to keep lazily purged pages; 0 keeps none, -1 keeps them for ever",
                worth_trying: &[],
            },
            TuningOption {
                key: "narenas",
                domain: Domain::Count {
                    least: 1,
                    most: 4094,
                },
                applied: Applied::MallocConf("narenas"),
                preset: None,
                summary: "how many arenas the threads share; default: four per processor",
                worth_trying: &["1"],
            },
            TuningOption {
                key: "huge_pages",
                domain: Domain::OneOf(&[("never", "never"), ("allow", "always")]),
                applied: Applied::MallocConf("thp"),
                preset: None,
                summary: "whether the kernel may use transparent huge pages for the heap",
                worth_trying: &["allow"],
            },
        ],
        build: Some(Recipe {
            package: Package {
                name: "tikv-jemalloc-sys",
                version: "0.7.1+5.3.1-0-g81034ce1f1373e37dc865038e1bc8eeecf559ce8",
                feature: "jemalloc",
                library: "lib/libjemalloc_pic.a",
                evidence: Evidence {
                    present: &[
                        "5.3.1-0-g81034ce1f1373e37dc865038e1bc8eeecf559ce8",
                        "<jemall|oc>: ",
                    ],
                    absent: &["Failed assertion"],
                    version_line: (
                        "Cargo.toml",
                        "version = \"0.7.1+5.3.1-0-g81034ce1f1373e37dc865038e1bc8eeecf559ce8\"",
                    ),
                },
            },
            needs_cxx: false,
            needs_make: true,
            compiler_flags: &[],
            entry_points: &[],
            glue: &[
                Glue {
                    name: "jemalloc",
                    source: include_str!("../glue/jemalloc.c"),
                },
                ARENAS,
            ],
            // As in musl, and in the spirit of C23, realloc(p, 0) returns a block. jemalloc alone would free it and
            // return NULL.
            malloc_conf: &["zero_realloc:alloc"],
            redirects: &[
                MUTEX_REDIRECTS[0],
                MUTEX_REDIRECTS[1],
                MUTEX_REDIRECTS[2],
                ("pthread_atfork", "__reheap_atfork"),
                ("_rjem_je_arena_new", "__reheap_arena_new"),
                (
                    "_rjem_je_tsd_tcache_enabled_data_init",
                    "__reheap_thread_begins",
                ),
            ],
            executable: NOTHING_MORE,
            preload: Additions {
                compiler_flags: &[],
                glue: &[
                    FORK_HANDLERS,
                    CLOCK,
                    Glue {
                        name: "usage",
                        source: include_str!("../glue/usage_jemalloc.c"),
                    },
                ],
                redirects: &[
                    CLOCK_REDIRECTS[0],
                    ("pthread_cond_init", "__reheap_cond_init"),
                ],
            },
            builds_slowly: true,
        }),
    },
    Allocator {
        name: "rpmalloc",
        version: "1.4.3",
        summary: "tiny code; each thread has a cache that needs no lock",
        licence: "MIT OR Unlicense",
        hardening: "none",
        is_hardened: false,
        limits: &[],
        address_space: AddressSpace::of(6),
        tuning: &[],
        build: Some(Recipe {
            package: Package {
                name: "rpmalloc-sys",
                version: "0.2.3+b097fd0",
                feature: "rpmalloc",
                library: "librpmalloc.a",
                evidence: Evidence {
                    present: &["rpmalloc_thread_initialize"],
                    absent: &["pthread_create", "dlsym", "Memory corruption detected"],
                    version_line: ("rpmalloc/CHANGELOG", "1.4.3"),
                },
            },
            needs_cxx: false,
            needs_make: false,
            compiler_flags: &[],
            entry_points: &[],
            glue: &[Glue {
                name: "rpmalloc",
                source: concat!(
                    include_str!("../glue/gate.c"),
                    include_str!("../glue/rpmalloc.c")
                ),
            }],
            malloc_conf: &[],
            redirects: &[("mmap", "__reheap_mmap")],
            executable: NOTHING_MORE,
            preload: Additions {
                glue: &[FORK_HANDLERS],
                redirects: &[("munmap", "__reheap_munmap")],
                ..NOTHING_MORE
            },
            builds_slowly: false,
        }),
    },
    Allocator {
        name: "snmalloc",
        version: "0.7.6",
        summary: "suits programs in which one thread allocates and another frees; threads pass blocks as messages",
        licence: "MIT",
        hardening: "catches double frees; does not notice overflows",
        is_hardened: false,
        limits: &[
            "needs a C++20 compiler to build",
            "when memory runs out while a thread ends, it may end the program instead of returning NULL",
        ],
        // snmalloc makes one flat table at once: 16 bytes for each 16 KiB of 48 bits of addresses. No compile option
        // makes it small. With SNMALLOC_PAGESIZE=65536 the preload for glibc still needs more than 66 GiB, and musl's
        // headers refuse that option.
        address_space: AddressSpace::of(256 << 10),
        tuning: &[],
        build: Some(Recipe {
            package: Package {
                name: "snmalloc-sys",
                version: "0.7.6",
                feature: "snmalloc",
                library: "libsnmallocshim-rust.a",
                evidence: Evidence {
                    present: &["sn_rust_alloc"],
                    absent: &["assert fail"],
                    version_line: ("Cargo.toml", "version = \"0.7.6\""),
                },
            },
            needs_cxx: true,
            needs_make: false,
            // Its checks print the path of the header that they are in: a path of the build machine.
            compiler_flags: &[
                "-DNDEBUG",
                "-DSNMALLOC_USE_PTHREAD_DESTRUCTORS",
                "-Wno-builtin-macro-redefined",
                "-D__FILE__=\"\"",
            ],
            entry_points: &[],
            glue: &[Glue {
                name: "snmalloc",
                source: concat!(
                    include_str!("../glue/gate.c"),
                    include_str!("../glue/snmalloc.c")
                ),
            }],
            malloc_conf: &[],
            redirects: &[
                ("pthread_key_create", "__reheap_key_create"),
                ("mmap", "__reheap_mmap"),
                ("writev", "__reheap_writev"),
            ],
            executable: NOTHING_MORE,
            preload: Additions {
                compiler_flags: &[],
                glue: &[
                    FORK_HANDLERS,
                    CLOCK,
                    Glue {
                        name: "usage",
                        source: include_str!("../glue/usage_snmalloc.c"),
                    },
                ],
                redirects: CLOCK_REDIRECTS,
            },
            builds_slowly: false,
        }),
    },
    Allocator {
        name: "stock",
        version: "",
        summary: "the libc's own allocator",
        licence: "MIT",
        hardening: "musl's: strong against overflows and double frees; glibc's: consistency checks",
        is_hardened: true,
        limits: &["with musl it is slow on several threads: it takes one global lock"],
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
