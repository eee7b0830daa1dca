//! Identification of real files, built here by the compilers of this machine.

use crate::workshop::{PROGRAM, Workshop};
use reheap_elf::Architecture;
use reheap_elf::bindings::malloc_slots;
use reheap_elf::error::ElfError;
use reheap_elf::identify::{
    Confidence, Evidence, Hazard, Identity, Kind, LibcName, LibcVersion, Provider, Relro, Role,
    RustGlobalAllocator, identify,
};
use reheap_elf::marker::{self, Marker};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

fn allocator(name: &str) -> Provider {
    Provider::Allocator {
        name: name.to_owned(),
    }
}

fn names(identity: &Identity) -> Vec<&str> {
    identity
        .allocators
        .iter()
        .map(|found| found.name.as_str())
        .collect()
}

#[test]
fn a_static_musl_program_has_mallocng_even_when_stripped() {
    let workshop = Workshop::with(&["musl-gcc", "strip"]);
    workshop.write("a.c", PROGRAM);
    workshop.run("musl-gcc -O2 -static a.c -o a");
    let whole = workshop.identify("a");
    assert_eq!(whole.kind, Kind::Static);
    assert_eq!((whole.libc.name, whole.stripped), (LibcName::Musl, false));
    assert_eq!(
        whole.libc.version,
        Some(LibcVersion::AtLeast("1.2.1".to_owned()))
    );
    assert_eq!(
        whole.malloc.provider,
        allocator("musl-mallocng"),
        "{}",
        whole.malloc.reason
    );
    assert_eq!(whole.malloc.confidence, Some(Confidence::Certain));
    assert!(whole.allocators[0].is_stock);

    let stripped = workshop.stripped("a");
    assert!(stripped.stripped);
    assert_eq!(stripped.libc.name, LibcName::Musl);
    assert_eq!(stripped.malloc.provider, allocator("musl-mallocng"));
    assert_eq!(stripped.malloc.confidence, Some(Confidence::Likely));
    let shown = stripped.allocators[0].evidence.iter();
    let shown: Vec<String> = shown.map(ToString::to_string).collect();
    let expected = [
        "the table of size classes",
        "code: the largest size and the threshold of its malloc in one function",
    ];
    assert_eq!(shown, expected);
    assert_eq!(stripped.allocators[0].confidence, Confidence::Certain);
}

#[test]
fn a_static_musl_program_that_never_frees_has_the_bump_allocator() {
    let workshop = Workshop::with(&["musl-gcc"]);
    workshop.write(
        "a.c",
        "#include <stdlib.h>\nint main(int c, char **v) { v[0] = malloc(c); return !v[0]; }",
    );
    workshop.run("musl-gcc -O0 -static a.c -o a");
    let identity = workshop.identify("a");
    assert_eq!(
        identity.malloc.provider,
        allocator("musl-bump"),
        "{:?}",
        identity.allocators
    );
}

#[test]
fn musls_old_malloc_is_known_by_its_table_of_bins() {
    let workshop = Workshop::with(&["gcc"]);
    // The table as musl's source defines it; the formula is where its numbers come from.
    let bins: Vec<String> = (4..64)
        .map(|class: u32| bin_of(class).to_string())
        .collect();
    let table = format!("const unsigned char table[60] = {{{}}};", bins.join(","));
    workshop.write(
        "a.c",
        format!("{table}\nint main(int c, char **v) {{ return table[c]; }}"),
    );
    workshop.run("gcc -O0 a.c -o a");
    assert_eq!(names(&workshop.identify("a")), ["musl-oldmalloc"]);
}

/// Bins 32 to 47 split each power of two into four.
fn bin_of(class: u32) -> u32 {
    let power = class.ilog2();
    32 + (power - 2) * 4 + ((class << 2 >> power) & 3)
}

#[test]
fn a_static_glibc_program_has_glibcs_allocator_even_when_stripped() {
    let workshop = Workshop::with(&["gcc", "strip"]);
    workshop.write("a.c", PROGRAM);
    for (flags, kind) in [
        ("-static -no-pie", Kind::Static),
        ("-static-pie", Kind::StaticPie),
    ] {
        workshop.run(&format!("gcc -O2 {flags} a.c -o a"));
        let whole = workshop.identify("a");
        assert_eq!((whole.kind, whole.libc.name), (kind, LibcName::Glibc));
        assert_eq!(whole.malloc.provider, allocator("glibc"));
        assert_eq!(whole.malloc.confidence, Some(Confidence::Certain));

        let stripped = workshop.stripped("a");
        assert_eq!((stripped.kind, stripped.libc.name), (kind, LibcName::Glibc));
        assert_eq!(stripped.malloc.provider, allocator("glibc"));
    }
}

