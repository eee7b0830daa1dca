//! What the runs showed, as values and as text.

use super::seen::{Seen, name_of_file};
use crate::bench::variants;
use crate::choice::Choice;
use crate::ui;
use reheap_bench::results::{LeftOut, signal_name};
use reheap_profile::deaths::{Death, End};
use reheap_profile::profile::Frame;
use rustix::process::Signal;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// How many functions of a stack are shown.
const FRAMES_SHOWN: usize = 12;

impl Seen {
    fn findings(&self, usual_end: Option<End>, library: Option<&str>) -> Vec<Finding> {
        let mut findings: Vec<Finding> = self
            .deaths
            .iter()
            .map(|death| self.finding_of(death, library))
            .collect();
        let is_told = |complaint: &String| {
            findings
                .iter()
                .any(|it| it.message.as_ref() == Some(complaint))
        };
        let more: Vec<&String> = self
            .lines
            .complaints
            .iter()
            .filter(|it| !is_told(it))
            .collect();
        if let Some(first) = more.first() {
            findings.push(Finding {
                what: What::Complained,
                message: Some((*first).clone()),
                ..Finding::default()
            });
        }
        if findings.is_empty() && usual_end.is_some_and(|end| end != self.end) {
            findings.push(Finding {
                what: What::EndedOtherwise,
                message: Some(in_words(self.end)),
                last_lines: self.lines.last.iter().cloned().collect(),
                ..Finding::default()
            });
        }
        findings
    }

    fn finding_of(&self, death: &Death, library: Option<&str>) -> Finding {
        let complaint = self.lines.complaints.last();
        let is_in_allocator = library.is_some()
            && death
                .stack
                .iter()
                .any(|frame| frame.module.as_deref() == library);
        let is_abort = death.signal == Signal::ABORT.as_raw();
        // A complaint may be of another process, or of an error that the process survived, but allocators abort.
        let is_stopped =
            death.is_deliberate || is_abort && (complaint.is_some() || is_in_allocator);
        // What ends a program with a message prints it last.
        let last = || self.lines.last.back().filter(|_| is_abort);
        Finding {
            what: match is_stopped {
                true => What::Stopped,
                false => What::Crashed,
            },
            program: Some(death.program.display().to_string()),
            signal: Some(name_of(death.signal)),
            address: death.address.map(|address| format!("{address:#x}")),
            message: complaint.filter(|_| is_stopped).or_else(last).cloned(),
            stack: match is_stopped {
                true => from_entry(&death.stack),
                false => death.stack.clone(),
            },
            ..Finding::default()
        }
    }
}

/// The stack from the function that the program called: how an allocator's or a libc's functions call each other before
/// they end a program says nothing about the program.
fn from_entry(stack: &[Frame]) -> Vec<Frame> {
    let inner = stack.first().and_then(|frame| frame.module.as_ref());
    let is_inner = |frame: &&Frame| frame.module.as_ref() == inner;
    let called = stack.iter().take_while(is_inner).count();
    match called == stack.len() {
        true => stack.to_vec(),
        false => stack[called.saturating_sub(1)..].to_vec(),
    }
}

fn name_of(signal: i32) -> String {
    signal_name(signal).map_or_else(|| format!("signal {signal}"), str::to_owned)
}

const SUCCESS: &str = "exit code 0";

fn in_words(end: End) -> String {
    match end {
        End::Exited(code) => format!("exit code {code}"),
        End::Killed(signal) => name_of(signal),
    }
}

/// What happened in a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum What {
    /// The allocator noticed an error and ended the process.
    Stopped,
    /// A process died of a fault that nobody noticed before.
    #[default]
    Crashed,
    /// The allocator noticed an error, and the process went on.
    Complained,
    /// The command ended in another way than it does by itself.
    EndedOtherwise,
}

/// Something that happened in one or more runs.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Finding {
    what: What,
    /// In how many runs.
    runs: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<String>,
    /// The address of a fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    /// What the allocator said, or how the command ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// The innermost function first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stack: Vec<Frame>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    last_lines: Vec<String>,
}

impl Finding {
    /// The same for what differs between runs only by chance.
    fn key(&self) -> (What, Option<String>, Option<String>, Option<String>) {
        let function = self.stack.first().map(|frame| frame.function.clone());
        let message = self.message.as_deref().map(without_addresses);
        (self.what, self.signal.clone(), message, function)
    }
}

/// A message without its hexadecimal numbers.
fn without_addresses(text: &str) -> String {
    let is_address = |word: &&str| word.trim_start_matches('(').starts_with("0x");
    let words = text.split_whitespace().filter(|word| !is_address(word));
    words.collect::<Vec<_>>().join(" ")
}

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
}

