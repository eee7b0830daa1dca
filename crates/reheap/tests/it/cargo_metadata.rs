//! `[package.metadata.reheap]` and `[workspace.metadata.reheap]`: whose choice each program gets, and what is refused.
//! The marker of the executable tells.

use crate::common::bench::results;
use crate::common::{
    HELLO, Project, allocator_in, marker_in, prints, readelf, run, stack_size, target, words,
    wrong_usage,
};
use std::path::Path;
use std::process::Command;

/// The allocator of an executable, with its tuning.
#[track_caller]
fn choice_in(executable: &Path) -> String {
    let Some(found) = marker_in(executable) else {
        return "stock".to_owned();
    };
    let tuning = found.marker.tuning.iter();
    let tuning: Vec<String> = tuning.map(|(k, v)| format!("{k}={v}")).collect();
    format!("{} [{}]", found.marker.allocator, tuning.join(","))
}

/// A project `app` whose Cargo.toml ends with this.
fn with_metadata(text: &str) -> Project {
    let project = Project::new(HELLO);
    project.append("Cargo.toml", text);
    project
}

/// A workspace without a package of its own, whose manifest ends with this. Each member has a program and a doctest.
fn workspace(end: &str, members: &[(&str, &str)]) -> Project {
    let project = Project::new(HELLO);
    let names: Vec<&str> = members.iter().map(|(name, _)| *name).collect();
    let root = format!("[workspace]\nresolver = \"3\"\nmembers = {names:?}\n{end}");
    project.write("Cargo.toml", root);
    for (name, metadata) in members {
        let package =
            format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
        project.write(&format!("{name}/Cargo.toml"), package + metadata);
        project.write(&format!("{name}/src/main.rs"), HELLO);
        let library = format!(
            "/// ```\n/// assert_eq!({name}::one().len(), 1);\n/// ```\npub fn one() -> Vec<u8> {{ vec![1] }}\n"
        );
        project.write(&format!("{name}/src/lib.rs"), library);
    }
    project
}

#[test]
fn flags_win_over_variables_and_variables_over_the_manifest() {
    let project = with_metadata(
        "[package.metadata.reheap]\nallocator = \"mimalloc\"\ntuning = { purge_delay = 5 }\n\
         stack-size = 65536\nmemory-functions = \"stock\"\n",
    );
    let app = project.app();
    run(&mut project.cargo_reheap("build"))
        .succeeded()
        .said(&[", chosen in Cargo.toml"]);
    assert_eq!(choice_in(&app), "mimalloc [purge_delay=5]");
    assert_eq!(stack_size(&app), 65536);
    let fast = |app: &Path| marker_in(app).unwrap().marker.memory_functions.is_some();
    assert!(!fast(&app));

    let variable = "REHEAP_ALLOCATOR=mimalloc3";
    for (line, variables, expected) in [
        // Options are for the allocator beside which they are.
        ("build -a mimalloc3", "", "mimalloc3 []"),
        ("build -a mimalloc", "", "mimalloc [purge_delay=5]"),
        ("build -t purge_delay=9", "", "mimalloc [purge_delay=9]"),
        ("build", variable, "mimalloc3 []"),
        ("build -a rpmalloc", variable, "rpmalloc []"),
        (
            "build",
            "REHEAP_TUNING=purge_delay=8",
            "mimalloc [purge_delay=8]",
        ),
        ("build -a stock", "", "stock"),
    ] {
        let mut build = project.cargo_reheap(line);
        build.envs(variables.split_once('='));
        run(&mut build).succeeded();
        assert_eq!(choice_in(&app), expected, "{line} {variables}");
        assert_eq!(prints(&app), "hello\n");
    }
    let line = "build -a rpmalloc --stack-size 131072 --memory-functions fast";
    run(&mut project.cargo_reheap(line))
        .succeeded()
        .did_not_say("chosen in");
    assert_eq!(stack_size(&app), 131_072);
    assert!(fast(&app));
}

