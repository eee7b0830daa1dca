//! The programs of a command that an allocator does not reach: what of the command no variant changes.

use crate::results::{Benchmark, Unreached};
use std::fmt;

/// A program without the allocator, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missed {
    /// The program, and why.
    pub unreached: Unreached,
    /// The variants with this program.
    pub variants: Vec<String>,
}

impl Missed {
    /// All of a benchmark, each program once.
    pub(crate) fn all(benchmark: &Benchmark) -> Vec<Missed> {
        let mut all: Vec<Missed> = Vec::new();
        for variant in &benchmark.variants {
            for unreached in &variant.unreached {
                match all.iter_mut().find(|known| known.unreached == *unreached) {
                    Some(known) => known.variants.push(variant.name.clone()),
                    None => all.push(Missed {
                        unreached: unreached.clone(),
                        variants: vec![variant.name.clone()],
                    }),
                }
            }
        }
        all
    }

    /// What to do about it.
    pub(crate) fn advice(&self) -> String {
        let program = &self.unreached.program;
        format!(
            "What `{program}` does is the same in every variant. If that is the work to measure, measure `{program}` \
             by itself."
        )
    }
}

impl fmt::Display for Missed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unreached { program, reason } = &self.unreached;
        match self.variants.as_slice() {
            [variant] => write!(f, "`{program}` ran without {variant}: {reason}"),
            several => {
                let several = several.len();
                write!(
                    f,
                    "`{program}` ran without the allocator in {several} variants: {reason}"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Role;
    use crate::simulated::Simulated;

    #[test]
    fn a_program_that_no_allocator_reaches_is_told_once() {
        let variants = [
            ("base", Role::Baseline, 1.0, 1e6),
            ("a", Role::Candidate, 1.0, 1e6),
            ("b", Role::Candidate, 1.0, 1e6),
        ];
        let mut benchmark = Simulated::quiet(3, 2).run(&variants);
        assert_eq!(Missed::all(&benchmark), []);
        let said = |benchmark: &Benchmark| {
            let all = Missed::all(benchmark);
            all.iter().map(Missed::to_string).collect::<Vec<_>>()
        };
        let worker = Unreached {
            program: "worker".to_owned(),
            reason: "it is static".to_owned(),
        };
        benchmark.variants[2].unreached = vec![worker.clone()];
        assert_eq!(said(&benchmark), ["`worker` ran without b: it is static"]);
        benchmark.variants[1].unreached = vec![worker];
        let of_two = "`worker` ran without the allocator in 2 variants: it is static";
        assert_eq!(said(&benchmark), [of_two]);
    }
}
