//! What a benchmark relies on: every run prints the same, and threads share the work without changing it.

use std::process::Command;

fn json(threads: &str) -> serde_json::Value {
    let output = Command::new(env!("CARGO_BIN_EXE_json"))
        .args(["--threads", threads, "--amount", "3"])
        .output()
        .unwrap();
    assert!(output.status.success() && output.stderr.is_empty());
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn runs_print_the_same() {
    assert_eq!(json("2"), json("2"));
}

#[test]
fn one_thread_and_several_compute_the_same() {
    let (one, several) = (json("1"), json("4"));
    assert_eq!(one["operations"], several["operations"]);
    assert!(one["digest"].is_string());
    assert_eq!(one["digest"], several["digest"]);
}
