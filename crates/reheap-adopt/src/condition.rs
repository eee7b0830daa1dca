//! Conditions, from `cfg(…)` in sources, tables of targets in manifests, and features.
//!
//! A condition is a boolean function of a [`Build`]: a target, the features that are on, and whatever else a build may
//! set. `cfg-expr` parses the text and knows rustc's targets.

use cfg_expr::Expression;
use cfg_expr::expr::{Predicate, TargetMatcher as _, TargetPredicate};
use cfg_expr::targets::TargetInfo;
use std::collections::BTreeSet;
use std::fmt;

/// Parentheses in parentheses; nobody writes so many, and reading each costs some of the stack.
const DEPTH_MAX: usize = 256;

/// A boolean function of a build.
#[derive(Debug, Clone)]
pub enum Condition {
    /// What `cfg(…)` says.
    Cfg(Box<Expression>),
    /// One target by its name.
    Triple(String),
    /// A feature of the package is on.
    Feature(String),
    /// Text that is no known condition. It may hold or not.
    Unknown(String),
    /// All of these; with none, it always holds.
    All(Vec<Condition>),
    /// One of these; with none, it never holds.
    Any(Vec<Condition>),
    /// Not this.
    Not(Box<Condition>),
}

/// One way to build a package.
#[derive(Debug, Clone)]
pub struct Build<'a> {
    /// For which target.
    pub target: &'static TargetInfo,
    /// The features that are on, with those that others turned on.
    pub features: &'a BTreeSet<String>,
    /// What else is set, such as `test` or `key="value"`.
    pub others: &'a BTreeSet<String>,
}

impl Condition {
    /// It always holds.
    pub fn always() -> Self {
        Self::All(Vec::new())
    }

    /// From the inside of `cfg(…)`.
    pub fn of_cfg(text: &str) -> Self {
        if depth(text) > DEPTH_MAX {
            return Self::Unknown(text.trim().to_owned());
        }
        if let Some(parts) = parts_of_all(text) {
            let parts: Vec<Self> = parts.iter().map(|part| Self::of_cfg(part)).collect();
            return match <[Self; 1]>::try_from(parts) {
                Ok([only]) => only,
                Err(parts) => Self::All(parts),
            };
        }
        match Expression::parse(text) {
            Ok(expression) => Self::Cfg(Box::new(expression)),
            Err(_) => Self::Unknown(text.trim().to_owned()),
        }
    }

    /// From a key of Cargo's table `target`: a triple, or `cfg(…)`.
    pub fn of_target_key(key: &str) -> Self {
        let inside = key
            .trim()
            .strip_prefix("cfg")
            .map(str::trim)
            .and_then(|rest| rest.strip_prefix('('));
        match inside.and_then(|rest| rest.strip_suffix(')')) {
            Some(inside) => Self::of_cfg(inside),
            None => Self::Triple(key.trim().to_owned()),
        }
    }

    /// This and the other.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        match (self.is_always(), other.is_always()) {
            (true, _) => other.clone(),
            (_, true) => self.clone(),
            _ => Self::All([self.parts(), other.parts()].concat()),
        }
    }

    /// What all have to hold so that it holds.
    fn parts(&self) -> &[Self] {
        match self {
            Self::All(parts) => parts,
            one => std::slice::from_ref(one),
        }
    }

    /// What it says of the target, if that can be told from the rest.
    pub fn of_target(&self) -> Option<Self> {
        let mut of_target = Self::always();
        for part in self.parts() {
            let mut atoms = Atoms::default();
            part.add_atoms(&mut atoms);
            let has_target = !atoms.targets.is_empty() || !atoms.triples.is_empty();
            let has_more = !atoms.features.is_empty() || !atoms.others.is_empty();
            match (has_target, has_more) {
                (true, true) => return None,
                (true, false) => of_target = of_target.and(part),
                (false, _) => {}
            }
        }
        Some(of_target)
    }

    /// Whether it is written so that it always holds.
    pub fn is_always(&self) -> bool {
        matches!(self, Self::All(parts) if parts.is_empty())
    }

    /// Whether it holds.
    pub fn holds(&self, build: &Build<'_>) -> bool {
        match self {
            Self::Cfg(expression) => expression.eval(|predicate| match predicate {
                Predicate::Target(predicate) => build.target.matches(predicate),
                Predicate::Feature(name) => build.features.contains(*name),
                other => build.others.contains(&name_of(other)),
            }),
            Self::Triple(name) => build.target.triple.as_str() == name,
            Self::Feature(name) => build.features.contains(name),
            Self::Unknown(text) => build.others.contains(text),
            Self::All(parts) => parts.iter().all(|part| part.holds(build)),
            Self::Any(parts) => parts.iter().any(|part| part.holds(build)),
            Self::Not(part) => !part.holds(build),
        }
    }

    /// Adds what it depends on.
    pub fn add_atoms(&self, atoms: &mut Atoms) {
        match self {
            Self::Cfg(expression) => {
                for predicate in expression.predicates() {
                    match predicate {
                        Predicate::Target(predicate) => atoms.targets.push(predicate),
                        Predicate::Feature(name) => _ = atoms.features.insert(name.to_owned()),
                        other => _ = atoms.others.insert(name_of(&other)),
                    }
                }
            }
            Self::Triple(name) => _ = atoms.triples.insert(name.clone()),
            Self::Feature(name) => _ = atoms.features.insert(name.clone()),
            Self::Unknown(text) => _ = atoms.others.insert(text.clone()),
            Self::All(parts) | Self::Any(parts) => {
                parts.iter().for_each(|part| part.add_atoms(atoms));
            }
            Self::Not(part) => part.add_atoms(atoms),
        }
    }
}

