//! Takes the steps that change a disk. Each may fail, and each is durable when it is done.
//!
//! A file appears whole: reheap writes it under another name next to its place, syncs it to the disk, and renames it.
//! The other name is always the same. So a later command can find what a crash left, and crashes do not pile up files.

use super::attributes;
use super::root::{Place, Root};
use anyhow::Context as _;
use reheap_allocators::cache::fill;
use rustix::fs::{Mode, OFlags, Timespec};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// What is kept of a mode. None of these files is a program, so one that was setuid was not written by reheap.
const PERMISSIONS: u32 = 0o777;

const ALL_BITS: u32 = 0o7777;

/// What link(2) says where a file cannot get a second name: the file system has none, as FAT, it is a mount point, or
/// the user may not (`fs.protected_hardlinks`).
const NO_LINKS: [Errno; 6] = [
    Errno::PERM,
    Errno::ACCESS,
    Errno::NOTSUP,
    Errno::NOSYS,
    Errno::MLINK,
    Errno::XDEV,
];

/// A file as it was or shall be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contents {
    pub(crate) bytes: Bytes,
    pub(crate) mode: u32,
    pub(crate) owner: u32,
    pub(crate) group: u32,
}

/// Text where it is text, so that a person can read the record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Bytes {
    Text(String),
    Other(Vec<u8>),
}

impl Contents {
    /// A new file of root's, or of whoever makes the image.
    pub(crate) fn new(bytes: Vec<u8>, mode: u32) -> Self {
        Self {
            mode,
            owner: rustix::process::geteuid().as_raw(),
            group: rustix::process::getegid().as_raw(),
            bytes: match String::from_utf8(bytes) {
                Ok(text) => Bytes::Text(text),
                Err(error) => Bytes::Other(error.into_bytes()),
            },
        }
    }

    /// This file with other contents.
    pub(crate) fn with(&self, bytes: Vec<u8>) -> Self {
        Self {
            owner: self.owner,
            group: self.group,
            ..Self::new(bytes, self.mode)
        }
    }

    /// The bytes of the file.
    pub fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Text(text) => text.as_bytes(),
            Bytes::Other(bytes) => bytes,
        }
    }
}

/// Which of a file's other names.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stage {
    /// What the file shall be.
    After,
    /// What it was, for the way back, which must not need room on the disk.
    Before,
    /// What was there before reheap: the file itself, for as long as ours is in its place. So its times and attributes
    /// come back with it, and it stays the same file as what other names it has (hard links).
    Original,
}

/// The name for what was there before reheap.
pub(crate) fn kept(path: &str) -> String {
    staged(Path::new(path), Stage::Original)
        .to_string_lossy()
        .into_owned()
}

/// A root directory that is written to.
#[derive(Debug)]
pub struct Disk<'a> {
    pub(crate) root: &'a Root,
    #[cfg(test)]
    pub(crate) fault: super::tests::Fault,
}

impl<'a> Disk<'a> {
    /// The disk of the system below that root.
    pub fn new(root: &'a Root) -> Self {
        Self {
            root,
            #[cfg(test)]
            fault: Default::default(),
        }
    }

    fn step(
        &self,
        what: &str,
        path: &str,
        act: impl FnOnce(&Path) -> io::Result<()>,
    ) -> anyhow::Result<()> {
        #[cfg(test)]
        let act = self.fault.around(act);
        let place = self.root.place(path);
        place
            .and_then(|place| act(&place))
            .with_context(|| format!("cannot {what} `{path}`"))
    }