#[test]
fn dynamic_programs_leave_malloc_to_the_libc_of_their_interpreter() {
    let workshop = Workshop::with(&["gcc", "musl-gcc", "strip"]);
    workshop.write("a.c", PROGRAM);
    for (compiler, libc) in [("gcc", LibcName::Glibc), ("musl-gcc", LibcName::Musl)] {
        workshop.run(&format!("{compiler} -O2 a.c -o a"));
        for identity in [workshop.identify("a"), workshop.stripped("a")] {
            assert_eq!((identity.kind, identity.libc.name), (Kind::Dynamic, libc));
            assert_eq!(identity.malloc.provider, Provider::SharedLibc);
            assert!(identity.interpreter.is_some());
            assert!(names(&identity).is_empty());
        }
    }
    workshop.run("gcc -O2 a.c -o a");
    let version = workshop.identify("a").libc.version;
    assert!(
        matches!(version, Some(LibcVersion::AtLeast(_))),
        "{version:?}"
    );
}

#[test]
fn a_needed_allocator_counts_only_if_it_comes_before_the_libc() {
    let workshop = Workshop::with(&["gcc"]);
    workshop.write("a.c", PROGRAM);
    workshop.write("lib.c", "void *mallocx(void) { return 0; }");
    workshop.run("gcc -shared -fPIC -Wl,-soname,libjemalloc.so.2 lib.c -o libjemalloc.so.2");
    workshop.run("gcc a.c -Wl,--no-as-needed ./libjemalloc.so.2 -o before");
    workshop.run("gcc a.c -Wl,--no-as-needed -lc ./libjemalloc.so.2 -o after");
    let library = Provider::Library {
        name: "jemalloc".to_owned(),
        library: "libjemalloc.so.2".to_owned(),
    };
    assert_eq!(workshop.identify("before").malloc.provider, library);
    assert_eq!(
        workshop.identify("after").malloc.provider,
        Provider::SharedLibc
    );
}

#[test]
fn a_program_that_defines_malloc_provides_it_itself() {
    let workshop = Workshop::with(&["gcc", "musl-gcc"]);
    let own = "#include <stddef.h>\nstatic char heap[1 << 20]; static size_t top;\n\
               void *malloc(size_t n) { void *p = heap + top; top += (n + 15) & -16; return p; }\n\
               void free(void *p) {}\n";
    workshop.write("a.c", format!("{own}{PROGRAM}"));
    for command in [
        "gcc -O1 -fno-builtin a.c -o a",
        "musl-gcc -static -O1 -fno-builtin a.c -o a",
    ] {
        workshop.run(command);
        let identity = workshop.identify("a");
        assert_eq!(
            identity.malloc.provider,
            Provider::OwnCode,
            "{command}: {}",
            identity.malloc.reason
        );
    }
}

#[test]
fn malloc_is_the_allocator_whose_function_stands_at_its_address() {
    let workshop = Workshop::with(&["musl-gcc", "strip"]);
    let own = "void *mi_malloc(unsigned long n) { static char heap[1 << 20]; return heap + n; }\n\
               void mi_free(void *p) {}\n";
    let aliases = "void *malloc(unsigned long) __attribute__((alias(\"mi_malloc\")));\n\
                   void free(void *) __attribute__((alias(\"mi_free\")));\n";
    // Linked but unused: malloc is still musl's.
    workshop.write("a.c", PROGRAM);
    workshop.write("b.c", own);
    workshop.run("musl-gcc -static -O1 -fno-builtin a.c b.c -o a");
    let beside = workshop.identify("a");
    assert_eq!(
        beside.malloc.provider,
        allocator("musl-mallocng"),
        "{}",
        beside.malloc.reason
    );
    assert!(names(&beside).contains(&"mimalloc"));

    workshop.write("b.c", format!("{own}{aliases}"));
    workshop.run("musl-gcc -static -O1 -fno-builtin a.c b.c -o a");
    let instead = workshop.identify("a");
    assert_eq!(
        instead.malloc.provider,
        allocator("mimalloc"),
        "{}",
        instead.malloc.reason
    );
    assert_eq!(instead.malloc.confidence, Some(Confidence::Certain));
}

