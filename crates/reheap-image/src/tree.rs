//! Builds the file tree that the layers of an image make together (OCI image specification, "Layer Filesystem
//! Changeset").

use crate::blob::{Hashed, Region};
use crate::compression::{compression_of, unpacked};
use crate::error::ReadError;
use crate::read::StoredLayer;
use crate::workplace::{Workplace, copy_with_holes};
use oci_spec::image::Digest;
use std::ffi::OsStr;
use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, BufReader, Read, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use tar::EntryType;

/// More files than any image has, and few enough for the memory that reheap allows.
const FILES_MAX: usize = 1_000_000;
/// The most bytes that all links of an image may hold together.
const TARGETS_BYTES_MAX: usize = 8 << 20;
/// reheap reads a larger program only up to this: nobody wants more of an image copied to the disk.
const FILE_BYTES_MAX: u64 = 2 << 30;
/// As much as the kernel looks at.
pub const BEGINNING_BYTES: u64 = 256;
/// As many links as Linux follows (path_resolution(7)).
const LINKS_MAX: usize = 40;
const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";

/// What a layer does to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    /// It has a directory there.
    Directory,
    /// It has a file there: the entry of that number.
    File(u32),
    /// It has a symbolic link there; the targets say where it leads.
    Link(u32),
    /// It has another name there of the file at that path.
    SameAs(u32),
    /// It removes what is below it.
    Hide,
    /// It removes what is in the directory below it.
    Empty,
}

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Node {
    Directory,
    /// The layer and the number of the entry in it.
    File {
        layer: usize,
        entry: u32,
    },
    /// Where a symbolic link leads.
    Link(PathBuf),
    /// Another name of the file at that path.
    SameAs(PathBuf),
}

/// The tree, with paths from `/`. reheap asks for only a few of a million paths, so it keeps each as a hash of eight
/// bytes. The key of the hash is random, so no image can be made to collide.
#[derive(Debug, Default)]
pub struct Tree {
    layers: Vec<Region>,
    /// What each layer does, the lowest first, sorted by path.
    acts: Vec<Vec<(u64, Act)>>,
    /// Two bytes of length, then the text of a link.
    targets: Vec<u8>,
    hashes: RandomState,
    files: usize,
}

/// What to do with a file that is outside of the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Escaping {
    LeftOut,
    Refused,
}

/// What a layer turned out to be when all of it was read.
#[derive(Debug, Clone)]
pub struct Digests {
    /// Of its stored bytes.
    pub stored: Digest,
    /// Of the archive in it.
    pub diff_id: Digest,
}

/// A file of an image.
#[derive(Debug)]
pub struct Found {
    /// The file of this machine that holds it, and where it begins there.
    pub file: File,
    /// Where it begins in that file.
    pub start: u64,
    /// How long it is.
    pub size_bytes: u64,
    /// As much as the kernel looks at to tell what it is.
    pub beginning: Vec<u8>,
    /// Its permission bits.
    pub mode: u32,
    /// The user and the group that it belongs to.
    pub owner: (u32, u32),
    /// Whether it has capabilities (capabilities(7)).
    pub has_capabilities: bool,
}

impl Tree {
    /// Reads the names of all files.
    ///
    /// # Errors
    /// When a layer cannot be read.
    pub fn read(layers: &[StoredLayer], workplace: &Workplace<'_>) -> Result<Self, ReadError> {
        let mut tree = Self::default();
        for layer in layers {
            let stored = workplace.until_end(layer.stored.reader());
            let archive = unpacked(&layer.stored.beginning(4)?, BufReader::new(stored))?;
            tree.read_names(archive, Escaping::LeftOut)?;
            tree.layers.push(layer.stored.clone());
        }
        Ok(tree)
    }

    /// The same, with every byte of every layer, so that its digests are known.
    ///
    /// # Errors
    /// When a layer is not what its digests say, or a file in it is outside of the image.
    pub fn check(
        layers: &[StoredLayer],
        workplace: &Workplace<'_>,
    ) -> Result<(Self, Vec<Digests>), ReadError> {
        let mut tree = Self::default();
        let mut digests = Vec::new();
        for layer in layers {
            let found = tree.check_layer(layer, workplace)?;
            let is = |expected: &Option<Digest>, found: &Digest| match expected {
                Some(expected) if expected != found => Err(ReadError::Digest {
                    expected: expected.to_string(),
                    found: found.to_string(),
                }),
                _ => Ok(()),
            };
            is(&layer.digest, &found.stored)?;
            is(&layer.diff_id, &found.diff_id)?;
            tree.layers.push(layer.stored.clone());
            digests.push(found);
        }
        Ok((tree, digests))
    }

