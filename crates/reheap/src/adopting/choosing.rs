//! Which style a project gets, and which allocator in it: what the user asks for, checked.

use super::options::{SetUpArguments, Style};
use reheap_adopt::adoption::metadata::Chosen;
use reheap_adopt::adoption::packages::{self, Packaged};
use reheap_adopt::adoption::placement::{DEFAULT, Placement};
use reheap_adopt::adoption::{Refusal, wheel};
use reheap_adopt::crates;
use reheap_adopt::project::Project;
use reheap_command::choice::Choice;
use reheap_command::ui::Failure;
use std::collections::HashSet;

/// Where modules get an allocator if nobody names targets.
const DEFAULT_OF_MODULES: &str = "cfg(target_os = \"linux\")";

/// What is set up.
pub(super) enum Wanted {
    /// A `#[global_allocator]` in the sources.
    Crate {
        packaged: &'static Packaged,
        placement: Placement,
        /// Only in modules of Python and Node.
        modules: Option<Modules>,
    },
    /// A choice in Cargo.toml, for `cargo reheap`.
    Reheap(Chosen),
}

/// What modules need, and what that means.
pub(super) struct Modules {
    pub(super) notes: Vec<String>,
    /// Variables for `[env]` in Cargo's configuration.
    pub(super) environment: Vec<(String, String)>,
}

/// A checked choice, and why it is this style if nobody named one.
pub(super) struct Checked {
    pub(super) wanted: Wanted,
    pub(super) choice: Choice,
    pub(super) reason: Option<String>,
}

impl Checked {
    /// What modules need, if it is for modules.
    pub(super) fn modules(&self) -> Option<&Modules> {
        match &self.wanted {
            Wanted::Crate { modules, .. } => modules.as_ref(),
            Wanted::Reheap(_) => None,
        }
    }
}

impl SetUpArguments {
    /// Whether nothing was asked for but to set up a project somehow.
    pub(crate) fn is_default(&self) -> bool {
        let allocator = &self.allocator;
        allocator.allocator.is_none()
            && allocator.tuning.options.is_empty()
            && self.style.is_none()
            && self.targets.is_none()
            && self.stack_size.is_none()
            && self.feature.is_none()
            && !self.wheel
            && self.ci.is_none()
    }
}

/// Checks what the user asks for.
pub(super) fn choose(
    arguments: &SetUpArguments,
    project: &Project,
    only: Option<&str>,
) -> anyhow::Result<Checked> {
    let choice = arguments.allocator.check()?;
    arguments.feature.as_deref().map_or(Ok(()), check_feature)?;
    let placement = arguments.targets.as_deref().map(Placement::parse);
    let placement = placement.transpose().map_err(|error| of_usage(&error))?;
    let (style, reason) = match arguments.style {
        Some(Style::Reheap) if arguments.wheel => {
            let text =
                "`--with reheap` is for static executables, and modules are shared libraries";
            return Err(Failure::usage(text).hint("leave out --with").into());
        }
        Some(style) => (style, None),
        None if arguments.wheel => (Style::Crate, None),
        None => {
            let (style, reason) = default_style(arguments, placement.as_ref(), project)?;
            (style, Some(reason))
        }
    };
    let wanted = match style {
        Style::Crate if arguments.wheel => {
            let wanted = in_crate(arguments, &choice, placement)?;
            in_modules(wanted, project, only, arguments.feature.as_deref())?
        }
        Style::Crate => in_crate(arguments, &choice, placement)?,
        Style::Reheap => for_reheap(arguments, &choice, placement)?,
    };
    Ok(Checked {
        wanted,
        choice,
        reason,
    })
}

/// Refuses what is no name of a feature (the Cargo book, "Features"), and what has another meaning.
fn check_feature(name: &str) -> anyhow::Result<()> {
    let mut characters = name.chars();
    let is_first = |character: char| character.is_alphanumeric() || character == '_';
    let is_next = |character: char| is_first(character) || "-+.".contains(character);
    if !characters.next().is_some_and(is_first) || !characters.all(is_next) {
        let text = format!("`{name}` is no name of a feature");
        let hint = "use letters, digits, `_` and `-`, such as --feature fast-allocator";
        return Err(Failure::usage(text).hint(hint).into());
    }
    if name == "default" {
        let text = "`default` names the features that are on by default";
        let hint = "--feature NAME --on-by-default adds one to them";
        return Err(Failure::usage(text).hint(hint).into());
    }
    Ok(())
}

fn default_style(
    arguments: &SetUpArguments,
    placement: Option<&Placement>,
    project: &Project,
) -> anyhow::Result<(Style, String)> {
    if arguments.feature.is_some() {
        let reason = "only sources know features";
        return Ok((Style::Crate, reason.to_owned()));
    }
    let is_musl = |triples: &[String]| {
        !triples.is_empty() && triples.iter().all(|triple| triple.contains("-musl"))
    };
    if placement.is_some_and(|placement| is_musl(&placement.triples)) {
        let reason = "--targets names targets with musl only, and `cargo reheap` needs no dependency for these";
        return Ok((Style::Reheap, reason.to_owned()));
    }
    let built_for = build_targets(project)?;
    if placement.is_none() && is_musl(&built_for) {
        let reason = format!(
            "Cargo's configuration builds for {} only, and `cargo reheap` needs no dependency there",
            built_for.join(", ")
        );
        return Ok((Style::Reheap, reason));
    }
    let reason = "everybody who builds the programs gets it, with plain `cargo build`";
    Ok((Style::Crate, reason.to_owned()))
}

