//! `reheap adopt` and `--undo` on real projects that have no allocator: whether what is built has it, for musl and for
//! glibc, and whether every byte is as it was afterwards.

use crate::machine::today;
use crate::measurement;
use crate::registry;
use crate::sources::copy;
use crate::table::Table;
use anyhow::Result;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::command::stdout_of;
use xtask::files;
use xtask::progress::Progress;
use xtask::workspace::{Build, Workspace};

const MUSL: &str = "x86_64-unknown-linux-musl";
const GLIBC: &str = "x86_64-unknown-linux-gnu";

/// A package, what `adopt` is asked for, and which allocator its programs must have with musl and with glibc.
const TRIALS: [(&str, &str, &str, &str, &str); 10] = [
    ("choose", "1.3.7", "", "mimalloc", "glibc"),
    ("hexyl", "0.17.0", "--targets all", "mimalloc", "mimalloc"),
    (
        "runiq",
        "2.1.0",
        "-a mimalloc-secure",
        "mimalloc-secure",
        "glibc",
    ),
    (
        "sd",
        "1.0.0",
        "--feature fast-allocator --on-by-default",
        "mimalloc",
        "glibc",
    ),
    (
        "csview",
        "1.3.4",
        "--with crate --targets x86_64-unknown-linux-musl",
        "mimalloc",
        "glibc",
    ),
    ("vivid", "0.10.1", "--targets all", "mimalloc", "mimalloc"),
    ("pastel", "0.11.0", "", "mimalloc", "glibc"),
    ("grex", "1.4.6", "", "mimalloc", "glibc"),
    ("ruplacer", "0.10.0", "", "mimalloc", "glibc"),
    ("xsv", "0.13.0", "", "mimalloc", "glibc"),
];

/// Tries all of them, and writes the table.
pub(crate) fn run(mut workspace: Workspace, directory: &Path) -> Result<()> {
    workspace.build = Build::Debug;
    let progress = Progress::start();
    workspace.build_reheap(&progress)?;
    let place = workspace.target.join("adopt-trials");
    files::make_directory(place.join("trials"))?;
    let mut table = Table::new([
        "package",
        "`reheap adopt …`",
        "with musl",
        "with glibc",
        "after `--undo`",
    ]);
    for (name, version, options, musl, glibc) in TRIALS {
        progress.say(format!("{name} {version}"));
        let trial = Trial::begin(&workspace, &place, name, version)?;
        let adopted = trial.adopt(options.split_whitespace())?;
        let with = |target, expected| {
            if adopted {
                trial.built(target, expected)
            } else {
                Ok("refused".to_owned())
            }
        };
        table.row([
            format!("{name} {version}"),
            format!("`{options}`").replace("``", ""),
            with(MUSL, musl)?,
            with(GLIBC, glibc)?,
            trial.undone()?,
        ]);
    }
    let text = format!(
        "# reheap adopt on real projects\n\nMade by `cargo lab adopt-trials` on {}: {} packages of the Rust registry \
         that have no allocator of their own, debug builds. \"has\" means that `reheap inspect --expect` proved it of \
         every program.\n\n{}",
        today(),
        TRIALS.len(),
        table.render()
    );
    let directory = workspace.root.join(directory);
    measurement::write(&progress, &directory, &[("adopt-trials.md", text)])
}

/// A copy of a package.
struct Trial<'a> {
    workspace: &'a Workspace,
    directory: PathBuf,
    /// Cargo's home: above it, it looks for no workspace.
    home: &'a Path,
    /// Where Cargo builds all of them.
    built: PathBuf,
    before: BTreeMap<PathBuf, Vec<u8>>,
}

