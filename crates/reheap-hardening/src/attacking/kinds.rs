//! What a variant stops, in a line of words: by kinds of attacks, from the matrix that reheap carries.
//!
//! The words are never written by hand, so they cannot say more than what was measured.

use reheap_report::attacks::Outcome;
use reheap_variants::measured_attacks;

/// Each attack is of one kind.
const KINDS: [(&str, &[&str]); 9] = [
    (
        "double frees",
        &[
            "double-free",
            "double-free-between",
            "double-free-thread",
            "double-free-large",
            "realloc-after-free",
        ],
    ),
    (
        "invalid frees",
        &[
            "free-interior",
            "free-stack",
            "free-foreign",
            "fake-chunk",
            "sized-free",
        ],
    ),
    (
        "overflows",
        &[
            "overflow-1",
            "overflow-8",
            "overflow-64",
            "overflow-64-old",
            "overflow-page",
            "overflow-large",
        ],
    ),
    (
        "underflows",
        &["underflow-1", "underflow-8", "underflow-64"],
    ),
    (
        "uses of freed blocks",
        &["uaf-read", "uaf-write", "uaf-reuse", "uaf-call"],
    ),
    (
        "forged lists",
        &[
            "poisoned-list",
            "poisoned-list-known",
            "freed-neighbour",
            "unlink",
        ],
    ),
    (
        "leaks",
        &[
            "overread",
            "uninitialised-read",
            "stale-data",
            "stale-data-large",
        ],
    ),
    ("errors of threads", &["realloc-race", "thread-reuse"]),
    ("predictions", &["predict-next"]),
];

/// The kinds of which a variant stops some: `4 of 6 overflows, 2 of 3 underflows`. None if it was not attacked.
pub fn stopped(variant: &str) -> Option<String> {
    let outcomes = measured_attacks::outcomes(variant);
    if outcomes.is_empty() {
        return None;
    }
    let stopped = KINDS.iter().filter_map(|(kind, attacks)| {
        let is_stopped = |attack: &&&str| outcomes.get(**attack) == Some(&Outcome::Stopped);
        match attacks.iter().filter(is_stopped).count() {
            0 => None,
            some => Some(format!("{some} of {} {kind}", attacks.len())),
        }
    });
    let stopped: Vec<String> = stopped.collect();
    Some(if stopped.is_empty() {
        "nothing".to_owned()
    } else {
        stopped.join(", ")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attacking::attacks::ATTACKS;

    #[test]
    fn each_attack_is_of_one_kind() {
        let mut known: Vec<&str> = ATTACKS.iter().map(|row| row.0).collect();
        let mut named: Vec<&str> = KINDS.iter().flat_map(|kind| kind.1).copied().collect();
        known.sort_unstable();
        named.sort_unstable();
        assert_eq!(named, known);
    }

    /// These were said to be stopped before anybody looked: mimalloc-secure does not stop invalid frees, nor
    /// snmalloc-checks writes to freed blocks, nor musl invalid frees.
    #[test]
    fn nothing_is_called_stopped_that_is_not() {
        for (variant, kind) in [
            ("glibc+mimalloc-secure", "invalid frees"),
            ("glibc+snmalloc-checks", "uses of freed blocks"),
            ("glibc+snmalloc-checks", "overflows"),
            ("musl", "invalid frees"),
        ] {
            let said = stopped(variant).unwrap();
            assert!(!said.contains(kind), "{variant}: {said}");
        }
        assert_eq!(stopped("glibc+mimalloc").as_deref(), Some("nothing"));
        assert_eq!(stopped("glibc+unheard-of"), None);
    }

    #[test]
    fn the_kinds_add_up_to_all_that_is_stopped() {
        let variant = "musl+hardened_malloc[a=b]";
        let said = stopped(variant).unwrap();
        let counts = said
            .split(", ")
            .map(|count| count.split(' ').next().unwrap());
        let sum: usize = counts.map(|count| count.parse::<usize>().unwrap()).sum();
        let all = measured_attacks::withstood([variant].into_iter());
        assert_eq!(sum, all[variant].stopped, "{said}");
    }
}
