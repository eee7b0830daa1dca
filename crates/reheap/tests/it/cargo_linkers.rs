//! Linkers that users configure for Cargo, what they give them, and who else must not get reheap's.

use crate::common::{
    HELLO, Project, allocator_in, of_target, prints, readelf, run, stack_size, target,
};
use std::fs;
use std::os::unix::fs::symlink;

/// Configures a linker for the musl target.
fn configure(project: &Project, linker: &str) {
    let config = format!("[target.{}]\nlinker = \"{linker}\"\n", target());
    project.write(".cargo/config.toml", config);
}

#[test]
fn a_configured_linker_is_used() {
    let project = Project::new(HELLO);
    project.script(
        "tools/my-gcc",
        "echo \"$@\" >> \"${0%/*}/log\"\nexec cc \"$@\"",
    );
    let log = project.directory.join("tools/log");
    let config = format!("[target.{}]\nlinker = \"tools/my-gcc\"\n", target());
    project.write(".cargo/config.toml", config);
    run(&mut project.cargo_reheap("build -a rpmalloc")).succeeded();
    assert_eq!(fs::read_to_string(&log).unwrap().lines().count(), 1);
    run(&mut project.cargo_reheap("build -a mimalloc")).succeeded();
    assert_eq!(
        fs::read_to_string(&log).unwrap().lines().count(),
        2,
        "a relink uses it, too"
    );
    assert_eq!(allocator_in(&project.app()), "mimalloc");

    let other = project.script(
        "other-cc",
        "echo other >> \"${0%/*}/tools/log\"\nexec cc \"$@\"",
    );
    project.write(
        "src/main.rs",
        "fn main() { println!(\"{}\", String::from(\"by another\")); }",
    );
    let variable = of_target("CARGO_TARGET_", "_LINKER");
    run(project
        .cargo_reheap("build -a mimalloc")
        .env(variable, other))
    .succeeded();
    assert!(
        fs::read_to_string(&log).unwrap().ends_with("other\n"),
        "the variable wins over the file"
    );
}

#[test]
fn a_linker_configured_for_a_cfg_is_used() {
    let project = Project::new(HELLO);
    project.script(
        "tools/my-gcc",
        "echo \"$@\" >> \"${0%/*}/log\"\nexec cc \"$@\"",
    );
    let config = "[target.'cfg(target_env = \"musl\")']\nlinker = \"tools/my-gcc\"\n";
    project.write(".cargo/config.toml", config);
    run(&mut project.cargo_reheap("build -a rpmalloc")).succeeded();
    let log = fs::read_to_string(project.directory.join("tools/log")).unwrap();
    assert_eq!(log.lines().count(), 1);
    assert_eq!(allocator_in(&project.app()), "rpmalloc");

    // In a flag it is not understood, and that is said.
    let mut build = project.cargo_reheap("build --config");
    let value = "target.'cfg(target_env = \"musl\")'.linker = \"tools/my-gcc\"";
    let outcome = run(build.arg(value));
    outcome.ended_with(2).said(&["cfg(…)", "--config 'target."]);
}

#[test]
fn a_linker_in_an_included_file_is_used() {
    let project = Project::new(HELLO);
    let noting = "echo >> \"${0%/*}/log\"\nexec cc \"$@\"";
    let log = project.script("tools/my-gcc", noting).with_file_name("log");
    let linker = |name: &str| format!("[target.{}]\nlinker = \"tools/{name}\"\n", target());
    let config = "include = [\"first.toml\", { path = \"second.toml\", optional = true }]\n";
    project.write(".cargo/config.toml", config);
    project.write(".cargo/first.toml", "include = [\"of-first.toml\"]\n");
    project.write(".cargo/of-first.toml", linker("missing"));
    run(&mut project.cargo_reheap("build -a rpmalloc"))
        .ended_with(101)
        .said(&["tools/missing"]);
    // The later of two files wins.
    project.write(".cargo/second.toml", linker("my-gcc"));
    run(&mut project.cargo_reheap("build -a rpmalloc")).succeeded();
    assert_eq!(fs::read_to_string(&log).unwrap().lines().count(), 1);
    assert_eq!(allocator_in(&project.app()), "rpmalloc");
    // A file wins over what it includes.
    project.write(
        ".cargo/config.toml",
        config.to_owned() + &linker("named-last"),
    );
    fs::rename(
        log.with_file_name("my-gcc"),
        log.with_file_name("named-last"),
    )
    .unwrap();
    project.append("src/main.rs", "// so that it is linked\n");
    run(&mut project.cargo_reheap("build -a rpmalloc")).succeeded();
    assert_eq!(fs::read_to_string(&log).unwrap().lines().count(), 2);

    let by_cfg = "[target.'cfg(target_env = \"musl\")']\nlinker = \"cc\"\n";
    project.write(".cargo/config.toml", "include = [\"by-cfg.toml\"]\n");
    project.write(".cargo/by-cfg.toml", by_cfg);
    run(&mut project.cargo_reheap("build"))
        .ended_with(2)
        .said(&["a file in `include`", "cfg(…)"]);
}

