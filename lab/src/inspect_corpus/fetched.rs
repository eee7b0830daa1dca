//! Getting the files: from the registries by their ordinary clients, or from our own compilers.

use super::rows::{Row, Source, Symbols};
use crate::sources::{debian_package, npm_package, run, wheel};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::files;

/// A program with threads and allocations, so that nothing of an allocator is left out.
const RUST_MAIN: &str = "fn main() {\n    let texts: Vec<_> = std::thread::spawn(|| \
    std::env::args().map(|a| a.repeat(3)).collect()).join().unwrap();\n    println!(\"{texts:?}\");\n}\n";
const C_MAIN: &str = "#include <stdio.h>\n#include <stdlib.h>\nint main(int c, char **v) {\n    \
    char *text = malloc(c * 100);\n    snprintf(text, 100, \"%s %f\", v[0], c / 3.0);\n    puts(text);\n    free(text);\n    return 0;\n}\n";

impl Row {
    /// The file, fetched or built unless it is there already.
    pub(super) fn file(&self, corpus: &Path) -> Result<PathBuf> {
        let directory = corpus.join(self.directory());
        let file = match &self.source {
            Source::Debian(_) | Source::Npm(..) | Source::PyPi(..) => directory.join(self.file),
            Source::Rust { symbols, .. } | Source::C { symbols, .. } => {
                directory.join(match symbols {
                    Symbols::Kept => "program",
                    Symbols::Stripped => "stripped",
                })
            }
        };
        if file.exists() {
            return Ok(file);
        }
        files::make_directory(&directory)?;
        match &self.source {
            Source::Debian(package) => debian_package(&directory, package)?,
            Source::Npm(package, version) => npm_package(&directory, package, version)?,
            Source::PyPi(package, version) => wheel(&directory, package, version, &[])?,
            Source::Rust {
                dependency,
                allocator,
                libc,
                ..
            } => rust(corpus, &directory, dependency, allocator, libc)?,
            Source::C { command, .. } => c(&directory, command)?,
        }
        ensure!(file.exists(), "`{}` is not in the package", self.file);
        Ok(file)
    }

    /// A name of the package that is also a path.
    pub(super) fn directory(&self) -> String {
        match &self.source {
            Source::Debian(package) => format!("debian/{package}"),
            Source::Npm(package, version) => {
                format!("npm/{}@{version}", package.replace('/', "+"))
            }
            Source::PyPi(package, version) => format!("pypi/{package}=={version}"),
            Source::Rust { name, libc, .. } => format!("built/{name}-{libc}"),
            Source::C { name, .. } => format!("built/{name}"),
        }
    }

    /// What was fetched, for the table.
    pub(super) fn origin(&self) -> String {
        match &self.source {
            Source::Debian(package) => format!("Debian {package}"),
            Source::Npm(package, version) => format!("npm {package}@{version}"),
            Source::PyPi(package, version) => format!("PyPI {package}=={version}"),
            Source::Rust {
                name,
                libc,
                symbols,
                ..
            } => format!("Rust {name}, {libc}{}", stripped(*symbols)),
            Source::C {
                command, symbols, ..
            } => format!("C, {command}{}", stripped(*symbols)),
        }
    }
}

fn stripped(symbols: Symbols) -> &'static str {
    match symbols {
        Symbols::Kept => "",
        Symbols::Stripped => ", stripped",
    }
}

fn rust(
    corpus: &Path,
    directory: &Path,
    dependency: &str,
    allocator: &str,
    libc: &str,
) -> Result<()> {
    let manifest = format!(
        "[package]\nname = \"program\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n{dependency}\n"
    );
    let main = format!("#[global_allocator]\nstatic ALLOCATOR: {allocator};\n\n{RUST_MAIN}");
    files::make_directory(directory.join("src"))?;
    files::write(directory.join("Cargo.toml"), manifest)?;
    files::write(directory.join("src/main.rs"), main)?;
    let target = format!("{}-unknown-linux-{libc}", std::env::consts::ARCH);
    let target_dir = corpus.join("built/target");
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--target", &target, "--target-dir"]);
    run(cargo.arg(&target_dir), directory)?;
    let built = target_dir.join(&target).join("release/program");
    fs::copy(built, directory.join("program")).context("cannot copy the program")?;
    run(
        Command::new("strip").args(["-o", "stripped", "program"]),
        directory,
    )
}

fn c(directory: &Path, command: &str) -> Result<()> {
    files::write(directory.join("main.c"), C_MAIN)?;
    let mut words = command.split(' ');
    let compiler = words.next().context("an empty command")?;
    run(
        Command::new(compiler)
            .args(words)
            .args(["main.c", "-o", "program"]),
        directory,
    )?;
    run(
        Command::new("strip").args(["-o", "stripped", "program"]),
        directory,
    )
}
