//! Conditions in Cargo.toml and in the code, compared as functions and not as text.

use crate::common;
use crate::common::{MAIN, assert_clean, found, in_package};

const MUSL: &str = "[target.'cfg(target_env = \"musl\")'.dependencies]\nmimalloc = \"0.1\"\n";

fn main_under(condition: &str) -> String {
    format!("#[cfg({condition})]\n{MAIN}")
}

#[test]
fn the_same_condition_in_other_words_is_no_difference() {
    for condition in [
        "target_env = \"musl\"",
        "all(target_env = \"musl\")",
        "not(not(target_env = \"musl\"))",
        // No other system has that C library.
        "all(target_os = \"linux\", target_env = \"musl\")",
        "any(target_env = \"musl\", all(unix, windows))",
    ] {
        assert_clean(&in_package(MUSL, &main_under(condition)));
    }
}

#[test]
fn code_that_uses_it_on_more_targets_gets_the_condition_of_the_manifest() {
    assert_eq!(
        in_package(MUSL, MAIN),
        [
            "src/main.rs:1 condition-differs: `mimalloc` is used here but is no dependency for \
             x86_64-unknown-linux-gnu, so that build fails; write `#[cfg(target_env = \"musl\")]` above it, as in \
             Cargo.toml:7"
        ]
    );
}

#[test]
fn a_manifest_with_more_targets_gets_the_condition_of_the_code() {
    assert_eq!(
        in_package(
            "[dependencies]\nmimalloc = \"0.1\"\n",
            &main_under("all(target_env = \"musl\", not(miri), not(test))")
        ),
        [
            "Cargo.toml:7 condition-differs: `mimalloc` is compiled for x86_64-unknown-linux-gnu but not used there; \
             move it to `[target.'cfg(target_env = \"musl\")'.dependencies]`, as in src/main.rs:2"
        ]
    );
}

#[test]
fn targets_that_a_manifest_names_one_by_one_become_the_condition_of_the_code() {
    let found = in_package(
        "[target.x86_64-unknown-linux-musl.dependencies]\nmimalloc = \"0.1\"\n",
        &main_under("target_env = \"musl\""),
    );
    assert!(
        found[0].contains("for aarch64-unknown-linux-musl, so that build fails; move Cargo.toml:7 to `[target.'cfg(target_env = \"musl\")'.dependencies]`"),
        "{found:#?}"
    );
}

#[test]
fn features_are_named_when_they_matter() {
    let optional = "[dependencies]\nmimalloc = { version = \"0.1\", optional = true }\n";
    assert_eq!(
        in_package(
            &format!("{optional}\n[features]\ndefault = [\"fast\"]\nfast = [\"dep:mimalloc\"]\n"),
            MAIN
        ),
        [
            "src/main.rs:1 condition-differs: `mimalloc` is used here but is no dependency with \
             `--no-default-features`, so that build fails; write `#[cfg(feature = \"fast\")]` above it"
        ]
    );
    assert_eq!(
        in_package(
            "[dependencies]\nmimalloc = \"0.1\"\n\n[features]\nfast = []\n",
            &main_under("feature = \"fast\"")
        ),
        [
            "Cargo.toml:7 condition-differs: `mimalloc` is compiled but not used; add `optional = true`, and \
             `\"dep:mimalloc\"` to the feature `fast`, which the code asks for"
        ]
    );
}

#[test]
fn a_feature_that_only_serves_another_one_is_not_meant_alone() {
    assert_clean(&in_package(
        "[dependencies]\nmimalloc = { version = \"0.1\", optional = true }\n\n[features]\nfast = [\"mimalloc\"]\n",
        &main_under("feature = \"fast\""),
    ));
}

#[test]
fn the_code_may_choose_among_allocators_whose_features_are_both_on() {
    let manifest = "[dependencies]\nmimalloc = { version = \"0.1\", optional = true }\n\
        tikv-jemallocator = { version = \"0.7\", optional = true }\n\n\
        [features]\na = [\"dep:mimalloc\"]\nb = [\"dep:tikv-jemallocator\"]\n";
    let jemalloc = "static OTHER: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;\n";
    let main = main_under("feature = \"a\"");
    let chosen = format!(
        "#[cfg(all(feature = \"b\", not(feature = \"a\")))]\n#[global_allocator]\n{jemalloc}{main}"
    );
    assert_clean(&in_package(manifest, &chosen));
    // On targets the manifest could say it.
    let on_unix = "[dependencies]\nmimalloc = \"0.1\"\n[target.'cfg(unix)'.dependencies]\ntikv-jemallocator = \"0.7\"\n";
    let chosen = format!(
        "#[cfg(unix)]\n#[global_allocator]\n{jemalloc}{}",
        main_under("not(unix)")
    );
    let found = in_package(on_unix, &chosen);
    assert!(
        found[0].contains("`mimalloc` is compiled for x86_64-unknown-linux-gnu but not used there"),
        "{found:#?}"
    );
}

#[test]
fn flags_of_build_scripts_may_explain_a_difference() {
    assert_clean(&in_package(
        "[target.'cfg(not(target_os = \"freebsd\"))'.dependencies]\nmimalloc = \"0.1\"\n",
        &main_under("not(libc_is_good)"),
    ));
}

