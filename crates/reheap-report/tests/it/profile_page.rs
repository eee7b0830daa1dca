//! What holds for a profile's page, whatever was seen.

use crate::profiles;
use proptest::prelude::*;
use reheap_report::profile::html;
use roxmltree::{Document, Node, ParsingOptions};

/// The page as a tree; its markup is written so that XML's strict rules hold too.
fn page(html: &str) -> Document<'_> {
    let options = ParsingOptions {
        allow_dtd: true,
        nodes_limit: u32::MAX,
        ..ParsingOptions::default()
    };
    Document::parse_with_options(html, options).unwrap_or_else(|error| panic!("{error}\n{html}"))
}

fn of_class<'a>(page: &'a Document<'_>, class: &'static str) -> impl Iterator<Item = Node<'a, 'a>> {
    let has = move |node: &Node<'_, '_>| {
        node.attribute("class")
            .is_some_and(|all| all.split(' ').any(|other| other == class))
    };
    page.descendants().filter(has)
}

fn all_text(node: Node<'_, '_>) -> String {
    node.descendants()
        .filter_map(|node| node.text().filter(|_| node.is_text()))
        .collect()
}

#[test]
fn a_page_is_well_formed_and_fetches_nothing() {
    for (name, profile) in profiles::all() {
        let html = html(&profile, None);
        let page = page(&html);
        let mut scripts = 0;
        for node in page.descendants().filter(Node::is_element) {
            let tag = node.tag_name().name();
            assert!(
                !["link", "iframe", "img", "object", "a"].contains(&tag),
                "{name}: <{tag}>"
            );
            scripts += usize::from(tag == "script");
            for attribute in node.attributes() {
                let key = attribute.name();
                assert!(
                    !key.starts_with("on") && key != "src" && key != "href",
                    "{name}: {attribute:?}"
                );
            }
        }
        assert_eq!(scripts, 1, "{name}: only reheap's own");
        assert!(
            !html.contains("url(") && !html.contains("@import"),
            "{name}"
        );
    }
}

#[test]
fn a_page_begins_with_the_verdict_and_shows_every_part() {
    let html = html(&profiles::threads(), Some("a b.json"));
    let page = page(&html);
    let headline = page
        .descendants()
        .find(|node| node.has_tag_name(("http://www.w3.org/1999/xhtml", "h1")))
        .unwrap();
    assert!(
        all_text(headline)
            .starts_with("9.0\u{a0}% of CPU time is in the allocator; threads waited 4.56\u{a0}s")
    );
    let code = page
        .descendants()
        .find(|node| node.tag_name().name() == "code")
        .unwrap();
    let command = "reheap recommend --profile 'a b.json' -- /usr/sbin/queue-server --threads=18";
    assert_eq!(all_text(code), command);
    let titles = page
        .descendants()
        .filter(|node| node.tag_name().name() == "h2")
        .map(all_text);
    let expected = [
        "What was seen",
        "Memory over time",
        "Where it was allocated",
        "Call sites",
        "Sizes",
        "Lifetimes",
        "Lifetimes in allocations",
        "Threads",
    ];
    assert_eq!(titles.collect::<Vec<_>>(), expected);
}

#[test]
fn what_was_lost_or_not_watched_is_on_the_page() {
    let html = html(&profiles::several(), None);
    let page = page(&html);
    let warnings = all_text(of_class(&page, "lost").next().unwrap());
    for said in [
        "1,500 blocks",
        "15 stacks",
        "/usr/bin/sudo was not watched",
        "32-bit program",
    ] {
        assert!(warnings.contains(said), "{said}: {warnings}");
    }
    assert!(
        of_class(&self::page(&self::html(&profiles::usual(), None)), "lost")
            .next()
            .is_none()
    );
}

/// Where a box is: row in pixels, left and right in percent.
fn place(node: Node<'_, '_>) -> (u32, f64, f64) {
    let style = node.attribute("style").unwrap();
    let value = |key: &str| {
        let found = style.split(';').find_map(|part| part.strip_prefix(key));
        found.unwrap().trim_end_matches(['%', 'p', 'x']).to_owned()
    };
    let left: f64 = value("left:").parse().unwrap();
    let width: f64 = value("width:").parse().unwrap();
    (value("top:").parse().unwrap(), left, left + width)
}

#[test]
fn boxes_of_a_flame_graph_are_within_their_callers_and_beside_each_other() {
    for profile in [profiles::usual(), profiles::hour()] {
        let html = html(&profile, None);
        let page = page(&html);
        for flame in of_class(&page, "flame") {
            let boxes: Vec<(u32, f64, f64)> = flame
                .children()
                .filter(Node::is_element)
                .map(place)
                .collect();
            assert_eq!(boxes[0], (0, 0.0, 100.0));
            let tolerance = 0.003;
            for pair in boxes.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
                assert!(pair[0].2 <= pair[1].1 + tolerance, "{pair:?}");
            }
            for (row, left, right) in boxes.iter().filter(|shape| shape.0 > 0) {
                let mut callers = boxes.iter().filter(|caller| caller.0 + 19 == *row);
                let within = callers
                    .any(|caller| caller.1 <= left + tolerance && caller.2 >= right - tolerance);
                assert!(within, "{row} {left} {right}");
            }
        }
    }
}

#[test]
fn an_hour_of_a_large_server_is_a_page_of_a_few_megabytes_that_says_what_is_left_out() {
    let html = html(&profiles::hour(), None);
    assert!(html.len() < 5_000_000, "{} bytes", html.len());
    let page = page(&html);
    let text = all_text(page.root_element());
    for said in [
        "Of 36,001 points, the highest of each 5.19 s are shown.",
        "functions, with what they called, are left out: their boxes would be too narrow or too deep.",
        "call sites with fewer bytes are left out.",
        "threads that allocated less are left out.",
        "539 processes that allocated less are left out.",
    ] {
        assert!(text.contains(said), "{said}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_name_and_figure_leaves_a_page_well_formed(profile in profiles::shaken::a_profile()) {
        let html = html(&profile, Some("<x>"));
        let page = page(&html);
        prop_assert_eq!(page.descendants().filter(|node| node.tag_name().name() == "script").count(), 1);
        prop_assert!(!html.contains("NaN") && !html.contains("inf%"));
    }
}
