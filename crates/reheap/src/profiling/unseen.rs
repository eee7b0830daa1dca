//! The programs of a command that the hooks did not watch, and why.
//!
//! A figure that misses the program that does the work is worse than none, so each of them is named.

use reheap_elf::identify::{Identity, Kind, Provider, RustGlobalAllocator, identify};
use reheap_proc::process;
use reheap_profile::others::Other;
use reheap_profile::profile::{Access, Process, Unseen};
use reheap_subject::open_file::OpenFile;
use reheap_subject::program::{Privilege, Program};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Programs that ran without hooks.
pub(super) fn without_hooks(other: &Other) -> Unseen {
    let mut reason = reason(&other.program, other.without_variable > 0);
    match other.running {
        0 => {}
        1 => reason.push_str("; it still ran when the command ended"),
        several => reason.push_str(&format!(
            "; {several} of them still ran when the command ended"
        )),
    }
    Unseen {
        program: other.program.clone(),
        reason,
        times: Some(other.times),
        cpu_seconds: Some(other.cpu.as_secs_f64()).filter(|seconds| *seconds > 0.0),
    }
}

/// Why a program has no hooks, as far as its file and its start tell.
fn reason(program: &Path, was_without_variable: bool) -> String {
    let identity = identity(program);
    let found = identity.as_ref();
    if let Some(reason) = found.and_then(other_processor) {
        return reason;
    }
    if found.is_some_and(|identity| identity.kind != Kind::Dynamic) {
        return "it is static, and only the first program of a command gets hooks into its code"
            .to_owned();
    }
    if let Some(privilege) = privilege(program) {
        return format!("it is {privilege}, so it ignores LD_PRELOAD");
    }
    let reason = if was_without_variable {
        "it was started without LD_PRELOAD, or its dynamic linker ignores that"
    } else {
        "it could not open what it shares with reheap (it ran as another user, in another root directory, \
         with a limit of address space, or could open no more files), or ignored LD_PRELOAD"
    };
    reason.to_owned()
}

/// A sentence that a program is not for the processor of the hooks, if so.
pub(super) fn other_processor(identity: &Identity) -> Option<String> {
    let (own, other) = (std::env::consts::ARCH, identity.architecture.as_str());
    let size = match other {
        "i686" | "x32" | "arm" | "mips" | "ppc" | "riscv32" => "a 32-bit program ",
        _ => "",
    };
    (own != other).then(|| format!("it is {size}for {other}, and the hooks are for {own}"))
}

fn privilege(program: &Path) -> Option<Privilege> {
    let is_path = program.is_absolute();
    let program = is_path.then(|| Program::resolve(program.as_os_str()));
    program?.ok()?.privilege
}

fn identity(program: &Path) -> Option<Identity> {
    // A process wrote the path.
    let opened = OpenFile::new(process::open_regular(program)?).ok()?;
    identify(&opened).ok()
}

/// What found no place in what the hooks share with reheap, and what has only a place there.
pub(super) fn refused(processes: u32, starts: u32, hidden: u32) -> Vec<Unseen> {
    let told = [
        (
            hidden,
            "processes in a PID namespace are without CPU time, resident memory and names: their /proc is another one, so \
             nothing tells their numbers here",
        ),
        (processes, "processes too many at a time found no place"),
        (
            starts,
            "starts of programs were not counted, because there were too many different ones",
        ),
    ];
    let told = told.into_iter().filter(|(count, _)| *count > 0);
    told.map(|(count, what)| Unseen {
        reason: format!("{count} {what}"),
        ..Unseen::default()
    })
    .collect()
}

/// Sorts them, and keeps each reason of a program once.
pub(super) fn merged(unseen: Vec<Unseen>) -> Vec<Unseen> {
    let mut merged: BTreeMap<(PathBuf, String), Unseen> = BTreeMap::new();
    for one in unseen {
        let key = (one.program.clone(), one.reason.clone());
        merged
            .entry(key)
            .and_modify(|all| {
                all.times = sum(all.times, one.times, |a, b| a + b);
                all.cpu_seconds = sum(all.cpu_seconds, one.cpu_seconds, |a, b| a + b);
            })
            .or_insert(one);
    }
    merged.into_values().collect()
}

fn sum<T>(a: Option<T>, b: Option<T>, add: impl Fn(T, T) -> T) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(add(a, b)),
        (a, b) => a.or(b),
    }
}

