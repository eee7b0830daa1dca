//! The GitHub action: `action.yml` and its scripts agree, and the comparison's result reaches the job.
//!
//! `make test-dist` runs all steps with finished packages. These are the parts that need none.

use crate::common::{Outcome, run};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Two variants that need no allocator; fewer rounds would leave it open whether a condition holds.
const BENCH: &str = "--variant one='echo same' --variant two='echo same' --rounds 6";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A step of the action: the script that it runs, and the variables that it sets.
struct Step {
    script: String,
    variables: Vec<String>,
}

/// The steps, by the indentation that `action.yml` has.
fn steps() -> Vec<Step> {
    let text = fs::read_to_string(repository().join("action.yml")).unwrap();
    let of_steps = text.split_once("  steps:\n").unwrap().1;
    let parts = of_steps.split("    - name: ").skip(1);
    let script = |part: &str| {
        let (_, rest) = part.split_once("\"$GITHUB_ACTION_PATH/").unwrap();
        rest.split_once('"').unwrap().0.to_owned()
    };
    let variables = |part: &str| {
        let lines = part
            .lines()
            .skip_while(|line| *line != "      env:")
            .skip(1);
        let names = lines.map(|line| line.trim().split_once(": ").unwrap().0.to_owned());
        names.collect()
    };
    parts
        .map(|part| Step {
            script: script(part),
            variables: variables(part),
        })
        .collect()
}

#[test]
fn every_script_of_the_action_exists_and_uses_each_variable_that_it_is_given() {
    let steps = steps();
    assert_eq!(steps.len(), 3);
    for step in &steps {
        let path = repository().join(&step.script);
        let mode = path.metadata().unwrap().permissions().mode();
        assert!(mode & 0o100 != 0, "`{}` is not executable", step.script);
        let text = fs::read_to_string(&path).unwrap();
        assert!(!step.variables.is_empty(), "{}", step.script);
        for name in &step.variables {
            let used = text.contains(&format!("${name}")) || text.contains(&format!("${{{name}"));
            assert!(used, "`{}` does not use {name}", step.script);
        }
    }
    let named: BTreeSet<String> = steps.into_iter().map(|step| step.script).collect();
    let there = fs::read_dir(repository().join("action")).unwrap();
    let there = there.map(|entry| format!("action/{}", entry.unwrap().file_name().display()));
    assert_eq!(there.collect::<BTreeSet<_>>(), named);
}

/// Files that a runner gives to a step.
struct Runner(tempfile::TempDir);

impl Runner {
    fn compare(&self, bench: &str, against: &str, conditions: &str) -> Outcome {
        let reheap = Path::new(env!("CARGO_BIN_EXE_reheap"));
        let own = std::env::var("PATH").unwrap();
        let path = format!("{}:{own}", reheap.parent().unwrap().display());
        let mut script = Command::new(repository().join("action/bench.sh"));
        script
            .env("PATH", path)
            .env("RUNNER_TEMP", self.0.path())
            .env("GITHUB_OUTPUT", self.file("output"))
            .env("GITHUB_STEP_SUMMARY", self.file("summary"))
            .env("BENCH", bench)
            .env("CARGO_BENCH", "")
            .env("AGAINST", against)
            .env("FAIL_IF", conditions);
        run(&mut script)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn summary(&self) -> String {
        fs::read_to_string(self.file("summary")).unwrap()
    }
}

fn runner() -> Runner {
    Runner(tempfile::tempdir().unwrap())
}

#[test]
fn a_condition_that_holds_passes_and_the_table_is_in_the_summary() {
    let runner = runner();
    runner
        .compare(BENCH, "", "peak-rss>10GiB\n\nwall>600s\n")
        .succeeded();
    assert!(
        runner.summary().contains("\n| two |"),
        "{}",
        runner.summary()
    );
    let outputs = fs::read_to_string(runner.file("output")).unwrap();
    let results = outputs.trim().strip_prefix("results=").unwrap();
    assert!(Path::new(results).exists());

    let earlier = runner.file("earlier.json");
    fs::rename(results, &earlier).unwrap();
    runner
        .compare(BENCH, earlier.to_str().unwrap(), "peak-rss>+900%")
        .succeeded();
}

#[test]
fn names_in_earlier_results_are_no_commands_for_github() {
    let runner = runner();
    runner.compare(BENCH, "", "").succeeded();
    let results = fs::read_to_string(runner.file("reheap-results.json")).unwrap();
    let named = results.replace(
        "\"name\": \"one\"",
        r#""name": "one\n::error::x ##[error]y""#,
    );
    assert_ne!(named, results);
    let earlier = runner.file("earlier.json");
    fs::write(&earlier, named).unwrap();
    let outcome = runner
        .compare(BENCH, earlier.to_str().unwrap(), "")
        .succeeded();
    let (_, rest) = outcome.stdout.split_once("::stop-commands::").unwrap();
    let (token, rest) = rest.split_once('\n').unwrap();
    let (comparison, _) = rest.split_once(&format!("\n::{token}::\n")).unwrap();
    assert!(comparison.contains("##[error]y"), "{}", outcome.stdout);
    assert_eq!(outcome.stdout.matches("##[error]").count(), 1);
}

#[test]
fn a_violated_condition_ends_with_3_and_is_in_the_summary_below_the_table() {
    let runner = runner();
    runner
        .compare(BENCH, "", "wall>600s\npeak-rss>1KiB")
        .ended_with(3);
    let summary = runner.summary();
    let table = summary.find("\n| two |").unwrap();
    assert!(table < summary.find("violated: peak-rss").unwrap());
}

#[test]
fn a_variant_that_fails_ends_with_4_and_is_in_the_summary() {
    let runner = runner();
    let bench = "--variant one='echo same' --variant two='sh -c \"exit 9\"' --rounds 6";
    runner.compare(bench, "", "").ended_with(4);
    assert!(runner.summary().contains("two"), "{}", runner.summary());
}

#[test]
fn a_condition_about_a_change_is_refused_without_earlier_results_before_anything_runs() {
    let runner = runner();
    runner
        .compare(BENCH, "", "wall>+5%")
        .ended_with(2)
        .said(&["set `against`"]);
    assert!(!runner.file("summary").exists());
}
