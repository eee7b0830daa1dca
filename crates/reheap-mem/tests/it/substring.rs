//! memmem and strstr against the windows of slices.
#![cfg(target_arch = "x86_64")]

use crate::common::assembled::{at_every_level, memmem, strstr};
use crate::common::guarded::Guarded;
use crate::common::numbered;
use proptest::prelude::*;

fn expected(block: &[u8], needle: &[u8]) -> Option<usize> {
    match needle {
        [] => Some(0),
        _ => block
            .windows(needle.len())
            .position(|window| window == needle),
    }
}

/// Checks both functions. Neither the block nor the needle has a zero.
#[track_caller]
fn check(block: &[u8], needle: &[u8]) {
    let expected = expected(block, needle);
    let lengths = (needle.len(), block.len());
    assert_eq!(memmem(block, needle), expected, "{lengths:?}");
    let end = [0];
    let (string, needle) = ([block, &end].concat(), [needle, &end].concat());
    assert_eq!(strstr(&string, &needle), expected, "{lengths:?}");
}

/// What differs from its neighbours, and has no zero.
fn text(length: usize) -> Vec<u8> {
    numbered(length).into_iter().map(|byte| byte | 1).collect()
}

#[test]
fn needles_of_every_length_are_found_at_every_place() {
    let text = text(300);
    at_every_level(|_| {
        for length in 0..70 {
            let needle = &text[200..][..length];
            for at in (0..130).chain([150, 200, 400]) {
                let mut block = vec![b'x'; at + length];
                block[at..].copy_from_slice(needle);
                check(&block, needle);
                block.push(b'x');
                check(&block, needle);
                // One that begins and ends the same, and differs in between.
                for wrong in [1, length / 2, length.saturating_sub(2)] {
                    if length > 2 {
                        block[at + wrong] ^= 0x80;
                        check(&block, needle);
                        block[at + wrong] ^= 0x80;
                    }
                }
            }
        }
    });
}

#[test]
fn the_first_of_several_is_found() {
    at_every_level(|_| {
        for length in [1, 2, 3, 5, 17, 40] {
            let needle = text(length);
            for gap in 0..100 {
                let mut block = vec![b'x'; 70];
                block.extend(&needle);
                block.extend(vec![b'x'; gap]);
                block.extend(&needle);
                check(&block, &needle);
            }
        }
    });
}

#[test]
fn a_zero_is_a_byte_of_a_block_and_the_end_of_a_string() {
    at_every_level(|_| {
        assert_eq!(memmem(b"ab\0cd", b"\0c"), Some(2));
        assert_eq!(memmem(b"ab\0cd", b"\0"), Some(2));
        assert_eq!(strstr(b"ab\0cd\0", b"cd\0"), None);
        assert_eq!(strstr(b"ab\0cd\0", b"c\0"), None);
        assert_eq!(strstr(b"ab\0cd\0", b"\0"), Some(0));
        assert_eq!(strstr(b"\0", b"ab\0"), None);
        assert_eq!(memmem(b"", b""), Some(0));
        assert_eq!(memmem(b"", b"a"), None);
    });
}

#[test]
fn no_other_page_is_read() {
    let (mut room, mut needle_room) = (Guarded::new(3 * 4096), Guarded::new(4096));
    let (room, needle_room) = (room.bytes(), needle_room.bytes());
    at_every_level(|_| {
        for length in (1..40).chain([63, 64, 100, 1000]) {
            let needle_at = needle_room.len() - length;
            needle_room[needle_at..].copy_from_slice(&text(length));
            let needle = &needle_room[needle_at..];
            for size in (0..200).chain([1000, 4095, 4096, 4097, 5000]) {
                // Blocks that end with the pages, and ones that begin with them.
                room.fill(b'x');
                let end = room.len();
                assert_eq!(memmem(&room[end - size..], needle), None);
                assert_eq!(memmem(&room[..size], needle), None);
                if size >= length {
                    room[end - length..].copy_from_slice(needle);
                    assert_eq!(memmem(&room[end - size..], needle), Some(size - length));
                    room[..length].copy_from_slice(needle);
                    assert_eq!(memmem(&room[..size], needle), Some(0));
                }
            }
        }
    });
}

