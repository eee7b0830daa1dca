//! All ways to build a package that differ for some conditions.
//!
//! Targets that no condition tells apart are one; so are features on which no condition depends. That leaves few enough
//! to try them all.

use crate::condition::{Atoms, Build, Condition};
use crate::features::{Active, Features};
use cfg_expr::expr::TargetMatcher as _;
use cfg_expr::targets::{ALL_BUILTINS, TargetInfo};
use std::collections::{BTreeSet, HashSet};

/// Named first where several targets would do, because people know them.
const WELL_KNOWN: [&str; 10] = [
    "x86_64-unknown-linux-gnu",
    "x86_64-unknown-linux-musl",
    "aarch64-apple-darwin",
    "x86_64-pc-windows-msvc",
    "aarch64-unknown-linux-gnu",
    "aarch64-unknown-linux-musl",
    "x86_64-pc-windows-gnu",
    "x86_64-apple-darwin",
    "x86_64-unknown-freebsd",
    "wasm32-unknown-unknown",
];
/// With more features than these, not all sets are tried, but those of up to two, and all without up to two.
const ALL_SETS_MAX: usize = 8;
/// With even more, none, one and all.
const PAIRS_MAX: usize = 40;

/// The builds to try.
#[derive(Debug)]
pub struct Builds {
    targets: Vec<&'static TargetInfo>,
    features: Vec<Chosen>,
    /// For each choice of what else people set, all values of what builds set by themselves.
    others: Vec<Vec<BTreeSet<String>>>,
}

/// What people set by how they build. Other names are set by build scripts and flags, maybe for some targets only.
const FREE: [&str; 9] = [
    "test",
    "debug_assertions",
    "overflow_checks",
    "doc",
    "doctest",
    "docsrs",
    "miri",
    "fuzzing",
    "loom",
];

/// The features that somebody chose, and what that turns on.
#[derive(Debug, Clone)]
struct Chosen {
    has_default: bool,
    names: Vec<String>,
    active: Active,
}

