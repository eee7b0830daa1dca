//! The Rust suite: the Cargo projects under `programs/rust`, built by `cargo reheap build` and run.
//!
//! `heap` has no dependencies and is built with every allocator; the others show what a real project brings (link-time
//! optimisation, panic strategies, C code, proc macros, allocators of its own) and are built with the default one.

use crate::common;
use crate::common::suite::{
    Placement, allocators, passes, placement_of_static_executable, program, scratch_directory,
};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A copy of a project of the suite: Cargo writes beside its manifest.
struct Project {
    directory: tempfile::TempDir,
    name: &'static str,
}

impl Project {
    fn copy_of(name: &'static str) -> Self {
        let directory = scratch_directory();
        copy_directory(&program(&format!("rust/{name}")), directory.path());
        Self { directory, name }
    }

    /// `cargo reheap build --release` with what the test adds.
    fn build_command(&self) -> Command {
        let mut command = common::cargo_reheap("build --release --locked");
        command.current_dir(self.directory.path());
        command
    }

    #[track_caller]
    fn executable_of(&self, build: &mut Command) -> PathBuf {
        common::run(build).succeeded();
        self.directory
            .path()
            .join("target/x86_64-unknown-linux-musl/release")
            .join(self.name)
    }

    #[track_caller]
    fn builds_and_passes(&self, build: &mut Command, placement: Placement) {
        let executable = self.executable_of(build);
        assert_eq!(placement_of_static_executable(&executable), placement);
        passes(&executable, self.name);
    }
}

fn copy_directory(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).expect("the project is there") {
        let entry = entry.expect("a readable directory");
        // What a build by hand left behind is no part of the project.
        if entry.file_name() == "target" {
            continue;
        }
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a file type").is_dir() {
            std::fs::create_dir(&target).expect("a new directory");
            copy_directory(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), &target).expect("a copied file");
        }
    }
}

#[track_caller]
fn the_standard_library_works_with(allocator: &str) {
    let project = Project::copy_of("heap");
    project.builds_and_passes(
        project.build_command().args(["-a", allocator]),
        Placement::Anywhere,
    );
}

macro_rules! standard_library {
    ($allocator:literal) => {
        #[test]
        fn the_standard_library_works() {
            super::the_standard_library_works_with($allocator);
        }
    };
}

allocators! {
    stock("stock"): standard_library;
    mimalloc("mimalloc"): standard_library;
    jemalloc("jemalloc"): standard_library;
    hardened_malloc_light("hardened_malloc-light"): standard_library;
    + test_all {
        mimalloc3("mimalloc3"): standard_library;
        mimalloc_secure("mimalloc-secure"): standard_library;
        mimalloc2_secure("mimalloc2-secure"): standard_library;
        rpmalloc("rpmalloc"): standard_library;
        snmalloc("snmalloc"): standard_library;
        snmalloc_checks("snmalloc-checks"): standard_library;
        hardened_malloc("hardened_malloc"): standard_library;
    }
}

#[test]
fn fat_link_time_optimisation_works() {
    let project = Project::copy_of("heap");
    project.builds_and_passes(
        project
            .build_command()
            .env("CARGO_PROFILE_RELEASE_LTO", "fat")
            .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1"),
        Placement::Anywhere,
    );
}

#[test]
fn thin_link_time_optimisation_works() {
    let project = Project::copy_of("heap");
    project.builds_and_passes(
        project
            .build_command()
            .env("CARGO_PROFILE_RELEASE_LTO", "thin"),
        Placement::Anywhere,
    );
}

#[test]
fn aborting_panics_work() {
    let project = Project::copy_of("heap");
    project.builds_and_passes(
        project
            .build_command()
            .env("CARGO_PROFILE_RELEASE_PANIC", "abort"),
        Placement::Anywhere,
    );
}

#[test]
fn a_stripped_executable_works() {
    let project = Project::copy_of("heap");
    project.builds_and_passes(
        project
            .build_command()
            .env("CARGO_PROFILE_RELEASE_STRIP", "symbols"),
        Placement::Anywhere,
    );
}

#[test]
fn a_static_relocation_model_works_through_rustflags() {
    let project = Project::copy_of("heap");
    project.builds_and_passes(
        project
            .build_command()
            .env("RUSTFLAGS", "-C relocation-model=static"),
        Placement::Fixed,
    );
}

#[test]
fn a_program_with_its_own_global_allocator_keeps_it() {
    let project = Project::copy_of("own_global_allocator");
    project.builds_and_passes(&mut project.build_command(), Placement::Anywhere);
}

#[test]
fn a_program_may_link_a_mimalloc_of_its_own() {
    let project = Project::copy_of("own_mimalloc");
    project.builds_and_passes(&mut project.build_command(), Placement::Anywhere);
}

#[test]
fn a_program_with_zstd_in_c_works() {
    let project = Project::copy_of("compressor");
    project.builds_and_passes(&mut project.build_command(), Placement::Anywhere);
}

#[test]
fn proc_macros_and_build_scripts_stay_host_programs() {
    let project = Project::copy_of("generated");
    project.builds_and_passes(&mut project.build_command(), Placement::Anywhere);
}
