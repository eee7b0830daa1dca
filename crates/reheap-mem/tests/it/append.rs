//! strncat and memccpy against slices.
#![cfg(target_arch = "x86_64")]

use crate::common::assembled::{at_every_level, memccpy, strncat};
use crate::common::guarded::Guarded;

const UNTOUCHED: u8 = 0xee;

/// A string of that length, with its end.
fn string(length: usize) -> Vec<u8> {
    (0..length)
        .map(|i| (i % 251 + 1) as u8)
        .chain([0])
        .collect()
}

#[test]
fn a_string_is_appended_up_to_its_end_or_the_count() {
    at_every_level(|_| {
        for length in (0..140).chain([300, 1000]) {
            let from = string(length);
            for before in [0, 1, 15, 16, 33, 200] {
                for count in [0, 1, length / 2, length, length + 1, usize::MAX] {
                    let appended = length.min(count);
                    let mut to = string(before);
                    to.resize(before + appended + 20, UNTOUCHED);
                    let mut expected = to.clone();
                    expected[before..][..appended].copy_from_slice(&from[..appended]);
                    expected[before + appended] = 0;
                    strncat(&mut to, &from, count);
                    assert!(to == expected, "{count} of {length} behind {before}");
                }
            }
        }
    });
}

#[test]
fn a_block_is_copied_up_to_the_byte_or_the_count() {
    at_every_level(|_| {
        for length in (0..140).chain([250]) {
            let from = string(length);
            for byte in [0, 0x300 + 1, length as i32] {
                let Some(at) = from.iter().position(|&b| b == byte as u8) else {
                    continue;
                };
                for count in [0, 1, at, at + 1, length, length + 1, usize::MAX] {
                    let copied = count.min(at + 1);
                    let mut to = vec![UNTOUCHED; length + 20];
                    let found = memccpy(&mut to, &from, byte, count);
                    assert_eq!(found, (count > at).then_some(at + 1), "{count} of {length}");
                    assert!(to[..copied] == from[..copied]);
                    assert!(to[copied..].iter().all(|&b| b == UNTOUCHED));
                }
            }
        }
    });
}

#[test]
fn no_other_page_is_read_or_written() {
    let (mut a, mut b) = (Guarded::new(2 * 4096), Guarded::new(2 * 4096));
    let (a, b) = (a.bytes(), b.bytes());
    at_every_level(|_| {
        for length in (0..200).chain([4095, 4096, 5000]) {
            let from = string(length);
            let from_at = a.len() - from.len();
            a[from_at..].copy_from_slice(&from);
            let to_at = b.len() - from.len();
            assert_eq!(
                memccpy(&mut b[to_at..], &a[from_at..], 0, usize::MAX),
                Some(length + 1)
            );
            assert!(b[to_at..] == from);
            b[to_at] = 0;
            strncat(&mut b[to_at..], &a[from_at..], usize::MAX);
            assert!(b[to_at..] == from);
            // Without an end, but for the count.
            b[to_at] = 0;
            strncat(&mut b[to_at..], &a[from_at..from_at + length], length);
            assert!(b[to_at..] == from);
        }
    });
}
