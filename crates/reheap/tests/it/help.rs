//! Every command's help, and that what is printed for machines is for machines: man page, completions, JSON, no
//! colours.

use crate::common::{Outcome, cargo_reheap, reheap, run, run_with_input};
use serde_json::Value;
use std::process::Command;

/// The help of a command and of all commands below it: the words that lead there, and the text.
fn all_help(program: fn(&str) -> Command, above: &str) -> Vec<(String, String)> {
    let outcome = run(&mut program(&format!("{above} --help"))).succeeded();
    assert_eq!(outcome.stderr, "", "{above}");
    let mut found = vec![(above.to_owned(), outcome.stdout.clone())];
    for name in outcome.stdout.lines().filter_map(listed_command) {
        found.extend(all_help(program, format!("{above} {name}").trim()));
    }
    found
}

/// The command that a line of a help describes: `  bench      Compare time and memory …`.
fn listed_command(line: &str) -> Option<&str> {
    let (name, _) = line.strip_prefix("  ")?.split_once("  ")?;
    let is_name = name.starts_with(|letter: char| letter.is_ascii_lowercase());
    (is_name && !name.contains(' ') && name != "help").then_some(name)
}

fn both_programs() -> Vec<(String, String)> {
    [all_help(reheap, ""), all_help(cargo_reheap, "")].concat()
}

#[test]
fn every_command_is_found() {
    let names = |program| -> Vec<String> {
        all_help(program, "")
            .into_iter()
            .map(|(name, _)| name)
            .collect()
    };
    let of_reheap = names(reheap);
    for command in [
        "cc",
        "c++",
        "libc",
        "graft",
        "run",
        "inspect",
        "bench",
        "bench compare",
        "recommend",
        "replay",
        "check-memory",
        "attack",
        "image",
        "report",
        "list",
        "doctor",
        "cache",
        "generate",
        "enable",
        "disable",
        "status",
        "link-names",
        "preload",
    ] {
        assert!(
            of_reheap.iter().any(|name| name == command),
            "{command}: {of_reheap:?}"
        );
    }
    let of_cargo = names(cargo_reheap);
    for command in [
        "build",
        "run",
        "test",
        "bench",
        "recommend",
        "image",
        "install",
    ] {
        assert!(
            of_cargo.iter().any(|name| name == command),
            "{command}: {of_cargo:?}"
        );
    }
}

#[test]
fn commands_are_grouped_by_what_one_does_and_each_has_one_line() {
    for (program, headings) in [
        (
            reheap as fn(&str) -> Command,
            "Build static programs,Run programs,Look,Measure,Ship,Housekeeping,Options",
        ),
        (cargo_reheap, "Build,Run,Measure,Ship,Options"),
    ] {
        let help = run(&mut program("--help")).succeeded().stdout;
        let listed = help.split("\nOptions:").next().unwrap();
        let found = help.lines().filter_map(|line| line.strip_suffix(':'));
        let found: Vec<&str> = found.filter(|line| !line.starts_with("Example")).collect();
        assert_eq!(found.join(","), headings, "{help}");
        for line in listed.lines().filter(|line| line.starts_with(' ')) {
            let fits = line.chars().count() <= 80 && listed_command(line).is_some();
            assert!(fits, "{line}");
        }
    }
}

#[test]
fn every_help_has_an_example_and_is_at_most_100_columns_wide() {
    for (command, text) in both_programs() {
        let examples = text.split("Example").nth(1).unwrap_or_default();
        assert!(
            examples.contains("reheap "),
            "`{command} --help` has no example:\n{text}"
        );
        for line in text.lines() {
            assert!(
                line.chars().count() <= 100,
                "`{command} --help` is wider than 100 columns:\n{line}"
            );
            assert_eq!(
                line,
                line.trim_end(),
                "`{command} --help` has blanks at the end of a line"
            );
        }
    }
}

#[test]
fn the_short_help_is_there_too_and_a_flag_of_help_is_never_an_error() {
    for (command, _) in all_help(reheap, "") {
        for line in [format!("{command} -h"), format!("help {command}")] {
            assert!(
                !run(&mut reheap(&line)).succeeded().stdout.is_empty(),
                "{line}"
            );
        }
    }
    for (command, _) in all_help(cargo_reheap, "") {
        assert!(
            run(&mut cargo_reheap(&format!("{command} -h")))
                .succeeded()
                .stdout
                .contains("Usage: cargo reheap")
        );
    }
}

#[test]
fn no_help_offers_what_its_command_refuses() {
    let helps = both_programs();
    for name in ["preload", "adopt"] {
        let mut texts = helps.iter().filter(|(words, _)| words == name);
        assert!(texts.all(|(_, text)| !text.contains("`stock`")), "{name}");
    }
    let run = helps.iter().find(|(name, _)| name == "run").unwrap();
    assert!(run.1.contains("`stock` is the libc's own"), "{}", run.1);
}

