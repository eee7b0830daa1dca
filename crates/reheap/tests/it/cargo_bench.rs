//! `cargo reheap bench` and `cargo reheap recommend` in a project: what is built, and that each variant is what it is
//! called.

use crate::common::bench::{results, runs_of, variant};
use crate::common::{HELLO, Project, allocator_in, is_static_pie, run};
use std::path::Path;

#[test]
fn each_variant_is_built_and_read_back() {
    let project = Project::new(HELLO);
    let line = "bench --variant glibc,musl,musl+mimalloc[memory_functions=stock] --rounds 2 --json - -- word";
    let outcome = run(&mut project.cargo_reheap(line)).succeeded();
    let benchmark = results(&outcome);
    assert_eq!(benchmark["name"], "app word");
    let executable = |name: &str| {
        let command = variant(&benchmark, name)["command"].clone();
        assert_eq!(command[1], "word");
        assert_eq!(runs_of(&benchmark, name)[0]["stdout_bytes"], 11);
        command[0].as_str().unwrap().to_owned()
    };
    let glibc = executable("glibc");
    assert!(glibc.contains("-unknown-linux-gnu/release/app"), "{glibc}");
    assert_eq!(variant(&benchmark, "glibc")["activity"], "nothing-claimed");
    for (name, allocator) in [
        ("musl", "stock"),
        ("musl+mimalloc[memory_functions=stock]", "mimalloc"),
    ] {
        let file = executable(name);
        assert!(
            file.ends_with(&format!("/reheap-bench/{name}/app")),
            "{file}"
        );
        is_static_pie(Path::new(&file));
        assert_eq!(allocator_in(Path::new(&file)), allocator);
        let seen = variant(&benchmark, name)["activity"]["seen"].clone();
        let seen = seen.as_str().unwrap();
        assert!(seen.starts_with("in the executable: static-pie"), "{seen}");
        assert_eq!(
            seen.contains("mimalloc 2"),
            allocator == "mimalloc",
            "{seen}"
        );
    }
    assert!(!project.app().exists(), "measured is the release profile");
}

#[test]
fn what_is_wrong_is_said_before_anything_is_compiled() {
    let project = Project::new(HELLO);
    for (line, text) in [
        (
            "bench --variant musl+mimaloc",
            "unknown allocator `mimaloc`",
        ),
        (
            "bench --variant musl,musl+stock",
            "found the variant `musl` twice",
        ),
        ("bench --metric rate=(", "is no regular expression"),
        ("bench --html /nowhere/x", "there is no such directory"),
        (
            "bench -L n=1,2 -- word",
            "no command uses the parameter `n`",
        ),
        (
            "recommend -L n=1,2 -- {n}",
            "one command under one memory limit",
        ),
        ("recommend --goal fast", "speed, memory, balanced, security"),
    ] {
        run(&mut project.cargo_reheap(line))
            .ended_with(2)
            .said(&[text])
            .did_not_say("Compiling");
    }
}

#[test]
fn a_project_that_does_not_compile_or_has_no_program_is_an_error() {
    let broken = Project::new("fn main() { nonsense }\n");
    let outcome = run(&mut broken.cargo_reheap("bench --variant musl --rounds 1"));
    assert_ne!(outcome.code(), Some(0));
    outcome.said(&["nonsense"]).did_not_say("measuring");

    let two = Project::new(HELLO);
    two.write("src/bin/other.rs", HELLO);
    let both = run(&mut two.cargo_reheap("bench --variant musl --rounds 1"));
    both.ended_with(2).said(&["--bin"]).did_not_say("measuring");
    run(&mut two.cargo_reheap("bench --variant musl --rounds 1 --bin other")).succeeded();
}

/// With one round nothing can be told from chance, whatever the machine does.
#[test]
fn a_recommendation_for_a_project_links_every_allocator_and_keeps_what_there_is() {
    let project = Project::new(HELLO);
    let outcome = run(&mut project.cargo_reheap("recommend --rounds 1")).succeeded();
    let verdict = outcome.stdout.lines().next().unwrap();
    assert!(
        verdict.starts_with("recommended for balanced: keep what you have"),
        "{verdict}"
    );
    for allocator in ["mimalloc", "jemalloc", "rpmalloc", "snmalloc"] {
        let file = project.output(&format!("reheap-bench/musl+{allocator}/app"));
        assert_eq!(allocator_in(&file), allocator);
    }
}
