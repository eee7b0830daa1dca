//! Finds the program that a container image starts, in the image's files and without a container engine.
//!
//! reheap reads two forms: the OCI image layout (`oci-layout`, `index.json`, `blobs/`) and what `docker save` writes
//! (`manifest.json`). Each can be a directory or a tar archive, and the archive can be compressed with gzip. Nothing is
//! unpacked: reheap walks the layers once for their names, then again for the one file. An image is untrusted input, so
//! nothing in it names a file of this machine. reheap looks blobs up only by their digest or by their name within the
//! archive, and follows links inside the image.

mod layers;
mod store;

use crate::opened::Opened;
use crate::program::script::{self, Line};
use layers::Layers;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use store::Store;

/// What a shell searches if an image sets no PATH (OCI runtimes agree with Docker on it).
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// How many scripts may follow each other, as for the kernel.
const SCRIPTS_MAX: usize = 5;
/// An index may lead to another one.
const INDEXES_MAX: usize = 4;

/// Why reheap cannot tell the program of an image.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ContainerError {
    #[error("the image cannot be read: {0}")]
    Io(#[from] std::io::Error),
    #[error("the image's {what} is damaged: {reason}")]
    Damaged { what: &'static str, reason: String },
    #[error("the image lacks `{0}`")]
    Missing(String),
    #[error("the image has no Linux program for any platform")]
    NoPlatform,
    #[error("the image has neither an entry point nor a command")]
    NoEntryPoint,
    #[error("the image's entry point `{0}` is not in it")]
    NotInImage(String),
    #[error("the image has more than {0} files")]
    TooManyFiles(usize),
    #[error("the links of the image hold more than {} MiB", .0 >> 20)]
    TooMuchInLinks(usize),
    #[error("the links of `{0}` lead in a circle")]
    LinkLoop(String),
}

/// The program of an image.
#[derive(Debug)]
pub(crate) struct EntryPoint {
    /// Its path in the image.
    pub(crate) path: PathBuf,
    /// Scripts that lead to it.
    pub(crate) through: Vec<PathBuf>,
    /// It itself, or a copy of it in a file without a name.
    pub(crate) file: Opened,
    /// The environment that the image sets, as `NAME=value`.
    pub(crate) environment: Vec<String>,
}

/// Whether a path holds an image; only its beginning is read.
pub(crate) fn is_image(path: &Path) -> bool {
    Store::is_one(path)
}

/// Reads the program that the image at a path starts.
///
/// # Errors
/// [`ContainerError`]
pub(crate) fn entry_point(path: &Path) -> Result<EntryPoint, ContainerError> {
    let store = Store::open(path)?;
    let (config, layers) = parts(&store)?;
    let settings: Image = json(&store.read_small(&config)?, "configuration")?;
    let settings = settings.config.unwrap_or_default();
    let layers = Layers::read(&store, &layers)?;
    let command = [settings.entrypoint, settings.cmd].into_iter().flatten();
    let command = command
        .flatten()
        .next()
        .ok_or(ContainerError::NoEntryPoint)?;
    let environment = settings.env.unwrap_or_default();
    let path_variable = environment
        .iter()
        .find_map(|line| line.strip_prefix("PATH="));
    let search = Search {
        layers: &layers,
        path: path_variable.unwrap_or(DEFAULT_PATH),
        directory: Path::new(settings.working_dir.as_deref().unwrap_or("/")),
    };
    let mut path = search.find(&command)?;
    let mut through = Vec::new();
    loop {
        let (beginning, file) = layers.open(&store, &path)?;
        let next = match script::read(&beginning) {
            Line::Interpreter(interpreter) => search.find(&interpreter.to_string_lossy())?,
            Line::Env { name, .. } => search.find(&name.to_string_lossy())?,
            Line::Elf | Line::Text | Line::Binary => {
                return Ok(EntryPoint {
                    path,
                    through,
                    file,
                    environment,
                });
            }
        };
        through.push(std::mem::replace(&mut path, next));
        if through.len() > SCRIPTS_MAX {
            return Err(ContainerError::LinkLoop(command));
        }
    }
}

struct Search<'a> {
    layers: &'a Layers,
    path: &'a str,
    directory: &'a Path,
}

impl Search<'_> {
    fn find(&self, command: &str) -> Result<PathBuf, ContainerError> {
        let candidates: Vec<PathBuf> = match command.contains('/') {
            true => vec![Path::new("/").join(self.directory).join(command)],
            false => {
                let directories = self.path.split(':');
                directories
                    .map(|directory| Path::new("/").join(directory).join(command))
                    .collect()
            }
        };
        for candidate in candidates {
            if let Some(file) = self.layers.resolve(&candidate)? {
                return Ok(file);
            }
        }
        Err(ContainerError::NotInImage(command.to_owned()))
    }
}

#[derive(Deserialize)]
struct Index {
    manifests: Vec<Descriptor>,
}

#[derive(Deserialize)]
struct Descriptor {
    digest: String,
    platform: Option<Platform>,
}

#[derive(Deserialize)]
struct Platform {
    architecture: String,
    os: String,
}

/// A manifest, or another index in its place.
#[derive(Deserialize)]
#[serde(untagged)]
enum Manifest {
    Image {
        config: Descriptor,
        layers: Vec<Descriptor>,
    },
    Index(Index),
}

#[derive(Deserialize)]
struct DockerManifest {
    #[serde(rename = "Config")]
    config: String,
    #[serde(rename = "Layers")]
    layers: Vec<String>,
}

#[derive(Deserialize)]
struct Image {
    config: Option<Settings>,
}

