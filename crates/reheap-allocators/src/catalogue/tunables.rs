//! The options of the allocators of the catalogue, with what was measured of their presets.

use crate::options::{Applied, Domain, TuningOption};

pub(super) const PURGE_DELAY: TuningOption = TuningOption {
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
pub(super) const MIMALLOC_HUGE_PAGES: TuningOption = TuningOption {
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
///
/// reheap makes it give memory back by amount, too, up to this preset (`glue/at_rest.c`).
pub(super) const MIMALLOC_2_SECURE_TUNING: &[TuningOption] = &[
    TuningOption {
        preset: Some("100"),
        summary: "how long to keep freed memory, if it is little; 0: none, above 100: however much, -1: for ever",
        ..PURGE_DELAY
    },
    MIMALLOC_HUGE_PAGES,
    MIMALLOC_GUARD_PAGES,
];

/// Both versions can put a guard page behind one in so many blocks (`MI_GUARDED`).
pub(super) const MIMALLOC_GUARD_PAGES: TuningOption = TuningOption {
    key: "guard_pages",
    domain: Domain::Count {
        least: 0,
        most: 1_000_000_000,
    },
    applied: Applied::Environment("MIMALLOC_GUARDED_SAMPLE_RATE"),
    preset: Some("0"),
    summary: "put a guard page behind one in so many blocks; 0: behind none",
    worth_trying: &[],
};

/// mimalloc 3 gives memory back after the delay itself, which is 1 s with upstream's default. In `json` that means 2.8
/// times glibc's peak memory. With 250 ms it is a fifth less, in no measurably different time. With 100 ms the memory is
/// the same, and `json` needs 7 % more time than with 1 s (24 rounds).
pub(super) const MIMALLOC_3_SECURE_TUNING: &[TuningOption] = &[
    TuningOption {
        preset: Some("250"),
        ..PURGE_DELAY
    },
    MIMALLOC_HUGE_PAGES,
    MIMALLOC_GUARD_PAGES,
];

/// Options of glibc's own allocator (glibc manual, "Memory Allocation Tunables"). musl's has none.
pub(super) const GLIBC_TUNING: &[TuningOption] = &[
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
    // `check` is 3: say what is wrong, and abort. `perturb` fills new and freed blocks with this byte or its complement,
    // but none that the cache of a thread hands out or takes.
    TuningOption {
        key: "debug",
        domain: Domain::OneOf(&[
            ("check", "glibc.malloc.check=3"),
            (
                "perturb",
                "glibc.malloc.perturb=85:glibc.malloc.tcache_count=0",
            ),
            (
                "full",
                "glibc.malloc.check=3:glibc.malloc.perturb=85:glibc.malloc.tcache_count=0",
            ),
            ("tagging", "glibc.mem.tagging=3"),
        ]),
        applied: Applied::GlibcTunables,
        preset: None,
        summary: "glibc's own debugging: check each call, fill blocks with a pattern, both, or tag memory (AArch64 MTE)",
        worth_trying: &[],
    },
];

pub(super) const MIMALLOC_2_TUNING: &[TuningOption] = MIMALLOC_2_SECURE_TUNING.split_at(2).0;
pub(super) const MIMALLOC_3_TUNING: &[TuningOption] = MIMALLOC_3_SECURE_TUNING.split_at(2).0;

pub(super) const JEMALLOC_TUNING: &[TuningOption] = &[
    TuningOption {
        key: "dirty_decay_ms",
        domain: Domain::Milliseconds { never: true },
        applied: Applied::MallocConf("dirty_decay_ms"),
        preset: None,
        summary: "how long to keep unused dirty pages, if they are few; 0: none, above 10000: however many, -1: for ever",
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
    TuningOption {
        key: "guard_pages",
        domain: Domain::Count {
            least: 0,
            most: 1_000_000_000,
        },
        applied: Applied::MallocConf("san_guard_large"),
        preset: None,
        summary: "put guard pages around one in so many blocks of 16 KiB or more; 0: around none",
        worth_trying: &[],
    },
    TuningOption {
        key: "zero",
        domain: Domain::OneOf(&[("off", "false"), ("on", "true")]),
        applied: Applied::MallocConf("zero"),
        preset: None,
        summary: "whether to clear new blocks, so that no old data shows in them",
        worth_trying: &[],
    },
    TuningOption {
        key: "junk",
        domain: Domain::OneOf(&[
            ("off", "false"),
            ("alloc", "alloc"),
            ("free", "free"),
            ("on", "true"),
        ]),
        applied: Applied::MallocConf("junk"),
        preset: None,
        summary: "whether to fill blocks with a pattern when they are allocated or freed",
        worth_trying: &[],
    },
];
