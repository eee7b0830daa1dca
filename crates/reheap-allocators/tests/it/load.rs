//! What is said of a library that a dynamic linker does not load, for both libcs.

use crate::common::{compile, compiler, program, scratch_directory, target};
use reheap_allocators::load::{self, LoadFailure, Loading};
use reheap_allocators::target::Libc;
use std::fs;
use std::path::{Path, PathBuf};

const BOTH: [Libc; 2] = [Libc::Glibc, Libc::Musl];

/// A program of a libc, its dynamic linker, and libraries for it.
struct Bench {
    libc: Libc,
    loader: PathBuf,
    program: PathBuf,
    directory: tempfile::TempDir,
}

impl Bench {
    fn new(libc: Libc) -> Self {
        let directory = scratch_directory();
        let output = directory.path().join("program");
        compile(&compiler(&target(libc)), &program("probed"), &[], &output);
        let identity = reheap_elf::identify::identify(&fs::read(&output).unwrap()).unwrap();
        Self {
            libc,
            loader: identity.interpreter.unwrap().into(),
            program: output,
            directory,
        }
    }

    fn library(&self, name: &str, source: &str, arguments: &[&str]) -> PathBuf {
        let path = self.directory.path().join(format!("{name}.c"));
        fs::write(&path, source).unwrap();
        let output = self.directory.path().join(name);
        let arguments = [&["-shared", "-fPIC"], arguments].concat();
        compile(&compiler(&target(self.libc)), &path, &arguments, &output);
        output
    }

    fn failure(&self, library: &Path) -> Option<LoadFailure> {
        self.failure_with(&self.loader, library)
    }

    fn failure_with(&self, loader: &Path, library: &Path) -> Option<LoadFailure> {
        let loading = Loading {
            libc: self.libc,
            loader,
            program: &self.program,
        };
        load::failure(loading, library)
    }

    /// A copy of a library with other bytes at an offset.
    fn patched(&self, library: &Path, offset: usize, bytes: &[u8]) -> PathBuf {
        let mut contents = fs::read(library).unwrap();
        contents[offset..offset + bytes.len()].copy_from_slice(bytes);
        let path = self.directory.path().join("patched.so");
        fs::write(&path, contents).unwrap();
        path
    }
}

#[test]
fn a_library_that_is_loaded_has_no_failure() {
    for libc in BOTH {
        let bench = Bench::new(libc);
        let library = bench.library("fine.so", "int fine;\n", &[]);
        assert_eq!(bench.failure(&library), None);
    }
}

#[test]
fn a_symbol_that_nobody_has_is_named() {
    for libc in BOTH {
        let bench = Bench::new(libc);
        let source = "int nobody_has_this(void);\nint call(void) { return nobody_has_this(); }\n";
        let library = bench.library("symbol.so", source, &["-Wl,-z,now"]);
        let Some(LoadFailure::Symbol { symbol, .. }) = bench.failure(&library) else {
            panic!("{:?}", bench.failure(&library));
        };
        assert_eq!(symbol, "nobody_has_this");
    }
}

/// A system may be older than the one that the library was built on.
#[test]
fn a_version_that_the_libc_does_not_have_is_named() {
    let bench = Bench::new(Libc::Glibc);
    let map = bench.directory.path().join("versions");
    fs::write(&map, "GLIBC_9.99 { global: from_the_future; };\n").unwrap();
    let script = format!("-Wl,--version-script={}", map.display());
    let newer = "int from_the_future(void) { return 1; }\n";
    let flags = ["-nostdlib", "-Wl,-soname,libc.so.6", &script];
    let newer = bench.library("newer-libc.so", newer, &flags);
    let source = "int from_the_future(void);\nint call(void) { return from_the_future(); }\n";
    let library = bench.library("version.so", source, &[newer.to_str().unwrap()]);
    let failure = bench.failure(&library).unwrap();
    let shown = failure.to_string();
    assert!(
        shown.contains("it needs GLIBC_9.99, which the program's libc does not have"),
        "{shown}"
    );
}

#[test]
fn what_is_wrong_with_the_file_is_said_before_a_dynamic_linker_is_asked() {
    const CLASS: usize = 4;
    const MACHINE: usize = 18;
    for libc in BOTH {
        let bench = Bench::new(libc);
        let says = |library: &Path| bench.failure(library).unwrap().to_string();
        let missing = says(Path::new("/no/such/library.so"));
        assert!(
            missing.contains("cannot be read: No such file"),
            "{missing}"
        );
        let text = bench.directory.path().join("text.so");
        fs::write(&text, "this is a text of more than twenty bytes").unwrap();
        assert!(says(&text).contains("it is no ELF file"));
        fs::write(&text, "short").unwrap();
        assert!(says(&text).contains("it is too short"));
        let library = bench.library("fine.so", "int fine;\n", &[]);
        let narrow = bench.patched(&library, CLASS, &[1]);
        assert!(says(&narrow).contains("it is for 32-bit programs"));
        let riscv = bench.patched(&library, MACHINE, &[243, 0]);
        assert!(says(&riscv).contains("e_machine 243"));
    }
}

/// A limit below what the libc itself takes, set for the dynamic linker only.
#[test]
fn a_library_that_there_is_no_address_space_for_is_told_from_a_bad_one() {
    let bench = Bench::new(Libc::Glibc);
    let source = "char much[256 << 20];\n";
    let library = bench.library("large.so", source, &[]);
    assert_eq!(bench.failure(&library), None);
    // Static, because any dynamic linker would take the question for its own.
    let source = format!(
        "#include <sys/resource.h>\n#include <unistd.h>\n\
         int main(int count, char **words) {{\n\
           struct rlimit limit = {{ 100 << 20, 100 << 20 }};\n\
           if (count < 2 || setrlimit(RLIMIT_AS, &limit) != 0) return 1;\n\
           words[0] = \"{}\";\n\
           return execv(words[0], words);\n\
         }}\n",
        bench.loader.display()
    );
    let limited = bench.directory.path().join("limited-loader");
    let path = bench.directory.path().join("limited-loader.c");
    fs::write(&path, source).unwrap();
    let compiler = compiler(&target(Libc::Glibc));
    compile(&compiler, &path, &["-static"], &limited);
    let failure = bench.failure_with(&limited, &library);
    assert!(
        matches!(failure, Some(LoadFailure::AddressSpace { .. })),
        "{failure:?}"
    );
}
