//! The global allocators that end up in one program or shared library: its own, that of its package's library, and
//! those of packages of the same workspace on which they depend.
//!
//! Each of these is compiled with the features that it gets from the one above, so whether it is there depends on the
//! whole chain.

use crate::builds::Builds;
use crate::condition::{Build, Condition};
use crate::features::Active;
use crate::manifest::{Dependency, Kind};
use crate::project::{Kind as TargetKind, Package, Project, Target};
use crate::sources::{GlobalAllocator, Place};
use std::collections::{BTreeSet, HashMap, HashSet};

/// By how many ways a package gets into a program, at most. In a dense workspace there are more than anybody could try.
const WAYS_MAX: usize = 32;

/// What Cargo links, with all allocators that may be in it.
pub(crate) struct Linked<'a> {
    pub(crate) package: &'a Package,
    pub(crate) target: &'a Target,
    pub(crate) parts: Vec<Part<'a>>,
}

/// An allocator in it.
#[derive(Clone)]
pub(crate) struct Part<'a> {
    /// The package that it is in.
    pub(crate) package: &'a Package,
    pub(crate) target: &'a Target,
    pub(crate) allocator: &'a GlobalAllocator,
    /// From the package that is linked to that one.
    chain: Vec<Step<'a>>,
    /// Whether it is in the library beside the program.
    is_beside: bool,
}

/// The search for them.
struct Search<'a> {
    project: &'a Project,
    /// Nothing else is worth a step.
    leading: HashSet<&'a str>,
    /// By how many ways it came to each package.
    ways: HashMap<&'a str, usize>,
}

/// One package depends on another.
#[derive(Clone, Copy)]
struct Step<'a> {
    by: &'a Dependency,
    to: &'a Package,
}

impl<'a> Linked<'a> {
    pub(crate) fn of(project: &'a Project, package: &'a Package, target: &'a Target) -> Self {
        let mut linked = Self {
            package,
            target,
            parts: Vec::new(),
        };
        let mut search = Search {
            project,
            leading: leading(project),
            ways: HashMap::new(),
        };
        linked.add(&mut search, package, target, &[]);
        let mut seen = BTreeSet::new();
        linked.parts.retain(|part| {
            let chain: Vec<&str> = part
                .chain
                .iter()
                .map(|step| step.to.name.as_str())
                .collect();
            seen.insert((part.allocator.path.clone(), part.allocator.line, chain))
        });
        linked
    }

