//! On which targets a project gets its allocator: one condition, which Cargo.toml and the code can both write.
//!
//! Triples become a `cfg(…)`: Cargo.toml can name triples, but code cannot, and two ways to say the same drift apart.

use super::Refusal;
use crate::condition::{Atoms, Condition};
use cfg_expr::Expression;
use cfg_expr::expr::Predicate;
use cfg_expr::targets::{ALL_BUILTINS, TargetInfo};
use std::collections::BTreeSet;

/// What is used where nobody names targets: there every program gains.
pub const DEFAULT: &str = "cfg(target_env = \"musl\")";

/// On which targets.
#[derive(Debug, Clone)]
pub struct Placement {
    /// As a function.
    pub condition: Condition,
    /// The targets that were named one by one.
    pub triples: Vec<String>,
    /// As it was given.
    pub given: String,
}

impl Placement {
    /// Of triples with commas between them, `cfg(…)`, or `all`.
    ///
    /// # Errors
    /// If it is none of these, or means nothing in Cargo.toml.
    pub fn parse(given: &str) -> Result<Self, Refusal> {
        let given = given.trim();
        let of = |condition: Condition, triples: Vec<String>| Self {
            condition,
            triples,
            given: given.to_owned(),
        };
        if given == "all" {
            return Ok(of(Condition::always(), Vec::new()));
        }
        let inside = given.strip_prefix("cfg").map(str::trim_start);
        if let Some(inside) = inside.and_then(|rest| rest.strip_prefix('(')) {
            let Some(inside) = inside.strip_suffix(')') else {
                let what = format!("cannot understand `{given}`: its bracket is not closed");
                return Err(Refusal::new(what).hint(format!("such as --targets '{DEFAULT}'")));
            };
            let placement = of(checked_cfg(inside)?, Vec::new());
            let mut all = ALL_BUILTINS.iter();
            if !all.any(|target| placement.includes(target.triple.as_str())) {
                let what = format!("`{given}` holds for no target that rustc knows");
                let hint = "`rustc --print cfg --target TRIPLE` shows what holds for a target";
                return Err(Refusal::new(what).hint(hint));
            }
            return Ok(placement);
        }
        let triples: Vec<&TargetInfo> = given
            .split(',')
            .map(|triple| known(triple.trim()))
            .collect::<Result<_, _>>()?;
        let condition = Condition::of_cfg(&cfg_of(&triples));
        let names = triples
            .iter()
            .map(|target| target.triple.as_str().to_owned());
        Ok(of(condition, names.collect()))
    }

    /// The key of Cargo's table `target`; none if it is for all.
    pub fn key(&self) -> Option<String> {
        (!self.condition.is_always()).then(|| format!("cfg({})", self.condition))
    }

    /// Whether it holds on a target.
    pub fn includes(&self, triple: &str) -> bool {
        let target = cfg_expr::targets::get_builtin_target_by_triple(triple);
        target.is_some_and(|target| {
            let none = BTreeSet::new();
            self.condition.holds(&crate::condition::Build {
                target,
                features: &none,
                others: &none,
            })
        })
    }

    /// The targets on which it holds although others were named: code cannot tell them apart.
    pub fn twins(&self) -> Vec<&'static str> {
        let all = ALL_BUILTINS.iter().map(|target| target.triple.as_str());
        let is_named = |triple: &str| self.triples.iter().any(|named| named == triple);
        let twins = all.filter(|triple| self.includes(triple) && !is_named(triple));
        if self.triples.is_empty() {
            Vec::new()
        } else {
            twins.collect()
        }
    }

    /// Whether it holds on targets with musl only.
    pub fn is_only_musl(&self) -> bool {
        let mut included = ALL_BUILTINS
            .iter()
            .filter(|target| self.includes(target.triple.as_str()));
        included.all(|target| target.triple.as_str().contains("musl"))
    }
}