    fn check_layer(
        &mut self,
        layer: &StoredLayer,
        workplace: &Workplace<'_>,
    ) -> Result<Digests, ReadError> {
        let mut stored = Hashed::new(workplace.until_end(layer.stored.reader()));
        let mut archive = {
            let buffered = BufReader::with_capacity(1 << 16, &mut stored);
            Hashed::new(unpacked(&layer.stored.beginning(4)?, buffered)?)
        };
        self.read_names(&mut archive, Escaping::Refused)?;
        // Neither the end of an archive nor that of a compressed stream is the end of the file.
        io::copy(&mut archive, &mut io::sink())?;
        let (decoder, diff_id, _) = archive.finish();
        drop(decoder);
        io::copy(&mut stored, &mut io::sink())?;
        Ok(Digests {
            stored: stored.finish().1,
            diff_id,
        })
    }

    fn read_names(&mut self, archive: impl Read, escaping: Escaping) -> Result<(), ReadError> {
        let mut acts = Vec::new();
        for (number, entry) in tar::Archive::new(archive).entries()?.enumerate() {
            let entry = entry?;
            let Some(path) = from_root(&entry.path_bytes()) else {
                if escaping == Escaping::LeftOut {
                    continue;
                }
                let shown = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
                return Err(ReadError::Damaged {
                    what: "layer",
                    reason: format!("`{}` is outside of the image", shown.escape_debug()),
                });
            };
            let target = entry.link_name_bytes();
            let target = target.as_deref().unwrap_or_default();
            let act = match entry.header().entry_type() {
                EntryType::Directory => Act::Directory,
                EntryType::Symlink => Act::Link(self.keep(target)?),
                EntryType::Link => match from_root(target) {
                    Some(target) => Act::SameAs(self.keep(target.as_os_str().as_bytes())?),
                    None => continue,
                },
                EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                    Act::File(number as u32)
                }
                _ => continue,
            };
            acts.push(self.act(&path, act));
            self.files += 1;
            if self.files > FILES_MAX {
                return Err(ReadError::TooManyFiles(FILES_MAX));
            }
        }
        self.put(acts);
        Ok(())
    }

    /// Takes the topmost layer off.
    pub fn pop(&mut self) {
        self.layers.pop();
        self.acts.pop();
    }

    /// How many layers there are.
    pub fn len(&self) -> usize {
        self.layers.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// Keeps a text, and says where.
    fn keep(&mut self, text: &[u8]) -> Result<u32, ReadError> {
        let place = self.targets.len();
        let length = u16::try_from(text.len());
        let length = length.map_err(|_| ReadError::TooMuchInLinks(TARGETS_BYTES_MAX))?;
        if place + 2 + text.len() > TARGETS_BYTES_MAX {
            return Err(ReadError::TooMuchInLinks(TARGETS_BYTES_MAX));
        }
        self.targets.extend(length.to_le_bytes());
        self.targets.extend_from_slice(text);
        Ok(place as u32)
    }

    fn kept(&self, place: u32) -> PathBuf {
        let text = &self.targets[place as usize..];
        let length = usize::from(u16::from_le_bytes([text[0], text[1]]));
        OsStr::from_bytes(&text[2..2 + length]).into()
    }

    /// What an entry does, and to which path: a whiteout hides another path than its own name.
    fn act(&self, path: &Path, act: Act) -> (u64, Act) {
        let name = path.file_name().unwrap_or_default().as_bytes();
        let directory = path.parent().unwrap_or(Path::new("/"));
        if name == OPAQUE {
            (self.hash(directory), Act::Empty)
        } else if let Some(hidden) = name.strip_prefix(WHITEOUT) {
            (
                self.hash(&directory.join(OsStr::from_bytes(hidden))),
                Act::Hide,
            )
        } else {
            (self.hash(path), act)
        }
    }

    fn hash(&self, path: &Path) -> u64 {
        self.hashes.hash_one(path)
    }

    /// Puts a layer on top.
    fn put(&mut self, mut acts: Vec<(u64, Act)>) {
        acts.sort_by_key(|(path, _)| *path);
        acts.shrink_to_fit();
        self.acts.push(acts);
    }

    /// What a layer does to a path, in its order.
    fn acts_on(&self, layer: usize, path: &Path) -> impl Iterator<Item = Act> {
        let (hash, acts) = (self.hash(path), &self.acts[layer]);
        let start = acts.partition_point(|(path, _)| *path < hash);
        let of_path = acts[start..]
            .iter()
            .take_while(move |(path, _)| *path == hash);
        of_path.map(|(_, act)| *act)
    }

    /// What is at a path: the entry of the topmost layer that has one, unless a layer above removed it.
    fn get(&self, path: &Path) -> Option<Node> {
        for layer in (0..self.acts.len()).rev() {
            let has = self
                .acts_on(layer, path)
                .filter(|act| !matches!(act, Act::Hide | Act::Empty));
            if let Some(act) = has.last() {
                return Some(match act {
                    Act::File(entry) => Node::File { layer, entry },
                    Act::Link(target) => Node::Link(self.kept(target)),
                    Act::SameAs(target) => Node::SameAs(self.kept(target)),
                    Act::Directory | Act::Hide | Act::Empty => Node::Directory,
                });
            }
            if self.takes_away(layer, path) {
                return None;
            }
        }
        None
    }

    /// Whether a layer removes a path of the layers below: it hides the path or a directory on the way, or has
    /// something else there.
    fn takes_away(&self, layer: usize, path: &Path) -> bool {
        let is_hidden = |path: &Path| self.acts_on(layer, path).any(|act| act == Act::Hide);
        is_hidden(path)
            || path.ancestors().skip(1).any(|directory| {
                self.acts_on(layer, directory)
                    .any(|act| act != Act::Directory)
            })
    }

    /// The path of the file that a path leads to; `None` if there is none.
    ///
    /// # Errors
    /// When links lead in a circle.
    pub fn resolve(&self, path: &Path) -> Result<Option<PathBuf>, ReadError> {
        let at = self.follow(path)?;
        let is_file = matches!(self.get(&at), Some(Node::File { .. } | Node::SameAs(_)));
        Ok(is_file.then_some(at))
    }

    /// Where a path leads, whether or not something is there.
    ///
    /// # Errors
    /// When links lead in a circle.
    pub fn follow(&self, path: &Path) -> Result<PathBuf, ReadError> {
        let mut links = 0;
        let mut left: Vec<PathBuf> = reversed(path);
        let mut at = PathBuf::from("/");
        while let Some(component) = left.pop() {
            match component.components().next() {
                Some(Component::Normal(name)) => at.push(name),
                Some(Component::ParentDir) => {
                    at.pop();
                    continue;
                }
                Some(Component::RootDir) => {
                    at = PathBuf::from("/");
                    continue;
                }
                _ => continue,
            }
            if let Some(Node::Link(target)) = self.get(&at) {
                links += 1;
                if links > LINKS_MAX {
                    return Err(ReadError::LinkLoop(path.display().to_string()));
                }
                at.pop();
                left.extend(reversed(&target));
            }
        }
        Ok(at)
    }

    /// Whether a directory is at a path without links.
    pub fn is_directory(&self, path: &Path) -> bool {
        path == Path::new("/") || self.get(path) == Some(Node::Directory)
    }

    /// The layer that has the file at a path that [`Self::resolve`] gave, counted from the lowest.
    pub fn layer_of(&self, path: &Path) -> Option<usize> {
        match self.get(path)? {
            Node::File { layer, .. } => Some(layer),
            _ => None,
        }
    }

    /// The file at a path that [`Self::resolve`] gave; `None` if it is none.
    ///
    /// # Errors
    /// When the layer cannot be read.
    pub fn open(&self, path: &Path, workplace: &Workplace<'_>) -> Result<Option<Found>, ReadError> {
        let mut at = path.to_owned();
        for _ in 0..LINKS_MAX {
            match self.get(&at) {
                Some(Node::SameAs(other)) => at = other,
                Some(Node::File { layer, entry }) => {
                    return found(&self.layers[layer], entry, workplace);
                }
                _ => return Ok(None),
            }
        }
        Err(ReadError::LinkLoop(path.display().to_string()))
    }
}

