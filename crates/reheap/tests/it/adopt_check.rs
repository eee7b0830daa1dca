//! `reheap adopt --check` as people and CI run it: what it prints, its exit codes, and projects that are unusual or
//! broken.

use crate::common::{Outcome, reheap, run, write};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use tempfile::TempDir;

const MANIFEST: &str = "[package]\nname = \"example\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n\
    [target.'cfg(target_env = \"musl\")'.dependencies]\nmimalloc = \"0.1\"\n";
const HEAP: &str = "#[global_allocator]\nstatic GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;\n";

fn project(files: &[(&str, &str)]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (path, contents) in files {
        write(directory.path(), path, contents);
    }
    directory
}

fn check(directory: &Path, options: &str) -> Outcome {
    let line = format!("adopt --check {options}");
    run(reheap(line.trim()).current_dir(directory))
}

fn under_musl() -> String {
    format!("#[cfg(target_env = \"musl\")]\n{HEAP}\nfn main() {{}}\n")
}

fn everywhere() -> String {
    format!("{HEAP}\nfn main() {{}}\n")
}

#[test]
fn a_finding_is_one_line_with_its_place_and_its_fix() {
    let directory = project(&[("Cargo.toml", MANIFEST), ("src/main.rs", &everywhere())]);
    let outcome = check(directory.path(), "").ended_with(3);
    assert_eq!(
        outcome.stdout,
        "src/main.rs:1: `mimalloc` is used here but is no dependency for x86_64-unknown-linux-gnu, so that build \
         fails [condition-differs]; write `#[cfg(target_env = \"musl\")]` above it, as in Cargo.toml:7\n"
    );
    assert_eq!(outcome.stderr, "reheap: 1 finding in 1 package\n");
}

#[test]
fn a_project_without_a_fault_says_what_it_has() {
    let directory = project(&[("Cargo.toml", MANIFEST), ("src/main.rs", &under_musl())]);
    let outcome = check(directory.path(), "").succeeded();
    assert_eq!(outcome.stdout, "");
    assert_eq!(
        outcome.stderr,
        "reheap: no findings in 1 package; mimalloc in 1 of 1 program\n"
    );
    let outcome = check(directory.path(), "--json").succeeded();
    let json: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(json["version"], 1);
    assert_eq!(json["findings"].as_array().unwrap().len(), 0);
    let allocator = &json["programs"][0]["allocators"][0];
    assert_eq!(allocator["crate"], "mimalloc");
    assert_eq!(allocator["condition"], "target_env = \"musl\"");
    assert_eq!(
        (&allocator["path"], &allocator["line"]),
        (&"src/main.rs".into(), &2.into())
    );
}

#[test]
fn findings_are_data_and_annotations_too() {
    let directory = project(&[("Cargo.toml", MANIFEST), ("src/main.rs", &everywhere())]);
    let outcome = check(directory.path(), "--json").ended_with(3);
    let json: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let finding = &json["findings"][0];
    assert_eq!(finding["rule"], "condition-differs");
    assert_eq!(
        (&finding["path"], &finding["line"]),
        (&"src/main.rs".into(), &1.into())
    );
    assert!(
        finding["fix"]
            .as_str()
            .unwrap()
            .starts_with("write `#[cfg(")
    );
    let outcome = check(directory.path(), "--format github").ended_with(3);
    assert!(
        outcome.stdout.starts_with(
            "::error file=src/main.rs,line=1,title=condition-differs::`mimalloc` is used here"
        ),
        "{}",
        outcome.stdout
    );
    assert_eq!(outcome.stdout.lines().count(), 1);
}

#[test]
fn annotations_name_files_from_the_top_of_the_repository() {
    let dockerfile = "FROM alpine\nENV LD_PRELOAD=/usr/lib/x86_64-linux-gnu/libjemalloc.so.2\n";
    let directory = project(&[
        ("rust/Cargo.toml", MANIFEST),
        ("rust/src/main.rs", &everywhere()),
        ("Dockerfile", dockerfile),
        (".git/HEAD", "ref: refs/heads/main\n"),
    ]);
    let rust = directory.path().join("rust");
    let outcome = check(&rust, "--format github").ended_with(3);
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert!(
        lines[0].starts_with("::error file=Dockerfile,line=2,title=missing-preload::")
            && lines[1].starts_with("::error file=rust/src/main.rs,line=1,"),
        "{lines:?}"
    );
    // People read it where they are.
    let outcome = check(&rust, "").ended_with(3);
    assert!(
        outcome.stdout.starts_with("../Dockerfile:2: "),
        "{}",
        outcome.stdout
    );
}

#[test]
fn what_is_no_cargo_project_is_wrong_usage() {
    let directory = project(&[("notes.txt", "")]);
    let path = directory.path().display().to_string();
    run(&mut reheap(&format!("adopt --check {path}")))
        .ended_with(2)
        .said(&["there is no Cargo.toml in", "hint: name a Cargo project"]);
    run(&mut reheap(&format!("adopt --check {path}/notes.txt")))
        .ended_with(2)
        .said(&["is neither a directory nor a Cargo.toml"]);
}

