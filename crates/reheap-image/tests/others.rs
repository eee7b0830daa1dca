//! Images of others: read in all their forms, damaged in all the ways that one meets, and changed so that the old digest
//! comes back.

use flate2::write::GzEncoder;
use reheap_image::added::{Addition, Checked, Restored};
use reheap_image::blob::Blob;
use reheap_image::layer::{Compression, Entry};
use reheap_image::read::{self, Form, Location, ReadError, Wanted};
use reheap_image::tree::Tree;
use reheap_image::{Platform, Workplace};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

static NEVER: AtomicBool = AtomicBool::new(false);

fn workplace() -> Workplace<'static> {
    Workplace::new(None, &NEVER)
}

/// What a layer has at a path.
#[derive(Clone, Copy)]
enum Has<'a> {
    Directory,
    File(&'a str),
    Link(&'a str),
    HardLink(&'a str),
}

fn layer(entries: &[(&str, Has<'_>)]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (path, has) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o755);
        header.set_size(0);
        // The name as it is: the crate refuses what a damaged image may have.
        header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
        let (kind, target, contents) = match has {
            Has::Directory => (tar::EntryType::Directory, "", ""),
            Has::File(contents) => (tar::EntryType::Regular, "", *contents),
            Has::Link(target) => (tar::EntryType::Symlink, *target, ""),
            Has::HardLink(target) => (tar::EntryType::Link, *target, ""),
        };
        header.set_entry_type(kind);
        header.set_size(contents.len() as u64);
        if !target.is_empty() {
            header.set_link_name_literal(target).unwrap();
        }
        header.set_cksum();
        archive.append(&header, contents.as_bytes()).unwrap();
    }
    archive.into_inner().unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn digest(bytes: &[u8]) -> String {
    Blob::of_bytes(bytes.to_vec()).digest().to_string()
}

/// An image that a test may damage before it is written.
struct Draft {
    /// The layers as they are stored, and their diff_id.
    layers: Vec<(Vec<u8>, String)>,
    layer_type: String,
    configuration: Value,
    manifest: Value,
    platform: Option<Value>,
}

impl Draft {
    fn new(layers: &[Vec<u8>]) -> Self {
        let stored = layers.iter().enumerate().map(|(number, layer)| {
            let stored = match number % 3 {
                0 => gzip(layer),
                1 => zstd::encode_all(layer.as_slice(), 1).unwrap(),
                _ => layer.clone(),
            };
            (stored, digest(layer))
        });
        let diff_ids: Vec<String> = layers.iter().map(|layer| digest(layer)).collect();
        let history: Vec<Value> = diff_ids
            .iter()
            .map(|_| json!({"created_by": "a test"}))
            .collect();
        Self {
            layers: stored.collect(),
            layer_type: "application/vnd.oci.image.layer.v1.tar+gzip".to_owned(),
            configuration: json!({
                "architecture": Platform::of_this_machine().architecture,
                "os": "linux",
                "config": {"Entrypoint": ["/app"], "Env": ["A=b"], "Unknown": 1},
                "rootfs": {"type": "layers", "diff_ids": diff_ids},
                "history": history,
            }),
            manifest: json!({"schemaVersion": 2}),
            platform: None,
        }
    }

    /// The files of an OCI layout. The JSON is not as reheap would write it.
    fn layout(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut keep = |media_type: &str, bytes: Vec<u8>| {
            let named = digest(&bytes);
            let size = bytes.len();
            files.insert(format!("blobs/{}", named.replace(':', "/")), bytes);
            json!({"mediaType": media_type, "digest": named, "size": size})
        };
        let pretty = |value: &Value| serde_json::to_vec_pretty(value).unwrap();
        let mut manifest = self.manifest.clone();
        manifest["config"] = keep(
            "application/vnd.oci.image.config.v1+json",
            pretty(&self.configuration),
        );
        let layers = self.layers.iter();
        let layers: Vec<Value> = layers
            .map(|(stored, _)| keep(&self.layer_type, stored.clone()))
            .collect();
        manifest["layers"] = layers.into();
        let mut entry = keep(
            "application/vnd.oci.image.manifest.v1+json",
            pretty(&manifest),
        );
        if let Some(platform) = &self.platform {
            entry["platform"] = platform.clone();
        }
        let index = json!({"schemaVersion": 2, "manifests": [entry]});
        files.insert("index.json".to_owned(), pretty(&index));
        files.insert(
            "oci-layout".to_owned(),
            b"{\"imageLayoutVersion\":\"1.0.0\"}".to_vec(),
        );
        files
    }

    /// What `docker save` writes.
    fn docker(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut names = Vec::new();
        for (number, (stored, _)) in self.layers.iter().enumerate() {
            names.push(format!("{number}/layer.tar"));
            files.insert(format!("{number}/layer.tar"), stored.clone());
        }
        let configuration = serde_json::to_vec_pretty(&self.configuration).unwrap();
        files.insert("abc.json".to_owned(), configuration);
        let manifest = json!([{"Config": "abc.json", "RepoTags": ["app:1"], "Layers": names}]);
        files.insert(
            "manifest.json".to_owned(),
            manifest.to_string().into_bytes(),
        );
        files
    }
}

fn archive(files: &BTreeMap<String, Vec<u8>>) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (path, contents) in files {
        let mut header = tar::Header::new_ustar();
        header.set_size(contents.len() as u64);
        header.set_mode(0o644);
        archive
            .append_data(&mut header, path, contents.as_slice())
            .unwrap();
    }
    archive.into_inner().unwrap()
}

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    fn directory(&self, name: &str, files: &BTreeMap<String, Vec<u8>>) -> PathBuf {
        let directory = self.0.path().join(name);
        for (path, contents) in files {
            let path = directory.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, contents).unwrap();
        }
        directory
    }
}

fn checked(path: &Path) -> Result<Checked, ReadError> {
    let image = read::open(&Location::new(path), Wanted::TheOnly, &workplace())?;
    Checked::new(image, &workplace())
}

/// Why an image of these files is refused.
#[track_caller]
fn refusal(files: &BTreeMap<String, Vec<u8>>) -> String {
    let place = Place::new();
    let path = place.write("image.tar", &archive(files));
    checked(&path).unwrap_err().to_string()
}

fn text(tree: &Tree, path: &str) -> Option<String> {
    let path = tree.resolve(Path::new(path)).unwrap()?;
    let found = tree.open(&path, &workplace()).unwrap()?;
    let mut file = found.file;
    file.seek(SeekFrom::Start(found.start)).unwrap();
    let mut text = String::new();
    file.take(found.size_bytes)
        .read_to_string(&mut text)
        .unwrap();
    Some(text)
}

fn addition() -> Addition {
    Addition {
        title: "fastalloc 1".to_owned(),
        command: "reheap image --add fastalloc".to_owned(),
        files: BTreeMap::from([(PathBuf::from("lib/libfast.so"), Entry::bytes("library"))]),
        environment: vec![
            ("LD_PRELOAD".to_owned(), "/x.so".to_owned()),
            ("A".to_owned(), "c".to_owned()),
        ],
        labels: BTreeMap::from([("added".to_owned(), "fastalloc".to_owned())]),
        compression: Compression::Gzip,
        time: 0,
    }
}

#[test]
fn an_image_is_the_same_in_each_form() {
    let below = layer(&[
        ("usr/", Has::Directory),
        ("usr/a", Has::File("a")),
        ("usr/b", Has::File("b")),
    ]);
    let above = layer(&[
        ("usr/.wh.a", Has::File("")),
        ("c", Has::HardLink("usr/b")),
        ("d", Has::Link("/c")),
    ]);
    let draft = Draft::new(&[below, above, layer(&[("e", Has::File("e"))])]);
    let place = Place::new();
    for path in [
        place.write("oci.tar", &archive(&draft.layout())),
        place.write("oci.tar.gz", &gzip(&archive(&draft.layout()))),
        place.directory("oci", &draft.layout()),
        place.write("docker.tar", &archive(&draft.docker())),
        place.directory("docker", &draft.docker()),
    ] {
        let image = checked(&path).unwrap();
        assert_eq!(text(&image.tree, "/usr/a"), None, "{path:?}");
        assert_eq!(text(&image.tree, "/usr/b").as_deref(), Some("b"));
        assert_eq!(text(&image.tree, "/d").as_deref(), Some("b"));
        assert_eq!(text(&image.tree, "/e").as_deref(), Some("e"));
        assert_eq!(image.settings["config"]["Unknown"], 1);
    }
}

/// `docker save` once linked a layer that it had already written, and tar packs that again in any order.
#[test]
fn a_layer_may_be_a_link_to_another_name() {
    let top = layer(&[("app", Has::File("top"))]);
    let configuration = Draft::new(std::slice::from_ref(&top))
        .configuration
        .to_string();
    for (linked, target) in [
        (Has::HardLink("./a/layer.tar"), "hard"),
        (Has::Link("../a/layer.tar"), "symbolic"),
    ] {
        let [link, part] = [("./b/layer.tar", linked), ("./a/layer.tar", Has::File(""))];
        let manifest = json!([{"Config": "config.json", "Layers": ["b/layer.tar"]}]).to_string();
        let texts = layer(&[
            ("manifest.json", Has::File(&manifest)),
            ("config.json", Has::File(&configuration)),
        ]);
        let mut file = layer(&[part]);
        file.truncate(512);
        let mut header = tar::Header::from_byte_slice(&file).clone();
        header.set_size(top.len() as u64);
        header.set_cksum();
        let file = [header.as_bytes().as_slice(), &top].concat();
        let link = &layer(&[link])[..512];
        let texts = &texts[..texts.len() - 1024]; // without its end
        let place = Place::new();
        for archive in [[texts, link, &file].concat(), [texts, &file, link].concat()] {
            let image = checked(&place.write("image.tar", &archive)).unwrap();
            assert_eq!(
                text(&image.tree, "/app").as_deref(),
                Some("top"),
                "{target}"
            );
        }
        let lacking = place.write("image.tar", &[texts, link].concat());
        let error = checked(&lacking).unwrap_err();
        assert!(matches!(error, ReadError::Missing(_)), "{error}");
    }
}

#[test]
fn what_was_added_is_taken_off_without_a_trace() {
    let below = layer(&[
        ("usr/", Has::Directory),
        ("usr/lib/", Has::Directory),
        ("app", Has::File("x")),
    ]);
    let draft = Draft::new(&[below]);
    let place = Place::new();
    for (files, form) in [(draft.layout(), Form::Oci), (draft.docker(), Form::Docker)] {
        let path = place.write("image.tar", &archive(&files));
        let image = checked(&path).unwrap();
        let before = image.seal();
        assert!(image.record(&workplace()).unwrap().is_none());
        let added = image.add(&addition(), &workplace()).unwrap();
        assert_ne!(added.configuration.digest(), before.configuration.digest());
        let parts = added.parts(form);
        let stored: BTreeMap<String, Vec<u8>> = parts
            .iter()
            .map(|part| (part.path.clone(), part.blob.bytes().unwrap()))
            .collect();
        let changed = checked(&place.write("added.tar", &archive(&stored))).unwrap();
        assert_eq!(
            text(&changed.tree, "/usr/lib/reheap/lib/libfast.so").as_deref(),
            Some("library")
        );
        let config = &changed.settings["config"];
        assert_eq!(config["Env"], json!(["A=c", "LD_PRELOAD=/x.so"]));
        assert_eq!(config["Unknown"], 1);
        assert_eq!(config["Labels"]["added"], "fastalloc");
        assert_eq!(changed.settings["history"].as_array().unwrap().len(), 2);

        let record = changed.record(&workplace()).unwrap().unwrap();
        assert_eq!(record.added, "fastalloc 1");
        let (restored, how) = changed.restore(&record).unwrap();
        let after = restored.seal();
        assert_eq!(after.configuration.digest(), before.configuration.digest());
        assert_eq!(after.names, before.names);
        if form == Form::Oci {
            assert_eq!(how, Restored::Manifest);
            assert_eq!(after.manifest.blob.digest(), before.manifest.blob.digest());
        }
    }
}

#[test]
fn a_layer_is_added_beside_what_is_there_and_never_in_the_place_of_a_link() {
    let below = layer(&[
        ("usr/", Has::Directory),
        ("usr/lib", Has::Link("../system")),
        ("system/", Has::Directory),
    ]);
    let place = Place::new();
    let path = place.write("image.tar", &archive(&Draft::new(&[below]).layout()));
    let image = checked(&path).unwrap();
    let added = image.add(&addition(), &workplace()).unwrap();
    let (_, top) = added.layers.last().unwrap();
    let mut names = Vec::new();
    let bytes = top.bytes().unwrap();
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(bytes.as_slice()));
    for entry in archive.entries().unwrap() {
        names.push(entry.unwrap().path().unwrap().display().to_string());
    }
    let expected = [
        "system/reheap/",
        "system/reheap/lib/",
        "system/reheap/lib/libfast.so",
        "system/reheap/original-image.json",
    ];
    assert_eq!(names, expected);
}

