//! A library that gives a preload to only one of the programs that a command starts (`glue/only.c`).

use crate::catalogue::Glue;
use crate::own_library::{Base, OwnLibrary};
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The library.
pub const LIBRARY: OwnLibrary = OwnLibrary {
    source: Glue {
        name: "reheap-only",
        source: include_str!("../glue/only.c"),
    },
    exports: &[],
    entry_point: None,
    base: Base::Libc,
};

/// The variables that tell the library which program gets which preload. `LD_PRELOAD` must name the library besides.
pub fn environment(program: &OsStr, preload: &Path) -> [(OsString, OsString); 2] {
    [
        ("REHEAP_ONLY".into(), program.to_owned()),
        ("REHEAP_ONLY_LIBRARY".into(), preload.as_os_str().to_owned()),
    ]
}
