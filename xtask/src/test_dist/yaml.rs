//! Reads YAML by Ansible's Python environment, which is here for the recipe: the file becomes JSON.

use super::TestDist;
use super::outcome;
use anyhow::{Context as _, Result};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::files;

const CONVERT: &str =
    "import json, sys, yaml; json.dump(yaml.safe_load(open(sys.argv[1])), sys.stdout)";
/// Conditions are checked more strictly from 2.19 on.
const ANSIBLE: &str = "ansible-core>=2.17";

/// An environment with Ansible, which pip makes the first time.
pub(super) fn environment(test: &TestDist<'_>) -> Result<PathBuf> {
    let environment = test.cache.join("ansible");
    let finished = environment.join("finished");
    if !finished.exists() {
        _ = fs::remove_dir_all(&environment);
        let mut make = Command::new("python3");
        outcome::succeed(make.args(["-m", "venv"]).arg(&environment))?;
        let mut pip = Command::new(environment.join("bin/python3"));
        pip.args(["-m", "pip", "install", "--quiet", ANSIBLE]);
        test.progress.quietly("  Ansible", &mut pip)?;
        files::write(&finished, "")?;
    }
    Ok(environment)
}

pub(super) fn read(test: &TestDist<'_>, file: &Path) -> Result<Value> {
    let mut convert = Command::new(environment(test)?.join("bin/python3"));
    let json = outcome::succeed(convert.args(["-c", CONVERT]).arg(file))?;
    serde_json::from_str(&json.stdout)
        .with_context(|| format!("cannot understand `{}`", file.display()))
}
