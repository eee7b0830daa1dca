//! Files and directories, with errors that name them.

use anyhow::{Context as _, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};
use std::fs;
use std::path::{Path, PathBuf};

/// The text of a file.
pub fn read(path: impl AsRef<Path>) -> Result<String> {
    let path = path.as_ref();
    fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display()))
}

/// The bytes of a file.
pub fn read_bytes(path: impl AsRef<Path>) -> Result<Vec<u8>> {
    let path = path.as_ref();
    fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))
}

/// What a file says in JSON.
pub fn read_json<T: DeserializeOwned>(path: impl AsRef<Path>) -> Result<T> {
    let path = path.as_ref();
    serde_json::from_str(&read(path)?)
        .with_context(|| format!("cannot understand `{}`", path.display()))
}

/// A value in JSON, for people to read, with a line feed at the end.
pub fn json(value: &impl Serialize) -> Result<String> {
    let text = serde_json::to_string_pretty(value).context("cannot write JSON")?;
    Ok(text + "\n")
}

/// Writes a file, and makes the directory that it is in.
pub fn write(path: impl AsRef<Path>, contents: impl AsRef<[u8]>) -> Result<()> {
    let path = path.as_ref();
    make_directory(path.parent().unwrap_or(path))?;
    fs::write(path, contents).with_context(|| format!("cannot write `{}`", path.display()))
}

/// Copies a file, and makes the directory that it goes to.
pub fn copy(from: &Path, to: &Path) -> Result<()> {
    make_directory(to.parent().unwrap_or(to))?;
    fs::copy(from, to)
        .map(drop)
        .with_context(|| format!("cannot copy `{}` to `{}`", from.display(), to.display()))
}

/// Makes a directory and those that it is in, unless they are there.
pub fn make_directory(path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    fs::create_dir_all(path)
        .with_context(|| format!("cannot make the directory `{}`", path.display()))
}

/// Makes a directory with nothing in it.
pub fn make_empty(directory: &Path) -> Result<()> {
    if directory.exists() {
        fs::remove_dir_all(directory)
            .with_context(|| format!("cannot remove `{}`", directory.display()))?;
    }
    make_directory(directory)
}

/// The paths of everything in a directory, sorted.
pub fn entries(directory: &Path) -> Result<Vec<PathBuf>> {
    let paths: std::io::Result<Vec<PathBuf>> = fs::read_dir(directory)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
    let mut paths =
        paths.with_context(|| format!("cannot read the directory `{}`", directory.display()))?;
    paths.sort();
    Ok(paths)
}

/// The SHA-256 of these bytes, in hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
