//! Finds the parts of an image in a directory or a tar archive.

use crate::blob::Region;
use crate::error::ReadError;
use crate::members::Members;
use crate::workplace::{Workplace, copy_with_holes};
use flate2::read::MultiGzDecoder;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tar::EntryType;

/// Manifests and configurations are some kilobytes. Registries refuse manifests that are larger, and JSON can need a
/// hundred times as much memory.
pub(crate) const SMALL_BYTES_MAX: u64 = 4 << 20;
/// More parts than any image has.
const PARTS_MAX: usize = 100_000;
/// As many links as Linux follows (path_resolution(7)).
const LINKS_MAX: usize = 40;
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// The place and the value of the magic in a tar header (POSIX, pax interchange format).
const TAR_MAGIC: (usize, &[u8]) = (257, b"ustar");

/// How an archive is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Packing {
    None,
    Gzip,
}

impl Packing {
    /// What a file tells at its beginning; `None` if it is no archive.
    fn of(file: &mut File) -> io::Result<Option<Self>> {
        let mut beginning = Vec::new();
        file.by_ref().take(512).read_to_end(&mut beginning)?;
        file.rewind()?;
        let packing = if beginning.starts_with(&GZIP) {
            Self::Gzip
        } else {
            Self::None
        };
        if packing == Self::Gzip {
            beginning.clear();
            let unpacked = MultiGzDecoder::new(&mut *file);
            // What is cut off may still have enough.
            let _ = unpacked.take(512).read_to_end(&mut beginning);
            file.rewind()?;
        }
        let (offset, magic) = TAR_MAGIC;
        let rest = beginning.get(offset..);
        Ok(rest
            .is_some_and(|rest| rest.starts_with(magic))
            .then_some(packing))
    }
}

/// A copy in a file without a name.
fn unpacked(mut from: impl Read, workplace: &Workplace<'_>) -> Result<File, ReadError> {
    let mut file = workplace.file().map_err(io::Error::other)?;
    copy_with_holes(&mut from, &mut file)?;
    file.rewind()?;
    Ok(file)
}

/// The parts of an image by name.
#[derive(Debug)]
pub(crate) enum Store {
    Directory(PathBuf),
    Archive {
        file: Arc<File>,
        /// Offset and size of each part.
        parts: HashMap<String, (u64, u64)>,
    },
}

impl Store {
    /// Whether the path holds an image, as far as its beginning tells.
    pub(crate) fn is_one(path: &Path) -> bool {
        if path.is_dir() {
            return path.join("oci-layout").is_file() || path.join("manifest.json").is_file();
        }
        let packing = || Packing::of(&mut File::open(path)?);
        path.is_file() && packing().is_ok_and(|packing| packing.is_some())
    }

    pub(crate) fn open(path: &Path, workplace: &Workplace<'_>) -> Result<Self, ReadError> {
        if path.is_dir() {
            return Ok(Self::Directory(path.to_owned()));
        }
        let mut file = File::open(path)?;
        let kind = file.metadata()?.file_type();
        // reheap reads parts in another order than they are stored, and neither a pipe nor a compressed stream allows that.
        if kind.is_fifo() {
            file = unpacked(workplace.until_end(file), workplace)?;
        } else if !kind.is_file() {
            return Err(ReadError::NoImage);
        }
        match Packing::of(&mut file)? {
            None => return Err(ReadError::NoImage),
            Some(Packing::None) => {}
            Some(Packing::Gzip) => {
                let packed = workplace.until_end(BufReader::new(file));
                file = unpacked(MultiGzDecoder::new(packed), workplace)?;
            }
        }
        Self::of_archive(Arc::new(file), workplace)
    }