/// Profilers define the names of an allocator's interface to look on, and programs to wrap malloc.
#[test]
fn names_that_programs_call_an_allocator_by_do_not_show_it_alone() {
    let workshop = Workshop::with(&["gcc"]);
    let wrappers = "#include <stdlib.h>\n\
        void *mi_malloc(size_t n) { return malloc(n); }\nvoid mi_free(void *p) { free(p); }\n\
        void *tc_malloc(size_t n) { return malloc(n); }\nint mallctl(void) { return 0; }\n\
        void *rpmalloc(size_t n) { return malloc(n); }\nvoid *h_malloc(size_t n) { return malloc(n); }\n\
        void *scalable_malloc(size_t n) { return malloc(n); }\nvoid *sn_malloc(size_t n) { return malloc(n); }\n";
    let watching =
        "void *malloc(size_t n) { return __builtin_alloca(n); }\nvoid free(void *p) {}\n";
    workshop.write("wraps.c", format!("{wrappers}{PROGRAM}"));
    workshop.write("watches.c", format!("{wrappers}{watching}"));
    workshop.run("gcc -fno-builtin -rdynamic wraps.c -o wraps");
    workshop.run("gcc -fno-builtin -shared -fPIC watches.c -o watches");
    for (file, provider) in [
        ("wraps", Provider::SharedLibc),
        ("watches", Provider::OwnCode),
    ] {
        let identity = workshop.identify(file);
        assert_eq!(identity.malloc.provider, provider, "{file}");
        let seen = identity.allocators.iter();
        let seen: Vec<_> = seen
            .map(|allocator| (allocator.name.as_str(), allocator.confidence))
            .collect();
        assert!(
            seen.contains(&("mimalloc", Confidence::Possible)),
            "{seen:?}"
        );
        assert!(
            seen.iter()
                .all(|(_, confidence)| *confidence == Confidence::Possible),
            "{file}: {seen:?}"
        );
    }
    // With a text of it, they are its own.
    let text = ["mimalloc: ", "warning: %s"].concat();
    workshop.write(
        "has.c",
        format!("const char *volatile text = \"{text}\";\n{wrappers}{PROGRAM}"),
    );
    workshop.run("gcc -fno-builtin -rdynamic has.c -o has");
    let allocators = workshop.identify("has").allocators;
    assert_eq!(
        (allocators[0].name.as_str(), allocators[0].confidence),
        ("mimalloc", Confidence::Certain)
    );
}

#[test]
fn two_allocators_in_a_stripped_static_program_leave_it_unknown() {
    let workshop = Workshop::with(&["musl-gcc", "strip"]);
    let text = ["<jemall", "oc>: Error"].concat();
    workshop.write(
        "a.c",
        format!("const char *volatile text = \"{text}\";{PROGRAM}"),
    );
    workshop.run("musl-gcc -static a.c -o a");
    let identity = workshop.stripped("a");
    assert_eq!(identity.malloc.provider, Provider::Unknown);
    assert!(
        identity
            .malloc
            .reason
            .contains("musl-mallocng and jemalloc"),
        "{}",
        identity.malloc.reason
    );
}

#[test]
fn libraries_objects_and_archives_take_malloc_from_outside() {
    let workshop = Workshop::with(&["gcc", "ar"]);
    workshop.write("a.c", PROGRAM.replace("main", "start"));
    workshop.run("gcc -fPIC -c a.c -o a.o");
    workshop.run("gcc -shared a.o -o a.so");
    workshop.run("ar rcs a.a a.o a.c");
    for (name, kind) in [
        ("a.o", Kind::Object),
        ("a.so", Kind::SharedLibrary),
        ("a.a", Kind::Archive),
    ] {
        let identity = workshop.identify(name);
        assert_eq!(identity.kind, kind);
        assert_eq!(
            identity.malloc.provider,
            Provider::Outside,
            "{name}: {}",
            identity.malloc.reason
        );
    }
    let members = workshop.identify("a.a").members.unwrap();
    assert_eq!((members.elf, members.other), (1, 1));
    workshop.run("ar rcs text.a a.c");
    assert_eq!(
        identify(&workshop.bytes("text.a")),
        Err(ElfError::NoObjects { others: 1 })
    );
    workshop.run("ar rcs empty.a");
    assert_eq!(
        identify(&workshop.bytes("empty.a")),
        Err(ElfError::EmptyArchive)
    );
    workshop.run("ar rcsT thin.a a.o");
    assert_eq!(
        identify(&workshop.bytes("thin.a")),
        Err(ElfError::ThinArchive)
    );
}

