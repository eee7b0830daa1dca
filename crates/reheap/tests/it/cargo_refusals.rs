//! What `cargo reheap` refuses, each with its message and exit code, and before anything is built where that is
//! possible.

use crate::common;
use crate::common::{
    HELLO, Project, cargo_reheap, files_below, of_target, run, target, wrong_usage,
};
use std::path::Path;
use std::process::Command;

#[test]
fn a_target_that_is_not_musl_is_refused_and_points_to_reheap_run() {
    let project = Project::new(HELLO);
    for line in [
        "build --target x86_64-unknown-linux-gnu",
        "run --target=aarch64-unknown-linux-gnu",
    ] {
        wrong_usage(
            &project,
            line,
            &[
                "does not link with musl",
                "hint: for a dynamic program, use `reheap run -a <allocator> -- <command>`",
            ],
        );
    }
    wrong_usage(
        &project,
        "build --target powerpc64-unknown-linux-musl",
        &["is not supported yet"],
    );
    wrong_usage(
        &project,
        "build --target nonsense",
        &["cannot link for `nonsense`: it is not a target triple"],
    );
    wrong_usage(
        &project,
        &format!(
            "run --target {} --target aarch64-unknown-linux-musl --target x86_64-unknown-linux-musl",
            target()
        ),
        &[
            "cannot run for more than one target at a time",
            "hint: choose one: --target ",
        ],
    );
}

#[test]
fn a_target_without_a_value_is_refused() {
    let project = Project::new(HELLO);
    for line in ["build --target", "build --target --release"] {
        wrong_usage(&project, line, &["`--target` has no value"]);
    }
}

#[test]
fn every_target_is_checked_before_the_first_is_built() {
    let project = Project::new(HELLO);
    let targets = "--target x86_64-unknown-linux-musl --target i686-unknown-linux-musl";
    wrong_usage(
        &project,
        &format!("build -a hardened_malloc {targets}"),
        &["cannot use hardened_malloc for `i686-unknown-linux-musl`"],
    );
}

#[test]
fn an_unknown_allocator_is_refused_with_the_nearest_name() {
    let project = Project::new(HELLO);
    let unknown = "unknown allocator `mimaloc`";
    wrong_usage(
        &project,
        "build -a mimaloc",
        &[unknown, "hint: did you mean `-a mimalloc`?"],
    );
    wrong_usage(
        &project,
        "build --allocator=zzz",
        &["`zzz`", "hint: `reheap list` shows all"],
    );
}

#[test]
fn tuning_is_checked_against_the_catalogue() {
    let project = Project::new(HELLO);
    let cases: [(&str, &[&str]); 6] = [
        (
            "-t purge_dealy=0",
            &[
                "cannot set `purge_dealy`: mimalloc has no tuning option of that name",
                "did you mean `-t purge_delay=…`?",
            ],
        ),
        (
            "-t zzz=0",
            &[
                "cannot set `zzz`: mimalloc has no tuning option of that name",
                "hint: its options are purge_delay, huge_pages",
            ],
        ),
        (
            "-t purge_delay=soon",
            &["cannot set `purge_delay` to `soon`: it accepts whole milliseconds, or -1 for never"],
        ),
        (
            "-t huge_pages=1",
            &["cannot set `huge_pages` to `1`: it accepts never or allow"],
        ),
        (
            "-t purge_delay",
            &["cannot read the tuning option `purge_delay`: it is not of the form key=value"],
        ),
        (
            "-a rpmalloc -t purge_delay=0",
            &["cannot set `purge_delay`: rpmalloc has no tuning option of that name"],
        ),
    ];
    for (flags, texts) in cases {
        wrong_usage(&project, &format!("build {flags}"), texts);
    }
    wrong_usage(&project, "build --stack-size lots", &["--stack-size"]);
}

#[test]
fn values_from_the_environment_are_checked_alike() {
    let project = Project::new(HELLO);
    let mut build = project.cargo_reheap("build");
    run(build.env("REHEAP_ALLOCATOR", "jemaloc"))
        .ended_with(2)
        .said(&["did you mean `-a jemalloc`?"]);
    let mut build = project.cargo_reheap("build");
    run(build.env("REHEAP_TUNING", "purge_delay=0 nonsense"))
        .ended_with(2)
        .said(&["cannot read the tuning option `nonsense`"]);
}