/// Adds the names of allocators, and takes out programs whose own malloc the hooks could not stand in front of.
pub(super) fn identified(processes: Vec<Process>) -> (Vec<Process>, Vec<Unseen>) {
    let mut known: BTreeMap<(PathBuf, Option<PathBuf>), Malloc> = BTreeMap::new();
    let (mut seen, mut unseen) = (Vec::new(), Vec::new());
    for mut process in processes {
        let files = (process.program.clone(), process.malloc_file.clone());
        let malloc = known
            .entry(files)
            .or_insert_with_key(|(program, file)| malloc_of(program, file.as_deref()));
        match malloc {
            // Jumps in its code would have counted them.
            Malloc::Own(name)
                if process.counts.calls.is_empty() && process.access == Access::Preload =>
            {
                let reason = format!("it has an allocator of its own: {name}");
                unseen.push(Unseen {
                    program: process.program.clone(),
                    reason,
                    times: Some(1),
                    cpu_seconds: cpu_seconds(&process),
                });
            }
            Malloc::Bypassed(name) if process.access == Access::Preload => {
                unseen.push(Unseen {
                    program: process.program.clone(),
                    reason: format!(
                        "its Rust code calls {name} past malloc, and only calls of malloc are counted; \
                         as the first program of a command, or with `--pid`, it is watched if it has symbols"
                    ),
                    times: Some(1),
                    cpu_seconds: cpu_seconds(&process),
                });
                // It says nothing of the allocator that does the work.
                process.time = None;
                seen.push(process);
            }
            Malloc::Shared(name) if process.is_bypassed => unseen.push(Unseen {
                program: process.program.clone(),
                reason: format!(
                    "its calls of malloc go to {name}, which LD_PRELOAD names before the hooks"
                ),
                times: Some(1),
                cpu_seconds: cpu_seconds(&process),
            }),
            Malloc::Own(name) | Malloc::Shared(name) | Malloc::Bypassed(name) => {
                process.allocator = Some(name.clone());
                seen.push(process);
            }
            Malloc::Unknown => seen.push(process),
        }
    }
    (seen, unseen)
}

fn cpu_seconds(process: &Process) -> Option<f64> {
    let time = process.time.as_ref()?;
    Some(time.user_seconds + time.system_seconds)
}

/// Where a program gets its malloc from.
enum Malloc {
    /// From its own file.
    Own(String),
    /// From a library.
    Shared(String),
    /// From a library, but Rust code does not call it.
    Bypassed(String),
    Unknown,
}

/// Whether a dynamic program calls an allocator in its own file, where no preload comes between.
pub(super) fn allocates_past_preloads(identity: &Identity) -> bool {
    let provider = &identity.malloc.provider;
    let is_own = matches!(provider, Provider::Allocator { .. } | Provider::OwnCode);
    is_own || allocator_of_rust(identity).is_some()
}

/// The allocator that Rust code calls past malloc.
fn allocator_of_rust(identity: &Identity) -> Option<String> {
    match identity.rust_global_allocator.as_ref()? {
        RustGlobalAllocator::Custom { name, .. } => Some(
            name.as_deref()
                .unwrap_or("an allocator of its own")
                .to_owned(),
        ),
        _ => None,
    }
}

/// The malloc of a program; `file` is the library that its calls went to, if that is known.
fn malloc_of(program: &Path, file: Option<&Path>) -> Malloc {
    let of_program = malloc_of_program(program);
    match (&of_program, file.and_then(malloc_in)) {
        // Another preload may have been in front of what the program is linked with.
        (Malloc::Shared(_) | Malloc::Unknown, Some(name)) => Malloc::Shared(name),
        _ => of_program,
    }
}

/// The allocator in a library.
fn malloc_in(library: &Path) -> Option<String> {
    match identity(library)?.malloc.provider {
        Provider::Allocator { name } => Some(name),
        Provider::OwnCode => Some(library.file_name()?.to_string_lossy().into_owned()),
        _ => None,
    }
}

fn malloc_of_program(program: &Path) -> Malloc {
    let Some(identity) = identity(program) else {
        return Malloc::Unknown;
    };
    if let Some(name) = allocator_of_rust(&identity)
        && identity.kind == Kind::Dynamic
    {
        return Malloc::Bypassed(name);
    }
    match identity.malloc.provider {
        Provider::Allocator { name } => Malloc::Own(name),
        Provider::OwnCode => Malloc::Own("one that reheap does not know".to_owned()),
        Provider::Library { name, .. } => Malloc::Shared(name),
        Provider::SharedLibc => Malloc::Shared(identity.libc.name.to_string()),
        Provider::Outside | Provider::Nobody | Provider::Unknown => Malloc::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    /// Opening a pipe waits until somebody writes into it.
    #[test]
    fn a_program_that_is_no_file_has_no_identity_and_is_not_opened() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
        assert!(identity(&pipe).is_none());
        assert!(identity(Path::new("/dev/null")).is_none());
        assert!(identity(&std::env::current_exe().unwrap()).is_some());
    }
}
