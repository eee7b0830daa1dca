//! What Cargo knows about a project's packages: what they say about themselves, and what they are made of.

use super::flags::Flags;
use anyhow::Context as _;
use reheap_command::env_vars;
use reheap_command::ui::Failure;
use reheap_image::sbom::Package;
use serde::Deserialize;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::process::Command;

/// What `cargo metadata` prints (Cargo book, "cargo metadata").
#[derive(Debug, Deserialize)]
pub(super) struct Metadata {
    packages: Vec<Described>,
    resolve: Resolve,
}

#[derive(Debug, Deserialize)]
struct Described {
    id: String,
    name: String,
    version: String,
    source: Option<String>,
    description: Option<String>,
    license: Option<String>,
    repository: Option<String>,
    homepage: Option<String>,
    documentation: Option<String>,
    authors: Vec<String>,
    default_run: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Debug, Deserialize)]
struct Kind {
    /// `build` or `dev`; `None` for what is compiled into the package.
    kind: Option<String>,
}

impl Metadata {
    /// Asks Cargo, with the flags of a build for a target.
    pub(super) fn read(flags: &Flags, triple: &str) -> anyhow::Result<Self> {
        let printed = command(flags, triple).output();
        let output = printed.context("cannot start Cargo")?;
        if !output.status.success() {
            let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            let text = format!("cannot ask Cargo for the project's packages: {reason}");
            return Err(Failure::failed(text).into());
        }
        serde_json::from_slice(&output.stdout).context("cannot read what `cargo metadata` printed")
    }

    fn package(&self, id: &str) -> Option<&Described> {
        self.packages.iter().find(|package| package.id == id)
    }

    /// Whether `cargo run` would start this one of a package's programs.
    pub(super) fn is_main_program(&self, package: &str, program: &str) -> bool {
        let package = self.package(package);
        package.is_some_and(|package| match &package.default_run {
            Some(name) => name == program,
            None => package.name == program,
        })
    }

    /// What a package says about itself, in the words of the OCI image specification.
    pub(super) fn labels_of(&self, package: &str) -> Vec<(String, String)> {
        let Some(package) = self.package(package) else {
            return Vec::new();
        };
        let authors = (!package.authors.is_empty()).then(|| package.authors.join(", "));
        let labels = [
            ("version", Some(&package.version)),
            ("description", package.description.as_ref()),
            ("licenses", package.license.as_ref()),
            ("source", package.repository.as_ref()),
            ("url", package.homepage.as_ref()),
            ("documentation", package.documentation.as_ref()),
            ("authors", authors.as_ref()),
        ];
        let labels = labels.into_iter().filter_map(|(name, value)| {
            let value = value?.trim().to_owned();
            Some((format!("org.opencontainers.image.{name}"), value))
        });
        labels.collect()
    }

    /// A package and all that is compiled into its programs. Procedural macros are among them, because Cargo does not
    /// say which packages are.
    pub(super) fn packages_of(&self, package: &str) -> BTreeSet<Package> {
        let nodes = self.resolve.nodes.iter();
        let nodes: HashMap<&str, &Node> = nodes.map(|node| (node.id.as_str(), node)).collect();
        let mut seen = HashSet::new();
        let mut next = vec![package];
        while let Some(id) = next.pop() {
            if !seen.insert(id) {
                continue;
            }
            let needed = nodes.get(id).into_iter().flat_map(|node| &node.deps);
            let compiled_in = |dependency: &&Dependency| {
                dependency.dep_kinds.iter().any(|kind| kind.kind.is_none())
            };
            next.extend(
                needed
                    .filter(compiled_in)
                    .map(|dependency| dependency.pkg.as_str()),
            );
        }
        let packages = seen.into_iter().filter_map(|id| self.package(id));
        let listed = packages.map(|package| Package {
            name: package.name.clone(),
            version: package.version.clone(),
            is_from_crates_io: package.source.as_deref().is_some_and(is_crates_io),
        });
        listed.collect()
    }
}

fn command(flags: &Flags, triple: &str) -> Command {
    let mut metadata = env_vars::cargo();
    metadata.args(["metadata", "--format-version", "1"]);
    metadata.args(["--filter-platform", triple]);
    for flag in ["--manifest-path", "--config", "--lockfile-path"] {
        let values = flags.values(flag);
        metadata.args(values.iter().map(|value| format!("{flag}={value}")));
    }
    for flag in ["--features", "-F"] {
        let values = flags.values(flag);
        metadata.args(values.iter().map(|value| format!("--features={value}")));
    }
    for flag in [
        "--all-features",
        "--no-default-features",
        "--offline",
        "--locked",
        "--frozen",
    ] {
        metadata.args(flags.has(&[flag]).then_some(flag));
    }
    metadata
}

/// Whether a source is crates.io, which has two addresses, whatever mirror packages are fetched from.
fn is_crates_io(source: &str) -> bool {
    source == "registry+https://github.com/rust-lang/crates.io-index"
        || source == "sparse+https://index.crates.io/"
}
