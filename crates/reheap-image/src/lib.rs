//! Container images as values, made without a container engine.
//!
//! An image is a configuration, layers, and annotations ([`Image`]). A layer is a compressed archive ([`layer`]), named
//! by digests ([`blob`]). [`scratch`] makes an image from programs alone; [`oci`] and [`docker`] say which files it is
//! stored in, and [`destination`] writes these as a directory or an archive.
//!
//! [`read`] reads images of others, [`tree`] finds files in their layers, [`added`] puts a layer on one and takes it off
//! again. [`sealed`] is an image whose bytes are settled, and [`registry`] gets images from a registry and brings them
//! there.
//!
//! The configuration is JSON and not a type. Images of others have fields that no specification names, and whoever
//! changes such an image must keep them: its name is the digest of exactly these bytes. The types of `oci-spec` serve to
//! make a new one. They keep labels in hash maps, so everything is sorted before it is written ([`json`]).
//!
//! This crate is one of its own for the sake of its dependencies: compressors, certificates, and what a registry needs.

pub mod added;
pub mod blob;
pub mod certificates;
mod compression;
pub mod destination;
pub mod docker;
mod error;
mod index;
pub mod layer;
mod members;
pub mod oci;
pub mod read;
pub mod registry;
pub mod sbom;
pub mod scratch;
pub mod sealed;
mod store;
pub mod tree;
mod workplace;

pub use error::ImageError;
pub use oci_spec::image::{Digest, MediaType};
pub use workplace::Workplace;

use layer::Layer;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;

/// An image for one platform.
#[derive(Debug, Clone)]
pub struct Image {
    /// What runs it.
    pub platform: Platform,
    /// How it is run, without `rootfs` and `history`, which follow from the layers.
    pub configuration: Value,
    /// Its files, the lowest layer first.
    pub layers: Vec<Layer>,
    /// What its manifest says about it.
    pub annotations: BTreeMap<String, String>,
}

/// What an image runs on. The operating system is Linux.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Platform {
    /// As OCI spells it: `amd64`.
    pub architecture: String,
    /// Which kind of it: `v8`.
    pub variant: Option<String>,
}

impl Platform {
    /// What this machine runs.
    pub fn of_this_machine() -> Self {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        Self {
            architecture: architecture.to_owned(),
            variant: None,
        }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "linux/{}", self.architecture)?;
        self.variant.iter().try_for_each(|v| write!(f, "/{v}"))
    }
}

impl Image {
    /// The bytes of the configuration, whose digest is the image's ID.
    pub fn configuration_file(&self) -> blob::Blob {
        let mut configuration = self.configuration.clone();
        let created = configuration["created"].clone();
        let layers = self.layers.iter();
        let history = layers.clone().map(|layer| {
            json!({"created": created, "created_by": "reheap image", "comment": layer.title})
        });
        let diff_ids = layers.map(|layer| layer.diff_id.as_ref());
        configuration["history"] = history.collect();
        configuration["rootfs"] =
            json!({"type": "layers", "diff_ids": diff_ids.collect::<Vec<_>>()});
        blob::Blob::of_bytes(json(&configuration))
    }
}

/// A file of an image as it is stored.
#[derive(Debug, Clone)]
pub struct Part {
    /// Where, relative to the image.
    pub path: String,
    /// Its bytes.
    pub blob: blob::Blob,
}

/// JSON with sorted keys.
pub(crate) fn json(value: &impl Serialize) -> Vec<u8> {
    let mut value = serde_json::to_value(value).expect("everything of an image is JSON");
    value.sort_all_objects();
    serde_json::to_vec(&value).expect("a value is JSON")
}
