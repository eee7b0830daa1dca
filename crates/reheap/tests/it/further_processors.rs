//! Static programs for processors that reheap itself does not run on: built with Rust's own musl, run in an emulator.
//!
//! One 32-bit target stands for the others here, because each needs allocators of its own. `make test-targets` builds every
//! allocator for every target.

use crate::common::{
    HELLO, INSTALL, Project, allocator_in, marker_in, reheap, run, words, wrong_usage,
};
use reheap_allocators::catalogue::{CATALOGUE, MissingOn};
use reheap_allocators::target::{Architecture, Target};
use std::path::Path;
use std::process::Command;

const TRIPLE: &str = "i686-unknown-linux-musl";
const EMULATOR: &str = "qemu-i386";
const C_COMPILER: &str =
    "python3 -m ziglang cc -target x86-linux-musl -g0 -fno-sanitize=undefined -O1 -c";

const THREADS_OF_BOTH: &str = r#"
use std::collections::HashMap;
unsafe extern "C" { fn blocks_of_threads(threads: u32) -> u32; }
fn main() {
    let threads: Vec<_> = (1..5_u32).map(|number| std::thread::spawn(move || {
        let entry = |key: u32| (format!("key {}", key * number), vec![number; key as usize % 300]);
        (0..1000).map(entry).collect::<HashMap<_, _>>().len()
    })).collect();
    let entries: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    // It has no preconditions.
    let blocks = unsafe { blocks_of_threads(4) };
    println!("{entries} entries, {blocks} blocks, {} bits", usize::BITS);
}
"#;

const BLOCKS_OF_THREADS: &str = r#"
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void *make_blocks(void *unused) {
    uintptr_t good = 0;
    for (size_t size = 1; size <= 1000; size++) {
        char *block = malloc(size);
        memset(block, (int)size, size);
        block = realloc(block, 3 * size);
        good += block[size - 1] == (char)size;
        free(block);
    }
    void *aligned;
    good += posix_memalign(&aligned, 4096, 10) == 0 && (uintptr_t)aligned % 4096 == 0;
    free(aligned);
    return (void *)good;
}

uint32_t blocks_of_threads(uint32_t count) {
    pthread_t threads[8];
    uint32_t all = 0;
    for (uint32_t i = 0; i < count; i++) pthread_create(&threads[i], NULL, make_blocks, NULL);
    for (uint32_t i = 0; i < count; i++) {
        void *good;
        pthread_join(threads[i], &good);
        all += (uint32_t)(uintptr_t)good;
    }
    return all;
}
"#;

/// Fails with what is missing: reheap's own message would not say how to get it for the tests.
fn require_rust_for(triple: &str) {
    let asked = ["--print", "target-libdir", "--target", triple];
    let directory = run(Command::new("rustc").args(asked)).succeeded().stdout;
    let is_there = Path::new(directory.trim()).is_dir();
    assert!(is_there, "Rust's target `{triple}` is missing; {INSTALL}");
}

#[test]
fn rust_and_c_code_of_a_32_bit_program_get_the_allocator_and_its_tuning() {
    require_rust_for(TRIPLE);
    let project = Project::new(THREADS_OF_BOTH);
    project.write("blocks.c", BLOCKS_OF_THREADS);
    let object = project.directory.join("blocks.o");
    let cc = words(C_COMPILER);
    let mut compile = Command::new(cc[0]);
    compile
        .args(&cc[1..])
        .arg("blocks.c")
        .arg("-o")
        .arg(&object);
    run(compile.current_dir(&project.directory)).succeeded();

    let line = format!(
        "rustc --target {TRIPLE} -t purge_delay=5 -- -C link-arg={}",
        object.display()
    );
    let outcome = run(&mut project.cargo_reheap(&line)).succeeded();
    outcome.said(&["static, ", "mimalloc 2.", " [purge_delay=5] in musl 1.2."]);
    let app = project
        .directory
        .join("target")
        .join(TRIPLE)
        .join("debug/app");
    let printed = run(Command::new(EMULATOR).arg(&app)).succeeded().stdout;
    assert_eq!(printed, "4000 entries, 4004 blocks, 32 bits\n");

    let found = marker_in(&app).unwrap();
    assert_eq!(found.marker.allocator, "mimalloc");
    assert_eq!(found.marker.tuning["purge_delay"], "5");
    assert_eq!(found.marker.memory_functions, None, "musl keeps its own");
    assert_eq!(found.replaced, [""; 0]);
    let inspected = run(reheap("inspect").arg(&app)).succeeded().stdout;
    assert!(
        inspected.ends_with(": mimalloc 2.3.2; static, musl 1.2.5\n"),
        "{inspected}"
    );

    // What only works where reheap has libraries says so.
    let refused = run(reheap("profile --").arg(&app)).ended_with(1);
    refused.said(&["it is a 32-bit program for i686, and the hooks are for"]);
    let refused = run(reheap("run -a mimalloc --").arg(&app)).ended_with(1);
    refused.said(&["it is for another processor than x86-64"]);

    let line = format!("build --target {TRIPLE} -a stock");
    run(&mut project.cargo_reheap(&line)).ended_with(101);
    let hello = Project::new(HELLO);
    run(&mut hello.cargo_reheap(&line)).succeeded();
    let app = hello
        .directory
        .join("target")
        .join(TRIPLE)
        .join("debug/app");
    assert_eq!(allocator_in(&app), "stock");
}

