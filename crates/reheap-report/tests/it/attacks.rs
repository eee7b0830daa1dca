//! The matrix of `reheap attack`, in each form.

use crate::matrix::results;
use reheap_report::Style;
use reheap_report::attacks::{self, ReadError};
use roxmltree::{Document, ParsingOptions};

#[test]
fn the_terminal_has_outcomes_shares_and_sums() {
    insta::assert_snapshot!(attacks::text(&results(), Style::default()));
}

#[test]
fn the_messages_are_shown_to_those_who_ask() {
    let verbose = Style {
        verbose: true,
        ..Style::default()
    };
    let text = attacks::text(&results(), verbose);
    assert!(
        text.contains("  uaf-read: crashed 14/21: SIGSEGV\n"),
        "{text}"
    );
    assert!(
        text.contains("glibc+mimalloc: malloc is in libmimalloc.so\n"),
        "{text}"
    );
}

#[test]
fn a_document_gets_a_table() {
    insta::assert_snapshot!(attacks::markdown(&results()));
}

fn page(html: &str) -> Document<'_> {
    let options = ParsingOptions {
        allow_dtd: true,
        ..ParsingOptions::default()
    };
    Document::parse_with_options(html, options).unwrap_or_else(|error| panic!("{error}\n{html}"))
}

#[test]
fn a_page_is_well_formed_and_each_cell_has_its_message() {
    let html = attacks::html(&results());
    let page = page(&html);
    let cells = page
        .descendants()
        .filter(|node| node.has_tag_name("details"));
    let text = |node: roxmltree::Node<'_, '_>| -> String {
        node.descendants().filter_map(|node| node.text()).collect()
    };
    let cells: Vec<String> = cells.map(text).collect();
    let has = |parts: [&str; 3]| {
        let fits = |cell: &&String| parts.iter().all(|part| cell.contains(part));
        assert!(
            cells.iter().any(|cell| fits(&cell)),
            "{parts:?}: {cells:#?}"
        );
    };
    has(["crashed", "14/21", "SIGSEGV"]);
    has(["stopped", "21/21", "free(): double free"]);
    // A minority that succeeded is not hidden in the tooltip.
    has(["crashed", "succeeded 7/21", "got the secret"]);
    assert!(html.contains("https://cwe.mitre.org/data/definitions/415.html"));
}

#[test]
fn no_name_and_no_message_is_markup() {
    let mut results = results();
    let evil = "</td><script>alert(1)</script> \u{1b}[2J | `x`";
    results.variants[0].name = evil.to_owned();
    results.variants[0].malloc_in = evil.to_owned();
    results.variants[0].cells[0].endings[0].said = evil.to_owned();
    results.left_out[0].reason = evil.to_owned();
    let html = attacks::html(&results);
    assert!(
        page(&html)
            .descendants()
            .all(|node| !node.has_tag_name("script"))
    );
    for text in [
        attacks::markdown(&results),
        attacks::text(
            &results,
            Style {
                verbose: true,
                ..Style::default()
            },
        ),
    ] {
        assert!(!text.contains('\u{1b}'), "{text}");
    }
    let table = attacks::markdown(&results);
    let columns = |line: &str| line.replace("\\|", "").matches('|').count();
    let rows: Vec<usize> = table
        .lines()
        .filter(|line| line.starts_with('|'))
        .map(columns)
        .collect();
    assert!(rows.iter().all(|count| *count == rows[0]), "{table}");
}

#[test]
fn what_was_written_is_read_back_and_nothing_else() {
    let text = attacks::to_json(&results());
    assert_eq!(attacks::from_json(&text).unwrap(), results());
    let error = |text: &str| attacks::from_json(text).unwrap_err();
    assert!(matches!(error(&text[..100]), ReadError::NotJson(_)));
    assert!(matches!(
        error("{\"reheap_bench\": 1}"),
        ReadError::NotResults
    ));
    let other = text.replace("\"reheap_attack\": 1", "\"reheap_attack\": 2");
    assert!(matches!(error(&other), ReadError::OtherFormat(2)));
    let mut lacking = results();
    lacking.variants[1].cells.pop();
    let lacking = attacks::to_json(&lacking);
    assert!(matches!(error(&lacking), ReadError::Damaged(_)));
}
