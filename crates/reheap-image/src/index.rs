//! Which image of several: by its name or digest, and by its platform.
//!
//! An index lists more than images. Attestations say that they are for "unknown"; other artifacts (SBOMs, signatures) have
//! a type of their own, or a configuration that is none of an image.

use crate::Platform;
use crate::error::ReadError;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

/// What an image is called in a layout (OCI image specification, "Pre-Defined Annotation Keys").
const NAME: &str = "org.opencontainers.image.ref.name";
/// What an image is called, with its repository, as containerd and Docker write it.
const WHOLE_NAME: &str = "io.containerd.image.name";

/// Which image of several.
#[derive(Debug, Clone, Copy)]
pub enum Wanted<'a> {
    /// The one for this machine, or else the first.
    First,
    /// The one for this machine, or the only one.
    TheOnly,
    /// The one for a platform.
    For(&'a Platform),
}

/// An image that its user names among others in the same place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selected {
    /// By what it is called: `latest`, or `app:1` in Docker's archives.
    Name(String),
    /// By the digest of its manifest or index.
    Digest(String),
}

/// A file or a directory with images, and perhaps which of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// Where it is.
    pub path: PathBuf,
    /// Which image in it.
    pub selected: Option<Selected>,
}

impl Location {
    /// Reads a path, or a name as skopeo has it: `oci:DIR:TAG`, `oci-archive:FILE@DIGEST`, `docker-archive:FILE:NAME`.
    pub fn new(text: &Path) -> Self {
        let whole = || Self {
            path: text.to_owned(),
            selected: None,
        };
        const TRANSPORTS: [&str; 3] = ["oci:", "oci-archive:", "docker-archive:"];
        let Some(name) = text.to_str().filter(|_| !text.exists()) else {
            return whole();
        };
        let mut transports = TRANSPORTS.iter();
        let Some(rest) = transports.find_map(|transport| name.strip_prefix(transport)) else {
            return whole();
        };
        let (path, selected) = match (rest.split_once("@sha256:"), rest.split_once(':')) {
            (Some((path, hash)), _) => (path, Some(Selected::Digest(format!("sha256:{hash}")))),
            (None, Some((path, name))) => (path, Some(Selected::Name(name.to_owned()))),
            (None, None) => (rest, None),
        };
        Self {
            path: path.into(),
            selected,
        }
    }
}

impl Selected {
    /// Whether it means an image of this name.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        match self {
            // Docker leaves `docker.io/library/` out.
            Self::Name(wanted) => {
                let front = name.strip_suffix(wanted.as_str());
                front.is_some_and(|front| front.is_empty() || front.ends_with('/'))
            }
            Self::Digest(_) => false,
        }
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct Index {
    pub(crate) manifests: Vec<Descriptor>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    #[serde(default)]
    pub(crate) media_type: String,
    pub(crate) digest: String,
    #[serde(default)]
    pub(crate) size: u64,
    artifact_type: Option<String>,
    platform: Option<NamedPlatform>,
    #[serde(default)]
    pub(crate) annotations: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Clone, Deserialize)]
struct NamedPlatform {
    architecture: String,
    os: String,
    variant: Option<String>,
}

/// The variant that a platform has which names none.
fn usual_variant(architecture: &str) -> Option<&'static str> {
    match architecture {
        "amd64" => Some("v1"),
        "arm" => Some("v7"),
        "arm64" => Some("v8"),
        _ => None,
    }
}

impl NamedPlatform {
    /// Whether programs for a platform of any variant are meant, or those of this one.
    fn is_for(&self, platform: &Platform) -> bool {
        self.os == "linux"
            && self.architecture == platform.architecture
            && (platform.variant.is_none() || self.is_exactly(platform))
    }

    fn is_exactly(&self, platform: &Platform) -> bool {
        let usual = usual_variant(&self.architecture);
        self.variant.as_deref().or(usual) == platform.variant.as_deref().or(usual)
    }

    fn shown(&self) -> String {
        let variant = self.variant.iter().map(|variant| format!("/{variant}"));
        format!(
            "{}/{}{}",
            self.os,
            self.architecture,
            variant.collect::<String>()
        )
    }
}

impl Descriptor {
    fn is_image(&self) -> bool {
        let of_unknown = |platform: &NamedPlatform| platform.os == "unknown";
        let is_artifact = self
            .artifact_type
            .as_ref()
            .is_some_and(|name| !name.is_empty());
        !is_artifact && !self.platform.as_ref().is_some_and(of_unknown)
    }

    fn names(&self) -> impl Iterator<Item = &String> {
        let annotations = self.annotations.iter();
        annotations.flat_map(|all| {
            [WHOLE_NAME, NAME]
                .into_iter()
                .filter_map(|key| all.get(key))
        })
    }

    /// How a user may name it, behind the path.
    fn suffix(&self) -> String {
        match self.names().next() {
            Some(name) => format!(":{name}"),
            None => format!("@{}", self.digest),
        }
    }

    fn shown(&self) -> String {
        match &self.platform {
            Some(platform) => platform.shown(),
            None => "an unnamed platform".to_owned(),
        }
    }
}

