//! Whether the packages of an allocator need a newer Rust than a project promises with `rust-version`.
//!
//! `cargo check` cannot tell: it runs with the Rust that is installed. With the resolver of edition 2024 Cargo prefers
//! older versions of what the allocator depends on, but takes new ones if nothing else fits.

use super::packages::Packaged;
use crate::project::{self, Project};
use cargo_metadata::{Metadata, PackageId};
use std::collections::BTreeSet;
use std::process::Command;

/// One sentence for each package that needs a newer Rust than one of these members promises.
pub fn of(
    cargo: &Command,
    project: &Project,
    members: &[String],
    packaged: &Packaged,
) -> Vec<String> {
    let mut command = project::metadata(cargo);
    command
        .manifest_path(project.root.join("Cargo.toml"))
        .other_options(["--offline".to_owned()]);
    // Where it cannot be known, nothing is said: the edit itself was checked.
    let Ok(metadata) = command.exec() else {
        return Vec::new();
    };
    let chosen = metadata
        .workspace_packages()
        .into_iter()
        .filter(|package| members.iter().any(|name| package.name == name));
    let promises = chosen
        .filter_map(|package| Some((package.rust_version.clone()?, package.name.to_string())));
    let Some((promised, member)) = promises.min() else {
        return Vec::new();
    };
    let needed = needed_by(&metadata, packaged.package);
    let needed = metadata
        .packages
        .iter()
        .filter(|package| needed.contains(&package.id));
    let sentences = needed.filter_map(|package| {
        let version = package.rust_version.as_ref().filter(|version| **version > promised)?;
        Some(format!(
            "{} {} needs Rust {version}, and `{member}` promises to build with {promised} (`rust-version`)",
            package.name, package.version
        ))
    });
    sentences.collect()
}

/// A package and all that it depends on.
fn needed_by(metadata: &Metadata, package: &str) -> BTreeSet<PackageId> {
    let by_name = metadata.packages.iter().filter(|one| one.name == package);
    let mut next: Vec<PackageId> = by_name.map(|one| one.id.clone()).collect();
    let nodes: Vec<_> = metadata
        .resolve
        .iter()
        .flat_map(|resolve| &resolve.nodes)
        .collect();
    let mut seen = BTreeSet::new();
    while let Some(id) = next.pop() {
        if seen.insert(id.clone())
            && let Some(node) = nodes.iter().find(|node| node.id == id)
        {
            next.extend(node.dependencies.iter().cloned());
        }
    }
    seen
}
