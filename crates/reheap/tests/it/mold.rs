//! Programs that mold links. It writes no 64-bit distance to a function that is not there into a static-pie, puts every
//! dynamic linker that is named to it into a program, and knows no `-z stack-size`.

use crate::common;
use crate::common::{INSTALL, Project, marker_in, prints, readelf, reheap, run, stack_size};
use std::path::Path;
use std::process::Command;

/// A program whose thread needs more stack than musl gives.
const DEEP: &str = r#"
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static int depth(int left) {
    volatile char frame[1024];
    frame[0] = 1;
    return left ? depth(left - 1) + frame[0] : 0;
}
static void *descend(void *page) {
    *(int *)page = depth(2000);
    return page;
}
int main(void) {
    pthread_t thread;
    int *page = memalign(4096, 4096);
    pthread_create(&thread, NULL, descend, page);
    pthread_join(thread, NULL);
    printf("%d %d\n", *page, (int)((unsigned long)page % 4096));
    free(page);
}
"#;

fn has_mold() {
    let is_there = Command::new("mold").arg("--version").output().is_ok();
    assert!(is_there, "mold is missing; {INSTALL}");
}

#[track_caller]
fn is_static_and_by_mold(program: &Path) {
    assert!(readelf("-p.comment", program).contains("mold "));
    assert!(!readelf("-lW", program).contains("INTERP"));
}

#[test]
fn c_programs_have_the_allocator_and_the_stack() {
    has_mold();
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("deep.c"), DEEP).unwrap();
    for (pie, kind) in [("-static-pie", "static-pie"), ("-no-pie", "static")] {
        let line = "cc --compiler musl-gcc -a rpmalloc -- -O0 deep.c -fuse-ld=mold -o deep";
        let mut link = reheap(line);
        run(link.arg(pie).current_dir(directory.path())).succeeded();
        let program = directory.path().join("deep");
        is_static_and_by_mold(&program);
        assert_eq!(prints(&program), "2000 0\n");
        let inspected = run(reheap("inspect").arg(&program)).succeeded();
        inspected.printed(&[": rpmalloc ", &format!("; {kind},")]);
        let marker = marker_in(&program).unwrap();
        assert_eq!(marker.replaced, [""; 0]);
        let of_program =
            |(name, place): &(&str, Option<u64>)| *name == "memalign" && place.is_some();
        assert!(marker.aligned.iter().any(of_program), "{kind}");
        assert_eq!(stack_size(&program), 8 << 20);
    }
}

#[test]
fn a_program_without_aligned_functions_gets_none_and_keeps_its_own_stack_size() {
    has_mold();
    let directory = tempfile::tempdir().unwrap();
    let source = "#include <stdlib.h>\nint main(void) { return malloc(9) == NULL; }\n";
    std::fs::write(directory.path().join("small.c"), source).unwrap();
    let line = "cc --compiler musl-gcc small.c -fuse-ld=mold -Wl,-z,stack-size=0x50000 -o small";
    run(reheap(line).current_dir(directory.path())).succeeded();
    let program = directory.path().join("small");
    assert_eq!(prints(&program), "");
    assert_eq!(stack_size(&program), 0x5_0000);
    let aligned = marker_in(&program).unwrap().aligned;
    assert!(
        aligned.iter().all(|(_, place)| place.is_none()),
        "{aligned:?}"
    );
}

#[test]
fn a_rust_program_is_linked_and_linked_again() {
    has_mold();
    let project = Project::new(
        "fn main() { println!(\"{}\", (1..5).map(|n| n.to_string()).collect::<String>()) }",
    );
    for (allocator, stack_bytes) in [("rpmalloc", 8 << 20), ("mimalloc", 98_304)] {
        let line = format!("build -a {allocator} --stack-size {stack_bytes}");
        let mut build = project.cargo_reheap(&line);
        run(build.env("RUSTFLAGS", "-C link-arg=-fuse-ld=mold")).succeeded();
        is_static_and_by_mold(&project.app());
        assert_eq!(prints(&project.app()), "1234\n");
        assert_eq!(common::allocator_in(&project.app()), allocator);
        assert_eq!(stack_size(&project.app()), stack_bytes);
    }
}
