//! How to recognise each allocator: one row for each.
//!
//! Symbols are certain, but strip removes them, and the names by which programs call an allocator are not its own: tools
//! that look on define `mi_malloc`, and so do wrappers around malloc. Strings and tables survive. So each row has those of the allocator's
//! own code, such as the text of an error message, and none of its documentation or its callers: programs that merely
//! set an environment variable contain its name too. Any program may contain the same texts and tables, so these are
//! never certain. Where code can show it, `code` has more.
//!
//! A program that contains this module must not look like a program with every allocator in it. So no pattern is stored
//! as it is: see `masked`.
//!
//! To add an allocator, add a row; the test `every_pattern_is_found_by_itself` then covers it. Put every name that can
//! be at the same address as `malloc` into `entry_points`, because that address shows who provides malloc.

use super::masked::{Masked, masked};
use aho_corasick::{AhoCorasick, Input, Match, MatchKind, packed};
use std::collections::HashMap;
use std::sync::LazyLock;

/// How to recognise one allocator.
#[derive(Debug)]
pub(super) struct Signature {
    /// The name that reheap gives it.
    pub(super) allocator: &'static str,
    /// It is a libc's own.
    pub(super) is_stock: bool,
    /// Names of functions that are the allocator's `malloc` itself.
    pub(super) entry_points: &'static [&'static str],
    /// Names that only this allocator defines.
    pub(super) symbols: &'static [&'static str],
    /// Names by which programs call it. Others define them too, so they show it only beside something else of it.
    pub(super) interface: &'static [&'static str],
    /// Beginnings of names that only this allocator defines, such as a C++ namespace.
    pub(super) symbol_prefixes: &'static [&'static str],
    /// Texts in its code.
    pub(super) strings: &'static [&'static [u8]],
    /// Beginnings of the file names of its shared library.
    pub(super) libraries: &'static [&'static str],
    /// Clues to the version or variant.
    pub(super) details: &'static [(Clue, Detail)],
}