    fn add(
        &mut self,
        search: &mut Search<'a>,
        package: &'a Package,
        target: &'a Target,
        chain: &[Step<'a>],
    ) {
        self.parts.extend(certain(target).map(|allocator| Part {
            package,
            target,
            allocator,
            chain: chain.to_vec(),
            is_beside: !std::ptr::eq(target, self.target),
        }));
        // rustc links only what the code mentions.
        if !is_library(target)
            && let Some(library) = package.library()
            && target.sources.identifiers.contains(&library.identifier())
        {
            self.add(search, package, library, chain);
        }
        let is_for_tests = target.is_for_tests() && chain.is_empty();
        for (by, to) in search.project.members_below(package) {
            let is_kind = by.kind == Kind::Normal || by.kind == Kind::Development && is_for_tests;
            let is_new = chain.iter().all(|step| step.to.name != to.name);
            if !is_kind || !is_new || !search.leading.contains(to.name.as_str()) {
                continue;
            }
            let Some(library) = to.library().filter(|library| mentions(target, by, library)) else {
                continue;
            };
            let ways = search.ways.entry(&to.name).or_default();
            if *ways < WAYS_MAX {
                *ways += 1;
                let chain = [chain, &[Step { by, to }]].concat();
                self.add(search, to, library, &chain);
            }
        }
    }

    /// The builds that differ in what is linked.
    pub(crate) fn builds(&self) -> Builds {
        self.builds_with(&[], &[])
    }

    /// Those that differ also in a condition, or in the features of other dependencies.
    pub(crate) fn builds_with(&self, conditions: &[Condition], keys: &[String]) -> Builds {
        let more = conditions;
        let steps = || self.parts.iter().flat_map(|part| &part.chain);
        let required: Vec<Condition> = self
            .target
            .required_features
            .iter()
            .cloned()
            .map(Condition::Feature)
            .collect();
        let conditions = self.parts.iter().map(|part| &part.allocator.condition);
        let of_steps = steps().map(|step| &step.by.condition);
        let refused = self
            .parts
            .iter()
            .flat_map(|part| &part.target.sources.refused);
        let keys: BTreeSet<String> = steps()
            .map(|step| &step.by.key)
            .chain(keys)
            .cloned()
            .collect();
        let conditions = conditions.chain(of_steps).chain(refused);
        Builds::of(
            conditions.chain(&required).chain(more),
            &self.package.manifest.features,
            &keys,
        )
    }

    /// Those that are in it in one build; none if there is no such build.
    pub(crate) fn active(&self, build: &Build<'_>, active: &Active) -> Vec<(&Part<'a>, Active)> {
        let mut required = self.target.required_features.iter();
        if !required.all(|name| build.features.contains(name)) {
            return Vec::new();
        }
        let mut all: Vec<(&Part<'_>, Active)> = Vec::new();
        for part in &self.parts {
            match part.state(build, active) {
                State::Refused => return Vec::new(),
                // It may be there by two ways.
                State::There(_) if all.iter().any(|(other, _)| part.is_same(other)) => {}
                State::There(here) => all.push((part, here)),
                State::Absent => {}
            }
        }
        all
    }
}

enum State {
    /// With what is on in its package.
    There(Active),
    Absent,
    Refused,
}

impl Part<'_> {
    fn is_same(&self, other: &Part<'_>) -> bool {
        std::ptr::eq(self.allocator, other.allocator)
    }

    fn state(&self, build: &Build<'_>, active: &Active) -> State {
        let mut active = active.clone();
        let mut others = build.others.clone();
        if self.is_beside {
            // Cargo compiles only the file itself for tests.
            others.remove("test");
        }
        for step in &self.chain {
            let at = Build {
                target: build.target,
                features: &active.features,
                others: &others,
            };
            if !step.by.is_there(&at, &active) {
                return State::Absent;
            }
            active = step.by.features_of(&step.to.manifest.features, &active);
        }
        let at = Build {
            target: build.target,
            features: &active.features,
            others: &others,
        };
        let sources = &self.target.sources;
        let is_refused = sources.refused.iter().any(|condition| condition.holds(&at));
        let is_there = self.allocator.condition.holds(&at);
        if is_refused {
            return State::Refused;
        }
        if is_there {
            State::There(active)
        } else {
            State::Absent
        }
    }
}

fn is_library(target: &Target) -> bool {
    matches!(target.kind, TargetKind::Library { .. })
}

/// The allocators that no macro may drop.
fn certain(target: &Target) -> impl Iterator<Item = &GlobalAllocator> {
    let allocators = target.sources.allocators.iter();
    allocators.filter(|allocator| !matches!(allocator.place, Place::Macro(_)))
}

/// Whether code names what a dependency brings: rustc links nothing else.
fn mentions(target: &Target, by: &Dependency, library: &Target) -> bool {
    let named = &target.sources.identifiers;
    named.contains(&by.identifier()) || named.contains(&library.identifier())
}

impl Package {
    fn library(&self) -> Option<&Target> {
        self.targets.iter().find(|target| is_library(target))
    }
}

/// The names of members with an allocator in their library, and of those that depend on them by any way.
fn leading(project: &Project) -> HashSet<&str> {
    let mut dependents: HashMap<&str, Vec<&str>> = HashMap::new();
    for package in &project.packages {
        for (_, to) in project.members_below(package) {
            let of_it = dependents.entry(&to.name).or_default();
            of_it.push(&package.name);
        }
    }
    let chooses = |package: &&Package| {
        package
            .library()
            .is_some_and(|library| certain(library).count() > 0)
    };
    let choosing = project.packages.iter().filter(chooses);
    let mut next: Vec<&str> = choosing.map(|package| package.name.as_str()).collect();
    let mut leading = HashSet::new();
    while let Some(name) = next.pop() {
        if leading.insert(name) {
            next.extend(dependents.get(name).into_iter().flatten());
        }
    }
    leading
}
