//! Programs that only start another one: where its name is among their arguments.
//!
//! Each of them has options that take a value, and some have words of their own before the program, as gosu has the user.
//! Whoever takes such a word for the program looks for a file that is not there, or finds the wrong one: many users are
//! called like a program.
//!
//! Most of them pass their environment on. What those do that change it was tried with util-linux 2.38, sudo 1.9 and
//! coreutils 9.1.

use super::environment::{Change, quoted};
use crate::program::script;
use reheap_command::env_vars::LD_PRELOAD;
use std::collections::VecDeque;
use std::path::Path;

/// What a command starts.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Started {
    Program {
        command: Vec<String>,
        /// What happens to the environment before.
        changes: Vec<Change>,
    },
    /// A shell reads a text that the command has in it.
    Text {
        text: String,
        arguments: Vec<String>,
    },
}

/// A program that starts the one that its arguments name.
struct Starter {
    names: &'static [&'static str],
    /// Its options whose value is a word of its own.
    with_value: &'static [&'static str],
    /// How many words are in front of the program, such as the user.
    before: usize,
    /// Its options that clear the environment.
    clearing: &'static [&'static str],
}

const STARTERS: [Starter; 10] = [
    Starter::new(&["exec", "nohup"], &[], 0),
    Starter::new(
        &["tini", "tini-static", "docker-init", "catatonit"],
        &["-e", "-p"],
        0,
    ),
    Starter::new(&["dumb-init"], &["-r", "--rewrite"], 0),
    Starter::new(
        &["gosu", "su-exec", "s6-setuidgid", "setuidgid"],
        &[],
        1, // the user
    ),
    Starter::new(
        &["setpriv"],
        &[
            "--ambient-caps",
            "--apparmor-profile",
            "--bounding-set",
            "--egid",
            "--euid",
            "--groups",
            "--inh-caps",
            "--pdeathsig",
            "--regid",
            "--reuid",
            "--rgid",
            "--ruid",
            "--securebits",
            "--selinux-label",
        ],
        0,
    )
    .clearing(&["--reset-env"]),
    Starter::new(&["nice"], &["-n", "--adjustment"], 0),
    Starter::new(&["ionice"], &["-c", "--class", "-n", "--classdata"], 0),
    Starter::new(&["numactl"], &["-C", "-N", "-i", "-m", "-p", "-w"], 0),
    Starter::new(
        &["stdbuf"],
        &["-i", "--input", "-o", "--output", "-e", "--error"],
        0,
    ),
    Starter::new(
        &["timeout"],
        &["-s", "--signal", "-k", "--kill-after"],
        1, // the time
    ),
];
/// Programs that are several, and take the name of one of them.
const MANY_IN_ONE: [&str; 2] = ["busybox", "toybox"];
/// Programs that stay, and wait for the one that they start. A shell does unless it executes that in its place.
const WAITING: [&str; 9] = [
    "catatonit",
    "docker-init",
    "dumb-init",
    "runuser",
    "su",
    "sudo",
    "timeout",
    "tini",
    "tini-static",
];
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "ash", "zsh", "ksh"];

impl Starter {
    const fn new(
        names: &'static [&'static str],
        with_value: &'static [&'static str],
        before: usize,
    ) -> Self {
        Self {
            names,
            with_value,
            before,
            clearing: &[],
        }
    }

    const fn clearing(self, clearing: &'static [&'static str]) -> Self {
        Self { clearing, ..self }
    }

    /// What comes after its options and its own words, and what the options do.
    fn started(&self, mut arguments: &[String]) -> Option<Started> {
        let mut changes = Vec::new();
        while let [word, rest @ ..] = arguments {
            if self.clearing.contains(&word.as_str()) {
                changes.push(Change::Cleared);
            }
            arguments = match word.as_str() {
                "--" => {
                    arguments = rest;
                    break;
                }
                word if self.with_value.contains(&word) => rest.get(1..).unwrap_or_default(),
                word if word.starts_with('-') => rest,
                _ => break,
            };
        }
        program(arguments.get(self.before..).unwrap_or_default(), changes)
    }
}