#[derive(Deserialize, Default)]
struct Settings {
    #[serde(rename = "Entrypoint")]
    entrypoint: Option<Vec<String>>,
    #[serde(rename = "Cmd")]
    cmd: Option<Vec<String>>,
    #[serde(rename = "Env")]
    env: Option<Vec<String>>,
    #[serde(rename = "WorkingDir")]
    working_dir: Option<String>,
}

/// The names of the configuration and of the layers, lowest first.
fn parts(store: &Store) -> Result<(String, Vec<String>), ContainerError> {
    if !store.has("index.json") {
        let images: Vec<DockerManifest> = json(&store.read_small("manifest.json")?, "manifest")?;
        let first = images.into_iter().next();
        let image = first.ok_or_else(|| ContainerError::Missing("an image".to_owned()))?;
        return Ok((image.config, image.layers));
    }
    let mut index: Index = json(&store.read_small("index.json")?, "index")?;
    for _ in 0..INDEXES_MAX {
        let chosen = choose(&index.manifests).ok_or(ContainerError::NoPlatform)?;
        match json(&store.read_small(&blob(&chosen.digest)?)?, "manifest")? {
            Manifest::Index(inner) => index = inner,
            Manifest::Image { config, layers } => {
                let layers: Result<_, _> = layers.iter().map(|layer| blob(&layer.digest)).collect();
                return Ok((blob(&config.digest)?, layers?));
            }
        }
    }
    Err(ContainerError::LinkLoop("index.json".to_owned()))
}

/// The one for this machine, or else the first for any.
fn choose(manifests: &[Descriptor]) -> Option<&Descriptor> {
    let here = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let is_for = |descriptor: &&Descriptor, architecture: &str| {
        let platform = descriptor.platform.as_ref();
        platform.is_some_and(|p| p.os == "linux" && p.architecture == architecture)
    };
    // Attestations are listed like images, and say that they are for "unknown".
    let is_an_image = |descriptor: &&Descriptor| {
        let platform = descriptor.platform.as_ref();
        platform.is_none_or(|platform| platform.os != "unknown")
    };
    let mut all = manifests.iter();
    let for_here = all.clone().find(|descriptor| is_for(descriptor, here));
    for_here.or_else(|| all.find(is_an_image))
}

/// The name of the file that holds the blob with that digest.
fn blob(digest: &str) -> Result<String, ContainerError> {
    let damaged = || ContainerError::Damaged {
        what: "digest",
        reason: format!("`{}`", digest.escape_debug()),
    };
    let (algorithm, hash) = digest.split_once(':').ok_or_else(damaged)?;
    let is_plain = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric());
    match is_plain(algorithm) && is_plain(hash) {
        true => Ok(format!("blobs/{algorithm}/{hash}")),
        false => Err(damaged()),
    }
}

fn json<T: serde::de::DeserializeOwned>(
    bytes: &[u8],
    what: &'static str,
) -> Result<T, ContainerError> {
    serde_json::from_slice(bytes).map_err(|error| ContainerError::Damaged {
        what,
        reason: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A saved image with a layer, a link and a script in it.
    fn image() -> Vec<u8> {
        let add = |archive: &mut tar::Builder<Vec<u8>>, path: &str, contents: &[u8]| {
            let mut header = tar::Header::new_ustar();
            header.set_size(contents.len() as u64);
            header.set_mode(0o755);
            archive.append_data(&mut header, path, contents).unwrap();
        };
        let mut layer = tar::Builder::new(Vec::new());
        add(&mut layer, "usr/app", b"#!/usr/interpreter\n");
        add(&mut layer, "usr/interpreter", b"\x7fELF");
        let mut link = tar::Header::new_ustar();
        link.set_entry_type(tar::EntryType::Symlink);
        link.set_size(0);
        layer.append_link(&mut link, "app", "usr/app").unwrap();
        let layer = layer.into_inner().unwrap();
        let mut image = tar::Builder::new(Vec::new());
        let manifest = br#"[{"Config":"config.json","Layers":["layer.tar"]}]"#;
        add(&mut image, "manifest.json", manifest);
        let config = br#"{"config":{"Entrypoint":["/app"]}}"#;
        add(&mut image, "config.json", config);
        add(&mut image, "layer.tar", &layer);
        image.into_inner().unwrap()
    }

    fn entry_point_in(bytes: &[u8]) -> Result<EntryPoint, ContainerError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        entry_point(file.path())
    }

    #[test]
    fn an_entry_point_is_followed_through_links_and_scripts() {
        let found = entry_point_in(&image()).unwrap();
        assert_eq!(found.path, Path::new("/usr/interpreter"));
        assert_eq!(found.through, [Path::new("/usr/app")]);
        assert_eq!(found.file.size_bytes(), 4);
    }

    proptest! {
        #[test]
        fn a_damaged_image_is_an_error_and_never_a_panic(
            changes in prop::collection::vec((any::<usize>(), any::<u8>()), 1..8),
            length in any::<usize>(),
        ) {
            let mut bytes = image();
            for (offset, value) in changes {
                let length = bytes.len();
                bytes[offset % length] = value;
            }
            bytes.truncate(length % (2 * bytes.len()) + 2);
            let _ = entry_point_in(&bytes);
        }
    }

    #[test]
    fn a_digest_cannot_name_a_file_outside_of_the_image() {
        assert_eq!(blob("sha256:abc123").unwrap(), "blobs/sha256/abc123");
        for digest in [
            "sha256:../../etc/passwd",
            "../x:1",
            "sha256",
            "sha256:",
            ":a",
        ] {
            assert!(blob(digest).is_err(), "{digest}");
        }
    }
}
