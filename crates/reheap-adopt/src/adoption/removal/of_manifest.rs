//! The marked lines of one `Cargo.toml`.

use super::super::data::Data;
use super::super::lines::Lines;
use super::super::manifests::{MARK, dotted, parsed};
use super::super::packages::Packaged;
use super::super::{Refusal, arrays};
use crate::crates;
use crate::text::Text;
use std::collections::BTreeSet;
use std::ops::Range;
use toml_edit::{Document, Item, TableLike, Value};

/// What has to stay although it carries the mark.
#[derive(Debug)]
pub(super) enum Keep {
    Nothing,
    /// Dependencies and their features, for this reason.
    Dependencies(String),
}

/// A manifest without the marked lines.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) contents: String,
    /// Lines that stay, from 1, and why.
    pub(super) left: Vec<(usize, String)>,
    pub(super) packages: Vec<(&'static Packaged, String)>,
    pub(super) metadata: Option<String>,
}

/// A key with its value, or the header of a table.
struct Piece<'a> {
    path: Vec<String>,
    /// None for a header.
    value: Option<&'a Value>,
    first_line: usize,
    last_line: usize,
}

impl Piece<'_> {
    /// The strings of an array.
    fn strings(&self) -> impl Iterator<Item = &str> {
        let array = self.value.and_then(Value::as_array);
        array.into_iter().flatten().filter_map(Value::as_str)
    }
}

/// What stands in the array of a key, and goes: the key, and the places.
type Cut = (Vec<String>, Vec<Range<usize>>);

