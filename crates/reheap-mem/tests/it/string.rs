//! strcmp, strncmp, strcpy, stpcpy, strncpy and stpncpy against slices.

use crate::common::assembled::{
    at_every_level, stpcpy, stpncpy, strcmp, strcpy, strcpy_to_the_front, strncmp, strncpy,
};
use crate::common::guarded::{Guarded, around_the_end_of_a_page};
use std::cmp::Ordering;

const UNTOUCHED: u8 = 0xee;

/// A string of that length, with its end; no two bytes of it that are 16, 32 or 64 apart are the same.
fn string(length: usize) -> Vec<u8> {
    let mut string: Vec<u8> = (0..length).map(|i| (i % 251 + 1) as u8).collect();
    string.push(0);
    string
}

#[track_caller]
fn check(a: &[u8], b: &[u8], expected: Ordering) {
    assert_eq!(strcmp(a, b).cmp(&0), expected);
    assert_eq!(strcmp(b, a).cmp(&0), expected.reverse());
    assert_eq!(strncmp(a, b, usize::MAX).cmp(&0), expected);
}

#[test]
fn equal_strings_of_every_length_at_every_pair_of_offsets() {
    at_every_level(|_| {
        let (mut a, mut b) = (vec![1; 600], vec![2; 600]);
        for length in (0..200).chain([255, 256, 257, 500]) {
            let string = string(length);
            for i in (0..64).step_by(if length < 140 { 3 } else { 7 }) {
                for j in [0, 1, 7, 15, 16, 17, 31, 33, 50, 63] {
                    a[i..][..=length].copy_from_slice(&string);
                    b[j..][..=length].copy_from_slice(&string);
                    check(&a[i..], &b[j..], Ordering::Equal);
                }
            }
        }
    });
}

#[test]
fn the_first_difference_decides_wherever_it_is() {
    at_every_level(|_| {
        for length in (1..150).chain([255, 256, 257, 400, 1000]) {
            let a = string(length);
            for at in 0..length {
                let mut b = a.clone();
                b[at] = 255; // more than any other, as an unsigned byte
                b[at + 1..length].fill(1);
                check(&a, &b, Ordering::Less);
                for count in [0, 1, at, at + 1, at + 2, length] {
                    let expected = if count > at {
                        Ordering::Less
                    } else {
                        Ordering::Equal
                    };
                    assert_eq!(
                        strncmp(&a, &b, count).cmp(&0),
                        expected,
                        "{count} of {length}"
                    );
                }
                // What is behind the end does not count.
                b[..length].copy_from_slice(&a[..length]);
                b[at] = 0;
                check(&a, &b, Ordering::Greater);
                let mut c = a.clone();
                c[at] = 0;
                c[at + 1..].fill(0x77);
                c.push(0);
                check(&c, &b, Ordering::Equal);
            }
        }
    });
}

#[test]
fn no_other_page_is_read_by_comparing() {
    let (mut a, mut b) = (Guarded::new(2 * 4096), Guarded::new(2 * 4096));
    let (a, b) = (a.bytes(), b.bytes());
    at_every_level(|_| {
        for length in (0..300).chain([4000, 4095, 4096, 4097, 5000]) {
            let string = string(length);
            for gap in [0, 1, 5, 15, 16, 31, 32, 63, 64] {
                // One ends with its pages, the other a bit before; both cross the page between.
                let i = 2 * 4096 - string.len();
                let j = i - gap;
                a[i..].copy_from_slice(&string);
                b[j..][..string.len()].copy_from_slice(&string);
                check(&a[i..], &b[j..], Ordering::Equal);
                assert_eq!(strncmp(&a[i..i + length], &b[j..], length), 0);
                if length > 0 {
                    b[j + length - 1] = 255;
                    check(&a[i..], &b[j..], Ordering::Less);
                    assert_eq!(strncmp(&a[i..], &b[j..], length - 1), 0);
                }
            }
        }
    });
}

#[test]
fn the_first_difference_decides_around_the_end_of_a_page() {
    let string = string(1300);
    at_every_level(|_| {
        around_the_end_of_a_page(&string, &string, |a, b, at| {
            check(a, b, Ordering::Less);
            assert_eq!(strncmp(a, b, at), 0);
            assert!(strncmp(a, b, at + 1) < 0);
        });
    });
}

#[test]
fn copies_have_the_end_and_nothing_behind_it() {
    at_every_level(|_| {
        for length in 0..600 {
            let string = string(length);
            for offset in [0, 1, 31] {
                let mut room = vec![UNTOUCHED; length + 100];
                strcpy(&mut room[offset..], &string);
                assert!(room[offset..][..=length] == string);
                assert!(room[offset + length + 1..].iter().all(|&b| b == UNTOUCHED));
                let mut room = vec![UNTOUCHED; length + 100];
                assert_eq!(stpcpy(&mut room[offset..], &string), length);
                assert!(room[offset..][..=length] == string);
                assert!(room[offset + length + 1..].iter().all(|&b| b == UNTOUCHED));
            }
        }
    });
}

#[test]
fn a_string_can_be_moved_to_the_front() {
    at_every_level(|_| {
        for length in (0..150).chain([255, 300, 1000]) {
            let string = string(length);
            for from in (1..70).step_by(3).chain([2, 64, 127, 255, 256, 257]) {
                for offset in [0, 20] {
                    let mut room = vec![UNTOUCHED; offset + from];
                    room.extend_from_slice(&string);
                    assert_eq!(strcpy_to_the_front(&mut room[offset..], from), length);
                    assert!(room[offset..][..=length] == string, "{length} from {from}");
                    assert!(room[..offset].iter().all(|&b| b == UNTOUCHED));
                }
            }
        }
    });
}

#[test]
fn bounded_copies_are_filled_with_zeros() {
    at_every_level(|_| {
        for length in 0..300 {
            let string = string(length);
            for count in [
                0,
                1,
                length / 2,
                length,
                length + 1,
                length + 2,
                length + 150,
            ] {
                let copied = length.min(count);
                let mut expected = string[..copied].to_vec();
                expected.resize(count, 0);
                expected.push(UNTOUCHED);
                let mut room = vec![UNTOUCHED; count + 1];
                strncpy(&mut room[..count], &string);
                assert!(room == expected, "{count} of {length}");
                room.fill(UNTOUCHED);
                assert_eq!(stpncpy(&mut room[..count], &string), copied);
                assert!(room == expected, "{count} of {length}");
            }
        }
    });
}
