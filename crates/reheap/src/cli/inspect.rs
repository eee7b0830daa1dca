//! `reheap inspect`: which allocator and which libc a file, a process or a container image has, and how we know.

use anyhow::Context as _;
use reheap_bench::figures::count;
use reheap_command::exit;
use reheap_command::ui;
use reheap_proc::process::{self, Denial, ProcessError};
use reheap_subject::inspect::{
    self, Expected, Files, InspectError, InspectProcessError, Judgement, Report,
};
use serde::Serialize;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Show which allocator and libc a program or a process has
///
/// Reads programs, shared libraries, objects and archives, stripped or not, without running them. It also looks at
/// running processes, and at the entry points of container images (an OCI layout, or what `docker save` writes).
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit codes: 0 every allocator is known, 1 something cannot be read, 5 an allocator is unknown;
with --expect: 0 every allocator is the expected one, 1 something cannot be read, 3 an allocator is
another one or unknown.

Examples:
  reheap inspect ./app
  reheap inspect --verbose $(pidof redis-server)
  reheap inspect --all-pids
  reheap inspect --expect mimalloc=3 target/release/app
  reheap inspect --json image.tar target/x86_64-unknown-linux-musl/release/app")]
pub(crate) struct Arguments {
    /// A program, shared library, object, archive, process ID, or container image: a file, a directory, docker://NAME:TAG or
    /// oci:DIR:TAG
    #[arg(value_name = "FILE|PID", required_unless_present = "all_pids")]
    subjects: Vec<PathBuf>,
    /// Look at every process that you may look at
    #[arg(long)]
    all_pids: bool,
    /// Check that each has this allocator: that of its Rust code if that has its own, else malloc
    #[arg(long, value_name = "ALLOCATOR[=VERSION]")]
    expect: Option<String>,
    /// Print everything as a JSON array with one object for each subject
    #[arg(long)]
    json: bool,
    /// Print everything, with all evidence
    #[arg(long, short)]
    verbose: bool,
}

/// What decides the exit code.
#[derive(Debug, Default)]
struct Outcome {
    failed: usize,
    unknown: usize,
    unexpected: usize,
}

impl Outcome {
    fn exit_code(&self) -> ExitCode {
        match self {
            Self { failed: 1.., .. } => ExitCode::FAILURE,
            Self {
                unexpected: 1.., ..
            } => ExitCode::from(exit::THRESHOLD_VIOLATED),
            Self { unknown: 1.., .. } => ExitCode::from(exit::UNKNOWN),
            _ => ExitCode::SUCCESS,
        }
    }
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let expected = arguments
        .expect
        .as_deref()
        .map(Expected::parse)
        .transpose()?;
    let out = io::stdout();
    let columns = inspect::columns_of_terminal();
    let result = print_all(
        arguments,
        expected.as_ref(),
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

/// The format of the reports.
enum Form {
    Json,
    Lines { columns: Option<usize> },
    Blocks,
}

fn print_all(
    arguments: &Arguments,
    expected: Option<&Expected>,
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
        expected,
        out,
        errors,
        printed: 0,
        outcome: Outcome::default(),
    };
    let files = Files::default();
    for subject in &arguments.subjects {
        let result = inspect::subject(subject, &files);
        printer.print(&ui::printable(subject), &result)?;
    }
    if arguments.all_pids {
        print_processes(&files, &mut printer)?;
    }
    printer.finish()
}

/// Processes that end meanwhile, and kernel threads, are not failures.
fn print_processes(
    files: &Files,
    printer: &mut Printer<'_, impl Write, impl Write>,
) -> io::Result<()> {
    let mut denied = Vec::new();
    for pid in process::all()? {
        match inspect::process(pid, files) {
            Ok(report) => printer.print(&pid.to_string(), &Ok(report))?,
            Err(InspectProcessError::Process(ProcessError::PermissionDenied(denial))) => {
                denied.push(denial);
            }
            Err(InspectProcessError::Process(
                ProcessError::Ended
                | ProcessError::NoSuchProcess
                | ProcessError::Zombie
                | ProcessError::KernelThread,
            )) => {}
            Err(error) => printer.print(&pid.to_string(), &Err(error.into()))?,
        }
    }
    if let Some(first) = denied.first() {
        let processes = count(denied.len(), "process");
        let reason = match first {
            Denial::OtherUser { .. } | Denial::Protected => {
                "they belong to other users, or have rights that you do not have".to_owned()
            }
            of_root => of_root.to_string(),
        };
        writeln!(
            printer.errors,
            "reheap: cannot inspect {processes}: permission denied: {reason}"
        )?;
    }
    Ok(())
}

struct Printer<'a, Out, Errors> {
    form: Form,
    expected: Option<&'a Expected>,
    out: &'a mut Out,
    errors: &'a mut Errors,
    printed: usize,
    outcome: Outcome,
}

