//! `reheap adopt` and `--undo` on real projects: what is built has the allocator, and afterwards every byte is as it was.

use crate::common::command::{DEADLINE, Running, make_fifo};
use crate::common::{HELLO, Outcome, Project, reheap, run, started_by, target, words};
use rustix::process::{Signal, kill_process_group};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

/// `reheap adopt` in the project's directory.
fn adopt(project: &Project, line: &str) -> Command {
    let mut command = reheap("adopt");
    command.args(words(line)).current_dir(&project.directory);
    command
}

/// The files that adopt may edit.
fn files(project: &Project) -> BTreeMap<&'static str, String> {
    let read = |path| fs::read_to_string(project.directory.join(path)).unwrap();
    let files = ["Cargo.toml", "src/main.rs"];
    files.map(|path| (path, read(path))).into()
}

#[track_caller]
fn succeeds(program: &str, project: &Project, line: &str) -> Outcome {
    let mut command = Command::new(program);
    command.current_dir(&project.directory);
    run(command.args(words(line))).succeeded()
}

/// What `reheap inspect` says of the program.
#[track_caller]
fn inspected(project: &Project) -> String {
    succeeds("cargo", project, &format!("build --target {}", target()));
    run(reheap("inspect").arg(project.app())).succeeded().stdout
}

/// A repository with everything in its first commit.
fn commit(project: &Project) {
    project.write(".gitignore", "target\n");
    succeeds("git", project, "init -q");
    succeeds("git", project, "add -A");
    succeeds(
        "git",
        project,
        "-c user.name=somebody -c user.email=somebody@example.org commit -q -m first",
    );
}

#[test]
fn a_program_for_musl_has_mimalloc_until_it_is_taken_out() {
    let project = Project::new(HELLO);
    succeeds("cargo", &project, "generate-lockfile");
    let before = files(&project);
    let lock = fs::read_to_string(project.directory.join("Cargo.lock")).unwrap();
    run(&mut adopt(&project, ""))
        .succeeded()
        .said(&[
            "--with crate, because",
            "edited Cargo.toml +3, src/main.rs +5",
            &target(),
        ])
        .said(&[
            "Rust code",
            "C code",
            "memory",
            "measure",
            "reheap adopt --undo",
        ]);
    let inspection = inspected(&project);
    assert!(inspection.contains("mimalloc"), "{inspection}");
    let again = files(&project);
    run(&mut adopt(&project, ""))
        .succeeded()
        .said(&["already set up with mimalloc"]);
    run(&mut adopt(&project, "-a mimalloc"))
        .succeeded()
        .said(&["already set up"]);
    assert_eq!(files(&project), again);
    run(&mut adopt(&project, "--undo"))
        .succeeded()
        .said(&["edited Cargo.toml -3, src/main.rs -5"]);
    assert_eq!(files(&project), before);
    assert_eq!(
        fs::read_to_string(project.directory.join("Cargo.lock")).unwrap(),
        lock
    );
    let inspection = inspected(&project);
    assert!(!inspection.contains("mimalloc"), "{inspection}");
    run(&mut adopt(&project, "--undo"))
        .succeeded()
        .said(&["there is nothing here"]);
}

#[test]
fn mimalloc_is_the_same_one_as_in_every_other_command() {
    let project = Project::new(HELLO);
    let before = files(&project);
    for (allocator, version) in [("mimalloc", "2"), ("mimalloc3", "3")] {
        run(&mut adopt(
            &project,
            &format!("--with crate -a {allocator}"),
        ))
        .succeeded();
        run(&mut adopt(&project, "--check")).succeeded();
        run(&mut adopt(&project, ""))
            .succeeded()
            .said(&[&format!("already set up with {allocator}\n")]);
        succeeds("cargo", &project, &format!("build --target {}", target()));
        let mut inspect = reheap(&format!("inspect --expect mimalloc={version}"));
        run(inspect.arg(project.app())).succeeded();
    }
    run(&mut adopt(&project, "--undo")).succeeded();
    assert_eq!(files(&project), before);
}

#[test]
fn a_feature_that_is_off_leaves_the_program_as_it_was() {
    let project = Project::new(HELLO);
    run(&mut adopt(&project, "--feature fast")).succeeded();
    assert!(!inspected(&project).contains("mimalloc"));
    run(&mut adopt(&project, "--feature fast --on-by-default")).succeeded();
    assert!(inspected(&project).contains("mimalloc"));
}

