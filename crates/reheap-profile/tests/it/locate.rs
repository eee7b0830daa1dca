//! Where the malloc family is in executables: the symbols are the reference for everything else.

use crate::common::{Link, compile, scratch_directory, strip, tool};
use reheap_graft::{Access, LibraryError, LocateError, Located, locate};
use reheap_profile::inject::HooksLibrary;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

fn located(program: &Path) -> Result<Located, LocateError> {
    locate(std::fs::read(program).unwrap().as_slice())
}

fn addresses(located: &Located) -> BTreeMap<String, u64> {
    let functions = located.functions.iter();
    functions
        .map(|function| (function.name.clone(), function.address))
        .collect()
}

/// A Rust program for a target, with std and so with much of its libc.
fn rust_program(target: &str, directory: &Path) -> PathBuf {
    let (source, output) = (directory.join("program.rs"), directory.join(target));
    std::fs::write(
        &source,
        "fn main() { println!(\"{:?}\", vec![std::env::args()]); }",
    )
    .unwrap();
    let mut command = Command::new("rustc");
    command
        .args(["-O", "--target", target])
        .arg(&source)
        .arg("-o")
        .arg(&output);
    tool(&mut command);
    output
}

#[test]
fn a_stripped_program_shows_the_same_functions_as_its_symbols() {
    let directory = scratch_directory();
    let mut programs: Vec<(PathBuf, usize)> = vec![
        (compile("known_counts", Link::Musl, directory.path()), 6),
        (compile("known_counts", Link::Glibc, directory.path()), 6),
        (compile("known_counts", Link::GlibcPie, directory.path()), 6),
        (compile("forever", Link::Glibc, directory.path()), 6),
    ];
    let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    programs.push((rust_program(&target, directory.path()), 6));
    for (program, count) in programs {
        let reference = located(&program).unwrap();
        assert_eq!(reference.access, Access::Symbols);
        let stripped =
            located(&strip(&program)).unwrap_or_else(|error| panic!("{program:?}: {error}"));
        assert_eq!(stripped.access, Access::Code);
        let (reference, found) = (addresses(&reference), addresses(&stripped));
        assert_eq!(found.len(), count, "{program:?}: {found:x?}");
        for (name, address) in found {
            assert_eq!(reference.get(&name), Some(&address), "{program:?}: {name}");
        }
    }
}

#[test]
fn what_has_no_malloc_of_its_own_is_refused_with_the_reason() {
    let directory = scratch_directory();
    let dynamic = compile("manners", Link::Dynamic, directory.path());
    let error = located(&dynamic).unwrap_err();
    assert!(
        matches!(&error, LocateError::Dynamic(name) if name.contains("ld-linux")),
        "{error}"
    );
    let stripped = located(&strip(&dynamic)).unwrap_err();
    assert_eq!(stripped, error);

    let go = directory.path().join("go");
    let source = directory.path().join("main.go");
    std::fs::write(&source, "package main\nfunc main() { println(\"go\") }\n").unwrap();
    let mut command = Command::new("go");
    command.env("CGO_ENABLED", "0").env("GO111MODULE", "off");
    command.env("GOCACHE", directory.path().join("cache"));
    command
        .args(["build", "-ldflags=-s -w", "-o"])
        .arg(&go)
        .arg(&source);
    tool(&mut command);
    assert_eq!(located(&go).unwrap_err(), LocateError::Go);

    assert!(matches!(
        locate(&b"#!/bin/sh\n"[..]),
        Err(LocateError::Damaged(_))
    ));
    let mut class_32 = std::fs::read(&dynamic).unwrap();
    class_32[4] = 1;
    assert!(matches!(
        locate(class_32.as_slice()),
        Err(LocateError::Unsupported(_))
    ));
}

/// A static program of this text, without a libc's start.
fn bare_program(name: &str, text: &str, arguments: &[&str], directory: &Path) -> PathBuf {
    let (source, output) = (directory.join(format!("{name}.c")), directory.join(name));
    std::fs::write(&source, text).unwrap();
    let mut command = Command::new("cc");
    command.args([
        "-O1",
        "-fno-builtin",
        "-static",
        "-nostdlib",
        "-fno-stack-protector",
    ]);
    command.args(arguments).arg(&source).arg("-o").arg(&output);
    tool(&mut command);
    output
}

#[test]
fn two_candidates_are_refused() {
    let directory = scratch_directory();
    let text = "void *a_mallocx(unsigned long n, int f) { return (void *)(n + f); }\n\
                void a_sdallocx(void *p, unsigned long n, int f) { *(char *)p = n + f; }\n\
                void *b_mallocx(unsigned long n, int f) { return (void *)(n * f); }\n\
                void b_sdallocx(void *p, unsigned long n, int f) { *(char *)p = n * f; }\n\
                void _start(void) { for (;;) b_sdallocx(a_mallocx(1, 2), 3, 4); }\n";
    let program = bare_program("two", text, &[], directory.path());
    let error = located(&program).unwrap_err();
    assert!(matches!(error, LocateError::Ambiguous { .. }), "{error}");
}

