//! What a compiler is asked to do, read from its arguments.
//!
//! reheap has to know whether it makes an executable, and which file that is, before and after the compiler reads the same
//! words. So it reads response files, too: what `@file` has counts as much as what stands beside it.

use super::options::{COMPILE, CommandLine, Input};
use reheap_command::ui::Failure;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// What a compiler is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// It makes an executable with a libc in it.
    Links,
    /// It makes a shared library.
    LinksShared,
    /// It makes objects, assembly or preprocessed text.
    Compiles,
    /// Anything else, such as `--version`, a link without a libc, or only showing what would be done.
    Other,
}

impl Call {
    /// Reads a command line.
    pub fn of(arguments: &[OsString]) -> Self {
        let line = CommandLine::of(arguments);
        if line.inputs.is_empty() || line.only_asks() {
            Self::Other
        } else if line.has(&COMPILE) || line.inputs.iter().all(|input| *input == Input::Header) {
            Self::Compiles
        } else if line.has(&["-shared", "--shared"]) {
            // libtool gives `-nostdlib` as well, when the language is C++, and names the libraries itself.
            Self::LinksShared
        } else if line.has(&["-r"]) || (line.has(&ADD_NO_LIBC) && !names_libc(arguments)) {
            Self::Other
        } else {
            Self::Links
        }
    }
}

/// Options with which a driver adds no libc of its own accord.
const ADD_NO_LIBC: [&str; 4] = [
    "-nostdlib",
    "--no-standard-libraries",
    "-nodefaultlibs",
    "-nolibc",
];

/// Whether the arguments name a libc: as a library, also among those for the linker (`-Wl,-lc`), or as a file.
fn names_libc(arguments: &[OsString]) -> bool {
    let all = arguments
        .iter()
        .flat_map(|argument| argument.as_bytes().split(|b| *b == b','));
    let of_linker = |word: &[u8]| {
        let file = Path::new(OsStr::from_bytes(word)).file_name();
        matches!(word, b"-lc" | b"-l:libc.a") || file.is_some_and(|name| name == "libc.a")
    };
    let in_two_words = |words: &[OsString]| words[0] == "-l" && words[1] == "c";
    all.into_iter().any(of_linker) || arguments.windows(2).any(in_two_words)
}

/// Options with which a driver makes a file of each that it is given, under a name of its own choice.
const MAKE_ONE_OF_EACH: [&str; 4] = ["-c", "--compile", "-S", "--assemble"];

/// The arguments for each single file, where a driver makes several of several.
pub fn for_each_file(arguments: &[OsString]) -> Option<Vec<Vec<&OsString>>> {
    let line = CommandLine::of(arguments);
    let makes_several =
        line.places.len() > 1 && line.has(&MAKE_ONE_OF_EACH) && !line.has(&["-o", "--output"]);
    let with_only = |own: &usize| {
        let all = arguments.iter().enumerate();
        let kept = all.filter(|(place, _)| place == own || !line.places.contains(place));
        kept.map(|(_, argument)| argument).collect()
    };
    makes_several.then(|| line.places.iter().map(with_only).collect())
}

/// The file that a link makes.
pub fn output_of(arguments: &[OsString]) -> PathBuf {
    let mut output = PathBuf::from("a.out");
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if argument == "-o" || argument == "--output" {
            output = rest.next().map(PathBuf::from).unwrap_or(output);
            continue;
        }
        let bytes = argument.as_encoded_bytes();
        let joined = bytes
            .strip_prefix(b"--output=")
            .or_else(|| bytes.strip_prefix(b"-o"));
        if let Some(joined) = joined.filter(|name| !name.is_empty()) {
            output = PathBuf::from(OsStr::from_bytes(joined));
        }
    }
    output
}

/// The arguments as the compiler reads them: for `@file` what the file has, in quotes or with backslashes as in a shell. If
/// it is not there or is no such text, the word stays (GCC, "Options Controlling the Kind of Output").
///
/// # Errors
/// If it can be read only once, as a pipe: the compiler would find nothing in it.
pub fn with_response_files(arguments: &[OsString]) -> Result<Vec<OsString>, Failure> {
    let mut read = Vec::new();
    expand(arguments, &mut { RESPONSE_FILES_MAX }, &mut read)?;
    Ok(read)
}

/// How many response files GCC reads. More are named only by a file that names itself.
const RESPONSE_FILES_MAX: usize = 2000;

