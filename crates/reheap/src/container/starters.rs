//! Programs that only start another one: where its name is among their arguments.
//!
//! Each of them has options that take a value, and some have words of their own before the program, as gosu has the user.
//! Whoever takes such a word for the program looks for a file that is not there, or finds the wrong one: many users are
//! called like a program.

use std::path::Path;

/// A program that starts the one that its arguments name.
struct Starter {
    names: &'static [&'static str],
    /// Its options whose value is a word of its own.
    with_value: &'static [&'static str],
    /// How many words are in front of the program, such as the user.
    before: usize,
}

const STARTERS: [Starter; 12] = [
    Starter::new(&["exec", "nohup"], &[], 0),
    Starter::new(
        &["tini", "tini-static", "docker-init", "catatonit"],
        &["-e", "-p"],
        0,
    ),
    Starter::new(&["dumb-init"], &["-r", "--rewrite"], 0),
    Starter::new(&["env"], &["-u", "--unset", "-C", "--chdir"], 0),
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
    ),
    Starter::new(
        &["runuser"],
        &["-u", "--user", "-g", "--group", "-G", "--supp-group"],
        0,
    ),
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
        }
    }

    /// What comes after its options and its own words.
    fn started<'a>(&self, mut arguments: &'a [String]) -> &'a [String] {
        while let [word, rest @ ..] = arguments {
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
        arguments.get(self.before..).unwrap_or_default()
    }
}

/// Whether a program reads scripts as shells do.
pub(super) fn is_shell(program: &Path) -> bool {
    let name = name_of(program);
    SHELLS.contains(&name) || MANY_IN_ONE.contains(&name)
}

/// The command that a program starts, if it is there for that. It is called by its own name, or by another: many programs
/// may be links to one.
pub(super) fn command_of(
    program: &Path,
    called: &str,
    arguments: &[String],
) -> Option<Vec<String>> {
    let names = [name_of(program), name_of(Path::new(called))];
    names
        .iter()
        .find_map(|name| command_of_name(name, arguments))
}

fn command_of_name(name: &str, arguments: &[String]) -> Option<Vec<String>> {
    if SHELLS.contains(&name) {
        return command_of_shell(arguments);
    }
    if MANY_IN_ONE.contains(&name) {
        return some(arguments);
    }
    let starter = STARTERS.iter().find(|it| it.names.contains(&name))?;
    some(without_assignments(starter.started(arguments)))
}

/// What a script executes that has these arguments: it ends with `exec "$@"`, as those do that images start with.
pub(super) fn command_of_script(arguments: &[String]) -> Option<Vec<String>> {
    let is_option = |word: &&String| word.starts_with('-');
    some(&arguments[arguments.iter().take_while(is_option).count()..])
}

/// What a shell executes: the text behind `-c`, or a script with its arguments.
fn command_of_shell(mut arguments: &[String]) -> Option<Vec<String>> {
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
        return some(arguments);
    }
    let words = shell_words::split(arguments.first()?).ok()?;
    let words = without_assignments(&words);
    match words {
        [word, rest @ ..] if word == "exec" => some(rest),
        words => some(words),
    }
}

fn without_assignments(words: &[String]) -> &[String] {
    let is_assignment = |word: &&String| word.contains('=');
    &words[words.iter().take_while(is_assignment).count()..]
}

fn some(words: &[String]) -> Option<Vec<String>> {
    (!words.is_empty()).then(|| words.to_vec())
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
            ("env -u A B=c app", "app"),
            ("nice -n 5 app", "app"),
            ("timeout -k 5 10m app", "app"),
            ("busybox sh -c app", "sh -c app"),
            ("sh -c 'A=b exec app -x'", "app -x"),
            ("sh -ec app", "app"),
            ("bash -l -c 'app -x'", "app -x"),
            ("bash -euo pipefail -c app", "app"),
            ("bash -o pipefail -c app name", "app"),
            ("bash --norc script argument", "script argument"),
            ("gosu mail", ""),
            ("sh", ""),
            ("sh -c", ""),
            ("app -c x", ""),
        ] {
            let words = shell_words::split(command).unwrap();
            let found = command_of(Path::new(&words[0]), &words[0], &words[1..]);
            assert_eq!(found.unwrap_or_default().join(" "), started, "{command}");
        }
    }

    #[test]
    fn one_program_may_have_many_names() {
        let arguments = ["-n", "5", "app"].map(str::to_owned);
        let found = command_of(Path::new("/bin/coreutils"), "/usr/bin/nice", &arguments);
        assert_eq!(found.unwrap(), ["app"]);
    }
}
