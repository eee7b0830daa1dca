//! What a shell script does to `LD_PRELOAD`, and which command it ends with.

use super::environment::{Certainty, Change, Environment, quoted};
use super::shell::{self, Command, When};
use super::starters::{self, Started};
use reheap_command::env_vars::LD_PRELOAD;
use reheap_command::ui;
use std::path::Path;

/// What a shell reads.
pub(super) struct Script<'a> {
    pub(super) text: &'a str,
    /// `None` for the text behind `-c`.
    pub(super) file: Option<&'a Path>,
    /// The arguments that `"$@"` stands for.
    pub(super) arguments: &'a [String],
    /// The text of a file that it includes.
    pub(super) include: &'a dyn Fn(&str) -> Option<String>,
}

impl Script<'_> {
    /// Does to the environment what the script does, and gives the command that it ends with. A script of which reheap
    /// cannot tell ends with `exec "$@"`, as those do that images start with.
    pub(super) fn follow(&self, environment: &mut Environment) -> Option<Vec<String>> {
        for command in shell::commands(self.text, LD_PRELOAD) {
            let certainty = match certainty_of(&command, environment) {
                None => continue,
                Some(_) if command.is_last => Certainty::Always, // no other starts a program
                Some(certainty) => certainty,
            };
            self.included(&command, environment, certainty);
            let by = shown(&command, self.file);
            for change in changes(&command, environment) {
                environment.apply(change, &by, certainty);
            }
            let Some(program) = executed(&command) else {
                continue;
            };
            let (words, takes_arguments) = self.expanded(program, environment);
            let is_end = command.is_last || certainty == Certainty::Always;
            if is_end && (takes_arguments || self.file.is_none()) {
                return Some(words);
            }
            self.start(words, environment, certainty);
            if is_end {
                break;
            }
        }
        let is_option = |word: &&String| word.starts_with('-');
        let options = self.arguments.iter().take_while(is_option).count();
        self.file.map(|_| self.arguments[options..].to_vec())
    }

    /// Does what the file says that a command includes: `. FILE`.
    fn included(&self, command: &Command, environment: &mut Environment, outer: Certainty) {
        let [dot, file, ..] = command.words.as_slice() else {
            return;
        };
        let file = value(file, environment).filter(|_| [".", "source"].contains(&dot.as_str()));
        let Some((file, text)) = file.and_then(|file| Some((file.clone(), (self.include)(&file)?)))
        else {
            return;
        };
        for mut command in shell::commands(&text, LD_PRELOAD) {
            command.is_last = false;
            let Some(inner) = certainty_of(&command, environment) else {
                continue;
            };
            let certainty = if outer == Certainty::Always {
                inner
            } else {
                outer
            };
            let by = shown(&command, Some(Path::new(&file)));
            for change in changes(&command, environment) {
                environment.apply(change, &by, certainty);
            }
        }
    }

    /// What starts a program changes the environment too.
    fn start(&self, mut words: Vec<String>, environment: &mut Environment, certainty: Certainty) {
        for _ in 0..super::STARTERS_MAX {
            let Some((name, arguments)) = words.split_first() else {
                return;
            };
            let Some(Started::Program { command, changes }) =
                starters::command_of(Path::new(name), name, arguments)
            else {
                return;
            };
            let by = in_file(&starters::shown(&words, &command), self.file);
            for change in changes {
                environment.apply(change, &by, certainty);
            }
            words = command;
        }
    }

    /// The words with what their variables stand for, as far as that is known, and whether all arguments of the script
    /// are among them.
    fn expanded(&self, words: &[String], environment: &Environment) -> (Vec<String>, bool) {
        const ALL_ARGUMENTS: [&str; 6] = ["\"$@\"", "\"${@}\"", "$@", "${@}", "\"$*\"", "$*"];
        let mut takes_arguments = false;
        let mut expanded = Vec::new();
        for word in words {
            if ALL_ARGUMENTS.contains(&word.as_str()) {
                takes_arguments = true;
                expanded.extend_from_slice(self.arguments);
            } else {
                expanded.push(value(word, environment).unwrap_or_else(|| word.clone()));
            }
        }
        (expanded, takes_arguments)
    }
}

/// Whether a command is executed; `None` if it is not.
fn certainty_of(command: &Command, environment: &Environment) -> Option<Certainty> {
    match command.when {
        When::Without(_) if !environment.preloads().is_empty() => None,
        When::Always => Some(Certainty::Always),
        When::Perhaps | When::Without(_) => Some(Certainty::Perhaps),
    }
}

fn shown(command: &Command, file: Option<&Path>) -> String {
    in_file(&quoted(&command.words.join(" ")), file)
}

