//! Finds the preload for a program, and builds the environment that loads it.

use crate::debugging;
use crate::workshop::{Workshop, another_cache, unusable_cache};
use anyhow::Context as _;
use reheap_allocators::load::Loading;
use reheap_allocators::own_library::NOTHING;
use reheap_allocators::probe::{self, WhyNot};
use reheap_allocators::target::{Libc, Target};
use reheap_allocators::{only, preload};
use reheap_command::choice::Choice;
use reheap_command::env_vars;
use reheap_command::ui::Failure;
use reheap_subject::other_preloads;
use reheap_subject::program::Program;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The library of the chosen allocator for this program's libc, from the cache or built now. For `stock`, that is glibc's
/// own for debugging, if the user wants that.
///
/// The path is for `LD_PRELOAD` only: it leads processes of another libc past the library. The file name is also what
/// `/proc/PID/maps` of a process that has it shows.
///
/// The caller judges obstacles ([`Program::obstacles`]). If no library fits the program, that is an error here too.
pub fn library(
    choice: &Choice,
    program: &Program,
    workshop: &Workshop,
) -> anyhow::Result<Option<PathBuf>> {
    let Some(file) = file(choice, program, workshop)? else {
        return Ok(None);
    };
    let target = target_of(program)?;
    Ok(Some(for_variable(&file, &target, workshop)?))
}

/// The file of that library, if a path in the cache can lead to it.
pub fn file(
    choice: &Choice,
    program: &Program,
    workshop: &Workshop,
) -> anyhow::Result<Option<PathBuf>> {
    let of_glibc = debugging::library(choice, program).map_err(Failure::from)?;
    if choice.is_stock() && of_glibc.is_none() {
        return Ok(None);
    }
    check_path(workshop.cache()?.root())?;
    match of_glibc {
        Some(library) => Ok(Some(library)),
        None => Ok(Some(workshop.preload(choice, &target_of(program)?)?)),
    }
}

/// The directory that keeps other users from what is in root's cache. What root starts may change its user before it
/// starts the program that the preload is for, as services do.
pub fn closed_to_others(workshop: &Workshop) -> anyhow::Result<Option<PathBuf>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let is_closed = |directory: &&Path| {
        const OTHERS_MAY_ENTER: u32 = 0o001;
        let metadata = directory.metadata();
        metadata.is_ok_and(|metadata| metadata.mode() & OTHERS_MAY_ENTER == 0)
    };
    let closed = workshop.cache()?.root().ancestors().find(is_closed);
    Ok(closed.map(Path::to_owned))
}

fn target_of(program: &Program) -> anyhow::Result<Target> {
    program.target().with_context(|| {
        let shown = program.route.file.display();
        format!("there is no library for `{shown}`")
    })
}

/// The libc of this system's programs, by its shell.
pub fn libc_of_this_system() -> anyhow::Result<Libc> {
    let shell = Program::resolve(OsStr::new("sh"))?;
    Ok(shell.target().map_or(Libc::Musl, |target| target.libc()))
}

/// Whether a file of this name is the libc of a dynamic program.
pub fn is_libc(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let names = ["libc.so", "libc-2.", "libc.musl-", "ld-musl-"];
    names.iter().any(|beginning| name.starts_with(beginning))
}

/// All variables to set for a program that passes the library on to one of the programs that it starts, and to no
/// other.
pub fn environment_for_only(
    choice: &Choice,
    program: &Program,
    only: &OsStr,
    workshop: &Workshop,
) -> anyhow::Result<Vec<(OsString, OsString)>> {
    let library = library(choice, program, workshop)?.context("`stock` is not a library")?;
    let target = program.target().context("there is no library for it")?;
    let giver = workshop.own_library(&only::LIBRARY, &target)?;
    let giver = for_variable(&giver, &target, workshop)?;
    let mut variables = environment(choice, Some(&giver));
    variables.extend(only::environment(only, &library));
    Ok(variables)
}

/// The path by which processes find a library of reheap, such as the probe. Processes of the other libc find nothing
/// there that would end them.
pub fn for_variable(
    library: &Path,
    target: &Target,
    workshop: &Workshop,
) -> anyhow::Result<PathBuf> {
    let prebuilt = match target.libc() {
        Libc::Musl => prebuilt_nothing(workshop)?,
        Libc::Glibc => None,
    };
    let nothing = || prebuilt.or_else(|| nothing(workshop));
    let path = preload::path_for_variable(library, target, nothing, workshop.cache()?);
    Ok(path.map_err(unusable_cache)?)
}

