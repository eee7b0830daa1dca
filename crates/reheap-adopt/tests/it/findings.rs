//! Each rule with a project that breaks it and one that does not.

use crate::common::{MAIN, PACKAGE, assert_clean, found, in_package};

const MIMALLOC: &str = "[dependencies]\nmimalloc = \"0.1\"\n";
const JEMALLOC: &str = "#[global_allocator]\nstatic GLOBAL: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;\n";

/// A name, a manifest after its head, and files.
type Member<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)]);

/// What is found in a workspace of these packages.
fn workspace(packages: &[Member<'_>]) -> Vec<String> {
    let names: Vec<String> = packages
        .iter()
        .map(|member| format!("{:?}", member.0))
        .collect();
    let root = format!(
        "[workspace]\nresolver = \"2\"\nmembers = [{}]\n",
        names.join(", ")
    );
    let mut files = vec![("Cargo.toml".to_owned(), root)];
    for (name, manifest, own) in packages {
        let manifest = format!("{}\n{manifest}", PACKAGE.replace("example", name));
        files.push((format!("{name}/Cargo.toml"), manifest));
        let own = own.iter();
        files.extend(own.map(|(path, text)| (format!("{name}/{path}"), (*text).to_owned())));
    }
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    found(&files)
}

#[test]
fn unused_dependency() {
    assert_eq!(
        in_package(MIMALLOC, "fn main() {}\n"),
        [
            "Cargo.toml:7 unused-dependency: `mimalloc` is a dependency, but no code mentions it; \
             `cargo remove mimalloc -p example`"
        ]
    );
    let manifest = format!("{PACKAGE}\n{MIMALLOC}");
    for (path, text) in [
        ("benches/speed.rs", "use mimalloc as _;\nfn main() {}\n"),
        ("src/included.rs", "type Heap = mimalloc::MiMalloc;\n"),
    ] {
        let main = "fn main() {}\n";
        assert_clean(&found(&[
            ("Cargo.toml", &manifest),
            ("src/main.rs", main),
            (path, text),
        ]));
    }
}

#[test]
fn missing_dependency() {
    assert_eq!(
        in_package("", MAIN),
        [
            "src/main.rs:1 missing-dependency: `mimalloc` is used here but is no dependency, so the build fails; \
             `cargo add mimalloc -p example`"
        ]
    );
    assert_clean(&in_package(MIMALLOC, MAIN));
}

#[test]
fn two_allocators_in_one_package() {
    let manifest = "[dependencies]\nmimalloc = { version = \"0.1\", optional = true }\n\
        tikv-jemallocator = { version = \"0.7\", optional = true }\n";
    let main = format!(
        "#[cfg(feature = \"tikv-jemallocator\")]\n{JEMALLOC}\n#[cfg(feature = \"mimalloc\")]\n{MAIN}"
    );
    assert_eq!(
        in_package(manifest, &main),
        [
            "src/main.rs:6 two-allocators: this and the one in src/main.rs:2 are both global allocators of \
             `example` with `--features mimalloc,tikv-jemallocator`, so that build fails; add \
             `#[cfg(not(feature = \"tikv-jemallocator\"))]` here"
        ]
    );
    let refused = "#[cfg(all(feature = \"mimalloc\", feature = \"tikv-jemallocator\"))]\ncompile_error!(\"one of them\");\n";
    assert_clean(&in_package(manifest, &format!("{refused}{main}")));
}

#[test]
fn two_allocators_from_a_library_of_the_workspace() {
    let library = "pub fn of_use() {}\n#[cfg(feature = \"heap\")]\n#[global_allocator]\nstatic HEAP: mimalloc::MiMalloc = mimalloc::MiMalloc;\n";
    let library_manifest = "publish = false\n\n[dependencies]\nmimalloc = { version = \"0.1\", optional = true }\n\n[features]\nheap = [\"dep:mimalloc\"]\n";
    let program = format!("{JEMALLOC}fn main() {{ part::of_use() }}\n");
    let of = |dependency: &str| {
        let manifest = format!(
            "[dependencies]\ntikv-jemallocator = \"0.7\"\npart = {{ path = \"../part\"{dependency} }}\n"
        );
        workspace(&[
            ("tool", &manifest, &[("src/main.rs", &program)]),
            ("part", library_manifest, &[("src/lib.rs", library)]),
        ])
    };
    assert_clean(&of(""));
    assert_eq!(
        of(", features = [\"heap\"]"),
        [
            "part/src/lib.rs:3 two-allocators: this and the one in tool/src/main.rs:1 are both global allocators of \
             `tool`, so that build fails; leave the choice to the program: remove it from `part`"
        ]
    );
}

#[test]
fn two_allocators_among_many_features() {
    let features: String = (0..600)
        .map(|number| format!("f{number} = [\"dep:mimalloc\", \"dep:tikv-jemallocator\"]\n"))
        .collect();
    let manifest = format!(
        "[dependencies]\nmimalloc = {{ version = \"0.1\", optional = true }}\n\
         tikv-jemallocator = {{ version = \"0.7\", optional = true }}\n[features]\n{features}"
    );
    let any: Vec<String> = (0..600)
        .map(|number| format!("feature = \"f{number}\""))
        .collect();
    let any = format!("#[cfg(any({}))]\n", any.join(", "));
    let found = in_package(&manifest, &format!("{any}{JEMALLOC}{any}{MAIN}"));
    let clash = "are both global allocators of `example` with `--features f0`, so that build fails";
    assert!(
        found.iter().any(|finding| finding.contains(clash)),
        "{found:#?}"
    );
}

/// There are six to the power of twelve ways from the program to the library.
#[test]
fn an_allocator_behind_more_ways_than_can_be_tried_is_found() {
    const LAYERS: usize = 12;
    let layer = |number: usize| match number {
        LAYERS => vec!["part".to_owned()],
        number => (0..6)
            .map(|position| format!("layer{number}_{position}"))
            .collect(),
    };
    let on = |number: usize| {
        let lines = layer(number);
        let lines = lines
            .iter()
            .map(|name| format!("{name} = {{ path = \"../{name}\" }}\n"));
        format!(
            "publish = false\n[dependencies]\n{}",
            lines.collect::<String>()
        )
    };
    let uses = |number: usize| {
        let lines = layer(number);
        let lines = lines
            .iter()
            .map(|name| format!("pub use {name} as _{name};\n"));
        lines.collect::<String>()
    };
    let library = format!("pub fn of_use() {{}}\n{}", MAIN.replace("fn main() {}", ""));
    let program = format!("{JEMALLOC}{}fn main() {{}}\n", uses(0));
    let mut texts = vec![
        (
            "part".to_owned(),
            format!("publish = false\n{MIMALLOC}"),
            library,
        ),
        (
            "tool".to_owned(),
            format!("{}tikv-jemallocator = \"0.7\"\n", on(0)),
            program,
        ),
    ];
    for number in 0..LAYERS {
        let names = layer(number).into_iter();
        texts.extend(names.map(|name| (name, on(number + 1), uses(number + 1))));
    }
    let files: Vec<[(&str, &str); 1]> = texts
        .iter()
        .map(|(name, _, text)| match name.as_str() {
            "tool" => [("src/main.rs", text.as_str())],
            _ => [("src/lib.rs", text.as_str())],
        })
        .collect();
    let members: Vec<Member<'_>> = texts
        .iter()
        .zip(&files)
        .map(|((name, manifest, _), files)| (name.as_str(), manifest.as_str(), &files[..]))
        .collect();
    let found = workspace(&members);
    let clash = "part/src/lib.rs:2 two-allocators: this and the one in tool/src/main.rs:1 are both global allocators of `tool`";
    assert!(
        found.iter().any(|finding| finding.starts_with(clash)),
        "{found:#?}"
    );
}

#[test]
fn allocator_in_library() {
    let of = |manifest: &str, library: &str, main: &str| {
        let manifest = format!("{PACKAGE}{manifest}\n{MIMALLOC}");
        found(&[
            ("Cargo.toml", &manifest),
            ("src/lib.rs", library),
            ("src/main.rs", main),
        ])
    };
    let chooses = format!("pub fn run() {{}}\n{}", MAIN.replace("fn main() {}", ""));
    assert_eq!(
        of("", &chooses, "fn main() { example::run() }\n"),
        [
            "src/lib.rs:2 allocator-in-library: the library `example` chooses the allocator of every program that \
             uses it; move it to `src/main.rs`"
        ]
    );
    let of_both = "[lib]\ncrate-type = [\"cdylib\", \"rlib\"]\n[package.metadata]\n";
    let found = of(of_both, &chooses, "fn main() { example::run() }\n");
    assert!(
        found[1].ends_with("give it a feature that is off by default"),
        "{found:#?}"
    );
    let in_tests = chooses.replace("#[global", "#[cfg(test)]\n#[global");
    for (manifest, library) in [
        ("publish = false\n", &chooses),
        (
            "[lib]\ncrate-type = [\"cdylib\"]\n[package.metadata]\n",
            &chooses,
        ),
        ("", &in_tests),
    ] {
        let found = of(
            manifest,
            library,
            "fn main() { let _ = mimalloc::MiMalloc; }\n",
        );
        let found: Vec<&String> = found
            .iter()
            .filter(|line| line.contains("in-library"))
            .collect();
        assert!(found.is_empty(), "{manifest}{found:#?}");
    }
    // Whoever depends on this wants nothing else.
    assert_clean(&of(
        "",
        MAIN.strip_suffix("\nfn main() {}\n").unwrap(),
        "fn main() {}\n",
    ));
}

#[test]
fn never_enabled_because_there_is_no_such_feature() {
    let manifest = "[dependencies]\nmimalloc = { version = \"0.1\", optional = true }\n\n[features]\nfast = [\"dep:mimalloc\"]\n";
    let of = |feature: &str| {
        in_package(
            manifest,
            &format!("#[cfg(feature = \"{feature}\")]\n{MAIN}"),
        )
    };
    assert_eq!(
        of("mimalloc"),
        [
            "Cargo.toml:7 condition-differs: `mimalloc` is compiled with `--features fast` but not used there; let \
             only `mimalloc`, which the code asks for, enable `dep:mimalloc`",
            "src/main.rs:2 never-enabled: no build has this allocator: there is no feature `mimalloc`; add \
             `mimalloc = [\"dep:mimalloc\"]` to [features]"
        ]
    );
    assert_clean(&of("fast"));
}

#[test]
fn never_enabled_because_nobody_turns_it_on() {
    let manifest = format!(
        "{PACKAGE}\n[dependencies]\nmimalloc = {{ version = \"0.1\", optional = true }}\n\n[features]\nfast = [\"dep:mimalloc\"]\n"
    );
    let main = format!("#[cfg(feature = \"fast\")]\n{MAIN}");
    let of = |files: &[(&str, &str)]| {
        found(
            &[
                &[("Cargo.toml", manifest.as_str()), ("src/main.rs", &main)],
                files,
            ]
            .concat(),
        )
    };
    let workflow = ".github/workflows/ci.yml";
    assert_eq!(
        of(&[(workflow, "run: cargo build --release\n")]),
        [
            "Cargo.toml:7 never-enabled: `mimalloc` is off by default, and no workflow, script or page turns on \
             `fast`; add `\"fast\"` to `default`, or a build with `--features fast`"
        ]
    );
    assert_clean(&of(&[(
        workflow,
        "run: cargo build --release --features fast\n",
    )]));
    assert_clean(&of(&[
        (workflow, "run: cargo build\n"),
        ("README.md", "Turn on `fast`.\n"),
    ]));
    // Without a file that builds, it cannot be told.
    assert_clean(&of(&[]));
}

#[test]
fn not_all_hardened() {
    let of = |features: &str| {
        let manifest = format!("[dependencies]\nmimalloc = {{ version = \"0.1\"{features} }}\n");
        let secure = "[dependencies]\nmimalloc = { version = \"0.1\", features = [\"secure\"] }\n";
        workspace(&[
            ("client", &manifest, &[("src/main.rs", MAIN)]),
            ("server", secure, &[("src/main.rs", MAIN)]),
        ])
    };
    assert_eq!(
        of(""),
        [
            "client/Cargo.toml:7 not-all-hardened: `mimalloc` is hardened in `server` but not in `client`; add \
             `\"secure\"` to its features"
        ]
    );
    assert_clean(&of(", features = [\"secure\"]"));
}

#[test]
fn initial_exec_tls() {
    let of = |package: &str, features: &str, kind: &str| {
        let manifest = format!(
            "{PACKAGE}publish = false\n\n[lib]\ncrate-type = [\"{kind}\"]\n\n[dependencies]\n{package} = {{ version = \"0\", features = [{features}] }}\n"
        );
        let library = match package {
            "mimalloc" => MAIN.replace("fn main() {}", ""),
            _ => JEMALLOC.to_owned(),
        };
        found(&[("Cargo.toml", &manifest), ("src/lib.rs", &library)])
    };
    for (package, feature) in [
        ("mimalloc", "\"local_dynamic_tls\""),
        ("tikv-jemallocator", "\"disable_initial_exec_tls\""),
    ] {
        assert_eq!(
            of(package, "", "cdylib"),
            [format!(
                "Cargo.toml:11 initial-exec-tls: a program that runs may fail to load `example`: thread-local \
                 storage of `{package}` has to be there at its start; add `{feature}` to its features"
            )]
        );
        assert_clean(&of(package, feature, "cdylib"));
        assert_clean(&of(package, "", "staticlib"));
    }
    // Elsewhere than on Linux there is no such limit.
    let manifest = format!(
        "{PACKAGE}\n[lib]\ncrate-type = [\"cdylib\"]\n\n[target.'cfg(windows)'.dependencies]\nmimalloc = \"0.1\"\n"
    );
    let library = format!("#[cfg(windows)]\n{}", MAIN.replace("fn main() {}", ""));
    assert_clean(&found(&[
        ("Cargo.toml", &manifest),
        ("src/lib.rs", &library),
    ]));
}

#[test]
fn known_crash() {
    let lock = |package: &str, version: &str| {
        format!("version = 4\n\n[[package]]\nname = \"{package}\"\nversion = \"{version}\"\n")
    };
    let module = |features: &str, version: &str| {
        let manifest = format!(
            "{PACKAGE}\n[lib]\ncrate-type = [\"cdylib\"]\n\n[dependencies]\n\
             mimalloc = {{ version = \"0.1\", features = [\"local_dynamic_tls\"{features}] }}\n"
        );
        let library = MAIN.replace("fn main() {}", "");
        let lock = lock("libmimalloc-sys", version);
        found(&[
            ("Cargo.toml", &manifest),
            ("src/lib.rs", &library),
            ("Cargo.lock", &lock),
        ])
    };
    let found_in_module = module("", "0.1.49");
    assert!(
        found_in_module[0].starts_with(
            "Cargo.toml:10 known-crash: `libmimalloc-sys` 0.1.49 is known to crash in a library when the thread that \
             loaded it has ended; add `\"v2\"` to the features of `mimalloc` (https://"
        ),
        "{found_in_module:#?}"
    );
    assert_clean(&module(", \"v2\"", "0.1.49"));
    assert_clean(&module("", "0.1.44"));
    let program = |features: &str| {
        let manifest = format!(
            "{PACKAGE}\n[dependencies]\ntikv-jemallocator = {{ version = \"0.7\", features = [{features}] }}\n"
        );
        let main = format!("{JEMALLOC}fn main() {{}}\n");
        let lock = lock("tikv-jemalloc-sys", "0.7.1+5.3.1-0-g81034ce1");
        found(&[
            ("Cargo.toml", &manifest),
            ("src/main.rs", &main),
            ("Cargo.lock", &lock),
        ])
    };
    let found = program("\"unprefixed_malloc_on_supported_platforms\"");
    assert!(
        found[0].contains("`tikv-jemalloc-sys` 0.7.1 is known to crash when a thread ends"),
        "{found:#?}"
    );
    assert_clean(&program(""));
}

#[test]
fn overrides_malloc() {
    let of = |metadata: &str| {
        in_package(
            &format!(
                "[dependencies]\nmimalloc = {{ version = \"0.1\", features = [\"override\"] }}\n{metadata}"
            ),
            MAIN,
        )
    };
    assert_eq!(
        of("\n[package.metadata.reheap]\nallocator = \"mimalloc\"\n"),
        [
            "Cargo.toml:7 overrides-malloc: `override` makes `mimalloc` define malloc, which reheap's libc defines \
             already; take `\"override\"` from its features"
        ]
    );
    assert_clean(&of(""));
}

#[test]
fn ignored_variable() {
    let of = |features: &str, path: &str, text: &str| {
        let manifest = format!(
            "{PACKAGE}\n[dependencies]\ntikv-jemallocator = {{ version = \"0.6\", features = [{features}] }}\n"
        );
        let main = format!("{JEMALLOC}fn main() {{}}\n");
        found(&[
            ("Cargo.toml", &manifest),
            ("src/main.rs", &main),
            (path, text),
        ])
    };
    let unprefixed = "\"unprefixed_malloc_on_supported_platforms\"";
    for (path, text, line) in [
        (
            "Dockerfile",
            "FROM debian\nENV MALLOC_CONF=dirty_decay_ms:0\n",
            2,
        ),
        (
            ".cargo/config.toml",
            "[env]\nMALLOC_CONF = \"narenas:2\"\n",
            2,
        ),
        (
            ".github/workflows/ci.yml",
            "env:\n  MALLOC_CONF: narenas:2\n",
            2,
        ),
        (
            "packaging/example.service",
            "[Service]\nEnvironment=MALLOC_CONF=narenas:2\n",
            2,
        ),
        ("run.sh", "export MALLOC_CONF=narenas:2\n", 1),
    ] {
        assert_eq!(
            of("", path, text),
            [format!(
                "{path}:{line} ignored-variable: this jemalloc does not read `MALLOC_CONF`: its names have a prefix; \
                 write `_RJEM_MALLOC_CONF`"
            )]
        );
        assert_clean(&of(unprefixed, path, text));
        assert_clean(&of(
            "",
            path,
            &text.replace("MALLOC_CONF", "_RJEM_MALLOC_CONF"),
        ));
    }
    // Another jemalloc, and a comment.
    assert_clean(&of(
        "",
        "run.sh",
        "export LD_PRELOAD=libjemalloc.so.2 MALLOC_CONF=narenas:2\n",
    ));
    assert_clean(&of("", "run.sh", "# MALLOC_CONF is not read\n"));
}

#[test]
fn ignored_symbol() {
    let of = |features: &str, symbol: &str| {
        let main = format!(
            "{JEMALLOC}\n#[unsafe(export_name = \"{symbol}\")]\npub static CONF: &[u8] = b\"narenas:2\\0\";\nfn main() {{}}\n"
        );
        let manifest = format!(
            "[dependencies]\ntikv-jemallocator = {{ version = \"0.6\", features = [{features}] }}\n"
        );
        in_package(&manifest, &main)
    };
    let unprefixed = "\"unprefixed_malloc_on_supported_platforms\"";
    assert_eq!(
        of("", "malloc_conf"),
        [
            "src/main.rs:4 ignored-variable: this jemalloc does not read the symbol `malloc_conf`; export it as \
             `_rjem_malloc_conf`"
        ]
    );
    assert_clean(&of("", "_rjem_malloc_conf"));
    assert_clean(&of(unprefixed, "malloc_conf"));
}

#[test]
fn late_options() {
    let of = |call: &str| {
        let main = MAIN.replace("{}", &format!("{{ {call} }}"));
        in_package(MIMALLOC, &main)
    };
    assert_eq!(
        of("unsafe { std::env::set_var(\"MIMALLOC_PURGE_DELAY\", \"0\") };"),
        [
            "src/main.rs:4 late-options: `MIMALLOC_PURGE_DELAY` is set too late: the allocator reads it before \
             `main`; set `MIMALLOC_PURGE_DELAY` where the program is started"
        ]
    );
    assert_clean(&of(
        "std::process::Command::new(\"other\").env(\"MIMALLOC_PURGE_DELAY\", \"0\");",
    ));
    assert_clean(&of(
        "unsafe { std::env::set_var(\"MIMALLOC_PURGE_DELAY\", \"0\") }; start(std::env::current_exe());",
    ));
}

#[test]
fn programs_without_the_standard_library_are_left_alone() {
    let main = format!(
        "#![no_std]\n#![no_main]\n{}",
        MAIN.replace("fn main() {}", "")
    );
    let found = in_package(
        "[target.'cfg(unix)'.dependencies]\nmimalloc = \"0.1\"\n",
        &main,
    );
    assert_clean(&found);
}
