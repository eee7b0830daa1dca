//! The names of the tests that `make test` leaves out (`default-filter` in `.config/nextest.toml`).
//!
//! nextest takes a name that fits no test without a word. A test that is renamed would be back in `make test`, and only
//! its time would tell.

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Where it is.
pub(crate) const CONFIG: &str = ".config/nextest.toml";

/// The tests of each package.
pub(crate) type Tests = BTreeMap<String, Vec<String>>;

/// What `cargo nextest list --message-format json` prints.
pub(crate) fn read_list(json: &str) -> Result<Tests> {
    let list: Value = serde_json::from_str(json).context("nextest's list is not JSON")?;
    let executables = list["rust-suites"].as_object().context("no executables")?;
    let mut tests = Tests::new();
    for executable in executables.values() {
        let package = executable["package-name"].as_str().context("no package")?;
        let cases = executable["testcases"].as_object().context("no tests")?;
        let of_package = tests.entry(package.to_owned()).or_default();
        of_package.extend(cases.keys().cloned());
    }
    Ok(tests)
}

/// Fails if a name of the filter fits no test.
pub(crate) fn check(config: &str, tests: &Tests) -> Result<()> {
    let (mut package, mut unknown) = ("", BTreeSet::new());
    let filter = config
        .split("\"\"\"")
        .nth(1)
        .context("there is no filter")?;
    for words in filter.split_whitespace() {
        if let Some((_, name)) = words.split_once("package(") {
            package = name.trim_end_matches(')');
        } else if let Some((_, predicate)) = words.split_once("test(") {
            let of_package = tests.get(package).map_or(&[][..], Vec::as_slice);
            for name in names(predicate)? {
                if !of_package.iter().any(|test| name.fits(test)) {
                    unknown.insert(format!("{package} {}", name.text));
                }
            }
        }
    }
    ensure!(
        unknown.is_empty(),
        "the filter in `{CONFIG}` names tests that there are not: {}",
        unknown.into_iter().collect::<Vec<_>>().join(", ")
    );
    Ok(())
}

struct Name {
    text: String,
    /// It may be the beginning of a test's name.
    begins: bool,
}

impl Name {
    fn fits(&self, test: &str) -> bool {
        test == self.text || self.begins && test.starts_with(&self.text)
    }
}

/// Those of `=NAME)` or of `/^BEGINNING(|OR|ANOTHER)/)`.
fn names(predicate: &str) -> Result<Vec<Name>> {
    let begins = predicate.starts_with("/^");
    let text = if begins {
        predicate.rsplit_once('/').map(|(pattern, _)| &pattern[2..])
    } else {
        predicate
            .strip_prefix('=')
            .and_then(|name| name.split(')').next())
    };
    let texts =
        spelled_out(text.with_context(|| format!("`test({predicate}` has neither = nor /^"))?);
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "_:".contains(c);
    if let Some(text) = texts.iter().find(|text| !text.chars().all(is_of_name)) {
        bail!("`{text}` in a filter is more than names and alternatives");
    }
    Ok(texts
        .into_iter()
        .map(|text| Name { text, begins })
        .collect())
}

/// A pattern with each choice of its alternatives, the innermost first.
fn spelled_out(pattern: &str) -> Vec<String> {
    let group = pattern
        .find(')')
        .and_then(|end| Some((pattern[..end].rfind('(')?, end)));
    let Some((start, end)) = group else {
        return vec![pattern.to_owned()];
    };
    let (before, after) = (&pattern[..start], &pattern[end + 1..]);
    let choices = pattern[start + 1..end].split('|');
    choices
        .flat_map(|choice| spelled_out(&format!("{before}{choice}{after}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{check, read_list};

    const LIST: &str = r#"{"rust-suites": {
        "a": {"package-name": "a", "testcases": {"run::it_works": {}, "run::it_stops": {}}},
        "a::it": {"package-name": "a", "testcases": {"deep::run::it_runs": {}}}
    }}"#;

    fn checked(predicates: &str) -> Result<(), String> {
        let config =
            format!("default-filter = \"\"\"\nnot ( package(a) & ( {predicates} ) )\n\"\"\"");
        check(&config, &read_list(LIST).unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn names_in_the_filter_that_fit_no_test_are_found() {
        checked("test(=run::it_works) | test(/^run::it_(works|stop)/) | test(/^deep::/)").unwrap();
        let missing = checked("test(/^(deep::|)run::(it_(works|runs)|stops)/)").unwrap_err();
        let names = "a deep::run::it_works, a deep::run::stops, a run::it_runs, a run::stops";
        assert!(missing.ends_with(&format!(": {names}")), "{missing}");
        for predicate in ["test(=run::it_work)", "test(/^run::.*/)", "test(run)"] {
            checked(predicate).unwrap_err();
        }
    }
}
