//! Derived libcs for processors that this machine does not have: their programs run in an emulator.
//!
//! With a small libc and a small allocator, because what is to be seen here is the ELF: classes, relocations and flags. The
//! allocators of the catalogue are tried with Rust's own musl by `make test-targets`.

use crate::common::{INSTALL, TINY, TINY_GLUE, Workshop, allocator_of, marker, member, tuning};
use reheap_elf::Architecture;
use reheap_elf::archive;
use reheap_elf::baked::Baked;
use reheap_elf::derive::{derive_libc, read_original};
use reheap_elf::identify::{Kind, Provider, identify};

/// A processor: its name, as Zig calls it and with what it compiles for it, and the emulator.
const PROCESSORS: [(Architecture, &str, &str); 5] = [
    (
        Architecture::Riscv64,
        "python3 -m ziglang cc -g0 -fno-sanitize=undefined -target riscv64-linux-musl",
        "qemu-riscv64",
    ),
    (
        Architecture::Loongarch64,
        "python3 -m ziglang cc -g0 -fno-sanitize=undefined -target loongarch64-linux-musl",
        "qemu-loongarch64",
    ),
    (
        Architecture::Powerpc64le,
        "python3 -m ziglang cc -g0 -fno-sanitize=undefined -target powerpc64le-linux-musl",
        "qemu-ppc64le",
    ),
    (
        Architecture::I686,
        "python3 -m ziglang cc -g0 -fno-sanitize=undefined -target x86-linux-musl",
        "qemu-i386",
    ),
    (
        Architecture::Armv7,
        "python3 -m ziglang cc -g0 -fno-sanitize=undefined -target arm-linux-musleabihf",
        "qemu-arm",
    ),
];

const SMALL_MUSL: &str = include_str!("../fixtures/small_musl.c");

const PROGRAM: &str = r#"
#include <stdint.h>
#include <stdlib.h>
int puts(const char *);
extern const char *text_of_the_test;
#ifdef OWN_MALLOC
static char heap[99];
void *malloc(size_t size) { return heap + (size & 7); }
void *calloc(size_t count, size_t size) { return malloc(count * size); }
void *realloc(void *block, size_t size) { return block ? block : malloc(size); }
void free(void *block) { *(volatile char *)block = 0; }
#endif
#if defined __i386__
__attribute__((force_align_arg_pointer))
#endif
_Noreturn void _start(void) {
    char *block = malloc(20);
    if (!block) exit(1);
    for (int i = 0; i < 5; i++) block[i] = "works"[i];
    block = realloc(block, 60);
    block[5] = 0;
    puts(block);
    puts(text_of_the_test);
    free(block);
    exit(0);
}
"#;

/// The small libc with the tiny allocator in it.
fn derived(workshop: &Workshop, architecture: Architecture) -> Vec<u8> {
    let members = ["malloc", "rest"].map(|name| {
        let flags = format!("-fno-builtin -fno-stack-protector -DMEMBER_{name}");
        let object = workshop.compile(name, SMALL_MUSL, &flags);
        member(&format!("{name}.lo"), object)
    });
    let original = read_original(&archive::write(&members).unwrap()).unwrap();
    assert_eq!(original.architecture, architecture);
    assert_eq!(original.version, "1.2.5");
    let allocator = allocator_of(
        workshop,
        TINY,
        TINY_GLUE,
        "-fno-stack-protector -ftls-model=local-exec",
    );
    let mut tuning = tuning();
    // So that what is before it in the section has a size.
    tuning.push(Baked::StringPointer {
        symbol: "text_of_the_test".to_owned(),
        text: "with its text".to_owned(),
    });
    let derived = derive_libc(&original, &allocator, None, &marker(), &tuning).unwrap();
    assert_eq!(derived.taken_out, ["malloc.lo"]);
    derived.bytes
}

#[test]
fn a_program_has_the_allocator_and_proves_it_or_has_its_own() {
    for (architecture, compiler, emulator) in PROCESSORS {
        let workshop = Workshop::with_compiler(compiler);
        let version = workshop.try_run(&format!("{emulator} --version"));
        assert!(version.status.success(), "{emulator} is missing; {INSTALL}");
        workshop.write("libc.a", derived(&workshop, architecture));
        for (flags, replaced) in [
            ("", &[][..]),
            ("-DOWN_MALLOC", &["malloc", "calloc", "realloc", "free"][..]),
        ] {
            workshop.compile(
                "a",
                PROGRAM,
                &format!("-fno-builtin -fno-stack-protector {flags}"),
            );
            workshop.run("python3 -m ziglang ld.lld -static -o a a.o libc.a");
            let printed = workshop.run(&format!("{emulator} ./a"));
            assert_eq!(printed, "works\nwith its text\n", "{architecture} {flags}");
            let identity = identify(&workshop.read("a")).unwrap();
            assert_eq!(identity.kind, Kind::Static);
            assert_eq!(identity.architecture, architecture.name());
            let found = identity.marker.unwrap();
            assert_eq!(found.marker, marker(), "{architecture} {flags}");
            assert_eq!(found.replaced, replaced, "{architecture} {flags}");
            let is_the_allocators = matches!(
                identity.malloc.provider,
                Provider::Allocator { name } if name == "tiny"
            );
            assert_eq!(is_the_allocators, replaced.is_empty(), "{architecture}");
        }
        // No linker has bound the words in the archive yet.
        let archive = identify(&workshop.read("libc.a")).unwrap();
        assert_eq!(archive.marker.unwrap().marker, marker(), "{architecture}");
    }
}

#[test]
fn a_libc_of_a_big_endian_processor_is_refused() {
    let workshop = Workshop::with_compiler("python3 -m ziglang cc -target s390x-linux-musl");
    let object = workshop.compile("malloc", SMALL_MUSL, "-DMEMBER_malloc");
    let members = [member("malloc.lo", object)];
    let error = read_original(&archive::write(&members).unwrap()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "member `malloc.lo` is big-endian ELF, and reheap derives only from little-endian ELF"
    );
}

#[test]
fn a_note_in_a_big_endian_file_is_no_marker_of_ours() {
    const SOURCE: &str = r#"
        __attribute__((section(".note.reheap"))) const int __reheap_marker[] = { 7, 0, 2, 0, 0 };
        const unsigned short size_classes[] = {
            1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 18, 20, 25, 31, 36, 42, 50, 63, 72, 84, 102, 127, 146, 170, 204, 255,
            292, 340, 409, 511, 584, 682, 818, 1023, 1169, 1364, 1637, 2047, 2340, 2730, 3276, 4095, 4680, 5460, 6552,
            8191 };
        void _start(void) {}
    "#;
    let workshop = Workshop::with_compiler("python3 -m ziglang cc -target s390x-linux-musl");
    workshop.compile("a", SOURCE, "");
    workshop.run("python3 -m ziglang ld.lld -static -o a a.o");
    for name in ["a", "a.o"] {
        let identity = identify(&workshop.read(name)).unwrap();
        assert_eq!(identity.architecture, "s390x", "{name}");
        assert_eq!(identity.marker, None, "{name}");
        let allocators: Vec<_> = identity
            .allocators
            .iter()
            .map(|allocator| &allocator.name)
            .collect();
        assert_eq!(allocators, ["musl-mallocng"], "{name}");
    }
}