/// Starts the command that it is told to start, if its environment names no linker. That is looked at first, because with
/// reheap's there the command would start itself again and again.
const STARTS: &str = r#"
fn main() {
    assert_eq!(std::env::var_os("VARIABLE"), None);
    let mut words = std::env::args_os().skip(1);
    let mut command = std::process::Command::new(words.next().unwrap());
    std::process::exit(command.args(words).status().unwrap().code().unwrap_or(99));
}
"#;

#[test]
fn what_a_program_of_cargo_reheap_builds_is_linked_as_if_it_was_started_alone() {
    let variable = of_target("CARGO_TARGET_", "_LINKER");
    let outer = Project::new(&STARTS.replace("VARIABLE", &variable));
    let inner = Project::new(HELLO);
    let manifest = inner.directory.join("Cargo.toml");
    let starts = |line: &str| {
        let line = format!("run -q -a rpmalloc -- cargo {line} --manifest-path");
        let mut command = outer.cargo_reheap(&line);
        run(command.arg(&manifest)).succeeded()
    };
    // The compiler is the one that reheap finds by itself, so what it has built before is in the cache.
    run(&mut inner.cargo_reheap("build -a mimalloc")).succeeded();
    fs::remove_dir_all(inner.directory.join("target")).unwrap();
    starts("reheap build -a mimalloc").did_not_say("reheap: building");
    assert_eq!(allocator_in(&outer.app()), "rpmalloc");
    assert_eq!(allocator_in(&inner.app()), "mimalloc");

    fs::remove_dir_all(inner.directory.join("target")).unwrap();
    starts(&format!("build --target {}", target()));
    assert_eq!(allocator_in(&inner.app()), "stock");
    assert_eq!(prints(&inner.app()), "hello\n");
}

#[test]
fn a_linker_of_reheaps_own_is_refused_before_it_starts_itself() {
    let project = Project::new(HELLO);
    let script = project.script("linkers/cc", "exec '/bin/false' __link \"$@\"");
    let mut build = project.cargo_reheap("build");
    let outcome = run(build.env(of_target("CARGO_TARGET_", "_LINKER"), script));
    outcome.ended_with(1).said(&[
        "linkers/cc` is reheap's own",
        "hint: take it out of Cargo's configuration",
    ]);
}

#[test]
fn the_stack_size_of_threads_is_eight_mebibytes_or_what_is_asked_for() {
    let project = Project::new(HELLO);
    run(&mut project.cargo_reheap("build -a rpmalloc")).succeeded();
    assert_eq!(stack_size(&project.app()), 8 << 20);
    run(&mut project.cargo_reheap("build -a rpmalloc --stack-size 262144")).succeeded();
    assert_eq!(stack_size(&project.app()), 262_144);
    run(&mut project.cargo_reheap("build -a rpmalloc --stack-size=0")).succeeded();
    assert_eq!(stack_size(&project.app()), 0);
}

#[test]
fn a_stack_size_among_the_linkers_arguments_wins() {
    let project = Project::new(HELLO);
    let mut build = project.cargo_reheap("build -a rpmalloc");
    build.env("RUSTFLAGS", "-C link-arg=-Wl,-z,stack-size=67108864");
    run(&mut build).succeeded();
    assert_eq!(allocator_in(&project.app()), "rpmalloc");
    assert_eq!(stack_size(&project.app()), 64 << 20);
}

