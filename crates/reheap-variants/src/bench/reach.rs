//! How far a preload reaches into a command: which of its programs run without it, and how much of the work they do.
//!
//! `./script.sh` loads every preload into its shell, and the shell allocates. If the program that does the work is
//! static, or is started by `env -i`, reheap would compare that program with itself and call the result a tie. What
//! counts is processor time: a helper without the allocator is worth a warning, the main part is not a comparison.

use reheap_allocators::probe::{Because, Observation, Without};
use reheap_allocators::target::Libc;
use reheap_bench::figures;
use reheap_bench::results::{Cost, Unreached};
use reheap_command::pulse;
use reheap_command::ui::Failure;
use reheap_workshop::preloading;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The share of the processor time that programs without the allocator may take.
pub(crate) const SHARE_MAX: f64 = 0.5;

/// What one run showed.
pub(crate) struct Reach {
    /// What showed that the library is active.
    pub(crate) seen: String,
    /// The programs without it.
    pub(crate) unreached: Vec<Unreached>,
}

impl Reach {
    /// The refusal of a variant whose allocator misses most of the work.
    pub(crate) fn refusal(&self, variant: &str, share: f64) -> Failure {
        let programs = self.unreached.iter();
        let programs: Vec<String> = programs
            .map(|Unreached { program, reason }| format!("`{program}` ({reason})"))
            .collect();
        let text = format!(
            "{variant} would not be active: {} of the CPU time is that of programs without it: {}",
            figures::percent(share),
            programs.join(", ")
        );
        Failure::failed(text).hint("measure the program that does the work by itself")
    }
}

/// Finds the programs that ran without the library. It reads each file once for all variants.
#[derive(Default)]
pub struct Unreachable {
    known: RefCell<BTreeMap<PathBuf, String>>,
}

impl Unreachable {
    /// The programs that ran without the library, which is for this libc, and why. Reading a file takes a while, so
    /// `count` does it.
    pub fn of(
        &self,
        observation: &Observation,
        libc: Libc,
        count: impl Fn(&dyn Fn() -> Option<String>) -> Option<String>,
    ) -> Vec<Unreached> {
        let without = observation.without.iter();
        let unreached = without.map(|Without { program, because }| Unreached {
            program: program
                .file_name()
                .unwrap_or_default()
                .display()
                .to_string(),
            reason: match because {
                Because::NoVariable => preloading::NO_VARIABLE.to_owned(),
                Because::OwnMalloc => "it has a malloc of its own".to_owned(),
                Because::NotLoaded => self.not_loaded_because(program, libc, &count),
            },
        });
        unreached.collect()
    }

    fn not_loaded_because(
        &self,
        program: &Path,
        libc: Libc,
        count: impl Fn(&dyn Fn() -> Option<String>) -> Option<String>,
    ) -> String {
        if let Some(known) = self.known.borrow().get(program) {
            return known.clone();
        }
        let what = format!("reading `{}`", program.display());
        let read = || preloading::unreached_because(program, libc);
        let because = count(&|| pulse::while_spinning(&what, read));
        let because = because.unwrap_or_else(|| preloading::NOT_LOADED.to_owned());
        let mut known = self.known.borrow_mut();
        known.insert(program.to_owned(), because.clone());
        because
    }
}

/// The share of the command's processor time that no process with the library took.
pub(crate) fn share_of_unreached(observation: &Observation, cost: &Cost) -> f64 {
    let all = cost.cpu_seconds();
    1.0 - (observation.time.as_secs_f64() / all.max(1e-9)).min(1.0)
}
