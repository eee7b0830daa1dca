//! Why an image cannot be made, or read.

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
        move |reason| {
            if reason.get_ref().is_some_and(|e| e.is::<EndOfWork>()) {
                Self::Interrupted
            } else {
                Self::Io {
                    verb,
                    path: path.to_owned(),
                    reason,
                }
            }
        }
    }
}

/// What a reader gives when the caller wants to end. `ErrorKind::Interrupted` would make everybody try again.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub(crate) struct EndOfWork;

/// Why an image cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The system refused something.
    #[error("the image cannot be read: {0}")]
    Io(io::Error),
    /// The caller said that it should end.
    #[error("interrupted")]
    Interrupted,
    /// A part is not what it should be.
    #[error("the image's {what} is damaged: {reason}")]
    Damaged {
        /// Which part.
        what: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// It is something else.
    #[error(
        "it is no container image: that is a directory, or a tar archive that may be compressed with gzip"
    )]
    NoImage,
    /// A part is not there.
    #[error("the image lacks `{0}`")]
    Missing(String),
    /// Bytes are not those that their digest names.
    #[error("the image is damaged: what it calls {expected} is {found}")]
    Digest {
        /// What the image says.
        expected: String,
        /// What the bytes say.
        found: String,
    },
    /// There is no image in it, or only for other systems.
    #[error("the image has no Linux program for any platform")]
    NoPlatform,
    /// It is not for the platform that was asked for.
    #[error("the image is not for {wanted}, but for {}", .there.join(", "))]
    OtherPlatform {
        /// What was asked for.
        wanted: String,
        /// What there is.
        there: Vec<String>,
    },
    /// There are several images for one platform: `:TAG` or `@DIGEST` of each.
    #[error("there are {} images in it", .0.len())]
    SeveralImages(Vec<String>),
    /// There is none of that name.
    #[error("there is no image `{}` in it, but {}", .wanted.escape_debug(), names(.there))]
    NoSuchImage {
        /// What was asked for.
        wanted: String,
        /// What there is: `:TAG` or `@DIGEST` of each.
        there: Vec<String>,
    },
    /// The format before 2016.
    #[error("its manifest has the old format, schema 1")]
    Schema1,
    /// Something newer than reheap, or no image at all.
    #[error("reheap does not know the media type `{0}`")]
    UnknownMediaType(String),
    /// A layer that only a key opens.
    #[error("it has encrypted layers")]
    Encrypted,
    /// A file is stored in a way that reheap cannot read.
    #[error(
        "`{0}` is packed as a sparse file, which reheap does not read; pack it without `tar --sparse`"
    )]
    Sparse(String),
    /// Nothing can be there.
    #[error("a path in the image is longer than {0} bytes, and Linux follows none that is")]
    LongPath(usize),
    /// It would not fit into the memory that reheap allows.
    #[error("the image has more than {0} files")]
    TooManyFiles(usize),
    /// Nor would this.
    #[error("the image has more than {0} layers")]
    TooManyLayers(usize),
    /// Nor would these.
    #[error("the links of the image hold more than {} MiB", .0 >> 20)]
    TooMuchInLinks(usize),
    /// A layer cannot be written.
    #[error(transparent)]
    Write(ImageError),
    /// There is nothing of reheap's to take off.
    #[error("reheap has added nothing to it")]
    NothingAdded,
    /// What reheap added is below other layers.
    #[error("other layers are on top of the one that reheap added")]
    NotOnTop,
    /// The kernel would give up, too.
    #[error("the links of `{0}` lead in a circle")]
    LinkLoop(String),
}

/// The first of them.
fn names(there: &[String]) -> String {
    const SHOWN_MAX: usize = 8;
    let names = there
        .iter()
        .take(SHOWN_MAX)
        .map(|name| format!("`{}`", name[1..].escape_debug()))
        .collect::<Vec<_>>()
        .join(", ");
    match there.len() {
        0 => "none with a name".to_owned(),
        count if count > SHOWN_MAX => format!("{names}, …"),
        _ => names,
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        let is = |error: &io::Error| {
            let inner = error.get_ref();
            inner.is_some_and(|inner| {
                inner.is::<EndOfWork>()
                    || matches!(inner.downcast_ref(), Some(ImageError::Interrupted))
            })
        };
        // The reader of archives adds words to an error, and keeps it as its source.
        let source = error.get_ref().and_then(|inner| inner.source());
        let wrapped = source.and_then(|source| source.downcast_ref::<io::Error>());
        if is(&error) || wrapped.is_some_and(is) {
            Self::Interrupted
        } else {
            Self::Io(error)
        }
    }
}

impl From<ImageError> for ReadError {
    fn from(error: ImageError) -> Self {
        match error {
            ImageError::Interrupted => Self::Interrupted,
            other => Self::Write(other),
        }
    }
}
