//! `reheap report` and `reheap bench compare`: every form of a report, files that are none, and thresholds.

use crate::common::bench::{Commands, bench};
use crate::common::{Outcome, reheap, run, run_with_input};
use serde_json::Value;
use std::process::Command;

/// Files of results in a directory.
struct Files {
    commands: Commands,
}

impl Files {
    fn new() -> Self {
        Self {
            commands: Commands::new(),
        }
    }

    /// Measures these variants, all under the name `work`, into a file.
    fn measured(&self, file: &str, variants: &[&str]) {
        let mut command = self.commands.bench("--name work --rounds 6 --json");
        command.args([file, "--metric", "rate=rate=(.+)"]);
        for variant in variants {
            command.args(["--variant", variant]);
        }
        run(&mut command).succeeded();
    }

    /// A copy of a file with some of its text replaced.
    fn changed(&self, file: &str, into: &str, changes: &[(&str, &str)]) {
        let mut text = self.commands.read(file);
        for (old, new) in changes {
            assert!(text.contains(old), "no `{old}` in {text}");
            text = text.replace(old, new);
        }
        self.commands.write(into, &text);
    }

    fn reheap(&self, line: &str) -> Command {
        let mut command = reheap(line);
        command.current_dir(self.commands.path(""));
        command
    }

    /// `reheap bench compare`, with a threshold.
    fn compare(&self, old: &str, new: &str, threshold: &str) -> Outcome {
        let mut command = self.reheap(&format!("bench compare {old} {new} --fail-if"));
        run(command.arg(threshold))
    }
}

#[test]
fn every_form_goes_to_a_file_or_to_standard_output() {
    let files = Files::new();
    files.measured("a.json", &["one=true", "two=/bin/true"]);
    for (form, beginning) in [
        ("html", "<!DOCTYPE html>"),
        ("markdown", "#### work\n\n**"),
        ("csv", "machine,"),
        ("hyperfine", "{\n  \"results\""),
        ("bencher", "{\n  \"work"),
    ] {
        let whole = run(&mut files.reheap(&format!("report a.json --{form} -"))).succeeded();
        assert!(whole.stdout.starts_with(beginning), "{}", whole.stdout);
        assert_eq!(whole.stderr, "");
        assert!(whole.stdout.contains("two"), "{}", whole.stdout);
        let without = run(&mut files.reheap(&format!("report a.json --{form}"))).succeeded();
        assert_eq!(without.stdout, whole.stdout);
        let line = format!("report a.json --{form} report");
        run(&mut files.reheap(&line)).succeeded().said(&["wrote "]);
        assert_eq!(files.commands.read("report"), whole.stdout);
    }
    let table = run(&mut files.reheap("report a.json")).succeeded().stdout;
    assert!(table.starts_with("work\n\n"), "{table}");
    assert!(!table.contains('\u{1b}'), "{table}");
    let text = files.commands.read("a.json");
    let piped = run_with_input(&mut files.reheap("report -"), text.as_bytes()).succeeded();
    assert_eq!(piped.stdout, table);
}

#[test]
fn files_of_several_machines_make_one_report() {
    let files = Files::new();
    files.measured("a.json", &["one=true"]);
    let machine: Value = serde_json::from_str(&files.commands.read("a.json")).unwrap();
    let name = format!("\"name\": {}", machine["machine"]["name"]);
    files.changed("a.json", "b.json", &[(&name, "\"name\": \"elsewhere\"")]);
    for form in ["", "--markdown -", "--html -"] {
        let line = format!("report a.json b.json {form}");
        let report = run(&mut files.reheap(&line)).succeeded().stdout;
        assert!(report.contains("work on elsewhere"), "{report}");
    }
    // Of one machine they are told apart by when they began.
    let begun = format!("\"started_at\": {}", machine["started_at"]);
    let change = [(begun.as_str(), "\"started_at\": \"2001-02-03T04:05:06Z\"")];
    files.changed("a.json", "c.json", &change);
    let table = run(&mut files.reheap("report a.json c.json"))
        .succeeded()
        .stdout;
    assert!(table.contains(", 2001-02-03T04:05:06Z\n"), "{table}");
    let report = run(&mut files.reheap("report a.json c.json --bencher")).succeeded();
    let report: Value = serde_json::from_str(&report.stdout).unwrap();
    assert_eq!(report.as_object().unwrap().len(), 2, "{report}");
}

