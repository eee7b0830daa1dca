//! What all runs showed, as values and as text.

use super::finding::{Finding, What, counted, grouped, in_words};
use super::seen::{Seen, UsualBehaviour, name_of_file};
use reheap_bench::results::{LeftOut, Unreached};
use reheap_command::choice::Choice;
use reheap_command::ui;
use reheap_profile::deaths::End;
use reheap_variants::bench::variants;
use reheap_workshop::preloading;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

const SUCCESS: &str = "exit code 0";

/// What one allocator noticed.
#[derive(Debug, Serialize)]
pub(crate) struct Checked {
    /// The allocator with its options.
    #[serde(skip)]
    name: String,
    allocator: &'static str,
    version: &'static str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    tuning: BTreeMap<String, String>,
    runs: usize,
    /// How the allocator was seen in the command.
    #[serde(skip_serializing_if = "Option::is_none")]
    active: Option<String>,
    /// Why nothing is known, if it was in none of the runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_checked: Option<String>,
    findings: Vec<Finding>,
    /// The programs of the command that had another malloc.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unreached: Vec<Unreached>,
    /// The programs that had loaded the allocator, and whose calls nobody could count.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    uncounted: BTreeSet<String>,
    /// The programs that still ran when the command had ended, and in how many runs.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    killed: BTreeMap<String, usize>,
    /// In how many runs it was the time limit that ended the command.
    runs_to_time_limit: usize,
}

impl Checked {
    pub(super) fn new(
        choice: &Choice,
        library: Option<&Path>,
        runs: &[Seen],
        usual: &UsualBehaviour,
    ) -> Self {
        let file = library.and_then(name_of_file);
        let all = runs
            .iter()
            .flat_map(|run| run.findings(usual, file.as_deref()));
        let activity = runs.iter().filter_map(|run| run.activity.as_ref());
        let is_cut_short = |run: &&Seen| run.end.is_none() && usual.endless(run).is_none();
        let active = activity.clone().find_map(|result| result.as_ref().ok());
        let why_not = activity.clone().find_map(|result| result.as_ref().err());
        Self {
            name: variants::allocator_name(choice),
            allocator: choice.allocator.name,
            version: choice.allocator.version,
            tuning: choice.tuning.as_given(),
            runs: runs.len(),
            active: active.cloned(),
            not_checked: why_not.filter(|_| active.is_none()).cloned(),
            findings: grouped(all),
            unreached: unreached(runs),
            uncounted: runs.iter().flat_map(|run| run.uncounted.clone()).collect(),
            killed: killed(runs),
            runs_to_time_limit: runs.iter().filter(is_cut_short).count(),
        }
    }

    fn text(&self, text: &mut String) {
        let Self { name, runs, .. } = self;
        for finding in &self.findings {
            finding.text(name, *runs, text);
        }
        if self.findings.is_empty() {
            let _ = match &self.not_checked {
                Some(why) => writeln!(text, "{name} was not tried: {why}\n"),
                None => writeln!(text, "{name} noticed nothing in {}\n", counted(*runs)),
            };
        }
    }
}

fn unreached(runs: &[Seen]) -> Vec<Unreached> {
    let mut all: Vec<Unreached> = Vec::new();
    for one in runs.iter().flat_map(|run| &run.unreached) {
        if !all.contains(one) {
            all.push(one.clone());
        }
    }
    all
}

fn killed(runs: &[Seen]) -> BTreeMap<String, usize> {
    let mut all = BTreeMap::new();
    for run in runs {
        let names = run
            .killed
            .iter()
            .filter_map(|program| name_of_file(program));
        let names: BTreeSet<String> = names.collect();
        for name in names {
            *all.entry(name).or_default() += 1;
        }
    }
    all
}

/// What all of them noticed.
#[derive(Debug, Serialize)]
pub struct Report {
    reheap: &'static str,
    command: Vec<String>,
    /// How it ends by itself, if always in the same way.
    ends_with: Option<String>,
    /// The check with the libc's own allocator.
    as_it_is: Checked,
    checked: Vec<Checked>,
    /// What nobody asked for by name, and this system does not have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<LeftOut>,
}

impl Report {
    pub(super) fn new(
        command: Vec<String>,
        usual_end: Option<End>,
        as_it_is: Checked,
        checked: Vec<Checked>,
        left_out: Vec<LeftOut>,
    ) -> Self {
        Self {
            reheap: env!("CARGO_PKG_VERSION"),
            command,
            ends_with: usual_end.map(in_words),
            as_it_is,
            checked,
            left_out,
        }
    }

    /// Whether anything happened.
    pub fn has_findings(&self) -> bool {
        self.all().any(|checked| !checked.findings.is_empty())
    }

