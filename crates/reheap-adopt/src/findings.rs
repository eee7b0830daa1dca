//! What is wrong with a project's choice of allocators.
//!
//! To add a rule: a row in [`Rule`] (`finding.rs`), and a function in `checks/` that [`of`] calls.

use crate::checks::{
    clashes, conditions, hardened, libraries, missing_preload, options, patched_libc, presence,
    shared, untested_target, versions,
};
use crate::crates::AllocatorCrate;
use crate::error::AdoptError;
pub use crate::finding::{Finding, Rule};
use crate::linked::Linked;
use crate::project::{Kind, Package, Project, Target};
use crate::sources::{GlobalAllocator, Place};
use std::path::PathBuf;

/// All findings, by file and line.
pub fn of(project: &Project) -> Vec<Finding> {
    let files = project.repository().below(&project.root);
    let mut findings = Vec::new();
    for package in &project.packages {
        findings.extend(conditions::of(package));
        findings.extend(libraries::of(package));
        findings.extend(options::late(package));
    }
    findings.extend(presence::of(project, &files));
    findings.extend(clashes::of(project));
    findings.extend(hardened::of(project));
    findings.extend(hardened::overrides(project));
    findings.extend(shared::of(project));
    findings.extend(versions::of(project));
    findings.extend(options::ignored(project, &files));
    findings.extend(untested_target::of(project));
    findings.extend(patched_libc::of(project));
    findings.extend(missing_preload::of(project));
    findings.sort();
    findings.dedup();
    findings
}

/// A program, or a library for programs in other languages, and the allocators that it may have.
#[derive(Debug)]
pub struct Artifact<'a> {
    /// Its package.
    pub package: &'a Package,
    /// It.
    pub target: &'a Target,
    /// Its allocators; several have different conditions.
    pub allocators: Vec<Chosen<'a>>,
}

/// An allocator that is chosen somewhere.
#[derive(Debug)]
pub struct Chosen<'a> {
    /// The crate that brings it, if it is a known one.
    pub brought: Option<&'static AllocatorCrate>,
    /// The place, and the condition there.
    pub allocator: &'a GlobalAllocator,
}

/// All programs and libraries for programs, with their allocators.
pub fn artifacts(project: &Project) -> Vec<Artifact<'_>> {
    let targets = project.packages.iter().flat_map(|package| {
        let targets = package.targets.iter();
        targets.map(move |target| (package, target))
    });
    let artifacts = targets.filter(|(_, target)| {
        let is_foreign = matches!(
            target.kind,
            Kind::ForeignLibrary { .. } | Kind::Library { is_shared: true }
        );
        is_foreign || target.kind == Kind::Program
    });
    artifacts
        .map(|(package, target)| Artifact {
            package,
            target,
            allocators: Linked::of(project, package, target)
                .parts
                .iter()
                .map(|part| Chosen {
                    brought: part.package.brought(part.allocator).map(|(row, _)| row),
                    allocator: part.allocator,
                })
                .collect(),
        })
        .collect()
}

/// What cannot be checked, with the reason.
#[derive(Debug)]
pub struct Unchecked {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1.
    pub line: usize,
    /// Why not.
    pub why: String,
    /// Whether the check is incomplete because of it: the file is not what it should be.
    pub is_broken: bool,
}

/// Files that are no Rust, and allocators that macros may compile or not.
pub fn unchecked(project: &Project) -> Vec<Unchecked> {
    let mut all = Vec::new();
    for target in project.packages.iter().flat_map(|package| &package.targets) {
        for error in &target.sources.unread {
            let (path, line, why) = match error {
                AdoptError::Syntax { path, line, reason } => (path.clone(), *line, reason.clone()),
                AdoptError::Read { path, source } => (path.clone(), 1, source.to_string()),
                other => (target.root.clone(), 1, other.to_string()),
            };
            all.push(Unchecked {
                path,
                line,
                why: format!("cannot understand it: {why}"),
                is_broken: true,
            });
        }
        for allocator in &target.sources.allocators {
            let why = match &allocator.place {
                Place::Macro(name) => {
                    format!("cannot tell when it is compiled: it is in `{name}!`")
                }
                _ if !allocator.is_one_type => {
                    "cannot tell which type it has: several imports have that name".to_owned()
                }
                _ => continue,
            };
            all.push(Unchecked {
                path: allocator.path.clone(),
                line: allocator.line,
                why,
                is_broken: false,
            });
        }
    }
    all.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    all.dedup_by(|a, b| (&a.path, a.line) == (&b.path, b.line));
    all
}