#[test]
fn what_is_below_other_layers_or_of_another_image_is_not_taken_off() {
    let place = Place::new();
    let record = |configuration: &str| {
        json!({"version": 1, "added": "x", "configuration": configuration}).to_string()
    };
    let of_another = record(r#"{"rootfs":{"diff_ids":["sha256:0"]}}"#);
    let own = layer(&[("usr/lib/reheap/original-image.json", Has::File(&of_another))]);
    let other = layer(&[("a", Has::File("a"))]);
    let image = |layers: &[Vec<u8>]| {
        let path = place.write("image.tar", &archive(&Draft::new(layers).layout()));
        checked(&path).unwrap()
    };
    let on_top = image(&[other.clone(), own.clone()]);
    let record = on_top.record(&workplace()).unwrap().unwrap();
    let error = on_top.restore(&record).unwrap_err().to_string();
    assert!(error.contains("it is of another image"), "{error}");
    let below = image(&[own, other]);
    assert!(matches!(
        below.record(&workplace()),
        Err(ReadError::NotOnTop)
    ));
}

#[test]
fn a_hundred_layers_are_one_tree() {
    let layers: Vec<Vec<u8>> = (0..100)
        .map(|number| {
            let (own, hidden) = (format!("f{number}"), format!(".wh.f{}", number / 2));
            let shared = number.to_string();
            layer(&[
                (&own, Has::File("own")),
                (&hidden, Has::File("")),
                ("shared", Has::File(&shared)),
            ])
        })
        .collect();
    let place = Place::new();
    let path = place.write("image.tar", &archive(&Draft::new(&layers).layout()));
    let image = checked(&path).unwrap();
    assert_eq!(text(&image.tree, "/shared").as_deref(), Some("99"));
    assert_eq!(text(&image.tree, "/f49"), None);
    assert_eq!(text(&image.tree, "/f50").as_deref(), Some("own"));
    image.add(&addition(), &workplace()).unwrap();
}

#[test]
fn a_sparse_file_of_20_gb_is_passed_over() {
    let place = Place::new();
    let file = File::create(place.0.path().join("sparse")).unwrap();
    file.set_len(20 << 30).unwrap();
    place.write("small", b"small");
    let output = Command::new("tar")
        .args(["--sparse", "--format=gnu", "-cf", "-", "sparse", "small"])
        .current_dir(place.0.path())
        .output()
        .expect("`xtask/prepare install` installs tar");
    assert!(
        output.status.success() && output.stdout.len() < 1 << 20,
        "{:?}",
        output.status
    );
    let path = place.write(
        "image.tar",
        &archive(&Draft::new(&[output.stdout]).layout()),
    );
    let image = checked(&path).unwrap();
    assert_eq!(text(&image.tree, "/small").as_deref(), Some("small"));
    let sparse = Path::new("/sparse");
    assert_eq!(image.tree.resolve(sparse).unwrap(), Some(sparse.into()));
    let error = image.tree.open(sparse, &workplace()).unwrap_err();
    assert!(matches!(error, ReadError::Sparse(_)), "{error}");
}

#[test]
fn what_cannot_be_an_image_is_refused_with_the_reason() {
    let good = || Draft::new(&[layer(&[("app", Has::File("x"))])]);
    let with = |change: &dyn Fn(&mut Draft)| {
        let mut draft = good();
        change(&mut draft);
        refusal(&draft.layout())
    };
    for (error, reason) in [
        (
            with(&|draft| draft.manifest = json!({"schemaVersion": 1})),
            "schema 1",
        ),
        (
            with(&|draft| draft.layer_type.push_str("+encrypted")),
            "encrypted layers",
        ),
        (
            with(&|draft| draft.layer_type = "application/x-new".to_owned()),
            "`application/x-new`",
        ),
        (
            with(&|draft| draft.configuration["os"] = "windows".into()),
            "no Linux program",
        ),
        (
            with(&|draft| draft.configuration["rootfs"] = json!({"diff_ids": []})),
            "it names 0 layers",
        ),
        (
            with(&|draft| draft.configuration["rootfs"]["diff_ids"][0] = digest(b"other").into()),
            "the image is damaged",
        ),
        (
            with(&|draft| draft.configuration["rootfs"]["diff_ids"][0] = "md5:1".into()),
            "digest is damaged",
        ),
        (
            with(&|draft| draft.configuration = "text".into()),
            "it names 0 layers",
        ),
        (
            refusal(&Draft::new(&[layer(&[("../x", Has::File(""))])]).layout()),
            "outside of the image",
        ),
        (
            refusal(&BTreeMap::from([(
                "manifest.json".to_owned(),
                b"[]".to_vec(),
            )])),
            "lacks `an image`",
        ),
        (
            refusal(&BTreeMap::from([("a".to_owned(), Vec::new())])),
            "lacks `manifest.json`",
        ),
        (refusal(&BTreeMap::new()), "it is no container image"),
    ] {
        assert!(error.contains(reason), "{error}");
    }
    let absolute = Draft::new(&[layer(&[("/usr/x", Has::File("x"))])]);
    let place = Place::new();
    let image = checked(&place.write("image.tar", &archive(&absolute.layout()))).unwrap();
    assert_eq!(text(&image.tree, "/usr/x").as_deref(), Some("x"));
}

#[test]
fn each_blob_is_checked_against_its_digest_and_may_not_be_missing() {
    let layout = Draft::new(&[layer(&[("app", Has::File("x"))])]).layout();
    let blobs: Vec<&String> = layout
        .keys()
        .filter(|path| path.starts_with("blobs"))
        .collect();
    assert_eq!(blobs.len(), 3);
    for blob in blobs {
        let mut damaged = layout.clone();
        damaged.get_mut(blob).unwrap()[30] ^= 1;
        let error = refusal(&damaged);
        assert!(
            error.contains("damaged") || error.contains("cannot be read"),
            "{error}"
        );
        let mut incomplete = layout.clone();
        incomplete.remove(blob);
        assert!(refusal(&incomplete).contains("lacks `blobs/sha256/"));
    }
}

#[test]
fn an_archive_that_ends_early_is_refused_wherever_it_ends() {
    let mut layout = Draft::new(&[layer(&[("app", Has::File("x"))])]).layout();
    layout.remove("oci-layout"); // nobody reads it
    let bytes = archive(&layout);
    let place = Place::new();
    // The last file, filled up to a block, and two empty blocks: nobody needs what is empty.
    let (_, last) = layout.last_key_value().unwrap();
    let end = bytes.len() - 1024 - 512 + last.len();
    for length in (3..end).step_by(97) {
        let path = place.write("image.tar", &bytes[..length]);
        assert!(checked(&path).is_err(), "{length} of {end}");
    }
}

#[test]
fn one_of_several_platforms_is_chosen() {
    let mut index = json!({"schemaVersion": 2, "manifests": []});
    let mut files = BTreeMap::new();
    for architecture in ["s390x", "arm64", "amd64"] {
        let mut draft = Draft::new(&[layer(&[("app", Has::File(architecture))])]);
        draft.configuration["architecture"] = architecture.into();
        draft.platform = Some(json!({"os": "linux", "architecture": architecture}));
        let layout = draft.layout();
        let own: Value = serde_json::from_slice(&layout["index.json"]).unwrap();
        index["manifests"]
            .as_array_mut()
            .unwrap()
            .push(own["manifests"][0].clone());
        files.extend(layout);
    }
    let attestation =
        json!({"digest": "sha256:0", "platform": {"os": "unknown", "architecture": "unknown"}});
    index["manifests"].as_array_mut().unwrap().push(attestation);
    files.insert("index.json".to_owned(), index.to_string().into_bytes());
    let place = Place::new();
    let path = place.write("image.tar", &archive(&files));
    let image = checked(&path).unwrap();
    assert_eq!(image.platform(), Platform::of_this_machine());
    assert_eq!(image.image.others.len(), 2);
    let platform = |architecture: &str| Platform {
        architecture: architecture.to_owned(),
        variant: None,
    };
    let s390x = platform("s390x");
    let image = read::open(&Location::new(&path), Wanted::For(&s390x), &workplace()).unwrap();
    assert_eq!(image.settings().unwrap()["architecture"], "s390x");
    let error = read::open(
        &Location::new(&path),
        Wanted::For(&platform("riscv64")),
        &workplace(),
    )
    .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("linux/s390x, linux/arm64, linux/amd64"),
        "{error}"
    );
}

