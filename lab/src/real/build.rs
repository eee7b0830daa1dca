//! One program, built as its users could build it: for each libc, with each allocator.

use super::{Language, Row, Source};
use crate::known::{self, BY_HAND, CRATES, Known, prove};
use crate::programs::{REAL, RustProgram, rust_program};
use crate::registry;
use crate::sources::{copy, debian, detach};
use anyhow::{Context, Result};
use serde_json::Value;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::command::stdout_of;
use xtask::files;
use xtask::progress::Progress;
use xtask::workspace::{Workspace, musl_target};

/// What is put into musl, beside musl's own.
const ALLOCATORS: [&str; 2] = ["mimalloc", "jemalloc"];
/// What crates are measured as, in the manifests of the programs: a dependency for each feature.
const DEPENDENCIES: &str = "
[dependencies.mimalloc-crate]
package = \"mimalloc\"
version = \"0.1\"
optional = true

[dependencies.jemalloc-crate]
package = \"tikv-jemallocator\"
version = \"0.7\"
optional = true
";
/// What a project writes that takes one of these crates.
const GLOBAL: &str = "
#[cfg(feature = \"mimalloc-crate\")]
#[global_allocator]
static MEASURED: mimalloc_crate::MiMalloc = mimalloc_crate::MiMalloc;
#[cfg(feature = \"jemalloc-crate\")]
#[global_allocator]
static MEASURED: jemalloc_crate::Jemalloc = jemalloc_crate::Jemalloc;
";

/// The name of a variant, and what to run: an executable, with what is preloaded before it.
type Variant = (String, String);

pub(super) struct Building<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) progress: &'a Progress,
    pub(super) known: &'a Known,
    /// Where everything is fetched to and built.
    pub(super) directory: &'a Path,
}

