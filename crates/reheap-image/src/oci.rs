//! The OCI image layout: `oci-layout`, `index.json`, and blobs named by their digest.
//!
//! One image is an entry of the index. Several platforms are an index of their own, as registries have it, and that is
//! the entry. So there is always exactly one, and tools need not be told which. (OCI image specification 1.1, "Image
//! Layout".)

use crate::blob::Blob;
use crate::{Image, Part, Platform, json};
use oci_spec::image::{
    ANNOTATION_REF_NAME, Descriptor, ImageIndex, ImageIndexBuilder, ImageManifest,
    ImageManifestBuilder, MediaType, OciLayoutBuilder, PlatformBuilder,
};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// The tag in the layout: what tools assume when none is given.
const TAG: &str = "latest";
/// The whole name, for engines that load the layout (containerd and podman read it).
const NAME: &str = "io.containerd.image.name";

/// An image in the form in which it is stored.
#[derive(Debug)]
pub struct Layout {
    /// Its files.
    pub parts: Vec<Part>,
    /// The digest of its manifest, or of the index of its platforms.
    pub digest: String,
    /// The digest of each platform's manifest.
    pub manifests: Vec<String>,
}

/// The layout of an image with one or several platforms. The name is that of its repository, without a tag.
pub fn layout(images: &[Image], name: &str) -> Layout {
    let mut blobs = BTreeMap::new();
    let mut manifests = Vec::new();
    for image in images {
        let manifest = manifest(image, &mut blobs);
        let kept = keep(&mut blobs, MediaType::ImageManifest, &manifest);
        manifests.push(for_platform(kept, &image.platform));
    }
    let digests = manifests.iter().map(|d| d.digest().to_string()).collect();
    let mut entry = match manifests.as_slice() {
        [only] => only.clone(),
        _ => {
            let index = index(manifests, images[0].annotations.clone());
            keep(&mut blobs, MediaType::ImageIndex, &index)
        }
    };
    let digest = entry.digest().to_string();
    entry.set_annotations(Some(HashMap::from([
        (ANNOTATION_REF_NAME.to_owned(), TAG.to_owned()),
        (NAME.to_owned(), format!("docker.io/library/{name}:{TAG}")),
    ])));
    let version = OciLayoutBuilder::default()
        .image_layout_version("1.0.0")
        .build()
        .expect("it has all fields");
    let mut parts = vec![
        part("oci-layout", &version),
        part("index.json", &index(vec![entry], BTreeMap::new())),
    ];
    parts.extend(blobs.into_iter().map(|(path, blob)| Part { path, blob }));
    Layout {
        parts,
        digest,
        manifests: digests,
    }
}

fn part(path: &str, contents: &impl Serialize) -> Part {
    let blob = Blob::of_bytes(json(contents));
    Part {
        path: path.to_owned(),
        blob,
    }
}

type Blobs = BTreeMap<String, Blob>;

fn manifest(image: &Image, blobs: &mut Blobs) -> ImageManifest {
    let layers: Vec<Descriptor> = image
        .layers
        .iter()
        .map(|layer| keep_blob(blobs, layer.media_type.clone(), layer.blob.clone()))
        .collect();
    let configuration = image.configuration_file();
    ImageManifestBuilder::default()
        .schema_version(2_u32)
        .media_type(MediaType::ImageManifest)
        .config(keep_blob(blobs, MediaType::ImageConfig, configuration))
        .layers(layers)
        .annotations(HashMap::from_iter(image.annotations.clone()))
        .build()
        .expect("it has all fields")
}

/// What they have in common is said of all of them together, too.
fn index(manifests: Vec<Descriptor>, annotations: BTreeMap<String, String>) -> ImageIndex {
    let mut index = ImageIndexBuilder::default()
        .schema_version(2_u32)
        .media_type(MediaType::ImageIndex)
        .manifests(manifests);
    if !annotations.is_empty() {
        index = index.annotations(HashMap::from_iter(annotations));
    }
    index.build().expect("it has all fields")
}

fn keep(blobs: &mut Blobs, media_type: MediaType, contents: &impl Serialize) -> Descriptor {
    keep_blob(blobs, media_type, Blob::of_bytes(json(contents)))
}

fn keep_blob(blobs: &mut Blobs, media_type: MediaType, blob: Blob) -> Descriptor {
    let descriptor = Descriptor::new(media_type, blob.size_bytes(), blob.digest().clone());
    blobs.insert(format!("blobs/sha256/{}", blob.hash()), blob);
    descriptor
}

/// Says what an image is for.
fn for_platform(mut descriptor: Descriptor, platform: &Platform) -> Descriptor {
    let described = PlatformBuilder::default()
        .os("linux")
        .architecture(platform.architecture.as_str());
    let described = match &platform.variant {
        Some(variant) => described.variant(variant.as_str()),
        None => described,
    };
    descriptor.set_platform(Some(described.build().expect("it has all fields")));
    descriptor
}
