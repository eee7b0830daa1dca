//! What a workload is told on its command line.
//!
//! The same few options for all of them, so a benchmark can sweep over them without knowing which workload it runs.

use crate::Workload;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::thread;

/// How much a workload does, and on how many threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arguments {
    /// The number of threads that work at the same time.
    pub threads: NonZeroUsize,
    /// The number of operations of all threads together.
    pub amount: NonZeroU64,
    /// The file to read: there is one if and only if [`Workload::file`] asks for it.
    pub file: Option<PathBuf>,
}

impl Arguments {
    /// The operations of each thread: as even as possible, and `amount` in all.
    pub fn shares(&self) -> impl Iterator<Item = u64> {
        let threads = self.threads.get() as u64;
        let (share, rest) = (self.amount.get() / threads, self.amount.get() % threads);
        (0..threads).map(move |thread| share + u64::from(thread < rest))
    }

    /// Does each thread's share on a thread of its own, and returns what they made, in the order of the threads.
    ///
    /// # Errors
    /// The first error of `work`, in the order of the threads, or why a thread could not be started or panicked.
    pub fn on_threads<T: Send>(
        &self,
        work: impl Fn(u64) -> io::Result<T> + Sync,
    ) -> io::Result<Vec<T>> {
        thread::scope(|scope| {
            let work = &work;
            let spawn = |share| thread::Builder::new().spawn_scoped(scope, move || work(share));
            let threads: Vec<_> = self.shares().map(spawn).collect::<io::Result<_>>()?;
            let panicked = |_| io::Error::other("a thread panicked");
            let results = threads.into_iter();
            results
                .map(|thread| thread.join().map_err(panicked)?)
                .collect()
        })
    }
}

pub(crate) enum Request {
    Work(Arguments),
    Help,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum UsageError {
    UnknownArgument(OsString),
    MissingFile(&'static str),
    MissingValue(&'static str),
    NotAPositiveNumber(&'static str, OsString),
}

impl fmt::Display for UsageError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UsageError::UnknownArgument(argument) => {
                write!(out, "unknown argument `{}`", argument.display())
            }
            UsageError::MissingFile(file) => write!(out, "the file {file} is missing"),
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

pub(crate) fn parse(
    workload: Workload,
    mut arguments: impl Iterator<Item = OsString>,
) -> Result<Request, UsageError> {
    let mut parsed = Arguments {
        threads: NonZeroUsize::MIN,
        amount: workload.amount,
        file: None,
    };
    while let Some(argument) = arguments.next() {
        match argument.to_str() {
            Some("--threads") => parsed.threads = number("--threads", arguments.next())?,
            Some("--amount") => parsed.amount = number("--amount", arguments.next())?,
            Some("-h" | "--help") => return Ok(Request::Help),
            _ if is_file(workload, &parsed, &argument) => parsed.file = Some(argument.into()),
            _ => return Err(UsageError::UnknownArgument(argument)),
        }
    }
    if let (Some(file), None) = (workload.file, &parsed.file) {
        return Err(UsageError::MissingFile(file));
    }
    Ok(Request::Work(parsed))
}

/// Whether an argument is the file that the workload still waits for.
fn is_file(workload: Workload, parsed: &Arguments, argument: &OsStr) -> bool {
    workload.file.is_some()
        && parsed.file.is_none()
        && !argument.as_encoded_bytes().starts_with(b"-")
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

pub(crate) fn usage(workload: Workload) -> String {
    let file = workload
        .file
        .map_or_else(String::new, |file| format!(" {file}"));
    format!("usage: {} [--threads N] [--amount N]{file}", workload.name)
}

pub(crate) fn help(workload: Workload) -> String {
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
        file: None,
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
            file: None,
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
    fn a_workload_that_reads_a_file_gets_one_and_no_other_takes_one() {
        let reads = Workload {
            file: Some("MODULE"),
            ..WORKLOAD
        };
        let parse = |workload, arguments: &[&str]| {
            let arguments = arguments.iter().map(OsString::from);
            match super::parse(workload, arguments)? {
                Request::Work(arguments) => Ok(arguments.file),
                Request::Help => panic!("asked for help"),
            }
        };
        assert_eq!(
            parse(reads, &["a.wasm", "--threads", "2"]),
            Ok(Some("a.wasm".into()))
        );
        assert_eq!(parse(reads, &[]), Err(UsageError::MissingFile("MODULE")));
        assert_eq!(
            parse(reads, &["a.wasm", "b.wasm"]),
            Err(UsageError::UnknownArgument("b.wasm".into()))
        );
        assert_eq!(
            parse(WORKLOAD, &["a.wasm"]),
            Err(UsageError::UnknownArgument("a.wasm".into()))
        );
    }
}
