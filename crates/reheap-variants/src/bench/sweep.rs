//! Puts the values of parameters into commands, in place of `{NAME}`. reheap measures each combination by itself.

use crate::bench::duplicates::first_duplicate;
use reheap_command::ui::Failure;
use std::collections::BTreeMap;
use std::ffi::OsString;

/// A value for each parameter.
pub type Parameters = BTreeMap<String, String>;

/// All combinations of the values of all parameters, each given as `NAME=VALUE,VALUE`; one empty combination if there
/// are none.
pub(crate) fn combinations(given: &[String]) -> anyhow::Result<Vec<Parameters>> {
    let mut combinations = vec![Parameters::new()];
    for text in given {
        let (name, values) = parameter(text)?;
        if combinations[0].contains_key(name) {
            let failure = Failure::usage(format!("found the parameter `{name}` twice"));
            let mut all: Vec<&str> = combinations
                .iter()
                .map(|values| values[name].as_str())
                .collect();
            all.extend(values);
            all.sort_unstable();
            all.dedup();
            let hint = format!("give all its values at once: -L {name}={}", all.join(","));
            return Err(failure.hint(hint).into());
        }
        let with = |combination: &Parameters, value: &str| {
            let mut combination = combination.clone();
            combination.insert(name.to_owned(), value.to_owned());
            combination
        };
        combinations = combinations
            .iter()
            .flat_map(|combination| values.iter().map(move |value| with(combination, value)))
            .collect();
    }
    Ok(combinations)
}

fn parameter(text: &str) -> anyhow::Result<(&str, Vec<&str>)> {
    let malformed = || {
        Failure::usage(format!(
            "cannot read the parameter `{text}`: write NAME=VALUE,VALUE"
        ))
    };
    let (name, values) = text.split_once('=').ok_or_else(malformed)?;
    let values: Vec<&str> = values.split(',').map(str::trim).collect();
    if name.is_empty() || values.contains(&"") {
        return Err(malformed().into());
    }
    if let Some(value) = first_duplicate(values.iter()) {
        let text = format!("the parameter `{name}` has the value `{value}` twice");
        return Err(Failure::usage(text).into());
    }
    Ok((name, values))
}

/// Refuses a parameter that none of these words uses: each of its values would measure the same.
pub fn refuse_unused<'a>(
    sweep: &[Parameters],
    words: impl Iterator<Item = &'a OsString>,
) -> anyhow::Result<()> {
    let text: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    for name in sweep.iter().flat_map(BTreeMap::keys) {
        let place = format!("{{{name}}}");
        if !text.iter().any(|word| word.contains(&place)) {
            let failure = Failure::usage(format!("no command uses the parameter `{name}`"));
            let hint = format!("write `{place}` where its values go");
            return Err(failure.hint(hint).into());
        }
    }
    Ok(())
}

/// Puts the values into a word of a command.
pub(crate) fn substitute(text: &str, parameters: &Parameters) -> String {
    let mut text = text.to_owned();
    for (name, value) in parameters {
        text = text.replace(&format!("{{{name}}}"), value);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(given: &[&str]) -> anyhow::Result<Vec<Parameters>> {
        let given: Vec<String> = given.iter().map(|&text| text.to_owned()).collect();
        combinations(&given)
    }

    #[test]
    fn values_go_where_their_name_stands_in_braces() {
        let parameters = BTreeMap::from([("threads".to_owned(), "4".to_owned())]);
        assert_eq!(
            substitute("-j{threads} {other}", &parameters),
            "-j4 {other}"
        );
    }

    #[test]
    fn several_parameters_are_combined() {
        assert_eq!(all(&[]).unwrap(), [Parameters::new()]);
        let combined = all(&["n=1, 2", "mode=a,b"]).unwrap();
        let shown: Vec<String> = combined
            .iter()
            .map(|parameters| substitute("{n}{mode}", parameters))
            .collect();
        assert_eq!(shown, ["1a", "1b", "2a", "2b"]);
    }

    #[test]
    fn what_would_measure_the_same_twice_is_refused() {
        let refusal = |given: &[&str]| all(given).unwrap_err().to_string();
        assert_eq!(refusal(&["n=1", "n=2"]), "found the parameter `n` twice");
        assert_eq!(
            refusal(&["n=1,2,1"]),
            "the parameter `n` has the value `1` twice"
        );
        for malformed in ["n", "=1", "n=", "n=1,,2"] {
            assert_eq!(
                refusal(&[malformed]),
                format!("cannot read the parameter `{malformed}`: write NAME=VALUE,VALUE")
            );
        }
        let sweep = all(&["n=1,2"]).unwrap();
        let unused = refuse_unused(&sweep, [OsString::from("{m}")].iter()).unwrap_err();
        assert_eq!(unused.to_string(), "no command uses the parameter `n`");
        assert!(refuse_unused(&sweep, [OsString::from("-j{n}")].iter()).is_ok());
    }
}
