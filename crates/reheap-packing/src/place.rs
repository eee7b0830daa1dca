//! Where an image goes: a file, a directory, a registry, or both a file and a registry.
//!
//! All of it is checked before anything is made, and the file is written before anything is pushed: what a registry has
//! got once, others may have pulled.

use super::explained;
use anyhow::Context as _;
use reheap_command::output;
use reheap_command::ui::Failure;
use reheap_image::destination::Destination;
use reheap_image::registry::{Pushed, Reference};
use reheap_image::{ImageError, Part, Workplace};
use reheap_subject::remote::{self, Remote};
use std::path::{Path, PathBuf};

/// The form of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    Oci,
    Docker,
}

/// Where an image goes.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct PlaceArguments {
    /// The file to write, whose name ends in .tar, or a directory
    #[arg(
        short,
        long,
        value_name = "FILE.tar|DIR",
        required_unless_present = "push"
    )]
    pub(crate) output: Option<PathBuf>,
    /// Push the image to a registry, with the login of `docker login` or `podman login`
    #[arg(long, value_name = "REGISTRY/NAME:TAG")]
    push: Option<String>,
    /// Talk to the registry without TLS; on this machine that is the default
    #[arg(long)]
    pub(crate) plain_http: bool,
}

/// A checked place, or two.
#[derive(Debug)]
pub(crate) struct Place {
    output: Option<(PathBuf, Destination)>,
    push: Option<Remote>,
}

/// What was written.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) size_bytes: u64,
    pub(crate) pushed: Option<Pushed>,
}

impl PlaceArguments {
    /// Checks that the image can go there.
    pub(crate) fn check(&self, format: Format) -> anyhow::Result<Place> {
        let output = self.output.as_deref();
        let output =
            output.map(|path| Ok::<_, anyhow::Error>((path.to_owned(), check(path, format)?)));
        let push = self.push.as_deref().map(|name| {
            let reference: Reference = name.parse()?;
            if reference.tag().is_none() {
                let text = format!("cannot push to `{name}`: it names a digest, not a tag");
                return Err(Failure::usage(text).into());
            }
            Remote::new(reference, self.plain_http)
        });
        Ok(Place {
            output: output.transpose()?,
            push: push.transpose()?,
        })
    }
}

impl Place {
    /// The directory that a file appears in.
    pub(crate) fn parent(&self) -> Option<PathBuf> {
        let (_, destination) = self.output.as_ref()?;
        destination.parent().map(Path::to_owned)
    }

    /// The file or directory as the user wrote it, or the name in the registry.
    pub(crate) fn shown(&self) -> String {
        match (&self.output, &self.push) {
            (Some((path, _)), _) => path.display().to_string(),
            (None, Some(remote)) => remote.reference.to_string(),
            (None, None) => String::new(),
        }
    }

    pub(crate) fn file(&self) -> Option<String> {
        let (path, _) = self.output.as_ref()?;
        Some(path.display().to_string())
    }

    /// The name in the registry.
    pub(crate) fn pushed_to(&self) -> Option<String> {
        self.push
            .as_ref()
            .map(|remote| remote.reference.to_string())
    }

    /// Whether it can only be an OCI layout.
    pub(crate) fn is_directory(&self) -> bool {
        matches!(self.output, Some((_, Destination::Directory(_))))
    }

    /// Whether standard output may be where the image goes.
    pub(crate) fn is_stream(&self) -> bool {
        matches!(self.output, Some((_, Destination::Stream(_))))
    }

    /// Writes the files of an image, and pushes those of its OCI layout.
    pub(crate) fn write(
        &self,
        parts: &[Part],
        layout: impl FnOnce() -> Vec<Part>,
        workplace: &Workplace<'_>,
    ) -> anyhow::Result<Written> {
        let size_bytes = match &self.output {
            Some((path, destination)) => destination
                .write(parts, workplace)
                .map_err(|error| explained(error, path))?,
            None => parts.iter().map(|part| part.blob.size_bytes()).sum(),
        };
        let push = self.push.as_ref();
        let pushed = push.map(|remote| remote::push(remote, &layout(), workplace));
        Ok(Written {
            size_bytes,
            pushed: pushed.transpose()?,
        })
    }
}

fn check(path: &Path, format: Format) -> anyhow::Result<Destination> {
    let real =
        output::behind_links(path).with_context(|| format!("cannot write `{}`", path.display()))?;
    let destination = Destination::check(path, real);
    let destination = destination.map_err(|error: ImageError| explained(error, path))?;
    if format == Format::Docker && matches!(destination, Destination::Directory(_)) {
        let text = "an image for `docker load` is a file, not a directory";
        let hint = "give it a name that ends in .tar, or use --format oci";
        return Err(Failure::usage(text).hint(hint).into());
    }
    let parent = destination.parent().filter(|parent| !parent.is_dir());
    if let Some(parent) = parent {
        let text = format!(
            "cannot write `{}`: there is no directory `{}`",
            path.display(),
            parent.display()
        );
        return Err(Failure::failed(text).into());
    }
    Ok(destination)
}
