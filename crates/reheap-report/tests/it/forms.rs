//! What holds for every report, whatever was measured and however it is called.

use crate::fixtures;
use proptest::prelude::*;
use reheap_bench::overview::Overview;
use reheap_bench::results::{Results, Role};
use reheap_report::{Colour, Style};
use roxmltree::{Document, Node, ParsingOptions};
use std::collections::BTreeSet;
use unicode_width::UnicodeWidthStr as _;

fn html(files: &[Results]) -> String {
    reheap_report::html(&Overview::of(files))
}

fn markdown(files: &[Results]) -> String {
    reheap_report::markdown(&Overview::of(files))
}

fn text(files: &[Results], style: Style) -> String {
    reheap_report::text(&Overview::of(files), style)
}

fn csv(files: &[Results]) -> String {
    reheap_report::csv(&Overview::of(files))
}

fn bencher_json(files: &[Results]) -> String {
    reheap_report::bencher_json(&Overview::of(files))
}

fn hyperfine_json(files: &[Results]) -> String {
    reheap_report::hyperfine_json(&Overview::of(files))
}

/// The page as a tree; its markup is written so that XML's strict rules hold too.
fn page(html: &str) -> Document<'_> {
    let options = ParsingOptions {
        allow_dtd: true,
        ..ParsingOptions::default()
    };
    Document::parse_with_options(html, options).unwrap_or_else(|error| panic!("{error}\n{html}"))
}

fn elements<'a>(page: &'a Document<'_>, name: &'static str) -> impl Iterator<Item = Node<'a, 'a>> {
    page.descendants()
        .filter(move |node| node.tag_name().name() == name)
}

/// The results with these names in place of all that a user names.
fn renamed(mut all: Vec<Results>, names: &[String]) -> Vec<Results> {
    let mut names = names
        .iter()
        .cycle()
        .enumerate()
        .map(|(index, name)| format!("{index}{name}"));
    let mut next = || names.next().unwrap_or_default();
    for results in &mut all {
        results.machine.name = next();
        results.typed = vec![next(), next()];
        for benchmark in &mut results.benchmarks {
            benchmark.name = next();
            for variant in &mut benchmark.variants {
                variant.name = next();
                variant.command = vec![next(), next()];
            }
        }
    }
    all
}

fn without_colours(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        plain.push_str(before);
        rest = after.split_once('m').map_or("", |(_, after)| after);
    }
    plain + rest
}

#[test]
fn a_page_is_well_formed_and_its_charts_have_words() {
    for (name, results) in fixtures::all() {
        let html = html(&results);
        let page = page(&html);
        let charts = elements(&page, "svg").filter(|svg| svg.attribute("role") == Some("img"));
        for chart in charts {
            let title = chart
                .children()
                .find(|child| child.tag_name().name() == "title");
            let said = title.and_then(|title| title.text()).unwrap_or_default();
            assert!(!said.is_empty(), "{name}: {chart:?}");
        }
    }
}

#[test]
fn a_page_runs_nothing_and_fetches_nothing() {
    for (name, results) in fixtures::all() {
        let html = html(&results);
        let page = page(&html);
        for node in page.descendants().filter(Node::is_element) {
            let tag = node.tag_name().name();
            assert!(
                !["script", "link", "iframe", "img", "object"].contains(&tag),
                "{name}: <{tag}>"
            );
            for attribute in node.attributes() {
                assert!(!attribute.name().starts_with("on"), "{name}: {attribute:?}");
                assert!(attribute.name() != "src", "{name}: {attribute:?}");
                if attribute.name() == "href" {
                    assert!(
                        attribute.value().starts_with("data:application/json"),
                        "{name}"
                    );
                }
            }
        }
        let style = elements(&page, "style")
            .next()
            .and_then(|style| style.text())
            .unwrap_or_default();
        assert!(
            !style.contains("url(") && !style.contains("@import"),
            "{name}"
        );
    }
}

#[test]
fn the_raw_runs_can_be_taken_out_of_the_page_again() {
    let results = fixtures::small();
    let html = html(&results);
    let page = page(&html);
    let address = elements(&page, "a")
        .find_map(|link| link.attribute("href"))
        .unwrap();
    let encoded = address.split_once(',').unwrap().1;
    let mut bytes = Vec::new();
    let mut rest = encoded.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next().unwrap(), rest.next().unwrap()];
                u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
            }
            other => other,
        });
    }
    let read = Results::from_json(&String::from_utf8(bytes).unwrap()).unwrap();
    assert_eq!(read, results[0]);
}

#[test]
fn a_variant_that_failed_is_not_recommended_however_fast() {
    let mut all = fixtures::small();
    all[0].benchmarks.truncate(1);
    let html = html(&all);
    let page = page(&html);
    let headline = elements(&page, "h1").next().unwrap().text().unwrap();
    assert_eq!(headline, "No variant other than glibc always got through");
}