#[test]
fn every_member_is_linked_with_its_own_choice_and_the_others_with_that_of_the_workspace() {
    let project = workspace(
        "[workspace.metadata.reheap]\nallocator = \"mimalloc\"\ntuning = { purge_delay = \"7\" }\nstack-size = 65536\n",
        &[
            (
                "one",
                "[package.metadata.reheap]\nallocator = \"mimalloc3\"\n",
            ),
            (
                "two",
                "[package.metadata.reheap]\nallocator = \"rpmalloc\"\nstack-size = 131072\n",
            ),
            (
                "tuned",
                "[package.metadata.reheap]\ntuning = { purge_delay = 1, huge_pages = \"allow\" }\n",
            ),
            ("plain", ""),
        ],
    );
    let expected = [
        ("one", "mimalloc3 []", 65536),
        ("two", "rpmalloc []", 131_072),
        ("tuned", "mimalloc [huge_pages=allow,purge_delay=1]", 65536),
        ("plain", "mimalloc [purge_delay=7]", 65536),
    ];
    let check = |names: &[&str]| {
        for (name, choice, stack) in expected.iter().filter(|(name, ..)| names.contains(name)) {
            let app = project.output(&format!("debug/{name}"));
            assert_eq!(choice_in(&app), *choice, "{name}");
            assert_eq!(stack_size(&app), *stack, "{name}");
        }
    };
    // Each is right when Cargo links it.
    run(&mut project.cargo_reheap("build"))
        .succeeded()
        .did_not_say("relinked")
        .said(&[
            "chosen in one/Cargo.toml",
            "chosen in tuned/Cargo.toml",
            "chosen in Cargo.toml",
        ]);
    check(&["one", "two", "tuned", "plain"]);

    let outcome = run(&mut project.cargo_reheap("test")).succeeded();
    let doctests = outcome
        .stderr
        .lines()
        .find(|line| line.contains("doctests: 4"));
    for seen in [
        "mimalloc 2",
        "[purge_delay=7]",
        "[huge_pages=allow,purge_delay=1]",
        "mimalloc3 3",
        "rpmalloc 1",
    ] {
        let doctests = doctests.unwrap_or_else(|| panic!("{}", outcome.stderr));
        assert!(doctests.contains(seen), "{doctests}");
    }

    // What one allocator was asked for goes back, wherever and however its package is selected.
    run(&mut project.cargo_reheap("build --workspace -a snmalloc")).succeeded();
    for name in ["one", "two", "tuned", "plain"] {
        assert_eq!(
            allocator_in(&project.output(&format!("debug/{name}"))),
            "snmalloc"
        );
    }
    run(&mut project.cargo_reheap("build -p one -p plain")).succeeded();
    check(&["one", "plain"]);
    let elsewhere = project.directory.join("two");
    run(project.cargo_reheap("build").current_dir(elsewhere)).succeeded();
    check(&["two"]);
    let line = "run --manifest-path tuned/Cargo.toml";
    let outcome = run(&mut project.cargo_reheap(line)).succeeded();
    assert_eq!(outcome.stdout, "hello\n");
    check(&["tuned"]);
}

#[test]
fn a_default_member_a_pattern_and_a_specification_have_the_choice_of_their_package() {
    let of = |allocator| format!("[package.metadata.reheap]\nallocator = \"{allocator}\"\n");
    let members = [("one", &*of("mimalloc")), ("two", &*of("rpmalloc"))];
    let project = workspace("default-members = [\"two\"]\n", &members);
    let has = |name: &str, allocator: &str| {
        let app = project.output(&format!("debug/{name}"));
        assert_eq!(app.exists().then(|| allocator_in(&app)), {
            (!allocator.is_empty()).then(|| allocator.to_owned())
        });
    };
    run(&mut project.cargo_reheap("build")).succeeded();
    has("one", "");
    has("two", "rpmalloc");
    run(&mut project.cargo_reheap("build -p one@0.1.0")).succeeded();
    has("one", "mimalloc");
    run(&mut project.cargo_reheap("build --workspace -a jemalloc")).succeeded();
    run(&mut project.cargo_reheap("build -p o*")).succeeded();
    has("one", "mimalloc");
    has("two", "jemalloc");
    run(&mut project.cargo_reheap("build --workspace --exclude one")).succeeded();
    has("two", "rpmalloc");
}

