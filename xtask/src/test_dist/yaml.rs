//! Reads YAML by Ansible's Python environment, which is here for the recipe: the file becomes JSON.

use super::{TestDist, outcome, wheel};
use anyhow::{Context as _, Result};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

const CONVERT: &str =
    "import json, sys, yaml; json.dump(yaml.safe_load(open(sys.argv[1])), sys.stdout)";
/// Conditions are checked more strictly from 2.19 on.
const ANSIBLE: &str = "ansible-core>=2.17";

/// An environment with Ansible.
pub(super) fn environment(test: &TestDist<'_>) -> Result<PathBuf> {
    wheel::environment_with(test, "ansible", &[ANSIBLE])
}

pub(super) fn read(test: &TestDist<'_>, file: &Path) -> Result<Value> {
    let mut convert = Command::new(environment(test)?.join("bin/python3"));
    let json = outcome::succeed(convert.args(["-c", CONVERT]).arg(file))?;
    serde_json::from_str(&json.stdout)
        .with_context(|| format!("cannot understand `{}`", file.display()))
}
