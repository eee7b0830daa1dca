//! Builds the file tree that the layers of an image make together (OCI image specification, "Layer Filesystem
//! Changeset").

use super::ContainerError;
use super::store::Store;
use crate::opened::Opened;
use std::ffi::OsStr;
use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Read, Seek as _, SeekFrom, Write as _};
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
const BEGINNING_BYTES: u64 = 256;
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
pub(super) struct Layers {
    names: Vec<String>,
    /// What each layer does, the lowest first, sorted by path.
    acts: Vec<Vec<(u64, Act)>>,
    /// Two bytes of length, then the text of a link.
    targets: Vec<u8>,
    hashes: RandomState,
}

impl Layers {
    /// Reads the names of all files.
    pub(super) fn read(store: &Store, names: &[String]) -> Result<Self, ContainerError> {
        let mut layers = Self {
            names: names.to_vec(),
            ..Self::default()
        };
        let mut files = 0;
        for name in names {
            let mut archive = tar::Archive::new(store.open_layer(name)?);
            let mut acts = Vec::new();
            for (number, entry) in archive.entries()?.enumerate() {
                let entry = entry?;
                let Some(path) = from_root(&entry.path_bytes()) else {
                    continue;
                };
                let target = entry.link_name_bytes();
                let target = target.as_deref().unwrap_or_default();
                let act = match entry.header().entry_type() {
                    EntryType::Directory => Act::Directory,
                    EntryType::Symlink => Act::Link(layers.keep(target)?),
                    EntryType::Link => match from_root(target) {
                        Some(target) => Act::SameAs(layers.keep(target.as_os_str().as_bytes())?),
                        None => continue,
                    },
                    EntryType::Regular | EntryType::Continuous => Act::File(number as u32),
                    _ => continue,
                };
                acts.push(layers.act(&path, act));
                files += 1;
                if files > FILES_MAX {
                    return Err(ContainerError::TooManyFiles(FILES_MAX));
                }
            }
            layers.put(acts);
        }
        Ok(layers)
    }

    /// Keeps a text, and says where.
    fn keep(&mut self, text: &[u8]) -> Result<u32, ContainerError> {
        let place = self.targets.len();
        let length = u16::try_from(text.len());
        let length = length.map_err(|_| ContainerError::TooMuchInLinks(TARGETS_BYTES_MAX))?;
        if place + 2 + text.len() > TARGETS_BYTES_MAX {
            return Err(ContainerError::TooMuchInLinks(TARGETS_BYTES_MAX));
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
    pub(super) fn resolve(&self, path: &Path) -> Result<Option<PathBuf>, ContainerError> {
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
                    return Err(ContainerError::LinkLoop(path.display().to_string()));
                }
                at.pop();
                left.extend(reversed(&target));
            }
        }
        let is_file = matches!(self.get(&at), Some(Node::File { .. } | Node::SameAs(_)));
        Ok(is_file.then_some(at))
    }

    /// The file at a path that [`Self::resolve`] gave, and its beginning, which tells what it is.
    pub(super) fn open(
        &self,
        store: &Store,
        path: &Path,
    ) -> Result<(Vec<u8>, Opened), ContainerError> {
        let missing = || ContainerError::NotInImage(path.display().to_string());
        let mut at = path.to_owned();
        for _ in 0..LINKS_MAX {
            match self.get(&at).ok_or_else(missing)? {
                Node::SameAs(other) => at = other,
                Node::File { layer, entry } => {
                    let name = &self.names[layer];
                    let mut archive = tar::Archive::new(store.open_layer(name)?);
                    let entry = archive.entries()?.nth(entry as usize);
                    return opened(store, name, entry.ok_or_else(missing)??);
                }
                Node::Directory | Node::Link(_) => return Err(missing()),
            }
        }
        Err(ContainerError::LinkLoop(path.display().to_string()))
    }
}

/// A file in a layer: in its place in the image if the layer is not compressed, else a copy in a file without a name.
fn opened(
    store: &Store,
    layer: &str,
    mut entry: tar::Entry<'_, Box<dyn Read + '_>>,
) -> Result<(Vec<u8>, Opened), ContainerError> {
    let (place, size) = (entry.raw_file_position(), entry.size());
    let mut beginning = Vec::new();
    let mut first = entry.by_ref().take(BEGINNING_BYTES);
    first.read_to_end(&mut beginning)?;
    if let Some((file, start)) = store.place_of_plain_layer(layer)? {
        let part = Opened::part(file, start.saturating_add(place), size)?;
        return Ok((beginning, part));
    }
    let mut copy = tempfile::tempfile()?;
    copy.write_all(&beginning)?;
    copy_with_holes(&mut entry.take(FILE_BYTES_MAX), &mut copy)?;
    Ok((beginning, Opened::new(copy)?))
}

/// Copies, and leaves out blocks of zeros.
fn copy_with_holes(from: &mut impl Read, to: &mut File) -> io::Result<()> {
    let mut piece = vec![0; 64 << 10];
    loop {
        let count = from.read(&mut piece)?;
        if count == 0 {
            let end = to.stream_position()?;
            return to.set_len(end);
        }
        match piece[..count].iter().all(|&byte| byte == 0) {
            true => {
                to.seek(SeekFrom::Current(count as i64))?;
            }
            false => to.write_all(&piece[..count])?,
        }
    }
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
    fn put(layers: &mut Layers, nodes: &[(&str, Option<&str>)]) {
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
        let mut layers = Layers::default();
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
            Err(ContainerError::LinkLoop(_))
        ));
    }

    #[test]
    fn an_upper_layer_hides_and_replaces_what_is_below() {
        let mut layers = Layers::default();
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

    #[test]
    fn a_copy_has_holes_where_nothing_but_zeros_was() {
        let mut bytes = vec![0; 1 << 20];
        bytes[700_000] = 7;
        let mut copy = tempfile::tempfile().unwrap();
        copy_with_holes(&mut bytes.as_slice(), &mut copy).unwrap();
        copy.rewind().unwrap();
        let mut read = Vec::new();
        copy.read_to_end(&mut read).unwrap();
        assert!(read == bytes);
    }
}
