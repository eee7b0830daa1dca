//! What the tests of derived libcs share: real libcs, a tiny allocator compiled here, and a directory to link programs
//! in.
#![cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, reason = "many tests are of x86-64 alone")
)]

use reheap_elf::archive::Member;
use reheap_elf::baked::Baked;
use reheap_elf::derive::{
    AllocatorObjects, DerivedLibc, MemoryFunctions, derive_libc, read_original,
};
use reheap_elf::marker::Marker;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

/// A directory with the files of one test.
pub(crate) struct Workshop {
    directory: tempfile::TempDir,
    compiler: &'static str,
}

impl Workshop {
    pub(crate) fn new() -> Self {
        Self::with_compiler("musl-gcc")
    }

    /// One in which this compiles.
    pub(crate) fn with_compiler(compiler: &'static str) -> Self {
        Self {
            directory: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap(),
            compiler,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, contents: impl AsRef<[u8]>) {
        fs::write(self.path(name), contents).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    /// Runs a command in the directory, whatever comes of it; words are separated by spaces.
    pub(crate) fn try_run(&self, command: &str) -> Output {
        let mut words = command.split(' ');
        let program = words.next().unwrap();
        Command::new(program)
            .args(words)
            .current_dir(self.directory.path())
            .output()
            .unwrap_or_else(|error| panic!("cannot start `{program}`: {error}; {INSTALL}"))
    }

    /// Runs a command that must succeed, and gives what it printed.
    #[track_caller]
    pub(crate) fn run(&self, command: &str) -> String {
        let output = self.try_run(command);
        assert!(
            output.status.success(),
            "{command}: {}\n{}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    /// Compiles C for a static-pie and gives the object.
    #[track_caller]
    pub(crate) fn compile(&self, name: &str, source: &str, flags: &str) -> Vec<u8> {
        let compiler = self.compiler;
        self.write(&format!("{name}.c"), source);
        self.run(format!("{compiler} -O1 -fPIE -c {name}.c -o {name}.o {flags}").trim_end());
        self.read(&format!("{name}.o"))
    }
}

/// Ends the message of a test that lacks a tool.
pub(crate) const INSTALL: &str = "`xtask/prepare install` installs what the tests need";

/// The architecture as triples and directories spell it.
pub(crate) const ARCH: &str = std::env::consts::ARCH;

/// Rust's own musl libc.
pub(crate) fn libc_of_rust() -> Vec<u8> {
    let path = directory_of_rust(ARCH).join("libc.a");
    fs::read(&path)
        .unwrap_or_else(|error| panic!("cannot read `{}`: {error}; {INSTALL}", path.display()))
}

/// The directory of Rust's musl for that architecture.
pub(crate) fn directory_of_rust(architecture: &str) -> PathBuf {
    let target = format!("{architecture}-unknown-linux-musl");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc)
        .args(["--print", "target-libdir", "--target", &target])
        .output()
        .unwrap();
    let directory = String::from_utf8(output.stdout).unwrap();
    Path::new(directory.trim()).join("self-contained")
}

/// The directory of Debian's musl.
pub(crate) fn directory_of_debian() -> PathBuf {
    PathBuf::from(format!("/usr/lib/{ARCH}-linux-musl"))
}

/// Debian's musl libc.
pub(crate) fn libc_of_debian() -> Vec<u8> {
    let path = directory_of_debian().join("libc.a");
    fs::read(&path)
        .unwrap_or_else(|error| panic!("cannot read `{}`: {error}; {INSTALL}", path.display()))
}

/// The source of the allocator that stands for a real one.
pub(crate) const TINY: &str = include_str!("../../fixtures/tiny.c");
pub(crate) const TINY_GLUE: &str = include_str!("../../fixtures/tiny_glue.c");
const TINY_ENVIRONMENT: &str = include_str!("../../fixtures/tiny_environment.c");

pub(crate) fn member(name: &str, data: Vec<u8>) -> Member {
    Member {
        name: name.to_owned(),
        data,
    }
}

/// An allocator made of these sources, with the entry points of `tiny.c`.
pub(crate) fn allocator_of(
    workshop: &Workshop,
    upstream: &str,
    glue: &str,
    flags: &str,
) -> AllocatorObjects {
    let entry_points = [
        ("malloc", "tiny_malloc"),
        ("calloc", "tiny_calloc"),
        ("realloc", "tiny_realloc"),
        ("free", "tiny_free"),
        ("memalign", "tiny_memalign"),
        ("malloc_usable_size", "tiny_usable_size"),
    ];
    AllocatorObjects {
        upstream: vec![member("tiny.o", workshop.compile("tiny", upstream, flags))],
        glue: vec![
            member("glue.o", workshop.compile("glue", glue, flags)),
            member(
                "environment.o",
                workshop.compile("environment", TINY_ENVIRONMENT, flags),
            ),
        ],
        entry_points: entry_points
            .map(|(function, symbol)| (function.to_owned(), symbol.to_owned()))
            .into(),
        redirects: BTreeMap::from([("getenv".to_owned(), "__reheap_getenv".to_owned())]),
        interface: Vec::new(),
    }
}

/// The tiny allocator, compiled once for all tests of a file.
pub(crate) fn tiny() -> &'static AllocatorObjects {
    static OBJECTS: LazyLock<AllocatorObjects> =
        LazyLock::new(|| allocator_of(&Workshop::new(), TINY, TINY_GLUE, ""));
    &OBJECTS
}

/// reheap's memory functions, assembled once for all tests of a file.
pub(crate) fn memory_functions() -> &'static MemoryFunctions {
    static FUNCTIONS: LazyLock<MemoryFunctions> = LazyLock::new(|| {
        let sources = match ARCH {
            "x86_64" => &reheap_mem::SOURCES_X86_64[..],
            _ => &reheap_mem::SOURCES_AARCH64[..],
        };
        memory_functions_for(sources, &Workshop::new())
    });
    &FUNCTIONS
}

/// The functions of these texts, assembled by the workshop's compiler.
pub(crate) fn memory_functions_for(
    sources: &[reheap_mem::Source],
    workshop: &Workshop,
) -> MemoryFunctions {
    let (mut objects, mut names) = (Vec::new(), BTreeMap::new());
    for source in sources {
        let name = source.name;
        workshop.write(&format!("{name}.s"), source.text);
        workshop.run(&format!("{} -c {name}.s -o {name}.o", workshop.compiler));
        objects.push(member(
            &format!("{name}.o"),
            workshop.read(&format!("{name}.o")),
        ));
        for function in source.functions {
            let own = format!("{}{}", reheap_mem::PREFIX, function.name);
            for name in [Some(function.name), function.internal_name] {
                names.extend(name.map(|name| (name.to_owned(), own.clone())));
            }
        }
    }
    MemoryFunctions { objects, names }
}

/// What the marker of a libc with the tiny allocator says.
pub(crate) fn marker() -> Marker {
    Marker {
        allocator: "tiny".to_owned(),
        allocator_version: "7".to_owned(),
        package: "tiny-sys 0.7.0".to_owned(),
        tuning: BTreeMap::from([("option".to_owned(), "on".to_owned())]),
        memory_functions: None,
        libc: "musl 1.2.5".to_owned(),
        original_sha256: "0123456789abcdef".repeat(4),
        reheap: "0.1.0".to_owned(),
    }
}

/// The tuning of that marker, baked.
pub(crate) fn tuning() -> Vec<Baked> {
    vec![Baked::Bytes {
        symbol: "__reheap_environment".to_owned(),
        bytes: b"TINY_OPTION=on\0\0".to_vec(),
    }]
}

/// A libc with the tiny allocator in it.
#[track_caller]
pub(crate) fn derived_from(libc: &[u8]) -> DerivedLibc {
    let original = read_original(libc).unwrap();
    derive_libc(&original, tiny(), None, &marker(), &tuning()).unwrap()
}

/// A libc with the tiny allocator and reheap's memory functions in it.
#[track_caller]
pub(crate) fn derived_with_memory_functions(libc: &[u8]) -> DerivedLibc {
    let original = read_original(libc).unwrap();
    let memory = Some(memory_functions());
    derive_libc(&original, tiny(), memory, &marker(), &tuning()).unwrap()
}

/// An archive without a symbol index, of anything: what `archive::write` makes has to be readable objects.
pub(crate) fn plain_archive<'a>(members: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Vec<u8> {
    let mut bytes = b"!<arch>\n".to_vec();
    for (name, data) in members {
        assert!(name.len() < 16, "a name that needs no table of names");
        let header = format!(
            "{:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n",
            format!("{name}/"),
            0,
            0,
            0,
            644,
            data.len()
        );
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(data);
        if data.len() % 2 == 1 {
            bytes.push(b'\n');
        }
    }
    bytes
}