fn in_file(what: &str, file: Option<&Path>) -> String {
    match file {
        Some(file) => format!("{what} in `{}`", ui::printable(file)),
        None => what.to_owned(),
    }
}

/// The words from the program on that a command starts in the shell's place: behind `exec`, or those of the last command.
fn executed(command: &Command) -> Option<&[String]> {
    let words = &command.words[assignments(&command.words)..];
    let mut words = match words {
        [exec, rest @ ..] if exec == "exec" => rest,
        words => return (command.is_last && !words.is_empty()).then_some(words),
    };
    while let [option, rest @ ..] = words
        && option.starts_with('-')
    {
        words = if option.ends_with('a') {
            rest.get(1..).unwrap_or_default() // the name that it gets
        } else {
            rest
        };
    }
    (!words.is_empty()).then_some(words)
}

fn assignments(words: &[String]) -> usize {
    let is_assignment = |word: &&String| {
        let name = word.split_once('=').map(|(name, _)| name);
        name.is_some_and(|name| {
            !name.is_empty() && name.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric())
        })
    };
    words.iter().take_while(is_assignment).count()
}

/// What a command of the shell itself does to the variable.
fn changes(command: &Command, environment: &Environment) -> Vec<Change> {
    let (assigned, words) = command.words.split_at(assignments(&command.words));
    let set = |words: &[String]| -> Vec<Change> {
        let values = words.iter().filter_map(|word| {
            let value_as_written = word.strip_prefix(LD_PRELOAD)?.strip_prefix('=')?;
            let value = value(value_as_written, environment);
            Some(Change::Set(LD_PRELOAD.to_owned(), value))
        });
        values.collect()
    };
    let removed = |words: &[String]| {
        let is_named = words.iter().any(|word| word == LD_PRELOAD);
        is_named.then(|| Change::Removed(LD_PRELOAD.to_owned()))
    };
    match words {
        [] => set(assigned),
        [name, rest @ ..] => match name.as_str() {
            "unset" => removed(rest).into_iter().collect(),
            "export" if rest.first().is_some_and(|word| word == "-n") => {
                removed(rest).into_iter().collect()
            }
            "export" | "declare" | "typeset" | "readonly" => set(rest),
            _ if executed(command).is_none() => Vec::new(),
            _ => {
                let clears = name == "exec" && rest.first().is_some_and(|word| word == "-c");
                let cleared = clears.then_some(Change::Cleared);
                set(assigned).into_iter().chain(cleared).collect()
            }
        },
    }
}

fn value(word: &str, environment: &Environment) -> Option<String> {
    shell::expanded(word, &|name| match environment.value(name) {
        _ if name == LD_PRELOAD && environment.unknown().is_some() => None,
        Some(value) => Some(value.to_owned()),
        None => (name == LD_PRELOAD).then(String::new),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_as_doubtful_as_what_it_is_made_of() {
        for (text, list, is_known, risks) in [
            ("exec app", "/a.so", true, 0),
            (
                "export LD_PRELOAD=/b.so:$LD_PRELOAD; exec app",
                "/b.so:/a.so",
                true,
                0,
            ),
            (
                "LD_PRELOAD=$(find /); export LD_PRELOAD; exec app",
                "/a.so",
                false,
                0,
            ),
            (
                "LD_PRELOAD=$(find /); LD_PRELOAD=$LD_PRELOAD:/b.so; exec app",
                "/a.so",
                false,
                0,
            ),
            (
                "LD_PRELOAD=$(find /); LD_PRELOAD=/b.so; exec app",
                "/b.so",
                true,
                0,
            ),
            ("[ $A ] && unset LD_PRELOAD; exec app", "/a.so", true, 1),
            (
                "[ $A ] && unset LD_PRELOAD; LD_PRELOAD=$LD_PRELOAD:/b.so exec app",
                "/a.so:/b.so",
                true,
                1,
            ),
            (
                "[ $A ] && unset LD_PRELOAD; LD_PRELOAD=/b.so exec app",
                "/b.so",
                true,
                0,
            ),
            (
                "unset LD_PRELOAD; [ $A ] && LD_PRELOAD=/b.so; exec app",
                "",
                true,
                1,
            ),
        ] {
            let mut environment = Environment::new(&["LD_PRELOAD=/a.so".to_owned()]);
            let script = Script {
                text,
                file: None,
                arguments: &[],
                include: &|_| None,
            };
            assert_eq!(script.follow(&mut environment).unwrap(), ["app"], "{text}");
            let found = (environment.preloads(), environment.unknown().is_none());
            assert_eq!(found, (list, is_known), "{text}");
            let doubts = environment.doubts().len() - usize::from(!is_known);
            assert_eq!(doubts, risks, "{text}");
        }
    }
}