#[test]
fn the_diff_of_a_dry_run_is_what_adopt_does() {
    let project = Project::new(HELLO);
    project.write(
        "Cargo.toml",
        "[package]\r\nname = \"app\"\r\nversion = \"0.1.0\"\r\nedition = \"2015\"",
    );
    commit(&project);
    let before = files(&project);
    let diff = run(&mut adopt(&project, "--targets all --dry-run"))
        .succeeded()
        .stdout;
    assert_eq!(files(&project), before);
    project.write("target/diff", &diff);
    succeeds("git", &project, "apply target/diff");
    let applied = files(&project);
    assert_ne!(applied, before);
    succeeds("git", &project, "checkout -q .");
    run(&mut adopt(&project, "--targets all")).succeeded();
    assert_eq!(files(&project), applied);
}

#[test]
fn changes_that_are_not_committed_are_kept_apart_from_those_of_adopt() {
    let project = Project::new(HELLO);
    commit(&project);
    project.append("Cargo.toml", "# mine\n");
    let before = files(&project);
    run(&mut adopt(&project, "--with reheap"))
        .ended_with(1)
        .said(&["cannot edit `Cargo.toml`", "not committed", "--allow-dirty"]);
    assert_eq!(files(&project), before);
    run(&mut adopt(&project, "--with reheap --allow-dirty")).succeeded();
    run(&mut adopt(&project, "--undo")).succeeded();
    assert_eq!(files(&project), before);
    succeeds("git", &project, "checkout -q .");
    // Its own edits are no reason to refuse another choice.
    run(&mut adopt(&project, "--with reheap")).succeeded();
    run(&mut adopt(&project, "--with reheap -a jemalloc")).succeeded();
    assert!(files(&project)["Cargo.toml"].ends_with("allocator = \"jemalloc\" # reheap adopt\n"));
}

#[test]
fn a_read_only_file_is_refused_before_any_is_written() {
    let project = Project::new(HELLO);
    let before = files(&project);
    let main = project.directory.join("src/main.rs");
    fs::set_permissions(&main, fs::Permissions::from_mode(0o444)).unwrap();
    run(&mut adopt(&project, ""))
        .ended_with(1)
        .said(&["main.rs`: it is read-only"]);
    assert_eq!(files(&project), before);
    // Elsewhere permissions stay as they are.
    fs::set_permissions(&main, fs::Permissions::from_mode(0o600)).unwrap();
    run(&mut adopt(&project, "--targets all")).succeeded();
    assert_eq!(
        fs::metadata(&main).unwrap().permissions().mode() & 0o777,
        0o600
    );
}

#[test]
fn a_project_that_does_not_build_with_it_is_as_it_was() {
    let project = Project::new(&format!("mod mimalloc {{}}\n{HELLO}"));
    let before = files(&project);
    run(&mut adopt(&project, "--targets all"))
        .ended_with(1)
        .said(&[
            "MiMalloc",
            "error[E0",
            "the project is as it was",
            "--with reheap",
        ]);
    assert_eq!(files(&project), before);
    assert!(!project.directory.join("Cargo.lock").exists());
}

#[test]
fn a_target_that_never_built_is_no_reason_to_refuse() {
    let project = Project::new(&format!(
        "#[cfg(target_env = \"gnu\")]\ncompile_error!(\"musl only\");\n{HELLO}"
    ));
    run(&mut adopt(&project, "")).succeeded().said(&[
        "fails without the change, too",
        "so that target is not checked",
    ]);
    assert!(inspected(&project).contains("mimalloc"));
}

#[test]
fn an_interrupt_gives_everything_back() {
    let project = Project::new(HELLO);
    let before = files(&project);
    for name in ["reached", "never"] {
        make_fifo(&project.directory.join(name));
    }
    let cargo = project.script(
        "cargo",
        "if [ \"$1\" = check ]; then echo > \"${0%/*}/reached\"; exec cat \"${0%/*}/never\"; fi\nexec cargo \"$@\"",
    );
    let mut command = adopt(&project, "");
    command.env("CARGO", cargo);
    let mut command = started_by("env --default-signal=INT", &command);
    let running = Running::start(command.process_group(0).stdin(Stdio::null()));
    running.says_through(&project.directory.join("reached"));
    assert_ne!(files(&project), before);
    kill_process_group(running.pid(), Signal::INT).unwrap();
    running
        .finish(DEADLINE)
        .ended_with(130)
        .said(&["interrupted; the project is as it was"]);
    assert_eq!(files(&project), before);
}