#[test]
fn a_build_that_the_code_refuses_is_none() {
    let refused = "#[cfg(all(feature = \"a\", windows))]\ncompile_error!(\"not on Windows\");\n";
    let manifest = "[target.'cfg(not(windows))'.dependencies]\nmimalloc = { version = \"0.1\", optional = true }\n\n\
        [features]\na = [\"dep:mimalloc\"]\n";
    let main = format!("{refused}{}", main_under("feature = \"a\""));
    assert_clean(&in_package(manifest, &main));
}

#[test]
fn a_package_without_a_library_is_not_built_without_its_programs() {
    let manifest = "[dependencies]\nmimalloc = \"0.1\"\n\n[features]\ncli = []\n\n[[bin]]\nname = \"example\"\n\
        path = \"src/main.rs\"\nrequired-features = [\"cli\"]\n";
    assert_clean(&in_package(manifest, MAIN));
    let manifest = format!("{}\n{manifest}", common::PACKAGE);
    let found = found(&[
        ("Cargo.toml", &manifest),
        ("src/main.rs", MAIN),
        ("src/lib.rs", "pub fn of_use() {}\n"),
    ]);
    assert!(
        found[0].contains("`\"dep:mimalloc\"` to the feature `cli`"),
        "{found:#?}"
    );
}

#[test]
fn tests_may_have_an_allocator_from_their_own_dependencies() {
    assert_clean(&in_package(
        "[dev-dependencies]\nmimalloc = \"0.1\"\n",
        &main_under("test"),
    ));
}

#[test]
fn names_are_resolved_as_the_compiler_does() {
    for main in [
        "use mimalloc::*;\n#[global_allocator]\nstatic A: MiMalloc = MiMalloc;\nfn main() {}\n",
        "extern crate mimalloc as heap;\n#[global_allocator]\nstatic A: heap::MiMalloc = heap::MiMalloc;\nfn main() {}\n",
    ] {
        let found = in_package(MUSL, main);
        let lines: Vec<&str> = found
            .iter()
            .filter_map(|finding| finding.split(' ').next())
            .collect();
        assert_eq!(
            lines,
            ["src/main.rs:1", "src/main.rs:2"],
            "{main}{found:#?}"
        );
    }
    // A dependency by that name which is another package.
    assert_clean(&in_package(
        "[dependencies]\nmimalloc = { package = \"mimalloc-safe\", version = \"0.1\" }\n",
        MAIN,
    ));
}

#[test]
fn several_dependencies_are_one_condition_in_the_code() {
    let manifest = "[target.'cfg(windows)'.dependencies]\nmimalloc = \"0.1\"\n\n\
        [target.'cfg(target_os = \"linux\")'.dependencies]\nmimalloc = { version = \"0.1\", features = [\"v2\"] }\n";
    let found = in_package(manifest, MAIN);
    assert!(
        found[0].ends_with(
            "write `#[cfg(any(windows, target_os = \"linux\"))]` above it, as in Cargo.toml:7"
        ),
        "{found:#?}"
    );
    let main = main_under("any(target_os = \"linux\", windows)");
    assert_clean(&in_package(manifest, &main));
}

#[test]
fn an_import_needs_the_condition_that_the_allocator_has() {
    let used = "static HEAP: MiMalloc = MiMalloc;\n\nfn main() {}\n";
    let main = format!(
        "use mimalloc::MiMalloc;\n\n#[cfg(target_env = \"musl\")]\n#[global_allocator]\n{used}"
    );
    let words = "condition-differs: `mimalloc` is used here but is no dependency for x86_64-unknown-linux-gnu, so that \
        build fails; write `#[cfg(target_env = \"musl\")]` above it, as in ";
    let expected = |line: usize, place: &str| vec![format!("src/main.rs:{line} {words}{place}")];
    assert_eq!(in_package(MUSL, &main), expected(1, "Cargo.toml:7"));
    let one_by_one: String = ["x86_64", "aarch64", "i686"]
        .iter()
        .map(|architecture| {
            format!("[target.{architecture}-unknown-linux-musl.dependencies]\nmimalloc = \"0.1\"\n")
        })
        .collect();
    let found = in_package(&one_by_one, &main);
    assert_eq!(found[..1], expected(1, "src/main.rs:4"), "{found:#?}");
    // As a static that is the global allocator only there.
    let main = format!("#[cfg_attr(target_env = \"musl\", global_allocator)]\n{used}")
        .replace("MiMalloc", "mimalloc::MiMalloc");
    assert_eq!(in_package(MUSL, &main), expected(2, "Cargo.toml:7"));
    let optional = "[dependencies]\nmimalloc = { version = \"0.1\", optional = true }\n\n\
        [features]\nfast = [\"dep:mimalloc\"]\n";
    let main = format!(
        "mod heap {{\n    pub use mimalloc::MiMalloc;\n}}\n{}",
        main_under("feature = \"fast\"")
    );
    assert_eq!(
        in_package(optional, &main),
        [
            "src/main.rs:2 condition-differs: `mimalloc` is used here but is no dependency, so that build fails; write \
             `#[cfg(feature = \"fast\")]` above it"
        ]
    );
}

#[test]
fn an_import_of_something_else_with_that_name_is_left_alone() {
    for other in [
        "mod mimalloc;\nuse mimalloc::tuning;\n",
        "use std::alloc as mimalloc;\nuse mimalloc::System;\n",
        "#[cfg(target_env = \"musl\")]\nmod only {\n    use mimalloc::MiMalloc;\n}\n",
        "macro_rules! import { () => { use mimalloc::MiMalloc; } }\n",
    ] {
        let main = format!("{other}{}", main_under("target_env = \"musl\""));
        assert_clean(&in_package(MUSL, &main));
    }
}
