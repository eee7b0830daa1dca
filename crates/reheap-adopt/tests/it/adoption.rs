//! What adopt makes of projects as people write them, and that taking it out gives back every byte.

use crate::written::{How, USUAL, Written, apply, there_and_back};
use reheap_adopt::adoption::Plan;
use reheap_adopt::adoption::metadata::{self, Chosen};
use std::fs;

const PACKAGE: &str = "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";
const MAIN: &str = "fn main() {}\n";
/// mimalloc as a dependency.
const V2: &str = "{ version = \"0.1.52\", features = [\"v2\"] }";
const BLOCK: &str = "// Set up by `reheap adopt`; `reheap adopt --undo` takes it out.\n\
                     #[cfg(target_env = \"musl\")]\n#[global_allocator]\n\
                     static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;";
const TABLE: &str = "[target.'cfg(target_env = \"musl\")'.dependencies] # reheap adopt\n\
                     mimalloc = { version = \"0.1.52\", features = [\"v2\"] } # reheap adopt";

#[test]
fn a_program_gets_a_static_and_a_dependency_under_the_same_condition() {
    there_and_back(
        USUAL,
        &[("Cargo.toml", PACKAGE), ("src/main.rs", MAIN)],
        &[
            ("Cargo.toml", &format!("{PACKAGE}\n{TABLE}\n")),
            ("src/main.rs", &format!("{BLOCK}\n\n{MAIN}")),
        ],
    );
}

#[test]
fn carriage_returns_comments_and_a_missing_last_line_end_survive() {
    let manifest = format!(
        "{PACKAGE}\n# what it needs\n[dependencies] # all\n\n[profile.release] # fast\nlto = true # slow"
    );
    let manifest = manifest.replace('\n', "\r\n");
    let main = "// Of somebody.\r\n\r\nuse std::env; // one\r\n\r\nfn main() { env::args(); }";
    let block = BLOCK.replace('\n', "\r\n");
    let table = TABLE.replace('\n', "\r\n");
    there_and_back(
        USUAL,
        &[("Cargo.toml", &manifest), ("src/main.rs", main)],
        &[
            (
                "Cargo.toml",
                &manifest.replace("# all", &format!("# all\r\n\r\n{table}")),
            ),
            (
                "src/main.rs",
                &main.replace("// one", &format!("// one\r\n\r\n{block}")),
            ),
        ],
    );
}

#[test]
fn a_feature_is_added_to_defaults_however_they_are_written() {
    let how = How {
        feature: Some("fast"),
        is_on_by_default: true,
        ..USUAL
    };
    for (features, expected) in [
        (
            "",
            "\n[features] # reheap adopt\nfast = [\"dep:mimalloc\"] # reheap adopt\ndefault = [\"fast\"] # reheap adopt\n",
        ),
        (
            "\n[features]\na = []\n",
            "\n[features]\na = []\nfast = [\"dep:mimalloc\"] # reheap adopt\ndefault = [\"fast\"] # reheap adopt\n",
        ),
        (
            "\n[features]\ndefault = [\n    \"a\", # one\n    # none\n]\na = []\n\n# end\n",
            "\n[features]\ndefault = [\n    \"a\", # one\n    \"fast\",\n    # none\n]\na = []\nfast = [\"dep:mimalloc\"] # reheap adopt\n\n# end\n",
        ),
        (
            "\n[features]\ndefault = []\n",
            "\n[features]\ndefault = [\"fast\"]\nfast = [\"dep:mimalloc\"] # reheap adopt\n",
        ),
        ("\nfeatures.default = [\"a\"]\nfeatures.a = []\n", ""),
    ] {
        let manifest = if features.starts_with("\nfeatures.") {
            format!("{}\n{PACKAGE}", features.trim_start())
        } else {
            format!("{PACKAGE}{features}")
        };
        let written = Written::new(&[("Cargo.toml", &manifest), ("src/main.rs", MAIN)]);
        written.adopt(how);
        let after = written.read("Cargo.toml");
        assert!(
            after.contains(
                "mimalloc = { version = \"0.1.52\", features = [\"v2\"], optional = true } # reheap adopt"
            ),
            "{after}"
        );
        assert!(after.contains(expected), "{after}");
        let package = &written.project().packages[0];
        let active = package.manifest.features.if_nobody_chooses();
        assert!(active.dependencies.contains("mimalloc"), "{after}");
        assert!(
            written
                .read("src/main.rs")
                .contains("#[cfg(all(target_env = \"musl\", feature = \"fast\"))]")
        );
        assert_eq!(written.undo(), []);
        assert_eq!(written.read("Cargo.toml"), manifest);
    }
}

