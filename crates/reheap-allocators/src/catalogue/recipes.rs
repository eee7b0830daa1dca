//! How the allocators of the catalogue are built and bound: packages, flags, glue.

use super::{Additions, Code, Evidence, Glue, Package, Recipe};

pub(super) const NOTHING_MORE: Additions = Additions {
    compiler_flags: &[],
    glue: &[],
    redirects: &[],
};
/// For glue with a `__malloc_atfork`. Only a libc that contains the allocator calls that function.
pub(super) const FORK_HANDLERS: Glue = Glue {
    name: "fork",
    source: include_str!("../../glue/fork.c"),
};
/// For allocators that read the clock.
pub(super) const CLOCK: Glue = Glue {
    name: "clock",
    source: include_str!("../../glue/clock.c"),
};
pub(super) const CLOCK_REDIRECTS: &[(&str, &str)] = &[("clock_gettime", "__reheap_clock_gettime")];
pub(super) const LOCKS: Glue = Glue {
    name: "locks",
    source: include_str!("../../glue/locks.c"),
};
/// For allocators that register fork handlers of their own.
pub(super) const HANDLERS: Glue = Glue {
    name: "handlers",
    source: include_str!("../../glue/handlers.c"),
};
pub(super) const MIMALLOC: Glue = Glue {
    name: "mimalloc",
    source: include_str!("../../glue/mimalloc.c"),
};
pub(super) const HUGE_PAGES: Glue = Glue {
    name: "huge_pages",
    source: include_str!("../../glue/huge_pages.c"),
};
/// For allocators that read their options from the environment.
pub(super) const ENVIRONMENT: Glue = Glue {
    name: "environment",
    source: include_str!("../../glue/environment.c"),
};
pub(super) const SYSTEM: Glue = Glue {
    name: "system",
    source: include_str!("../../glue/system.c"),
};
/// For jemalloc, which assumes that every thread gets an arena.
pub(super) const ARENAS: Glue = Glue {
    name: "arenas",
    source: include_str!("../../glue/arenas.c"),
};
/// Defines `malloc`, `zalloc` and `realloc`, so it goes with entry points that lack them.
pub(super) const REFILL: Glue = Glue {
    name: "refill",
    source: include_str!("../../glue/refill.c"),
};
/// For the `realloc` before.
pub(super) const EXTEND: Glue = Glue {
    name: "extend",
    source: include_str!("../../glue/extend.c"),
};
/// Defines `free`, so it goes with entry points that lack it.
pub(super) const LAST_BLOCK: Glue = Glue {
    name: "last_block",
    source: concat!(
        include_str!("../../glue/grown.h"),
        include_str!("../../glue/last_block.c")
    ),
};
/// Defines `realloc` and `malloc_usable_size`, over the allocator's own as `inner_realloc` and so on. It goes with a
/// `free` that knows such blocks.
pub(super) const GROWN: Glue = Glue {
    name: "grown",
    source: concat!(
        include_str!("../../glue/grown.h"),
        include_str!("../../glue/grown.c")
    ),
};
/// Defines such a `free`, over `inner_free`.
pub(super) const GROWN_FREE: Glue = Glue {
    name: "grown_free",
    source: concat!(
        include_str!("../../glue/grown.h"),
        include_str!("../../glue/grown_free.c")
    ),
};
/// For mimalloc 2. Goes with [`mimalloc_2_flags`] and [`MIMALLOC_2_REDIRECTS`].
pub(super) const AT_REST: Glue = Glue {
    name: "at_rest",
    source: concat!(
        include_str!("../../glue/debt.c"),
        include_str!("../../glue/at_rest.c")
    ),
};
/// For jemalloc.
pub(super) const ARENAS_AT_REST: Glue = Glue {
    name: "arenas_at_rest",
    source: concat!(
        include_str!("../../glue/debt.c"),
        include_str!("../../glue/arenas_at_rest.c")
    ),
};

