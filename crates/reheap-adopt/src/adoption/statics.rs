//! Puts a `#[global_allocator]` into the source of a program, under a mark, and takes it out again.
//!
//! It goes behind the imports at the top, or behind what is about the whole file. Nothing is reformatted. What the file
//! says is read again afterwards: a comment or a macro must not have swallowed it.

use super::Refusal;
use super::lines::{Lines, end_of_line};
use crate::condition::Condition;
use crate::crates;
use crate::sources::{self, GlobalAllocator, Outline, Place};
use crate::text::Text;
use std::collections::BTreeSet;

/// The mark, a line of its own.
pub(super) const MARK: &str = "// Set up by `reheap adopt`; `reheap adopt --undo` takes it out.";

/// Names for the static; the first that the program does not use.
const NAMES: [&str; 3] = [
    "GLOBAL",
    "GLOBAL_ALLOCATOR",
    "GLOBAL_ALLOCATOR_OF_THE_PROGRAM",
];

/// The source with the static in it.
pub(super) fn add(
    text: &Text,
    type_path: &str,
    condition: Option<&str>,
) -> Result<String, Refusal> {
    let outline = Outline::of(text)?;
    let identifiers = sources::identifiers_in(text)?;
    let line_end = text.line_end();
    let name = NAMES
        .iter()
        .find(|name| !identifiers.contains(**name))
        .unwrap_or(&NAMES[0]);
    let mut lines = vec![MARK.to_owned()];
    lines.extend(condition.map(|condition| format!("#[cfg({condition})]")));
    lines.push("#[global_allocator]".to_owned());
    lines.push(format!("static {name}: {type_path} = {type_path};"));
    let block = lines.join(line_end);
    let contents = &text.contents;
    let behind = |at: usize| {
        let mut result = contents.clone();
        let at = end_of_line(contents, at);
        result.insert_str(at, &format!("{line_end}{line_end}{block}"));
        result
    };
    let at_front = || {
        let start = if contents.starts_with('\u{feff}') {
            3
        } else {
            0
        };
        let mut result = contents.clone();
        result.insert_str(start, &format!("{block}{line_end}{line_end}"));
        result
    };
    let before_first = || {
        let line = before_comments(&Lines::of(contents), outline.first_item?);
        Some(line.map_or_else(at_front, behind))
    };
    let mut results = outline
        .imports_end
        .map(behind)
        .into_iter()
        .chain(outline.head_end.map(behind))
        .chain(before_first())
        .chain([behind(contents.trim_end().len())]);
    let is_right = |result: &String| {
        let (taken_out, left) = remove(&with(text, result));
        let is_undone = taken_out == *contents && left.is_empty();
        is_undone && has_one_more(text, result)
    };
    results.find(is_right).ok_or_else(|| {
        let what = format!(
            "cannot find a place for a static in `{}`",
            text.path.display()
        );
        Refusal::new(what).hint("use `--with reheap`, which leaves the sources alone")
    })
}

fn with(text: &Text, contents: &str) -> Text {
    Text {
        path: text.path.clone(),
        contents: contents.to_owned(),
    }
}

/// Whether there is one global allocator more, in a module.
fn has_one_more(before: &Text, after: &str) -> bool {
    let count = |text: &Text| {
        let all = sources::allocators_in(text).unwrap_or_default();
        all.iter()
            .filter(|allocator| allocator.place == Place::Module)
            .count()
    };
    count(&with(before, after)) == count(before) + 1
}

/// A byte of the last line of text before the comments that belong to what begins here. None if it is at the front.
fn before_comments(lines: &Lines<'_>, item: usize) -> Option<usize> {
    let first = lines.at(item);
    let is_comment = |line: &usize| lines.all[*line].trim_start().starts_with("//");
    let comments = (0..first).rev().take_while(is_comment).count();
    let above = |line: usize| (0..line).rev().find(|&line| !lines.is_blank(line));
    // Comments at the front of a file are about the file.
    let line = above(first - comments).or_else(|| above(first))?;
    Some(lines.start(line))
}

fn is_mark(line: &str) -> bool {
    line.trim_start_matches('\u{feff}').trim() == MARK
}

