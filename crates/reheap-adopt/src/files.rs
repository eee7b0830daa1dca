//! The files of a project beside its sources: scripts, workflows, containers, services.

use crate::text::Text;
use std::fs;
use std::path::{Path, PathBuf};

/// Directories in which other people's files are, or what builds made.
const FOREIGN: [&str; 6] = [
    "target",
    "node_modules",
    "vendor",
    "third_party",
    ".git",
    "dist",
];
/// Directories whose scripts and containers are what tests try.
const OF_TESTS: [&str; 5] = ["tests", "test", "testdata", "fixtures", "examples"];
/// Larger files are data.
const BYTES_MAX: u64 = 1 << 20;
/// Enough for large projects; a directory with more is not only a project.
const FILES_MAX: usize = 50_000;

/// All files below a directory, relative to it, sorted.
pub(crate) fn below(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut next = vec![directory.to_owned()];
    while let Some(at) = next.pop() {
        let Ok(entries) = fs::read_dir(&at) else {
            continue;
        };
        for entry in entries.flatten() {
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            let name = entry.file_name();
            if kind.is_dir() && !FOREIGN.iter().any(|foreign| name == *foreign) {
                next.push(entry.path());
            } else if kind.is_file() && files.len() < FILES_MAX {
                files.push(entry.path());
            }
        }
    }
    let mut files: Vec<PathBuf> = files
        .into_iter()
        .filter_map(|path| path.strip_prefix(directory).map(Path::to_owned).ok())
        .collect();
    files.sort();
    files
}

/// What a file says how to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// It builds: a workflow, a container, a Makefile.
    Builds,
    /// It runs or configures programs: a script, a service, Cargo's configuration.
    Runs,
    /// It tells people.
    Tells,
}

/// `path` is relative to the project.
pub(crate) fn role(path: &Path) -> Option<Role> {
    if path
        .components()
        .any(|it| OF_TESTS.iter().any(|test| it.as_os_str() == *test))
    {
        return None;
    }
    let name = path.file_name()?.to_str()?.to_lowercase();
    let extension = path.extension().and_then(|it| it.to_str());
    let is_of = |directory: &str| path.components().any(|it| it.as_os_str() == directory);
    let builds = [
        "dockerfile",
        "containerfile",
        "makefile",
        "justfile",
        "earthfile",
    ];
    if builds
        .iter()
        .any(|it| name.starts_with(it) || name.ends_with(&format!(".{it}")))
        || matches!(extension, Some("yml" | "yaml")) && (is_of(".github") || is_of(".circleci"))
        || [".gitlab-ci.yml", ".cirrus.yml", ".travis.yml", "build.sh"].contains(&name.as_str())
    {
        return Some(Role::Builds);
    }
    match extension {
        Some(
            "sh" | "bash" | "service" | "yml" | "yaml" | "env" | "nix" | "ps1" | "py" | "json",
        ) => Some(Role::Runs),
        Some("toml") if is_of(".cargo") || name == "cross.toml" => Some(Role::Runs),
        Some("md" | "rst" | "adoc" | "txt") => Some(Role::Tells),
        None if name == ".env" => Some(Role::Runs),
        _ => None,
    }
}

/// A file, unless it is large or no text.
pub(crate) fn text(path: &Path) -> Option<Text> {
    let bytes = fs::metadata(path).ok()?.len();
    (bytes <= BYTES_MAX)
        .then(|| Text::read(path).ok())
        .flatten()
}

/// Whether a text has a word as a whole.
pub(crate) fn has_word(text: &str, word: &str) -> bool {
    let is_part = |it: char| it.is_alphanumeric() || it == '_' || it == '-';
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}
