//! Profiles with any names and figures, to look for what no form of report can bear.

use proptest::prelude::*;
use reheap_profile::profile::Profile;
use reheap_report::profile::to_json;
use serde_json::Value;

/// The profile with other names and figures in the same places.
fn shaken(profile: &Profile, names: &[String], figures: &[u64]) -> Profile {
    let mut value: Value = serde_json::from_str(&to_json(profile)).unwrap();
    let mut names = names.iter().cycle();
    let mut figures = figures.iter().cycle();
    shake(
        &mut value,
        "",
        &mut || names.next().unwrap().clone(),
        &mut || *figures.next().unwrap(),
    );
    serde_json::from_value(value).unwrap()
}

fn shake(
    value: &mut Value,
    key: &str,
    name: &mut impl FnMut() -> String,
    figure: &mut impl FnMut() -> u64,
) {
    match value {
        // What these may be is fixed, or follows from other places.
        _ if ["format", "access", "ending", "frames", "time"].contains(&key)
            && !value_has_names(value) => {}
        Value::String(text) => *text = name(),
        Value::Number(number) if ["pid", "parent", "tid", "line"].contains(&key) => {
            *number = (figure() as u32).into();
        }
        Value::Number(number) => *number = figure().into(),
        Value::Array(all) => all.iter_mut().for_each(|element| {
            let key = if element.is_object() { "" } else { key };
            shake(element, key, name, figure);
        }),
        Value::Object(all) => all
            .iter_mut()
            .for_each(|(key, value)| shake(value, key, name, figure)),
        Value::Null | Value::Bool(_) => {}
    }
}

/// The frames of the sites have names; the positions of frames in a stack do not.
fn value_has_names(value: &Value) -> bool {
    value
        .as_array()
        .is_some_and(|all| all.iter().any(Value::is_object))
}

pub fn a_profile() -> impl Strategy<Value = Profile> {
    let names = proptest::collection::vec("[ -~]{0,60}|.{0,60}|[a-z_<>:]{100,300}", 1..6);
    let figure = prop_oneof![
        Just(0u64),
        Just(1),
        0..5000u64,
        any::<u64>(),
        Just(u64::MAX)
    ];
    let figures = proptest::collection::vec(figure, 1..12);
    let all: Vec<Profile> = super::all()
        .into_iter()
        .map(|(_, profile)| profile)
        .collect();
    (proptest::sample::select(all), names, figures)
        .prop_map(|(profile, names, figures)| shaken(&profile, &names, &figures))
}