    /// A file, if it is there.
    ///
    /// # Errors
    /// If it cannot be read, or is not a file.
    pub fn read(&self, path: &str) -> anyhow::Result<Option<Contents>> {
        let place = match self.root.place(path) {
            Ok(place) => place,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("cannot find `{path}`")),
        };
        let metadata = match place.symlink_metadata() {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("cannot read `{path}`")),
        };
        if !metadata.is_file() {
            anyhow::bail!("cannot replace `{path}`: it is not a regular file");
        }
        let mut bytes = Vec::new();
        open(&place, OFlags::NONBLOCK)
            .and_then(|mut file| file.read_to_end(&mut bytes))
            .with_context(|| format!("cannot read `{path}`"))?;
        Ok(Some(Contents {
            mode: metadata.mode() & PERMISSIONS,
            owner: metadata.uid(),
            group: metadata.gid(),
            ..Contents::new(bytes, 0)
        }))
    }

    /// Makes what is missing of a directory's path, and says what that was, the outermost first.
    pub fn missing_directories(&self, path: &str) -> Vec<String> {
        let is_missing = |path: &&Path| !self.root.is_directory(&path.to_string_lossy());
        let ancestors = Path::new(path).ancestors();
        let mut missing: Vec<String> = ancestors
            .take_while(is_missing)
            .map(|path| path.to_string_lossy().into_owned())
            .collect();
        missing.reverse();
        missing
    }

    /// Makes a directory, unless it is there.
    pub fn make_directory(&self, path: &str) -> anyhow::Result<()> {
        self.step("make the directory", path, |directory| {
            match fs::create_dir(directory) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => made?,
            }
            // The user's mask does not count. A link in its place could lead out of an image.
            open(directory, OFlags::DIRECTORY)?.set_permissions(Permissions::from_mode(0o755))?;
            sync_directory_of(directory)
        })
    }

    /// Writes a file, whole or not at all.
    pub(crate) fn write(&self, path: &str, contents: &Contents) -> anyhow::Result<()> {
        self.stage(path, Stage::After, contents)?;
        self.put_in_place(path, Stage::After)
    }

    /// Writes a file under its other name.
    pub(crate) fn stage(
        &self,
        path: &str,
        stage: Stage,
        contents: &Contents,
    ) -> anyhow::Result<()> {
        self.step("write", path, |file| {
            // Anything but a plain file has nothing that the new file should keep.
            let present = open(file, OFlags::NONBLOCK).ok();
            let present =
                present.filter(|file| file.metadata().is_ok_and(|metadata| metadata.is_file()));
            write_synced(&staged(file, stage), contents, |new| match &present {
                None => Ok(()),
                Some(present) => {
                    attributes::copy(present, new)?;
                    match stage {
                        Stage::Before => attributes::copy_times(present, new),
                        Stage::After | Stage::Original => Ok(()),
                    }
                }
            })
        })
    }

    /// Gives a file a second name next to its own. Says whether that worked: not every file system and not every user
    /// can.
    pub(crate) fn link_aside(&self, path: &str, stage: Stage) -> anyhow::Result<bool> {
        self.link_staged(path, |file| (file.to_owned(), staged(file, stage)))
    }

    /// Stages what was there before reheap.
    pub(crate) fn stage_original(&self, path: &str) -> anyhow::Result<bool> {
        self.link_staged(path, |file| {
            (staged(file, Stage::Original), staged(file, Stage::After))
        })
    }

    fn link_staged(
        &self,
        path: &str,
        names: impl FnOnce(&Path) -> (PathBuf, PathBuf),
    ) -> anyhow::Result<bool> {
        let mut is_linked = true;
        self.step("make a link next to", path, |file| {
            let (from, to) = names(file);
            delete_file(&to)?;
            match rustix::fs::link(&from, &to) {
                Err(error) if NO_LINKS.contains(&error) => {
                    is_linked = false;
                    Ok(())
                }
                linked => Ok(linked?),
            }
        })?;
        Ok(is_linked)
    }

    /// What was there before reheap, if it was kept. One that is no plain file, or runs with another user's rights, was
    /// not kept by reheap.
    pub(crate) fn kept(&self, path: &str) -> anyhow::Result<Option<Contents>> {
        let kept = kept(path);
        let metadata = self
            .root
            .place(&kept)
            .and_then(|place| place.symlink_metadata());
        match metadata {
            Ok(file) if file.is_file() && file.mode() & ALL_BITS == file.mode() & PERMISSIONS => {
                self.read(&kept)
            }
            _ => Ok(None),
        }
    }

    /// Sets when a directory was modified; one that is not there any more has no time.
    pub(crate) fn set_directory_time(&self, path: &str, modified: Timespec) -> anyhow::Result<()> {
        let set = |path: &Path| match self.root.open_directory(&path.to_string_lossy()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            directory => attributes::set_time(&directory?, modified),
        };
        #[cfg(test)]
        let set = self.fault.around(set);
        set(Path::new(path)).with_context(|| format!("cannot set the time of `{path}`"))
    }

    /// Gives what was staged its name.
    pub(crate) fn put_in_place(&self, path: &str, stage: Stage) -> anyhow::Result<()> {
        self.step("replace", path, |file| {
            fs::rename(staged(file, stage), file)?;
            sync_directory_of(file)
        })
    }

    /// Makes sure that a file keeps its name.
    pub(crate) fn bring_to_disk(&self, path: &str) -> anyhow::Result<()> {
        self.step("sync", path, sync_directory_of)
    }

    /// Makes a link, in place of what has its name.
    pub(crate) fn link(&self, path: &str, target: &str) -> anyhow::Result<()> {
        self.step("make the link", path, |link| {
            if !leads_to(link, target) {
                delete_file(link)?;
                std::os::unix::fs::symlink(target, link)?;
            }
            sync_directory_of(link)
        })
    }

    /// Whether a link is there as it would be made.
    pub(crate) fn is_link(root: &Root, path: &str, target: &str) -> bool {
        root.place(path).is_ok_and(|link| leads_to(&link, target))
    }

    /// Deletes a file; one that is not there is deleted.
    pub(crate) fn delete(&self, path: &str) -> anyhow::Result<()> {
        self.unless_missing("delete", path, |file| {
            file.symlink_metadata()?; // unlink(2) of nothing is an error of its own on a read-only file system
            fs::remove_file(file)?;
            sync_directory_of(file)
        })
    }

    /// Deletes other names that an interrupted command left.
    pub(crate) fn delete_staged(&self, path: &str) -> anyhow::Result<()> {
        for stage in [Stage::After, Stage::Before] {
            let is_there = |place: Place| staged(&place, stage).symlink_metadata().is_ok();
            if self.root.place(path).is_ok_and(is_there) {
                self.unless_missing("clean up next to", path, |file| {
                    fs::remove_file(staged(file, stage))
                })?;
            }
        }
        Ok(())
    }

    /// Deletes a directory and what is in it.
    pub(crate) fn delete_tree(&self, path: &str) -> anyhow::Result<()> {
        self.unless_missing("delete the directory", path, |directory| {
            fs::remove_dir_all(directory)?;
            sync_directory_of(directory)
        })
    }

    /// Deletes a directory unless somebody has put something into it, or something else in its place.
    pub(crate) fn delete_if_empty(&self, path: &str) -> anyhow::Result<()> {
        self.unless_missing("delete the directory", path, |directory| {
            use io::ErrorKind::{DirectoryNotEmpty, NotADirectory};
            match fs::remove_dir(directory) {
                Err(error) if matches!(error.kind(), DirectoryNotEmpty | NotADirectory) => Ok(()),
                removed => {
                    removed?;
                    sync_directory_of(directory)
                }
            }
        })
    }

    fn unless_missing(
        &self,
        what: &str,
        path: &str,
        act: impl FnOnce(&Path) -> io::Result<()>,
    ) -> anyhow::Result<()> {
        if self
            .root
            .place(path)
            .is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        {
            return Ok(());
        }
        self.step(what, path, |located| match act(located) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result,
        })
    }
}

