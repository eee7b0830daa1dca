//! A registry on this machine that has the packages of a lock file under their names, with other contents. What is in
//! it leaves a trace when it is built.

use flate2::Compression;
use flate2::write::GzEncoder;
use reheap_allocators::cache::sha256;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::thread;

/// Which checksums the registry gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The checksums of what the mirror has.
    Its,
    /// The checksums of the lock file.
    Pinned,
}

struct Package {
    version: String,
    checksum: String,
    dependencies: Vec<String>,
    features: BTreeSet<String>,
}

/// Starts it, and makes a directory Cargo's home that has it instead of crates.io. It ends with the tests.
pub(crate) fn serve(manifest: &str, lock: &str, claim: Claim, trace: &Path, home: &Path) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut answers = BTreeMap::new();
    let download = format!("http://127.0.0.1:{port}/files/{{crate}}");
    answers.insert(
        "config.json".to_owned(),
        json!({ "dl": download }).to_string().into_bytes(),
    );
    for (name, package) in packages(manifest, lock) {
        let file = package.file(&name, trace);
        let line = package.index_line(&name, claim, &file);
        answers.insert(name.clone(), line.into_bytes());
        answers.insert(format!("files/{name}"), file);
    }
    thread::spawn(move || {
        for connection in listener.incoming() {
            answer(connection.unwrap(), &answers);
        }
    });
    let config = format!(
        "[source.crates-io]\nreplace-with = \"mirror\"\n\
         [source.mirror]\nregistry = \"sparse+http://127.0.0.1:{port}/\"\n"
    );
    fs::create_dir_all(home).unwrap();
    fs::write(home.join("config.toml"), config).unwrap();
}

/// The packages of a lock file that come from a registry, with the features that a manifest asks for.
fn packages(manifest: &str, lock: &str) -> BTreeMap<String, Package> {
    let lock: toml::Table = lock.parse().unwrap();
    let manifest: toml::Table = manifest.parse().unwrap();
    let text = |value: &toml::Value| value.as_str().unwrap().to_owned();
    let list = |value: &toml::Value| -> Vec<String> {
        value.as_array().unwrap().iter().map(text).collect()
    };
    let asked: Vec<String> = manifest["features"]
        .as_table()
        .unwrap()
        .values()
        .flat_map(list)
        .collect();
    let all = lock["package"].as_array().unwrap().iter();
    let of_registry = all.filter(|package| package.get("source").is_some());
    let package = |package: &toml::Value| {
        let name = text(&package["name"]);
        let features = asked
            .iter()
            .filter_map(|file| file.strip_prefix(&name)?.strip_prefix('/'));
        let value = Package {
            version: text(&package["version"]),
            checksum: text(&package["checksum"]),
            dependencies: package.get("dependencies").map(list).unwrap_or_default(),
            features: features.map(str::to_owned).collect(),
        };
        (name, value)
    };
    of_registry.map(package).collect()
}

impl Package {
    fn file(&self, name: &str, trace: &Path) -> Vec<u8> {
        let mut manifest = format!(
            "[package]\nname = \"{name}\"\nversion = \"{}\"\nedition = \"2021\"\n[features]\n",
            self.version
        );
        for feature in &self.features {
            manifest.push_str(&format!("{feature} = []\n"));
        }
        manifest.push_str("[dependencies]\n");
        for dependency in &self.dependencies {
            manifest.push_str(&format!("{dependency} = \"*\"\n"));
        }
        let script = format!("fn main() {{ std::fs::write({trace:?}, {name:?}).unwrap(); }}\n");
        let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        for (path, text) in [
            ("Cargo.toml", manifest.as_str()),
            ("build.rs", &script),
            ("src/lib.rs", ""),
        ] {
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o644);
            let path = format!("{name}-{}/{path}", self.version);
            archive
                .append_data(&mut header, path, text.as_bytes())
                .unwrap();
        }
        archive.into_inner().unwrap().finish().unwrap()
    }

    /// The Cargo book, "Registry Index", JSON schema.
    fn index_line(&self, name: &str, claim: Claim, file: &[u8]) -> String {
        let dependency = |name: &String| {
            json!({
                "name": name, "req": "*", "features": [], "optional": false, "default_features": true,
                "target": null, "kind": "normal",
            })
        };
        let features = self
            .features
            .iter()
            .map(|feature| (feature.clone(), json!([])));
        let line = json!({
            "name": name,
            "vers": self.version,
            "deps": self.dependencies.iter().map(dependency).collect::<Vec<_>>(),
            "cksum": match claim {
                Claim::Its => sha256(file),
                Claim::Pinned => self.checksum.clone(),
            },
            "features": features.collect::<serde_json::Map<String, Value>>(),
            "yanked": false,
        });
        format!("{line}\n")
    }
}

/// One request. A path of the index ends with the package's name.
fn answer(mut connection: TcpStream, answers: &BTreeMap<String, Vec<u8>>) {
    let mut lines = BufReader::new(connection.try_clone().unwrap()).lines();
    let first = lines.next().and_then(Result::ok).unwrap_or_default();
    // The rest of the request; nothing of it matters.
    lines.map_while(Result::ok).find(String::is_empty);
    let path = first
        .split(' ')
        .nth(1)
        .unwrap_or_default()
        .trim_start_matches('/');
    let name = if path.starts_with("files/") {
        path
    } else {
        path.rsplit('/').next().unwrap()
    };
    let (status, body) = match answers.get(name) {
        Some(body) => ("200 OK", body.as_slice()),
        None => ("404 Not Found", &b""[..]),
    };
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    // Cargo may have given up.
    let _ = connection
        .write_all(head.as_bytes())
        .and_then(|()| connection.write_all(body));
}