impl Building<'_> {
    /// Where the scripts are.
    pub(super) fn scripts(&self) -> PathBuf {
        self.workspace.root.join("lab/real")
    }

    /// All variants of a program, the baseline first.
    pub(super) fn variants(&self, row: &Row) -> Result<Vec<Variant>> {
        match row.source {
            Source::Rust {
                package,
                version,
                flags,
            } => self.rust(row, package, version, flags),
            Source::Sources { package, version } => {
                let (_, sources) = registry::fetched(self.directory, package, version)?;
                self.c(row.name, &sources, Language::C)
            }
            Source::Debian { package, language } => {
                let fetched = self.directory.join(format!("debian-{package}"));
                files::make_directory(&fetched)?;
                let (sources, version) = debian(self.workspace, &fetched, package)?;
                self.progress
                    .say(format!("{} is version {version}", row.name));
                self.c(row.name, &sources, language)
            }
        }
    }

    fn rust(
        &self,
        row: &Row,
        package: &'static str,
        version: &str,
        flags: &'static [&'static str],
    ) -> Result<Vec<Variant>> {
        let (workspace, progress) = (self.workspace, self.progress);
        let sources = self.directory.join(format!("{package}-{version}"));
        if !sources.exists() {
            progress.say(format!("fetching {package} {version}"));
            let (_, published) = registry::fetched(self.directory, package, version)?;
            let fresh = sources.with_extension("new");
            copy(&published, &fresh)?;
            detach(&fresh.join("Cargo.toml"))?;
            add_crates(&fresh, row.name)?;
            fs::rename(&fresh, &sources).context("cannot rename the sources")?;
        }
        let program = RustProgram {
            executable: row.name,
            manifest: sources.join("Cargo.toml"),
            flags,
            ..rust_program(workspace, package, REAL)
        };
        let glibc = program.build_stock(workspace, progress)?;
        let mut variants = vec![("glibc".to_owned(), glibc.display().to_string())];
        variants.extend(owned(self.known.linked(workspace, progress, &program)?));
        for allocator in ["stock"].into_iter().chain(ALLOCATORS) {
            let what = format!("building {} with {allocator}", row.name);
            let mut build = workspace.cargo_reheap();
            build.args(["build", "-a", allocator]);
            build.args(["--target", musl_target()?.triple()]);
            build.args(program.cargo_flags(workspace));
            progress.step(&what, &mut build)?;
            let built = program.put_aside(&workspace.target, allocator)?;
            variants.push((in_musl(allocator), built.display().to_string()));
        }
        for (name, feature) in CRATES {
            let built = program.build_with_feature(workspace, progress, feature)?;
            variants.push((name.to_owned(), built.display().to_string()));
        }
        Ok(variants)
    }

    /// Compiled once for each libc, and linked with each allocator. C++ is compiled by Zig for both, so that both have the
    /// same compiler and C++ library.
    fn c(&self, name: &str, sources: &Path, language: Language) -> Result<Vec<Variant>> {
        let reheap = self.workspace.reheap().get_program().display().to_string();
        let command = match language {
            Language::C => "cc",
            Language::Cxx => "c++",
        };
        let with = |allocator: &str| format!("{reheap} {command} -a {allocator} --");
        let for_glibc = match language {
            Language::C => "cc".to_owned(),
            Language::Cxx => zig_for_glibc(),
        };
        let glibc = self.compile(name, "glibc", sources, &for_glibc, &for_glibc)?;
        let mut variants = vec![("glibc".to_owned(), glibc.clone())];
        variants.extend(owned(self.known.preloaded(&glibc)));
        for allocator in ["stock"].into_iter().chain(ALLOCATORS) {
            let linked =
                self.compile(name, allocator, sources, &with("stock"), &with(allocator))?;
            variants.push((in_musl(allocator), linked));
        }
        if let Some(patched) = self.known.patched() {
            let linker = known::linker(&format!("{reheap} {command}"), &patched);
            let linked = self.compile(name, "by-hand", sources, &with("stock"), &linker)?;
            prove(self.workspace, self.progress, Path::new(&linked))?;
            variants.push((BY_HAND.to_owned(), linked));
        }
        Ok(variants)
    }

    /// Runs the program's script, which compiles what is not compiled yet, and links.
    fn compile(
        &self,
        name: &str,
        variant: &str,
        sources: &Path,
        compiler: &str,
        linker: &str,
    ) -> Result<String> {
        let libc = if variant == "glibc" { "glibc" } else { "musl" };
        let directory = self.directory.join(format!("{name}-{libc}"));
        if !directory.exists() {
            copy(sources, &directory)?;
        }
        let linked = self.directory.join(format!("{name}.{variant}"));
        let scripts = self.scripts();
        let mut script = Command::new("sh");
        script
            .arg("-eu")
            .arg(scripts.join(format!("{name}.sh")))
            .arg(&linked)
            .env("LAB_REAL", &scripts)
            .envs([("CC", compiler), ("CXX", compiler), ("LINK", linker)])
            .current_dir(&directory);
        let what = format!("building {name} with {variant}");
        self.progress.quietly(&what, &mut script)?;
        Ok(linked.display().to_string())
    }
}

fn in_musl(allocator: &str) -> String {
    match allocator {
        "stock" => "musl".to_owned(),
        allocator => format!("musl+{allocator}"),
    }
}

/// Zig's Clang for glibc, without the traps for undefined behaviour that it would put in.
fn zig_for_glibc() -> String {
    let target = format!("{}-linux-gnu", env::consts::ARCH);
    format!("python3 -m ziglang c++ -target {target} -fno-sanitize=undefined")
}

fn owned(variants: Vec<(&str, String)>) -> impl Iterator<Item = Variant> {
    let variants = variants.into_iter();
    variants.map(|(name, program)| (name.to_owned(), program))
}

/// Gives a program the features that its users would write to try one of the crates.
fn add_crates(sources: &Path, executable: &str) -> Result<()> {
    let manifest = sources.join("Cargo.toml");
    files::write(&manifest, files::read(&manifest)? + DEPENDENCIES)?;
    // Cargo also adds to Cargo.lock what is not there yet.
    let mut cargo = Command::new("cargo");
    cargo.args(["metadata", "--format-version", "1"]);
    let metadata: Value = serde_json::from_str(&stdout_of(cargo.current_dir(sources))?)
        .context("cannot understand what Cargo says of a package")?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let mut targets = packages
        .flat_map(|package| package["targets"].as_array())
        .flatten();
    let binary = targets
        .find(|target| target["kind"][0] == "bin" && target["name"] == executable)
        .with_context(|| format!("`{}` has no executable `{executable}`", sources.display()))?;
    let main = binary["src_path"]
        .as_str()
        .context("a target has no file")?;
    files::write(main, files::read(main)? + GLOBAL)
}
