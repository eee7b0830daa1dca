//! Reads images that others made: the OCI image layout (`oci-layout`, `index.json`, `blobs/`) and what `docker save`
//! writes (`manifest.json`), as a directory or a tar archive, which may be compressed with gzip.
//!
//! Nothing is unpacked. An image is untrusted input, so nothing in it names a file of this machine: blobs are looked up
//! only by their digest or by their name within the archive. Layers stay where they are, and `tree.rs` reads them
//! in pieces.

use crate::blob::{Blob, Region};
pub use crate::error::ReadError;
use crate::index::{CONFIGURATIONS, is_artifact};
pub(crate) use crate::index::{Descriptor, Index, choose};
pub use crate::index::{Location, Selected, Wanted};
use crate::store::{SMALL_BYTES_MAX, Store};
use crate::workplace::Workplace;
use oci_spec::image::{Digest, MediaType};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::str::FromStr as _;

/// An index may lead to another one.
const INDEXES_MAX: usize = 4;
/// More than any engine runs, and few enough for the open files that a process may have.
const LAYERS_MAX: usize = 500;

/// A layer as it is stored.
#[derive(Debug, Clone)]
pub struct StoredLayer {
    /// How it is stored, if the image says so.
    pub media_type: Option<MediaType>,
    /// Its bytes.
    pub stored: Region,
    /// What they should be.
    pub digest: Option<Digest>,
    /// What the archive in it should be.
    pub diff_id: Option<Digest>,
}

/// In which files an image is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The OCI image layout.
    Oci,
    /// What `docker save` writes.
    Docker,
    /// Both, over the same blobs.
    Both,
}

/// An image for one platform, as it is stored.
#[derive(Debug, Clone)]
pub struct StoredImage {
    /// In which files.
    pub form: Form,
    /// Its manifest; Docker's archive has none.
    pub manifest: Option<Manifest>,
    /// Its configuration to the byte.
    pub configuration: Blob,
    /// The lowest first.
    pub layers: Vec<StoredLayer>,
    /// What it is called: `repository:tag`.
    pub names: Vec<String>,
    /// What the index says about it.
    pub annotations: BTreeMap<String, String>,
    /// For which other platforms there are images beside it.
    pub others: Vec<String>,
}

/// A manifest, to the byte.
#[derive(Debug, Clone)]
pub struct Manifest {
    /// What it is.
    pub media_type: String,
    /// Its bytes.
    pub blob: Blob,
}

impl StoredImage {
    /// The configuration, parsed.
    ///
    /// # Errors
    /// When it is not JSON.
    pub fn settings(&self) -> Result<Value, ReadError> {
        json(&self.configuration.bytes()?, "configuration")
    }
}

/// Whether a path holds an image; only its beginning is read.
pub fn is_image(path: &Path) -> bool {
    Store::is_one(path)
}

/// Finds the parts of an image.
///
/// # Errors
/// When it is damaged, or there is none that fits.
pub fn open(
    location: &Location,
    wanted: Wanted<'_>,
    workplace: &Workplace<'_>,
) -> Result<StoredImage, ReadError> {
    let store = Store::open(&location.path, workplace)?;
    let selected = location.selected.as_ref();
    if store.has("index.json") {
        open_layout(&store, selected, wanted)
    } else {
        open_docker(&store, selected, wanted)
    }
}

/// A manifest, or another index in its place.
pub(crate) enum Document {
    Image(ImageParts),
    Index(Index),
}

#[derive(Debug, Deserialize)]
pub(crate) struct ImageParts {
    pub(crate) config: Descriptor,
    pub(crate) layers: Vec<Descriptor>,
}

