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

use crate::files;
use crate::text::Text;
use std::path::{Path, PathBuf};

/// The files around a project.
#[derive(Debug, Default)]
pub struct Repository {
    /// Its top, or the directory itself if it is in none.
    pub top: PathBuf,
    /// Those that matter, by their paths.
    pub files: Vec<File>,
    /// The paths of all, from the top.
    all: Vec<PathBuf>,
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
        let is_top = |directory: &&Path| directory.join(".git").exists();
        let top = directory.ancestors().find(is_top).unwrap_or(directory);
        let all = files::below(top);
        let own = all.iter().filter(|path| !files::is_sample(path));
        Self {
            files: own.filter_map(|path| file(top, path)).collect(),
            top: top.to_owned(),
            all,
        }
    }

    /// The paths of all files below a directory, from there.
    pub(crate) fn below(&self, directory: &Path) -> Vec<PathBuf> {
        let Ok(place) = directory.strip_prefix(&self.top) else {
            return files::below(directory);
        };
        let below = self
            .all
            .iter()
            .filter_map(|path| path.strip_prefix(place).ok());
        below.map(Path::to_owned).collect()
    }

    /// The files of these kinds.
    pub fn of_kinds(&self, kinds: &'static [Kind]) -> impl Iterator<Item = &File> {
        let files = self.files.iter();
        files.filter(|file| kinds.contains(&file.kind))
    }
}

fn file(top: &Path, path: &Path) -> Option<File> {
    let name = path.to_str()?.to_owned();
    Some(File {
        kind: Kind::of(&name)?,
        text: files::text(&top.join(path))?,
        name,
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
        let mut is_script = [".sh", ".bash", ".mk", ".just"]
            .iter()
            .map(|end| name.ends_with(end));
        let is_among_scripts = ["ci", "scripts", "script", ".github", ".ci", "docker"]
            .iter()
            .any(|name| directory.split('/').any(|part| part == *name));
        if is_script.any(|is_so| is_so) || is_among_scripts && !name.contains('.') {
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
