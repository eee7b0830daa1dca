//! What the user's Cargo configuration says about linking for a target, and where files go (Cargo book, "Configuration").
//!
//! `cargo config get` would say it, but is not stable. Only a few keys are needed, so they are read here, in Cargo's
//! order: `--config` flags, of which the last wins; the environment; the files from a folder upwards, then in
//! Cargo's home, of which the first wins.

use crate::env_vars;
use anyhow::Context as _;
use reheap_allocators::target::Target;
use std::fs;
use std::path::{Path, PathBuf};

/// The configuration for a command.
pub(crate) struct Config {
    /// The user's `--config` flags, the last first.
    given: Vec<Source>,
    files: Vec<Source>,
}

/// A part of the configuration, and the folder that its paths are relative to.
struct Source {
    table: toml::Table,
    base: PathBuf,
}

impl Config {
    /// The configuration as seen from a folder, with the values of these `--config` flags.
    pub(crate) fn read(folder: &Path, given: &[String]) -> anyhow::Result<Self> {
        let directory = std::env::current_dir().context("cannot find the current folder")?;
        let of_flag = |value: &String| {
            let file = directory.join(value);
            if file.is_file() {
                return Source::of_file(&file);
            }
            Ok(Source {
                // What is neither is Cargo's to refuse.
                table: value.parse().unwrap_or_default(),
                base: directory.clone(),
            })
        };
        Ok(Self {
            given: given.iter().rev().map(of_flag).collect::<Result<_, _>>()?,
            files: files(folder)
                .map(|file| Source::of_file(&file))
                .collect::<Result<_, _>>()?,
        })
    }

    /// The linker that the user configured for the target.
    pub(crate) fn linker(&self, target: &Target) -> Option<PathBuf> {
        let variable = || env_vars::variable(&format!("{}_LINKER", target.cargo_env_prefix()));
        self.linker_of_flags(target)
            .or_else(|| variable().map(PathBuf::from))
            .or_else(|| self.files.iter().find_map(|source| source.linker(target)))
    }

    /// The same if it comes from a `--config` flag, which wins over a variable.
    pub(crate) fn linker_of_flags(&self, target: &Target) -> Option<PathBuf> {
        self.given.iter().find_map(|source| source.linker(target))
    }

    /// The triple that the user configured to build for.
    pub(crate) fn build_target(&self) -> Option<String> {
        let variable = || env_vars::variable("CARGO_BUILD_TARGET");
        let text = |value: std::ffi::OsString| value.to_string_lossy().into_owned();
        let of = |sources: &[Source]| sources.iter().find_map(Source::build_target);
        of(&self.given)
            .or_else(|| variable().map(text))
            .or_else(|| of(&self.files))
    }

    /// The folder that Cargo installs in where no flag names one.
    pub(crate) fn install_root(&self) -> Option<PathBuf> {
        let of = |sources: &[Source]| sources.iter().find_map(Source::install_root);
        let variable = || env_vars::variable("CARGO_INSTALL_ROOT").map(PathBuf::from);
        of(&self.given)
            .or_else(variable)
            .or_else(|| of(&self.files))
            .or_else(cargo_home)
    }

    /// Whether a flag or a file names the folder that Cargo builds in.
    pub(crate) fn names_target_folder(&self) -> bool {
        let mut sources = self.given.iter().chain(&self.files);
        sources.any(|source| source.build("target-dir").is_some())
    }
}

impl Source {
    fn of_file(file: &Path) -> anyhow::Result<Self> {
        // Paths are relative to the folder that holds the `.cargo` folder.
        let base = file.parent().and_then(Path::parent);
        Ok(Self {
            table: read(file)?,
            base: base.unwrap_or(Path::new("/")).to_owned(),
        })
    }

    fn linker(&self, target: &Target) -> Option<PathBuf> {
        let linker = self
            .table
            .get("target")?
            .get(target.triple())?
            .get("linker")?
            .as_str()?;
        // One without a slash is searched for in PATH.
        Some(match linker.contains('/') {
            true => self.base.join(linker),
            false => linker.into(),
        })
    }

    fn build_target(&self) -> Option<String> {
        self.build("target").map(str::to_owned)
    }

    fn install_root(&self) -> Option<PathBuf> {
        let root = self.table.get("install")?.get("root")?.as_str()?;
        Some(self.base.join(root))
    }

    fn build(&self, key: &str) -> Option<&str> {
        self.table.get("build")?.get(key)?.as_str()
    }
}

fn files(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let mut folders: Vec<PathBuf> = folder
        .ancestors()
        .map(|folder| folder.join(".cargo"))
        .collect();
    let home = cargo_home().unwrap_or_default();
    if !folders.contains(&home) {
        folders.push(home);
    }
    // Cargo reads `config` without an ending as well, and prefers it where both are there.
    folders
        .into_iter()
        .flat_map(|folder| ["config", "config.toml"].map(|name| folder.join(name)))
        .filter(|f| f.is_file())
}

/// Cargo's own folder.
pub(crate) fn cargo_home() -> Option<PathBuf> {
    let beside_others = || Some(PathBuf::from(env_vars::variable("HOME")?).join(".cargo"));
    let named = env_vars::variable("CARGO_HOME").map(PathBuf::from);
    named.or_else(beside_others)
}

fn read(file: &Path) -> anyhow::Result<toml::Table> {
    let text =
        fs::read_to_string(file).with_context(|| format!("cannot read `{}`", file.display()))?;
    text.parse()
        .with_context(|| format!("cannot read `{}`", file.display()))
}