#[test]
fn an_image_with_two_names_is_one_and_two_images_are_two() {
    let draft = |text| Draft::new(&[layer(&[("app", Has::File(text))])]).layout();
    let (mut files, other) = (draft("one"), draft("other"));
    let entry = |layout: &BTreeMap<String, Vec<u8>>, name: &str| {
        let index: Value = serde_json::from_slice(&layout["index.json"]).unwrap();
        let mut entry = index["manifests"][0].clone();
        entry["annotations"] = json!({"org.opencontainers.image.ref.name": name});
        entry
    };
    let entries = [entry(&files, "a"), entry(&files, "b"), entry(&other, "c")];
    let index = |entries: &[Value]| json!({"schemaVersion": 2, "manifests": entries}).to_string();
    files.extend(other);
    let place = Place::new();
    files.insert("index.json".to_owned(), index(&entries[..2]).into_bytes());
    let image = checked(&place.write("image.tar", &archive(&files))).unwrap();
    assert!(image.image.others.is_empty(), "{:?}", image.image.others);
    files.insert("index.json".to_owned(), index(&entries).into_bytes());
    let two = checked(&place.write("image.tar", &archive(&files))).unwrap_err();
    let expected = ReadError::SeveralImages(vec![String::new(); 2]).to_string();
    assert_eq!(two.to_string(), expected);
}

#[test]
fn work_ends_when_the_caller_says_so() {
    let place = Place::new();
    let path = place.write(
        "image.tar",
        &archive(&Draft::new(&[layer(&[("a", Has::File("a"))])]).layout()),
    );
    let image = read::open(&Location::new(&path), Wanted::TheOnly, &workplace()).unwrap();
    let flag = AtomicBool::new(true);
    let result = Checked::new(image, &Workplace::new(None, &flag));
    assert!(matches!(result, Err(ReadError::Interrupted)), "{result:?}");
}
