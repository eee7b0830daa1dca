//! What `reheap attack` showed when reheap was made, for those who have no minute to attack.
//!
//! `cargo lab attacks` writes the file, from the same runs as the matrix in the documentation.

use reheap_bench::recommend::Withstood;
use reheap_report::attacks::{Outcome, Summary};
use std::collections::BTreeMap;
use std::sync::LazyLock;

static MEASURED: LazyLock<Summary> = LazyLock::new(|| {
    serde_json::from_str(include_str!("measured_attacks.json")).expect("the file is a summary")
});

/// How these variants fared, as far as they were attacked.
pub fn withstood<'a>(variants: impl Iterator<Item = &'a str>) -> BTreeMap<String, Withstood> {
    let known = variants.filter_map(|name| {
        let (stopped, succeeded, of) = MEASURED.counts(name)?;
        let withstood = Withstood {
            stopped,
            succeeded,
            of,
            is_of_untuned: is_of_untuned(name),
        };
        Some((name.to_owned(), withstood))
    });
    known.collect()
}

/// Whether only the variant without its options was attacked.
pub fn is_of_untuned(variant: &str) -> bool {
    !MEASURED.variants.contains_key(variant)
}

/// The names of the attacks, in the order of `reheap attack --list`.
pub fn attacks() -> &'static [String] {
    &MEASURED.attacks
}

/// The attacks that one variant stops and another does not, with what they come to under the other.
pub fn lost(from: &str, to: &str) -> Vec<(&'static str, Outcome)> {
    MEASURED.lost(from, to)
}

/// What each attack came to under a variant; nothing of one that was not attacked.
pub fn outcomes(variant: &str) -> BTreeMap<&'static str, Outcome> {
    MEASURED.outcomes(variant).into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use reheap_allocators::catalogue::{Allocator, CATALOGUE};

    #[test]
    fn counts_without_the_options_of_a_variant_say_so() {
        let names = [
            "glibc+mimalloc-secure",
            "glibc+mimalloc-secure[purge_delay=0]",
        ];
        let withstood = withstood(names.into_iter());
        let [plain, tuned] = names.map(|name| withstood[name].to_string());
        assert!(!plain.contains("options"), "{plain}");
        assert_eq!(tuned, format!("{plain} (attacked without its options)"));
    }

    #[test]
    fn leaving_glibc_for_another_allocator_loses_what_its_checks_stop() {
        let plain = lost("glibc", "glibc+mimalloc");
        assert!(plain.contains(&("double-free", Outcome::Succeeded)));
        assert!(plain.contains(&("free-foreign", Outcome::Crashed)));
        let hardened = lost("glibc", "glibc+mimalloc-secure");
        assert!(hardened.contains(&("double-free", Outcome::NoEffect)));
        assert!(withstood(["glibc"].into_iter())["glibc"].stopped > 0);
    }

    #[test]
    fn every_variant_has_an_outcome_of_each_attack() {
        for (name, column) in &MEASURED.variants {
            let is_outcome = |letter: &char| "sncx".contains(*letter);
            let count = column.outcomes.chars().filter(is_outcome).count();
            assert_eq!(count, MEASURED.attacks.len(), "{name}");
        }
    }

    /// The variants of a row of the catalogue.
    fn variants(row: &Allocator) -> [String; 2] {
        ["glibc", "musl"].map(|libc| match row.build {
            None => libc.to_owned(),
            Some(_) => format!("{libc}+{}", row.name),
        })
    }

    #[test]
    fn hardened_allocators_are_those_that_stop_attacks() {
        for row in CATALOGUE {
            for variant in variants(row) {
                let outcomes = outcomes(&variant);
                let stops = outcomes
                    .values()
                    .any(|outcome| *outcome == Outcome::Stopped);
                assert_eq!(row.is_hardened, stops, "{variant}");
                assert_eq!(row.hardening.starts_with("none"), !stops, "{variant}");
            }
        }
    }

    /// What the catalogue says that a build has, and the attack that must not succeed if it has it.
    const SHOWN_BY: [(&str, &str); 5] = [
        ("randomised order", "predict-next"),
        ("encoded free lists", "poisoned-list-known"),
        ("guard regions", "overflow-large"),
        ("zeroed", "stale-data"),
        ("padding behind blocks", "overflow-1"),
    ];

    #[test]
    fn what_the_catalogue_says_of_a_build_is_seen_in_the_attacks() {
        for (said, attack) in SHOWN_BY {
            let rows: Vec<&Allocator> = CATALOGUE
                .iter()
                .filter(|row| row.hardening.contains(said))
                .collect();
            assert!(!rows.is_empty(), "{said}");
            for variant in rows.into_iter().flat_map(variants) {
                let outcome = outcomes(&variant)[attack];
                assert_ne!(outcome, Outcome::Succeeded, "{variant}: {said}");
            }
        }
    }

    #[test]
    fn the_catalogue_does_not_say_what_is_stopped_because_that_is_measured() {
        for row in CATALOGUE.iter().filter(|row| row.is_hardened) {
            for word in ["stop", "ignore", "notice", "detect", "all its"] {
                for text in [row.hardening, row.summary] {
                    assert!(!text.contains(word), "{}: {text}", row.name);
                }
            }
        }
    }
}
