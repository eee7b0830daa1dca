//! Why a file cannot be read as ELF, or as an archive of it.

use crate::source::ReadError;

/// Why a file cannot be identified.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ElfError {
    /// The file has no contents.
    #[error("the file is empty")]
    Empty,
    /// It is another kind of file.
    #[error("it is not ELF but {what}")]
    NotElf {
        /// What it looks like.
        what: &'static str,
    },
    /// It is ELF, but what a process left behind.
    #[error("it is a core dump, not a program")]
    CoreDump,
    /// A part is beyond the end of the file.
    #[error("the file is cut off: its {part} does not lie within it")]
    Truncated {
        /// The part.
        part: &'static str,
    },
    /// A part does not make sense.
    #[error("its {part} is damaged")]
    Damaged {
        /// The part.
        part: &'static str,
    },
    /// A member of an archive cannot be identified.
    #[error("member {index} of the archive: {error}")]
    Member {
        /// How many members are in front of it.
        index: usize,
        /// What is wrong with it.
        error: Box<ElfError>,
    },
    /// An archive without an ELF object in it.
    #[error("none of the {others} members of the archive is an ELF object")]
    NoObjects {
        /// How many other members there are.
        others: usize,
    },
    /// An archive without a member.
    #[error("the archive is empty: it has no members")]
    EmptyArchive,
    /// A thin archive holds paths in place of members.
    #[error("it is a thin archive: its members are other files")]
    ThinArchive,
    /// The marker is there but cannot be read.
    #[error("its marker is damaged: {reason}")]
    Marker {
        /// What is wrong with it.
        reason: String,
    },
    /// Its bytes cannot be read.
    #[error("it cannot be read: {0}")]
    Read(ReadError),
}

impl From<ReadError> for ElfError {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}
