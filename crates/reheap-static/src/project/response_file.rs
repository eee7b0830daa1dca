//! Gives a linker its arguments, in a response file where the system takes no more of them in a command.
//!
//! rustc tries a command, and writes a response file only after the system has refused that (E2BIG). Its file is read
//! here, because reheap looks at the arguments and adds its own. The linker then gets a file again, from the first try
//! on: it may be a script that starts another program, and that start would fail where nobody can see the error.
//!
//! GNU ld, GCC, Clang, LLD, mold and Zig read `@file`. They agree on words in double quotes with backslashes before
//! quotes, but not on backslashes before blanks.

use anyhow::Context as _;
use reheap_command::env_vars;
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;
use std::process::Command;

/// How a linker gets its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Passing {
    /// Arguments are words of the command, or in a file if the system refuses that.
    Command,
    /// Arguments are in a file, because rustc has tried a command.
    ResponseFile,
}

/// The arguments that rustc gives, also those in a response file of its own, and how it passes them. The user's response
/// files are for the linker.
pub(super) fn read(arguments: &[OsString]) -> anyhow::Result<(Vec<OsString>, Passing)> {
    let (mut words, mut passing) = (Vec::new(), Passing::Command);
    for argument in arguments {
        let path = argument.as_bytes().strip_prefix(b"@");
        let path = path.map(|path| Path::new(OsStr::from_bytes(path)));
        let Some(path) = path.filter(|path| is_in_rustcs_directory(path)) else {
            words.push(argument.clone());
            continue;
        };
        let text = fs::read(path)
            .with_context(|| format!("cannot read the response file `{}`", path.display()))?;
        words.extend(parse(&text));
        passing = Passing::ResponseFile;
    }
    Ok((words, passing))
}

/// Runs a linker with arguments. `run` starts the command, and may be called twice.
pub(super) fn run<T>(
    linker: &Path,
    arguments: &[OsString],
    passing: Passing,
    run: impl Fn(&mut Command) -> io::Result<T>,
) -> anyhow::Result<T> {
    let cannot_start = || format!("cannot start `{}`", linker.display());
    if passing == Passing::Command {
        match run(env_vars::command(linker).args(arguments)) {
            Err(error) if error.kind() == io::ErrorKind::ArgumentListTooLong => (),
            result => return result.with_context(cannot_start),
        }
    }
    let cannot_write = "cannot write a response file for the linker";
    let mut file = tempfile::NamedTempFile::new().context(cannot_write)?;
    let (flavor, rest) = arguments.split_at(flavor_words(arguments));
    file.write_all(&text(rest)).context(cannot_write)?;
    let mut named = OsString::from("@");
    named.push(file.path());
    run(env_vars::command(linker).args(flavor).arg(named)).with_context(cannot_start)
}

/// Whether a file is in the temporary directory that rustc makes for a link.
pub(super) fn is_in_rustcs_directory(path: &Path) -> bool {
    let directory = path.parent().and_then(Path::file_name).unwrap_or_default();
    let random = directory.as_bytes().strip_prefix(b"rustc");
    random.is_some_and(|name| name.len() == 6 && name.iter().all(u8::is_ascii_alphanumeric))
}

/// How many words select LLD's flavor. They must be the first of a command.
pub(super) fn flavor_words(arguments: &[OsString]) -> usize {
    match arguments {
        [first, _, ..] if first == "-flavor" => 2,
        _ => 0,
    }
}

/// rustc's own response file: an argument per line, blanks and backslashes escaped by a backslash.
fn parse(text: &[u8]) -> Vec<OsString> {
    let mut arguments = Vec::new();
    let mut current = Vec::new();
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => current.extend(bytes.next()),
            b'\n' => arguments.push(OsString::from_vec(std::mem::take(&mut current))),
            other => current.push(other),
        }
    }
    if !current.is_empty() {
        arguments.push(OsString::from_vec(current));
    }
    arguments
}

/// The text of a response file for a linker.
fn text(arguments: &[OsString]) -> Vec<u8> {
    let mut text = Vec::new();
    for argument in arguments {
        text.push(b'"');
        for byte in argument.as_bytes() {
            if matches!(byte, b'"' | b'\\') {
                text.push(b'\\');
            }
            text.push(*byte);
        }
        text.extend(b"\"\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_file_is_read_as_rustc_writes_it() {
        let text = b"-o\n/a\\ directory/with\\\\backslash\n-lc\n";
        assert_eq!(parse(text), ["-o", "/a directory/with\\backslash", "-lc"]);
    }

    #[test]
    fn only_rustcs_own_response_file_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("rustcAb12Cd/linker-arguments");
        fs::create_dir(file.parent().unwrap()).unwrap();
        fs::write(&file, "-lc\n@users\n").unwrap();
        let mut of_rustc = OsString::from("@");
        of_rustc.push(file);
        let read = read(&["@missing".into(), of_rustc, "-lm".into()]).unwrap();
        let expected = ["@missing", "-lc", "@users", "-lm"].map(OsString::from);
        assert_eq!(read, (expected.to_vec(), Passing::ResponseFile));
    }

    #[test]
    fn what_the_system_takes_in_no_command_is_passed_in_a_file() {
        // Linux takes 128 KiB in one argument (execve(2)).
        let long = "a".repeat(200_000);
        let arguments = ["-flavor", "gnu", "-e", "a \"b\" c\\d", &long].map(OsString::from);
        let directory = tempfile::tempdir().unwrap();
        let linker = directory.path().join("linker");
        let script = b"#!/bin/sh\necho \"$1 $2 $#\"\ncat \"${3#@}\"\n";
        reheap_allocators::cache::write_by_rename(&linker, script, 0o755).unwrap();
        let output = run(&linker, &arguments, Passing::Command, Command::output).unwrap();
        let expected = format!("-flavor gnu 3\n\"-e\"\n\"a \\\"b\\\" c\\\\d\"\n\"{long}\"\n");
        assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
    }
}
