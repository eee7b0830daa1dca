//! The style `crate`: a `#[global_allocator]` in each program, or in modules of Python and Node, and one dependency, under
//! the same condition.

use super::packages::Packaged;
use super::placement::Placement;
use super::{Plan, Refusal, manifests, required, statics};
use crate::crates;
use crate::linked::Linked;
use crate::manifest::{Kind as For, Manifest};
use crate::project::{Kind, Package, Project, Target};
use crate::sources::{self, GlobalAllocator};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// What to set up.
#[derive(Debug)]
pub struct Wanted<'a> {
    /// The package that brings the allocator.
    pub packaged: &'static Packaged,
    /// Its version, if an older set-up had another one.
    pub version: Option<String>,
    /// On which targets.
    pub placement: &'a Placement,
    /// Only with this feature.
    pub feature: Option<&'a str>,
    /// Whether that feature is on by default.
    pub is_on_by_default: bool,
    /// Whether it is for libraries that running programs load.
    pub is_for_modules: bool,
}

/// A member of the workspace, and what of it gets the allocator.
#[derive(Debug)]
pub struct Place<'a> {
    /// The member.
    pub package: &'a Package,
    /// Its programs, or its library that is a module.
    pub targets: Vec<&'a Target>,
}

/// The programs of the named member, or of those that Cargo builds if nobody names any.
pub fn programs<'a>(project: &'a Project, only: Option<&str>) -> Vec<Place<'a>> {
    let places = project.packages.iter().map(|package| Place {
        package,
        targets: package.programs().collect(),
    });
    let chosen = places.filter(|place| {
        let is_named = match only {
            Some(name) => place.package.name == name,
            None => place.package.is_default,
        };
        is_named && !place.targets.is_empty()
    });
    chosen.collect()
}

