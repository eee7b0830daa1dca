//! The first line of a script, as execve(2) and env(1) take it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

/// What a file begins with.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// It is no script.
    Elf,
    /// `#!` and the path of what runs it.
    Interpreter(OsString),
    /// `#!` and env(1), which looks for a program by its name.
    Env {
        /// The path of env.
        env: OsString,
        /// What it looks for.
        name: OsString,
    },
    /// Neither.
    None,
}

/// Reads the beginning of a file. What stands behind the interpreter is one argument, blanks and all (execve(2)).
pub(crate) fn read(beginning: &[u8]) -> Line {
    if beginning.starts_with(b"\x7fELF") {
        return Line::Elf;
    }
    let Some(rest) = beginning.strip_prefix(b"#!") else {
        return Line::None;
    };
    let line = rest.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let line = trimmed(line);
    let end = line.iter().position(is_blank).unwrap_or(line.len());
    let (interpreter, argument) = (&line[..end], trimmed(&line[end..]));
    if interpreter.is_empty() {
        return Line::None;
    }
    let interpreter = OsStr::from_bytes(interpreter).to_owned();
    let is_env = interpreter.as_bytes().rsplit(|&byte| byte == b'/').next() == Some(b"env");
    match wanted_of_env(argument).filter(|_| is_env) {
        Some(name) => Line::Env {
            env: interpreter,
            name,
        },
        None => Line::Interpreter(interpreter),
    }
}

fn is_blank(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

fn trimmed(mut text: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = text
        && is_blank(first)
    {
        text = rest;
    }
    while let [rest @ .., last] = text
        && is_blank(last)
    {
        text = rest;
    }
    text
}

/// The program that env would start: its argument, or with `-S` (GNU, FreeBSD) the first word behind options and
/// assignments. `None` where that is beyond these words: then it is env that the dynamic linker starts, and what it
/// executes in turn inherits the environment.
fn wanted_of_env(argument: &[u8]) -> Option<OsString> {
    let split = ["-S", "--split-string=", "-vS", "-iS"]
        .iter()
        .find_map(|option| argument.strip_prefix(option.as_bytes()));
    let Some(text) = split else {
        let is_name = !argument.is_empty()
            && !argument.starts_with(b"-")
            && !argument.iter().any(|byte| is_blank(byte) || *byte == b'=');
        return is_name.then(|| OsStr::from_bytes(argument).to_owned());
    };
    let mut words = words(text)?.into_iter();
    loop {
        let word = words.next()?;
        match word.as_slice() {
            b"-i" | b"-" | b"--" | b"-v" => {}
            b"-u" | b"-C" => drop(words.next()?),
            option if option.starts_with(b"-") => return None,
            assignment if assignment.contains(&b'=') => {}
            name => return Some(OsStr::from_bytes(name).to_owned()),
        }
    }
}

/// Splits as `env -S` does; `None` for what depends on more than the text, such as `${NAME}`.
fn words(text: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quote = None;
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        match (byte, quote) {
            (b'$', None | Some(b'"')) => return None,
            (b'\'' | b'"', None) => {
                quote = Some(byte);
                word.get_or_insert_default();
            }
            (_, Some(open)) if byte == open => quote = None,
            (b'\\', None | Some(b'"')) => {
                word.get_or_insert_default().push(escaped(bytes.next()?)?)
            }
            (b' ' | b'\t', None) => words.extend(word.take()),
            (b'#', None) if word.is_none() => break,
            _ => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

fn escaped(byte: u8) -> Option<u8> {
    match byte {
        b'\\' | b'"' | b'\'' | b'#' | b'$' | b' ' => Some(byte),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(name: &str) -> Line {
        Line::Env {
            env: "/usr/bin/env".into(),
            name: name.into(),
        }
    }

    #[test]
    fn the_first_line_is_read_as_the_kernel_and_env_read_it() {
        let interpreter = |path: &str| Line::Interpreter(path.into());
        for (line, expected) in [
            ("\x7fELF\x02", Line::Elf),
            ("echo hello\n", Line::None),
            ("#!\n", Line::None),
            ("#!/bin/sh", interpreter("/bin/sh")),
            ("#! /bin/sh -e \nexit", interpreter("/bin/sh")),
            ("#!/usr/bin/python3\t-u\n", interpreter("/usr/bin/python3")),
            ("#!/usr/bin/env python3\n", env("python3")),
            // Written on Windows: the kernel and env take the return for a part of the name, and so it is not found.
            ("#!/usr/bin/env python3\r\n", env("python3\r")),
            // One argument: a program of that name, blank and all, is not what anybody means.
            ("#!/usr/bin/env python3 -u\n", interpreter("/usr/bin/env")),
            ("#!/usr/bin/env -S python3 -u\n", env("python3")),
            ("#!/usr/bin/env -S -u HOME A=b python3\n", env("python3")),
            ("#!/usr/bin/env -S 'my program' x\n", env("my program")),
            ("#!/usr/bin/env -S my\\ program\n", env("my program")),
            (
                "#!/usr/bin/env -S ${SHELL} x\n",
                interpreter("/usr/bin/env"),
            ),
            (
                "#!/usr/bin/env -S --block-signal sh\n",
                interpreter("/usr/bin/env"),
            ),
            ("#!/usr/bin/env\n", interpreter("/usr/bin/env")),
            ("#!/opt/environment sh\n", interpreter("/opt/environment")),
        ] {
            assert_eq!(read(line.as_bytes()), expected, "{line:?}");
        }
    }
}