#[test]
fn where_there_is_no_project_nothing_is_built() {
    let directory = tempfile::tempdir().unwrap();
    for line in ["build", "run", "test"] {
        let mut command = cargo_reheap(line);
        let outcome = run(command.current_dir(&directory)).ended_with(1);
        outcome.said(&[
            "cannot build a Cargo project here: could not find `Cargo.toml`",
            "hint: ",
        ]);
    }
    let missing = "build --manifest-path nowhere/Cargo.toml";
    run(cargo_reheap(missing).current_dir(&directory))
        .ended_with(1)
        .said(&["cannot build a Cargo project here", "nowhere/Cargo.toml"]);
    let files = files_below(directory.path());
    assert!(files.is_empty(), "{files:?}");
}

#[test]
fn a_target_that_is_not_installed_is_named_with_the_command_that_installs_it() {
    let project = Project::new(HELLO);
    let rustc = project.script("rustc", "case \" $* \" in *' target-libdir '*) echo \"${0%/*}/nothing\";; *) exec rustc \"$@\";; esac");
    let mut by_variable = project.cargo_reheap("build");
    by_variable.env("RUSTC", rustc);
    let mut by_flag = project.cargo_reheap("build --config");
    by_flag.arg("build.rustc='./rustc'");
    let target = target();
    let refused = |mut build: Command| {
        run(&mut build).ended_with(1).said(&[
            &format!("Rust's target `{target}` is not installed"),
            &format!("hint: rustup target add {target}"),
        ]);
    };
    refused(by_variable);
    refused(by_flag);
    project.write(".cargo/config.toml", "[build]\nrustc = './rustc'\n");
    refused(project.cargo_reheap("build"));
}

#[test]
fn a_target_is_added_to_the_toolchain_that_lacks_it() {
    let project = Project::new(HELLO);
    let prints_libraries = "case \" $* \" in *' target-libdir '*) echo \"${0%/bin/*}/lib/rustlib/x/lib\";; *) exec rustc \"$@\";; esac";
    let rustc = project.script("toolchains/nightly-of-today/bin/rustc", prints_libraries);
    let hint = format!(
        "hint: rustup target add --toolchain nightly-of-today {}",
        target()
    );
    let mut build = project.cargo_reheap("build");
    run(build.env("RUSTC", rustc)).ended_with(1).said(&[&hint]);
}

#[test]
fn a_compiler_that_does_not_work_is_named_with_the_ways_to_get_one() {
    let project = Project::new(HELLO);
    let mut build = project.cargo_reheap("build");
    build.env(format!("CC_{}", target().replace('-', "_")), "/nowhere/cc");
    build.env("REHEAP_CACHE_DIR", project.directory.join("cache"));
    run(&mut build)
        .ended_with(1)
        .said(&["/nowhere/cc", "hint: reheap doctor --fix"]);
}

#[test]
fn flags_that_make_the_program_dynamic_are_an_error_that_names_them() {
    let project = Project::new(HELLO);
    let mut build = project.cargo_reheap("build -a rpmalloc");
    let outcome = run(build.env("RUSTFLAGS", "-C target-feature=-crt-static")).ended_with(1);
    outcome.said(&["-C target-feature=-crt-static"]);
}

#[test]
fn a_linker_in_the_rust_flags_is_an_error_that_says_where_it_belongs() {
    let project = Project::new(HELLO);
    let mut build = project.cargo_reheap("build -a rpmalloc");
    let outcome = run(build.env("RUSTFLAGS", "-C linker=cc")).ended_with(1);
    outcome.said(&[
        "was not linked by reheap",
        "hint: a linker in the Rust flags (-C linker=…)",
    ]);
}

#[test]
fn a_program_that_another_linker_made_since_is_not_replaced_by_the_one_before() {
    let project = Project::new(HELLO);
    run(&mut project.cargo_reheap("build -a mimalloc")).succeeded();
    project.write(
        "src/main.rs",
        "fn main() { println!(\"{}\", String::from(\"newer\")); }",
    );
    for allocator in ["rpmalloc", "mimalloc"] {
        let mut build = project.cargo_reheap(&format!("build -a {allocator}"));
        run(build.env("RUSTFLAGS", "-C linker=cc"))
            .ended_with(1)
            .said(&["was not linked by reheap"]);
        assert_eq!(common::prints(&project.app()), "newer\n");
    }
    run(&mut project.cargo_reheap("build -a rpmalloc")).succeeded();
    assert_eq!(common::prints(&project.app()), "newer\n");
}

