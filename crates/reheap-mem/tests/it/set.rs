//! memset against a plain loop.
#![cfg(target_arch = "x86_64")]

use crate::common::assembled::{Chosen, Level, at_every_level, memset};
use crate::common::guarded::Guarded;

const OFFSETS: usize = 64;
const UNTOUCHED: u8 = 0xee;

#[test]
fn every_count_at_every_offset() {
    at_every_level(|_| {
        let mut room = vec![UNTOUCHED; 1024 + 2 * OFFSETS];
        for count in 0..=1024 {
            for offset in 0..OFFSETS {
                let (before, rest) = room.split_at_mut(offset);
                let (block, behind) = rest.split_at_mut(count);
                let byte = (count + offset) as u8;
                memset(block, i32::from(byte));
                assert!(block.iter().all(|&b| b == byte), "{count} bytes");
                assert!(before.iter().chain(behind.iter()).all(|&b| b == UNTOUCHED));
                block.fill(UNTOUCHED);
            }
        }
    });
}

#[test]
fn only_the_low_byte_of_the_value_counts() {
    at_every_level(|_| {
        for count in 0..=1024 {
            let mut block = vec![UNTOUCHED; count];
            memset(&mut block, -0x7fff_ff3d);
            assert!(block.iter().all(|&b| b == 0xc3), "{count} bytes");
        }
    });
}

#[test]
fn nothing_outside_of_the_block_is_touched() {
    let mut room = Guarded::new(4096);
    let room = room.bytes();
    at_every_level(|_| {
        for count in 0..=4096 {
            for offset in [0, 4096 - count] {
                room.fill(UNTOUCHED);
                memset(&mut room[offset..][..count], 7);
                assert_eq!(room.iter().filter(|&&b| b == 7).count(), count);
            }
        }
    });
}

#[test]
fn large_blocks_around_every_threshold() {
    const MIB: usize = 1 << 20;
    let mut room = vec![UNTOUCHED; 9 * MIB];
    let mut chosen = Chosen::alone();
    let found = chosen.found();
    let streaming = Level {
        streaming_min: 4 * MIB,
        ..found
    };
    for level in [Level::BASELINE, found, streaming] {
        chosen.set(level);
        for threshold in [2048, 65536, 4 * MIB, 8 * MIB] {
            for away in [0, 1, 31, 32, 33, 64, 65, 127, 128, 129, 256, 257] {
                for count in [threshold - away, threshold + away] {
                    let offset = 1 + away % 7 * 9;
                    memset(&mut room[offset..][..count], 7);
                    let inside = room[offset..][..count].iter().all(|&b| b == 7);
                    assert!(inside, "{count} bytes");
                    assert_eq!(room[offset - 1], UNTOUCHED);
                    assert!(
                        room[offset + count..][..300]
                            .iter()
                            .all(|&b| b == UNTOUCHED)
                    );
                    room[offset..][..count].fill(UNTOUCHED);
                }
            }
        }
    }
}