/// Something to look for besides the signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clue {
    Symbol(&'static str),
    Text(&'static [u8]),
}

/// What a clue tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    MajorVersion(&'static str),
    Variant(&'static str),
    /// It was built with names of its own, so none of its functions is called `malloc`.
    NamesOfItsOwn,
}

const NONE: Signature = Signature {
    allocator: "",
    is_stock: false,
    entry_points: &[],
    symbols: &[],
    interface: &[],
    symbol_prefixes: &[],
    strings: &[],
    libraries: &[],
    details: &[],
};

pub(super) const MALLOCNG: &str = "musl-mallocng";
pub(super) const OLDMALLOC: &str = "musl-oldmalloc";
pub(super) const BUMP: &str = "musl-bump";
pub(super) const GLIBC: &str = "glibc";
pub(super) const GO: &str = "go-runtime";
pub(super) const RPMALLOC: &str = "rpmalloc";
/// The variant of a build that checks itself.
pub(super) const DEBUG: &str = "debug";
/// hardened_malloc's own name for the build that is not light.
pub(super) const DEFAULT: &str = "default";

/// Names under which a musl libc has its own `malloc`, depending on its version.
const MUSL_MALLOC: &[&str] = &[
    "default_malloc",
    "__libc_malloc_impl",
    "__libc_malloc",
    "__simple_malloc",
];

pub(super) static SIGNATURES: &[Signature] = &[
    Signature {
        allocator: MALLOCNG,
        is_stock: true,
        entry_points: MUSL_MALLOC,
        symbols: &[
            "__malloc_context",
            "__malloc_size_classes",
            "__malloc_alloc_meta",
            "__malloc_allzerop",
        ],
        ..NONE
    },
    Signature {
        allocator: OLDMALLOC,
        is_stock: true,
        entry_points: MUSL_MALLOC,
        symbols: &["__bin_chunk"],
        ..NONE
    },
    // musl links this one if nothing frees. Beside a real allocator, it is unused.
    Signature {
        allocator: BUMP,
        is_stock: true,
        entry_points: MUSL_MALLOC,
        symbols: &["__simple_malloc"],
        ..NONE
    },
    Signature {
        allocator: GLIBC,
        is_stock: true,
        entry_points: &["__libc_malloc", "__malloc"],
        symbols: &["_int_malloc", "_int_free", "ptmalloc_init"],
        strings: &[
            masked!(b"free(): invalid next size (fast)"),
            masked!(b"malloc(): corrupted top size"),
            masked!(b"malloc(): memory corruption (fast)"),
        ],
        ..NONE
    },
    Signature {
        allocator: "mimalloc",
        entry_points: &["mi_malloc", "mi_new"],
        symbols: &["mi_version", "_mi_malloc_generic", "mi_process_init"],
        interface: &["mi_malloc", "mi_free", "mi_heap_malloc"],
        strings: &[
            masked!(b"mimalloc: warning: "),
            masked!(b"environment option mimalloc_%s has an invalid value"),
        ],
        libraries: &["libmimalloc"],
        details: &[
            (Clue::Symbol("mi_theap_malloc"), Detail::MajorVersion("3")),
            (
                Clue::Text(masked!(b"internal error: unable to extend the page map")),
                Detail::MajorVersion("3"),
            ),
            (
                Clue::Symbol("_mi_segment_page_alloc"),
                Detail::MajorVersion("2"),
            ),
            (
                Clue::Text(masked!(b"commit mask overflow: idx=")),
                Detail::MajorVersion("2"),
            ),
            (
                Clue::Text(masked!(b"maximum regions used: %zu GiB")),
                Detail::MajorVersion("1"),
            ),
            (
                Clue::Symbol("mi_page_free_list_extend_secure"),
                Detail::Variant("secure"),
            ),
            (
                Clue::Text(masked!(b"double free detected of block %p with size %zu")),
                Detail::Variant("secure"),
            ),
            // A debug build has the checks of the secure one, but not its promises.
            (
                Clue::Text(masked!(b"mimalloc: assertion failed: at")),
                Detail::Variant(DEBUG),
            ),
        ],
        ..NONE
    },
    Signature {
        allocator: "jemalloc",
        entry_points: &["je_malloc", "_rjem_malloc", "jemalloc", "je_malloc_default"],
        symbols: &["jemalloc_constructor"],
        interface: &["mallctl", "_rjem_mallctl", "je_mallctl", "_rjem_malloc"],
        symbol_prefixes: &["_rjem_je_", "je_arena_", "je_tcache_"],
        strings: &[masked!(b"<jemalloc>: ")],
        libraries: &["libjemalloc"],
        details: &[
            (
                Clue::Text(masked!(b"_RJEM_MALLOC_CONF")),
                Detail::NamesOfItsOwn,
            ),
            (
                Clue::Text(masked!(b"/etc/_rjem_malloc.conf")),
                Detail::NamesOfItsOwn,
            ),
        ],
        ..NONE
    },
    // Firefox's, derived from jemalloc long ago, with another interface.
    Signature {
        allocator: "mozjemalloc",
        symbols: &["jemalloc_thread_local_arena", "jemalloc_ptr_info"],
        interface: &["moz_arena_malloc"],
        ..NONE
    },
    Signature {
        allocator: "tcmalloc",
        entry_points: &[
            "tc_malloc",
            "tc_new",
            "TCMallocInternalMalloc",
            "TCMallocInternalNew",
        ],
        symbols: &[
            "tc_version",
            "TCMallocInternalMalloc",
            "MallocExtension_GetNumericProperty",
        ],
        interface: &["tc_malloc"],
        // Google's, then those of gperftools; its profiler has other parts of that namespace.
        symbol_prefixes: &[
            "_ZN8tcmalloc17tcmalloc_internal",
            "_ZN8tcmalloc15CentralFreeList",
            "_ZN8tcmalloc11ThreadCache",
        ],
        strings: &[
            masked!(b"tcmalloc: large alloc "),
            masked!(b"TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES"),
        ],
        libraries: &["libtcmalloc"],
        ..NONE
    },
    Signature {
        allocator: RPMALLOC,
        entry_points: &["rpmalloc"],
        symbols: &["rpmalloc_initialize"],
        interface: &["rpmalloc", "rpfree"],
        libraries: &["librpmalloc"],
        ..NONE
    },
    Signature {
        allocator: "snmalloc",
        entry_points: &["sn_malloc", "__sn_malloc"],
        symbols: &["sn_rust_alloc"],
        interface: &["sn_malloc"],
        symbol_prefixes: &["_ZN8snmalloc", "_ZNK8snmalloc"],
        strings: &[
            masked!(b"Failed to initialise snmalloc."),
            masked!(b"Critical error: double use of Pooled Type!"),
        ],
        libraries: &["libsnmalloc"],
        // Upstream's checks have no texts in a release build; this one is of reheap's glue.
        details: &[(
            Clue::Text(masked!(b"snmalloc: the heap is corrupted")),
            Detail::Variant("checks"),
        )],
        ..NONE
    },
    Signature {
        allocator: "scudo",
        symbols: &["__scudo_print_stats", "__scudo_get_stack_depot_addr"],
        symbol_prefixes: &["_ZN5scudo"],
        strings: &[masked!(b"Scudo ERROR: ")],
        libraries: &["libscudo", "libclang_rt.scudo"],
        ..NONE
    },
    Signature {
        allocator: "hardened_malloc",
        entry_points: &["h_malloc"],
        symbols: &["h_malloc_object_size", "malloc_object_size_fast"],
        interface: &["h_malloc"],
        strings: &[
            masked!(b"fatal allocator error: "),
            masked!(b"invalid uninitialized allocator usage"),
            masked!(b"failed to unprotect memory for regions table"),
        ],
        libraries: &["libhardened_malloc"],
        // The light build has no quarantine for small blocks, and so not this text.
        details: &[(
            Clue::Text(masked!(b"double free (quarantine)")),
            Detail::Variant(DEFAULT),
        )],
        ..NONE
    },
    Signature {
        allocator: "partition_alloc",
        symbol_prefixes: &["_ZN15partition_alloc", "_ZNK15partition_alloc"],
        strings: &[masked!(b"partition_alloc/allocated_objects")],
        ..NONE
    },
    Signature {
        allocator: "tbbmalloc",
        entry_points: &["scalable_malloc", "__TBB_malloc_proxy"],
        // The last is in the library that puts it in the place of malloc.
        symbols: &[
            "scalable_allocation_mode",
            "__TBB_malloc_safer_free",
            "__TBB_malloc_proxy",
        ],
        interface: &["scalable_malloc", "scalable_free"],
        libraries: &["libtbbmalloc_proxy"],
        ..NONE
    },
    Signature {
        allocator: "memory-profiler",
        symbols: &["__memprof_init"],
        libraries: &["libclang_rt.memprof"],
        ..NONE
    },
    Signature {
        allocator: "address-sanitizer",
        symbols: &["__asan_init", "__hwasan_init"],
        libraries: &[
            "libasan",
            "libhwasan",
            "libclang_rt.asan",
            "libclang_rt.hwasan",
        ],
        ..NONE
    },
    Signature {
        allocator: "thread-sanitizer",
        symbols: &["__tsan_init"],
        libraries: &["libtsan", "libclang_rt.tsan"],
        ..NONE
    },
    Signature {
        allocator: "memory-sanitizer",
        symbols: &["__msan_init"],
        libraries: &["libclang_rt.msan"],
        ..NONE
    },
    Signature {
        allocator: GO,
        symbols: &["runtime.mallocgc"],
        ..NONE
    },
];

/// The row for an allocator by its name there or in the catalogue, where `mimalloc-secure` is a name of its own.
pub(super) fn row_of(allocator: &str) -> Option<&'static str> {
    let names = SIGNATURES.iter().map(|row| row.allocator);
    names
        .filter(|name| allocator.starts_with(name))
        .max_by_key(|name| name.len())
}

