//! `reheap doctor` on machines that lack things: a PATH with nothing but a few shell scripts on it.

use crate::common::{Outcome, assert_closed, run};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

const TARGET: &str = "x86_64-unknown-linux-musl";

fn doctor(scripts: &[(&str, &str)], arguments: &[&str]) -> Outcome {
    doctor_in(tempfile::tempdir().unwrap().path(), scripts, arguments)
}

fn doctor_in(directory: &Path, scripts: &[(&str, &str)], arguments: &[&str]) -> Outcome {
    for (name, script) in scripts {
        let path = directory.join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    // Everybody may write to what is made with this umask.
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", "umask 0; exec \"$@\"", "sh"])
        .arg(env!("CARGO_BIN_EXE_reheap"))
        .args(["doctor", "--target", TARGET])
        .args(arguments)
        .env_clear()
        .env("PATH", directory)
        .env("REHEAP_CACHE_DIR", directory.join("cache"));
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
    assert_eq!(rows.len(), 12);
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

/// A pip that installs a compiler which says that it was started.
const PIP: (&str, &str) = (
    "python3",
    "[ \"$2\" = pip ] || exit 1; [ $# -gt 3 ] || exit 0
     zig=\"$6/ziglang\"; /bin/mkdir -p \"$zig/lib\"; printf '#!/bin/sh\\necho zig ran >&2; exit 1\\n' > \"$zig/zig\"
     /bin/chmod a+x \"$zig/zig\"",
);

#[test]
fn zig_is_installed_for_nobody_else_to_write_and_not_used_if_somebody_may() {
    let directory = tempfile::tempdir().unwrap();
    let look = |arguments| doctor_in(directory.path(), &[PIP], arguments);
    let said = look(&["--fix", "c-objects"]).stdout;
    assert!(
        said.contains("cannot compile a small file (zig ran)"),
        "{said}"
    );
    let cache = directory.path().join("cache");
    let seen = assert_closed(&cache);
    assert!(seen >= 5, "{seen}");
    let tools = fs::read_dir(cache.join("tools")).unwrap().next().unwrap();
    let library = tools.unwrap().path().join("ziglang/lib");
    fs::set_permissions(&library, fs::Permissions::from_mode(0o777)).unwrap();
    let said = look(&["c-objects"]).stdout;
    let why = format!(
        "is not used (cannot trust `{}`: every user may",
        library.display()
    );
    assert!(said.contains(&why) && !said.contains("zig ran"), "{said}");
}
