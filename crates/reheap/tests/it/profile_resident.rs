//! `reheap profile` says where resident memory is, of programs that know it themselves.

use crate::common::{reheap, run};
use serde_json::Value;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What `resident.c` has.
const BLOCK_BYTES: u64 = 500;
const BLOCKS_BYTES: u64 = 40_000 * BLOCK_BYTES;
const MAPPED_BYTES: u64 = 8 << 20;
const MIB: u64 = 1 << 20;

fn build(compiler: &str, flags: &[&str], directory: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/c/resident.c");
    let program = directory.join("resident");
    let mut command = match compiler {
        "reheap" => reheap("cc"),
        _ => Command::new(compiler),
    };
    command.args(flags).args(["-O1", "-fno-builtin"]);
    run(command.arg(source).arg("-o").arg(&program)).succeeded();
    program
}

/// What was seen last of a process that outlived the command, and what was said of all.
fn seen_last(program: &Path, what: &str) -> (Value, String) {
    let json = program.with_extension(what);
    let mut command = reheap("profile -o");
    command.arg(&json).arg("--").arg(program).arg(what);
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let input = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    drop(input); // now the process ends
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    let profile: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    let processes = profile["processes"].as_array().unwrap();
    let mut went_on = processes
        .iter()
        .filter(|process| process["ended"].is_null());
    let parts = went_on.next().unwrap()["resident_last"].clone();
    assert_eq!(sum(&parts), part(&parts, "resident"), "{parts}");
    (parts, said)
}

fn part(parts: &Value, name: &str) -> u64 {
    parts[format!("{name}_bytes")]
        .as_u64()
        .unwrap_or_else(|| panic!("{name}: {parts}"))
}

fn sum(parts: &Value) -> u64 {
    // In a static program without malloc_usable_size, rounding is not known, and is free in pages.
    let rounding = parts["rounding_bytes"].as_u64().unwrap_or(0);
    let names = ["live", "free_in_pages", "free_pages", "other"];
    let known: u64 = names.into_iter().map(|name| part(parts, name)).sum();
    known + rounding
}

#[test]
fn live_memory_is_what_the_program_holds() {
    for (compiler, flags) in [
        ("cc", &[][..]),
        ("cc", &["-static"]),
        ("musl-gcc", &["-static"]),
        ("reheap", &["-s"]),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let program = build(compiler, flags, directory.path());
        let (parts, said) = seen_last(&program, "keeps");
        let live = part(&parts, "live");
        assert!(
            (BLOCKS_BYTES..BLOCKS_BYTES + MIB / 16).contains(&live),
            "{compiler}: {parts}"
        );
        assert!(part(&parts, "free_pages") < MIB, "{compiler}: {parts}");
        assert!(part(&parts, "other") >= MAPPED_BYTES, "{compiler}: {parts}");
        assert!(!said.contains("still resident"), "{compiler}: {said}");

        let (parts, _) = seen_last(&program, "scatters");
        let live = part(&parts, "live");
        assert!(
            (BLOCKS_BYTES / 32..BLOCKS_BYTES / 32 + MIB / 16).contains(&live),
            "{compiler}: {parts}"
        );
        let other = part(&parts, "other");
        assert!(
            (MAPPED_BYTES..MAPPED_BYTES + 8 * MIB).contains(&other),
            "{compiler}: {parts}"
        );

        // musl gives back the addresses of what is free, and the program gets them for its own mapping.
        let (parts, _) = seen_last(&program, "frees");
        assert!(part(&parts, "other") >= MAPPED_BYTES, "{compiler}: {parts}");
    }
}

#[test]
fn memory_that_is_free_and_still_resident_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let program = build("cc", &[], directory.path());
    let (parts, said) = seen_last(&program, "frees");
    assert!(part(&parts, "free_pages") > BLOCKS_BYTES, "{parts}");
    assert!(part(&parts, "live") < MIB, "{parts}");
    assert!(said.contains(" are free and still resident"), "{said}");
    assert!(said.contains("Last seen  "), "{said}");
    assert!(said.contains(" free pages + "), "{said}");
}

#[test]
fn of_a_process_that_ran_before_nothing_is_called_free() {
    let directory = tempfile::tempdir().unwrap();
    let program = build("cc", &[], directory.path());
    let mut child = Command::new(&program)
        .arg("waits")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = [0; 5];
    let mut output = child.stdout.take().unwrap();
    output.read_exact(&mut line).unwrap();
    let json = directory.path().join("profile.json");
    let mut command = reheap("profile --seconds 0.1 -o");
    command.arg(&json).arg("--pid").arg(child.id().to_string());
    run(&mut command).succeeded();
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    let profile: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    let parts = &profile["processes"][0]["resident_last"];
    assert!(part(parts, "live") <= BLOCK_BYTES, "{parts}");
    assert!(
        part(parts, "other") > BLOCKS_BYTES + MAPPED_BYTES,
        "{parts}"
    );
    assert_eq!(parts.get("free_pages_bytes"), None);
}
