//! `--ci github`: the workflow that builds each target, checks the project, and proves each program.

use super::choosing::{self, Wanted};
use super::options::SetUpArguments;
use anyhow::Context as _;
use reheap_adopt::adoption::ci::{self, Artifact, Facts, Style};
use reheap_adopt::adoption::set_up::Place;
use reheap_adopt::adoption::{Plan, Refusal};
use reheap_adopt::project::Project;
use reheap_command::ui::Failure;
use std::fs;
use std::path::Path;

/// What the workflow cannot do before reheap is released. The documentation of `--ci` and the recipes say it, too.
pub(super) const NO_RELEASE: &str = "there is no release of reheap to download yet, so the workflow fails on its step \
                                     that installs reheap until there is one";

/// The targets that a runner with Linux builds.
const TARGETS: [&str; 4] = [
    "x86_64-unknown-linux-gnu",
    "x86_64-unknown-linux-musl",
    "aarch64-unknown-linux-gnu",
    "aarch64-unknown-linux-musl",
];

/// Adds the workflow to the plan, if it is wanted or was there.
pub(super) fn add(
    plan: &mut Plan,
    project: &Project,
    arguments: &SetUpArguments,
    wanted: &Wanted,
    places: &[Place<'_>],
) -> anyhow::Result<()> {
    let top = &project.repository().top;
    let path = top.join(ci::PATH);
    // Who changes the choice keeps the workflow that checks it.
    if arguments.ci.is_none() && !goes(plan, &path) {
        return Ok(());
    }
    let directory = project.root.strip_prefix(top).unwrap_or(Path::new(""));
    let artifacts: Vec<Artifact<'_>> = places.iter().flat_map(artifacts_of).collect();
    let (style, allocator, is_for_modules) = match wanted {
        Wanted::Crate {
            packaged, modules, ..
        } => (Style::Crate, packaged.allocator, modules.is_some()),
        Wanted::Reheap(chosen) => (Style::Reheap, chosen.allocator.as_str(), false),
    };
    let (programs, libraries): (&[_], &[_]) = if is_for_modules {
        (&[], &artifacts)
    } else {
        (&artifacts, &[])
    };
    let features = arguments.feature.clone();
    let features = features.filter(|_| !arguments.on_by_default);
    let text = ci::workflow(&Facts {
        style,
        allocator,
        targets: &targets(wanted),
        directory: directory.to_str().context("the path is not UTF-8")?,
        programs,
        libraries,
        features: features.as_slice(),
        is_locked: project.root.join("Cargo.lock").is_file(),
        version: env!("CARGO_PKG_VERSION"),
    });
    let text = text.ok_or_else(|| {
        let text = "`--ci github` builds for Linux on x86_64 and aarch64, and none of that is a target here";
        Failure::usage(text).hint("leave out --ci, or name another target")
    })?;
    put(plan, &path, text).map_err(|error| choosing::of_project(&error))
}

/// Whether the plan deletes a file.
fn goes(plan: &Plan, path: &Path) -> bool {
    let is_it = |found: &Path| fs::canonicalize(path).is_ok_and(|path| path == found);
    let mut changes = plan.changes();
    changes.any(|change| change.after.is_none() && is_it(&change.path))
}

/// What is proved. A program that needs features of its own is not built by default.
fn artifacts_of<'a>(place: &Place<'a>) -> Vec<Artifact<'a>> {
    let package = place.package;
    let targets = place.targets.iter();
    let targets = targets.filter(|target| target.required_features.is_empty());
    let artifacts = targets.map(|target| Artifact {
        package: &package.name,
        name: &target.name,
    });
    artifacts.collect()
}

/// The targets that the choice is for.
fn targets(wanted: &Wanted) -> Vec<String> {
    let all = TARGETS.iter().map(|target| (*target).to_owned());
    match wanted {
        Wanted::Crate { placement, .. } if !placement.triples.is_empty() => {
            placement.triples.clone()
        }
        Wanted::Crate { placement, .. } => {
            all.filter(|triple| placement.includes(triple)).collect()
        }
        Wanted::Reheap(chosen) if !chosen.targets.is_empty() => chosen.targets.clone(),
        Wanted::Reheap(_) => all.filter(|triple| triple.ends_with("-musl")).collect(),
    }
}

/// An older workflow of adopt's is in the plan already, as one to delete.
fn put(plan: &mut Plan, path: &Path, text: String) -> Result<(), Refusal> {
    if !path.is_file() {
        return plan.create(path, text);
    }
    if !plan.text(path)?.contents.is_empty() {
        let what = format!("cannot create `{}`: somebody wrote it", path.display());
        return Err(Refusal::new(what));
    }
    plan.edit(path, |_| Ok(text))
}