#[test]
fn a_file_that_has_no_results_is_said_to_have_none() {
    let files = Files::new();
    files.measured("good.json", &["one=true"]);
    let text = files.commands.read("good.json");
    files.commands.write("cut", &text[..text.len() / 2]);
    let version = [("\"reheap_bench\": 1", "\"reheap_bench\": 99")];
    files.changed("good.json", "version", &version);
    files.changed("good.json", "lacking", &[("\"seed\"", "\"sead\"")]);
    for (name, text) in [
        ("empty", ""),
        ("prose", "not JSON"),
        ("list", "[1]"),
        ("other", "{\"results\": []}"),
    ] {
        files.commands.write(name, text);
    }
    for (file, reason) in [
        ("empty", "cannot read results from `empty`: it is empty"),
        ("prose", "it is not JSON, or was cut short"),
        ("cut", "it is not JSON, or was cut short"),
        ("list", "it has no results of `reheap bench` in it"),
        ("other", "it has no results of `reheap bench` in it"),
        (
            "version",
            "it has version 99 of the results, and this reheap reads version 1",
        ),
        ("lacking", "it is not as `reheap bench` writes it"),
        ("nowhere", "cannot read `nowhere`"),
        (".", "cannot read `.`"),
    ] {
        for line in [
            format!("report good.json {file}"),
            format!("bench compare good.json {file}"),
            format!("bench compare {file} good.json"),
        ] {
            let outcome = run(&mut files.reheap(&line)).ended_with(1).said(&[reason]);
            assert_eq!(outcome.stdout, "", "{line}");
        }
    }
}

#[test]
fn a_report_never_overwrites_what_was_measured() {
    let files = Files::new();
    files.measured("a.json", &["one=true"]);
    let before = files.commands.read("a.json");
    for line in [
        "report a.json --markdown a.json",
        "report --html a.json a.json",
        "bench --variant a=true --csv a.json",
    ] {
        run(&mut files.reheap(line))
            .ended_with(2)
            .said(&["it holds measurement results"]);
    }
    assert_eq!(files.commands.read("a.json"), before);
    run(&mut files.reheap("bench --variant a=true --rounds 1 --json a.json")).succeeded();
    assert_ne!(files.commands.read("a.json"), before);
}

#[test]
fn a_threshold_is_violated_kept_or_unreadable() {
    let files = Files::new();
    files.measured("old.json", &["one=echo rate=100"]);
    files.measured("new.json", &["one=echo rate=50"]);
    files
        .compare("old.json", "new.json", "rate<-40%")
        .ended_with(3)
        .said(&["violated: rate < -40 %: work, one: 50 % less rate"]);
    files
        .compare("old.json", "new.json", "rate<60")
        .ended_with(3)
        .said(&["violated: rate < 60.0: "]);
    files
        .compare("old.json", "new.json", "rate<-60%")
        .succeeded();
    files.compare("old.json", "new.json", "rate<40").succeeded();
    files
        .compare("new.json", "old.json", "rate<-5%")
        .succeeded();
    for (threshold, reason) in [
        ("wall", "it has no quantity with `>` or `<` behind it"),
        ("wall>2%", "`2%` has no sign"),
        ("wall>-2%", "would fail without any change"),
        (
            "wall>2",
            "write `wall>+2%` for growth, or `wall>2s` for a value",
        ),
        ("wall>=2%", "leave out the `=`"),
        ("wall>5MiB", "`wall` is not measured in `MiB`"),
        ("wall>much", "is not a number"),
    ] {
        let outcome = files
            .compare("old.json", "new.json", threshold)
            .ended_with(2);
        let front = format!("cannot read the threshold `{threshold}`: ");
        assert_eq!(outcome.said(&[&front, reason]).stdout, "");
    }
    let json = run(&mut files.reheap("bench compare old.json new.json --json")).succeeded();
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    let changes = json["changes"].as_array().unwrap();
    let rate = changes
        .iter()
        .find(|change| change["quantity"] == "rate")
        .unwrap();
    assert_eq!(rate["verdict"], "worse");
    assert_eq!(
        (rate["old"].clone(), rate["new"].clone()),
        (100.0.into(), 50.0.into())
    );
}

