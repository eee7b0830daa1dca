//! What the conformance suites share: the programs under test, scratch directories, and the modules of tests that each
//! allocator has.

use super::command::run_within;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Longer than the deadline that each program sets for itself, whose message says more.
pub(crate) const RUN_DEADLINE: Duration = Duration::from_secs(300);

/// A module with tests for each allocator. A line names the module, which is the allocator's name with `_` for `-`,
/// what its suites get, and the suites: macros of the test file. Those of `test_all` are tested by `make test-all` only.
/// An allocator of the catalogue that has no line is a failure.
macro_rules! allocators {
    (
        $($module:ident $words:tt: $($suite:ident)*;)*
        + test_all { $($other:ident $other_words:tt: $($other_suite:ident)*;)* }
    ) => {
        $(
            mod $module {
                $($suite! $words;)*
            }
        )*
        $(
            #[cfg(feature = "test_all")]
            mod $other {
                $($other_suite! $other_words;)*
            }
        )*

        #[test]
        fn every_allocator_is_here() {
            let modules = [$(stringify!($module),)* $(stringify!($other),)*];
            for allocator in reheap_allocators::catalogue::CATALOGUE {
                let module = allocator.name.replace('-', "_");
                assert!(allocator.build.is_none() || modules.contains(&&*module), "{module}");
            }
        }
    };
}
pub(crate) use allocators;

/// Whether an allocator is one that reheap makes, and `make test` tests it, as a sample of all.
pub(crate) fn is_tested(allocator: &str) -> bool {
    const SAMPLE: [&str; 3] = ["mimalloc", "jemalloc", "hardened_malloc-light"];
    let is_made = reheap_allocators::catalogue::CATALOGUE
        .iter()
        .any(|row| row.name == allocator && row.build.is_some());
    is_made && (cfg!(feature = "test_all") || SAMPLE.contains(&allocator))
}

/// A directory below the build directory that goes when the value does.
pub(crate) fn scratch_directory() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("the build directory is writable")
}

/// A source file or directory of the suites.
pub(crate) fn program(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/programs")
        .join(path)
}

/// Runs a program of the suites, which says `ok NAME` and nothing else when all its checks hold.
#[track_caller]
pub(crate) fn passes(executable: &Path, name: &str) {
    let outcome = run_within(&mut Command::new(executable), RUN_DEADLINE).succeeded();
    assert_eq!(
        outcome.stdout,
        format!("ok {name}\n"),
        "--- stderr\n{}",
        outcome.stderr
    );
}

/// How an executable is loaded: `ET_EXEC` at a fixed address, `ET_DYN` anywhere (ELF specification, `e_type`).
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    Fixed,
    Anywhere,
}

/// Reads `e_type` and makes sure that no program header asks for an interpreter; offsets are those of `Elf64_Ehdr`.
#[track_caller]
pub(crate) fn placement_of_static_executable(executable: &Path) -> Placement {
    const ET_EXEC: u16 = 2;
    const ET_DYN: u16 = 3;
    const PT_INTERP: u32 = 3;
    let bytes = std::fs::read(executable).expect("the executable was built");
    assert_eq!(bytes[..6], *b"\x7fELF\x02\x01", "{}", executable.display());
    let half = |offset: usize| u16::from_le_bytes([bytes[offset], bytes[offset + 1]]);
    let headers_start = usize::from(half(0x20)); // the upper bits are 0: linkers put the table behind the file header
    let (header_size, header_count) = (usize::from(half(0x36)), usize::from(half(0x38)));
    for header in 0..header_count {
        let start = headers_start + header * header_size;
        let segment_type = u32::from(half(start)) | u32::from(half(start + 2)) << 16;
        assert_ne!(
            segment_type,
            PT_INTERP,
            "{} wants an interpreter",
            executable.display()
        );
    }
    match half(0x10) {
        ET_EXEC => Placement::Fixed,
        ET_DYN => Placement::Anywhere,
        other => panic!("{}: e_type {other}", executable.display()),
    }
}
