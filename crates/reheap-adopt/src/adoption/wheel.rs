//! Shared libraries that Python or Node loads: which ones a project has, and what an allocator needs in them.
//!
//! A running program has little room for the thread-local storage of libraries that it loads later: with glibc for about
//! a dozen that insist on the fast kind ("initial-exec"), and the next one fails with "cannot allocate memory in static
//! TLS block"; musl refuses the first one. So an allocator needs the feature of its package that chooses another kind.

use super::set_up::Place;
use crate::condition::Condition;
use crate::crates::AllocatorCrate;
use crate::manifest::Kind as For;
use crate::project::{Kind, Package, Project, Target};
use crate::workflows::targets::without_comments;
use crate::workflows::{Kind as FileKind, Repository};
use toml_edit::Document;

/// Who loads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// Python, by PyO3 or maturin.
    Python,
    /// Node, by napi-rs or Neon.
    Node,
}

/// A shared library that is a module of another language.
#[derive(Debug, Clone, Copy)]
pub struct Module<'a> {
    /// The member of the workspace.
    pub package: &'a Package,
    /// Its library. The global allocator belongs into the file that it begins with.
    pub target: &'a Target,
    /// Who loads it.
    pub language: Language,
}

/// Where modules get an allocator: those of the named member, or all.
pub fn places<'a>(project: &'a Project, only: Option<&str>) -> Vec<Place<'a>> {
    let modules = modules(project)
        .into_iter()
        .filter(|module| only.is_none_or(|name| module.package.name == name));
    let places = modules.map(|module| Place {
        package: module.package,
        targets: vec![module.target],
    });
    places.collect()
}

/// What an allocator needs in such a library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needs {
    /// The feature of its package.
    pub feature: &'static str,
    /// Where it cannot be compiled as this project builds its modules; the inside of `cfg(…)`.
    pub except: Option<&'static str>,
    /// Variables for `[env]` in `.cargo/config.toml`, or for the workflow.
    pub environment: Vec<(String, String)>,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// The packages by which code becomes a module.
const BINDINGS: [(&str, Language); 7] = [
    ("pyo3", Language::Python),
    ("pyo3-ffi", Language::Python),
    ("cpython", Language::Python),
    ("napi", Language::Node),
    ("napi-derive", Language::Node),
    ("neon", Language::Node),
    ("node-bindgen", Language::Node),
];
/// The wheels that an old GCC compiles, which has no C11 atomics. mimalloc's sources need these (its issue 443).
const OLD_GCC: &str = "all(target_os = \"linux\", target_arch = \"aarch64\", target_env = \"gnu\")";
/// It is put behind the flags that a user sets for all targets, so it wins.
const NO_DATE_ERROR: &str = "-Wno-error=date-time";

/// The modules of a project.
pub fn modules(project: &Project) -> Vec<Module<'_>> {
    let of_package = |package| module(package, project.repository());
    project.packages.iter().filter_map(of_package).collect()
}

fn module<'a>(package: &'a Package, repository: &Repository) -> Option<Module<'a>> {
    let target = package.targets.iter().find(|target| {
        matches!(
            target.kind,
            Kind::ForeignLibrary { is_shared: true } | Kind::Library { is_shared: true }
        )
    })?;
    let mut dependencies = package.manifest.dependencies.iter();
    let by_dependency = dependencies.find_map(|dependency| {
        let known = BINDINGS
            .iter()
            .find(|(name, _)| *name == dependency.package);
        known.filter(|_| dependency.kind == For::Normal)
    });
    let language = match by_dependency {
        Some((_, language)) => *language,
        None => by_file(package, repository)?,
    };
    Some(Module {
        package,
        target,
        language,
    })
}

/// By `[tool.maturin]` in pyproject.toml, or `napi` in package.json, beside the manifest.
fn by_file(package: &Package, repository: &Repository) -> Option<Language> {
    let contents = |name: &str| {
        let path = package.directory.join(name);
        let mut files = repository.files.iter();
        files.find_map(|file| (file.text.path == path).then_some(&file.text.contents))
    };
    let is_of_maturin = |text: &String| {
        let document = Document::parse(text.as_str()).ok();
        document.is_some_and(|document| {
            document
                .get("tool")
                .is_some_and(|tool| tool.get("maturin").is_some())
        })
    };
    if contents("pyproject.toml").is_some_and(is_of_maturin) {
        return Some(Language::Python);
    }
    let is_of_napi = |text: &String| text.contains("\"napi\"") || text.contains("\"@napi-rs/cli\"");
    contents("package.json")
        .is_some_and(is_of_napi)
        .then_some(Language::Node)
}