/// A piece that stays, because somebody changed it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Left {
    /// From 1.
    pub(super) line: usize,
    pub(super) why: String,
}

/// The source without the statics that carry the mark.
pub(super) fn remove(text: &Text) -> (String, Vec<Left>) {
    let lines = Lines::of(&text.contents);
    let marks: Vec<usize> = (0..lines.all.len())
        .filter(|&line| is_mark(lines.all[line]))
        .collect();
    if marks.is_empty() {
        return (text.contents.clone(), Vec::new());
    }
    let left = |line: usize, why: &str| Left {
        line: line + 1,
        why: why.to_owned(),
    };
    let Ok(allocators) = sources::allocators_in(text) else {
        let all = marks
            .iter()
            .map(|&line| left(line, "the file is no Rust any more"));
        return (text.contents.clone(), all.collect());
    };
    let strings = sources::literals_in(text);
    let mut removed = BTreeSet::new();
    let mut stay = Vec::new();
    for mark in marks {
        let start = lines.start(mark);
        if strings.iter().any(|string| string.contains(&start)) {
            continue;
        }
        let next = (mark + 1..lines.all.len()).find(|&line| !lines.is_blank(line));
        let own = allocators
            .iter()
            .find(|allocator| Some(lines.at(allocator.bytes.start)) == next);
        let Some(own) = own else {
            stay.push(left(mark, "no global allocator follows the mark"));
            continue;
        };
        let last = lines.at(own.bytes.end - 1);
        let end = lines.start(last) + lines.all[last].len();
        let has_more = !text.contents[own.bytes.end..end].trim().is_empty();
        if has_more || !is_ours(text, own) {
            stay.push(left(mark, "the global allocator was changed"));
            continue;
        }
        removed.extend(mark..=last);
        let is_at_front = text.contents[..start]
            .trim_start_matches('\u{feff}')
            .is_empty();
        let blank = if is_at_front {
            Some(last + 1).filter(|&line| line < lines.all.len())
        } else {
            mark.checked_sub(1)
        };
        removed.extend(blank.filter(|&line| lines.is_blank(line)));
    }
    let mut contents = lines.without(&removed);
    if text.contents.starts_with('\u{feff}') && !contents.starts_with('\u{feff}') {
        contents.insert(0, '\u{feff}');
    }
    (contents, stay)
}

/// Whether a static is as adopt writes it, but for its name, its condition, and blanks.
fn is_ours(text: &Text, own: &GlobalAllocator) -> bool {
    let Some(item) = text.contents[own.bytes.clone()].split_once("static ") else {
        return false;
    };
    let attributes = item.0.matches("#[").count();
    let is_plain = match attributes {
        1 => true,
        2 => item.0.trim_start().starts_with("#[cfg("),
        _ => false,
    };
    let declared: String = item.1.split_whitespace().collect();
    let known = crates::CRATES.iter().filter_map(|row| {
        let path = format!("{}::{}", crates::identifier(row.package), row.type_name?);
        Some(path)
    });
    let mut known = known.map(|path| format!(":{path}={path};"));
    let after_name = declared.find(':').map(|at| &declared[at..]);
    is_plain && known.any(|name| Some(name.as_str()) == after_name)
}

/// Whether the global allocator is one that adopt set up, and nobody changed.
pub(super) fn is_set_up(text: &Text, allocator: &GlobalAllocator) -> bool {
    let lines = Lines::of(&text.contents);
    let first = lines.at(allocator.bytes.start);
    let above = (0..first).rev().find(|&line| !lines.is_blank(line));
    above.is_some_and(|line| is_mark(lines.all[line])) && is_ours(text, allocator)
}

/// How a condition is written in code, with the feature if there is one.
pub(super) fn condition(targets: &Condition, feature: Option<&str>) -> Option<String> {
    match (targets.is_always(), feature) {
        (true, None) => None,
        (true, Some(feature)) => Some(format!("feature = \"{feature}\"")),
        (false, None) => Some(targets.to_string()),
        (false, Some(feature)) => Some(format!("all({targets}, feature = \"{feature}\")")),
    }
}
