//! Whether two global allocators get into one program.
//!
//! rustc refuses that, but only in the build that has both, which may be one that nobody tries before a user does.

use crate::finding::{Finding, Rule};
use crate::linked::{Linked, Part};
use crate::project::Project;
use std::collections::BTreeSet;

pub(crate) fn of(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut seen = BTreeSet::new();
    for package in &project.packages {
        for target in package.targets.iter().filter(|target| target.chooses()) {
            let linked = Linked::of(project, package, target);
            if linked.parts.len() < 2 {
                continue;
            }
            let mut pair = None;
            let found = linked.builds().find(|build, active| {
                let active = linked.active(build, active);
                if let [(first, _), (second, _), ..] = &active[..] {
                    pair = Some(((*first).clone(), (*second).clone()));
                }
                active.len() > 1
            });
            let (Some(found), Some((first, second))) = (found, pair) else {
                continue;
            };
            let place = |part: &Part<'_>| (part.allocator.path.clone(), part.allocator.line);
            if seen.insert((place(&first), place(&second))) {
                let build = found.words();
                findings.push(finding(project, &target.name, [&first, &second], &build));
            }
        }
    }
    findings
}

fn finding(project: &Project, artifact: &str, pair: [&Part<'_>; 2], build: &str) -> Finding {
    let [first, second] = pair;
    let (one, other) = (first.allocator, second.allocator);
    let path = one.path.strip_prefix(&project.root).unwrap_or(&one.path);
    let place = format!("{}:{}", path.display(), one.line);
    let is_one_package = first.package.name == second.package.name;
    Finding {
        path: other.path.clone(),
        line: other.line,
        rule: Rule::TwoAllocators,
        what: format!(
            "this and the one in {place} are both global allocators of `{artifact}`{build}, so that build fails"
        ),
        fix: if !is_one_package {
            let package = &second.package.name;
            format!("leave the choice to the program: remove it from `{package}`")
        } else if one.condition.is_always() {
            "keep one of them".to_owned()
        } else {
            format!("add `#[cfg(not({}))]` here", one.condition)
        },
    }
}
