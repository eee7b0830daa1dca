//! The tree as packages for npm, so that `npx reheap` works.
//!
//! A package for each processor has the programs and the allocators, and says which machines it is for. The package
//! `reheap` wants all of them, as optional ones, so npm downloads only the one that fits. One package with the programs
//! for all processors would be twice as large for everybody. One that downloads a program after its installation would
//! not work where scripts of packages are off, or behind a mirror.

use super::packages::{REPOSITORY, SUMMARY, pack};
use super::programs::PROGRAMS;
use super::{Dist, tree};
use anyhow::{Result, bail};
use reheap_allocators::target::Architecture;
use serde_json::{Map, Value, json};
use std::path::Path;
use xtask::files;

/// Finds the package for the processor, and becomes the program in it.
const START: &str = include_str!("npm/start.sh");

/// The name that Node has for a processor.
fn cpu(architecture: Architecture) -> Result<&'static str> {
    match architecture {
        Architecture::X86_64 => Ok("x64"),
        Architecture::Aarch64 => Ok("arm64"),
        other => bail!("there is no package for {other}: reheap does not run on it"),
    }
}

/// `reheap-linux-<cpu>-<version>.tgz`: the package `@reheap/linux-<cpu>`, under the name that `npm pack` gives it.
pub(super) fn program(dist: &Dist<'_>, architecture: Architecture, tree: &Path) -> Result<()> {
    let cpu = cpu(architecture)?;
    let contents = dist.scratch.join("npm").join(cpu);
    files::make_empty(&contents)?;
    tree::copy_directory(tree, &contents)?;
    let mut manifest = manifest(dist, &format!("@reheap/linux-{cpu}"));
    manifest["description"] = json!(format!("The programs of reheap for Linux on {cpu}"));
    manifest["os"] = json!(["linux"]);
    manifest["cpu"] = json!([cpu]);
    finish(dist, &contents, &manifest, &format!("reheap-linux-{cpu}"))
}

/// `reheap-<version>.tgz`, the same for all processors.
pub(super) fn starter(dist: &Dist<'_>) -> Result<()> {
    let contents = dist.scratch.join("npm/starter");
    files::make_empty(&contents)?;
    let mut bin = Map::new();
    for name in PROGRAMS {
        let path = contents.join("bin").join(name);
        files::write(&path, START)?;
        tree::make_executable(&path)?;
        bin.insert(name.to_owned(), json!(format!("bin/{name}")));
    }
    let mut dependencies = Map::new();
    for architecture in Architecture::WITH_PRELOADS {
        let name = format!("@reheap/linux-{}", cpu(architecture)?);
        dependencies.insert(name, json!(dist.version));
    }
    let mut manifest = manifest(dist, "reheap");
    manifest["bin"] = bin.into();
    manifest["optionalDependencies"] = dependencies.into();
    finish(dist, &contents, &manifest, "reheap")
}

fn manifest(dist: &Dist<'_>, name: &str) -> Value {
    json!({
        "name": name,
        "version": dist.version,
        "description": SUMMARY,
        "license": "MIT OR Apache-2.0",
        "homepage": REPOSITORY,
        "repository": { "type": "git", "url": format!("git+{REPOSITORY}.git") },
        "keywords": ["allocator", "malloc", "mimalloc", "jemalloc", "benchmark"],
    })
}

fn finish(dist: &Dist<'_>, contents: &Path, manifest: &Value, name: &str) -> Result<()> {
    files::write(contents.join("package.json"), files::json(manifest)?)?;
    for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
        files::copy(&dist.workspace.root.join(name), &contents.join(name))?;
    }
    let page = dist.workspace.root.join("crates/reheap/README.md");
    files::copy(&page, &contents.join("README.md"))?;
    tree::set_attributes(contents, dist.time()?)?;
    pack(
        dist,
        contents,
        "package",
        &format!("{name}-{}.tgz", dist.version),
    )
}
