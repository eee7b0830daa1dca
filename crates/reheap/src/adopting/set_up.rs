//! `reheap adopt`: plans the edits, makes them, and takes them back if the project does not build with them.

use super::checking::{self, Check, Checked as Outcome, Goal};
use super::choosing::{self, Checked, Wanted};
use super::options::SetUpArguments;
use super::{continuous, diff, files, meaning, repository};
use reheap_adopt::adoption::removal::{self, Removal};
use reheap_adopt::adoption::{Plan, Refusal, metadata, needed_rust, set_up, wheel};
use reheap_adopt::project::Project;
use reheap_command::env_vars;
use reheap_command::interrupt;
use reheap_command::output;
use reheap_command::ui::{self, Failure};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;

pub(crate) fn run(path: Option<&Path>, arguments: &SetUpArguments) -> anyhow::Result<ExitCode> {
    let project = super::project(path)?;
    let only = super::member(path, &project)?;
    let refused = |refusal: Refusal| choosing::of_project(&refusal);
    let removal = removal::of_project(&project).map_err(refused)?;
    let has_pieces = !removal.is_empty();
    if let Some(left) = removal.left.first() {
        let place = format!("{}:{}", super::relative(&project, &left.path), left.line);
        let text = format!("cannot change what was set up: {place}: {}", left.why);
        let hint = "see what stays: reheap adopt --undo --dry-run";
        return Err(Failure::failed(text).hint(hint).into());
    }
    if has_pieces && arguments.is_default() {
        ui::note(&format!("already set up with {}", set_up_with(&removal)));
        return Ok(ExitCode::SUCCESS);
    }
    let checked = choosing::choose(arguments, &project, only.as_deref())?;
    let names_none = arguments.allocator.allocator.is_none();
    if has_pieces && names_none && set_up_with(&removal) != checked.choice.allocator.name {
        let name = set_up_with(&removal);
        let text = format!("{name} is set up, and you name no allocator");
        let hint = format!("to keep it: -a {name}");
        return Err(Failure::usage(text).hint(hint).into());
    }
    let without_pieces = removal::of_project(&project).map_err(refused)?.plan;
    let (plan, packages) = plan(
        removal,
        &project,
        only.as_deref(),
        arguments,
        &checked.wanted,
    )?;
    if plan.changes().next().is_none() {
        ui::note(&format!(
            "already set up with {}",
            checked.choice.allocator.name
        ));
        return Ok(ExitCode::SUCCESS);
    }
    explain(&checked);
    if arguments.ci.is_some() {
        ui::note(continuous::NO_RELEASE);
    }
    if arguments.dry_run {
        let is_colourful = output::is_colourful(&io::stdout());
        ui::data(&diff::unified(&project, &plan, is_colourful))?;
        return Ok(ExitCode::SUCCESS);
    }
    let _lock = files::lock(&project.root)?;
    if !arguments.allow_dirty {
        repository::check_clean(&project, &plan, &without_pieces)?;
    }
    files::check_writable(&plan)?;
    let check = Check {
        root: project.root.clone(),
        specs: specs(&project, &packages),
        packages,
        targets: match checked.modules() {
            Some(_) => "--lib",
            None => "--bins",
        },
        feature: arguments.feature.clone(),
        is_offline: arguments.offline,
        interrupted: interrupt::on_signals()?,
    };
    let named = match &checked.wanted {
        Wanted::Crate { placement, .. } => placement.triples.as_slice(),
        Wanted::Reheap(_) => &[],
    };
    let goals = if check.packages.is_empty() {
        Vec::new()
    } else {
        checking::goals(&project.root, named, &choosing::build_targets(&project)?)?
    };
    let verified = edit(&plan, &check, &goals)?;
    ui::note(&format!("edited {}", diff::short(&project, &plan)));
    if let Wanted::Crate { packaged, .. } = &checked.wanted {
        let needs = needed_rust::of(&env_vars::cargo(), &project, &check.packages, packaged);
        needs.iter().for_each(|need| ui::note(need));
    }
    let feature = arguments.feature.as_deref();
    let feature = feature.filter(|_| !arguments.on_by_default);
    ui::beside(&meaning::of(&checked, &project, &check, feature, &verified));
    Ok(ExitCode::SUCCESS)
}

fn specs(project: &Project, packages: &[String]) -> Vec<String> {
    let members = project.packages.iter();
    let members = members.filter(|member| packages.contains(&member.name));
    members
        .map(|member| format!("{}@{}", member.name, member.version))
        .collect()
}

/// Says what somebody would wonder about who named less, or something else.
fn explain(checked: &Checked) {
    if let Some(reason) = &checked.reason {
        let style = meaning::style(&checked.wanted);
        ui::note(&format!("--with {style}, because {reason}"));
    }
    if let Wanted::Crate { placement, .. } = &checked.wanted
        && let twins = placement.twins()
        && !twins.is_empty()
    {
        let text = format!("the condition also holds on {}", twins.join(", "));
        ui::note(&format!(
            "{text}, which code cannot tell from the targets that you named"
        ));
    }
}

fn set_up_with(removal: &Removal) -> String {
    let of_packages = removal.packages.iter().map(|(row, _)| row.allocator);
    let of_metadata = removal.metadata.as_deref();
    let mut names: Vec<&str> = of_packages.chain(of_metadata).collect();
    names.dedup();
    names.join(" and ")
}

