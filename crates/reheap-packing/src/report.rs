//! Says what was written: on a terminal and as JSON.

use super::options::Options;
use super::place::Format;
use super::{SBOM, Written};
use reheap_command::ui;
use reheap_image::Image;
use reheap_image::layer::Layer;
use reheap_image::scratch::Recipe;
use reheap_image::sealed::Sealed;
use serde::Serialize;
use serde_json::Value;
use std::fmt::Write as _;

/// What was written.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// The file that was written; `None` if the image was only pushed.
    file: Option<String>,
    pushed_to: Option<String>,
    format: &'static str,
    /// The digest of the manifest, or of the index of several platforms; for Docker the image's ID.
    digest: String,
    size_bytes: u64,
    images: Vec<OfPlatform>,
}

#[derive(Debug, Serialize)]
struct OfPlatform {
    platform: String,
    /// The digest of its configuration.
    id: String,
    manifest: Option<String>,
    entry_point: Value,
    certificates: Option<Certificates>,
    has_sbom: bool,
    layers: Vec<OfLayer>,
}

#[derive(Debug, Serialize)]
struct Certificates {
    count: usize,
    /// The file that they are from; none for Mozilla's, which reheap brings.
    from: Option<String>,
}

#[derive(Debug, Serialize)]
struct OfLayer {
    contents: String,
    media_type: String,
    digest: String,
    diff_id: String,
    size_bytes: u64,
}

impl Report {
    pub(super) fn new(
        recipes: &[Recipe],
        images: &[Image],
        options: &Options,
        written: Written,
    ) -> Self {
        let mut manifests = written.manifests.into_iter();
        let of_platform = |(recipe, image)| OfPlatform::new(recipe, image, manifests.next());
        Self {
            file: options.place.file(),
            pushed_to: written.pushed.and(options.place.pushed_to()),
            format: match options.format {
                Format::Oci => "oci",
                Format::Docker => "docker",
            },
            digest: written.digest,
            size_bytes: written.size_bytes,
            images: recipes.iter().zip(images).map(of_platform).collect(),
        }
    }

    /// The report about programs on top of another image.
    pub(super) fn on_base(
        recipe: &Recipe,
        sealed: &Sealed,
        added: &[Layer],
        options: &Options,
        mut written: Written,
    ) -> Self {
        let manifest = written.manifests.pop();
        let mut report = Self::new(&[], &[], options, written);
        report
            .images
            .push(OfPlatform::on_base(recipe, sealed, added, manifest));
        report
    }

    pub(super) fn json(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// A line for the image, and one for each layer.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for place in self.file.iter().chain(&self.pushed_to) {
            let place = ui::printable(place);
            line(
                &mut text,
                &format!("{place}: {}, {}", size(self.size_bytes), self.digest),
            );
        }
        for image in &self.images {
            let entry_point = image.entry_point.as_array().into_iter().flatten();
            let words: Vec<&str> = entry_point.filter_map(Value::as_str).collect();
            let sbom = if image.has_sbom {
                ""
            } else {
                ", without an SBOM"
            };
            let starts = ui::printable(words.join(" "));
            line(
                &mut text,
                &format!("  {}: starts {starts}{sbom}", image.platform),
            );
            for layer in &image.layers {
                let contents = ui::printable(&layer.contents);
                line(
                    &mut text,
                    &format!("  {:>9}  {contents}", size(layer.size_bytes)),
                );
            }
        }
        text
    }
}

impl OfPlatform {
    fn new(recipe: &Recipe, image: &Image, manifest: Option<String>) -> Self {
        let certificates = recipe.certificates.as_ref().map(|found| Certificates {
            count: found.count,
            from: found.from.as_ref().map(|path| path.display().to_string()),
        });
        let layers = image.layers.iter().map(|layer| OfLayer {
            contents: layer.title.clone(),
            media_type: layer.media_type.to_string(),
            digest: layer.blob.digest().to_string(),
            diff_id: layer.diff_id.to_string(),
            size_bytes: layer.blob.size_bytes(),
        });
        Self {
            platform: image.platform.to_string(),
            id: image.configuration_file().digest().to_string(),
            manifest,
            entry_point: image.configuration["config"]["Entrypoint"].clone(),
            certificates,
            has_sbom: image.annotations.contains_key(SBOM),
            layers: layers.collect(),
        }
    }
}

impl OfPlatform {
    fn on_base(
        recipe: &Recipe,
        sealed: &Sealed,
        added: &[Layer],
        manifest: Option<String>,
    ) -> Self {
        let configuration = sealed.configuration.bytes().unwrap_or_default();
        let configuration: Value = serde_json::from_slice(&configuration).unwrap_or_default();
        let of_base = sealed.layers.len() - added.len();
        let layers = sealed.layers.iter().enumerate();
        let layers = layers.map(|(number, (media_type, blob))| OfLayer {
            contents: match number.checked_sub(of_base) {
                Some(own) => added[own].title.clone(),
                None => "base".to_owned(),
            },
            media_type: media_type.to_string(),
            digest: blob.digest().to_string(),
            diff_id: configuration["rootfs"]["diff_ids"][number]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            size_bytes: blob.size_bytes(),
        });
        Self {
            platform: sealed.platform.to_string(),
            id: sealed.configuration.digest().to_string(),
            manifest,
            entry_point: configuration["config"]["Entrypoint"].clone(),
            certificates: None,
            has_sbom: recipe.annotations.contains_key(SBOM),
            layers: layers.collect(),
        }
    }
}

pub(super) fn line(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("a string takes everything");
}

/// A size in the units that registries charge in.
pub(super) fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}
