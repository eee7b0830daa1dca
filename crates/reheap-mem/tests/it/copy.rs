//! memcpy, mempcpy and memmove against plain loops: every short count at every pair of offsets, every overlap, at the
//! ends of pages, and around the counts where another code takes over.

#[cfg(target_arch = "x86_64")]
use crate::common::assembled::{Chosen, Level, mempcpy};
use crate::common::assembled::{at_every_level, memcpy, memmove};
use crate::common::guarded::Guarded;
use crate::common::{numbered, stride};

const COUNT_MAX: usize = 1024;
const OFFSETS: usize = 64;
const UNTOUCHED: u8 = 0xee;

/// Copies to `offset` of a room that is filled with [`UNTOUCHED`] and checks every byte of it.
#[track_caller]
fn check_copy(copy: fn(&mut [u8], &[u8]), room: &mut [u8], offset: usize, from: &[u8]) {
    let (before, rest) = room.split_at_mut(offset);
    let (to, behind) = rest.split_at_mut(from.len());
    copy(to, from);
    assert!(to == from, "{} bytes to offset {offset}", from.len());
    assert!(
        before.iter().chain(behind.iter()).all(|&b| b == UNTOUCHED),
        "{} bytes to offset {offset}: bytes around them changed",
        from.len()
    );
    to.fill(UNTOUCHED);
}

#[test]
fn every_count_at_every_pair_of_offsets() {
    let source = numbered(COUNT_MAX + OFFSETS);
    at_every_level(|_| {
        let mut room = vec![UNTOUCHED; COUNT_MAX + 2 * OFFSETS];
        for count in 0..=COUNT_MAX {
            for from in (0..OFFSETS).step_by(stride()) {
                for to in (0..OFFSETS).step_by(stride()) {
                    // What is around the copy is looked at up to one vector of AVX2 away, here.
                    let near = &mut room[..to + count + OFFSETS];
                    let skipped = to.saturating_sub(32);
                    check_copy(
                        memcpy,
                        &mut near[skipped..],
                        to - skipped,
                        &source[from..][..count],
                    );
                }
            }
        }
        assert!(room.iter().all(|&b| b == UNTOUCHED));
    });
}

#[test]
#[cfg(target_arch = "x86_64")]
fn mempcpy_copies_the_same_and_returns_the_end() {
    let source = numbered(COUNT_MAX);
    at_every_level(|_| {
        let mut room = vec![UNTOUCHED; COUNT_MAX + 2 * OFFSETS];
        for count in 0..=COUNT_MAX {
            check_copy(mempcpy, &mut room, 1 + count % OFFSETS, &source[..count]);
        }
    });
}

#[test]
fn nothing_outside_of_the_blocks_is_touched() {
    let (mut source, mut target) = (Guarded::new(4096), Guarded::new(4096));
    let (source, target) = (source.bytes(), target.bytes());
    source.copy_from_slice(&numbered(4096));
    at_every_level(|_| {
        for count in 0..=4096 {
            let from_places = [&source[..count], &source[4096 - count..]];
            for from in from_places {
                for to in [0, 4096 - count] {
                    let to = &mut target[to..][..count];
                    to.fill(UNTOUCHED);
                    memcpy(to, from);
                    assert!(to == from, "{count} bytes");
                }
            }
        }
    });
}

#[test]
fn every_overlap() {
    let original = numbered(3 * COUNT_MAX);
    at_every_level(|_| {
        let mut block = original.clone();
        for count in 0..=COUNT_MAX {
            // Up to a bit farther apart than the count, so that all of them overlap, and then some do not.
            let reach = (count + 40).min(COUNT_MAX);
            let from = COUNT_MAX;
            for to in from - reach..=from + reach {
                memmove(&mut block, to, from, count);
                let (lowest, highest) = (to.min(from), to.max(from) + count);
                assert!(
                    block[to..][..count] == original[from..][..count],
                    "{count} bytes from {from} to {to}"
                );
                assert!(
                    block[..to] == original[..to],
                    "{count} bytes from {from} to {to}"
                );
                assert!(
                    block[to + count..] == original[to + count..],
                    "{count} bytes from {from} to {to}"
                );
                block[lowest..highest].copy_from_slice(&original[lowest..highest]);
            }
        }
    });
}

#[test]
fn overlaps_at_every_offset() {
    let original = numbered(4096);
    at_every_level(|_| {
        let mut block = original.clone();
        for count in [65, 127, 129, 255, 257, 300, 511, 600, 900, 1024] {
            for from in (1024..1024 + OFFSETS).step_by(stride()) {
                for distance in [
                    1, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 256, 257,
                ] {
                    for to in [from - distance, from + distance] {
                        memmove(&mut block, to, from, count);
                        assert!(
                            block[to..][..count] == original[from..][..count],
                            "{count} bytes from {from} to {to}"
                        );
                        block.copy_from_slice(&original);
                    }
                }
            }
        }
    });
}

/// Counts around `threshold`, from well below to above.
#[cfg(target_arch = "x86_64")]
fn around(threshold: usize) -> impl Iterator<Item = usize> {
    [0, 1, 31, 32, 33, 64, 65, 128, 129, 4095, 4096, 4097]
        .into_iter()
        .flat_map(move |d| [threshold.saturating_sub(d), threshold + d])
}

#[test]
#[cfg(target_arch = "x86_64")]
fn large_blocks_around_every_threshold() {
    const MIB: usize = 1 << 20;
    let source = numbered(9 * MIB);
    let mut room = vec![UNTOUCHED; 9 * MIB];
    let mut chosen = Chosen::alone();
    let found = chosen.found();
    let streaming = Level {
        streaming_min: 4 * MIB,
        ..found
    };
    for level in [Level::BASELINE, found, streaming] {
        chosen.set(level);
        for threshold in [1500, 2048, 4096, 65536, MIB, 4 * MIB, 8 * MIB] {
            for count in around(threshold) {
                for (from, to) in [(0, 0), (1, 0), (0, 1), (13, 45), (4096, 64), (100, 4196)] {
                    let from = &source[from..][..count];
                    let (to, behind) = room[to..].split_at_mut(count);
                    memcpy(to, from);
                    assert!(to == from, "{count} bytes");
                    assert!(
                        behind[..64].iter().all(|&b| b == UNTOUCHED),
                        "{count} bytes"
                    );
                    to.fill(UNTOUCHED);
                }
            }
        }
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn large_overlaps_around_every_threshold() {
    const MIB: usize = 1 << 20;
    let original = numbered(5 * MIB);
    let mut chosen = Chosen::alone();
    let found = chosen.found();
    let streaming = Level {
        streaming_min: MIB,
        ..found
    };
    for level in [Level::BASELINE, found, streaming] {
        chosen.set(level);
        for count in around(2048)
            .chain(around(4096))
            .chain(around(MIB))
            .chain([2 * MIB + 7])
        {
            let from = 2 * MIB;
            for distance in [
                1,
                31,
                64,
                255,
                4096,
                4100,
                8192,
                count / 2 + 1,
                count,
                count + 1,
            ] {
                for to in [
                    from - distance.min(from),
                    (from + distance).min(3 * MIB - 8),
                ] {
                    let mut block = original.clone();
                    memmove(&mut block, to, from, count);
                    assert!(
                        block[to..][..count] == original[from..][..count],
                        "{count} bytes from {from} to {to}"
                    );
                    assert!(block[..to] == original[..to]);
                    assert!(block[to + count..] == original[to + count..]);
                }
            }
        }
    }
}