/// `malloc` and `free` of the two before take and return blocks there.
pub(super) const SHARED_HEAPS: Glue = Glue {
    name: "shared_heaps",
    source: include_str!("../../glue/shared_heaps.c"),
};

pub(super) const MIMALLOC_ENTRY_POINTS: &[(&str, &str)] = &[
    ("memalign", "mi_memalign"),
    ("inner_malloc_usable_size", "mi_malloc_usable_size"),
    ("inner_realloc", "mi_realloc"),
    ("malloc", "mi_malloc"),
    ("inner_free", "mi_free"),
    ("zalloc", "mi_zalloc"),
];
pub(super) const MUTEX_REDIRECTS: &[(&str, &str)] = &[
    ("pthread_mutex_lock", "__reheap_mutex_lock"),
    ("pthread_mutex_trylock", "__reheap_mutex_trylock"),
    ("pthread_mutex_unlock", "__reheap_mutex_unlock"),
];
/// Redirects for both versions of mimalloc, then others.
macro_rules! mimalloc_redirects {
    ($($more:expr),*) => {
        &[
            MUTEX_REDIRECTS[0],
            MUTEX_REDIRECTS[1],
            MUTEX_REDIRECTS[2],
            ("prctl", "__reheap_prctl"),
            ("mmap", "__reheap_mmap"),
            ("sysinfo", "__reheap_sysinfo"),
            ("access", "__reheap_access"),
            ("syscall", "__reheap_syscall"),
            ("pthread_key_delete", "__reheap_key_delete"),
            ("getenv", "__reheap_getenv"),
            $($more),*
        ]
    };
}
pub(super) const MIMALLOC_REDIRECTS: &[(&str, &str)] = mimalloc_redirects!();
/// For [`AT_REST`].
pub(super) const MIMALLOC_2_REDIRECTS: &[(&str, &str)] = mimalloc_redirects!(
    ("pthread_key_create", "__reheap_key_create"),
    ("pthread_setspecific", "__reheap_set_specific")
);
pub(super) const MIMALLOC_PRELOAD: Additions = Additions {
    compiler_flags: &[],
    glue: &[
        FORK_HANDLERS,
        CLOCK,
        Glue {
            name: "usage",
            source: concat!(
                include_str!("../../glue/grown.h"),
                include_str!("../../glue/usage_mimalloc.c")
            ),
        },
    ],
    redirects: CLOCK_REDIRECTS,
};
/// Flags for both versions, then others.
///
/// With MI_USE_ENVIRON=0, mimalloc asks getenv for its options, and the glue answers.
///
/// Until its constructor has run, mimalloc takes no options from anywhere and uses no arena, because it does not trust the
/// C runtime yet. A program that allocates earlier, as most C++ programs do, would run without what is baked in. The glue
/// needs no C runtime. So the two macros after that make mimalloc believe that its constructor has run: the definition of
/// `_mi_preloading` has `void` between the parentheses, the calls have nothing and become 0.
macro_rules! mimalloc_flags {
    ($($more:literal),*) => {
        &[
            "-DMI_USE_ENVIRON=0",
            "-D_mi_preloading(x)=_mi_is_preloading_##x(void)",
            "-D_mi_is_preloading_(x)=0",
            $($more),*
        ]
    };
}