/// A program behind assignments, which `env` and `sudo` do.
fn program(words: &[String], mut changes: Vec<Change>) -> Option<Started> {
    let assignments = words.iter().map_while(|word| word.split_once('='));
    let assignments: Vec<_> = assignments.collect();
    let command = words[assignments.len()..].to_vec();
    let set = |(name, value): (&str, &str)| Change::Set(name.to_owned(), Some(value.to_owned()));
    changes.extend(assignments.into_iter().map(set));
    (!command.is_empty()).then_some(Started::Program { command, changes })
}

/// Whether a program reads scripts as shells do.
pub(super) fn is_shell(program: &Path) -> bool {
    let name = name_of(program);
    SHELLS.contains(&name) || MANY_IN_ONE.contains(&name)
}

/// Whether a program may stay when it has started another.
pub(super) fn may_wait(program: &Path, called: &str) -> bool {
    let is_waiting = |path: &Path| WAITING.contains(&name_of(path));
    is_shell(program)
        || [Path::new(called), program]
            .iter()
            .any(|path| is_waiting(path))
}

/// The command that a program starts, if it is there for that. It is called by a name, or by its own: many programs may
/// be links to one.
pub(super) fn command_of(program: &Path, called: &str, arguments: &[String]) -> Option<Started> {
    let names = [name_of(Path::new(called)), name_of(program)];
    names
        .iter()
        .find_map(|name| command_of_name(name, arguments))
}

fn command_of_name(name: &str, arguments: &[String]) -> Option<Started> {
    match name {
        "env" => env(arguments),
        "su" | "runuser" => su(arguments),
        "sudo" | "doas" => sudo(arguments),
        _ if SHELLS.contains(&name) => shell(arguments),
        _ if MANY_IN_ONE.contains(&name) => program(arguments, Vec::new()),
        _ => {
            let mut starters = STARTERS.iter();
            let starter = starters.find(|starter| starter.names.contains(&name))?;
            starter.started(arguments)
        }
    }
}

/// What of a command starts another, for people.
pub(super) fn shown(words: &[String], started: &[String]) -> String {
    let starter = words.strip_suffix(started).unwrap_or(words);
    quoted(&starter.join(" "))
}

/// env(1) of GNU and BusyBox. In a `#!` line it has one argument, with its blanks.
pub(super) fn env(arguments: &[String]) -> Option<Started> {
    let mut words = VecDeque::from(arguments.to_vec());
    let mut changes = Vec::new();
    while let Some(option) = words.pop_front_if(|word| word.starts_with('-')) {
        if option == "--" {
            break;
        }
        let option = OptionOfEnv::read(&option);
        if option.clears {
            changes.push(Change::Cleared);
        }
        let mut value = || match option.inline {
            "" => words.pop_front(),
            inline => Some(inline.to_owned()),
        };
        match option.letter {
            Some('u') => changes.push(Change::Removed(value()?)),
            Some('C') => drop(value()?),
            Some('S') => {
                let split = script::words(value()?.as_bytes())?.into_iter();
                for word in split.rev() {
                    words.push_front(String::from_utf8(word).ok()?);
                }
            }
            _ => {}
        }
    }
    program(words.make_contiguous(), changes)
}

/// An option of env, or several in one word.
struct OptionOfEnv<'a> {
    clears: bool,
    /// The last one, which may have a value.
    letter: Option<char>,
    /// What is behind it in the same word.
    inline: &'a str,
}