#[test]
fn what_nobody_measured_again_violates_a_threshold() {
    let files = Files::new();
    files.measured("both.json", &["one=true", "two=true"]);
    files.measured("one.json", &["one=true"]);
    let missing = "work, two: was not measured again";
    let violated = files.compare("both.json", "one.json", "peak-rss>1GiB");
    violated
        .ended_with(3)
        .said(&[&format!("violated: {missing}")]);
    let shown = run(&mut files.reheap("bench compare both.json one.json")).succeeded();
    assert!(
        shown.stdout.contains(&format!("missing  {missing}")),
        "{}",
        shown.stdout
    );
    files
        .compare("both.json", "both.json", "speed<-5%")
        .ended_with(2)
        .said(&["the files have no `speed`", "hint: there are wall, cpu,"]);
    files
        .compare("both.json", "both.json", "wal>+2%")
        .ended_with(2)
        .said(&["the files have no `wal`", "hint: did you mean `wall`?"]);
    // The other baseline: a file in which all of it has another name.
    files.changed(
        "one.json",
        "other.json",
        &[("\"name\": \"work\"", "\"name\": \"else\"")],
    );
    run(&mut files.reheap("bench compare one.json other.json")).succeeded();
    files
        .compare("one.json", "other.json", "wall>+2%")
        .ended_with(3)
        .said(&["violated: work: was not measured again"]);
}

#[test]
fn names_in_a_file_make_no_lines_of_a_comparison_and_do_not_reach_the_terminal() {
    let files = Files::new();
    files.measured("plain.json", &["one=true", "two=true"]);
    let benchmark = (
        r#""name": "work""#,
        r#""name": "work\n::error::forged\n```\u001b[2J\u009b1m""#,
    );
    let variant = (r#""name": "two""#, r#""name": "two\n# forged""#);
    files.changed("plain.json", "old.json", &[benchmark]);
    files.changed("plain.json", "new.json", &[benchmark, variant]);
    let forged = |text: &str| {
        let is_forged = |line: &str| line.starts_with(['#', ':', '`']);
        text.contains(['\u{1b}', '\u{9b}']) || text.lines().any(is_forged)
    };
    for [old, new] in [
        ["old", "new"],
        ["new", "new"],
        ["new", "old"],
        ["old", "plain"],
    ] {
        let (old, new) = (format!("{old}.json"), format!("{new}.json"));
        let outcome = files.compare(&old, &new, "wall>1us");
        let shown = format!("{}{}", outcome.stdout, outcome.stderr);
        assert!(
            shown.contains(r"work\n::error::forged\n```\u{1b}[2J\u{9b}1m"),
            "{shown}"
        );
        assert!(shown.contains("violated: "), "{shown}");
        assert!(!forged(&shown), "{shown}");
    }
}

#[test]
fn a_baseline_that_crashes_now_violates_a_threshold() {
    let files = Files::new();
    files.measured("old.json", &["one=true"]);
    let mut command = bench("--name work --rounds 6 --json");
    let file = files.commands.path("new.json");
    run(command
        .arg(&file)
        .args(["--variant", "one=sh -c 'kill -SEGV $$'"]))
    .ended_with(4);
    files
        .compare("old.json", "new.json", "wall>+50%")
        .ended_with(3)
        .said(&["ended with exit code 0 and ends with signal 11 now"]);
    let nothing = run(&mut files.reheap("bench compare new.json new.json"));
    nothing.ended_with(1).said(&["there is nothing to compare"]);
}
