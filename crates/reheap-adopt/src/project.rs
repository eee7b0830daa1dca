//! A project: its packages, what they say about allocators, and what they lock.

use crate::crates::{self, AllocatorCrate};
use crate::error::AdoptError;
use crate::manifest::{Dependency, Manifest};
use crate::sources::{GlobalAllocator, Sources};
use crate::text::Text;
use crate::workflows::Repository;
use cargo_metadata::{CrateType, MetadataCommand, TargetKind};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A workspace, or a package that is one by itself.
#[derive(Debug)]
pub struct Project {
    /// Where its root manifest is.
    pub root: PathBuf,
    /// Where Cargo puts what it builds.
    pub target_directory: PathBuf,
    /// The root manifest.
    pub manifest: Manifest,
    /// Its members.
    pub packages: Vec<Package>,
    /// What `Cargo.lock` chose, if there is one: package to versions.
    pub locked: BTreeMap<String, Vec<String>>,
    repository: OnceLock<Repository>,
    /// By the name of each member.
    below: OnceLock<HashMap<String, Vec<Below>>>,
}

/// A dependency of a member on another one, by the places of both in their lists.
#[derive(Debug)]
struct Below {
    dependency: usize,
    member: usize,
}

/// A member.
#[derive(Debug)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Where its manifest is.
    pub directory: PathBuf,
    /// Its manifest.
    pub manifest: Manifest,
    /// Whether Cargo builds it if nobody names a package.
    pub is_default: bool,
    /// Whether it may be published.
    pub is_publishable: bool,
    /// `2015`, `2018` and so on.
    pub edition: String,
    /// Whatever Cargo compiles of it.
    pub targets: Vec<Target>,
}

/// What Cargo compiles to one file.
#[derive(Debug)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// The file that it begins with.
    pub root: PathBuf,
    /// Without these features it is not compiled.
    pub required_features: Vec<String>,
    /// What its sources say.
    pub sources: Sources,
}

/// What a target is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A program.
    Program,
    /// A library that Rust code links.
    Library {
        /// A shared library for others is made, too.
        is_shared: bool,
    },
    /// A shared or static library for code in other languages only.
    ForeignLibrary {
        /// Whether it is shared: programs load it.
        is_shared: bool,
    },
    /// A procedural macro.
    ProcMacro,
    /// An example.
    Example,
    /// A test.
    Test,
    /// A benchmark.
    Benchmark,
    /// A build script.
    BuildScript,
}

impl Project {
    /// Reads the workspace of a manifest. `cargo` is how to start Cargo.
    ///
    /// # Errors
    /// If Cargo refuses it, or a manifest cannot be read.
    pub fn read(cargo: &Command, manifest: &Path) -> Result<Self, AdoptError> {
        let cannot_read = |source| AdoptError::Read {
            path: manifest.to_owned(),
            source,
        };
        let manifest = std::path::absolute(manifest).map_err(cannot_read)?;
        let mut command = metadata(cargo);
        command.manifest_path(&manifest).no_deps();
        // rustup takes the toolchain that is chosen for a directory.
        command.current_dir(manifest.parent().unwrap_or(&manifest));
        let metadata = command.exec().map_err(of_cargo)?;
        let root: PathBuf = metadata.workspace_root.clone().into();
        let root_manifest = Manifest::read(&root.join("Cargo.toml"), None)?;
        let packages = metadata.workspace_packages().into_iter();
        let default = &metadata.workspace_default_members;
        let packages = packages.map(|package| {
            // An old Cargo does not tell.
            let is_default = default.is_missing() || default.contains(&package.id);
            Package::read(package, &root_manifest, is_default)
        });
        Ok(Self {
            packages: packages.collect::<Result<_, _>>()?,
            target_directory: metadata.target_directory.clone().into(),
            locked: locked(&root.join("Cargo.lock"))?,
            repository: OnceLock::new(),
            below: OnceLock::new(),
            manifest: root_manifest,
            root,
        })
    }
}

impl Project {
    /// A path as it is from the root, with `..` for what is not below it.
    pub fn relative(&self, path: &Path) -> PathBuf {
        relative(path, &self.root)
    }

