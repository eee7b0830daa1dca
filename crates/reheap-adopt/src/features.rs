//! The features of a package, and what each turns on (Cargo book, "Features").

use std::collections::{BTreeMap, BTreeSet};

/// The table `[features]`, with the features that optional dependencies imply.
#[derive(Debug, Clone, Default)]
pub struct Features {
    table: BTreeMap<String, Vec<String>>,
    /// Those that optional dependencies imply and that only serve other features.
    details: BTreeSet<String>,
}

/// What is on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Active {
    /// Features.
    pub features: BTreeSet<String>,
    /// Optional dependencies, by their keys in the manifest.
    pub dependencies: BTreeSet<String>,
    /// Features of dependencies: `dependency/feature`.
    pub of_dependencies: BTreeSet<(String, String)>,
}

impl Features {
    /// Of the table, and the keys of all optional dependencies.
    pub fn of(mut table: BTreeMap<String, Vec<String>>, optional: &BTreeSet<String>) -> Self {
        let named: BTreeSet<String> = table
            .values()
            .flatten()
            .filter_map(|value| value.strip_prefix("dep:").map(str::to_owned))
            .collect();
        let values: BTreeSet<&str> = table.values().flatten().map(String::as_str).collect();
        let details = optional.iter().filter(|key| {
            let is_value = values.contains(key.as_str());
            is_value && !named.contains(*key) && !table.contains_key(*key)
        });
        let details = details.cloned().collect();
        for key in optional {
            if !named.contains(key) && !table.contains_key(key) {
                table.insert(key.clone(), vec![format!("dep:{key}")]);
            }
        }
        Self { table, details }
    }

    /// Whether a feature is there by the name of an optional dependency only, for another feature that names it in the
    /// old way, without `dep:`. Nobody means to turn that on alone.
    pub fn is_detail(&self, name: &str) -> bool {
        self.details.contains(name)
    }

    /// The features that turn on an optional dependency, those people mean first.
    pub fn enabling(&self, key: &str) -> Vec<&str> {
        let names = self.names();
        let mut enabling: Vec<&str> = names
            .filter(|name| self.active([*name]).dependencies.contains(key))
            .collect();
        enabling.sort_by_key(|name| (self.is_detail(name), self.active([*name]).features.len()));
        enabling
    }

    /// All names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.table.keys().map(String::as_str)
    }

    /// What a set of features turns on.
    pub fn active<'a>(&self, chosen: impl IntoIterator<Item = &'a str>) -> Active {
        let mut active = Active::default();
        let mut next: Vec<&str> = chosen.into_iter().collect();
        while let Some(name) = next.pop() {
            let Some(values) = self.table.get(name) else {
                continue;
            };
            if !active.features.insert(name.to_owned()) {
                continue;
            }
            for value in values {
                if let Some(dependency) = value.strip_prefix("dep:") {
                    active.dependencies.insert(dependency.to_owned());
                } else if let Some((dependency, feature)) = value.split_once('/') {
                    let (dependency, is_weak) = match dependency.strip_suffix('?') {
                        Some(dependency) => (dependency, true),
                        None => (dependency, false),
                    };
                    let of_dependency = (dependency.to_owned(), feature.to_owned());
                    active.of_dependencies.insert(of_dependency);
                    if !is_weak {
                        active.dependencies.insert(dependency.to_owned());
                        next.push(dependency);
                    }
                } else {
                    next.push(value);
                }
            }
        }
        active
    }

    /// What is on if nobody chooses.
    pub fn if_nobody_chooses(&self) -> Active {
        self.active(["default"])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn features() -> Features {
        let table = [
            ("default", vec!["fast"]),
            ("fast", vec!["dep:mimalloc", "mimalloc?/v2", "log/std"]),
            ("small", vec![]),
        ];
        let table = table.map(|(name, values)| {
            let values = values.into_iter().map(str::to_owned).collect();
            (name.to_owned(), values)
        });
        let optional = ["mimalloc", "log", "jemalloc"].map(str::to_owned);
        Features::of(table.into(), &optional.into())
    }

    #[test]
    fn a_feature_turns_on_others_and_dependencies() {
        let active = features().if_nobody_chooses();
        assert!(active.features.contains("fast") && !active.features.contains("small"));
        let dependencies: Vec<&str> = active.dependencies.iter().map(String::as_str).collect();
        assert_eq!(dependencies, ["log", "mimalloc"]);
        let of_mimalloc = ("mimalloc".to_owned(), "v2".to_owned());
        assert!(active.of_dependencies.contains(&of_mimalloc));
    }

    #[test]
    fn an_optional_dependency_is_a_feature_unless_one_names_it() {
        let features = features();
        let names: Vec<&str> = features.names().collect();
        assert_eq!(names, ["default", "fast", "jemalloc", "log", "small"]);
        assert!(!features.is_detail("jemalloc"));
        assert!(
            features
                .active(["jemalloc"])
                .dependencies
                .contains("jemalloc")
        );
    }

    #[test]
    fn a_feature_that_another_one_names_without_dep_is_a_detail_of_it() {
        let table = [("fast".to_owned(), vec!["jemalloc".to_owned()])];
        let features = Features::of(table.into(), &["jemalloc".to_owned()].into());
        assert!(features.is_detail("jemalloc") && !features.is_detail("fast"));
        assert_eq!(features.enabling("jemalloc"), ["fast", "jemalloc"]);
    }
}
