//! The licences of everything that is in a package: of reheap, of the crates in its programs, and of the allocators.

use super::Dist;
use anyhow::{Context as _, Result, ensure};
use cargo_metadata::{
    CargoOpt, DependencyKind, Metadata, MetadataCommand, Node, Package, PackageId,
};
use reheap_allocators::catalogue::CATALOGUE;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use xtask::files;

/// What goes beside the documentation.
pub(super) struct Notices {
    third_parties: String,
}

/// What is in the programs or libraries, and has no licence file in a package of Cargo.
const WITHOUT_FILES: &str = "\
The Rust standard library: MIT OR Apache-2.0, Copyright (c) The Rust Project Contributors
musl libc: MIT, Copyright (c) 2005-2020 Rich Felker, et al.
compiler-rt of LLVM: Apache-2.0 WITH LLVM-exception
snmalloc: MIT, Copyright (c) Microsoft Corporation
The texts of these licences are in LICENSE-MIT and LICENSE-APACHE.
";

/// How the names of such files begin.
const LICENCE_FILES: [&str; 6] = [
    "LICENSE",
    "LICENCE",
    "COPYING",
    "COPYRIGHT",
    "NOTICE",
    "UNLICENSE",
];

/// Reads the licences from the sources that Cargo has.
pub(super) fn collect(dist: &Dist<'_>, sources_of_allocators: &Path) -> Result<Notices> {
    let mut text = format!("Licences of what is in this package.\n\n{WITHOUT_FILES}");
    let of_programs = metadata(&dist.workspace.root)?;
    let used = used_by(&of_programs, "reheap");
    for package in &of_programs.packages {
        if used.contains(&package.id) {
            push(&mut text, package)?;
        }
    }
    let of_allocators = metadata(sources_of_allocators)?;
    let packages = CATALOGUE.iter().filter_map(|allocator| allocator.package());
    let names: BTreeSet<&str> = packages.map(|package| package.name).collect();
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
            files::copy(&dist.workspace.root.join(name), &directory.join(name))?;
        }
        files::write(
            directory.join("LICENSES-THIRD-PARTY.txt"),
            &self.third_parties,
        )
    }
}

fn metadata(project: &Path) -> Result<Metadata> {
    let flags = ["--locked", "--filter-platform", "x86_64-unknown-linux-musl"];
    MetadataCommand::new()
        .current_dir(project)
        .features(CargoOpt::AllFeatures)
        .other_options(flags.map(str::to_owned).to_vec())
        .exec()
        .with_context(|| format!("cannot read the packages of `{}`", project.display()))
}

/// The packages that get into the programs of a package: no tools of builds and tests.
fn used_by(metadata: &Metadata, name: &str) -> BTreeSet<PackageId> {
    let nodes = metadata.resolve.iter().flat_map(|resolve| &resolve.nodes);
    let nodes: BTreeMap<&PackageId, &Node> = nodes.map(|node| (&node.id, node)).collect();
    let first = metadata
        .packages
        .iter()
        .find(|package| package.name == name);
    let mut open: Vec<&PackageId> = first.iter().map(|package| &package.id).collect();
    let mut used = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !used.insert(id.clone()) {
            continue;
        }
        let dependencies = nodes.get(id).into_iter().flat_map(|node| &node.deps);
        open.extend(dependencies.filter_map(|dependency| {
            let mut kinds = dependency.dep_kinds.iter();
            let is_normal = kinds.any(|kind| kind.kind == DependencyKind::Normal);
            is_normal.then_some(&dependency.pkg)
        }));
    }
    used
}

/// Appends the licence files of a package of others, and says whether it has any.
fn push(text: &mut String, package: &Package) -> Result<bool> {
    if package.source.is_none() {
        return Ok(true);
    }
    let directory = package
        .manifest_path
        .as_std_path()
        .parent()
        .unwrap_or(Path::new("/"));
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
        let bytes = files::read_bytes(file)?;
        text.push_str(&format!(
            "\n-- {shown}\n\n{}\n",
            String::from_utf8_lossy(&bytes).trim_end()
        ));
    }
    Ok(!files.is_empty())
}

fn find_licences(directory: &Path, depth: u32, found: &mut Vec<PathBuf>) -> Result<()> {
    for path in files::entries(directory)? {
        let last = path.file_name().unwrap_or_default();
        let name = last.to_string_lossy().to_uppercase();
        let is_licence = LICENCE_FILES.iter().any(|word| name.starts_with(word));
        if path.is_file() && is_licence {
            found.push(path);
        } else if path.is_dir() && depth > 0 {
            find_licences(&path, depth - 1, found)?;
        }
    }
    Ok(())
}
