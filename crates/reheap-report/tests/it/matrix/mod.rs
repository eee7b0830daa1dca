//! A matrix of attacks to make reports from, made up and the same each time.

#![allow(unreachable_pub, reason = "tests of several crates use it")]

use reheap_bench::results::{AllocatorVersion, LeftOut, Machine};
use reheap_report::attacks::{
    Attack, Cell, Ending, FORMAT, Outcome, Randomisation, Results, Starts, Variant,
};

fn ending(outcome: Outcome, said: &str, runs: u32) -> Ending {
    Ending {
        outcome,
        said: said.to_owned(),
        runs,
    }
}

fn variant(name: &str, endings: [Vec<Ending>; 2]) -> Variant {
    let cell = |(attack, endings): (&str, Vec<Ending>)| Cell {
        attack: attack.to_owned(),
        endings,
    };
    Variant {
        name: name.to_owned(),
        allocator: Some(AllocatorVersion {
            name: "mimalloc".to_owned(),
            version: "2.3.2".to_owned(),
        }),
        tuning: Default::default(),
        malloc_in: "libmimalloc.so".to_owned(),
        cells: ["double-free", "uaf-read"]
            .into_iter()
            .zip(endings)
            .map(cell)
            .collect(),
        starts: Starts {
            small: vec![0x7000, 0x8000],
            large: vec![0x7000, 0x7000],
            distances: [(64, 30), (80, 10)].into(),
        },
    }
}

/// Two attacks, two variants, and one that was left out.
pub fn results() -> Results {
    let attack = |name: &str, cwe| Attack {
        name: name.to_owned(),
        cwe,
        error: "the program does it wrong".to_owned(),
        gain: "a block".to_owned(),
    };
    Results {
        reheap_attack: FORMAT,
        reheap: "0.1.0".to_owned(),
        machine: Machine {
            name: "box".to_owned(),
            architecture: "x86_64".to_owned(),
            processor: "A processor".to_owned(),
            processors: 2,
            memory_bytes: 1 << 30,
            kernel: "Linux 6.1".to_owned(),
            libc: Some("glibc 2.36".to_owned()),
            distribution: None,
            huge_pages: None,
            governor: None,
            is_virtual: false,
            load_average: None,
            no_counters_because: None,
        },
        randomisation: Randomisation::On,
        runs: 21,
        attacks: vec![attack("double-free", 415), attack("uaf-read", 416)],
        variants: vec![
            variant(
                "glibc",
                [
                    vec![ending(Outcome::Stopped, "free(): double free", 21)],
                    vec![
                        ending(Outcome::Crashed, "SIGSEGV", 14),
                        ending(Outcome::Succeeded, "got the secret", 7),
                    ],
                ],
            ),
            variant(
                "glibc+mimalloc",
                [
                    vec![ending(Outcome::Succeeded, "got one block", 21)],
                    vec![ending(Outcome::NoEffect, "the secret is gone", 21)],
                ],
            ),
        ],
        left_out: vec![LeftOut {
            name: "musl".to_owned(),
            reason: "there is no compiler".to_owned(),
        }],
    }
}
