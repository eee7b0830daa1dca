//! A derived libc for AArch64: which of musl's memory functions it keeps, and whether programs work with the others.
#![cfg(target_arch = "x86_64")]

use crate::common::{
    INSTALL, TINY, TINY_GLUE, Workshop, allocator_of, directory_of_rust, marker,
    memory_functions_for, tuning,
};
use reheap_elf::derive::{DerivedLibc, derive_libc, read_original};
use std::collections::BTreeSet;
use std::fs;

const GCC: &str = "aarch64-linux-gnu-gcc";

/// Rust's musl with the tiny allocator, with and without reheap's memory functions.
fn derived(workshop: &Workshop) -> [DerivedLibc; 2] {
    let path = directory_of_rust("aarch64").join("libc.a");
    let libc = fs::read(&path)
        .unwrap_or_else(|error| panic!("cannot read `{}`: {error}; {INSTALL}", path.display()));
    let original = read_original(&libc).unwrap();
    // Without functions of libgcc that ask the C library what the processor has.
    let allocator = allocator_of(workshop, TINY, TINY_GLUE, "-mno-outline-atomics");
    let memory = memory_functions_for(&reheap_mem::SOURCES_AARCH64, workshop);
    [Some(&memory), None]
        .map(|memory| derive_libc(&original, &allocator, memory, &marker(), &tuning()).unwrap())
}

#[test]
fn what_is_assembly_in_musl_stays_and_what_are_loops_in_c_goes() {
    let [derived, without] = derived(&Workshop::with_compiler(GCC));
    let before: BTreeSet<&String> = without.taken_out.iter().collect();
    let mut taken_out: Vec<&str> = derived
        .taken_out
        .iter()
        .filter(|name| !before.contains(name))
        .map(String::as_str)
        .collect();
    taken_out.sort_unstable();
    assert_eq!(
        taken_out,
        [
            "bcmp.lo",
            "memchr.lo",
            "memcmp.lo",
            "memmove.lo",
            "memrchr.lo",
            "stpcpy.lo",
            "stpncpy.lo",
            "strchr.lo",
            "strchrnul.lo",
            "strcmp.lo",
            "strcpy.lo",
            "strlen.lo",
            "strncmp.lo",
            "strncpy.lo",
            "strnlen.lo",
        ]
    );
}

const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
static char early[64];
__attribute__((constructor)) static void constructor(void)
{
    memset(early, 'e', 40);
    memmove(early + 1, early, 41);
}
int main(int argc, char **argv)
{
    static char block[5000], copy[5000];
    memset(block, argc + 'a', sizeof block - 1);
    memcpy(copy, block, sizeof copy);
    printf("%zu %zu %d %ld %ld\n", strlen(early), strlen(copy), memcmp(block, copy, sizeof copy),
        (long)((char *)memchr(copy, 0, sizeof copy) - copy), (long)((char *)memrchr(copy, 'b', sizeof copy) - copy));
    strncpy(copy, argv[0], sizeof copy);
    printf("%d %d %s\n", strcmp(copy, argv[0]), strncmp(copy, "./b", 3), strchr(copy, '/'));
}
"#;

#[test]
fn static_executables_of_both_kinds_work() {
    let workshop = Workshop::with_compiler(GCC);
    let [derived, _] = derived(&workshop);
    workshop.write("libc.a", &derived.bytes);
    workshop.compile("a", PROGRAM, "-fno-builtin");
    let crt = directory_of_rust("aarch64");
    let crt = crt.display();
    let libgcc = workshop.run(&format!("{GCC} -print-libgcc-file-name"));
    for (first, flags) in [
        ("rcrt1.o", "-static -pie --no-dynamic-linker -z text"),
        ("crt1.o", "-static"),
    ] {
        workshop.run(&format!(
            "aarch64-linux-gnu-ld {flags} -o a {crt}/{first} {crt}/crti.o a.o libc.a {} {crt}/crtn.o",
            libgcc.trim()
        ));
        assert_eq!(
            workshop.run("qemu-aarch64 -cpu cortex-a53 ./a"),
            "41 4999 0 4999 4998\n0 -1 /a\n",
            "{flags}"
        );
    }
}
