//! What the workloads share: their arguments, their line of output, and a crate as global allocator.
//!
//! A workload is measured from outside, as a whole process, so everything here is small: no argument parser and no JSON
//! library, whose start-up and allocations would be measured too. For the same reason the line says nothing of time,
//! and is the same in every run: a benchmark can tell from it that all variants computed the same.
//!
//! The features `mimalloc-crate` and `jemalloc-crate` stand for what a Rust project does today, with
//! `#[global_allocator]`: reheap is compared with that.
//!
//! To add a workload: a crate `workloads/<name>` with a `main` that calls [`run`], a README line that says what it
//! stresses, and the two features handed on. One with many dependencies goes to `lab/workloads/`. Then `make bench`
//! has to know it: `lab/src/programs.rs`.

mod arguments;
mod digest;
mod random;

pub use arguments::Arguments;
pub use digest::Digest;
pub use random::Random;

use arguments::{Request, parse};
use std::io::{self, Write};
use std::num::{NonZeroU64, NonZeroUsize};
use std::process::ExitCode;

#[cfg(all(feature = "mimalloc-crate", feature = "jemalloc-crate"))]
compile_error!("a program has one global allocator: choose `mimalloc-crate` or `jemalloc-crate`");

#[cfg(all(feature = "mimalloc-crate", not(feature = "jemalloc-crate")))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[cfg(all(feature = "jemalloc-crate", not(feature = "mimalloc-crate")))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// What a workload says about itself.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// The program's name.
    pub name: &'static str,
    /// One sentence: what it does.
    pub about: &'static str,
    /// What `--amount` counts, in the plural.
    pub operations: &'static str,
    /// How many operations are done when `--amount` is not given.
    pub amount: NonZeroU64,
    /// The file that has to be given, as the usage calls it: `MODULE`; none where the workload reads none.
    pub file: Option<&'static str>,
}

/// The body of a workload's `main`: reads the arguments, does `work` and prints one line of JSON.
///
/// `work` returns the digest of what it computed, or none where that is random, or nothing.
pub fn run(
    workload: Workload,
    work: impl FnOnce(Arguments) -> io::Result<Option<Digest>>,
) -> ExitCode {
    let outcome = match parse(workload, std::env::args_os().skip(1)) {
        Ok(Request::Work(arguments)) => {
            let (threads, amount) = (arguments.threads, arguments.amount);
            work(arguments).map(|digest| line(workload, threads, amount, digest))
        }
        Ok(Request::Help) => Ok(arguments::help(workload)),
        Err(error) => {
            let usage = arguments::usage(workload);
            // A closed stderr leaves the exit code as the only message.
            let _ = writeln!(io::stderr(), "{}: {error}\n\n{usage}", workload.name);
            return ExitCode::from(2);
        }
    };
    match outcome.and_then(|text| io::stdout().write_all(text.as_bytes())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{}: {error}", workload.name);
            ExitCode::FAILURE
        }
    }
}

fn line(
    workload: Workload,
    threads: NonZeroUsize,
    amount: NonZeroU64,
    digest: Option<Digest>,
) -> String {
    let name = workload.name;
    let digest = digest.map_or_else(String::new, |digest| format!(r#","digest":"{digest}""#));
    format!(r#"{{"workload":"{name}","threads":{threads},"operations":{amount}{digest}}}"#) + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKLOAD: Workload = Workload {
        name: "sample",
        about: "Does nothing.",
        operations: "nothings",
        amount: NonZeroU64::new(10).unwrap(),
        file: None,
    };

    #[test]
    fn the_line_is_one_json_object_that_is_the_same_in_every_run() {
        let (threads, amount) = (NonZeroUsize::new(2).unwrap(), NonZeroU64::new(3).unwrap());
        assert_eq!(
            line(WORKLOAD, threads, amount, None),
            "{\"workload\":\"sample\",\"threads\":2,\"operations\":3}\n"
        );
        assert_eq!(
            line(WORKLOAD, threads, amount, Some(Digest::default())),
            "{\"workload\":\"sample\",\"threads\":2,\"operations\":3,\"digest\":\"0000000000000000\"}\n"
        );
    }
}