impl<Out: Write, Errors: Write> Printer<'_, Out, Errors> {
    fn print(&mut self, subject: &str, result: &Result<Report, InspectError>) -> io::Result<()> {
        if let Err(error) = result {
            let reason = ui::printable(error.to_string());
            writeln!(self.errors, "reheap: cannot inspect `{subject}`: {reason}")?;
            if let Some(hint) = error.hint(subject) {
                writeln!(self.errors, "\nhint: {hint}")?;
            }
        }
        let is_first = self.printed == 0;
        let report = result.as_ref().ok();
        let judged = self.expected.zip(report);
        let judged = judged.map(|(expected, report)| (expected, expected.judge(report)));
        self.count(result, judged.as_ref().map(|(_, judgement)| judgement));
        match (&self.form, result) {
            (Form::Json, _) => {
                let separator = if is_first { "[\n" } else { ",\n" };
                write!(
                    self.out,
                    "{separator}{}",
                    json(subject, result, judged.as_ref())?
                )?;
            }
            (_, Err(_)) => return Ok(()),
            (Form::Lines { columns }, Ok(report)) => match &judged {
                Some((_, judgement)) => writeln!(self.out, "{}", judgement.line())?,
                None => writeln!(self.out, "{}", inspect::line(report, *columns))?,
            },
            (Form::Blocks, Ok(report)) => {
                let separator = if is_first { "" } else { "\n" };
                write!(self.out, "{separator}{}", inspect::block(report))?;
                if let Some((_, judgement)) = &judged {
                    writeln!(self.out, "{}", judgement.line())?;
                }
            }
        }
        self.printed += 1;
        let warning = judged.and_then(|(_, judgement)| judgement.warning(subject));
        if let Some(warning) = warning {
            writeln!(self.errors, "reheap: {warning}")?;
        }
        Ok(())
    }

    /// Counts what decides the exit code.
    fn count(&mut self, result: &Result<Report, InspectError>, judged: Option<&Judgement>) {
        match (result, judged) {
            (Err(_), _) => self.outcome.failed += 1,
            (Ok(_), Some(judgement)) => {
                self.outcome.unexpected += usize::from(judgement.matches != Some(true));
            }
            (Ok(report), None) => self.outcome.unknown += usize::from(report.is_unknown()),
        }
    }

    fn finish(self) -> io::Result<ExitCode> {
        match (self.form, self.printed) {
            (Form::Json, 0) => writeln!(self.out, "[]")?,
            (Form::Json, _) => writeln!(self.out, "\n]")?,
            _ => {}
        }
        self.out.flush()?;
        Ok(self.outcome.exit_code())
    }
}

fn json(
    subject: &str,
    result: &Result<Report, InspectError>,
    judged: Option<&(&Expected, Judgement)>,
) -> io::Result<String> {
    #[derive(Serialize)]
    struct Failed<'a> {
        file: &'a str,
        error: String,
    }
    #[derive(Serialize)]
    struct Judged<'a> {
        #[serde(flatten)]
        report: &'a Report,
        expected: &'a str,
        matches: Option<bool>,
        explanation: &'a str,
    }
    Ok(match result {
        Ok(report) => match judged {
            None => serde_json::to_string_pretty(report)?,
            Some((expected, judgement)) => serde_json::to_string_pretty(&Judged {
                report,
                expected: expected.typed(),
                matches: judgement.matches,
                explanation: &judgement.explanation,
            })?,
        },
        Err(error) => serde_json::to_string_pretty(&Failed {
            file: subject,
            error: error.to_string(),
        })?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// What the command prints to stdout and stderr, and whether it succeeded.
    fn inspected(files: &[&Path], json: bool) -> (String, String, bool) {
        let arguments = Arguments {
            subjects: files.iter().map(|file| file.to_path_buf()).collect(),
            all_pids: false,
            expect: None,
            json,
            verbose: false,
        };
        let (mut out, mut errors) = (Vec::new(), Vec::new());
        let exit_code = print_all(&arguments, None, None, &mut out, &mut errors).unwrap();
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
        let directory = tempfile::tempdir().unwrap();
        assert!(error_for(directory.path()).ends_with("it is a directory, not a file\n"));
        assert!(error_for(Path::new("/dev/zero")).ends_with("it is a device, not a file\n"));

        let pipe = directory.path().join("pipe");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert!(error_for(&pipe).ends_with("it is a named pipe, not a file\n"));

        let socket = directory.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert!(error_for(&socket).ends_with("it is a socket, not a file\n"));
    }

    #[test]
    fn files_that_are_not_elf_are_refused_with_what_they_are() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
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
}