#[test]
fn rusts_own_musl_libc_tells_its_exact_version() {
    let workshop = Workshop::with(&["rustc"]);
    let output = Command::new("rustc")
        .args(["--print", "sysroot"])
        .output()
        .unwrap();
    let sysroot = String::from_utf8(output.stdout).unwrap();
    let target = Path::new(sysroot.trim()).join("lib/rustlib/x86_64-unknown-linux-musl");
    let libc = target.join("lib/self-contained/libc.a");
    assert!(
        libc.exists(),
        "the target is missing: rustup target add x86_64-unknown-linux-musl"
    );
    let identity = identify(&std::fs::read(libc).unwrap()).unwrap();
    assert_eq!(identity.libc.name, LibcName::Musl);
    assert!(matches!(
        identity.libc.version,
        Some(LibcVersion::Exactly(_))
    ));
    assert_eq!(identity.malloc.provider, allocator("musl-mallocng"));

    workshop.write(
        "a.rs",
        "fn main() { println!(\"{:?}\", std::env::args().collect::<Vec<_>>()); }",
    );
    workshop.run("rustc -O --target x86_64-unknown-linux-musl a.rs -o a");
    let program = workshop.identify("a");
    assert_eq!(
        (program.kind, program.libc.name),
        (Kind::StaticPie, LibcName::Musl)
    );
    assert_eq!(program.malloc.provider, allocator("musl-mallocng"));
    let rust = program.rust_global_allocator;
    assert!(
        matches!(rust, Some(RustGlobalAllocator::System { .. })),
        "{rust:?}"
    );

    let stripped = workshop.stripped("a");
    assert_eq!(stripped.malloc.provider, allocator("musl-mallocng"));
    assert_eq!(
        stripped.rust_global_allocator,
        Some(RustGlobalAllocator::Unknown)
    );
}

#[test]
fn a_rust_program_with_a_global_allocator_of_its_own_is_told_apart_from_malloc() {
    let workshop = Workshop::with(&["rustc"]);
    let source = "use std::alloc::{GlobalAlloc, Layout, System};\n\
        struct Own;\n\
        unsafe impl GlobalAlloc for Own {\n\
            unsafe fn alloc(&self, l: Layout) -> *mut u8 { unsafe { System.alloc(l) } }\n\
            unsafe fn dealloc(&self, p: *mut u8, l: Layout) { unsafe { System.dealloc(p, l) } }\n\
        }\n\
        #[global_allocator] static OWN: Own = Own;\n\
        fn main() { println!(\"{:?}\", std::env::args().collect::<Vec<_>>()); }";
    workshop.write("a.rs", source);
    workshop.run("rustc --target x86_64-unknown-linux-musl a.rs -o a");
    let identity = workshop.identify("a");
    assert_eq!(identity.malloc.provider, allocator("musl-mallocng"));
    let rust = identity.rust_global_allocator;
    assert!(
        matches!(rust, Some(RustGlobalAllocator::Custom { name: None, .. })),
        "{rust:?}"
    );
}

#[test]
fn stock_allocators_are_known_at_every_optimisation_level_in_stripped_programs() {
    let workshop = Workshop::with(&["musl-gcc", "gcc", "strip"]);
    workshop.write("a.c", PROGRAM);
    for level in ["-O0", "-O1", "-O2", "-O3", "-Os"] {
        for (compiler, name) in [("musl-gcc", "musl-mallocng"), ("gcc", "glibc")] {
            workshop.run(&format!("{compiler} {level} -fno-builtin -static a.c -o a"));
            let identity = workshop.stripped("a");
            assert_eq!(
                identity.malloc.provider,
                allocator(name),
                "{compiler} {level}"
            );
            assert_eq!(identity.allocators[0].role, Role::Malloc);
            assert!(!identity.allocators[0].hardening.is_empty());
        }
    }
}

