//! Flags of Cargo under `cargo reheap`, in a workspace that has everything: each must do what it does under Cargo
//! alone, with the allocator in every program that is made for the target.
//!
//! Every row runs twice, by Cargo and by reheap, each in a workspace of its own so that nothing is compiled twice.

use crate::common::{Outcome, Project, allocator_in, of_target, run, target, words};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

const ALLOCATOR: &str = "rpmalloc";

/// The library. Its tests and those that use it are told what to find: nothing when Cargo runs them alone.
const LIB: &str = r#"
//! ```
//! assert_eq!(app::allocator(), app::expected());
//! ```

/// The allocator that the marker of the running program names; the words are put together so that they are not found.
pub fn allocator() -> Option<String> {
    let bytes = std::fs::read("/proc/self/exe").unwrap();
    let front = format!("{}allocator{}:{}", '"', '"', '"');
    let at = bytes.windows(front.len()).position(|w| w == front.as_bytes())?;
    let rest = &bytes[at + front.len()..];
    Some(String::from_utf8_lossy(rest.split(|b| *b == b'"').next()?).into_owned())
}

/// What it is to be.
pub fn expected() -> Option<String> { std::env::var("EXPECTED").ok() }

#[test] fn unit() { assert_eq!(allocator(), expected()); }
#[cfg(feature = "extra")] #[test] fn of_the_feature() {}
"#;
const MAIN: &str = r#"
fn main() {
    assert_eq!(app::allocator(), app::expected());
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    println!("{} {} {arguments:?}", macros::seven!(), env!("FROM_SCRIPT"));
}
#[test] fn of_the_program() { assert_eq!(app::allocator(), app::expected()); }
"#;
const SHOWS: &str =
    "fn main() { assert_eq!(app::allocator(), app::expected()); println!(\"NAME\"); }";
const INTEGRATION: &str = r#"
#[test] fn integration() { assert_eq!(app::allocator(), app::expected()); }
#[test] fn fails_when_told() { assert!(std::env::var_os("FAIL").is_none()); }
"#;
const MACROS: &str = r#"
/// ```
/// assert_eq!(macros::seven!(), 7);
/// ```
#[proc_macro]
pub fn seven(_: proc_macro::TokenStream) -> proc_macro::TokenStream { "7".parse().unwrap() }
#[test] fn of_the_macro() { assert!(!std::fs::read_to_string("/proc/self/maps").unwrap().is_empty()); }
"#;

/// A library, a program, an example, a test, a benchmark and a build script in one package, a procedural macro with
/// tests of its own in another.
fn workspace() -> Project {
    let project = Project::new("");
    fs::remove_dir_all(project.directory.join("src")).unwrap();
    project.write(
        "Cargo.toml",
        "[workspace]\nresolver = \"3\"\nmembers = [\"app\", \"macros\"]\n",
    );
    let package = |name: &str| {
        format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n")
    };
    let manifest = package("app")
        + "[dependencies]\nmacros = { path = \"../macros\" }\n[features]\nextra = []\n\
           [[bench]]\nname = \"plain\"\nharness = false\n";
    project.write("app/Cargo.toml", manifest);
    project.write("app/src/lib.rs", LIB);
    project.write("app/src/main.rs", MAIN);
    project.write("app/tests/integration.rs", INTEGRATION);
    project.write("app/examples/shows.rs", SHOWS.replace("NAME", "example"));
    project.write("app/benches/plain.rs", SHOWS.replace("NAME", "benchmark"));
    project.write(
        "app/build.rs",
        "fn main() { println!(\"cargo:rustc-env=FROM_SCRIPT={}\", std::env::var(\"TARGET\").unwrap()); }",
    );
    let manifest = package("macros") + "[lib]\nproc-macro = true\n";
    project.write("macros/Cargo.toml", manifest);
    project.write("macros/src/lib.rs", MACROS);
    project
}

/// The two workspaces.
struct Both {
    of_cargo: Project,
    of_reheap: Project,
}

impl Both {
    fn new() -> Self {
        Self {
            of_cargo: workspace(),
            of_reheap: workspace(),
        }
    }

