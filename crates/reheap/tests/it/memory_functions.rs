//! `--memory-functions`: whose memcpy an executable gets, and who says so.
#![cfg(target_arch = "x86_64")]

use crate::common::{marker_in, prints, reheap, run};
use reheap_elf::archive;
use std::fs;
use std::path::{Path, PathBuf};

/// Memory functions that the compiler cannot make anything else of.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv)
{
    size_t count = 1000 * argc;
    char *from = malloc(count), *to = malloc(count);
    memset(from, 'x', count - 1);
    from[count - 1] = 0;
    memcpy(to, from, count);
    printf("%zu %d\n", strlen(to), memcmp(from, to, count));
}
"#;

fn linked(directory: &Path, flags: &str) -> PathBuf {
    fs::write(directory.join("a.c"), PROGRAM).unwrap();
    let line = format!("cc {flags} -O1 -fno-builtin a.c -o a");
    run(reheap(&line).current_dir(directory)).succeeded();
    directory.join("a")
}

fn memory_functions_in(executable: &Path) -> Option<String> {
    marker_in(executable).unwrap().marker.memory_functions
}

/// Whether the symbol table names them.
fn has_fast_ones(executable: &Path) -> bool {
    let bytes = fs::read(executable).unwrap();
    let name = b"__reheap_mem_level";
    bytes.windows(name.len()).any(|window| window == name)
}

#[test]
fn executables_get_the_fast_ones_and_say_so() {
    let directory = tempfile::tempdir().unwrap();
    let executable = linked(directory.path(), "");
    assert_eq!(prints(&executable), "999 0\n");
    assert!(has_fast_ones(&executable));
    assert_eq!(memory_functions_in(&executable).as_deref(), Some("fast"));

    for (line, text) in [
        (
            "inspect --verbose",
            "put with fast memory functions into musl",
        ),
        ("inspect --json", r#""memory_functions": "fast""#),
    ] {
        let mut inspect = reheap(line);
        let outcome = run(inspect.arg(&executable)).succeeded();
        let words: Vec<&str> = outcome.stdout.split_whitespace().collect();
        assert!(words.join(" ").contains(text), "{}", outcome.stdout);
    }
}

#[test]
fn the_libcs_own_are_kept_on_demand_by_flag_and_by_variable() {
    let directory = tempfile::tempdir().unwrap();
    let executable = linked(directory.path(), "--memory-functions stock");
    assert_eq!(prints(&executable), "999 0\n");
    assert!(!has_fast_ones(&executable));
    assert_eq!(memory_functions_in(&executable), None);

    let directory_of = |line: &str, variable: &str| {
        let mut command = reheap(line);
        command.env("REHEAP_MEMORY_FUNCTIONS", variable);
        PathBuf::from(run(&mut command).succeeded().stdout.trim_end())
    };
    let by_flag = directory_of("libc --memory-functions stock", "fast");
    let by_variable = directory_of("libc", "stock");
    assert_eq!(by_flag, by_variable);
    assert_ne!(by_flag, directory_of("libc", ""));
    let members = archive::read(&fs::read(by_flag.join("libc.a")).unwrap()).unwrap();
    assert!(members.iter().any(|member| member.name == "memcpy.lo"));
}

#[test]
fn the_stock_allocator_leaves_the_libc_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let executable = linked(directory.path(), "-a stock");
    assert_eq!(prints(&executable), "999 0\n");
    assert!(!has_fast_ones(&executable));
    assert!(marker_in(&executable).is_none());
    run(reheap("cc -a stock --memory-functions fast a.c").current_dir(directory.path()))
        .ended_with(2)
        .said(&["`stock` keeps the libc's own memory functions"]);
}

#[test]
fn what_is_neither_fast_nor_stock_is_refused() {
    run(&mut reheap("libc --memory-functions slow"))
        .ended_with(2)
        .said(&["fast, stock"]);
    let mut command = reheap("libc");
    command.env("REHEAP_MEMORY_FUNCTIONS", "slow");
    run(&mut command).ended_with(2).said(&[
        "unknown memory functions `slow`",
        "REHEAP_MEMORY_FUNCTIONS=fast",
    ]);
}
