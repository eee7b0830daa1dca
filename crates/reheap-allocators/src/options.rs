//! The options of an allocator, as its row in the catalogue lists them.

/// An option of an allocator.
#[derive(Debug)]
pub struct TuningOption {
    /// What the user types before the `=`.
    pub key: &'static str,
    /// What may follow the `=`.
    pub domain: Domain,
    /// How the allocator is told.
    pub applied: Applied,
    /// What reheap sets when the user does not, where that differs from upstream's default. Written as the user types
    /// it.
    pub preset: Option<&'static str>,
    /// What it does.
    pub summary: &'static str,
    /// Values that a search for the best setting tries: those with the largest effects, in opposite directions.
    pub worth_trying: &'static [&'static str],
}

/// The values that an option accepts.
#[derive(Debug, Clone, Copy)]
pub enum Domain {
    /// Whole milliseconds, and `-1` for never where that is allowed.
    Milliseconds {
        /// Whether `-1` is allowed.
        never: bool,
    },
    /// A whole number.
    Count {
        /// The least one.
        least: u64,
        /// The greatest one.
        most: u64,
    },
    /// A number of bytes.
    Bytes,
    /// One of these words, each with the allocator's own word for it.
    OneOf(&'static [(&'static str, &'static str)]),
}

/// How reheap passes an option to an allocator, linked or preloaded.
#[derive(Debug, Clone, Copy)]
pub enum Applied {
    /// By an environment variable, which reheap can bake in.
    Environment(&'static str),
    /// By a key of jemalloc's `malloc_conf`, or of its environment variable.
    MallocConf(&'static str),
    /// By a tunable of glibc, which only the environment can set.
    GlibcTunable(&'static str),
    /// By several tunables of glibc. What a word of [`Domain::OneOf`] means is what to set, between colons.
    GlibcTunables,
}

impl TuningOption {
    /// The preset, as the allocator reads it.
    pub(crate) fn preset_meant(&self) -> Option<String> {
        let preset = self.preset?;
        let meant = self.domain.accept(preset);
        assert!(
            meant.is_some(),
            "`{}` refuses its preset `{preset}`",
            self.key
        );
        meant
    }
}

impl std::fmt::Display for Domain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Milliseconds { never: true } => {
                f.write_str("whole milliseconds, or -1 for never")
            }
            Self::Milliseconds { never: false } => f.write_str("whole milliseconds"),
            Self::Count { least, most } => write!(f, "a whole number from {least} to {most}"),
            Self::Bytes => f.write_str("a number of bytes"),
            Self::OneOf(words) => {
                let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                f.write_str(&words.join(" or "))
            }
        }
    }
}

impl Domain {
    /// The allocator's own spelling of the user's value; `None` if the option does not accept it.
    pub(crate) fn accept(self, value: &str) -> Option<String> {
        match self {
            Self::Milliseconds { never: true } if value == "-1" => Some(value.to_owned()),
            Self::Milliseconds { .. } => value.parse::<u32>().ok().map(|n| n.to_string()),
            Self::Count { least, most } => value
                .parse::<u64>()
                .ok()
                .filter(|n| (least..=most).contains(n))
                .map(|n| n.to_string()),
            Self::Bytes => value
                .parse::<u64>()
                .ok()
                .filter(|n| i64::try_from(*n).is_ok())
                .map(|n| n.to_string()),
            Self::OneOf(words) => words
                .iter()
                .find(|(word, _)| *word == value)
                .map(|(_, meant)| (*meant).to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::catalogue::CATALOGUE;

    #[test]
    fn every_preset_and_every_value_worth_trying_is_accepted_and_they_differ() {
        for option in CATALOGUE.iter().flat_map(|row| row.tuning) {
            let preset = option.preset_meant();
            for value in option.worth_trying {
                let meant = option.domain.accept(value);
                assert!(meant.is_some(), "{}={value}", option.key);
                assert_ne!(meant, preset, "{}={value}", option.key);
            }
        }
    }
}