/// Reads a manifest or an index, and what it is if it does not say so.
pub(crate) fn document(bytes: &[u8]) -> Result<(Document, String), ReadError> {
    let value: Value = json(bytes, "manifest")?;
    let said = value["mediaType"].as_str().unwrap_or_default().to_owned();
    if value["schemaVersion"] == 1 || said.contains("docker.distribution.manifest.v1") {
        return Err(ReadError::Schema1);
    }
    let damaged = |error: serde_json::Error| ReadError::Damaged {
        what: "manifest",
        reason: error.to_string(),
    };
    if value.get("manifests").is_some() {
        let index = serde_json::from_value(value).map_err(damaged)?;
        return Ok((Document::Index(index), said));
    }
    let parts: ImageParts = serde_json::from_value(value).map_err(damaged)?;
    // Before any of them is looked for.
    if parts.layers.len() > LAYERS_MAX {
        return Err(ReadError::TooManyLayers(LAYERS_MAX));
    }
    let said = if said.is_empty() {
        MediaType::ImageManifest.to_string()
    } else {
        said
    };
    Ok((Document::Image(parts), said))
}

fn open_layout(
    store: &Store,
    selected: Option<&Selected>,
    wanted: Wanted<'_>,
) -> Result<StoredImage, ReadError> {
    let all: Index = json(&store.read_small("index.json")?, "index")?;
    let mut index = match selected {
        Some(selected) => all.selected(selected)?,
        None => without_artifacts(all, store),
    };
    let mut annotations = BTreeMap::new();
    let mut others = Vec::new();
    for _ in 0..INDEXES_MAX {
        let chosen = choose(&index, wanted)?;
        let descriptor = chosen.descriptor;
        if annotations.is_empty() {
            annotations = descriptor.annotations.clone().unwrap_or_default();
        }
        others.extend(chosen.others);
        let blob = small(store, &descriptor.digest, wanted)?;
        let (found, media_type) = document(&blob.bytes()?)?;
        let parts = match found {
            Document::Index(inner) => {
                index = inner;
                continue;
            }
            Document::Image(parts) => parts,
        };
        if !matches!(wanted, Wanted::First) {
            check_types(&parts)?;
        }
        let configuration = small(store, &parts.config.digest, wanted)?;
        let layers = parts.layers.iter().map(|layer| {
            let stored = store.part(&blob_path(&layer.digest)?)?;
            stored_layer(layer, stored, wanted)
        });
        let mut image = StoredImage {
            form: if store.has("manifest.json") {
                Form::Both
            } else {
                Form::Oci
            },
            manifest: Some(Manifest { media_type, blob }),
            layers: layers.collect::<Result<_, _>>()?,
            names: if store.has("manifest.json") {
                docker_names(store, configuration.hash())?
            } else {
                Vec::new()
            },
            configuration,
            annotations,
            others,
        };
        finish(&mut image, wanted)?;
        return Ok(image);
    }
    Err(ReadError::LinkLoop("index.json".to_owned()))
}

/// Leaves out what belongs to an image and is none, unless nothing else is there. Only its manifest tells for certain.
fn without_artifacts(all: Index, store: &Store) -> Index {
    let is_artifact = |digest: &str| {
        let manifest = blob_path(digest)
            .and_then(|path| store.read_small(&path))
            .and_then(|bytes| json::<Value>(&bytes, "manifest"));
        manifest.is_ok_and(|manifest| is_artifact(&manifest))
    };
    // Each is read once, however often it is listed.
    let digests: BTreeSet<&String> = all.manifests.iter().map(|listed| &listed.digest).collect();
    let artifacts: BTreeSet<&String> = digests
        .into_iter()
        .filter(|digest| is_artifact(digest))
        .collect();
    let images = all
        .manifests
        .iter()
        .filter(|listed| !artifacts.contains(&listed.digest));
    let manifests: Vec<Descriptor> = images.cloned().collect();
    if manifests.is_empty() {
        all
    } else {
        Index { manifests }
    }
}

/// A layer of a manifest, whose bytes are there.
pub(crate) fn stored_layer(
    layer: &Descriptor,
    stored: Region,
    wanted: Wanted<'_>,
) -> Result<StoredLayer, ReadError> {
    let digest = digest(&layer.digest);
    Ok(StoredLayer {
        media_type: Some(MediaType::from(layer.media_type.as_str())),
        stored,
        digest: match wanted {
            Wanted::First => digest.ok(),
            Wanted::TheOnly | Wanted::For(_) => Some(digest?),
        },
        diff_id: None,
    })
}

