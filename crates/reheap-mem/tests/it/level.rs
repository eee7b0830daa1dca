//! When the functions find out what the processor can do, and what they find.
#![cfg(target_arch = "x86_64")]

use crate::common::assembled::*;
use crate::common::numbered;

type ForBytes = fn(usize);

/// Each function that has code for wider vectors, called for so many bytes.
const FUNCTIONS: [(&str, ForBytes); 23] = [
    ("memcpy", |count| {
        let mut copy = vec![0; count];
        memcpy(&mut copy, &numbered(count));
        assert_eq!(copy, numbered(count));
    }),
    ("mempcpy", |count| {
        let mut copy = vec![0; count];
        mempcpy(&mut copy, &numbered(count));
        assert_eq!(copy, numbered(count));
    }),
    ("memmove", |count| {
        let mut block = numbered(count + 9);
        memmove(&mut block, 9, 0, count);
        assert_eq!(block[9..], numbered(count));
    }),
    ("memset", |count| {
        let mut block = vec![0; count];
        memset(&mut block, 7);
        assert_eq!(block, vec![7; count]);
    }),
    ("memcmp", |count| {
        assert_eq!(memcmp(&numbered(count), &numbered(count)), 0);
    }),
    ("bcmp", |count| {
        assert_eq!(bcmp(&numbered(count), &numbered(count)), 0);
    }),
    ("memchr", |count| {
        assert_eq!(memchr(&text(count), b'y'.into()), None);
        assert_eq!(memchr_within(&text(count), 0, usize::MAX), Some(count));
    }),
    ("rawmemchr", |count| {
        assert_eq!(rawmemchr(&text(count), 0), count);
    }),
    ("memrchr", |count| {
        assert_eq!(memrchr(&text(count)[..count], b'y'.into()), None);
    }),
    ("strlen", |count| assert_eq!(strlen(&text(count)), count)),
    ("strnlen", |count| {
        assert_eq!(strnlen(&text(count), usize::MAX), count);
    }),
    ("strchr", |count| {
        assert_eq!(strchr(&text(count), b'y'.into()), None);
    }),
    ("strchrnul", |count| {
        assert_eq!(strchrnul(&text(count), b'y'.into()), count);
    }),
    ("strcmp", |count| {
        assert_eq!(strcmp(&text(count), &text(count)), 0);
    }),
    ("strncmp", |count| {
        assert_eq!(strncmp(&text(count), &text(count), usize::MAX), 0);
    }),
    ("strcasecmp", |count| {
        assert_eq!(strcasecmp(&text(count), &text(count)), 0);
    }),
    ("strncasecmp", |count| {
        assert_eq!(strncasecmp(&text(count), &text(count), usize::MAX), 0);
    }),
    ("memmem", |count| {
        assert_eq!(memmem(&text(count), b"xy"), None);
    }),
    ("strstr", |count| {
        assert_eq!(strstr(&text(count), b"yx\0"), None);
    }),
    ("strspn", |count| {
        assert_eq!(strspn(&text(count), b"xy\0"), count);
    }),
    ("strspn of many", |count| {
        assert_eq!(strspn(&text(count), b"uvwxy\0"), count);
    }),
    ("strcspn", |count| {
        assert_eq!(strcspn(&text(count), b"yz\0"), count);
    }),
    ("strcspn of many", |count| {
        assert_eq!(strcspn(&text(count), b"uvwyz\0"), count);
    }),
];

/// A string of that length, with its end.
fn text(length: usize) -> Vec<u8> {
    let mut text = vec![b'x'; length];
    text.push(0);
    text
}

#[test]
fn what_the_processor_can_do_is_found() {
    let level = Chosen::alone().found();
    let avx2 =
        std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("lzcnt");
    let avx512 = avx2
        && std::arch::is_x86_feature_detected!("avx512bw")
        && std::arch::is_x86_feature_detected!("avx512vl");
    let keeps_its_clock = avx512 && std::arch::is_x86_feature_detected!("avxvnni");
    assert_eq!(
        level.wide,
        i8::from(avx2) + i8::from(avx512) + i8::from(keeps_its_clock)
    );
    let is_of_amd = std::fs::read_to_string("/proc/cpuinfo")
        .unwrap()
        .contains("AuthenticAMD");
    assert_eq!(
        level.search,
        if avx512 && is_of_amd { 3 } else { level.wide }
    );
    // A megabyte and its quarter, at least, whatever a virtual machine says about its caches.
    assert!(level.streaming_min >= 1 << 20, "{level:?}");
    assert!(level.string_copy_min >= 1 << 18, "{level:?}");
    assert!(level.string_set_min >= 2048, "{level:?}");
}

/// How many calls a program has made when the level is known.
fn calls_until_known(chosen: &mut Chosen, function: ForBytes, count: usize) -> usize {
    chosen.set(chosen.initial());
    let calls = 1..=100_000;
    let known = calls.clone().find(|_| {
        function(count);
        Level::current().wide != Level::UNKNOWN.wide
    });
    known.unwrap_or_else(|| panic!("not known after {calls:?} calls with {count} bytes"))
}

#[test]
fn each_function_finds_the_level_after_work_that_it_would_make_shorter() {
    let mut chosen = Chosen::alone();
    assert_eq!(chosen.initial().wide, Level::UNKNOWN.wide);
    let enough = chosen.initial().unasked;
    for (name, function) in FUNCTIONS {
        for count in [200, 3000, 20_000] {
            let calls = calls_until_known(&mut chosen, function, count);
            // What a function counts of its work is not exact, and one is called twice each time.
            let expected = enough / count;
            assert!(
                (expected / 3..=expected + 1).contains(&calls),
                "{name}: {calls} calls with {count} bytes"
            );
            assert_eq!(Level::current().wide, chosen.found().wide);
            assert_eq!(Level::current().streaming_min, chosen.found().streaming_min);
        }
    }
}

#[test]
fn short_comparisons_and_searches_find_it_too() {
    let mut chosen = Chosen::alone();
    for (name, function) in FUNCTIONS {
        if !["memcpy", "mempcpy", "memmove", "memset"].contains(&name) {
            let calls = calls_until_known(&mut chosen, function, 10);
            assert!(calls > 1000, "{name}: {calls} calls");
        }
    }
}

#[test]
fn what_a_count_says_is_no_work_where_a_string_ends_before() {
    let mut chosen = Chosen::alone();
    chosen.set(Level {
        unasked: 400,
        ..Level::UNKNOWN
    });
    for count in [0, usize::MAX] {
        assert_eq!(strncmp(b"abc\0", b"abc\0", count), 0);
        assert_eq!(strnlen(b"abc\0", count), count.min(3));
        assert_eq!(
            memchr_within(b"abc", b'a'.into(), count).is_some(),
            count > 0
        );
    }
    assert_eq!(Level::current().wide, Level::UNKNOWN.wide);
}

#[test]
fn the_call_that_finds_the_level_gives_the_same_result() {
    let mut chosen = Chosen::alone();
    for (_, function) in FUNCTIONS {
        for count in (0..300).chain([511, 1000, 4097, 20_000, 3 << 20]) {
            for unasked in [1, 40, count] {
                chosen.set(Level {
                    unasked,
                    ..Level::UNKNOWN
                });
                function(count);
            }
        }
    }
}