/// What a marked line is.
enum Ours {
    /// Whether the package has a row of its own, and the version.
    Dependency(Option<(&'static Packaged, String)>),
    Feature,
    /// A feature that an optional dependency implies if nobody writes it out.
    ImpliedFeature,
    Default,
    Metadata,
}

pub(super) fn remove(text: &Text, keep: &Keep) -> Result<Found, Refusal> {
    let mut found = Found {
        contents: text.contents.clone(),
        left: Vec::new(),
        packages: Vec::new(),
        metadata: None,
    };
    if !text.contents.contains(MARK) {
        return Ok(found);
    }
    let document = parsed(text)?;
    let lines = Lines::of(&text.contents);
    let pieces = pieces(&document, &lines);
    let marked = marked_lines(&lines, &pieces);
    let mut work = Work {
        text,
        lines: &lines,
        pieces: &pieces,
        marked: &marked,
        removed: BTreeSet::new(),
        paths: Vec::new(),
        unmarked: BTreeSet::new(),
        features: BTreeSet::new(),
        required: required_features(&pieces),
    };
    for &line in &marked {
        work.line(line, keep, &mut found);
    }
    let mut cuts = work.required_features();
    cuts.extend(work.default_features());
    work.headers(&mut found);
    let ranges = cuts.iter().flat_map(|(_, ranges)| ranges.iter().cloned());
    found.contents = work.result(ranges.collect());
    let cut: Vec<&Vec<String>> = cuts.iter().map(|(path, _)| path).collect();
    let expected = Data::parse(&text.contents).map(|before| {
        let paths = work.paths.iter().chain(cut.iter().copied());
        paths.fold(before, |data, path| data.without(path)).pruned()
    });
    let after = Data::parse(&found.contents).map(|after| {
        let paths = cut.iter();
        paths.fold(after, |data, path| data.without(path)).pruned()
    });
    if after.is_some() && after == expected {
        Ok(found)
    } else {
        let what = format!(
            "cannot take out the marked lines of `{}`",
            text.path.display()
        );
        Err(Refusal::new(what).hint(format!("take out the lines with `{MARK}` by hand")))
    }
}

/// The features that programs need.
fn required_features(pieces: &[Piece<'_>]) -> BTreeSet<String> {
    let of_programs = pieces
        .iter()
        .filter(|piece| piece.path == ["bin", "required-features"]);
    of_programs
        .flat_map(Piece::strings)
        .map(str::to_owned)
        .collect()
}

fn pieces<'a>(document: &'a Document<String>, lines: &Lines<'_>) -> Vec<Piece<'a>> {
    let mut found = Vec::new();
    add_pieces(document.as_table(), &[], lines, &mut found);
    found
}

fn add_pieces<'a>(
    table: &'a dyn TableLike,
    path: &[String],
    lines: &Lines<'_>,
    found: &mut Vec<Piece<'a>>,
) {
    for (name, item) in table.iter() {
        let path: Vec<String> = path.iter().cloned().chain([name.to_owned()]).collect();
        let header = |span: Option<Range<usize>>| {
            let span = span?;
            Some(Piece {
                path: path.clone(),
                value: None,
                first_line: lines.at(span.start),
                last_line: lines.at(span.end - 1),
            })
        };
        match item {
            Item::Table(table) => {
                if !table.is_implicit() && !table.is_dotted() {
                    found.extend(header(table.span()));
                }
                add_pieces(table, &path, lines, found);
            }
            Item::ArrayOfTables(tables) => {
                for table in tables {
                    found.extend(header(table.span()));
                    add_pieces(table, &path, lines, found);
                }
            }
            Item::Value(value) => {
                let key = table.get_key_value(name).and_then(|(key, _)| key.span());
                if let (Some(key), Some(span)) = (key, value.span()) {
                    found.push(Piece {
                        path,
                        value: Some(value),
                        first_line: lines.at(key.start),
                        last_line: lines.at(span.end - 1),
                    });
                }
            }
            Item::None => {}
        }
    }
}

/// The lines that end with the mark, but not those inside a string.
fn marked_lines(lines: &Lines<'_>, pieces: &[Piece<'_>]) -> Vec<usize> {
    let is_inside = |line: &usize| {
        let mut pieces = pieces.iter().filter(|piece| piece.value.is_some());
        pieces.any(|piece| (piece.first_line..piece.last_line).contains(line))
            || lines.all[*line].trim_start().starts_with('#')
    };
    let all = 0..lines.all.len();
    all.filter(|&line| lines.all[line].trim_end().ends_with(MARK))
        .filter(|line| !is_inside(line))
        .collect()
}

struct Work<'a> {
    text: &'a Text,
    lines: &'a Lines<'a>,
    pieces: &'a [Piece<'a>],
    marked: &'a [usize],
    removed: BTreeSet<usize>,
    /// The keys that go.
    paths: Vec<Vec<String>>,
    /// Lines that stay, without the mark.
    unmarked: BTreeSet<usize>,
    /// The features that go.
    features: BTreeSet<String>,
    /// The features that programs need, into which `dep:PACKAGE` was put without a mark.
    required: BTreeSet<String>,
}