#[test]
fn the_version_is_that_of_the_package() {
    let expected = env!("CARGO_PKG_VERSION");
    assert_eq!(
        run(&mut reheap("--version")).succeeded().stdout,
        format!("reheap {expected}\n")
    );
    assert!(
        run(&mut cargo_reheap("--version"))
            .succeeded()
            .stdout
            .contains(expected)
    );
}

#[test]
fn what_is_no_command_or_flag_is_wrong_usage() {
    run(&mut reheap("")).ended_with(2);
    run(&mut reheap("lis"))
        .ended_with(2)
        .said(&["unrecognized subcommand 'lis'", "list"]);
    run(&mut reheap("list --jsn"))
        .ended_with(2)
        .said(&["--jsn", "--json"]);
    run(&mut cargo_reheap("biuld"))
        .ended_with(2)
        .said(&["unrecognized subcommand 'biuld'", "build"]);
}

const PROGRAMS: [&str; 2] = ["reheap", "cargo-reheap"];

fn generated(what: &str, program: &str) -> String {
    run(&mut reheap(&format!("generate {what} --of {program}")))
        .succeeded()
        .stdout
}

#[test]
fn the_man_page_is_what_groff_takes_for_one() {
    for program in PROGRAMS {
        let page = generated("man", program);
        let mut groff = Command::new("groff");
        groff.args(["-man", "-Tutf8", "-ww", "-P-cbou"]);
        let outcome = run_with_input(&mut groff, page.as_bytes()).succeeded();
        assert_eq!(outcome.stderr, "", "warnings about the page of {program}");
        let text = outcome.stdout;
        for word in ["NAME", "SYNOPSIS", "--allocator", "--tuning", "jemalloc"] {
            assert!(text.contains(word), "{program}: no `{word}` in\n{text}");
        }
        assert_eq!(page.matches(".TH ").count(), 1, "{program}");
    }
}

#[test]
fn bash_takes_the_completions_and_completes() {
    for program in PROGRAMS {
        let script = generated("bash", program);
        let outcome = run_with_input(Command::new("bash").arg("-n"), script.as_bytes()).succeeded();
        assert_eq!(outcome.stderr, "", "{program}");
    }
    for (typed, word, before, completed) in [
        ("reheap lis", "lis", "reheap", "list\n"),
        ("reheap run -a jem", "jem", "-a", "jemalloc\n"),
        ("reheap run -a st", "st", "-a", "stock\n"),
        ("reheap preload -a st", "st", "-a", "\n"),
        (
            "reheap enable sn",
            "sn",
            "enable",
            "snmalloc snmalloc-checks\n",
        ),
    ] {
        let position = typed.split(' ').count() - 1;
        let complete = format!(
            "COMP_WORDS=({typed}); COMP_CWORD={position}; _reheap reheap {word} {before}; echo \"${{COMPREPLY[@]}}\""
        );
        let script = format!("{}\n{complete}\n", generated("bash", "reheap"));
        let outcome = run_with_input(&mut Command::new("bash"), script.as_bytes()).succeeded();
        assert_eq!(outcome.stdout, completed, "{typed}");
    }
}

#[test]
fn the_completions_of_zsh_and_fish_name_every_command() {
    for program in PROGRAMS {
        let (zsh, fish) = (generated("zsh", program), generated("fish", program));
        assert!(zsh.starts_with(&format!("#compdef {program}\n")), "{zsh}");
        assert!(fish.contains(&format!("complete -c {program} ")), "{fish}");
        let commands = all_help(
            if program == "reheap" {
                reheap
            } else {
                cargo_reheap
            },
            "",
        );
        for (command, _) in commands.iter().filter(|(command, _)| !command.is_empty()) {
            // Both shells complete one word after another: of `bench compare` it is the last one that is offered there.
            let command = command.rsplit(' ').next().unwrap();
            assert!(zsh.contains(&format!("({command})")), "{command} in\n{zsh}");
            assert!(
                fish.contains(&format!("-a \"{command}\"")),
                "{command} in\n{fish}"
            );
        }
    }
}

#[test]
fn json_is_json_and_the_data_is_in_it() {
    let json = |outcome: Outcome| -> Value { serde_json::from_str(&outcome.stdout).unwrap() };
    let list = json(run(&mut reheap("list --json")).succeeded());
    let names: Vec<&str> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["name"].as_str().unwrap())
        .collect();
    for name in [
        "mimalloc",
        "mimalloc3",
        "mimalloc-secure",
        "mimalloc2-secure",
        "jemalloc",
        "rpmalloc",
        "snmalloc",
        "snmalloc-checks",
        "hardened_malloc",
        "hardened_malloc-light",
        "stock",
    ] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    let inspect = json(run(reheap("inspect --json").arg(env!("CARGO_BIN_EXE_reheap"))).succeeded());
    assert_eq!(inspect.as_array().unwrap().len(), 1);
    let doctor = json(run(&mut reheap("doctor --json")));
    let rows = doctor.as_array().unwrap();
    assert!(!rows.is_empty());
    for row in rows {
        assert!(
            ["good", "lacking"].contains(&row["state"].as_str().unwrap()),
            "{row}"
        );
    }
}

