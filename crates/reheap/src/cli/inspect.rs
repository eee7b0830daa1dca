//! `reheap inspect`: which allocator and which libc a file, a process or a container image has, and how we know.
//!
//! A subject is what was typed. One that is a file is taken as a file, also if its name is a number, because a file can
//! always be written `./123` and a process cannot be written otherwise.

mod file;
mod line;
mod running;
mod text;

use crate::container;
use crate::process::{self, Denial, ProcessError};
use crate::ui::{self, UNKNOWN};
use anyhow::Context as _;
use file::FileError;
use reheap_elf::identify::{self, Identity, MallocVerdict, Provider};
use running::{Files, InspectProcessError, Running};
use serde::Serialize;
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Which allocator and which libc a program or a process has, and how we know
///
/// Looks at programs, shared libraries, objects and archives, stripped or not, and runs none of them; at running
/// processes; and at the entry points of container images (an OCI layout, or what `docker save` writes).
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit codes: 0 every allocator is known, 1 something could not be looked at, 5 an allocator stays unknown.

Examples:
  reheap inspect ./app
  reheap inspect --verbose $(pidof redis-server)
  reheap inspect --all-pids
  reheap inspect --json image.tar target/x86_64-unknown-linux-musl/release/app")]
pub(crate) struct Arguments {
    /// Program, shared library, object, archive, container image, or the number of a process
    #[arg(value_name = "FILE|PID", required_unless_present = "all_pids")]
    subjects: Vec<PathBuf>,
    /// Look at every process that may be looked at
    #[arg(long)]
    all_pids: bool,
    /// Print everything as a JSON array with one object for each subject
    #[arg(long)]
    json: bool,
    /// Print everything that was found, with all evidence
    #[arg(long, short)]
    verbose: bool,
}

/// What was found out about one subject.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Report {
    File {
        file: String,
        #[serde(flatten)]
        identity: Box<Identity>,
    },
    Container {
        file: String,
        entry_point: String,
        scripts: Vec<String>,
        preload: Vec<String>,
        #[serde(flatten)]
        identity: Box<Identity>,
    },
    Process(Box<Running>),
}

/// Why a subject cannot be inspected.
#[derive(Debug, thiserror::Error)]
enum InspectError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Process(#[from] InspectProcessError),
}

impl Report {
    fn malloc(&self) -> &MallocVerdict {
        match self {
            Self::File { identity, .. } | Self::Container { identity, .. } => &identity.malloc,
            Self::Process(running) => &running.malloc,
        }
    }
}

/// What has to be told apart in the end to give an exit code.
#[derive(Debug, Default)]
struct Outcome {
    failed: usize,
    unknown: usize,
}

impl Outcome {
    fn exit_code(&self) -> ExitCode {
        match self {
            Self { failed: 1.., .. } => ExitCode::FAILURE,
            Self { unknown: 1.., .. } => ExitCode::from(UNKNOWN),
            _ => ExitCode::SUCCESS,
        }
    }
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let out = io::stdout();
    let columns = line::columns_of_terminal();
    let result = inspect(
        arguments,
        columns,
        &mut out.lock(),
        &mut io::stderr().lock(),
    );
    match result {
        // The reader has what it wanted.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        result => result.context("cannot write the result"),
    }
}

/// How the reports are written.
enum Form {
    Json,
    Lines { columns: Option<usize> },
    Blocks,
}

fn inspect(
    arguments: &Arguments,
    columns: Option<usize>,
    out: &mut impl Write,
    errors: &mut impl Write,
) -> io::Result<ExitCode> {
    let form = match (arguments.json, arguments.verbose) {
        (true, _) => Form::Json,
        (false, true) => Form::Blocks,
        (false, false) => Form::Lines { columns },
    };
    let mut printer = Printer {
        form,
        out,
        errors,
        printed: 0,
    };
    let files = Files::default();
    let mut outcome = Outcome::default();
    for subject in &arguments.subjects {
        let result = inspect_subject(subject, &files);
        outcome.failed += usize::from(result.is_err());
        outcome.unknown += usize::from(result.as_ref().is_ok_and(is_unknown));
        printer.print(&ui::printable(subject), &result)?;
    }
    if arguments.all_pids {
        inspect_all(&files, &mut printer, &mut outcome)?;
    }
    printer.finish()?;
    Ok(outcome.exit_code())
}

/// Processes that end meanwhile, and those of the kernel, are nobody's failure.
fn inspect_all(
    files: &Files,
    printer: &mut Printer<'_, impl Write, impl Write>,
    outcome: &mut Outcome,
) -> io::Result<()> {
    let mut denied = Vec::new();
    for pid in process::all()? {
        match running::inspect(pid, files) {
            Ok(running) => {
                let report = Ok(Report::Process(Box::new(running)));
                outcome.unknown += usize::from(report.as_ref().is_ok_and(is_unknown));
                printer.print(&pid.to_string(), &report)?;
            }
            Err(InspectProcessError::Process(ProcessError::PermissionDenied(denial))) => {
                denied.push(denial);
            }
            Err(InspectProcessError::Process(
                ProcessError::Ended
                | ProcessError::NoSuchProcess
                | ProcessError::Zombie
                | ProcessError::KernelThread,
            )) => {}
            Err(error) => {
                outcome.failed += 1;
                printer.print(&pid.to_string(), &Err(error.into()))?;
            }
        }
    }
    if let Some(first) = denied.first() {
        let processes = text::counted(denied.len(), "process");
        let reason = match first {
            Denial::OtherUser { .. } | Denial::Protected => {
                "those of other users, and those with rights that you do not have".to_owned()
            }
            of_root => of_root.to_string(),
        };
        writeln!(
            printer.errors,
            "reheap: {processes} not looked at: permission denied: {reason}"
        )?;
    }
    Ok(())
}

