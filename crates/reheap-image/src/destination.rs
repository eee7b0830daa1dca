//! Where an image goes: an archive or a directory, whole or not at all.
//!
//! Everything is checked before the first layer is made, because that can take long. What is there already is replaced
//! at the end, in one step.

use crate::Part;
use crate::error::ImageError;
use crate::workplace::Workplace;
use rustix::fs::{AtFlags, CWD, RenameFlags};
use rustix::io::Errno;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Whoever gives a name that ends like this does not want a directory.
const OTHER_ARCHIVES: [&str; 7] = ["bz2", "gz", "tgz", "txz", "xz", "zip", "zst"];
/// Begins the names of what is not complete yet.
const UNFINISHED: &str = ".reheap-";

/// A checked place for an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// A tar archive, written beside it and renamed.
    Archive(PathBuf),
    /// A tar archive, written straight into what is there: a pipe, a device.
    Stream(PathBuf),
    /// A directory, filled beside it and renamed.
    Directory(PathBuf),
}

impl Destination {
    /// The place that a path means: a name that ends in `.tar` is an archive, all others are directories. A link stays
    /// one, and what it leads to, `real`, is replaced.
    ///
    /// # Errors
    /// When something is there that an image cannot replace.
    pub fn check(path: &Path, real: PathBuf) -> Result<Self, ImageError> {
        let refuse = |reason| {
            Err(ImageError::Destination {
                path: path.to_owned(),
                reason,
            })
        };
        let is_tar = path.extension().is_some_and(|ending| ending == "tar");
        match fs::metadata(&real) {
            Ok(there) if there.is_dir() && is_tar => refuse("it is a directory"),
            Ok(there) if there.is_dir() => match replaceable(&real) {
                Ok(()) => Ok(Self::Directory(real)),
                Err(reason) => refuse(reason),
            },
            Ok(there) if !there.is_file() => Ok(Self::Stream(real)),
            Ok(_) if !is_tar => {
                refuse("it is a file, and only a name that ends in .tar is one for an archive")
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(ImageError::io("write", path)(error))
            }
            _ if is_tar => Ok(Self::Archive(real)),
            _ if is_other_archive(path) => refuse(
                "only a name that ends in .tar is one for an archive, whose layers are compressed",
            ),
            _ => Ok(Self::Directory(real)),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        match self {
            Self::Archive(path) | Self::Stream(path) | Self::Directory(path) => path,
        }
    }

    /// The directory that it appears in; none for a stream.
    pub fn parent(&self) -> Option<&Path> {
        match self {
            Self::Stream(_) => None,
            Self::Archive(path) | Self::Directory(path) => {
                let parent = path.parent().filter(|parent| *parent != Path::new(""));
                Some(parent.unwrap_or(Path::new(".")))
            }
        }
    }

    /// Writes an image, and gives its size.
    ///
    /// # Errors
    /// When it cannot be written, or the caller wants to end; then everything is as it was.
    pub fn write(&self, parts: &[Part], workplace: &Workplace<'_>) -> Result<u64, ImageError> {
        let cannot = |reason| ImageError::io("write", self.path())(reason);
        match self {
            Self::Stream(path) => {
                let file = File::options().write(true).open(path).map_err(cannot)?;
                write_archive(parts, BufWriter::new(file), workplace).map_err(cannot)?;
                Ok(parts.iter().map(|part| part.blob.size_bytes()).sum())
            }
            Self::Archive(path) => {
                let mut file = unfinished()
                    .tempfile_in(self.parent().unwrap_or(path))
                    .map_err(cannot)?;
                write_archive(parts, BufWriter::new(file.as_file_mut()), workplace)
                    .map_err(cannot)?;
                let permissions = Permissions::from_mode(0o644);
                file.as_file()
                    .set_permissions(permissions)
                    .map_err(cannot)?;
                file.as_file().sync_all().map_err(cannot)?;
                workplace.go_on()?;
                let file = file.persist(path).map_err(|error| cannot(error.error))?;
                Ok(file.metadata().map_err(cannot)?.len())
            }
            Self::Directory(path) => {
                let directory = unfinished()
                    .tempdir_in(self.parent().unwrap_or(path))
                    .map_err(cannot)?;
                write_directory(parts, directory.path(), workplace).map_err(cannot)?;
                workplace.go_on()?;
                replace(directory, path).map_err(cannot)?;
                Ok(parts.iter().map(|part| part.blob.size_bytes()).sum())
            }
        }
    }
}

fn is_other_archive(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| OTHER_ARCHIVES.contains(&ending))
}

fn unfinished() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(UNFINISHED);
    builder
}

/// Whether a directory may go: it is empty, or an OCI layout with not more than one image in it.
fn replaceable(directory: &Path) -> Result<(), &'static str> {
    let is_empty = fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none());
    if is_empty {
        return Ok(());
    }
    if !directory.join("oci-layout").is_file() {
        return Err("the directory is there already, and it is not an OCI image layout");
    }
    let index: Option<Value> = fs::read(directory.join("index.json"))
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok());
    match index
        .as_ref()
        .and_then(|index| index["manifests"].as_array())
    {
        Some(images) if images.len() <= 1 => Ok(()),
        Some(_) => Err("the layout that is there already has several images, which would be lost"),
        None => Err("the layout that is there already is damaged"),
    }
}

