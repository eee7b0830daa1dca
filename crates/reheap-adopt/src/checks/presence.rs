//! Allocators that are there for nothing: dependencies that no code mentions, and code that no build has.

use crate::builds::Builds;
use crate::condition::{Atoms, Condition};
use crate::crates;
use crate::features::Features;
use crate::files::{self, Role};
use crate::finding::{Finding, Rule};
use crate::manifest::{Dependency, Kind};
use crate::project::{Package, Project, Target};
use crate::sources::{GlobalAllocator, Place, Sources};
use std::collections::BTreeSet;
use std::path::PathBuf;

pub(crate) fn of(project: &Project, files: &[PathBuf]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &project.packages {
        for dependency in &package.manifest.dependencies {
            let is_known = crates::find(&dependency.package).is_some();
            if is_known && dependency.kind != Kind::Build {
                if !is_mentioned(project, package, dependency) {
                    findings.push(unused(package, dependency))
                } else {
                    findings.extend(never_built(project, package, dependency, files))
                }
            }
        }
        for target in package.targets.iter().filter(|target| target.chooses()) {
            let allocators = target.sources.allocators.iter();
            findings.extend(
                allocators.filter_map(|allocator| never_compiled(package, target, allocator)),
            );
        }
    }
    findings
}

/// Whether any code of a package mentions a dependency. Files that no module names may still be included somewhere.
fn is_mentioned(project: &Project, package: &Package, dependency: &Dependency) -> bool {
    let name = dependency.identifier();
    let mut targets = package.targets.iter();
    let may = |target: &Target| {
        let names = &target.sources.identifiers;
        // What is included may be made by the build script.
        names.contains(&name) || names.contains("include") || !target.sources.unread.is_empty()
    };
    if targets.any(may) {
        return true;
    }
    let files = project.repository().below(&package.directory);
    let mut rust = files
        .iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    rust.any(|path| {
        Sources::identifiers_of(&package.directory.join(path))
            .is_ok_and(|names| names.contains(&name))
    })
}

fn unused(package: &Package, dependency: &Dependency) -> Finding {
    let mut command = format!("cargo remove {}", dependency.key);
    if dependency.kind == Kind::Development {
        command += " --dev";
    }
    if let Some(target) = &dependency.target {
        command += &format!(" --target '{target}'");
    }
    Finding {
        path: package.manifest.text.path.clone(),
        line: dependency.line,
        rule: Rule::UnusedDependency,
        what: format!(
            "`{}` is a dependency, but no code mentions it",
            dependency.key
        ),
        fix: format!("`{command} -p {}`", package.name),
    }
}

/// An optional dependency that is off by default, in a project whose build files name none of the features that turn it
/// on. Where there are no such files, nobody can tell.
fn never_built(
    project: &Project,
    package: &Package,
    dependency: &Dependency,
    files: &[PathBuf],
) -> Option<Finding> {
    let features = &package.manifest.features;
    let is_by_default = features
        .if_nobody_chooses()
        .dependencies
        .contains(&dependency.key);
    let has_programs = package.programs().next().is_some();
    if !dependency.is_optional || is_by_default || !has_programs {
        return None;
    }
    let names = features.enabling(&dependency.key);
    let is_built = |text: &str| {
        let mut names = names.iter();
        text.contains("all-features") || names.any(|name| files::has_word(text, name))
    };
    let mut texts = files
        .iter()
        .filter_map(|path| Some((files::role(path)?, files::text(&project.root.join(path))?)));
    let mut has_builds = false;
    let is_named = texts.any(|(role, text)| {
        has_builds |= role == Role::Builds;
        is_built(&text.contents)
    });
    let others = project
        .packages
        .iter()
        .filter(|other| other.name != package.name);
    let is_named = is_named
        || others
            .map(|package| &package.manifest.text.contents)
            .any(|text| is_built(text));
    (has_builds && !is_named).then(|| Finding {
        path: package.manifest.text.path.clone(),
        line: dependency.line,
        rule: Rule::NeverEnabled,
        what: format!(
            "`{}` is off by default, and no workflow, script or page turns on `{}`",
            dependency.key,
            names.first().unwrap_or(&dependency.key.as_str())
        ),
        fix: match names.first() {
            Some(name) => {
                format!("add `\"{name}\"` to `default`, or a build with `--features {name}`")
            }
            None => format!("take `optional` from `{}`", dependency.key),
        },
    })
}

/// A global allocator that no build has.
fn never_compiled(
    package: &Package,
    target: &Target,
    allocator: &GlobalAllocator,
) -> Option<Finding> {
    if matches!(allocator.place, Place::Macro(_)) {
        return None;
    }
    let features = &package.manifest.features;
    let required: Vec<Condition> = target
        .required_features
        .iter()
        .cloned()
        .map(Condition::Feature)
        .collect();
    let conditions = required.iter().chain([&allocator.condition]);
    let keys = package
        .manifest
        .dependencies
        .iter()
        .map(|dependency| dependency.key.clone());
    let builds = Builds::of(conditions, features, &keys.collect());
    let is_compiled = builds.any(|build, _| {
        let mut required = required.iter();
        required.all(|condition| condition.holds(build)) && allocator.condition.holds(build)
    });
    if is_compiled {
        return None;
    }
    let unknown = unknown_features(&allocator.condition, features);
    Some(Finding {
        path: allocator.path.clone(),
        line: allocator.line,
        rule: Rule::NeverEnabled,
        what: match unknown.first() {
            Some(name) => format!("no build has this allocator: there is no feature `{name}`"),
            None => "no build has this allocator: its condition never holds".to_owned(),
        },
        fix: match unknown.first() {
            Some(name) => {
                let brought = package
                    .brought(allocator)
                    .filter(|(_, dependency)| dependency.is_optional);
                let value = brought.map(|(_, dependency)| format!("\"dep:{}\"", dependency.key));
                format!(
                    "add `{name} = [{}]` to [features]",
                    value.unwrap_or_default()
                )
            }
            None => "remove it, or correct its `cfg`".to_owned(),
        },
    })
}

/// The features in a condition that the package does not have.
fn unknown_features(condition: &Condition, features: &Features) -> Vec<String> {
    let mut atoms = Atoms::default();
    condition.add_atoms(&mut atoms);
    let known: BTreeSet<&str> = features.names().collect();
    let asked = atoms.features.into_iter();
    asked
        .filter(|name| !known.contains(name.as_str()))
        .collect()
}
