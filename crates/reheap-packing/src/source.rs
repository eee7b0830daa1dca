//! The image that another one is made from: a file, a directory, or a name in a registry.

use super::explained;
use reheap_command::interrupt;
use reheap_command::pulse;
use reheap_command::ui::{self, Failure};
use reheap_image::added::Checked;
use reheap_image::read::{self, Location, ReadError, Wanted};
use reheap_image::{Platform, Workplace};
use reheap_subject::container::ContainerError;
use reheap_subject::remote::{self, Remote};
use std::path::Path;

/// An image to read.
pub(super) struct Source<'a> {
    /// A path, or a name in a registry.
    pub(super) image: &'a Path,
    /// The one that is asked for.
    pub(super) platform: Option<Platform>,
    pub(super) plain_http: bool,
    /// Where the new image goes, for messages.
    pub(super) place: String,
}

impl Source<'_> {
    /// Reads the image, all of it.
    pub(super) fn open(&self, verb: &str, workplace: &Workplace<'_>) -> anyhow::Result<Checked> {
        let wanted = self.platform.as_ref().map_or(Wanted::TheOnly, Wanted::For);
        let shown = self.image.display().to_string();
        let location = Location::new(self.image);
        let stored = if location.path.exists() {
            read::open(&location, wanted, workplace).map_err(|e| self.explained(verb, e))?
        } else {
            let Some(reference) = remote::named(&shown)? else {
                let text = format!("cannot {verb} `{shown}`: there is no such file");
                let hint = format!("an image of Docker Hub: docker://{shown}");
                let failure = Failure::failed(text);
                return Err(if shown.contains(['/', '.']) {
                    failure
                } else {
                    failure.hint(hint)
                }
                .into());
            };
            let remote = Remote::new(reference, self.plain_http)?;
            remote::pull(&remote, wanted, workplace)?
        };
        let what = format!("reading {shown}");
        pulse::while_spinning(&what, || Checked::new(stored, workplace))
            .map_err(|error| self.explained(verb, error))
    }

    pub(super) fn of_container(&self, verb: &str, error: ContainerError) -> anyhow::Error {
        match error {
            ContainerError::Read(error) => self.explained(verb, error),
            error => {
                let shown = self.image.display();
                Failure::failed(format!("cannot {verb} `{shown}`: {error}")).into()
            }
        }
    }

    pub(super) fn explained(&self, verb: &str, error: ReadError) -> anyhow::Error {
        let shown = self.image.display();
        let failure = Failure::failed(format!("cannot {verb} `{shown}`: {error}"));
        match error {
            ReadError::Interrupted => {
                let text = format!("interrupted before `{}` was written", self.place);
                return interrupt::failure(&text).into();
            }
            ReadError::Write(error) => return explained(error, Path::new(&self.place)),
            ReadError::SeveralImages(suffixes) => failure.hint(self.choices(&suffixes)),
            ReadError::OtherPlatform { .. } => failure.hint("choose one of these with --platform"),
            ReadError::Schema1 => {
                failure.hint("copy it in a form since 2016: skopeo copy --format v2s2 …")
            }
            ReadError::NotOnTop => {
                failure.hint("change the image that they were built on, and build again")
            }
            _ => failure,
        }
        .into()
    }

    /// How to name one of several images, by what comes behind the path.
    fn choices(&self, suffixes: &[String]) -> String {
        const SHOWN_MAX: usize = 8;
        let path = Location::new(self.image).path;
        let shown = path.display();
        let name = |suffix: &String| {
            let has_repository = suffix.starts_with(':') && suffix[1..].contains(':');
            ui::printable(if path.is_dir() {
                format!("oci:{shown}{suffix}")
            } else if !path.exists() {
                format!("{}{suffix}", self.image.display()) // in a registry
            } else if has_repository {
                format!("docker-archive:{shown}{suffix}")
            } else {
                format!("oci-archive:{shown}{suffix}")
            })
        };
        let names: Vec<String> = suffixes.iter().take(SHOWN_MAX).map(name).collect();
        format!("name one of them: {}", names.join(", "))
    }
}
