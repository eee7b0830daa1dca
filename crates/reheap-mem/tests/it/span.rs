//! strspn and strcspn against iterators over slices.
#![cfg(target_arch = "x86_64")]

use crate::common::assembled::{at_every_level, strcspn, strspn};
use crate::common::guarded::Guarded;
use proptest::prelude::*;

/// Checks both functions on a string that ends with the block, and a set with its end.
#[track_caller]
fn check(string: &[u8], set: &[u8]) {
    let bytes = &set[..set.iter().position(|&b| b == 0).unwrap()];
    let inside = string.iter().position(|b| !bytes.contains(b)).unwrap();
    let outside = string.iter().position(|b| *b == 0 || bytes.contains(b));
    assert_eq!(strspn(string, set), inside, "{set:?}");
    assert_eq!(strcspn(string, set), outside.unwrap(), "{set:?}");
}

#[test]
fn every_byte_is_told_apart_from_sets_of_every_size() {
    at_every_level(|_| {
        for size in (0..20).chain([40, 128, 250, 254]) {
            for first in [1, 0x0f, 0x31, 0x70, 0x80, 0xf8] {
                let set: Vec<u8> = (0..size)
                    .map(|i| (first - 1 + i) % 255 + 1)
                    .map(|b| b as u8)
                    .chain([0])
                    .collect();
                for byte in 0..=255 {
                    check(&[byte, 0], &set);
                    // Behind some that are in the set, and some that are not.
                    let other = (1..=255).find(|b| !set.contains(b)).unwrap_or(0);
                    for neighbour in [set[0], other] {
                        let mut string = vec![neighbour; 50];
                        string.extend([byte, 0]);
                        check(&string, &set);
                    }
                }
            }
        }
    });
}

#[test]
fn spans_of_every_length_at_every_offset() {
    let mut room = Guarded::new(4096);
    let room = room.bytes();
    at_every_level(|_| {
        for set in [
            &b"a\0"[..],
            b"ab\0",
            b"abc\0",
            b"abcd\0",
            b"abcde\0",
            b"abcdefghijklmnopq\0",
        ] {
            for offset in 0..64 {
                for length in (0..200).chain([300]) {
                    let string = &mut room[offset..][..length + 3];
                    let last = set[set.len() - 2];
                    // What is in front and behind must not count.
                    for (filling, end) in [(last, b'x'), (b'x', last), (last, 0), (b'x', 0)] {
                        string.fill(filling);
                        string[length] = end;
                        string[length + 2] = 0;
                        check(string, set);
                    }
                }
            }
        }
    });
}

#[test]
fn no_other_page_is_read() {
    let (mut room, mut set_room) = (Guarded::new(2 * 4096), Guarded::new(4096));
    let (room, set_room) = (room.bytes(), set_room.bytes());
    at_every_level(|_| {
        for size in [0, 1, 2, 3, 4, 5, 17, 200] {
            let set_at = set_room.len() - size - 1;
            for (byte, place) in (1..).zip(&mut set_room[set_at..]) {
                *place = byte;
            }
            *set_room.last_mut().unwrap() = 0;
            let set = &set_room[set_at..];
            for length in (0..300).chain([4000, 4095, 4096, 4097, 5000]) {
                let string_at = room.len() - length - 1;
                for filling in [1, 255] {
                    room[string_at..].fill(filling);
                    *room.last_mut().unwrap() = 0;
                    check(&room[string_at..], set);
                }
            }
        }
    });
}

proptest! {
    #[test]
    fn random_strings_and_sets(
        string in proptest::collection::vec(prop_oneof![b'a'..=b'h', 1..=255u8], 0..200),
        set in proptest::collection::vec(prop_oneof![b'a'..=b'h', 1..=255u8], 0..20),
    ) {
        at_every_level(|_| check(&[&string[..], &[0]].concat(), &[&set[..], &[0]].concat()));
    }
}