/// A file in a layer: in its place if the layer is not compressed, else a copy in a file without a name.
fn found(
    layer: &Region,
    number: u32,
    workplace: &Workplace<'_>,
) -> Result<Option<Found>, ReadError> {
    let first_bytes = layer.beginning(4)?;
    let stored = BufReader::with_capacity(1 << 16, workplace.until_end(layer.reader()));
    let mut archive = tar::Archive::new(unpacked(&first_bytes, stored)?);
    let Some(entry) = archive.entries()?.nth(number as usize) else {
        return Ok(None);
    };
    let mut entry = entry?;
    let header = entry.header();
    let is_sparse = header.entry_type() == EntryType::GNUSparse;
    // Some writers leave out what is zero.
    let mode = header.mode().unwrap_or(0);
    let owner = [header.uid(), header.gid()].map(|number| number.unwrap_or(0) as u32);
    let owner = (owner[0], owner[1]);
    let has_capabilities = has_capabilities(&mut entry)?;
    let (place, size) = (entry.raw_file_position(), entry.size());
    let mut beginning = Vec::new();
    let mut first = entry.by_ref().take(BEGINNING_BYTES);
    first.read_to_end(&mut beginning)?;
    let (file, start, size_bytes) = if compression_of(&first_bytes).is_some() || is_sparse {
        let mut copy = workplace.file().map_err(io::Error::other)?;
        copy.write_all(&beginning)?;
        copy_with_holes(&mut entry.take(FILE_BYTES_MAX), &mut copy)?;
        let size = copy.metadata()?.len();
        (copy, 0, size)
    } else {
        let (file, offset) = layer.place();
        (file.try_clone()?, offset.saturating_add(place), size)
    };
    Ok(Some(Found {
        file,
        start,
        size_bytes,
        beginning,
        mode,
        owner,
        has_capabilities,
    }))
}

