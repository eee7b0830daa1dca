//! Puts one layer on an image of somebody else, and takes it off again so that the image has its old digest.
//!
//! An image's name is the digest of its manifest's bytes, which nobody can make again from what they mean: order, blanks
//! and unknown fields count. So the layer holds a record with the manifest and the configuration as they were. An
//! annotation or a label could hold them as well, but Docker drops annotations, and labels would be in the way of
//! everybody who lists them; the files of a layer survive every engine and registry. Docker also compresses layers again,
//! and then no manifest of the old digests fits. Then the record still gives back the configuration, and with it the
//! image's ID.

use crate::blob::Blob;
use crate::compression::compression_of;
use crate::error::ReadError;
use crate::layer::{self, Compression, Entry, Layer};
use crate::read::{self, Document, Manifest, StoredImage};
use crate::sealed::{self, Sealed};
use crate::tree::Tree;
use crate::workplace::Workplace;
use crate::{Platform, json};
use oci_spec::image::{Digest, MediaType};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json as value};
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

/// Where everything is that reheap adds.
pub const DIRECTORY: &str = "/usr/lib/reheap";
const RECORD: &str = "original-image.json";
/// What Docker calls a layer that is compressed with gzip.
const OF_DOCKER: &str = "application/vnd.docker.image.rootfs.diff.tar.gzip";
/// More than two manifests and configurations.
const RECORD_BYTES_MAX: u64 = 64 << 20;

/// The image before reheap added something.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    version: u32,
    /// What reheap added.
    pub added: String,
    media_type: Option<String>,
    manifest: Option<String>,
    configuration: String,
}

/// An image all of whose bytes were read.
#[derive(Debug)]
pub struct Checked {
    /// Its parts.
    pub image: StoredImage,
    /// Its files.
    pub tree: Tree,
    /// Its configuration.
    pub settings: Value,
    layers: Vec<(MediaType, Blob)>,
    diff_ids: Vec<Digest>,
}

/// How much of the old image came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restored {
    /// All.
    Manifest,
    /// Its ID, but layers were compressed again since, or its manifest was not known.
    OnlyId,
}

/// What to add.
#[derive(Debug)]
pub struct Addition {
    /// What it is, in words.
    pub title: String,
    /// The command that adds it, for the history.
    pub command: String,
    /// By path below [`DIRECTORY`].
    pub files: BTreeMap<PathBuf, Entry>,
    /// Variables, and their new values.
    pub environment: Vec<(String, String)>,
    /// Said in the configuration, and in the manifest if it is OCI's.
    pub labels: BTreeMap<String, String>,
    /// How the layer is compressed.
    pub compression: Compression,
    /// The time of everything, in seconds since 1970.
    pub time: u64,
}

impl Checked {
    /// Reads all of an image.
    ///
    /// # Errors
    /// When something is not what its digest says.
    pub fn new(image: StoredImage, workplace: &Workplace<'_>) -> Result<Self, ReadError> {
        let (tree, digests) = Tree::check(&image.layers, workplace)?;
        let settings = image.settings()?;
        let mut layers = Vec::new();
        for (layer, digests) in image.layers.iter().zip(&digests) {
            let media_type = match &layer.media_type {
                Some(media_type) => media_type.clone(),
                None => media_type_of(&layer.stored.beginning(4)?),
            };
            let blob = layer.stored.clone().named(digests.stored.clone());
            layers.push((media_type, blob));
        }
        Ok(Self {
            image,
            tree,
            settings,
            layers,
            diff_ids: digests.into_iter().map(|layer| layer.diff_id).collect(),
        })
    }

    /// What it runs on.
    pub fn platform(&self) -> Platform {
        let text = |key: &str| self.settings[key].as_str().map(str::to_owned);
        Platform {
            architecture: text("architecture").unwrap_or_default(),
            variant: text("variant"),
        }
    }

