//! Builds the file tree that the layers of an image make together (OCI image specification, "Layer Filesystem
//! Changeset").

mod covered;
mod reading;

pub use self::covered::Covered;
use self::reading::{Escaping, Reading};
use crate::blob::{Hashed, Region};
use crate::compression::{compression_of, unpacked};
use crate::error::ReadError;
use crate::members::Members;
use crate::read::StoredLayer;
use crate::workplace::{Workplace, copy_with_holes};
use oci_spec::image::Digest;
use std::ffi::OsStr;
use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, BufReader, Read, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

/// The most bytes that all links of an image may hold together. Images of ostree have a link for each file.
const TARGETS_BYTES_MAX: usize = 32 << 20;
/// reheap reads a larger program only up to this: nobody wants more of an image copied to the disk.
const FILE_BYTES_MAX: u64 = 2 << 30;
/// As much as the kernel looks at.
pub const BEGINNING_BYTES: u64 = 256;
/// As many links as Linux follows (path_resolution(7)).
const LINKS_MAX: usize = 40;
/// The longest path that Linux follows (PATH_MAX, with the zero that ends it).
const PATH_BYTES_MAX: usize = 4095;
/// The hash of `/`.
const ROOT: u64 = 0;

/// What a layer does to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    /// It has a directory there.
    Directory,
    /// It has a file there.
    File,
    /// It has a symbolic link there; the targets say where it leads.
    Link(u32),
    /// It has another name there of the file at that path.
    SameAs(u32),
    /// It has something else there: a device, say.
    Other,
    /// It removes what is below it.
    Hide,
    /// It removes what is in the directory below it.
    Empty,
}

/// What an entry of a layer does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Change {
    /// The hash of its path.
    path: u64,
    /// Its number in the layer.
    entry: u32,
    act: Act,
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
    Other,
}

/// A moment while the layers are put on each other: all below a layer, and its entries in front of one.
#[derive(Debug, Clone, Copy)]
struct Moment {
    layer: usize,
    entry: u32,
}

/// A place on the way along a path.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// The hash of the path.
    path: u64,
    /// What layers below this one have there was removed.
    lowest: usize,
}

