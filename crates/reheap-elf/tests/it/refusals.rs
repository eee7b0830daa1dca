//! What no libc can be derived from, each with its message, and that damaged input is an error and never a panic.

use crate::common;
use crate::common::{
    INSTALL, TINY, TINY_GLUE, Workshop, allocator_of, derived_from, libc_of_debian, marker, member,
    plain_archive, tiny,
};
use proptest::prelude::*;
use reheap_elf::Architecture;
use reheap_elf::archive::{self, Member};
use reheap_elf::derive::{AllocatorObjects, DeriveError, derive_libc, read_original};
use reheap_elf::marker as note;
use std::sync::LazyLock;

#[track_caller]
fn refused(libc: &[u8], message: &str) {
    match read_original(libc) {
        Ok(libc) => panic!("it was taken for musl {}", libc.version),
        Err(error) => assert_eq!(error.to_string(), message),
    }
}

/// Debian's libc with a further member.
fn debian_with(name: &str, data: Vec<u8>) -> Vec<u8> {
    let mut members = archive::read(&libc_of_debian()).unwrap();
    members.push(member(name, data));
    plain_archive_of(&members)
}

fn plain_archive_of(members: &[Member]) -> Vec<u8> {
    let short: Vec<(String, &[u8])> = members
        .iter()
        .map(|m| (m.name.chars().take(15).collect(), m.data.as_slice()))
        .collect();
    plain_archive(short.iter().map(|(name, data)| (name.as_str(), *data)))
}

/// What comes of putting the allocator into Debian's libc.
fn derive_from_debian(allocator: &AllocatorObjects) -> Result<(), DeriveError> {
    let original = read_original(&libc_of_debian()).unwrap();
    derive_libc(&original, allocator, None, &marker(), &common::tuning()).map(|_| ())
}

#[track_caller]
fn allocator_refused(allocator: &AllocatorObjects, message: &str) {
    let error = derive_from_debian(allocator).unwrap_err();
    assert_eq!(error.to_string(), message);
}

#[test]
fn deriving_twice_is_refused_with_the_marker_it_found() {
    let derived = derived_from(&libc_of_debian());
    let error = read_original(&derived.bytes).unwrap_err();
    assert_eq!(
        error,
        DeriveError::AlreadyDerived(Box::new(marker())),
        "the marker says what is in it"
    );
    assert_eq!(
        error.to_string(),
        "it is already a derived libc, with tiny 7 in it"
    );
}

#[test]
fn a_member_of_llvm_bitcode_is_refused() {
    let workshop = Workshop::new();
    workshop.write(
        "a.rs",
        "#[unsafe(no_mangle)] pub extern \"C\" fn malloc() {}",
    );
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    workshop.run(&format!(
        "{rustc} --crate-type lib --emit llvm-bc a.rs -o a.bc"
    ));
    refused(
        &debian_with("malloc.o", workshop.read("a.bc")),
        "member `malloc.o` is LLVM bitcode, not ELF",
    );
}

#[test]
fn an_empty_file_is_refused() {
    refused(b"", "the file is empty");
}

#[test]
fn what_is_no_archive_is_refused() {
    let message = "it is not an archive (it does not begin with `!<arch>`)";
    refused(b"INPUT(libc.so)\n", message);
    refused(&std::fs::read("/proc/self/exe").unwrap(), message);
}

#[test]
fn an_archive_without_members_is_refused() {
    refused(b"!<arch>\n", "the archive has no members");
}

#[test]
fn a_thin_archive_is_refused() {
    let workshop = Workshop::new();
    workshop.compile("a", "int a;", "");
    workshop.run("ar rcT thin.a a.o");
    refused(
        &workshop.read("thin.a"),
        "it is a thin archive: its members are other files",
    );
}

#[test]
fn a_cut_off_archive_is_refused_with_the_place() {
    let whole = libc_of_debian();
    for part in [whole.len() / 2, whole.len() - 100, whole.len() / 3] {
        let message = read_original(&whole[..part]).unwrap_err().to_string();
        assert!(
            message.starts_with("member ") && message.contains("is damaged or cut off"),
            "{message}"
        );
    }
}

#[test]
fn another_libc_is_refused() {
    let workshop = Workshop::new();
    let path = workshop.run("gcc -print-file-name=libc.a");
    let libc =
        std::fs::read(path.trim()).unwrap_or_else(|e| panic!("glibc's libc.a: {e}; {INSTALL}"));
    refused(
        &libc,
        "it is not a musl libc: no member defines `__libc_version`",
    );
}

#[test]
fn a_member_for_32_bits_is_refused() {
    let workshop = Workshop::new();
    workshop.write("a.s", ".globl a\na:\n");
    workshop.run("as --32 a.s -o a.o");
    refused(
        &debian_with("a.o", workshop.read("a.o")),
        "member `a.o` is for i686, the others are for x86_64",
    );
}

