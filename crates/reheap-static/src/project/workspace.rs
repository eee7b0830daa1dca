//! What a project's manifests choose for its packages, and which of these a command can mean.
//!
//! Only Cargo knows exactly what `-p` and its default members select. What is decided here is a first guess that may
//! include too much: it says for which packages an allocator is at hand when they are linked. Afterwards Cargo names
//! the package of everything that it made, and what was linked by another choice is linked again.

use super::flags::Flags;
use super::project_choice::{OF_PACKAGE, OF_WORKSPACE, ProjectChoice};
use anyhow::Context as _;
use reheap_command::choice::{StaticChoice, Table, Wishes};
use reheap_command::ui::Failure;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The packages of a project, and the manifest of the workspace that they are in.
pub(super) struct Workspace {
    /// The manifest at its root, and where its choice is.
    root: PathBuf,
    table: Table,
    choice: ProjectChoice,
    members: Vec<Member>,
    /// The manifest that Cargo finds from the directory of the command.
    found: PathBuf,
    default_members: Option<Vec<String>>,
}

/// A package of the workspace.
pub(super) struct Member {
    id: String,
    name: String,
    /// The directory of its manifest.
    directory: PathBuf,
    table: Table,
    choice: ProjectChoice,
}

/// What `cargo metadata` prints, as far as it counts here.
#[derive(Deserialize)]
struct CargoMetadata {
    packages: Vec<DescribedPackage>,
    /// Cargo before 1.71 does not tell.
    #[serde(default)]
    workspace_default_members: Option<Vec<String>>,
    workspace_root: PathBuf,
    metadata: serde_json::Value,
}

#[derive(Deserialize)]
struct DescribedPackage {
    id: String,
    name: String,
    manifest_path: PathBuf,
    metadata: serde_json::Value,
}

/// Something for each package that is linked.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ByPackage<T> {
    /// What packages have, by the directory of the package's manifest.
    packages: Vec<(PathBuf, T)>,
    /// What all other packages have.
    others: T,
}

impl<T> ByPackage<T> {
    pub(super) fn same_for_all(value: T) -> Self {
        Self {
            packages: Vec::new(),
            others: value,
        }
    }

    /// What a package has, if it is one of those that were thought of.
    pub(super) fn of(&self, directory: &Path) -> Option<&T> {
        let found = self.packages.iter().find(|(of, _)| of == directory);
        found.map(|(_, value)| value)
    }

    pub(super) fn of_any(&self, directory: Option<&Path>) -> &T {
        let found = directory.and_then(|directory| self.of(directory));
        found.unwrap_or(&self.others)
    }

    pub(super) fn others(&self) -> &T {
        &self.others
    }

    pub(super) fn try_map<U>(
        &self,
        mut make: impl FnMut(&T) -> anyhow::Result<U>,
    ) -> anyhow::Result<ByPackage<U>> {
        let packages = self.packages.iter();
        let packages = packages.map(|(directory, value)| Ok((directory.clone(), make(value)?)));
        Ok(ByPackage {
            packages: packages.collect::<anyhow::Result<_>>()?,
            others: make(&self.others)?,
        })
    }
}

impl<T: PartialEq> ByPackage<T> {
    /// Leaves out packages that have what the others have, so that it is short in an environment variable.
    pub(super) fn shortened(mut self) -> Self {
        self.packages.retain(|(_, value)| *value != self.others);
        self
    }
}

impl Workspace {
    /// Asks Cargo about the project of the manifest that it found.
    pub(super) fn read(mut metadata: Command, found: &Path) -> anyhow::Result<Self> {
        metadata.args(["--no-deps", "--offline"]);
        let output = metadata.output().context("cannot start Cargo")?;
        if !output.status.success() {
            let reason = String::from_utf8_lossy(&output.stderr);
            let reason = reason.trim().trim_start_matches("error: ");
            let text = format!("cannot build a Cargo project here: {reason}");
            return Err(Failure::failed(text).into());
        }
        let described: CargoMetadata = serde_json::from_slice(&output.stdout)
            .context("cannot read what `cargo metadata` printed")?;
        let manifest = described.workspace_root.join("Cargo.toml");
        let table = table(&manifest, OF_WORKSPACE)?;
        let members = described.packages.into_iter().map(Member::of);
        Ok(Self {
            choice: ProjectChoice::read(&described.metadata, &table)?,
            table,
            root: manifest,
            members: members.collect::<anyhow::Result<_>>()?,
            found: found.to_owned(),
            default_members: described.workspace_default_members,
        })
    }

    /// The choice for each package that a command can mean, where `asked` wins over all manifests.
    pub(super) fn choices(
        &self,
        asked: &[Wishes],
        flags: &Flags,
    ) -> anyhow::Result<ByPackage<StaticChoice>> {
        let meant = self.meant_by(flags);
        let packages = meant.iter().map(|member| {
            let directory = member.directory.clone();
            Ok((directory, self.choice_of(&member.directory, asked)?))
        });
        let packages: Vec<(PathBuf, StaticChoice)> = packages.collect::<anyhow::Result<_>>()?;
        let others = match packages.first() {
            // An allocator that no package wants is not built for nothing.
            Some((_, choice)) if !self.means_others(flags) => choice.clone(),
            _ => self.choice_of(Path::new(""), asked)?,
        };
        Ok(ByPackage { packages, others })
    }