/// The tree, with paths from `/`. reheap asks for only a few of a million paths, so it keeps each as a hash of eight
/// bytes, made from that of its directory and its name. The key of the hash is random, so no image can be made to
/// collide.
#[derive(Debug, Default)]
pub struct Tree {
    layers: Vec<Region>,
    /// What the image calls them: by their stored bytes, or by the archive in these.
    digests: Vec<Option<Digest>>,
    /// What each layer does, the lowest first, sorted by path and then in their order.
    changes: Vec<Vec<Change>>,
    /// Two bytes of length, then the text of a link.
    targets: Vec<u8>,
    hashes: RandomState,
    files: usize,
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
            tree.keep_layer(layer);
        }
        Ok(tree)
    }

    /// Reads the names of all files and every byte of every layer, so that the digests are known.
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
            tree.keep_layer(layer);
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
        let changes = Reading::of(self).all(Members::streamed(archive), escaping)?;
        self.put(changes);
        Ok(())
    }

    fn keep_layer(&mut self, layer: &StoredLayer) {
        let digest = layer.digest.as_ref().or(layer.diff_id.as_ref());
        self.layers.push(layer.stored.clone());
        self.digests.push(digest.cloned());
    }

    /// Takes the topmost layer off.
    pub fn pop(&mut self) {
        self.layers.pop();
        self.digests.pop();
        self.changes.pop();
    }

    /// How many layers there are.
    pub fn len(&self) -> usize {
        self.layers.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// Keeps a path, and says where.
    fn keep(&mut self, path: &Path) -> Result<u32, ReadError> {
        let (text, place) = (path.as_os_str().as_bytes(), self.targets.len());
        if text.len() > PATH_BYTES_MAX {
            return Err(ReadError::LongPath(PATH_BYTES_MAX));
        }
        if place + 2 + text.len() > TARGETS_BYTES_MAX {
            return Err(ReadError::TooMuchInLinks(TARGETS_BYTES_MAX));
        }
        self.targets.extend((text.len() as u16).to_le_bytes());
        self.targets.extend_from_slice(text);
        Ok(place as u32)
    }

    fn kept(&self, place: u32) -> PathBuf {
        let text = &self.targets[place as usize..];
        let length = usize::from(u16::from_le_bytes([text[0], text[1]]));
        OsStr::from_bytes(&text[2..2 + length]).into()
    }

    fn hash(&self, directory: u64, name: &OsStr) -> u64 {
        self.hashes.hash_one((directory, name))
    }

    /// Puts a layer on top.
    fn put(&mut self, mut changes: Vec<Change>) {
        changes.sort_by_key(|change| change.path);
        changes.shrink_to_fit();
        self.changes.push(changes);
    }

    /// Now that all layers are there.
    fn in_the_end(&self) -> Moment {
        let layer = self.changes.len();
        Moment { layer, entry: 0 }
    }

    /// What a layer does to a path until a moment, in its order.
    fn changes_at(&self, path: u64, layer: usize, until: Moment) -> impl Iterator<Item = Change> {
        let changes = self.changes.get(layer).map_or(&[][..], Vec::as_slice);
        let start = changes.partition_point(|change| change.path < path);
        let is_later = move |change: &Change| layer == until.layer && change.entry >= until.entry;
        let of_path = changes[start..].iter().copied();
        of_path
            .take_while(move |change| change.path == path)
            .filter(move |change| !is_later(change))
    }

    /// What was at a path at a moment, and which layer put it there: the topmost that has something there, unless one
    /// above removed it.
    fn look(&self, path: u64, lowest: usize, until: Moment) -> (Place, Option<(usize, Change)>) {
        let mut topmost = None;
        for layer in (lowest..=until.layer).rev() {
            let (mut last, mut is_removed) = (None, false);
            for change in self.changes_at(path, layer, until) {
                match change.act {
                    Act::Hide | Act::Empty => is_removed = true,
                    _ => last = Some((layer, change)),
                }
            }
            topmost = topmost.or(last);
            if is_removed || last.is_some_and(|(_, change)| change.act != Act::Directory) {
                let lowest = layer;
                return (Place { path, lowest }, topmost);
            }
        }
        (Place { path, lowest }, topmost)
    }

    fn root(&self, until: Moment) -> Place {
        self.look(ROOT, 0, until).0
    }

    /// What was at a path at a moment, if no part of the path is a link; and which layer put it there.
    fn look_at(&self, path: &Path, until: Moment) -> Option<(usize, Change)> {
        let mut place = self.root(until);
        let mut topmost = None;
        for name in names(path) {
            let path = self.hash(place.path, name);
            (place, topmost) = self.look(path, place.lowest, until);
            topmost?;
        }
        topmost
    }

    /// What a change is that put something there. Another name of a file is that file, also if the first name is another
    /// file's by now.
    fn node(&self, (mut layer, mut change): (usize, Change)) -> Node {
        for _ in 0..LINKS_MAX {
            let entry = change.entry;
            let target = match change.act {
                Act::Directory | Act::Hide | Act::Empty => return Node::Directory,
                Act::File => return Node::File { layer, entry },
                Act::Link(target) => return Node::Link(self.kept(target)),
                Act::Other => return Node::Other,
                Act::SameAs(target) => self.kept(target),
            };
            match self.look_at(&target, Moment { layer, entry }) {
                Some(found) => (layer, change) = found,
                None => return Node::Other,
            }
        }
        Node::Other
    }

    fn get(&self, path: &Path) -> Option<Node> {
        let found = self.look_at(path, self.in_the_end())?;
        Some(self.node(found))
    }

    /// The path of the file that a path leads to; `None` if there is none.
    ///
    /// # Errors
    /// When links lead in a circle, or the path is too long.
    pub fn resolve(&self, path: &Path) -> Result<Option<PathBuf>, ReadError> {
        let at = self.follow(path)?;
        let is_file = matches!(self.get(&at), Some(Node::File { .. }));
        Ok(is_file.then_some(at))
    }

    /// Where a path leads, whether or not something is there.
    ///
    /// # Errors
    /// When links lead in a circle, or the path is too long.
    pub fn follow(&self, path: &Path) -> Result<PathBuf, ReadError> {
        let end = self.in_the_end();
        let (path, _) = along(path, self.root(end), |directory, name| {
            let path = self.hash(directory.path, name);
            let (place, found) = self.look(path, directory.lowest, end);
            match found.map(|found| self.node(found)) {
                Some(Node::Link(target)) => (place, Some(target)),
                _ => (place, None),
            }
        })?;
        Ok(path)
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
    /// When the layer cannot be read, or the file was packed without its holes.
    pub fn open(&self, path: &Path, workplace: &Workplace<'_>) -> Result<Option<Found>, ReadError> {
        match self.get(path) {
            Some(Node::File { layer, entry }) => found(&self.layers[layer], entry, workplace),
            _ => Ok(None),
        }
    }
}

/// Goes along a path as the kernel does. `enter` tells of a name in a directory what is there, and where it leads if it
/// is a link.
fn along<T: Copy>(
    path: &Path,
    root: T,
    mut enter: impl FnMut(T, &OsStr) -> (T, Option<PathBuf>),
) -> Result<(PathBuf, T), ReadError> {
    if path.as_os_str().len() > PATH_BYTES_MAX {
        return Err(ReadError::LongPath(PATH_BYTES_MAX));
    }
    let mut links = 0;
    let mut left: Vec<PathBuf> = reversed(path);
    let (mut at, mut entered) = (PathBuf::from("/"), vec![root]);
    while let Some(component) = left.pop() {
        let name = match component.components().next() {
            Some(Component::Normal(name)) => name,
            Some(Component::ParentDir) => {
                if at.pop() {
                    entered.pop();
                }
                continue;
            }
            Some(Component::RootDir) => {
                at = PathBuf::from("/");
                entered.truncate(1);
                continue;
            }
            _ => continue,
        };
        let directory = *entered.last().expect("the root stays");
        let (there, target) = enter(directory, name);
        let Some(target) = target else {
            at.push(name);
            entered.push(there);
            continue;
        };
        links += 1;
        if links > LINKS_MAX {
            let path = path.display().to_string();
            return Err(ReadError::LinkLoop(path.escape_debug().to_string()));
        }
        left.extend(reversed(&target));
    }
    let there = *entered.last().expect("the root stays");
    Ok((at, there))
}

/// A file in a layer: in its place if the layer is not compressed, else a copy in a file without a name.
fn found(
    layer: &Region,
    number: u32,
    workplace: &Workplace<'_>,
) -> Result<Option<Found>, ReadError> {
    let first_bytes = layer.beginning(4)?;
    let stored = BufReader::with_capacity(1 << 16, workplace.until_end(layer.reader()));
    let mut members = Members::streamed(unpacked(&first_bytes, stored)?);
    let mut member = members.next()?;
    for _ in 0..number {
        member = members.next()?;
    }
    let Some(member) = member else {
        return Ok(None);
    };
    if member.is_sparse {
        let name = String::from_utf8_lossy(&member.name);
        return Err(ReadError::Sparse(name.escape_debug().to_string()));
    }
    let mut beginning = Vec::new();
    let mut first = members.by_ref().take(BEGINNING_BYTES);
    first.read_to_end(&mut beginning)?;
    let (file, start, size_bytes) = if compression_of(&first_bytes).is_some() {
        let mut copy = workplace.file().map_err(io::Error::other)?;
        copy.write_all(&beginning)?;
        copy_with_holes(&mut members.take(FILE_BYTES_MAX), &mut copy)?;
        let size = copy.metadata()?.len();
        (copy, 0, size)
    } else {
        let (file, offset) = layer.place();
        let start = offset.saturating_add(member.position);
        (file.try_clone()?, start, member.size_bytes)
    };
    Ok(Some(Found {
        file,
        start,
        size_bytes,
        beginning,
        mode: member.mode,
        owner: member.owner,
        has_capabilities: member.has_capabilities,
    }))
}

/// The components of a path, the last one first.
fn reversed(path: &Path) -> Vec<PathBuf> {
    let components = path.components().rev();
    components
        .map(|component| component.as_os_str().into())
        .collect()
}

/// The names of a path from `/`.
fn names(path: &Path) -> impl Iterator<Item = &OsStr> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tar::EntryType;

    /// Puts a layer on top with files (`None`), directories (`/`), other names of files (`=` and the name), devices (`!`)
    /// and links to anything else.
    fn put(tree: &mut Tree, nodes: &[(&str, Option<&str>)]) {
        let mut archive = tar::Builder::new(Vec::new());
        for (path, target) in nodes {
            let mut header = tar::Header::new_gnu();
            let (kind, target) = match target {
                None => (EntryType::Regular, ""),
                Some("/") => (EntryType::Directory, ""),
                Some("!") => (EntryType::Char, ""),
                Some(target) => match target.strip_prefix('=') {
                    Some(name) => (EntryType::Link, name),
                    None => (EntryType::Symlink, *target),
                },
            };
            header.set_entry_type(kind);
            header.set_size(0);
            let path = path.trim_start_matches('/');
            match target {
                "" => archive.append_data(&mut header, path, io::empty()),
                target => archive.append_link(&mut header, path, target),
            }
            .unwrap();
        }
        let archive = archive.into_inner().unwrap();
        tree.read_names(archive.as_slice(), Escaping::Refused)
            .unwrap();
    }

    fn file(layer: usize, entry: u32) -> Option<Node> {
        Some(Node::File { layer, entry })
    }

    /// What a path leads to.
    fn at(tree: &Tree, path: &str) -> Option<Node> {
        tree.get(&tree.follow(Path::new(path)).unwrap())
    }

    #[test]
    fn links_lead_where_they_lead_inside_the_image() {
        let mut layers = Tree::default();
        put(
            &mut layers,
            &[
                ("/bin", Some("usr/bin")),
                ("/usr", Some("/")),
                ("/usr/bin", Some("/")),
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
            ("/a", Some("/")),
            ("/a/x", None),
            ("/ab", None),
            ("/b", Some("/")),
            ("/b/x", None),
            ("/c", None),
            ("/d", Some("/")),
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

    #[test]
    fn another_name_of_a_file_stays_when_the_first_is_another_files() {
        let mut tree = Tree::default();
        put(&mut tree, &[("/a", None), ("/b", Some("=a")), ("/a", None)]);
        put(&mut tree, &[("/a", None), ("/c", Some("=b"))]);
        put(&mut tree, &[("/.wh.a", None), ("/e", Some("=nothing"))]);
        for (path, node) in [
            ("/a", None),
            ("/b", file(0, 0)),
            ("/c", file(0, 0)),
            ("/e", Some(Node::Other)),
        ] {
            assert_eq!(at(&tree, path), node, "{path}");
        }
    }

    #[test]
    fn a_layer_goes_through_its_own_links_and_covers_those_below() {
        let mut tree = Tree::default();
        let below = [
            ("/real", Some("/")),
            ("/real/app", None),
            ("/link", Some("real")),
            ("/link/own", None),
            ("/device", None),
            ("/kept/a", None),
            ("/again/a", None),
        ];
        put(&mut tree, &below);
        assert_eq!(at(&tree, "/link/app"), file(0, 1));
        assert_eq!(at(&tree, "/real/own"), file(0, 3));
        put(
            &mut tree,
            &[
                ("/link/app", None),
                ("/device", Some("!")),
                ("/kept/b", None),
                ("/again", Some("kept")),
                ("/again", Some("/")),
            ],
        );
        for (path, node) in [
            ("/link", Some(Node::Directory)),
            ("/link/app", file(1, 0)),
            ("/link/own", None),
            ("/real/app", file(0, 1)),
            ("/device", Some(Node::Other)),
            ("/kept/a", file(0, 5)),
            ("/kept/b", file(1, 2)),
            ("/again/a", file(0, 6)),
        ] {
            assert_eq!(at(&tree, path), node, "{path}");
        }
        put(&mut tree, &[("/.wh..wh..opq", None), ("/new", None)]);
        assert_eq!(at(&tree, "/real/app"), None);
        assert_eq!(at(&tree, "/new"), file(2, 1));
    }

    #[test]
    fn a_path_is_as_long_as_linux_follows_and_needs_time_in_proportion() {
        let mut tree = Tree::default();
        let deep = "d/".repeat(2000);
        for _ in 0..100 {
            put(&mut tree, &[("/l", Some("/")), ("/d", Some(&deep))]);
        }
        assert!(tree.follow(Path::new(&format!("/{deep}"))).is_err());
        let path = PathBuf::from("/x".repeat(PATH_BYTES_MAX / 2));
        assert_eq!(tree.follow(&path).unwrap(), path);
        assert_eq!(tree.resolve(&path).unwrap(), None);
        let longer = path.join("xx");
        assert!(matches!(tree.resolve(&longer), Err(ReadError::LongPath(_))));
    }
}
