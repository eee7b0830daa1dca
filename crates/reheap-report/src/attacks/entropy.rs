//! How well an attacker can guess an address.
//!
//! Some hundred starts cannot show more than some eight bits directly. But the kernel and allocators choose addresses
//! evenly from a range, so two bounds tell more: how far the addresses are apart, in steps of what all have in common,
//! and how evenly each bit is 0 or 1. Each alone can be too high: the first if a range has holes, the second if bits
//! depend on each other, as the upper ones do where a range begins at an odd place. The lower of both is shown.

/// The bits that an attacker would have to guess.
pub(crate) fn bits(addresses: &[u64]) -> f64 {
    by_range(addresses).min(by_bit(addresses))
}

fn by_range(addresses: &[u64]) -> f64 {
    let (Some(least), Some(most)) = (addresses.iter().min(), addresses.iter().max()) else {
        return 0.0;
    };
    let step = addresses
        .iter()
        .fold(0, |step, address| divisor(step, address - least));
    if step == 0 {
        return 0.0; // all are the same
    }
    // Of n even choices, the range that is seen is (n-1)/(n+1) of the whole one on average.
    let count = addresses.len() as f64;
    let range = (most - least) as f64 * (count + 1.0) / (count - 1.0);
    (range / step as f64 + 1.0).log2()
}

fn by_bit(addresses: &[u64]) -> f64 {
    let count = addresses.len() as f64;
    let of_bit = |bit: u32| {
        let ones = addresses
            .iter()
            .filter(|address| *address >> bit & 1 == 1)
            .count() as f64
            / count;
        [ones, 1.0 - ones]
            .iter()
            .filter(|share| **share > 0.0)
            .map(|share| -share * share.log2())
            .sum::<f64>()
    };
    if addresses.is_empty() {
        return 0.0;
    }
    (0..64).map(of_bit).sum()
}

/// The greatest common divisor.
fn divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers without an order that could matter here: a multiplicative generator (Lehmer).
    fn even(count: usize, below: u64) -> Vec<u64> {
        let mut state: u64 = 42;
        let mut next = || {
            state = state * 48271 % 2_147_483_647;
            state
        };
        (0..count)
            .map(|_| (next() << 31 | next()) % below)
            .collect()
    }

    #[test]
    fn addresses_that_never_change_have_no_entropy() {
        assert_eq!(bits(&[0x5555_5555_92a0; 200]), 0.0);
        assert_eq!(bits(&[]), 0.0);
        assert_eq!(bits(&[7]), 0.0);
    }

    #[test]
    fn as_many_bits_as_were_chosen_are_seen() {
        for chosen in [4, 8, 20, 28] {
            // A page's number is chosen, in a range that begins at an odd place.
            let pages = even(200, 1 << chosen);
            let addresses: Vec<u64> = pages
                .iter()
                .map(|page| 0x5555_5555_5000 + page * 4096)
                .collect();
            let seen = bits(&addresses);
            assert!((seen - f64::from(chosen)).abs() < 0.3, "{chosen}: {seen}");
        }
    }
}
