//! What the tests of this crate share: targets of this machine, compilers for them, and C programs that are built and
//! run.

#[path = "../../../../reheap/tests/it/common/command.rs"]
#[expect(dead_code, reason = "the tests of `reheap` need more of it")]
mod command;

pub(crate) use command::{Outcome, run, run_with_input};
use reheap_allocators::cache::Cache;
use reheap_allocators::compiler::{self, Compiler, Language, Purpose, Search};
use reheap_allocators::target::{Architecture, Libc, Target};
use reheap_allocators::upstream::Toolchain;
use std::path::{Path, PathBuf};

/// The target of this machine's processor with that libc.
pub(crate) fn target(libc: Libc) -> Target {
    let architecture = Architecture::WITH_PRELOADS
        .into_iter()
        .find(|architecture| architecture.name() == std::env::consts::ARCH);
    Target::new(architecture.expect("a known processor"), libc)
}

pub(crate) fn search() -> Search {
    Search::new(std::env::vars_os())
}

pub(crate) fn toolchain(target: &Target) -> Toolchain {
    let find = |language| compiler::find(target, language, Purpose::Objects, &search());
    Toolchain {
        cargo: "cargo".into(),
        cc: find(Language::C).unwrap(),
        cxx: find(Language::Cxx).map_err(|error| error.to_string()),
        environment: std::env::vars_os().collect(),
    }
}

/// The cache of all tests of this crate.
pub(crate) fn cache() -> Cache {
    Cache::at(Path::new(env!("CARGO_TARGET_TMPDIR")).join("reheap-cache"))
}

/// A directory that goes when the value does.
pub(crate) fn scratch_directory() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("the build directory is writable")
}

/// A C compiler that links programs with the target's libc.
pub(crate) fn compiler(target: &Target) -> Compiler {
    compiler::find(target, Language::C, Purpose::Programs, &search()).unwrap()
}

/// A source of this crate's tests.
pub(crate) fn program(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    directory.join(format!("{name}.c"))
}

/// A source of the conformance suite, which prints `ok NAME` when all is well.
pub(crate) fn conformance_program(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reheap/tests/programs/c");
    directory.join(format!("{name}.c"))
}

/// Compiles and links; builtins are off, because a compiler may remove a malloc whose block is only freed.
#[track_caller]
pub(crate) fn compile(compiler: &Compiler, source: &Path, arguments: &[&str], output: &Path) {
    let mut command = compiler.command_in(&search());
    command
        .args(["-std=gnu11", "-O2", "-fno-builtin", "-pthread"])
        .arg(source)
        .args(arguments)
        .arg("-o")
        .arg(output);
    run(&mut command).succeeded();
}
