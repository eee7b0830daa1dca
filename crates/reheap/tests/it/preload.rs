//! `reheap preload`: the library that it writes, what it says of it, and what it refuses.

use crate::common::programs::Programs;
use crate::common::{readelf, reheap, run};
use reheap_elf::marker;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;

fn write(line: &str, directory: &Path) -> Value {
    let mut command = reheap(&format!("preload {line} --json"));
    let outcome = run(command.arg("-o").arg(directory)).succeeded();
    serde_json::from_str(&outcome.stdout).unwrap()
}

fn version(text: &str) -> Vec<u32> {
    text.split('.').map(|part| part.parse().unwrap()).collect()
}

/// The latest version of glibc's symbols that a library needs, by another program that reads ELF files.
fn latest_needed(library: &Path) -> Vec<u32> {
    let table = readelf("-VW", library);
    let names = table.split("Name: GLIBC_").skip(1);
    let numbers = names.filter_map(|name| name.split_whitespace().next());
    numbers.map(version).max().unwrap()
}

#[test]
fn the_library_gives_a_program_the_allocator_with_the_options_in_it() {
    let directory = tempfile::tempdir().unwrap();
    let written = write("-a jemalloc -t narenas=3 --libc glibc", directory.path());
    let library = Path::new(written["path"].as_str().unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_reheap"));
    command
        .arg("--version")
        .env("LD_PRELOAD", library)
        .env("MALLOC_CONF", "stats_print:true");
    run(&mut command).succeeded().said(&["opt.narenas: 3"]);

    let bytes = fs::read(library).unwrap();
    let marker = marker::read(&bytes).unwrap().unwrap().marker;
    assert_eq!(marker.tuning["narenas"], "3");
    assert_eq!(written["tuning"]["narenas"], "3");
    assert_eq!(written["size"], bytes.len());
    assert_eq!(written["environment"]["LD_PRELOAD"], written["path"]);
    let oldest = written["libc_at_least"].as_str().unwrap();
    assert_eq!(version(oldest), latest_needed(library));
}

#[test]
fn each_libc_gets_a_library_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let of_musl = write("-a mimalloc --libc musl", directory.path());
    let library = Path::new(of_musl["path"].as_str().unwrap()).to_owned();
    assert_eq!(of_musl["libc_at_least"], Value::Null);
    assert!(!readelf("-VW", &library).contains("GLIBC_"));
    let first = fs::metadata(&library).unwrap().ino();

    // A program that has it mapped keeps the old file.
    let mut command = reheap("preload -a mimalloc --libc glibc");
    let text = run(command.arg("-o").arg(directory.path()))
        .succeeded()
        .stdout;
    assert_ne!(fs::metadata(&library).unwrap().ino(), first);
    assert!(readelf("-VW", &library).contains("GLIBC_"));
    let setting = format!("LD_PRELOAD={}", library.display());
    for line in [
        format!("export {setting}\n"),
        format!("Environment={setting}\n"),
        format!("ENV {setting}\n"),
        format!("{} with glibc 2.", std::env::consts::ARCH),
    ] {
        assert!(text.contains(&line), "no `{line}` in:\n{text}");
    }
    let names = fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(names, 1, "something else was left behind");
}

#[test]
fn a_path_that_ld_preload_cannot_name_is_pointed_out() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("with blank");
    fs::create_dir(&directory).unwrap();
    let mut command = reheap("preload -a mimalloc");
    run(command.arg("-o").arg(&directory))
        .succeeded()
        .said(&["LD_PRELOAD allows no blank, colon or dollar sign in a path"])
        .did_not_print("LD_PRELOAD");
    let written = write("-a mimalloc", &directory);
    assert_eq!(written["environment"]["LD_PRELOAD"], Value::Null);
}

#[test]
fn the_directory_is_made_if_it_is_missing() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("lib/reheap");
    let written = write("-a mimalloc", &directory);
    assert!(Path::new(written["path"].as_str().unwrap()).starts_with(&directory));
}

