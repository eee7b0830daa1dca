//! What options of GCC and Clang mean for reheap, as far as the compilers' own option tables say.
//!
//! To renew [`TAKE_A_VALUE`]: give each option that `gcc --help=separate`, `gcc --help=driver` and
//! `clang --autocomplete=-` name to the compiler alone. One that needs a value says so ("missing argument",
//! "argument to '-B' is missing").

use std::ffi::{OsStr, OsString};

/// Options of GCC or Clang whose value is the next argument.
const TAKE_A_VALUE: [&str; 116] = [
    "--analyzer-output",
    "--assert",
    "--define-macro",
    "--dump",
    "--dumpbase",
    "--dumpbase-ext",
    "--dumpdir",
    "--entry",
    "--for-assembler",
    "--for-linker",
    "--force-link",
    "--imacros",
    "--include",
    "--include-directory",
    "--include-directory-after",
    "--include-prefix",
    "--include-with-prefix",
    "--include-with-prefix-after",
    "--include-with-prefix-before",
    "--language",
    "--library",
    "--library-directory",
    "--output",
    "--param",
    "--prefix",
    "--print-file-name",
    "--print-prog-name",
    "--serialize-diagnostics",
    "--specs",
    "--std",
    "--sysroot",
    "--undefine-macro",
    "--vfsoverlay",
    "-A",
    "-B",
    "-D",
    "-F",
    "-G",
    "-I",
    "-J",
    "-L",
    "-MF",
    "-MJ",
    "-MQ",
    "-MT",
    "-R",
    "-T",
    "-Tbss",
    "-Tdata",
    "-Ttext",
    "-U",
    "-Xanalyzer",
    "-Xarch_device",
    "-Xarch_host",
    "-Xassembler",
    "-Xclang",
    "-Xlinker",
    "-Xoffload-linker",
    "-Xopenmp-target",
    "-Xpreprocessor",
    "-arch",
    "-aux-info",
    "-b",
    "-cxx-isystem",
    "-dependency-dot",
    "-dependency-file",
    "-dumpbase",
    "-dumpbase-ext",
    "-dumpdir",
    "-e",
    "-fdebug-compilation-dir",
    "-filelist",
    "-fintrinsic-modules-path",
    "-fmodules-user-build-path",
    "-framework",
    "-ftrapv-handler",
    "-gen-cdb-fragment-path",
    "-h",
    "-iapinotes-modules",
    "-idirafter",
    "-iframework",
    "-iframeworkwithsysroot",
    "-imacros",
    "-imultiarch",
    "-imultilib",
    "-include",
    "-include-pch",
    "-iprefix",
    "-iquote",
    "-isysroot",
    "-isystem",
    "-isystem-after",
    "-ivfsoverlay",
    "-iwithprefix",
    "-iwithprefixbefore",
    "-iwithsysroot",
    "-l",
    "-meabi",
    "-mllvm",
    "-mmlir",
    "-module-dependency-dir",
    "-mthread-model",
    "-o",
    "-resource-dir",
    "-rpath",
    "-serialize-diagnostics",
    "-specs",
    "-stdlib++-isystem",
    "-target",
    "-u",
    "-undefined",
    "-vfsoverlay",
    "-working-directory",
    "-wrapper",
    "-x",
    "-z",
];

/// Options that make no program, in GCC's spellings and Clang's.
pub(super) const COMPILE: [&str; 17] = [
    "-c",
    "--compile",
    "-S",
    "--assemble",
    "-E",
    "--preprocess",
    "-M",
    "--dependencies",
    "-MM",
    "--user-dependencies",
    "-fsyntax-only",
    "--syntax-only",
    "--analyze",
    "--precompile",
    "-emit-ast",
    "-module-file-info",
    "-verify-pch",
];

/// Options with which a driver only says something about itself, whatever else is asked for.
const ASK: [&str; 8] = [
    "-###",
    "--version",
    "--help",
    "--target-help",
    "-dumpmachine",
    "-dumpversion",
    "-dumpfullversion",
    "-dumpspecs",
];
/// What others of them begin with.
const FAMILIES: [&str; 3] = ["--print-", "-print-", "--help="];

