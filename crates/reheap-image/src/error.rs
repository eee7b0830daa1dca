//! Why an image cannot be made.

use std::io;
use std::path::{Path, PathBuf};

/// Why an image cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The system refused something.
    #[error("cannot {verb} `{}`: {reason}", .path.display())]
    Io {
        /// What was tried.
        verb: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system said.
        reason: io::Error,
    },
    /// The caller said that it should end.
    #[error("interrupted")]
    Interrupted,
    /// Two things have the same place in the image.
    #[error("`{}` would be twice in the image", .0.display())]
    Twice(PathBuf),
    /// A file and a directory have the same place in the image.
    #[error("`{}` would be a file and a directory in the image", .0.display())]
    FileAndDirectory(PathBuf),
    /// A path does not name a place in the image.
    #[error("`{}` is not a place in an image: it must be an absolute path without `..`", .0.display())]
    NoPlace(PathBuf),
    /// It is neither a file, nor a directory, nor a link.
    #[error("cannot pack `{}`: it is {what}", .path.display())]
    Unpackable {
        /// Where it is.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// A file holds no certificates.
    #[error("cannot take certificates from `{}`: {reason}", .path.display())]
    NoCertificates {
        /// The file.
        path: PathBuf,
        /// What it has instead.
        reason: String,
    },
    /// The place for the image is taken by something else.
    #[error("cannot write the image to `{}`: {reason}", .path.display())]
    Destination {
        /// The place.
        path: PathBuf,
        /// What is there.
        reason: &'static str,
    },
}

impl ImageError {
    /// A function that says what the system refused.
    pub(crate) fn io(verb: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |reason| match reason.get_ref().is_some_and(|e| e.is::<EndOfWork>()) {
            true => Self::Interrupted,
            false => Self::Io {
                verb,
                path: path.to_owned(),
                reason,
            },
        }
    }
}

/// What a reader gives when the caller wants to end. `ErrorKind::Interrupted` would make everybody try again.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub(crate) struct EndOfWork;
