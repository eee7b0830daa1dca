//! `reheap adopt` where something is in its way: people who edit meanwhile, projects that do not build, other runs,
//! a broken Git, names that clash.

use crate::common;
use crate::common::command::{DEADLINE, Running, make_fifo};
use crate::common::{HELLO, Outcome, Project, reheap, run, words};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const WORKFLOW: &str = ".github/workflows/reheap.yml";

/// `reheap adopt` in the project's directory.
fn adopt(project: &Project, line: &str) -> Command {
    let mut command = reheap("adopt");
    command.args(words(line)).current_dir(&project.directory);
    command
}

/// `reheap adopt` in the project's directory, with a `cargo check` that is this script. Cargo answers anything else.
fn adopt_with(project: &Project, check: &str, line: &str) -> Command {
    let script = format!("if [ \"$1\" = check ]; then {check}\nfi\nexec cargo \"$@\"");
    let mut command = adopt(project, line);
    command.env("CARGO", project.script("target/cargo", &script));
    command
}

fn read(project: &Project, path: &str) -> String {
    fs::read_to_string(project.directory.join(path)).unwrap()
}

fn git(project: &Project, line: &str) -> Outcome {
    let mut git = Command::new("git");
    run(git.args(words(line)).current_dir(&project.directory)).succeeded()
}

#[test]
fn what_somebody_edits_while_cargo_checks_is_kept() {
    let project = Project::new(HELLO);
    let manifest = read(&project, "Cargo.toml");
    let check = "echo '// mine' >> src/main.rs; exit 1";
    run(&mut adopt_with(&project, check, "--ci github"))
        .ended_with(1)
        .said(&[
            "src/main.rs` was changed while Cargo checked the project",
            "hint: to take that out: reheap adopt --undo",
        ]);
    assert_eq!(read(&project, "Cargo.toml"), manifest);
    assert!(!project.directory.join(".github").exists());
    let main = read(&project, "src/main.rs");
    assert!(
        main.contains("global_allocator") && main.ends_with("// mine\n"),
        "{main}"
    );
    run(&mut adopt(&project, "--undo")).succeeded();
    assert_eq!(read(&project, "src/main.rs"), format!("{HELLO}// mine\n"));
}

#[test]
fn a_second_run_does_not_mix_its_edits_with_those_of_the_first() {
    let project = Project::new(HELLO);
    for name in ["target/reached", "target/go"] {
        fs::create_dir_all(project.directory.join("target")).unwrap();
        make_fifo(&project.directory.join(name));
    }
    // Each later check finds the file that the first one leaves.
    let check = "[ -e target/gone ] || { echo > target/reached; read line < target/go; touch target/gone; }; exit 0";
    let mut first = adopt_with(&project, check, "");
    let first = Running::start(first.stdin(Stdio::null()));
    first.says_through(&project.directory.join("target/reached"));
    for line in ["-a jemalloc", "--undo"] {
        run(&mut adopt_with(&project, "exit 0", line))
            .ended_with(1)
            .said(&["another `reheap adopt` is changing the project in"]);
    }
    fs::write(project.directory.join("target/go"), "\n").unwrap();
    first.finish(DEADLINE).succeeded();
    assert!(read(&project, "src/main.rs").contains("mimalloc"));
    run(&mut adopt(&project, "--undo")).succeeded();
    assert_eq!(read(&project, "src/main.rs"), HELLO);
}

#[test]
fn a_project_that_does_not_build_is_refused_with_the_reason() {
    let broken = "fn main() { let _number: u8 = \"x\"; }\n";
    let project = Project::new(broken);
    let manifest = read(&project, "Cargo.toml");
    run(&mut adopt(&project, "--ci github"))
        .ended_with(1)
        .said(&[
            "error[E0308]",
            "`cargo check` fails without the change, too",
            "the project is as it was",
            "hint: make the project build first",
        ]);
    assert_eq!(read(&project, "Cargo.toml"), manifest);
    assert_eq!(read(&project, "src/main.rs"), broken);
    for path in ["Cargo.lock", ".github"] {
        assert!(!project.directory.join(path).exists(), "{path}");
    }
}

#[test]
fn a_change_that_does_not_build_takes_its_workflow_along() {
    let project = Project::new(&format!("mod mimalloc {{}}\n{HELLO}"));
    run(&mut adopt(&project, "--targets all --ci github"))
        .ended_with(1)
        .said(&[
            "MiMalloc",
            "fails with the change; the project is as it was",
        ]);
    assert!(!project.directory.join(".github").exists());
    assert!(!project.directory.join("Cargo.lock").exists());
}

#[test]
fn another_choice_keeps_the_workflow_that_checks_it() {
    let project = Project::new(HELLO);
    let choose = |line: &str| run(&mut adopt_with(&project, "exit 0", line)).succeeded();
    choose("-a mimalloc --ci github");
    choose("-a mimalloc --targets all");
    assert!(read(&project, WORKFLOW).contains("--expect mimalloc"));
    choose("-a jemalloc");
    assert!(read(&project, WORKFLOW).contains("--expect jemalloc"));
    choose("-a jemalloc --feature fast");
    assert!(read(&project, WORKFLOW).contains("--features fast"));
    run(&mut adopt(&project, "--undo")).succeeded();
    assert!(!project.directory.join(".github").exists());
    assert_eq!(read(&project, "src/main.rs"), HELLO);
}