    /// The image before reheap added something; none if it did not.
    ///
    /// # Errors
    /// When the record is damaged, or other layers are on top of it.
    pub fn record(&self, workplace: &Workplace<'_>) -> Result<Option<Record>, ReadError> {
        let path = Path::new(DIRECTORY).join(RECORD);
        let Some(path) = self.tree.resolve(&path)? else {
            return Ok(None);
        };
        if self.tree.layer_of(&path) != Some(self.tree.len() - 1) {
            return Err(ReadError::NotOnTop);
        }
        let Some(found) = self.tree.open(&path, workplace)? else {
            return Ok(None);
        };
        let region = crate::blob::Region::new(found.file.into(), found.start, found.size_bytes)?;
        let mut bytes = Vec::new();
        region
            .reader()
            .take(RECORD_BYTES_MAX)
            .read_to_end(&mut bytes)?;
        read::json(&bytes, "record of reheap").map(Some)
    }

    /// The image of a record, without the topmost layer.
    ///
    /// # Errors
    /// When the record is one of another image.
    pub fn restore(mut self, record: &Record) -> Result<(Self, Restored), ReadError> {
        self.tree.pop();
        self.layers.pop();
        self.diff_ids.pop();
        self.image.layers.pop();
        self.image.configuration = Blob::of_bytes(record.configuration.clone().into_bytes());
        self.settings = self.image.settings()?;
        let named = self.settings["rootfs"]["diff_ids"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str);
        if !named.eq(self.diff_ids.iter().map(AsRef::as_ref)) {
            return Err(ReadError::Damaged {
                what: "record of reheap",
                reason: "it is of another image".to_owned(),
            });
        }
        self.image.manifest = record.original(&self.layers)?;
        let restored = match self.image.manifest {
            Some(_) => Restored::Manifest,
            None => Restored::OnlyId,
        };
        Ok((self, restored))
    }

    /// As it is.
    pub fn seal(&self) -> Sealed {
        let manifest = self.image.manifest.clone();
        Sealed {
            platform: self.platform(),
            manifest: manifest
                .unwrap_or_else(|| new_manifest(&self.image.configuration, &self.layers)),
            configuration: self.image.configuration.clone(),
            layers: self.layers.clone(),
            names: self.image.names.clone(),
            annotations: self.image.annotations.clone(),
        }
    }

    /// With one more layer.
    ///
    /// # Errors
    /// When the layer cannot be written, or the image is not one that can have another.
    pub fn add(&self, addition: &Addition, workplace: &Workplace<'_>) -> Result<Sealed, ReadError> {
        let manifest = self.image.manifest.as_ref();
        let is_dockers = manifest.is_some_and(|manifest| manifest.media_type.contains("docker"));
        let compression = if is_dockers {
            Compression::Gzip
        } else {
            addition.compression
        };
        let entries = self.entries(addition)?;
        let title = &addition.title;
        let file = workplace.file()?;
        let layer = layer::write(title, &entries, compression, addition.time, file, workplace)?;
        let mut settings = self.settings_with(addition)?;
        append_layer(&mut settings, &layer, &addition.command)?;
        self.with_layers(&[layer], &settings, &addition.labels)
    }

    /// With more layers, a new configuration that names them, and annotations if the manifest is OCI's.
    ///
    /// # Errors
    /// When the image is not one that can have more.
    pub(crate) fn with_layers(
        &self,
        layers: &[Layer],
        settings: &Value,
        annotations: &BTreeMap<String, String>,
    ) -> Result<Sealed, ReadError> {
        let mut sealed = self.seal();
        let old = self.image.manifest.as_ref();
        let is_dockers = old.is_some_and(|manifest| manifest.media_type.contains("docker"));
        for layer in layers {
            let media_type = match (is_dockers, &layer.media_type) {
                (true, MediaType::ImageLayerGzip) => MediaType::from(OF_DOCKER),
                (_, other) => other.clone(),
            };
            sealed.layers.push((media_type, layer.blob.clone()));
        }
        sealed.configuration = Blob::of_bytes(json(settings));
        let Some(old) = old else {
            sealed.manifest = new_manifest(&sealed.configuration, &sealed.layers);
            return Ok(sealed);
        };
        let mut changed: Value = read::json(&old.blob.bytes()?, "manifest")?;
        let configuration = &sealed.configuration;
        let named = changed
            .get_mut("config")
            .and_then(Value::as_object_mut)
            .ok_or_else(|| damaged("manifest", "it names no configuration"))?;
        named.insert("digest".to_owned(), configuration.digest().as_ref().into());
        named.insert("size".to_owned(), configuration.size_bytes().into());
        let list = changed
            .get_mut("layers")
            .and_then(Value::as_array_mut)
            .ok_or_else(|| damaged("manifest", "it has no list of layers"))?;
        for (media_type, blob) in &sealed.layers[self.layers.len()..] {
            list.push(sealed::descriptor(media_type.as_ref(), blob));
        }
        if !is_dockers {
            extend(&mut changed, "annotations", annotations)?;
        }
        sealed.manifest = Manifest {
            media_type: old.media_type.clone(),
            blob: Blob::of_bytes(json(&changed)),
        };
        Ok(sealed)
    }

