//! What `reheap adopt` does with a project; `reheap-adopt` knows projects.

pub(crate) mod check;
mod checking;
mod choosing;
mod continuous;
mod diff;
mod files;
mod meaning;
pub(crate) mod options;
mod repository;
pub(crate) mod set_up;
pub(crate) mod undo;

use reheap_adopt::error::AdoptError;
use reheap_adopt::project::Project;
use reheap_command::env_vars;
use reheap_command::ui::{self, Failure};
use std::fs;
use std::path::{Path, PathBuf};

/// The project of a directory or manifest, or the one around the current directory.
fn project(path: Option<&Path>) -> anyhow::Result<Project> {
    let manifest = manifest(path)?;
    Project::read(&env_vars::cargo(), &manifest).map_err(|error| {
        let failure = Failure::usage(format!("cannot read the project: {error}"));
        match error {
            AdoptError::Read { .. } => Failure::failed(error.to_string()),
            AdoptError::NoToolchain(name) => {
                failure.hint(format!("rustup toolchain install {name}"))
            }
            _ => failure,
        }
        .into()
    })
}

fn manifest(path: Option<&Path>) -> anyhow::Result<PathBuf> {
    let start = match path {
        Some(path) if path.is_dir() => path.to_owned(),
        Some(path) if path.file_name().is_some_and(|name| name == "Cargo.toml") => {
            return Ok(path.to_owned());
        }
        Some(path) => {
            let text = format!(
                "`{}` is neither a directory nor a Cargo.toml",
                path.display()
            );
            return Err(Failure::usage(text).into());
        }
        None => std::env::current_dir()?,
    };
    let found = match path {
        // What the user names has to be it.
        Some(_) => Some(start.join("Cargo.toml")).filter(|manifest| manifest.is_file()),
        None => start
            .ancestors()
            .map(|directory| directory.join("Cargo.toml"))
            .find(|manifest| manifest.is_file()),
    };
    found.ok_or_else(|| {
        let text = format!("there is no Cargo.toml in `{}`", start.display());
        let hint = "name a Cargo project: reheap adopt DIRECTORY";
        Failure::usage(text).hint(hint).into()
    })
}

/// The member that the user named, if it is not the root of its workspace.
fn member(path: Option<&Path>, project: &Project) -> anyhow::Result<Option<String>> {
    let named = fs::canonicalize(manifest(path)?)?;
    let is_same = |other: &Path| fs::canonicalize(other).is_ok_and(|other| other == named);
    if is_same(&project.root.join("Cargo.toml")) {
        return Ok(None);
    }
    let mut members = project.packages.iter();
    let member = members.find(|member| is_same(&member.manifest.text.path));
    Ok(member.map(|member| member.name.clone()))
}

/// A path for people.
fn relative(project: &Project, path: &Path) -> String {
    ui::printable(project.relative(path))
}
