//! Parses variants as users type them: `glibc`, `musl+mimalloc[purge_delay=0]`, `jemalloc`, or `NAME=COMMAND`.

use crate::bench::duplicates::first_duplicate;
use crate::bench::shell_syntax;
use reheap_allocators::catalogue::{self, CATALOGUE};
use reheap_allocators::memory::MemoryFunctions;
use reheap_allocators::target::Libc;
use reheap_command::choice::Choice;
use reheap_command::named_file;
use reheap_command::ui::Failure;
use std::ffi::OsString;

/// A libc, or the one that is already there, and an allocator for it.
#[derive(Debug, Clone)]
pub struct OfLibc {
    /// `None` for that of the program.
    pub libc: Option<Libc>,
    /// The allocator and its tuning.
    pub choice: Choice,
}

/// A command of the user's own under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnCommand {
    /// The name that tables show.
    pub name: String,
    /// The command and its arguments.
    pub words: Vec<String>,
}

/// A variant as it was typed.
#[derive(Debug, Clone)]
pub enum Typed {
    /// The measured command with another allocator.
    OfLibc(OfLibc),
    /// Another command.
    OwnCommand(OwnCommand),
}

/// Reads the values of `--variant`, each a list separated by commas or one `NAME=COMMAND`.
pub fn parse(values: &[String]) -> anyhow::Result<Vec<Typed>> {
    let mut variants = Vec::new();
    for value in values {
        match own_command(value)? {
            Some(command) => variants.push(Typed::OwnCommand(command)),
            None => {
                for text in split_outside_brackets(value) {
                    variants.push(Typed::OfLibc(of_libc(text)?));
                }
            }
        }
    }
    if variants.is_empty() && !values.is_empty() {
        return Err(Failure::usage("`--variant` needs at least one variant")
            .hint(known())
            .into());
    }
    Ok(variants)
}

/// Refuses two variants of one name: no report could tell them apart.
pub fn refuse_duplicates(names: &[String]) -> anyhow::Result<()> {
    match first_duplicate(names.iter()) {
        None => Ok(()),
        Some(name) => {
            let failure = Failure::usage(format!("found the variant `{name}` twice"));
            let hint =
                "name it once: reheap always measures how far the baseline differs from itself";
            Err(failure.hint(hint).into())
        }
    }
}

/// The names that a user can type.
fn known() -> String {
    let allocators: Vec<&str> = CATALOGUE.iter().map(|row| row.name).collect();
    format!(
        "write LIBC, LIBC+ALLOCATOR, ALLOCATOR or NAME=COMMAND; a libc is glibc or musl; an allocator is one of {}, \
         or a file: ./libmine.so; options go into brackets: mimalloc[purge_delay=0]",
        allocators.join(", ")
    )
}

/// `NAME=COMMAND`: the first `=` is outside brackets; in tuning it is inside.
fn own_command(value: &str) -> anyhow::Result<Option<OwnCommand>> {
    let Some((name, command)) = value
        .split_once('=')
        .filter(|(name, _)| !name.contains('['))
    else {
        return Ok(None);
    };
    let (name, command) = (name.trim(), command.trim());
    if name.is_empty() || command.is_empty() {
        let text = format!("cannot read the variant `{value}`: write NAME=COMMAND");
        return Err(Failure::usage(text).into());
    }
    Ok(Some(OwnCommand {
        name: name.to_owned(),
        words: words(&format!("--variant {name}="), command)?,
    }))
}

/// Splits a command into words as a POSIX shell does, and refuses what else a shell would do. It is a value of this flag,
/// which ends with `=` or a blank.
pub(crate) fn words(flag: &str, command: &str) -> anyhow::Result<Vec<String>> {
    let words = shell_words::split(command).map_err(|_| {
        Failure::usage(format!(
            "cannot split `{command}` into words: a quote is missing"
        ))
    })?;
    if words.is_empty() {
        return Err(Failure::usage("a command is empty").into());
    }
    shell_syntax::refuse(flag, command)?;
    Ok(words)
}

