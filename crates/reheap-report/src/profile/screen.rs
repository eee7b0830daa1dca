//! Lines for a terminal that are never wider than it, whatever names are in them.

use crate::escape::visible;
use crate::text::{Cell, Column, Group, Paint, RowName, Style, Table, wrapped};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Names in tables have at least this many columns.
const NAMES_MIN: usize = 20;

/// What will be on a terminal.
pub(crate) struct Screen {
    pub(crate) style: Style,
    pub(crate) lines: Vec<String>,
}

impl Screen {
    pub(crate) fn new(style: Style) -> Screen {
        Screen {
            style: Style {
                width: style.width.clamp(40, 100),
                ..style
            },
            lines: Vec::new(),
        }
    }

    /// The text.
    pub(crate) fn finish(mut self) -> String {
        while self.lines.last().is_some_and(String::is_empty) {
            self.lines.pop();
        }
        self.lines.push(String::new());
        self.lines.join("\n")
    }

    /// A table of which the names are cut to the room that the figures leave.
    pub(crate) fn table(
        &mut self,
        heading: &str,
        names: Vec<String>,
        columns: Vec<(&str, Vec<String>)>,
    ) {
        let Style { width, colour, .. } = self.style;
        let columns: Vec<Column> = columns
            .into_iter()
            .map(|(heading, cells)| Column {
                heading: heading.to_owned(),
                cells: cells.into_iter().map(Cell::plain).collect(),
            })
            .collect();
        let groups: Vec<Group> = columns
            .into_iter()
            .map(|column| Group {
                columns: vec![column],
            })
            .collect();
        let taken: usize = groups.iter().map(Group::width).sum();
        let widest = groups.iter().map(Group::width).max().unwrap_or(0);
        let room = width
            .saturating_sub(taken)
            .max(NAMES_MIN)
            .min(width.saturating_sub(widest));
        let name = |name: String| RowName {
            name: cut(visible(&name).trim_end(), room),
            notes: Vec::new(),
        };
        let table = Table {
            heading: heading.to_owned(),
            rows: names.into_iter().map(name).collect(),
            groups,
        };
        self.lines.extend(table.lines(width, colour));
    }

    pub(crate) fn others(&mut self, count: usize, noun: &str) {
        if count > 0 {
            let others = reheap_bench::figures::count(count, &format!("other {noun}"));
            let how = if self.style.verbose {
                ""
            } else {
                "; --verbose shows more"
            };
            self.paragraph(&format!("{others}{how}"), Paint::Faint);
        }
    }

    pub(crate) fn line(&mut self, text: &str, paint: Paint) {
        let line = paint.on(text.trim_end(), self.style.colour);
        self.lines.push(line);
    }

    pub(crate) fn paragraph(&mut self, text: &str, paint: Paint) {
        for line in lines(text, self.style.width) {
            self.line(&line, paint);
        }
    }

    pub(crate) fn gap(&mut self) {
        if self.lines.last().is_some_and(|line| !line.is_empty()) {
            self.lines.push(String::new());
        }
    }
}

/// The text with no more columns than this; what is missing at its end is an ellipsis.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut short = String::new();
    let mut used = 1;
    for character in text.chars() {
        used += character.width().unwrap_or(0);
        if used > width {
            break;
        }
        short.push(character);
    }
    short.push('…');
    short
}

/// The text in lines of at most this width: words that are wider are cut.
pub(crate) fn lines(text: &str, width: usize) -> Vec<String> {
    let text = visible(text);
    let words: Vec<String> = text.split(' ').map(|word| cut(word, width)).collect();
    let lines = wrapped(&words.join(" "), width);
    // A percent sign is kept with the word before it.
    lines.iter().map(|line| cut(line, width)).collect()
}