/// Flags for version 2, then others.
///
/// They replace parts of three calls. What a call has in a place, and the function's definition has not, chooses the
/// macro. `/**/` is a space, because spaces separate flags.
///
/// - The sizes that `mi_segment_schedule_purge` gets become 0, so it does nothing.
/// - Where a page becomes free, `__reheap_page_is_free` does it (`at_rest.c`), and more.
/// - Where a segment has memory, `__reheap_segment_is_made` looks at it.
///
/// The next macros are for blocks above 1 MiB. When such a block is freed, mimalloc keeps its page for the next few calls
/// of malloc, which may never come.
///
/// The last ones are for blocks of 8 to 64 KiB. mimalloc gives each of these 12 sizes pages of 512 KiB. If one was memory of
/// a large block before, all of it stays resident, even for one small block. Two threads of a search tool kept 6 MiB so,
/// of which 0.4 MiB were in use. Here pages have room for two blocks, until the heap has so many pages (8 MiB or more) that
/// 512 KiB for a size do not count. Short pages leave more gaps, and with many blocks the gaps cost more. Pages for three or
/// four blocks win less, and limits of 256 and 512 pages lose more when the sizes change.
macro_rules! mimalloc_2_flags {
    ($($more:literal),*) => {
        mimalloc_flags!(
            "-Dmi_segment_schedule_purge(x,y,z)=mi_segment_schedule_purge(x,y,mi_scheduled_##z)",
            "-Dmi_scheduled_size_t=size_t",
            "-Dmi_scheduled_slice_count=0*slice_count",
            "-Dmi_segment_span_free_coalesce(x,y)=mi_segment_span_free_coalesce(mi_coalesced_##x,y)",
            "-Dmi_coalesced_mi_slice_t=mi_slice_t",
            "-Dmi_coalesced_slice=slice",
            "-Dmi_coalesced_mi_page_to_slice(x)=({void/**/__reheap_page_is_free(mi_page_t*,mi_segments_tld_t*);__reheap_page_is_free(x,tld);mi_page_to_slice(x);})",
            "-D_mi_segment_map_allocated_at(x)=_mi_segment_map_allocated_at(mi_allocated_##x)",
            "-Dmi_allocated_const=const",
            "-Dmi_allocated_segment=({void/**/__reheap_segment_is_made(mi_segment_t*,mi_segments_tld_t*);__reheap_segment_is_made(segment,tld);segment;})",
            "-Dmi_page_queue_is_special(x)=mi_page_queue_is_special(mi_special_##x)",
            "-Dmi_special_const=const",
            "-Dmi_special_pq=pq)&&(bsize<=MI_MiB",
            "-Dmi_segments_page_alloc(h,k,x,b,t)=mi_segments_page_alloc(h,k,mi_required_##x,b,t)",
            "-Dmi_required_size_t=size_t",
            "-Dmi_required_block_size=block_size",
            "-Dmi_required_required=required",
            "-Dmi_required_MI_MEDIUM_PAGE_SIZE=(heap->page_count<128?2*block_size:MI_MEDIUM_PAGE_SIZE)",
            $($more),*
        )
    };
}

/// Flags for version 3, then others. The macros work as those for both.
///
/// When no memory is left for the data that version 3 keeps for a thread, it leaves NULL there. The thread's next
/// allocation then crashes, unless mimalloc is built for platforms on which every thread begins with NULL.
///
/// It executes CPUID four times when a program starts, to learn whether it may copy short blocks by `rep movsb`. In virtual
/// machines that takes longer than the rest of a short program. Two macros take the call out and leave the function.
///
/// And it never sets up the heap of the main thread, which therefore has no random numbers of its own before the
/// constructor has run, and never the options for guard pages: the function finds what it looks for, MI_MEM_STATIC, in
/// the initial value. The last two macros change that before the call.
macro_rules! mimalloc_3_flags {
    ($($more:literal),*) => {
        mimalloc_flags!(
            "-DMI_THEAP_INITASNULL=1",
            "-Dmi_detect_cpu_features(x)=mi_detect_##x(void)",
            "-Dmi_detect_(x)=",
            "-Wno-unused-function",
            "-Dmi_theap_main_init(x)=mi_theap_main_init_##x(void)",
            "-Dmi_theap_main_init_(x)=(theap_main.memid.memkind=MI_MEM_NONE,mi_theap_main_init_void())",
            $($more),*
        )
    };
}