impl<'a> OptionOfEnv<'a> {
    fn read(option: &'a str) -> Self {
        if let Some(long) = option.strip_prefix("--") {
            let (name, inline) = long.split_once('=').unwrap_or((long, ""));
            return Self {
                clears: name == "ignore-environment",
                letter: match name {
                    "unset" => Some('u'),
                    "chdir" => Some('C'),
                    "split-string" => Some('S'),
                    _ => None,
                },
                inline,
            };
        }
        let letters = &option[1..];
        let mut rest = letters.trim_start_matches(['i', '0', 'v']).chars();
        let letter = rest.next();
        let inline = rest.as_str();
        let without_value = letters.len() - inline.len() - letter.map_or(0, char::len_utf8);
        Self {
            // `-` alone does, too.
            clears: letters.is_empty() || letters[..without_value].contains('i'),
            letter,
            inline,
        }
    }
}

/// su(1) and runuser(1): a shell of the user, or with `-u` a program. Options may be behind the user.
fn su(arguments: &[String]) -> Option<Started> {
    const WITH_VALUE: [&str; 8] = [
        "-g",
        "--group",
        "-G",
        "--supp-group",
        "-s",
        "--shell",
        "-w",
        "--whitelist-environment",
    ];
    let mut changes = Vec::new();
    let mut of_shell = vec!["sh".to_owned()];
    let (mut has_program, mut has_user) = (false, false);
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "--" => {}
            "-" | "-l" | "--login" => changes.push(Change::Cleared),
            "-c" | "--command" | "--session-command" => {
                of_shell.extend(["-c".to_owned(), rest.next()?.clone()]);
            }
            "-u" | "--user" => {
                has_program = true;
                rest.next()?;
            }
            option if WITH_VALUE.contains(&option) => drop(rest.next()?),
            option if option.starts_with('-') => {}
            _ if has_program => {
                let command = arguments[arguments.len() - rest.len() - 1..].to_vec();
                return Some(Started::Program { command, changes });
            }
            _ if has_user => of_shell.push(word.clone()),
            _ => has_user = true,
        }
    }
    let command = of_shell;
    (command.len() > 1).then_some(Started::Program { command, changes })
}

/// sudo and doas, which keep what they are told to keep.
fn sudo(arguments: &[String]) -> Option<Started> {
    const STARTER: Starter = Starter::new(
        &[],
        &[
            "-C", "-D", "-g", "--group", "-h", "--host", "-p", "--prompt", "-R", "-T", "-u",
            "--user",
        ],
        0,
    );
    let Started::Program {
        command,
        changes: set,
    } = STARTER.started(arguments)?
    else {
        return None;
    };
    let options = arguments.strip_suffix(&command[..]).unwrap_or_default();
    let keeps = |option: &String| {
        let list = option.strip_prefix("--preserve-env=");
        list.is_some_and(|list| list.split(',').any(|name| name == LD_PRELOAD))
    };
    let mut changes = Vec::new();
    if !options.iter().any(keeps) {
        changes.push(Change::Cleared);
    }
    changes.extend(set);
    Some(Started::Program { command, changes })
}

/// What a shell executes: the text behind `-c`, or a script with its arguments.
fn shell(mut arguments: &[String]) -> Option<Started> {
    let mut has_text = false;
    while let [word, rest @ ..] = arguments {
        let Some(letters) = word.strip_prefix(['-', '+']) else {
            break;
        };
        arguments = rest;
        let takes_value = match letters.strip_prefix('-') {
            Some("") => break,
            Some(long) => ["rcfile", "init-file"].contains(&long),
            None => {
                has_text |= letters.contains('c');
                letters.contains(['o', 'O'])
            }
        };
        if takes_value {
            arguments = arguments.get(1..).unwrap_or_default();
        }
    }
    if !has_text {
        return program(arguments, Vec::new());
    }
    let (text, rest) = arguments.split_first()?;
    Some(Started::Text {
        text: text.clone(),
        arguments: rest.get(1..).unwrap_or_default().to_vec(),
    })
}

