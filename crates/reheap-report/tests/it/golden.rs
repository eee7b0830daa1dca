//! Every form of a report, byte for byte.
//!
//! After a change that is meant: `INSTA_UPDATE=always cargo test -p reheap-report --test it golden::`, and read the diff.

use crate::fixtures;
use reheap_bench::overview::Overview;
use reheap_report::{Colour, Style};

/// One with a setting of its own for each, so that names in `snapshots/` are the ones given here.
macro_rules! golden {
    ($name:literal, $text:expr) => {
        insta::with_settings!({prepend_module_to_snapshot => false, omit_expression => true}, {
            insta::assert_snapshot!($name, $text);
        });
    };
}

fn plain() -> Style {
    Style::default()
}

#[test]
fn the_usual_table() {
    golden!(
        "usual.txt",
        reheap_report::text(&Overview::of(&fixtures::usual()), plain())
    );
}

#[test]
fn a_narrow_terminal_gets_several_tables() {
    let narrow = Style {
        width: 60,
        ..plain()
    };
    golden!(
        "narrow.txt",
        reheap_report::text(&Overview::of(&fixtures::usual()), narrow)
    );
}

#[test]
fn colours_stand_only_on_what_is_claimed() {
    let coloured = Style {
        colour: Colour::Always,
        ..plain()
    };
    let text = reheap_report::text(&Overview::of(&fixtures::crashing()), coloured);
    golden!("coloured.txt", text.replace('\u{1b}', "␛"));
}

#[test]
fn a_sweep_ends_with_all_benchmarks_in_one_table() {
    golden!(
        "sweep.txt",
        reheap_report::text(&Overview::of(&fixtures::sweep()), plain())
    );
}

#[test]
fn two_machines_stand_below_each_other() {
    golden!(
        "two-machines.txt",
        reheap_report::text(&Overview::of(&fixtures::two_machines()), plain())
    );
}

#[test]
fn a_figure_of_which_more_is_better_comes_first() {
    golden!(
        "service.txt",
        reheap_report::text(&Overview::of(&fixtures::service()), plain())
    );
}

#[test]
fn one_round_claims_nothing_and_says_why() {
    golden!(
        "one-round.txt",
        reheap_report::text(&Overview::of(&fixtures::one_round()), plain())
    );
}

#[test]
fn no_round_is_said_to_be_none() {
    golden!(
        "no-round.txt",
        reheap_report::text(&Overview::of(&fixtures::no_round()), plain())
    );
}

#[test]
fn each_state_has_its_sign() {
    golden!(
        "all-states.txt",
        reheap_report::text(&Overview::of(&fixtures::all_states()), plain())
    );
}

#[test]
fn cpu_time_leads_on_a_shared_machine() {
    golden!(
        "shared.txt",
        reheap_report::text(&Overview::of(&fixtures::shared()), plain())
    );
}

#[test]
fn a_variant_that_left_has_a_note() {
    golden!(
        "left.txt",
        reheap_report::text(&Overview::of(&fixtures::left()), plain())
    );
    golden!(
        "left.md",
        reheap_report::markdown(&Overview::of(&fixtures::left()))
    );
}

#[test]
fn eighteen_variants_of_three_benchmarks() {
    golden!(
        "many.txt",
        reheap_report::text(&Overview::of(&fixtures::many()), plain())
    );
}

#[test]
fn everything_is_shown_on_request() {
    let verbose = Style {
        verbose: true,
        ..plain()
    };
    golden!(
        "verbose.txt",
        reheap_report::text(&Overview::of(&fixtures::usual()), verbose)
    );
}

#[test]
fn a_comment_for_a_pull_request() {
    golden!(
        "crashing.md",
        reheap_report::markdown(&Overview::of(&fixtures::crashing()))
    );
    golden!(
        "service.md",
        reheap_report::markdown(&Overview::of(&fixtures::service()))
    );
    golden!(
        "hostile.md",
        reheap_report::markdown(&Overview::of(&fixtures::hostile()))
    );
}

#[test]
fn a_spreadsheet_has_a_line_for_each_run() {
    golden!(
        "small.csv",
        reheap_report::csv(&Overview::of(&fixtures::small()))
    );
}

#[test]
fn the_json_of_hyperfine() {
    golden!(
        "hyperfine.json",
        reheap_report::hyperfine_json(&Overview::of(&fixtures::small()))
    );
}

#[test]
fn bencher_metric_format() {
    golden!(
        "bencher.json",
        reheap_report::bencher_json(&Overview::of(&fixtures::small()))
    );
}