#[derive(Deserialize)]
struct DockerImage {
    #[serde(rename = "Config")]
    config: String,
    #[serde(rename = "Layers")]
    layers: Vec<String>,
    #[serde(rename = "RepoTags")]
    repo_tags: Option<Vec<String>>,
}

impl DockerImage {
    fn names(&self) -> impl Iterator<Item = &String> {
        self.repo_tags.iter().flatten()
    }
}

/// The image of that name, or the first.
fn docker_image(store: &Store, selected: Option<&Selected>) -> Result<DockerImage, ReadError> {
    let images = docker_images(store)?;
    let all = images.iter().flat_map(DockerImage::names);
    let there = all.map(|name| format!(":{name}")).collect();
    let mut images = images.into_iter();
    match selected {
        None => {
            let first = images.next();
            first.ok_or_else(|| ReadError::Missing("an image".to_owned()))
        }
        Some(selected) => {
            let is_it = |image: &DockerImage| image.names().any(|name| selected.is_called(name));
            let (Selected::Name(wanted) | Selected::Digest(wanted)) = selected;
            images.find(is_it).ok_or_else(|| ReadError::NoSuchImage {
                wanted: wanted.clone(),
                there,
            })
        }
    }
}

/// What `docker save` calls the image with this configuration.
fn docker_names(store: &Store, configuration: &str) -> Result<Vec<String>, ReadError> {
    let mut images = docker_images(store)?.into_iter();
    let image = images.find(|image| image.config.contains(configuration));
    Ok(image.and_then(|image| image.repo_tags).unwrap_or_default())
}

fn docker_images(store: &Store) -> Result<Vec<DockerImage>, ReadError> {
    json(&store.read_small("manifest.json")?, "manifest")
}

fn open_docker(
    store: &Store,
    selected: Option<&Selected>,
    wanted: Wanted<'_>,
) -> Result<StoredImage, ReadError> {
    let images = docker_images(store)?;
    if images.len() > 1 && selected.is_none() && !matches!(wanted, Wanted::First) {
        let names = images
            .iter()
            .map(|image| image.names().next())
            .map(|name| format!(":{}", name.map_or("<no name>", String::as_str)));
        return Err(ReadError::SeveralImages(names.collect()));
    }
    let image = docker_image(store, selected)?;
    let layers = image.layers.iter().map(|name| {
        Ok(StoredLayer {
            media_type: None,
            stored: store.part(name)?,
            digest: None,
            diff_id: None,
        })
    });
    let mut stored = StoredImage {
        form: Form::Docker,
        manifest: None,
        configuration: Blob::of_bytes(store.read_small(&image.config)?),
        layers: layers.collect::<Result<_, ReadError>>()?,
        names: image.repo_tags.unwrap_or_default(),
        annotations: BTreeMap::new(),
        others: Vec::new(),
    };
    finish(&mut stored, wanted)?;
    Ok(stored)
}

