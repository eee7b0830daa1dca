//! `reheap inspect`: which allocator and which libc a file has, and how we know.
//!
//! Files are read whole, one after the other. A path may also lead to a named pipe that nobody writes to or to a device
//! that never ends, so the kind of file is asked before it is opened, and opening never waits.

mod text;

use anyhow::Context as _;
use reheap_elf::identify::{self, IdentifyError, Identity};
use serde::Serialize;
use std::fs::File;
use std::io::{self, Read as _, Write};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Which allocator and which libc a file has, and how we know
///
/// Looks at programs, shared libraries, objects and archives, stripped or not, and runs none of them.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  reheap inspect ./app
  reheap inspect --json target/x86_64-unknown-linux-musl/release/app")]
pub(crate) struct Arguments {
    /// Program, shared library, object or archive
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Print everything as a JSON array with one object for each file
    #[arg(long)]
    json: bool,
    /// Print all evidence
    #[arg(long, short)]
    verbose: bool,
}

/// Larger files are refused rather than read into memory.
const FILE_BYTES_MAX: u64 = 2 << 30;
/// As much as tells whether the rest is worth reading.
const BEGINNING_BYTES: usize = 64;

/// Why a file cannot be inspected.
#[derive(Debug, thiserror::Error)]
enum InspectError {
    #[error("there is no such file")]
    NoSuchFile,
    #[error("there is no such file, and processes cannot be inspected yet")]
    NoSuchFileButMaybeProcess,
    #[error("permission denied")]
    PermissionDenied,
    #[error("it is {0}, not a file")]
    NotAFile(&'static str),
    #[error("it is larger than {} GiB", FILE_BYTES_MAX >> 30)]
    TooLarge,
    #[error("{0}")]
    Io(io::Error),
    #[error(transparent)]
    Identify(#[from] IdentifyError),
}

/// Runs the command; the exit code is 1 if any file could not be inspected.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    inspect(
        arguments,
        &mut io::stdout().lock(),
        &mut io::stderr().lock(),
    )
    .context("cannot write the result")
}

fn inspect(
    arguments: &Arguments,
    out: &mut impl Write,
    errors: &mut impl Write,
) -> io::Result<ExitCode> {
    let mut exit_code = ExitCode::SUCCESS;
    let mut separator = if arguments.json { "[\n" } else { "" };
    for file in &arguments.files {
        let inspected = inspect_file(file);
        if let Err(error) = &inspected {
            exit_code = ExitCode::FAILURE;
            writeln!(
                errors,
                "reheap: cannot inspect `{}`: {error}",
                text::printable(file)
            )?;
        }
        match (&inspected, arguments.json) {
            (_, true) => write!(out, "{separator}{}", json(file, &inspected)?)?,
            (Ok(identity), false) => write!(
                out,
                "{separator}{}",
                text::block(file, identity, arguments.verbose)
            )?,
            (Err(_), false) => continue,
        }
        separator = if arguments.json { ",\n" } else { "\n" };
    }
    if arguments.json {
        writeln!(out, "\n]")?;
    }
    out.flush()?;
    Ok(exit_code)
}

fn json(file: &Path, inspected: &Result<Identity, InspectError>) -> io::Result<String> {
    #[derive(Serialize)]
    struct Entry<'a> {
        file: std::borrow::Cow<'a, str>,
        #[serde(flatten)]
        identity: Option<&'a Identity>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    }
    let entry = Entry {
        file: file.to_string_lossy(),
        identity: inspected.as_ref().ok(),
        error: inspected.as_ref().err().map(InspectError::to_string),
    };
    Ok(serde_json::to_string_pretty(&entry)?)
}

fn inspect_file(file: &Path) -> Result<Identity, InspectError> {
    let bytes = read(file).map_err(|error| match error {
        InspectError::NoSuchFile if is_number(file) => InspectError::NoSuchFileButMaybeProcess,
        other => other,
    })?;
    Ok(identify::identify(&bytes)?)
}

fn is_number(file: &Path) -> bool {
    let bytes = file.as_os_str().as_encoded_bytes();
    !bytes.is_empty() && bytes.iter().all(u8::is_ascii_digit)
}

fn read(path: &Path) -> Result<Vec<u8>, InspectError> {
    let file_type = std::fs::metadata(path).map_err(io_error)?.file_type();
    if !file_type.is_file() {
        return Err(InspectError::NotAFile(match () {
            () if file_type.is_dir() => "a directory",
            () if file_type.is_fifo() => "a named pipe",
            () if file_type.is_socket() => "a socket",
            () => "a device",
        }));
    }
    // Should the file have become a named pipe by now, this does not wait for somebody to write to it.
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = File::options()
        .read(true)
        .custom_flags(nonblocking)
        .open(path)
        .map_err(io_error)?;
    if file.metadata().map_err(io_error)?.len() > FILE_BYTES_MAX {
        return Err(InspectError::TooLarge);
    }
    let mut bytes = Vec::new();
    let read_up_to = |bytes: &mut Vec<u8>, limit: u64| {
        let limit = limit - bytes.len() as u64;
        (&file).take(limit).read_to_end(bytes).map_err(io_error)
    };
    read_up_to(&mut bytes, BEGINNING_BYTES as u64)?;
    identify::check_beginning(&bytes)?;
    read_up_to(&mut bytes, FILE_BYTES_MAX)?;
    Ok(bytes)
}

fn io_error(error: io::Error) -> InspectError {
    match error.kind() {
        io::ErrorKind::NotFound => InspectError::NoSuchFile,
        io::ErrorKind::PermissionDenied => InspectError::PermissionDenied,
        _ => InspectError::Io(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the command prints to stdout and stderr, and whether it succeeded.
    fn inspected(files: &[&Path], json: bool) -> (String, String, bool) {
        let arguments = Arguments {
            files: files.iter().map(|file| file.to_path_buf()).collect(),
            json,
            verbose: false,
        };
        let (mut out, mut errors) = (Vec::new(), Vec::new());
        let exit_code = inspect(&arguments, &mut out, &mut errors).unwrap();
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
        let identity = inspect_file(&program).unwrap();
        let libc = identity.libc.name.to_string();
        let foreign: Vec<_> = identity
            .allocators
            .iter()
            .filter(|found| !found.name.starts_with(&libc))
            .collect();
        assert!(foreign.is_empty(), "{foreign:?}");
    }

    #[test]
    fn a_bad_file_does_not_keep_the_others_from_being_shown() {
        let program = std::env::current_exe().unwrap();
        let (out, errors, succeeded) = inspected(&[Path::new("/no/such/file"), &program], false);
        assert!(out.contains("malloc"), "{out}");
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
    fn a_number_is_a_file_first_and_a_process_is_refused_plainly() {
        let error = error_for(Path::new("4294967296"));
        let expected = "reheap: cannot inspect `4294967296`: there is no such file, and processes cannot be inspected yet\n";
        assert_eq!(error, expected);
        assert!(!is_number(Path::new("./1")));
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
        let error = io_error(io::Error::from(io::ErrorKind::PermissionDenied));
        assert_eq!(error.to_string(), "permission denied");
    }

    #[test]
    fn a_sparse_file_of_many_gigabytes_is_refused_before_it_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        File::create(&file)
            .unwrap()
            .set_len(FILE_BYTES_MAX + 1)
            .unwrap();
        assert!(error_for(&file).ends_with("it is larger than 2 GiB\n"));
    }
}
