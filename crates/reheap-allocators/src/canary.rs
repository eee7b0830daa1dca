//! The canary: a program that shows whether a preload works, before the whole system gets it (`glue/canary.c`).

use crate::catalogue::Glue;
use crate::own_library::{Base, OwnLibrary};

/// The canary, as a file that the libc's dynamic linker starts.
pub const LIBRARY: OwnLibrary = OwnLibrary {
    source: Glue {
        name: "reheap-canary",
        source: include_str!("../glue/canary.c"),
    },
    exports: &[],
    entry_point: Some("reheap_canary"),
    base: Base::Libc,
};