#[test]
fn tables_with_the_same_condition_and_dotted_keys_get_a_line() {
    let line = "mimalloc = { version = \"0.1.52\", features = [\"v2\"] } # reheap adopt";
    for (tables, expected) in [
        (
            "\n[target.'cfg(target_env = \"musl\")'.dependencies]\nlibc = \"0.2\" # c\n\n[lib]\n",
            format!("libc = \"0.2\" # c\n{line}\n\n[lib]\n"),
        ),
        (
            "\n[target.'cfg(target_env = \"musl\")'.dependencies.libc]\nversion = \"0.2\"\n",
            format!("version = \"0.2\"\n\n{TABLE}\n"),
        ),
        (
            "\n[target.'cfg(target_env = \"musl\")']\ndependencies.libc = \"0.2\"\n",
            format!("libc = \"0.2\"\ndependencies.{line}\n"),
        ),
        (
            "\n[target]\n'cfg(target_env = \"musl\")'.dependencies.libc = { version = \"0.2\" }\n",
            format!("'cfg(target_env = \"musl\")'.dependencies.{line}\n"),
        ),
    ] {
        let manifest = format!("{PACKAGE}{tables}");
        let written = Written::new(&[
            ("Cargo.toml", &manifest),
            ("src/main.rs", MAIN),
            ("src/lib.rs", ""),
        ]);
        written.adopt(USUAL);
        let after = written.read("Cargo.toml");
        assert!(after.ends_with(&expected), "{after}");
        assert_eq!(written.undo(), []);
        assert_eq!(written.read("Cargo.toml"), manifest);
    }
    let manifest = format!(
        "{PACKAGE}\n[target]\n'cfg(target_env = \"musl\")' = {{ dependencies = {{ libc = \"0.2\" }} }}\n"
    );
    let written = Written::new(&[("Cargo.toml", &manifest), ("src/main.rs", MAIN)]);
    let refusal = written.try_adopt(USUAL).unwrap_err();
    assert!(refusal.hint.unwrap().contains("a key on each line"));
    assert_eq!(written.read("src/main.rs"), MAIN);
}

