//! `reheap doctor` on machines that lack things: a PATH with nothing but a few shell scripts on it.

mod common;

use common::{Outcome, run};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

const TARGET: &str = "x86_64-unknown-linux-musl";

fn doctor(scripts: &[(&str, &str)], arguments: &[&str]) -> Outcome {
    let directory = tempfile::tempdir().unwrap();
    for (name, script) in scripts {
        let path = directory.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_reheap"));
    command
        .args(["doctor", "--target", TARGET])
        .args(arguments)
        .env_clear()
        .env("PATH", directory.path())
        .env("REHEAP_CACHE_DIR", directory.path().join("cache"));
    run(&mut command)
}

/// A rustc whose library directory is next to it.
const RUSTC: (&str, &str) = ("rustc", "echo \"${0%/*}/lib\"");

#[test]
fn what_is_missing_is_named_with_its_fix_and_nothing_is_run() {
    let rustup = ("rustup", "echo ran >&2");
    let output = doctor(&[RUSTC, rustup], &["rust-target"]);
    assert_eq!(output.code(), Some(1));
    let stdout = output.stdout;
    assert!(stdout.contains("missing  Rust's musl target"), "{stdout}");
    assert!(
        stdout.contains(&format!("fix: rustup target add {TARGET}")),
        "{stdout}"
    );
    assert!(!output.stderr.contains("ran\n"));
}

#[test]
fn a_fix_is_announced_then_run_then_checked() {
    let rustup = (
        "rustup",
        "echo installing $3; /bin/mkdir -p \"${0%/*}/lib/self-contained\"; : > \"${0%/*}/lib/self-contained/libc.a\"",
    );
    let output = doctor(&[RUSTC, rustup], &["--fix", "rust-target"]);
    let (stdout, stderr) = (&output.stdout, &output.stderr);
    assert_eq!(output.code(), Some(0), "{stdout}{stderr}");
    assert!(
        stdout.starts_with("ok       Rust's musl target"),
        "{stdout}"
    );
    let announced = stderr.find(&format!("running: rustup target add {TARGET}"));
    let ran = stderr.find(&format!("installing {TARGET}"));
    assert!(announced.is_some() && announced < ran, "{stderr}");
}

#[test]
fn a_fix_that_fails_is_reported_and_the_item_stays_missing() {
    let output = doctor(&[RUSTC, ("rustup", "exit 7")], &["--fix", "rust-target"]);
    assert_eq!(output.code(), Some(1));
    let stderr = output.stderr;
    assert!(
        stderr.contains(&format!(
            "`rustup target add {TARGET}` failed: exit status: 7"
        )),
        "{stderr}"
    );
    assert!(output.stdout.starts_with("missing"));
}

#[test]
fn a_fix_that_changes_nothing_leaves_the_item_missing() {
    let output = doctor(&[RUSTC, ("rustup", "")], &["--fix", "rust-target"]);
    assert_eq!(output.code(), Some(1));
    assert!(output.stdout.starts_with("missing"));
}

#[test]
fn json_has_a_row_for_each_item() {
    let output = doctor(&[], &["--json"]);
    assert_eq!(output.code(), Some(1));
    let rows: Vec<serde_json::Value> = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(rows.len(), 11);
    let make = rows.iter().find(|row| row["item"] == "make").unwrap();
    assert_eq!(make["state"], "lacking");
    assert_eq!(make["fix"]["kind"], "by-hand");
    let cache = rows.iter().find(|row| row["item"] == "cache").unwrap();
    assert_eq!(cache["state"], "good");
    assert!(cache["fix"].is_null());
}

#[test]
fn an_unknown_item_is_wrong_usage() {
    let output = doctor(&[], &["coffee"]);
    assert_eq!(output.code(), Some(2));
}
