//! What a `Cargo.toml` says of dependencies and features, and where.

use crate::condition::{Build, Condition};
use crate::crates;
use crate::error::AdoptError;
use crate::features::{Active, Features};
use crate::text::Text;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use toml_edit::{Document, Item, TableLike};

/// A manifest as it was read.
#[derive(Debug, Clone)]
pub struct Manifest {
    /// The file.
    pub text: Text,
    /// The parsed file, with the place of everything in it.
    pub document: Document<String>,
    /// All dependencies, also those of tests and build scripts.
    pub dependencies: Vec<Dependency>,
    /// `[features]`.
    pub features: Features,
}

/// A line of a table of dependencies.
#[derive(Debug, Clone)]
pub struct Dependency {
    /// The key, by which features name it.
    pub key: String,
    /// The package's name in the registry.
    pub package: String,
    /// What it is for.
    pub kind: Kind,
    /// On which targets.
    pub condition: Condition,
    /// The key of the table `target` that it is in.
    pub target: Option<String>,
    /// Whether features turn it on.
    pub is_optional: bool,
    /// Its own features, with those of the workspace's table.
    pub features: Vec<String>,
    /// Whether its default features are on.
    pub has_default_features: bool,
    /// What versions it takes, if they come from a registry.
    pub version: Option<String>,
    /// Its directory, if it is a part of the same repository.
    pub path: Option<String>,
    /// Where its key is, from 1.
    pub line: usize,
}

/// What a dependency is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The package itself.
    Normal,
    /// Tests, examples and benchmarks.
    Development,
    /// The build script.
    Build,
}

/// The tables by which Cargo knows kinds; the second spelling of each is the old one.
const TABLES: [(&str, Kind); 5] = [
    ("dependencies", Kind::Normal),
    ("dev-dependencies", Kind::Development),
    ("dev_dependencies", Kind::Development),
    ("build-dependencies", Kind::Build),
    ("build_dependencies", Kind::Build),
];

impl Dependency {
    /// The name by which code calls it.
    pub fn identifier(&self) -> String {
        crates::identifier(&self.key)
    }

    /// Whether a build has it. `active` is what the features of its own package turn on.
    pub fn is_there(&self, build: &Build<'_>, active: &Active) -> bool {
        let is_enabled = !self.is_optional || active.dependencies.contains(&self.key);
        // In a table of targets, Cargo knows nothing but the target (Cargo book, "Platform specific dependencies").
        let nothing = BTreeSet::new();
        let at = Build {
            target: build.target,
            features: &nothing,
            others: &nothing,
        };
        is_enabled && self.condition.holds(&at)
    }

    /// The names of the features that it gets, with `default` if that is on.
    pub fn feature_names(&self, active: &Active) -> BTreeSet<String> {
        let asked = active
            .of_dependencies
            .iter()
            .filter(|(key, _)| *key == self.key);
        let default = self.has_default_features.then(|| "default".to_owned());
        let own = self.features.iter().cloned();
        own.chain(default)
            .chain(asked.map(|(_, name)| name.clone()))
            .collect()
    }

    /// What is on in a package that is this dependency.
    pub fn features_of(&self, features: &Features, active: &Active) -> Active {
        let names = self.feature_names(active);
        features.active(names.iter().map(String::as_str))
    }
}

impl Manifest {
    /// Reads a manifest. `workspace` is the one at the root of its workspace.
    ///
    /// # Errors
    /// If it cannot be read, or is not TOML.
    pub fn read(path: &Path, workspace: Option<&Manifest>) -> Result<Self, AdoptError> {
        Self::of(Text::read(path)?, workspace)
    }

    /// From what was read.
    ///
    /// # Errors
    /// If it is not TOML.
    pub fn of(text: Text, workspace: Option<&Manifest>) -> Result<Self, AdoptError> {
        let document = Document::parse(text.contents.clone()).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            AdoptError::Syntax {
                path: text.path.clone(),
                line: text.line(at),
                reason: error.message().to_owned(),
            }
        })?;
        let mut manifest = Self {
            text,
            document,
            dependencies: Vec::new(),
            features: Features::default(),
        };
        manifest.dependencies = manifest.all_dependencies(workspace);
        let optional: BTreeSet<String> = manifest
            .dependencies
            .iter()
            .filter(|dependency| dependency.is_optional)
            .map(|dependency| dependency.key.clone())
            .collect();
        manifest.features = Features::of(manifest.feature_table(), &optional);
        Ok(manifest)
    }

    /// The table that is found by following these keys.
    pub fn table(&self, keys: &[&str]) -> Option<&dyn TableLike> {
        let root: &dyn TableLike = self.document.as_table();
        keys.iter().try_fold(root, |table, key| {
            table.get(key).and_then(Item::as_table_like)
        })
    }

    fn feature_table(&self) -> BTreeMap<String, Vec<String>> {
        let table = self.table(&["features"]);
        let features = table.into_iter().flat_map(|table| table.iter());
        features
            .map(|(name, values)| (name.to_owned(), strings(Some(values))))
            .collect()
    }

    fn all_dependencies(&self, workspace: Option<&Manifest>) -> Vec<Dependency> {
        let mut found = Vec::new();
        let mut read = |table: Option<&dyn TableLike>, kind, target: Option<&str>| {
            let Some(table) = table else { return };
            for (key, item) in table.iter() {
                let at = table.get_key_value(key).and_then(|(key, _)| key.span());
                let line = self.text.line(at.map_or(0, |span| span.start));
                found.push(dependency(key, item, kind, target, workspace, line));
            }
        };
        for (name, kind) in TABLES {
            read(self.table(&[name]), kind, None);
        }
        let targets = self.table(&["target"]);
        for (target, item) in targets.into_iter().flat_map(|targets| targets.iter()) {
            let tables = item.as_table_like();
            for (name, kind) in TABLES {
                let table = tables.and_then(|tables| tables.get(name)?.as_table_like());
                read(table, kind, Some(target));
            }
        }
        found
    }

    /// What `[workspace.dependencies]` says of a dependency.
    fn shared(&self, key: &str) -> Option<&Item> {
        self.table(&["workspace", "dependencies"])?.get(key)
    }
}