#[test]
fn a_jemalloc_with_names_of_its_own_leaves_malloc_to_the_libc() {
    let workshop = Workshop::with(&["musl-gcc", "strip"]);
    let texts = [
        ["<jemall", "oc>: Error"].concat(),
        ["_RJEM_", "MALLOC_CONF"].concat(),
    ];
    workshop.write(
        "a.c",
        format!(
            "const char *volatile texts[] = {{\"{}\", \"{}\"}};{PROGRAM}",
            texts[0], texts[1]
        ),
    );
    workshop.run("musl-gcc -static a.c -o a");
    let identity = workshop.stripped("a");
    assert_eq!(identity.malloc.provider, allocator("musl-mallocng"));
    assert_eq!(identity.malloc.confidence, Some(Confidence::Likely));
    let roles: Vec<Role> = identity.allocators.iter().map(|found| found.role).collect();
    assert_eq!(roles, [Role::Malloc, Role::Private]);
}

#[test]
fn hazards_of_a_library_are_its_half_replaced_malloc_and_its_static_tls() {
    let workshop = Workshop::with(&["gcc"]);
    let source = "void *mi_malloc(unsigned long n) { return 0; }\n\
                  void *malloc(unsigned long) __attribute__((alias(\"mi_malloc\")));\n\
                  static __thread char heap[100];\nchar *own_heap(void) { return heap; }\n";
    workshop.write("a.c", source);
    workshop.run("gcc -fno-builtin -shared -fPIC -ftls-model=initial-exec a.c -o a.so");
    let half = Hazard::HalfReplaced {
        defined: "malloc",
        missing: "free",
    };
    let identity = workshop.identify("a.so");
    assert_eq!(
        identity.hazards,
        [half.clone(), Hazard::InitialExecTls { bytes: 100 }]
    );
    assert_eq!(identity.exports, ["malloc"]);
    workshop.run("gcc -fno-builtin -shared -fPIC a.c -o a.so");
    assert_eq!(workshop.identify("a.so").hazards, [half]);
}

#[test]
fn operator_new_is_the_cxx_librarys_or_an_allocators() {
    let workshop = Workshop::with(&["g++"]);
    workshop.write("a.cc", "int main(int c, char **) { delete new int(c); }");
    workshop.run("g++ -O0 a.cc -o a");
    let new = workshop.identify("a").operator_new.unwrap();
    assert_eq!(new.provider, Provider::Outside);
    let own = "extern \"C\" void *mi_new(unsigned long n) { return (void *)n; }\n\
               void *operator new(unsigned long) __attribute__((alias(\"mi_new\")));\n";
    workshop.write("b.cc", own);
    workshop.run("g++ -O0 a.cc b.cc -o a");
    let identity = workshop.identify("a");
    assert_eq!(
        identity.operator_new.unwrap().provider,
        allocator("mimalloc")
    );
    assert_eq!(identity.malloc.provider, Provider::SharedLibc);
}

#[test]
fn the_places_of_malloc_are_where_the_linker_says() {
    let workshop = Workshop::with(&["gcc"]);
    workshop.write("a.c", PROGRAM);
    workshop.run("gcc -O1 -fno-builtin a.c -o a");
    let slots = malloc_slots(&workshop.bytes("a"));
    let output = Command::new("readelf")
        .args(["-rW"])
        .arg(workshop.path("a"))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let of_malloc = text.lines().filter(|line| line.contains(" malloc@"));
    let offsets: Vec<u64> = of_malloc
        .filter_map(|line| u64::from_str_radix(line.split_whitespace().next()?, 16).ok())
        .collect();
    assert_eq!(slots, offsets);
    assert!(malloc_slots(b"\x7fELF").is_empty());
}

