//! What the workloads share: their arguments, their line of output, and a crate as global allocator.
//!
//! A workload is measured from outside, as a whole process, so everything here is small: no argument parser and no JSON
//! library, whose start-up and allocations would be measured too. The features `mimalloc-crate` and `jemalloc-crate`
//! stand for what a Rust project does today, with `#[global_allocator]`: reheap is compared with that.
//!
//! To add a workload: a crate `workloads/<name>` with a `main` that calls [`run`], a README line that says what it
//! stresses, and the two features handed on; then a row in `xtask/src/workloads.rs`.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write};
use std::num::{NonZeroU64, NonZeroUsize};
use std::process::ExitCode;
use std::time::{Duration, Instant};

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
}

/// How much a workload does, and on how many threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arguments {
    /// The number of threads that work at the same time.
    pub threads: NonZeroUsize,
    /// The number of operations of all threads together.
    pub amount: NonZeroU64,
}

impl Arguments {
    /// The operations of each thread: as even as possible, and `amount` in all.
    pub fn shares(self) -> impl Iterator<Item = u64> {
        let threads = self.threads.get() as u64;
        let (share, rest) = (self.amount.get() / threads, self.amount.get() % threads);
        (0..threads).map(move |thread| share + u64::from(thread < rest))
    }
}

/// The body of a workload's `main`: reads the arguments, times `work` and prints one line of JSON.
pub fn run(workload: Workload, work: impl FnOnce(Arguments) -> io::Result<()>) -> ExitCode {
    let arguments = match parse(workload, std::env::args_os().skip(1)) {
        Ok(Request::Work(arguments)) => arguments,
        Ok(Request::Help) => {
            return finish(io::stdout().write_all(help(workload).as_bytes()), workload);
        }
        Err(error) => {
            // A closed stderr leaves the exit code as the only message.
            let _ = writeln!(
                io::stderr(),
                "{}: {error}\n\n{}",
                workload.name,
                usage(workload)
            );
            return ExitCode::from(2);
        }
    };
    let started = Instant::now();
    let outcome = work(arguments).and_then(|()| {
        io::stdout().write_all(line(workload, arguments, started.elapsed()).as_bytes())
    });
    finish(outcome, workload)
}

fn finish(outcome: io::Result<()>, workload: Workload) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{}: {error}", workload.name);
            ExitCode::FAILURE
        }
    }
}

fn line(workload: Workload, arguments: Arguments, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64();
    format!(
        "{{\"workload\":\"{}\",\"threads\":{},\"operations\":{},\"seconds\":{seconds:.6},\"million_operations_per_second\":{:.3}}}\n",
        workload.name,
        arguments.threads,
        arguments.amount,
        arguments.amount.get() as f64 / seconds / 1e6,
    )
}

enum Request {
    Work(Arguments),
    Help,
}

#[derive(Debug, PartialEq, Eq)]
enum UsageError {
    UnknownArgument(OsString),
    MissingValue(&'static str),
    NotAPositiveNumber(&'static str, OsString),
}

impl fmt::Display for UsageError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UsageError::UnknownArgument(argument) => {
                write!(out, "unknown argument `{}`", argument.display())
            }
            UsageError::MissingValue(flag) => write!(out, "`{flag}` needs a value"),
            UsageError::NotAPositiveNumber(flag, value) => {
                write!(
                    out,
                    "`{flag}` needs a whole number above 0, not `{}`",
                    value.display()
                )
            }
        }
    }
}

fn parse(
    workload: Workload,
    mut arguments: impl Iterator<Item = OsString>,
) -> Result<Request, UsageError> {
    let mut parsed = Arguments {
        threads: NonZeroUsize::MIN,
        amount: workload.amount,
    };
    while let Some(argument) = arguments.next() {
        match argument.to_str() {
            Some("--threads") => parsed.threads = number("--threads", arguments.next())?,
            Some("--amount") => parsed.amount = number("--amount", arguments.next())?,
            Some("-h" | "--help") => return Ok(Request::Help),
            _ => return Err(UsageError::UnknownArgument(argument)),
        }
    }
    Ok(Request::Work(parsed))
}

fn number<N: std::str::FromStr>(
    flag: &'static str,
    value: Option<OsString>,
) -> Result<N, UsageError> {
    let value = value.ok_or(UsageError::MissingValue(flag))?;
    value
        .to_str()
        .and_then(|text| text.parse().ok())
        .ok_or(UsageError::NotAPositiveNumber(flag, value))
}

fn usage(workload: Workload) -> String {
    format!("usage: {} [--threads N] [--amount N]", workload.name)
}

fn help(workload: Workload) -> String {
    format!(
        "{}\n\n{}\n\n  --threads N  threads that work at the same time [default: 1]\n  --amount N   {} of all threads together [default: {}]\n",
        workload.about,
        usage(workload),
        workload.operations,
        workload.amount,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKLOAD: Workload = Workload {
        name: "sample",
        about: "Does nothing.",
        operations: "nothings",
        amount: NonZeroU64::new(10).unwrap(),
    };

    fn parsed(arguments: &[&str]) -> Result<Arguments, UsageError> {
        match parse(WORKLOAD, arguments.iter().map(OsString::from))? {
            Request::Work(arguments) => Ok(arguments),
            Request::Help => panic!("{arguments:?} asked for help"),
        }
    }

    fn arguments(threads: usize, amount: u64) -> Arguments {
        Arguments {
            threads: NonZeroUsize::new(threads).unwrap(),
            amount: NonZeroU64::new(amount).unwrap(),
        }
    }

    #[test]
    fn without_arguments_one_thread_does_the_default_amount() {
        assert_eq!(parsed(&[]), Ok(arguments(1, 10)));
    }

    #[test]
    fn threads_and_amount_are_read_in_any_order() {
        assert_eq!(
            parsed(&["--amount", "7", "--threads", "2"]),
            Ok(arguments(2, 7))
        );
    }

    #[test]
    fn wrong_arguments_are_refused_by_name() {
        assert_eq!(
            parsed(&["--thread", "2"]),
            Err(UsageError::UnknownArgument("--thread".into()))
        );
        assert_eq!(
            parsed(&["--amount"]),
            Err(UsageError::MissingValue("--amount"))
        );
        assert_eq!(
            parsed(&["--threads", "0"]),
            Err(UsageError::NotAPositiveNumber("--threads", "0".into()))
        );
        assert_eq!(
            parsed(&["--threads", "two"]),
            Err(UsageError::NotAPositiveNumber("--threads", "two".into()))
        );
    }

    #[test]
    fn the_shares_are_even_and_add_up_to_the_amount() {
        assert_eq!(arguments(3, 11).shares().collect::<Vec<_>>(), [4, 4, 3]);
        assert_eq!(arguments(3, 2).shares().collect::<Vec<_>>(), [1, 1, 0]);
    }

    #[test]
    fn the_line_is_one_json_object_with_the_rate() {
        assert_eq!(
            line(
                WORKLOAD,
                arguments(2, 3_000_000),
                Duration::from_millis(1500)
            ),
            "{\"workload\":\"sample\",\"threads\":2,\"operations\":3000000,\"seconds\":1.500000,\"million_operations_per_second\":2.000}\n"
        );
    }
}