/// Any object for AArch64; the machine number is all that is looked at.
fn for_aarch64(object: &[u8]) -> Vec<u8> {
    const E_MACHINE: usize = 18; // ELF gABI, "ELF Header"
    const EM_AARCH64: u8 = 183;
    let mut object = object.to_vec();
    object[E_MACHINE] = EM_AARCH64;
    object
}

#[test]
fn members_for_different_processors_are_refused() {
    let object = Workshop::new().compile("a", "int a;", "");
    refused(
        &debian_with("a.o", for_aarch64(&object)),
        "member `a.o` is for aarch64, the others are for x86_64",
    );
}

#[test]
fn an_allocator_for_another_processor_is_refused() {
    let mut allocator = tiny().clone();
    allocator.upstream[0].data = for_aarch64(&allocator.upstream[0].data);
    allocator_refused(
        &allocator,
        "the libc is for x86_64, the allocator for aarch64",
    );
}

#[test]
fn a_shared_object_as_a_member_is_refused() {
    let workshop = Workshop::new();
    workshop.write("a.c", "int a;");
    workshop.run("gcc -shared -fPIC -nostdlib a.c -o a.so");
    refused(
        &debian_with("a.so", workshop.read("a.so")),
        "member `a.so` is ELF, but not a relocatable object",
    );
}

#[test]
fn a_member_that_is_no_object_is_refused() {
    refused(
        &debian_with("README", b"a text".to_vec()),
        "member `README` is not an ELF object",
    );
}

#[test]
fn a_public_function_beside_malloc_cannot_be_taken_out() {
    let source =
        "void *malloc(unsigned long n) { return n ? 0 : 0; }\nint heap_walk(void) { return 0; }";
    let object = Workshop::new().compile("tangle", source, "-fno-builtin");
    let original = read_original(&debian_with("tangle.o", object)).unwrap();
    let error = derive_libc(&original, tiny(), None, &marker(), &[]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "member `tangle.o` defines `heap_walk` beside `malloc`, so it cannot be taken out"
    );
}

#[test]
fn a_libc_function_that_looks_into_the_stock_allocator_is_named() {
    let source = "extern const short __malloc_size_classes[];\nint heap_walk(void) { return __malloc_size_classes[0]; }";
    let object = Workshop::new().compile("walk", source, "");
    let original = read_original(&debian_with("walk.o", object)).unwrap();
    let error = derive_libc(&original, tiny(), None, &marker(), &common::tuning()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "member `walk.o` needs `__malloc_size_classes`, which nothing defines any more"
    );
}

#[test]
fn an_allocator_without_an_entry_point_is_refused() {
    let mut allocator = tiny().clone();
    let wrong = "tiny_zalloc".to_owned();
    allocator.entry_points.insert("calloc".to_owned(), wrong);
    allocator_refused(&allocator, "the allocator does not define `tiny_zalloc`");
}

#[test]
fn an_allocator_that_leaves_out_a_function_of_the_family_is_refused() {
    let workshop = Workshop::new();
    let allocator = allocator_of(&workshop, TINY, TINY_GLUE, "-DWITHOUT_VALLOC");
    allocator_refused(&allocator, "the allocator does not define `valloc`");
}

#[test]
fn an_allocator_that_needs_what_the_libc_lacks_is_refused() {
    let upstream = format!(
        "{TINY}\nextern int arc4random_of_bsd(void);\nint tiny_seed(void) {{ return arc4random_of_bsd(); }}"
    );
    let allocator = allocator_of(&Workshop::new(), &upstream, TINY_GLUE, "");
    allocator_refused(
        &allocator,
        "member `reheap-0-tiny.o` needs `arc4random_of_bsd`, which nothing defines any more",
    );
}

#[test]
fn glue_that_defines_a_function_of_the_libc_is_refused() {
    let glue = format!("{TINY_GLUE}\nint puts(const char *text) {{ return *text; }}");
    let allocator = allocator_of(&Workshop::new(), TINY, &glue, "-fno-builtin");
    allocator_refused(&allocator, "`puts` is defined by `puts.lo` and by `glue.o`");
}

#[test]
fn a_symbol_that_stands_twice_in_an_allocators_object_is_no_panic() {
    // A second, undefined entry of the same name, as no compiler makes it.
    let mut allocator = tiny().clone();
    let object = &mut allocator.upstream[0].data;
    let (from, to) = (
        name_entry(object, "memcpy"),
        name_entry(object, "tiny_malloc"),
    );
    let name: [u8; 4] = object[to..to + 4].try_into().unwrap();
    object[from..from + 4].copy_from_slice(&name);
    let _ = derive_from_debian(&allocator);
}

/// Where in an object the symbol's entry of the symbol table lies; its first four bytes name it.
fn name_entry(object: &[u8], symbol: &str) -> usize {
    use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
    let file = object::File::parse(object).unwrap();
    let table = file
        .sections()
        .find(|s| s.name() == Ok(".symtab"))
        .and_then(|s| s.file_range())
        .unwrap();
    let index = file.symbols().find(|s| s.name() == Ok(symbol)).unwrap();
    const SYMBOL_BYTES: usize = 24; // ELF gABI, "Symbol Table", Elf64_Sym
    usize::try_from(table.0).unwrap() + index.index().0 * SYMBOL_BYTES
}

