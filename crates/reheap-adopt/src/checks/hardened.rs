//! Whether all programs of a workspace that use the same allocator are hardened if one is, and whether an allocator
//! defines malloc beside reheap's libc, which does.

use crate::crates::{self, AllocatorCrate};
use crate::finding::{Finding, Rule};
use crate::manifest::{Dependency, Kind, Manifest};
use crate::project::{Package, Project};

/// The dependency of a package whose programs use an allocator.
struct Choice<'a> {
    package: &'a Package,
    row: &'static AllocatorCrate,
    dependency: &'a Dependency,
}

pub(crate) fn of(project: &Project) -> Vec<Finding> {
    let choices: Vec<Choice<'_>> = project.packages.iter().flat_map(choices).collect();
    let hardened: Vec<(&Choice<'_>, &str)> = choices
        .iter()
        .filter_map(|choice| Some((choice, choice.row.hardened?.0)))
        .collect();
    let mut findings = Vec::new();
    for (choice, feature) in &hardened {
        let with = hardened.iter().find(|(other, _)| {
            other.row == choice.row
                && other.package.name != choice.package.name
                && other.has(feature)
        });
        if let Some((with, _)) = with.filter(|_| !choice.has(feature)) {
            findings.push(Finding {
                path: choice.package.manifest.text.path.clone(),
                line: choice.dependency.line,
                rule: Rule::NotAllHardened,
                what: format!(
                    "`{}` is hardened in `{}` but not in `{}`",
                    choice.row.package, with.package.name, choice.package.name
                ),
                fix: format!("add `\"{feature}\"` to its features"),
            });
        }
    }
    findings
}

fn choices(package: &Package) -> Vec<Choice<'_>> {
    let programs = package.programs().filter(|target| target.chooses());
    let allocators = programs.flat_map(|target| &target.sources.allocators);
    let brought = allocators.filter_map(|allocator| package.brought(allocator));
    brought
        .map(|(row, dependency)| Choice {
            package,
            row,
            dependency,
        })
        .collect()
}

impl Choice<'_> {
    fn has(&self, feature: &str) -> bool {
        let active = self.package.manifest.features.if_nobody_chooses();
        self.dependency.feature_names(&active).contains(feature)
    }
}

/// With reheap's libc, the features that define malloc are one definition too many.
pub(crate) fn overrides(project: &Project) -> Vec<Finding> {
    let uses_reheap = |manifest: &Manifest| {
        let keys = [
            ["package", "metadata", "reheap"],
            ["workspace", "metadata", "reheap"],
        ];
        keys.iter().any(|keys| manifest.table(keys).is_some())
    };
    let packages = project.packages.iter();
    let packages =
        packages.filter(|package| uses_reheap(&package.manifest) || uses_reheap(&project.manifest));
    let mut findings = Vec::new();
    for package in packages {
        let dependencies = package.manifest.dependencies.iter();
        for dependency in dependencies.filter(|dependency| dependency.kind == Kind::Normal) {
            let Some(row) = crates::find(&dependency.package) else {
                continue;
            };
            let mut overrides = row.overrides.iter();
            if let Some(feature) =
                overrides.find(|feature| dependency.features.iter().any(|own| own == *feature))
            {
                findings.push(Finding {
                    path: package.manifest.text.path.clone(),
                    line: dependency.line,
                    rule: Rule::OverridesMalloc,
                    what: format!(
                        "`{feature}` makes `{}` define malloc, which reheap's libc defines already",
                        row.package
                    ),
                    fix: format!("take `\"{feature}\"` from its features"),
                });
            }
        }
    }
    findings
}
