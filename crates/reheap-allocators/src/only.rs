//! A library that gives a preload to one program only, of all that a command starts (`glue/only.c`).

use crate::catalogue::Glue;
use crate::own_library::OwnLibrary;
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
};

/// The variables, beside `LD_PRELOAD` with this library in it, that tell it which program gets which preload.
pub fn environment(program: &OsStr, preload: &Path) -> [(OsString, OsString); 2] {
    [
        ("REHEAP_ONLY".into(), program.to_owned()),
        ("REHEAP_ONLY_LIBRARY".into(), preload.as_os_str().to_owned()),
    ]
}