fn split_outside_brackets(list: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    list.split(|c: char| {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
    .map(str::trim)
    .filter(|text| !text.is_empty())
    .collect()
}

/// `[LIBC][+ALLOCATOR][TUNING]`, or an allocator alone.
fn of_libc(text: &str) -> anyhow::Result<OfLibc> {
    let (name, options) = name_and_options(text)?;
    let (libc, allocator) = match name.split_once('+') {
        Some((libc, allocator)) if !named_file::is_one(libc) => {
            (Some(parse_libc(libc, text)?), allocator)
        }
        _ if named_file::is_one(name) => (None, name),
        _ => match parse_libc(name, text) {
            Ok(libc) => (Some(libc), "stock"),
            Err(unknown) if catalogue::find(name).is_err() => {
                return Err(unknown.into());
            }
            Err(_) => (None, name),
        },
    };
    let (of_functions, options): (Vec<&str>, Vec<&str>) = options
        .into_iter()
        .partition(|option| option.starts_with(MEMORY_FUNCTIONS));
    let options: Vec<String> = options.into_iter().map(str::to_owned).collect();
    if !named_file::is_one(allocator) && catalogue::find(allocator).is_err() {
        let text = format!("unknown allocator `{allocator}`");
        return Err(Failure::usage(text).hint(known()).into());
    }
    let mut choice = Choice::of(allocator, &options)?;
    for option in of_functions {
        choice.memory_functions = match &option[MEMORY_FUNCTIONS.len()..] {
            "fast" => MemoryFunctions::Fast,
            "stock" => MemoryFunctions::Stock,
            other => {
                let text = format!("unknown memory functions `{other}`: use fast or stock");
                return Err(Failure::usage(text).into());
            }
        };
    }
    Ok(OfLibc { libc, choice })
}

/// An allocator alone, with its options: `stock[debug=full]`.
pub fn allocator(text: &str) -> anyhow::Result<Choice> {
    let (name, options) = name_and_options(text)?;
    let options: Vec<String> = options.into_iter().map(str::to_owned).collect();
    Choice::of(name, &options)
}

/// What is in front of the brackets, and what is in them.
fn name_and_options(text: &str) -> Result<(&str, Vec<&str>), Failure> {
    let Some((name, rest)) = text.split_once('[') else {
        return Ok((text, Vec::new()));
    };
    match rest.strip_suffix(']') {
        Some(options) => Ok((name, split_outside_brackets(options))),
        None => Err(Failure::usage(format!("`{text}` has no closing `]`"))),
    }
}

fn parse_libc(name: &str, variant: &str) -> Result<Libc, Failure> {
    match name {
        "glibc" => Ok(Libc::Glibc),
        "musl" => Ok(Libc::Musl),
        _ => Err(Failure::usage(format!("unknown variant `{variant}`")).hint(known())),
    }
}

/// The name of a variant, where the libc is known.
pub fn shown(typed: &Typed, libc: Libc) -> String {
    match typed {
        Typed::OwnCommand(command) => command.name.clone(),
        Typed::OfLibc(of) => name(of.libc.unwrap_or(libc), &of.choice),
    }
}

/// The words of the commands among these.
pub fn words_of_own(typed: &[Typed]) -> Vec<OsString> {
    let commands = typed.iter().filter_map(|variant| match variant {
        Typed::OwnCommand(command) => Some(&command.words),
        Typed::OfLibc(_) => None,
    });
    commands.flatten().map(OsString::from).collect()
}

/// Whether all are the user's own commands, so that nothing else runs.
pub fn all_own(typed: &[Typed]) -> bool {
    let is_own = |variant: &Typed| matches!(variant, Typed::OwnCommand(_));
    !typed.is_empty() && typed.iter().all(is_own)
}

/// An option in brackets, like tuning, for static executables: `musl+mimalloc[memory_functions=stock]`.
const MEMORY_FUNCTIONS: &str = "memory_functions=";

/// The name of a variant as reports write it.
pub fn name(libc: Libc, choice: &Choice) -> String {
    if choice.is_stock() {
        with_options(libc.to_string(), choice)
    } else {
        with_options(format!("{libc}+{}", choice.allocator.name), choice)
    }
}

/// The name of an allocator where the libc does not matter.
pub fn allocator_name(choice: &Choice) -> String {
    with_options(choice.allocator.name.to_owned(), choice)
}

fn with_options(name: String, choice: &Choice) -> String {
    let mut options: Vec<String> = choice
        .tuning
        .as_given()
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    if choice.memory_functions == MemoryFunctions::Stock {
        options.push(format!("{MEMORY_FUNCTIONS}stock"));
    }
    if options.is_empty() {
        name
    } else {
        format!("{name}[{}]", options.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(values: &[&str]) -> Vec<String> {
        let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
        let variants = parse(&values).unwrap();
        let as_text = |variant: &Typed| match variant {
            Typed::OfLibc(variant) => match variant.libc {
                Some(libc) => name(libc, &variant.choice),
                None => format!("{} alone", variant.choice.allocator.name),
            },
            Typed::OwnCommand(OwnCommand { name, words }) => format!("{name}: {words:?}"),
        };
        variants.iter().map(as_text).collect()
    }

    fn refusal(value: &str) -> String {
        parse(&[value.to_owned()]).unwrap_err().to_string()
    }

    #[test]
    fn variants_are_written_as_they_are_read() {
        let list = "glibc,musl,glibc+jemalloc[narenas=2,dirty_decay_ms=0],musl+mimalloc,\
                    musl+mimalloc[memory_functions=stock]";
        let expected = [
            "glibc",
            "musl",
            "glibc+jemalloc[dirty_decay_ms=0,narenas=2]",
            "musl+mimalloc",
            "musl+mimalloc[memory_functions=stock]",
        ];
        assert_eq!(names(&[list]), expected);
    }

    #[test]
    fn an_allocator_alone_takes_the_libc_that_is_there() {
        assert_eq!(
            names(&["jemalloc", "stock"]),
            ["jemalloc alone", "stock alone"]
        );
    }

    #[test]
    fn a_command_keeps_its_commas_and_its_quotes() {
        assert_eq!(
            names(&["old=./a --list 1,2 'x y'"]),
            [r#"old: ["./a", "--list", "1,2", "x y"]"#]
        );
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        assert_eq!(refusal("uclibc"), "unknown variant `uclibc`");
        assert_eq!(
            refusal("bionic+mimalloc"),
            "unknown variant `bionic+mimalloc`"
        );
        assert_eq!(refusal("glibc+jemaloc"), "unknown allocator `jemaloc`");
        assert_eq!(
            refusal("musl+mimalloc[purge_delay=0"),
            "`musl+mimalloc[purge_delay=0` has no closing `]`"
        );
        for file in ["./none+1/none.so", "glibc+./none+1/none.so"] {
            let reason = "cannot use `./none+1/none.so` as an allocator: No such file or directory";
            assert!(refusal(file).starts_with(reason), "{}", refusal(file));
        }
        assert_eq!(
            refusal("old='x"),
            "cannot split `'x` into words: a quote is missing"
        );
    }
}
