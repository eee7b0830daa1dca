//! What of an image's environment is left when its program starts.
//!
//! `LD_PRELOAD` gets into a program only if whatever starts it passes it on. `env -i`, `su -` and `sudo` do not, and a
//! script may set or unset it.

use reheap_command::env_vars::LD_PRELOAD;
use reheap_command::ui;
use std::collections::HashMap;

/// More than anybody reads.
const RISKS_MAX: usize = 8;
const QUOTED_CHARACTERS_MAX: usize = 100;

/// What happens to the environment on the way to the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    Cleared,
    Removed(String),
    /// Without a value, it is one that only a run shows.
    Set(String, Option<String>),
}

/// Whether something happens in every run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Certainty {
    Always,
    /// A condition decides.
    Perhaps,
}

/// The environment of a program, and what changed its `LD_PRELOAD`.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    values: HashMap<String, String>,
    /// What changed `LD_PRELOAD` for certain, the last time.
    change: Option<String>,
    /// What sets it to a value that only a run shows.
    unknown: Option<String>,
    /// What may change it.
    risks: Vec<String>,
}

impl Environment {
    /// Reads lines `NAME=value`, of which the last one of a name counts.
    pub(super) fn new(lines: &[String]) -> Self {
        let values = lines.iter().filter_map(|line| line.split_once('='));
        let values = values.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self {
            values: values.collect(),
            ..Self::default()
        }
    }

    /// Adds a library in front of all that is preloaded.
    pub(super) fn with_preload(mut self, library: &str) -> Self {
        let list = match self.preloads() {
            "" => library.to_owned(),
            others => format!("{library}:{others}"),
        };
        self.values.insert(LD_PRELOAD.to_owned(), list);
        self
    }

    /// The value of a variable.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// The value of `LD_PRELOAD`; empty if there is none.
    pub fn preloads(&self) -> &str {
        self.value(LD_PRELOAD).unwrap_or_default()
    }

    /// What changed `LD_PRELOAD` for certain, as a sentence. `None` if it is the image's.
    pub fn change(&self) -> Option<&str> {
        self.change.as_deref()
    }

    /// Why nothing but a run shows what `LD_PRELOAD` is.
    pub(crate) fn unknown(&self) -> Option<&str> {
        self.unknown.as_deref()
    }

    /// Why `LD_PRELOAD` may be another one in a run, as sentences.
    pub fn doubts(&self) -> Vec<String> {
        self.unknown.iter().chain(&self.risks).cloned().collect()
    }

    /// Does what `by` does in every run.
    pub(super) fn apply_all(&mut self, changes: Vec<Change>, by: &str) {
        for change in changes {
            self.apply(change, by, Certainty::Always);
        }
    }

    /// Does what `by` does.
    pub(super) fn apply(&mut self, change: Change, by: &str, certainty: Certainty) {
        if certainty == Certainty::Perhaps {
            let risk = self.risk(&change, by);
            let is_told = risk.as_ref().is_some_and(|risk| self.risks.contains(risk));
            if !is_told && self.risks.len() < RISKS_MAX {
                self.risks.extend(risk);
            }
            return;
        }
        let before = self.preloads().to_owned();
        match &change {
            Change::Cleared => self.values.clear(),
            Change::Removed(name) => drop(self.values.remove(name)),
            Change::Set(name, Some(value)) => {
                self.values.insert(name.clone(), value.clone());
            }
            Change::Set(name, None) => {
                if name == LD_PRELOAD {
                    self.unknown = Some(format!("{by} sets LD_PRELOAD to what only a run shows"));
                }
                return;
            }
        }
        let concerns_it = match &change {
            Change::Cleared => true,
            Change::Removed(name) | Change::Set(name, _) => name == LD_PRELOAD,
        };
        if !concerns_it {
            return;
        }
        self.unknown = None;
        // What is added to the old value is as doubtful as that.
        let is_added = matches!(&change, Change::Set(_, Some(value)) if value.contains(&before));
        if !is_added {
            self.risks.clear();
        }
        match self.preloads() {
            after if after == before => {}
            "" => self.change = Some(format!("{by} takes LD_PRELOAD away")),
            after => {
                self.change = Some(format!("{by} sets LD_PRELOAD to {}", quoted(after)));
            }
        }
    }

    /// What may happen to `LD_PRELOAD`. A library behind those that are there changes nothing for them.
    fn risk(&self, change: &Change, by: &str) -> Option<String> {
        let list = self.preloads();
        match change {
            Change::Set(name, Some(value)) if name == LD_PRELOAD => {
                let first = list.split([':', ' ']).next().unwrap_or_default();
                let keeps = !first.is_empty() && value.starts_with(first);
                (!keeps).then(|| format!("{by} may set LD_PRELOAD to {}", quoted(value)))
            }
            Change::Set(name, None) if name == LD_PRELOAD => {
                Some(format!("{by} may set LD_PRELOAD"))
            }
            Change::Removed(name) if name != LD_PRELOAD => None,
            Change::Cleared | Change::Removed(_) => {
                (!list.is_empty()).then(|| format!("{by} may take LD_PRELOAD away"))
            }
            Change::Set(..) => None,
        }
    }
}

/// Words of an image in a sentence, on one line and not too long.
pub(super) fn quoted(words: &str) -> String {
    let mut words = ui::printable(words);
    if let Some((end, _)) = words.char_indices().nth(QUOTED_CHARACTERS_MAX) {
        words.truncate(end);
        words.push('…');
    }
    format!("`{words}`")
}