    /// The files of the layer by their real place: naming a link as a directory would replace it.
    fn entries(&self, addition: &Addition) -> Result<BTreeMap<PathBuf, Entry>, ReadError> {
        let record = Entry::bytes(json(&self.as_record(&addition.title)?));
        let named = addition
            .files
            .iter()
            .map(|(path, entry)| (path.clone(), entry.clone()));
        let mut entries = BTreeMap::new();
        for (path, entry) in named.chain([(PathBuf::from(RECORD), record)]) {
            let path = Path::new(DIRECTORY).join(path);
            let directory = self.tree.follow(path.parent().unwrap_or(Path::new("/")))?;
            let missing = directory
                .ancestors()
                .take_while(|path| !self.tree.is_directory(path));
            for missing in missing {
                entries.insert(below_root(missing), Entry::directory());
            }
            let name = path.file_name().unwrap_or_default();
            entries.insert(below_root(&directory.join(name)), entry);
        }
        Ok(entries)
    }

    fn as_record(&self, added: &str) -> Result<Record, ReadError> {
        let text = |blob: &Blob, what| {
            let text = String::from_utf8(blob.bytes()?);
            text.map_err(|_| damaged(what, "it is not UTF-8"))
        };
        let manifest = self.image.manifest.as_ref();
        Ok(Record {
            version: 1,
            added: added.to_owned(),
            media_type: manifest.map(|manifest| manifest.media_type.clone()),
            manifest: manifest
                .map(|manifest| text(&manifest.blob, "manifest"))
                .transpose()?,
            configuration: text(&self.image.configuration, "configuration")?,
        })
    }

    fn settings_with(&self, addition: &Addition) -> Result<Value, ReadError> {
        let mut settings = self.settings.clone();
        let config = config_of(&mut settings)?;
        extend(config, "Labels", &addition.labels)?;
        set_variables(config, &addition.environment)?;
        Ok(settings)
    }
}

impl Record {
    /// The manifest, if it names these layers.
    fn original(&self, layers: &[(MediaType, Blob)]) -> Result<Option<Manifest>, ReadError> {
        let Some(manifest) = &self.manifest else {
            return Ok(None);
        };
        let (Document::Image(parts), _) = read::document(manifest.as_bytes())? else {
            return Err(damaged("record of reheap", "its manifest is an index"));
        };
        let named = parts.layers.iter().map(|layer| layer.digest.as_str());
        let fits = named.eq(layers.iter().map(|(_, blob)| blob.digest().as_ref()));
        Ok(fits.then(|| Manifest {
            media_type: self.media_type.clone().unwrap_or_default(),
            blob: Blob::of_bytes(manifest.clone().into_bytes()),
        }))
    }
}

/// The settings of a configuration, which may have none yet.
pub(crate) fn config_of(settings: &mut Value) -> Result<&mut Value, ReadError> {
    let object = settings
        .as_object_mut()
        .ok_or_else(|| damaged("configuration", "it is no object"))?;
    let config = object.entry("config").or_insert(Value::Null);
    if config.is_null() {
        *config = value!({});
    }
    if config.is_object() {
        Ok(config)
    } else {
        Err(damaged("configuration", "its `config` is no object"))
    }
}