/// How many parentheses are open at once.
fn depth(text: &str) -> usize {
    let mut open = 0_usize;
    let depths = text.bytes().map(|byte| {
        match byte {
            b'(' => open += 1,
            b')' => open = open.saturating_sub(1),
            _ => {}
        }
        open
    });
    depths.max().unwrap_or(0)
}

/// The parts of `all(…)`, and of `not(any(…))`, which is the same of their contraries.
fn parts_of_all(text: &str) -> Option<Vec<String>> {
    if let Some(parts) = arguments(text, "all") {
        return Some(parts.into_iter().map(str::to_owned).collect());
    }
    let [any] = arguments(text, "not")?[..] else {
        return None;
    };
    let parts = arguments(any, "any")?.into_iter();
    Some(parts.map(|part| format!("not({})", part.trim())).collect())
}

/// The arguments of a call, if the text is that and nothing else.
fn arguments<'a>(text: &'a str, name: &str) -> Option<Vec<&'a str>> {
    let inside = text
        .trim()
        .strip_prefix(name)?
        .trim_start()
        .strip_prefix('(')?
        .strip_suffix(')')?;
    let (mut depth, mut is_quoted, mut start) = (0_usize, false, 0);
    let mut parts = Vec::new();
    for (at, character) in inside.char_indices() {
        match character {
            '"' => is_quoted = !is_quoted,
            _ if is_quoted => {}
            '(' => depth += 1,
            // It closes what is before: `all(a), not(b)`
            ')' => depth = depth.checked_sub(1)?,
            ',' if depth == 0 => {
                parts.push(&inside[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&inside[start..]);
    parts.retain(|part| !part.trim().is_empty());
    Some(parts)
}

/// What conditions depend on.
#[derive(Debug, Clone, Default)]
pub struct Atoms {
    /// Properties of the target.
    pub targets: Vec<TargetPredicate>,
    /// Targets by name.
    pub triples: BTreeSet<String>,
    /// Features of the package.
    pub features: BTreeSet<String>,
    /// What else a build may set.
    pub others: BTreeSet<String>,
}

/// How rustc writes a predicate that is neither of a target nor a feature.
fn name_of(predicate: &Predicate<'_>) -> String {
    match predicate {
        Predicate::Test => "test".to_owned(),
        Predicate::DebugAssertions => "debug_assertions".to_owned(),
        Predicate::ProcMacro => "proc_macro".to_owned(),
        Predicate::Flag(name) => (*name).to_owned(),
        Predicate::KeyValue { key, val } => format!("{key} = \"{val}\""),
        Predicate::TargetFeature(name) => format!("target_feature = \"{name}\""),
        Predicate::Feature(name) => format!("feature = \"{name}\""),
        Predicate::Target(_) => String::new(),
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, name: &str, parts: &[Self]| {
            write!(f, "{name}(")?;
            for (index, part) in parts.iter().enumerate() {
                write!(f, "{}{part}", if index > 0 { ", " } else { "" })?;
            }
            write!(f, ")")
        };
        match self {
            Self::Cfg(expression) => {
                let words: Vec<&str> = expression.original().split_whitespace().collect();
                write!(f, "{}", words.join(" "))
            }
            Self::Triple(name) => write!(f, "{name}"),
            Self::Feature(name) => write!(f, "feature = \"{name}\""),
            Self::Unknown(text) => write!(f, "{text}"),
            Self::All(parts) => list(f, "all", parts),
            Self::Any(parts) => list(f, "any", parts),
            Self::Not(part) => write!(f, "not({part})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_that_is_too_deep_is_unknown() {
        let of = |depth: usize| {
            let text = format!("{}test{}", "not(".repeat(depth), ")".repeat(depth));
            let condition = Condition::of_cfg(&text);
            assert_eq!(condition.to_string(), text);
            condition
        };
        assert!(matches!(of(256), Condition::Cfg(_)));
        assert!(matches!(of(100_000), Condition::Unknown(_)));
        let all = format!("{}test{}", "all(".repeat(100_000), ")".repeat(100_000));
        assert!(matches!(Condition::of_cfg(&all), Condition::Unknown(_)));
    }

    #[test]
    fn what_it_says_of_the_target_is_told_from_the_rest() {
        let of_target = |text: &str| {
            Condition::of_cfg(text)
                .of_target()
                .map(|condition| condition.to_string())
        };
        assert_eq!(
            of_target("all(target_env = \"musl\", feature = \"a,b\", not(miri))").as_deref(),
            Some("target_env = \"musl\"")
        );
        assert_eq!(
            of_target("all(unix, all(target_os = \"linux\"), test)").as_deref(),
            Some("all(unix, target_os = \"linux\")")
        );
        assert_eq!(
            of_target("not(any(miri, target_family = \"wasm\"))").as_deref(),
            Some("not(target_family = \"wasm\")")
        );
        assert_eq!(of_target("any(unix, feature = \"a\")"), None);
        assert!(Condition::of_cfg("test").of_target().unwrap().is_always());
    }
}
