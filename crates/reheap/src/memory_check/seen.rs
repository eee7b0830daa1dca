//! What one run of the command showed.

use reheap_allocators::complaints::Complaints;
use reheap_profile::deaths::{Death, End, Watched};
use reheap_profile::profile::Frame;
use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, PipeReader, Read as _};
use std::path::Path;

/// How many of the last lines on stderr are kept.
const LAST_LINES: usize = 5;
/// How many complaints of one run are kept: a loop may cause millions.
const COMPLAINTS_MAX: usize = 100;
/// Longer lines count as several.
const LINE_BYTES_MAX: u64 = 1000;

/// One run.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) end: End,
    pub(super) deaths: Vec<Death>,
    pub(super) lines: Lines,
    /// How the allocator was seen in it, or why it was not; `None` where none was asked for.
    pub(super) activity: Option<Result<String, String>>,
}

impl Seen {
    pub(super) fn new(watched: Watched, lines: Lines) -> Self {
        Self {
            end: watched.end,
            deaths: watched.deaths,
            lines,
            activity: None,
        }
    }

    /// Takes reheap's own functions out of the stacks, and all but the first that was called of an allocator's.
    pub(super) fn leave_out(&mut self, probe: &Path, library: &Path) {
        let is_of = |frame: &Frame, file: &Path| frame.module == name_of_file(file);
        for death in &mut self.deaths {
            death.stack.retain(|frame| !is_of(frame, probe));
            if let Some(entered) = death.stack.iter().rposition(|frame| is_of(frame, library)) {
                death.stack.drain(..entered);
            }
        }
    }
}

/// How a command ends by itself, if it always ends in the same way and without a death.
pub(super) fn usual_end(runs: &[Seen]) -> Option<End> {
    let first = runs.first()?.end;
    let is_usual = |run: &Seen| run.end == first && run.deaths.is_empty();
    runs.iter().all(is_usual).then_some(first)
}

/// The last part of a path.
pub(super) fn name_of_file(path: &Path) -> Option<String> {
    let name = path.file_name()?;
    Some(name.to_string_lossy().into_owned())
}

/// What a command wrote on stderr.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// Those that an allocator wrote about a misuse.
    pub(super) complaints: Vec<String>,
    pub(super) last: VecDeque<String>,
}

impl Lines {
    /// Reads until all processes have closed it.
    pub(super) fn read(reader: PipeReader, complaints: &Complaints) -> Self {
        let mut lines = Self::default();
        let mut reader = BufReader::new(reader);
        let mut bytes = Vec::new();
        let mut next = |bytes: &mut Vec<u8>| {
            let mut part = (&mut reader).take(LINE_BYTES_MAX);
            part.read_until(b'\n', bytes)
        };
        while matches!(next(&mut bytes), Ok(1..)) {
            lines.add(String::from_utf8_lossy(&bytes).trim_end(), complaints);
            bytes.clear();
        }
        lines
    }

    fn add(&mut self, line: &str, complaints: &Complaints) {
        if line.is_empty() {
            return;
        }
        let complaint = complaints.in_front_of(line);
        if let Some(complaint) = complaint
            && self.complaints.len() < COMPLAINTS_MAX
        {
            self.complaints.push(complaint.to_owned());
        }
        let (line, rest) = line.split_at(complaint.map_or(line.len(), str::len));
        if self.last.len() == LAST_LINES {
            self.last.pop_front();
        }
        self.last.push_back(line.to_owned());
        self.add(rest, complaints);
    }
}