/// The smallest libc.a that is taken for musl's, with an allocator of four members: small, so that damage hits.
static SMALL: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let workshop = Workshop::new();
    let sources = [
        ("version", "const char __libc_version[] = \"1.2.5\";"),
        ("init", "void __init_tp(void) {}"),
        ("sysconf", "long sysconf(int n) { return n; }\nint __errno;"),
        (
            "string",
            "int strncmp(const char *a, const char *b, unsigned long n) { return *a - *b + n; }\n\
             unsigned long strlen(const char *s) { return *s; }\n\
             void *memcpy(void *a, const void *b, unsigned long n) { return n ? a : (void *)b; }\n\
             char *getenv(const char *n) { return (char *)n; }",
        ),
        (
            "impl",
            "void *__libc_malloc_impl(unsigned long n) { return (void *)n; }",
        ),
        (
            "malloc",
            "extern void *__libc_malloc_impl(unsigned long);\n\
             void *malloc(unsigned long n) { return __libc_malloc_impl(n); }",
        ),
        ("free", "void free(void *p) { (void)p; }"),
        (
            "strdup",
            "extern void *malloc(unsigned long);\nchar *strdup(const char *s) { return malloc(*s); }",
        ),
    ];
    let members: Vec<Member> = sources
        .iter()
        .map(|(name, source)| {
            let object = workshop.compile(name, source, "-fno-builtin");
            member(&format!("{name}.o"), object)
        })
        .collect();
    archive::write(&members).unwrap()
});

/// Derives from bytes that may be anything; only a panic fails.
fn derive_from_anything(libc: &[u8], allocator: &AllocatorObjects) {
    let Ok(original) = read_original(libc) else {
        return;
    };
    if let Ok(derived) = derive_libc(&original, allocator, None, &marker(), &common::tuning()) {
        let again = read_original(&derived.bytes).map(|libc| libc.version);
        assert!(
            matches!(again, Err(DeriveError::AlreadyDerived(_))),
            "{again:?}"
        );
    }
}

#[test]
fn the_small_libc_that_is_damaged_below_can_be_derived_from() {
    let derived = derived_from(&SMALL);
    assert_eq!(derived.taken_out, ["impl.o", "malloc.o", "free.o"]);
}

fn changed(bytes: &[u8], changes: &[(prop::sample::Index, u8)]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for (place, value) in changes {
        let place = place.index(bytes.len());
        bytes[place] = *value;
    }
    bytes
}

fn any_changes() -> impl Strategy<Value = Vec<(prop::sample::Index, u8)>> {
    prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_damaged_libc_is_never_a_panic(changes in any_changes()) {
        derive_from_anything(&changed(&SMALL, &changes), tiny());
    }

    #[test]
    fn a_damaged_allocator_is_never_a_panic(changes in any_changes()) {
        let mut allocator = tiny().clone();
        allocator.upstream[0].data = changed(&allocator.upstream[0].data, &changes);
        derive_from_anything(&SMALL, &allocator);
    }

    #[test]
    fn damaged_words_are_never_a_panic(place in any::<prop::sample::Index>(), word in prop_oneof![Just(u64::MAX), Just(1 << 63), 0..64_u64, any::<u64>()]) {
        let mut libc = SMALL.clone();
        let at = place.index(libc.len() - 8);
        libc[at..at + 8].copy_from_slice(&word.to_le_bytes());
        derive_from_anything(&libc, tiny());
    }

    #[test]
    fn parts_put_together_anew_are_never_a_panic(parts in prop::collection::vec((any::<prop::sample::Index>(), 0..2000_usize), 1..12)) {
        let mut libc = b"!<arch>\n".to_vec();
        for (start, length) in parts {
            let start = start.index(SMALL.len());
            libc.extend_from_slice(&SMALL[start..SMALL.len().min(start + length)]);
        }
        derive_from_anything(&libc, tiny());
    }

    #[test]
    fn a_damaged_marker_is_never_a_panic(changes in any_changes()) {
        let object = note::object_file(&marker(), &common::tuning(), Architecture::X86_64.into(), str::to_owned);
        let _ = note::read_unlinked(&changed(&object, &changes));
    }
}

#[test]
fn a_libc_cut_off_anywhere_is_never_a_panic() {
    for length in 0..SMALL.len() {
        derive_from_anything(&SMALL[..length], tiny());
    }
}

#[test]
fn a_whole_libc_without_one_member_is_refused_by_the_symbol_or_derived() {
    let members = archive::read(&SMALL).unwrap();
    for left_out in 0..members.len() {
        let mut rest = members.clone();
        rest.remove(left_out);
        derive_from_anything(&archive::write(&rest).unwrap(), tiny());
    }
}
