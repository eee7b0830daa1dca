//! Identification of real files, built here by the compilers of this machine, and of damaged copies of them.

use proptest::prelude::*;
use reheap_elf::Architecture;
use reheap_elf::identify::{
    Confidence, Evidence, IdentifyError, Identity, Kind, LibcName, LibcVersion, Provider,
    RustGlobalAllocator, identify,
};
use reheap_elf::marker::{self, Marker};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    char *text = malloc(argc * 100);
    snprintf(text, 100, "%s %f", argv[0], argc / 3.0);
    puts(text);
    free(text);
    return 0;
}
"#;

/// A folder with the files of one test.
struct Workshop(tempfile::TempDir);

impl Workshop {
    /// `None` if a tool is missing. That is fine on a laptop and fails in CI, where it would hide that nothing was tested.
    #[allow(clippy::print_stderr, reason = "a test that is left out says so")]
    fn with(tools: &[&str]) -> Option<Self> {
        for tool in tools {
            let is_there = Command::new(tool).arg("--version").output().is_ok();
            if !is_there {
                assert!(std::env::var_os("CI").is_none(), "`{tool}` is missing");
                eprintln!("left out: `{tool}` is missing");
                return None;
            }
        }
        Some(Self(tempfile::tempdir().unwrap()))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, contents: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), contents).unwrap();
    }

    /// Runs a command in the folder; words are separated by spaces.
    fn run(&self, command: &str) {
        let mut words = command.split(' ');
        let program = words.next().unwrap();
        let output = Command::new(program)
            .args(words)
            .current_dir(self.0.path())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{command}:\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    fn identify(&self, name: &str) -> Identity {
        identify(&self.bytes(name)).unwrap()
    }

    fn stripped(&self, name: &str) -> Identity {
        self.run(&format!("strip -o stripped {name}"));
        self.identify("stripped")
    }
}

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
    let Some(workshop) = Workshop::with(&["musl-gcc", "strip"]) else {
        return;
    };
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
    let evidence = Evidence::Table("the table of size classes".to_owned());
    assert_eq!(stripped.allocators[0].evidence, [evidence]);
}

#[test]
fn a_static_musl_program_that_never_frees_has_the_bump_allocator() {
    let Some(workshop) = Workshop::with(&["musl-gcc"]) else {
        return;
    };
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
    let Some(workshop) = Workshop::with(&["gcc"]) else {
        return;
    };
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
    let Some(workshop) = Workshop::with(&["gcc", "strip"]) else {
        return;
    };
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
    let Some(workshop) = Workshop::with(&["gcc", "musl-gcc", "strip"]) else {
        return;
    };
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
    let Some(workshop) = Workshop::with(&["gcc"]) else {
        return;
    };
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
    let Some(workshop) = Workshop::with(&["gcc", "musl-gcc"]) else {
        return;
    };
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
    let Some(workshop) = Workshop::with(&["musl-gcc", "strip"]) else {
        return;
    };
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

#[test]
fn two_allocators_in_a_stripped_static_program_leave_it_unknown() {
    let Some(workshop) = Workshop::with(&["musl-gcc", "strip"]) else {
        return;
    };
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
    let Some(workshop) = Workshop::with(&["gcc", "ar"]) else {
        return;
    };
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
        Err(IdentifyError::NoObjects { others: 1 })
    );
    workshop.run("ar rcsT thin.a a.o");
    assert_eq!(
        identify(&workshop.bytes("thin.a")),
        Err(IdentifyError::ThinArchive)
    );
}

#[test]
fn rusts_own_musl_libc_tells_its_exact_version() {
    let Some(workshop) = Workshop::with(&["rustc"]) else {
        return;
    };
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
    let Some(workshop) = Workshop::with(&["rustc"]) else {
        return;
    };
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
        marker::object_file(&marker, &[], Architecture::X86_64),
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
    let Some(workshop) = Workshop::with(&["musl-gcc", "strip"]) else {
        return;
    };
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
    let Some(workshop) = Workshop::with(&["musl-gcc", "strip"]) else {
        return;
    };
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
    let Some(workshop) = Workshop::with(&["musl-gcc", "ar"]) else {
        return;
    };
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
    let Some(workshop) = Workshop::with(&["musl-gcc"]) else {
        return;
    };
    with_marker(&workshop, "");
    let mut bytes = workshop.bytes("a");
    let text = bytes
        .windows(11)
        .position(|window| window == b"\"allocator\"")
        .unwrap();
    bytes[text] = b'x';
    assert!(matches!(
        identify(&bytes),
        Err(IdentifyError::Marker { .. })
    ));
}

/// A small dynamic program with symbols, notes, versions and sections, to be damaged; minimal where gcc is missing.
static SEED: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let Some(workshop) = Workshop::with(&["gcc"]) else {
        return b"\x7fELF".to_vec();
    };
    workshop.write("a.c", PROGRAM);
    workshop.run("gcc -O1 a.c -o a");
    workshop.bytes("a")
});

fn u64_at(bytes: &[u8], offset: usize) -> usize {
    u64::from_le_bytes(bytes[offset..offset + 8].try_into().unwrap()) as usize
}

/// Where the program headers and the section table of a 64-bit file begin, and the number of their entries.
fn tables(bytes: &[u8]) -> [(usize, usize, usize); 2] {
    let count = |offset: usize| usize::from(u16::from_le_bytes([bytes[offset], bytes[offset + 1]]));
    [
        (u64_at(bytes, 32), 56, count(56)),
        (u64_at(bytes, 40), 64, count(60)),
    ]
}