impl<'a> Trial<'a> {
    fn begin(workspace: &'a Workspace, place: &'a Path, name: &str, version: &str) -> Result<Self> {
        let (_, sources) = registry::fetched(place, name, version)?;
        let directory = place.join("trials").join(name);
        copy(&sources, &directory)?;
        let mut trial = Self {
            workspace,
            directory,
            home: place,
            built: place.join("build"),
            before: BTreeMap::new(),
        };
        trial.take_original_manifest(&sources)?;
        // Cargo may write an older lock file in its own way.
        trial.metadata()?;
        trial.before = trial.files()?;
        Ok(trial)
    }

    /// The manifest as its author wrote it, unless it is of a workspace whose other members are not published.
    fn take_original_manifest(&self, sources: &Path) -> Result<()> {
        let manifest = self.directory.join("Cargo.toml");
        let original = self.directory.join("Cargo.toml.orig");
        if original.exists() {
            fs::rename(original, &manifest)?;
            if self.metadata().is_err() {
                fs::copy(sources.join("Cargo.toml"), &manifest)?;
            }
        }
        Ok(())
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.directory);
        command.env("CARGO_TARGET_DIR", &self.built);
        command.env("CARGO_HOME", self.home);
        command
    }

    fn reheap(&self) -> Command {
        self.command(self.workspace.reheap().get_program())
    }

    fn adopt<'b>(&self, options: impl Iterator<Item = &'b str>) -> Result<bool> {
        let output = self.reheap().arg("adopt").args(options).output()?;
        Ok(output.status.success())
    }

    /// Builds for a target, and says whether all programs have the allocator.
    fn built(&self, target: &str, expected: &str) -> Result<String> {
        let mut build = self.command("cargo");
        build.args(["build", "--quiet", "--bins", "--target", target]);
        if !build.output()?.status.success() {
            return Ok("does not build".to_owned());
        }
        let mut inspect = self.reheap();
        inspect.args(["inspect", "--expect", expected]);
        for program in self.programs()? {
            inspect.arg(self.built.join(target).join("debug").join(program));
        }
        let output = inspect.output()?;
        Ok(if output.status.success() {
            format!("has {expected}")
        } else {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        })
    }

    /// What differs after `--undo`.
    fn undone(&self) -> Result<String> {
        let output = self.reheap().args(["adopt", "--undo"]).output()?;
        let after = self.files()?;
        let mut paths: Vec<&PathBuf> = self.before.keys().chain(after.keys()).collect();
        paths.sort();
        paths.dedup();
        paths.retain(|path| self.before.get(*path) != after.get(*path));
        let names: Vec<String> = paths
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        Ok(match (output.status.success(), names.is_empty()) {
            (true, true) => "every byte as before".to_owned(),
            (true, false) => format!("all as before but {}", names.join(", ")),
            (false, _) => "failed".to_owned(),
        })
    }

    fn metadata(&self) -> Result<Value> {
        let mut cargo = self.command("cargo");
        let printed = stdout_of(cargo.args(["metadata", "--format-version", "1"]))?;
        Ok(serde_json::from_str(&printed)?)
    }

    fn programs(&self) -> Result<Vec<String>> {
        let metadata = self.metadata()?;
        let root = &metadata["resolve"]["root"];
        let packages = metadata["packages"].as_array().into_iter().flatten();
        let own = packages.filter(|package| package["id"] == *root);
        let targets = own.flat_map(|package| package["targets"].as_array().into_iter().flatten());
        let programs = targets.filter(|target| target["kind"][0] == "bin");
        Ok(programs
            .filter_map(|target| target["name"].as_str().map(str::to_owned))
            .collect())
    }

    /// Its files and what is in them.
    fn files(&self) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
        let mut files = BTreeMap::new();
        let mut next = vec![self.directory.clone()];
        while let Some(directory) = next.pop() {
            for path in xtask::files::entries(&directory)? {
                if path.is_dir() {
                    next.push(path);
                } else {
                    let relative = path.strip_prefix(&self.directory)?.to_owned();
                    files.insert(relative, fs::read(&path)?);
                }
            }
        }
        Ok(files)
    }
}
