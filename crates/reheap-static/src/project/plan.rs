//! Plans what an executable is linked with, and adds that to the linker's arguments.

use super::compilers;
use super::response_file::flavor_words;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::PathBuf;

/// What to link with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The linker that would have been called without reheap.
    pub(crate) linker: PathBuf,
    /// The directory of the derived libc; none for the stock allocator.
    pub(crate) derived: Option<PathBuf>,
    /// The stack of threads that do not choose their own, in bytes; 0 leaves musl's default.
    pub(crate) stack_size_bytes: u64,
    /// The target's triple, which names the directory that records are kept in.
    pub(crate) triple: String,
}

impl Plan {
    /// The words of the linker's command line, from those that rustc gives.
    pub(super) fn words(&self, arguments: &[OsString]) -> anyhow::Result<Vec<OsString>> {
        let mut words = arguments.to_vec();
        // A shared library has the libc and the heap of the program that loads it. With `-L` it would get a second one.
        if links_shared(&words) {
            return Ok(words);
        }
        let mut own = Vec::new();
        if let Some(directory) = &self.derived {
            let mut option = OsString::from("-L");
            option.push(directory);
            own.push(option);
        }
        if self.stack_size_bytes > 0 {
            let bytes = self.stack_size_bytes;
            if are_for_a_driver(&words) {
                own.push(format!("-Wl,-z,stack-size={bytes}").into());
            } else {
                own.extend(["-z".into(), format!("stack-size={bytes}").into()]);
            }
        }
        // At the front, because the linker uses the first libc.a that it finds and the last stack size, which may be the
        // user's.
        let front = flavor_words(&words);
        words.splice(front..front, own);
        // At the end: directories of the user's own come first, and the linker's usual ones last.
        words.extend(compilers::search_for_cxx_library(&words, &self.triple)?);
        Ok(words)
    }
}

/// Whether rustc speaks to a compiler driver and not to a linker. It has decided that by the program's name or by
/// `-C linker-flavor`, and gives a driver most options as `-Wl,…`.
fn are_for_a_driver(arguments: &[OsString]) -> bool {
    let mut arguments = arguments.iter();
    arguments.any(|argument| argument.as_encoded_bytes().starts_with(b"-Wl,"))
}

/// Whether a shared library is made: a procedural macro on a system whose own libc is musl, or a cdylib without
/// `crt-static`.
pub(super) fn links_shared(arguments: &[OsString]) -> bool {
    arguments.iter().any(|argument| argument == "-shared")
}