#[test]
fn a_file_cut_off_at_any_boundary_is_an_error() {
    if SEED.len() < 64 {
        return;
    }
    let entry_ends = tables(&SEED)
        .into_iter()
        .flat_map(|(start, size, count)| (0..=count).map(move |index| start + index * size));
    let last = entry_ends.clone().max().unwrap();
    for length in entry_ends
        .chain(0..64)
        .chain((64..last).step_by(61))
        .filter(|&length| length < last)
    {
        assert!(identify(&SEED[..length]).is_err(), "cut off at {length}");
    }
}

#[test]
fn counts_and_sizes_that_no_file_can_hold_are_errors() {
    if SEED.len() < 64 {
        return;
    }
    let [_, (sections, section_size, section_count)] = tables(&SEED);
    let damaged = |offset: usize, value: &[u8]| {
        let mut bytes = SEED.clone();
        bytes[offset..offset + value.len()].copy_from_slice(value);
        identify(&bytes)
    };
    for (what, result) in [
        ("65,534 program headers", damaged(56, &[0xfe, 0xff])),
        ("65,279 sections", damaged(60, &[0xff, 0xfe])),
        ("the place of the section table", damaged(40, &[0xff; 8])),
        ("the place of the program headers", damaged(32, &[0xff; 8])),
    ] {
        assert!(result.is_err(), "{what}: {result:?}");
    }
    for index in 1..section_count {
        // Whether this is an error depends on the section; that it returns is what counts.
        let _ = damaged(sections + index * section_size + 24, &[0xff; 16]);
        let _ = damaged(sections + index * section_size + 32, &[0xff; 8]);
    }
}

/// Each of these files is a few megabytes and would take hours if every table in it were believed.
#[test]
fn repetition_does_not_multiply_the_work() {
    let header = |program_headers: u16, sections: u16, section_table: u64| {
        let mut bytes = vec![0u8; 64];
        bytes[..16].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
        bytes[16..20].copy_from_slice(&[3, 0, 62, 0]);
        bytes[20] = 1;
        bytes[32..40].copy_from_slice(&64u64.to_le_bytes());
        bytes[40..48].copy_from_slice(&section_table.to_le_bytes());
        bytes[52..64].copy_from_slice(
            &[64, 56, program_headers, 64, sections, 0]
                .map(u16::to_le_bytes)
                .concat(),
        );
        bytes
    };
    let segment = |segment_type: u32, size: u64| {
        let words = [u64::from(segment_type) | 4 << 32, 0, 0, 0, size, size, 4];
        words.map(u64::to_le_bytes).concat()
    };
    let count = 60_000u16;
    let size = 64 + 56 * u64::from(count);
    for segment_type in [1, 2, 4] {
        let mut bytes = header(count, 0, 0);
        for _ in 0..count {
            bytes.extend(segment(segment_type, size));
        }
        let _ = identify(&bytes);
    }

    // A hundred thousand symbols whose names are the same four megabytes.
    let (symbols, names) = (100_000usize, 4 << 20);
    let section_table = 64 + symbols * 24 + names;
    let mut bytes = header(0, 3, section_table as u64);
    bytes.extend([1, 0, 0, 0, 18, 0, 1, 0].repeat(3).repeat(symbols));
    bytes.extend(vec![b'm'; names]);
    let section = |section_type: u32, offset: usize, size: usize, link: u32| {
        let mut section = vec![0u8; 64];
        section[4..8].copy_from_slice(&section_type.to_le_bytes());
        section[24..32].copy_from_slice(&offset.to_le_bytes());
        section[32..40].copy_from_slice(&size.to_le_bytes());
        section[40..44].copy_from_slice(&link.to_le_bytes());
        section
    };
    bytes.extend(section(3, 0, 64, 0));
    bytes.extend(section(2, 64, symbols * 24, 2));
    bytes.extend(section(3, 64 + symbols * 24, names, 0));
    let _ = identify(&bytes);

    // Members whose names all begin in one name table that never ends.
    let mut archive = b"!<arch>\n".to_vec();
    archive.extend(format!("{:<48}{names:<10}`\n", "//").as_bytes());
    archive.extend(vec![b'n'; names]);
    for _ in 0..100_000 {
        archive.extend(format!("{:<48}{:<10}`\n", "/0", 0).as_bytes());
    }
    assert_eq!(
        identify(&archive),
        Err(IdentifyError::NoObjects { others: 100_000 })
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn damaged_headers_never_panic(
        changes in prop::collection::vec((0usize..5_000, any::<u8>()), 1..6),
        in_tables in any::<bool>(),
    ) {
        let mut bytes = SEED.clone();
        let start = if in_tables && bytes.len() > 64 { tables(&bytes)[1].0 } else { 0 };
        for (offset, value) in changes {
            let length = bytes.len();
            bytes[(start + offset % 2_500) % length] = value;
        }
        let _ = identify(&bytes);
    }

    #[test]
    fn damaged_words_anywhere_never_panic(offset in any::<usize>(), word in any::<u64>(), length in any::<usize>()) {
        let mut bytes = SEED.clone();
        let offset = offset % bytes.len();
        for (byte, new) in bytes[offset..].iter_mut().zip(word.to_le_bytes()) {
            *byte = new;
        }
        bytes.truncate(length % (2 * bytes.len()) + 1);
        let _ = identify(&bytes);
    }

    #[test]
    fn damaged_archives_never_panic(changes in prop::collection::vec((any::<usize>(), any::<u8>()), 1..10)) {
        let member = reheap_elf::archive::Member { name: "a-long-name-for-a-member.o".to_owned(), data: SEED.clone() };
        let mut bytes = reheap_elf::archive::write(&[member.clone(), member]).unwrap_or_default();
        for (offset, value) in changes {
            let length = bytes.len().clamp(1, 400);
            if let Some(byte) = bytes.get_mut(offset % length) {
                *byte = value;
            }
        }
        let _ = identify(&bytes);
    }
}
