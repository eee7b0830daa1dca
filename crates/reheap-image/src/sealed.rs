//! An image whose every byte is settled, because its digest is its name; it can be stored in any form.
//!
//! [`crate::oci`] and [`crate::docker`] make a manifest and a configuration from values. An image that somebody else made
//! must keep its own, to the byte.

use crate::blob::Blob;
use crate::read::{Form, Manifest};
use crate::{Part, Platform, json};
use oci_spec::image::{ANNOTATION_REF_NAME, MediaType};
use serde_json::json as value;
use std::collections::BTreeMap;

/// The whole name, for engines that load the layout (containerd and podman read it).
const NAME: &str = "io.containerd.image.name";

/// An image whose every byte is settled.
#[derive(Debug, Clone)]
pub struct Sealed {
    /// What runs it.
    pub platform: Platform,
    /// Its manifest.
    pub manifest: Manifest,
    /// Its configuration.
    pub configuration: Blob,
    /// How each layer is stored, and its bytes; the lowest first.
    pub layers: Vec<(MediaType, Blob)>,
    /// What it is called: `repository:tag`.
    pub names: Vec<String>,
    /// What an index says about it.
    pub annotations: BTreeMap<String, String>,
}

impl Sealed {
    /// Its files.
    pub fn parts(&self, form: Form) -> Vec<Part> {
        match form {
            Form::Oci => self.layout(),
            Form::Docker => {
                self.archive(|blob, media_type| format!("{}{}", blob.hash(), ending(media_type)))
            }
            Form::Both => {
                let mut parts = self.layout();
                let archive = self.archive(|blob, _| blob_path(blob));
                parts.extend(
                    archive
                        .into_iter()
                        .filter(|part| part.path == "manifest.json"),
                );
                parts
            }
        }
    }

    fn layout(&self) -> Vec<Part> {
        let mut annotations = self.annotations.clone();
        if let (true, Some(name)) = (annotations.is_empty(), self.names.first()) {
            let tag = name.rsplit_once(':').map_or("latest", |(_, tag)| tag);
            annotations.insert(ANNOTATION_REF_NAME.to_owned(), tag.to_owned());
            annotations.insert(NAME.to_owned(), name.clone());
        }
        let manifest = &self.manifest.blob;
        let mut entry = descriptor(&self.manifest.media_type, manifest);
        let Platform {
            architecture,
            variant,
        } = &self.platform;
        entry["platform"] = value!({"architecture": architecture, "os": "linux"});
        if let Some(variant) = variant {
            entry["platform"]["variant"] = variant.as_str().into();
        }
        if !annotations.is_empty() {
            entry["annotations"] = value!(annotations);
        }
        let index = value!({
            "schemaVersion": 2,
            "mediaType": MediaType::ImageIndex.to_string(),
            "manifests": [entry],
        });
        let mut parts = vec![
            part("oci-layout", json(&value!({"imageLayoutVersion": "1.0.0"}))),
            part("index.json", json(&index)),
        ];
        let layers = self.layers.iter().map(|(_, blob)| blob);
        let blobs = [manifest, &self.configuration].into_iter().chain(layers);
        // Two layers with the same contents are one file.
        let blobs: BTreeMap<String, &Blob> = blobs.map(|blob| (blob_path(blob), blob)).collect();
        parts.extend(blobs.into_iter().map(|(path, blob)| Part {
            path,
            blob: blob.clone(),
        }));
        parts
    }

    fn archive(&self, path: impl Fn(&Blob, &MediaType) -> String) -> Vec<Part> {
        let configuration = match self.layers.first() {
            Some((media_type, blob)) if path(blob, media_type) == blob_path(blob) => {
                blob_path(&self.configuration)
            }
            _ => format!("{}.json", self.configuration.hash()),
        };
        let layers: Vec<(String, &Blob)> = self
            .layers
            .iter()
            .map(|(kind, blob)| (path(blob, kind), blob))
            .collect();
        let paths: Vec<&str> = layers.iter().map(|(path, _)| path.as_str()).collect();
        let manifest = value!([{
            "Config": configuration,
            "Layers": paths,
            "RepoTags": self.names,
        }]);
        let mut parts = vec![
            part("manifest.json", json(&manifest)),
            Part {
                path: configuration,
                blob: self.configuration.clone(),
            },
        ];
        let blobs: BTreeMap<String, &Blob> = layers.into_iter().collect();
        parts.extend(blobs.into_iter().map(|(path, blob)| Part {
            path,
            blob: blob.clone(),
        }));
        parts
    }
}

/// How a manifest names a blob.
pub(crate) fn descriptor(media_type: &str, blob: &Blob) -> serde_json::Value {
    value!({
        "mediaType": media_type,
        "digest": blob.digest().as_ref(),
        "size": blob.size_bytes(),
    })
}

fn part(path: &str, bytes: Vec<u8>) -> Part {
    Part {
        path: path.to_owned(),
        blob: Blob::of_bytes(bytes),
    }
}

fn blob_path(blob: &Blob) -> String {
    format!("blobs/sha256/{}", blob.hash())
}

fn ending(media_type: &MediaType) -> &'static str {
    let media_type = media_type.to_string();
    match () {
        () if media_type.ends_with("gzip") => ".tar.gz",
        () if media_type.ends_with("zstd") => ".tar.zst",
        () => ".tar",
    }
}