/// The row of that name.
pub(super) fn signature(allocator: &str) -> &'static Signature {
    SIGNATURES
        .iter()
        .find(|row| row.allocator == allocator)
        .unwrap_or_else(|| panic!("`{allocator}` is not in the table of signatures"))
}

/// A symbol as the table of signatures knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SymbolMeaning {
    /// Shows that the allocator is there.
    Signature(&'static str),
    /// Is of the allocator or of something that looks like it.
    Interface(&'static str),
    Detail(&'static str, Detail),
}

/// The beginning of an allocator's symbols.
struct Prefix {
    /// Its first bytes, which a processor compares at once: a large program has half a million symbols.
    head: [u8; 8],
    rest: &'static [u8],
    allocator: &'static str,
}

static PREFIXES: LazyLock<Vec<Prefix>> = LazyLock::new(|| {
    let of_row = |row: &'static Signature| {
        row.symbol_prefixes.iter().map(|prefix| {
            let split = prefix.as_bytes().split_first_chunk();
            let (head, rest) = split.expect("all prefixes have more than eight bytes");
            Prefix {
                head: *head,
                rest,
                allocator: row.allocator,
            }
        })
    };
    SIGNATURES.iter().flat_map(of_row).collect()
});

/// The allocator whose symbols begin like this one.
fn allocator_of_prefix(symbol: &[u8]) -> Option<&'static str> {
    let (head, rest) = symbol.split_first_chunk()?;
    let is_beginning = |prefix: &&Prefix| prefix.head == *head && rest.starts_with(prefix.rest);
    let prefix = PREFIXES.iter().find(is_beginning)?;
    Some(prefix.allocator)
}

