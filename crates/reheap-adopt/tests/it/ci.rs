//! The workflow that `--ci github` adds, as text. `reheap`'s tests run its steps.

use reheap_adopt::adoption::ci::{self, Artifact, Facts, Origin, Style};

fn workflow(targets: &[&str], directory: &str) -> Option<String> {
    let targets: Vec<String> = targets.iter().map(|target| (*target).to_owned()).collect();
    ci::workflow(&Facts {
        style: Style::Crate,
        allocator: "mimalloc",
        targets: &targets,
        directory,
        programs: &[Artifact {
            package: "server",
            name: "it's a server",
        }],
        libraries: &[Artifact {
            package: "fast-words",
            name: "fast-words",
        }],
        features: &["fast".to_owned(), "server/tls".to_owned()],
        is_locked: true,
        version: "0.1.0",
    })
}

#[test]
fn the_same_facts_give_the_same_file_and_it_is_known_again() {
    let text = workflow(&["x86_64-unknown-linux-musl"], "").unwrap();
    assert_eq!(workflow(&["x86_64-unknown-linux-musl"], "").unwrap(), text);
    assert_eq!(ci::origin(&text), Origin::Ours);
    assert_eq!(ci::origin(&text.replace('\n', "\r\n")), Origin::Ours);
    assert_eq!(
        ci::origin(&text.replace("server", "client")),
        Origin::Edited
    );
    assert_eq!(ci::origin(&format!("{text}\n")), Origin::Edited);
    assert_eq!(ci::origin("# reheap\nname: mine\n"), Origin::Others);
    assert_eq!(ci::origin(""), Origin::Others);
}

#[test]
fn programs_libraries_and_places_are_named_as_a_shell_needs_them() {
    let text = workflow(&["x86_64-unknown-linux-musl"], "rust tools").unwrap();
    for part in [
        "--package fast-words --package server --bin 'it'\\''s a server' --lib --features fast,server/tls",
        "--release --locked --target \"$TARGET\" --manifest-path 'rust tools/Cargo.toml'",
        "reheap adopt --check --format github 'rust tools'\n",
        "*-musl)\n",
        "export RUSTFLAGS=\"-C target-feature=-crt-static\"\n",
        "--expect mimalloc \"$CARGO_TARGET_DIR/$TARGET/release\"/'it'\\''s a server' \
         \"$CARGO_TARGET_DIR/$TARGET/release\"/libfast_words.so",
    ] {
        assert!(text.contains(part), "no `{part}` in:\n{text}");
    }
}

#[test]
fn each_target_has_a_runner_and_those_without_one_are_named() {
    let text = workflow(
        &["aarch64-unknown-linux-musl", "x86_64-pc-windows-msvc"],
        "",
    )
    .unwrap();
    assert!(
        text.contains(
            "- target: aarch64-unknown-linux-musl\n            runner: ubuntu-24.04-arm\n"
        ),
        "{text}"
    );
    assert!(
        text.contains("# Not built here, because no runner of Linux can: x86_64-pc-windows-msvc\n"),
        "{text}"
    );
    assert!(!text.contains("- target: x86_64-pc-windows-msvc"), "{text}");
    assert_eq!(workflow(&["x86_64-pc-windows-msvc"], ""), None);
    assert!(
        !ci::is_buildable("riscv64gc-unknown-linux-gnu")
            && ci::is_buildable("x86_64-unknown-linux-gnu")
    );
}
