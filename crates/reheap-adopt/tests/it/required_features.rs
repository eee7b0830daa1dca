//! Programs that Cargo builds only with certain features, beside a library that is built without them.

use crate::written::{How, USUAL, Written, there_and_back};

const LIBRARY: (&str, &str) = ("src/lib.rs", "pub fn tide() {}\n");
const GAUGE: (&str, &str) = ("src/bin/gauge.rs", "fn main() {}\n");
const PACKAGE: &str = "[package]\nname = \"tides\"\nversion = \"2.1.0\"\nedition = \"2021\"\n";
const TABLE: &str = "\n[target.'cfg(target_env = \"musl\")'.dependencies] # reheap adopt\n\
    mimalloc = { version = \"0.1.52\", features = [\"v2\"], optional = true } # reheap adopt\n";

fn program(name: &str, required: &str) -> String {
    let path = format!("src/bin/{name}.rs");
    format!("\n[[bin]]\nname = \"{name}\"\npath = \"{path}\"\nrequired-features = [{required}]\n")
}

#[test]
fn the_feature_that_a_program_needs_turns_the_allocator_on() {
    for (before, after) in [
        ("cli = []", "cli = [\"dep:mimalloc\"]"),
        (
            "default = [\"cli\"]\ncli = [\"std\"] # for people\nstd = []",
            "default = [\"cli\"]\ncli = [\"std\", \"dep:mimalloc\"] # for people\nstd = []",
        ),
        (
            "cli = [\n  \"std\" # printing\n]\nstd = []",
            "cli = [\n  \"std\", # printing\n  \"dep:mimalloc\"\n]\nstd = []",
        ),
    ] {
        let manifest = |features: &str, table: &str| {
            let program = program("gauge", "\"cli\"");
            format!("{PACKAGE}{table}{program}\n[features]\n{features}\n")
        };
        let expected = manifest(after, TABLE);
        let before = manifest(before, "");
        there_and_back(
            USUAL,
            &[("Cargo.toml", &before), LIBRARY, GAUGE],
            &[("Cargo.toml", &expected)],
        );
    }
}

#[test]
fn a_feature_that_an_optional_dependency_implies_is_written_out() {
    let program = program("gauge", "\"lexopt\"");
    let rest = "\n[dependencies]\nlexopt = { version = \"0.3\", optional = true }\n";
    let manifest = format!("{PACKAGE}{program}{rest}");
    let features =
        "\n[features] # reheap adopt\nlexopt = [\"dep:lexopt\", \"dep:mimalloc\"] # reheap adopt\n";
    there_and_back(
        USUAL,
        &[("Cargo.toml", &manifest), LIBRARY, GAUGE],
        &[("Cargo.toml", &format!("{manifest}{TABLE}{features}"))],
    );
    // Other features may name it, as it is implied again.
    let features = "\n[features]\ndefault = [\"lexopt\"]\nall = [\"lexopt\"]\n";
    let manifest = format!("{manifest}{features}");
    there_and_back(USUAL, &[("Cargo.toml", &manifest), LIBRARY, GAUGE], &[]);
}

#[test]
fn each_program_has_it_with_the_features_that_it_needs() {
    let features = "\n[features]\nlog = []\ncli = [\"log\"]\nweb = []\n";
    let manifest = |required: [&str; 2]| {
        let [gauge, server] = required;
        let (gauge, server) = (program("gauge", gauge), program("server", server));
        format!("{PACKAGE}{gauge}{server}{features}")
    };
    let server = ("src/bin/server.rs", "fn main() {}\n");
    for (required, turned_on) in [
        // Of two features, the one that turns on the other.
        (["\"log\", \"cli\"", "\"web\""], vec!["web", "cli"]),
        (["\"cli\"", "\"cli\""], vec!["cli"]),
        // No manifest can say "with both".
        (["\"web\", \"cli\"", "\"cli\", \"web\""], vec!["cli"]),
        // One program is always built.
        (["\"cli\"", ""], vec![]),
    ] {
        let manifest = manifest(required);
        let files = [("Cargo.toml", manifest.as_str()), LIBRARY, GAUGE, server];
        there_and_back(USUAL, &files, &[]);
        let written = Written::new(&files);
        written.adopt(USUAL);
        let project = written.project();
        let features = &project.packages[0].manifest.features;
        assert_eq!(features.enabling("mimalloc"), turned_on, "{required:?}");
    }
}

#[test]
fn a_feature_of_its_own_leaves_those_of_programs_alone() {
    let program = program("gauge", "\"cli\"");
    let manifest = format!("{PACKAGE}{program}\n[features]\ncli = []\n");
    let fast = How {
        feature: Some("fast"),
        ..USUAL
    };
    let added = "fast = [\"dep:mimalloc\"] # reheap adopt\n";
    there_and_back(
        fast,
        &[("Cargo.toml", &manifest), LIBRARY, GAUGE],
        &[(
            "Cargo.toml",
            &format!("{PACKAGE}{TABLE}{program}\n[features]\ncli = []\n{added}"),
        )],
    );
}

#[test]
fn what_somebody_builds_on_the_dependency_stays() {
    let program = program("gauge", "\"cli\"");
    let manifest = format!("{PACKAGE}{program}\n[features]\ncli = []\n");
    let written = Written::new(&[("Cargo.toml", &manifest), LIBRARY, GAUGE]);
    written.adopt(USUAL);
    let with_another = written
        .read("Cargo.toml")
        .replace("[features]\n", "[features]\nquick = [\"dep:mimalloc\"]\n");
    written.write("Cargo.toml", &with_another);
    let left = written.undo();
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(
        left[0].2.ends_with("the feature `quick` names it"),
        "{left:?}"
    );
    assert_eq!(written.read("Cargo.toml"), with_another);
}