static MEANINGS: LazyLock<HashMap<&'static [u8], Vec<SymbolMeaning>>> = LazyLock::new(|| {
    let mut meanings: HashMap<&[u8], Vec<_>> = HashMap::new();
    for row in SIGNATURES {
        for symbol in row.symbols {
            let meaning = SymbolMeaning::Signature(row.allocator);
            meanings.entry(symbol.as_bytes()).or_default().push(meaning);
        }
        for symbol in row.interface {
            let meaning = SymbolMeaning::Interface(row.allocator);
            meanings.entry(symbol.as_bytes()).or_default().push(meaning);
        }
        for (clue, detail) in row.details {
            if let Clue::Symbol(symbol) = clue {
                let meaning = SymbolMeaning::Detail(row.allocator, *detail);
                meanings.entry(symbol.as_bytes()).or_default().push(meaning);
            }
        }
    }
    meanings
});

/// The name without the prefix that reheap puts in front of the symbols of an allocator in a derived libc.
pub(super) fn own_name(symbol: &[u8]) -> &[u8] {
    symbol.strip_prefix(b"__reheap_").unwrap_or(symbol)
}

/// What a defined symbol tells about the allocators in a file.
pub(super) fn meanings_of_symbol(symbol: &[u8]) -> Vec<SymbolMeaning> {
    let symbol = own_name(symbol);
    if let Some(meanings) = MEANINGS.get(symbol) {
        return meanings.clone();
    }
    let allocator = allocator_of_prefix(symbol);
    allocator
        .map(SymbolMeaning::Signature)
        .into_iter()
        .collect()
}

/// The names of symbols that tell anything, without the prefixes of others.
pub(super) fn telling_names() -> impl Iterator<Item = &'static [u8]> {
    let entry_points = SIGNATURES
        .iter()
        .flat_map(|row| row.entry_points)
        .map(|name| name.as_bytes());
    MEANINGS.keys().copied().chain(entry_points)
}

/// Whether a symbol begins as only those of one allocator do.
pub(super) fn has_telling_prefix(symbol: &[u8]) -> bool {
    allocator_of_prefix(symbol).is_some()
}

/// The names of all allocators that can be recognised.
pub fn allocators() -> impl Iterator<Item = &'static str> {
    SIGNATURES.iter().map(|row| row.allocator)
}

/// The allocator whose shared library has that file name.
pub fn allocator_of_library(file_name: &str) -> Option<&'static str> {
    SIGNATURES
        .iter()
        .find(|row| {
            row.libraries
                .iter()
                .any(|library| file_name.starts_with(library))
        })
        .map(|row| row.allocator)
}

