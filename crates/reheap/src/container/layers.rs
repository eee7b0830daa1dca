//! The file tree that the layers of an image make together (OCI image specification, "Layer Filesystem Changeset").

use super::ContainerError;
use super::store::Store;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::ops::Bound;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use tar::EntryType;

/// More files than any image has.
const FILES_MAX: usize = 5_000_000;
/// A program that is larger is looked at as far as this: nobody wants more of an image copied onto the disk.
const FILE_BYTES_MAX: u64 = 2 << 30;
/// As much as the kernel looks at.
const BEGINNING_BYTES: u64 = 256;
/// As many links as Linux follows (path_resolution(7)).
const LINKS_MAX: usize = 40;
const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Node {
    Folder,
    /// The layer and the number of the entry in it.
    File {
        layer: usize,
        entry: usize,
    },
    /// Where a symbolic link leads.
    Link(PathBuf),
    /// Another name of the file at that path.
    SameAs(PathBuf),
}

/// The tree, with paths from `/`.
#[derive(Debug, Default)]
pub(super) struct Layers {
    names: Vec<String>,
    tree: BTreeMap<PathBuf, Node>,
}

impl Layers {
    /// Reads the names of all files.
    pub(super) fn read(store: &Store, names: &[String]) -> Result<Self, ContainerError> {
        let mut layers = Self {
            names: names.to_vec(),
            tree: BTreeMap::new(),
        };
        for (layer, name) in names.iter().enumerate() {
            let mut archive = tar::Archive::new(store.open_layer(name)?);
            let mut added = Vec::new();
            for (index, entry) in archive.entries()?.enumerate() {
                let entry = entry?;
                let Some(path) = from_root(&entry.path_bytes()) else {
                    continue;
                };
                let target = entry.link_name_bytes();
                let target = target.as_deref().unwrap_or_default();
                let node = match entry.header().entry_type() {
                    EntryType::Directory => Node::Folder,
                    EntryType::Symlink => Node::Link(OsStr::from_bytes(target).into()),
                    EntryType::Link => match from_root(target) {
                        Some(target) => Node::SameAs(target),
                        None => continue,
                    },
                    EntryType::Regular | EntryType::Continuous => Node::File {
                        layer,
                        entry: index,
                    },
                    _ => continue,
                };
                added.push((path, node));
                if layers.tree.len() + added.len() > FILES_MAX {
                    return Err(ContainerError::TooManyFiles(FILES_MAX));
                }
            }
            layers.put(added);
        }
        Ok(layers)
    }

    /// Puts a layer on top: what it hides first, whatever the order of its entries, then what it brings.
    fn put(&mut self, added: Vec<(PathBuf, Node)>) {
        let is_whiteout = |path: &Path| {
            let name = path.file_name().unwrap_or_default();
            name.as_bytes().starts_with(WHITEOUT)
        };
        let (hidden, brought): (Vec<_>, Vec<_>) =
            added.into_iter().partition(|(path, _)| is_whiteout(path));
        for (path, _) in hidden {
            let (name, folder) = (path.file_name(), path.parent());
            let (Some(name), Some(folder)) = (name, folder) else {
                continue;
            };
            match name.as_bytes() {
                OPAQUE => self.remove_below(folder),
                name => {
                    let path = folder.join(OsStr::from_bytes(&name[WHITEOUT.len()..]));
                    self.remove_below(&path);
                    self.tree.remove(&path);
                }
            }
        }
        for (path, node) in brought {
            if node != Node::Folder && self.tree.get(&path) == Some(&Node::Folder) {
                self.remove_below(&path);
            }
            self.tree.insert(path, node);
        }
    }

    /// Paths sort by their components, so what is below a folder stands right behind it.
    fn remove_below(&mut self, folder: &Path) {
        let behind = (Bound::Excluded(folder.to_owned()), Bound::Unbounded);
        let below: Vec<PathBuf> = self
            .tree
            .range::<PathBuf, _>(behind)
            .map(|(path, _)| path)
            .take_while(|path| path.starts_with(folder))
            .cloned()
            .collect();
        for path in below {
            self.tree.remove(&path);
        }
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
            if let Some(Node::Link(target)) = self.tree.get(&at) {
                links += 1;
                if links > LINKS_MAX {
                    return Err(ContainerError::LinkLoop(path.display().to_string()));
                }
                at.pop();
                left.extend(reversed(target));
            }
        }
        let is_file = matches!(
            self.tree.get(&at),
            Some(Node::File { .. } | Node::SameAs(_))
        );
        Ok(is_file.then_some(at))
    }

    /// Copies the file at a path that [`Self::resolve`] gave into one without a name; its beginning tells what it is.
    pub(super) fn copy(
        &self,
        store: &Store,
        path: &Path,
    ) -> Result<(Vec<u8>, File), ContainerError> {
        let missing = || ContainerError::NotInImage(path.display().to_string());
        let mut at = path;
        for _ in 0..LINKS_MAX {
            match self.tree.get(at).ok_or_else(missing)? {
                Node::SameAs(other) => at = other,
                Node::File { layer, entry } => {
                    let mut archive = tar::Archive::new(store.open_layer(&self.names[*layer])?);
                    let mut entry = archive.entries()?.nth(*entry).ok_or_else(missing)??;
                    let mut beginning = Vec::new();
                    entry
                        .by_ref()
                        .take(BEGINNING_BYTES)
                        .read_to_end(&mut beginning)?;
                    let mut copy = tempfile::tempfile()?;
                    copy.write_all(&beginning)?;
                    io::copy(&mut entry.take(FILE_BYTES_MAX), &mut copy)?;
                    return Ok((beginning, copy));
                }
                Node::Folder | Node::Link(_) => return Err(missing()),
            }
        }
        Err(ContainerError::LinkLoop(path.display().to_string()))
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

    fn file(layer: usize) -> Node {
        Node::File { layer, entry: 0 }
    }

    fn put(layers: &mut Layers, nodes: &[(&str, Node)]) {
        let nodes = nodes.iter().map(|(path, node)| (path.into(), node.clone()));
        layers.put(nodes.collect());
    }

    #[test]
    fn links_lead_where_they_lead_inside_the_image() {
        let mut layers = Layers::default();
        put(
            &mut layers,
            &[
                ("/bin", Node::Link("usr/bin".into())),
                ("/usr", Node::Folder),
                ("/usr/bin", Node::Folder),
                ("/usr/bin/sh", Node::Link("/etc/../usr/bin/dash".into())),
                ("/usr/bin/dash", file(0)),
                ("/usr/bin/up", Node::Link("../../../../usr/bin/dash".into())),
                ("/loop", Node::Link("/loop".into())),
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
            ("/a", Node::Folder),
            ("/a/x", file(0)),
            ("/ab", file(0)),
            ("/b", Node::Folder),
            ("/b/x", file(0)),
            ("/c", file(0)),
        ];
        put(&mut layers, &below);
        // In a layer of its own order: the opaque mark comes after what the layer brings.
        let above = [
            ("/a/y", file(1)),
            ("/a/.wh..wh..opq", file(1)),
            ("/.wh.b", file(1)),
            ("/c", file(1)),
        ];
        put(&mut layers, &above);
        let left: Vec<&str> = layers
            .tree
            .keys()
            .filter_map(|path| path.to_str())
            .collect();
        assert_eq!(left, ["/a", "/a/y", "/ab", "/c"]);
        assert_eq!(layers.tree[Path::new("/c")], file(1));
    }
}