#[test]
fn a_toolchain_that_is_not_there_is_one_line_with_the_way_to_get_it() {
    let toolchain = "[toolchain]\nchannel = \"1.56.1\"\n";
    let directory = project(&[
        ("Cargo.toml", MANIFEST),
        ("src/main.rs", &under_musl()),
        ("rust-toolchain.toml", toolchain),
    ]);
    let elsewhere = tempfile::tempdir().unwrap();
    for (place, project) in [
        (directory.path(), "."),
        (elsewhere.path(), directory.path().to_str().unwrap()),
    ] {
        let mut command = reheap("adopt --check");
        command.arg(project).current_dir(place);
        command.env("RUST_BACKTRACE", "1");
        command.env("RUSTUP_AUTO_INSTALL", "0");
        command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
        let outcome = run(&mut command).ended_with(2);
        let lines: Vec<&str> = outcome.stderr.lines().collect();
        let [what, "", hint] = lines[..] else {
            panic!("{}", outcome.stderr);
        };
        assert!(what.contains("the toolchain `1.56.1-"), "{what}");
        assert!(
            hint.starts_with("hint: rustup toolchain install 1.56.1-"),
            "{hint}"
        );
    }
}

#[test]
fn broken_toml_is_refused_with_its_line() {
    let directory = project(&[
        ("Cargo.toml", "[package]\nname = \"example\"\nversion = \n"),
        ("src/main.rs", &everywhere()),
    ]);
    check(directory.path(), "")
        .ended_with(2)
        .said(&["cannot read the project", "Cargo.toml:3"]);
}

#[test]
fn sources_that_do_not_parse_make_the_check_incomplete() {
    let main = format!("mod broken;\n{}", under_musl());
    let broken = "fn a() {\n}}\n";
    let files = [
        ("Cargo.toml", MANIFEST),
        ("src/main.rs", &main),
        ("src/broken.rs", broken),
    ];
    let directory = project(&files);
    check(directory.path(), "").ended_with(1).said(&[
        "src/broken.rs:2: cannot understand it",
        "no findings in 1 package",
    ]);
    // What is found is certain all the same.
    let main = format!("mod broken;\n{}", everywhere());
    fs::write(directory.path().join("src/main.rs"), main).unwrap();
    check(directory.path(), "")
        .ended_with(3)
        .said(&["src/broken.rs:2: cannot understand it", "1 finding"]);
}

#[test]
fn an_allocator_in_a_macro_or_in_generated_code_is_left_alone() {
    let main = format!("macro_rules! heap {{ () => {{ {HEAP} }} }}\nheap!();\nfn main() {{}}\n");
    let directory = project(&[("Cargo.toml", MANIFEST), ("src/main.rs", &main)]);
    check(directory.path(), "").succeeded().said(&[
        "src/main.rs:1: cannot tell when it is compiled: it is in `macro_rules!`; not checked",
    ]);
    let main = "include!(concat!(env!(\"OUT_DIR\"), \"/heap.rs\"));\nfn main() {}\n";
    let build = format!(
        "fn main() {{\n let path = std::env::var(\"OUT_DIR\").unwrap();\n \
         std::fs::write(path + \"/heap.rs\", {HEAP:?}).unwrap();\n}}\n"
    );
    let files = [
        ("Cargo.toml", MANIFEST),
        ("src/main.rs", main),
        ("build.rs", &build),
    ];
    let directory = project(&files);
    let outcome = check(directory.path(), "");
    assert!(
        !outcome.stdout.contains("condition-differs"),
        "{}",
        outcome.stdout
    );
}

#[test]
fn the_members_of_a_virtual_workspace_are_checked() {
    let directory = project(&[
        (
            "Cargo.toml",
            "[workspace]\nresolver = \"2\"\nmembers = [\"a\", \"b\"]\n",
        ),
        ("a/Cargo.toml", &MANIFEST.replace("example", "a")),
        ("a/src/main.rs", &everywhere()),
        ("b/Cargo.toml", &MANIFEST.replace("example", "b")),
        ("b/src/main.rs", &under_musl()),
    ]);
    let outcome = check(directory.path(), "").ended_with(3);
    assert!(
        outcome.stdout.starts_with("a/src/main.rs:1: "),
        "{}",
        outcome.stdout
    );
    assert_eq!(outcome.stderr, "reheap: 1 finding in 2 packages\n");
}

#[test]
fn old_editions_carriage_returns_and_symbolic_links_are_understood() {
    let main = format!(
        "#[cfg(target_env = \"musl\")]\nextern crate mimalloc;\n{}",
        under_musl()
    );
    let old = MANIFEST.replace("2021", "2015");
    for (manifest, main) in [
        (old.clone(), main.clone()),
        (old.replace('\n', "\r\n"), main.replace('\n', "\r\n")),
    ] {
        let directory = project(&[("Cargo.toml", &manifest), ("src/main.rs", &main)]);
        check(directory.path(), "").succeeded();
    }
    let directory = project(&[
        ("real.toml", MANIFEST),
        ("src/main.rs", &everywhere().replace('\n', "\r\n")),
    ]);
    symlink("real.toml", directory.path().join("Cargo.toml")).unwrap();
    let outcome = check(directory.path(), "").ended_with(3);
    assert!(
        outcome.stdout.starts_with("src/main.rs:1: "),
        "{}",
        outcome.stdout
    );
}

#[test]
fn build_scripts_and_programs_without_the_standard_library_are_left_alone() {
    let manifest = "[package]\nname = \"example\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n\
        [build-dependencies]\nmimalloc = \"0.1\"\n";
    let kernel =
        "#![no_std]\n#![no_main]\n#[global_allocator]\nstatic HEAP: own::Heap = own::Heap;\n";
    for main in ["fn main() {}\n", kernel] {
        let build = everywhere();
        let files = [
            ("Cargo.toml", manifest),
            ("src/main.rs", main),
            ("build.rs", &build),
        ];
        let directory = project(&files);
        check(directory.path(), "").succeeded();
    }
}