/// What a derived libc brings: functions under reheap's own names, weak public ones, and the marker.
fn with_marker(workshop: &Workshop, own_malloc: &str) {
    let marker = Marker {
        allocator: "mimalloc-secure".to_owned(),
        allocator_version: "3.3.2".to_owned(),
        package: "libmimalloc-sys 0.1.49".to_owned(),
        tuning: BTreeMap::new(),
        memory_functions: None,
        libc: "musl 1.2.3".to_owned(),
        original_sha256: "0".repeat(64),
        reheap: "0.1.0".to_owned(),
    };
    workshop.write(
        "marker.o",
        marker::object_file(
            &marker,
            &[],
            Architecture::X86_64.into(),
            reheap_elf::family::own_name,
        ),
    );
    let functions = "#include <stddef.h>\n\
        static char heap[1 << 20]; static size_t top;\n\
        void *__reheap_malloc(size_t n) { void *p = heap + top; top += (n + 15) & -16; return p; }\n\
        void *__reheap_mi_malloc(size_t n) __attribute__((alias(\"__reheap_malloc\")));\n\
        void *__reheap_calloc(size_t n, size_t m) { return __reheap_malloc(n * m); }\n\
        void *__reheap_realloc(void *p, size_t n) { return __reheap_malloc(n); }\n\
        void __reheap_free(void *p) {}\n\
        #define PUBLIC(result, name, ...) __attribute__((weak, alias(\"__reheap_\" #name))) result name(__VA_ARGS__);\n\
        PUBLIC(void *, malloc, size_t) PUBLIC(void *, calloc, size_t, size_t)\n\
        PUBLIC(void *, realloc, void *, size_t) PUBLIC(void, free, void *)\n";
    workshop.write("functions.c", functions);
    workshop.write("a.c", format!("{own_malloc}{PROGRAM}"));
    workshop.run("musl-gcc -O1 -fno-builtin -static a.c functions.c marker.o -o a");
}

#[test]
fn the_marker_proves_the_allocator_even_when_stripped() {
    let workshop = Workshop::with(&["musl-gcc", "strip"]);
    with_marker(&workshop, "");
    for identity in [workshop.identify("a"), workshop.stripped("a")] {
        assert_eq!(
            identity.malloc.provider,
            allocator("mimalloc-secure"),
            "{}",
            identity.malloc.reason
        );
        assert_eq!(identity.malloc.confidence, Some(Confidence::Certain));
        let marker = identity.marker.unwrap();
        assert!(marker.is_linked && marker.replaced.is_empty());
        assert_eq!(
            identity.libc.version,
            Some(LibcVersion::Exactly("1.2.3".to_owned()))
        );
        let found = &identity.allocators[0];
        assert_eq!(
            (found.name.as_str(), found.version.as_deref()),
            ("mimalloc-secure", Some("3.3.2"))
        );
        assert_eq!(found.evidence[0], Evidence::Note(".note.reheap".to_owned()));
    }
}

#[test]
fn the_marker_proves_that_the_program_kept_its_own_malloc() {
    let workshop = Workshop::with(&["musl-gcc", "strip"]);
    with_marker(
        &workshop,
        "void *malloc(unsigned long n) { static char heap[1 << 20]; return heap + n; }",
    );
    for identity in [workshop.identify("a"), workshop.stripped("a")] {
        assert_eq!(identity.marker.unwrap().replaced, ["malloc"]);
        assert_eq!(
            identity.malloc.provider,
            Provider::OwnCode,
            "{}",
            identity.malloc.reason
        );
    }
}

#[test]
fn the_marker_of_an_object_is_read_but_proves_nothing_yet() {
    let workshop = Workshop::with(&["musl-gcc", "ar"]);
    with_marker(&workshop, "");
    workshop.run("musl-gcc -c functions.c -o functions.o");
    workshop.run("ar rcs a.a functions.o marker.o");
    for name in ["marker.o", "a.a"] {
        let marker = workshop.identify(name).marker.unwrap();
        assert_eq!(marker.marker.allocator, "mimalloc-secure");
        assert!(!marker.is_linked);
    }
}

#[test]
fn a_damaged_marker_is_an_error_and_not_its_absence() {
    let workshop = Workshop::with(&["musl-gcc"]);
    with_marker(&workshop, "");
    let mut bytes = workshop.bytes("a");
    let text = bytes
        .windows(11)
        .position(|window| window == b"\"allocator\"")
        .unwrap();
    bytes[text] = b'x';
    assert!(matches!(identify(&bytes), Err(ElfError::Marker { .. })));
}

