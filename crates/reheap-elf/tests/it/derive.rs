//! Derived libcs made from real ones: what is taken out, what stays, what programs see that are linked with them.

use crate::common;
use crate::common::{
    ARCH, TINY, Workshop, derived_from, directory_of_debian, libc_of_debian, libc_of_rust, marker,
};
use reheap_elf::archive::{self, Member};
use reheap_elf::derive::{DerivedLibc, derive_libc, read_original};
use reheap_elf::family;
use reheap_elf::marker::{self as note, FoundMarker};
use reheap_elf::symbols::{self, Role, Symbol};
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// The members of mallocng and what only they need, in the order of the archive (musl 1.2.2 to 1.2.5).
const MALLOCNG: &str = "\
aligned_alloc.lo calloc.lo donate.lo free.lo free.lo libc_calloc.lo lite_malloc.lo malloc.lo malloc_usable_size.lo \
memalign.lo posix_memalign.lo realloc.lo realloc.lo reallocarray.lo replaced.lo valloc.lo";

static DEBIAN: LazyLock<DerivedLibc> = LazyLock::new(|| derived_from(&libc_of_debian()));
static RUST: LazyLock<DerivedLibc> = LazyLock::new(|| derived_from(&libc_of_rust()));

/// The two libcs that are on every machine that builds reheap: the original and what was derived from it.
fn both() -> [(&'static str, Vec<u8>, &'static DerivedLibc); 2] {
    [
        ("Debian's", libc_of_debian(), &DEBIAN),
        ("Rust's", libc_of_rust(), &RUST),
    ]
}

fn global_symbols(members: &[Member]) -> Vec<(String, Symbol)> {
    members
        .iter()
        .flat_map(|m| {
            let (_, symbols) = symbols::read(&m.data).unwrap();
            symbols.into_iter().map(|s| (m.name.clone(), s))
        })
        .collect()
}

/// A directory in which programs are linked with a derived libc.
fn linking_with(derived: &DerivedLibc) -> Workshop {
    let workshop = Workshop::new();
    workshop.write("libc.a", &derived.bytes);
    workshop
}

fn marker_in(workshop: &Workshop, file: &str) -> FoundMarker {
    note::read(&workshop.read(file))
        .unwrap()
        .unwrap_or_else(|| panic!("`{file}` has no marker"))
}

#[test]
fn exactly_the_members_of_mallocng_are_taken_out() {
    for (whose, _, derived) in both() {
        let mut taken_out = derived.taken_out.clone();
        taken_out.sort(); // Rust's libc.a is sorted otherwise than Debian's
        assert_eq!(taken_out.join(" "), MALLOCNG, "{whose}");
    }
}

#[test]
fn every_other_member_stays_byte_for_byte_and_in_order() {
    for (whose, original, derived) in both() {
        let mut before = archive::read(&original).unwrap();
        let after = archive::read(&derived.bytes).unwrap();
        let (kept, put_in) = after.split_at(after.len() - derived.put_in.len());
        let names: Vec<&str> = put_in.iter().map(|m| m.name.as_str()).collect();
        assert_eq!(names, derived.put_in, "{whose}");
        // What is not there any more is what is said to be taken out, no more and no less.
        let mut remaining = kept.iter().peekable();
        before.retain(|member| remaining.next_if(|kept| **kept == *member).is_none());
        assert!(
            remaining.next().is_none(),
            "{whose}: a member was changed or moved"
        );
        let gone: Vec<&str> = before.iter().map(|m| m.name.as_str()).collect();
        assert_eq!(gone, derived.taken_out, "{whose}");
    }
}

#[test]
fn the_archiver_of_the_system_lists_the_same_members_and_finds_the_symbols() {
    let workshop = linking_with(&DEBIAN);
    let members = archive::read(&DEBIAN.bytes).unwrap();
    let names: Vec<&str> = members.iter().map(|m| m.name.as_str()).collect();
    let listed = workshop.run("ar t libc.a");
    assert_eq!(listed.lines().collect::<Vec<_>>(), names);
    let index = workshop.run("nm --print-armap libc.a");
    for symbol in [
        "malloc in reheap-0-tiny.o",
        "printf in printf.lo",
        "__reheap_marker in reheap-marker.o",
    ] {
        assert!(
            index.lines().any(|line| line == symbol),
            "`{symbol}` is not in the index"
        );
    }
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    for (whose, original, derived) in both() {
        assert!(derived_from(&original).bytes == derived.bytes, "{whose}");
    }
}

