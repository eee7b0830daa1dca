//! strcasecmp, strncasecmp and strcasestr against the loops of musl.
#![cfg(target_arch = "x86_64")]

use crate::common::assembled::{at_every_level, strcasecmp, strcasestr, strncasecmp};
use crate::common::guarded::{Guarded, around_the_end_of_a_page};
use proptest::prelude::*;
use std::ffi::c_int;

/// What musl returns: the difference of the first two that differ as small letters, or of those where one string ends.
fn expected(a: &[u8], b: &[u8], count: usize) -> c_int {
    let mut pairs = a.iter().zip(b).take(count);
    let last = pairs.find(|(a, b)| !a.eq_ignore_ascii_case(b) || **a == 0);
    last.map_or(0, |(a, b)| {
        c_int::from(a.to_ascii_lowercase()) - c_int::from(b.to_ascii_lowercase())
    })
}

#[track_caller]
fn check(a: &[u8], b: &[u8]) {
    let end = a.len().max(b.len());
    assert_eq!(strcasecmp(a, b), expected(a, b, end));
    assert_eq!(strcasecmp(b, a), expected(b, a, end));
    assert_eq!(strncasecmp(a, b, usize::MAX), expected(a, b, end));
}

/// A string of that length with its end, every letter of it now small, now a capital.
fn string(length: usize, capitals: bool) -> Vec<u8> {
    let letter = |i: usize| {
        let byte = (i % 251 + 1) as u8;
        if i.is_multiple_of(3) == capitals {
            byte.to_ascii_uppercase()
        } else {
            byte.to_ascii_lowercase()
        }
    };
    (0..length).map(letter).chain([0]).collect()
}

#[test]
fn every_pair_of_bytes_compares_as_small_letters_of_ascii_do() {
    at_every_level(|_| {
        for at in [0, 5, 40, 150] {
            let (mut a, mut b) = (string(200, true), string(200, false));
            for x in 0..=255 {
                for y in 0..=255 {
                    (a[at], b[at]) = (x, y);
                    assert_eq!(strcasecmp(&a, &b), expected(&a, &b, 201), "{x} and {y}");
                }
            }
        }
    });
}

#[test]
fn equal_strings_of_every_length_at_every_pair_of_offsets() {
    at_every_level(|_| {
        let (mut a, mut b) = (vec![1; 600], vec![2; 600]);
        for length in (0..200).chain([255, 256, 257, 500]) {
            let (first, second) = (string(length, true), string(length, false));
            for i in (0..64).step_by(if length < 140 { 3 } else { 7 }) {
                for j in [0, 1, 7, 15, 16, 17, 31, 33, 50, 63] {
                    a[i..][..=length].copy_from_slice(&first);
                    b[j..][..=length].copy_from_slice(&second);
                    assert_eq!(strcasecmp(&a[i..], &b[j..]), 0);
                    assert_eq!(strncasecmp(&a[i..], &b[j..], usize::MAX), 0);
                    assert_eq!(strncasecmp(&a[i..], &b[j..], length), 0);
                }
            }
        }
    });
}

#[test]
fn the_first_difference_decides_wherever_it_is() {
    at_every_level(|_| {
        for length in (1..150).chain([255, 256, 257, 400]) {
            let a = string(length, true);
            for at in 0..length {
                for other in [0, b'[', b'Z', b'{', 255] {
                    let mut b = string(length, false);
                    b[at] = other;
                    check(&a, &b);
                    for count in [0, 1, at, at + 1, at + 2, length] {
                        let expected = expected(&a, &b, count);
                        assert_eq!(strncasecmp(&a, &b, count), expected, "{count} of {length}");
                    }
                }
            }
        }
    });
}

#[test]
fn no_other_page_is_read() {
    let (mut a, mut b) = (Guarded::new(2 * 4096), Guarded::new(2 * 4096));
    let (a, b) = (a.bytes(), b.bytes());
    at_every_level(|_| {
        for length in (0..300).chain([4000, 4095, 4096, 4097, 5000]) {
            let (first, second) = (string(length, true), string(length, false));
            for gap in [0, 1, 5, 15, 16, 31, 32, 63, 64] {
                let i = 2 * 4096 - first.len();
                let j = i - gap;
                a[i..].copy_from_slice(&first);
                b[j..][..second.len()].copy_from_slice(&second);
                check(&a[i..], &b[j..]);
                // Without an end in the one, which the count stands for.
                let unterminated = &a[i + 1..];
                assert_eq!(strncasecmp(&unterminated[..length], &b[j + 1..], length), 0);
                if length > 0 {
                    b[j + length - 1] = 255;
                    check(&a[i..], &b[j..]);
                    assert_eq!(strncasecmp(&a[i..], &b[j..], length - 1), 0);
                }
            }
        }
    });
}

#[test]
fn the_first_difference_decides_around_the_end_of_a_page() {
    let (first, second) = (string(1300, true), string(1300, false));
    at_every_level(|_| {
        around_the_end_of_a_page(&first, &second, |a, b, at| {
            check(a, b);
            assert_eq!(strncasecmp(a, b, at), 0);
            assert!(strncasecmp(a, b, at + 1) < 0);
        });
    });
}

#[test]
fn substrings_are_found_in_either_case_and_in_no_other_page() {
    let (mut room, mut needle_room) = (Guarded::new(2 * 4096), Guarded::new(4096));
    let (room, needle_room) = (room.bytes(), needle_room.bytes());
    at_every_level(|_| {
        for needle in [
            &b""[..],
            b"k",
            b"K",
            b"@",
            b"[x",
            b"Key-",
            b"a longer NEEDLE than one vector of 32 bytes",
        ] {
            let needle_at = needle_room.len() - needle.len() - 1;
            needle_room[needle_at..][..needle.len()].copy_from_slice(needle);
            let needle_with_end = &needle_room[needle_at..];
            for length in (0..150).chain([4090, 4100, 5000]) {
                let at = room.len() - length - needle.len() - 1;
                let string = &mut room[at..];
                // What differs from all of them only in one bit, or in what comes last.
                string.fill(b'`');
                string[length + needle.len()] = 0;
                let expected = needle.is_empty().then_some(0);
                assert_eq!(strcasestr(string, needle_with_end), expected);
                string[length..][..needle.len()].copy_from_slice(&needle.to_ascii_uppercase());
                let expected = if needle.is_empty() { 0 } else { length };
                assert_eq!(strcasestr(string, needle_with_end), Some(expected));
            }
        }
        assert_eq!(strcasestr(b"kkkekKEyY\0", b"key\0"), Some(5));
        assert_eq!(strcasestr(b"kkkekKE\0y\0", b"key\0"), None);
    });
}

proptest! {
    #[test]
    fn random_strings_compare_as_with_musl(
        a in proptest::collection::vec(b'Y'..=b'b', 0..200),
        b in proptest::collection::vec(b'Y'..=b'b', 0..200),
        common in proptest::collection::vec(1..=255u8, 0..200),
        count in 0..400usize,
    ) {
        at_every_level(|_| {
            let a = [&common.to_ascii_uppercase(), &a[..], &[0]].concat();
            let b = [&common.to_ascii_lowercase(), &b[..], &[0]].concat();
            check(&a, &b);
            assert_eq!(strncasecmp(&a, &b, count), expected(&a, &b, count));
        });
    }
}
