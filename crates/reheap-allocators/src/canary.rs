//! The canary: a program that is started with a preload before a whole system is, and shows whether it works
//! (`glue/canary.c`).

use crate::catalogue::Glue;
use crate::own_library::OwnLibrary;

/// The canary: a file to name to the libc's dynamic linker.
pub const LIBRARY: OwnLibrary = OwnLibrary {
    source: Glue {
        name: "reheap-canary",
        source: include_str!("../glue/canary.c"),
    },
    exports: &[],
    entry_point: Some("reheap_canary"),
};