#[test]
fn strings_at_the_end_of_their_pages_are_not_read_beyond() {
    let (mut room, mut needle_room) = (Guarded::new(3 * 4096), Guarded::new(4096));
    let (room, needle_room) = (room.bytes(), needle_room.bytes());
    at_every_level(|_| {
        for length in [1, 2, 3, 7, 8, 15, 16, 17, 33, 70, 300] {
            let needle = [&text(length)[..], &[0]].concat();
            let needle_at = needle_room.len() - needle.len();
            needle_room[needle_at..].copy_from_slice(&needle);
            let needle = &needle_room[needle_at..];
            for size in (0..200).chain([250, 300, 1000, 4095, 4096, 5000, 9000]) {
                let string_at = room.len() - size - 1;
                room[string_at..].fill(b'x');
                let last = room.len() - 1;
                room[last] = 0;
                assert_eq!(strstr(&room[string_at..], needle), None);
                if size >= length {
                    room[last - length..last].copy_from_slice(&needle[..length]);
                    let expected = Some(size - length);
                    assert_eq!(strstr(&room[string_at..], needle), expected);
                }
            }
        }
    });
}

/// Searches that would take minutes each if a byte of the haystack were compared again and again.
#[test]
fn no_haystack_makes_the_search_quadratic() {
    const LENGTH: usize = 4 << 20;
    let all = |byte: u8, count: usize| vec![byte; count];
    let half = LENGTH / 2;
    let middle = [&all(b'a', half)[..], b"b", &all(b'a', half)].concat();
    let periodic = b"ab".repeat(half);
    let haystacks = [all(b'a', 2 * LENGTH), b"ab".repeat(LENGTH)];
    let needles = [
        middle.clone(),
        [&all(b'a', LENGTH)[..], b"ba"].concat(),
        [b"ab", &all(b'a', LENGTH)[..]].concat(),
        [&periodic[..], b"bab"].concat(),
        [b"aab", &periodic[..]].concat(),
    ];
    at_every_level(|_| {
        for haystack in &haystacks {
            for needle in &needles {
                assert_eq!(memmem(haystack, needle), None);
            }
            let string = [&haystack[..], &[0]].concat();
            let needle = [&needles[0][..], &[0]].concat();
            assert_eq!(strstr(&string, &needle), None);
        }
        let found = [&haystacks[0][..], &middle].concat();
        assert_eq!(memmem(&found, &middle), Some(2 * LENGTH));
    });
}

/// A program that goes from one find to the next must not pay for the whole rest each time: that would take minutes.
#[test]
fn what_is_behind_a_find_costs_nothing() {
    let string = [&b"here and there; ".repeat(1 << 18)[..], &[0]].concat();
    at_every_level(|_| {
        let (mut at, mut finds) = (0, 0);
        while let Some(next) = strstr(&string[at..], b"there\0") {
            at += next + 1;
            finds += 1;
        }
        assert_eq!(finds, 1 << 18);
    });
}

/// Words that repeat themselves, with a few bytes changed.
fn repetitive(length: std::ops::Range<usize>) -> impl Strategy<Value = Vec<u8>> {
    let word = proptest::collection::vec(b'a'..=b'b', 1..12);
    let changes = proptest::collection::vec((any::<prop::sample::Index>(), b'a'..=b'c'), 0..4);
    (word, length, changes).prop_map(|(word, length, changes)| {
        let mut text: Vec<u8> = word.into_iter().cycle().take(length).collect();
        for (at, byte) in changes {
            if !text.is_empty() {
                let at = at.index(text.len());
                text[at] = byte;
            }
        }
        text
    })
}

proptest! {
    #[test]
    fn repetitive_texts_are_searched_right(
        before in repetitive(0..3000),
        needle in repetitive(0..300),
        change in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        at_every_level(|_| {
            // With the needle behind it, or with what is nearly the needle.
            let mut block = [&before[..], &needle].concat();
            if let Some(change) = change.filter(|_| !block.is_empty()) {
                let at = change.index(block.len());
                block[at] = b'd';
            }
            check(&block, &needle);
            check(&before, &needle);
        });
    }

    #[test]
    fn needles_from_the_text_are_found(
        text in proptest::collection::vec(b'a'..=b'd', 2..2000),
        from: prop::sample::Index,
        length in 1..40usize,
    ) {
        at_every_level(|_| {
            let from = from.index(text.len());
            let needle = &text[from..][..length.min(text.len() - from)];
            check(&text, needle);
        });
    }
}
