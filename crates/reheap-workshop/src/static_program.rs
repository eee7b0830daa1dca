//! Links small programs of reheap's own statically, with an allocator in their libc.

use crate::original;
use crate::workshop::{Built, Workshop};
use anyhow::Context as _;
use reheap_allocators::cache::{CacheError, sha256};
use reheap_allocators::compiler::{Compiler, Language, Pie, Purpose};
use reheap_allocators::program::Program;
use reheap_allocators::target::Target;
use reheap_command::choice::Choice;
use reheap_command::ui::Failure;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program with an allocator, or with the libc's own.
pub fn of_choice(
    program: &Program,
    choice: &Choice,
    target: &Target,
    workshop: &Workshop,
) -> anyhow::Result<PathBuf> {
    linked(program, target, workshop, |original| {
        let derived = workshop.derived_directory(choice, target, original)?;
        let own = || original.parent().unwrap_or(Path::new(".")).to_owned();
        Ok(derived.unwrap_or_else(own))
    })
}

/// The program with an allocator that is built.
pub(crate) fn of_built(
    program: &Program,
    choice: &Choice,
    target: &Target,
    built: &Built,
    workshop: &Workshop,
) -> anyhow::Result<PathBuf> {
    linked(program, target, workshop, |original| {
        let original = original::find(original, workshop.search())?;
        Ok(original.derived_directory(&built.replacement(choice), workshop.cache()?)?)
    })
}

/// The program with the libc in a directory that is made from the original one.
fn linked(
    program: &Program,
    target: &Target,
    workshop: &Workshop,
    directory: impl FnOnce(&Path) -> anyhow::Result<PathBuf>,
) -> anyhow::Result<PathBuf> {
    let compiler = workshop.compiler(target, Language::C, Purpose::Programs)?;
    let directory = directory(&workshop.original_libc(&compiler, target)?)?;
    link(program, target, &compiler, &directory, workshop)
}

/// The program from the cache, or linked now with the libc of that directory.
fn link(
    program: &Program,
    target: &Target,
    compiler: &Compiler,
    directory: &Path,
    workshop: &Workshop,
) -> anyhow::Result<PathBuf> {
    let cache = workshop.cache()?;
    let scripts = cache.directory("compilers")?;
    let arguments = compiler.link_arguments(directory, Pie::Yes, &scripts)?;
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
        command.args(&arguments).args(*flags).arg(&source);
        command.arg("-o").arg(directory.join(name));
        run(&mut command, name).map_err(Failed)
    };
    let directory = cache.entry("static-programs", &entry, make);
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
