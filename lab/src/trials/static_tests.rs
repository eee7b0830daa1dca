//! What a test suite says: Rust's `test name ... ok`, automake's `PASS: name`.

use super::records::{Tests, Verdict};
use std::collections::BTreeSet;

/// The tests by name, with that of their executable in front where there is one.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Suite {
    pub(super) passed: BTreeSet<String>,
    pub(super) failed: BTreeSet<String>,
    /// The executables that ran, as Cargo names them.
    pub(super) executables: Vec<String>,
}

impl Suite {
    pub(super) fn parse(log: &str) -> Suite {
        let mut suite = Suite::default();
        let mut running = "";
        for line in log.lines().map(str::trim) {
            if let Some((what, executable)) = cargo_starts(line) {
                running = what;
                suite.executables.push(executable.to_owned());
            } else if let Some((name, passed)) = rust_test(line) {
                suite.add(format!("{running}: {name}"), passed);
            } else if let Some((name, passed)) = automake_test(line) {
                suite.add(name.to_owned(), passed);
            }
        }
        suite
    }

    fn add(&mut self, name: String, passed: bool) {
        let results = if passed {
            &mut self.passed
        } else {
            &mut self.failed
        };
        results.insert(name);
    }

    pub(super) fn summary(&self) -> Tests {
        Tests {
            passed: self.passed.len(),
            failed: self.failed.iter().cloned().collect(),
        }
    }

    /// How this suite compares with the one that had musl's own allocator.
    pub(super) fn judge(&self, stock: &Suite) -> Verdict {
        if let Some(name) = self.failed.difference(&stock.failed).next() {
            return Verdict::Differs(format!("`{name}` fails"));
        }
        if let Some(name) = stock.failed.difference(&self.failed).next() {
            return Verdict::Differs(format!("`{name}` does not fail"));
        }
        if let Some(name) = stock.passed.difference(&self.passed).next() {
            return Verdict::Differs(format!("`{name}` did not run"));
        }
        Verdict::Same
    }
}

/// `Running unittests src/lib.rs (target/…/name-hash)`.
fn cargo_starts(line: &str) -> Option<(&str, &str)> {
    let (what, rest) = line.strip_prefix("Running ")?.rsplit_once(" (")?;
    Some((what, rest.strip_suffix(')')?))
}

fn rust_test(line: &str) -> Option<(&str, bool)> {
    let (name, outcome) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    match outcome {
        "ok" => Some((name, true)),
        "FAILED" => Some((name, false)),
        _ => None,
    }
}

fn automake_test(line: &str) -> Option<(&str, bool)> {
    let (outcome, name) = line.split_once(": ")?;
    match outcome {
        "PASS" | "XFAIL" => Some((name, true)),
        "FAIL" | "XPASS" | "ERROR" => Some((name, false)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "     Running unittests src/lib.rs (target/debug/deps/one-12)\n\ntest a::b ... ok\n\
        test c - should panic ... ok\ntest d ... ignored\n     Running tests/e.rs (target/debug/deps/e-34)\n\
        test a::b ... FAILED\nPASS: check.sh\nFAIL: other.sh\n";

    #[test]
    fn tests_of_the_same_name_in_two_executables_are_two() {
        let suite = Suite::parse(LOG);
        let passed = [
            "check.sh",
            "unittests src/lib.rs: a::b",
            "unittests src/lib.rs: c - should panic",
        ];
        assert!(suite.passed.iter().eq(passed.iter()), "{:?}", suite.passed);
        assert!(
            suite
                .failed
                .iter()
                .eq(["other.sh", "tests/e.rs: a::b"].iter())
        );
        assert_eq!(
            suite.executables,
            ["target/debug/deps/one-12", "target/debug/deps/e-34"]
        );
    }

    #[test]
    fn what_fails_with_musls_allocator_too_is_the_same() {
        let stock = Suite::parse(LOG);
        assert_eq!(Suite::parse(LOG).judge(&stock), Verdict::Same);
        let worse = Suite::parse(&LOG.replace("PASS", "FAIL")).judge(&stock);
        assert_eq!(worse, Verdict::Differs("`check.sh` fails".to_owned()));
        let cut_off = Suite::parse(LOG.split_once("test c").unwrap().0).judge(&Suite::parse(
            LOG.split_once("     Running tests").unwrap().0,
        ));
        let not_run = "`unittests src/lib.rs: c - should panic` did not run".to_owned();
        assert_eq!(cut_off, Verdict::Differs(not_run));
    }
}
