//! Manifests that nobody would think of: what is added must be there, and leave no trace when it is taken out.

use super::data::Data;
use super::removal::gives_back;
use super::{Refusal, manifests};
use crate::text::Text;
use proptest::prelude::*;
use std::path::PathBuf;

const CONDITION: &str = "cfg(target_env = \"musl\")";

/// Tables in many ways to write them; those with the same letter may not be together.
const TABLES: [(char, &str); 18] = [
    ('f', "features.default = [\"a\"]\nfeatures.a = []\n"),
    ('p', "profile.release.lto = true\n"),
    ('d', "[dependencies]\nlog = \"0.4\" # it's\n"),
    (
        'd',
        "[dependencies.log]\nversion = \"0.4\"\nfeatures = [\n  \"std\",\n]\n",
    ),
    ('d', "[dependencies]"),
    ('d', "dependencies.log = \"0.4\"\n"),
    (
        't',
        "[target.'cfg(target_env = \"musl\")'.dependencies]\n# none\n",
    ),
    (
        't',
        "[target.\"cfg(target_env = \\\"musl\\\")\".dependencies]\nlibc = \"0.2\"\n\n\n",
    ),
    (
        't',
        "[target.'cfg(target_env = \"musl\")'.dependencies.libc]\nversion = \"0.2\"\n",
    ),
    (
        't',
        "[target]\n'cfg(target_env = \"musl\")'.dependencies.libc = \"0.2\"\n",
    ),
    ('t', "[target.'cfg(unix)'.dependencies]\nlibc = \"0.2\""),
    ('f', "[features]\ndefault = [\"a\"]\na = []\n"),
    (
        'f',
        "[features]\ndefault = [\n\t\"a\" # reheap\n\t, \"b\"\n]\na = []\nb = [ ]\n",
    ),
    ('f', "[features]\ndefault = [ ] # nothing\n"),
    ('p', "[profile.release]\nlto = true\n\n# end\n"),
    (
        'm',
        "[package.metadata.x]\ntext = '''\n[features]\nx = 1 # reheap adopt\n'''\n",
    ),
    (
        'b',
        "[[bin]]\nname = \"x\"\npath = \"x.rs\"\n\n[[bin]]\nname = \"y\"\npath = \"y.rs\"\n",
    ),
    ('w', "[workspace]\n\n"),
];

fn manifest() -> impl Strategy<Value = String> {
    let tables = proptest::sample::subsequence(TABLES.to_vec(), 0..8).prop_shuffle();
    let ends = prop_oneof![
        Just(""),
        Just("\n"),
        Just("\n\n\n"),
        Just("# end"),
        Just("  ")
    ];
    (tables, ends, any::<bool>(), any::<bool>()).prop_map(|(tables, end, is_crlf, is_first)| {
        let package = "[package]\nname = \"app\"\n\n";
        let mut root = String::new();
        let mut rest = String::new();
        let mut seen = String::new();
        for (letter, table) in tables {
            if seen.contains(letter) {
                continue;
            }
            seen.push(letter);
            if table.starts_with('[') {
                rest += &format!("{table}\n")
            } else {
                root += table
            }
        }
        let all = if is_first {
            format!("{root}{package}{}{end}", rest.trim_end_matches('\n'))
        } else {
            format!("{root}{rest}{package}{end}")
        };
        if is_crlf {
            all.replace('\n', "\r\n")
        } else {
            all
        }
    })
}

fn text(contents: &str) -> Text {
    Text {
        path: PathBuf::from("Cargo.toml"),
        contents: contents.to_owned(),
    }
}

fn adopted(manifest: &str) -> Result<String, Refusal> {
    let table = ["target", CONDITION, "dependencies"];
    let value = "{ version = \"0.1.52\", optional = true }";
    let with_dependency = manifests::add(&text(manifest), &table, "mimalloc", value)?;
    let features = ["features"];
    let value = "[\"dep:mimalloc\"]";
    let with_feature = manifests::add(&text(&with_dependency), &features, "fast", value)?;
    manifests::add_to_feature(&text(&with_feature), "default", "fast")
}

fn keys(keys: &[&str]) -> Vec<String> {
    keys.iter().map(|key| (*key).to_owned()).collect()
}

/// What a manifest says but for its default features.
fn without_default(manifest: &str) -> Option<Data> {
    let data = Data::parse(manifest)?;
    Some(data.without(&keys(&["features", "default"])))
}

/// What it must say then.
fn with_pieces(manifest: &str) -> Option<Data> {
    let dependency = Data::of_written("{ version = \"0.1.52\", optional = true }")?;
    let place = keys(&["target", CONDITION, "dependencies", "mimalloc"]);
    let data = without_default(manifest)?.with(&place, dependency)?;
    data.with(
        &keys(&["features", "fast"]),
        Data::of_written("[\"dep:mimalloc\"]")?,
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_added_to_any_manifest_leaves_no_trace(manifest in manifest()) {
        prop_assert!(manifests::parsed(&text(&manifest)).is_ok(), "{manifest}");
        let refused = |refusal| TestCaseError::fail(format!("{refusal}\n{manifest}"));
        let adopted = adopted(&manifest).map_err(refused)?;
        prop_assert_eq!(without_default(&adopted), with_pieces(&manifest), "{}", adopted);
        let gives_back = gives_back(&PathBuf::from("Cargo.toml"), Some(&adopted), &manifest);
        prop_assert!(gives_back.unwrap(), "{adopted}");
    }
}
