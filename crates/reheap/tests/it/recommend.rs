//! `reheap recommend`: what it answers, above all where there is nothing to be had.

use crate::common::bench::{Commands, interrupted};
use crate::common::{reheap, run};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::process::Command;

/// `reheap recommend` with these arguments.
fn recommend(line: &str) -> Command {
    let mut command = reheap(&format!("recommend {line}"));
    command.env_remove("LD_PRELOAD");
    command
}

/// With two rounds nothing can be told from chance, whatever the machine does.
#[test]
fn where_nothing_can_be_told_apart_you_keep_what_you_have() {
    let commands = Commands::new();
    let file = commands.path("results.json");
    let mut command = recommend("--rounds 2 --json");
    command.arg(&file).args(["--", "sh", "-c", "echo done"]);
    let outcome = run(&mut command).succeeded();
    let verdict = outcome.stdout.lines().next().unwrap();
    assert_eq!(
        verdict,
        "recommended for balanced: keep what you have: \
         not enough data: 2 rounds, and 6 are needed"
    );
    let outcome = outcome.said(&["step 1 of 2: allocators", "step 2 of 2: tuning"]);
    // What the first step saw comes between the answer and the table of the second.
    let (tried, _) = outcome.stdout.split_once(": tuning\n").unwrap();
    for text in [
        ": allocators, ratios to glibc\n",
        "\nglibc+jemalloc ",
        "\nglibc+mimalloc ",
    ] {
        assert!(tried.contains(text), "no `{text}` in {}", outcome.stdout);
    }
    let results: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let benchmarks = results["benchmarks"].as_array().unwrap().iter();
    let variants = benchmarks.flat_map(|benchmark| benchmark["variants"].as_array().unwrap());
    for variant in variants {
        let name = variant["name"].as_str().unwrap();
        let is_preloaded = name.contains('+');
        let was_seen = variant["activity"]["seen"].is_string();
        assert_eq!(is_preloaded, was_seen, "{variant}");
    }
}

/// Pages of their own take twice their size in glibc, whatever the machine does. The allocators are told apart after five
/// rounds, and their many options are not.
#[test]
fn what_the_first_step_proved_is_recommended_if_the_second_has_too_few_rounds() {
    let commands = Commands::new();
    let source = "#include <stdlib.h>\n#include <string.h>\nint main(void) {\n\
        for (int i = 0; i < 8000; i++) memset(aligned_alloc(4096, 4096), 1, 4096);\n}\n";
    let (source, pages) = (commands.write("pages.c", source), commands.path("pages"));
    let mut compile = Command::new("cc");
    let compile = compile.args(["-O1", "-fno-builtin", "-o"]);
    run(compile.args([&pages, &source])).succeeded();
    let mut command = recommend("--goal memory --rounds 5 --");
    let outcome = run(command.arg(&pages)).succeeded();
    let mut lines = outcome.stdout.lines();
    let verdict = lines.next().unwrap();
    assert!(
        verdict.starts_with("recommended for memory: glibc+")
            && verdict.contains(" less peak memory"),
        "{verdict}"
    );
    let rest: Vec<&str> = lines.take(2).collect();
    assert_eq!(
        rest,
        [
            "  tuning     not enough data: 5 rounds, and 6 are needed",
            "  more data  --rounds 6"
        ]
    );
}

#[test]
fn what_a_profile_says_is_told_below_the_recommendation() {
    let commands = Commands::new();
    let profile = commands.path("profile.json");
    let words = ["--", "sh", "-c", "echo done"];
    let mut command = reheap("profile -o");
    run(command.arg(&profile).args(words)).succeeded();
    let mut command = recommend("--rounds 1 --profile");
    let outcome = run(command.arg(&profile).args(words)).succeeded();
    let is_of_it = |line: &str| line.starts_with("  profile    ") && line.contains("never freed");
    assert!(outcome.stdout.lines().any(is_of_it), "{}", outcome.stdout);
    let mut command = recommend("--rounds 1 --profile");
    run(command.arg(&profile).args(["--", "sh", "-c", "echo more"]))
        .succeeded()
        .said(&["is of other arguments: sh -c 'echo done'"]);
    let mut command = recommend("--rounds 1 --profile");
    run(command.arg(&profile).args(["--", "sort", "/dev/null"]))
        .ended_with(2)
        .said(&[
            "is of `sh`, not of `sort`",
            "hint: profile the command: reheap profile -o <file> -- sort /dev/null",
        ]);
    fs::write(&profile, "{}").unwrap();
    let mut command = recommend("--rounds 1 --profile");
    run(command.arg(&profile).args(words))
        .ended_with(1)
        .said(&["cannot read the profile"]);
}

#[test]
fn a_command_that_never_prints_the_same_gets_no_recommendation() {
    let commands = Commands::new();
    let script = commands.script("changing", "echo >> count; wc -l < count");
    let mut command = recommend("--rounds 1 --");
    command.arg(script).current_dir(commands.path(""));
    let outcome = run(&mut command).ended_with(4);
    let verdict = outcome.stdout.lines().next().unwrap();
    for text in ["keep what you have", "--ignore-output"] {
        assert!(verdict.contains(text), "{verdict}");
    }
}

