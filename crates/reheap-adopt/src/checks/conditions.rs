//! Whether a dependency on an allocator and the code that uses it are there on the same targets, with the same features.

use crate::condition::{Condition, World};
use crate::crates::{self, AllocatorCrate};
use crate::features::Active;
use crate::findings::{Finding, Rule};
use crate::manifest::{Dependency, Kind};
use crate::project::{Kind as TargetKind, Package, Target};
use crate::sources::{GlobalAllocator, Place};
use crate::worlds::{Found, Worlds};
use std::collections::BTreeSet;

/// A crate that a package depends on, and the code that uses it as the global allocator.
struct Pair<'a> {
    allocator: &'static AllocatorCrate,
    dependencies: Vec<&'a Dependency>,
    uses: Vec<(&'a Target, &'a GlobalAllocator)>,
}

pub(crate) fn of(package: &Package) -> Vec<Finding> {
    let pairs = crates::CRATES
        .iter()
        .filter_map(|row| Pair::of(row, package));
    pairs.filter_map(|pair| pair.finding(package)).collect()
}

impl<'a> Pair<'a> {
    fn of(allocator: &'static AllocatorCrate, package: &'a Package) -> Option<Self> {
        let dependencies: Vec<&Dependency> = package
            .manifest
            .dependencies
            .iter()
            .filter(|it| it.kind == Kind::Normal && it.package == allocator.package)
            .collect();
        let name = match dependencies.first() {
            Some(dependency) => dependency.identifier(),
            None => crates::identifier(allocator.package),
        };
        let targets = package.targets.iter().filter(|target| {
            matches!(
                target.kind,
                TargetKind::Program
                    | TargetKind::Library { .. }
                    | TargetKind::ForeignLibrary { .. }
            )
        });
        let uses: Vec<(&Target, &GlobalAllocator)> = targets
            .flat_map(|target| target.sources.allocators.iter().map(move |it| (target, it)))
            .filter(|(_, it)| it.types.iter().any(|path| path[0] == name))
            .collect();
        let is_known = !dependencies.is_empty() || !uses.is_empty();
        // What a macro compiles, nobody knows.
        let is_certain = uses
            .iter()
            .all(|(_, it)| !matches!(it.place, Place::Macro(_)));
        (is_known && is_certain).then_some(Self {
            allocator,
            dependencies,
            uses,
        })
    }

    fn finding(&self, package: &Package) -> Option<Finding> {
        let worlds = self.worlds(package);
        let missing =
            worlds.find(|world, active| self.is_used(world) && !self.is_there(world, active));
        if let Some(found) = missing {
            return Some(self.missing(&found));
        }
        if self.uses.is_empty() {
            return None;
        }
        let unused = worlds.find_whatever_else(|world, active| {
            self.is_there(world, active) && !self.is_used(world)
        });
        unused.map(|found| self.unused(package, &found))
    }

    fn worlds(&self, package: &Package) -> Worlds {
        let uses = self.uses.iter().map(|(_, it)| &it.condition);
        let dependencies = self.dependencies.iter().map(|it| &it.condition);
        let required: Vec<Condition> = self
            .uses
            .iter()
            .flat_map(|(target, _)| &target.required_features)
            .map(|name| Condition::Feature(name.clone()))
            .collect();
        let keys: BTreeSet<String> = self.dependencies.iter().map(|it| it.key.clone()).collect();
        Worlds::of(
            uses.chain(dependencies).chain(&required),
            &package.manifest.features,
            &keys,
        )
    }

    fn is_used(&self, world: &World<'_>) -> bool {
        self.uses.iter().any(|(target, it)| {
            let mut required = target.required_features.iter();
            required.all(|name| world.features.contains(name)) && it.condition.holds(world)
        })
    }

    fn is_there(&self, world: &World<'_>, active: &Active) -> bool {
        self.dependencies.iter().any(|it| {
            let is_enabled = !it.is_optional || active.dependencies.contains(&it.key);
            is_enabled && it.condition.holds(world)
        })
    }

    fn missing(&self, found: &Found) -> Finding {
        let (_, used) = self.uses[0];
        Finding {
            path: used.path.clone(),
            line: used.line,
            rule: match self.dependencies.is_empty() {
                true => Rule::MissingDependency,
                false => Rule::ConditionDiffers,
            },
            what: format!(
                "`{}` is used but no dependency {}",
                self.allocator.package,
                build(found)
            ),
            fix: String::new(),
        }
    }

    fn unused(&self, package: &Package, found: &Found) -> Finding {
        Finding {
            path: package.manifest.text.path.clone(),
            line: self.dependencies[0].line,
            rule: Rule::ConditionDiffers,
            what: format!(
                "`{}` is compiled but not used {}",
                self.allocator.package,
                build(found)
            ),
            fix: String::new(),
        }
    }
}

/// An example of a build.
fn build(found: &Found) -> String {
    let features: Vec<&str> = found.features.iter().map(String::as_str).collect();
    match features.is_empty() {
        true => format!("on {} without features", found.triple),
        false => format!(
            "on {} with the features {}",
            found.triple,
            features.join(", ")
        ),
    }
}
