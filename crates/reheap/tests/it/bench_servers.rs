//! `reheap bench` with servers under a load: what it says while it waits for one, and which loads count.

use crate::common::bench::Commands;
use crate::common::{reheap, run, started_by};

/// A server that is ready at once and stays.
const SERVER: &str = "echo it is ready\nexec sleep 1000";

#[test]
fn a_load_that_fails_with_every_variant_measures_nothing() {
    let commands = Commands::new();
    commands.script("load", "echo there is no such page >&2\nexit 22");
    let mut command = commands.bench("--rounds 2 --ready-line ready --load ./load");
    for name in ["a", "b"] {
        command.args(["--variant", &commands.variant(name, SERVER)]);
    }
    let outcome = run(&mut command).ended_with(4).said(&[
        "/load` ended with exit code 22; its last output was:\n  there is no such page",
        "there is nothing to measure: the server under its load works with no variant",
        "hint: start the server by itself",
    ]);
    assert_eq!(outcome.stdout, "");
}

#[test]
fn a_load_that_fails_with_the_baseline_is_told_before_anything_else_is_tried() {
    let commands = Commands::new();
    commands.script("server", SERVER);
    commands.script(
        "load",
        "echo >> loads\necho there is no such page >&2\nexit 22",
    );
    let options = "--ready-line ready --server ./server --load ./load";
    let bench = commands.bench(&format!("--budget 2 --variant glibc,mimalloc {options}"));
    let mut recommend = reheap(&format!("recommend --budget 2 {options}"));
    recommend.current_dir(commands.path(""));
    for (loads, mut command) in [(1, bench), (2, recommend)] {
        run(&mut command).ended_with(4).said(&[
            "there is nothing to measure: with glibc, `",
            "/load` ended with exit code 22; its last output was:\n  there is no such page",
        ]);
        assert_eq!(commands.read("loads").lines().count(), loads);
    }
}

#[test]
fn a_load_that_fails_with_the_values_of_a_sweep_is_a_failure_of_these() {
    let commands = Commands::new();
    let server = commands.variant("server", SERVER);
    let line = "--rounds 1 --ready-line ready -L code=0,9 --load";
    let load = commands.script("load", "exit $1");
    let mut command = commands.bench(line);
    command.arg(format!("{} {{code}}", load.display()));
    let outcome = run(command.args(["--variant", &server])).ended_with(4);
    let failed = "no run of `server`, the baseline, counts";
    assert!(outcome.stdout.contains(failed), "{}", outcome.stdout);
}

#[test]
fn a_load_that_fails_with_one_variant_is_that_variants_failure() {
    let commands = Commands::new();
    commands.script("load", "read name < name\n[ $name = good ] || exit 7");
    let mut command = commands.bench("--rounds 2 --ready-line ready --load ./load");
    for name in ["good", "bad"] {
        let server = commands.variant(name, &format!("echo {name} > name\n{SERVER}"));
        command.args(["--variant", &server]);
    }
    let outcome = run(&mut command).ended_with(4);
    let outcome = outcome.said(&["bad: `", "/load` ended with exit code 7"]);
    let failed = "bad: ended with exit code 7 in 2 of 2 runs";
    assert!(outcome.stdout.contains(failed), "{}", outcome.stdout);
}

/// The server gets ready when reheap has said something twice, and in its second start when it has done so again.
#[test]
fn whoever_waits_for_a_server_is_told_what_for_again_and_again() {
    let commands = Commands::new();
    let server = commands.script(
        "server",
        "echo >> starts\n\
         expected=$((2 * $(wc -l < starts)))\n\
         [ $expected -le 4 ] || expected=4\n\
         until [ $(grep -c 's so far' said) -ge $expected ]; do sleep 0.05; done\n\
         echo it is ready\n\
         exec sleep 1000",
    );
    let mut command = commands.bench("--rounds 1 --ready-line ready --load true --variant");
    command.arg(format!("own={}", server.display()));
    // Where standard error goes, the server can look.
    let to_file = commands.script("to-file", "exec \"$@\" 2> said");
    run(&mut started_by(to_file.to_str().unwrap(), &command)).succeeded();
    let said = commands.read("said");
    let told = said.lines().filter(|line| line.ends_with(" s so far"));
    let what = "waiting for the server, at most 30 s (--ready-within): no line of its output matches `ready` yet, ";
    for line in told {
        assert!(line.contains(what), "{said}");
    }
}
