//! Allocators that the user names by a file: a shared library for dynamic programs, an archive for static ones.
//!
//! The allocator of these tests is a few lines of C over mmap(2), so it compiles at once and differs from all others.

use crate::common::suite::scratch_directory;
use crate::common::{Outcome, reheap, run};
use std::fs;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// Every block has its own mapping, and in front of it the place and the size of that.
const ALLOCATOR: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

struct head { char *start; size_t length, size; };

#define HEAD(block) ((struct head *)(block) - 1)

void *memalign(size_t alignment, size_t size)
{
	if (alignment < 64)
		alignment = 64;
	if (size > PTRDIFF_MAX - 2 * alignment - 4096)
		return errno = ENOMEM, NULL;
	size_t length = (size + 2 * alignment + 4095) & ~(size_t)4095;
	char *start = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (start == MAP_FAILED)
		return errno = ENOMEM, NULL;
	char *block = (char *)(((uintptr_t)start + sizeof(struct head) + alignment - 1) & ~(alignment - 1));
	*HEAD(block) = (struct head){ start, length, size };
	return block;
}

void *malloc(size_t size) { return memalign(64, size); }

void free(void *block)
{
	int before = errno;
	if (block)
		munmap(HEAD(block)->start, HEAD(block)->length);
	errno = before;
}

#ifndef MALLOC_AND_FREE_ONLY
void *calloc(size_t count, size_t size)
{
	size_t bytes;
	if (__builtin_mul_overflow(count, size, &bytes))
		return errno = CALLOC_ERROR, NULL;
	return malloc(bytes);
}

size_t malloc_usable_size(void *block) { return block ? HEAD(block)->size : 0; }

void *realloc(void *block, size_t size)
{
	if (block && !size && REALLOC_FREES)
		return free(block), NULL;
	void *other = malloc(size);
	if (block && other) {
		size_t least = HEAD(block)->size < size ? HEAD(block)->size : size;
		memcpy(other, block, least);
		free(block);
	}
	return other;
}

void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void **out, size_t alignment, size_t size)
{
	if (alignment < sizeof(void *) || alignment & (alignment - 1))
		return EINVAL;
	void *block = memalign(alignment, size);
	return block ? *out = block, 0 : ENOMEM;
}
#endif
"#;

const SOUND: &str = "-DCALLOC_ERROR=ENOMEM -DREALLOC_FREES=1";