    fn of_archive(file: Arc<File>, workplace: &Workplace<'_>) -> Result<Self, ReadError> {
        let (mut parts, mut links) = (HashMap::new(), HashMap::new());
        let mut members = Members::sought(BufReader::new(&*file));
        while let Some(member) = members.next()? {
            workplace.go_on()?;
            let [name, target] =
                [&member.name, &member.target].map(|path| Path::new(OsStr::from_bytes(path)));
            let root = Path::new("");
            let Some(name) = within(root, name) else {
                continue;
            };
            // Docker writes a layer that it has already written as a link to it.
            let target = match member.kind {
                EntryType::Link => within(root, target),
                EntryType::Symlink => name
                    .parent()
                    .and_then(|directory| within(directory, target)),
                _ => None,
            };
            let is_part = matches!(
                member.kind,
                EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse
            );
            let name = name.to_string_lossy().into_owned();
            if is_part && member.is_sparse {
                return Err(ReadError::Sparse(name.escape_debug().to_string()));
            }
            if is_part {
                links.remove(&name);
                parts.insert(name, (member.position, member.size_bytes));
            } else if let Some(target) = target {
                parts.remove(&name);
                links.insert(name, target.to_string_lossy().into_owned());
            }
            if parts.len() + links.len() > PARTS_MAX {
                return Err(ReadError::TooManyFiles(PARTS_MAX));
            }
        }
        // A link may come before the part that it leads to.
        for (name, target) in &links {
            let mut at = target;
            for _ in 0..LINKS_MAX {
                at = links.get(at).unwrap_or(at);
            }
            if let Some(&place) = parts.get(at) {
                parts.insert(name.clone(), place);
            }
        }
        Ok(Self::Archive { file, parts })
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        match self {
            Self::Directory(directory) => directory.join(name).is_file(),
            Self::Archive { parts, .. } => parts.contains_key(name),
        }
    }

    /// Reads a manifest or configuration.
    pub(crate) fn read_small(&self, name: &str) -> Result<Vec<u8>, ReadError> {
        let part = self.part(name)?;
        if part.size_bytes() <= SMALL_BYTES_MAX {
            Ok(part.beginning(SMALL_BYTES_MAX)?)
        } else {
            Err(ReadError::Damaged {
                what: "archive",
                reason: format!("`{}` is longer than 4 MiB", name.escape_debug()),
            })
        }
    }

    /// Where a part is.
    pub(crate) fn part(&self, name: &str) -> Result<Region, ReadError> {
        let (file, offset, size) = match self {
            Self::Directory(directory) => {
                let file = File::open(self.path_of(directory, name)?)?;
                let size = file.metadata()?.len();
                (Arc::new(file), 0, size)
            }
            Self::Archive { file, parts } => {
                let &(offset, size) = parts.get(name).ok_or_else(|| missing(name))?;
                (Arc::clone(file), offset, size)
            }
        };
        Region::new(file, offset, size).map_err(|_| ReadError::Damaged {
            what: "archive",
            reason: format!("it ends in the middle of `{}`", name.escape_debug()),
        })
    }

    /// `manifest.json` of a directory may name anything; a name that leads out of the directory is not part of the image.
    /// Links in the directory are followed wherever they lead: build tools keep blobs once for all images.
    fn path_of(&self, directory: &Path, name: &str) -> Result<PathBuf, ReadError> {
        let path = within(Path::new(""), Path::new(name)).map(|path| directory.join(path));
        path.filter(|path| path.is_file())
            .ok_or_else(|| missing(name))
    }
}

fn missing(name: &str) -> ReadError {
    ReadError::Missing(name.escape_debug().to_string())
}

/// A path without `..`, as seen from a directory; `None` if it leads out.
fn within(directory: &Path, path: &Path) -> Option<PathBuf> {
    use std::path::Component;
    let mut result = directory.to_owned();
    for component in path.components() {
        match component {
            Component::Normal(name) => result.push(name),
            Component::CurDir => {}
            Component::ParentDir => {
                if !result.pop() {
                    return None;
                }
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_within_the_image_or_nowhere() {
        let directory = Path::new("a");
        assert_eq!(within(directory, Path::new("../b/./c")), Some("b/c".into()));
        assert_eq!(within(directory, Path::new("../../b")), None);
        assert_eq!(within(directory, Path::new("/b")), None);
    }
}
