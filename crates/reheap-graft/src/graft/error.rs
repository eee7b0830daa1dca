//! Why there is no graft.

use crate::locate::LocateError;

/// Why another allocator cannot be put into an executable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GraftError {
    /// Nothing shows where its malloc is.
    #[error(transparent)]
    Locate(#[from] LocateError),
    /// The file's tables are damaged.
    #[error("damaged ELF: {0}")]
    Damaged(String),
    /// There is a graft already.
    #[error("another allocator is grafted into it already")]
    Grafted,
    /// reheap linked it.
    #[error("reheap has linked it with an allocator already")]
    Marked,
    /// Its code is packed.
    #[error("it is packed, so its code cannot be read")]
    Packed,
    /// It has an allocator beside the libc's, or one that was not tried.
    #[error("it has {0}, and reheap replaces only the allocators of musl and glibc")]
    OwnAllocator(String),
    /// Its malloc is of no allocator that is known.
    #[error(
        "its malloc is neither musl's nor glibc's, and other functions of it may make blocks too"
    )]
    UnknownMalloc,
    /// Its code does not show enough.
    #[error("it is stripped, and without symbols reheap does not know all of glibc's malloc")]
    StrippedGlibc,
    /// It has a function that the new allocator has not.
    #[error("it has a `{0}`, which the new allocator has not")]
    NoSuchFunction(String),
    /// It is a dynamic executable.
    #[error("it is dynamic")]
    Dynamic,
    /// It is for a processor that cannot be done yet.
    #[error("it is for another processor than x86-64, for which reheap cannot do this yet")]
    Processor,
    /// The library is for another processor.
    #[error("the allocator is for another processor")]
    OtherProcessor,
    /// It is a kind of file whose rules are not known.
    #[error("it has {0}, and reheap does not know what has to stay as it is")]
    Unknown(String),
    /// There are bytes behind everything that the headers name.
    #[error(
        "behind its last section are {0} bytes, which the program may look for at the end of the file"
    )]
    Overlay(usize),
    /// A function of the family may be there, and nothing shows where.
    #[error("it may have a `{0}`, and nothing shows where")]
    NotLocated(String),
    /// Code that is like that of the family was found beside it.
    #[error(
        "it is stripped, and its malloc may have more functions than those that are known by their code"
    )]
    Incomplete,
    /// Nothing shows where its errno is.
    #[error("nothing shows where it keeps `errno`, which malloc sets when there is no memory")]
    NoErrno,
    /// Two jumps would overlap.
    #[error("two of its functions begin within {0} bytes of each other, too close for two jumps")]
    TooClose(u64),
    /// A jump cannot reach the library.
    #[error("its `{0}` is too far from the end of the program for a jump")]
    TooFar(String),
    /// Nothing is free in reach of a jump.
    #[error("there are no {0} free bytes of address space near its code")]
    NoRoom(u64),
    /// The library lacks something.
    #[error("the library lacks `{0}`")]
    Library(String),
}

impl From<object::read::Error> for GraftError {
    fn from(error: object::read::Error) -> Self {
        Self::Damaged(error.to_string())
    }
}
