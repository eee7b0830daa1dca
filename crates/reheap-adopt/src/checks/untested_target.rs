//! An allocator only on targets that CI does not build.

use crate::builds::Builds;
use crate::condition::Condition;
use crate::finding::{Finding, Rule};
use crate::project::{Kind, Package, Project};
use crate::sources::{GlobalAllocator, Place};
use crate::workflows::targets::{self, Built};
use std::collections::BTreeSet;

pub(crate) fn of(project: &Project) -> Vec<Finding> {
    let Built::AtMost { triples, file } = targets::built(project.repository()) else {
        return Vec::new();
    };
    let released = released(project);
    let built = triples.into_iter().map(str::to_owned).chain(released);
    let built = Condition::Any(built.map(Condition::Triple).collect());
    let mut findings = Vec::new();
    for package in &project.packages {
        let targets = package.targets.iter().filter(|target| {
            matches!(
                target.kind,
                Kind::Program | Kind::Library { .. } | Kind::ForeignLibrary { .. }
            )
        });
        for allocator in targets.flat_map(|target| &target.sources.allocators) {
            findings.extend(finding(package, allocator, &built, &file));
        }
    }
    findings
}

fn finding(
    package: &Package,
    allocator: &GlobalAllocator,
    built: &Condition,
    file: &str,
) -> Option<Finding> {
    let is_system = |path: &Vec<String>| path.first().is_some_and(|first| first == "std");
    if matches!(allocator.place, Place::Macro(_)) || allocator.types.iter().all(is_system) {
        return None;
    }
    let condition = &allocator.condition;
    let either = Condition::Any(vec![condition.clone(), built.clone()]);
    let builds = Builds::of([&either], &package.manifest.features, &BTreeSet::new());
    if builds
        .find(|build, _| condition.holds(build) && built.holds(build))
        .is_some()
    {
        return None;
    }
    // It may hold nowhere; then no CI could build it.
    let example = builds.find(|build, _| condition.holds(build))?.triple();
    Some(Finding {
        path: allocator.path.clone(),
        line: allocator.line,
        rule: Rule::UntestedTarget,
        what: format!(
            "this allocator is there on `{condition}`, and `{file}` builds no such target"
        ),
        fix: format!("add a target of these to CI, such as {example}"),
    })
}

/// The targets of cargo-dist, whose workflow computes them.
fn released(project: &Project) -> Vec<String> {
    let tables = [
        ["workspace", "metadata", "dist"],
        ["package", "metadata", "dist"],
    ]
    .iter()
    .filter_map(|keys| project.manifest.table(keys)?.get("targets")?.as_array());
    let values = tables.flat_map(|array| array.iter());
    values
        .filter_map(|value| value.as_str().map(str::to_owned))
        .collect()
}
