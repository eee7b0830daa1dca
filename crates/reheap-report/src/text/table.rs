//! Lays columns out for a terminal.
//!
//! A table library would cut or wrap cells when a table is too wide. Figures that are cut in two are worse than none,
//! so columns that find no place go into another table below, with the names repeated; only names are wrapped, and no
//! word is broken. Where even one column finds no place beside a name, names stand on lines of their own. That makes
//! one layout serve any width and any number of metrics.

use crate::escape::visible;
use unicode_width::UnicodeWidthStr as _;

/// What stands between two columns.
const GAP: &str = "  ";
/// Headings that are longer take several lines, unless the figures need the room anyway.
const HEADING: usize = 12;
/// As many lines as a heading may take, if its words allow it.
const HEADING_LINES: usize = 4;
/// A text can be wrapped behind these, and before a bracket.
const SIGNS: [char; 3] = [' ', '+', ','];

/// Whether colours are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Colour {
    /// No escape sequences.
    #[default]
    Never,
    /// Differences that are claimed are coloured.
    Always,
}

/// What a cell says, beyond its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paint {
    Plain,
    Heading,
    Faint,
    Better,
    Worse,
}

impl Paint {
    /// The text in its colour.
    pub(crate) fn on(self, text: &str, colour: Colour) -> String {
        let code = match (colour, self) {
            (Colour::Never, _) | (Colour::Always, Paint::Plain) => return text.to_owned(),
            (Colour::Always, Paint::Heading) => "1",
            (Colour::Always, Paint::Faint) => "2",
            (Colour::Always, Paint::Better) => "1;32",
            (Colour::Always, Paint::Worse) => "1;31",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

/// A text with its paint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) paint: Paint,
}

impl Cell {
    pub(crate) fn plain(text: impl Into<String>) -> Cell {
        Cell {
            text: text.into(),
            paint: Paint::Plain,
        }
    }

    pub(crate) fn painted(text: impl Into<String>, paint: Paint) -> Cell {
        Cell {
            text: text.into(),
            paint,
        }
    }
}

/// Columns that are read together, such as a figure and its ratio: they are parted only where even they are too wide.
pub(crate) struct Group {
    pub(crate) columns: Vec<Column>,
}

/// A heading and a cell for each row.
pub(crate) struct Column {
    pub(crate) heading: String,
    pub(crate) cells: Vec<Cell>,
}

/// What stands to the left of a row, and below it.
pub(crate) struct RowName {
    pub(crate) name: String,
    /// Lines below the row: how often it crashed.
    pub(crate) notes: Vec<Cell>,
}

/// A table, or several where one would be too wide.
pub(crate) struct Table {
    pub(crate) heading: String,
    pub(crate) rows: Vec<RowName>,
    pub(crate) groups: Vec<Group>,
}

impl Table {
    /// Whether it is one table, in which names have some room.
    pub(crate) fn fits(&self, width: usize) -> bool {
        let for_names = self.longest_name().min(width * 28 / 100);
        for_names.max(self.longest_word()) + self.width_of_columns() <= width
    }

    /// The table's lines, none wider than `width`, which is at least 40, unless a word is.
    pub(crate) fn lines(&self, width: usize, colour: Colour) -> Vec<String> {
        let for_names = self.room_for_names(width);
        let groups: Vec<&[Column]> = self
            .groups
            .iter()
            .flat_map(|group| {
                if group.width() + for_names > width {
                    group.columns.chunks(1)
                } else {
                    group.columns.chunks(group.columns.len().max(1))
                }
            })
            .collect();
        let mut lines = Vec::new();
        let mut rest = groups.as_slice();
        while !rest.is_empty() {
            let mut used = for_names;
            let fitting = rest
                .iter()
                .take_while(|columns| {
                    used += columns.iter().map(Column::width_with_gap).sum::<usize>();
                    used <= width
                })
                .count()
                .max(1);
            let (here, later) = rest.split_at(fitting);
            if !lines.is_empty() {
                lines.push(String::new());
            }
            let columns: Vec<&Column> = here.iter().copied().flatten().collect();
            self.block(
                &columns,
                for_names,
                width,
                colour,
                later.is_empty(),
                &mut lines,
            );
            rest = later;
        }
        lines
    }

    /// How wide the column of names is; longer ones take several lines. 0 if names stand on lines of their own.
    fn room_for_names(&self, width: usize) -> usize {
        let (longest, word) = (self.longest_name(), self.longest_word());
        let room = width.saturating_sub(self.width_of_columns());
        if room >= word {
            return longest.min(room);
        }
        let wanted = longest.min((width * 28 / 100).max(word));
        let columns = self.groups.iter().flat_map(|group| &group.columns);
        let widest = columns.map(Column::width_with_gap).max().unwrap_or(0);
        if wanted + widest <= width { wanted } else { 0 }
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        let names = self.rows.iter().map(|row| row.name.as_str());
        names.chain([self.heading.as_str()])
    }

    fn longest_name(&self) -> usize {
        self.names()
            .map(|name| visible(name).width())
            .max()
            .unwrap_or(0)
    }

    fn longest_word(&self) -> usize {
        self.names().map(longest_piece).max().unwrap_or(0)
    }

    fn width_of_columns(&self) -> usize {
        self.groups.iter().map(Group::width).sum()
    }

    /// The table of some of the columns; notes stand only below the last.
    fn block(
        &self,
        columns: &[&Column],
        for_names: usize,
        width: usize,
        colour: Colour,
        is_last: bool,
        lines: &mut Vec<String>,
    ) {
        let columns: Vec<(&Column, usize)> = columns
            .iter()
            .map(|column| (*column, column.width()))
            .collect();
        self.headings(&columns, for_names, colour, lines);
        for (index, row) in self.rows.iter().enumerate() {
            let mut name = match for_names {
                0 => {
                    lines.extend(wrapped(&visible(&row.name), width));
                    Vec::new()
                }
                _ => wrapped(&visible(&row.name), for_names),
            }
            .into_iter();
            let mut line = padded(&name.next().unwrap_or_default(), for_names);
            for (column, column_width) in &columns {
                line.push_str(GAP);
                line.push_str(&right(&column.cells[index], *column_width, colour));
            }
            lines.push(line.trim_end().to_owned());
            lines.extend(name);
            if is_last {
                for note in &row.notes {
                    let indented = wrapped(&visible(&note.text), width.saturating_sub(2));
                    lines.extend(
                        indented
                            .iter()
                            .map(|text| format!("  {}", note.paint.on(text, colour))),
                    );
                }
            }
        }
    }
}

impl Table {
    /// Headings end on the line above the first row, however many lines they take.
    fn headings(
        &self,
        columns: &[(&Column, usize)],
        for_names: usize,
        colour: Colour,
        lines: &mut Vec<String>,
    ) {
        let own = match for_names {
            0 => Vec::new(),
            _ => wrapped(&self.heading, for_names),
        };
        let parts: Vec<Vec<String>> = columns
            .iter()
            .map(|(column, width)| wrapped(&visible(&column.heading), *width))
            .collect();
        let height = parts.iter().chain([&own]).map(Vec::len).max().unwrap_or(1);
        let line_of = |part: &[String], at: usize| -> String {
            let at = (at + part.len()).checked_sub(height);
            at.map_or_else(String::new, |at| part[at].clone())
        };
        for at in 0..height {
            let mut line = Paint::Heading.on(&padded(&line_of(&own, at), for_names), colour);
            for ((_, width), part) in columns.iter().zip(&parts) {
                let cell = Cell::painted(line_of(part, at), Paint::Heading);
                line.push_str(GAP);
                line.push_str(&right(&cell, *width, colour));
            }
            lines.push(line.trim_end().to_owned());
        }
    }
}

impl Group {
    /// With the gaps before its columns.
    pub(crate) fn width(&self) -> usize {
        self.columns.iter().map(Column::width_with_gap).sum()
    }
}

impl Column {
    fn width_with_gap(&self) -> usize {
        self.width() + GAP.len()
    }

    fn width(&self) -> usize {
        let cells = self.cells.iter().map(|cell| cell.text.width());
        let heading = visible(&self.heading).width();
        let enough = heading.min(HEADING).max(heading / HEADING_LINES);
        let word = longest_piece(&self.heading);
        cells.max().unwrap_or(0).max(enough).max(word)
    }
}

/// How wide the widest part of a text is that `wrapped` keeps in one line.
fn longest_piece(text: &str) -> usize {
    let text = visible(text);
    let pieces = pieces(&text).into_iter();
    pieces.map(|piece| piece.trim().width()).max().unwrap_or(0)
}

/// The parts of a text that may stand on lines of their own. Of spaces in a row, the last one ends a part, and so does the
/// last of other signs in a row: `g++` is one. So are `2 %` and `1,234`.
fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut start = 0;
    let mut before = ' ';
    for (at, character) in text.char_indices() {
        let end = at + character.len_utf8();
        let rest = &text[end..];
        let ends = match rest.chars().next() {
            None | Some('[') => true,
            Some(' ') => false,
            Some(_) if character == ' ' => !is_percent(before, rest),
            Some(next) if SIGNS.contains(&next) || !SIGNS.contains(&character) => false,
            Some(next) => !(character == ',' && before.is_ascii_digit() && next.is_ascii_digit()),
        };
        if ends {
            pieces.push(&text[start..end]);
            start = end;
        }
        before = character;
    }
    pieces
}

/// Whether what follows a space is the percent sign of the number before it.
fn is_percent(before: char, rest: &str) -> bool {
    let behind = rest.strip_prefix('%').map(|rest| rest.chars().next());
    before.is_ascii_digit() && behind.is_some_and(|next| !next.is_some_and(char::is_alphanumeric))
}

pub(crate) fn padded(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text.width())))
}

