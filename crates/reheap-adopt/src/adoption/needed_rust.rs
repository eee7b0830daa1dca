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
    let promised = metadata.workspace_packages().into_iter();
    let promised = promised.filter(|it| members.iter().any(|name| it.name.as_str() == name));
    let promised = promised.filter_map(|it| Some((it.rust_version.clone()?, it.name.to_string())));
    let Some((promised, member)) = promised.min() else {
        return Vec::new();
    };
    let needed = needed_by(&metadata, packaged.package);
    let needed = metadata
        .packages
        .iter()
        .filter(|it| needed.contains(&it.id));
    let sentences = needed.filter_map(|it| {
        let version = it.rust_version.as_ref().filter(|it| **it > promised)?;
        Some(format!(
            "{} {} needs Rust {version}, and `{member}` promises to build with {promised} (`rust-version`)",
            it.name, it.version
        ))
    });
    sentences.collect()
}

/// A package and all that it depends on.
fn needed_by(metadata: &Metadata, package: &str) -> BTreeSet<PackageId> {
    let first = metadata.packages.iter();
    let first = first.filter(|it| it.name.as_str() == package);
    let mut next: Vec<PackageId> = first.map(|it| it.id.clone()).collect();
    let nodes = metadata.resolve.iter().flat_map(|it| &it.nodes);
    let nodes: Vec<_> = nodes.collect();
    let mut seen = BTreeSet::new();
    while let Some(id) = next.pop() {
        if seen.insert(id.clone()) {
            let node = nodes.iter().find(|it| it.id == id);
            next.extend(node.into_iter().flat_map(|it| it.dependencies.clone()));
        }
    }
    seen
}