#[test]
fn where_everything_crashes_it_is_said_of_the_baseline() {
    let mut command = recommend("--rounds 1 --");
    let outcome = run(command.args(["sh", "-c", "kill -SEGV $$"])).ended_with(4);
    assert_eq!(outcome.stdout, "");
    outcome.said(&[
        "reheap: glibc crashed (SIGSEGV)\n",
        "there is nothing to measure: the command works with no variant",
    ]);
}

#[test]
fn where_no_allocator_reaches_the_work_none_is_recommended() {
    let mut command = recommend("--rounds 1 --");
    let work = "seq 200000 | env -i sort";
    run(command.args(["sh", "-c", work])).ended_with(1).said(&[
        "there is no allocator to recommend: glibc+mimalloc would not be active",
        "`sort` (it was started without LD_PRELOAD)",
    ]);
}

#[test]
fn for_security_it_says_what_is_stopped_and_what_is_lost() {
    let mut command = recommend("--goal security --rounds 1 --");
    let outcome = run(command.args(["sh", "-c", "echo done"])).succeeded();
    let text = &outcome.stdout;
    let verdict = text.lines().next().unwrap();
    assert!(
        verdict.starts_with("recommended for security: glibc+"),
        "{text}"
    );
    assert!(verdict.contains(": stops "), "{text}");
    // All that were tried, those first under which the fewest attacks succeed.
    let ranking: Vec<&str> = text
        .lines()
        .filter(|line| line.contains(" succeed; "))
        .collect();
    let successes = |line: &&str| -> usize {
        let before = line.split(" succeed; ").next().unwrap();
        before.rsplit(' ').next().unwrap().parse().unwrap()
    };
    let successes: Vec<usize> = ranking.iter().map(successes).collect();
    assert!(successes.len() > 1 && successes.is_sorted(), "{text}");
    let (baseline, others) = ranking.split_last().unwrap();
    assert!(
        baseline.ends_with("; what you have; the costs are compared with it"),
        "{text}"
    );
    // One round tells no cost, and that is not the same as none.
    for line in others.iter().chain([&verdict]) {
        assert!(line.contains("wall time undecided after 1 round"), "{line}");
    }
    let stops = text.lines().find(|line| line.starts_with("  stops "));
    assert!(stops.unwrap().contains(" invalid frees"), "{text}");
    // Whatever is lost is named with a way to see it.
    for line in text.lines().filter(|line| line.starts_with("  lost ")) {
        assert!(line.contains(" that glibc stops and glibc+"), "{line}");
        assert!(line.contains("(reheap attack --variant glibc,"), "{line}");
    }
}

/// Under such a limit, hardened_malloc finds no room for its address space.
#[test]
fn for_security_a_hardened_allocator_that_cannot_work_is_listed_with_the_reason() {
    let mut command = Command::new("sh");
    let script =
        "ulimit -v 4000000; exec \"$0\" recommend --goal security --rounds 1 -- sh -c 'echo done'";
    command.args(["-c", script, env!("CARGO_BIN_EXE_reheap")]);
    command.env_remove("LD_PRELOAD");
    let outcome = run(&mut command).succeeded();
    let text = &outcome.stdout;
    let line = |name: &str| {
        let mut lines = text.lines();
        let is_of_it = |line: &&str| line.contains(&format!(" glibc+{name} stops "));
        lines
            .find(is_of_it)
            .unwrap_or_else(|| panic!("no {name} in {text}"))
    };
    for name in ["hardened_malloc", "hardened_malloc-light"] {
        assert!(line(name).contains("; not measured: "), "{text}");
    }
    assert!(!line("mimalloc-secure").contains("not measured"), "{text}");
}

#[test]
fn what_cannot_be_recommended_for_is_refused() {
    for (line, text) in [
        ("", "there is no command to recommend an allocator for"),
        ("--goal fast -- ls", "speed, memory, balanced, security"),
        ("-L n=1,2 -- echo {n}", "one command under one memory limit"),
        ("-L n=1 -- ls", "no command uses the parameter `n`"),
        ("--rounds 3 --budget 9 -- ls", "cannot be used with"),
        ("--html --csv -- ls", "only one report"),
    ] {
        run(&mut recommend(line)).ended_with(2).said(&[text]);
    }
    run(&mut recommend("-- no-such-command"))
        .ended_with(1)
        .said(&["cannot run `no-such-command`: it was not found"]);
}

#[test]
fn ctrl_c_ends_the_search_and_what_it_runs() {
    let commands = Commands::new();
    commands.fifo();
    // The first run is not timed: it shows whether the first allocator is active.
    let text = "sleep 1000 &\necho $! > ids\necho begun > fifo\nwait";
    let script = commands.script("hanging", text);
    let mut command = recommend("--");
    command.arg(script).current_dir(commands.path(""));
    let outcome = interrupted(&commands, &mut command, Signal::INT).ended_with(130);
    outcome.said(&["interrupted before anything was measured"]);
    commands.all_have_ended("ids", 1);
}