/// What is inside `cfg(…)`.
fn checked_cfg(inside: &str) -> Result<Condition, Refusal> {
    let expression = Expression::parse(inside).map_err(|error| {
        let what = format!("cannot understand `cfg({inside})`: {}", error.reason);
        Refusal::new(what).hint(format!("such as --targets '{DEFAULT}'"))
    })?;
    for predicate in expression.predicates() {
        match predicate {
            Predicate::Target(_) => {}
            Predicate::Feature(name) => {
                let what = "Cargo does not know features in conditions of dependencies";
                return Err(
                    Refusal::new(what).hint(format!("add --feature {name}, which adds one"))
                );
            }
            _ => {
                let what = format!(
                    "`cfg({inside})` is not about targets alone, so Cargo cannot decide by it about a dependency"
                );
                return Err(Refusal::new(what).hint(format!("such as --targets '{DEFAULT}'")));
            }
        }
    }
    let condition = Condition::of_cfg(inside);
    let mut atoms = Atoms::default();
    condition.add_atoms(&mut atoms);
    if atoms.targets.is_empty() {
        let what = format!("`cfg({inside})` is about no target");
        Err(Refusal::new(what).hint("for all targets: --targets all"))
    } else {
        Ok(condition)
    }
}

fn known(triple: &str) -> Result<&'static TargetInfo, Refusal> {
    if triple.is_empty() {
        let what = "--targets has an empty name of a target";
        return Err(Refusal::new(what).hint("write triples with one comma between two, or `all`"));
    }
    cfg_expr::targets::get_builtin_target_by_triple(triple).ok_or_else(|| {
        let all = "`rustc --print target-list` shows all";
        let hint = match (as_condition(triple), nearest(triple)) {
            (Some(condition), _) => format!("did you mean 'cfg({condition})'? {all}"),
            (None, Some(near)) => format!("did you mean `{near}`? {all}"),
            (None, None) => all.to_owned(),
        };
        Refusal::new(format!("rustc knows no target `{triple}`")).hint(hint)
    })
}

/// What somebody may have meant who writes `unix`, `linux` or `musl`.
fn as_condition(word: &str) -> Option<String> {
    if ["unix", "windows"].contains(&word) {
        return Some(word.to_owned());
    }
    let mut names = USUAL.iter();
    names.find_map(|(name, value)| {
        let mut all = ALL_BUILTINS.iter();
        let is_one = all.any(|target| value(target).as_deref() == Some(word));
        is_one.then(|| format!("{name} = \"{word}\""))
    })
}

fn nearest(triple: &str) -> Option<&'static str> {
    let names = ALL_BUILTINS.iter().map(|target| target.triple.as_str());
    // A part that is left out counts less than parts that differ: `x86_64-linux-musl`.
    let distance = |name: &&str| {
        let missing = triple
            .split('-')
            .filter(|part| !name.split('-').any(|other| other == *part));
        (missing.count(), strsim::damerau_levenshtein(name, triple))
    };
    let nearest = names.min_by_key(distance)?;
    let (missing, edits) = distance(&nearest);
    let parts = triple.split('-').count();
    let is_near = missing == 0 && parts > 1 || edits <= 3 && parts > 2;
    is_near.then_some(nearest)
}

/// The shortest condition that tells these targets from all others.
fn cfg_of(targets: &[&TargetInfo]) -> String {
    let each: Vec<Vec<String>> = targets.iter().map(|target| properties(target)).collect();
    let first = &each[0];
    let is_common =
        |property: &&String| each.iter().all(|properties| properties.contains(property));
    let common: Vec<String> = first.iter().filter(is_common).cloned().collect();
    let mut different: Vec<String> = Vec::new();
    for properties in &each {
        let own = properties
            .iter()
            .filter(|property| !common.contains(property))
            .cloned();
        let own = joined("all", own.collect());
        if !different.contains(&own) {
            different.push(own);
        }
    }
    let mut parts = common;
    if each.len() > 1 && different.iter().all(|own| !own.is_empty()) {
        parts.push(joined("any", different));
    }
    joined("all", parts)
}

fn joined(name: &str, mut parts: Vec<String>) -> String {
    match parts.len() {
        0 => String::new(),
        1 => parts.remove(0),
        _ => format!("{name}({})", parts.join(", ")),
    }
}