fn name_of(path: &Path) -> &str {
    path.file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_behind_the_options_and_the_words_of_what_starts_it() {
        for (command, started) in [
            ("tini -- app -x", "app -x"),
            ("tini -g -e 143 -- app", "app"),
            ("dumb-init -r 15:3 app", "app"),
            ("gosu mail app", "app"),
            ("su-exec 1000:1000 app", "app"),
            ("setpriv --reuid=1 --regid 2 --init-groups app", "app"),
            ("runuser -u mail -- app", "app"),
            ("runuser mail -s /bin/sh -c 'app -x'", "sh -c app -x"),
            ("su - mail -c app", "sh -c app"),
            ("su mail script x", "sh script x"),
            ("sudo -u mail app -x", "app -x"),
            ("env -u A B=c app", "app"),
            ("env -iS 'A=b app -x' y", "app -x y"),
            ("nice -n 5 app", "app"),
            ("timeout -k 5 10m app", "app"),
            ("busybox sh -c app", "sh -c app"),
            ("sh -c 'A=b exec app -x'", "A=b exec app -x"),
            ("sh -ec app", "app"),
            ("bash -l -c 'app -x'", "app -x"),
            ("bash -euo pipefail -c app", "app"),
            ("bash -o pipefail -c app name", "app"),
            ("bash --norc script argument", "script argument"),
            ("su mail", ""),
            ("env", ""),
            ("gosu mail", ""),
            ("sh", ""),
            ("sh -c", ""),
            ("app -c x", ""),
        ] {
            let words = shell_words::split(command).unwrap();
            let found = match command_of(Path::new(&words[0]), &words[0], &words[1..]) {
                Some(Started::Program { command, .. }) => command.join(" "),
                Some(Started::Text { text, .. }) => text,
                None => String::new(),
            };
            assert_eq!(found, started, "{command}");
        }
    }

    #[test]
    fn the_environment_is_what_a_starter_leaves_of_it() {
        let cleared = || vec![Change::Cleared];
        let set = |value: &str| Change::Set(LD_PRELOAD.to_owned(), Some(value.to_owned()));
        let removed = || vec![Change::Removed(LD_PRELOAD.to_owned())];
        for (command, expected) in [
            ("env app", Vec::new()),
            ("env -i app", cleared()),
            ("env - app", cleared()),
            ("env --ignore-environment app", cleared()),
            ("env -u LD_PRELOAD app", removed()),
            ("env -uLD_PRELOAD app", removed()),
            ("env --unset=LD_PRELOAD app", removed()),
            ("env -S 'LD_PRELOAD=/a.so app'", vec![set("/a.so")]),
            (
                "env -iC /x LD_PRELOAD=/a.so app",
                vec![Change::Cleared, set("/a.so")],
            ),
            ("setpriv --reset-env --reuid 1 app", cleared()),
            ("setpriv --reuid 1 app", Vec::new()),
            ("su mail -c app", Vec::new()),
            ("su -l mail -c app", cleared()),
            ("runuser - mail -c app", cleared()),
            ("runuser -u mail -- app", Vec::new()),
            ("sudo -E app", cleared()),
            (
                "sudo LD_PRELOAD=/a.so app",
                vec![Change::Cleared, set("/a.so")],
            ),
            ("sudo --preserve-env=A,LD_PRELOAD app", Vec::new()),
            ("doas app", cleared()),
            ("gosu mail app", Vec::new()),
        ] {
            let words = shell_words::split(command).unwrap();
            match command_of(Path::new(&words[0]), &words[0], &words[1..]) {
                Some(Started::Program { changes, .. }) => {
                    assert_eq!(changes, expected, "{command}");
                }
                other => panic!("{command}: {other:?}"),
            }
        }
    }

    #[test]
    fn one_program_may_have_many_names() {
        let arguments = ["-n", "5", "app"].map(str::to_owned);
        let found = command_of(Path::new("/bin/coreutils"), "/usr/bin/nice", &arguments);
        let expected = Started::Program {
            command: vec!["app".to_owned()],
            changes: Vec::new(),
        };
        assert_eq!(found, Some(expected));
        let arguments = ["-c", "app"].map(str::to_owned);
        let found = command_of(Path::new("/bin/busybox"), "/bin/sh", &arguments);
        assert!(matches!(found, Some(Started::Text { text, .. }) if text == "app"));
    }
}
