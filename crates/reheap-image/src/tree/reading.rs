//! What the entries of a layer do to the tree.
//!
//! Engines unpack a layer alone and put it on the others afterwards (overlayfs). So an entry goes through links of its own
//! layer, and a directory that the layer does not name is made, also where a layer below has a link.

use super::{Act, Change, PATH_BYTES_MAX, ROOT, Tree, along};
use crate::error::ReadError;
use crate::members::{Member, Members};
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use tar::EntryType;

/// More files than any image has, and few enough for the memory that reheap allows.
const FILES_MAX: usize = 1_000_000;
const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";

/// What to do with a file that is outside of the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Escaping {
    LeftOut,
    Refused,
}

/// A layer whose names are read.
pub(super) struct Reading<'a> {
    tree: &'a mut Tree,
    changes: Vec<Change>,
    /// The directories and the links in it so far.
    directories: HashSet<u64>,
    links: HashMap<u64, PathBuf>,
    /// The number of the next entry.
    entry: u32,
}

impl<'a> Reading<'a> {
    pub(super) fn of(tree: &'a mut Tree) -> Self {
        Self {
            tree,
            changes: Vec::new(),
            directories: HashSet::new(),
            links: HashMap::new(),
            entry: 0,
        }
    }

    /// What all entries of a layer do.
    pub(super) fn all(
        mut self,
        mut members: Members<impl Read>,
        escaping: Escaping,
    ) -> Result<Vec<Change>, ReadError> {
        while let Some(member) = members.next()? {
            self.put(&member, escaping)?;
        }
        Ok(self.changes)
    }

    /// Takes the next entry.
    fn put(&mut self, member: &Member, escaping: Escaping) -> Result<(), ReadError> {
        let done = match from_root(&member.name) {
            Some(path) if path.as_os_str().len() > PATH_BYTES_MAX => {
                Err(ReadError::LongPath(PATH_BYTES_MAX))
            }
            Some(path) => self.put_at(&path, member),
            None => Err(ReadError::Damaged {
                what: "layer",
                reason: format!(
                    "`{}` is outside of the image",
                    String::from_utf8_lossy(&member.name).escape_debug()
                ),
            }),
        };
        self.entry += 1;
        self.count()?;
        match done {
            Err(ReadError::LongPath(_) | ReadError::Damaged { .. })
                if escaping == Escaping::LeftOut =>
            {
                Ok(())
            }
            done => done,
        }
    }

    fn count(&mut self) -> Result<(), ReadError> {
        self.tree.files += 1;
        if self.tree.files > FILES_MAX {
            Err(ReadError::TooManyFiles(FILES_MAX))
        } else {
            Ok(())
        }
    }

    fn put_at(&mut self, path: &Path, member: &Member) -> Result<(), ReadError> {
        let act = match member.kind {
            EntryType::Directory => Act::Directory,
            EntryType::Symlink => Act::Link(
                self.tree
                    .keep(Path::new(OsStr::from_bytes(&member.target)))?,
            ),
            EntryType::Link => match from_root(&member.target) {
                Some(target) => Act::SameAs(self.tree.keep(&self.through_own_links(&target)?)?),
                None => Act::Other,
            },
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => Act::File,
            EntryType::Char | EntryType::Block | EntryType::Fifo => Act::Other,
            _ => return Ok(()),
        };
        let Some(name) = path.file_name().map(OsStr::as_bytes) else {
            return Ok(()); // the root
        };
        let directory = self.directory(path.parent().unwrap_or(Path::new("/")))?;
        let (path, act) = match name.strip_prefix(WHITEOUT) {
            Some(_) if name == OPAQUE => (directory, Act::Empty),
            Some(b"") => (directory, Act::Hide),
            Some(hidden) => (
                self.tree.hash(directory, OsStr::from_bytes(hidden)),
                Act::Hide,
            ),
            None => (self.tree.hash(directory, OsStr::from_bytes(name)), act),
        };
        match act {
            Act::Hide | Act::Empty => {}
            Act::Directory => {
                self.directories.insert(path);
                self.links.remove(&path);
            }
            Act::Link(target) => {
                self.directories.remove(&path);
                self.links.insert(path, self.tree.kept(target));
            }
            Act::File | Act::SameAs(_) | Act::Other => {
                self.directories.remove(&path);
                self.links.remove(&path);
            }
        }
        self.change(path, act);
        Ok(())
    }

    fn change(&mut self, path: u64, act: Act) {
        let entry = self.entry;
        self.changes.push(Change { path, entry, act });
    }

    /// A directory that an entry is put into.
    fn directory(&mut self, path: &Path) -> Result<u64, ReadError> {
        let (_, hash) = along(path, ROOT, |directory, name| {
            let path = self.tree.hash(directory, name);
            let target = self.links.get(&path).cloned();
            if target.is_none() && self.directories.insert(path) {
                self.change(path, Act::Directory);
                self.tree.files += 1;
            }
            (path, target)
        })?;
        Ok(hash)
    }

    /// A path whose directories are not links of this layer.
    fn through_own_links(&self, path: &Path) -> Result<PathBuf, ReadError> {
        let directory = path.parent().unwrap_or(Path::new("/"));
        let (directory, _) = along(directory, ROOT, |directory, name| {
            let path = self.tree.hash(directory, name);
            (path, self.links.get(&path).cloned())
        })?;
        Ok(directory.join(path.file_name().unwrap_or_default()))
    }
}

/// An entry's path from `/`; `None` if it leads out.
fn from_root(name: &[u8]) -> Option<PathBuf> {
    let mut path = PathBuf::from("/");
    for component in Path::new(OsStr::from_bytes(name)).components() {
        match component {
            Component::Normal(name) => path.push(name),
            Component::CurDir | Component::RootDir => {}
            Component::ParentDir if path.pop() => {}
            Component::ParentDir | Component::Prefix(_) => return None,
        }
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_out_only_if_it_begins_with_the_way_out() {
        for (name, path) in [
            ("./a//b/", Some("/a/b")),
            ("/a/x/../b", Some("/a/b")),
            ("a/../..", None),
            ("../a", None),
        ] {
            assert_eq!(
                from_root(name.as_bytes()),
                path.map(PathBuf::from),
                "{name}"
            );
        }
    }
}