/// Sets variables, each in the first place that it has.
pub(crate) fn set_variables(
    config: &mut Value,
    variables: &[(String, String)],
) -> Result<(), ReadError> {
    let mut lines = environment(config);
    for (name, value) in variables {
        let line = format!("{name}={value}");
        let is_it = |line: &String| line.split('=').next() == Some(name);
        let place = lines.iter().position(is_it).unwrap_or(lines.len());
        lines.retain(|line| !is_it(line));
        lines.insert(place, line);
    }
    let config = config
        .as_object_mut()
        .ok_or_else(|| damaged("configuration", "its `config` is no object"))?;
    config.insert("Env".to_owned(), value!(lines));
    Ok(())
}

/// Names one more layer.
pub(crate) fn append_layer(
    settings: &mut Value,
    layer: &Layer,
    command: &str,
) -> Result<(), ReadError> {
    let created = settings["created"].clone();
    let diff_ids = settings
        .pointer_mut("/rootfs/diff_ids")
        .and_then(Value::as_array_mut)
        .ok_or_else(|| damaged("configuration", "it has no diff_ids"))?;
    diff_ids.push(layer.diff_id.as_ref().into());
    // A history is for all layers or for none.
    if let Some(history) = settings.get_mut("history").and_then(Value::as_array_mut) {
        let mut step = value!({"created_by": command, "comment": layer.title});
        if created.is_string() {
            step["created"] = created;
        }
        history.push(step);
    }
    Ok(())
}

/// The variables of a `config`.
pub fn environment(config: &Value) -> Vec<String> {
    let lines = config["Env"].as_array().into_iter().flatten();
    lines.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The value of a variable in such lines. If there are several, runtimes and glibc's dynamic linker keep the last one.
pub fn value_of<'a>(environment: &'a [String], name: &str) -> Option<&'a str> {
    let mut lines = environment.iter().rev();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
}

/// Adds to an object in an object.
pub(crate) fn extend(
    value: &mut Value,
    key: &str,
    entries: &BTreeMap<String, String>,
) -> Result<(), ReadError> {
    let no_object = || damaged("configuration", "it has something else than an object");
    let object = value.as_object_mut().ok_or_else(no_object)?;
    let map = object.entry(key).or_insert(Value::Null);
    if map.is_null() {
        *map = value!({});
    }
    let map = map.as_object_mut().ok_or_else(no_object)?;
    let entries = entries.iter();
    map.extend(entries.map(|(key, entry)| (key.clone(), entry.as_str().into())));
    Ok(())
}

/// For an image that had none: `docker save` of any version does not keep it.
fn new_manifest(configuration: &Blob, layers: &[(MediaType, Blob)]) -> Manifest {
    let media_type = MediaType::ImageManifest.to_string();
    let layers = layers
        .iter()
        .map(|(kind, blob)| sealed::descriptor(kind.as_ref(), blob));
    let manifest = value!({
        "schemaVersion": 2,
        "mediaType": media_type,
        "config": sealed::descriptor(MediaType::ImageConfig.as_ref(), configuration),
        "layers": layers.collect::<Vec<_>>(),
    });
    Manifest {
        media_type,
        blob: Blob::of_bytes(json(&manifest)),
    }
}

fn media_type_of(first_bytes: &[u8]) -> MediaType {
    match compression_of(first_bytes) {
        Some(Compression::Gzip) => MediaType::ImageLayerGzip,
        Some(Compression::Zstd) => MediaType::ImageLayerZstd,
        None => MediaType::ImageLayer,
    }
}

fn below_root(path: &Path) -> PathBuf {
    let names = path
        .components()
        .filter(|component| matches!(component, Component::Normal(_)));
    names.collect()
}

fn damaged(what: &'static str, reason: &str) -> ReadError {
    ReadError::Damaged {
        what,
        reason: reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_variable_that_is_there_twice_the_last_line_counts_and_one_is_left() {
        let mut config = value!({"Env": ["A=1", "AB=x", "B=2", "A=3", "A"]});
        let lines = environment(&config);
        assert_eq!(value_of(&lines, "A"), Some("3"));
        assert_eq!(value_of(&lines, "C"), None);
        let new = [("A", "4"), ("C", "5")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        set_variables(&mut config, &new).unwrap();
        assert_eq!(environment(&config), ["A=4", "AB=x", "B=2", "C=5"]);
    }
}
