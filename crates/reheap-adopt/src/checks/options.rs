//! Options that have no effect: jemalloc reads a variable and a symbol with a prefix unless it replaces malloc, and
//! allocators read their options before `main`.

use crate::crates;
use crate::files::{self, Role};
use crate::finding::{Finding, Rule};
use crate::manifest::{Dependency, Kind};
use crate::project::{Package, Project, Target};
use crate::sources::settings::{Setting, What};
use std::path::PathBuf;

const PLAIN: &str = "MALLOC_CONF";

/// How a project's jemalloc names what it reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Prefix {
    /// `_RJEM_MALLOC_CONF`, `_rjem_malloc_conf`
    Rust,
    /// `MALLOC_CONF`, `malloc_conf`
    None,
}

impl Prefix {
    /// If the project has a jemalloc, and it is clear.
    fn of(project: &Project) -> Option<Self> {
        let all = || project.packages.iter().flat_map(jemallocs);
        all().next()?;
        let texts = project
            .packages
            .iter()
            .map(|package| &package.manifest.text.contents);
        let mentions = |name: &str| {
            let mut texts = texts.clone().chain([&project.manifest.text.contents]);
            texts.any(|text| text.contains(name))
        };
        let overrides = || all().flat_map(|(_, row)| row.overrides.iter());
        let is_always = |(dependency, row): (&Dependency, &crates::AllocatorCrate)| {
            let mut overrides = row.overrides.iter();
            overrides.any(|name| dependency.features.iter().any(|own| own == name))
        };
        if !overrides().any(|name| mentions(name)) {
            Some(Self::Rust)
        } else if all().all(is_always) {
            Some(Self::None)
        } else {
            None
        }
    }

    fn variable(self) -> &'static str {
        match self {
            Self::Rust => "_RJEM_MALLOC_CONF",
            Self::None => PLAIN,
        }
    }

    fn symbol(self) -> &'static str {
        match self {
            Self::Rust => "_rjem_malloc_conf",
            Self::None => "malloc_conf",
        }
    }
}

/// The dependencies on a jemalloc whose names have a prefix.
fn jemallocs(
    package: &Package,
) -> impl Iterator<Item = (&Dependency, &'static crates::AllocatorCrate)> {
    let dependencies = package.manifest.dependencies.iter();
    dependencies.filter_map(|dependency| {
        let row = crates::find(&dependency.package).filter(|row| row.prefix.is_some())?;
        (dependency.kind == Kind::Normal).then_some((dependency, row))
    })
}

/// What the wrong name is not read by.
pub(crate) fn ignored(project: &Project, files: &[PathBuf]) -> Vec<Finding> {
    let Some(prefix) = Prefix::of(project) else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    if prefix == Prefix::Rust {
        for path in files {
            let is_for_programs = matches!(files::role(path), Some(Role::Builds | Role::Runs));
            let path = project.root.join(path);
            let Some(text) = files::text(&path).filter(|_| is_for_programs) else {
                continue;
            };
            // There, another jemalloc reads it.
            if text.contents.contains("libjemalloc") {
                continue;
            }
            let lines = text.contents.lines().enumerate();
            let wrong = lines.filter(|(_, line)| sets_plain(line));
            findings.extend(wrong.map(|(index, _)| Finding {
                path: path.clone(),
                line: index + 1,
                rule: Rule::IgnoredVariable,
                what: format!("this jemalloc does not read `{PLAIN}`: its names have a prefix"),
                fix: format!("write `{}`", prefix.variable()),
            }));
        }
    }
    findings.extend(
        project
            .packages
            .iter()
            .flat_map(|package| symbols(package, prefix)),
    );
    findings
}

/// Whether a line of a script or configuration gives the variable a value.
fn sets_plain(line: &str) -> bool {
    let line = line.trim_start();
    let is_comment = ["#", "//", "<!--"]
        .iter()
        .any(|start| line.starts_with(start));
    !is_comment && files::has_word(line, PLAIN)
}

fn symbols(package: &Package, prefix: Prefix) -> Vec<Finding> {
    let uses_it = jemallocs(package).next().is_some();
    let settings = || settings(package).map(|(_, setting)| setting);
    let symbol = |setting: &Setting| match &setting.what {
        What::Symbol(name) => Some(name.clone()),
        What::Variable(_) => None,
    };
    let is_right = |setting: &Setting| symbol(setting).as_deref() == Some(prefix.symbol());
    // Many set both, because macOS always has the prefix.
    if !uses_it || settings().any(is_right) {
        return Vec::new();
    }
    let wrong = settings().filter_map(|setting| Some((setting, symbol(setting)?)));
    wrong
        .map(|(setting, name)| Finding {
            path: setting.path.clone(),
            line: setting.line,
            rule: Rule::IgnoredVariable,
            what: format!("this jemalloc does not read the symbol `{name}`"),
            fix: format!("export it as `{}`", prefix.symbol()),
        })
        .collect()
}

/// What a program sets after its allocator looked.
pub(crate) fn late(package: &Package) -> Vec<Finding> {
    let brings = |allocator: &str| {
        let mut dependencies = package.manifest.dependencies.iter();
        dependencies.any(|dependency| {
            crates::find(&dependency.package).is_some_and(|row| row.allocator == allocator)
        })
    };
    let (has_mimalloc, has_jemalloc) = (brings("mimalloc"), brings("jemalloc"));
    let late = settings(package).filter_map(|(target, setting)| match &setting.what {
        What::Variable(name) => {
            let is_read = if name.starts_with("MIMALLOC_") {
                has_mimalloc
            } else {
                has_jemalloc
            };
            // A program that starts itself again, or another one, sets it for that.
            let names = &target.sources.identifiers;
            let is_for_another = names.contains("exec") || names.contains("current_exe");
            (is_read && !is_for_another).then_some((setting, name))
        }
        What::Symbol(_) => None,
    });
    late.map(|(setting, name)| Finding {
        path: setting.path.clone(),
        line: setting.line,
        rule: Rule::LateOptions,
        what: format!("`{name}` is set too late: the allocator reads it before `main`"),
        fix: if name.starts_with("MIMALLOC_") {
            format!("set `{name}` where the program is started")
        } else {
            "set it where the program is started, or export a static with the options".to_owned()
        },
    })
    .collect()
}

fn settings(package: &Package) -> impl Iterator<Item = (&Target, &Setting)> {
    let targets = package.targets.iter().filter(|target| target.chooses());
    targets.flat_map(|target| {
        target
            .sources
            .settings
            .iter()
            .map(move |setting| (target, setting))
    })
}
