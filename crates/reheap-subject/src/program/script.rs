//! Reads the first line of a script as execve(2), shells and env(1) do.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

/// How much of a file Linux looks at (`BINPRM_BUF_SIZE`).
pub(crate) const BEGINNING_BYTES: u64 = 256;

/// What a file begins with.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// It is not a script.
    Elf,
    /// `#!` and the path of what runs it; empty if nothing follows.
    Interpreter(OsString),
    /// `#!` and env(1), which looks for a program by its name.
    Env {
        /// The path of env.
        env: OsString,
        /// What it looks for.
        name: OsString,
    },
    /// Nothing that the kernel knows, so a shell runs it as its own script.
    Text,
    /// Nothing that the kernel knows, and no text either.
    Binary,
}

/// Reads the beginning of a file. Everything after the interpreter is one argument, with its blanks (execve(2)).
pub(crate) fn read(beginning: &[u8]) -> Line {
    if beginning.starts_with(b"\x7fELF") {
        return Line::Elf;
    }
    let Some((interpreter, argument)) = named(beginning) else {
        return if is_text(beginning) {
            Line::Text
        } else {
            Line::Binary
        };
    };
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

/// The interpreter of a `#!` line and its argument; `None` where the kernel finds none (`load_script` in
/// fs/binfmt_script.c). To the kernel a zero ends the line, and so does the end of the file.
fn named(beginning: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = beginning.strip_prefix(b"#!")?;
    let is_end = |byte: &u8| matches!(byte, b'\n' | 0);
    let end = rest.iter().position(is_end);
    let line = trimmed(&rest[..end.unwrap_or(rest.len())]);
    let name_bytes = line.iter().position(is_blank);
    let is_cut_off = end.is_none() && beginning.len() as u64 >= BEGINNING_BYTES;
    let ends_with_line = end.is_some_and(|end| rest[end] == b'\n');
    if line.is_empty() && (ends_with_line || is_cut_off) || name_bytes.is_none() && is_cut_off {
        return None;
    }
    let (name, argument) = line.split_at(name_bytes.unwrap_or(line.len()));
    Some((name, trimmed(argument)))
}

/// Whether a shell would read it. POSIX leaves it to shells what cannot be a script. Debian's `sh` refuses a file with
/// a control character in its first line that text does not have, and so does this.
pub(super) fn is_text(beginning: &[u8]) -> bool {
    let mut line = beginning.split(|&byte| byte == b'\n');
    let line = line.next().unwrap_or_default();
    let is_of_text = |byte: &u8| !byte.is_ascii_control() || matches!(byte, 0x09..=0x0d | 0x1b);
    line.iter().all(is_of_text)
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

/// The program that env would start: its argument, or with `-S` (GNU, FreeBSD) the first word after options and
/// assignments. `None` if the words do not tell. Then the dynamic linker starts env, and what env executes inherits the
/// environment.
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

/// The argument that a `#!` line gives to the interpreter.
pub(crate) fn argument(beginning: &[u8]) -> Option<&[u8]> {
    named(beginning).map(|(_, argument)| argument)
}

/// Splits as `env -S` does; `None` for what depends on more than the text, such as `${NAME}`.
pub(crate) fn words(text: &[u8]) -> Option<Vec<Vec<u8>>> {
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
            ("echo hello\n", Line::Text),
            ("", Line::Text),
            ("caf\u{e9}\u{1b}[0m\t\u{c}\r\n\0\u{1}", Line::Text),
            ("ustar\0", Line::Binary),
            ("\u{1}\n", Line::Binary),
            ("#!\n", Line::Text),
            ("#! \t\n", Line::Text),
            ("#!", interpreter("")),
            ("#!\0\n", interpreter("")),
            ("#!/bin/sh", interpreter("/bin/sh")),
            ("#!/bin/sh\0x\n", interpreter("/bin/sh")),
            ("#! /bin/sh -e \nexit", interpreter("/bin/sh")),
            ("#!/usr/bin/python3\t-u\n", interpreter("/usr/bin/python3")),
            ("#!/usr/bin/env python3\n", env("python3")),
            // Written on Windows: the kernel and env read the carriage return as a part of the name, so nothing is
            // found.
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

    #[test]
    fn a_path_that_is_cut_off_is_none() {
        let long = |front: &str| format!("{front}{}", "a".repeat(256 - front.len()));
        assert_eq!(read(long("#!/").as_bytes()), Line::Text);
        let blanks = format!("#!{}", " ".repeat(254));
        assert_eq!(read(blanks.as_bytes()), Line::Text);
        let argument = Line::Interpreter("/bin/sh".into());
        assert_eq!(read(long("#!/bin/sh ").as_bytes()), argument);
    }
}
