//! Blocks of more than four gibibytes, where 32 bits do not hold the count.
#![cfg(target_arch = "x86_64")]

use crate::common::assembled::{
    Chosen, Level, bcmp, memchr, memcmp, memcpy, memrchr, memset, strlen,
};
use crate::common::guarded::Repeated;

const COUNT: usize = (4 << 30) + 100;

#[test]
fn more_than_four_gibibytes_are_filled_copied_compared_and_searched() {
    let mut chosen = Chosen::alone();
    let found = chosen.found();
    let streaming = Level {
        streaming_min: 1 << 20,
        ..found
    };
    let (mut a, mut b) = (Repeated::new(COUNT + 1), Repeated::new(COUNT + 1));
    let (a, b) = (a.bytes(), b.bytes());
    for (level, byte) in [(Level::BASELINE, 1), (found, 2), (streaming, 3)] {
        chosen.set(level);
        memset(&mut a[..COUNT], byte);
        a[COUNT] = 0;
        assert!(
            a[..COUNT]
                .rchunks(1 << 20)
                .next()
                .unwrap()
                .iter()
                .all(|&b| i32::from(b) == byte)
        );
        memcpy(&mut b[..COUNT], &a[..COUNT]);
        assert_eq!(i32::from(b[COUNT - 1]), byte);
        assert_eq!(memcmp(&a[..COUNT], &b[..COUNT]), 0);
        b[COUNT - 1] = 99;
        assert!(memcmp(&a[..COUNT], &b[..COUNT]) < 0);
        assert_ne!(bcmp(&a[..COUNT], &b[..COUNT]), 0);
        assert_eq!(memchr(&b[..COUNT], 99), Some(COUNT - 1));
        assert_eq!(memrchr(&b[..COUNT], 98), None);
        assert_eq!(strlen(a), COUNT);
    }
}
