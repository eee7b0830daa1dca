//! `cargo reheap` in projects of every shape: what comes out, what is kept, what is passed on.

use crate::common;
use crate::common::{
    HELLO, Project, allocator_in, files_below, is_static_pie, marker_in, of_target, prints,
    readelf, run, run_with_input, target,
};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::process::Command;

#[test]
fn a_build_is_a_static_pie_with_the_default_allocator_and_says_so() {
    let project = Project::new(HELLO);
    let outcome = run(&mut project.cargo_reheap("build")).succeeded();
    let app = project.app();
    is_static_pie(&app);
    assert_eq!(prints(&app), "hello\n");
    let found = marker_in(&app).unwrap();
    assert_eq!(found.marker.allocator, "mimalloc");
    assert_eq!(found.replaced, [""; 0]);
    let shown = app.strip_prefix(&project.directory).unwrap();
    let said = format!("reheap: {}: static-pie, ", shown.display());
    outcome.said(&[&said, "mimalloc 2.", " in musl 1.2."]);
}

#[test]
fn another_allocator_or_tuning_is_linked_without_compiling() {
    let project = Project::new(HELLO);
    run(&mut project.cargo_reheap("build -a mimalloc")).succeeded();
    type Options<'a> = &'a [(&'a str, &'a str)];
    let steps: [(&str, &str, Options<'_>); 4] = [
        ("-a rpmalloc", "rpmalloc", &[]),
        ("-a mimalloc3", "mimalloc3", &[]),
        ("-t purge_delay=0", "mimalloc", &[("purge_delay", "0")]),
        (
            "-t purge_delay=5 --tuning=huge_pages=allow",
            "mimalloc",
            &[("huge_pages", "allow"), ("purge_delay", "5")],
        ),
    ];
    for (flags, allocator, tuning) in steps {
        let line = format!("build {flags} --message-format=json");
        let outcome = run(&mut project.cargo_reheap(&line)).succeeded();
        for message in outcome.stdout.lines() {
            let message: serde_json::Value = serde_json::from_str(message).unwrap();
            if message["reason"] == "compiler-artifact" {
                assert_eq!(message["fresh"], true, "{flags}: {message}");
            }
        }
        outcome.said(&["relinked without compiling"]);
        // Cargo keeps a second name for what rustc made; both have to be the new file.
        for file in [project.app(), deps_of_app(&project)] {
            let marker = marker_in(&file).unwrap().marker;
            let tuning: Vec<_> = tuning
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect();
            assert_eq!(marker.allocator, allocator, "{flags}");
            assert_eq!(marker.tuning, BTreeMap::from_iter(tuning), "{flags}");
            assert_eq!(prints(&file), "hello\n", "{flags}");
        }
    }
    let last = "build -t purge_delay=5 -t huge_pages=allow";
    run(&mut project.cargo_reheap(last))
        .succeeded()
        .did_not_say("relinked");
}

fn deps_of_app(project: &Project) -> std::path::PathBuf {
    let directory = project.output("debug/deps");
    let name = files_below(&directory).into_iter().find(|file| {
        let name = file.to_string_lossy();
        name.starts_with("app-") && !name.contains('.')
    });
    directory.join(name.expect("rustc's own output of the program"))
}

#[test]
fn stock_is_musls_own_allocator_and_no_marker() {
    let project = Project::new(HELLO);
    run(&mut project.cargo_reheap("build -a stock"))
        .succeeded()
        .said(&["musl's own allocator"]);
    is_static_pie(&project.app());
    assert_eq!(allocator_in(&project.app()), "stock");
    run(&mut project.cargo_reheap("build -a rpmalloc")).succeeded();
    assert_eq!(allocator_in(&project.app()), "rpmalloc");
    run(&mut project.cargo_reheap("build -a stock")).succeeded();
    assert_eq!(allocator_in(&project.app()), "stock");
    assert_eq!(prints(&project.app()), "hello\n");
}

#[test]
fn a_changed_source_is_compiled_and_linked_with_what_is_asked_for_then() {
    let project = Project::new(HELLO);
    run(&mut project.cargo_reheap("build -a mimalloc")).succeeded();
    project.write(
        "src/main.rs",
        "fn main() { println!(\"changed {}\", String::from(\"it\")); }",
    );
    run(&mut project.cargo_reheap("build -a rpmalloc"))
        .succeeded()
        .did_not_say("relinked");
    assert_eq!(prints(&project.app()), "changed it\n");
    assert_eq!(allocator_in(&project.app()), "rpmalloc");
}

#[test]
fn the_allocator_can_come_from_the_environment_and_a_flag_wins() {
    let project = Project::new(HELLO);
    let mut build = project.cargo_reheap("build");
    run(build
        .env("REHEAP_ALLOCATOR", "mimalloc3")
        .env("REHEAP_TUNING", "purge_delay=7"))
    .succeeded();
    let marker = marker_in(&project.app()).unwrap().marker;
    assert_eq!(
        (
            marker.allocator.as_str(),
            marker.tuning["purge_delay"].as_str()
        ),
        ("mimalloc3", "7")
    );
    let mut build = project.cargo_reheap("build -a rpmalloc");
    run(build.env("REHEAP_ALLOCATOR", "mimalloc3")).succeeded();
    assert_eq!(allocator_in(&project.app()), "rpmalloc");
}

const SHOWS_CFG: &str = "fn main() { println!(\"{} {}\", cfg!(first), cfg!(second)); }\n";

#[test]
fn rust_flags_from_every_place_survive_as_cargo_merges_them() {
    let triple = target();
    let of_target = of_target("CARGO_TARGET_", "_RUSTFLAGS");
    let first = "rustflags = [\"--cfg\", \"first\"]\n";
    let second = "rustflags = [\"--cfg\", \"second\"]\n";
    let build = format!("[build]\n{first}");
    let table = format!("[target.{triple}]\n{first}");
    let two_tables =
        format!("[target.{triple}]\n{first}[target.'cfg(target_os = \"linux\")']\n{second}");
    type Variables<'a> = &'a [(&'a str, &'a str)];
    let cases: [(&str, Variables<'_>); 7] = [
        ("", &[("RUSTFLAGS", "--cfg first")]),
        (
            "",
            &[(
                "CARGO_ENCODED_RUSTFLAGS",
                "--cfg\u{1f}first\u{1f}--cfg\u{1f}second",
            )],
        ),
        ("", &[("CARGO_BUILD_RUSTFLAGS", "--cfg second")]),
        ("", &[(of_target.as_str(), "--cfg second")]),
        (&build, &[]),
        (&two_tables, &[]),
        // RUSTFLAGS replaces those of the files (Cargo book, `build.rustflags`).
        (&table, &[("RUSTFLAGS", "--cfg second")]),
    ];
    let project = Project::new(SHOWS_CFG);
    for (config, variables) in cases {
        project.write(".cargo/config.toml", config);
        let by_cargo = {
            let mut cargo = Command::new("cargo");
            let line = ["build", "--target", &triple, "--target-dir", "plain"];
            run(cargo
                .args(line)
                .current_dir(&project.directory)
                .envs(variables.iter().copied()))
            .succeeded();
            prints(
                &project
                    .directory
                    .join("plain")
                    .join(&triple)
                    .join("debug/app"),
            )
        };
        run(project
            .cargo_reheap("build -a rpmalloc")
            .envs(variables.iter().copied()))
        .succeeded();
        assert_eq!(prints(&project.app()), by_cargo, "{config:?} {variables:?}");
        assert_ne!(by_cargo, "false false\n", "{config:?} {variables:?}");
        assert_eq!(
            allocator_in(&project.app()),
            "rpmalloc",
            "{config:?} {variables:?}"
        );
    }
}

#[test]
fn build_scripts_and_procedural_macros_are_the_hosts_and_not_linked_by_reheap() {
    let project =
        Project::new("fn main() { println!(\"{} {}\", env!(\"FROM_SCRIPT\"), macros::seven!()); }");
    project.append(
        "Cargo.toml",
        "[dependencies]\nmacros = { path = \"macros\" }\n[workspace]\n",
    );
    project.write("build.rs", "fn main() { println!(\"cargo:rustc-env=FROM_SCRIPT={}\", std::env::var(\"HOST\").unwrap()); }");
    project.write(
        "macros/Cargo.toml",
        "[package]\nname = \"macros\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[lib]\nproc-macro = true\n",
    );
    project.write(
        "macros/src/lib.rs",
        "#[proc_macro] pub fn seven(_: proc_macro::TokenStream) -> proc_macro::TokenStream { \"7\".parse().unwrap() }",
    );
    run(&mut project.cargo_reheap("build -a rpmalloc")).succeeded();
    assert!(prints(&project.app()).ends_with(" 7\n"));
    assert_eq!(allocator_in(&project.app()), "rpmalloc");

    let host = project.directory.join("target/debug");
    let built: Vec<_> = files_below(&host)
        .into_iter()
        .filter(|f| f.ends_with("build-script-build") || f.extension() == Some("so".as_ref()))
        .collect();
    assert_eq!(
        built.len(),
        2,
        "a build script and a procedural macro: {built:?}"
    );
    for file in built {
        assert_eq!(marker_in(&host.join(&file)), None, "{file:?}");
        assert!(
            readelf("-dW", &host.join(&file)).contains("NEEDED"),
            "{file:?} is not dynamic"
        );
    }
    assert!(!project.directory.join("target/.reheap-links").exists());
}

#[test]
fn every_program_of_a_workspace_is_linked_or_only_those_asked_for() {
    let project = Project::new(HELLO);
    project.write(
        "Cargo.toml",
        "[workspace]\nresolver = \"3\"\nmembers = [\"one\", \"two\"]\n",
    );
    for member in ["one", "two"] {
        let manifest =
            format!("[package]\nname = \"{member}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
        project.write(&format!("{member}/Cargo.toml"), manifest);
        project.write(&format!("{member}/src/main.rs"), HELLO);
    }
    project.write("one/src/bin/extra.rs", HELLO);
    run(&mut project.cargo_reheap("build")).succeeded();
    let (one, two, extra) = (
        project.output("debug/one"),
        project.output("debug/two"),
        project.output("debug/extra"),
    );
    for file in [&one, &two, &extra] {
        assert_eq!(allocator_in(file), "mimalloc");
    }
    run(&mut project.cargo_reheap("build -p two -a rpmalloc")).succeeded();
    assert_eq!(
        [&one, &two, &extra].map(|f| allocator_in(f)),
        ["mimalloc", "rpmalloc", "mimalloc"]
    );
    run(&mut project.cargo_reheap("build --bin extra -a rpmalloc")).succeeded();
    assert_eq!(
        [&one, &two, &extra].map(|f| allocator_in(f)),
        ["mimalloc", "rpmalloc", "rpmalloc"]
    );
    for file in [&one, &two, &extra] {
        assert_eq!(prints(file), "hello\n");
    }
}

#[test]
fn c_code_compiled_by_the_cc_crate_has_the_same_heap() {
    let project = Project::new(
        "unsafe extern \"C\" { fn twice(text: *const i8) -> *mut i8; fn free(block: *mut i8); }\n\
         fn main() { unsafe { let p = twice(c\"ab\".as_ptr().cast()); \
         println!(\"{}\", std::ffi::CStr::from_ptr(p.cast()).to_str().unwrap()); free(p); } }",
    );
    project.append("Cargo.toml", "[build-dependencies]\ncc = \"1\"\n");
    project.write(
        "build.rs",
        "fn main() { cc::Build::new().file(\"twice.c\").compile(\"twice\"); }",
    );
    project.write(
        "twice.c",
        "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\
         char *twice(const char *t) { char *p = malloc(2 * strlen(t) + 1); sprintf(p, \"%s%s\", t, t); return p; }",
    );
    run(&mut project.cargo_reheap("build")).succeeded();
    assert_eq!(prints(&project.app()), "abab\n");
    let found = marker_in(&project.app()).unwrap();
    assert_eq!(
        (found.marker.allocator.as_str(), found.replaced.len()),
        ("mimalloc", 0)
    );
}

#[test]
fn c_code_is_compiled_again_by_another_c_compiler() {
    let project = Project::new(HELLO);
    let script = "use std::{env, fs::OpenOptions, io::Write};
fn main() {
    println!(\"cargo:rerun-if-env-changed=VARIABLE\");
    let mut seen = OpenOptions::new().create(true).append(true).open(\"seen\").unwrap();
    writeln!(seen, \"{}\", env::var(\"VARIABLE\").unwrap()).unwrap();
}
";
    let variable = format!("CC_{}", target().replace('-', "_"));
    project.write("build.rs", script.replace("VARIABLE", &variable));
    // It does not say that it is `musl-gcc`, which would be called directly then.
    let name = format!("bin/{}-linux-musl-gcc", std::env::consts::ARCH);
    project.script(&name, "[ \"$*\" = -v ] && exit 0\nexec musl-gcc \"$@\"");
    let usual = || project.cargo_reheap("check");
    let mut other = usual();
    let path = other.get_envs().find(|(name, _)| *name == "PATH");
    let mut in_front = project.directory.join("bin").into_os_string();
    in_front.push(":");
    in_front.push(path.unwrap().1.unwrap());
    other.env("PATH", in_front);
    for mut check in [usual(), other, usual()] {
        run(&mut check).succeeded();
    }
    let seen = std::fs::read_to_string(project.directory.join("seen")).unwrap();
    let seen = common::words(&seen);
    assert_eq!(seen.len(), 3, "{seen:?}");
    assert_eq!(seen[0], seen[2]);
    assert_ne!(seen[0], seen[1]);
}

#[test]
fn cargos_json_passes_through_on_standard_output_and_nothing_else() {
    let project = Project::new("fn main() { let unused = 1; println!(\"x\"); }");
    let outcome = run(&mut project.cargo_reheap("build --message-format json")).succeeded();
    let reasons: Vec<String> = outcome
        .stdout
        .lines()
        .map(|line| {
            let message: serde_json::Value = serde_json::from_str(line).unwrap();
            message["reason"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(
        reasons,
        ["compiler-message", "compiler-artifact", "build-finished"]
    );
    outcome.said(&["mimalloc"]);
}

#[test]
fn without_it_standard_output_is_empty_and_warnings_are_shown() {
    let project = Project::new("fn main() { let unused = 1; println!(\"x\"); }");
    let outcome = run(&mut project.cargo_reheap("build"))
        .succeeded()
        .said(&["unused variable"]);
    assert_eq!(outcome.stdout, "");
}

#[test]
fn an_error_of_the_compiler_is_shown_and_its_exit_code_kept() {
    let project = Project::new("fn main() { nonsense }");
    let outcome = run(&mut project.cargo_reheap("build")).ended_with(101);
    outcome.said(&["cannot find value `nonsense`"]);
}

#[test]
fn run_passes_arguments_input_and_exit_code() {
    let project = Project::new(
        "use std::io::Read;\nfn main() {\n let mut text = String::new();\n std::io::stdin().read_to_string(&mut text).unwrap();\n\
         println!(\"{text}{:?}\", std::env::args().skip(1).collect::<Vec<_>>());\n std::process::exit(37) }",
    );
    let mut command = project.cargo_reheap("run -q -a rpmalloc -- -a --tuning x -- --help");
    let outcome = run_with_input(&mut command, b"input ").ended_with(37);
    assert_eq!(
        outcome.stdout,
        "input [\"-a\", \"--tuning\", \"x\", \"--\", \"--help\"]\n"
    );
    assert_eq!(allocator_in(&project.app()), "rpmalloc");
}

/// Looks for a marker in the running executable; the words are put together so that the text itself is not found.
const FINDS_ITS_MARKER: &str = "\
pub fn allocator() -> Option<String> {
    let bytes = std::fs::read(\"/proc/self/exe\").unwrap();
    let front = format!(\"{}allocator{}:{}\", '\"', '\"', '\"');
    let at = bytes.windows(front.len()).position(|w| w == front.as_bytes())?;
    let rest = &bytes[at + front.len()..];
    Some(String::from_utf8_lossy(rest.split(|b| *b == b'\"').next()?).into_owned())
}
";

#[test]
fn tests_run_as_static_programs_with_the_allocator() {
    let project = Project::new(HELLO);
    let unit = "#[test] fn unit() { assert_eq!(allocator().as_deref(), Some(\"rpmalloc\")); }\n";
    project.write("src/lib.rs", format!("{FINDS_ITS_MARKER}{unit}"));
    project.write(
        "tests/integration.rs",
        "#[test] fn integration() { assert_eq!(app::allocator().as_deref(), Some(\"rpmalloc\")); }\n\
         #[test] fn fails_when_told() { assert!(std::env::var_os(\"FAIL\").is_none()); }\n",
    );
    let outcome = run(&mut project.cargo_reheap("test -a rpmalloc")).succeeded();
    for test in ["unit", "integration"] {
        assert!(
            outcome.stdout.contains(&format!("test {test} ... ok")),
            "{}",
            outcome.stdout
        );
    }
    run(project.cargo_reheap("test -a rpmalloc").env("FAIL", "1")).ended_with(101);
    let outcome = run(&mut project.cargo_reheap("test -a rpmalloc -- integ")).succeeded();
    assert!(
        !outcome.stdout.contains("test unit"),
        "the filter did not get through: {}",
        outcome.stdout
    );
}

#[test]
fn install_puts_an_executable_with_the_allocator_into_the_given_root() {
    let project = Project::new(HELLO);
    run(&mut project.cargo_reheap("install -a rpmalloc --path . --root installed")).succeeded();
    let app = project.directory.join("installed/bin/app");
    is_static_pie(&app);
    assert_eq!(
        (allocator_in(&app).as_str(), prints(&app).as_str()),
        ("rpmalloc", "hello\n")
    );
}

#[test]
fn a_project_with_its_own_global_allocator_is_told_which_heap_is_whose() {
    let project = Project::new(
        "struct Own;\nunsafe impl std::alloc::GlobalAlloc for Own {\n\
         unsafe fn alloc(&self, l: std::alloc::Layout) -> *mut u8 { unsafe { std::alloc::System.alloc(l) } }\n\
         unsafe fn dealloc(&self, p: *mut u8, l: std::alloc::Layout) { unsafe { std::alloc::System.dealloc(p, l) } } }\n\
         #[global_allocator] static OWN: Own = Own;\nfn main() { println!(\"{}\", String::from(\"own\")); }",
    );
    let told = "its Rust code uses the program's own #[global_allocator]; its C code and musl use rpmalloc";
    run(&mut project.cargo_reheap("build -a rpmalloc"))
        .succeeded()
        .said(&[told]);
    assert_eq!(prints(&project.app()), "own\n");
    let project = Project::new(HELLO);
    run(&mut project.cargo_reheap("build -a rpmalloc"))
        .succeeded()
        .did_not_say("global_allocator");
}

#[test]
fn a_shared_library_is_not_missed_where_only_a_program_that_needs_its_crate_was_asked_for() {
    let project = Project::new("fn main() { println!(\"{}\", plug::seven()); }");
    project.append(
        "Cargo.toml",
        "[dependencies]\nplug = { path = \"plug\" }\n[workspace]\n",
    );
    let manifest = "[package]\nname = \"plug\"\nedition = \"2024\"\n[lib]\ncrate-type = [\"cdylib\", \"rlib\"]\n";
    project.write("plug/Cargo.toml", manifest);
    project.write("plug/src/lib.rs", "pub fn seven() -> i32 { 7 }");
    let missed = "no shared library of the crate `plug`";
    run(&mut project.cargo_reheap("build -a stock"))
        .succeeded()
        .did_not_say(missed);
    run(&mut project.cargo_reheap("build -a stock -p plug"))
        .succeeded()
        .said(&[missed]);
}

#[test]
fn a_shared_library_that_rust_does_not_make_for_musl_is_missed_aloud() {
    let project = Project::new(HELLO);
    project.append(
        "Cargo.toml",
        "[lib]\nname = \"plug\"\ncrate-type = [\"cdylib\", \"rlib\"]\n",
    );
    project.write(
        "src/lib.rs",
        "#[unsafe(no_mangle)] pub extern \"C\" fn seven() -> i32 { 7 }",
    );
    let missed = "Cargo made no shared library of the crate `plug`: for";
    let hint = "hint: build it with `cargo build`";
    // Also where there was nothing left to compile, and rustc had no occasion to warn.
    for _ in 0..2 {
        let outcome = run(&mut project.cargo_reheap("build -a rpmalloc")).succeeded();
        assert_eq!(
            outcome.stderr.matches(missed).count(),
            1,
            "{}",
            outcome.stderr
        );
        outcome.said(&[hint]);
    }
    for without in ["build -q", "build --bin app", "build --bins", "run"] {
        run(&mut project.cargo_reheap(without))
            .succeeded()
            .did_not_say(missed);
    }
    assert!(!project.output("debug/libplug.so").exists());

    // Without crt-static there is one, which must not get a heap of its own.
    let mut build = project.cargo_reheap("build --lib -a rpmalloc");
    let outcome = run(build.env("RUSTFLAGS", "-C target-feature=-crt-static")).succeeded();
    outcome.did_not_say(missed);
    let library = project.output("debug/libplug.so");
    assert_eq!(marker_in(&library), None);
    assert!(
        readelf("-dW", &library).contains("NEEDED"),
        "it has a libc of its own"
    );
}

#[test]
fn of_a_list_of_targets_the_one_for_musl_is_built() {
    let project = Project::new(HELLO);
    let config = |targets: &[&str]| format!("[build]\ntarget = {targets:?}\n");
    let (musl, glibc) = (target(), "x86_64-unknown-linux-gnu");
    project.write(".cargo/config.toml", config(&[glibc, &musl]));
    run(&mut project.cargo_reheap("build -a rpmalloc")).succeeded();
    assert_eq!(allocator_in(&project.app()), "rpmalloc");

    let other = "aarch64-unknown-linux-musl";
    project.write(".cargo/config.toml", config(&[&musl, other]));
    let outcome = run(&mut project.cargo_reheap("run")).ended_with(2);
    outcome.said(&[&format!("hint: choose one: --target {musl}")]);
}

#[test]
fn a_stripped_executable_is_proved_like_any_other() {
    let project = Project::new(HELLO);
    project.append("Cargo.toml", "[profile.dev]\nstrip = true\n");
    run(&mut project.cargo_reheap("build -a mimalloc"))
        .succeeded()
        .said(&["mimalloc"]);
    assert!(!readelf("-SW", &project.app()).contains(".symtab"));
    run(&mut project.cargo_reheap("build -a rpmalloc"))
        .succeeded()
        .said(&["rpmalloc", "relinked"]);
    assert!(!readelf("-SW", &project.app()).contains(".symtab"));
    assert_eq!(
        (
            allocator_in(&project.app()).as_str(),
            prints(&project.app()).as_str()
        ),
        ("rpmalloc", "hello\n")
    );
}

#[test]
fn an_executable_that_another_program_has_changed_is_not_linked_again_as_it_was() {
    let project = Project::new(HELLO);
    run(&mut project.cargo_reheap("build -a mimalloc")).succeeded();
    run(Command::new("strip").arg(project.app())).succeeded();
    run(&mut project.cargo_reheap("build -a mimalloc"))
        .succeeded()
        .said(&["static-pie", "mimalloc"]);
    run(&mut project.cargo_reheap("build -a rpmalloc"))
        .ended_with(1)
        .said(&["it has changed since reheap linked it", "hint: cargo clean"]);
}

#[test]
fn paths_with_blanks_and_quotes_are_taken_as_they_are() {
    let project = Project::named(OsStr::new("a b'c\"d$e\\f"), HELLO);
    let cache = project.directory.join("ca'che \"x\" $HOME");
    let mut build = project.cargo_reheap("build -a rpmalloc");
    run(build.env("REHEAP_CACHE_DIR", &cache)).succeeded();
    assert_eq!(prints(&project.app()), "hello\n");
    run(project
        .cargo_reheap("build -a stock")
        .env("REHEAP_CACHE_DIR", &cache))
    .succeeded();
    assert_eq!(allocator_in(&project.app()), "stock");
    run(project
        .cargo_reheap("build -a rpmalloc")
        .env("REHEAP_CACHE_DIR", &cache))
    .succeeded();
    assert_eq!(
        (
            allocator_in(&project.app()).as_str(),
            prints(&project.app()).as_str()
        ),
        ("rpmalloc", "hello\n")
    );
}

#[test]
fn a_cache_whose_path_is_not_utf_8_is_refused_because_cargo_takes_none() {
    let project = Project::new(HELLO);
    let cache = project.directory.join(OsStr::from_bytes(b"not-utf8-\xff"));
    let mut build = project.cargo_reheap("build -a rpmalloc");
    let outcome = run(build.env("REHEAP_CACHE_DIR", &cache)).ended_with(1);
    outcome.said(&[
        "cannot use the cache directory",
        "is not UTF-8",
        "hint: set another one: REHEAP_CACHE_DIR=<directory>",
    ]);
    assert!(!cache.exists());
}

#[test]
fn a_project_whose_path_is_not_utf_8_is_refused_in_cargos_words() {
    let project = Project::named(OsStr::from_bytes(b"not-utf8-\xff"), HELLO);
    let outcome = run(&mut project.cargo_reheap("build -a rpmalloc")).ended_with(1);
    outcome.said(&[
        "cannot build a Cargo project here: ",
        "not representable in Unicode",
    ]);
}

/// A program with a mistake that only a musl target shows, and one that only Clippy sees.
const WITH_MISTAKES: &str = r#"
fn main() {
    #[cfg(all(target_env = "musl", mistake))]
    nowhere();
    let word = "hello";
    println!("{}", word.to_string());
}
"#;

#[test]
fn sources_are_checked_for_the_musl_target_and_nothing_is_linked() {
    let project = Project::new(WITH_MISTAKES);
    run(&mut project.cargo_reheap("check")).succeeded();
    assert!(project.output("debug").exists() && !project.app().exists());
    let mut with_mistake = project.cargo_reheap("check --message-format short");
    run(with_mistake.env("RUSTFLAGS", "--cfg mistake"))
        .ended_with(101)
        .said(&["src/main.rs:4:5: error[E0425]"]);
    run(&mut project.cargo_reheap("clippy")).succeeded();
    run(&mut project.cargo_reheap("clippy -- -D clippy::to_string_in_format_args"))
        .ended_with(101)
        .said(&["to_string_in_format_args"]);
    assert!(!project.app().exists());
}

#[test]
fn flags_for_the_compiler_reach_it_and_the_executable_is_proved() {
    let project = Project::new("fn main() { println!(\"{}\", cfg!(special)); }");
    let line = "rustc --bin app -a rpmalloc --message-format json -- --cfg special";
    let outcome = run(&mut project.cargo_reheap(line)).succeeded();
    assert!(outcome.stdout.contains("\"compiler-artifact\""));
    outcome.said(&["rpmalloc"]);
    assert_eq!(allocator_in(&project.app()), "rpmalloc");
    assert_eq!(prints(&project.app()), "true\n");
}
