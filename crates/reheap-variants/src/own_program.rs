//! Gives small programs of reheap's own an allocator, in both ways that programs get one: the dynamic program with a
//! preload, or a static one with the allocator in its libc. `replay` and `attack` each have such a program.

use anyhow::Context as _;
use reheap_allocators::program::Program;
use reheap_allocators::target::Target;
use reheap_command::choice::Choice;
use reheap_static::project::proof::{self, Hints, Proof};
use reheap_subject::program;
use reheap_workshop::preloading;
use reheap_workshop::static_program;
use reheap_workshop::workshop::Workshop;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// A dynamic program, and what to set so that it has an allocator.
pub struct Preloaded {
    /// The executable.
    pub program: PathBuf,
    /// What it needs of it.
    pub environment: Vec<(OsString, OsString)>,
    /// The file name of what malloc must be in; `None` if it is the libc's own.
    pub malloc_in: Option<OsString>,
}

/// The dynamic program with an allocator preloaded.
pub fn preloaded(
    program: &Program,
    choice: &Choice,
    workshop: &Workshop,
) -> anyhow::Result<Preloaded> {
    let program = dynamic(program, workshop)?;
    let resolved = program::Program::resolve(program.as_os_str())?;
    let library = preloading::library(choice, &resolved, workshop)?;
    let malloc_in = library.as_deref().and_then(Path::file_name);
    Ok(Preloaded {
        program,
        malloc_in: malloc_in.map(OsStr::to_owned),
        environment: preloading::environment(choice, library.as_deref()),
    })
}

/// The dynamic program, for the libc of this system's programs.
pub fn dynamic(program: &Program, workshop: &Workshop) -> anyhow::Result<PathBuf> {
    let libc = preloading::libc_of_this_system()?;
    let name = program.name;
    let target = Target::of_this_machine(libc);
    let target = target.with_context(|| format!("there is no {name} for this machine"))?;
    workshop.program(program, &target)
}

/// The static program, with an allocator in its libc, and what shows that.
pub fn linked(
    program: &Program,
    choice: &Choice,
    workshop: &Workshop,
) -> anyhow::Result<(PathBuf, Proof)> {
    let target = reheap_command::choice::musl_target(None)?;
    let program = static_program::of_choice(program, choice, &target, workshop)?;
    let proof = proof::of_executable(&program, choice, Hints::default())?;
    Ok((program, proof))
}
