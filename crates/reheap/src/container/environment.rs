//! What of an image's environment is left when its program starts.
//!
//! `LD_PRELOAD` gets into a program only if whatever starts it passes it on. `env -i`, `su -` and `sudo` do not, and a
//! script may set or unset it.

use crate::env_vars::LD_PRELOAD;
use crate::ui;
use reheap_image::added::value_of;

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
pub(crate) struct Environment {
    /// Each is `NAME=value`.
    lines: Vec<String>,
    /// What changed `LD_PRELOAD` for certain, the last time.
    change: Option<String>,
    /// What sets it to a value that only a run shows.
    unknown: Option<String>,
    /// What may change it.
    risks: Vec<String>,
}

impl Environment {
    pub(super) fn new(lines: Vec<String>) -> Self {
        Self {
            lines,
            ..Self::default()
        }
    }

    /// With a library in front of all that is preloaded.
    pub(super) fn with_preload(mut self, library: &str) -> Self {
        let list = match self.preloads() {
            "" => library.to_owned(),
            others => format!("{library}:{others}"),
        };
        self.set(LD_PRELOAD, &list);
        self
    }

    /// The value of a variable.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        value_of(&self.lines, name)
    }

    /// The value of `LD_PRELOAD`; empty if there is none.
    pub(crate) fn preloads(&self) -> &str {
        self.value(LD_PRELOAD).unwrap_or_default()
    }

    /// What changed `LD_PRELOAD` for certain, as a sentence. `None` if it is the image's.
    pub(crate) fn change(&self) -> Option<&str> {
        self.change.as_deref()
    }

    /// Why nothing but a run shows what `LD_PRELOAD` is.
    pub(crate) fn unknown(&self) -> Option<&str> {
        self.unknown.as_deref()
    }

    /// Why `LD_PRELOAD` may be another one in a run, as sentences.
    pub(crate) fn doubts(&self) -> Vec<String> {
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
        let by = &ui::printable(by);
        if certainty == Certainty::Perhaps {
            self.risks.extend(self.risk(&change, by));
            return;
        }
        let before = self.preloads().to_owned();
        match &change {
            Change::Cleared => self.lines.clear(),
            Change::Removed(name) => self.remove(name),
            Change::Set(name, Some(value)) => self.set(name, value),
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
        self.risks.clear();
        match self.preloads() {
            after if after == before => {}
            "" => self.change = Some(format!("{by} takes LD_PRELOAD away")),
            after => {
                let after = ui::printable(after);
                self.change = Some(format!("{by} sets LD_PRELOAD to `{after}`"));
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
                (!keeps).then(|| format!("{by} may set LD_PRELOAD to `{}`", ui::printable(value)))
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

    fn set(&mut self, name: &str, value: &str) {
        self.remove(name);
        self.lines.push(format!("{name}={value}"));
    }

    fn remove(&mut self, name: &str) {
        let is_it = |line: &String| {
            let rest = line.strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with('='))
        };
        self.lines.retain(|line| !is_it(line));
    }
}