// When a program ends, mimalloc would give its memory back, for libraries that are loaded again and again. Here that is
// one more system call, as the system takes all of it. The secure variants do it, because they find damage on the way.
//
// mimalloc makes free blocks for 4 KiB at a time, and writes into each. The first of a page are not at its very beginning, so
// the last few were in a second page of the system, for each size that a program uses. The other macros end with the blocks
// that begin in the first. What a call has in a place, and the function's definition has not, chooses the macro; `/**/` is a
// space.
pub(super) const MIMALLOC_2_FLAGS: &[&str] = mimalloc_2_flags!(
    "-DMI_SKIP_COLLECT_ON_EXIT=1",
    "-Dmi_page_free_list_extend(p,b,e,s)=mi_page_free_list_extend(p,b,mi_extended_##e,s)",
    "-Dmi_extended_const=const",
    "-Dmi_extended_extend=extend=({size_t/**/here=((-(uintptr_t)(page->page_start+page->capacity*bsize)-1&4095)+bsize)/bsize;here<extend?here:extend;})"
);
pub(super) const MIMALLOC_3_FLAGS: &[&str] = mimalloc_3_flags!("-DMI_SKIP_COLLECT_ON_EXIT=1");
// The package's feature sets the first flag. The glue needs it too. In version 3, level 5 adds a guard page behind each
// page of 64 KiB. With the kernel's usual limit of 65,530 mappings a program then gets no more than 2.3 GiB in blocks of
// 64 bytes. Version 2 knows level 5 by name only. With MI_GUARDED, both can put a guard page behind one in so many blocks.
pub(super) const MIMALLOC_2_SECURE_FLAGS: &[&str] =
    mimalloc_2_flags!("-DMI_SECURE=4", "-DMI_GUARDED=1");
pub(super) const MIMALLOC_3_SECURE_FLAGS: &[&str] =
    mimalloc_3_flags!("-DMI_SECURE=4", "-DMI_GUARDED=1");

/// A variant of mimalloc: the same package and glue, another feature. In a finished executable it is version 3.
pub(super) const fn mimalloc(
    feature: &'static str,
    compiler_flags: &'static [&'static str],
    evidence: Evidence,
) -> Recipe {
    Recipe {
        package: Code::Package(Package {
            name: "libmimalloc-sys",
            version: "0.1.49",
            feature,
            library: "libmimalloc.a",
            evidence,
        }),
        needs_cxx: false,
        needs_make: false,
        compiler_flags,
        entry_points: MIMALLOC_ENTRY_POINTS,
        glue: &[
            LOCKS,
            MIMALLOC,
            ENVIRONMENT,
            HUGE_PAGES,
            SYSTEM,
            GROWN,
            GROWN_FREE,
        ],
        malloc_conf: &[],
        redirects: MIMALLOC_REDIRECTS,
        interface: &[],
        executable: NOTHING_MORE,
        preload: MIMALLOC_PRELOAD,
        graft: Ok(MIMALLOC_3_GRAFT),
        builds_slowly: false,
    }
}

/// For a mimalloc in a finished executable, where no constructor runs, and nobody tells it when a thread ends
/// (`graft_mimalloc.c`). The flags work as [`mimalloc_3_flags`].
const fn mimalloc_graft(compiler_flags: &'static [&'static str]) -> Additions {
    Additions {
        compiler_flags,
        glue: &[
            CLOCK,
            Glue {
                name: "graft_threads",
                source: include_str!("../../glue/graft_threads.c"),
            },
            Glue {
                name: "graft_mimalloc",
                source: include_str!("../../glue/graft_mimalloc.c"),
            },
        ],
        redirects: CLOCK_REDIRECTS,
    }
}

