//! What an allocator in a user's file does with the calls of a small program that checks it (`checker/checker.c`).
//!
//! What the program prints stays in the cache, under the hashes of the file and of the program. So each build of an
//! allocator is checked once.

use crate::cache::{Cache, CacheError, hash};
use crate::catalogue::file::AllocatorFile;
use crate::program::Program;
use crate::target::Target;
use std::fs;
use std::path::PathBuf;

/// The program. Its compiler must not take calls out because it knows what malloc does.
pub const CHECKER: Program = Program {
    name: "checker",
    source: include_str!("../checker/checker.c"),
    compiler_flags: &["-std=gnu11", "-O1", "-fno-builtin", "-pthread"],
};

/// The kind of entry in the cache, and the file in it.
const ENTRIES: &str = "checks";
const PRINTED: &str = "printed.txt";

/// What the checks of an allocator showed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// The file that the program's malloc was in.
    pub malloc_in: Option<PathBuf>,
    /// How many checks passed.
    pub passed: usize,
    /// What the others said.
    pub faults: Vec<String>,
}

impl Findings {
    /// Reads what the program printed. `name_of` names signals.
    pub fn parse(printed: &str, name_of: impl Fn(i32) -> Option<&'static str>) -> Self {
        let mut findings = Self::default();
        for line in printed.lines() {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            let (check, detail) = rest.split_once(": ").unwrap_or((rest, ""));
            match word {
                "malloc" => findings.malloc_in = Some(PathBuf::from(rest)),
                "passed" => findings.passed += 1,
                "failed" => findings.faults.push(detail.to_owned()),
                "crashed" => {
                    let signal = detail.parse().ok().and_then(&name_of).unwrap_or(detail);
                    let fault = format!("the check `{check}` ended by {signal}");
                    findings.faults.push(fault);
                }
                _ => findings
                    .faults
                    .push(format!("the check `{check}` did not end")),
            }
        }
        findings
    }

    /// How many checks passed, and what the others said. Several may fail for one reason.
    pub fn in_words(&self) -> String {
        let (passed, all) = (self.passed, self.passed + self.faults.len());
        let mut faults: Vec<&str> = Vec::new();
        for fault in &self.faults {
            if !faults.contains(&fault.as_str()) {
                faults.push(fault);
            }
        }
        if faults.is_empty() {
            format!("it passed all {all} checks")
        } else {
            format!("it passed {passed} of {all} checks: {}", faults.join("; "))
        }
    }
}

/// What the program printed when it checked this file for a target, if it did.
pub fn printed(file: &AllocatorFile, target: &Target, cache: &Cache) -> Option<String> {
    let entry = cache.root().join(ENTRIES).join(entry(file, target));
    fs::read_to_string(entry.join(PRINTED)).ok()
}

/// Keeps what it printed.
///
/// # Errors
/// When the cache cannot be written.
pub fn keep(
    printed: &str,
    file: &AllocatorFile,
    target: &Target,
    cache: &Cache,
) -> Result<(), CacheError> {
    cache.entry(ENTRIES, &entry(file, target), |unfinished| {
        let path = unfinished.join(PRINTED);
        fs::write(&path, printed).map_err(CacheError::new("write", &path))
    })?;
    Ok(())
}

fn entry(file: &AllocatorFile, target: &Target) -> String {
    let key = hash([file.sha256.as_bytes(), CHECKER.key(target).as_bytes()]);
    format!("{}-{target}-{}", file.name, &key[..16])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_program_prints_becomes_a_sentence() {
        let printed = "malloc /lib/libmine.so\npassed blocks\n\
                       failed calloc: calloc does not set errno\ncrashed threads: 11\nhung fork\n";
        let findings = Findings::parse(printed, |number| (number == 11).then_some("SIGSEGV"));
        assert_eq!(findings.malloc_in, Some("/lib/libmine.so".into()));
        assert_eq!(
            findings.in_words(),
            "it passed 1 of 4 checks: calloc does not set errno; the check `threads` ended by SIGSEGV; \
             the check `fork` did not end"
        );
        let good = Findings::parse("malloc /x\npassed blocks\npassed fork\n", |_| None);
        assert_eq!(good.in_words(), "it passed all 2 checks");
    }
}