/// A directory with the allocator's source.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let directory = scratch_directory();
        fs::write(directory.path().join("mine.c"), ALLOCATOR).unwrap();
        Self(directory)
    }

    fn run(&self, line: &str) -> Outcome {
        let mut words = line.split_whitespace();
        let mut command = Command::new(words.next().unwrap());
        run(command.args(words).current_dir(self.0.path()))
    }

    #[track_caller]
    fn library(&self, name: &str, flags: &str) {
        let flags = format!("-O1 -fno-builtin -shared -fPIC {flags}");
        self.run(&format!("cc {flags} mine.c -o {name}"))
            .succeeded();
    }

    #[track_caller]
    fn archive(&self, name: &str, compiler: &str, flags: &str) {
        let flags = format!("-O2 -fno-builtin -fPIE {flags}");
        self.run(&format!("{compiler} {flags} -c mine.c"))
            .succeeded();
        self.run(&format!("ar rcs {name} mine.o")).succeeded();
    }

    fn reheap(&self, line: &str) -> Command {
        let mut command = reheap(line);
        command.current_dir(self.0.path());
        command
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

#[test]
fn a_program_runs_with_a_library_that_was_checked_once() {
    let place = Place::new();
    place.library("libmine.so", SOUND);
    // The shared cache may know the file from an earlier test.
    let cache = place.path().join("cache");
    let reheap = |line: &str| run(place.reheap(line).env("REHEAP_CACHE_DIR", &cache)).succeeded();
    let command = "run -a ./libmine.so -- grep -c libmine.so /proc/self/maps";
    let first = reheap(command);
    assert_ne!(first.stdout, "0\n");
    first.said(&["checked `./libmine.so`: it passed all 11 checks"]);
    assert_eq!(reheap(command).stderr, "");
    reheap("list ./libmine.so").printed(&["it passed all 11 checks"]);

    // Another build under the same name is another allocator.
    place.library("libmine.so", "-DCALLOC_ERROR=EINVAL -DREALLOC_FREES=0");
    let said = "warning: checked `./libmine.so`: it passed 9 of 11 checks: calloc does not set errno to ENOMEM; \
                realloc(block, 0) returns a block, and glibc's frees it and returns NULL";
    reheap(command).said(&[said]);
}

#[test]
fn a_benchmark_names_the_file_and_its_hash() {
    let place = Place::new();
    place.library("libmine.so", SOUND);
    let json = run(&mut place
        .reheap("bench --rounds 1 --variant glibc,glibc+./libmine.so --json - -- /bin/ls /"))
    .succeeded()
    .stdout;
    let sum = place.run("sha256sum libmine.so").succeeded().stdout;
    let sum = sum.split(' ').next().unwrap();
    let results: serde_json::Value = serde_json::from_str(&json).unwrap();
    let variants = results["benchmarks"][0]["variants"].as_array().unwrap();
    let mine = variants
        .iter()
        .find(|v| v["name"] == "glibc+./libmine.so")
        .unwrap();
    assert_eq!(mine["allocator"]["version"], format!("sha256:{sum}"));
    assert!(
        mine["activity"].to_string().contains("went to libmine.so"),
        "{mine}"
    );
}

#[test]
fn a_static_program_has_the_objects_of_an_archive() {
    let place = Place::new();
    place.archive("libmine.a", "musl-gcc", SOUND);
    fs::write(
        place.path().join("p.c"),
        "#include <stdlib.h>\n#include <stdio.h>\n\
         int main(void) { char *p = aligned_alloc(64, 1); printf(\"%d\", p && (size_t)p % 64 == 0); free(p); }",
    )
    .unwrap();
    run(&mut place.reheap("cc -a ./libmine.a -- p.c -o p")).succeeded();
    assert_eq!(place.run("./p").succeeded().stdout, "1");
    let sum = place.run("sha256sum libmine.a").succeeded().stdout;
    let found = run(&mut place.reheap("inspect p")).succeeded().stdout;
    let marker = format!("libmine.a sha256:{}", sum.split(' ').next().unwrap());
    assert!(found.contains(&marker), "{found}");
    let listed = run(&mut place.reheap("list ./libmine.a")).succeeded();
    listed.printed(&["it passed 10 of 11 checks: realloc(block, 0) returns NULL"]);
}

#[test]
fn what_is_no_allocator_is_refused_with_the_reason() {
    let place = Place::new();
    let only = format!("-DMALLOC_AND_FREE_ONLY {SOUND}");
    place.library("half.so", &only);
    place.archive("half.a", "musl-gcc", &only);
    place.library("libmine.so", SOUND);
    place.archive("libmine.a", "musl-gcc", SOUND);
    fs::write(place.path().join("text.so"), "INPUT(libmine.so)\n").unwrap();
    fs::write(place.path().join("empty.so"), "").unwrap();
    fs::create_dir(place.path().join("directory")).unwrap();
    let library = fs::read(place.path().join("libmine.so")).unwrap();
    fs::write(place.path().join("cut.so"), &library[..library.len() / 2]).unwrap();
    for (name, reason) in [
        ("./missing.so", "No such file or directory"),
        ("./directory", "it is not a regular file"),
        ("/dev/zero", "it is not a regular file"),
        ("./text.so", "it is not ELF but other data"),
        ("./empty.so", "the file is empty"),
        ("./cut.so", "the file is cut off"),
        ("./mine.o", "but a single object"),
        ("/proc/self/exe", "but a program"),
        ("./half.so", "it does not export `calloc`, `realloc`,"),
        ("./half.a", "it defines `malloc`, but not `calloc`,"),
        ("./libmine.a", "it is an archive, for static executables"),
        ("libmine.so", "unknown allocator `libmine.so`"),
        ("system:libnone.so", "cannot find `libnone.so`"),
    ] {
        let code = if name.starts_with("lib") { 2 } else { 1 };
        run(place.reheap("run").args(["-a", name, "--", "true"]))
            .ended_with(code)
            .said(&[reason]);
    }
    run(&mut place.reheap("libc -a ./libmine.so"))
        .ended_with(1)
        .said(&["it is a shared library, for dynamic programs"]);
}

#[test]
fn a_library_that_ends_every_program_is_refused() {
    let place = Place::new();
    let source = format!(
        "{ALLOCATOR}\n__attribute__((constructor)) static void begin(void) {{ __builtin_trap(); }}\n"
    );
    fs::write(place.path().join("mine.c"), source).unwrap();
    place.library("libmine.so", SOUND);
    run(&mut place.reheap("run -a ./libmine.so -- true"))
        .ended_with(1)
        .said(&["cannot use `./libmine.so`: a small program with it ends by SIG"]);
}

#[test]
fn a_name_that_ld_preload_cannot_hold_does_no_harm() {
    let place = Place::new();
    place.library("libmine.so", SOUND);
    let name = "./mine, too: $it.so";
    fs::rename(place.path().join("libmine.so"), place.path().join(name)).unwrap();
    let command = [
        "-a",
        name,
        "--",
        "grep",
        "-c",
        "mine__too",
        "/proc/self/maps",
    ];
    let outcome = run(place.reheap("run").args(command)).succeeded();
    assert_ne!(outcome.stdout, "0\n");
}