/// mimalloc 2 takes its number of a thread from the first macro. The others do what the constructor would do, once, by the
/// thread whose malloc is the first: mimalloc makes the main heap wherever it may be missing, and relies on the constructor
/// that this is never in two threads.
pub(super) const MIMALLOC_2_GRAFT: Additions = mimalloc_graft(&[
    "-DMI_PRIM_THREAD_ID()=({extern/**/__thread/**/uintptr_t/**/__reheap_thread_count;(uintptr_t)&__reheap_thread_count+__reheap_thread_count;})",
    "-Dmi_heap_main_init(x)=mi_heap_main_init_##x(void)",
    "-Dmi_heap_main_init_(x)=(void)0",
    "-Dmi_process_init_once(x)=mi_process_init_once_##x(void)",
    "-Dmi_process_init_once_(x)=(os_preloading=false,mi_heap_main_init_void(),_mi_options_init(),({void/**/__reheap_graft_begins(void);__reheap_graft_begins();}),mi_process_init_once_void())",
]);

/// mimalloc 3 does not compile with MI_PRIM_THREAD_ID. The first two macros change the call of the function that it would
/// replace. The next two do what the constructor would do. The last ones are for forks: before mimalloc waits for a bit,
/// `__reheap_await_bit` does.
pub(super) const MIMALLOC_3_GRAFT: Additions = mimalloc_graft(&[
    "-D__mi_prim_thread_id(x)=__mi_prim_thread_id_##x(x)",
    "-D__mi_prim_thread_id_(x)=({extern/**/__thread/**/uintptr_t/**/__reheap_thread_count;(uintptr_t)&__reheap_thread_count+__reheap_thread_count;})",
    "-Dmi_process_init_once(x)=mi_process_init_once_##x(void)",
    "-Dmi_process_init_once_(x)=(({void/**/__reheap_graft_begins(void);__reheap_graft_begins();}),mi_process_init_once_void())",
    "-Dmi_bfield_atomic_clear_once_set(b,i)=mi_bfield_atomic_clear_once_set(b,mi_awaited_##i)",
    "-Dmi_awaited_size_t=size_t",
    "-Dmi_awaited_idx=({void/**/__reheap_await_bit(void*,size_t);__reheap_await_bit(&chunk->bfields[i],idx);idx;})",
]);

// Its checks print the path of the header that they are in: a path of the build machine.
pub(super) const SNMALLOC_FLAGS: &[&str] = &[
    "-DNDEBUG",
    "-DSNMALLOC_USE_PTHREAD_DESTRUCTORS",
    "-Wno-builtin-macro-redefined",
    "-D__FILE__=\"\"",
];
/// For allocators that compare the size that `free_sized` gets with the block's: they bring `__reheap_free_sized` and
/// `__reheap_free_aligned_sized`.
pub(super) const SIZE_IS_CHECKED: &str = "-DREHEAP_SIZE_IS_CHECKED";
// The package's feature `check` only tells CMake, which this build does without. A check that fails executes a trap,
// with no word of explanation; the glue's abort has one.
pub(super) const SNMALLOC_CHECKS_FLAGS: &[&str] = &[
    SNMALLOC_FLAGS[0],
    SNMALLOC_FLAGS[1],
    SNMALLOC_FLAGS[2],
    SNMALLOC_FLAGS[3],
    "-DSNMALLOC_CHECK_CLIENT",
    "-D__builtin_trap=__builtin_abort",
    SIZE_IS_CHECKED,
];
pub(super) const SNMALLOC_CHECKS_REDIRECTS: &[(&str, &str)] = &[
    ("pthread_key_create", "__reheap_key_create"),
    ("mmap", "__reheap_mmap"),
    ("writev", "__reheap_writev"),
    ("abort", "__reheap_abort"),
    ("mprotect", "__reheap_mprotect"),
];
pub(super) const SNMALLOC_REDIRECTS: &[(&str, &str)] = SNMALLOC_CHECKS_REDIRECTS.split_at(3).0;
/// A variant of snmalloc.
pub(super) const fn snmalloc(
    compiler_flags: &'static [&'static str],
    redirects: &'static [(&'static str, &'static str)],
    evidence: Evidence,
) -> Recipe {
    Recipe {
        package: Code::Package(Package {
            name: "snmalloc-sys",
            version: "0.7.6",
            feature: "snmalloc",
            library: "libsnmallocshim-rust.a",
            evidence,
        }),
        needs_cxx: true,
        needs_make: false,
        compiler_flags,
        entry_points: &[],
        glue: &[
            GROWN,
            Glue {
                name: "snmalloc",
                source: concat!(
                    include_str!("../../glue/grown.h"),
                    include_str!("../../glue/gate.c"),
                    include_str!("../../glue/snmalloc.c")
                ),
            },
        ],
        malloc_conf: &[],
        redirects,
        interface: &[],
        executable: NOTHING_MORE,
        preload: Additions {
            compiler_flags: &[],
            glue: &[
                FORK_HANDLERS,
                CLOCK,
                Glue {
                    name: "usage",
                    source: concat!(
                        include_str!("../../glue/grown.h"),
                        include_str!("../../glue/usage_snmalloc.c")
                    ),
                },
            ],
            redirects: CLOCK_REDIRECTS,
        },
        graft: Err("it is not adapted to programs whose libc does not tell it when a thread ends"),
        builds_slowly: false,
    }
}

