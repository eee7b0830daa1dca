//! What of an OCI layout goes to a registry, and in which order: a registry refuses a manifest whose parts it lacks.

use crate::Part;
use crate::blob::Blob;
use crate::read::{self, Document, ReadError};
use std::collections::{BTreeMap, BTreeSet};

/// What of a layout goes to a registry, in this order.
pub(super) struct Plan {
    pub(super) blobs: BTreeMap<String, Blob>,
    /// Those of the platforms of an index, with their media types.
    pub(super) manifests: Vec<(String, Blob)>,
    /// What the tag names.
    pub(super) top: (String, Blob),
}

impl Plan {
    pub(super) fn of_layout(parts: &[Part]) -> Result<Self, ReadError> {
        let by_path: BTreeMap<&str, &Blob> = parts
            .iter()
            .map(|part| (part.path.as_str(), &part.blob))
            .collect();
        let at = |path: String| {
            let blob = by_path.get(path.as_str()).copied();
            blob.ok_or(ReadError::Missing(path))
        };
        let of_digest = |digest: &str| at(format!("blobs/{}", digest.replacen(':', "/", 1)));
        let index = at("index.json".to_owned())?.bytes()?;
        let (Document::Index(index), _) = read::document(&index)? else {
            return Err(ReadError::Missing("an index".to_owned()));
        };
        let [only] = index.manifests.as_slice() else {
            return Err(ReadError::Missing("a single image".to_owned()));
        };
        let top = of_digest(&only.digest)?;
        let mut manifests = Vec::new();
        let (images, top_type) = match read::document(&top.bytes()?)? {
            (Document::Image(parts), media_type) => (vec![parts], media_type),
            (Document::Index(inner), media_type) => {
                let mut images = Vec::new();
                for manifest in inner.manifests {
                    let blob = of_digest(&manifest.digest)?;
                    if let (Document::Image(parts), media_type) = read::document(&blob.bytes()?)? {
                        images.push(parts);
                        manifests.push((media_type, blob.clone()));
                    }
                }
                (images, media_type)
            }
        };
        let mut blobs = BTreeMap::new();
        let all = images
            .iter()
            .flat_map(|image| image.layers.iter().chain([&image.config]));
        let digests: BTreeSet<&str> = all.map(|named| named.digest.as_str()).collect();
        for digest in digests {
            blobs.insert(digest.to_owned(), of_digest(digest)?.clone());
        }
        Ok(Self {
            blobs,
            manifests,
            top: (top_type, top.clone()),
        })
    }
}
