//! A workflow for GitHub: it builds each target, checks the project, and proves what was built.
//!
//! It is a file of its own, so no workflow of the project is touched. Its first line has the hash of the rest: whether
//! somebody edited the file is known without knowing which version of reheap wrote it.

use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;

/// Where it is, from the top of the repository.
pub const PATH: &str = ".github/workflows/reheap.yml";
/// How its first line begins.
const MARK: &str = "# reheap adopt, sha256 ";
/// The rest of that line.
const ADVICE: &str = ": `reheap adopt --undo` deletes this file unless you change it.";

/// The file. What is between `@` is filled in; findings are shown once, and not for each target.
const TEMPLATE: &str = r#"name: reheap
on:
  push:
  pull_request:
permissions:
  contents: read
jobs:
  allocator:
    strategy:
      fail-fast: false
      matrix:
        include:
@MATRIX@
    runs-on: ${{ matrix.runner }}
    env:
      TARGET: ${{ matrix.target }}
      CARGO_TARGET_DIR: ${{ github.workspace }}/target
    steps:
      - uses: actions/checkout@v4
      - uses: reheap/reheap@v@VERSION@
        with:
          version: "@VERSION@"
      - name: Check
        if: strategy.job-index == 0
        shell: bash
        run: |
          reheap adopt --check --format github @DIRECTORY@
      - name: Build
        shell: bash
        run: |
@SCRIPT@
      - name: Prove
        shell: bash
        run: |
          reheap inspect --expect @ALLOCATOR@ @FILES@
"#;

/// What it is for.
#[derive(Debug, Clone)]
pub struct Facts<'a> {
    /// How the allocator gets into the programs.
    pub style: Style,
    /// The allocator, by its name in the catalogue.
    pub allocator: &'a str,
    /// The targets to build.
    pub targets: &'a [String],
    /// The project's directory from the top of the repository; empty if it is the same.
    pub directory: &'a str,
    /// The packages and their programs to prove.
    pub programs: &'a [Artifact<'a>],
    /// The packages and their shared libraries for other languages to prove; not together with programs.
    pub libraries: &'a [Artifact<'a>],
    /// The features to turn on.
    pub features: &'a [String],
    /// Whether there is a Cargo.lock to keep to.
    pub is_locked: bool,
    /// The version of reheap to install.
    pub version: &'a str,
}

/// How the allocator gets into the programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// By `#[global_allocator]`.
    Crate,
    /// By `cargo reheap build`.
    Reheap,
}

/// What Cargo makes of a package.
#[derive(Debug, Clone, Copy)]
pub struct Artifact<'a> {
    /// The package.
    pub package: &'a str,
    /// The name of the program or library.
    pub name: &'a str,
}

/// What is known of a file at that place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// From here, and unchanged.
    Ours,
    /// From here, and edited since.
    Edited,
    /// From somebody else.
    Others,
}

/// Where a file with these contents is from. Git may have changed its line ends.
pub fn origin(contents: &str) -> Origin {
    let Some((first, rest)) = contents.split_once('\n') else {
        return Origin::Others;
    };
    let first = first.trim_end();
    match first
        .strip_prefix(MARK)
        .and_then(|line| line.strip_suffix(ADVICE))
    {
        Some(hash) if hash == hash_of(rest) => Origin::Ours,
        Some(_) => Origin::Edited,
        None => Origin::Others,
    }
}

fn hash_of(text: &str) -> String {
    let digest = Sha256::digest(text.replace("\r\n", "\n").as_bytes());
    hex::encode(&digest[..8])
}

/// Whether a runner with Linux builds that target without a cross-compiler.
pub fn is_buildable(target: &str) -> bool {
    runner(target).is_some()
}

/// The runner for a target.
fn runner(target: &str) -> Option<&'static str> {
    match target.split_once('-')? {
        ("x86_64", "unknown-linux-gnu" | "unknown-linux-musl") => Some("ubuntu-latest"),
        ("aarch64", "unknown-linux-gnu" | "unknown-linux-musl") => Some("ubuntu-24.04-arm"),
        _ => None,
    }
}

