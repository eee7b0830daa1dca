//! Gives small programs of reheap's own an allocator, in both ways that programs get one: the dynamic program with a
//! preload, or a static one with the allocator in its libc. `replay` and `attack` each have such a program.

use anyhow::Context as _;
use reheap_allocators::cache::{CacheError, sha256};
use reheap_allocators::compiler::{Compiler, Language, LinkError, Pie, Purpose};
use reheap_allocators::program::Program;
use reheap_allocators::target::Target;
use reheap_command::choice::Choice;
use reheap_command::ui::Failure;
use reheap_static::project::proof::{self, Hints, Proof};
use reheap_subject::program;
use reheap_workshop::preloading;
use reheap_workshop::workshop::Workshop;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

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
    let compiler = workshop.compiler(&target, Language::C, Purpose::Programs)?;
    let original = match compiler.original_libc(workshop.search()) {
        Err(LinkError::NoLibcOfItsOwn { .. }) => workshop.libc_of_rust(&target)?,
        result => result?,
    };
    let directory = match workshop.derived_directory(choice, &target, &original)? {
        Some(directory) => directory,
        None => original.parent().unwrap_or(Path::new(".")).to_owned(),
    };
    let scripts = workshop.cache()?.directory("compilers")?;
    let arguments = compiler.link_arguments(&directory, Pie::Yes, &scripts)?;
    let program = link(program, &target, &compiler, &arguments, workshop)?;
    let proof = proof::of_executable(&program, choice, Hints::default())?;
    Ok((program, proof))
}

/// A static program from the cache, or linked now.
fn link(
    program: &Program,
    target: &Target,
    compiler: &Compiler,
    arguments: &[OsString],
    workshop: &Workshop,
) -> anyhow::Result<PathBuf> {
    let Program {
        name,
        source: text,
        compiler_flags: flags,
    } = program;
    let mut ingredients = format!("{text}\n{flags:?}\n{}\n", compiler.identity);
    // The derived libc's directory, whose name says what is in it.
    ingredients.push_str(&format!("{arguments:?}"));
    let entry = format!("{name}-{target}-{}", &sha256(ingredients.as_bytes())[..16]);
    let make = |directory: &Path| -> Result<(), Failed> {
        let source = directory.join(format!("{name}.c"));
        fs::write(&source, text).map_err(|error| Failed(error.into()))?;
        let mut command = compiler.command_in(workshop.search());
        command.args(arguments).args(*flags).arg(&source);
        command.arg("-o").arg(directory.join(name));
        run(&mut command, name).map_err(Failed)
    };
    let directory = workshop.cache()?.entry("static-programs", &entry, make);
    Ok(directory.map_err(|Failed(error)| error)?.join(name))
}

/// An error on the way through the cache, which adds its own.
struct Failed(anyhow::Error);

impl From<CacheError> for Failed {
    fn from(error: CacheError) -> Self {
        Failed(error.into())
    }
}

fn run(command: &mut Command, name: &str) -> anyhow::Result<()> {
    let program = command.get_program().display().to_string();
    let output = command.output();
    let output = output.with_context(|| format!("cannot start `{program}`"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let text = format!("cannot compile the {name} with `{program}`: {said}");
    Err(Failure::failed(text.trim_end()).into())
}