impl Index {
    /// The images that a user names.
    pub(crate) fn selected(self, selected: &Selected) -> Result<Self, ReadError> {
        let there = self.manifests.iter().map(Descriptor::suffix).collect();
        let is_it = |of: &Descriptor| match selected {
            Selected::Name(_) => of.names().any(|name| selected.is_called(name)),
            Selected::Digest(digest) => of.digest == *digest,
        };
        let mut manifests = self.manifests;
        manifests.retain(is_it);
        match (manifests.is_empty(), selected) {
            (false, _) => Ok(Self { manifests }),
            (true, Selected::Digest(digest)) => Ok(Self::of_digest(digest)),
            (true, Selected::Name(name)) => Err(ReadError::NoSuchImage {
                wanted: name.clone(),
                there,
            }),
        }
    }

    /// Of an image that another index may list.
    fn of_digest(digest: &str) -> Self {
        let only = Descriptor {
            media_type: String::new(),
            digest: digest.to_owned(),
            size: 0,
            artifact_type: None,
            platform: None,
            annotations: None,
        };
        Self {
            manifests: vec![only],
        }
    }
}

/// Whether a manifest is one of an artifact that belongs to an image, or of no image at all.
pub(crate) fn is_artifact(manifest: &Value) -> bool {
    let configuration = manifest["config"]["mediaType"].as_str();
    let names = |key: &str| manifest[key].as_str().is_some_and(|name| !name.is_empty());
    names("artifactType")
        || manifest["subject"].is_object()
        || configuration.is_some_and(|media_type| !CONFIGURATIONS.contains(&media_type))
}

/// What the configurations of images are.
pub(crate) const CONFIGURATIONS: [&str; 2] = [
    "application/vnd.oci.image.config.v1+json",
    "application/vnd.docker.container.image.v1+json",
];

/// An image of several in an index.
pub(crate) struct Chosen {
    pub(crate) descriptor: Descriptor,
    /// For which other platforms there are images beside it.
    pub(crate) others: Vec<String>,
}

/// Chooses by platform. Whoever names no variant gets the usual one: what is for another may not run.
pub(crate) fn choose(index: &Index, wanted: Wanted<'_>) -> Result<Chosen, ReadError> {
    // One image may have several names.
    let mut digests = HashSet::new();
    let images: Vec<&Descriptor> = index
        .manifests
        .iter()
        .filter(|listed| listed.is_image())
        .filter(|image| digests.insert(&image.digest))
        .collect();
    let candidates = match wanted {
        Wanted::For(platform) => match fitting(&images, platform) {
            // It may be the platform all the same: its configuration tells.
            none if none.is_empty() && images.len() == 1 && images[0].platform.is_none() => {
                images.clone()
            }
            fitting => fitting,
        },
        Wanted::First | Wanted::TheOnly => match fitting(&images, &Platform::of_this_machine()) {
            none if none.is_empty() => images.clone(),
            fitting => fitting,
        },
    };
    let shown = |images: &[&Descriptor]| images.iter().map(|image| image.shown()).collect();
    let chosen = match (candidates.as_slice(), wanted) {
        ([], Wanted::For(platform)) if !images.is_empty() => {
            return Err(ReadError::OtherPlatform {
                wanted: platform.to_string(),
                there: shown(&images),
            });
        }
        ([], _) => return Err(ReadError::NoPlatform),
        ([_, _, ..], Wanted::For(_) | Wanted::TheOnly) => {
            return Err(several(&candidates, wanted));
        }
        ([first, ..], _) => (*first).clone(),
    };
    let others = images.iter().filter(|other| other.digest != chosen.digest);
    Ok(Chosen {
        others: others.map(|other| other.shown()).collect(),
        descriptor: chosen,
    })
}

/// Those for a platform: of the variant that is asked for, or else of any.
fn fitting<'a>(images: &[&'a Descriptor], platform: &Platform) -> Vec<&'a Descriptor> {
    let of = |is: fn(&NamedPlatform, &Platform) -> bool| -> Vec<&'a Descriptor> {
        let is =
            |image: &&&'a Descriptor| image.platform.as_ref().is_some_and(|of| is(of, platform));
        images.iter().filter(is).copied().collect()
    };
    let exactly = of(|of, platform| of.is_for(platform) && of.is_exactly(platform));
    if exactly.is_empty() {
        of(NamedPlatform::is_for)
    } else {
        exactly
    }
}

/// Several images that differ in their platforms, or for the same one.
fn several(candidates: &[&Descriptor], wanted: Wanted<'_>) -> ReadError {
    let platforms: Vec<String> = candidates.iter().map(|image| image.shown()).collect();
    let different: HashSet<&String> = platforms.iter().collect();
    if different.len() == platforms.len() {
        return ReadError::OtherPlatform {
            wanted: match wanted {
                Wanted::For(platform) => platform.to_string(),
                Wanted::First | Wanted::TheOnly => Platform::of_this_machine().to_string(),
            },
            there: platforms,
        };
    }
    ReadError::SeveralImages(candidates.iter().map(|image| image.suffix()).collect())
}