impl Checked {
    pub(super) fn new(
        choice: &Choice,
        library: Option<&Path>,
        runs: &[Seen],
        usual_end: Option<End>,
    ) -> Self {
        let file = library.and_then(name_of_file);
        let all = runs
            .iter()
            .flat_map(|run| run.findings(usual_end, file.as_deref()));
        let activity = runs.iter().filter_map(|run| run.activity.as_ref());
        let active = activity.clone().find_map(|it| it.as_ref().ok());
        let why_not = activity.clone().find_map(|it| it.as_ref().err());
        Self {
            name: variants::allocator_name(choice),
            allocator: choice.allocator.name,
            version: choice.allocator.version,
            tuning: choice.tuning.as_given(),
            runs: runs.len(),
            active: active.cloned(),
            not_checked: why_not.filter(|_| active.is_none()).cloned(),
            findings: grouped(all),
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

fn counted(runs: usize) -> String {
    match runs {
        1 => "1 run".to_owned(),
        runs => format!("{runs} runs"),
    }
}

/// The same things of several runs together, in the order in which they came.
fn grouped(all: impl Iterator<Item = Finding>) -> Vec<Finding> {
    let mut groups: Vec<Finding> = Vec::new();
    let mut positions = BTreeMap::new();
    for finding in all {
        let position = *positions.entry(finding.key()).or_insert(groups.len());
        if position == groups.len() {
            groups.push(finding);
        }
        groups[position].runs += 1;
    }
    groups
}

impl Finding {
    fn text(&self, allocator: &str, runs: usize, text: &mut String) {
        let program = self.program.as_deref().map(Path::new);
        let program = ui::printable(program.and_then(name_of_file).unwrap_or_default());
        let what = match self.what {
            What::Stopped => format!("{allocator} stopped {program}"),
            What::Complained => format!("{allocator} noticed an error and let it go on"),
            What::EndedOtherwise => format!("with {allocator} it ended otherwise"),
            What::Crashed => format!("with {allocator} {program} crashed"),
        };
        let _ = write!(text, "{what} in {} of {}", self.runs, counted(runs));
        if self.what == What::Crashed {
            let _ = write!(text, ": {}", self.signal.as_deref().unwrap_or_default());
            if let Some(address) = &self.address {
                let _ = write!(text, " at {address}");
            }
        }
        if let Some(message) = &self.message {
            let _ = write!(text, ": {}", ui::printable(message));
        }
        text.push('\n');
        // What calls `main` is the same in all programs.
        let main = self.stack.iter().position(|frame| frame.function == "main");
        let stack = &self.stack[..main.map_or(self.stack.len(), |main| main + 1)];
        for frame in stack.iter().take(FRAMES_SHOWN) {
            let _ = writeln!(text, "    {}", ui::printable(shown(frame)));
        }
        if let Some(more @ 1..) = stack.len().checked_sub(FRAMES_SHOWN) {
            let _ = writeln!(text, "    and {more} more");
        }
        for line in &self.last_lines {
            let _ = writeln!(text, "    stderr: {}", ui::printable(line));
        }
        text.push('\n');
    }
}

fn shown(frame: &Frame) -> String {
    let place = match (&frame.file, frame.line) {
        (Some(file), Some(line)) => format!("{file}:{line}"),
        (Some(file), None) => file.clone(),
        _ => frame.module.clone().unwrap_or_default(),
    };
    format!("{}  {place}", frame.function)
}

/// What all of them noticed.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    reheap: &'static str,
    command: Vec<String>,
    /// How it ends by itself, if always in the same way.
    ends_with: Option<String>,
    /// With the libc's own allocator.
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
    pub(crate) fn has_findings(&self) -> bool {
        self.all().any(|it| !it.findings.is_empty())
    }

    /// The allocators that were in no run.
    pub(crate) fn not_checked(&self) -> impl Iterator<Item = &str> {
        let all = self.checked.iter();
        all.filter(|it| it.not_checked.is_some())
            .map(|it| it.name.as_str())
    }

    pub(crate) fn text(&self) -> String {
        let mut text = format!("{}\n\n", self.headline());
        for checked in &self.checked {
            checked.text(&mut text);
        }
        for LeftOut { name, reason } in &self.left_out {
            let _ = writeln!(text, "{name} was not tried: {reason}\n");
        }
        self.as_it_is.text(&mut text);
        if !self.has_findings() {
            text.push_str(
                "An allocator notices some errors and no others, and only those that happen in these runs.\n",
            );
        }
        text
    }

    fn all(&self) -> impl Iterator<Item = &Checked> {
        self.checked.iter().chain([&self.as_it_is])
    }

    fn headline(&self) -> String {
        let command = self.command.join(" ");
        let with = |kinds: &[What]| {
            let has = |it: &&Checked| it.findings.iter().any(|it| kinds.contains(&it.what));
            let names: Vec<&str> = self.all().filter(has).map(|it| it.name.as_str()).collect();
            (!names.is_empty()).then(|| names.join(", "))
        };
        if let Some(names) = with(&[What::Stopped, What::Complained]) {
            format!("`{command}` misuses memory: noticed by {names}")
        } else if let Some(names) = with(&[What::Crashed]) {
            format!("`{command}` crashes with {names}")
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
