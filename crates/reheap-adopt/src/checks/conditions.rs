//! Whether a dependency on an allocator and the code that uses it are there on the same targets, with the same features.
//!
//! Both are compared in every build that differs for them. One difference is no fault: if an allocator is compiled and
//! another one is used because features of both are on. Features only ever add, so the code has to choose, and a
//! manifest cannot say "not with that feature".

use crate::condition::{Condition, World};
use crate::crates::{self, AllocatorCrate};
use crate::features::Active;
use crate::finding::{Finding, Rule};
use crate::manifest::{Dependency, Kind};
use crate::project::{Kind as TargetKind, Package, Target};
use crate::sources::{GlobalAllocator, Place};
use crate::worlds::{Found, Worlds};
use std::collections::{BTreeSet, HashMap};
use std::path::Path;

/// A crate that a package depends on, and the code that uses it as the global allocator.
struct Pair<'a> {
    package: &'a Package,
    allocator: &'static AllocatorCrate,
    dependencies: Vec<&'a Dependency>,
    uses: Vec<Use<'a>>,
    /// The other global allocators of the package.
    others: Vec<Use<'a>>,
}

type Use<'a> = (&'a Target, &'a GlobalAllocator);

pub(crate) fn of(package: &Package) -> Vec<Finding> {
    let pairs = crates::CRATES
        .iter()
        .filter_map(|row| Pair::of(row, package));
    pairs.filter_map(|pair| pair.finding()).collect()
}

impl<'a> Pair<'a> {
    fn of(allocator: &'static AllocatorCrate, package: &'a Package) -> Option<Self> {
        let of_package = &package.manifest.dependencies;
        let dependencies: Vec<&Dependency> = of_package
            .iter()
            .filter(|it| it.kind != Kind::Build && it.package == allocator.package)
            .collect();
        let mut names: BTreeSet<String> = dependencies.iter().map(|it| it.identifier()).collect();
        if names.is_empty() {
            let name = crates::identifier(allocator.package);
            let is_other = of_package.iter().any(|it| it.identifier() == name)
                || package.targets.iter().any(|it| it.identifier() == name);
            names.extend((!is_other).then_some(name));
        }
        let targets = package.targets.iter();
        let targets = targets.filter(|it| it.chooses() && !it.is_for_tests());
        let (uses, others): (Vec<Use<'_>>, Vec<Use<'_>>) = targets
            .flat_map(|target| target.sources.allocators.iter().map(move |it| (target, it)))
            .partition(|(_, it)| it.types.iter().any(|path| names.contains(&path[0])));
        let is_known = !dependencies.is_empty() || !uses.is_empty();
        // What a macro compiles, nobody knows.
        let is_certain = |(_, it): &Use<'_>| it.is_one_type && !matches!(it.place, Place::Macro(_));
        let is_certain = uses.iter().chain(&others).all(is_certain);
        (is_known && is_certain).then_some(Self {
            package,
            allocator,
            dependencies,
            uses,
            others,
        })
    }