/// The plan, and the packages whose programs it changes.
fn plan(
    removal: Removal,
    project: &Project,
    only: Option<&str>,
    arguments: &SetUpArguments,
    wanted: &Wanted,
) -> anyhow::Result<(Plan, Vec<String>)> {
    let mut plan = removal.plan;
    let refused = |refusal: Refusal| choosing::of_project(&refusal);
    match wanted {
        Wanted::Reheap(chosen) => {
            metadata::plan(&mut plan, project, only, chosen).map_err(refused)?;
            let places = set_up::programs(project, only);
            continuous::add(&mut plan, project, arguments, wanted, &places)?;
            Ok((plan, Vec::new()))
        }
        Wanted::Crate {
            packaged,
            placement,
            modules,
        } => {
            let mut versions = removal.packages.into_iter();
            let version = versions.find(|(row, _)| row.package == packaged.package);
            let how = set_up::Wanted {
                packaged,
                version: version.map(|(_, version)| version),
                placement,
                feature: arguments.feature.as_deref(),
                is_on_by_default: arguments.on_by_default,
                is_for_modules: modules.is_some(),
            };
            let places = match modules {
                Some(_) => wheel::places(project, only),
                None => set_up::programs(project, only),
            };
            set_up::plan(&mut plan, project, &places, &how).map_err(refused)?;
            continuous::add(&mut plan, project, arguments, wanted, &places)?;
            let names = places.iter().map(|place| place.package.name.clone());
            Ok((plan, names.collect()))
        }
    }
}

/// Makes the edits, and gives the targets for which the project was checked with them.
fn edit(plan: &Plan, check: &Check, goals: &[Goal]) -> anyhow::Result<Vec<String>> {
    let lock = Lock::of(&check.root)?;
    files::write(plan)?;
    let result = verify(plan, check, goals, &lock);
    let is_interrupted = check.interrupted.load(Ordering::SeqCst);
    if result.is_err() || is_interrupted {
        files::restore(plan)?;
        lock.restore()?;
    }
    if is_interrupted {
        Err(interrupt::failure("interrupted; the project is as it was").into())
    } else {
        result
    }
}

fn verify(plan: &Plan, check: &Check, goals: &[Goal], lock: &Lock) -> anyhow::Result<Vec<String>> {
    let mut verified = Vec::new();
    let mut broken = None;
    for goal in goals {
        let target = &goal.triple;
        match check.run(goal)? {
            Outcome::Passed => verified.push(target.clone()),
            Outcome::NoCompiler(tool) if !goal.has_to_work => {
                let text = format!(
                    "{target} is not checked: there is no {} here",
                    compiler(&tool)
                );
                ui::note(&format!(
                    "{text}, with which the allocator would be built for it"
                ));
            }
            Outcome::Failed {
                compiler: Some(tool),
                ..
            } if !goal.has_to_work => {
                ui::note(&format!(
                    "{target} is not checked: the {} fails for it",
                    compiler(&tool)
                ));
            }
            outcome => {
                let words = ask_before(plan, check, lock, goal, outcome)?;
                broken.get_or_insert(words);
            }
        }
    }
    match broken {
        // Whatever the change breaks, nobody would see it.
        Some(words) if verified.is_empty() => {
            ui::beside(&words);
            let text = "`cargo check` fails without the change, too, so the change cannot be checked; the project is as it was";
            let hint = "make the project build first; `--with reheap` needs no check";
            Err(Failure::failed(text).hint(hint).into())
        }
        _ => Ok(verified),
    }
}

/// Finds out whether a check that failed also fails without the edit, and how. Then that is no reason to take it back.
fn ask_before(
    plan: &Plan,
    check: &Check,
    lock: &Lock,
    goal: &Goal,
    outcome: Outcome,
) -> anyhow::Result<String> {
    let target = &goal.triple;
    let edited_lock = Lock::of(&check.root)?;
    files::restore(plan)?;
    lock.restore()?;
    let words = match check.run_without_change(goal)? {
        Outcome::Passed => return Err(because_of_the_change(target, outcome)),
        Outcome::Failed { words, .. } => words,
        Outcome::NoCompiler(tool) => format!("there is no {} here\n", compiler(&tool)),
    };
    let text = format!("`cargo check` for {target} fails without the change, too");
    ui::note(&format!("{text}, so that target is not checked"));
    files::write(plan)?;
    edited_lock.restore()?;
    Ok(words)
}

fn compiler(tool: &str) -> String {
    let language = if tool.ends_with("++") { "C++" } else { "C" };
    format!("{language} compiler `{tool}`")
}

fn because_of_the_change(target: &str, outcome: Outcome) -> anyhow::Error {
    let text =
        format!("`cargo check` for {target} fails with the change; the project is as it was");
    let hint = match outcome {
        Outcome::NoCompiler(tool) => {
            format!("install the {}, or use `--with reheap`", compiler(&tool))
        }
        Outcome::Failed { words, .. } => {
            ui::beside(&words);
            "use `--with reheap`, which needs no dependency".to_owned()
        }
        Outcome::Passed => unreachable!("the check of {target} passed"),
    };
    Failure::failed(text).hint(hint).into()
}

/// `Cargo.lock` as it was: Cargo writes it.
struct Lock {
    path: PathBuf,
    contents: Option<String>,
}

impl Lock {
    fn of(root: &Path) -> anyhow::Result<Self> {
        let path = root.join("Cargo.lock");
        let contents = match fs::read_to_string(&path) {
            Ok(contents) => Some(contents),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error.into()),
        };
        Ok(Self { path, contents })
    }

    fn restore(&self) -> anyhow::Result<()> {
        let now = Self::of(self.path.parent().unwrap_or(Path::new(".")))?;
        if now.contents == self.contents {
            Ok(())
        } else {
            files::write_one(&self.path, self.contents.as_deref())
        }
    }
}