#[test]
fn several_files_of_one_machine_name_it_once_and_date_only_what_has_no_name_of_its_own() {
    let results = |name: &str| fixtures::results(fixtures::machine("vm"), vec![benchmark(name)]);
    let mut different = vec![results("one"), results("two")];
    let page_of_different = html(&different);
    assert!(!page_of_different.contains(" on vm"));
    assert!(!page_of_different.contains("machines"));
    different[1] = results("one");
    let started_at = format!("one on vm, {}", different[1].started_at);
    assert!(html(&different).contains(&started_at));
}

fn benchmark(name: &str) -> reheap_bench::results::Benchmark {
    fixtures::benchmark(name, &fixtures::compiler_models(), 10, 7)
}

#[test]
fn a_ratio_is_shown_whatever_is_known_of_it() {
    let table = text(&fixtures::all_states(), Style::default());
    let ratio = |variant: &str| {
        let start = format!("{variant} ");
        let row = table.lines().find(|line| line.starts_with(&start));
        let cells = row.unwrap().split("  ").map(str::trim);
        cells.filter(|cell| !cell.is_empty()).nth(2).unwrap()
    };
    for (variant, sign) in [("faster", '↓'), ("slower", '↑')] {
        assert!(ratio(variant).ends_with(sign), "{table}");
    }
    for (variant, sign) in [("suspected", '?'), ("equal", '='), ("unknown", '~')] {
        assert!(ratio(variant).starts_with(sign), "{table}");
    }
}

#[test]
fn all_is_shown_to_those_who_ask() {
    let verbose = Style {
        verbose: true,
        ..Style::default()
    };
    let (usual, all) = (
        text(&fixtures::usual(), Style::default()),
        text(&fixtures::usual(), verbose),
    );
    for shown in [
        "average",
        "user time",
        "system time",
        "page faults",
        "Outliers are kept",
    ] {
        assert!(
            all.contains(shown) && !usual.contains(shown),
            "{shown}: {all}"
        );
    }
    let warnings = |text: &str| text.lines().filter(|line| line.contains("warning")).count();
    assert_eq!((warnings(&usual), warnings(&all)), (1, 3));
}

#[test]
fn cpu_time_leads_where_other_programs_took_the_processor() {
    let shared = fixtures::shared();
    for form in [
        text(&shared, Style::default()),
        markdown(&shared),
        html(&shared),
    ] {
        let first = |text: &str| {
            form.find(text)
                .unwrap_or_else(|| panic!("no `{text}` in {form}"))
        };
        assert!(
            first("less CPU time than glibc") < first("CPU time"),
            "{form}"
        );
        assert!(first("CPU time") < first("wall time"), "{form}");
    }
}

#[test]
fn a_variant_that_left_keeps_its_ratio_and_says_why() {
    let left = fixtures::left();
    for form in [text(&left, Style::default()), markdown(&left), html(&left)] {
        assert!(
            form.contains("left after round 5: far worse in each round"),
            "{form}"
        );
        assert!(form.contains("1.337 ↑"), "{form}");
    }
}

#[test]
fn the_same_results_give_the_same_bytes() {
    for (_, results) in fixtures::all() {
        let again = results.clone();
        assert_eq!(html(&results), html(&again));
        assert_eq!(markdown(&results), markdown(&again));
        assert_eq!(bencher_json(&results), bencher_json(&again));
    }
}

#[test]
fn nothing_at_all_is_a_report_too() {
    page(&html(&[]));
    assert!(markdown(&[]).contains("Nothing was measured"));
    assert_eq!(bencher_json(&[]), "{}\n");
    assert_eq!(csv(&[]).lines().count(), 1);
    text(&[], Style::default());
}

#[test]
fn a_table_of_a_pull_request_has_equally_many_cells_in_each_row() {
    for (name, results) in fixtures::all() {
        let text = markdown(&results);
        let cells = |line: &str| line.replace("\\|", "").matches('|').count();
        for table in text.split("\n\n").filter(|part| part.starts_with('|')) {
            let counts: Vec<usize> = table
                .lines()
                .filter(|line| line.starts_with('|'))
                .map(cells)
                .collect();
            assert!(
                counts.iter().all(|count| *count == counts[0]),
                "{name}:\n{table}"
            );
        }
    }
}

#[test]
fn a_spreadsheet_gives_back_names_as_they_were() {
    let all = fixtures::hostile();
    let table = csv(&all);
    let mut reader = csv::Reader::from_reader(table.as_bytes());
    let column = reader
        .headers()
        .unwrap()
        .iter()
        .position(|name| name == "variant")
        .unwrap();
    let read: Vec<String> = reader
        .records()
        .map(|record| record.unwrap()[column].to_owned())
        .collect();
    let runs = all[0]
        .benchmarks
        .iter()
        .flat_map(|benchmark| &benchmark.variants);
    let expected: Vec<String> = runs
        .flat_map(|variant| variant.runs.iter().map(|_| variant.name.clone()))
        .collect();
    assert_eq!(read, expected);
}

