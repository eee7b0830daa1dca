//! Scripts that change the members of a `libc.a`, to get another allocator into static programs.
//!
//! The usual lists of members leave symbols defined twice or not at all with another version of musl, and the change
//! stays in the toolchain for everything that is built with it later.

use crate::finding::{Finding, Rule};
use crate::project::Project;
use crate::workflows::shell::{self, Command};
use crate::workflows::{File, Kind};

/// The kinds of files with commands.
const WITH_COMMANDS: &[Kind] = &[Kind::Ci, Kind::Dockerfile, Kind::Script];

pub(crate) fn of(project: &Project) -> Vec<Finding> {
    let files = project.repository().of_kinds(WITH_COMMANDS);
    let found = files.filter_map(|file| Some((file, place(file)?)));
    found
        .map(|(file, (at, how))| Finding {
            path: file.text.path.clone(),
            line: file.text.line(at),
            rule: Rule::PatchedLibc,
            what: format!("{how}; another version of musl needs another list of members"),
            fix: "build with `cargo reheap build`, which derives a libc and leaves the toolchain alone"
                .to_owned(),
        })
        .collect()
}

/// The first command that does it, and how.
fn place(file: &File) -> Option<(usize, &'static str)> {
    if !file.text.contents.contains("libc.a") {
        return None;
    }
    let commands = shell::commands(&file.text.contents);
    let changed = commands
        .iter()
        .find_map(|command| Some((command.at, change(command)?)));
    changed.or_else(|| by_script(&commands))
}

fn change(command: &Command) -> Option<&'static str> {
    let words = &command.words;
    let tool = |names: &[&str]| words.iter().position(|word| is_tool(word, names));
    if let Some(at) = tool(&["ar"]) {
        let operation = command.word(at + 1).trim_start_matches('-');
        // With `c` it makes an archive: whoever builds a libc of their own.
        let is_change = operation.starts_with(['d', 'm'])
            || operation.starts_with(['r', 'q']) && !operation.contains('c');
        let is_change = is_change && operation.chars().all(|letter| letter.is_ascii_alphabetic());
        // The archive is the first file.
        if is_change && words[at + 2..].iter().take(2).any(|word| is_libc(word)) {
            return Some("`ar` changes the members of `libc.a`");
        }
    }
    if let Some(at) = tool(&["objcopy"])
        && words[at..].iter().any(|word| is_libc(word))
    {
        return Some("`objcopy` changes the symbols of `libc.a`");
    }
    let is_copy = |word: &String| {
        matches!(
            word.as_str(),
            "cp" | "mv" | "install" | "ln" | "COPY" | "ADD" | "copy"
        )
    };
    let at = words.iter().position(is_copy)?;
    let mut files = words[at + 1..].iter().filter(|word| !word.starts_with('-'));
    let to = files.next_back()?;
    let from: Vec<&String> = files.collect();
    is_replacement(&from, to).then_some("another `libc.a` is copied over that of the toolchain")
}

/// With the script on standard input that `ar -M` reads.
fn by_script(commands: &[Command]) -> Option<(usize, &'static str)> {
    let says = |command: &Command, what: &str| {
        let mut words = command.words.iter();
        words.any(|word| word.split_whitespace().next() == Some(what))
    };
    let deletes = |command: &Command| {
        ["DELETE", "REPLACE", "ADDMOD", "ADDLIB"]
            .iter()
            .any(|what| says(command, what))
    };
    let opens = |command: &Command| {
        let is_libc = command
            .words
            .iter()
            .any(|word| word.split_whitespace().any(is_libc));
        is_libc && (says(command, "CREATE") || says(command, "OPEN") || says(command, "ADDLIB"))
    };
    let read = commands.iter().find(|command| {
        let at = command.words.iter().position(|word| is_tool(word, &["ar"]));
        at.is_some_and(|at| {
            command
                .word(at + 1)
                .trim_start_matches('-')
                .starts_with('M')
        })
    })?;
    (commands.iter().any(deletes) && commands.iter().any(opens))
        .then_some((read.at, "a script of `ar` changes the members of `libc.a`"))
}

/// `ar`, `llvm-ar`, `/usr/bin/x86_64-linux-musl-ar`, `$AR`.
fn is_tool(word: &str, names: &[&str]) -> bool {
    let name = word.rsplit('/').next().unwrap_or(word);
    names.iter().any(|tool| {
        let ends = name.strip_suffix(tool);
        let variable =
            name.trim_matches(|character| "${}".contains(character)) == tool.to_uppercase();
        ends.is_some_and(|front| front.is_empty() || front.ends_with('-'))
            || variable && name.starts_with('$')
    })
}

fn is_libc(word: &str) -> bool {
    word.rsplit('/').next() == Some("libc.a")
}

/// Whether copying these there replaces a toolchain's `libc.a`. The same path in another image is a copy of a toolchain.
fn is_replacement(from: &[&String], to: &str) -> bool {
    let is_of_toolchain = |directory: &str| {
        let directory = directory.trim_end_matches('/');
        directory.ends_with("self-contained")
            || directory == "/usr/lib"
            || directory == "/lib"
            || directory.starts_with("/usr/lib/")
    };
    let is_same = from.iter().any(|path| path.as_str() == to);
    match to.strip_suffix("libc.a") {
        Some(directory) if directory.is_empty() || directory.ends_with('/') => {
            is_of_toolchain(directory) && !is_same
        }
        Some(_) => false,
        None => {
            let same = format!("{}/libc.a", to.trim_end_matches('/'));
            let libcs = from
                .iter()
                .filter(|path| is_libc(path) && path.as_str() != same);
            is_of_toolchain(to) && libcs.count() > 0
        }
    }
}