#[test]
fn a_project_for_musl_alone_keeps_its_sources() {
    let project = Project::new(HELLO);
    project.write(
        ".cargo/config.toml",
        format!("[build]\ntarget = \"{}\"\n", target()),
    );
    let before = files(&project);
    let mut with_options = adopt(
        &project,
        "-a jemalloc -t narenas=2 --stack-size 65536 --targets",
    );
    run(with_options.arg(target())).succeeded().said(&[
        "--with reheap, because --targets names targets with musl only",
        "cargo reheap build",
    ]);
    let manifest = &files(&project)["Cargo.toml"];
    let expected = format!(
        "\n[package.metadata.reheap] # reheap adopt\nallocator = \"jemalloc\" # reheap adopt\n\
         tuning = {{ narenas = 2 }} # reheap adopt\nstack-size = 65536 # reheap adopt\ntargets = [\"{}\"] # reheap adopt\n",
        target()
    );
    assert_eq!(*manifest, before["Cargo.toml"].clone() + &expected);
    run(&mut adopt(&project, "--undo")).succeeded();
    run(&mut adopt(&project, "-a rpmalloc"))
        .succeeded()
        .said(&["--with reheap, because Cargo's configuration builds for"]);
    run(&mut adopt(&project, "--undo")).succeeded();
    assert_eq!(files(&project), before);
}

#[test]
fn what_cannot_be_set_up_is_refused_with_the_way_out() {
    let own = "#[global_allocator]\nstatic A: std::alloc::System = std::alloc::System;\n";
    let project = Project::new(&format!("{own}{HELLO}"));
    run(&mut adopt(&project, "")).ended_with(1).said(&[
        "has a global allocator already, at src/main.rs:1",
        "reheap adopt --check",
    ]);
    let project = Project::new(HELLO);
    for (line, code, texts) in [
        (
            "-a rpmalloc",
            2,
            ["no crate that brings rpmalloc", "--with reheap"],
        ),
        ("-a stock", 2, ["`stock`", "--undo"]),
        (
            "-t purge_delay=0",
            2,
            ["only with `--with reheap`", "MIMALLOC_"],
        ),
        (
            "--targets x86_64-linux-musl",
            2,
            ["no target", "did you mean `x86_64-unknown-linux-musl`?"],
        ),
        (
            "--with reheap --targets all",
            2,
            ["needs triples", "x86_64-unknown-linux-musl"],
        ),
        (
            "--with reheap --feature fast",
            2,
            ["--feature", "--with crate"],
        ),
    ] {
        run(&mut adopt(&project, line))
            .ended_with(code)
            .said(&texts);
    }
    project.write("Cargo.toml", "[package\n");
    run(&mut adopt(&project, ""))
        .ended_with(2)
        .said(&["Cargo.toml", "unclosed table"]);
}

#[test]
fn a_member_can_be_set_up_alone_also_through_cargo() {
    let project = Project::new(HELLO);
    let manifest = &files(&project)["Cargo.toml"];
    for name in ["a", "b"] {
        project.write(&format!("{name}/Cargo.toml"), manifest.replace("app", name));
        project.write(&format!("{name}/src/main.rs"), HELLO);
    }
    project.write(
        "Cargo.toml",
        "[workspace]\nresolver = \"3\"\nmembers = [\"a\", \"b\"]\n",
    );
    let shown = |line: &str, at: &str| {
        let mut command = project.cargo_reheap(line);
        run(command.current_dir(project.directory.join(at)))
            .succeeded()
            .stdout
    };
    let all = shown("adopt --dry-run", ".");
    assert!(
        all.contains("a/src/main.rs") && all.contains("b/src/main.rs"),
        "{all}"
    );
    for one in [
        shown("adopt a --dry-run", "."),
        shown("adopt --dry-run", "a"),
    ] {
        assert!(
            one.contains("a/src/main.rs") && !one.contains("b/src/main.rs"),
            "{one}"
        );
    }
    assert_eq!(
        fs::read_to_string(project.directory.join("a/src/main.rs")).unwrap(),
        HELLO
    );
}

