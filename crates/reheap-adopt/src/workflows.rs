//! What a repository says outside of Cargo: CI services, Dockerfiles, and scripts.
//!
//! All of them are read as text. A parser of YAML would know which job has which matrix, but the names of targets are
//! also in scripts, in tables of release tools, and behind expressions that only the service computes. Whatever names a
//! target counts as building it, so what is said about the rest is certain.
//!
//! To add a CI service, add its files to [`Kind::of`].

pub(crate) mod dockerfile;
pub(crate) mod shell;
pub(crate) mod targets;
pub(crate) mod yaml;

use crate::text::Text;
use std::fs;
use std::path::{Path, PathBuf};

/// No repository of a person has more directories above its scripts.
const DEPTH_MAX: usize = 6;
/// Scripts are small; whatever is larger is data.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Directories with the work of others, or with samples for tests.
const SKIPPED: [&str; 9] = [
    ".git",
    "fixtures",
    "node_modules",
    "snapshots",
    "target",
    "test-data",
    "testdata",
    "third_party",
    "vendor",
];

/// The files around a project.
#[derive(Debug, Default)]
pub struct Repository {
    /// Its top, or the directory itself if it is in none.
    pub top: PathBuf,
    /// Those that matter, by their paths.
    pub files: Vec<File>,
}

/// One of them.
#[derive(Debug)]
pub struct File {
    /// What it is.
    pub kind: Kind,
    /// Its path from the top of the repository, for people.
    pub name: String,
    /// Its contents.
    pub text: Text,
}

/// What a file tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A CI service what to do.
    Ci,
    /// How to make an image.
    Dockerfile,
    /// A shell what to do; a CI service may call it.
    Script,
    /// Cargo, a release tool, or something else which targets there are.
    Settings,
    /// Where images and programs run: Compose, Kubernetes, systemd.
    Deployment,
}

impl Repository {
    /// The files of the repository that a directory is in; without Git, of the directory.
    pub fn around(directory: &Path) -> Self {
        let is_top = |it: &&Path| it.join(".git").exists();
        let top = directory.ancestors().find(is_top).unwrap_or(directory);
        let mut files = Vec::new();
        add_files(top, Path::new(""), &mut files);
        files.sort_by(|a, b| a.name.cmp(&b.name));
        let top = top.to_owned();
        Self { top, files }
    }

    /// The files of these kinds.
    pub fn of_kinds(&self, kinds: &'static [Kind]) -> impl Iterator<Item = &File> {
        let files = self.files.iter();
        files.filter(|file| kinds.contains(&file.kind))
    }
}

fn add_files(top: &Path, below: &Path, files: &mut Vec<File>) {
    // What nobody may read says nothing to CI either.
    let Ok(entries) = fs::read_dir(top.join(below)) else {
        return;
    };
    for entry in entries.flatten() {
        let (Ok(kind), Ok(name)) = (entry.file_type(), entry.file_name().into_string()) else {
            continue;
        };
        let path = below.join(&name);
        if kind.is_dir() {
            if path.components().count() < DEPTH_MAX && !SKIPPED.contains(&name.as_str()) {
                add_files(top, &path, files);
            }
        } else if kind.is_file() {
            files.extend(file(top, &path));
        }
    }
}

fn file(top: &Path, path: &Path) -> Option<File> {
    let name = path.to_str()?.to_owned();
    let kind = Kind::of(&name)?;
    let path: PathBuf = top.join(path);
    if fs::metadata(&path).ok()?.len() > FILE_BYTES_MAX {
        return None;
    }
    let contents = String::from_utf8_lossy(&fs::read(&path).ok()?).into_owned();
    Some(File {
        kind,
        name,
        text: Text { path, contents },
    })
}

impl Kind {
    /// By its path from the top of the repository.
    pub fn of(path: &str) -> Option<Self> {
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        let is_yaml = name.ends_with(".yml") || name.ends_with(".yaml");
        let of_service = match directory.split('/').next().unwrap_or("") {
            ".github" | ".gitlab" | ".circleci" | ".woodpecker" | ".buildkite" | ".builds"
            | ".forgejo" | ".gitea" | ".azure-pipelines" => is_yaml,
            _ => matches!(
                name,
                ".gitlab-ci.yml"
                    | ".cirrus.yml"
                    | ".travis.yml"
                    | ".woodpecker.yml"
                    | ".drone.yml"
                    | ".appveyor.yml"
                    | "appveyor.yml"
                    | "azure-pipelines.yml"
                    | "bitbucket-pipelines.yml"
                    | "Jenkinsfile"
            ),
        };
        if of_service {
            return Some(Self::Ci);
        }
        let is_dockerfile = name.starts_with("Dockerfile")
            || name.starts_with("Containerfile")
            || name.to_lowercase().ends_with(".dockerfile");
        if is_dockerfile && !name.ends_with(".dockerignore") {
            return Some(Self::Dockerfile);
        }
        match name {
            "Makefile" | "justfile" | "Justfile" | ".justfile" | "makefile" => {
                return Some(Self::Script);
            }
            "Cross.toml"
            | "dist-workspace.toml"
            | "dist.toml"
            | "rust-toolchain"
            | "rust-toolchain.toml"
            | "Taskfile.yml"
            | "Makefile.toml"
            | "package.json"
            | "pyproject.toml"
            | ".goreleaser.yml"
            | ".goreleaser.yaml"
            | "flake.nix" => {
                return Some(Self::Settings);
            }
            "config.toml" | "config" if directory.ends_with(".cargo") => {
                return Some(Self::Settings);
            }
            _ => {}
        }
        let is_script = [".sh", ".bash", ".mk", ".just"].iter();
        let mut is_script = is_script.map(|end| name.ends_with(end));
        let is_among_scripts = ["ci", "scripts", "script", ".github", ".ci", "docker"];
        let is_among_scripts = is_among_scripts
            .iter()
            .any(|it| directory.split('/').any(|part| part == *it));
        if is_script.any(|it| it) || is_among_scripts && !name.contains('.') {
            return Some(Self::Script);
        }
        let is_unit = [".service", ".conf"].iter().any(|end| name.ends_with(end));
        (is_yaml || is_unit).then_some(Self::Deployment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_their_names() {
        let of = |path| Kind::of(path);
        assert_eq!(of(".github/workflows/ci.yml"), Some(Kind::Ci));
        assert_eq!(of(".github/actions/setup/action.yaml"), Some(Kind::Ci));
        assert_eq!(of(".circleci/config.yml"), Some(Kind::Ci));
        assert_eq!(of("docker/alpine.Dockerfile"), Some(Kind::Dockerfile));
        assert_eq!(of("Dockerfile.dev"), Some(Kind::Dockerfile));
        assert_eq!(of("Dockerfile.dockerignore"), None);
        assert_eq!(of("ci/build"), Some(Kind::Script));
        assert_eq!(of("install.sh"), Some(Kind::Script));
        assert_eq!(of(".cargo/config.toml"), Some(Kind::Settings));
        assert_eq!(of("compose.yaml"), Some(Kind::Deployment));
        assert_eq!(of("src/main.rs"), None);
    }
}
