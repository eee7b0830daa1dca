//! Tuning: allocator options given as `-t key=value`. reheap checks them against the catalogue before it builds
//! anything.

use crate::catalogue::{Allocator, nearest};
use crate::options::Applied;
use reheap_elf::baked::Baked;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// An environment variable for a program that an allocator is preloaded into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Variable {
    /// One for each option.
    Plain(&'static str),
    /// `MALLOC_CONF`, a list of settings between commas.
    MallocConf,
    /// `GLIBC_TUNABLES`, a list of settings between colons.
    GlibcTunables,
}

impl Variable {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain(name) => name,
            Self::MallocConf => "MALLOC_CONF",
            Self::GlibcTunables => "GLIBC_TUNABLES",
        }
    }

    /// The variable's new value. Where a list sets one option twice, the last setting counts, so the user's `-t` wins.
    pub fn merged(self, present: Option<&OsStr>, setting: &str) -> OsString {
        let separator = match self {
            Self::Plain(_) => return setting.into(),
            Self::MallocConf => ",",
            Self::GlibcTunables => ":",
        };
        let mut value = present.unwrap_or_default().to_owned();
        if !value.is_empty() {
            value.push(separator);
        }
        value.push(setting);
        value
    }
}

/// Checked options, by key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tuning(BTreeMap<&'static str, (String, String)>);

/// Why an option is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TuningError {
    /// There is no `=`.
    #[error("cannot read the tuning option `{0}`: it is not of the form key=value")]
    NoValue(String),
    /// The allocator has no such option.
    #[error("cannot set `{key}`: {allocator} has no tuning option of that name")]
    UnknownKey {
        /// The allocator.
        allocator: &'static str,
        /// What was asked for.
        key: String,
        /// The key that the user may have meant.
        nearest: Option<&'static str>,
        /// All its keys.
        known: Vec<&'static str>,
    },
    /// The option does not accept the value.
    #[error("cannot set `{key}` to `{value}`: it accepts {domain}")]
    BadValue {
        /// The option.
        key: &'static str,
        /// What was given.
        value: String,
        /// What it accepts.
        domain: String,
    },
}

/// What reheap sets for an allocator when the user does not, for cache keys.
pub(crate) fn presets(allocator: &Allocator) -> String {
    let rows = allocator.tuning.iter();
    let presets = rows.filter_map(|row| Some(format!("{}={}", row.key, row.preset?)));
    presets.collect::<Vec<_>>().join(" ")
}

impl Tuning {
    /// Checks options of the form `key=value` against those of the allocator. A later option of the same key wins.
    ///
    /// # Errors
    /// The first option without a `=`, with a key that the allocator does not have, or with a value that the key does
    /// not accept.
    pub fn parse<S: AsRef<str>>(
        allocator: &'static Allocator,
        options: &[S],
    ) -> Result<Self, TuningError> {
        let mut tuning = BTreeMap::new();
        for option in options.iter().map(AsRef::as_ref) {
            let (key, value) = option
                .split_once('=')
                .ok_or_else(|| TuningError::NoValue(option.to_owned()))?;
            let row = allocator
                .tuning
                .iter()
                .find(|row| row.key == key)
                .ok_or_else(|| TuningError::UnknownKey {
                    allocator: allocator.name,
                    key: key.to_owned(),
                    nearest: nearest(key, allocator.tuning.iter().map(|row| row.key)),
                    known: allocator.tuning.iter().map(|row| row.key).collect(),
                })?;
            let meant = row
                .domain
                .accept(value)
                .ok_or_else(|| TuningError::BadValue {
                    key: row.key,
                    value: value.to_owned(),
                    domain: row.domain.to_string(),
                })?;
            tuning.insert(row.key, (value.to_owned(), meant));
        }
        Ok(Self(tuning))
    }

    /// The options as the user gave them, for the marker.
    pub fn as_given(&self) -> BTreeMap<String, String> {
        self.0
            .iter()
            .map(|(key, (value, _))| ((*key).to_owned(), value.clone()))
            .collect()
    }

    /// Whether no option was given.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The options as variables, each with the setting to add, for an allocator that is not linked in.
    pub fn variables(&self, allocator: &Allocator) -> BTreeMap<Variable, String> {
        let mut variables: BTreeMap<Variable, String> = BTreeMap::new();
        let mut add = |variable: Variable, setting: String| {
            let separator = match variable {
                Variable::GlibcTunables => ":",
                Variable::MallocConf | Variable::Plain(_) => ",",
            };
            let value = variables.entry(variable).or_default();
            if !value.is_empty() {
                value.push_str(separator);
            }
            value.push_str(&setting);
        };
        for row in allocator.tuning {
            let Some((_, meant)) = self.0.get(row.key) else {
                continue;
            };
            match row.applied {
                Applied::Environment(name) => add(Variable::Plain(name), meant.clone()),
                Applied::MallocConf(key) => add(Variable::MallocConf, format!("{key}:{meant}")),
                Applied::GlibcTunable(key) => {
                    add(Variable::GlibcTunables, format!("{key}={meant}"));
                }
                Applied::GlibcTunables => add(Variable::GlibcTunables, meant.clone()),
            }
        }
        variables
    }

    /// The data that carries the options into a derived libc. Glue and allocators need it even when it is empty.
    pub(crate) fn baked(&self, allocator: &Allocator) -> Vec<Baked> {
        let mut environment = Vec::new();
        let always = allocator
            .build
            .as_ref()
            .map_or(&[][..], |recipe| recipe.malloc_conf);
        let mut malloc_conf: Vec<String> = always.iter().map(|s| (*s).to_owned()).collect();
        for row in allocator.tuning {
            let given = self.0.get(row.key).map(|(_, meant)| meant.clone());
            let Some(meant) = given.or_else(|| row.preset_meant()) else {
                continue;
            };
            match row.applied {
                Applied::Environment(name) => {
                    environment.extend_from_slice(format!("{name}={meant}\0").as_bytes())
                }
                Applied::MallocConf(key) => malloc_conf.push(format!("{key}:{meant}")),
                // of `stock`, which reheap links nowhere
                Applied::GlibcTunable(_) | Applied::GlibcTunables => {}
            }
        }
        environment.push(0);
        let mut baked = vec![Baked::Bytes {
            symbol: "__reheap_environment".to_owned(),
            bytes: environment,
        }];
        if !malloc_conf.is_empty() {
            baked.push(Baked::StringPointer {
                symbol: "__reheap_malloc_conf".to_owned(),
                text: malloc_conf.join(","),
            });
        }
        baked
    }
}