fn expand(
    arguments: &[OsString],
    files_left: &mut usize,
    read: &mut Vec<OsString>,
) -> Result<(), Failure> {
    for argument in arguments {
        let name = argument.as_encoded_bytes().strip_prefix(b"@");
        let path = name.map(|name| Path::new(OsStr::from_bytes(name)));
        let Some(path) = path.filter(|path| *files_left > 0 && path.exists()) else {
            read.push(argument.clone());
            continue;
        };
        if !path.is_file() {
            let text = format!("cannot read `{}` before the compiler does", path.display());
            let hint = "write the arguments into a regular file";
            return Err(Failure::usage(text).hint(hint));
        }
        *files_left -= 1;
        let text = fs::read_to_string(path).ok();
        match text.and_then(|text| shell_words::split(&text).ok()) {
            Some(words) => {
                let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
                expand(&words, files_left, read)?;
            }
            None => read.push(argument.clone()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(arguments: &[&str]) -> Vec<OsString> {
        arguments.iter().map(OsString::from).collect()
    }

    #[test]
    fn what_a_compiler_is_asked_for_is_told_from_its_arguments() {
        for (arguments, call) in [
            (&["-O2", "hello.c", "-o", "hello"][..], Call::Links),
            (&["-c", "hello.c"], Call::Compiles),
            (&["-E", "-"], Call::Compiles),
            (&["--version"], Call::Other),
            (&["-o", "hello", "-I", "include"], Call::Other),
            (&["-shared", "a.o"], Call::LinksShared),
            (&["-shared", "-nostdlib", "a.o", "-lc"], Call::LinksShared),
            (&["-nostdlib", "start.o"], Call::Other),
            (&["-nodefaultlibs", "a.c", "-lc", "-lgcc"], Call::Links),
            (&["-nolibc", "a.c", "-l", "c"], Call::Links),
            (&["-nostdlib", "start.o", "-Wl,-lm,-lc"], Call::Links),
            (&["-nostdlib", "start.o", "/opt/libc.a"], Call::Links),
            (&["-r", "-nostdlib", "a.o", "-lc"], Call::Other),
            (&["--compile", "a.c"], Call::Compiles),
            (&["a.o", "-lm"], Call::Links),
            (&["-###", "a.c"], Call::Other),
            (&["--version", "a.c"], Call::Other),
            (&["-c", "-print-file-name=libc.a", "a.c"], Call::Other),
            (&["words.h", "-o", "words.h.gch"], Call::Compiles),
            (&["words.h", "a.c"], Call::Links),
            (&["--sysroot", "/opt", "-B", "/usr/bin", "-v"], Call::Other),
            (&["a.c", "-Xlinker", "--print-map"], Call::Links),
            (&["a.c", "-Xlinker", "-E", "-Xlinker", "-S"], Call::Links),
            (&["a.c", "-Xassembler", "-c", "-S"], Call::Compiles),
        ] {
            assert_eq!(Call::of(&strings(arguments)), call, "{arguments:?}");
        }
    }

    #[test]
    fn the_last_output_option_counts_however_it_is_spelled() {
        assert_eq!(output_of(&strings(&["a.c"])), Path::new("a.out"));
        assert_eq!(
            output_of(&strings(&["-o", "x", "a.c", "-oy"])),
            Path::new("y")
        );
        for last in [&["--output", "z"][..], &["--output=z"]] {
            let arguments = [&["-o", "x", "a.c"], last].concat();
            assert_eq!(output_of(&strings(&arguments)), Path::new("z"));
        }
    }

    #[test]
    fn response_files_are_read_where_they_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).display().to_string();
        let outer = format!("-O2 'a b.c'\n@{}", path("inner"));
        fs::write(path("outer"), outer).unwrap();
        fs::write(path("inner"), "-o\thello").unwrap();
        let given = [&format!("@{}", path("outer")), "-g", "@missing"];
        let read = with_response_files(&strings(&given)).unwrap();
        let expected = ["-O2", "a b.c", "-o", "hello", "-g", "@missing"];
        assert_eq!(read, strings(&expected));
        let itself = format!("@{0} @{0}", path("inner"));
        fs::write(path("inner"), itself).unwrap();
        let read = with_response_files(&strings(&given)).unwrap();
        assert!(read.len() < 2 * RESPONSE_FILES_MAX + 5);
        assert!(with_response_files(&strings(&["@/dev/null"])).is_err());
    }
}
