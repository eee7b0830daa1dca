//! Whether a dependency on an allocator and the code that uses it are there on the same targets, with the same features.
//!
//! Both are compared in every build that differs for them. Two differences are no fault, because no manifest can say what
//! the code says. Features only ever add, so none can say "not with that feature": an allocator is compiled, and another
//! one is used because features of both are on. Nor can one say "with both features": a program needs two that turn on
//! nothing of each other, and one of them has to bring the allocator.

use crate::builds::{Builds, Found};
use crate::condition::{Atoms, Build, Condition};
use crate::crates::{self, AllocatorCrate};
use crate::features::Active;
use crate::finding::{Finding, Rule};
use crate::manifest::{Dependency, Kind};
use crate::project::{Kind as TargetKind, Package, Target};
use crate::sources::{GlobalAllocator, Mention, Place};
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
    /// All places that do not compile without the crate.
    needs: Vec<Need<'a>>,
}

type Use<'a> = (&'a Target, &'a GlobalAllocator);

/// A place that does not compile without the crate.
struct Need<'a> {
    target: &'a Target,
    path: &'a Path,
    line: usize,
    condition: &'a Condition,
}

pub(crate) fn of(package: &Package) -> Vec<Finding> {
    let pairs = crates::CRATES
        .iter()
        .filter_map(|row| Pair::of(row, package));
    pairs.flat_map(|pair| pair.findings()).collect()
}

