//! wcslen, wcschr, wmemcmp, wmemset, wmemcpy and wmemmove against slices.
#![cfg(target_arch = "x86_64")]

use crate::common::assembled::{
    at_every_level, wcschr, wcslen, wmemcmp, wmemcpy, wmemmove, wmemset,
};
use crate::common::guarded::Guarded;
use proptest::prelude::*;

/// Characters that each have a byte that is zero, and one of the wanted character.
const FILLING: i32 = 0x7700_0042;
const WANTED: i32 = -0x0088_ffbe;

fn write(room: &mut [u8], characters: &[i32]) {
    for (place, character) in room.chunks_exact_mut(4).zip(characters) {
        place.copy_from_slice(&character.to_ne_bytes());
    }
}

#[track_caller]
fn check(string: &[u8]) {
    let characters = string
        .chunks_exact(4)
        .map(|bytes| i32::from_ne_bytes(bytes.try_into().unwrap()));
    let characters: Vec<i32> = characters.take_while(|character| *character != 0).collect();
    assert_eq!(wcslen(string), characters.len());
    assert_eq!(wcschr(string, 0), Some(characters.len()));
    let first = characters.iter().position(|character| *character == WANTED);
    assert_eq!(wcschr(string, WANTED), first);
}

#[test]
fn ends_and_characters_are_found_at_every_offset_and_in_no_other_page() {
    let mut room = Guarded::new(2 * 4096);
    let room = room.bytes();
    at_every_level(|_| {
        for length in (0..120).chain([1000, 1023, 1024, 1500]) {
            for offset in (0..16).chain([63, 64]) {
                room.fill(0);
                let at = room.len() - 4 * (length + 1) - offset;
                let string = &mut room[at..][..4 * (length + 1)];
                write(string, &[vec![FILLING; length], vec![0]].concat());
                check(string);
                for wanted in [0, 1, length / 2, length.saturating_sub(1)] {
                    if wanted < length {
                        write(&mut string[4 * wanted..], &[WANTED]);
                        check(string);
                        write(&mut string[4 * wanted..], &[FILLING]);
                    }
                }
            }
        }
    });
}

#[test]
fn the_first_difference_decides_by_its_sign() {
    at_every_level(|_| {
        for length in 0..80 {
            let a = vec![FILLING; length];
            assert_eq!(wmemcmp(&a, &a.clone()), 0);
            for at in 0..length {
                for (other, expected) in [
                    (i32::MIN, 1),
                    (FILLING - 1, 1),
                    (i32::MAX, -1),
                    (FILLING + 256, -1),
                ] {
                    let mut b = a.clone();
                    b[at] = other;
                    b[at + 1..].fill(if expected > 0 { i32::MAX } else { i32::MIN });
                    assert_eq!(wmemcmp(&a, &b), expected, "{at} of {length}");
                    assert_eq!(wmemcmp(&b, &a), -expected, "{at} of {length}");
                }
            }
        }
    });
}

#[test]
fn blocks_are_filled_and_copied_and_nothing_else_is_touched() {
    at_every_level(|_| {
        for length in (0..200).chain([1000]) {
            for character in [0, -1, 0x4242_4242, FILLING] {
                let mut block = vec![WANTED; length + 2];
                wmemset(&mut block[1..=length], character);
                assert!(block[1..=length].iter().all(|other| *other == character));
                assert_eq!((block[0], block[length + 1]), (WANTED, WANTED));
            }
            let numbered: Vec<i32> = (0..length as i32).map(|i| i * 0x1_0101).collect();
            let mut copy = vec![WANTED; length + 5];
            wmemcpy(&mut copy[..length], &numbered);
            wmemmove(&mut copy, 3, 0, length);
            assert!(copy[3..][..length] == numbered);
            wmemmove(&mut copy, 1, 3, length);
            assert!(copy[1..][..length] == numbered);
            assert_eq!(copy[length + 4], WANTED);
        }
    });
}

#[test]
fn no_other_page_is_read_or_written() {
    let (mut a, mut b) = (Guarded::new(2 * 4096), Guarded::new(2 * 4096));
    let (a, b) = (a.characters(), b.characters());
    at_every_level(|_| {
        for length in (0..100).chain([1023, 1024, 1025, 2048]) {
            let (at, end) = (2048 - length, 2048);
            wmemset(&mut a[at..end], FILLING);
            wmemcpy(&mut b[at..end], &a[at..end]);
            assert_eq!(wmemcmp(&a[at..end], &b[at..end]), 0);
            wmemset(&mut a[..length], FILLING);
            wmemcpy(&mut b[..length], &a[..length]);
            assert_eq!(wmemcmp(&a[..length], &b[..length]), 0);
        }
    });
}

proptest! {
    #[test]
    fn comparing_is_the_order_of_slices(
        pairs in proptest::collection::vec((-2..2, -2..2), 0..10),
        common in proptest::collection::vec(any::<i32>(), 0..40),
    ) {
        at_every_level(|_| {
            let (a, b): (Vec<i32>, Vec<i32>) = pairs.iter().copied().unzip();
            let (a, b) = ([&common[..], &a].concat(), [&common[..], &b].concat());
            assert_eq!(wmemcmp(&a, &b), a.cmp(&b) as i32);
        });
    }
}