#[test]
fn a_git_that_cannot_tell_is_no_reason_to_edit() {
    let project = Project::new(HELLO);
    git(&project, "init -q");
    project.write(".git/HEAD", "garbage\n");
    run(&mut adopt_with(&project, "exit 0", ""))
        .ended_with(1)
        .said(&[
            "cannot see whether Git has changes",
            "fatal:",
            "--allow-dirty",
        ]);
    assert_eq!(read(&project, "src/main.rs"), HELLO);
    run(&mut adopt_with(&project, "exit 0", "--allow-dirty")).succeeded();
}

#[test]
fn a_member_with_the_name_of_a_dependency_is_checked() {
    let project = Project::new(HELLO);
    // mimalloc's own build uses the package `cc`.
    let manifest = read(&project, "Cargo.toml").replace("\"app\"", "\"cc\"");
    project.write("Cargo.toml", manifest);
    run(&mut adopt(&project, "--targets all"))
        .succeeded()
        .said(&["cargo check passes for"]);
}

#[test]
fn what_to_type_next_builds_what_was_set_up() {
    let project = Project::new(HELLO);
    project.write(".cargo/config.toml", "[build]\ntarget-dir = \"made\"\n");
    let musl = common::target();
    run(&mut adopt_with(&project, "exit 0", "--feature fast")).succeeded().said(&[
        "if the feature `fast` is on",
        &format!("cargo build --release --features fast --target {musl} && reheap inspect made/{musl}/release/app"),
    ]);
    run(&mut adopt(&project, "--undo")).succeeded();
    // With no way to check the target that has the allocator, nobody is sent there.
    let check =
        "case \"$*\" in *musl*) echo 'failed to find tool \"musl-g++\"'; exit 1;; esac; exit 0";
    run(&mut adopt_with(
        &project,
        check,
        "-a snmalloc --targets all",
    ))
    .succeeded()
    .said(&[
        "there is no C++ compiler `musl-g++` here",
        "next       cargo build --release\n",
    ]);
    run(&mut adopt_with(
        &project,
        check,
        "-a snmalloc --targets cfg(target_env=\"musl\")",
    ))
    .succeeded()
    .said(&["unchecked  the allocator itself"]);
}

#[test]
fn a_newer_rust_than_the_project_promises_is_named() {
    let project = Project::new(HELLO);
    let manifest =
        read(&project, "Cargo.toml").replace("\"2024\"", "\"2021\"\nrust-version = \"1.60\"");
    project.write("Cargo.toml", manifest);
    run(Command::new("cargo")
        .arg("generate-lockfile")
        .current_dir(&project.directory))
    .succeeded();
    // The lock file has to name the packages, as it does after a real check.
    let check = "exec cargo metadata --format-version 1";
    run(&mut adopt_with(&project, check, "-a jemalloc"))
        .succeeded()
        .said(&[
            "tikv-jemalloc-sys 0.7",
            "needs Rust 1.71",
            "`app` promises to build with 1.60",
        ]);
}

#[test]
fn flags_that_would_do_nothing_are_refused() {
    let project = Project::new(HELLO);
    for (line, text) in [
        ("--json", "--check"),
        ("--format json", "--check"),
        ("--undo -a jemalloc", "leave out --undo"),
        ("--check --ci github", "leave out --check"),
        ("--check --feature fast", "leave out --check"),
    ] {
        run(&mut adopt(&project, line)).ended_with(2).said(&[text]);
    }
    assert_eq!(read(&project, "src/main.rs"), HELLO);
}

#[test]
fn names_that_are_no_features_are_refused() {
    let project = Project::new(HELLO);
    for (name, hint) in [
        ("", "fast-allocator"),
        ("dep:x", "fast-allocator"),
        ("a/b", "fast-allocator"),
        ("two words", "fast-allocator"),
        ("default", "--on-by-default"),
    ] {
        let mut command = adopt(&project, "--dry-run --feature");
        run(command.arg(name)).ended_with(2).said(&[hint]);
    }
}

#[test]
fn a_member_beside_the_root_is_named_from_the_root() {
    let project = Project::new(HELLO);
    let manifest = read(&project, "Cargo.toml");
    project.write(
        "root/Cargo.toml",
        "[workspace]\nresolver = \"3\"\nmembers = [\"../beside\", \"lib\"]\n",
    );
    let beside = format!(
        "{}workspace = \"../root\"\n",
        manifest.replace("app", "beside")
    );
    project.write("beside/Cargo.toml", beside);
    project.write("beside/src/main.rs", HELLO);
    project.write("root/lib/Cargo.toml", manifest.replace("app", "only-lib"));
    project.write("root/lib/src/lib.rs", "");
    let root: PathBuf = project.directory.join("root");
    let mut command = adopt(&project, "--dry-run");
    let diff = run(command.current_dir(&root)).succeeded().stdout;
    assert!(diff.contains("+++ b/../beside/Cargo.toml\n"), "{diff}");
    let mut command = adopt(&project, "--dry-run lib");
    run(command.current_dir(&root))
        .ended_with(1)
        .said(&["there is no program here", "such as `../beside`"]);
}