#[test]
fn the_public_names_are_weak_and_stand_once() {
    for (whose, _, derived) in both() {
        let symbols = global_symbols(&archive::read(&derived.bytes).unwrap());
        for function in family::PUBLIC.iter().filter(|f| !f.starts_with("free_")) {
            let definitions: Vec<Role> = symbols
                .iter()
                .filter(|(_, s)| s.name == *function && s.role.is_definition())
                .map(|(_, s)| s.role)
                .collect();
            assert_eq!(definitions, [Role::Weak], "{whose} {function}");
        }
        for function in family::LIBC_INTERNAL {
            let definitions: Vec<&Symbol> = symbols
                .iter()
                .map(|(_, s)| s)
                .filter(|s| s.name == function && s.role.is_definition())
                .collect();
            assert_eq!(definitions.len(), 1, "{whose} {function}");
            assert!(
                definitions[0].hidden && definitions[0].role == Role::Strong,
                "{whose} {function}"
            );
        }
    }
}

#[test]
fn every_other_symbol_of_the_allocator_is_prefixed_and_hidden() {
    for (whose, _, derived) in both() {
        let members = archive::read(&derived.bytes).unwrap();
        let put_in: Vec<Member> = members
            .into_iter()
            .filter(|m| derived.put_in.contains(&m.name) && m.name != "environment.o")
            .collect();
        let family: BTreeSet<&str> = family::PUBLIC
            .into_iter()
            .chain(family::LIBC_INTERNAL)
            .collect();
        for (member, symbol) in global_symbols(&put_in) {
            if symbol.role.is_definition() && !family.contains(symbol.name.as_str()) {
                assert!(
                    symbol.name.starts_with(family::PREFIX) && symbol.hidden,
                    "{whose} {member}: {symbol:?}"
                );
            }
        }
    }
}

#[test]
fn a_redirected_function_is_the_glues_and_no_longer_the_libcs() {
    let members = archive::read(&DEBIAN.bytes).unwrap();
    let tiny = members
        .iter()
        .find(|m| m.name == "reheap-0-tiny.o")
        .unwrap();
    let (_, symbols) = symbols::read(&tiny.data).unwrap();
    let needs: Vec<&str> = symbols
        .iter()
        .filter(|s| s.role == Role::Needed)
        .map(|s| s.name.as_str())
        .collect();
    assert!(
        needs.contains(&"__reheap_getenv") && !needs.contains(&"getenv"),
        "{needs:?}"
    );
}

const PROGRAM: &str = r#"
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void) {
    char *text = strdup("block");
    text = realloc(text, 4000);
    void *aligned = aligned_alloc(1024, 1000);
    printf("%s %zu %d\n", text, malloc_usable_size(text), (int)((unsigned long)aligned % 1024));
    free(text);
    free(aligned);
    return calloc(1000, 1000) == NULL;
}
"#;

/// `malloc_usable_size` tells the allocators apart: the tiny one answers with what was asked for, mallocng with more.
const OF_TINY: &str = "block 4000 0\n";

#[test]
fn a_program_runs_on_the_new_allocator_and_carries_the_marker_also_when_stripped() {
    for (whose, _, derived) in both() {
        let workshop = linking_with(derived);
        workshop.write("a.c", PROGRAM);
        workshop.run("musl-gcc -O1 -static a.c -o a -L.");
        assert_eq!(workshop.run("./a"), OF_TINY, "{whose}");
        workshop.run("strip -o stripped a");
        assert_eq!(workshop.run("./stripped"), OF_TINY, "{whose}");
        for file in ["a", "stripped"] {
            let found = marker_in(&workshop, file);
            assert_eq!(found.marker, marker(), "{whose} {file}");
            assert_eq!(found.replaced, [""; 0], "{whose} {file}");
        }
        let symbols = workshop.run("nm a");
        for stock in family::STOCK {
            assert!(
                !symbols.contains(stock),
                "{whose}: `{stock}` of the stock allocator came along"
            );
        }
    }
}