    /// Runs both, and checks that exit code and output are the same.
    #[track_caller]
    fn agree_on(&self, command: &str, flags: &str, variables: &[(&str, &str)]) -> Outcome {
        let mut plain = Command::new("cargo");
        plain.arg(command).args(["--target", &target()]);
        plain
            .args(words(flags))
            .current_dir(&self.of_cargo.directory);
        plain
            .envs(variables.iter().copied())
            .env("RUST_BACKTRACE", "0");
        let plain = run(&mut plain);
        let line = format!("{command} -a {ALLOCATOR} {flags}");
        let mut reheap = self.of_reheap.cargo_reheap(&line);
        reheap
            .envs(variables.iter().copied())
            .env("RUST_BACKTRACE", "0");
        let reheap = run(reheap.env("EXPECTED", ALLOCATOR));
        let context = || {
            format!(
                "{line} {variables:?}\n--- cargo\n{}{}\n--- reheap\n{}{}",
                plain.stdout, plain.stderr, reheap.stdout, reheap.stderr
            )
        };
        assert_eq!(plain.code(), reheap.code(), "{}", context());
        assert_eq!(
            essence(&plain.stdout),
            essence(&reheap.stdout),
            "{}",
            context()
        );
        reheap
    }

    /// Holds lines of `cargo test` against Cargo.
    #[track_caller]
    fn agree_on_tests(&self, rows: &[&str]) {
        for flags in rows {
            self.agree_on("test", flags, &[]);
        }
    }
}

/// Standard output without times, paths and numbers of threads, and without an order, which tests and compilers that
/// run at once do not have.
fn essence(stdout: &str) -> Vec<String> {
    let mut lines: Vec<String> = stdout
        .lines()
        .filter(|line| !line.starts_with("all doctests ran in") && !line.starts_with("thread '"))
        .map(|line| match serde_json::from_str::<Value>(line) {
            Ok(message) => format!("{} {}", message["reason"], message["target"]["name"]),
            Err(_) => line.split("; finished in").next().unwrap().to_owned(),
        })
        .collect();
    lines.sort_unstable();
    lines
}

/// One row of each kind, for `make test`, which leaves the tables below to `make test-all`.
#[test]
fn a_sample_of_flags_does_what_cargo_does() {
    let both = Both::new();
    both.agree_on_tests(&[
        "",
        "--bin=nothing",
        "--no-run --all-targets",
        "--workspace --exclude macros --lib",
        "-p app --lib -F extra",
        "--lib --message-format json",
        "-- --test-threads=1",
    ]);
    both.agree_on("run", "--bin app word -- -- x", &[]);
    both.agree_on("build", "--message-format json --all-targets", &[]);
}

const SELECTING_TARGETS: [&str; 23] = [
    "",
    "--lib",
    "--bins",
    "--bin app",
    "--bin",
    "--bin=nothing",
    "--examples",
    "--example shows",
    "--tests",
    "--test integration",
    "--test integration --bin app",
    "--benches",
    "--bench plain",
    "--all-targets",
    "--doc",
    "--doc -p app",
    "--doc --lib",
    "--no-run",
    "--no-run --all-targets",
    "--no-run --test integration",
    "--no-run --doc",
    "--test --no-run",
    "--no-run --no-run",
];

#[test]
fn selecting_targets_is_cargos() {
    Both::new().agree_on_tests(&SELECTING_TARGETS);
}

const SELECTING_PACKAGES: [&str; 16] = [
    "-p app",
    "-p macros",
    "-papp --lib",
    "--package app --tests",
    "-p nothing",
    "--workspace",
    "--all",
    "--all --all-targets",
    "--workspace --exclude macros",
    "--workspace --exclude app",
    "-p app --lib -F extra",
    "-p app --lib --features=extra",
    "-p app --lib --all-features",
    "-p app --lib --no-default-features",
    "-p app --ignore-rust-version",
    "--manifest-path app/Cargo.toml --lib",
];

#[test]
fn selecting_packages_and_features_is_cargos() {
    Both::new().agree_on_tests(&SELECTING_PACKAGES);
}