/// What goes with [`HANDLERS`], whatever locks an allocator has.
pub(super) const HANDLERS_REDIRECTS: &[(&str, &str)] = &[
    MUTEX_REDIRECTS[0],
    MUTEX_REDIRECTS[1],
    MUTEX_REDIRECTS[2],
    ("pthread_atfork", "__reheap_atfork"),
];
pub(super) const HARDENED_MALLOC_REDIRECTS: &[(&str, &str)] = &[
    MUTEX_REDIRECTS[0],
    MUTEX_REDIRECTS[2],
    ("pthread_atfork", "__reheap_atfork"),
];
/// A variant of hardened_malloc.
///
/// Its package asks for C23, of which the sources need only `alignas`, and its header has that for older compilers.
pub(super) const fn hardened_malloc(
    feature: &'static str,
    present: &'static [&'static str],
    absent: &'static [&'static str],
) -> Recipe {
    Recipe {
        package: Code::Package(Package {
            name: "hardened-malloc-sys",
            version: "16.0.2026071503",
            feature,
            library: "libhardened_malloc.a",
            evidence: Evidence {
                present,
                absent,
                version_line: ("Cargo.toml", "version = \"16.0.2026071503\""),
            },
        }),
        needs_cxx: false,
        needs_make: false,
        compiler_flags: &[
            "-include",
            "stdalign.h",
            "-DH_MALLOC_PREFIX",
            SIZE_IS_CHECKED,
        ],
        entry_points: &[
            ("malloc", "h_malloc"),
            ("calloc", "h_calloc"),
            ("realloc", "h_realloc"),
            ("memalign", "h_memalign"),
            ("malloc_usable_size", "h_malloc_usable_size"),
            ("free", "h_free"),
            ("free_sized", "h_free_sized"),
            ("free_aligned_sized", "h_free_aligned_sized"),
        ],
        glue: &[HANDLERS],
        malloc_conf: &[],
        redirects: HARDENED_MALLOC_REDIRECTS,
        interface: &[],
        executable: NOTHING_MORE,
        // The package's script sets the first to false.
        preload: Additions {
            compiler_flags: &["-UCONFIG_STATS", "-DCONFIG_STATS=true"],
            glue: &[
                FORK_HANDLERS,
                Glue {
                    name: "hardened_malloc",
                    source: include_str!("../../glue/hardened_malloc.c"),
                },
            ],
            redirects: &[("getrandom", "__reheap_getrandom")],
        },
        graft: Err("its locks need handlers around a fork, and a finished program calls none"),
        builds_slowly: false,
    }
}

/// Everything that jemalloc(3) documents beside the family, as distributions' libraries export it. Programs look for
/// `mallctl` to learn whether jemalloc is there, and folly and RocksDB for ten of these. A program that is linked with
/// such a library would otherwise get one jemalloc's blocks from `mallocx`, and give them to another's `free`.
const JEMALLOC_INTERFACE: &[&str] = &[
    "mallctl",
    "mallctlnametomib",
    "mallctlbymib",
    "malloc_stats_print",
    "mallocx",
    "rallocx",
    "xallocx",
    "sallocx",
    "dallocx",
    "sdallocx",
    "nallocx",
];

