//! What `reheap attack` showed when reheap was made, for those who have no minute to attack.
//!
//! `cargo xtask attacks` writes the file, from the same runs as the matrix in the documentation.

use reheap_bench::recommend::Withstood;
use reheap_report::attacks::Summary;
use std::collections::BTreeMap;
use std::sync::LazyLock;

static MEASURED: LazyLock<Summary> = LazyLock::new(|| {
    serde_json::from_str(include_str!("measured.json")).expect("the file is a summary")
});

/// How these variants fared, as far as they were attacked.
pub(crate) fn withstood<'a>(
    variants: impl Iterator<Item = &'a str>,
) -> BTreeMap<String, Withstood> {
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
pub(crate) fn is_of_untuned(variant: &str) -> bool {
    !MEASURED.variants.contains_key(variant)
}

/// The attacks that one variant stops and that succeed under another.
pub(crate) fn lost(from: &str, to: &str) -> Vec<&'static str> {
    MEASURED.lost(from, to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attacking::attacks::ATTACKS;

    #[test]
    fn the_measured_attacks_are_those_that_there_are() {
        let names: Vec<&str> = ATTACKS.iter().map(|row| row.0).collect();
        assert_eq!(MEASURED.attacks, names, "run `cargo xtask attacks` again");
        for (name, column) in &MEASURED.variants {
            let count = column
                .outcomes
                .chars()
                .filter(|it| "sncx".contains(*it))
                .count();
            assert_eq!(count, names.len(), "{name}");
        }
    }

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
    fn leaving_glibc_for_a_plain_allocator_loses_what_its_checks_stop() {
        assert!(lost("glibc", "glibc+mimalloc").contains(&"double-free"));
        assert!(withstood(["glibc"].into_iter())["glibc"].stopped > 0);
    }
}