type Property = (&'static str, fn(&TargetInfo) -> Option<String>);

/// What people write.
const USUAL: [Property; 3] = [
    ("target_arch", |target| {
        Some(target.arch.as_str().to_owned())
    }),
    ("target_os", |target| {
        target.os.as_ref().map(|os| os.as_str().to_owned())
    }),
    ("target_env", |target| {
        target.env.as_ref().map(|env| env.as_str().to_owned())
    }),
];
/// What tells the rest apart.
const RARE: [Property; 4] = [
    ("target_endian", |target| {
        let is_little = target.endian == cfg_expr::targets::Endian::little;
        Some(if is_little { "little" } else { "big" }.to_owned())
    }),
    ("target_pointer_width", |target| {
        Some(target.pointer_width.to_string())
    }),
    ("target_vendor", |target| {
        target.vendor.as_ref().map(|name| name.as_str().to_owned())
    }),
    ("target_abi", |target| {
        target.abi.as_ref().map(|name| name.as_str().to_owned())
    }),
];

/// What `cfg` can say of a target, with as few words as tell it from all others, or from most: a few have twins.
fn properties(target: &TargetInfo) -> Vec<String> {
    let mut alike: Vec<&TargetInfo> = ALL_BUILTINS.iter().collect();
    let mut properties = Vec::new();
    for (name, value) in USUAL {
        let own = value(target);
        properties.extend(own.as_ref().map(|own| format!("{name} = \"{own}\"")));
        alike.retain(|other| value(other) == own);
    }
    while alike.len() > 1 {
        let alike_by = |(_, value): &&Property| {
            let own = value(target);
            alike.iter().filter(|other| value(other) == own).count()
        };
        let best = RARE.iter().min_by_key(alike_by);
        let Some((name, value)) = best.filter(|property| alike_by(property) < alike.len()) else {
            break;
        };
        let own = value(target);
        properties.push(format!("{name} = \"{}\"", own.as_deref().unwrap_or("")));
        alike.retain(|other| value(other) == own);
    }
    properties
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cfg(given: &str) -> String {
        Placement::parse(given).unwrap().condition.to_string()
    }

    #[test]
    fn triples_become_a_condition_that_holds_for_them_alone() {
        let musl = "x86_64-unknown-linux-musl,aarch64-unknown-linux-musl";
        for given in [
            musl,
            "x86_64-unknown-freebsd",
            "x86_64-pc-windows-msvc,x86_64-unknown-freebsd",
        ] {
            let placement = Placement::parse(given).unwrap();
            let mut included: Vec<&str> = ALL_BUILTINS
                .iter()
                .filter(|target| placement.includes(target.triple.as_str()))
                .map(|target| target.triple.as_str())
                .collect();
            let mut named: Vec<&str> = given.split(',').collect();
            included.sort_unstable();
            named.sort_unstable();
            assert_eq!(included, named, "{}", placement.condition);
        }
        let sanitised = Placement::parse("x86_64-unknown-linux-gnu")
            .unwrap()
            .twins();
        assert!(sanitised.contains(&"x86_64-unknown-linux-gnuasan"));
        assert!(!sanitised.contains(&"x86_64-unknown-linux-gnux32"));
        assert!(Placement::parse(musl).unwrap().is_only_musl());
        assert_eq!(cfg("cfg( target_env=\"musl\" )"), "target_env=\"musl\"");
        assert!(Placement::parse("all").unwrap().key().is_none());
    }

    #[test]
    fn what_resembles_no_target_is_not_guessed_at() {
        for given in [
            "nonsense",
            "host",
            "native",
            "*",
            "ALL",
            "all,x86_64-unknown-linux-gnu",
        ] {
            let hint = Placement::parse(given).unwrap_err().hint.unwrap();
            assert_eq!(hint, "`rustc --print target-list` shows all", "{given}");
        }
    }

    #[test]
    fn what_no_dependency_can_depend_on_is_refused() {
        for (given, hint) in [
            (
                "x86_64-linux-musl",
                "did you mean `x86_64-unknown-linux-musl`?",
            ),
            ("cfg(feature = \"fast\")", "--feature fast"),
            (
                "cfg(all(unix, debug_assertions))",
                "cfg(target_env = \"musl\")",
            ),
            ("cfg(unix", "cfg(target_env = \"musl\")"),
            ("cfg(target_os = \"linx\")", "rustc --print cfg"),
            ("x86_64-unknown-linux-muls", "`x86_64-unknown-linux-musl`"),
            ("x86_64-unknown-linux-musl,", "one comma between two"),
            ("", "or `all`"),
            ("musl", "'cfg(target_env = \"musl\")'"),
            ("linux", "'cfg(target_os = \"linux\")'"),
            ("unix", "'cfg(unix)'"),
            ("cfg(all())", "--targets all"),
        ] {
            let hint_given = Placement::parse(given).unwrap_err().hint.unwrap();
            assert!(hint_given.contains(hint), "{given}: {hint_given}");
        }
    }
}
