//! What holds for every form of a profile, whatever was seen and however it is called.

use crate::profiles;
use crate::profiles::shaken::a_profile;
use proptest::prelude::*;
use reheap_report::profile::{Verdict, from_json, text, to_json};
use reheap_report::{Colour, Style};
use unicode_width::UnicodeWidthStr as _;

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
fn what_was_written_is_read_back() {
    for (name, profile) in profiles::all() {
        assert_eq!(from_json(&to_json(&profile)).unwrap(), profile, "{name}");
    }
}

#[test]
fn a_file_of_a_newer_reheap_is_refused_with_both_formats() {
    let newer = to_json(&profiles::usual()).replacen("\"format\": 2", "\"format\": 7", 1);
    let refused = from_json(&newer).unwrap_err().to_string();
    assert_eq!(
        refused,
        "reheap 0.1.0 wrote it in format 7, and this reheap reads format 2"
    );
}

#[test]
fn a_file_that_is_no_profile_is_refused_with_the_reason() {
    let whole = to_json(&profiles::usual());
    let refused = |text: &str| from_json(text).unwrap_err().to_string();
    assert_eq!(refused(" \n"), "it is empty");
    assert!(refused(&whole[..whole.len() / 2]).starts_with("it is not JSON, or was cut short"));
    assert_eq!(
        refused("{}"),
        "it is not a profile that `reheap profile -o` wrote"
    );
    assert_eq!(
        refused("[1]"),
        "it is not a profile that `reheap profile -o` wrote"
    );
    let without = whole.replacen("\"seconds\"", "\"minutes\"", 1);
    assert!(refused(&without).starts_with("it is damaged: missing field `seconds`"));
    let before_the_start = whole.replacen("\"seconds\": 12.34", "\"seconds\": -1", 1);
    assert_eq!(refused(&before_the_start), "it is damaged: its time is -1");
    let mut one = profiles::usual();
    one.processes[0].sites.stacks[0].frames.push(7);
    let said = "it is damaged: a stack has frame 7, and there are 7 frames";
    assert_eq!(refused(&to_json(&one)), said);
}

#[test]
fn the_most_to_gain_is_the_allocators_share_of_cpu_time() {
    let verdict = Verdict::of(&profiles::usual());
    let gain = verdict.gain_max.unwrap();
    assert!((gain - 1_083.0 / 11_987.0).abs() < 1e-9, "{gain}");
    assert_eq!(Verdict::of(&profiles::no_sites()).gain_max, None);
    assert_eq!(
        Verdict::of(&profiles::nothing()).observed,
        ["it allocated nothing"]
    );
}

/// A share of few samples is said to be one, and one of very few is not said.
#[test]
fn a_share_is_as_certain_as_its_samples() {
    let with = |samples, in_allocator| {
        let mut profile = profiles::usual();
        let time = profile.processes[0].time.as_mut().unwrap();
        (time.samples, time.in_allocator) = (samples, in_allocator);
        (time.in_memory_functions, time.in_page_faults) = (None, None);
        (time.in_kernel, time.in_kernel_for_allocator) = (None, None);
        time.memory_functions.clear();
        Verdict::of(&profile)
    };
    let few = with(50, 10);
    assert_eq!(
        few.observed[0],
        "about 20 % of CPU time is in the allocator"
    );
    let gain = "An allocator that took no time would save about 20 % of CPU time.";
    assert_eq!(few.most_to_gain().unwrap(), gain);
    let very_few = with(5, 5);
    assert_eq!(very_few.gain_max, None);
    assert!(
        very_few.observed[0].starts_with("too short a time"),
        "{:?}",
        very_few.observed
    );
}

#[test]
fn a_reason_to_try_is_what_was_observed() {
    use reheap_report::profile::Reason;
    let reason = |profile| Verdict::of(&profile).reason_to_try;
    assert_eq!(reason(profiles::usual()), Some(Reason::Time));
    assert_eq!(reason(profiles::wasteful()), Some(Reason::Memory));
    assert_eq!(reason(profiles::no_sites()), Some(Reason::Unknown));
    assert_eq!(reason(profiles::nothing()), None);
    let mut idle = profiles::usual();
    idle.processes[0].time.as_mut().unwrap().in_allocator = 3;
    idle.processes[0].counts.sizes.clear();
    assert_eq!(reason(idle.clone()), None);
    assert_eq!(
        Verdict::of(&idle).next(&idle, None),
        "Another allocator would change little."
    );
}

#[test]
fn what_was_not_observed_is_not_said() {
    let text = text(&profiles::no_sites(), None, Style::default());
    for word in [
        "CPU",
        "Resident",
        "call site",
        "rounding",
        "Waiting",
        "warning",
    ] {
        assert!(!text.contains(word), "{word} in\n{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn no_line_is_wider_than_the_terminal_and_none_commands_it(
        profile in a_profile(), width in 20usize..140, verbose: bool
    ) {
        let style = Style { colour: Colour::Never, width, verbose };
        let text = text(&profile, Some("a file.json"), style);
        for line in text.lines() {
            prop_assert!(line.width() <= width.clamp(40, 100), "{}: {line:?}", line.width());
            prop_assert!(!line.chars().any(char::is_control), "{line:?}");
        }
    }

    #[test]
    fn colours_change_nothing_but_colours(profile in a_profile(), width in 40usize..100) {
        let of = |colour| text(&profile, None, Style { colour, width, verbose: false });
        let trimmed = |text: &str| text.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
        prop_assert_eq!(trimmed(&without_colours(&of(Colour::Always))), trimmed(&of(Colour::Never)));
    }

    #[test]
    fn a_damaged_file_is_read_or_refused_and_never_a_panic(
        at in any::<proptest::sample::Index>(), damage in proptest::collection::vec(any::<u8>(), 0..4), cut: bool
    ) {
        let mut bytes = to_json(&profiles::small()).into_bytes();
        let at = at.index(bytes.len());
        let end = if cut { bytes.len() } else { (at + damage.len()).min(bytes.len()) };
        bytes.splice(at..end, damage);
        if let Ok(profile) = from_json(&String::from_utf8_lossy(&bytes)) {
            text(&profile, None, Style::default());
        }
    }
}