#[test]
fn a_workflow_comes_and_goes_with_the_set_up_unless_somebody_changed_it() {
    const WORKFLOW: &str = ".github/workflows/reheap.yml";
    let project = Project::new(HELLO);
    commit(&project);
    let before = files(&project);
    let line = "--with reheap -a jemalloc --ci github";
    run(&mut adopt(&project, line))
        .succeeded()
        .said(&["no release of reheap to download yet"]);
    let workflow = fs::read_to_string(project.directory.join(WORKFLOW)).unwrap();
    for text in ["cargo reheap build", "inspect --expect jemalloc", "-musl"] {
        assert!(workflow.contains(text), "{workflow}");
    }
    // Other flags do not change the allocator by accident.
    run(&mut adopt(&project, "--ci github"))
        .ended_with(2)
        .said(&["jemalloc is set up", "-a jemalloc"]);
    run(&mut adopt(&project, line))
        .succeeded()
        .said(&["already set up"]);
    run(&mut adopt(&project, "--undo")).succeeded();
    assert!(!project.directory.join(".github").exists());
    assert_eq!(files(&project), before);

    run(&mut adopt(&project, line)).succeeded();
    project.append(WORKFLOW, "# mine\n");
    run(&mut adopt(&project, "--undo"))
        .ended_with(1)
        .said(&[&format!("{WORKFLOW}:1: somebody changed this file")]);
    assert_eq!(files(&project), before);
    run(&mut adopt(&project, line))
        .ended_with(1)
        .said(&[WORKFLOW]);
    assert_eq!(files(&project), before);
}

#[test]
fn a_module_of_python_gets_an_allocator_that_can_be_loaded() {
    let project = Project::new(HELLO);
    fs::remove_file(project.directory.join("src/main.rs")).unwrap();
    run(&mut adopt(&project, "--wheel")).ended_with(2); // there is nothing to compile
    let source = "#[unsafe(no_mangle)]\npub extern \"C\" fn fill() -> usize { vec![1; std::process::id() as usize].len() }\n";
    project.write("src/lib.rs", source);
    run(&mut adopt(&project, "--wheel"))
        .ended_with(1)
        .said(&["there is no module of Python or Node"]);
    project.append("Cargo.toml", "\n[lib]\ncrate-type = [\"cdylib\"]\n");
    project.write("pyproject.toml", "[tool.maturin]\n");
    let manifest = || fs::read_to_string(project.directory.join("Cargo.toml")).unwrap();
    let before = manifest();
    run(&mut adopt(&project, "--wheel -a mimalloc3"))
        .ended_with(2)
        .said(&["known to crash", "use one of mimalloc, "]);
    run(&mut adopt(&project, "--wheel --with reheap"))
        .ended_with(2)
        .said(&["modules are shared libraries"]);
    run(&mut adopt(&project, "--wheel"))
        .succeeded()
        .said(&["Python's own heap"]);
    run(&mut adopt(&project, "--check")).succeeded();
    succeeds("cargo", &project, "build");
    let library = project.directory.join("target/debug/libapp.so");
    let mut inspect = reheap("inspect --expect mimalloc=2");
    run(inspect.arg(library)).succeeded();
    run(&mut adopt(&project, "--undo")).succeeded();
    assert_eq!(manifest(), before);
    let library = fs::read_to_string(project.directory.join("src/lib.rs"));
    assert_eq!(library.unwrap(), source);
}

#[test]
fn a_program_that_needs_a_feature_gets_the_allocator_with_it() {
    let project = Project::new(HELLO);
    let manifest = &files(&project)["Cargo.toml"];
    let program = "\n[features]\nprinter = []\n\n[[bin]]\nname = \"app\"\npath = \"src/main.rs\"\n\
                   required-features = [\"printer\"]\n";
    project.write("Cargo.toml", format!("{manifest}{program}"));
    project.write("src/lib.rs", "pub fn words() {}\n");
    let before = files(&project);
    let adopted = run(&mut adopt(&project, "--with crate")).succeeded();
    let next = "cargo build --release --features printer --target ";
    assert!((adopted.stdout + &adopted.stderr).contains(next));
    run(&mut adopt(&project, "--check"))
        .succeeded()
        .said(&["no findings"]);
    let build = format!("build --features printer --target {}", target());
    succeeds("cargo", &project, &build);
    let inspection = run(reheap("inspect").arg(project.app())).succeeded().stdout;
    assert!(inspection.contains("Rust: mimalloc"), "{inspection}");
    // Whoever uses the library alone does not compile it.
    let tree = succeeds("cargo", &project, "tree --target all -e features");
    assert!(!tree.stdout.contains("mimalloc"), "{}", tree.stdout);
    run(&mut adopt(&project, "--undo")).succeeded();
    assert_eq!(files(&project), before);
}