fn is_unknown(report: &Report) -> bool {
    report.malloc().provider == Provider::Unknown
}

struct Printer<'a, Out, Errors> {
    form: Form,
    out: &'a mut Out,
    errors: &'a mut Errors,
    printed: usize,
}

impl<Out: Write, Errors: Write> Printer<'_, Out, Errors> {
    fn print(&mut self, subject: &str, result: &Result<Report, InspectError>) -> io::Result<()> {
        if let Err(error) = result {
            writeln!(self.errors, "reheap: cannot inspect `{subject}`: {error}")?;
        }
        let is_first = self.printed == 0;
        match (&self.form, result) {
            (Form::Json, _) => {
                let separator = if is_first { "[\n" } else { ",\n" };
                write!(self.out, "{separator}{}", json(subject, result)?)?;
            }
            (_, Err(_)) => return Ok(()),
            (Form::Lines { columns }, Ok(report)) => {
                writeln!(self.out, "{}", line::line(report, *columns))?;
            }
            (Form::Blocks, Ok(report)) => {
                let separator = if is_first { "" } else { "\n" };
                write!(self.out, "{separator}{}", text::block(report))?;
            }
        }
        self.printed += 1;
        Ok(())
    }

    fn finish(self) -> io::Result<()> {
        match (self.form, self.printed) {
            (Form::Json, 0) => writeln!(self.out, "[]")?,
            (Form::Json, _) => writeln!(self.out, "\n]")?,
            _ => {}
        }
        self.out.flush()
    }
}

fn json(subject: &str, result: &Result<Report, InspectError>) -> io::Result<String> {
    #[derive(Serialize)]
    struct Failed<'a> {
        file: &'a str,
        error: String,
    }
    Ok(match result {
        Ok(report) => serde_json::to_string_pretty(report)?,
        Err(error) => serde_json::to_string_pretty(&Failed {
            file: subject,
            error: error.to_string(),
        })?,
    })
}

fn inspect_subject(subject: &Path, files: &Files) -> Result<Report, InspectError> {
    let is_missing = subject.symlink_metadata().is_err();
    match pid(subject).filter(|_| is_missing) {
        Some(pid) => Ok(Report::Process(Box::new(
            running::inspect(pid, files).map_err(|error| match error {
                InspectProcessError::Process(ProcessError::NoSuchProcess) => {
                    InspectError::File(FileError::NoSuchFileOrProcess)
                }
                other => InspectError::Process(other),
            })?,
        ))),
        None => Ok(inspect_file(subject)?),
    }
}

fn inspect_file(path: &Path) -> Result<Report, FileError> {
    let file = path.to_string_lossy().into_owned();
    if container::is_image(path) {
        return inspect_image(path, file);
    }
    let opened = file::open(path)?;
    Ok(Report::File {
        file,
        identity: Box::new(identify::identify(&opened)?),
    })
}

fn inspect_image(path: &Path, file: String) -> Result<Report, FileError> {
    let program = container::entry_point(path)?;
    let identity = identify::identify(&program.file).map_err(|error| FileError::EntryPoint {
        path: program.path.clone(),
        error,
    })?;
    let text = |path: &PathBuf| path.to_string_lossy().into_owned();
    let preload = program
        .environment
        .iter()
        .filter_map(|variable| variable.strip_prefix("LD_PRELOAD="));
    Ok(Report::Container {
        file,
        entry_point: text(&program.path),
        scripts: program.through.iter().map(text).collect(),
        preload: preload.map(str::to_owned).collect(),
        identity: Box::new(identity),
    })
}

