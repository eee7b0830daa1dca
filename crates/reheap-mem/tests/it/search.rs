//! memchr, memrchr, rawmemchr, strlen, strnlen, strchr and strchrnul against iterators over slices.

use crate::common::assembled::{
    at_every_level, memchr, memchr_within, memrchr, rawmemchr, strchr, strchrnul, strlen, strnlen,
};
use crate::common::guarded::Guarded;

const WANTED: u8 = b'w';

/// Checks everything about a string of `x` that ends with the block, with at most one wanted byte in it.
#[track_caller]
fn check(block: &[u8]) {
    let end = block.len() - 1;
    let wanted = i32::from(WANTED) - 0x300; // only the low byte counts
    let first = block.iter().position(|&b| b == WANTED);
    let last = block.iter().rposition(|&b| b == WANTED);
    assert_eq!(strlen(block), end);
    assert_eq!(strchr(block, wanted), first, "in {end}");
    assert_eq!(strchr(block, 0), Some(end));
    assert_eq!(strchrnul(block, wanted), first.unwrap_or(end), "in {end}");
    assert_eq!(memchr(block, wanted), first, "in {end}");
    assert_eq!(memchr(&block[..end], 0), None, "in {end}");
    assert_eq!(memrchr(block, wanted), last, "in {end}");
    assert_eq!(memrchr(&block[..end], 0), None, "in {end}");
    assert_eq!(rawmemchr(block, 0), end);
    assert_eq!(strnlen(block, end), end);
    assert_eq!(strnlen(block, usize::MAX), end);
    assert_eq!(memchr_within(block, 0, usize::MAX), Some(end));
    if let Some(first) = first {
        assert_eq!(rawmemchr(block, wanted), first);
        assert_eq!(memchr(&block[..first], wanted), None);
        assert_eq!(memchr_within(block, wanted, usize::MAX), Some(first));
    }
}

#[test]
fn every_length_at_every_offset() {
    at_every_level(|_| {
        let mut room = vec![WANTED; 1200];
        for offset in 0..64 {
            for length in 0..=1024 {
                let block = &mut room[offset..][..length + 1];
                block.fill(b'x');
                block[length] = 0;
                check(block);
                block.fill(WANTED);
            }
        }
    });
}

#[test]
fn the_first_and_the_last_of_several_are_found_at_every_place() {
    at_every_level(|_| {
        for length in (0..300).chain([511, 600, 1000]) {
            // What is in front and behind must not be found.
            let mut room = vec![WANTED; length + 201];
            let block = &mut room[100..][..length + 1];
            block.fill(b'x');
            block[length] = 0;
            for first in 0..length {
                for last in [first, (first + length) / 2, length - 1] {
                    block[first] = WANTED;
                    block[last] = WANTED;
                    check(block);
                    block[first] = b'x';
                    block[last] = b'x';
                }
            }
        }
    });
}

#[test]
fn a_count_that_ends_before_the_byte_finds_nothing() {
    at_every_level(|_| {
        let mut string = vec![b'x'; 700];
        for offset in [0, 1, 15, 16, 31, 33] {
            for end in offset + 1..600 {
                string[end] = 0;
                let string_here = &string[offset..];
                let length = end - offset;
                for count in [
                    0,
                    1,
                    15,
                    16,
                    17,
                    31,
                    32,
                    33,
                    63,
                    64,
                    length - 1,
                    length,
                    length + 1,
                ] {
                    let expected = (count > length).then_some(length);
                    assert_eq!(memchr(&string_here[..count], 0), expected);
                    assert_eq!(memrchr(&string_here[..count], 0), expected);
                    assert_eq!(strnlen(string_here, count), count.min(length));
                }
                string[end] = b'x';
            }
        }
    });
}

#[test]
fn no_other_page_is_read() {
    let mut room = Guarded::new(2 * 4096);
    let room = room.bytes();
    at_every_level(|_| {
        for length in 0..=5000 {
            // At the end of the pages, and, for what is searched backwards, at the beginning.
            room.fill(b'x');
            let behind = &mut room[2 * 4096 - length - 1..];
            behind[length] = 0;
            check(behind);
            let (wanted, x) = (i32::from(WANTED), i32::from(b'x'));
            assert_eq!(memrchr(&room[..length], wanted), None);
            assert_eq!(memchr(&room[2 * 4096 - length..], wanted), None);
            let unterminated = &room[2 * 4096 - length - 1..2 * 4096 - 1];
            assert_eq!(strnlen(unterminated, length), length);
            assert_eq!(memchr(unterminated, x), (length > 0).then_some(0));
        }
    });
}