#[test]
fn the_static_goes_behind_imports_or_what_is_about_the_file() {
    for (before, after) in [
        (
            "#!/usr/bin/env run\n\nfn main() {}\n",
            "#!/usr/bin/env run\n\n{}\n\nfn main() {}\n",
        ),
        (
            "//! About.\n#![allow(unused)]\nfn main() {}",
            "//! About.\n#![allow(unused)]\n\n{}\nfn main() {}",
        ),
        (
            "/*! About\n\n it */\n\n/// Begins.\nfn main() {}\n",
            "/*! About\n\n it */\n\n{}\n\n/// Begins.\nfn main() {}\n",
        ),
        (
            "/* a\n\n // b */\nfn main() {}\n",
            "/* a\n\n // b */\nfn main() {}\n\n{}\n",
        ),
        (
            "// Mine.\n\n// Begins.\nfn main() {}\n",
            "// Mine.\n\n{}\n\n// Begins.\nfn main() {}\n",
        ),
        ("\u{feff}fn main() {}\n", "\u{feff}{}\n\nfn main() {}\n"),
        (
            "use std::env; fn main() { env::args(); }",
            "use std::env; fn main() { env::args(); }\n\n{}",
        ),
        (
            "extern crate core;\nuse core::{\n    fmt,\n};\nmod a { }\nfn main() {}\n",
            "extern crate core;\nuse core::{\n    fmt,\n};\n\n{}\nmod a { }\nfn main() {}\n",
        ),
    ] {
        there_and_back(
            USUAL,
            &[("Cargo.toml", PACKAGE), ("src/main.rs", before)],
            &[(
                "src/main.rs",
                &after
                    .replace("{}", BLOCK)
                    .replace("fn main() BLOCK", "fn main() {}")
                    .replace(&format!("fn main() {BLOCK}"), "fn main() {}"),
            )],
        );
    }
    // A name that is taken.
    let written = Written::new(&[
        ("Cargo.toml", PACKAGE),
        ("src/main.rs", "static GLOBAL: u8 = 0;\nfn main() {}\n"),
    ]);
    written.adopt(USUAL);
    assert!(
        written
            .read("src/main.rs")
            .contains("static GLOBAL_ALLOCATOR: mimalloc")
    );
}

#[test]
fn a_workspace_with_shared_dependencies_gets_one_more_of_these() {
    let member = |name: &str| PACKAGE.replace("app", name);
    let (a, b, library) = (member("a"), member("b"), member("library"));
    let root = "[workspace]\nmembers = [\"*\"]\n\n[workspace.dependencies]\nlog = \"0.4\"\n";
    there_and_back(
        How {
            allocator: "mimalloc-secure",
            ..USUAL
        },
        &[
            ("Cargo.toml", root),
            ("a/Cargo.toml", &a),
            ("a/src/main.rs", MAIN),
            ("a/src/bin/other.rs", MAIN),
            ("b/Cargo.toml", &b),
            ("b/src/main.rs", MAIN),
            ("library/Cargo.toml", &library),
            ("library/src/lib.rs", ""),
        ],
        &[
            (
                "Cargo.toml",
                &format!(
                    "{root}mimalloc = {{ version = \"0.1.52\", features = [\"secure\"] }} # reheap adopt\n"
                ),
            ),
            (
                "b/Cargo.toml",
                &format!("{b}\n{}\n", TABLE.replace(V2, "{ workspace = true }")),
            ),
            ("a/src/bin/other.rs", &format!("{BLOCK}\n\n{MAIN}")),
            ("library/Cargo.toml", &library),
            ("library/src/lib.rs", ""),
        ],
    );
}

#[test]
fn a_linked_manifest_stays_a_link() {
    let written = Written::new(&[("real.toml", PACKAGE), ("src/main.rs", MAIN)]);
    std::os::unix::fs::symlink("real.toml", written.path("Cargo.toml")).unwrap();
    written.adopt(USUAL);
    assert!(written.path("Cargo.toml").is_symlink());
    assert_eq!(written.read("real.toml"), format!("{PACKAGE}\n{TABLE}\n"));
    assert_eq!(written.undo(), []);
    assert_eq!(written.read("real.toml"), PACKAGE);
}

#[test]
fn edits_since_then_stay() {
    let written = Written::new(&[("Cargo.toml", PACKAGE), ("src/main.rs", MAIN)]);
    written.adopt(How {
        targets: "cfg(all(target_env = \"musl\", target_os = \"linux\", any(target_arch = \"x86_64\", target_arch = \"aarch64\")))",
        ..USUAL
    });
    // A bot raised the version, somebody added a dependency, and rustfmt broke the long attribute.
    let manifest = written.read("Cargo.toml").replace("0.1.52", "0.1.60");
    written.write("Cargo.toml", &format!("{manifest}libc = \"0.2\"\n"));
    let main = written
        .read("src/main.rs")
        .replace("#[cfg(all(target_env", "#[cfg(all(\n    target_env");
    written.write("src/main.rs", &format!("use std::env;\n{main}"));
    assert_eq!(written.undo(), []);
    let kept = written.read("Cargo.toml");
    assert!(
        kept.starts_with(PACKAGE)
            && kept.ends_with("\"aarch64\")))'.dependencies]\nlibc = \"0.2\"\n"),
        "{kept}"
    );
    assert_eq!(
        written.read("src/main.rs"),
        format!("use std::env;\n\n{MAIN}")
    );
}