#[test]
fn a_block_at_a_multiple_of_a_gib_is_possible_with_32_bits() {
    let project = Project::new(HELLO);
    let source = r#"
        #include <stdint.h>
        #include <stdio.h>
        #include <stdlib.h>
        int main(int count, char **words) {
            size_t size = strtoul(words[1], NULL, 0);
            char *block = NULL;
            int error = posix_memalign((void **)&block, 1 << 30, size);
            if (error) return error;
            block[size - 1] = 'x';
            printf("%lu", (unsigned long)((uintptr_t)block % (1 << 30)));
            block = realloc(block, size + 5000);
            putchar(block[size - 1]);
            free(block);
            return 0;
        }"#;
    project.write("aligned.c", source);
    for allocator in ["mimalloc", "mimalloc3"] {
        let line = format!("cc -a {allocator} --target {TRIPLE} aligned.c -o aligned");
        run(reheap(&line).current_dir(&project.directory)).succeeded();
        for size in ["100", "100000", "200000000"] {
            let mut aligned = Command::new(EMULATOR);
            let aligned = aligned.arg(project.directory.join("aligned")).arg(size);
            assert_eq!(run(aligned).succeeded().stdout, "0x", "{allocator}");
        }
    }
}

#[test]
fn an_allocator_that_a_processor_lacks_is_refused_with_the_reason_and_the_others() {
    let project = Project::new(HELLO);
    for (triple, reason) in [
        (TRIPLE, "128-bit integers"),
        ("armv7-unknown-linux-musleabihf", "128-bit integers"),
        ("riscv64gc-unknown-linux-musl", "256 GiB"),
    ] {
        wrong_usage(
            &project,
            &format!("build --target {triple} -a hardened_malloc"),
            &[
                &format!("cannot use hardened_malloc for `{triple}`: "),
                reason,
                "hint: use one of these: mimalloc, ",
            ],
        );
    }
    let listed = run(&mut reheap("list --json")).succeeded().stdout;
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let rows = listed.as_array().unwrap();
    let row = |name: &str| rows.iter().find(|row| row["name"] == name).unwrap();
    let missing = row("hardened_malloc")["missing_on"].as_object().unwrap();
    assert!(missing.contains_key(TRIPLE), "{missing:?}");
    assert_eq!(row("mimalloc")["missing_on"], serde_json::json!({}));
}

/// The table of `docs/targets.md` and the reasons below it.
fn table_of_the_catalogue() -> String {
    let named = |architecture: Architecture| Target::musl(architecture).triple();
    let cell = |text: &str| format!(" {text} |");
    let all = Architecture::ALL;
    let short =
        all.map(|architecture| cell(named(architecture).split('-').next().unwrap_or_default()));
    let mut text = format!(
        "| allocator |{}\n|{}\n",
        short.concat(),
        " --- |".repeat(all.len() + 1)
    );
    let built = CATALOGUE.iter().filter(|row| row.build.is_some());
    for row in built.clone() {
        let cells = all.map(|architecture| {
            cell(if row.missing_on(architecture).is_some() {
                "-"
            } else {
                "yes"
            })
        });
        text.push_str(&format!("| {} |{}\n", row.name, cells.concat()));
    }
    text.push('\n');
    // Variants of an allocator share their reasons.
    let mut reasons: Vec<(&MissingOn, Vec<&str>)> = Vec::new();
    for row in built {
        for missing in row.missing_on {
            match reasons.iter_mut().find(|(known, _)| *known == missing) {
                Some((_, rows)) => rows.push(row.name),
                None => reasons.push((missing, vec![row.name])),
            }
        }
    }
    for (missing, rows) in reasons {
        let targets: Vec<_> = missing
            .architectures
            .iter()
            .map(|architecture| named(*architecture))
            .collect();
        let (rows, targets) = (rows.join(", "), targets.join(", "));
        text.push_str(&format!("- {rows} for {targets}: {}\n", missing.reason));
    }
    text
}

#[test]
fn the_documentation_has_the_table_of_the_catalogue() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/targets.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (_, rest) = page.split_once("<!-- the catalogue -->\n").unwrap();
    let (table, _) = rest.split_once("<!-- end of the catalogue -->").unwrap();
    let expected = table_of_the_catalogue();
    assert!(
        table == expected,
        "put this into docs/targets.md:\n{expected}"
    );
}
