//! Every form of a profile, byte for byte.
//!
//! After a change that is meant: `INSTA_UPDATE=always cargo test -p reheap-report --test it profile::`, and read the diff.

use crate::profiles;
use reheap_report::profile::text;
use reheap_report::{Colour, Style};

macro_rules! golden {
    ($name:expr, $text:expr) => {
        insta::with_settings!({prepend_module_to_snapshot => false, omit_expression => true}, {
            insta::assert_snapshot!($name, $text);
        });
    };
}

#[test]
fn one_screen_for_a_terminal() {
    for (name, profile) in profiles::all() {
        let file = (name == "usual").then_some("json.profile");
        let text = text(&profile, file, Style::default());
        golden!(format!("profile-{name}.txt"), text);
    }
}

#[test]
fn a_narrow_terminal_gets_all_of_it() {
    let narrow = Style {
        width: 60,
        ..Style::default()
    };
    golden!(
        "profile-narrow.txt",
        text(&profiles::threads(), None, narrow)
    );
}

#[test]
fn whoever_asks_gets_more_rows_and_colours() {
    let style = Style {
        verbose: true,
        colour: Colour::Always,
        ..Style::default()
    };
    let text = text(&profiles::threads(), None, style);
    golden!("profile-verbose.txt", text.replace('\u{1b}', "␛"));
}

#[test]
fn memory_that_was_seen_long_before_the_end_is_not_that_of_the_end() {
    let mut profile = profiles::usual();
    let said = |profile: &_| text(profile, None, Style::default());
    assert!(said(&profile).contains(" at the end"));
    assert!(!said(&profile).contains("when last seen"));
    for point in profile.processes[0].curve.iter_mut().skip(2) {
        point.resident_bytes = None;
    }
    assert!(said(&profile).contains("when last seen, at "));
    profile.processes[0].time.as_mut().unwrap().user_seconds = 0.0;
    assert!(said(&profile).contains("CPU time   less than 10 ms user"));
}