#[test]
fn building_in_a_copy_of_a_project_leaves_the_project_alone() {
    let project = Project::new(HELLO);
    run(&mut project.cargo_reheap("build -a mimalloc")).succeeded();
    // With its times: Cargo builds again if a source is newer than what was made from it.
    for flags in ["-rp", "-rl"] {
        let copy = tempfile::tempdir().unwrap();
        let mut cp = Command::new("cp");
        run(cp
            .arg(flags)
            .arg(&project.directory)
            .arg(copy.path().join("copy")))
        .succeeded();
        let mut build = cargo_reheap("build -a rpmalloc");
        run(build.current_dir(copy.path().join("copy")))
            .ended_with(1)
            .said(&["was not linked by reheap"]);
        assert_eq!(common::allocator_in(&project.app()), "mimalloc", "{flags}");
    }
    run(&mut project.cargo_reheap("build -a rpmalloc"))
        .succeeded()
        .said(&["relinked"]);
    assert_eq!(common::allocator_in(&project.app()), "rpmalloc");
}

#[test]
fn cargo_zigbuilds_linker_is_refused() {
    let project = Project::new(HELLO);
    let linker = project.script("cargo-zigbuild/zigcc-x86_64.sh", "exec cc \"$@\"");
    let variable = of_target("CARGO_TARGET_", "_LINKER");
    let outcome = run(project.cargo_reheap("build").env(variable, linker)).ended_with(1);
    outcome.said(&[
        "is cargo-zigbuild's, which ignores a derived libc",
        "hint: ",
    ]);
}

#[test]
fn a_linker_that_fails_is_reported_and_leaves_the_executable_that_was_there() {
    let project = Project::new(HELLO);
    project.script(
        "my-cc",
        "[ -e \"${0%/*}/broken\" ] && { echo 'no space left' >&2; exit 3; }\nexec cc \"$@\"",
    );
    project.write(
        ".cargo/config.toml",
        format!("[target.{}]\nlinker = \"./my-cc\"\n", target()),
    );
    run(&mut project.cargo_reheap("build -a mimalloc")).succeeded();
    let before = std::fs::read(project.app()).unwrap();
    project.write("broken", "");
    let outcome = run(&mut project.cargo_reheap("build -a rpmalloc")).ended_with(1);
    outcome.said(&["cannot relink `", "no space left"]);
    assert!(std::fs::read(project.app()).unwrap() == before);
    std::fs::remove_file(project.directory.join("broken")).unwrap();
    run(&mut project.cargo_reheap("build -a rpmalloc")).succeeded();
    assert_eq!(common::allocator_in(&project.app()), "rpmalloc");
}

#[test]
fn an_executable_that_is_not_reheaps_is_linked_anew_or_refused() {
    let project = Project::new(HELLO);
    let mut cargo = Command::new("cargo");
    let line = ["build", "--target", &target()];
    run(cargo
        .args(line)
        .current_dir(&project.directory)
        .env_remove("CARGO_TARGET_DIR"))
    .succeeded();
    // The linker is another now, so Cargo links again.
    run(&mut project.cargo_reheap("build -a rpmalloc")).succeeded();
    assert_eq!(common::allocator_in(&project.app()), "rpmalloc");
}

#[test]
fn a_cache_in_a_place_where_nothing_can_be_written_is_an_error() {
    let project = Project::new(HELLO);
    // Root can write in read-only directories, but not here (sysfs has no user files), nor below a file.
    project.write("file", "");
    for cache in [
        Path::new("/sys/reheap-cache"),
        &project.directory.join("file/cache"),
    ] {
        let mut build = project.cargo_reheap("build -a rpmalloc");
        let outcome = run(build.env("REHEAP_CACHE_DIR", cache)).ended_with(1);
        outcome.said(&[&format!("cannot make the directory `{}", cache.display())]);
    }
}

#[test]
fn offline_fetches_nothing_for_an_allocator_either() {
    let project = Project::new(HELLO);
    let empty = project.directory.join("empty");
    run(project
        .cargo_reheap("build --offline")
        .env("REHEAP_CACHE_DIR", empty.join("cache"))
        .env("CARGO_HOME", empty.join("cargo")))
    .ended_with(1)
    .said(&[
        "cannot build mimalloc",
        "hint: reheap has to download its sources once",
    ]);
}

#[test]
fn cargo_reheap_alone_says_that_reheap_is_missing_beside_it() {
    let directory = tempfile::tempdir().unwrap();
    let alone = directory.path().join("cargo-reheap");
    std::fs::copy(env!("CARGO_BIN_EXE_cargo-reheap"), &alone).unwrap();
    let reheap = directory.path().join("reheap").display().to_string();
    run(Command::new(&alone).args(["reheap", "--version"]))
        .ended_with(1)
        .said(&[&format!("cannot start `{reheap}`"), "hint: keep"]);
}