/// What a driver makes of a file that it is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Input {
    /// A header: a precompiled one, without any option.
    Header,
    /// Anything else: a part of a program.
    Part,
}

impl Input {
    fn of(file: &str, language: Option<&str>) -> Self {
        let suffix = file.rsplit_once('.').map(|(_, suffix)| suffix);
        let is_header = match language {
            Some(language) => language.ends_with("-header"),
            None => suffix.is_some_and(|suffix| HEADERS.contains(&suffix)),
        };
        if is_header { Self::Header } else { Self::Part }
    }
}

/// Suffixes of headers (GCC, "Options Controlling the Kind of Output").
const HEADERS: [&str; 9] = ["h", "hh", "H", "hp", "hxx", "hpp", "HPP", "h++", "tcc"];

/// A driver's arguments, without the values that are words of their own: what is behind `-Xlinker` may look like an
/// option of the driver.
#[derive(Debug, Default)]
pub(super) struct CommandLine<'a> {
    pub(super) options: Vec<&'a OsStr>,
    /// The files, `-` for standard input included.
    pub(super) inputs: Vec<Input>,
    /// Where they are among the arguments.
    pub(super) places: Vec<usize>,
}

impl<'a> CommandLine<'a> {
    pub(super) fn of(arguments: &'a [OsString]) -> Self {
        let mut line = Self::default();
        let mut language: Option<String> = None;
        let mut rest = arguments.iter().enumerate();
        while let Some((place, argument)) = rest.next() {
            let text = argument.to_string_lossy();
            let named = match &*text {
                "-x" | "--language" => rest
                    .next()
                    .map(|(_, word)| word.to_string_lossy().into_owned()),
                _ => text
                    .strip_prefix("--language=")
                    .or_else(|| text.strip_prefix("-x"))
                    .map(str::to_owned),
            };
            if named.is_some() {
                language = named.filter(|name| name != "none");
            } else if !text.starts_with('-') || text == "-" {
                line.inputs.push(Input::of(&text, language.as_deref()));
                line.places.push(place);
            } else {
                line.options.push(argument);
                if TAKE_A_VALUE.contains(&&*text) {
                    rest.next();
                }
            }
        }
        line
    }

    /// Whether one of these is among the options.
    pub(super) fn has(&self, options: &[&str]) -> bool {
        let is_one = |given: &&OsStr| options.iter().any(|option| *given == *option);
        self.options.iter().any(is_one)
    }

    /// Whether the driver only says something about itself, and makes nothing.
    pub(super) fn only_asks(&self) -> bool {
        let is_of_family = |option: &&OsStr| {
            let text = option.to_string_lossy();
            FAMILIES.iter().any(|front| text.starts_with(front))
        };
        self.has(&ASK) || self.options.iter().any(is_of_family)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs_of(line: &str) -> Vec<Input> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        CommandLine::of(&words).inputs
    }

    #[test]
    fn the_value_of_an_option_is_no_input() {
        for line in [
            "-B /usr/bin -v",
            "--sysroot /opt/root -o out",
            "--param max-inline-insns-single=10 -v",
            "-Xclang -load -mllvm -x",
        ] {
            assert_eq!(inputs_of(line), [], "{line}");
        }
        assert_eq!(inputs_of("-B/usr/bin -O2 a.c"), [Input::Part]);
        assert_eq!(inputs_of("-E -"), [Input::Part]);
    }

    #[test]
    fn a_header_is_told_by_its_suffix_or_by_the_language() {
        assert_eq!(inputs_of("-O2 a.h -o a.h.gch"), [Input::Header]);
        assert_eq!(inputs_of("-x c++-header all.inc"), [Input::Header]);
        assert_eq!(inputs_of("-x c a.h"), [Input::Part]);
        let mixed = [Input::Header, Input::Part];
        assert_eq!(inputs_of("-xc-header a.inc -x none b.c"), mixed);
    }
}