#[test]
fn a_piece_that_somebody_changed_stays_and_is_named() {
    let written = Written::new(&[("Cargo.toml", PACKAGE), ("src/main.rs", MAIN)]);
    written.adopt(USUAL);
    let main = written.read("src/main.rs").replace(
        "mimalloc::MiMalloc = mimalloc::MiMalloc",
        "Counted<mimalloc::MiMalloc> = Counted(mimalloc::MiMalloc)",
    );
    written.write("src/main.rs", &main);
    let left = written.undo();
    assert_eq!(
        left[0],
        (
            "src/main.rs".into(),
            1,
            "the global allocator was changed".into()
        )
    );
    assert_eq!((left[1].0.as_str(), left[1].1), ("Cargo.toml", 7));
    let why = "`target.'cfg(target_env = \"musl\")'.dependencies.mimalloc` is still needed: `src/main.rs` uses it";
    assert_eq!(left[1].2, why);
    assert_eq!(written.read("src/main.rs"), main);

    let written = Written::new(&[("Cargo.toml", PACKAGE), ("src/main.rs", MAIN)]);
    written.adopt(USUAL);
    let manifest = written
        .read("Cargo.toml")
        .replace("[\"v2\"]", "[\"v2\", \"no_thp\"]");
    written.write("Cargo.toml", &manifest);
    let left = written.undo();
    assert_eq!((left.len(), left[0].1), (1, 7), "{left:?}");
    assert_eq!(written.read("src/main.rs"), MAIN);
    assert_eq!(written.read("Cargo.toml"), manifest);
}

#[test]
fn a_feature_that_another_one_names_stays_with_its_dependency() {
    let manifest = format!("{PACKAGE}\n[features]\nall = []\n");
    let written = Written::new(&[("Cargo.toml", &manifest), ("src/main.rs", MAIN)]);
    written.adopt(How {
        feature: Some("fast"),
        ..USUAL
    });
    let edited = written
        .read("Cargo.toml")
        .replace("all = []", "all = [\"fast\"]");
    written.write("Cargo.toml", &edited);
    let left = written.undo();
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(
        left.iter()
            .any(|place| place.2.ends_with("the feature `all` names it")),
        "{left:?}"
    );
    assert_eq!(written.read("Cargo.toml"), edited);
}

#[test]
fn another_choice_replaces_the_first_and_keeps_a_raised_version() {
    let written = Written::new(&[("Cargo.toml", PACKAGE), ("src/main.rs", MAIN)]);
    written.adopt(USUAL);
    let raised = written.read("Cargo.toml").replace("0.1.52", "0.1.60");
    written.write("Cargo.toml", &raised);
    written.adopt(How {
        allocator: "mimalloc-secure",
        targets: "all",
        ..USUAL
    });
    assert_eq!(
        written.read("Cargo.toml"),
        format!(
            "{PACKAGE}\n[dependencies] # reheap adopt\nmimalloc = {{ version = \"0.1.60\", features = [\"secure\"] }} # reheap adopt\n"
        )
    );
    for (allocator, value) in [
        ("mimalloc3", "\"0.1.60\""),
        (
            "mimalloc2-secure",
            "{ version = \"0.1.60\", features = [\"v2\", \"secure\"] }",
        ),
    ] {
        written.adopt(How { allocator, ..USUAL });
        let manifest = written.read("Cargo.toml");
        assert!(
            manifest.ends_with(&format!("mimalloc = {value} # reheap adopt\n")),
            "{manifest}"
        );
    }
    written.adopt(How {
        allocator: "jemalloc",
        ..USUAL
    });
    let main = written.read("src/main.rs");
    assert!(
        main.contains("static GLOBAL: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;"),
        "{main}"
    );
    assert_eq!(main.matches("global_allocator").count(), 1);
    assert_eq!(written.undo(), []);
    assert_eq!(written.read("Cargo.toml"), PACKAGE);
    assert_eq!(written.read("src/main.rs"), MAIN);
}