/// Adds what the configuration says.
pub(crate) fn finish(image: &mut StoredImage, wanted: Wanted<'_>) -> Result<(), ReadError> {
    if image.layers.len() > LAYERS_MAX {
        return Err(ReadError::TooManyLayers(LAYERS_MAX));
    }
    if matches!(wanted, Wanted::First) {
        return Ok(()); // who only looks can do without
    }
    let settings = image.settings()?;
    let damaged = |reason: String| ReadError::Damaged {
        what: "configuration",
        reason,
    };
    let os = settings["os"].as_str().unwrap_or("linux");
    if os != "linux" {
        return Err(ReadError::NoPlatform);
    }
    let architecture = settings["architecture"].as_str().unwrap_or_default();
    if let Wanted::For(platform) = wanted
        && architecture != platform.architecture
    {
        return Err(ReadError::OtherPlatform {
            wanted: platform.to_string(),
            there: vec![format!("linux/{architecture}")],
        });
    }
    let diff_ids: Vec<&str> = settings["rootfs"]["diff_ids"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if diff_ids.len() != image.layers.len() {
        return Err(damaged(format!(
            "it names {} layers, and there are {}",
            diff_ids.len(),
            image.layers.len()
        )));
    }
    for (layer, diff_id) in image.layers.iter_mut().zip(diff_ids) {
        layer.diff_id = Some(digest(diff_id)?);
    }
    Ok(())
}

/// Refuses what reheap would only pass on without knowing what it is.
pub(crate) fn check_types(parts: &ImageParts) -> Result<(), ReadError> {
    const LAYERS: [&str; 8] = [
        "application/vnd.oci.image.layer.v1.tar",
        "application/vnd.oci.image.layer.v1.tar+gzip",
        "application/vnd.oci.image.layer.v1.tar+zstd",
        "application/vnd.oci.image.layer.nondistributable.v1.tar",
        "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
        "application/vnd.oci.image.layer.nondistributable.v1.tar+zstd",
        "application/vnd.docker.image.rootfs.diff.tar.gzip",
        "application/vnd.docker.image.rootfs.diff.tar",
    ];
    let unknown =
        |media_type: &str| ReadError::UnknownMediaType(media_type.escape_debug().to_string());
    if !CONFIGURATIONS.contains(&parts.config.media_type.as_str()) {
        return Err(unknown(&parts.config.media_type));
    }
    for layer in &parts.layers {
        match layer.media_type.as_str() {
            known if LAYERS.contains(&known) => {}
            encrypted if encrypted.ends_with("+encrypted") => return Err(ReadError::Encrypted),
            other => return Err(unknown(other)),
        }
    }
    Ok(())
}

fn small(store: &Store, name: &str, wanted: Wanted<'_>) -> Result<Blob, ReadError> {
    let path = blob_path(name)?;
    let size = store.part(&path)?.size_bytes();
    if size > SMALL_BYTES_MAX {
        return Err(ReadError::Damaged {
            what: "manifest",
            reason: format!("it has {size} bytes"),
        });
    }
    let bytes = store.read_small(&path)?;
    match wanted {
        Wanted::First => Ok(Blob::of_bytes(bytes)), // who only looks can do without
        Wanted::TheOnly | Wanted::For(_) => checked(bytes, name),
    }
}

/// Bytes that are what their digest says.
pub(crate) fn checked(bytes: Vec<u8>, expected: &str) -> Result<Blob, ReadError> {
    let blob = Blob::of_bytes(bytes);
    if blob.digest().as_ref() == expected || !expected.starts_with("sha256:") {
        Ok(blob)
    } else {
        Err(ReadError::Digest {
            expected: expected.to_owned(),
            found: blob.digest().to_string(),
        })
    }
}

fn digest(text: &str) -> Result<Digest, ReadError> {
    let digest = Digest::from_str(text)
        .ok()
        .filter(|_| text.starts_with("sha256:"));
    digest.ok_or_else(|| damaged_digest(text))
}

fn damaged_digest(text: &str) -> ReadError {
    ReadError::Damaged {
        what: "digest",
        reason: format!("`{}`", text.escape_debug()),
    }
}

/// The name of the file that holds the blob with that digest.
fn blob_path(digest: &str) -> Result<String, ReadError> {
    let damaged = || damaged_digest(digest);
    let (algorithm, hash) = digest.split_once(':').ok_or_else(damaged)?;
    let is_plain = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric());
    if is_plain(algorithm) && is_plain(hash) {
        Ok(format!("blobs/{algorithm}/{hash}"))
    } else {
        Err(damaged())
    }
}

pub(crate) fn json<T: serde::de::DeserializeOwned>(
    bytes: &[u8],
    what: &'static str,
) -> Result<T, ReadError> {
    serde_json::from_slice(bytes).map_err(|error| ReadError::Damaged {
        what,
        reason: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_cannot_name_a_file_outside_of_the_image() {
        assert_eq!(blob_path("sha256:abc123").unwrap(), "blobs/sha256/abc123");
        for digest in [
            "sha256:../../etc/passwd",
            "../x:1",
            "sha256",
            "sha256:",
            ":a",
        ] {
            assert!(blob_path(digest).is_err(), "{digest}");
        }
    }
}
