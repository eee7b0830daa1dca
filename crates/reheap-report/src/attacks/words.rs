//! What all forms say in the same words.

use crate::attacks::matrix::{Share, Tally};
use crate::attacks::results::{Outcome, Randomisation, Results};

/// An outcome in one word or two.
pub(crate) fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Stopped => "stopped",
        Outcome::NoEffect => "no effect",
        Outcome::Crashed => "crashed",
        Outcome::Succeeded => "succeeded",
    }
}

/// What each outcome means.
pub(crate) const LEGEND: [(Outcome, &str); 4] = [
    (
        Outcome::Stopped,
        "the allocator noticed the error and ended the program",
    ),
    (
        Outcome::NoEffect,
        "the program ran on, and the attacker got nothing",
    ),
    (
        Outcome::Crashed,
        "a fault that nobody detected, at a guard page or by accident, or a hang",
    ),
    (
        Outcome::Succeeded,
        "the program proved that the attacker got what they wanted",
    ),
];

/// A cell: the outcome, and its share where not all runs agree.
pub(crate) fn cell(share: &Share<'_>) -> String {
    let word = outcome(share.outcome);
    if share.is_unanimous() {
        word.to_owned()
    } else {
        format!("{word} {}/{}", share.runs, share.of)
    }
}

/// `CWE-415`.
pub(crate) fn cwe(number: u16) -> String {
    format!("CWE-{number}")
}

/// The rows below the attacks: a name, and how each variant's figure is said.
pub(crate) type Row = (&'static str, fn(&Tally) -> String);

/// The rows below the attacks.
pub(crate) const SUMS: [Row; 6] = [
    ("stopped", |tally| of(tally.stopped, tally)),
    ("succeeded", |tally| of(tally.succeeded, tally)),
    ("succeeded in some runs", |tally| {
        of(tally.succeeded_sometimes, tally)
    }),
    ("entropy of a block of 64 bytes", |tally| {
        in_bits(tally.small_bits)
    }),
    ("entropy of a block of 1 MiB", |tally| {
        in_bits(tally.large_bits)
    }),
    ("distance to the next block guessed", |tally| {
        format!("{:.0} %", tally.distance_guessed * 100.0)
    }),
];

fn of(count: usize, tally: &Tally) -> String {
    format!("{count} of {}", tally.of)
}

fn in_bits(bits: f64) -> String {
    format!("{bits:.0} bits")
}

/// How it was done, in a sentence.
pub(crate) fn how(results: &Results) -> String {
    let random = match results.randomisation {
        Randomisation::On => "with random addresses",
        Randomisation::Partly => "with addresses that are only partly random",
        Randomisation::Off => "WITHOUT random addresses",
    };
    let runs = match results.runs {
        1 => "1 run".to_owned(),
        runs => format!("{runs} runs"),
    };
    format!("{runs} of each attack under each variant, {random}")
}

/// The machine in a line.
pub(crate) fn machine(results: &Results) -> String {
    let machine = &results.machine;
    let known = [
        Some(format!(
            "{}, {} processors",
            machine.architecture, machine.processors
        )),
        Some(machine.kernel.clone()),
        machine.distribution.clone(),
        machine.libc.clone(),
        Some(format!("reheap {}", results.reheap)),
    ];
    known.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// What to say if addresses were not random: the results mean less.
pub(crate) fn warning(results: &Results) -> Option<&'static str> {
    match results.randomisation {
        Randomisation::On => None,
        Randomisation::Partly => Some(
            "The kernel does not randomise the heap behind the program (kernel.randomize_va_space=1): some attacks succeed \
             more easily than they would elsewhere.",
        ),
        Randomisation::Off => Some(
            "Address randomisation is off (kernel.randomize_va_space, or `setarch -R`): some attacks succeed more easily \
             than they would elsewhere, and no address has entropy.",
        ),
    }
}