#[test]
fn a_wrong_key_or_value_is_refused_with_its_file_its_name_and_the_nearest() {
    let project = Project::new(HELLO);
    let manifest = std::fs::read_to_string(project.directory.join("Cargo.toml")).unwrap();
    let of_key =
        |key: &str| format!("cannot use `package.metadata.reheap.{key}` in `Cargo.toml`: ");
    for (text, key, texts) in [
        (
            "alocator = \"mimalloc\"",
            "alocator",
            &[
                "reheap knows no such key",
                "hint: did you mean `allocator`?",
            ][..],
        ),
        (
            "zzz = 1",
            "zzz",
            &["hint: the keys are allocator, tuning, stack-size, memory-functions, targets"],
        ),
        (
            "allocator = \"mimaloc\"",
            "allocator",
            &[
                "unknown allocator `mimaloc`",
                "hint: did you mean `allocator = \"mimalloc\"`?",
            ],
        ),
        (
            "allocator = 1",
            "allocator",
            &["it must be the name of an allocator"],
        ),
        (
            "tuning = { purge_dealy = 0 }",
            "tuning",
            &[
                "mimalloc has no tuning option of that name",
                "hint: did you mean `purge_delay`?",
            ],
        ),
        (
            "tuning = { purge_delay = \"soon\" }",
            "tuning",
            &["cannot set `purge_delay` to `soon`"],
        ),
        (
            "stack-size = \"8M\"",
            "stack-size",
            &["it must be a number of bytes"],
        ),
        (
            "memory-functions = \"slow\"",
            "memory-functions",
            &["it must be \"fast\" or \"stock\""],
        ),
        (
            "allocator = \"stock\"\nmemory-functions = \"fast\"",
            "memory-functions",
            &["`stock` keeps the libc's own"],
        ),
        (
            "targets = [\"x86_64-unknown-linux-gnu\"]",
            "targets",
            &["does not link with musl"],
        ),
    ] {
        let text = format!("{manifest}[package.metadata.reheap]\n{text}\n");
        project.write("Cargo.toml", text);
        let refusal = of_key(key);
        for line in [
            "build",
            "test",
            "run",
            "install --path .",
            "image -o i.tar",
            "bench",
        ] {
            wrong_usage(&project, line, &[&refusal]).said(texts);
        }
    }
    project.write(
        "Cargo.toml",
        format!("{manifest}[package.metadata]\nreheap = 1\n"),
    );
    let text = "cannot use `package.metadata.reheap` in `Cargo.toml`: it is not a table";
    wrong_usage(&project, "build", &[text]);
}

#[test]
fn a_mistake_in_the_manifest_of_the_workspace_or_of_another_member_is_named() {
    let wrong = "[package.metadata.reheap]\nallocater = \"mimalloc\"\n";
    let project = workspace("", &[("one", ""), ("two", wrong)]);
    let text = "cannot use `package.metadata.reheap.allocater` in `two/Cargo.toml`: reheap knows no such key";
    wrong_usage(&project, "build -p one", &[text]);

    let end = "[workspace.metadata.reheap]\nallocator = \"jemaloc\"\n";
    let project = workspace(end, &[("one", "")]);
    let text = "cannot use `workspace.metadata.reheap.allocator` in `Cargo.toml`: unknown allocator `jemaloc`";
    wrong_usage(&project, "build", &[text]);
    // A flag wins over it.
    run(&mut project.cargo_reheap("build -a rpmalloc")).succeeded();
}

/// A target that the tests' machine is not.
fn another_target() -> &'static str {
    match std::env::consts::ARCH {
        "aarch64" => "x86_64-unknown-linux-musl",
        _ => "aarch64-unknown-linux-musl",
    }
}

#[test]
fn the_target_of_this_machine_is_built_of_several_and_the_rest_is_named() {
    let (own, other) = (target(), another_target());
    let list = format!("[package.metadata.reheap]\ntargets = [\"{other}\", \"{own}\"]\n");
    let project = with_metadata(&list);
    let note = format!("reheap: building for {own}; for {other} as well, add --target {other}");
    run(&mut project.cargo_reheap("build -a rpmalloc"))
        .succeeded()
        .said(&[&note]);
    assert_eq!(allocator_in(&project.app()), "rpmalloc");
    assert!(!project.directory.join("target").join(other).exists());
}

#[test]
fn a_target_of_the_manifest_is_built_unless_a_flag_or_cargos_configuration_names_one() {
    let (own, other) = (target(), another_target());
    let project = with_metadata(&format!(
        "[package.metadata.reheap]\nallocator = \"stock\"\ntargets = [\"{other}\"]\n"
    ));
    let built = |command: &mut Command| {
        run(command).succeeded();
        let directories = [&own, other].map(|triple| project.directory.join("target").join(triple));
        let built = directories.map(|directory| directory.join("debug/app").exists());
        std::fs::remove_dir_all(project.directory.join("target")).unwrap();
        built
    };
    assert_eq!(built(&mut project.cargo_reheap("build")), [false, true]);
    let line = format!("build --target {own}");
    assert_eq!(built(&mut project.cargo_reheap(&line)), [true, false]);
    let mut build = project.cargo_reheap("build");
    assert_eq!(built(build.env("CARGO_BUILD_TARGET", &own)), [true, false]);
    // A configured glibc target is that of `cargo build`.
    let glibc = own.replace("musl", "gnu");
    let mut build = project.cargo_reheap("build");
    assert_eq!(built(build.env("CARGO_BUILD_TARGET", glibc)), [false, true]);
}

