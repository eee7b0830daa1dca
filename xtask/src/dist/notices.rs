//! The licences of everything that is in a package: of reheap, of the crates in its programs, and of the allocators.

use super::{Dist, write};
use anyhow::{Context as _, Result, ensure};
use reheap_allocators::catalogue::CATALOGUE;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// What goes beside the documentation.
pub(super) struct Notices {
    third_parties: String,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    manifest_path: PathBuf,
    source: Option<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

#[derive(Deserialize)]
struct DependencyKind {
    kind: Option<String>,
}

/// What is in the programs or libraries, and has no licence file in a package of Cargo.
const WITHOUT_FILES: &str = "\
The Rust standard library: MIT OR Apache-2.0, Copyright (c) The Rust Project Contributors
musl libc: MIT, Copyright (c) 2005-2020 Rich Felker, et al.
compiler-rt of LLVM: Apache-2.0 WITH LLVM-exception
snmalloc: MIT, Copyright (c) Microsoft Corporation
The texts of these licences are in LICENSE-MIT and LICENSE-APACHE.
";

/// Reads the licences from the sources that Cargo has.
pub(super) fn collect(dist: &Dist<'_>, sources_of_allocators: &Path) -> Result<Notices> {
    let mut text = format!("Licences of what is in this package.\n\n{WITHOUT_FILES}");
    let of_programs = metadata(dist, &dist.workspace.root)?;
    let used = used_by(&of_programs, "reheap");
    for package in of_programs.packages.iter().filter(|p| used.contains(&p.id)) {
        push(&mut text, package)?;
    }
    let of_allocators = metadata(dist, sources_of_allocators)?;
    let recipes = CATALOGUE
        .iter()
        .filter_map(|allocator| allocator.build.as_ref());
    let names: BTreeSet<&str> = recipes.map(|recipe| recipe.package.name).collect();
    for package in &of_allocators.packages {
        if names.contains(package.name.as_str()) {
            let name = package.name.trim_end_matches("-sys");
            let is_known = push(&mut text, package)? || WITHOUT_FILES.contains(name);
            ensure!(is_known, "`{}` has no licence file", package.name);
        }
    }
    Ok(Notices {
        third_parties: text,
    })
}

impl Notices {
    pub(super) fn write(&self, dist: &Dist<'_>, directory: &Path) -> Result<()> {
        for name in ["LICENSE-MIT", "LICENSE-APACHE", "CHANGELOG.md", "README.md"] {
            let path = dist.workspace.root.join(name);
            let bytes =
                fs::read(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
            write(&directory.join(name), bytes)?;
        }
        write(
            &directory.join("LICENSES-THIRD-PARTY.txt"),
            &self.third_parties,
        )
    }
}

fn metadata(dist: &Dist<'_>, project: &Path) -> Result<Metadata> {
    let mut cargo = dist.workspace.cargo();
    cargo
        .current_dir(project)
        .args(["metadata", "--locked", "--format-version", "1"]);
    cargo.args([
        "--all-features",
        "--filter-platform",
        "x86_64-unknown-linux-musl",
    ]);
    let text = super::output_of(&mut cargo)?;
    serde_json::from_str(&text).context("cannot understand the output of cargo metadata")
}

/// The packages that get into the programs of a package: no tools of builds and tests.
fn used_by(metadata: &Metadata, name: &str) -> BTreeSet<String> {
    let nodes: BTreeMap<&str, &Node> = metadata
        .resolve
        .nodes
        .iter()
        .map(|node| (node.id.as_str(), node))
        .collect();
    let first = metadata.packages.iter().find(|p| p.name == name);
    let mut open: Vec<&str> = first.iter().map(|package| package.id.as_str()).collect();
    let mut used = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !used.insert(id.to_owned()) {
            continue;
        }
        let dependencies = nodes.get(id).into_iter().flat_map(|node| &node.deps);
        let normal = dependencies.filter(|d| d.dep_kinds.iter().any(|kind| kind.kind.is_none()));
        open.extend(normal.map(|dependency| dependency.pkg.as_str()));
    }
    used
}

/// Appends the licence files of a package of others, and says whether it has any.
fn push(text: &mut String, package: &Package) -> Result<bool> {
    if package.source.is_none() {
        return Ok(true);
    }
    let directory = package.manifest_path.parent().unwrap_or(Path::new("/"));
    let mut files = Vec::new();
    find_licences(directory, 4, &mut files)?;
    files.sort();
    let licence = package.license.as_deref().unwrap_or("see below");
    text.push_str(&format!(
        "\n{}\n{} {}: {licence}\n",
        "=".repeat(80),
        package.name,
        package.version
    ));
    for file in &files {
        let shown = file.strip_prefix(directory).unwrap_or(file).display();
        let bytes = fs::read(file).with_context(|| format!("cannot read `{}`", file.display()))?;
        text.push_str(&format!(
            "\n-- {shown}\n\n{}\n",
            String::from_utf8_lossy(&bytes).trim_end()
        ));
    }
    Ok(!files.is_empty())
}

fn find_licences(directory: &Path, depth: u32, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .to_uppercase();
        let is_licence = [
            "LICENSE",
            "LICENCE",
            "COPYING",
            "COPYRIGHT",
            "NOTICE",
            "UNLICENSE",
        ]
        .iter()
        .any(|word| name.starts_with(word));
        if path.is_file() && is_licence {
            found.push(path);
        } else if path.is_dir() && depth > 0 {
            find_licences(&path, depth - 1, found)?;
        }
    }
    Ok(())
}