/// Docker, BuildKit and GNU tar all keep extended attributes like this.
fn has_capabilities(entry: &mut tar::Entry<'_, impl Read>) -> io::Result<bool> {
    const KEY: &[u8] = b"SCHILY.xattr.security.capability";
    let Some(extensions) = entry.pax_extensions()? else {
        return Ok(false);
    };
    for extension in extensions {
        if extension?.key_bytes() == KEY {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The components of a path, the last one first.
fn reversed(path: &Path) -> Vec<PathBuf> {
    let components = path.components().rev();
    components
        .map(|component| component.as_os_str().into())
        .collect()
}

/// An entry's path from `/`; `None` if it leads out.
fn from_root(name: &[u8]) -> Option<PathBuf> {
    let mut path = PathBuf::from("/");
    for component in Path::new(OsStr::from_bytes(name)).components() {
        match component {
            Component::Normal(name) => path.push(name),
            Component::CurDir | Component::RootDir => {}
            Component::ParentDir | Component::Prefix(_) => return None,
        }
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Puts a layer with links, files (whose number is that of their entry) and directories on top.
    fn put(layers: &mut Tree, nodes: &[(&str, Option<&str>)]) {
        let mut acts = Vec::new();
        for (number, (path, target)) in nodes.iter().enumerate() {
            let act = match target {
                Some("") => Act::Directory,
                Some(target) => Act::Link(layers.keep(target.as_bytes()).unwrap()),
                None => Act::File(number as u32),
            };
            acts.push(layers.act(Path::new(path), act));
        }
        layers.put(acts);
    }

    #[test]
    fn links_lead_where_they_lead_inside_the_image() {
        let mut layers = Tree::default();
        put(
            &mut layers,
            &[
                ("/bin", Some("usr/bin")),
                ("/usr", Some("")),
                ("/usr/bin", Some("")),
                ("/usr/bin/sh", Some("/etc/../usr/bin/dash")),
                ("/usr/bin/dash", None),
                ("/usr/bin/up", Some("../../../../usr/bin/dash")),
                ("/loop", Some("/loop")),
            ],
        );
        let dash = Some(PathBuf::from("/usr/bin/dash"));
        for path in ["/bin/sh", "/bin/up", "/usr/./bin/dash"] {
            assert_eq!(layers.resolve(Path::new(path)).unwrap(), dash, "{path}");
        }
        assert_eq!(layers.resolve(Path::new("/usr/bin")).unwrap(), None);
        assert!(matches!(
            layers.resolve(Path::new("/loop")),
            Err(ReadError::LinkLoop(_))
        ));
    }

    #[test]
    fn an_upper_layer_hides_and_replaces_what_is_below() {
        let mut layers = Tree::default();
        let below = [
            ("/a", Some("")),
            ("/a/x", None),
            ("/ab", None),
            ("/b", Some("")),
            ("/b/x", None),
            ("/c", None),
            ("/d", Some("")),
            ("/d/x", None),
        ];
        put(&mut layers, &below);
        // In a layer of its own order: the opaque mark comes after what the layer brings.
        let above = [
            ("/a/y", None),
            ("/a/.wh..wh..opq", None),
            ("/.wh.b", None),
            ("/c", None),
            ("/d", None),
        ];
        put(&mut layers, &above);
        let file = |layer, entry| Some(Node::File { layer, entry });
        for (path, node) in [
            ("/a", Some(Node::Directory)),
            ("/a/x", None),
            ("/a/y", file(1, 0)),
            ("/ab", file(0, 2)),
            ("/b", None),
            ("/b/x", None),
            ("/c", file(1, 3)),
            ("/d", file(1, 4)),
            ("/d/x", None),
        ] {
            assert_eq!(layers.get(Path::new(path)), node, "{path}");
        }
    }
}