/// Whether an interrupted command left something next to the file.
pub(crate) fn has_staged(root: &Root, path: &str) -> bool {
    let is_there = |file: &Path, stage| staged(file, stage).symlink_metadata().is_ok();
    root.place(path)
        .is_ok_and(|file| is_there(&file, Stage::After) || is_there(&file, Stage::Before))
}

fn staged(file: &Path, stage: Stage) -> PathBuf {
    let end = match stage {
        Stage::After => "reheap-after",
        Stage::Before => "reheap-before",
        Stage::Original => "reheap-original",
    };
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    file.with_file_name(format!(".{name}.{end}"))
}

/// The file or directory itself, never what a link in its place leads to.
fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

fn leads_to(link: &Path, target: &str) -> bool {
    link.read_link()
        .is_ok_and(|present| present == Path::new(target))
}

/// One that is not there is deleted.
fn delete_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// `dress` gives the file everything besides its contents.
fn write_synced(
    path: &Path,
    contents: &Contents,
    dress: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<()> {
    delete_file(path)?;
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    let written = fill(&mut file, contents.bytes(), |file| {
        std::os::unix::fs::fchown(file, Some(contents.owner), Some(contents.group))?;
        dress(file)?; // before the mode, of which an access control list is a part
        file.set_permissions(Permissions::from_mode(contents.mode & PERMISSIONS))
    });
    if written.is_err() {
        // The caller needs the first error, not that of the cleanup.
        let _ = fs::remove_file(path);
    }
    written
}

fn sync_directory_of(path: &Path) -> io::Result<()> {
    File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
}