#[test]
fn programs_that_cannot_have_it_are_refused_with_the_place() {
    for (main, what) in [
        (
            "\n#[global_allocator]\nstatic A: std::alloc::System = std::alloc::System;\nfn main() {}\n",
            "`app` has a global allocator already, at src/main.rs:2",
        ),
        (
            "choose! { #[global_allocator] static A: B = B; }\nfn main() {}\n",
            "`app` has a global allocator already, at src/main.rs:1",
        ),
        (
            "#![no_std]\n#![no_main]\n",
            "`app` (`src/main.rs`) is `no_std`",
        ),
        (
            "include!(concat!(env!(\"OUT_DIR\"), \"/main.rs\"));\n",
            "`app` (`src/main.rs`) only includes another file",
        ),
        ("fn main() {\n    (\n}\n", "main.rs`, line"),
    ] {
        let written = Written::new(&[
            ("Cargo.toml", PACKAGE),
            ("src/main.rs", main),
            ("src/bin/fine.rs", MAIN),
        ]);
        let refusal = written.try_adopt(USUAL).unwrap_err();
        assert!(refusal.what.contains(what), "{refusal}");
        assert_eq!(written.read("src/bin/fine.rs"), MAIN);
    }
    let used = format!("{PACKAGE}\n[dependencies]\nmimalloc = \"0.1\"\n");
    for (manifest, source, how, what) in [
        (PACKAGE, "src/lib.rs", USUAL, "there is no program"),
        (
            &used,
            "src/main.rs",
            USUAL,
            "`Cargo.toml`, line 7, depends on `mimalloc` already",
        ),
        (
            &format!("{PACKAGE}\n[features]\nfast = []\n"),
            "src/main.rs",
            How {
                feature: Some("fast"),
                ..USUAL
            },
            "has a feature `fast` already",
        ),
    ] {
        let written = Written::new(&[("Cargo.toml", manifest), (source, MAIN)]);
        let refusal = written.try_adopt(how).unwrap_err();
        assert!(refusal.what.contains(what), "{refusal}");
    }
}

#[test]
fn a_program_that_gets_an_allocator_from_another_member_is_refused() {
    let a = format!(
        "{PACKAGE}[dependencies]\nheap = {{ path = \"heap\" }}\n[workspace]\nmembers = [\"heap\", \"b\"]\n"
    );
    let heap = "#[cfg(feature = \"heap\")]\n#[global_allocator]\nstatic A: std::alloc::System = std::alloc::System;\n";
    let heap_manifest = PACKAGE.replace("app", "heap") + "[features]\nheap = []\n";
    let written = Written::new(&[
        ("Cargo.toml", &a),
        ("src/main.rs", "use heap as _;\nfn main() {}\n"),
        ("heap/Cargo.toml", &heap_manifest),
        ("heap/src/lib.rs", heap),
        ("b/Cargo.toml", &PACKAGE.replace("app", "b")),
        ("b/src/main.rs", MAIN),
    ]);
    let refusal = written.try_adopt(USUAL).unwrap_err();
    assert_eq!(
        refusal.what,
        "the program `app` gets a global allocator from `heap`, at heap/src/lib.rs:2"
    );
    // What the code does not mention is not linked.
    written.write("src/main.rs", MAIN);
    written.adopt(USUAL);
    assert_eq!(written.undo(), []);
}