/// The process that a subject is the number of; 0 is none.
fn pid(subject: &Path) -> Option<u32> {
    let text = subject.to_str()?;
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // A number that no process can have is one of no process.
    is_number.then(|| text.parse().unwrap_or(u32::MAX))
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { file, .. } => write!(f, "{}", ui::printable(file)),
            Self::Container {
                file, entry_point, ..
            } => write!(f, "{} {}", ui::printable(file), ui::printable(entry_point)),
            Self::Process(running) => {
                write!(f, "{} {}", running.pid, ui::printable(&running.name))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reheap_elf::identify::Confidence;

    /// What the command prints to stdout and stderr, and whether it succeeded.
    fn inspected(files: &[&Path], json: bool) -> (String, String, bool) {
        let arguments = Arguments {
            subjects: files.iter().map(|file| file.to_path_buf()).collect(),
            all_pids: false,
            json,
            verbose: false,
        };
        let (mut out, mut errors) = (Vec::new(), Vec::new());
        let exit_code = inspect(&arguments, None, &mut out, &mut errors).unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(out), text(errors), exit_code == ExitCode::SUCCESS)
    }

    fn error_for(file: &Path) -> String {
        let (out, errors, succeeded) = inspected(&[file], false);
        assert_eq!((out.as_str(), succeeded), ("", false));
        errors
    }

    #[test]
    fn the_running_program_is_a_rust_program_for_this_machine() {
        let program = std::env::current_exe().unwrap();
        let (out, errors, succeeded) = inspected(&[&program], true);
        assert!(succeeded, "{errors}");
        let json: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(json[0]["architecture"], std::env::consts::ARCH);
        assert_eq!(json[0]["rust_global_allocator"]["is"], "system");
    }

    /// The patterns that are searched for must not be found in the program that searches.
    #[test]
    fn a_program_that_knows_the_signatures_does_not_look_like_every_allocator() {
        let program = std::env::current_exe().unwrap();
        let identity = identify::identify(&file::open(&program).unwrap()).unwrap();
        let libc = identity.libc.name.to_string();
        let foreign: Vec<_> = identity
            .allocators
            .iter()
            .filter(|found| found.confidence >= Confidence::Likely)
            .filter(|found| !found.name.starts_with(&libc))
            .collect();
        assert!(foreign.is_empty(), "{foreign:?}");
    }

    #[test]
    fn a_bad_file_does_not_keep_the_others_from_being_shown() {
        let program = std::env::current_exe().unwrap();
        let (out, errors, succeeded) = inspected(&[Path::new("/no/such/file"), &program], false);
        assert!(out.contains("stock"), "{out}");
        assert_eq!(
            errors,
            "reheap: cannot inspect `/no/such/file`: there is no such file\n"
        );
        assert!(!succeeded);

        let (out, _, succeeded) = inspected(&[Path::new("/no/such/file"), &program], true);
        let json: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(json[0]["error"], "there is no such file");
        assert!(json[1].get("error").is_none());
        assert!(!succeeded);
    }

    #[test]
    fn a_number_is_a_file_first_and_a_process_second() {
        let error = error_for(Path::new("4294967296"));
        let expected =
            "reheap: cannot inspect `4294967296`: there is no such file, and no such process\n";
        assert_eq!(error, expected);
        assert_eq!(pid(Path::new("./1")), None);
        assert_eq!(pid(Path::new("1")), Some(1));
    }

    #[test]
    fn the_running_process_is_told_with_its_libc_and_memory() {
        let own = std::process::id().to_string();
        let (out, errors, succeeded) = inspected(&[Path::new(&own)], true);
        assert!(succeeded, "{errors}");
        let json: serde_json::Value = serde_json::from_str(&out).unwrap();
        let process = &json[0];
        assert_eq!(process["pid"], std::process::id());
        assert_eq!(process["malloc"]["provider"]["by"], "shared-libc");
        assert!(process["memory"]["resident_bytes"].as_u64() > Some(0));
        assert!(process["threads"].as_u64() >= Some(1));
    }

    #[test]
    fn a_line_is_printed_for_each_subject_and_a_block_with_verbose() {
        let program = std::env::current_exe().unwrap();
        let (out, _, _) = inspected(&[&program, &program], false);
        assert_eq!(out.lines().count(), 2, "{out}");
        assert!(out.contains("dynamic"), "{out}");
    }

    #[test]
    fn what_is_no_file_is_refused_by_its_kind_without_waiting() {
        let folder = tempfile::tempdir().unwrap();
        assert!(error_for(folder.path()).ends_with("it is a directory, not a file\n"));
        assert!(error_for(Path::new("/dev/zero")).ends_with("it is a device, not a file\n"));

        let pipe = folder.path().join("pipe");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert!(error_for(&pipe).ends_with("it is a named pipe, not a file\n"));

        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert!(error_for(&socket).ends_with("it is a socket, not a file\n"));
    }

    #[test]
    fn files_that_are_not_elf_are_refused_with_what_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        let error_for_contents = |contents: &[u8]| {
            std::fs::write(&file, contents).unwrap();
            error_for(&file)
        };
        assert!(error_for_contents(b"").ends_with("the file is empty\n"));
        assert!(error_for_contents(b"#!/bin/sh\n").ends_with("it is not ELF but a script\n"));
        assert!(error_for_contents(b"text").ends_with("it is not ELF but other data\n"));
        assert!(
            error_for_contents(b"!<thin>\n")
                .ends_with("it is a thin archive: its members are other files\n")
        );
        let cut_off = error_for_contents(b"\x7fELF\x02\x01\x01");
        assert!(cut_off.ends_with("the file is cut off: its file header does not lie within it\n"));
    }

    #[test]
    fn a_file_that_may_not_be_read_is_refused_with_the_reason() {
        let error = file::io_error(io::Error::from(io::ErrorKind::PermissionDenied));
        assert_eq!(error.to_string(), "permission denied");
    }
}