    /// The path from the top of the repository.
    pub fn relative_in_repository(&self, path: &Path) -> PathBuf {
        relative(path, &self.repository().top)
    }

    /// What is around it: CI, Dockerfiles, scripts. Read when somebody asks, because a repository may be large.
    pub fn repository(&self) -> &Repository {
        self.repository
            .get_or_init(|| Repository::around(&self.root))
    }

    /// The members that dependencies of a member name by their paths, each with the dependency.
    pub fn members_below<'a>(
        &'a self,
        package: &'a Package,
    ) -> impl Iterator<Item = (&'a Dependency, &'a Package)> {
        let below = self
            .below
            .get_or_init(|| self.all_below())
            .get(&package.name)
            .into_iter()
            .flatten();
        below.map(|brought| {
            let dependency = &package.manifest.dependencies[brought.dependency];
            (dependency, &self.packages[brought.member])
        })
    }

    fn all_below(&self) -> HashMap<String, Vec<Below>> {
        let real = |path: &Path| path.canonicalize().ok();
        let packages = self.packages.iter().enumerate();
        let places: HashMap<&str, (usize, Option<PathBuf>)> = packages
            .map(|(place, package)| (package.name.as_str(), (place, real(&package.directory))))
            .collect();
        let below = |package: &Package| {
            let dependencies = package.manifest.dependencies.iter().enumerate();
            let below = dependencies.filter_map(|(dependency, needed)| {
                let path = needed.path.as_ref()?;
                let (member, Some(directory)) = places.get(needed.package.as_str())? else {
                    return None;
                };
                // The path in the workspace's own table begins at its root.
                let is_it =
                    |from: &Path| real(&from.join(path)).is_some_and(|place| place == *directory);
                let is_it = is_it(&package.directory) || is_it(&self.root);
                is_it.then_some(Below {
                    dependency,
                    member: *member,
                })
            });
            below.collect()
        };
        let packages = self.packages.iter();
        packages
            .map(|package| (package.name.clone(), below(package)))
            .collect()
    }
}

impl Package {
    fn read(
        package: &cargo_metadata::Package,
        workspace: &Manifest,
        is_default: bool,
    ) -> Result<Self, AdoptError> {
        let path = package.manifest_path.as_std_path();
        let targets = package.targets.iter().map(|target| Target {
            name: target.name.clone(),
            kind: Kind::of(target),
            root: target.src_path.clone().into(),
            required_features: target.required_features.clone(),
            sources: Sources::of_crate(target.src_path.as_std_path()),
        });
        Ok(Self {
            name: package.name.to_string(),
            version: package.version.to_string(),
            directory: path.parent().unwrap_or(Path::new("")).to_owned(),
            manifest: Manifest::read(path, Some(workspace))?,
            is_default,
            is_publishable: package.publish.as_ref().is_none_or(|to| !to.is_empty()),
            edition: package.edition.to_string(),
            targets: targets.collect(),
        })
    }

    /// Its programs.
    pub fn programs(&self) -> impl Iterator<Item = &Target> {
        let targets = self.targets.iter();
        targets.filter(|target| target.kind == Kind::Program)
    }

    /// The crate of a global allocator in its code, and the dependency that brings it.
    pub fn brought(
        &self,
        allocator: &GlobalAllocator,
    ) -> Option<(&'static AllocatorCrate, &Dependency)> {
        let mut dependencies = self.manifest.dependencies.iter();
        dependencies.find_map(|dependency| {
            let name = dependency.identifier();
            let is_it = allocator.types.iter().any(|path| path[0] == name);
            let row = crates::find(&dependency.package).filter(|_| is_it)?;
            Some((row, dependency))
        })
    }
}

impl Target {
    /// The name by which code calls it, if it is a library.
    pub fn identifier(&self) -> String {
        crates::identifier(&self.name)
    }

    /// Whether Cargo compiles it for the package itself only, with the dependencies of tests.
    pub fn is_for_tests(&self) -> bool {
        matches!(self.kind, Kind::Example | Kind::Test | Kind::Benchmark)
    }

