//! What an allocator is linked into, and what its build owes to that.

// `zig cc` keeps frame pointers unless told otherwise: three instructions more in each `malloc` and each `free`. The tables
// to unwind a stack are in the file.
const OMIT_FRAME_POINTER: &str = "-fomit-frame-pointer";

/// What an allocator is linked into. This decides how its code is addressed, and where its thread-local storage is.
///
/// None gets debug information, which would carry paths of the build machine into the linked file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkKind {
    /// A static executable, at a fixed address or position-independent.
    Executable,
    /// A preload. It is loaded when the program starts, so its thread-local storage is next to the program's, and
    /// reaching it needs no call. `dlopen` may have no room for such a library.
    Preload,
    /// A finished executable, into which it is copied. It is loaded with the program, so its thread-local storage is next
    /// to the program's. Nothing of a libc is in reach.
    Graft,
}

impl LinkKind {
    pub(crate) fn compiler_flags(self) -> &'static [&'static str] {
        match self {
            Self::Executable => &["-fPIE", "-ftls-model=local-exec", OMIT_FRAME_POINTER, "-g0"],
            Self::Preload | Self::Graft => &[
                "-fPIC",
                "-ftls-model=initial-exec",
                OMIT_FRAME_POINTER,
                "-g0",
            ],
        }
    }

    /// What distinguishes the names of cache entries.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::Executable => "",
            Self::Preload => "-preload",
            Self::Graft => "-graft",
        }
    }
}