#[test]
fn the_marker_holds_in_a_stripped_static_pie() {
    let workshop = linking_with(&DEBIAN);
    workshop.compile("a", PROGRAM, "");
    let crt = directory_of_debian();
    let crt = crt.display();
    let libgcc = workshop.run("gcc -print-libgcc-file-name");
    workshop.run(&format!(
        "ld -static -pie --no-dynamic-linker -z text -s -o a {crt}/rcrt1.o {crt}/crti.o a.o libc.a {} {crt}/crtn.o",
        libgcc.trim()
    ));
    assert!(
        workshop.run("readelf -hW a").contains("DYN "),
        "it is not position-independent"
    );
    assert_eq!(workshop.run("./a"), OF_TINY);
    let found = marker_in(&workshop, "a");
    assert_eq!((found.marker, found.replaced.len()), (marker(), 0));
}

#[test]
fn baked_in_tuning_reaches_the_allocator() {
    let workshop = linking_with(&DEBIAN);
    workshop.write(
        "a.c",
        "#include <stdio.h>\n#include <stdlib.h>\nextern char *__reheap_getenv(const char *);\n\
         int main(void) { void *p = malloc(1); printf(\"%s %d\", __reheap_getenv(\"TINY_OPTION\"), !p); }",
    );
    workshop.run("musl-gcc -static a.c -o a -L.");
    assert_eq!(workshop.run("./a"), "on 0");
}

#[test]
fn a_program_that_never_allocates_holds_neither_allocator_nor_marker() {
    let workshop = linking_with(&DEBIAN);
    workshop.write("a.c", "int main(void) { return 0; }");
    workshop.run("musl-gcc -static a.c -o a -L.");
    workshop.run("./a");
    assert_eq!(note::read(&workshop.read("a")).unwrap(), None);
}

/// A malloc of the program's own; `newlocale` calls `__libc_malloc` and so brings in that of the libc as well.
const OWN_MALLOC: &str = r#"
#include <locale.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
static _Alignas(16) char heap[1 << 20];
static size_t top, calls;
void *malloc(size_t n) { calls++; void *p = heap + top; top += (n + 15) & -16; return p; }
void free(void *p) { (void)p; }
#ifdef WHOLE_FAMILY
void *calloc(size_t n, size_t m) { return memset(malloc(n * m), 0, n * m); }
void *realloc(void *p, size_t n) { void *q = malloc(n); return p ? memcpy(q, p, n) : q; }
void *aligned_alloc(size_t a, size_t n) { (void)a; return malloc(n); }
void *memalign(size_t a, size_t n) { (void)a; return malloc(n); }
int posix_memalign(void **p, size_t a, size_t n) { (void)a; *p = malloc(n); return 0; }
size_t malloc_usable_size(void *p) { (void)p; return 0; }
#endif
int main(void) {
    locale_t locale = newlocale(LC_ALL_MASK, "de_DE.UTF-8", 0);
    char *text = strdup("own");
    printf("%s %zu %d\n", text, calls, locale != 0);
    freelocale(locale);
}
"#;

#[test]
fn a_program_with_its_own_malloc_keeps_it() {
    for (whose, _, derived) in both() {
        let workshop = linking_with(derived);
        workshop.write("a.c", OWN_MALLOC);
        workshop.run("musl-gcc -static -fno-builtin -DWHOLE_FAMILY a.c -o a -L.");
        assert_eq!(workshop.run("./a"), "own 1 1\n", "{whose}");
        assert_eq!(marker_in(&workshop, "a").replaced, family::CORE, "{whose}");
    }
}

#[test]
fn the_marker_names_which_functions_are_the_programs_own() {
    let workshop = linking_with(&DEBIAN);
    workshop.write("a.c", OWN_MALLOC);
    workshop.run("musl-gcc -static -fno-builtin a.c -o a -L.");
    assert_eq!(workshop.run("./a"), "own 1 1\n");
    assert_eq!(marker_in(&workshop, "a").replaced, ["malloc", "free"]);
}

