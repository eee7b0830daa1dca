//! What the user's Cargo configuration says about linking for a target (Cargo book, "Configuration").
//!
//! `cargo config get` would say it, but is not stable. Only two keys are needed, so the files are read here, in Cargo's
//! order: from the current folder upwards, then Cargo's home; the first that has the key wins.

use crate::env_vars;
use anyhow::Context as _;
use reheap_allocators::target::Target;
use std::fs;
use std::path::{Path, PathBuf};

/// The linker that the user configured for the target.
pub(crate) fn linker(target: &Target, directory: &Path) -> anyhow::Result<Option<PathBuf>> {
    if let Some(linker) = env_vars::variable(&format!("{}_LINKER", target.cargo_env_prefix())) {
        return Ok(Some(linker.into()));
    }
    for file in files(directory) {
        let table = read(&file)?;
        let linker = table
            .get("target")
            .and_then(|t| t.get(target.triple()))
            .and_then(|t| t.get("linker"));
        if let Some(linker) = linker.and_then(toml::Value::as_str) {
            // A path with a slash is relative to the folder that holds the `.cargo` folder.
            let base = file
                .parent()
                .and_then(Path::parent)
                .unwrap_or(Path::new("/"));
            let is_path = linker.contains('/');
            return Ok(Some(if is_path {
                base.join(linker)
            } else {
                linker.into()
            }));
        }
    }
    Ok(None)
}

/// The triple that the user configured to build for.
pub(crate) fn build_target(directory: &Path) -> anyhow::Result<Option<String>> {
    if let Some(triple) = env_vars::variable("CARGO_BUILD_TARGET") {
        return Ok(Some(triple.to_string_lossy().into_owned()));
    }
    for file in files(directory) {
        let table = read(&file)?;
        let triple = table
            .get("build")
            .and_then(|b| b.get("target"))
            .and_then(toml::Value::as_str);
        if let Some(triple) = triple {
            return Ok(Some(triple.to_owned()));
        }
    }
    Ok(None)
}

fn files(directory: &Path) -> impl Iterator<Item = PathBuf> {
    let home = env_vars::variable("CARGO_HOME")
        .or_else(|| {
            let mut home = env_vars::variable("HOME")?;
            home.push("/.cargo");
            Some(home)
        })
        .unwrap_or_default();
    let mut folders: Vec<PathBuf> = directory
        .ancestors()
        .map(|folder| folder.join(".cargo"))
        .collect();
    let home = PathBuf::from(home);
    if !folders.contains(&home) {
        folders.push(home);
    }
    // Cargo reads `config` without an ending as well, and prefers it where both are there.
    folders
        .into_iter()
        .flat_map(|folder| ["config", "config.toml"].map(|name| folder.join(name)))
        .filter(|f| f.is_file())
}

fn read(file: &Path) -> anyhow::Result<toml::Table> {
    let text =
        fs::read_to_string(file).with_context(|| format!("cannot read `{}`", file.display()))?;
    text.parse()
        .with_context(|| format!("cannot read `{}`", file.display()))
}
