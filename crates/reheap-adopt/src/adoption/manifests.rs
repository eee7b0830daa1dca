//! Adds lines to a `Cargo.toml`, each with a mark behind it.
//!
//! TOML has many ways to write the same table. Each place where a line may go is tried, and the first is taken with which
//! the file says what it said before, and the new line.

use super::Refusal;
use super::arrays;
use super::data::Data;
use super::lines::end_of_line;
use crate::manifest::Manifest;
use crate::text::Text;
use toml_edit::{Document, Item, TableLike};

/// The mark of a line.
pub(super) const MARK: &str = "# reheap adopt";

/// The tables beside which a new one goes, the first that is there.
const NEIGHBOURS: [(&str, &[&str]); 4] = [
    (
        "target",
        &[
            "target",
            "dependencies",
            "dev-dependencies",
            "build-dependencies",
            "package",
        ],
    ),
    ("dependencies", &["dependencies", "features", "package"]),
    (
        "features",
        &[
            "features",
            "target",
            "build-dependencies",
            "dev-dependencies",
            "dependencies",
        ],
    ),
    ("package", &["package"]),
];

/// The text with another line in a table.
pub(super) fn add(text: &Text, table: &[&str], key: &str, value: &str) -> Result<String, Refusal> {
    let document = parsed(text)?;
    let path: Vec<String> = table
        .iter()
        .chain([&key])
        .map(|key| (*key).to_owned())
        .collect();
    let before = Data::parse(&text.contents);
    let value_of_it = Data::of_written(value);
    let expected = before
        .zip(value_of_it)
        .and_then(|(data, value)| data.with(&path, value));
    let Some(expected) = expected else {
        let what = format!("`{}` has `{}` already", text.path.display(), dotted(&path));
        return Err(Refusal::new(what));
    };
    let line_end = text.line_end();
    let places = places(&text.contents, &document, table);
    let results = places.into_iter().map(|place| {
        let header = place
            .header
            .map(|header| format!("{line_end}{line_end}[{header}] {MARK}"));
        let keys: Vec<String> = path[place.depth..].to_vec();
        let line = format!("{line_end}{} = {value} {MARK}", dotted(&keys));
        let mut result = text.contents.clone();
        result.insert_str(place.at, &(header.unwrap_or_default() + &line));
        result
    });
    let mut right = results.filter(|result| Data::parse(result).as_ref() == Some(&expected));
    right.next().ok_or_else(|| {
        let what = format!(
            "cannot add `{}` to `{}`: its tables are written in a way that leaves no place for a line",
            dotted(&path),
            text.path.display()
        );
        let header = dotted(&path[..path.len() - 1]);
        Refusal::new(what).hint(format!("write the table that it belongs to as `[{header}]`, with a key on each line"))
    })
}

/// The text with a feature that turns on one thing more.
pub(super) fn add_to_feature(text: &Text, feature: &str, value: &str) -> Result<String, Refusal> {
    let manifest = Manifest::of(text.clone(), None)?;
    let written = manifest
        .table(&["features"])
        .and_then(|table| table.get(feature));
    let Some(written) = written else {
        // An optional dependency may imply it. Written out, it no longer does.
        let active = manifest.features.active([feature]);
        let implied = active.dependencies.iter();
        let values: Vec<String> = implied
            .map(|key| format!("dep:{key}"))
            .chain([value.to_owned()])
            .map(|name| format!("\"{name}\""))
            .collect();
        let values = format!("[{}]", values.join(", "));
        return add(text, &["features"], feature, &values);
    };
    let array = written.as_array();
    let added = array.and_then(|array| arrays::add(&text.contents, array, value, text.line_end()));
    let is_right = |added: &String| Data::parse(added).is_some();
    added.filter(is_right).ok_or_else(|| {
        let path = text.path.display();
        let what = match feature {
            "default" => format!("cannot add to the default features in `{path}`"),
            _ => format!("cannot add to the feature `{feature}` in `{path}`"),
        };
        Refusal::new(what).hint("write them as an array of strings")
    })
}

pub(super) fn parsed(text: &Text) -> Result<Document<String>, Refusal> {
    Ok(Manifest::of(text.clone(), None)?.document)
}

/// Keys as one key of TOML.
pub(super) fn dotted(keys: &[String]) -> String {
    let is_bare = |key: &String| {
        let is_fit =
            |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
        !key.is_empty() && key.chars().all(is_fit)
    };
    let keys = keys
        .iter()
        .map(|key| match (is_bare(key), key.contains('\'')) {
            (true, _) => key.clone(),
            (false, false) => format!("'{key}'"),
            (false, true) => format!("\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\"")),
        });
    keys.collect::<Vec<_>>().join(".")
}

/// Where a line may go.
struct Place {
    at: usize,
    /// A header that goes before the line.
    header: Option<String>,
    /// How many of the keys the table at that place has already.
    depth: usize,
}

fn places(contents: &str, document: &Document<String>, table: &[&str]) -> Vec<Place> {
    let keys: Vec<String> = table.iter().map(|key| (*key).to_owned()).collect();
    let mut places = Vec::new();
    let in_table = |depth: usize| {
        let at = end_of_entries(contents, document, &table[..depth])?;
        Some(Place {
            at,
            header: None,
            depth,
        })
    };
    places.extend(in_table(table.len()));
    let after = NEIGHBOURS
        .iter()
        .find(|(first, _)| table.first() == Some(first));
    let after = after.map_or(&table[..1], |(_, after)| after);
    let items = after.iter().filter_map(|key| document.get(key));
    let ends = items
        .filter_map(end_of_item)
        .map(|end| end_of_line(contents, end));
    for at in ends.chain([contents.trim_end().len()]) {
        places.push(Place {
            at: end_of_line(contents, at),
            header: Some(dotted(&keys)),
            depth: table.len(),
        });
    }
    places.extend((0..table.len()).rev().filter_map(in_table));
    places
}

/// Where a line may follow the others of a table that has a header, or of the root.
fn end_of_entries(contents: &str, document: &Document<String>, keys: &[&str]) -> Option<usize> {
    let root: &dyn TableLike = document.as_table();
    let (table, header): (&dyn TableLike, Option<usize>) = match keys.split_last() {
        None => (root, None),
        Some((last, parents)) => {
            let mut parents = parents.iter();
            let parent = parents.try_fold(root, |table, key| table.get(key)?.as_table_like())?;
            let table = parent.get(last)?.as_table()?;
            if table.is_implicit() || table.is_dotted() {
                return None;
            }
            (table, table.span().map(|span| span.end))
        }
    };
    let own = table.iter().filter(|(_, item)| match item {
        Item::Table(table) => table.is_dotted(),
        item => item.is_value(),
    });
    let last = own.filter_map(|(_, item)| end_of_item(item)).max();
    last.or(header).map(|end| end_of_line(contents, end))
}

/// Where the last thing in it ends.
fn end_of_item(item: &Item) -> Option<usize> {
    let own = match item {
        // The span of a table without a header of its own is that of its key.
        Item::ArrayOfTables(tables) => {
            let tables = tables.iter();
            let ends = tables.flat_map(|table| {
                let inside = table.iter().filter_map(|(_, item)| end_of_item(item));
                inside.chain(table.span().map(|span| span.end)).max()
            });
            return ends.max();
        }
        item => item.span().map(|span| span.end),
    };
    let inside = match item {
        Item::Table(table) => table.iter().filter_map(|(_, item)| end_of_item(item)).max(),
        _ => None,
    };
    own.max(inside)
}