/// The probe, as `LD_PRELOAD` names it.
pub fn probe(target: &Target, workshop: &Workshop) -> anyhow::Result<PathBuf> {
    let probe = workshop.own_library(&probe::LIBRARY, target)?;
    for_variable(&probe, target, workshop)
}

/// Removes `LD_PRELOAD` from the variables to set.
pub fn take_out(environment: &mut Vec<(OsString, OsString)>) -> Option<OsString> {
    let position = environment
        .iter()
        .position(|(name, _)| name == env_vars::LD_PRELOAD);
    position.map(|position| environment.remove(position).1)
}

/// What `LD_PRELOAD` already names.
pub fn present() -> Option<OsString> {
    env_vars::variable(env_vars::LD_PRELOAD)
}

/// A prebuilt empty library for the glibc processes that a musl program starts.
fn prebuilt_nothing(workshop: &Workshop) -> anyhow::Result<Option<PathBuf>> {
    match Target::of_this_machine(Libc::Glibc) {
        Some(target) => workshop.prebuilt_own_library(&NOTHING, &target),
        None => Ok(None),
    }
}

/// An empty library for the glibc processes that a musl program starts, built here. A system without a compiler for glibc
/// has no such processes.
fn nothing(workshop: &Workshop) -> Option<PathBuf> {
    let target = Target::of_this_machine(Libc::Glibc)?;
    workshop.own_library(&NOTHING, &target).ok()
}

/// All variables to set for a program: `LD_PRELOAD` with the library in front of what is in it, and the tuning, merged
/// with what the user has set.
pub fn environment(choice: &Choice, library: Option<&Path>) -> Vec<(OsString, OsString)> {
    let mut environment: Vec<(OsString, OsString)> = choice
        .tuning
        .variables(choice.allocator)
        .into_iter()
        .map(|(variable, setting)| {
            let present = env_vars::variable(variable.name());
            let value = variable.merged(present.as_deref(), &setting);
            (variable.name().into(), value)
        })
        .collect();
    if let Some(library) = library {
        let mut value = library.as_os_str().to_owned();
        if let Some(present) = env_vars::variable(env_vars::LD_PRELOAD) {
            value.push(":");
            value.push(present);
        }
        environment.push((env_vars::LD_PRELOAD.into(), value));
        environment.extend(other_preloads::room_beside_audit_libraries());
    }
    environment
}

/// Why the library does not work in a program, in the words of the program's dynamic linker if those tell more.
pub fn explained(why: WhyNot, program: &Program, library: &Path) -> WhyNot {
    let (Some(target), Some(loader)) = (program.target(), &program.identity.interpreter) else {
        return why;
    };
    let loading = Loading {
        libc: target.libc(),
        loader: Path::new(loader),
        program: &program.route.file,
    };
    why.explained(loading, library)
}

/// Why a library for this libc does not get into a program, as far as the program's file tells.
pub fn unreached_because(program: &Path, libc: Libc) -> Option<String> {
    let program = Program::resolve(program.as_os_str()).ok()?;
    let mut obstacles = program.obstacles().into_iter();
    if let Some(obstacle) = obstacles.find(|obstacle| !obstacle.is_only_risky()) {
        return Some(obstacle.to_string());
    }
    let other = program.target().map(|target| target.libc());
    let other = other.filter(|other| *other != libc)?;
    Some(format!(
        "it is linked with {other}, and the library is for {libc}"
    ))
}

/// Why it does not, if its file tells nothing and it was started without the variable.
pub const NO_VARIABLE: &str = "it was started without LD_PRELOAD";
/// Why nobody knows what a program does.
pub const UNHEARD: &str = "as another user or in a sandbox, it cannot write down what it calls";
/// Why it does not, if nothing tells more.
pub const NOT_LOADED: &str = "its dynamic linker did not load the library";

fn check_path(cache: &Path) -> anyhow::Result<()> {
    if preload::fits_into_variable(cache) {
        return Ok(());
    }
    let text = format!(
        "cannot preload from the cache directory `{}`: LD_PRELOAD allows no blank, colon or dollar sign in a path",
        cache.display()
    );
    Err(Failure::failed(text).hint(another_cache()).into())
}