fn right(cell: &Cell, width: usize, colour: Colour) -> String {
    let space = " ".repeat(width.saturating_sub(cell.text.width()));
    if cell.text.is_empty() {
        return space;
    }
    format!("{space}{}", cell.paint.on(&cell.text, colour))
}

/// The text in lines of at most this width, unless a word is wider.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for piece in pieces(text) {
        // Of the whole line, because a character may change the width of the one before it.
        let longer = format!("{line}{piece}");
        if longer.trim_end().width() <= width {
            line = longer;
            continue;
        }
        if !line.trim_end().is_empty() {
            lines.push(line.trim_end().to_owned());
        }
        line = piece.trim_start().to_owned();
    }
    lines.push(line.trim_end().to_owned());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_wrapped_at_spaces() {
        assert_eq!(wrapped("one two three", 8), ["one two", "three"]);
        assert_eq!(
            wrapped("install g++ or clang++", 14),
            ["install g++ or", "clang++"]
        );
        assert_eq!(wrapped("abc  +, def", 5), ["abc", "+,", "def"]);
        assert_eq!(wrapped("", 3), [""]);
        assert_eq!(wrapped(" (abc:1)", 7), ["(abc:1)"]);
    }

    #[test]
    fn a_number_stays_with_its_percent_sign_and_its_thousands() {
        assert_eq!(wrapped("of 1,234,567", 6), ["of", "1,234,567"]);
        assert_eq!(wrapped("about 12 % more", 8), ["about", "12 %", "more"]);
        assert_eq!(wrapped("a+%b", 2), ["a+", "%b"]);
    }

    #[test]
    fn names_of_variants_are_wrapped_at_their_signs() {
        assert_eq!(
            wrapped("musl+mimalloc[purge_delay=0,arena=1]", 28),
            ["musl+mimalloc[purge_delay=0,", "arena=1]"]
        );
    }

    #[test]
    fn wide_characters_count_twice() {
        assert_eq!(wrapped("変種 変種", 8), ["変種", "変種"]);
    }

    #[test]
    fn a_word_is_never_broken() {
        assert_eq!(wrapped("an abcdefgh", 3), ["an", "abcdefgh"]);
    }

    #[test]
    fn a_name_that_leaves_no_room_stands_on_a_line_of_its_own() {
        let table = Table {
            heading: "variant".to_owned(),
            rows: vec![RowName {
                name: "a-name-of-one-long-word".to_owned(),
                notes: Vec::new(),
            }],
            groups: vec![Group {
                columns: vec![Column {
                    heading: "x".to_owned(),
                    cells: vec![Cell::plain("1".repeat(20))],
                }],
            }],
        };
        let lines = table.lines(40, Colour::Never);
        let figures = format!("  {}", "1".repeat(20));
        assert_eq!(lines[1..], ["a-name-of-one-long-word".to_owned(), figures]);
    }

    #[test]
    fn a_name_is_broken_only_where_it_has_a_sign_if_another_table_gives_the_room() {
        let group = || Group {
            columns: vec![Column {
                heading: "x".to_owned(),
                cells: vec![Cell::plain("1".repeat(40))],
            }],
        };
        let table = Table {
            heading: "variant".to_owned(),
            rows: vec![RowName {
                name: "musl, crate tikv-jemallocator".to_owned(),
                notes: Vec::new(),
            }],
            groups: vec![group(), group()],
        };
        // Beside both columns there would be room for 16 of its 17 characters.
        let lines = table.lines(100, Colour::Never);
        assert!(lines.contains(&"tikv-jemallocator".to_owned()), "{lines:?}");
    }

    #[test]
    fn a_column_without_room_goes_into_another_table_with_the_names() {
        let column = |heading: &str| Group {
            columns: vec![Column {
                heading: heading.to_owned(),
                cells: vec![Cell::plain("123456")],
            }],
        };
        let table = Table {
            heading: "variant".to_owned(),
            rows: vec![RowName {
                name: "a".to_owned(),
                notes: Vec::new(),
            }],
            groups: vec![column("x"), column("y")],
        };
        assert_eq!(
            table.lines(20, Colour::Never),
            [
                "variant       x",
                "a        123456",
                "",
                "variant       y",
                "a        123456"
            ]
        );
        assert_eq!(
            table.lines(40, Colour::Never),
            ["variant       x       y", "a        123456  123456"]
        );
    }
}
