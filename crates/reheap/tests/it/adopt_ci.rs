//! The workflow that `reheap adopt --ci github` adds: it is YAML, and what its steps run does what they are named for.

use crate::common;
use crate::common::{HELLO, Outcome, Project, run, target};
use reheap_adopt::adoption::ci::{self, Artifact, Facts, Style};
use saphyr::{LoadableYamlNode as _, Yaml};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const WITH_MIMALLOC: &str =
    "#[global_allocator]\nstatic GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;\n\n";

/// The workflow of a project with one program.
fn workflow(style: Style, expected: &str) -> String {
    let programs = [Artifact {
        package: "app",
        name: "app",
    }];
    let facts = Facts {
        style,
        allocator: expected,
        targets: &[target(), "x86_64-pc-windows-msvc".to_owned()],
        directory: "",
        programs: &programs,
        libraries: &[],
        features: &[],
        is_locked: true,
        version: "0.1.0",
    };
    ci::workflow(&facts).unwrap()
}

/// A step of the job: its name, and what a shell runs.
#[derive(Debug)]
struct Step {
    name: String,
    script: String,
}

/// The steps that run something, the variables for the first target, and whether all of it is as GitHub wants it.
fn job(workflow: &str) -> (Vec<Step>, Vec<(String, String)>) {
    let documents = Yaml::load_from_str(workflow).unwrap();
    let [document] = &documents[..] else {
        panic!("{workflow}");
    };
    assert!(document["on"].as_mapping().is_some(), "{workflow}");
    let job = &document["jobs"]["allocator"];
    let row = &job["strategy"]["matrix"]["include"][0];
    assert_eq!(row["target"].as_str(), Some(target().as_str()));
    assert!(
        row["runner"]
            .as_str()
            .is_some_and(|runner| runner.starts_with("ubuntu-"))
    );
    let variables = job["env"]
        .as_mapping()
        .unwrap()
        .iter()
        .map(|(name, value)| {
            let value = value.as_str().unwrap();
            (
                name.as_str().unwrap().to_owned(),
                value.replace("${{ matrix.target }}", &target()),
            )
        });
    let steps = job["steps"].as_sequence().unwrap();
    assert!(
        steps
            .iter()
            .all(|step| text(step, "run").is_some() || text(step, "uses").is_some())
    );
    let scripts = steps.iter().filter_map(|step| {
        Some(Step {
            name: text(step, "name")?.to_owned(),
            script: text(step, "run")?.to_owned(),
        })
    });
    (scripts.collect(), variables.collect())
}

/// A value of a mapping.
fn text<'a>(mapping: &'a Yaml<'_>, key: &str) -> Option<&'a str> {
    mapping.as_mapping_get(key)?.as_str()
}

/// Runs a step as a runner does, in the project.
fn run_step(step: &Step, variables: &[(String, String)], project: &Project) -> Outcome {
    let programs = Path::new(env!("CARGO_BIN_EXE_reheap")).parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut bash = Command::new("bash");
    bash.args([
        "--noprofile",
        "--norc",
        "-eo",
        "pipefail",
        "-c",
        &step.script,
    ])
    .current_dir(&project.directory)
    .env("PATH", path)
    .env("REHEAP_CACHE_DIR", common::cache());
    for name in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"] {
        bash.env_remove(name);
    }
    let workspace = project.directory.to_str().unwrap();
    for (name, value) in variables {
        bash.env(name, value.replace("${{ github.workspace }}", workspace));
    }
    run(&mut bash)
}

/// All steps in a project succeed, except that the last one fails with another allocator.
fn assert_proves(style: Style, project: &Project) {
    let (steps, variables) = job(&workflow(style, "mimalloc"));
    let names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(names, ["Check", "Build", "Prove"]);
    for step in &steps {
        run_step(step, &variables, project).succeeded();
    }
    let (steps, _) = job(&workflow(style, "jemalloc"));
    run_step(&steps[2], &variables, project).ended_with(3);
}

fn locked(project: &Project, lock: &Path) {
    let lock = fs::read_to_string(lock).unwrap();
    project.write("Cargo.lock", lock.replace("own_mimalloc", "app"));
}

#[test]
fn the_steps_for_an_allocator_in_the_sources_build_and_prove_it() {
    let project = Project::new(&format!("{WITH_MIMALLOC}{HELLO}"));
    let lock: PathBuf =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/rust/own_mimalloc/Cargo.lock");
    let manifest = fs::read_to_string(project.directory.join("Cargo.toml")).unwrap();
    let manifest = manifest.replace("version = \"0.1.0\"", "version = \"0.0.0\"");
    project.write(
        "Cargo.toml",
        format!("{manifest}\n[dependencies]\nmimalloc = \"0.1\"\n"),
    );
    locked(&project, &lock);
    assert_proves(Style::Crate, &project);
}

#[test]
fn the_steps_for_an_allocator_in_the_libc_build_and_prove_it() {
    let project = Project::new(HELLO);
    run(Command::new("cargo")
        .args(["generate-lockfile", "--offline"])
        .current_dir(&project.directory))
    .succeeded();
    assert_proves(Style::Reheap, &project);
}
