//! All workflows: that the forge understands them, and that what they call is there.

use saphyr::{LoadableYamlNode as _, Scalar, Yaml};
use serde_json::{Map, Value};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The repository.
pub(crate) fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap().to_owned()
}

pub(crate) const XTASK: &str = env!("CARGO_BIN_EXE_xtask");

/// A workflow.
pub(crate) fn read(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap();
    value(&Yaml::load_from_str(&text).unwrap()[0])
}

fn value(yaml: &Yaml<'_>) -> Value {
    match yaml {
        Yaml::Mapping(entries) => {
            let entries = entries.iter();
            let pairs = entries.map(|(key, of)| (key.as_str().unwrap().to_owned(), value(of)));
            pairs.collect::<Map<_, _>>().into()
        }
        Yaml::Sequence(items) => items.iter().map(value).collect(),
        Yaml::Value(Scalar::String(text)) => text.to_string().into(),
        Yaml::Value(Scalar::Boolean(is_so)) => (*is_so).into(),
        Yaml::Value(Scalar::Integer(number)) => (*number).into(),
        Yaml::Value(Scalar::Null) => Value::Null,
        other => panic!("a workflow has {other:?}"),
    }
}

fn workflows() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join(".github/workflows")).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Each script of a workflow.
fn scripts(workflow: &Value) -> Vec<String> {
    let jobs = workflow["jobs"].as_object().unwrap().values();
    let steps = jobs.flat_map(|job| job["steps"].as_array().unwrap());
    let scripts = steps.filter_map(|step| step["run"].as_str());
    scripts.map(str::to_owned).collect()
}

#[track_caller]
fn succeeds(command: &mut Command) -> Output {
    let hint = "to install what tests need: xtask/prepare install";
    let output = command.current_dir(root()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}; {hint}"));
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}{complained}");
    output
}

#[test]
fn the_linters_of_workflows_and_scripts_find_nothing() {
    // It calls shellcheck for each script.
    succeeds(&mut Command::new("actionlint"));
    let scripts = [
        "xtask/prepare",
        ".github/prepare.sh",
        "xtask/src/dist/npm/start.sh",
    ];
    succeeds(Command::new("shellcheck").args(scripts));
}

#[test]
fn what_the_workflows_call_is_there() {
    let mut called = 0;
    for path in workflows() {
        for script in scripts(&read(&path)) {
            succeeds(Command::new("bash").args(["-n", "-c", &script]));
            let words: Vec<&str> = script.split_whitespace().collect();
            match words[..] {
                ["make", ..] => succeeds(Command::new("make").arg("-n").args(&words[1..])),
                ["cargo", "xtask", task, ..] => {
                    succeeds(Command::new(XTASK).args([task, "--help"]))
                }
                [program, ..] if program.contains('/') => {
                    assert!(
                        root().join(program).exists(),
                        "{}: {program}",
                        path.display()
                    );
                    continue;
                }
                _ => continue,
            };
            called += 1;
        }
    }
    assert!(
        called > 5,
        "only {called} calls of make and xtask were seen"
    );
}

/// A tag of an action can be moved to other code, and this code has the rights of the job.
#[test]
fn actions_are_pinned_by_commit_with_the_version_beside_it() {
    for path in workflows() {
        let text = fs::read_to_string(&path).unwrap();
        for line in text.lines().filter_map(|line| line.split_once("uses: ")) {
            let (action, version) = line.1.split_once(" # v").unwrap_or((line.1, ""));
            let (_, commit) = action.split_once('@').unwrap_or_default();
            let is_commit =
                commit.len() == 40 && commit.chars().all(|sign| sign.is_ascii_hexdigit());
            assert!(
                is_commit && !version.is_empty(),
                "{}: {action}",
                path.display()
            );
        }
    }
}

#[test]
fn every_change_is_tested_with_the_minimum_rust_and_workflows_may_only_read() {
    let test = read(&root().join(".github/workflows/test.yml"));
    let minimum = env!("CARGO_PKG_RUST_VERSION");
    let tested = test["jobs"]["test"]["strategy"]["matrix"]["rust"].as_array();
    assert!(tested.unwrap().contains(&minimum.into()), "{tested:?}");
    for path in workflows() {
        let rights = &read(&path)["permissions"];
        assert_eq!(
            rights,
            &serde_json::json!({ "contents": "read" }),
            "{}",
            path.display()
        );
    }
}
