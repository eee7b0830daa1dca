//! Numbers that look random and are the same for the same seed, so that anybody can repeat what was drawn.

/// The generator of Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014), with the constants
/// of Vigna's `splitmix64.c`. Not for secrets. It
/// begins with the seed.
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    /// The next number, as likely as any other.
    pub fn next_number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`. The upper half of the product is biased by less than `bound / 2^64`.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_number()) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_gives_the_reference_numbers() {
        let mut random = SplitMix64(1_234_567);
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
        ];
        assert_eq!([(); 3].map(|()| random.next_number()), expected);
    }
}