fn catalogue() -> Vec<Value> {
    let list = run(&mut reheap("list --json")).succeeded().stdout;
    serde_json::from_str(&list).unwrap()
}

#[test]
fn the_catalogue_fits_a_terminal_and_has_every_allocator_in_a_line() {
    let text = run(&mut reheap("list")).succeeded().stdout;
    assert!(text.lines().count() <= 24, "{text}");
    for line in text.lines() {
        assert!(
            line.chars().count() <= 80 && line == line.trim_end(),
            "{line}"
        );
    }
    for row in catalogue() {
        let name = row["name"].as_str().unwrap();
        let mut lines = text.lines();
        let line = lines.find(|line| line.starts_with(&format!("{name} ")));
        for field in ["version", "summary"] {
            let value = row[field].as_str().unwrap();
            assert!(
                line.is_some_and(|line| line.contains(value)),
                "{value}:\n{text}"
            );
        }
    }
}

#[test]
fn everything_about_an_allocator_is_shown_by_its_name() {
    for row in catalogue() {
        let name = row["name"].as_str().unwrap();
        let text = run(&mut reheap(&format!("list {name}"))).succeeded().stdout;
        for field in [
            "name",
            "version",
            "summary",
            "details",
            "licence",
            "hardening",
        ] {
            assert!(
                text.contains(row[field].as_str().unwrap()),
                "{field}:\n{text}"
            );
        }
        for option in row["tuning"].as_array().unwrap() {
            let key = option["key"].as_str().unwrap();
            assert!(text.contains(&format!("-t {key}=…")), "{key}:\n{text}");
        }
        for limit in row["limits"].as_array().unwrap() {
            assert!(text.contains(limit.as_str().unwrap()), "{limit}:\n{text}");
        }
        for (target, reason) in row["missing_on"].as_object().unwrap() {
            let reason = reason.as_str().unwrap();
            assert!(text.contains(target) && text.contains(reason), "{text}");
        }
        let one = run(&mut reheap(&format!("list {name} --json"))).succeeded();
        let one: Vec<Value> = serde_json::from_str(&one.stdout).unwrap();
        assert_eq!(one, [row]);
    }
}

#[test]
fn a_name_that_is_not_in_the_catalogue_gets_the_nearest() {
    for (typed, hint) in [
        ("jemaloc", "did you mean `reheap list jemalloc`?"),
        ("12345", "`reheap list` shows all"),
    ] {
        let outcome = run(&mut reheap(&format!("list {typed}"))).ended_with(2);
        let expected = format!("reheap: unknown allocator `{typed}`\n\nhint: {hint}\n");
        assert_eq!(outcome.stderr, expected);
        assert_eq!(outcome.stdout, "");
    }
}

#[test]
fn nothing_that_is_not_a_terminal_gets_escape_codes() {
    let lines = [
        "--help",
        "list",
        "list --json",
        "doctor",
        "generate bash",
        "nonsense",
        "libc -a nonsense",
        "inspect /nowhere",
        "cc /nowhere.c",
    ];
    let of_cargo = [
        "--help",
        "build -a nonsense",
        "build --manifest-path /nowhere/Cargo.toml",
    ];
    let commands = lines
        .map(reheap)
        .into_iter()
        .chain(of_cargo.map(cargo_reheap));
    for mut command in commands {
        let outcome = run(command.env("TERM", "xterm-256color").env_remove("NO_COLOR"));
        assert!(
            !outcome.stdout.contains('\u{1b}') && !outcome.stderr.contains('\u{1b}'),
            "{command:?}: {outcome:?}"
        );
    }
}

#[test]
fn a_reader_that_leaves_early_is_no_error_but_a_full_disk_is() {
    let mut early = Command::new("sh");
    early
        .args([
            "-c",
            "\"$0\" generate bash | head -n 1 >&2; \"$0\" list --json 2>&1 >&- | cat",
        ])
        .arg(env!("CARGO_BIN_EXE_reheap"));
    run(&mut early).succeeded().did_not_say("panicked");
    let mut full = Command::new("sh");
    full.args(["-c", "\"$0\" list > /dev/full"])
        .arg(env!("CARGO_BIN_EXE_reheap"));
    run(&mut full)
        .ended_with(1)
        .said(&["cannot write to standard output: No space left on device"]);
}

#[test]
fn an_error_is_one_line_and_a_hint_with_a_command() {
    let outcome = run(&mut reheap("libc -a mimaloc")).ended_with(2);
    assert_eq!(
        outcome.stderr,
        "reheap: unknown allocator `mimaloc`\n\nhint: did you mean `-a mimalloc`? `reheap list` shows all\n"
    );
    assert_eq!(outcome.stdout, "");
}
