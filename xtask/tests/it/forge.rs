//! Runs the jobs of a workflow as a forge does, on this machine: each in a directory of its own, with artifacts between.
//!
//! Only as much of GitHub's language is understood as `release.yml` uses, and anything else is an error. What changes a
//! machine or speaks to others is a program that writes down how it was called.

use crate::workflows::{XTASK, read, root};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Called instead of the programs of that name.
const NOTES_ITS_CALL: &str = "#!/bin/sh\necho \"${0##*/} $*\" >>\"$NOTES\"\n";
const STANDS_FOR: [&str; 4] = ["gh", "npm", "rustup", "chown"];
/// `make dist`, with files that have the right names and nothing in them; the second clone can be told to differ.
const MAKE: &str = r#"#!/bin/bash
set -e
echo "make $*" >>"$NOTES"
[ "$1" = dist ] || exit 0
mkdir dist && cd dist
for file in $FILES; do echo "$file" >"$file"; done
case $PWD in */another/*) printf %s "$DIFFERENCE" >>install.sh ;; esac
sha256sum -- * >SHA256SUMS
"#;
const CARGO: &str = r#"#!/bin/sh
case $1 in
xtask) shift && exec "$XTASK" "$@" ;;
*) echo "cargo $*, token $CARGO_REGISTRY_TOKEN" >>"$NOTES" ;;
esac
"#;

/// A forge with this repository.
pub(crate) struct Forge {
    directory: TempDir,
    /// What every job checks out.
    checkout: PathBuf,
    pub(crate) tag: String,
    /// What `make dist` makes.
    pub(crate) files: Vec<String>,
    /// A line that only one of two clones has.
    pub(crate) difference: &'static str,
}

/// How a workflow ended.
pub(crate) struct Run {
    /// The jobs that succeeded.
    pub(crate) finished: BTreeSet<String>,
    /// The first step that failed, and what it printed.
    pub(crate) failure: Option<String>,
    /// How the programs were called that change something.
    pub(crate) calls: Vec<String>,
}

/// A job with one choice of its matrix.
struct Job<'a> {
    forge: &'a Forge,
    directory: PathBuf,
    workflow: &'a Value,
    job: &'a Value,
    /// What expressions stand for.
    values: BTreeMap<String, String>,
}

impl Forge {
    /// With the files that git knows, as they are in the working tree.
    pub(crate) fn new(tag: &str, files: Vec<String>) -> Forge {
        let directory = tempfile::tempdir().unwrap();
        let checkout = directory.path().join("checkout");
        let script =
            "git ls-files -z | xargs -0 cp --parents --no-dereference --target-directory \"$1\"";
        fs::create_dir(&checkout).unwrap();
        let mut copy = Command::new("bash");
        copy.args(["-c", script, "bash"]).arg(&checkout);
        assert!(copy.current_dir(root()).status().unwrap().success());
        let programs = directory.path().join("programs");
        fs::create_dir(&programs).unwrap();
        for name in STANDS_FOR {
            write_program(&programs.join(name), NOTES_ITS_CALL);
        }
        write_program(&programs.join("make"), MAKE);
        write_program(&programs.join("cargo"), CARGO);
        write_program(&checkout.join("xtask/prepare"), NOTES_ITS_CALL);
        Forge {
            directory,
            checkout,
            tag: tag.to_owned(),
            files,
            difference: "",
        }
    }

    /// Ends the line that begins like this otherwise, in a file of what is checked out.
    pub(crate) fn set_line(&self, file: &str, begin: &str, end: &str) {
        let path = self.checkout.join(file);
        let text = fs::read_to_string(&path).unwrap();
        let old = text.lines().find(|line| line.starts_with(begin));
        let old = old.unwrap_or_else(|| panic!("no line of {file} begins with `{begin}`"));
        fs::write(path, text.replacen(old, &format!("{begin}{end}"), 1)).unwrap();
    }

    fn artifact(&self, name: &str) -> PathBuf {
        self.directory.path().join("artifacts").join(name)
    }

    fn notes(&self) -> PathBuf {
        self.directory.path().join("notes")
    }

    /// Runs all jobs whose needs were met.
    pub(crate) fn run(&self, workflow: &str) -> Run {
        let workflow = read(&root().join(".github/workflows").join(workflow));
        let jobs = workflow["jobs"].as_object().unwrap();
        let mut finished = BTreeSet::new();
        let mut failure = None;
        let mut open: BTreeSet<&String> = jobs.keys().collect();
        let is_ready = |name: &String, finished: &BTreeSet<String>| {
            words(&jobs[name]["needs"])
                .iter()
                .all(|need| finished.contains(need))
        };
        while let Some(name) = open.iter().copied().find(|name| is_ready(name, &finished)) {
            open.remove(name);
            match self.run_job(&workflow, name, &jobs[name]) {
                Ok(()) => _ = finished.insert(name.clone()),
                Err(reason) => failure = Some(format!("{name}: {reason}")),
            }
        }
        let calls = fs::read_to_string(self.notes()).unwrap_or_default();
        Run {
            finished,
            failure,
            calls: calls.lines().map(str::to_owned).collect(),
        }
    }

    fn run_job(&self, workflow: &Value, name: &str, job: &Value) -> Result<(), String> {
        for (number, choice) in choices(&job["strategy"]["matrix"]).into_iter().enumerate() {
            let directory = self
                .directory
                .path()
                .join("jobs")
                .join(format!("{name}-{number}"));
            fs::create_dir_all(&directory).unwrap();
            let known = [
                (
                    "github.ref_type == 'tag' && github.ref_name || ''",
                    &*self.tag,
                ),
                ("github.token", "a token"),
                ("github.repository", "reheap/reheap"),
            ];
            let mut values: BTreeMap<String, String> = choice;
            values.extend(known.map(|(name, value)| (name.to_owned(), value.to_owned())));
            let mut run = Job {
                forge: self,
                directory,
                workflow,
                job,
                values,
            };
            for step in job["steps"].as_array().unwrap() {
                run.step(step)?;
            }
        }
        Ok(())
    }
}

impl Job<'_> {
    fn step(&mut self, step: &Value) -> Result<(), String> {
        if let Some(script) = step["run"].as_str() {
            return self.script(step, script);
        }
        let (action, _) = step["uses"].as_str().unwrap().split_once('@').unwrap();
        let with = |name: &str| self.expand(step["with"][name].as_str().unwrap_or("."));
        match action {
            "actions/checkout" => {
                let place = self.directory.join(with("path"));
                fs::create_dir_all(&place).unwrap();
                copy(&self.forge.checkout.join("."), &place);
            }
            "actions/upload-artifact" => {
                let path = self.directory.join(with("path"));
                let from = if path.is_dir() { path.join(".") } else { path };
                let to = self.forge.artifact(&with("name"));
                fs::create_dir_all(&to).unwrap();
                copy(&from, &to);
            }
            "actions/download-artifact" => {
                let to = self.directory.join(with("path"));
                fs::create_dir_all(&to).unwrap();
                copy(&self.forge.artifact(&with("name")).join("."), &to);
            }
            "actions/attest-build-provenance" => {
                let sums = self.directory.join(with("subject-checksums"));
                let bundle = self.directory.join("bundle.json");
                fs::copy(sums, &bundle).unwrap();
                self.output(step, "bundle-path", &bundle.display().to_string());
            }
            "rust-lang/crates-io-auth-action" => self.output(step, "token", "for-an-hour"),
            "pypa/gh-action-pypi-publish" => {
                let files = names(&self.directory.join(with("packages-dir"))).join(" ");
                self.note(&format!("pypi {files}"));
            }
            "actions/setup-go" | "actions/setup-node" => {}
            other => panic!("no such action is known here: {other}"),
        }
        Ok(())
    }

    fn script(&self, step: &Value, script: &str) -> Result<(), String> {
        let inner = [
            &step["working-directory"],
            &self.job["defaults"]["run"]["working-directory"],
        ];
        let inner = inner.into_iter().find_map(Value::as_str).unwrap_or(".");
        let path = std::env::var("PATH").unwrap();
        let programs = self.forge.directory.path().join("programs");
        // As the runner calls it for `shell: bash`.
        let mut command = Command::new("bash");
        command
            .args(["--noprofile", "--norc", "-eo", "pipefail", "-c", script])
            .current_dir(self.directory.join(self.expand(inner)))
            .env("PATH", format!("{}:{path}", programs.display()))
            .env("CARGO", env!("CARGO"))
            .env("XTASK", XTASK)
            .env("NOTES", self.forge.notes())
            .env("FILES", self.forge.files.join(" "))
            .env("DIFFERENCE", self.forge.difference);
        for variables in [self.workflow, self.job, step].map(|of| &of["env"]) {
            for (name, value) in variables.as_object().into_iter().flatten() {
                command.env(name, self.expand(value.as_str().unwrap()));
            }
        }
        let output = command.output().unwrap();
        if output.status.success() {
            return Ok(());
        }
        let said = [output.stdout, output.stderr].concat();
        Err(format!("{script}: {}", String::from_utf8_lossy(&said)))
    }

    /// Text with the values of its expressions.
    fn expand(&self, text: &str) -> String {
        let mut pieces = text.split("${{");
        let mut expanded = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let (expression, rest) = piece.split_once("}}").unwrap();
            let value = self.values.get(expression.trim());
            expanded += value.unwrap_or_else(|| panic!("nothing is known of `{expression}`"));
            expanded += rest;
        }
        expanded
    }

    fn output(&mut self, step: &Value, name: &str, value: &str) {
        let name = format!("steps.{}.outputs.{name}", step["id"].as_str().unwrap());
        self.values.insert(name, value.to_owned());
    }

    fn note(&self, call: &str) {
        let old = fs::read_to_string(self.forge.notes()).unwrap_or_default();
        fs::write(self.forge.notes(), format!("{old}{call}\n")).unwrap();
    }
}

/// A word, or a list of words.
fn words(value: &Value) -> Vec<String> {
    let list = value
        .as_array()
        .cloned()
        .unwrap_or_else(|| vec![value.clone()]);
    list.iter()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

/// Each choice of a matrix of one dimension, or of a list of choices; without one, a choice of nothing.
fn choices(matrix: &Value) -> Vec<BTreeMap<String, String>> {
    let named = |name: &str, value: &str| (format!("matrix.{name}"), value.to_owned());
    let Some(dimensions) = matrix.as_object() else {
        return vec![BTreeMap::new()];
    };
    assert_eq!(dimensions.len(), 1, "a matrix has more dimensions");
    let (name, list) = dimensions.iter().next().unwrap();
    let of = |choice: &Value| match choice.as_object() {
        Some(values) => values
            .iter()
            .map(|(name, value)| named(name, value.as_str().unwrap()))
            .collect(),
        None => BTreeMap::from([named(name, choice.as_str().unwrap())]),
    };
    list.as_array().unwrap().iter().map(of).collect()
}

/// The names of the files in a directory, sorted.
pub(crate) fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Copies a file, the files of a pattern, or those of a directory.
fn copy(from: &Path, to: &Path) {
    let script = format!(
        "cp --recursive --link --no-dereference -- {} \"$1\"",
        from.display()
    );
    let mut copy = Command::new("bash");
    copy.args(["-c", &script, "bash"]).arg(to);
    assert!(copy.status().unwrap().success(), "{script}");
}

fn write_program(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}
