//! The commands in `--help`, in groups by what a user does.
//!
//! clap has headings for flags and none for commands, so the help is a template that has the list as text. It is made
//! from the commands' own descriptions, each of which is one line.

use clap::Command;

/// A heading of `--help`, and the commands below it.
pub(super) struct Group {
    heading: &'static str,
    commands: &'static [&'static str],
}

const fn group(heading: &'static str, commands: &'static [&'static str]) -> Group {
    Group { heading, commands }
}

/// The groups of the commands of `reheap`.
pub(super) const REHEAP: &[Group] = &[
    group(
        "Build static programs",
        &["cc", "c++", "libc", "graft", "adopt"],
    ),
    group(
        "Run programs",
        &["run", "enable", "disable", "status", "link-names"],
    ),
    group("Look", &["inspect", "profile", "check-memory", "list"]),
    group(
        "Measure",
        &["recommend", "bench", "report", "replay", "attack"],
    ),
    group("Ship", &["image", "preload"]),
    group("Housekeeping", &["doctor", "cache", "generate"]),
];

/// The groups of the commands of `cargo reheap`.
pub(super) const CARGO_REHEAP: &[Group] = &[
    group(
        "Build",
        &["build", "check", "clippy", "rustc", "install", "adopt"],
    ),
    group("Run", &["run", "test"]),
    group("Measure", &["recommend", "bench"]),
    group("Ship", &["image"]),
];

/// The program with its commands in these groups.
pub(super) fn grouped(program: Command, groups: &[Group]) -> Command {
    let header = *program.get_styles().get_header();
    let commands: String = groups
        .iter()
        .map(|group| paragraph(&program, group))
        .collect();
    program.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{commands}\
         {header}Options:{header:#}\n{{options}}{{after-help}}"
    ))
}

fn paragraph(program: &Command, group: &Group) -> String {
    let styles = program.get_styles();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let names = program.get_subcommands().map(Command::get_name);
    let width = names.map(str::len).max().unwrap_or_default();
    let mut text = format!("{header}{}:{header:#}\n", group.heading);
    for name in group.commands {
        let command = program.find_subcommand(name);
        let about = command
            .and_then(Command::get_about)
            .map(ToString::to_string);
        let about = about.unwrap_or_default();
        text += &format!("  {literal}{name:<width$}{literal:#}  {about}\n");
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::super::{CargoReheap, Reheap};
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn each_command_is_in_exactly_one_group() {
        for (program, groups) in [
            (Reheap::command(), REHEAP),
            (CargoReheap::command(), CARGO_REHEAP),
        ] {
            let mut there: Vec<&str> = program.get_subcommands().map(Command::get_name).collect();
            let mut grouped: Vec<&str> = groups
                .iter()
                .flat_map(|group| group.commands.iter().copied())
                .collect();
            there.sort_unstable();
            grouped.sort_unstable();
            assert_eq!(grouped, there);
        }
    }
}