#[test]
fn every_target_of_the_flags_or_of_cargos_configuration_is_built() {
    let (own, other) = (target(), another_target());
    let project = with_metadata("[package.metadata.reheap]\nallocator = \"stock\"\n");
    let are_built = |command: &mut Command| {
        run(command).succeeded();
        for triple in [&own, other] {
            let app = project
                .directory
                .join("target")
                .join(triple)
                .join("debug/app");
            let machine = triple
                .split('-')
                .next()
                .unwrap()
                .replace('_', "-")
                .to_uppercase();
            let header = readelf("--file-header", &app).to_uppercase();
            assert!(header.contains(&machine), "{triple}: {header}");
        }
        std::fs::remove_dir_all(project.directory.join("target")).unwrap();
    };
    let line = format!("build --target {own} --target={other} --target {own}");
    are_built(&mut project.cargo_reheap(&line));
    let both = format!("build.target=[\"{other}\",\"{own}\"]");
    are_built(project.cargo_reheap("build").args(["--config", &both]));
}

#[test]
fn packages_for_different_targets_are_refused_with_their_names_and_the_way_out() {
    let (own, other) = (target(), another_target());
    let of = |triple: &str| format!("[package.metadata.reheap]\ntargets = [\"{triple}\"]\n");
    let members = [("one", &*of(&own)), ("two", &*of(other))];
    let project = workspace("", &members);
    let texts = [
        &format!(
            "cannot build for two targets at once: `one` is for {own}, and `two` is for {other}"
        ),
        "hint: build one of them with -p one, or choose with --target",
    ];
    wrong_usage(&project, "build", &texts);
    run(&mut project.cargo_reheap("build -p one -a rpmalloc")).succeeded();
    let app = project.output("debug/one");
    assert_eq!(allocator_in(&app), "rpmalloc");
}

#[test]
fn what_is_installed_packed_or_measured_has_the_choice_of_its_package() {
    let project = with_metadata(
        "[package.metadata.reheap]\nallocator = \"mimalloc\"\ntuning = { purge_delay = 3 }\nstack-size = 65536\n",
    );
    let release = project.output("release/app");
    run(&mut project.cargo_reheap("image --release -o image.tar")).succeeded();
    assert_eq!(choice_in(&release), "mimalloc [purge_delay=3]");

    run(&mut project.cargo_reheap("install --path . --root installed")).succeeded();
    let installed = project.directory.join("installed/bin/app");
    assert_eq!(choice_in(&installed), "mimalloc [purge_delay=3]");

    let line = "bench --rounds 1 --json -";
    let outcome = run(&mut project.cargo_reheap(line)).succeeded();
    let variants = results(&outcome)["variants"].clone();
    let names: Vec<&str> = variants.as_array().unwrap().iter().map(name_of).collect();
    let own = "musl+mimalloc[purge_delay=3]";
    let first = ["glibc", "glibc again", "musl", own];
    assert_eq!(names[..4], first, "{names:?}");
    assert!(names.contains(&"musl+mimalloc"), "{names:?}");
    let measured = project.output(&format!("reheap-bench/{own}/app"));
    assert_eq!(choice_in(&measured), "mimalloc [purge_delay=3]");
    for name in [own, "musl", "musl+jemalloc"] {
        let measured = project.output(&format!("reheap-bench/{name}/app"));
        assert_eq!(stack_size(&measured), 65536, "{name}");
    }
}

fn name_of(variant: &serde_json::Value) -> &str {
    variant["name"].as_str().unwrap()
}

#[test]
fn the_choice_of_one_project_is_not_that_of_a_program_from_elsewhere() {
    let project = with_metadata("[package.metadata.reheap]\nallocator = \"mimalloc3\"\n");
    let other = with_metadata("");
    for line in [
        "init -q",
        "add .",
        "-c user.name=t -c user.email=t commit -q -m t",
    ] {
        run(Command::new("git")
            .current_dir(&other.directory)
            .args(words(line)))
        .succeeded();
    }
    let from = format!("file://{}", other.directory.display());
    let line = format!("install --git {from} --root installed");
    run(&mut project.cargo_reheap(&line)).succeeded();
    let installed = project.directory.join("installed/bin/app");
    assert_eq!(allocator_in(&installed), "mimalloc");
}