#[test]
fn an_interval_of_bencher_holds_its_value_and_few_rounds_have_none() {
    let mut bounds = BTreeSet::new();
    for (name, results) in fixtures::all() {
        let value: serde_json::Value = serde_json::from_str(&bencher_json(&results)).unwrap();
        for metric in value
            .as_object()
            .unwrap()
            .values()
            .flat_map(|of| of.as_object().unwrap().values())
        {
            let figure = |key: &str| metric[key].as_f64();
            let value = figure("value").unwrap();
            let (low, high) = (figure("lower_value"), figure("upper_value"));
            assert!(low.is_none_or(|low| low <= value), "{name}: {metric}");
            assert!(high.is_none_or(|high| value <= high), "{name}: {metric}");
            assert_eq!(low.is_some(), high.is_some(), "{name}: {metric}");
            bounds.insert((name, low.is_some()));
        }
    }
    assert!(bounds.contains(&("one-round", false)), "{bounds:?}");
    assert!(bounds.contains(&("crashing", true)), "{bounds:?}");
}

#[test]
fn the_means_of_hyperfine_have_no_run_that_crashed() {
    let written = hyperfine_json(&fixtures::crashing());
    assert!(!written.contains("null"), "{written}");
}

/// The text with a space wherever a line may end: behind the last of signs in a row, but not in `1,234` and `2 %`,
/// and before a bracket.
fn words_of(text: &str) -> String {
    let mut words = String::new();
    let mut before = ' ';
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        let next = rest.peek().copied().unwrap_or(' ');
        let is_sign = |character: char| character == '+' || character == ',';
        let is_number = character == ',' && before.is_ascii_digit() && next.is_ascii_digit();
        match character {
            ' ' if next == '%' => words.push('_'),
            '[' => words.push_str(" ["),
            _ => words.push(character),
        }
        if is_sign(character) && !is_sign(next) && !is_number {
            words.push(' ');
        }
        before = character;
    }
    words
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_word_is_broken_and_no_line_wider_than_asked_or_than_a_word(
        names in proptest::collection::vec("[ -~]{0,60}|.{0,60}", 1..5), width in 20usize..140, verbose: bool
    ) {
        let style = Style { colour: Colour::Never, width, verbose };
        let room = width.clamp(40, 100);
        for results in [fixtures::small(), fixtures::one_round()] {
            let text = text(&renamed(results, &names), style);
            for block in text.split("\n\n") {
                let words = words_of(block);
                let gap = 2; // before each column
                let has_wide = words.split([' ', '\n']).any(|word| word.width() + gap > room);
                for line in block.lines() {
                    prop_assert!(line.width() <= room || has_wide, "{}: {line:?}", line.width());
                    prop_assert!(!line.chars().any(char::is_control), "{line:?}");
                }
            }
        }
    }

    #[test]
    fn a_word_stays_whole(names in proptest::collection::vec("[a-z_=.-]{1,60}", 1..5), width in 20usize..140) {
        let results = renamed(fixtures::small(), &names);
        let text = text(&results, Style { width, ..Style::default() });
        let shown = results[0].benchmarks.iter().flat_map(|benchmark| &benchmark.variants);
        for variant in shown.filter(|variant| variant.role != Role::BaselineCopy) {
            prop_assert!(text.contains(&variant.name), "no {} in\n{text}", variant.name);
        }
    }

    #[test]
    fn colours_change_nothing_but_colours(names in proptest::collection::vec(".{0,40}", 1..4), width in 40usize..100) {
        let results = renamed(fixtures::small(), &names);
        let coloured = text(&results, Style { colour: Colour::Always, width, verbose: false });
        let trimmed: Vec<String> = without_colours(&coloured).lines().map(|line| line.trim_end().to_owned()).collect();
        let plain = text(&results, Style { colour: Colour::Never, width, verbose: false });
        let plain: Vec<String> = plain.lines().map(|line| line.trim_end().to_owned()).collect();
        prop_assert_eq!(trimmed, plain);
    }

    #[test]
    fn any_name_leaves_a_page_well_formed(names in proptest::collection::vec(any::<String>(), 1..5)) {
        let results = renamed(fixtures::small(), &names);
        let html = html(&results);
        let page = page(&html);
        prop_assert_eq!(elements(&page, "script").count(), 0);
    }

    #[test]
    fn any_name_leaves_the_other_forms_readable(names in proptest::collection::vec(any::<String>(), 1..5)) {
        let results = renamed(fixtures::small(), &names);
        let read: serde_json::Value = serde_json::from_str(&hyperfine_json(&results)).unwrap();
        prop_assert!(read["results"].as_array().is_some_and(|written| written.len() == 6));
        let table = csv(&results);
        prop_assert_eq!(csv::Reader::from_reader(table.as_bytes()).records().count(), 18);
    }
}
