//! Which targets CI builds: at most these.
//!
//! To add an operating system or a runner by another name, add a row to [`NAMES`].

use super::{File, Kind, Repository};
use cfg_expr::targets::ALL_BUILTINS;
use std::collections::BTreeSet;

/// What CI builds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Built {
    /// There is no CI, or it does not call Cargo as far as one can see.
    Nothing,
    /// Something that only the service knows.
    Unknown,
    /// Nothing but these.
    AtMost {
        /// By their triples.
        triples: BTreeSet<&'static str>,
        /// The file that calls Cargo; the first of several.
        file: String,
    },
}

/// Words in CI files, in lower case, and a part of the triples that they may stand for.
const NAMES: [(&str, &str); 41] = [
    ("ubuntu", "x86_64-unknown-linux-gnu"),
    ("debian", "x86_64-unknown-linux-gnu"),
    ("fedora", "x86_64-unknown-linux-gnu"),
    ("linux", "x86_64-unknown-linux-gnu"),
    ("rust:", "x86_64-unknown-linux-gnu"),
    ("manylinux", "-linux-gnu"),
    ("aarch64", "aarch64-unknown-linux-gnu"),
    ("aarch64", "aarch64-pc-windows-msvc"),
    ("arm64", "aarch64-unknown-linux-gnu"),
    ("arm64", "aarch64-pc-windows-msvc"),
    ("-arm", "aarch64-unknown-linux-gnu"),
    ("-arm", "aarch64-pc-windows-msvc"),
    ("armv7", "armv7"),
    ("i686", "i686"),
    ("s390x", "s390x"),
    ("ppc64", "powerpc64"),
    ("riscv", "riscv"),
    ("loongarch", "loongarch"),
    ("musl", "musl"),
    ("alpine", "musl"),
    ("pkgsstatic", "musl"),
    ("windows", "x86_64-pc-windows-msvc"),
    ("msvc", "windows-msvc"),
    ("mingw", "windows-gnu"),
    ("msys2", "windows-gnu"),
    ("macos", "apple-darwin"),
    ("darwin", "apple-darwin"),
    ("osx", "apple-darwin"),
    ("xcode", "apple-"),
    ("ios", "apple-ios"),
    ("freebsd", "freebsd"),
    ("netbsd", "netbsd"),
    ("openbsd", "openbsd"),
    ("dragonfly", "dragonfly"),
    ("illumos", "illumos"),
    ("solaris", "solaris"),
    ("android", "android"),
    ("ohos", "ohos"),
    ("haiku", "haiku"),
    ("redox", "redox"),
    ("wasm", "wasm"),
];
/// How a workflow builds Rust.
const BUILDERS: [&str; 10] = [
    "cargo build",
    "cargo test",
    "cargo nextest",
    "cargo check",
    "cargo run",
    "cargo clippy",
    "cargo zigbuild",
    "cross build",
    "cross test",
    "maturin",
];
/// Too short a piece of a triple could be anything.
const PIECE_CHARACTERS_MIN: usize = 6;

/// What the CI files, and whatever they may call, name.
pub(crate) fn built(repository: &Repository) -> Built {
    let ci: Vec<(&File, String)> = repository
        .of_kinds(&[Kind::Ci])
        .map(|file| (file, without_comments(&file.text.contents).to_lowercase()))
        .collect();
    let builds_rust = |text: &str| {
        let words: Vec<&str> = text.split_whitespace().collect();
        let text = words.join(" ");
        BUILDERS.iter().any(|builder| text.contains(builder))
    };
    let Some((first, _)) = ci.iter().find(|(_, text)| builds_rust(text)) else {
        return Built::Nothing;
    };
    if ci.iter().any(|(file, text)| is_computed(file, text)) {
        return Built::Unknown;
    }
    let mut triples = BTreeSet::new();
    for (_, text) in &ci {
        add_by_name(text, &mut triples);
    }
    let makes_images = ci.iter().any(|(_, text)| text.contains("docker"));
    for file in &repository.files {
        match file.kind {
            Kind::Dockerfile if makes_images => {
                add_by_name(&file.text.contents.to_lowercase(), &mut triples);
            }
            Kind::Deployment => continue,
            _ => {}
        }
        // Tables of Cargo's configuration are for targets that somebody may build.
        let is_table = |line: &&str| line.trim_start().starts_with('[');
        let text = without_comments(&file.text.contents);
        let lines = text
            .lines()
            .filter(|line| file.kind != Kind::Settings || !is_table(line));
        lines.for_each(|line| add_by_triple(line, &mut triples));
    }
    if triples.is_empty() {
        Built::Unknown
    } else {
        Built::AtMost {
            triples,
            file: first.name.clone(),
        }
    }
}

/// What is computed, or elsewhere: matrices from JSON, runners of one's own, workflows of other repositories.
fn is_computed(file: &File, text: &str) -> bool {
    let is_gitlab = file.name.contains("gitlab");
    let mut lines = text
        .lines()
        .map(str::trim)
        .map(|line| line.trim_start_matches("- "));
    lines.any(|line| {
        let is_of_json = line.contains("fromjson(");
        let of_others = line.strip_prefix("uses:").map(str::trim);
        is_of_json
            || line.contains("self-hosted")
            || of_others.is_some_and(|workflow| {
                !workflow.starts_with("./") && workflow.contains("/workflows/")
            })
            || line.strip_prefix("runs-on:").is_some_and(|runner| {
                let is_named = ["ubuntu", "windows", "macos", "linux", "${{"];
                let runner = runner.trim();
                !runner.is_empty() && !is_named.iter().any(|name| runner.contains(name))
            })
            || line.starts_with("include:") && line.contains("http")
            || is_gitlab && line.starts_with("tags:")
    })
}

fn add_by_name(text: &str, triples: &mut BTreeSet<&'static str>) {
    for (name, part) in NAMES {
        if text.contains(name) {
            let all = ALL_BUILTINS.iter().map(|target| target.triple.as_str());
            triples.extend(all.filter(|triple| triple.contains(part)));
        }
    }
}

/// By triples, and by pieces of them beside something that is computed: `${{ matrix.arch }}-unknown-linux-musl`.
fn add_by_triple(line: &str, triples: &mut BTreeSet<&'static str>) {
    let is_part = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
    for word in line.split(|character| !is_part(character)) {
        if word.len() < PIECE_CHARACTERS_MIN || !word.contains('-') {
            continue;
        }
        let all = ALL_BUILTINS.iter().map(|target| target.triple.as_str());
        triples.extend(all.filter(|triple| {
            word == *triple
                || word.starts_with('-') && triple.ends_with(word)
                || word.ends_with('-') && triple.starts_with(word)
                // As in `stable-x86_64-unknown-linux-gnu`.
                || word.ends_with(triple) && word[..word.len() - triple.len()].ends_with('-')
        }));
    }
}

/// YAML, TOML and shell write comments the same way.
pub(crate) fn without_comments(text: &str) -> String {
    let lines = text.lines().map(|line| match line.find('#') {
        Some(0) => "",
        Some(at) if line[..at].ends_with(char::is_whitespace) => &line[..at],
        _ => line,
    });
    lines.collect::<Vec<&str>>().join("\n")
}
