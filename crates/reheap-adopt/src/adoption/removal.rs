//! Takes out what `reheap adopt` put into a project, found by its marks.
//!
//! A piece that somebody changed stays, and is named. So does a dependency that the code still uses.

mod of_manifest;

use super::packages::Packaged;
use super::{Plan, Refusal, ci, statics};
use crate::crates;
use crate::project::{Package, Project};
use crate::sources;
use crate::text::Text;
use of_manifest::{Found, Keep};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What is taken out.
#[derive(Debug, Default)]
pub struct Removal {
    /// The files without it.
    pub plan: Plan,
    /// What stays.
    pub left: Vec<Left>,
    /// The packages that were added, with the versions that they have by now.
    pub packages: Vec<(&'static Packaged, String)>,
    /// The allocator in `[….metadata.reheap]`, if that was added.
    pub metadata: Option<String>,
}

/// A piece that stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1.
    pub line: usize,
    /// Why it stays.
    pub why: String,
}

impl Removal {
    /// Whether there was nothing.
    pub fn is_empty(&self) -> bool {
        self.plan.changes().next().is_none() && self.left.is_empty()
    }
}

/// Takes it out of all files of a project.
///
/// # Errors
/// If one cannot be read.
pub fn of_project(project: &Project) -> Result<Removal, Refusal> {
    let mut removal = Removal::default();
    let mut is_used_by_some = Keep::Nothing;
    let root = project.root.join("Cargo.toml");
    for package in &project.packages {
        let keep = removal.sources(package)?;
        if let Keep::Dependencies(why) = &keep {
            is_used_by_some = Keep::Dependencies(why.clone());
        }
        let manifest = &package.manifest.text.path;
        if *manifest != root {
            removal.manifest(manifest, &keep)?;
        }
    }
    // The workspace's table is for all members.
    removal.manifest(&root, &is_used_by_some)?;
    removal.workflow(&project.repository().top.join(ci::PATH))?;
    Ok(removal)
}

impl Removal {
    /// Takes the statics out of a package, and says whether its dependencies are needed after that.
    fn sources(&mut self, package: &Package) -> Result<Keep, Refusal> {
        let files: BTreeSet<&Path> = package
            .targets
            .iter()
            .flat_map(|target| &target.sources.files)
            .map(PathBuf::as_path)
            .collect();
        let mut keep = Keep::Nothing;
        let relative = |path: &Path| {
            let path = path.strip_prefix(&package.directory).unwrap_or(path);
            path.display().to_string()
        };
        for &path in &files {
            let text = self.plan.text(path)?;
            if !text.contents.contains(statics::MARK) {
                continue;
            }
            let (contents, left) = statics::remove(&text);
            for left in left {
                keep = Keep::Dependencies(format!("`{}` may still use it", relative(path)));
                self.left.push(Left {
                    path: path.to_owned(),
                    line: left.line,
                    why: left.why,
                });
            }
            self.plan.edit(path, |_| Ok::<_, Refusal>(contents))?;
        }
        for path in files {
            let text = self.plan.text(path)?;
            let is_named = |text: &Text| {
                let identifiers = sources::identifiers_in(text).unwrap_or_default();
                let mut added = crates::CRATES
                    .iter()
                    .map(|row| crates::identifier(row.package));
                added.any(|name| identifiers.contains(&name))
            };
            if is_named(&text) {
                keep = Keep::Dependencies(format!("`{}` uses it", relative(path)));
            }
        }
        Ok(keep)
    }

    /// The workflow is of one project: two in one repository would write the same file.
    fn workflow(&mut self, path: &Path) -> Result<(), Refusal> {
        if !path.is_file() {
            return Ok(());
        }
        match ci::origin(&self.plan.text(path)?.contents) {
            ci::Origin::Ours => self.plan.remove(path)?,
            ci::Origin::Edited => self.left.push(Left {
                path: path.to_owned(),
                line: 1,
                why: "somebody changed this file".to_owned(),
            }),
            ci::Origin::Others => {}
        }
        Ok(())
    }

    fn manifest(&mut self, path: &Path, keep: &Keep) -> Result<(), Refusal> {
        let text = self.plan.text(path)?;
        let Found {
            contents,
            left,
            packages,
            metadata,
        } = of_manifest::remove(&text, keep)?;
        self.left.extend(left.into_iter().map(|(line, why)| Left {
            path: path.to_owned(),
            line,
            why,
        }));
        self.packages.extend(packages);
        self.metadata = metadata.or(self.metadata.take());
        self.plan.edit(path, |_| Ok::<_, Refusal>(contents))
    }
}

/// Whether taking the pieces out of a file gives these bytes.
pub(super) fn gives_back(path: &Path, after: Option<&str>, before: &str) -> Result<bool, Refusal> {
    let text = |contents: &str| Text {
        path: path.to_owned(),
        contents: contents.to_owned(),
    };
    let taken_out = |contents: &str| -> Result<String, Refusal> {
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            Ok(of_manifest::remove(&text(contents), &Keep::Nothing)?.contents)
        } else {
            Ok(statics::remove(&text(contents)).0)
        }
    };
    // The file may have pieces of an older set-up.
    Ok(taken_out(after.unwrap_or_default())? == taken_out(before)?)
}