#[test]
fn a_malloc_without_its_free_is_refused() {
    let directory = scratch_directory();
    let text = "static char memory[100];\n\
                void *malloc(unsigned long n) { return memory + n; }\n\
                void _start(void) { for (;;) *(char *)malloc(1) = 1; }\n";
    let program = bare_program("half", text, &[], directory.path());
    let error = located(&program).unwrap_err();
    assert!(
        matches!(
            error,
            LocateError::Incomplete {
                missing: "free",
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn functions_that_cannot_be_hooked_are_refused() {
    let directory = scratch_directory();
    let chosen = "static void *one(unsigned long n) { return (void *)n; }\n\
                  static void *(*choose(void))(unsigned long) { return one; }\n\
                  void *malloc(unsigned long n) __attribute__((ifunc(\"choose\")));\n\
                  void free(void *p) { *(char *)p = 0; }\n\
                  void _start(void) { for (;;) free(malloc(1)); }\n";
    let program = bare_program("chosen", chosen, &[], directory.path());
    assert_eq!(
        located(&program).unwrap_err(),
        LocateError::ChosenAtStart("malloc".to_owned())
    );

    // A `free` of one byte, and the next function directly behind it.
    let short = "void *malloc(unsigned long n) { return (void *)(n * 1000 + 77777); }\n\
                 __asm__(\".globl free\\n.type free, @function\\nfree: ret\\n.size free, 1\\n\
                 .globl other\\nother: mov $77, %eax\\nret\\n\");\n\
                 void free(void *p);\n\
                 void _start(void) { for (;;) free(malloc(1)); }\n";
    let program = bare_program("short", short, &[], directory.path());
    let error = located(&program).unwrap_err();
    assert!(
        matches!(&error, LocateError::Prologue { name, .. } if name == "free"),
        "{error}"
    );
}

#[test]
fn a_stripped_program_with_a_malloc_of_its_own_is_refused() {
    let directory = scratch_directory();
    let text = "static char memory[1000]; static unsigned long used;\n\
                void *malloc(unsigned long n) { used += n; return memory + used % 900; }\n\
                void free(void *p) { *(char *)p = 0; }\n\
                void _start(void) { for (;;) free(malloc(1)); }\n";
    let program = bare_program("own", text, &["-Wl,-s"], directory.path());
    let error = located(&program).unwrap_err();
    assert_eq!(error, LocateError::Unknown);
}

#[test]
fn a_library_that_injected_code_cannot_be_is_refused() {
    let directory = scratch_directory();
    let build = |text: &str, arguments: &[&str]| {
        let (source, output) = (directory.path().join("l.c"), directory.path().join("l.so"));
        std::fs::write(&source, text).unwrap();
        let mut command = Command::new("cc");
        command.args(["-shared", "-fPIC", "-nostdlib", "-fno-stack-protector"]);
        command.args(arguments).arg(&source).arg("-o").arg(&output);
        tool(&mut command);
        HooksLibrary::parse(&std::fs::read(output).unwrap()).map(|_| ())
    };
    let attach = "int reheap_hooks_attach(const char *p) { return *p; }\n";
    assert_eq!(build(attach, &[]), Ok(()));
    let lacks = LibraryError::Lacks("reheap_hooks_attach");
    assert_eq!(build("int other;\n", &[]), Err(lacks));
    for needy in [
        "int puts(const char *); void f(void) { puts(\"\"); }\n",
        "_Thread_local int mine; int *f(void) { return &mine; }\n",
    ] {
        let error = build(&format!("{attach}{needy}"), &[]).unwrap_err();
        assert!(matches!(error, LibraryError::Needs(_)), "{error}");
    }
    let weak = "void *dlsym(void *, const char *) __attribute__((weak));\nvoid *f(void) { return (void *)dlsym; }\n";
    assert_eq!(build(&format!("{attach}{weak}"), &[]), Ok(()));
}

#[test]
fn a_program_that_only_makes_system_calls_has_no_malloc() {
    let directory = scratch_directory();
    let (source, program) = (
        directory.path().join("calls.c"),
        directory.path().join("calls"),
    );
    let text = "#include <unistd.h>\nint main(void) { return syscall(39) <= 0; }\n";
    std::fs::write(&source, text).unwrap();
    let mut compiler = Command::new("musl-gcc");
    compiler.arg("-static").arg(&source).arg("-o").arg(&program);
    tool(&mut compiler);
    let error = located(&program).unwrap_err();
    assert!(matches!(error, LocateError::NoMalloc), "{error}");
}

#[test]
fn a_segment_where_no_program_can_be_is_refused() {
    let directory = scratch_directory();
    let program = compile("forever", Link::Musl, directory.path());
    let intact = std::fs::read(program).unwrap();
    let word = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let segments = word(&intact, 32) as usize; // e_phoff
    let count = usize::from(u16::from_le_bytes([intact[56], intact[57]])); // e_phnum
    for segment in (0..count).map(|index| segments + 56 * index) {
        // p_vaddr, p_filesz, p_memsz
        for field in [16, 32, 40] {
            let mut bytes = intact.clone();
            bytes[segment + field..segment + field + 8].fill(0xff);
            let error = locate(bytes.as_slice()).unwrap_err();
            assert!(matches!(error, LocateError::Damaged(_)), "{error}");
        }
    }
}

fn word(file: &[u8], at: usize) -> usize {
    u64::from_le_bytes(file[at..at + 8].try_into().unwrap()) as usize
}

fn put_word(file: &mut [u8], at: usize, word: usize) {
    file[at..at + 8].copy_from_slice(&(word as u64).to_le_bytes());
}

/// 100,000 names that begin in one text of a megabyte: each ends where all others do, and has an `alloc` in it.
#[test]
fn names_that_overlap_take_no_more_memory_than_the_file() {
    let directory = scratch_directory();
    let text = "static char memory[100];\n\
                void *malloc(unsigned long n) { return memory + n; }\n\
                void free(void *p) { *(char *)p = memory[7] = 1; }\n\
                void _start(void) { for (;;) free(malloc(1)); }\n";
    let program = bare_program("names", text, &[], directory.path());
    let reference = located(&program).unwrap();
    let mut file = std::fs::read(&program).unwrap();
    // Section headers have 64 bytes: the kind is at 4, the offset at 24, the size at 32 and the other section at 40.
    let header = |file: &[u8], section: usize| word(file, 40) + 64 * section;
    let is_table = |section: &usize| file[header(&file, *section) + 4] == 2;
    let symbols = (0..)
        .find(is_table)
        .map(|section| header(&file, section))
        .unwrap();
    let names = header(&file, file[symbols + 40].into());
    let contents = |file: &[u8], header: usize| {
        let (offset, size) = (word(file, header + 24), word(file, header + 32));
        file[offset..offset + size].to_vec()
    };
    let (mut table, mut text) = (contents(&file, symbols), contents(&file, names));
    let of_malloc = table.chunks(24).find(|symbol| {
        let name = u32::from_le_bytes(symbol[..4].try_into().unwrap());
        text[name as usize..].starts_with(b"malloc\0")
    });
    let of_malloc = of_malloc.unwrap().to_vec();
    for number in 0..100_000u32 {
        let name = text.len() as u32 + number * 10;
        table.extend(name.to_le_bytes());
        table.extend(&of_malloc[4..]);
    }
    text.extend(vec![b'a'; 1 << 20]);
    text.extend(b"alloc\0");
    for (header, contents) in [(symbols, table), (names, text)] {
        let end = file.len();
        put_word(&mut file, header + 24, end);
        put_word(&mut file, header + 32, contents.len());
        file.extend(contents);
    }
    assert_eq!(locate(file.as_slice()).unwrap(), reference);
}

/// 10,000 segments of the same code, which has some hundred kilobytes.
#[test]
fn a_stripped_program_whose_segments_overlap_is_refused() {
    let directory = scratch_directory();
    let program = strip(&compile("known_counts", Link::Glibc, directory.path()));
    let mut file = std::fs::read(&program).unwrap();
    // Program headers have 56 bytes: the kind is at 0, the flags at 4 and the address at 16.
    let (offset, count) = (word(&file, 32), usize::from(file[56]));
    let mut headers = file[offset..offset + 56 * count].to_vec();
    let is_code = |header: &&[u8]| header[0] == 1 && header[4] & 1 == 1;
    let code = headers.chunks(56).find(is_code).unwrap().to_vec();
    for number in 1..=10_000 {
        let mut copy = code.clone();
        put_word(&mut copy, 16, number << 32);
        headers.extend(copy);
    }
    let end = file.len();
    put_word(&mut file, 32, end);
    file[56..58].copy_from_slice(&(count as u16 + 10_000).to_le_bytes());
    file.extend(headers);
    let error = locate(file.as_slice()).unwrap_err();
    assert!(
        matches!(&error, LocateError::Damaged(what) if what.contains("overlap")),
        "{error}"
    );
}