fn write_archive(parts: &[Part], to: impl Write, workplace: &Workplace<'_>) -> io::Result<()> {
    let mut archive = tar::Builder::new(to);
    let header = |mode: u32, size: u64| {
        let mut header = tar::Header::new_ustar();
        header.set_mode(mode);
        header.set_size(size);
        header
    };
    let directories: BTreeSet<&Path> = parts.iter().flat_map(directories_above).collect();
    for directory in directories {
        let mut header = header(0o755, 0);
        header.set_entry_type(tar::EntryType::Directory);
        archive.append_data(&mut header, directory.join(""), io::empty())?;
    }
    for part in parts {
        let size = part.blob.size_bytes();
        let bytes = workplace.read(part.blob.reader(), size);
        archive.append_data(&mut header(0o644, size), &part.path, bytes)?;
    }
    archive.into_inner()?.flush()
}

fn directories_above(part: &Part) -> impl Iterator<Item = &Path> {
    let above = Path::new(&part.path).ancestors().skip(1);
    above.filter(|directory| *directory != Path::new(""))
}

fn write_directory(parts: &[Part], to: &Path, workplace: &Workplace<'_>) -> io::Result<()> {
    fs::set_permissions(to, Permissions::from_mode(0o755))?;
    for part in parts {
        let path = to.join(&part.path);
        fs::create_dir_all(path.parent().unwrap_or(to))?;
        let mut file = File::create(&path)?;
        let mut bytes = workplace.read(part.blob.reader(), part.blob.size_bytes());
        io::copy(&mut bytes, &mut file)?;
        file.sync_all()?;
    }
    Ok(())
}

/// Puts a directory in the place of another, which then goes with the temporary one.
fn replace(new: tempfile::TempDir, path: &Path) -> io::Result<()> {
    if rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).is_err() {
        return put(new, path);
    }
    match rustix::fs::renameat_with(CWD, new.path(), CWD, path, RenameFlags::EXCHANGE) {
        Ok(()) => new.close(),
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => replace_in_two_steps(new, path),
        Err(error) => Err(error.into()),
    }
}

/// For file systems that cannot exchange two names, such as NFS and FUSE. For a moment the name is nobody's.
fn replace_in_two_steps(new: tempfile::TempDir, path: &Path) -> io::Result<()> {
    let aside = unfinished().tempdir_in(path.parent().unwrap_or(path))?;
    let old = aside.path().join("old");
    fs::rename(path, &old)?;
    put(new, path).inspect_err(|_| {
        // The error that is told is the one that came first.
        let _ = fs::rename(&old, path);
    })?;
    aside.close()
}

fn put(new: tempfile::TempDir, path: &Path) -> io::Result<()> {
    fs::rename(new.path(), path)?;
    let _ = new.keep(); // it has another name now
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blob::Blob;
    use std::sync::atomic::AtomicBool;

    fn parts(text: &str) -> Vec<Part> {
        let part = |path: &str, text: &str| Part {
            path: path.to_owned(),
            blob: Blob::of_bytes(text.as_bytes().to_vec()),
        };
        vec![
            part("oci-layout", "{}"),
            part("index.json", r#"{"manifests":[{}]}"#),
            part("blobs/sha256/0", text),
        ]
    }

    fn write(path: &Path, text: &str, flag: bool) -> Result<u64, ImageError> {
        let flag = AtomicBool::new(flag);
        let destination = Destination::check(path, path.to_owned())?;
        let parent = destination.parent().map(Path::to_owned);
        destination.write(&parts(text), &Workplace::new(parent, &flag))
    }

    #[test]
    fn an_image_is_there_whole_or_what_was_there_before_is() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["image.tar", "image"] {
            let path = directory.path().join(name);
            assert!(write(&path, "first", true).is_err());
            assert_eq!(
                fs::read_dir(directory.path()).unwrap().count(),
                usize::from(name == "image")
            );
            write(&path, "first", false).unwrap();
            let text = |path: &Path| {
                if path.is_dir() {
                    fs::read(path.join("blobs/sha256/0")).unwrap()
                } else {
                    fs::read(path).unwrap()
                }
            };
            let before = text(&path);
            assert!(matches!(
                write(&path, "second", true),
                Err(ImageError::Interrupted)
            ));
            assert_eq!(text(&path), before);
            write(&path, "second", false).unwrap();
            assert_ne!(text(&path), before);
        }
        let mut left: Vec<_> = fs::read_dir(directory.path())
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        left.sort();
        assert_eq!(left, ["image", "image.tar"]);
    }

    #[test]
    fn only_an_empty_directory_or_a_layout_of_one_image_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("image");
        let refused = || {
            Destination::check(&path, path.clone())
                .unwrap_err()
                .to_string()
        };
        fs::create_dir(&path).unwrap();
        write(&path, "", false).unwrap();
        write(&path, "", false).unwrap();
        fs::write(path.join("index.json"), r#"{"manifests":[{},{}]}"#).unwrap();
        assert!(refused().contains("several images"), "{}", refused());
        fs::write(path.join("index.json"), "{").unwrap();
        assert!(refused().contains("damaged"), "{}", refused());
        fs::remove_file(path.join("oci-layout")).unwrap();
        assert!(
            refused().contains("not an OCI image layout"),
            "{}",
            refused()
        );
        fs::remove_dir_all(&path).unwrap();
        fs::write(&path, "text").unwrap();
        assert!(refused().contains("it is a file"), "{}", refused());
    }
}