impl<'a> Pair<'a> {
    fn of(allocator: &'static AllocatorCrate, package: &'a Package) -> Option<Self> {
        let of_package = &package.manifest.dependencies;
        let dependencies: Vec<&Dependency> = of_package
            .iter()
            .filter(|dependency| {
                dependency.kind != Kind::Build && dependency.package == allocator.package
            })
            .collect();
        let mut names: BTreeSet<String> = dependencies
            .iter()
            .map(|dependency| dependency.identifier())
            .collect();
        if names.is_empty() {
            let name = crates::identifier(allocator.package);
            let is_other = of_package
                .iter()
                .any(|dependency| dependency.identifier() == name)
                || package
                    .targets
                    .iter()
                    .any(|target| target.identifier() == name);
            names.extend((!is_other).then_some(name));
        }
        let targets: Vec<&Target> = package
            .targets
            .iter()
            .filter(|target| target.chooses() && !target.is_for_tests())
            .collect();
        let (uses, others): (Vec<Use<'_>>, Vec<Use<'_>>) = targets
            .iter()
            .flat_map(|target| {
                target
                    .sources
                    .allocators
                    .iter()
                    .map(move |allocator| (*target, allocator))
            })
            .partition(|(_, allocator)| {
                allocator.types.iter().any(|path| names.contains(&path[0]))
            });
        let is_known = !dependencies.is_empty() || !uses.is_empty();
        // What a macro compiles, nobody knows.
        let is_certain = |(_, allocator): &Use<'_>| {
            allocator.is_one_type && !matches!(allocator.place, Place::Macro(_))
        };
        let is_certain = uses.iter().chain(&others).all(is_certain);
        let of_uses = uses.iter().map(|(target, allocator)| Need {
            target,
            path: &allocator.path,
            line: allocator.line,
            condition: &allocator.condition,
        });
        let mut needs: Vec<Need<'_>> = of_uses.collect();
        // Without a dependency, the name may be that of anything.
        if !dependencies.is_empty() {
            let mentions = targets.iter().flat_map(|target| mentions(target, &names));
            needs.extend(mentions);
        }
        (is_known && is_certain).then_some(Self {
            package,
            allocator,
            dependencies,
            uses,
            others,
            needs,
        })
    }

    fn findings(&self) -> Vec<Finding> {
        let builds = self.builds();
        let needs = self.needs.iter();
        let missing: Vec<Finding> = needs
            .filter_map(|need| self.missing(&builds, need))
            .collect();
        if missing.is_empty() {
            self.unused(&builds).into_iter().collect()
        } else {
            missing
        }
    }

    fn unused(&self, builds: &Builds) -> Option<Finding> {
        if self.uses.is_empty() {
            return None;
        }
        let is_unused = |build: &Build<'_>, active: &Active| {
            self.is_compiled(build, active) && !self.is_used(build)
        };
        let is_in_use = |build: &Build<'_>, active: &Active| {
            self.is_compiled(build, active) && self.is_used(build)
        };
        let mut targets = self.package.targets.iter();
        let has_library = targets.any(|target| matches!(target.kind, TargetKind::Library { .. }));
        let mut in_use: HashMap<String, bool> = HashMap::new();
        let unused = builds.find_whatever_else(|build, active| {
            // Without its programs, only a library makes the package worth building.
            let is_built = has_library || self.is_required(build);
            let is_outranked = self.others.iter().any(|one| is_active(one, build));
            let mut may_be_in_use = || {
                let known = in_use.entry(build.target.triple.to_string());
                *known.or_insert_with(|| builds.any_features(build.target, is_in_use))
            };
            is_built
                && is_unused(build, active)
                && !self.is_half_required(build)
                && !(is_outranked && may_be_in_use())
        })?;
        Some(self.unused_in(builds, &unused))
    }

    fn builds(&self) -> Builds {
        let others = self
            .others
            .iter()
            .map(|(_, allocator)| &allocator.condition);
        let code = self.needs.iter().map(|need| need.condition).chain(others);
        let others = self.others.iter().map(|(target, _)| *target);
        let targets = self.needs.iter().map(|need| need.target);
        let refused = targets
            .clone()
            .chain(others)
            .flat_map(|target| &target.sources.refused);
        let dependencies = self
            .dependencies
            .iter()
            .map(|dependency| &dependency.condition);
        let required: Vec<Condition> = targets
            .flat_map(|target| &target.required_features)
            .cloned()
            .map(Condition::Feature)
            .collect();
        let keys: BTreeSet<String> = self
            .dependencies
            .iter()
            .map(|dependency| dependency.key.clone())
            .collect();
        Builds::of(
            code.chain(refused).chain(dependencies).chain(&required),
            &self.package.manifest.features,
            &keys,
        )
    }

    /// Whether the features that one of its programs needs are on.
    fn is_required(&self, build: &Build<'_>) -> bool {
        self.uses.iter().any(|(target, _)| {
            let mut required = target.required_features.iter();
            required.all(|name| build.features.contains(name))
        })
    }

    /// Whether a program lacks some of several features that only together make it use the allocator.
    fn is_half_required(&self, build: &Build<'_>) -> bool {
        self.uses.iter().any(|(target, used)| {
            let required = &target.required_features;
            let mut atoms = Atoms::default();
            used.condition.add_atoms(&mut atoms);
            atoms.features.extend(required.iter().cloned());
            let together = atoms.features;
            let turns_on_all = |name: &String| {
                let on = self.package.manifest.features.active([name.as_str()]);
                together.is_subset(&on.features)
            };
            required.iter().any(|name| !build.features.contains(name))
                && together.iter().any(|name| build.features.contains(name))
                && !together.iter().any(turns_on_all)
        })
    }

    fn is_used(&self, build: &Build<'_>) -> bool {
        self.uses.iter().any(|one| is_active(one, build))
    }

    /// Whether code can use it.
    fn is_there(&self, build: &Build<'_>, active: &Active) -> bool {
        let is_for_test = build.others.contains("test");
        let mut dependencies = self.dependencies.iter();
        dependencies.any(|dependency| {
            (dependency.kind == Kind::Normal || is_for_test) && dependency.is_there(build, active)
        })
    }

    /// Whether the package's own build has it.
    fn is_compiled(&self, build: &Build<'_>, active: &Active) -> bool {
        let mut dependencies = self.dependencies.iter();
        let is_refused = self.uses.iter().any(|(target, _)| {
            target
                .sources
                .refused
                .iter()
                .any(|condition| condition.holds(build))
        });
        !is_refused
            && dependencies.any(|dependency| {
                dependency.kind == Kind::Normal && dependency.is_there(build, active)
            })
    }

    /// What is wrong with a place, if it is compiled in a build without the dependency.
    fn missing(&self, builds: &Builds, need: &Need<'_>) -> Option<Finding> {
        let is_missing = |build: &Build<'_>, active: &Active| {
            is_compiled(need.target, need.condition, build) && !self.is_there(build, active)
        };
        let found = builds.find(is_missing)?;
        Some(self.missing_in(builds, &found, need))
    }

    fn missing_in(&self, builds: &Builds, found: &Found, need: &Need<'_>) -> Finding {
        let (name, package) = (self.allocator.package, &self.package.name);
        let Some(dependency) = self.dependencies.first() else {
            return Finding {
                path: need.path.to_owned(),
                line: need.line,
                rule: Rule::MissingDependency,
                what: format!("`{name}` is used here but is no dependency, so the build fails"),
                fix: match need
                    .condition
                    .of_target()
                    .filter(|target| !target.is_always())
                {
                    Some(condition) => {
                        format!("`cargo add {name} --target 'cfg({condition})' -p {package}`")
                    }
                    None => format!("`cargo add {name} -p {package}`"),
                },
            };
        };
        let is_on_some_target =
            builds.any_target(found, |build, active| self.is_there(build, active));
        Finding {
            path: need.path.to_owned(),
            line: need.line,
            rule: Rule::ConditionDiffers,
            what: format!(
                "`{name}` is used here but is no dependency{}, so that build fails",
                found.words()
            ),
            fix: if is_on_some_target {
                self.fix_of_code(need, dependency)
            } else {
                self.fix_of_features(need, dependency)
            },
        }
    }

    /// The code should have the manifest's condition on targets, on which it works today; if the manifest names targets
    /// one by one, it means those of the code.
    fn fix_of_code(&self, need: &Need<'_>, dependency: &Dependency) -> String {
        let place = format!("Cargo.toml:{}", dependency.line);
        let conditions = self
            .dependencies
            .iter()
            .map(|dependency| &dependency.condition);
        let names_one = |condition: &Condition| matches!(condition, Condition::Triple(_));
        if conditions.clone().any(names_one) {
            if let Some((_, used)) = self.uses.first()
                && need.condition.is_always()
                && !used.condition.is_always()
            {
                let place = self.place(used);
                return format!("write `#[cfg({})]` above it, as in {place}", used.condition);
            }
            return match need.condition.of_target() {
                Some(condition) => {
                    format!("move {place} to `[target.'cfg({condition})'.dependencies]`")
                }
                None => format!("give {place} the condition `cfg({})`", need.condition),
            };
        }
        let condition = match self.dependencies.len() {
            1 => dependency.condition.clone(),
            _ => Condition::Any(conditions.cloned().collect()),
        };
        format!("write `#[cfg({condition})]` above it, as in {place}")
    }

    fn fix_of_features(&self, need: &Need<'_>, dependency: &Dependency) -> String {
        let enabling = self.package.manifest.features.enabling(&dependency.key);
        let mut atoms = Atoms::default();
        need.condition.add_atoms(&mut atoms);
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

    fn unused_in(&self, builds: &Builds, found: &Found) -> Finding {
        let name = self.allocator.package;
        let is_it = |dependency: &&&Dependency| {
            let is_there = |build: &Build<'_>, active: &Active| dependency.is_there(build, active);
            dependency.kind == Kind::Normal && builds.is_so(found, is_there)
        };
        let dependency = self
            .dependencies
            .iter()
            .find(is_it)
            .unwrap_or(&self.dependencies[0]);
        let is_on_some_target = builds.any_target(found, |build, active| {
            self.is_compiled(build, active) && self.is_used(build)
        });
        let words = found.words();
        Finding {
            path: self.package.manifest.text.path.clone(),
            line: dependency.line,
            rule: Rule::ConditionDiffers,
            what: if words.is_empty() {
                format!("`{name}` is compiled but not used")
            } else {
                format!("`{name}` is compiled{words} but not used there")
            },
            fix: if is_on_some_target {
                self.fix_of_manifest(dependency)
            } else {
                self.fix_of_table(dependency)
            },
        }
    }

    /// The manifest should have the code's condition on targets.
    fn fix_of_manifest(&self, dependency: &Dependency) -> String {
        let (_, used) = self.uses[0];
        let place = self.place(used);
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

    /// Where an allocator is, from the package's directory.
    fn place(&self, used: &GlobalAllocator) -> String {
        let path = used.path.strip_prefix(&self.package.directory);
        format!("{}:{}", path.unwrap_or(&used.path).display(), used.line)
    }

    fn fix_of_table(&self, dependency: &Dependency) -> String {
        let mut asked = BTreeSet::new();
        for (target, used) in &self.uses {
            let mut atoms = Atoms::default();
            used.condition.add_atoms(&mut atoms);
            asked.extend(atoms.features);
            asked.extend(target.required_features.iter().cloned());
        }
        let enabling = self.package.manifest.features.enabling(&dependency.key);
        let key = &dependency.key;
        let Some(feature) = asked
            .iter()
            .find(|feature| !enabling.contains(&feature.as_str()))
            .or(asked.first())
        else {
            return "give both the same condition".to_owned();
        };
        if dependency.is_optional {
            format!("let only `{feature}`, which the code asks for, enable `dep:{key}`")
        } else {
            format!(
                "add `optional = true`, and `\"dep:{key}\"` to the feature `{feature}`, which the code asks for"
            )
        }
    }
}

/// The places of a target that name the crate. A module may have that name, too.
fn mentions<'a>(target: &'a Target, names: &BTreeSet<String>) -> impl Iterator<Item = Need<'a>> {
    let sources = &target.sources;
    let is_of_the_crate = |mention: &&Mention| {
        names.contains(&mention.name) && !sources.modules.contains(&mention.name)
    };
    let mentions = sources.mentions.iter().filter(is_of_the_crate);
    mentions.map(move |mention| Need {
        target,
        path: &mention.path,
        line: mention.line,
        condition: &mention.condition,
    })
}

/// Whether a build has that allocator.
fn is_active((target, allocator): &Use<'_>, build: &Build<'_>) -> bool {
    is_compiled(target, &allocator.condition, build)
}

/// Whether a build has what is in that target under that condition.
fn is_compiled(target: &Target, condition: &Condition, build: &Build<'_>) -> bool {
    let mut required = target.required_features.iter();
    let mut refused = target.sources.refused.iter();
    required.all(|name| build.features.contains(name))
        && !refused.any(|condition| condition.holds(build))
        && condition.holds(build)
}