    /// Whether the choice of an allocator in it matters: programs without the standard library know what they do.
    pub fn chooses(&self) -> bool {
        let is_program = self.kind == Kind::Program || self.is_for_tests();
        let is_library = matches!(
            self.kind,
            Kind::Library { .. } | Kind::ForeignLibrary { .. }
        );
        is_library || is_program && !self.sources.is_no_std
    }
}

impl Kind {
    fn of(target: &cargo_metadata::Target) -> Self {
        let is = |kind: &TargetKind| target.kind.contains(kind);
        if is(&TargetKind::CustomBuild) {
            return Self::BuildScript;
        }
        for (kind, ours) in [
            (TargetKind::Bin, Self::Program),
            (TargetKind::Example, Self::Example),
            (TargetKind::Test, Self::Test),
            (TargetKind::Bench, Self::Benchmark),
            (TargetKind::ProcMacro, Self::ProcMacro),
        ] {
            if is(&kind) {
                return ours;
            }
        }
        let makes = |kind: &CrateType| target.crate_types.contains(kind);
        let is_shared = makes(&CrateType::CDyLib);
        let is_for_rust = [CrateType::Lib, CrateType::RLib, CrateType::DyLib];
        if is_for_rust.iter().any(makes) {
            Self::Library { is_shared }
        } else {
            Self::ForeignLibrary { is_shared }
        }
    }
}

/// `cargo metadata`, in the environment that is set for Cargo.
pub(crate) fn metadata(cargo: &Command) -> MetadataCommand {
    let mut metadata = MetadataCommand::new();
    metadata.cargo_path(cargo.get_program());
    for (name, value) in cargo.get_envs() {
        match value {
            Some(value) => metadata.env(name, value),
            None => metadata.env_remove(name),
        };
    }
    // rustup writes where in itself it found an error.
    metadata.env_remove("RUST_BACKTRACE");
    metadata
}

/// One path from another. Cargo's paths may lead through links, and those of edited files do not.
fn relative(path: &Path, from: &Path) -> PathBuf {
    if let Ok(below) = path.strip_prefix(from) {
        return below.to_owned();
    }
    let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let (path, from) = (real(path), real(from));
    let mut up = PathBuf::new();
    for above in from.ancestors() {
        if let Ok(below) = path.strip_prefix(above)
            && above.parent().is_some()
        {
            return up.join(below);
        }
        up.push("..");
    }
    path
}

/// Cargo's message without the words around it.
fn of_cargo(error: cargo_metadata::Error) -> AdoptError {
    let words = match error {
        cargo_metadata::Error::CargoMetadata { stderr } => {
            let text = stderr.trim();
            match text.strip_prefix("error: ").unwrap_or(text) {
                "" => "Cargo failed and does not say why".to_owned(),
                text => text.to_owned(),
            }
        }
        cargo_metadata::Error::Io(error) => format!("cannot start Cargo: {error}"),
        other => other.to_string(),
    };
    // rustup, which starts Cargo, has nothing but words, and these in no other language.
    let toolchain = words.strip_prefix("toolchain '").and_then(|rest| {
        let (name, rest) = rest.split_once('\'')?;
        rest.starts_with(" is not installed")
            .then(|| name.to_owned())
    });
    toolchain.map_or(AdoptError::Cargo(words), AdoptError::NoToolchain)
}

/// The versions in a lock file; none if it is not there.
fn locked(path: &Path) -> Result<BTreeMap<String, Vec<String>>, AdoptError> {
    let mut locked: BTreeMap<String, Vec<String>> = BTreeMap::new();
    if !path.is_file() {
        return Ok(locked);
    }
    let lock = Manifest::of(Text::read(path)?, None)?;
    let packages = lock.document.get("package");
    let packages = packages.and_then(|packages| packages.as_array_of_tables());
    for package in packages.into_iter().flat_map(|all| all.iter()) {
        let field = |name: &str| package.get(name)?.as_str().map(str::to_owned);
        if let (Some(name), Some(version)) = (field("name"), field("version")) {
            locked.entry(name).or_default().push(version);
        }
    }
    Ok(locked)
}