/// The triples that Cargo's configuration builds for.
pub(super) fn build_targets(project: &Project) -> anyhow::Result<Vec<String>> {
    let configured = cargo_config2::Config::load_with_cwd(&project.root).map_err(|error| {
        Failure::failed(format!("cannot read the configuration of Cargo: {error}"))
    })?;
    let targets = configured.build.target.iter().flatten();
    Ok(targets.map(|target| target.triple().to_owned()).collect())
}

fn in_crate(
    arguments: &SetUpArguments,
    choice: &Choice,
    placement: Option<Placement>,
) -> anyhow::Result<Wanted> {
    let name = choice.allocator.name;
    if !choice.tuning.is_empty() {
        let text = "`-t` works only with `--with reheap`: a crate has no options to build in";
        let hint = match name {
            "jemalloc" => "set _RJEM_MALLOC_CONF when the program runs, or use `--with reheap`",
            _ if name.starts_with("mimalloc") => {
                "set MIMALLOC_… variables when the program runs, or use `--with reheap`"
            }
            _ => "use `--with reheap`",
        };
        return Err(Failure::usage(text).hint(hint).into());
    }
    if arguments.stack_size.is_some() {
        let text = "`--stack-size` works only with `--with reheap`";
        return Err(Failure::usage(text).into());
    }
    if choice.is_stock() {
        let text = "`stock` is what programs have without a global allocator";
        let hint = "to take out what was set up: reheap adopt --undo";
        return Err(Failure::usage(text).hint(hint).into());
    }
    let Some(packaged) = packages::find(name) else {
        let known: Vec<&str> = packages::all().map(|packaged| packaged.allocator).collect();
        let text = format!("adopt has no crate that brings {name} for a #[global_allocator]");
        let hint = format!("use `--with reheap`, or one of {}", known.join(", "));
        return Err(Failure::usage(text).hint(hint).into());
    };
    let placement = match placement {
        Some(placement) => placement,
        None => {
            let default = if arguments.wheel {
                DEFAULT_OF_MODULES
            } else {
                DEFAULT
            };
            Placement::parse(default).map_err(|error| of_usage(&error))?
        }
    };
    Ok(Wanted::Crate {
        packaged,
        placement,
        modules: None,
    })
}

/// Restricts what is wanted to modules of Python and Node, with what they need.
fn in_modules(
    wanted: Wanted,
    project: &Project,
    only: Option<&str>,
    feature: Option<&str>,
) -> anyhow::Result<Wanted> {
    let Wanted::Crate {
        packaged,
        mut placement,
        ..
    } = wanted
    else {
        return Ok(wanted);
    };
    if packaged.features_of_modules.is_none() {
        let name = packaged.allocator;
        let text = format!("{name} is known to crash in libraries that are loaded later");
        let others = packages::all().filter(|packaged| packaged.features_of_modules.is_some());
        let others: Vec<&str> = others.map(|packaged| packaged.allocator).collect();
        let hint = format!("use one of {}", others.join(", "));
        return Err(Failure::usage(text).hint(hint).into());
    }
    let modules = wheel::modules(project);
    let modules = modules
        .iter()
        .filter(|member| only.is_none_or(|name| member.package.name == name));
    let row = crates::find(packaged.package);
    let mut all: Option<Modules> = None;
    for module in modules {
        let needs = row.and_then(|row| module.needs(row, project.repository(), feature));
        let Some(needs) = needs else {
            let name = packaged.allocator;
            let text = format!("{name} cannot be loaded into a program that runs already");
            let hint = "use one of mimalloc, jemalloc, snmalloc";
            return Err(Failure::usage(text).hint(hint).into());
        };
        placement.condition = needs.condition(&placement.condition);
        let all = all.get_or_insert(Modules {
            notes: Vec::new(),
            environment: needs.environment,
        });
        all.notes.extend(needs.notes);
    }
    let Some(mut all) = all else {
        let text = "there is no module of Python or Node in this project: no `cdylib` that uses PyO3, napi or neon";
        return Err(Failure::failed(text)
            .hint("for programs, leave out --wheel")
            .into());
    };
    let mut seen = HashSet::new();
    all.notes.retain(|note| seen.insert(note.clone()));
    Ok(Wanted::Crate {
        packaged,
        placement,
        modules: Some(all),
    })
}

fn for_reheap(
    arguments: &SetUpArguments,
    choice: &Choice,
    placement: Option<Placement>,
) -> anyhow::Result<Wanted> {
    if arguments.feature.is_some() {
        let text = "`--feature` works only with `--with crate`";
        return Err(Failure::usage(text).into());
    }
    let targets = placement.map(|placement| placement.triples);
    if targets.as_ref().is_some_and(Vec::is_empty) {
        let text = "`--with reheap` needs triples for --targets";
        let hint = "such as --targets x86_64-unknown-linux-musl";
        return Err(Failure::usage(text).hint(hint).into());
    }
    for triple in targets.iter().flatten() {
        reheap_command::choice::musl_target(Some(triple))?;
    }
    Ok(Wanted::Reheap(Chosen {
        allocator: choice.allocator.name.to_owned(),
        tuning: choice.tuning.as_given().into_iter().collect(),
        stack_size: arguments.stack_size,
        targets: targets.unwrap_or_default(),
    }))
}

/// What the user cannot have meant.
pub(super) fn of_usage(refusal: &Refusal) -> anyhow::Error {
    with_hint(Failure::usage(refusal.what.clone()), refusal)
}

/// What cannot be done with this project.
pub(super) fn of_project(refusal: &Refusal) -> anyhow::Error {
    with_hint(Failure::failed(refusal.what.clone()), refusal)
}

fn with_hint(failure: Failure, refusal: &Refusal) -> anyhow::Error {
    match &refusal.hint {
        Some(hint) => failure.hint(hint.clone()).into(),
        None => failure.into(),
    }
}
