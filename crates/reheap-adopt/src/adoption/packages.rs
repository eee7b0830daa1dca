//! The packages that `reheap adopt` adds, one for each allocator that has one.
//!
//! Versions are those that were current in November 2026; a project may raise them. To add one, add a row, and look at
//! the features of its manifest: nothing must take over C's malloc, and its build must need no CMake.

use crate::crates;

/// A dependency as it is written.
#[derive(Debug, PartialEq, Eq)]
pub struct Packaged {
    /// The allocator, by its name in the catalogue.
    pub allocator: &'static str,
    /// The package in the registry.
    pub package: &'static str,
    /// The oldest version that will do.
    pub version: &'static str,
    /// Whether its default features are wanted.
    pub has_default_features: bool,
    /// More of its features.
    pub features: &'static [&'static str],
    /// And more in a library that a running program loads, for room for its thread-local storage; none if it is known
    /// to crash there.
    pub features_of_modules: Option<&'static [&'static str]>,
}

/// The package has mimalloc 3 unless a feature asks for mimalloc 2, and reheap means that one by `mimalloc`. mimalloc 3
/// crashes when the thread that loaded the library has ended (its issue 1287).
const MIMALLOC2_IN_MODULES: Option<&[&str]> = Some(&["local_dynamic_tls"]);

const ROWS: [Packaged; 6] = [
    Packaged {
        features: &["v2"],
        features_of_modules: MIMALLOC2_IN_MODULES,
        ..row("mimalloc", "mimalloc", "0.1.52")
    },
    row("mimalloc3", "mimalloc", "0.1.52"),
    Packaged {
        features: &["secure"],
        ..row("mimalloc-secure", "mimalloc", "0.1.52")
    },
    Packaged {
        features: &["v2", "secure"],
        features_of_modules: MIMALLOC2_IN_MODULES,
        ..row("mimalloc2-secure", "mimalloc", "0.1.52")
    },
    Packaged {
        features_of_modules: Some(&["disable_initial_exec_tls"]),
        ..row("jemalloc", "tikv-jemallocator", "0.7.0")
    },
    // By default it is built with CMake.
    Packaged {
        has_default_features: false,
        features: &["build_cc", "usewait-on-address"],
        features_of_modules: Some(&["local_dynamic_tls"]),
        ..row("snmalloc", "snmalloc-rs", "0.7.6")
    },
];

const fn row(allocator: &'static str, package: &'static str, version: &'static str) -> Packaged {
    Packaged {
        allocator,
        package,
        version,
        has_default_features: true,
        features: &[],
        features_of_modules: None,
    }
}

/// The package of an allocator, if there is one that works.
pub fn find(allocator: &str) -> Option<&'static Packaged> {
    ROWS.iter().find(|row| row.allocator == allocator)
}

/// All of them.
pub fn all() -> impl Iterator<Item = &'static Packaged> {
    ROWS.iter()
}

impl Packaged {
    /// The type for the static, as code writes it.
    pub fn type_path(&self) -> String {
        let known = crates::find(self.package).and_then(|row| row.type_name);
        let name = known.expect("each package that is added has a type");
        format!("{}::{name}", crates::identifier(self.package))
    }

    /// The value of the dependency, for this version.
    pub(super) fn value(&self, version: &str, is_optional: bool, is_for_modules: bool) -> String {
        let mut fields = vec![format!("version = \"{version}\"")];
        if !self.has_default_features {
            fields.push("default-features = false".to_owned());
        }
        let of_modules = self
            .features_of_modules
            .filter(|_| is_for_modules)
            .into_iter()
            .flatten();
        let features: Vec<String> = self
            .features
            .iter()
            .chain(of_modules)
            .map(|feature| format!("\"{feature}\""))
            .collect();
        if !features.is_empty() {
            fields.push(format!("features = [{}]", features.join(", ")));
        }
        if is_optional {
            fields.push("optional = true".to_owned());
        }
        match &fields[..] {
            [_] => format!("\"{version}\""),
            fields => format!("{{ {} }}", fields.join(", ")),
        }
    }

    /// The value of the dependency in a member whose workspace says the version and the features.
    pub(super) fn value_in_member(is_optional: bool) -> String {
        if is_optional {
            "{ workspace = true, optional = true }".to_owned()
        } else {
            "{ workspace = true }".to_owned()
        }
    }

    /// The row of which this is the value, whatever its version.
    pub(super) fn of_value(package: &str, value: &str) -> Option<(&'static Self, String)> {
        let version = version_in(value)?;
        let data = super::data::Data::of_written(&as_table(value))?;
        let is_it = |row: &&Self| {
            let both = [false, true];
            let values = both.iter().flat_map(|&of_modules| {
                both.map(|is_optional| row.value(&version, is_optional, of_modules))
            });
            let mut values =
                values.filter_map(|value| super::data::Data::of_written(&as_table(&value)));
            row.package == package && values.any(|value| value == data)
        };
        Some((ROWS.iter().find(is_it)?, version.clone()))
    }
}

/// The value as a bot may write it out: `{ version = "1" }` for `"1"`.
fn as_table(value: &str) -> String {
    if value.trim_start().starts_with('{') {
        value.to_owned()
    } else {
        format!("{{ version = {value} }}")
    }
}

/// The version in the value of a dependency.
fn version_in(value: &str) -> Option<String> {
    let document: toml_edit::Document<String> =
        toml_edit::Document::parse(format!("it = {value}")).ok()?;
    let item = document.get("it")?;
    let field = || item.as_table_like()?.get("version")?.as_str();
    item.as_str().or_else(field).map(str::to_owned)
}
