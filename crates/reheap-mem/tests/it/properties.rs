//! Random blocks against slices, where the tests that go through every case have not thought of one.

use crate::common::assembled::*;
use crate::common::numbered;
use proptest::prelude::*;

/// Any offset, and any count of up to some pages; small ones more often.
fn offset_and_count() -> impl Strategy<Value = (usize, usize)> {
    (
        0..4200usize,
        prop_oneof![0..70usize, 0..600usize, 0..20_000usize],
    )
}

/// Few different bytes, so that they are often found, and no zero among them.
fn text() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(b'a'..b'd', 0..700)
}

proptest! {
    #[test]
    fn moving_is_what_copy_within_does((to, count) in offset_and_count(), from in 0..4200usize) {
        at_every_level(|_| {
            let mut moved = numbered(to.max(from) + count + 64);
            let mut expected = moved.clone();
            expected.copy_within(from..from + count, to);
            memmove(&mut moved, to, from, count);
            assert!(moved == expected);
        });
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn filling_is_what_fill_does((offset, count) in offset_and_count(), byte: u8) {
        at_every_level(|_| {
            let mut filled = numbered(offset + count + 64);
            let mut expected = filled.clone();
            expected[offset..][..count].fill(byte);
            memset(&mut filled[offset..][..count], byte.into());
            assert!(filled == expected);
        });
    }

    #[test]
    fn comparing_is_the_order_of_slices(a in text(), b in text()) {
        at_every_level(|_| {
            let count = a.len().min(b.len());
            let expected = a[..count].cmp(&b[..count]);
            assert_eq!(memcmp(&a[..count], &b[..count]).cmp(&0), expected);
            assert_eq!(bcmp(&a[..count], &b[..count]) == 0, expected.is_eq());
            let ended = |text: &[u8]| [text, &[0]].concat();
            assert_eq!(strcmp(&ended(&a), &ended(&b)).cmp(&0), a.cmp(&b));
            let count = count / 2;
            let expected = a[..count].cmp(&b[..count]);
            assert_eq!(strncmp(&ended(&a), &ended(&b), count).cmp(&0), expected);
        });
    }

    #[test]
    fn searching_is_what_position_does(text in text(), byte in b'a'..b'f') {
        at_every_level(|_| {
            let first = text.iter().position(|&b| b == byte);
            assert_eq!(memchr(&text, byte.into()), first);
            assert_eq!(memrchr(&text, byte.into()), text.iter().rposition(|&b| b == byte));
            let string = [&text[..], &[0]].concat();
            assert_eq!(strlen(&string), text.len());
            assert_eq!(strchr(&string, byte.into()), first);
            assert_eq!(strchrnul(&string, byte.into()), first.unwrap_or(text.len()));
        });
    }
}