/// Plans it, for all programs or none.
///
/// # Errors
/// If there is no program, or one cannot get the allocator; the place is in the message.
pub fn plan(
    plan: &mut Plan,
    project: &Project,
    places: &[Place<'_>],
    wanted: &Wanted<'_>,
) -> Result<(), Refusal> {
    if places.is_empty() {
        let what = "there is no program here, and libraries leave the choice to programs";
        let mut packages = project.packages.iter();
        let with_programs = packages.find(|package| package.programs().next().is_some());
        let hint = match with_programs {
            Some(package) => {
                let directory = relative(project, &package.directory);
                format!("name a package with a program, such as `{directory}`")
            }
            None => "for a module of Python or Node: reheap adopt --wheel".to_owned(),
        };
        return Err(Refusal::new(what).hint(hint));
    }
    for place in places {
        check_package(plan, project, place, wanted)?;
    }
    let mut done = BTreeSet::new();
    for target in places.iter().flat_map(|place| &place.targets) {
        let real = fs::canonicalize(&target.root).unwrap_or_else(|_| target.root.clone());
        if done.insert(real) {
            add_static(plan, target, wanted)?;
        }
    }
    let is_shared = share(plan, project, wanted)?;
    for place in places {
        add_dependency(plan, place, wanted, is_shared)?;
    }
    undone(plan)
}

/// Refuses a plan that could not be undone to the byte.
fn undone(plan: &Plan) -> Result<(), Refusal> {
    for change in plan.changes() {
        // A workflow that goes, or is made, as a whole.
        if change.before.is_none() || change.after.is_none() {
            continue;
        }
        let path = change.path.display();
        let before = change.before.as_deref().unwrap_or_default();
        if !super::removal::gives_back(&change.path, change.after.as_deref(), before)? {
            let what = format!("cannot edit `{path}` in a way that could be undone to the byte");
            return Err(Refusal::new(what));
        }
    }
    Ok(())
}

fn check_package(
    plan: &mut Plan,
    project: &Project,
    place: &Place<'_>,
    wanted: &Wanted<'_>,
) -> Result<(), Refusal> {
    let package = place.package;
    for target in &package.targets {
        let is_library = matches!(
            target.kind,
            Kind::Library { .. } | Kind::ForeignLibrary { .. }
        );
        let gets_it = place.targets.iter().any(|other| other.root == target.root);
        if gets_it && is_library && !wanted.is_for_modules {
            let file = relative(project, &target.root);
            let what = format!(
                "`{file}` is the source of a library, too, and libraries leave the choice to programs"
            );
            return Err(Refusal::new(what).hint("give each a file of its own"));
        }
        if gets_it || target.kind == Kind::Program || is_library {
            check_target(plan, project, target, gets_it)?;
        }
    }
    for target in &place.targets {
        check_linked(plan, project, package, target)?;
    }
    let manifest = package.manifest.text.path.clone();
    let relative = relative(project, &manifest);
    let own = Manifest::of(plan.text(&manifest)?, Some(&project.manifest))?;
    for dependency in own
        .dependencies
        .iter()
        .filter(|dependency| dependency.kind == For::Normal)
    {
        let Some(known) = crates::find(&dependency.package) else {
            continue;
        };
        if known.type_name.is_none() || dependency.package == wanted.packaged.package {
            let what = format!(
                "`{relative}`, line {}, depends on `{}` already",
                dependency.line, dependency.package
            );
            return Err(Refusal::new(what).hint("see what it is used for: reheap adopt --check"));
        }
    }
    let has_feature = |name: &str| own.features.names().any(|feature| feature == name);
    if let Some(name) = wanted.feature.filter(|name| has_feature(name)) {
        let what = format!("`{relative}` has a feature `{name}` already");
        return Err(Refusal::new(what).hint("choose another name for --feature"));
    }
    Ok(())
}

fn check_target(
    plan: &mut Plan,
    project: &Project,
    target: &Target,
    gets_it: bool,
) -> Result<(), Refusal> {
    let name = &target.name;
    let what_it_is = match target.kind {
        Kind::Program => "program",
        _ => "library",
    };
    if gets_it {
        if let Some(error) = target.sources.unread.first() {
            return Err(Refusal::new(error.to_string()).hint(ALTERNATIVE));
        }
        let root = relative(project, &target.root);
        if target.sources.is_no_std {
            let what = format!(
                "the {what_it_is} `{name}` (`{root}`) is `no_std`: it has its own ways to allocate"
            );
            return Err(Refusal::new(what).hint("set its allocator by hand"));
        }
        let text = plan.text(&target.root)?;
        let why = if target.root.starts_with(&project.target_directory) {
            Some("is generated")
        } else {
            sources::is_made_elsewhere(&text).then_some("only includes another file")
        };
        if let Some(why) = why {
            let what = format!("the source of the {what_it_is} `{name}` (`{root}`) {why}");
            return Err(Refusal::new(what).hint(ALTERNATIVE));
        }
    }
    for own in &target.sources.allocators {
        let text = plan.text(&own.path)?;
        if !is_taken_out(&text.contents, own)? {
            let place = format!("{}:{}", relative(project, &own.path), own.line);
            let what = match target.kind {
                Kind::Program => {
                    format!("the program `{name}` has a global allocator already, at {place}")
                }
                _ => format!("the library `{name}` sets the global allocator, at {place}"),
            };
            return Err(Refusal::new(what).hint("see whether it is right: reheap adopt --check"));
        }
    }
    Ok(())
}

/// Refuses a program into which another member of the workspace brings a global allocator.
fn check_linked(
    plan: &mut Plan,
    project: &Project,
    package: &Package,
    target: &Target,
) -> Result<(), Refusal> {
    let linked = Linked::of(project, package, target);
    for part in linked
        .parts
        .iter()
        .filter(|part| part.package.name != package.name)
    {
        let own = part.allocator;
        if !is_taken_out(&plan.text(&own.path)?.contents, own)? {
            let place = format!("{}:{}", relative(project, &own.path), own.line);
            let what = format!(
                "the program `{}` gets a global allocator from `{}`, at {place}",
                target.name, part.package.name
            );
            let hint = "to choose for another program of the workspace: reheap adopt DIRECTORY";
            return Err(Refusal::new(what).hint(hint));
        }
    }
    Ok(())
}

const ALTERNATIVE: &str = "use `--with reheap`, which leaves the sources alone";

/// Whether the plan took this one out before: it was adopt's own.
fn is_taken_out(planned: &str, own: &GlobalAllocator) -> Result<bool, Refusal> {
    let text = crate::text::Text::read(&own.path)?;
    Ok(text.contents != planned && statics::is_set_up(&text, own))
}

fn add_static(plan: &mut Plan, program: &Target, wanted: &Wanted<'_>) -> Result<(), Refusal> {
    let condition = statics::condition(&wanted.placement.condition, wanted.feature);
    let type_path = wanted.packaged.type_path();
    plan.edit(&program.root, |text| {
        statics::add(text, &type_path, condition.as_deref())
    })
}

/// Adds the dependency to the workspace's table if the workspace has one, and says whether members find it there.
fn share(plan: &mut Plan, project: &Project, wanted: &Wanted<'_>) -> Result<bool, Refusal> {
    const TABLE: [&str; 2] = ["workspace", "dependencies"];
    let root = project.root.join("Cargo.toml");
    let manifest = Manifest::of(plan.text(&root)?, None)?;
    let Some(table) = manifest.table(&TABLE) else {
        return Ok(false);
    };
    // Somebody chose a version and features for something else.
    if table.contains_key(wanted.packaged.package) {
        return Ok(false);
    }
    let value = wanted
        .packaged
        .value(wanted.version(), false, wanted.is_for_modules);
    plan.edit(&root, |text| {
        manifests::add(text, &TABLE, wanted.packaged.package, &value)
    })?;
    Ok(true)
}

fn add_dependency(
    plan: &mut Plan,
    place: &Place<'_>,
    wanted: &Wanted<'_>,
    is_shared: bool,
) -> Result<(), Refusal> {
    let name = wanted.packaged.package;
    let path = &place.package.manifest.text.path;
    let enabling = match wanted.feature {
        Some(_) => BTreeSet::new(),
        None => required::features(place.package, &place.targets),
    };
    let is_optional = wanted.feature.is_some() || !enabling.is_empty();
    let value = if is_shared {
        Packaged::value_in_member(is_optional)
    } else {
        wanted
            .packaged
            .value(wanted.version(), is_optional, wanted.is_for_modules)
    };
    let key = wanted.placement.key();
    let table: Vec<&str> = match &key {
        Some(key) => vec!["target", key, "dependencies"],
        None => vec!["dependencies"],
    };
    plan.edit(path, |text| manifests::add(text, &table, name, &value))?;
    let by_feature = format!("dep:{name}");
    for feature in enabling {
        plan.edit(path, |text| {
            manifests::add_to_feature(text, feature, &by_feature)
        })?;
    }
    let Some(feature) = wanted.feature else {
        return Ok(());
    };
    let value = format!("[\"{by_feature}\"]");
    plan.edit(path, |text| {
        manifests::add(text, &["features"], feature, &value)
    })?;
    if wanted.is_on_by_default {
        plan.edit(path, |text| {
            manifests::add_to_feature(text, "default", feature)
        })
    } else {
        Ok(())
    }
}

impl Wanted<'_> {
    fn version(&self) -> &str {
        self.version.as_deref().unwrap_or(self.packaged.version)
    }
}

fn relative(project: &Project, path: &Path) -> String {
    project.relative(path).display().to_string()
}
