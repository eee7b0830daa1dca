//! What a Cargo.toml chooses for its project: `[package.metadata.reheap]` and `[workspace.metadata.reheap]`.
//!
//! Cargo keeps `metadata` tables for other programs and never looks into them, so reheap must find every mistake.
//! To add a key: a field in [`ProjectChoice`], a row in [`KEYS`], and a row in docs/static-executables.md.

use reheap_allocators::catalogue::nearest;
use reheap_command::choice::{Place, Table, WhoseMemoryFunctions, Wishes, musl_target};
use reheap_command::ui::Failure;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// What such a table may hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(crate) struct ProjectChoice {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) allocator: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tuning: Option<BTreeMap<String, TuningValue>>,
    /// The size of stacks of threads that set none, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stack_size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) memory_functions: Option<WhoseMemoryFunctions>,
    /// Triples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) targets: Option<Vec<String>>,
}

/// The value of an allocator's option, as it is natural to write in TOML.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum TuningValue {
    Boolean(bool),
    Integer(i64),
    Text(String),
}

/// The keys, and what each must be.
const KEYS: [(&str, &str); 5] = [
    ("allocator", "the name of an allocator"),
    (
        "tuning",
        "a table whose values are strings, integers or booleans",
    ),
    ("stack-size", "a number of bytes, without quotes"),
    ("memory-functions", "\"fast\" or \"stock\""),
    ("targets", "a list of target triples"),
];

/// What the table is called in a package and in a workspace.
pub(crate) const OF_PACKAGE: &str = "package.metadata.reheap";
pub(crate) const OF_WORKSPACE: &str = "workspace.metadata.reheap";

impl ProjectChoice {
    /// Reads the part for reheap of a `metadata` table, as `cargo metadata` shows it. No part chooses nothing.
    pub(super) fn read(metadata: &serde_json::Value, table: &Table) -> Result<Self, Failure> {
        let part = &metadata["reheap"];
        if part.is_null() {
            return Ok(Self::default());
        }
        let Some(keys) = part.as_object() else {
            let (name, manifest) = (table.name, table.manifest.display());
            let text = format!("cannot use `{name}` in `{manifest}`: it is not a table");
            return Err(Failure::usage(text));
        };
        for (key, value) in keys {
            let Some((_, expected)) = KEYS.iter().find(|(known, _)| known == key) else {
                return Err(unknown_key(key, table));
            };
            // A table with this key alone tells whether its value is one that the key can have.
            if serde_json::from_value::<Self>(serde_json::json!({ key: value })).is_err() {
                return Err(table.refuse(key, format!("it must be {expected}")));
            }
        }
        let choice: Self = serde_json::from_value(part.clone())
            .map_err(|error| table.refuse("*", format!("the keys do not fit: {error}")))?;
        for triple in choice.targets.iter().flatten() {
            musl_target(Some(triple)).map_err(|error| table.refuse("targets", error))?;
        }
        Ok(choice)
    }

    /// The choice as wishes for a static executable.
    pub(super) fn wishes(&self, table: Table) -> Wishes {
        let option = |(key, value): (&String, &TuningValue)| format!("{key}={value}");
        let tuning = self.tuning.as_ref();
        Wishes {
            allocator: self.allocator.clone(),
            tuning: tuning.map(|tuning| tuning.iter().map(option).collect()),
            memory_functions: self.memory_functions,
            stack_size_bytes: self.stack_size,
            ..Wishes::none(Place::Manifest(table))
        }
    }

    /// The target that is built where nobody names one: that of this machine's processor, or else the first.
    pub(super) fn target(&self) -> Option<&str> {
        let own = format!("{}-", std::env::consts::ARCH);
        let targets = self.targets.as_deref().unwrap_or_default();
        let of_machine = targets.iter().find(|triple| triple.starts_with(&own));
        of_machine.or(targets.first()).map(String::as_str)
    }
}

impl fmt::Display for TuningValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean(value) => value.fmt(f),
            Self::Integer(value) => value.fmt(f),
            Self::Text(value) => value.fmt(f),
        }
    }
}

fn unknown_key(key: &str, table: &Table) -> Failure {
    let failure = table.refuse(key, "reheap knows no such key");
    let known = || KEYS.iter().map(|(known, _)| *known);
    match nearest(key, known()) {
        Some(nearest) => failure.hint(format!("did you mean `{nearest}`?")),
        None => failure.hint(format!(
            "the keys are {}",
            known().collect::<Vec<_>>().join(", ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(toml: &str) -> Result<ProjectChoice, String> {
        let metadata: toml::Table = toml.parse().unwrap();
        let metadata = serde_json::to_value(metadata).unwrap();
        let table = Table {
            manifest: "Cargo.toml".into(),
            name: OF_PACKAGE,
        };
        ProjectChoice::read(&metadata, &table).map_err(|failure| failure.to_string())
    }

    #[test]
    fn what_is_written_is_what_is_read() {
        let text = "[reheap]\nallocator = \"mimalloc\"\ntuning = { purge_delay = 0, a = \"b\", c = true }\n\
                    stack-size = 65536\nmemory-functions = \"stock\"\ntargets = [\"x86_64-unknown-linux-musl\"]\n";
        let choice = read(text).unwrap();
        let tuning = choice.tuning.as_ref().unwrap();
        assert_eq!(tuning["purge_delay"].to_string(), "0");
        assert_eq!(tuning["c"].to_string(), "true");
        let written = toml::to_string(&BTreeMap::from([("reheap", &choice)])).unwrap();
        assert_eq!(read(&written).unwrap(), choice, "{written}");
        assert_eq!(read("").unwrap(), ProjectChoice::default());
        let nothing = serde_json::to_string(&ProjectChoice::default()).unwrap();
        assert_eq!(nothing, "{}");
    }

    #[test]
    fn every_key_refuses_a_value_of_another_kind_by_its_name() {
        for (key, expected) in KEYS {
            let error = read(&format!("[reheap]\n{key} = 1.5")).unwrap_err();
            let start =
                format!("cannot use `package.metadata.reheap.{key}` in `Cargo.toml`: it must be");
            assert_eq!(error, format!("{start} {expected}"));
        }
        assert!(
            read("reheap = 1")
                .unwrap_err()
                .ends_with("it is not a table")
        );
    }

    #[test]
    fn the_target_of_this_machine_comes_before_the_first() {
        let own = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
        let of = |targets: &[&str]| ProjectChoice {
            targets: Some(targets.iter().map(|triple| (*triple).to_owned()).collect()),
            ..ProjectChoice::default()
        };
        assert_eq!(of(&["riscv64-x", &own]).target(), Some(own.as_str()));
        assert_eq!(of(&["riscv64-x", "s390x-x"]).target(), Some("riscv64-x"));
        assert_eq!(of(&[]).target(), None);
    }
}
