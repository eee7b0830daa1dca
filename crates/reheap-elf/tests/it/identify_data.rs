//! Programs that contain what allocators contain, and code that nothing else contains.

use crate::workshop::{PROGRAM, Workshop};
use reheap_elf::identify::{
    Confidence, Evidence, FoundAllocator, Identity, LibcName, LibcVersion, Provider, identify,
};
use std::path::Path;
use std::process::Command;

/// What a tool that looks for allocators contains. None of them is in it.
const CATALOGUE: &str = r#"
const char *volatile texts[] = {
    "free(): invalid next size (fast)", "malloc(): corrupted top size", "mimalloc: warning: %s",
    "mimalloc: assertion failed: at", "<jemalloc>: %s", "tcmalloc: large alloc %d", "Failed to initialise snmalloc.",
    "Scudo ERROR: %s", "fatal allocator error: %s", "partition_alloc/allocated_objects", "runtime.mallocinit",
    "gperftools 2.10", "GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36.", "GLIBC_TUNABLES",
    "\xff Go buildinf:", "5.3.0-0-g54eaed1d8b56b1aa528be3bdd1877e59c56fa90c",
};
const unsigned short volatile size_classes[48] = {
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 18, 20, 25, 31, 36, 42, 50, 63, 72, 84, 102, 127, 146, 170, 204, 255, 292,
    340, 409, 511, 584, 682, 818, 1023, 1169, 1364, 1637, 2047, 2340, 2730, 3276, 4095, 4680, 5460, 6552, 8191,
};
const unsigned char volatile bins[60] = {
    32, 33, 34, 35, 36, 36, 37, 37, 38, 38, 39, 39, 40, 40, 40, 40, 41, 41, 41, 41, 42, 42, 42, 42, 43, 43, 43, 43,
    44, 44, 44, 44, 44, 44, 44, 44, 45, 45, 45, 45, 45, 45, 45, 45, 46, 46, 46, 46, 46, 46, 46, 46, 47, 47, 47, 47,
    47, 47, 47, 47,
};
"#;

/// A stripped program with that data, and a malloc of its libc.
fn with_catalogue(compiler: &str) -> Identity {
    let workshop = Workshop::with(&["musl-gcc", "gcc", "strip"]);
    workshop.write("a.c", format!("{CATALOGUE}{PROGRAM}"));
    workshop.run(&format!("{compiler} -O2 a.c -o a"));
    workshop.stripped("a")
}

fn certain(identity: &Identity) -> Vec<&str> {
    let found = identity.allocators.iter();
    let certain = found.filter(|found| found.confidence == Confidence::Certain);
    certain.map(|found| found.name.as_str()).collect()
}

#[test]
fn data_of_allocators_in_a_dynamic_program_is_a_hint_and_never_certain() {
    let identity = with_catalogue("gcc");
    assert_eq!(certain(&identity), [""; 0]);
    assert!(identity.allocators.len() > 10, "{:?}", identity.allocators);
    assert_eq!(identity.malloc.provider, Provider::SharedLibc);
}

#[test]
fn a_static_program_with_data_of_other_allocators_has_only_the_one_whose_code_is_in_it() {
    let identity = with_catalogue("musl-gcc -static");
    assert_eq!(certain(&identity), ["musl-mallocng"]);
    let malloc = identity.malloc;
    assert_eq!(malloc.provider, Provider::Unknown, "{}", malloc.reason);
    assert_eq!(identity.libc.name, LibcName::Musl);
    assert_eq!(identity.libc.confidence, Some(Confidence::Certain));
    let not_of_glibcs_banner = LibcVersion::AtLeast("1.2.1".to_owned());
    assert_eq!(identity.libc.version, Some(not_of_glibcs_banner));
}

#[test]
fn a_program_with_another_one_as_data_does_not_have_its_malloc() {
    let workshop = Workshop::with(&["musl-gcc", "gcc", "strip"]);
    workshop.write("a.c", PROGRAM);
    workshop.run("musl-gcc -O2 -static a.c -o carried");
    workshop.run("strip carried");
    workshop.write(
        "carrier.s",
        ".section .rodata\n.global carried\ncarried: .incbin \"carried\"\n",
    );
    workshop.write("b.c", format!("extern char carried[];\n{PROGRAM}"));
    workshop.run("gcc -O2 b.c carrier.s -o b");
    let identity = workshop.stripped("b");
    assert_eq!(identity.malloc.provider, Provider::SharedLibc);
    assert_eq!(certain(&identity), [""; 0]);
    let mallocng = |found: &&FoundAllocator| found.name == "musl-mallocng";
    let mut found = identity.allocators.iter().filter(mallocng);
    assert_eq!(
        found.next().map(|found| found.confidence),
        Some(Confidence::Likely)
    );
}

#[test]
fn a_stripped_go_program_is_known_by_its_build_information() {
    let workshop = Workshop::with(&["gcc"]);
    let source = "package main\n\nfunc main() { println(make([]int, 3)) }\n";
    workshop.write("a.go", source);
    workshop.run("go build -ldflags=-s a.go");
    let malloc = workshop.identify("a").malloc;
    let of_go = Provider::Allocator {
        name: "go-runtime".to_owned(),
    };
    assert_eq!(
        (malloc.provider, malloc.confidence),
        (of_go, Some(Confidence::Likely))
    );
}

#[test]
fn mallocng_is_known_by_its_code_on_each_processor_whose_code_is_read() {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output();
    let sysroot = String::from_utf8(output.unwrap().stdout).unwrap();
    for architecture in ["x86_64", "i686", "aarch64"] {
        let libc = Path::new(sysroot.trim()).join(format!(
            "lib/rustlib/{architecture}-unknown-linux-musl/lib/self-contained/libc.a"
        ));
        let libc = std::fs::read(libc)
            .unwrap_or_else(|error| panic!("{architecture}: {error}: xtask/prepare install"));
        let found = identify(&libc).unwrap().allocators;
        let mut evidence = found[0].evidence.iter();
        let is_code = |evidence: &Evidence| matches!(evidence, Evidence::Code(_));
        assert!(evidence.any(is_code), "{architecture}: {found:?}");
    }
}
