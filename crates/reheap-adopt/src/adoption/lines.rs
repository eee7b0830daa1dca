//! Takes whole lines out of a text, in the way that undoes how they were put in.
//!
//! A piece is put in after the end of a line, before what ends that line. So the file ends with a line end afterwards if
//! it did before, and not if it did not.

use std::collections::BTreeSet;

/// The lines of a text, each with what ends it.
pub(super) struct Lines<'a> {
    pub(super) all: Vec<&'a str>,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub(super) fn of(contents: &'a str) -> Self {
        let all: Vec<&str> = contents.split_inclusive('\n').collect();
        let starts = all.iter().scan(0, |at, line| {
            let start = *at;
            *at += line.len();
            Some(start)
        });
        Self {
            starts: starts.collect(),
            all,
        }
    }

    /// Where a line begins.
    pub(super) fn start(&self, line: usize) -> usize {
        self.starts[line]
    }

    /// The line that a byte is in, from 0.
    pub(super) fn at(&self, byte: usize) -> usize {
        self.starts
            .partition_point(|&start| start <= byte)
            .saturating_sub(1)
    }

    pub(super) fn is_blank(&self, line: usize) -> bool {
        self.all[line].trim().is_empty()
    }

    /// The text without these lines.
    pub(super) fn without(&self, removed: &BTreeSet<usize>) -> String {
        let kept = (0..self.all.len()).filter(|line| !removed.contains(line));
        let mut text: String = kept.map(|line| self.all[line]).collect();
        let last = self.all.len().wrapping_sub(1);
        let ended_without = self.all.last().is_some_and(|line| !line.ends_with('\n'));
        if ended_without && removed.contains(&last) && text.ends_with('\n') {
            text.pop();
            if text.ends_with('\r') {
                text.pop();
            }
        }
        text
    }
}

/// Where a line ends that has this byte in it or before its end: before what ends it.
pub(super) fn end_of_line(contents: &str, byte: usize) -> usize {
    let end = contents[byte..].find('\n').map(|end| byte + end);
    match end {
        Some(end) if contents[..end].ends_with('\r') && end > byte => end - 1,
        Some(end) => end,
        None => contents.len(),
    }
}
