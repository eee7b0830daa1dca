//! Adds a string to an array of strings, and takes it out again.
//!
//! The string is put behind the last element, and gets a comma exactly if that had one. So taking it out can tell which
//! comma came with it.

use super::lines::end_of_line;
use std::ops::Range;
use toml_edit::Array;

/// The text with another string in the array, as it was read from that text.
pub(super) fn add(contents: &str, array: &Array, value: &str, line_end: &str) -> Option<String> {
    let span = array.span()?;
    let is_on_lines = contents[span.clone()].contains('\n');
    let mut text = contents.to_owned();
    let Some(last) = array.iter().last().and_then(|value| value.span()) else {
        let inside = if is_on_lines {
            format!("{line_end}    \"{value}\",")
        } else {
            format!("\"{value}\"")
        };
        text.insert_str(span.start + 1, &inside);
        return Some(text);
    };
    let comma = comma_after(contents, last.end, span.end - 1);
    let end = comma.map_or(last.end, |comma| comma + 1);
    if !is_on_lines {
        match comma {
            Some(_) => text.insert_str(end, &format!(" \"{value}\",")),
            None => text.insert_str(end, &format!(", \"{value}\"")),
        }
        return Some(text);
    }
    // After a comment behind the last element, but before the bracket if that is on the same line.
    let place = end_of_line(contents, end).min(span.end - 1);
    let start = contents[..last.start].rfind('\n').map_or(0, |end| end + 1);
    let indent = &contents[start..last.start];
    let indent = if indent.trim().is_empty() {
        indent
    } else {
        "    "
    };
    let own_comma = if comma.is_some() { "," } else { "" };
    text.insert_str(place, &format!("{line_end}{indent}\"{value}\"{own_comma}"));
    if comma.is_none() {
        text.insert(last.end, ',');
    }
    Some(text)
}

/// What to cut out so that the element at this index is gone; ranges from the back to the front.
pub(super) fn cut(contents: &str, array: &Array, index: usize) -> Option<Vec<Range<usize>>> {
    let span = array.span()?;
    let own = array.get(index)?.span()?;
    let before = index
        .checked_sub(1)
        .and_then(|index| array.get(index)?.span());
    let from = before.as_ref().map_or(span.start + 1, |before| before.end);
    let start = from + start_of_space(&contents[from..own.start]);
    if let Some(comma) = comma_after(contents, own.end, span.end - 1) {
        return Some(one(start..comma + 1));
    }
    // It has no comma, so the one before it came with it.
    let Some(before) = before else {
        return Some(one(start..own.end));
    };
    let comma = comma_after(contents, before.end, own.start)?;
    if comma + 1 >= start {
        Some(one(comma..own.end))
    } else {
        Some(vec![start..own.end, comma..comma + 1])
    }
}

fn one(range: Range<usize>) -> Vec<Range<usize>> {
    std::iter::once(range).collect()
}

/// Where the space at the end begins: blanks, and one line end before them.
fn start_of_space(text: &str) -> usize {
    let text = text.trim_end_matches([' ', '\t']);
    let text = text.strip_suffix('\n').unwrap_or(text);
    text.strip_suffix('\r').unwrap_or(text).len()
}

/// The first comma that is in no comment.
fn comma_after(contents: &str, from: usize, to: usize) -> Option<usize> {
    let mut is_comment = false;
    for (at, byte) in contents.as_bytes()[from..to].iter().enumerate() {
        match byte {
            b'#' => is_comment = true,
            b'\n' => is_comment = false,
            b',' if !is_comment => return Some(from + at),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use toml_edit::Document;

    fn array<T>(contents: &str, then: impl Fn(&Array) -> T) -> T {
        let document = Document::parse(contents).unwrap();
        then(document.get("a").and_then(|item| item.as_array()).unwrap())
    }

    #[test]
    fn an_added_string_looks_like_the_others_and_leaves_no_trace() {
        for (before, after) in [
            ("a = []", "a = [\"n\"]"),
            ("a = [ ]", "a = [\"n\" ]"),
            ("a = [\"x\"]", "a = [\"x\", \"n\"]"),
            ("a = [ \"x\" ]", "a = [ \"x\", \"n\" ]"),
            ("a = [\"x\",]", "a = [\"x\", \"n\",]"),
            ("a = [\n]", "a = [\n    \"n\",\n]"),
            ("a = [\n  \"x\",\n]", "a = [\n  \"x\",\n  \"n\",\n]"),
            ("a = [\r\n\t\"x\"\r\n]", "a = [\r\n\t\"x\",\r\n\t\"n\"\r\n]"),
            (
                "a = [\n  \"x\" # y, z\n]",
                "a = [\n  \"x\", # y, z\n  \"n\"\n]",
            ),
            (
                "a = [\n  \"x\", # y\n  # \"z\",\n]",
                "a = [\n  \"x\", # y\n  \"n\",\n  # \"z\",\n]",
            ),
            ("a = [\"x\",\n  \"y\"]", "a = [\"x\",\n  \"y\",\n  \"n\"]"),
        ] {
            let line_end = if before.contains('\r') { "\r\n" } else { "\n" };
            let added = array(before, |array| add(before, array, "n", line_end).unwrap());
            assert_eq!(added, after);
            let ranges = array(&added, |array| cut(&added, array, array.len() - 1).unwrap());
            let mut undone = added.clone();
            ranges
                .into_iter()
                .for_each(|range| undone.replace_range(range, ""));
            assert_eq!(undone, before);
        }
    }
}