    /// The allocators that were in no run.
    pub fn not_checked(&self) -> impl Iterator<Item = &str> {
        let all = self.checked.iter();
        all.filter(|checked| checked.not_checked.is_some())
            .map(|checked| checked.name.as_str())
    }

    pub fn text(&self) -> String {
        let mut text = format!("{}\n\n", self.headline());
        for checked in &self.checked {
            checked.text(&mut text);
        }
        for LeftOut { name, reason } in &self.left_out {
            let _ = writeln!(text, "{name} was not tried: {reason}\n");
        }
        self.as_it_is.text(&mut text);
        self.limits_of_this(&mut text);
        if !self.has_findings() {
            text.push_str(
                "An allocator notices some errors and no others, and only those that happen in these runs.\n",
            );
        }
        text
    }

    /// What was not looked at.
    fn limits_of_this(&self, text: &mut String) {
        let runs: usize = self.all().map(|checked| checked.runs).sum();
        let ended: usize = self.all().map(|checked| checked.runs_to_time_limit).sum();
        if ended > 0 {
            let runs = counted(runs);
            let _ = writeln!(
                text,
                "the time limit ended the command in {ended} of {runs}\n"
            );
        }
        let mut killed: BTreeMap<&str, usize> = BTreeMap::new();
        for (program, runs) in self.all().flat_map(|checked| &checked.killed) {
            *killed.entry(program).or_default() += runs;
        }
        for (program, times) in killed {
            let (program, runs) = (ui::printable(program), counted(runs));
            let _ = writeln!(
                text,
                "{program} still ran when the command had ended, and reheap killed it, in {times} of {runs}\n"
            );
        }
        for program in self.uncounted() {
            let program = ui::printable(program);
            let because = preloading::UNHEARD;
            let _ = writeln!(
                text,
                "{program} was checked, but its calls are not countable: {because}\n"
            );
        }
        let was_tried = |checked: &&Checked| checked.active.is_some();
        let tried = self.checked.iter().filter(was_tried).count();
        for (Unreached { program, reason }, allocators) in self.unreached() {
            let program = ui::printable(program);
            let with = if allocators.len() == tried {
                String::new()
            } else {
                format!(" with {}", allocators.join(", "))
            };
            let _ = writeln!(text, "{program} was not checked{with}: {reason}\n");
        }
    }

    /// The programs that had loaded the allocators, whose calls nobody could count.
    fn uncounted(&self) -> BTreeSet<&str> {
        let all = self.all().flat_map(|result| &result.uncounted);
        all.map(String::as_str).collect()
    }

    /// The programs that had another malloc, and with which allocators.
    fn unreached(&self) -> Vec<(&Unreached, Vec<&str>)> {
        let mut all: Vec<(&Unreached, Vec<&str>)> = Vec::new();
        for checked in &self.checked {
            for one in &checked.unreached {
                match all.iter_mut().find(|(known, _)| *known == one) {
                    Some((_, allocators)) => allocators.push(&checked.name),
                    None => all.push((one, vec![&checked.name])),
                }
            }
        }
        all
    }

    fn all(&self) -> impl Iterator<Item = &Checked> {
        self.checked.iter().chain([&self.as_it_is])
    }

    fn headline(&self) -> String {
        let command = self.command.join(" ");
        let with = |kinds: &[What]| {
            let has = |checked: &&Checked| {
                checked
                    .findings
                    .iter()
                    .any(|finding| kinds.contains(&finding.what))
            };
            let names: Vec<&str> = self
                .all()
                .filter(has)
                .map(|checked| checked.name.as_str())
                .collect();
            (!names.is_empty()).then(|| names.join(", "))
        };
        if let Some(names) = with(&[What::Stopped, What::Complained, What::SaidByOne]) {
            format!("`{command}` misuses memory: noticed by {names}")
        } else if let Some(names) = with(&[What::OverwroteRecord]) {
            format!("`{command}` misuses memory: it writes where it must not with {names}")
        } else if with(&[What::StoppedByLibc]).is_some() {
            format!("`{command}` misuses memory: noticed by the libc's own malloc")
        } else if let Some(names) = with(&[What::Crashed]) {
            format!("`{command}` crashes with {names}")
        } else if let Some(names) = with(&[What::EndedItself]) {
            format!("`{command}` ends itself by a signal with {names}")
        } else if let Some(names) = with(&[What::DidNotEnd]) {
            format!(
                "`{command}` does not end with {names}, which may be an error in its use of memory"
            )
        } else if let Some(names) = with(&[What::EndedOtherwise]) {
            format!(
                "`{command}` ends in another way with {names}, which may be an error in its use of memory"
            )
        } else {
            let failure = self.ends_with.as_ref().filter(|end| *end != SUCCESS);
            let but = failure.map_or_else(String::new, |end| format!(", which ends with {end}"));
            format!("nothing was noticed in `{command}`{but}")
        }
    }
}
