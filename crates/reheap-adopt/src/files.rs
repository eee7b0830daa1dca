//! The files of a project beside its sources: scripts, workflows, containers, services.
//!
//! The repository is walked once. Its rules differ in what they look at: those about workflows and containers ask
//! [`crate::workflows::Kind`], those about features and variables ask [`Role`].

use crate::text::Text;
use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};

/// Directories in which other people's files are, or what builds made.
const FOREIGN: [&str; 5] = ["target", "node_modules", "vendor", "third_party", ".git"];
/// Directories with samples for tests.
const SAMPLES: [&str; 4] = ["fixtures", "snapshots", "test-data", "testdata"];
/// Directories whose scripts and containers are what tests try. CI may still build targets by them.
const OF_TESTS: [&str; 3] = ["tests", "test", "examples"];
/// Larger files are data.
const BYTES_MAX: u64 = 1 << 20;
/// Enough for large projects; a directory with more is not only a project.
const FILES_MAX: usize = 50_000;

/// All files below a directory, relative to it, sorted. If there are too many, those that are deep below are left out.
pub(crate) fn below(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut next = VecDeque::from([PathBuf::new()]);
    while let Some(at) = next.pop_front() {
        // What nobody may read says nothing to CI either.
        let Ok(entries) = fs::read_dir(directory.join(&at)) else {
            continue;
        };
        for entry in entries.flatten() {
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            let name = entry.file_name();
            if kind.is_dir() && !FOREIGN.iter().any(|foreign| name == *foreign) {
                next.push_back(at.join(name));
            } else if kind.is_file() && files.len() < FILES_MAX {
                files.push(at.join(name));
            }
        }
    }
    files.sort();
    files
}

/// Whether a file is a sample for tests. `path` is relative to the project.
pub(crate) fn is_sample(path: &Path) -> bool {
    is_in(path, &SAMPLES)
}

fn is_in(path: &Path, directories: &[&str]) -> bool {
    let mut components = path.components();
    components.any(|component| {
        directories
            .iter()
            .any(|name| component.as_os_str() == *name)
    })
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
    if is_sample(path) || is_in(path, &OF_TESTS) {
        return None;
    }
    let name = path.file_name()?.to_str()?.to_lowercase();
    let extension = path.extension().and_then(|extension| extension.to_str());
    let is_of = |directory: &str| {
        path.components()
            .any(|component| component.as_os_str() == directory)
    };
    let builds = [
        "dockerfile",
        "containerfile",
        "makefile",
        "justfile",
        "earthfile",
    ];
    if builds
        .iter()
        .any(|known| name.starts_with(known) || name.ends_with(&format!(".{known}")))
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

/// A file, unless it is large. What is no UTF-8 in it cannot be what is looked for.
pub(crate) fn text(path: &Path) -> Option<Text> {
    if fs::metadata(path).ok()?.len() > BYTES_MAX {
        return None;
    }
    Some(Text {
        path: path.to_owned(),
        contents: String::from_utf8_lossy(&fs::read(path).ok()?).into_owned(),
    })
}

/// Whether a text has a word as a whole.
pub(crate) fn has_word(text: &str, word: &str) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '-';
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}