impl Module<'_> {
    /// What the allocator of that package needs; nothing if it cannot be loaded into a running program.
    /// With a feature, only builds with that feature have it.
    pub fn needs(
        &self,
        allocator: &AllocatorCrate,
        repository: &Repository,
        of_feature: Option<&str>,
    ) -> Option<Needs> {
        let feature = allocator.late_tls?;
        let mut needs = Needs {
            feature,
            except: None,
            environment: Vec::new(),
            notes: self.meaning(allocator, of_feature),
        };
        let is_mimalloc = allocator.allocator.starts_with("mimalloc");
        if is_mimalloc && has_old_gcc(repository) {
            needs.except = Some(OLD_GCC);
            needs.notes.push(
                "manylinux2014 for AArch64 has GCC 4.8, which cannot compile mimalloc, so these wheels keep the \
                 system's allocator; with `--zig`, or with manylinux 2_28, they can have it, too"
                    .to_owned(),
            );
        }
        if is_mimalloc && says(repository, "-Werror=date-time") {
            needs.environment = no_date_errors();
        }
        if allocator.allocator == "jemalloc" {
            let variable = "JEMALLOC_SYS_WITH_LG_PAGE".to_owned();
            needs.environment.push((variable, "16".to_owned()));
            needs.notes.push(
                "jemalloc fixes the size of pages when it is built; with JEMALLOC_SYS_WITH_LG_PAGE=16 it also runs on \
                 AArch64 machines with pages of 16 or 64 KiB"
                    .to_owned(),
            );
        }
        // maturin turns it off by itself.
        if self.language == Language::Node && !says(repository, "-crt-static") {
            needs.notes.push(
                "for musl, Cargo makes a shared library only without the static C runtime: put `rustflags = [\"-C\", \
                 \"target-feature=-crt-static\"]` into `[target.x86_64-unknown-linux-musl]` of `.cargo/config.toml`"
                    .to_owned(),
            );
        }
        Some(needs)
    }

    /// Which heap has what.
    fn meaning(&self, allocator: &AllocatorCrate, of_feature: Option<&str>) -> Vec<String> {
        let name = allocator.allocator;
        let mut notes = vec![match self.language {
            Language::Python => format!(
                "{name} serves the Rust code of `{}`; objects of Python, such as str and bytes, stay in Python's own heap, \
                 also those that Rust code makes",
                self.target.name
            ),
            Language::Node => format!(
                "{name} serves the Rust code of `{}`; objects of JavaScript stay in V8's heap, also those that Rust code \
                 makes",
                self.target.name
            ),
        }];
        notes.push(format!(
            "C code in the module keeps the system's malloc: what it allocates must not be freed as a Box or Vec, and the \
             other way round; each module has a heap of its own, so measure the memory of a process that loads several \
             with {name}"
        ));
        if matches!(self.target.kind, Kind::Library { .. }) {
            let library = format!("`{}` is also a library for Rust code", self.target.name);
            notes.push(match of_feature {
                Some(feature) => format!(
                    "{library}: programs that link it with the feature `{feature}` get {name}, too, and cannot choose \
                     another one"
                ),
                None => format!(
                    "{library}: programs that link it get {name}, too, and cannot choose another one; take `rlib` and \
                     `lib` out of its crate-type, or put the allocator under a feature (--feature NAME)"
                ),
            });
        }
        notes
    }
}

impl Needs {
    /// On which targets the module gets its allocator, of those that were asked for.
    #[must_use]
    pub fn condition(&self, asked: &Condition) -> Condition {
        match self.except {
            Some(except) => asked.and(&Condition::Not(Box::new(Condition::of_cfg(except)))),
            None => asked.clone(),
        }
    }
}

/// For all targets whose C compiler knows the warning.
fn no_date_errors() -> Vec<(String, String)> {
    let targets = ["x86_64", "aarch64"].iter().flat_map(|processor| {
        ["gnu", "musl"].map(|libc| format!("CFLAGS_{processor}_unknown_linux_{libc}"))
    });
    targets
        .map(|name| (name, NO_DATE_ERROR.to_owned()))
        .collect()
}

/// Whether a workflow makes wheels for AArch64 in the image of manylinux2014, with the compiler of that image.
fn has_old_gcc(repository: &Repository) -> bool {
    let mut workflows = repository.of_kinds(&[FileKind::Ci]);
    workflows.any(|file| {
        let text = without_comments(&file.text.contents).to_lowercase();
        let is_old = [
            "manylinux2014",
            "manylinux_2_17",
            "manylinux: auto",
            "manylinux: 2014",
            "manylinux: \"2014\"",
            "manylinux: '2014'",
        ];
        let is_for_arm = text.contains("aarch64") || text.contains("arm64");
        is_for_arm && is_old.iter().any(|name| text.contains(name)) && !text.contains("zig")
    })
}

fn says(repository: &Repository, what: &str) -> bool {
    let mut files = repository.files.iter();
    files.any(|file| without_comments(&file.text.contents).contains(what))
}
