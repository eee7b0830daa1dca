//! Allocators in shared libraries that a program loads while it runs, such as modules for Python and Node.
//!
//! Thread-local storage of the model initial-exec has to fit into what the C library set aside when the program began.
//! Both mimalloc and jemalloc take that model unless a feature says otherwise (`build.rs` of libmimalloc-sys 0.1.22 to
//! 0.1.49, `configure.ac` of jemalloc 5.3.1); what then fails is <https://github.com/microsoft/mimalloc/issues/147> and
//! <https://github.com/jemalloc/jemalloc/issues/937>.

use crate::builds::Builds;
use crate::condition::{Build, Condition};
use crate::features::Active;
use crate::finding::{Finding, Rule};
use crate::linked::{Linked, Part};
use crate::project::{Kind, Package, Project, Target};
use cfg_expr::targets::Os;

pub(crate) fn of(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for linked in libraries(project) {
        let parts = linked.parts.iter();
        findings.extend(parts.filter_map(|part| late(&linked, part)));
    }
    findings
}

/// The libraries that programs load.
pub(crate) fn libraries(project: &Project) -> impl Iterator<Item = Linked<'_>> {
    project.packages.iter().flat_map(move |package| {
        let targets = package.targets.iter().filter(|target| is_shared(target));
        targets.map(move |target| Linked::of(project, package, target))
    })
}

/// Whether programs load it.
fn is_shared(target: &Target) -> bool {
    matches!(
        target.kind,
        Kind::Library { is_shared: true } | Kind::ForeignLibrary { is_shared: true }
    )
}

fn late(linked: &Linked<'_>, part: &Part<'_>) -> Option<Finding> {
    let (row, dependency) = part.package.brought(part.allocator)?;
    let feature = row.late_tls?;
    on_linux(linked, part, |active| {
        !dependency.feature_names(active).contains(feature)
    })
    .then(|| Finding {
        path: part.package.manifest.text.path.clone(),
        line: dependency.line,
        rule: Rule::InitialExecTls,
        what: format!(
            "a program that runs may fail to load `{}`: thread-local storage of `{}` has to be there at its start",
            linked.target.name, row.package
        ),
        fix: format!("add `\"{feature}\"` to its features"),
    })
}

/// Whether a build for Linux has that allocator, with features for which the test is true.
pub(crate) fn on_linux(
    linked: &Linked<'_>,
    part: &Part<'_>,
    test: impl Fn(&Active) -> bool,
) -> bool {
    let is_so = |build: &Build<'_>, active: &Active| {
        let mut here = linked.active(build, active).into_iter();
        build.target.os == Some(Os::linux)
            && here.any(|(other, active)| {
                std::ptr::eq(other.allocator, part.allocator) && test(&active)
            })
    };
    let linux = Condition::of_cfg("target_os = \"linux\"");
    let builds: Builds = linked.builds_with(&[linux], &dependency_keys(part.package));
    builds.find(is_so).is_some()
}

/// By these, features of dependencies are told apart.
fn dependency_keys(package: &Package) -> Vec<String> {
    let dependencies = package.manifest.dependencies.iter();
    dependencies
        .filter(|dependency| crate::crates::find(&dependency.package).is_some())
        .map(|dependency| dependency.key.clone())
        .collect()
}
