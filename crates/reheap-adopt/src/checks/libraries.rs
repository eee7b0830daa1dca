//! Whether a library chooses the allocator of the programs that use it.
//!
//! A library that is nothing but the choice is meant so: who depends on it wants the choice.

use crate::builds::Builds;
use crate::condition::{Atoms, Build, Condition};
use crate::features::{Active, Features};
use crate::finding::{Finding, Rule};
use crate::project::{Kind, Package, Target};
use crate::sources::{GlobalAllocator, Place};
use std::collections::BTreeSet;

pub(crate) fn of(package: &Package) -> Vec<Finding> {
    let libraries = package.targets.iter().filter(|target| {
        matches!(target.kind, Kind::Library { .. })
            && package.is_publishable
            && target.sources.does_more
    });
    let allocators = libraries.flat_map(|target| {
        let allocators = target.sources.allocators.iter();
        let known = allocators.filter(|allocator| !matches!(allocator.place, Place::Macro(_)));
        known.map(move |allocator| (target, allocator))
    });
    allocators
        .filter_map(|(target, allocator)| finding(package, target, allocator))
        .collect()
}

fn finding(package: &Package, target: &Target, allocator: &GlobalAllocator) -> Option<Finding> {
    let features = &package.manifest.features;
    let usual = [features.if_nobody_chooses(), Active::default()];
    let builds = Builds::of([&allocator.condition], features, &BTreeSet::new());
    let is_forced = |build: &Build<'_>, active: &Active| {
        let is_usual = usual.iter().any(|build| build.features == active.features);
        // Not for tests, nor for Miri.
        is_usual && build.others.is_empty() && allocator.condition.holds(build)
    };
    let found = builds.find(is_forced)?;
    let mut programs = package.programs();
    let program =
        programs.find(|program| program.sources.identifiers.contains(&target.identifier()));
    let shared = matches!(target.kind, Kind::Library { is_shared: true });
    Some(Finding {
        path: allocator.path.clone(),
        line: allocator.line,
        rule: Rule::AllocatorInLibrary,
        what: format!(
            "the library `{}` chooses the allocator of every program that uses it{}",
            target.name,
            found.words_of_features()
        ),
        fix: match program {
            Some(program) if !shared => {
                let path = program.root.strip_prefix(&package.directory);
                format!("move it to `{}`", path.unwrap_or(&program.root).display())
            }
            _ => match feature_by_default(&allocator.condition, features) {
                Some(name) => format!("take `\"{name}\"` from `default`"),
                // What loads a shared library is another program.
                None if shared && program.is_some() => {
                    "give it a feature that is off by default".to_owned()
                }
                None if shared => {
                    "set `crate-type = [\"cdylib\"]`, or give it a feature that is off by default"
                        .to_owned()
                }
                None => "leave it to the programs, or set `publish = false`".to_owned(),
            },
        },
    })
}

/// A feature that it needs and that is on by default.
fn feature_by_default(condition: &Condition, features: &Features) -> Option<String> {
    let mut atoms = Atoms::default();
    condition.add_atoms(&mut atoms);
    let default = features.if_nobody_chooses().features;
    atoms
        .features
        .into_iter()
        .find(|name| default.contains(name))
}