#[test]
fn a_file_that_is_also_a_library_is_refused() {
    let manifest = format!("{PACKAGE}[lib]\npath = \"src/main.rs\"\n");
    let written = Written::new(&[("Cargo.toml", &manifest), ("src/main.rs", MAIN)]);
    let refusal = written.try_adopt(USUAL).unwrap_err();
    assert!(
        refusal
            .what
            .contains("`src/main.rs` is the source of a library, too"),
        "{refusal}"
    );
    assert_eq!(written.read("src/main.rs"), MAIN);
}

#[test]
fn a_file_in_another_encoding_is_refused_in_plain_words() {
    let written = Written::new(&[("Cargo.toml", PACKAGE), ("src/main.rs", MAIN)]);
    fs::write(written.path("src/main.rs"), b"// caf\xe9\nfn main() {}\n").unwrap();
    let refusal = written.try_adopt(USUAL).unwrap_err();
    assert!(
        refusal.what.ends_with("main.rs`: it is not UTF-8"),
        "{refusal}"
    );
}

#[test]
fn a_version_that_a_bot_writes_as_a_table_is_still_adopts() {
    for allocator in ["mimalloc3", "jemalloc"] {
        let written = Written::new(&[("Cargo.toml", PACKAGE), ("src/main.rs", MAIN)]);
        written.adopt(How { allocator, ..USUAL });
        let manifest = written.read("Cargo.toml");
        let (front, last) = manifest.trim_end().rsplit_once('\n').unwrap();
        let (key, _) = last.split_once(" = ").unwrap();
        let bumped = format!("{front}\n{key} = {{ version = \"0.9.9\" }} # reheap adopt\n");
        written.write("Cargo.toml", &bumped);
        assert_eq!(written.undo(), []);
        assert_eq!(written.read("Cargo.toml"), PACKAGE);
    }
}

#[test]
fn the_table_for_cargo_reheap_says_what_was_chosen() {
    let chosen = Chosen {
        allocator: "jemalloc".into(),
        tuning: vec![
            ("narenas".into(), "2".into()),
            ("background_thread".into(), "true".into()),
        ],
        stack_size: Some(65536),
        targets: vec!["x86_64-unknown-linux-musl".into()],
    };
    let lines = "allocator = \"jemalloc\" # reheap adopt\ntuning = { narenas = 2, background_thread = true } # reheap adopt\n\
                 stack-size = 65536 # reheap adopt\ntargets = [\"x86_64-unknown-linux-musl\"] # reheap adopt\n";
    let virtual_root = "[workspace]\nmembers = [\"a\"]\nresolver = \"2\"";
    for (root, expected) in [
        (
            PACKAGE.to_owned(),
            format!("{PACKAGE}\n[package.metadata.reheap] # reheap adopt\n{lines}"),
        ),
        (
            virtual_root.to_owned(),
            format!(
                "{virtual_root}\n\n[workspace.metadata.reheap] # reheap adopt\n{}",
                lines.trim_end()
            ),
        ),
    ] {
        let written = Written::new(&[
            ("Cargo.toml", &root),
            ("src/main.rs", MAIN),
            ("a/Cargo.toml", &PACKAGE.replace("app", "a")),
            ("a/src/main.rs", MAIN),
        ]);
        let project = written.project();
        let mut plan = Plan::default();
        metadata::plan(&mut plan, &project, None, &chosen).unwrap();
        apply(&plan);
        assert_eq!(written.read("Cargo.toml"), expected);
        assert_eq!(written.read("src/main.rs"), MAIN);
        // Another key is somebody's own.
        written.write(
            "Cargo.toml",
            &expected.replace("stack-size", "memory-functions = \"stock\"\nstack-size"),
        );
        let left = written.undo();
        assert_eq!(left.len(), 1, "{left:?}");
        assert!(
            left[0].2.ends_with("has more keys: memory-functions"),
            "{left:?}"
        );
        written.write("Cargo.toml", &expected);
        assert_eq!(written.undo(), []);
        assert_eq!(written.read("Cargo.toml"), root);
    }
}