pub(super) const JEMALLOC: Recipe = Recipe {
    package: Code::Package(Package {
        name: "tikv-jemalloc-sys",
        version: "0.7.1+5.3.1-0-g81034ce1f1373e37dc865038e1bc8eeecf559ce8",
        feature: "jemalloc",
        library: "lib/libjemalloc_pic.a",
        evidence: Evidence {
            present: &[
                "5.3.1-0-|g81034ce1f1373e37dc865038e1bc8eeecf559ce8",
                "<jemall|oc>: ",
            ],
            absent: &["Failed assertion"],
            version_line: (
                "Cargo.toml",
                "version = \"0.7.1+5.3.1-0-g81034ce1f1373e37dc865038e1bc8eeecf559ce8\"",
            ),
        },
    }),
    needs_cxx: false,
    needs_make: true,
    compiler_flags: &[],
    entry_points: &[],
    glue: &[HANDLERS, ARENAS, GROWN, GROWN_FREE, ARENAS_AT_REST],
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
        ("_rjem_je_pa_dalloc", "__reheap_pa_dalloc"),
        ("_rjem_je_pa_shrink", "__reheap_pa_shrink"),
    ],
    interface: JEMALLOC_INTERFACE,
    executable: NOTHING_MORE,
    preload: Additions {
        compiler_flags: &[],
        glue: &[
            FORK_HANDLERS,
            CLOCK,
            ENVIRONMENT,
            Glue {
                name: "jemalloc",
                source: include_str!("../../glue/jemalloc.c"),
            },
            Glue {
                name: "grown_jemalloc",
                source: concat!(
                    include_str!("../../glue/grown.h"),
                    include_str!("../../glue/grown_jemalloc.c")
                ),
            },
            Glue {
                name: "usage",
                source: concat!(
                    include_str!("../../glue/grown.h"),
                    include_str!("../../glue/usage_jemalloc.c")
                ),
            },
        ],
        redirects: &[
            CLOCK_REDIRECTS[0],
            ("pthread_cond_init", "__reheap_cond_init"),
            ("secure_getenv", "__reheap_secure_getenv"),
        ],
    },
    graft: Err(
        "what it keeps for a thread is in the thread's own memory, and gone when anybody notices that the thread has ended",
    ),
    builds_slowly: true,
};

pub(super) const RPMALLOC: Recipe = Recipe {
    package: Code::Package(Package {
        name: "rpmalloc-sys",
        version: "0.2.3+b097fd0",
        feature: "rpmalloc",
        library: "librpmalloc.a",
        evidence: Evidence {
            present: &["rpmalloc_thread_initialize"],
            absent: &["pthread_create", "dlsym", "Memory corruption detected"],
            version_line: ("rpmalloc/CHANGELOG", "1.4.3"),
        },
    }),
    needs_cxx: false,
    needs_make: false,
    compiler_flags: &[],
    entry_points: &[],
    glue: &[
        GROWN,
        Glue {
            name: "rpmalloc",
            source: concat!(
                include_str!("../../glue/grown.h"),
                include_str!("../../glue/gate.c"),
                include_str!("../../glue/rpmalloc.c")
            ),
        },
    ],
    malloc_conf: &[],
    redirects: &[("mmap", "__reheap_mmap"), ("memset", "__reheap_clear")],
    interface: &[],
    executable: NOTHING_MORE,
    preload: Additions {
        glue: &[FORK_HANDLERS],
        redirects: &[("munmap", "__reheap_munmap")],
        ..NOTHING_MORE
    },
    graft: Err("it is not adapted to programs whose libc does not tell it when a thread ends"),
    builds_slowly: false,
};