    fn finding(&self) -> Option<Finding> {
        if self.uses.is_empty() {
            return None;
        }
        let worlds = self.worlds();
        let missing = |world: &World<'_>, active: &Active| {
            self.is_used(world) && !self.is_there(world, active)
        };
        if let Some(found) = worlds.find(missing) {
            return Some(self.missing(&worlds, &found));
        }
        let is_unused = |world: &World<'_>, active: &Active| {
            self.is_compiled(world, active) && !self.is_used(world)
        };
        let is_in_use = |world: &World<'_>, active: &Active| {
            self.is_compiled(world, active) && self.is_used(world)
        };
        let mut targets = self.package.targets.iter();
        let has_library = targets.any(|it| matches!(it.kind, TargetKind::Library { .. }));
        let mut in_use: HashMap<String, bool> = HashMap::new();
        let unused = worlds.find_whatever_else(|world, active| {
            // Without its programs, only a library makes the package worth building.
            let is_built = has_library || self.is_required(world);
            let is_outranked = self.others.iter().any(|one| is_active(one, world));
            let mut may_be_in_use = || {
                let known = in_use.entry(world.target.triple.to_string());
                *known.or_insert_with(|| worlds.any_features(world.target, is_in_use))
            };
            is_built && is_unused(world, active) && !(is_outranked && may_be_in_use())
        })?;
        Some(self.unused(&worlds, &unused))
    }

    fn worlds(&self) -> Worlds {
        let all = || self.uses.iter().chain(&self.others);
        let uses = all().map(|(_, it)| &it.condition);
        let refused = all().flat_map(|(target, _)| &target.sources.refused);
        let dependencies = self.dependencies.iter().map(|it| &it.condition);
        let required = self.uses.iter();
        let required = required.flat_map(|(target, _)| &target.required_features);
        let required: Vec<Condition> = required.cloned().map(Condition::Feature).collect();
        let keys: BTreeSet<String> = self.dependencies.iter().map(|it| it.key.clone()).collect();
        Worlds::of(
            uses.chain(refused).chain(dependencies).chain(&required),
            &self.package.manifest.features,
            &keys,
        )
    }

    /// Whether the features that one of its programs needs are on.
    fn is_required(&self, world: &World<'_>) -> bool {
        self.uses.iter().any(|(target, _)| {
            let mut required = target.required_features.iter();
            required.all(|name| world.features.contains(name))
        })
    }

    fn is_used(&self, world: &World<'_>) -> bool {
        self.uses.iter().any(|one| is_active(one, world))
    }

    /// Whether code can use it.
    fn is_there(&self, world: &World<'_>, active: &Active) -> bool {
        let is_for_test = world.others.contains("test");
        let mut dependencies = self.dependencies.iter();
        dependencies
            .any(|it| (it.kind == Kind::Normal || is_for_test) && it.is_there(world, active))
    }

    /// Whether the package's own build has it.
    fn is_compiled(&self, world: &World<'_>, active: &Active) -> bool {
        let mut dependencies = self.dependencies.iter();
        let is_refused = self
            .uses
            .iter()
            .any(|(target, _)| target.sources.refused.iter().any(|it| it.holds(world)));
        !is_refused && dependencies.any(|it| it.kind == Kind::Normal && it.is_there(world, active))
    }

    fn missing(&self, worlds: &Worlds, found: &Found) -> Finding {
        // Which of the uses it is.
        let used = self.uses.iter().find(|one| {
            let is_it = |world: &World<'_>, active: &Active| {
                is_active(one, world) && !self.is_there(world, active)
            };
            worlds.is_so(found, is_it)
        });
        let (_, used) = *used.unwrap_or(&self.uses[0]);
        let (name, package) = (self.allocator.package, &self.package.name);
        let Some(dependency) = self.dependencies.first() else {
            return Finding {
                path: used.path.clone(),
                line: used.line,
                rule: Rule::MissingDependency,
                what: format!("`{name}` is used here but is no dependency, so the build fails"),
                fix: match used.condition.of_target().filter(|it| !it.is_always()) {
                    Some(condition) => {
                        format!("`cargo add {name} --target 'cfg({condition})' -p {package}`")
                    }
                    None => format!("`cargo add {name} -p {package}`"),
                },
            };
        };
        let is_on_some_target =
            worlds.any_target(found, |world, active| self.is_there(world, active));
        Finding {
            path: used.path.clone(),
            line: used.line,
            rule: Rule::ConditionDiffers,
            what: format!(
                "`{name}` is used here but is no dependency{}, so that build fails",
                found.words()
            ),
            fix: match is_on_some_target {
                true => self.fix_of_code(used, dependency),
                false => self.fix_of_features(used, dependency),
            },
        }
    }

    /// The code should have the manifest's condition on targets, on which it works today; if the manifest names targets
    /// one by one, it means those of the code.
    fn fix_of_code(&self, used: &GlobalAllocator, dependency: &Dependency) -> String {
        let place = format!("Cargo.toml:{}", dependency.line);
        let conditions = self.dependencies.iter().map(|it| &it.condition);
        let names_one = |it: &Condition| matches!(it, Condition::Triple(_));
        if conditions.clone().any(names_one) {
            return match used.condition.of_target() {
                Some(condition) => {
                    format!("move {place} to `[target.'cfg({condition})'.dependencies]`")
                }
                None => format!("give {place} the condition `cfg({})`", used.condition),
            };
        }
        let condition = match self.dependencies.len() {
            1 => dependency.condition.clone(),
            _ => Condition::Any(conditions.cloned().collect()),
        };
        format!("write `#[cfg({condition})]` above it, as in {place}")
    }

    fn fix_of_features(&self, used: &GlobalAllocator, dependency: &Dependency) -> String {
        let enabling = self.package.manifest.features.enabling(&dependency.key);
        let mut atoms = crate::condition::Atoms::default();
        used.condition.add_atoms(&mut atoms);
        let asked = atoms.features.iter().next();
        match (asked, enabling.first()) {
            (Some(asked), _) => {
                format!(
                    "let the feature `{asked}` enable it: `\"dep:{}\"`",
                    dependency.key
                )
            }
            (None, Some(feature)) => format!("write `#[cfg(feature = \"{feature}\")]` above it"),
            (None, None) => format!("take `optional` from `{}`", dependency.key),
        }
    }

    fn unused(&self, worlds: &Worlds, found: &Found) -> Finding {
        let name = self.allocator.package;
        let is_it = |it: &&&Dependency| {
            let is_there = |world: &World<'_>, active: &Active| it.is_there(world, active);
            it.kind == Kind::Normal && worlds.is_so(found, is_there)
        };
        let dependency = self.dependencies.iter().find(is_it);
        let dependency = dependency.unwrap_or(&self.dependencies[0]);
        let is_on_some_target = worlds.any_target(found, |world, active| {
            self.is_compiled(world, active) && self.is_used(world)
        });
        let words = found.words();
        Finding {
            path: self.package.manifest.text.path.clone(),
            line: dependency.line,
            rule: Rule::ConditionDiffers,
            what: match words.is_empty() {
                true => format!("`{name}` is compiled but not used"),
                false => format!("`{name}` is compiled{words} but not used there"),
            },
            fix: match is_on_some_target {
                true => self.fix_of_manifest(dependency),
                false => self.fix_of_table(dependency),
            },
        }
    }

    /// The manifest should have the code's condition on targets.
    fn fix_of_manifest(&self, dependency: &Dependency) -> String {
        let (_, used) = self.uses[0];
        let place = format!(
            "{}:{}",
            relative(&used.path, &self.package.directory),
            used.line
        );
        let mut conditions: Vec<String> = Vec::new();
        for (_, used) in &self.uses {
            match used.condition.of_target() {
                Some(condition) if !condition.is_always() => {
                    let text = condition.to_string();
                    if !conditions.contains(&text) {
                        conditions.push(text);
                    }
                }
                _ => {
                    return format!(
                        "give it the condition of {place}: `cfg({})`",
                        used.condition
                    );
                }
            }
        }
        let mut condition = match &conditions[..] {
            [one] => one.clone(),
            several => format!("any({})", several.join(", ")),
        };
        if self.dependencies.len() > 1 {
            let both = dependency.condition.and(&Condition::of_cfg(&condition));
            condition = both.to_string();
        }
        format!("move it to `[target.'cfg({condition})'.dependencies]`, as in {place}")
    }

    fn fix_of_table(&self, dependency: &Dependency) -> String {
        let mut asked = BTreeSet::new();
        for (target, used) in &self.uses {
            let mut atoms = crate::condition::Atoms::default();
            used.condition.add_atoms(&mut atoms);
            asked.extend(atoms.features);
            asked.extend(target.required_features.iter().cloned());
        }
        let enabling = self.package.manifest.features.enabling(&dependency.key);
        let key = &dependency.key;
        let Some(feature) = asked
            .iter()
            .find(|it| !enabling.contains(&it.as_str()))
            .or(asked.first())
        else {
            return "give both the same condition".to_owned();
        };
        match dependency.is_optional {
            true => format!("let only `{feature}`, which the code asks for, enable `dep:{key}`"),
            false => format!(
                "add `optional = true`, and `\"dep:{key}\"` to the feature `{feature}`, which the code asks for"
            ),
        }
    }
}

/// Whether a build has that allocator.
fn is_active((target, it): &Use<'_>, world: &World<'_>) -> bool {
    let mut required = target.required_features.iter();
    let mut refused = target.sources.refused.iter();
    required.all(|name| world.features.contains(name))
        && !refused.any(|it| it.holds(world))
        && it.condition.holds(world)
}

fn relative(path: &Path, directory: &Path) -> String {
    let path = path.strip_prefix(directory).unwrap_or(path);
    path.display().to_string()
}
