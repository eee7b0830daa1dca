//! A list of the packages that a program was made from, as CycloneDX 1.5.
//!
//! `cargo auditable` puts such a list into a program, in a section of its own. reheap writes it where registries and
//! scanners can see it without unpacking the image.

use flate2::read::ZlibDecoder;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Read as _;

/// The name of the section that `cargo auditable` makes.
pub const SECTION: &str = ".dep-v0";
/// The list of a large program has some hundred kilobytes.
const LIST_BYTES_MAX: u64 = 16 << 20;

/// A package of Rust's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Whether it is from crates.io, where its name means the same to everybody.
    pub is_from_crates_io: bool,
}

/// The packages in the section of a program; none if it is not as `cargo auditable` writes it.
pub fn of_section(bytes: &[u8]) -> Option<BTreeSet<Package>> {
    #[derive(Deserialize)]
    struct List {
        packages: Vec<Listed>,
    }
    #[derive(Deserialize)]
    struct Listed {
        name: String,
        version: String,
        source: String,
        #[serde(default)]
        kind: Option<String>,
    }
    let mut text = Vec::new();
    let list = ZlibDecoder::new(bytes).take(LIST_BYTES_MAX);
    { list }.read_to_end(&mut text).ok()?;
    let list: List = serde_json::from_slice(&text).ok()?;
    let in_program = list
        .packages
        .into_iter()
        .filter(|package| package.kind.as_deref() != Some("build"));
    let package = |listed: Listed| Package {
        is_from_crates_io: listed.source == "crates.io",
        name: listed.name,
        version: listed.version,
    };
    Some(in_program.map(package).collect())
}

/// The list in CycloneDX's form.
pub fn cyclonedx(packages: &BTreeSet<Package>) -> String {
    let components = packages.iter().map(|package| {
        let Package { name, version, .. } = package;
        let mut component = json!({"type": "library", "name": name, "version": version});
        if package.is_from_crates_io {
            // A `+` means something else in a URL.
            let version = version.replace('+', "%2B");
            component["purl"] = Value::String(format!("pkg:cargo/{name}@{version}"));
        }
        component
    });
    let list = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "components": components.collect::<Vec<_>>(),
    });
    String::from_utf8(crate::json(&list)).expect("JSON is text")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn a_list_of_cargo_auditable_becomes_one_of_what_runs() {
        let mut section = flate2::write::ZlibEncoder::new(Vec::new(), Default::default());
        let text = br#"{"packages":[
            {"name":"serde","version":"1.0.0+x","source":"crates.io"},
            {"name":"cc","version":"1.1.0","source":"crates.io","kind":"build"},
            {"name":"app","version":"0.1.0","source":"local","root":true}]}"#;
        section.write_all(text).unwrap();
        let packages = of_section(&section.finish().unwrap()).unwrap();
        let list: Value = serde_json::from_str(&cyclonedx(&packages)).unwrap();
        assert_eq!(
            list["components"],
            json!([
                {"type": "library", "name": "app", "version": "0.1.0"},
                {"type": "library", "name": "serde", "version": "1.0.0+x", "purl": "pkg:cargo/serde@1.0.0%2Bx"},
            ])
        );
        assert_eq!(of_section(b"other data"), None);
    }
}