const BUILDING: [&str; 17] = [
    "-p app -r",
    "-p app --release --doc",
    "-p app --profile release --lib",
    "-p app --profile nothing",
    "-p app -j 1",
    "-p app -j2 --lib",
    "-p app --jobs=1 --lib",
    "-p app --target-dir elsewhere",
    "-p app --target-dir=elsewhere --doc",
    "-p app --config profile.test.opt-level=1 --lib",
    "-p app --config env.FAIL=\"yes\" --test integration",
    "-p app --timings --lib",
    "-p app --future-incompat-report --lib",
    "--locked --lib",
    "--offline --lib",
    "--frozen --lib",
    "--no-fail-fast",
];

#[test]
fn how_things_are_built_is_cargos() {
    let both = Both::new();
    both.agree_on_tests(&BUILDING);
    both.agree_on_tests(&[&format!("-p app --lib --target {}", target())]);
    for (name, value) in [
        ("CARGO_TARGET_DIR", "by-variable"),
        ("CARGO_BUILD_BUILD_DIR", "on-the-way"),
        ("CARGO_BUILD_TARGET", &target()),
        ("CARGO_BUILD_JOBS", "1"),
    ] {
        both.agree_on("test", "--all-targets", &[(name, value)]);
    }
    // The first program that fails ends it, unless told otherwise.
    for flags in ["-p app", "-p app --no-fail-fast", "-p app --no-run"] {
        both.agree_on("test", flags, &[("FAIL", "yes")]);
    }
}

const SHOWING: [&str; 24] = [
    "-q",
    "--quiet --lib",
    "-qr --lib",
    "-v --lib",
    "-vv -p app --lib",
    "--verbose --doc",
    "--color always --lib",
    "--color=never --lib",
    "--color sometimes",
    "--message-format human --lib",
    "--message-format short --lib",
    "--message-format json --lib",
    "--message-format=json-render-diagnostics --doc",
    "--message-format json,json-diagnostic-short --lib",
    "--message-format json --message-format json-diagnostic-rendered-ansi --lib",
    "--message-format nonsense",
    "--nonsense",
    "unit",
    "unit --lib",
    "nothing-has-this-name",
    "-- --test-threads=1",
    "--lib -- --list",
    "--lib -- --ignored --nocapture",
    "--lib -- --exact unit",
];

#[test]
fn what_is_shown_and_what_tests_are_told_is_cargos() {
    let both = Both::new();
    both.agree_on_tests(&SHOWING);
    for (name, value) in [
        ("CARGO_TERM_QUIET", "true"),
        ("CARGO_TERM_VERBOSE", "true"),
        ("CARGO_TERM_COLOR", "always"),
        ("CARGO_TERM_PROGRESS_WHEN", "never"),
    ] {
        both.agree_on("test", "--lib", &[(name, value)]);
    }
}

#[test]
fn every_flag_of_cargo_test_has_a_row() {
    let help = run(Command::new("cargo").args(["test", "--help"])).succeeded();
    let known: BTreeSet<String> = [
        &SELECTING_TARGETS[..],
        &SELECTING_PACKAGES,
        &BUILDING,
        &SHOWING,
        // Prints help; prints a graph, and is not stable; tested with a real triple.
        &["--help --unit-graph --target"],
    ]
    .concat()
    .iter()
    .flat_map(|row| words(row))
    .map(|word| word.split('=').next().unwrap().to_owned())
    .collect();
    let flags = help.stdout.lines().flat_map(|line| {
        let words = line.split_whitespace().take(2);
        let long = words.filter(|word| word.starts_with("--"));
        long.map(|flag| flag.trim_end_matches('.').to_owned())
    });
    let missing: Vec<String> = flags.filter(|flag| !known.contains(flag)).collect();
    assert_eq!(missing, [""; 0], "{}", help.stdout);
}

#[test]
fn run_and_build_take_cargos_flags() {
    let both = Both::new();
    for flags in [
        "",
        "--bin app",
        "-p app -- -x --bin y",
        "word other -q",
        "--bin app word -- -- x",
        "-q word",
        "--example shows",
        "--example=shows --release",
        "--manifest-path app/Cargo.toml -j 1 word",
        "--message-format short word",
        "--message-format json word",
        "--bin nothing",
        "--nonsense",
    ] {
        both.agree_on("run", flags, &[]);
    }
    for flags in [
        "--message-format json",
        "--message-format json --all-targets --workspace",
        "--message-format json --lib",
        "--message-format json --bin app",
        "--message-format json --examples --keep-going",
        "--message-format json --profile release -p app",
        "--quiet",
        "--bin nothing",
        "nonsense",
    ] {
        both.agree_on("build", flags, &[]);
    }
}

