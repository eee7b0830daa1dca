//! Finds the debug information that distributions keep apart from programs.
//!
//! GDB's manual ("Debugging Information in Separate Files") says where: by build-id below a global directory, or by the
//! name that the program's `.gnu_debuglink` has, near the program or below the global directory. What `dwz` shares
//! between several files is in yet another one, which `.gnu_debugaltlink` names.

use super::elf::{Bytes, Elf};
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Where distributions put debug files.
pub(super) const GLOBAL_DIRECTORY: &str = "/usr/lib/debug";

/// The file with a program's debug information, and its path.
pub(super) fn debug_file(program: &Elf, path: &Path, global: &Path) -> Option<(Elf, PathBuf)> {
    let by_id = program
        .build_id()
        .and_then(|id| with_build_id(by_build_id(global, id)?, id));
    by_id.or_else(|| by_link(program, path, global))
}

/// The file that shares debug information with this one, as `dwz -m` makes it.
pub(super) fn supplement(debug: &Elf, path: &Path, global: &Path) -> Option<Elf> {
    let link = debug.section(".gnu_debugaltlink")?;
    let (name, id) = split_name(&link)?;
    let beside = path.parent().unwrap_or(Path::new("/")).join(name);
    [by_build_id(global, id), Some(beside)]
        .into_iter()
        .flatten()
        .find_map(|candidate| with_build_id(candidate, id))
        .map(|(elf, _)| elf)
}

fn by_build_id(global: &Path, id: &[u8]) -> Option<PathBuf> {
    let hexadecimal = hex::encode(id);
    let (first, rest) = hexadecimal.split_at_checked(2)?;
    (!rest.is_empty()).then(|| global.join(format!(".build-id/{first}/{rest}.debug")))
}

fn with_build_id(path: PathBuf, id: &[u8]) -> Option<(Elf, PathBuf)> {
    let elf = open(&path)?;
    (elf.build_id() == Some(id)).then_some((elf, path))
}

fn by_link(program: &Elf, path: &Path, global: &Path) -> Option<(Elf, PathBuf)> {
    let link = program.section(".gnu_debuglink")?;
    let (name, rest) = split_name(&link)?;
    // The checksum follows at the next multiple of four.
    let padding = link.len().checked_sub(rest.len())?.next_multiple_of(4);
    let checksum = u32::from_le_bytes(link.get(padding..padding + 4)?.try_into().ok()?);
    let directory = path.parent()?;
    let below_global = global.join(directory.strip_prefix("/").unwrap_or(directory));
    [
        directory.join(name),
        directory.join(".debug").join(name),
        below_global.join(name),
    ]
    .into_iter()
    .filter(|candidate| candidate != path)
    .find_map(|candidate| {
        let elf = open(&candidate)?;
        (crc32(elf.bytes()) == checksum).then_some((elf, candidate))
    })
}

/// A name that a zero ends, and what is behind it.
fn split_name(link: &[u8]) -> Option<(&Path, &[u8])> {
    let end = link.iter().position(|byte| *byte == 0)?;
    let name = Path::new(OsStr::from_bytes(&link[..end]));
    (end > 0).then_some((name, &link[end + 1..]))
}

fn open(path: &Path) -> Option<Elf> {
    // Before it is opened: opening a pipe would wait for ever.
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    Elf::parse(Bytes::File(File::open(path).ok()?))
}

/// The checksum of `.gnu_debuglink`: CRC-32 as in IEEE 802.3.
fn crc32(bytes: &Bytes) -> u32 {
    const TABLE: [u32; 256] = crc32_table();
    let mut crc = !0_u32;
    bytes.pieces(|piece| {
        for byte in piece {
            crc = TABLE[usize::from(crc as u8 ^ byte)] ^ (crc >> 8);
        }
    });
    !crc
}

const fn crc32_table() -> [u32; 256] {
    const REVERSED_POLYNOMIAL: u32 = 0xedb8_8320;
    let mut table = [0; 256];
    let mut index = 0;
    while index < table.len() {
        let mut value = index as u32;
        let mut bit = 0;
        while bit < 8 {
            value = (value >> 1) ^ (REVERSED_POLYNOMIAL * (value & 1));
            bit += 1;
        }
        table[index] = value;
        index += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_its_definition() {
        // The check value of CRC-32 in every catalogue of such codes.
        assert_eq!(crc32(&Bytes::Memory(b"123456789".to_vec())), 0xcbf4_3926);
    }
}
