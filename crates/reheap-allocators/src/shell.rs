//! Words of the shell's language.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

/// A word in single quotes. Between them the shell changes no byte but the single quote itself.
pub fn quoted(word: &OsStr) -> Vec<u8> {
    let mut quoted = vec![b'\''];
    for &byte in word.as_bytes() {
        match byte {
            b'\'' => quoted.extend_from_slice(b"'\\''"),
            _ => quoted.push(byte),
        }
    }
    quoted.push(b'\'');
    quoted
}