#[test]
fn a_response_file_of_the_users_is_read_as_the_linker_reads_it() {
    let project = Project::new(HELLO);
    let options = "-Wl,-z,stack-size=4096000 -Wl,--build-id=none\n";
    project.write("options", options);
    let flag = format!("-C link-arg=@{}/options", project.directory.display());
    for allocator in ["rpmalloc", "mimalloc"] {
        let mut build = project.cargo_reheap(&format!("build -a {allocator}"));
        run(build.env("RUSTFLAGS", &flag)).succeeded();
        assert_eq!(allocator_in(&project.app()), allocator);
        assert_eq!(stack_size(&project.app()), 4_096_000, "{allocator}");
    }
}

#[test]
fn rusts_own_linker_is_found_without_rustc_for_another_link() {
    let project = Project::new(HELLO);
    configure(&project, "rust-lld");
    for allocator in ["rpmalloc", "mimalloc"] {
        run(&mut project.cargo_reheap(&format!("build -a {allocator}"))).succeeded();
        assert_eq!(allocator_in(&project.app()), allocator);
        assert_eq!(stack_size(&project.app()), 8 << 20);
        assert_eq!(prints(&project.app()), "hello\n");
    }
}

#[test]
fn a_linker_for_one_target_gets_a_linkers_options() {
    let project = Project::new(HELLO);
    let linker = project.directory.join("x86_64-linux-musl-ld");
    symlink("/usr/bin/ld", &linker).unwrap();
    configure(&project, &linker.display().to_string());
    run(&mut project.cargo_reheap("build -a rpmalloc")).succeeded();
    assert_eq!(allocator_in(&project.app()), "rpmalloc");
    assert_eq!(stack_size(&project.app()), 8 << 20);
}

#[test]
fn what_the_compiler_says_of_a_link_with_megabytes_of_arguments_is_shortened() {
    let project = Project::new(HELLO);
    let script = r#"fn main() {
        for number in 0..50000 {
            println!("cargo:rustc-link-arg=-Wl,--defsym,a_symbol_with_a_name_as_long_as_those_of_templates_{number}=0");
        }
        println!("cargo:rustc-link-arg=-lis-nowhere");
    }"#;
    project.write("build.rs", script);
    let failed = run(&mut project.cargo_reheap("build -a rpmalloc")).ended_with(101);
    let failed = failed.said(&[
        "error: linking with",
        "templates_0=0",
        "bytes left out",
        "is-nowhere",
        "could not compile",
    ]);
    assert!(failed.stderr.len() < 40_000, "{}", failed.stderr.len());
}

#[test]
fn a_link_line_that_is_too_long_for_a_command_reaches_the_linker_also_in_a_relink() {
    const LAST: &str = "a_symbol_with_a_name_as_long_as_those_of_templates_37999";
    let calls_another = "exec cc \"$@\"";
    for (linker, option) in [
        ("cc", "-Wl,--defsym,"),
        ("tools/starts-cc", "-Wl,--defsym,"),
        ("rust-lld", "--defsym="),
    ] {
        let project = Project::new(HELLO);
        project.script("tools/starts-cc", calls_another);
        configure(&project, linker);
        let name = LAST.trim_end_matches(|c: char| c.is_ascii_digit());
        let print = format!("println!(\"cargo:rustc-link-arg={option}{name}{{number}}=0\")");
        let script = format!("fn main() {{ for number in 0..38000 {{ {print} }} }}\n");
        project.write("build.rs", script);
        for (allocator, how) in [("rpmalloc", ""), ("jemalloc", "relinked")] {
            let mut build = project.cargo_reheap(&format!("build -a {allocator}"));
            run(&mut build).succeeded().said(&[how]);
            assert_eq!(allocator_in(&project.app()), allocator, "{linker}");
            assert_eq!(prints(&project.app()), "hello\n");
            let symbols = readelf("-sW", &project.app());
            assert!(symbols.contains(LAST), "{linker}, {allocator}");
        }
    }
}