impl Work<'_> {
    /// A line with a key.
    fn line(&mut self, line: usize, keep: &Keep, found: &mut Found) {
        let pieces = self.pieces.iter();
        let Some(piece) = pieces.into_iter().find(|piece| piece.last_line == line) else {
            return;
        };
        let Some(value) = piece.value else { return };
        let mut stays = |why: String| found.left.push((line + 1, why));
        let is_one = self
            .pieces
            .iter()
            .filter(|other| other.last_line == line)
            .count()
            == 1;
        let ours = ours(&self.text.contents, piece, value).filter(|_| is_one);
        let Some(ours) = ours else {
            stays(format!("`{}` was changed", dotted(&piece.path)));
            return;
        };
        if let (Ours::Dependency(_) | Ours::Feature, Keep::Dependencies(why)) = (&ours, keep) {
            stays(format!("`{}` is still needed: {why}", dotted(&piece.path)));
            return;
        }
        let other = self.other_feature_with(piece);
        // Without its line, the feature is implied again.
        if let Some(other) = other.filter(|_| !matches!(ours, Ours::ImpliedFeature)) {
            stays(format!(
                "`{}` is still needed: the feature `{other}` names it",
                dotted(&piece.path)
            ));
            return;
        }
        match ours {
            Ours::Default => return,
            Ours::ImpliedFeature => {}
            Ours::Dependency(packaged) => found.packages.extend(packaged),
            Ours::Feature => self.features.extend(piece.path.last().cloned()),
            Ours::Metadata => {
                if piece.path.last().is_some_and(|key| key == "allocator") {
                    found.metadata = value.as_str().map(str::to_owned);
                }
            }
        }
        self.remove(piece);
    }

    fn remove(&mut self, piece: &Piece<'_>) {
        self.removed.extend(piece.first_line..=piece.last_line);
        self.paths.push(piece.path.clone());
    }

    /// A feature that somebody else wrote and that would be broken without this dependency or feature.
    fn other_feature_with(&self, piece: &Piece<'_>) -> Option<String> {
        let key = piece.path.last()?;
        let is_feature = piece.path[0] == "features";
        let names = |value: &str| {
            if is_feature {
                value == key
            } else {
                let name = value
                    .strip_prefix("dep:")
                    .unwrap_or(value)
                    .split('/')
                    .next()
                    .unwrap_or_default();
                name.trim_end_matches('?') == key && (value != name || value == key)
            }
        };
        let stays = |other: &Piece<'_>| {
            let is_marked = self.marked.contains(&other.last_line);
            !is_marked || !is_feature && self.other_feature_with(other).is_some()
        };
        let others = self.pieces.iter().filter(|other| {
            let is_other = other.path.len() == 2 && other.path[0] == "features";
            let is_default = other.path.last().is_some_and(|key| key == "default");
            is_other && !(is_feature && is_default) && stays(other)
        });
        let mut others = others.filter(|other| {
            let is_own = |value: &str| !is_feature && self.is_in_required(other, value, key);
            other.strings().any(|value| names(value) && !is_own(value))
        });
        others.next().and_then(|other| other.path.last().cloned())
    }

    /// Whether this is what adopt puts into a feature that a program needs.
    fn is_in_required(&self, feature: &Piece<'_>, value: &str, package: &str) -> bool {
        let is_required = |name: &String| self.required.contains(name);
        feature.path.last().is_some_and(is_required) && value.strip_prefix("dep:") == Some(package)
    }

    /// The features that programs need, without the dependencies that go.
    fn required_features(&self) -> Vec<Cut> {
        let features = self.pieces.iter().filter(|piece| {
            piece.path[0] == "features" && !self.removed.contains(&piece.last_line)
        });
        let cuts = features.filter_map(|piece| {
            let array = piece.value.and_then(Value::as_array)?;
            let is_gone = |value: &Value| {
                let value = value.as_str().unwrap_or_default();
                let mut gone = self.paths.iter();
                gone.any(|path| match &path[..] {
                    [.., table, package] => {
                        table == "dependencies" && self.is_in_required(piece, value, package)
                    }
                    _ => false,
                })
            };
            let index = array.iter().position(is_gone)?;
            Some((
                piece.path.clone(),
                arrays::cut(&self.text.contents, array, index)?,
            ))
        });
        cuts.collect()
    }

    /// The default features without those that go: what to cut out, from the back to the front.
    fn default_features(&mut self) -> Option<Cut> {
        if self.features.is_empty() {
            return None;
        }
        let is_default = |piece: &&Piece<'_>| piece.path == ["features", "default"];
        let piece = self.pieces.iter().find(is_default)?;
        let array = piece.value.and_then(Value::as_array)?;
        let is_ours = |value: &Value| {
            value
                .as_str()
                .is_some_and(|name| self.features.contains(name))
        };
        let ours: Vec<usize> = (0..array.len())
            .filter(|&index| array.get(index).is_some_and(is_ours))
            .collect();
        let is_marked = self.marked.contains(&piece.last_line);
        if is_marked && ours.len() == array.len() {
            self.remove(piece);
            return None;
        }
        if is_marked {
            self.unmarked.insert(piece.last_line);
        }
        // There is one feature at a time.
        let ranges = arrays::cut(&self.text.contents, array, *ours.last()?)?;
        Some((piece.path.clone(), ranges))
    }

    /// Takes out the marked headers that have nothing below them any more.
    fn headers(&mut self, found: &mut Found) {
        let headers = self.pieces.iter().filter(|piece| piece.value.is_none());
        let lines: BTreeSet<usize> = headers.clone().map(|piece| piece.first_line).collect();
        for header in headers.filter(|piece| self.marked.contains(&piece.last_line)) {
            let line = header.first_line;
            let end = lines.range(line + 1..).next().copied();
            let below = line + 1..end.unwrap_or(self.lines.all.len());
            let others = self.pieces.iter().filter(|piece| {
                let is_there = below.contains(&piece.first_line) && piece.value.is_some();
                is_there && !self.removed.contains(&piece.first_line)
            });
            let others: Vec<&Piece<'_>> = others.collect();
            if others.is_empty() {
                self.removed.insert(line);
                let above = line.checked_sub(1);
                self.removed
                    .extend(above.filter(|&line| self.lines.is_blank(line)));
                continue;
            }
            let is_marked = |piece: &&Piece<'_>| self.marked.contains(&piece.last_line);
            if !others.iter().any(is_marked) {
                self.unmarked.insert(line);
            }
            if header.path.last().is_some_and(|key| key == "reheap") {
                let keys: Vec<&str> = others
                    .iter()
                    .filter_map(|piece| piece.path.last())
                    .map(String::as_str)
                    .collect();
                let why = format!(
                    "`[{}]` has more keys: {}",
                    dotted(&header.path),
                    keys.join(", ")
                );
                found.left.push((line + 1, why));
            }
        }
    }

    fn result(&self, mut edits: Vec<Range<usize>>) -> String {
        // Places stay right from the back to the front: blanks take the place of what goes until the lines are counted.
        let mut contents = self.text.contents.clone();
        let mut removed = self.removed.clone();
        for &line in &self.unmarked {
            let start = self.lines.start(line);
            let text = self.lines.all[line];
            let at = text.rfind(MARK).unwrap_or(text.len());
            let from = text[..at].trim_end().len();
            edits.push(start + from..start + text.trim_end().len());
        }
        edits.sort_by_key(|range| std::cmp::Reverse(range.start));
        for range in edits {
            let gone = contents[range.clone()].matches('\n').count();
            let first = self.lines.at(range.start);
            contents.replace_range(range, "");
            let moved = |line: usize| if line > first { line - gone } else { line };
            removed = removed.into_iter().map(moved).collect();
        }
        Lines::of(&contents).without(&removed)
    }
}