#[test]
fn what_cannot_be_written_is_refused_and_nothing_is_left() {
    let directory = tempfile::tempdir().unwrap();
    for (line, code, text) in [
        ("-a stock", 2, "cannot write a preload of `stock`"),
        ("-a jemallok", 2, "did you mean `-a jemalloc`?"),
        ("-a jemalloc -t narenas=many", 2, "cannot set `narenas`"),
        (
            "-a jemalloc --arch mips",
            2,
            "possible values: x86_64, aarch64",
        ),
        (
            "-a jemalloc --libc uclibc",
            2,
            "possible values: glibc, musl",
        ),
    ] {
        let mut command = reheap(&format!("preload {line}"));
        run(command.arg("-o").arg(directory.path()))
            .ended_with(code)
            .said(&[text]);
    }
    run(&mut reheap("preload -a mimalloc -o /dev/null"))
        .ended_with(1)
        .said(&["cannot write a library into `/dev/null`: it is not a directory"]);
    // Another processor than this one's, with neither a prebuilt library nor a compiler.
    let other = match std::env::consts::ARCH {
        "x86_64" => "aarch64",
        _ => "x86_64",
    };
    let cache = tempfile::tempdir().unwrap();
    let mut command = reheap(&format!("preload -a mimalloc --libc glibc --arch {other}"));
    command
        .arg("-o")
        .arg(directory.path().join("missing"))
        .env("REHEAP_CACHE_DIR", cache.path())
        .env("PATH", "/nowhere");
    let target = format!("cannot find a C compiler for `{other}-unknown-linux-gnu`");
    run(&mut command).ended_with(1).said(&[&target, "hint: "]);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

/// Looks as sharp does (a weak reference), as folly and RocksDB do (all functions are there, and a block shows in
/// `thread.allocatedp`), and by `dlsym`. Then frees with `free` what `mallocx` gave, and gives to jemalloc's functions what
/// `realloc` has grown.
const LOOKS_FOR_JEMALLOC: &str = r#"
    #define _GNU_SOURCE
    #include <dlfcn.h>
    #include <stdint.h>
    #include <stdio.h>
    #include <stdlib.h>
    #define WEAK __attribute__((weak))
    int mallctl(const char *, void *, size_t *, void *, size_t) WEAK;
    int mallctlnametomib(const char *, size_t *, size_t *) WEAK;
    int mallctlbymib(const size_t *, size_t, void *, size_t *, void *, size_t) WEAK;
    void malloc_stats_print(void (*)(void *, const char *), void *, const char *) WEAK;
    void *mallocx(size_t, int) WEAK;
    void *rallocx(void *, size_t, int) WEAK;
    size_t xallocx(void *, size_t, size_t, int) WEAK;
    size_t sallocx(const void *, int) WEAK;
    void dallocx(void *, int) WEAK;
    void sdallocx(void *, size_t, int) WEAK;
    size_t nallocx(size_t, int) WEAK;
    int main(void) {
        if (!mallctl || !mallctlnametomib || !mallctlbymib || !malloc_stats_print || !mallocx || !rallocx || !xallocx ||
            !sallocx || !dallocx || !sdallocx || !nallocx) {
            puts(mallctl || mallocx ? "a part of jemalloc" : "no jemalloc");
            return 0;
        }
        uint64_t *allocated, before;
        size_t length = sizeof allocated;
        if (mallctl("thread.allocatedp", &allocated, &length, NULL, 0)) return 1;
        before = *allocated;
        void *(*volatile allocate)(size_t) = malloc;
        void *block = allocate(1000), *other = mallocx(100000, 0);
        if (*allocated - before < 101000 || sallocx(block, 0) < 1000 || nallocx(1000, 0) < 1000) return 2;
        size_t path[2], depth = 2;
        const char *version;
        length = sizeof version;
        if (mallctlnametomib("version", path, &depth)) return 3;
        if (mallctlbymib(path, depth, &version, &length, NULL, 0)) return 4;
        free(rallocx(other, 200000, 0));
        sdallocx(block, 1000, 0);
        char *grown = realloc(allocate(1000), 1 << 20);
        if (sallocx(grown, 0) < 1 << 20 || xallocx(grown, 1 << 28, 0, 0) < 1 << 20) return 5;
        grown[(1 << 20) - 1] = 5;
        grown = rallocx(grown, 1 << 21, 0);
        if (grown[(1 << 20) - 1] != 5 || sallocx(grown, 0) < 1 << 21) return 6;
        dallocx(grown, 0);
        dallocx(realloc(allocate(1000), 1 << 22), 0);
        sdallocx(realloc(allocate(1000), 1 << 23), 1 << 23, 0);
        printf("jemalloc %.5s%s\n", version, dlsym(RTLD_DEFAULT, "mallctl") == (void *)mallctl ? "" : ", or another");
        return 0;
    }
"#;

#[test]
fn programs_that_look_for_jemalloc_find_it_whole_or_not_at_all() {
    let commands = Programs::new();
    commands.write("look.c", LOOKS_FOR_JEMALLOC);
    commands.run("cc -O2 look.c -o look -ldl");
    for (allocator, found) in [
        ("jemalloc", "jemalloc 5.3.1\n"),
        ("mimalloc", "no jemalloc\n"),
    ] {
        let mut command = reheap(&format!("run -a {allocator} --"));
        let outcome = run(command.arg(commands.path("look"))).succeeded();
        assert_eq!(outcome.stdout, found, "{allocator}");
    }
    // In a static executable the names are free for the program's own.
    let own = "int mallctl(const char *n, void *o, unsigned long *l, void *v, unsigned long s) { return 42; }
        int main(void) { return mallctl(0, 0, 0, 0, 0) == 42 ? 0 : 1; }";
    for (source, printed) in [(LOOKS_FOR_JEMALLOC, "no jemalloc\n"), (own, "")] {
        commands.write("static.c", source);
        let executable = commands.path("static");
        let mut cc = reheap("cc -a jemalloc --");
        cc.arg(commands.path("static.c")).arg("-o").arg(&executable);
        run(&mut cc).succeeded();
        let outcome = run(&mut Command::new(&executable)).succeeded();
        assert_eq!(outcome.stdout, printed);
    }
}

#[test]
fn programs_of_musl_that_look_for_jemalloc_find_it() {
    let commands = Programs::new();
    commands.write("look.c", LOOKS_FOR_JEMALLOC);
    commands.run("musl-gcc -O2 look.c -o look");
    let outcome = run(reheap("run -a jemalloc --").arg(commands.path("look"))).succeeded();
    assert_eq!(outcome.stdout, "jemalloc 5.3.1\n");
}
