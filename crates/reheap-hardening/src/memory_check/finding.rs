//! What happened in a run.

use super::seen::{EndedBy, Seen, UsualBehaviour, from_entry, name_of_file, place};
use super::stderr::Moment;
use crate::addresses::without_addresses;
use reheap_bench::results::signal_name;
use reheap_command::ui;
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
    /// What happened, each thing once.
    pub(super) fn findings(&self, usual: &UsualBehaviour, library: Option<&str>) -> Vec<Finding> {
        let whats: Vec<What> = self
            .deaths
            .iter()
            .map(|death| self.what(death, library))
            .collect();
        let stopped = |at: &usize| whats[*at] == What::Stopped;
        let stopped: Vec<usize> = (0..whats.len()).filter(stopped).collect();
        let deaths = self.deaths.iter().zip(&whats).enumerate();
        let mut findings: Vec<Finding> = deaths
            .map(|(at, (death, what))| match what {
                What::Stopped => Finding {
                    message: self.message_of(at, &stopped),
                    ..Finding::of(death, *what, library)
                },
                What::StoppedByLibc | What::EndedItself => Finding {
                    last_lines: self.last_words_of(death),
                    ..Finding::of(death, *what, library)
                },
                _ => Finding::of(death, *what, library),
            })
            .collect();
        findings.extend(self.untold(&findings, &stopped));
        if findings.is_empty()
            && let (Some(usual), Some(end)) = (usual.end, self.end)
            && usual != end
        {
            findings.push(Finding {
                what: What::EndedOtherwise,
                message: Some(in_words(end)),
                last_lines: self.words.last.iter().cloned().collect(),
                ..Finding::default()
            });
        }
        if self.overwrote_record {
            findings.push(Finding {
                what: What::OverwroteRecord,
                message: Some("an overflow of a large block, or a wild write".to_owned()),
                ..Finding::default()
            });
        }
        findings.extend(usual.endless(self).map(|message| Finding {
            what: What::DidNotEnd,
            message: Some(message),
            ..Finding::default()
        }));
        once_each(findings)
    }

    /// What a death was: not every abort is an allocator's.
    fn what(&self, death: &Death, library: Option<&str>) -> What {
        let is_abort = death.signal == Signal::ABORT.as_raw();
        match EndedBy::of(&death.stack, library) {
            _ if !is_abort && !death.is_deliberate => What::Crashed,
            EndedBy::Allocator => What::Stopped,
            EndedBy::Libc => What::StoppedByLibc,
            EndedBy::Unknown if death.is_deliberate => What::Stopped,
            EndedBy::Unknown if self.moment(death).ends_with_complaint() => What::Stopped,
            EndedBy::Unknown | EndedBy::Program => What::EndedItself,
        }
    }

    fn moment(&self, death: &Death) -> Moment {
        self.words
            .moments
            .get(&death.pid)
            .cloned()
            .unwrap_or_default()
    }

    /// What an allocator wrote before it stopped this process, if no other process can have written it that died too.
    fn message_of(&self, at: usize, stopped: &[usize]) -> Option<String> {
        let death = &self.deaths[at];
        let moment = self.moment(death);
        let before = self.deaths[..death.deaths_before].iter();
        let said_before = before.map(|death| self.moment(death).said).max();
        let is_alone = !stopped.iter().any(|&other| self.overlap(at, other));
        let is_known = is_alone || self.words.complaints.len() == 1;
        moment
            .complaint
            .filter(|_| is_known && moment.said > said_before.unwrap_or(0))
    }

    /// Whether two processes that died ran at the same time.
    fn overlap(&self, one: usize, other: usize) -> bool {
        let (first, second) = (one.min(other), one.max(other));
        first != second && self.deaths[second].deaths_before <= first
    }

    /// The last line before a program ended itself: most say why. It may be another process's.
    fn last_words_of(&self, death: &Death) -> Vec<String> {
        let moment = self.moment(death);
        if moment.ends_with_complaint() {
            Vec::new()
        } else {
            moment.line.into_iter().collect()
        }
    }

    /// The complaints that belong to no death that is known.
    fn untold(&self, findings: &[Finding], stopped: &[usize]) -> Vec<Finding> {
        let told = findings
            .iter()
            .filter_map(|finding| finding.message.as_deref());
        let told: Vec<String> = told.map(without_addresses).collect();
        let mut stops = findings
            .iter()
            .filter(|finding| finding.what == What::Stopped);
        let is_one_silent = stops.any(|stop| stop.message.is_none());
        let what = if stopped.len() > 1 && is_one_silent {
            What::SaidByOne
        } else {
            What::Complained
        };
        let complaints = self.words.complaints.iter();
        // A log may tell later what the process has said.
        let late = self.words.late.iter().filter(|_| is_one_silent);
        complaints
            .map(|complaint| (what, complaint))
            .chain(late.map(|complaint| (What::SaidByOne, complaint)))
            .filter(|(_, complaint)| !told.contains(&without_addresses(complaint)))
            .map(|(what, complaint)| Finding {
                what,
                message: Some(complaint.clone()),
                ..Finding::default()
            })
            .collect()
    }
}

