//! Two profiles next to each other, and one next to a limit.

use crate::profiles;
use proptest::prelude::*;
use reheap_profile::profile::Profile;
use reheap_report::profile::{
    FIGURES, Figure, Threshold, Unchecked, diff_json, diff_text, violation,
};
use reheap_report::{Colour, Style};
use serde_json::Value;
use unicode_width::UnicodeWidthStr as _;

/// The usual profile after a change of the program: less memory, more calls, one call site gone and one new.
fn changed() -> Profile {
    let mut profile = profiles::usual();
    profile.seconds = 10.5;
    let process = &mut profile.processes[0];
    process.peak.live.bytes = 31_000_000;
    *process.counts.calls.get_mut("malloc").unwrap() += 1_000_000;
    process.counts.failed = 2;
    process.counts.temporaries *= 3;
    process.sites.frames[4].function = "json::text::unescape_in_place".to_owned();
    process.sites.frames[5].line = Some(4321);
    // Within chance: three of 154 samples.
    process.sites.stacks[3].allocated_bytes += 3.0 * 524_288.0;
    process.sites.stacks[3].samples += 3;
    profile
}

#[test]
fn a_difference_begins_with_the_largest_change() {
    let text = diff_text(&profiles::usual(), &changed(), Style::default());
    insta::with_settings!({prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!("profile-diff.txt", text);
    });
}

#[test]
fn a_call_site_has_changed_only_if_it_is_beyond_chance() {
    let json: Value = serde_json::from_str(&diff_json(&profiles::usual(), &changed())).unwrap();
    let sites = json["call_sites"].as_array().unwrap();
    let functions: Vec<&str> = sites
        .iter()
        .map(|site| site["function"].as_str().unwrap())
        .collect();
    assert_eq!(
        functions,
        ["json::text::unescape", "json::text::unescape_in_place"]
    );
    let figures = json["figures"].as_array().unwrap();
    assert_eq!(
        (&figures[0]["name"], &figures[0]["ratio"]),
        (&"failed".into(), &Value::Null)
    );
    assert_eq!(
        (&figures[1]["name"], &figures[1]["ratio"]),
        (&"temporaries".into(), &3.0.into())
    );
    assert_eq!(json["format"], 1);
}

#[test]
fn the_same_profile_has_no_difference() {
    for (name, profile) in profiles::all() {
        let text = diff_text(&profile, &profile, Style::default());
        assert!(
            text.starts_with("All figures are the same."),
            "{name}: {text}"
        );
        let json: Value = serde_json::from_str(&diff_json(&profile, &profile)).unwrap();
        assert_eq!(json["figures"].as_array().unwrap().len(), 0, "{name}");
        assert_eq!(json["call_sites"].as_array().unwrap().len(), 0, "{name}");
    }
}

fn violation_of(threshold: &str) -> Option<String> {
    let threshold: Threshold = threshold.parse().unwrap();
    violation(&threshold, Some(&profiles::usual()), &changed()).unwrap()
}

#[test]
fn a_violated_threshold_is_a_sentence_and_a_kept_one_is_none() {
    let violated = [
        (
            "peak>20MiB",
            "peak > 20.0 MiB: live memory at its peak: 29.6 MiB",
        ),
        (
            "calls>+2%",
            "calls > +2.0 %: calls: 21,098,752, before 20,098,752",
        ),
        ("failed>0", "failed > 0: failed requests: 2"),
        (
            "live_at_end>0",
            "live_at_end > 0 B: memory that is not freed: 4.60 KiB",
        ),
        (
            "allocator>5%",
            "allocator > 5.0 %: CPU time in the allocator: 9.0 %",
        ),
        (
            "peak<-10%",
            "peak < -10 %: live memory at its peak: 29.6 MiB, before 50.1 MiB",
        ),
        (
            "failed>+50%",
            "failed > +50 %: failed requests: 2, before 0",
        ),
    ];
    for (threshold, sentence) in violated {
        assert_eq!(violation_of(threshold).as_deref(), Some(sentence));
    }
    for kept in [
        "peak>100MiB",
        "calls>+5%",
        "zero_size>12",
        "allocator>10%",
        "allocator>+1%",
        "huge>+0%",
    ] {
        assert_eq!(violation_of(kept), None, "{kept}");
    }
}

#[test]
fn what_cannot_be_checked_is_never_taken_for_kept() {
    let change: Threshold = "calls>+5%".parse().unwrap();
    let missing = violation(&change, None, &profiles::usual());
    assert_eq!(
        missing,
        Err(Unchecked::NoOldProfile("calls > +5.0 %".to_owned()))
    );
    let time: Threshold = "allocator>5%".parse().unwrap();
    let unseen = violation(&time, None, &profiles::no_sites());
    assert_eq!(
        unseen.unwrap_err().to_string(),
        "CPU time in the allocator was not observed"
    );
}

#[test]
fn every_figure_has_a_name_of_its_own() {
    for figure in &FIGURES {
        assert_eq!(Figure::named(figure.name).unwrap().noun, figure.noun);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_two_profiles_can_be_compared(
        old in profiles::shaken::a_profile(), new in profiles::shaken::a_profile(), width in 40usize..100
    ) {
        let text = diff_text(&old, &new, Style { colour: Colour::Never, width, verbose: true });
        for line in text.lines() {
            prop_assert!(line.width() <= width, "{}: {line:?}", line.width());
            prop_assert!(!line.chars().any(char::is_control), "{line:?}");
        }
        let _: Value = serde_json::from_str(&diff_json(&old, &new)).unwrap();
        for figure in &FIGURES {
            for bound in ["0", "+5%"] {
                let threshold: Threshold = format!("{}>{bound}", figure.name).parse().unwrap();
                let _ = violation(&threshold, Some(&old), &new);
            }
        }
    }
}