    /// The choice for the package in a directory: its own, else the workspace's.
    pub(super) fn choice_of(
        &self,
        directory: &Path,
        asked: &[Wishes],
    ) -> anyhow::Result<StaticChoice> {
        let member = self.members.iter().find(|m| m.directory == directory);
        let own = member.map(|member| member.choice.wishes(member.table.clone()));
        let mut places = asked.to_vec();
        places.extend(own);
        places.push(self.choice.wishes(self.table.clone()));
        StaticChoice::of(&places)
    }

    /// The targets of the packages that a command can mean: the one to build for first.
    pub(super) fn targets(&self, flags: &Flags) -> anyhow::Result<Vec<String>> {
        let chosen = |member: &'_ Member| match &member.choice.targets {
            Some(_) => member.choice.clone(),
            None => self.choice.clone(),
        };
        let mut first: Option<(&Member, ProjectChoice)> = None;
        for member in self.meant_by(flags) {
            let choice = chosen(member);
            match &first {
                None => first = Some((member, choice)),
                Some((other, others)) if others.target() != choice.target() => {
                    return Err(differ(other, others, member, &choice).into());
                }
                Some(_) => {}
            }
        }
        let choice = first.map_or(self.choice.clone(), |(_, choice)| choice);
        let target = choice.target().map(str::to_owned);
        let mut targets = choice.targets.unwrap_or_default();
        targets.sort_by_key(|triple| Some(triple) != target.as_ref());
        Ok(targets)
    }

    /// The members that Cargo can select for these flags.
    fn meant_by(&self, flags: &Flags) -> Vec<&Member> {
        let named = named_packages(flags);
        let excluded = flags.values("--exclude");
        let is_current = |member: &&Member| {
            let manifest = member.directory.join("Cargo.toml");
            manifest == self.found
        };
        let current = self.members.iter().find(is_current);
        let is_root = self.found == self.root;
        let members = self.members.iter();
        members
            .filter(|member| match () {
                () if !named.is_empty() => named.iter().any(|spec| can_mean(spec, &member.name)),
                () if flags.has(&["--workspace", "--all"]) => !excluded.contains(&member.name),
                () if is_root || current.is_none() => {
                    let defaults = self.default_members.as_ref();
                    defaults.is_none_or(|members| members.contains(&member.id))
                }
                () => current.is_some_and(|current| current.id == member.id),
            })
            .collect()
    }

    /// Whether Cargo can select the package in a directory for these flags.
    pub(super) fn means(&self, directory: &Path, flags: &Flags) -> bool {
        let mut meant = self.meant_by(flags).into_iter();
        meant.any(|member| member.directory == directory)
    }

    /// Whether a package outside of the workspace is named.
    fn means_others(&self, flags: &Flags) -> bool {
        let is_member = |spec: &String| self.members.iter().any(|m| can_mean(spec, &m.name));
        !named_packages(flags).iter().all(is_member)
    }
}

impl Member {
    fn of(described: DescribedPackage) -> anyhow::Result<Self> {
        let table = table(&described.manifest_path, OF_PACKAGE)?;
        let directory = described.manifest_path.parent().unwrap_or(Path::new("/"));
        Ok(Self {
            directory: directory.to_owned(),
            choice: ProjectChoice::read(&described.metadata, &table)?,
            id: described.id,
            name: described.name,
            table,
        })
    }
}

/// A table of a manifest, which is shown as a user in this directory would write it.
fn table(manifest: &Path, name: &'static str) -> anyhow::Result<Table> {
    let directory = std::env::current_dir().context("cannot find the current directory")?;
    let shown = manifest.strip_prefix(&directory).unwrap_or(manifest);
    Ok(Table {
        manifest: shown.to_owned(),
        name,
    })
}

fn named_packages(flags: &Flags) -> Vec<String> {
    [flags.values("-p"), flags.values("--package")].concat()
}

/// Whether a package ID specification may be one of a package of that name (Cargo book, "Package ID Specifications").
/// Patterns and addresses without a name may be one of any.
fn can_mean(spec: &str, name: &str) -> bool {
    let is_pattern = spec.contains(['*', '?', '[']);
    let (address, fragment) = spec.split_once('#').unwrap_or(("", spec));
    let of_fragment = fragment.split(['@', ':']).next().unwrap_or_default();
    let is_version = of_fragment.starts_with(|c: char| c.is_ascii_digit());
    let is_address = spec.contains('/') && (address.is_empty() || is_version);
    is_pattern || is_address || of_fragment == name
}

fn differ(
    one: &Member,
    of_one: &ProjectChoice,
    other: &Member,
    of_other: &ProjectChoice,
) -> Failure {
    let shown = |member: &Member, choice: &ProjectChoice| {
        let target = choice.target().unwrap_or("this machine");
        format!("`{}` is for {target}", member.name)
    };
    let (one_shown, other_shown) = (shown(one, of_one), shown(other, of_other));
    let text = format!("cannot build for two targets at once: {one_shown}, and {other_shown}");
    let hint = format!(
        "build one of them with -p {}, or choose with --target",
        one.name
    );
    Failure::usage(text).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_specification_means_the_packages_that_cargo_may_find_for_it() {
        for spec in [
            "app",
            "app@1.0.0",
            "app:1.0.0",
            "path+file:///p/app#app@1.0.0",
            "file:///p#app",
            "file:///p/app#0.1.0",
            "file:///p/app",
            "a*",
        ] {
            assert!(can_mean(spec, "app"), "{spec}");
        }
        for spec in ["other", "app2@1.0.0", "file:///p/app#other@1.0.0"] {
            assert!(!can_mean(spec, "app"), "{spec}");
        }
    }
}