#[test]
fn a_program_may_bring_the_very_same_allocator_once_more() {
    let workshop = linking_with(&DEBIAN);
    workshop.compile("tiny", TINY, "");
    workshop.write(
        "a.c",
        "#include <stdio.h>\n#include <stdlib.h>\nextern void *tiny_malloc(size_t), tiny_free(void *);\n\
         int main(void) {\n    char *own = tiny_malloc(10), *libcs = malloc(10);\n    long apart = labs(own - libcs);\n\
         printf(\"%s\", own && libcs && apart > (32 << 20) ? \"two heaps\" : \"one heap\");\n    tiny_free(own);\n    free(libcs);\n}",
    );
    workshop.run("musl-gcc -static a.c tiny.o -o a -L.");
    assert_eq!(workshop.run("./a"), "two heaps");
    assert_eq!(marker_in(&workshop, "a").replaced, [""; 0]);
}

/// The members of the malloc of musl up to 1.2.0, by the symbols that 1.1.20 has: sources of our own with its names.
const OLD_MALLOC: [(&str, &str); 9] = [
    (
        "aligned_alloc",
        include_str!("../fixtures/old-musl/aligned_alloc.c"),
    ),
    ("calloc", include_str!("../fixtures/old-musl/calloc.c")),
    (
        "expand_heap",
        include_str!("../fixtures/old-musl/expand_heap.c"),
    ),
    (
        "lite_malloc",
        include_str!("../fixtures/old-musl/lite_malloc.c"),
    ),
    ("malloc", include_str!("../fixtures/old-musl/malloc.c")),
    (
        "malloc_usable_size",
        include_str!("../fixtures/old-musl/malloc_usable_size.c"),
    ),
    ("memalign", include_str!("../fixtures/old-musl/memalign.c")),
    (
        "posix_memalign",
        include_str!("../fixtures/old-musl/posix_memalign.c"),
    ),
    ("valloc", include_str!("../fixtures/old-musl/valloc.c")),
];

#[test]
fn a_musl_with_the_old_malloc_loses_all_of_it() {
    let workshop = Workshop::new();
    let mut members = archive::read(&libc_of_debian()).unwrap();
    members.retain(|m| !DEBIAN.taken_out.contains(&m.name));
    for (name, source) in OLD_MALLOC {
        let object = workshop.compile(name, source, "-fno-builtin");
        members.push(common::member(&format!("{name}.lo"), object));
    }
    let old = archive::write(&members).unwrap();

    let derived = derived_from(&old);
    let expected: Vec<String> = OLD_MALLOC
        .iter()
        .map(|(name, _)| format!("{name}.lo"))
        .collect();
    assert_eq!(derived.taken_out, expected);
    let symbols = global_symbols(&archive::read(&derived.bytes).unwrap());
    for gone in [
        "__expand_heap",
        "__bin_chunk",
        "__malloc0",
        "__memalign",
        "__malloc_donate",
        "__malloc_replaced",
    ] {
        let still: Vec<_> = symbols.iter().filter(|(_, s)| s.name == gone).collect();
        assert!(still.is_empty(), "{still:?}");
    }

    workshop.write("libc.a", &derived.bytes);
    workshop.write("a.c", PROGRAM);
    workshop.run("musl-gcc -O1 -static a.c -o a -L.");
    assert_eq!(workshop.run("./a"), OF_TINY);
    assert_eq!(marker_in(&workshop, "a").replaced, [""; 0]);
}

#[test]
fn a_libc_is_recognised_with_its_version_and_architecture() {
    for (whose, original, _) in both() {
        let libc = read_original(&original).unwrap();
        assert_eq!(libc.architecture.name(), ARCH, "{whose}");
        let numbers: Vec<u32> = libc
            .version
            .split('.')
            .map(|n| n.parse().unwrap())
            .collect();
        assert_eq!(numbers[..2], [1, 2], "{whose}: {}", libc.version);
    }
}

#[test]
fn deriving_anew_from_the_members_that_were_read_is_the_same_as_from_the_file() {
    let original = libc_of_debian();
    let rewritten = archive::write(&archive::read(&original).unwrap()).unwrap();
    let libc = read_original(&rewritten).unwrap();
    let derived = derive_libc(&libc, common::tiny(), None, &marker(), &common::tuning()).unwrap();
    assert!(derived.bytes == DEBIAN.bytes);
}