/// The dynamic linker does not look at the section table, and neither must we.
#[test]
fn files_without_a_section_table_are_told_from_the_dynamic_segment() {
    let workshop = Workshop::with(&["gcc", "strip"]);
    let own = "void *malloc(unsigned long n) { static char heap[1 << 20]; return heap + n % 99; }\n\
               void free(void *p) {}\n";
    workshop.write("plain.c", PROGRAM);
    workshop.write("own.c", format!("{own}{PROGRAM}"));
    workshop.write("lib.c", "void *mallocx(void) { return 0; }");
    workshop.run("gcc -shared -fPIC -Wl,-soname,libjemalloc.so.2 lib.c -o libjemalloc.so.2");
    for style in ["gnu", "sysv", "both"] {
        for what in [
            "plain.c",
            "own.c",
            "plain.c -Wl,--no-as-needed ./libjemalloc.so.2",
            "own.c -shared -fPIC",
            "plain.c -shared -fPIC",
            "plain.c -no-pie",
            "plain.c -static",
        ] {
            workshop.run(&format!(
                "gcc -O1 -fno-builtin -Wl,--hash-style={style} {what} -o a"
            ));
            let mut stripped = workshop.stripped("a");
            let bytes = workshop.without_sections("a");
            let told = identify(&bytes).unwrap();
            // In a static program, only sections tell how much of its table of addresses becomes read-only.
            if let (Some(told), Some(stripped)) = (&told.protections, &mut stripped.protections)
                && told.relro == Relro::Present
                && what.ends_with("-static")
            {
                stripped.relro = Relro::Present;
            }
            assert_eq!(told, stripped, "{style}: {what}");
            assert_eq!(malloc_slots(&bytes), malloc_slots(&workshop.bytes("a")));
        }
    }
}

#[test]
fn a_section_table_that_tells_of_other_symbols_is_not_believed() {
    let workshop = Workshop::with(&["gcc", "strip"]);
    let own =
        "void *malloc(unsigned long n) { static char heap[1 << 20]; return heap + n % 99; }\n";
    workshop.write("a.c", format!("{own}{PROGRAM}"));
    workshop.run("gcc -O1 -fno-builtin -s a.c -o a");
    let mut bytes = workshop.bytes("a");
    let word = |bytes: &[u8], at: usize| {
        u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize
    };
    let (table, count) = (word(&bytes, 40), usize::from(bytes[60]));
    for section in (0..count).map(|index| table + index * 64) {
        const SHT_DYNSYM: u8 = 11;
        if bytes[section + 4] == SHT_DYNSYM {
            let place = word(&bytes, section + 24) as u64 + 24;
            bytes[section + 24..section + 32].copy_from_slice(&place.to_le_bytes());
            bytes[section + 32..section + 40].copy_from_slice(&24_u64.to_le_bytes());
        }
    }
    let identity = identify(&bytes).unwrap();
    assert!(
        identity.exports.contains(&"malloc".to_owned()),
        "{identity:?}"
    );
}

#[test]
fn who_provides_malloc_is_unknown_where_no_symbols_are_found() {
    let workshop = Workshop::with(&["gcc"]);
    workshop.write("a.c", PROGRAM);
    workshop.run("gcc -O1 a.c -o a");
    let mut bytes = workshop.without_sections("a");
    without_symbols(&mut bytes);
    let identity = identify(&bytes).unwrap();
    assert_eq!(identity.kind, Kind::Dynamic);
    assert_eq!(identity.malloc.provider, Provider::Unknown);
    assert_eq!(
        identity.malloc.reason,
        "its dynamic symbols cannot be found"
    );
}

/// Turns `DT_SYMTAB` into an entry that nobody knows.
fn without_symbols(bytes: &mut [u8]) {
    const DT_SYMTAB: u64 = 6;
    let dynamic = object_dynamic(bytes);
    for entry in dynamic.step_by(16) {
        if bytes[entry..entry + 8] == DT_SYMTAB.to_le_bytes() {
            bytes[entry..entry + 8].copy_from_slice(&0x6fff_0000_u64.to_le_bytes());
        }
    }
}

/// Where the dynamic segment of a 64-bit file is.
fn object_dynamic(bytes: &[u8]) -> std::ops::Range<usize> {
    const PT_DYNAMIC: u8 = 2;
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let headers = (0..usize::from(bytes[56])).map(|index| word(32) + index * 56);
    let header = headers.clone().find(|at| bytes[*at] == PT_DYNAMIC).unwrap();
    word(header + 8)..word(header + 8) + word(header + 32)
}
