//! memcmp and bcmp against the comparison of slices.

use crate::common::assembled::{at_every_level, bcmp, memcmp};
use crate::common::guarded::Guarded;
use crate::common::{numbered, stride};
use std::cmp::Ordering;

const OFFSETS: usize = 64;

#[track_caller]
fn check(a: &[u8], b: &[u8], expected: Ordering) {
    assert_eq!(memcmp(a, b).cmp(&0), expected, "{} bytes", a.len());
    assert_eq!(
        memcmp(b, a).cmp(&0),
        expected.reverse(),
        "{} bytes",
        a.len()
    );
    assert_eq!(bcmp(a, b) == 0, expected.is_eq(), "{} bytes", a.len());
}

#[test]
fn every_count_at_every_pair_of_offsets() {
    let bytes = numbered(1024);
    at_every_level(|_| {
        let mut a = vec![0; 1024 + 2 * OFFSETS];
        let mut b = vec![0xff; 1024 + 2 * OFFSETS];
        for i in (0..OFFSETS).step_by(stride()) {
            a[i..][..1024].copy_from_slice(&bytes);
            for j in (0..OFFSETS).step_by(stride()) {
                b[j..][..1024].copy_from_slice(&bytes);
                for count in 0..=1024 {
                    check(&a[i..][..count], &b[j..][..count], Ordering::Equal);
                }
                b[j..][..1024].fill(0xff);
            }
            a[i..][..1024].fill(0);
        }
    });
}

#[test]
fn a_difference_is_found_at_every_place() {
    let a = numbered(600);
    at_every_level(|_| {
        for count in 1..=600 {
            let mut b = a.clone();
            for at in 0..count {
                for offset in [0, 1, 17] {
                    if offset > at {
                        continue;
                    }
                    // Also behind the first difference they differ, the other way round.
                    b[at] = a[at].wrapping_add(0x80);
                    b[count - 1] = a[count - 1].wrapping_add(0x81);
                    let (a, b) = (&a[offset..count], &b[offset..count]);
                    check(a, b, a.cmp(b));
                }
                b.copy_from_slice(&a);
            }
        }
    });
}

#[test]
fn bytes_count_as_unsigned_and_earlier_ones_count_more() {
    at_every_level(|_| {
        for count in 1..=300 {
            for at in 0..count {
                let (mut a, mut b) = (vec![5; count], vec![5; count]);
                a[at] = 0x7f;
                b[at] = 0x80;
                a[at + 1..].fill(0xff);
                b[at + 1..].fill(0);
                check(&a, &b, Ordering::Less);
            }
        }
    });
}

#[test]
fn what_lies_behind_the_blocks_does_not_count() {
    at_every_level(|_| {
        for count in 0..=300 {
            let (mut a, mut b) = (vec![1; 400], vec![1; 400]);
            a[count..].fill(2);
            b[count..].fill(3);
            check(&a[..count], &b[..count], Ordering::Equal);
        }
    });
}

#[test]
fn nothing_outside_of_the_blocks_is_read() {
    let (mut a, mut b) = (Guarded::new(4096), Guarded::new(4096));
    let (a, b) = (a.bytes(), b.bytes());
    at_every_level(|_| {
        for count in 0..=4096 {
            check(&a[..count], &b[4096 - count..], Ordering::Equal);
            check(&a[4096 - count..], &b[..count], Ordering::Equal);
            if count > 0 {
                b[4095] = 1;
                check(&a[4096 - count..], &b[4096 - count..], Ordering::Less);
                b[4095] = 0;
            }
        }
    });
}