fn once_each(findings: Vec<Finding>) -> Vec<Finding> {
    let mut once: Vec<Finding> = Vec::new();
    for finding in findings {
        if !once.iter().any(|other| other.key() == finding.key()) {
            once.push(finding);
        }
    }
    once
}

fn name_of(signal: i32) -> String {
    signal_name(signal).map_or_else(|| format!("signal {signal}"), str::to_owned)
}

/// How a command ended.
pub(super) fn in_words(end: End) -> String {
    match end {
        End::Exited(code) => format!("exit code {code}"),
        End::Killed(signal) => name_of(signal),
    }
}

pub(super) fn counted(runs: usize) -> String {
    match runs {
        1 => "1 run".to_owned(),
        runs => format!("{runs} runs"),
    }
}

/// What happened in a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum What {
    /// The allocator noticed an error and ended the process.
    Stopped,
    /// The libc's malloc noticed an error and ended the process, because the allocator had not got into it.
    StoppedByLibc,
    /// A process died of a fault that nobody noticed before.
    #[default]
    Crashed,
    /// A program called `abort`, or executed an instruction that ends it: one of its own checks failed.
    EndedItself,
    /// The allocator noticed an error, and the process went on.
    Complained,
    /// The allocator noticed an error in one of several processes that died.
    SaidByOne,
    /// It wrote where reheap keeps its record, which is not the command's.
    OverwroteRecord,
    /// The command ended in another way than it does by itself.
    EndedOtherwise,
    /// The command was still running when it had long ended by itself.
    DidNotEnd,
}

/// Something that happened in one or more runs.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Finding {
    pub(super) what: What,
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
    fn of(death: &Death, what: What, library: Option<&str>) -> Self {
        Self {
            what,
            program: Some(death.program.display().to_string()),
            signal: Some(name_of(death.signal)),
            address: death.address.map(|address| format!("{address:#x}")),
            stack: from_entry(&death.stack, library),
            ..Self::default()
        }
    }

    /// What tells two findings apart: all but what differs between runs by chance.
    fn key(&self) -> impl Ord + use<> {
        (
            self.what,
            self.program.clone(),
            self.signal.clone(),
            self.message.as_deref().map(without_addresses),
            place(&self.stack),
        )
    }
}

/// Counts equal findings of several runs as one, in the order in which they came. In one run, each comes once.
pub(super) fn grouped(all: impl Iterator<Item = Finding>) -> Vec<Finding> {
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
    pub(super) fn text(&self, allocator: &str, runs: usize, text: &mut String) {
        let program = self.program.as_deref().map(Path::new);
        let program = ui::printable(program.and_then(name_of_file).unwrap_or_default());
        let what = match self.what {
            What::Stopped => format!("{allocator} stopped {program}"),
            What::StoppedByLibc => {
                format!("with {allocator} the libc's own malloc stopped {program}")
            }
            What::EndedItself => format!("with {allocator} {program} ended itself"),
            What::Complained => format!("{allocator} noticed an error and let it go on"),
            What::SaidByOne => format!("with {allocator} one of these processes wrote"),
            What::OverwroteRecord => {
                format!("with {allocator} it wrote over what reheap keeps in its memory")
            }
            What::EndedOtherwise => format!("with {allocator} it ended otherwise"),
            What::DidNotEnd => format!("with {allocator} it did not end"),
            What::Crashed => format!("with {allocator} {program} crashed"),
        };
        let _ = write!(text, "{what} in {} of {}", self.runs, counted(runs));
        if matches!(self.what, What::Crashed | What::EndedItself) {
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