#[test]
fn a_procedural_macros_tests_are_the_hosts_and_said_not_to_be_checked() {
    let project = workspace();
    let host = "because tests of a procedural macro run on the host";
    for command in ["test --no-run --workspace", "build --all-targets"] {
        let outcome = run(&mut project.cargo_reheap(command)).succeeded();
        let about = |text: &str| {
            let mut lines = outcome.stderr.lines();
            lines.find(|line| line.contains(text)).map(str::to_owned)
        };
        let line = about("deps/macros-").unwrap_or_else(|| panic!("{}", outcome.stderr));
        assert!(
            line.contains("target/debug/deps/macros-") && line.ends_with(host),
            "{line}"
        );
        let line = about("deps/app-").unwrap();
        assert!(
            line.contains("static-pie, ") && line.contains("mimalloc"),
            "{line}"
        );
    }
}

#[test]
fn a_build_directory_of_its_own_is_looked_into_for_links() {
    let project = workspace();
    for (allocator, flags) in [("rpmalloc", ""), ("mimalloc", ""), ("mimalloc", " -q")] {
        let line = format!("build --bin app -a {allocator}{flags}");
        let mut build = project.cargo_reheap(&line);
        run(build.env("CARGO_BUILD_BUILD_DIR", "on-the-way")).succeeded();
        assert_eq!(allocator_in(&project.app()), allocator);
    }
}

#[test]
fn doctests_are_linked_with_the_allocator_and_read_back_before_they_run() {
    let project = workspace();
    run(&mut project.cargo_reheap("test --doc -p app -a rpmalloc -t global_cache=never"))
        .ended_with(2)
        .said(&["rpmalloc has no tuning option of that name"]);
    let seen = "doctests: 1 program, static-pie, mimalloc 2.";
    let mut test = project.cargo_reheap("test --doc -p app -t purge_delay=7");
    run(test.env("EXPECTED", "mimalloc"))
        .succeeded()
        .said(&[seen, "[purge_delay=7]"]);
    let mut test = project.cargo_reheap("test --doc -p app --memory-functions stock");
    run(test.env("EXPECTED", "mimalloc"))
        .succeeded()
        .said(&[seen]);
    run(&mut project.cargo_reheap("test --doc -p app -a stock"))
        .succeeded()
        .said(&["doctests: 1 program, static-pie, musl's own allocator"]);
    // The test suite is not asked what it has: a linker that links something else is found out before it runs.
    let other = project.script(
        "other-cc",
        "exec cc $(echo \" $*\" | sed 's/ -L[^ ]*reheap-cache[^ ]*//')",
    );
    let mut test = project.cargo_reheap("test --doc -p app");
    let outcome = run(test.env(of_target("CARGO_TARGET_", "_LINKER"), other)).ended_with(101);
    assert!(
        outcome
            .stdout
            .contains("was not linked with mimalloc: it has musl's own allocator"),
        "{}{}",
        outcome.stdout,
        outcome.stderr
    );
}

#[test]
fn a_linker_given_by_a_config_flag_is_the_one_that_links() {
    let project = workspace();
    let linker = project.script("tools/my-gcc", "echo x >> \"${0%/*}/log\"\nexec cc \"$@\"");
    let log = project.directory.join("tools/log");
    let linked = || fs::read_to_string(&log).unwrap_or_default().lines().count();
    let key = format!("target.{}.linker", target());
    let by_value = format!("{key}=\"{}\"", linker.display());
    project.write("more/config.toml", format!("{key} = \"tools/my-gcc\"\n"));
    let ways: [(PathBuf, &str); 2] = [
        (by_value.into(), "rpmalloc"),
        ("more/config.toml".into(), "mimalloc"),
    ];
    for (config, allocator) in ways {
        let before = linked();
        let mut build = project.cargo_reheap(&format!("build --bin app -a {allocator} --config"));
        run(build.arg(&config)).succeeded();
        assert_eq!(allocator_in(&project.app()), allocator, "{config:?}");
        assert_eq!(linked(), before + 1, "{config:?}");
    }
}