impl Builds {
    /// Those that tell these conditions apart, or turn on other ones of these optional dependencies.
    pub fn of<'a>(
        conditions: impl IntoIterator<Item = &'a Condition>,
        features: &Features,
        dependencies: &BTreeSet<String>,
    ) -> Self {
        let mut atoms = Atoms::default();
        for condition in conditions {
            condition.add_atoms(&mut atoms);
        }
        let others = atoms.others.iter().cloned();
        let (free, given): (Vec<_>, Vec<_>) =
            others.partition(|name| FREE.contains(&name.as_str()));
        let given = subsets(&given);
        let with = |free: Vec<String>| {
            let all = given.iter().map(|given| free.iter().chain(given).cloned());
            all.map(BTreeSet::from_iter).collect()
        };
        Self {
            targets: distinct_targets(&atoms),
            features: distinct_features(&atoms, features, dependencies),
            others: subsets(&free).into_iter().map(with).collect(),
        }
    }

    /// The first in which the test is true whatever else a build sets, such as `test`.
    pub fn find_whatever_else(
        &self,
        mut test: impl FnMut(&Build<'_>, &Active) -> bool,
    ) -> Option<Found> {
        self.first(|chosen, target| {
            let mut others = self.others.iter().flatten();
            let is_so = others.all(|others| test(&chosen.build(target, others), &chosen.active));
            is_so.then(BTreeSet::new)
        })
    }

    /// The first in which the test is true, whatever build scripts set.
    pub fn find(&self, mut test: impl FnMut(&Build<'_>, &Active) -> bool) -> Option<Found> {
        self.first(|chosen, target| {
            let found = self.others.iter().find(|given| {
                let mut given = given.iter();
                given.all(|others| test(&chosen.build(target, others), &chosen.active))
            });
            found.map(|given| given[0].clone())
        })
    }

    /// Whether the test is true in one of them.
    pub fn any(&self, mut test: impl FnMut(&Build<'_>, &Active) -> bool) -> bool {
        let mut all = self.features.iter().flat_map(|chosen| {
            let targets = self.targets.iter();
            targets.map(move |target| (chosen, *target))
        });
        all.any(|(chosen, target)| self.is_any(chosen, target, &mut test))
    }

    /// Whether the test is true in one of them with the features of what was found.
    pub fn any_target(
        &self,
        found: &Found,
        mut test: impl FnMut(&Build<'_>, &Active) -> bool,
    ) -> bool {
        let mut targets = self.targets.iter();
        let chosen = self.chosen(found);
        chosen.is_some_and(|chosen| targets.any(|target| self.is_any(chosen, target, &mut test)))
    }

    /// Whether the test is true in what was found.
    pub fn is_so(&self, found: &Found, mut test: impl FnMut(&Build<'_>, &Active) -> bool) -> bool {
        let chosen = self.chosen(found);
        chosen.is_some_and(|chosen| {
            let build = chosen.build(found.target, &found.others);
            test(&build, &chosen.active)
        })
    }

    /// Whether the test is true in one of them for that target.
    pub fn any_features(
        &self,
        target: &'static TargetInfo,
        mut test: impl FnMut(&Build<'_>, &Active) -> bool,
    ) -> bool {
        let mut all = self.features.iter();
        all.any(|chosen| self.is_any(chosen, target, &mut test))
    }

    fn is_any(
        &self,
        chosen: &Chosen,
        target: &'static TargetInfo,
        test: &mut impl FnMut(&Build<'_>, &Active) -> bool,
    ) -> bool {
        let mut others = self.others.iter().flatten();
        others.any(|others| test(&chosen.build(target, others), &chosen.active))
    }

    fn chosen(&self, found: &Found) -> Option<&Chosen> {
        let mut all = self.features.iter();
        all.find(|chosen| chosen.option() == found.option)
    }

    /// The first pair for which the test says what else has to be set.
    fn first(
        &self,
        mut test: impl FnMut(&Chosen, &'static TargetInfo) -> Option<BTreeSet<String>>,
    ) -> Option<Found> {
        for chosen in &self.features {
            for target in &self.targets {
                let Some(others) = test(chosen, target) else {
                    continue;
                };
                let mut all = self.targets.iter();
                return Some(Found {
                    target,
                    is_any_target: all.all(|target| test(chosen, target).is_some()),
                    option: chosen.option(),
                    others,
                });
            }
        }
        None
    }
}

impl Chosen {
    fn build<'a>(&'a self, target: &'static TargetInfo, others: &'a BTreeSet<String>) -> Build<'a> {
        Build {
            target,
            features: &self.active.features,
            others,
        }
    }

    /// The options of Cargo for it.
    fn option(&self) -> String {
        let names = self.names.join(",");
        match (self.has_default, self.names.is_empty()) {
            (true, true) => String::new(),
            (true, false) => format!("--features {names}"),
            (false, true) => "--no-default-features".to_owned(),
            (false, false) => format!("--no-default-features --features {names}"),
        }
    }
}

/// An example that a test was true for.
#[derive(Debug, Clone)]
pub struct Found {
    target: &'static TargetInfo,
    is_any_target: bool,
    option: String,
    others: BTreeSet<String>,
}

impl Found {
    /// The target.
    pub fn triple(&self) -> &'static str {
        self.target.triple.as_str()
    }

    /// What is special about the build, with a space before it: ` for i686-pc-windows-msvc with `--features fast``.
    /// Nothing for the build that everybody gets.
    pub fn words(&self) -> String {
        let mut words = String::new();
        if !self.is_any_target {
            words += &format!(" for {}", self.target.triple);
        }
        words + &self.words_of_features()
    }

    /// The features and other choices of this build in words; empty if it is an ordinary one. The target is left out.
    pub fn words_of_features(&self) -> String {
        let others = self.others.iter().map(|name| format!("`cfg({name})`"));
        let option = Some(format!("`{}`", self.option)).filter(|_| !self.option.is_empty());
        let with: Vec<String> = option.into_iter().chain(others).collect();
        if with.is_empty() {
            String::new()
        } else {
            format!(" with {}", with.join(" and "))
        }
    }
}

/// One target of each kind, the well-known ones first.
fn distinct_targets(atoms: &Atoms) -> Vec<&'static TargetInfo> {
    let rank = |target: &TargetInfo| {
        let known = WELL_KNOWN
            .iter()
            .position(|known| *known == target.triple.as_str());
        known.unwrap_or(WELL_KNOWN.len())
    };
    let mut all: Vec<&TargetInfo> = ALL_BUILTINS.iter().collect();
    all.sort_by_key(|target| rank(target));
    let mut seen = HashSet::new();
    all.retain(|target| {
        let properties = atoms
            .targets
            .iter()
            .map(|property| target.matches(property));
        let names = atoms
            .triples
            .iter()
            .map(|name| target.triple.as_str() == name);
        seen.insert(properties.chain(names).collect::<Vec<bool>>())
    });
    all
}

/// The sets of features that differ in what matters: first the default, then those with few names.
fn distinct_features(
    atoms: &Atoms,
    features: &Features,
    dependencies: &BTreeSet<String>,
) -> Vec<Chosen> {
    let matters = |active: &Active| {
        let of_dependencies = active
            .of_dependencies
            .iter()
            .filter(|(key, _)| dependencies.contains(key));
        (
            common(&active.features, &atoms.features),
            common(&active.dependencies, dependencies),
            of_dependencies.cloned().collect::<Vec<_>>(),
        )
    };
    let nothing = matters(&Active::default());
    let relevant: Vec<String> = features
        .names()
        .filter(|name| !features.is_detail(name) || atoms.features.contains(*name))
        .filter(|name| *name != "default" && matters(&features.active([*name])) != nothing)
        .map(str::to_owned)
        .collect();
    let mut all: Vec<Chosen> = Vec::new();
    for names in subsets(&relevant) {
        for default in [Some("default"), None] {
            let chosen = default.into_iter().chain(names.iter().map(String::as_str));
            all.push(Chosen {
                has_default: default.is_some(),
                active: features.active(chosen),
                names: names.clone(),
            });
        }
    }
    all.sort_by_key(|chosen| chosen.names.len());
    let mut seen = HashSet::new();
    all.retain(|chosen| seen.insert(matters(&chosen.active)));
    all
}

fn common(some: &BTreeSet<String>, others: &BTreeSet<String>) -> Vec<String> {
    some.intersection(others).cloned().collect()
}

/// All subsets of few; of many, those that have or lack up to two; of very many, those of none, of one and of all.
fn subsets(all: &[String]) -> Vec<Vec<String>> {
    if all.len() <= ALL_SETS_MAX {
        let sets = (0..1_usize << all.len()).map(|bits| {
            let chosen = all
                .iter()
                .enumerate()
                .filter(|(index, _)| bits >> index & 1 == 1);
            chosen.map(|(_, name)| name.clone()).collect()
        });
        return sets.collect();
    }
    let mut sets = vec![Vec::new(), all.to_vec()];
    if all.len() > PAIRS_MAX {
        sets.extend(all.iter().map(|one| vec![one.clone()]));
        return sets;
    }
    for (index, one) in all.iter().enumerate() {
        sets.push(vec![one.clone()]);
        sets.push(all.iter().filter(|name| *name != one).cloned().collect());
        for other in &all[index + 1..] {
            sets.push(vec![one.clone(), other.clone()]);
            let without = all.iter().filter(|name| *name != one && *name != other);
            sets.push(without.cloned().collect());
        }
    }
    sets
}