fn ours(contents: &str, piece: &Piece<'_>, value: &Value) -> Option<Ours> {
    let path: Vec<&str> = piece.path.iter().map(String::as_str).collect();
    let by_feature = |value: &str| value.strip_prefix("dep:").and_then(crates::find).is_some();
    let written = &contents[value.span()?];
    match &path[..] {
        ["package" | "workspace", "metadata", "reheap", _] => Some(Ours::Metadata),
        ["features", "default"] => Some(Ours::Default),
        ["features", name] => match &piece.strings().collect::<Vec<_>>()[..] {
            [one] if by_feature(one) => Some(Ours::Feature),
            [own, one] if own.strip_prefix("dep:") == Some(name) && by_feature(one) => {
                Some(Ours::ImpliedFeature)
            }
            _ => None,
        },
        [.., "dependencies", package] => {
            crates::find(package)?;
            let data = Data::of_written(written)?;
            let mut in_member = [false, true]
                .map(Packaged::value_in_member)
                .into_iter()
                .filter_map(|value| Data::of_written(&value));
            if in_member.any(|value| value == data) {
                return Some(Ours::Dependency(None));
            }
            let packaged = Packaged::of_value(package, written)?;
            Some(Ours::Dependency(Some(packaged)))
        }
        _ => None,
    }
}
