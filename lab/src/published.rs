//! `cargo lab measure --published`: what others have published about allocators in musl, repeated with today's
//! versions, beside reheap.
//!
//! The sizes and threads are the published ones. The page is written by hand around the tables, because whether a
//! claim holds is for a person to say.

mod page;
mod python;

use crate::known::Known;
use crate::programs::{Prepared, REAL, RustProgram, SQLITE, fetched, rust_program};
use crate::registry;
use crate::sources::{copy, detach};
use anyhow::Result;
pub(crate) use page::{PAGE, SKELETON, block};
use xtask::progress::Progress;
use xtask::workspace::Workspace;

/// What every program in Rust is linked with.
pub(crate) const LINKED: &str = "glibc,glibc+mimalloc,glibc+jemalloc,musl,musl+mimalloc,musl+mimalloc3,\
                                 musl+mimalloc-secure,musl+jemalloc,musl+snmalloc,musl+rpmalloc";
/// What is preloaded into Python.
pub(crate) const PRELOADED: &str =
    "glibc,mimalloc,mimalloc3,mimalloc-secure,jemalloc,snmalloc,rpmalloc";
/// In the directory of the measurements.
pub(crate) const DIRECTORY: &str = "published";

/// With and without parallel compilation, and with 32 threads.
const WASMTIME_SWEEP: &str = "wasmtime";
const WASMTIME_32: &str = "wasmtime-32";
/// The version of wasmtime that the compiler of this repository builds.
const WASMTIME: (&str, &str) = ("wasmtime-cli", "48.0.8");
/// All of `wasmtime compile`, and little else. What is left out runs modules.
const WASMTIME_FLAGS: [&str; 3] = [
    "--no-default-features",
    "--features",
    "compile,parallel-compilation,threads,gc,gc-drc,gc-null,gc-copying,component-model,wat,demangle",
];
/// For `tokenize`: the other preloads, and the tunings that may keep the speed without the memory.
const FOR_TOKENIZE: [&str; 9] = [
    "glibc+mimalloc3",
    "glibc+mimalloc-secure",
    "glibc+snmalloc",
    "glibc+rpmalloc",
    "musl+mimalloc[purge_delay=0]",
    "musl+mimalloc[purge_delay=10]",
    "musl+mimalloc[huge_pages=allow]",
    "musl+jemalloc[dirty_decay_ms=1000]",
    "musl+jemalloc[narenas=2]",
];
/// Figures that `tokenize` prints.
const TOKENIZE_METRICS: [&str; 2] = [
    r"lines/s=(\d+) lines/s",
    r"resident:lower=(\d+) kB resident",
];

/// Fetches and builds what is measured, as far as it is chosen.
pub(crate) fn prepare(
    workspace: &Workspace,
    progress: &Progress,
    known: &Known,
    is_chosen: impl Fn(&str) -> bool,
) -> Result<Prepared> {
    let mut prepared = Prepared::of_rust(vec![
        on_threads(workspace, "passwords", "threads=1,2,4,8,22,32", "1000000"),
        on_threads(workspace, "churn", "threads=1,2,4,8,16,32", "3200000"),
        RustProgram {
            manifest: workspace.root.join(REAL),
            metrics: &TOKENIZE_METRICS,
            variants: &FOR_TOKENIZE,
            ..on_threads(workspace, "tokenize", "threads=1,2,32", "50000")
        },
    ]);
    if [WASMTIME_SWEEP, WASMTIME_32].into_iter().any(&is_chosen) {
        match wasmtime(workspace, progress) {
            Ok(programs) => prepared.rust.extend(programs),
            Err(error) => prepared.leave_out("wasmtime", &error),
        }
    }
    if python::BENCHMARKS.into_iter().any(&is_chosen) {
        match python::build(workspace, progress, known) {
            Ok(pythons) => {
                prepared.system.extend(pythons.preloaded(workspace));
                prepared.commands.extend(pythons.linked(workspace));
            }
            Err(error) => prepared.leave_out("readers", &error),
        }
    }
    Ok(prepared)
}

/// A program of this repository, the same work on several numbers of threads.
fn on_threads(
    workspace: &Workspace,
    package: &'static str,
    sweep: &'static str,
    amount: &str,
) -> RustProgram {
    RustProgram {
        sweep: Some(sweep),
        arguments: ["--threads", "{threads}", "--amount", amount]
            .map(String::from)
            .to_vec(),
        ..rust_program(workspace, package, "Cargo.toml")
    }
}

/// `wasmtime compile`: with one thread, with one for each processor, and with 32.
fn wasmtime(workspace: &Workspace, progress: &Progress) -> Result<[RustProgram; 2]> {
    let directory = fetched(workspace)?;
    let module = SQLITE.fetch(&directory, progress)?.display().to_string();
    let (package, version) = WASMTIME;
    let sources = directory.join(format!("{package}-{version}"));
    if !sources.exists() {
        progress.say(format!("fetching {package} {version}"));
        let (_, fetched) = registry::fetched(&directory, package, version)?;
        copy(&fetched, &sources)?;
        detach(&sources.join("Cargo.toml"))?;
    }
    let program = |name, parallel: &str| RustProgram {
        name,
        executable: "wasmtime",
        manifest: sources.join("Cargo.toml"),
        flags: &WASMTIME_FLAGS,
        arguments: ["compile", "-C", parallel, "-o", "/dev/null", &module]
            .map(String::from)
            .to_vec(),
        ..rust_program(workspace, package, REAL)
    };
    Ok([
        RustProgram {
            sweep: Some("parallel=n,y"),
            ..program(WASMTIME_SWEEP, "parallel-compilation={parallel}")
        },
        RustProgram {
            environment: &[("RAYON_NUM_THREADS", "32")],
            ..program(WASMTIME_32, "parallel-compilation=y")
        },
    ])
}
