//! An endless text: lines of words of which the n-th most frequent one comes with a probability in proportion to 1/n
//! (Zipf's law).

use workload::Random;

/// How many words the language has.
const WORDS: u64 = 30_000;
/// How many words a line has at most.
const LINE_WORDS: u64 = 40;
/// What is divided by n. Whole numbers, so that the text does not depend on how a machine rounds.
const WEIGHT: u64 = 1 << 32;

/// The lines, one after the other, without end.
pub(crate) struct Text {
    random: Random,
    words: Vec<String>,
    /// The weights of all words up to this one.
    sums: Vec<u64>,
}

impl Text {
    pub(crate) fn from_seed(seed: u64) -> Text {
        let mut random = Random::from_seed(seed);
        let words = (0..WORDS).map(|_| word(&mut random)).collect();
        let sums = (1..=WORDS).scan(0, |sum, rank| {
            *sum += WEIGHT / rank;
            Some(*sum)
        });
        Text {
            sums: sums.collect(),
            words,
            random,
        }
    }

    fn next_word(&mut self) -> &str {
        let all = self.sums[self.sums.len() - 1];
        let point = self.random.below(all);
        &self.words[self.sums.partition_point(|sum| *sum <= point)]
    }
}

impl Iterator for Text {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let words = 1 + self.random.below(LINE_WORDS);
        let mut line = String::new();
        for _ in 0..words {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(self.next_word());
        }
        line.push('.');
        Some(line)
    }
}

/// One to four syllables.
fn word(random: &mut Random) -> String {
    const CONSONANTS: [&str; 16] = [
        "b", "d", "f", "g", "h", "k", "l", "m", "n", "p", "r", "s", "t", "v", "st", "tr",
    ];
    const VOWELS: [&str; 6] = ["a", "e", "i", "o", "u", "ea"];
    let syllables = 1 + random.below(4);
    let mut word = String::new();
    for _ in 0..syllables {
        for sounds in [&CONSONANTS[..], &VOWELS] {
            word.push_str(sounds[random.below(sounds.len() as u64) as usize]);
        }
    }
    word
}