/// The whole file; none if no target can be built on a runner.
pub fn workflow(facts: &Facts<'_>) -> Option<String> {
    let (built, left_out): (Vec<&String>, Vec<&String>) = facts
        .targets
        .iter()
        .partition(|target| is_buildable(target));
    if built.is_empty() {
        return None;
    }
    let mut body = String::new();
    if !left_out.is_empty() {
        let names: Vec<&str> = left_out.iter().map(|target| target.as_str()).collect();
        let names = names.join(", ");
        _ = writeln!(
            body,
            "# Not built here, because no runner of Linux can: {names}"
        );
    }
    let rows = built.iter().filter_map(|target| {
        let runner = runner(target)?;
        Some(format!(
            "          - target: {target}\n            runner: {runner}\n"
        ))
    });
    let directory = match facts.directory {
        "" => ".".to_owned(),
        directory => shell(directory),
    };
    let script = build(facts, built.iter().any(|target| target.ends_with("-musl")))
        .into_iter()
        .map(|line| format!("          {line}\n"));
    let text = TEMPLATE
        .replace("@MATRIX@\n", &rows.collect::<String>())
        .replace("@VERSION@", facts.version)
        .replace("@DIRECTORY@", &directory)
        .replace("@SCRIPT@\n", &script.collect::<String>())
        .replace("@ALLOCATOR@", facts.allocator)
        .replace("@FILES@", &files(facts).join(" "));
    body.push_str(&text);
    Some(format!("{MARK}{}{ADVICE}\n{body}", hash_of(&body)))
}

fn build(facts: &Facts<'_>, is_for_musl: bool) -> Vec<String> {
    let mut lines = vec![match facts.style {
        Style::Reheap => "reheap doctor --fix rust-target --target \"$TARGET\"".to_owned(),
        Style::Crate => "rustup target add \"$TARGET\"".to_owned(),
    }];
    if facts.style == Style::Crate && is_for_musl {
        // Most allocators are written in C.
        let compiler =
            "    command -v musl-gcc >/dev/null || sudo apt-get install --yes musl-tools";
        let mut for_musl = vec!["case $TARGET in", "*-musl)", compiler];
        if !facts.libraries.is_empty() {
            for_musl.push("    export RUSTFLAGS=\"-C target-feature=-crt-static\"");
        }
        for_musl.extend(["    ;;", "esac"]);
        lines.extend(for_musl.into_iter().map(str::to_owned));
    }
    let cargo = match facts.style {
        Style::Crate => "cargo build",
        Style::Reheap => "cargo reheap build",
    };
    let mut words = vec![cargo.to_owned(), "--release".to_owned()];
    if facts.is_locked {
        words.push("--locked".to_owned());
    }
    words.push("--target \"$TARGET\"".to_owned());
    if !facts.directory.is_empty() {
        let manifest = format!("{}/Cargo.toml", facts.directory);
        words.push(format!("--manifest-path {}", shell(&manifest)));
    }
    let mut packages: Vec<&str> = facts
        .programs
        .iter()
        .chain(facts.libraries)
        .map(|program| program.package)
        .collect();
    packages.sort_unstable();
    packages.dedup();
    words.extend(
        packages
            .iter()
            .map(|package| format!("--package {}", shell(package))),
    );
    words.extend(
        facts
            .programs
            .iter()
            .map(|program| format!("--bin {}", shell(program.name))),
    );
    if !facts.libraries.is_empty() {
        words.push("--lib".to_owned());
    }
    if !facts.features.is_empty() {
        words.push(format!("--features {}", shell(&facts.features.join(","))));
    }
    lines.push(words.join(" "));
    lines
}

/// What was built, as words of a shell.
fn files(facts: &Facts<'_>) -> Vec<String> {
    let directory = "\"$CARGO_TARGET_DIR/$TARGET/release\"";
    let programs = facts.programs.iter().map(|program| program.name.to_owned());
    let libraries = facts
        .libraries
        .iter()
        .map(|library| format!("lib{}.so", library.name.replace('-', "_")));
    let all = programs.chain(libraries);
    all.map(|name| format!("{directory}/{}", shell(&name)))
        .collect()
}

/// A word of a shell.
fn shell(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./+,".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}
