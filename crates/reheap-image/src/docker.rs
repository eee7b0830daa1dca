//! What `docker save` writes and `docker load` reads: `manifest.json`, a configuration, and layers.
//!
//! Docker keeps layers uncompressed there. It has always read compressed ones as well, and they make a small file.
//! `repositories` is for versions before 1.10. A file can hold several images, but it does not say for which platform
//! they are, so it holds one.

use crate::blob::Blob;
use crate::{Image, Part, json};
use oci_spec::image::MediaType;
use serde_json::json as value;

/// The files of an image, which Docker calls by this name when it has loaded it.
pub fn parts(image: &Image, name: &str) -> Vec<Part> {
    let configuration = image.configuration_file();
    let configuration_path = format!("{}.json", configuration.hash());
    let mut layers: Vec<Part> = image
        .layers
        .iter()
        .map(|layer| Part {
            path: format!("{}.{}", layer.blob.hash(), ending(&layer.media_type)),
            blob: layer.blob.clone(),
        })
        .collect();
    let paths: Vec<&str> = layers.iter().map(|layer| layer.path.as_str()).collect();
    let manifest = value!([{
        "Config": configuration_path,
        "Layers": paths,
        "RepoTags": [format!("{name}:latest")],
    }]);
    let mut parts = vec![
        Part {
            path: "manifest.json".to_owned(),
            blob: Blob::of_bytes(json(&manifest)),
        },
        Part {
            path: configuration_path,
            blob: configuration,
        },
    ];
    // Two layers with the same contents are one file.
    layers.sort_by(|one, other| one.path.cmp(&other.path));
    layers.dedup_by(|one, other| one.path == other.path);
    parts.extend(layers);
    parts
}

fn ending(media_type: &MediaType) -> &'static str {
    match media_type {
        MediaType::ImageLayerGzip => "tar.gz",
        MediaType::ImageLayerZstd => "tar.zst",
        _ => "tar",
    }
}
