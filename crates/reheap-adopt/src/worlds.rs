//! All ways to build a package that differ for some conditions.
//!
//! Targets that no condition tells apart are one; so are features on which no condition depends. That leaves few enough
//! to try them all.

use crate::condition::{Atoms, Condition, World};
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
const ALL_SETS_MAX: usize = 10;

/// The worlds to try.
#[derive(Debug)]
pub struct Worlds {
    targets: Vec<&'static TargetInfo>,
    features: Vec<Active>,
    others: Vec<BTreeSet<String>>,
}

impl Worlds {
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
        let others: Vec<String> = atoms.others.iter().cloned().collect();
        let others = subsets(&others).into_iter().map(BTreeSet::from_iter);
        Self {
            targets: distinct_targets(&atoms),
            features: distinct_features(&atoms, features, dependencies),
            others: others.collect(),
        }
    }

    /// The first in which the test is true whatever else a build sets, such as `test`.
    pub fn find_whatever_else(
        &self,
        mut test: impl FnMut(&World<'_>, &Active) -> bool,
    ) -> Option<Found> {
        self.pairs().find_map(|(target, active)| {
            let is_found = self.others.iter().all(|others| {
                let features = &active.features;
                let world = World {
                    target,
                    features,
                    others,
                };
                test(&world, active)
            });
            is_found.then(|| Found::of(target, active, &BTreeSet::new()))
        })
    }

    /// The first in which the test is true.
    pub fn find(&self, mut test: impl FnMut(&World<'_>, &Active) -> bool) -> Option<Found> {
        self.pairs().find_map(|(target, active)| {
            let others = self.others.iter().find(|others| {
                let features = &active.features;
                let world = World {
                    target,
                    features,
                    others,
                };
                test(&world, active)
            })?;
            Some(Found::of(target, active, others))
        })
    }

    fn pairs(&self) -> impl Iterator<Item = (&'static TargetInfo, &Active)> {
        self.features
            .iter()
            .flat_map(|active| self.targets.iter().map(move |target| (*target, active)))
    }
}

/// An example that a test was true for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The target's triple.
    pub triple: String,
    /// The features that are on.
    pub features: BTreeSet<String>,
    /// What else is set.
    pub others: BTreeSet<String>,
}

impl Found {
    fn of(target: &TargetInfo, active: &Active, others: &BTreeSet<String>) -> Self {
        Self {
            triple: target.triple.to_string(),
            features: active.features.clone(),
            others: others.clone(),
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
        let properties = atoms.targets.iter().map(|it| target.matches(it));
        let names = atoms
            .triples
            .iter()
            .map(|name| target.triple.as_str() == name);
        seen.insert(properties.chain(names).collect::<Vec<bool>>())
    });
    all
}

/// The sets of features that differ in what matters; the default is first.
fn distinct_features(
    atoms: &Atoms,
    features: &Features,
    dependencies: &BTreeSet<String>,
) -> Vec<Active> {
    let matters = |active: &Active| {
        let features: Vec<String> = active
            .features
            .intersection(&atoms.features)
            .cloned()
            .collect();
        let dependencies: Vec<String> = active
            .dependencies
            .intersection(dependencies)
            .cloned()
            .collect();
        (features, dependencies)
    };
    let nothing = matters(&Active::default());
    let relevant: Vec<String> = features
        .names()
        .filter(|name| *name != "default" && matters(&features.active([*name])) != nothing)
        .map(str::to_owned)
        .collect();
    let mut all = vec![features.if_nobody_chooses()];
    all.extend(
        subsets(&relevant)
            .into_iter()
            .map(|chosen| features.active(chosen.iter().map(String::as_str))),
    );
    let mut seen = HashSet::new();
    all.retain(|active| seen.insert(matters(active)));
    all
}

/// All subsets of few; of many, those that have or lack up to two.
fn subsets(all: &[String]) -> Vec<Vec<String>> {
    if all.len() <= ALL_SETS_MAX {
        let sets = (0..1_usize << all.len()).map(|bits| {
            let chosen = all.iter().enumerate();
            let chosen = chosen.filter(|(index, _)| bits >> index & 1 == 1);
            chosen.map(|(_, name)| name.clone()).collect()
        });
        return sets.collect();
    }
    let mut sets = vec![Vec::new(), all.to_vec()];
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
