//! Versions that are known to crash, among those that `Cargo.lock` chose.

use crate::checks::shared::{self, on_linux};
use crate::crates::{CRASHES, Crash, When};
use crate::finding::{Finding, Rule};
use crate::linked::Linked;
use crate::manifest::Dependency;
use crate::project::{Package, Project};

pub(crate) fn of(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &project.packages {
        for dependency in &package.manifest.dependencies {
            for crash in CRASHES
                .iter()
                .filter(|crash| crash.package == dependency.package)
            {
                let When::With(features) = crash.when else {
                    continue;
                };
                let mut own = dependency.features.iter();
                if let Some(version) = locked(project, crash)
                    && own.any(|feature| features.contains(&feature.as_str()))
                {
                    findings.push(finding(package, dependency, crash, version));
                }
            }
        }
    }
    for linked in shared::libraries(project) {
        findings.extend(of_shared(project, &linked));
    }
    findings
}

/// Those that matter in shared libraries that programs load.
fn of_shared(project: &Project, linked: &Linked<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for part in &linked.parts {
        let Some((row, dependency)) = part.package.brought(part.allocator) else {
            continue;
        };
        for crash in CRASHES.iter().filter(|crash| crash.package == row.package) {
            let When::LoadedWithout(feature) = crash.when else {
                continue;
            };
            let without = |active: &_| !dependency.feature_names(active).contains(feature);
            if let Some(version) = locked(project, crash)
                && on_linux(linked, part, without)
            {
                findings.push(finding(part.package, dependency, crash, version));
            }
        }
    }
    findings
}

fn locked<'a>(project: &'a Project, crash: &Crash) -> Option<&'a str> {
    let mut versions = project.locked.get(crash.source)?.iter().map(String::as_str);
    versions.find(|version| {
        // Versions of these packages carry upstream's after a plus.
        let own = version.split('+').next().unwrap_or(version);
        crash.versions.contains(&own)
    })
}

fn finding(package: &Package, dependency: &Dependency, crash: &Crash, version: &str) -> Finding {
    let version = version.split('+').next().unwrap_or(version);
    Finding {
        path: package.manifest.text.path.clone(),
        line: dependency.line,
        rule: Rule::KnownCrash,
        what: format!(
            "`{}` {version} is known to crash {}",
            crash.source, crash.what
        ),
        fix: format!("{} ({})", crash.fix, crash.report),
    }
}