fn dependency(
    key: &str,
    item: &Item,
    kind: Kind,
    target: Option<&str>,
    workspace: Option<&Manifest>,
    line: usize,
) -> Dependency {
    let own = item.as_table_like();
    let field = |name: &str| own.and_then(|table| table.get(name));
    let is_shared = field("workspace").and_then(Item::as_bool) == Some(true);
    let shared = workspace
        .filter(|_| is_shared)
        .and_then(|workspace| workspace.shared(key));
    let of_shared = |name: &str| shared.and_then(Item::as_table_like)?.get(name);
    let text = |name: &str| {
        let value = field(name).or_else(|| of_shared(name));
        value.and_then(Item::as_str).map(str::to_owned)
    };
    let mut features = strings(of_shared("features"));
    features.extend(strings(field("features")));
    let default_features = |of: &dyn Fn(&'static str) -> Option<bool>| {
        of("default-features").or_else(|| of("default_features"))
    };
    let own_defaults = default_features(&|name| field(name)?.as_bool());
    let shared_defaults = default_features(&|name| of_shared(name)?.as_bool());
    let version = text("version")
        .or_else(|| item.as_str().map(str::to_owned))
        .or_else(|| shared.and_then(Item::as_str).map(str::to_owned));
    Dependency {
        key: key.to_owned(),
        package: text("package").unwrap_or_else(|| key.to_owned()),
        kind,
        condition: target.map_or_else(Condition::always, Condition::of_target_key),
        target: target.map(str::to_owned),
        is_optional: field("optional").and_then(Item::as_bool) == Some(true),
        features,
        // A member can turn the defaults on again, but not off (Cargo book, "Inheriting a dependency from a workspace").
        has_default_features: match (own_defaults, shared_defaults) {
            (own, None) => own != Some(false),
            (own, Some(shared)) => shared || own == Some(true),
        },
        version,
        path: text("path"),
        line,
    }
}

/// The strings of an array.
fn strings(item: Option<&Item>) -> Vec<String> {
    let array = item.and_then(Item::as_array);
    let values = array.into_iter().flat_map(|array| array.iter());
    values
        .filter_map(|value| value.as_str().map(str::to_owned))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn manifest(contents: &str, workspace: Option<&Manifest>) -> Manifest {
        let text = Text {
            path: PathBuf::from("Cargo.toml"),
            contents: contents.to_owned(),
        };
        Manifest::of(text, workspace).unwrap()
    }

    #[test]
    fn dependencies_are_found_in_every_table() {
        let found = manifest(
            "[dependencies]\nlog = \"0.4\"\n\n\
             [target.'cfg(target_env = \"musl\")'.dependencies.alloc]\npackage = \"mimalloc\"\nversion = \"0.1\"\n\
             default-features = false\noptional = true\nfeatures = [\"secure\"]\n\n[dev-dependencies]\ntempfile = \"3\"\n",
            None,
        );
        let names: Vec<(&str, usize)> = found
            .dependencies
            .iter()
            .map(|dependency| (dependency.package.as_str(), dependency.line))
            .collect();
        assert_eq!(names, [("log", 2), ("tempfile", 12), ("mimalloc", 4)]);
        let mimalloc = &found.dependencies[2];
        assert_eq!(mimalloc.identifier(), "alloc");
        assert!(mimalloc.is_optional && !mimalloc.has_default_features);
        assert_eq!(mimalloc.condition.to_string(), "target_env = \"musl\"");
        assert!(found.features.names().any(|name| name == "alloc"));
    }

    #[test]
    fn a_member_takes_what_the_workspace_says() {
        let root = manifest(
            "[workspace.dependencies]\nmimalloc = { version = \"0.1.48\", default-features = false, features = [\"v2\"] }\n",
            None,
        );
        let member = manifest(
            "[dependencies]\nmimalloc = { workspace = true, features = [\"secure\"] }\n",
            Some(&root),
        );
        let mimalloc = &member.dependencies[0];
        assert_eq!(mimalloc.features, ["v2", "secure"]);
        assert_eq!(mimalloc.version.as_deref(), Some("0.1.48"));
        assert!(!mimalloc.has_default_features);
    }

    #[test]
    fn broken_toml_names_its_line() {
        let text = Text {
            path: PathBuf::from("Cargo.toml"),
            contents: "[package]\nname = \n".to_owned(),
        };
        let error = Manifest::of(text, None).unwrap_err().to_string();
        assert!(error.contains("`Cargo.toml`, line 2"), "{error}");
    }
}