/// Something to search for in the memory image of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pattern {
    /// A text of the allocator.
    Text(&'static str),
    /// A table of numbers that the allocator works with.
    Table(&'static str, &'static str),
    /// What narrows down the version or variant.
    Detail(&'static str, Detail),
    /// Is in every program that Go links; a version follows.
    GoBuildInfo,
    /// In the table of function names, which Go's runtime itself needs.
    GoFunction,
    /// The end of a jemalloc version: `-0-g` between `5.3.0` and a commit.
    JemallocVersion,
    /// A version of gperftools follows.
    Gperftools,
    /// Text of a libc's code; the libc's name.
    Libc(&'static str),
    /// The banner of glibc; a version follows.
    GlibcBanner,
    /// Where a Rust standard library was built.
    RustLibrary,
    /// What rpmalloc reads the size of huge pages by.
    HugePageSize,
    /// The file is packed and unpacks itself when it runs.
    Upx,
}

/// One search for all patterns, because a file can be a hundred megabytes.
pub(super) struct Search {
    searcher: Searcher,
    patterns: Vec<Pattern>,
}

enum Searcher {
    /// Many bytes at once.
    Vectors(packed::Searcher),
    /// For processors without the instructions for that.
    Automaton(AhoCorasick),
}

/// The search for all patterns.
pub(super) fn search() -> &'static Search {
    static SEARCH: LazyLock<Search> = LazyLock::new(|| {
        let with_vectors = Searcher::with_vectors();
        Search::by(with_vectors.unwrap_or_else(Searcher::automaton))
    });
    &SEARCH
}

impl Searcher {
    fn with_vectors() -> Option<Self> {
        let searcher = packed::Config::new()
            .match_kind(packed::MatchKind::LeftmostFirst)
            .heuristic_pattern_limits(false)
            .builder()
            .extend(patterns().into_iter().map(|(bytes, _)| bytes))
            .build();
        searcher.map(Self::Vectors)
    }

    fn automaton() -> Self {
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostFirst)
            .build(patterns().into_iter().map(|(bytes, _)| bytes));
        Self::Automaton(automaton.unwrap_or_else(|error| {
            panic!("some dozen short patterns are within all limits: {error}")
        }))
    }

    fn next(&self, bytes: &[u8], start: usize) -> Option<Match> {
        let rest = Input::new(bytes).range(start.min(bytes.len())..);
        match self {
            Self::Vectors(searcher) => searcher.find_in(bytes, rest.get_span()),
            Self::Automaton(automaton) => automaton.find(rest),
        }
    }
}

impl Search {
    fn by(searcher: Searcher) -> Self {
        let patterns = patterns().into_iter().map(|(_, pattern)| pattern);
        Self {
            searcher,
            patterns: patterns.collect(),
        }
    }

    /// Every pattern in the bytes that begins at `start` or behind it, with its place, in order.
    pub(super) fn all<'bytes>(
        &'bytes self,
        masked: &'bytes Masked,
        mut start: usize,
    ) -> impl Iterator<Item = (Pattern, std::ops::Range<usize>)> + 'bytes {
        std::iter::from_fn(move || {
            let found = self.searcher.next(masked.bytes(), start)?;
            start = found.end();
            Some((self.patterns[found.pattern().as_usize()], found.range()))
        })
    }
}

fn patterns() -> Vec<(&'static [u8], Pattern)> {
    let mut patterns = OTHER_PATTERNS.to_vec();
    for row in SIGNATURES {
        for text in row.strings {
            patterns.push((*text, Pattern::Text(row.allocator)));
        }
        for (clue, detail) in row.details {
            if let Clue::Text(text) = clue {
                patterns.push((*text, Pattern::Detail(row.allocator, *detail)));
            }
        }
    }
    patterns
}

static OTHER_PATTERNS: &[(&[u8], Pattern)] = &[
    (
        masked!(&mallocng_size_classes(Order::LittleEndian)),
        SIZE_CLASSES,
    ),
    (
        masked!(&mallocng_size_classes(Order::BigEndian)),
        SIZE_CLASSES,
    ),
    (
        masked!(&oldmalloc_bins()),
        Pattern::Table(OLDMALLOC, "the table of bins"),
    ),
    (masked!(b"-0-g"), Pattern::JemallocVersion),
    (masked!(b"gperftools 2."), Pattern::Gperftools),
    (masked!(b"GNU C Library ("), Pattern::GlibcBanner),
    (masked!(b"Fatal glibc error: "), Pattern::Libc("glibc")),
    (masked!(b"GLIBC_TUNABLES"), Pattern::Libc("glibc")),
    (masked!(b"No error information"), Pattern::Libc("musl")),
    (masked!(b"-0X+0X 0X-0x+0x 0x"), Pattern::Libc("musl")),
    (masked!(b"/rustc/"), Pattern::RustLibrary),
    (masked!(b"Hugepagesize:"), Pattern::HugePageSize),
    (
        masked!(b"$Info: This file is packed with the UPX"),
        Pattern::Upx,
    ),
    (masked!(b"\xff Go buildinf:"), Pattern::GoBuildInfo),
    (masked!(b"runtime.mallocinit"), Pattern::GoFunction),
];

