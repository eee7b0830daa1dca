//! CPython, for the program `readers`: built from Debian's sources, once for glibc and once for musl.
//!
//! The modules that it needs are in the executable, because a static one cannot load any. For musl the objects are compiled once
//! and linked with each allocator.

use crate::known::{self, BY_HAND, Known};
use crate::programs::{Commands, SystemProgram, fetched};
use crate::sources::debian;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::command::stdout_of;
use xtask::files;
use xtask::progress::Progress;
use xtask::workspace::Workspace;

const PACKAGE: &str = "python3.11";
const READERS: &str = "lab/workloads/readers/readers.py";
/// Preloaded and linked, each first with Python's own allocator for small objects.
pub(crate) const BENCHMARKS: [&str; 4] = [
    "readers-preloaded",
    "readers-preloaded-malloc",
    "readers-static",
    "readers-static-malloc",
];
/// What both are configured with.
const CONFIGURED: [&str; 2] = ["--disable-shared", "--without-ensurepip"];
/// What a static one needs beside that; `getaddrinfo` cannot be tried out when it is linked so.
const CONFIGURED_STATIC: [&str; 2] = ["LDFLAGS=-static", "ac_cv_buggy_getaddrinfo=no"];
/// The modules in C that `readers` needs. Others want libraries that musl's compiler does not have.
const MODULES: &str = "*static*\n_bisect _bisectmodule.c\n_json _json.c\n_random _randommodule.c\n\
                       _sha512 sha512module.c\n_struct _struct.c\nmath mathmodule.c\n";
/// What musl's Python is linked with, beside musl's own.
const ALLOCATORS: [&str; 6] = [
    "mimalloc",
    "mimalloc3",
    "mimalloc-secure",
    "jemalloc",
    "snmalloc",
    "rpmalloc",
];

/// Executables of one version of Python.
pub(crate) struct Pythons {
    /// Where its modules in Python are.
    library: PathBuf,
    dynamic: PathBuf,
    /// The names of variants, and their executables.
    linked: Vec<(String, PathBuf)>,
}

impl Pythons {
    /// The dynamic one, that allocators are preloaded into.
    pub(crate) fn preloaded(&self, workspace: &Workspace) -> [SystemProgram; 2] {
        let program = |name, environment| SystemProgram {
            name,
            environment,
            words: self.words(workspace, &self.dynamic).into(),
        };
        [
            program(BENCHMARKS[0], self.environment()),
            program(BENCHMARKS[1], self.all_from_malloc()),
        ]
    }

    /// The dynamic one, and every static one.
    pub(crate) fn linked(&self, workspace: &Workspace) -> [Commands; 2] {
        let glibc = ("glibc".to_owned(), self.dynamic.clone());
        let variants: Vec<String> = [&glibc]
            .into_iter()
            .chain(&self.linked)
            .map(|(name, path)| format!("{name}={}", self.words(workspace, path).join(" ")))
            .collect();
        let commands = |name, environment| Commands {
            name,
            environment,
            variants: variants.clone(),
            output_varies: false,
        };
        [
            commands(BENCHMARKS[2], self.environment()),
            commands(BENCHMARKS[3], self.all_from_malloc()),
        ]
    }

    fn words(&self, workspace: &Workspace, python: &Path) -> [String; 3] {
        let script = workspace.root.join(READERS);
        [
            python.display().to_string(),
            "-S".to_owned(), // what is installed on this machine stays out
            script.display().to_string(),
        ]
    }

    fn environment(&self) -> Vec<(&'static str, String)> {
        vec![("PYTHONPATH", self.library.display().to_string())]
    }

    /// By default, small objects come from Python's own allocator.
    fn all_from_malloc(&self) -> Vec<(&'static str, String)> {
        let mut environment = self.environment();
        environment.push(("PYTHONMALLOC", "malloc".to_owned()));
        environment
    }
}

/// Fetches and builds them, as far as that has not been done.
pub(crate) fn build(workspace: &Workspace, progress: &Progress, known: &Known) -> Result<Pythons> {
    let directory = fetched(workspace)?.join("python");
    files::make_directory(&directory)?;
    let (sources, _) = debian(workspace, &directory, PACKAGE)?;
    // A patch of Debian asks the compiler for a name that musl's does not know.
    let mut sed = Command::new("sed");
    sed.args(["-i", r"s/\$CC --print-multiarch/true/", "configure"]);
    stdout_of(sed.current_dir(&sources))?;
    let build = |kind, compiler| Build {
        progress,
        sources: &sources,
        directory: directory.join(kind),
        compiler,
    };
    let dynamic = build("dynamic", "cc".to_owned());
    dynamic.configure(&[])?;
    let with = |allocator: &str| {
        let reheap = workspace.reheap().get_program().display().to_string();
        format!("{reheap} cc -a {allocator} --")
    };
    let musl = build("static", with("stock"));
    musl.configure(&CONFIGURED_STATIC)?;
    let mut linked = vec![("musl".to_owned(), musl.link("stock", &with("stock"))?)];
    for allocator in ALLOCATORS {
        let python = musl.link(allocator, &with(allocator))?;
        linked.push((format!("musl+{allocator}"), python));
    }
    if let Some(patched) = known.patched() {
        let reheap = workspace.reheap().get_program().display().to_string();
        let linker = known::linker(&format!("{reheap} cc"), &patched);
        let python = musl.link("by-hand", &linker)?;
        known::prove(workspace, progress, &python)?;
        linked.push((BY_HAND.to_owned(), python));
    }
    Ok(Pythons {
        library: sources.join("Lib"),
        dynamic: dynamic.link("glibc", "cc")?,
        linked,
    })
}

/// A directory that Python is built in.
struct Build<'a> {
    progress: &'a Progress,
    sources: &'a Path,
    directory: PathBuf,
    compiler: String,
}

impl Build<'_> {
    fn configure(&self, arguments: &[&str]) -> Result<()> {
        let modules = self.directory.join("Modules/Setup.local");
        if fs::read_to_string(&modules).is_ok_and(|chosen| chosen == MODULES) {
            return Ok(());
        }
        files::make_directory(&self.directory)?;
        let mut configure = Command::new(self.sources.join("configure"));
        configure
            .args(CONFIGURED)
            .args(arguments)
            .env("CC", &self.compiler)
            .current_dir(&self.directory);
        self.progress
            .quietly("configuring Python", &mut configure)?;
        files::write(&modules, MODULES)?;
        Ok(())
    }

    /// Compiles what is not compiled yet, and links an executable of this name.
    fn link(&self, name: &str, linker: &str) -> Result<PathBuf> {
        let executable = format!("python-{name}");
        let path = self.directory.join(&executable);
        if path.exists() {
            fs::remove_file(&path)
                .with_context(|| format!("cannot delete `{}`", path.display()))?;
        }
        let mut make = Command::new("make");
        make.args(["-j2", &executable])
            .arg(format!("BUILDPYTHON={executable}"))
            .arg(format!("LINKCC={linker}"))
            .current_dir(&self.directory);
        let what = format!("building {executable}");
        self.progress.quietly(&what, &mut make)?;
        Ok(path)
    }
}
