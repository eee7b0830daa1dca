//! Text: results, profiles, files of Rust projects, manifests, first lines of scripts, and lists of mappings.

use reheap_adopt::{readers::read_as_each_kind, text::Text};
use reheap_allocators::prebuilt::Manifest;
use reheap_bench::compare::compare;
use reheap_bench::overview::Overview;
use reheap_bench::results::{Quantity, Results};
use reheap_proc::maps;
use reheap_report::profile::By;
use reheap_report::{Colour, Style};
use std::path::{Component, Path};

const STYLE: Style = Style {
    colour: Colour::Never,
    width: 80,
    verbose: true,
};

/// Results are read or refused. Of those that were read every report can be made, and they are written as they were read.
/// They can be compared with themselves.
pub(crate) fn results(bytes: &[u8]) {
    let Ok(results) = Results::from_json(&String::from_utf8_lossy(bytes)) else {
        return;
    };
    let written = results.to_json();
    if let Ok(again) = Results::from_json(&written) {
        assert_eq!(again.to_json(), written);
    }
    let metrics = results
        .benchmarks
        .iter()
        .flat_map(|benchmark| benchmark.metrics.keys())
        .map(|name| Quantity::Metric(name.clone()));
    let quantities: Vec<Quantity> = Quantity::COSTS.into_iter().chain(metrics).collect();
    let changes = compare(&results, &results, &quantities);
    let _ = changes.changes.iter().map(ToString::to_string).count();
    let _ = changes.missing.iter().map(ToString::to_string).count();
    let files = [results];
    let overview = Overview::of(&files);
    let _ = reheap_report::text(&overview, STYLE);
    let _ = reheap_report::markdown(&overview);
    let _ = reheap_report::csv(&overview);
    let _ = reheap_report::html(&overview);
    let _ = reheap_report::bencher_json(&overview);
    let _ = reheap_report::hyperfine_json(&overview);
}

/// A profile is read or refused. One that was read is written as it was read, and in every form.
pub(crate) fn profile(bytes: &[u8]) {
    use reheap_report::profile;
    let Ok(read) = profile::from_json(&String::from_utf8_lossy(bytes)) else {
        return;
    };
    let written = profile::to_json(&read);
    if let Ok(again) = profile::from_json(&written) {
        assert_eq!(profile::to_json(&again), written);
    }
    let _ = profile::text(&read, None, STYLE);
    let _ = profile::html(&read, None);
    let _ = profile::dhat(&read);
    let _ = profile::firefox(&read);
    let _ = profile::folded(&read, By::Bytes);
    let _ = profile::pprof(&read);
    let _ = profile::diff_text(&read, &read, STYLE);
}

/// A matrix of attacks is read or refused. One that was read is written as it was read, and in every form.
pub(crate) fn attacks(bytes: &[u8]) {
    use reheap_report::attacks;
    let Ok(results) = attacks::from_json(&String::from_utf8_lossy(bytes)) else {
        return;
    };
    let written = attacks::to_json(&results);
    if let Ok(again) = attacks::from_json(&written) {
        assert_eq!(attacks::to_json(&again), written);
    }
    let _ = attacks::text(&results, STYLE);
    let _ = attacks::markdown(&results);
    let _ = attacks::html(&results);
    let _ = attacks::Summary::of(&results);
}

/// Files of a Rust project: no reader of them panics.
pub(crate) fn project(bytes: &[u8]) {
    read_as_each_kind(&Text {
        path: "file".into(),
        contents: String::from_utf8_lossy(bytes).into_owned(),
    });
}

/// A manifest of prebuilt files is refused, or names only files in its own directory.
pub(crate) fn manifest(bytes: &[u8]) {
    let Ok(manifest) = Manifest::parse(bytes) else {
        return;
    };
    for file in &manifest.files {
        let mut parts = Path::new(&file.path).components();
        let is_inside = parts.all(|part| matches!(part, Component::Normal(_)));
        assert!(is_inside && !file.path.is_empty(), "{:?}", file.path);
    }
    let text = serde_json::to_vec(&manifest).expect("strings and numbers are JSON");
    let again = Manifest::parse(&text).expect("what was written can be read");
    assert_eq!(again, manifest);
}

/// The first line of a file names a program, or does not. The kernel's name for it has no blank and no end of a line.
pub(crate) fn script(bytes: &[u8]) {
    if let Some(interpreter) = reheap_subject::readers::interpreter(bytes) {
        let name = interpreter.as_encoded_bytes();
        assert!(
            !name.iter().any(|byte| b" \t\n\0".contains(byte)),
            "{name:?}"
        );
    }
}

/// Every mapping has addresses.
pub(crate) fn maps(bytes: &[u8]) {
    for mapping in maps::parse(bytes) {
        assert!(mapping.start < mapping.end, "{mapping:?}");
    }
}