const SIZE_CLASSES: Pattern = Pattern::Table(MALLOCNG, "the table of size classes");

/// Which byte of a number comes first.
enum Order {
    LittleEndian,
    BigEndian,
}

/// mallocng's `__malloc_size_classes` (musl `src/malloc/mallocng/malloc.c`, the same since 1.2.1).
const fn mallocng_size_classes(order: Order) -> [u8; 96] {
    const CLASSES: [u16; 48] = [
        1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 18, 20, 25, 31, 36, 42, 50, 63, 72, 84, 102, 127,
        146, 170, 204, 255, 292, 340, 409, 511, 584, 682, 818, 1023, 1169, 1364, 1637, 2047, 2340,
        2730, 3276, 4095, 4680, 5460, 6552, 8191,
    ];
    let mut bytes = [0; 96];
    let mut index = 0;
    while index < CLASSES.len() {
        let [first, second] = match order {
            Order::LittleEndian => CLASSES[index].to_le_bytes(),
            Order::BigEndian => CLASSES[index].to_be_bytes(),
        };
        bytes[2 * index] = first;
        bytes[2 * index + 1] = second;
        index += 1;
    }
    bytes
}

/// The old malloc's `bin_tab` (musl `src/malloc/malloc.c` up to 1.2.0, `oldmalloc/malloc.c` since): the bins of sizes
/// from 4 to 63 units. Each power of two has four of them.
const fn oldmalloc_bins() -> [u8; 60] {
    let mut bins = [0; 60];
    let mut units = 4_usize;
    while units < 64 {
        let power = units.ilog2();
        let quarter = (units << 2 >> power) & 3;
        bins[units - 4] = 32 + 4 * (power as u8 - 2) + quarter as u8;
        units += 1;
    }
    bins
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_is_found_by_itself() {
        for (bytes, pattern) in patterns() {
            let plain = Masked::of(bytes); // masking twice changes nothing
            let text = [b"before\0", plain.bytes(), b"\0after"].concat();
            let searchers = Searcher::with_vectors().into_iter();
            for searcher in searchers.chain([Searcher::automaton()]) {
                let search = Search::by(searcher);
                let found: Vec<_> = search.all(&Masked::of(&text), 0).collect();
                assert_eq!(found, [(pattern, 7..7 + bytes.len())]);
            }
        }
    }

    /// The search goes on behind a match, so a pattern inside another one would never be found there.
    #[test]
    fn no_pattern_is_part_of_another() {
        let patterns = patterns();
        for (inner, pattern) in &patterns {
            let outer = patterns.iter().filter(|(outer, _)| outer != inner);
            let mut containing =
                outer.filter(|(outer, _)| outer.windows(inner.len()).any(|part| part == *inner));
            assert!(containing.next().is_none(), "{pattern:?}");
        }
    }

    #[test]
    fn symbols_are_known_under_the_prefix_of_a_derived_libc_too() {
        let mimalloc = [SymbolMeaning::Interface("mimalloc")];
        assert_eq!(meanings_of_symbol(b"mi_malloc"), mimalloc);
        assert_eq!(meanings_of_symbol(b"__reheap_mi_malloc"), mimalloc);
        assert_eq!(
            meanings_of_symbol(b"_ZN8snmalloc5alloc"),
            [SymbolMeaning::Signature("snmalloc")]
        );
        assert_eq!(meanings_of_symbol(b"malloc"), []);
    }

    #[test]
    fn names_of_the_catalogue_lead_to_the_row_of_their_allocator() {
        assert_eq!(row_of("mimalloc-secure"), Some("mimalloc"));
        assert_eq!(row_of("musl-mallocng"), Some(MALLOCNG));
        assert_eq!(row_of("unheard-of"), None);
    }
}
