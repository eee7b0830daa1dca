//! Layers: files, directories and links with fixed times and owners, in sorted order, as a compressed tar archive.
//!
//! The same contents give the same bytes on every machine, so a registry keeps a layer once for all images that share
//! it. A layer names a directory only if no layer below has it: naming `/tmp` again would give it other permissions.

use crate::blob::{Blob, Hashed};
pub use crate::compression::{Compression, unpacked};
use crate::error::{ImageError, ReadError};
use crate::tree::Tree;
use crate::workplace::Workplace;
use flate2::write::GzEncoder;
use oci_spec::image::{Digest, MediaType};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// A layer of an image.
#[derive(Debug, Clone)]
pub struct Layer {
    /// How it is stored.
    pub media_type: MediaType,
    /// Its stored bytes.
    pub blob: Blob,
    /// The digest of the archive in it.
    pub diff_id: Digest,
    /// What is in it, in words.
    pub title: String,
}

/// What is at a place in an image.
#[derive(Debug, Clone)]
pub struct Entry {
    /// What it is.
    pub content: Content,
    /// Its permission bits.
    pub mode: u32,
    /// The user and the group that it belongs to.
    pub owner: (u32, u32),
}

/// What an entry is.
#[derive(Debug, Clone)]
pub enum Content {
    /// A directory.
    Directory,
    /// A file with these bytes.
    Bytes(Vec<u8>),
    /// A copy of a file of this machine.
    File(PathBuf),
    /// A symbolic link.
    Link(PathBuf),
}

impl Entry {
    /// A directory of root's, which everybody may enter.
    pub fn directory() -> Self {
        Self::of_root(Content::Directory, 0o755)
    }

    /// A file of root's, which everybody may read.
    pub fn bytes(bytes: impl Into<Vec<u8>>) -> Self {
        Self::of_root(Content::Bytes(bytes.into()), 0o644)
    }

    /// A symbolic link.
    pub fn link(target: impl Into<PathBuf>) -> Self {
        Self::of_root(Content::Link(target.into()), 0o777)
    }

    /// A program.
    pub fn program(file: &Path) -> Self {
        Self::of_root(Content::File(file.to_owned()), 0o755)
    }

    /// Root's copy of a file, directory or link of this machine. Permissions are those that a fresh checkout of
    /// anybody's would have: whether it is executable counts, the umask of the one who made it does not.
    ///
    /// # Errors
    /// When it is something else, or cannot be looked at.
    pub fn copy(path: &Path) -> Result<Self, ImageError> {
        let metadata = fs::symlink_metadata(path).map_err(ImageError::io("read", path))?;
        let kind = metadata.file_type();
        if kind.is_dir() {
            return Ok(Self::directory());
        }
        if kind.is_symlink() {
            let target = fs::read_link(path).map_err(ImageError::io("read", path))?;
            return Ok(Self::link(target));
        }
        if !kind.is_file() {
            return Err(ImageError::Unpackable {
                path: path.to_owned(),
                what: match () {
                    () if kind.is_fifo() => "a named pipe",
                    () if kind.is_socket() => "a socket",
                    () => "a device",
                },
            });
        }
        let is_executable = metadata.permissions().mode() & 0o111 != 0;
        let mode = if is_executable { 0o755 } else { 0o644 };
        Ok(Self::of_root(Content::File(path.to_owned()), mode))
    }

    fn of_root(content: Content, mode: u32) -> Self {
        let owner = (0, 0);
        Self {
            content,
            mode,
            owner,
        }
    }
}

/// Layers that are one on another, before they are written. Paths have no `/` in front.
#[derive(Debug, Default)]
pub struct Stack {
    layers: Vec<(String, BTreeMap<PathBuf, Entry>)>,
}

impl Stack {
    /// Begins a layer on top of the others.
    pub fn begin(&mut self, title: impl Into<String>) {
        self.layers.push((title.into(), BTreeMap::new()));
    }

    /// What is at a place, in all layers together.
    pub fn at(&self, path: &Path) -> Option<&Entry> {
        let path = place(path).ok()?;
        let layers = self.layers.iter().rev();
        layers.flat_map(|(_, entries)| entries.get(&path)).next()
    }

    /// Puts something into the topmost layer, and the directories above it that no layer has yet.
    ///
    /// # Errors
    /// When the place is not one, or is taken.
    pub fn add(&mut self, path: &Path, entry: Entry) -> Result<(), ImageError> {
        let path = place(path)?;
        self.make_directories_above(&path)?;
        match self.at(&path).map(|there| &there.content) {
            None => {}
            Some(Content::Directory) if matches!(entry.content, Content::Directory) => {
                return Ok(());
            }
            Some(_) => return Err(ImageError::Twice(Path::new("/").join(path))),
        }
        self.topmost().insert(path, entry);
        Ok(())
    }

    /// Takes a file or link out, wherever it is.
    pub fn remove(&mut self, path: &Path) {
        let Ok(path) = place(path) else { return };
        for (_, entries) in &mut self.layers {
            entries.remove(&path);
        }
    }

    /// Moves everything to where it is on top of other layers: through their links, and without the directories that
    /// they have.
    pub(crate) fn fit(self, below: &Tree) -> Result<Self, ReadError> {
        let mut fitted = Self::default();
        for (title, entries) in self.layers {
            fitted.begin(title);
            for (path, entry) in entries {
                let path = Path::new("/").join(path);
                let is_directory = matches!(entry.content, Content::Directory);
                if is_directory && below.is_directory(&below.follow(&path)?) {
                    continue;
                }
                let directory = below.follow(path.parent().unwrap_or(&path))?;
                let path = directory.join(path.file_name().unwrap_or_default());
                if !is_directory && below.is_directory(&path) {
                    return Err(ImageError::FileAndDirectory(path).into());
                }
                fitted.topmost().insert(place(&path)?, entry);
            }
        }
        Ok(fitted)
    }

    fn make_directories_above(&mut self, path: &Path) -> Result<(), ImageError> {
        let mut above: Vec<PathBuf> = path.ancestors().skip(1).map(Path::to_owned).collect();
        above.pop(); // the root
        for directory in above.into_iter().rev() {
            match self.at(&directory).map(|there| &there.content) {
                Some(Content::Directory) => {}
                Some(_) => {
                    return Err(ImageError::FileAndDirectory(Path::new("/").join(directory)));
                }
                None => {
                    self.topmost().insert(directory, Entry::directory());
                }
            }
        }
        Ok(())
    }

    fn topmost(&mut self) -> &mut BTreeMap<PathBuf, Entry> {
        let (_, entries) = self.layers.last_mut().expect("a layer was begun");
        entries
    }

    /// Writes those layers that have something in them, the lowest first. Everything in them gets this time, in seconds
    /// since 1970.
    ///
    /// # Errors
    /// When a file cannot be read, or a layer not be written.
    pub fn write(
        &self,
        compression: Compression,
        time: u64,
        workplace: &Workplace<'_>,
    ) -> Result<Vec<Layer>, ImageError> {
        let layers = self
            .layers
            .iter()
            .filter(|(_, entries)| !entries.is_empty());
        let written = layers.map(|(title, entries)| {
            let file = workplace.file()?;
            write(title, entries, compression, time, file, workplace)
        });
        written.collect()
    }
}

/// The path below the root of an image.
fn place(path: &Path) -> Result<PathBuf, ImageError> {
    let mut place = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => place.push(name),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => {
                return Err(ImageError::NoPlace(path.to_owned()));
            }
        }
    }
    if place.as_os_str().is_empty() {
        Err(ImageError::NoPlace(path.to_owned()))
    } else {
        Ok(place)
    }
}

/// Writes a layer into a file.
pub(crate) fn write(
    title: &str,
    entries: &BTreeMap<PathBuf, Entry>,
    compression: Compression,
    time: u64,
    file: File,
    workplace: &Workplace<'_>,
) -> Result<Layer, ImageError> {
    let cannot = |reason| ImageError::io("write", Path::new("a layer"))(reason);
    let stored = Hashed::new(BufWriter::new(file));
    let packed = Hashed::new(Encoder::new(compression, stored).map_err(cannot)?);
    let mut archive = tar::Builder::new(packed);
    // A file with holes is written whole: a sparse entry is an extension that not all readers know.
    archive.sparse(false);
    for (path, entry) in entries {
        workplace.go_on()?;
        append(&mut archive, path, entry, time, workplace)?;
    }
    let (encoder, diff_id, _) = archive.into_inner().map_err(cannot)?.finish();
    let (buffer, digest, size_bytes) = encoder.finish().map_err(cannot)?.finish();
    let file = buffer
        .into_inner()
        .map_err(|error| cannot(error.into_error()))?;
    Ok(Layer {
        media_type: match compression {
            Compression::Gzip => MediaType::ImageLayerGzip,
            Compression::Zstd => MediaType::ImageLayerZstd,
        },
        blob: Blob::in_file(Arc::new(file), 0, size_bytes, digest),
        diff_id,
        title: title.to_owned(),
    })
}

fn append<W: Write>(
    archive: &mut tar::Builder<W>,
    path: &Path,
    entry: &Entry,
    time: u64,
    workplace: &Workplace<'_>,
) -> Result<(), ImageError> {
    let mut header = tar::Header::new_gnu();
    header.set_mode(entry.mode);
    header.set_uid(entry.owner.0.into());
    header.set_gid(entry.owner.1.into());
    header.set_mtime(time);
    header.set_size(0);
    let cannot = |reason| ImageError::io("pack", Path::new("/").join(path).as_path())(reason);
    match &entry.content {
        Content::Directory => {
            header.set_entry_type(tar::EntryType::Directory);
            archive.append_data(&mut header, path.join(""), io::empty())
        }
        Content::Link(target) => {
            header.set_entry_type(tar::EntryType::Symlink);
            archive.append_link(&mut header, path, target)
        }
        Content::Bytes(bytes) => {
            header.set_size(bytes.len() as u64);
            archive.append_data(&mut header, path, bytes.as_slice())
        }
        Content::File(source) => {
            let (file, size) = open(source).map_err(ImageError::io("read", source))?;
            header.set_size(size);
            let contents = workplace.read(file, size);
            return append_file(archive, &mut header, path, contents)
                .map_err(ImageError::io("pack", source));
        }
    }
    .map_err(cannot)
}

fn append_file<W: Write>(
    archive: &mut tar::Builder<W>,
    header: &mut tar::Header,
    path: &Path,
    contents: impl Read,
) -> io::Result<()> {
    header.set_entry_type(tar::EntryType::Regular);
    archive.append_data(header, path, contents)
}

fn open(path: &Path) -> io::Result<(File, u64)> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() {
        Ok((file, metadata.len()))
    } else {
        Err(io::Error::other("it is no longer a file"))
    }
}

enum Encoder<W: Write> {
    Gzip(GzEncoder<W>),
    Zstd(zstd::Encoder<'static, W>),
}

impl<W: Write> Encoder<W> {
    fn new(compression: Compression, to: W) -> io::Result<Self> {
        /// A program is a tenth smaller than with the default of 3, and 15 MB take a third of a second; higher levels
        /// gain little.
        const ZSTD_LEVEL: i32 = 9;
        Ok(match compression {
            // Its header has neither a time nor a name.
            Compression::Gzip => Self::Gzip(GzEncoder::new(to, flate2::Compression::default())),
            Compression::Zstd => Self::Zstd(zstd::Encoder::new(to, ZSTD_LEVEL)?),
        })
    }

    fn finish(self) -> io::Result<W> {
        match self {
            Self::Gzip(encoder) => encoder.finish(),
            Self::Zstd(encoder) => encoder.finish(),
        }
    }
}

impl<W: Write> Write for Encoder<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Gzip(encoder) => encoder.write(bytes),
            Self::Zstd(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Gzip(encoder) => encoder.flush(),
            Self::Zstd(encoder) => encoder.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    fn layers(stack: &Stack, compression: Compression) -> Vec<Layer> {
        let flag = AtomicBool::new(false);
        let workplace = Workplace::new(None, &flag);
        stack.write(compression, 0, &workplace).unwrap()
    }

    fn names(layer: &Layer) -> Vec<String> {
        let mut beginning = [0; 4];
        layer.blob.reader().read_exact(&mut beginning).unwrap();
        let stored = io::BufReader::new(layer.blob.reader());
        let mut archive = tar::Archive::new(unpacked(&beginning, stored).unwrap());
        let entries = archive.entries().unwrap();
        let name = |entry: io::Result<tar::Entry<'_, _>>| {
            let entry = entry.unwrap();
            let mode = entry.header().mode().unwrap();
            format!("{} {mode:o}", entry.path().unwrap().display())
        };
        entries.map(name).collect()
    }

    #[test]
    fn a_layer_names_only_directories_that_no_layer_below_has() {
        let mut stack = Stack::default();
        stack.begin("below");
        let tmp = Entry {
            mode: 0o1777,
            ..Entry::directory()
        };
        stack.add(Path::new("/tmp"), tmp).unwrap();
        stack.begin("empty");
        stack.begin("above");
        stack.add(Path::new("/tmp/b/c"), Entry::bytes("c")).unwrap();
        stack.add(Path::new("/a"), Entry::link("tmp")).unwrap();
        for compression in [Compression::Gzip, Compression::Zstd] {
            let layers = layers(&stack, compression);
            assert_eq!(layers.len(), 2);
            assert_eq!(names(&layers[0]), ["tmp/ 1777"]);
            assert_eq!(names(&layers[1]), ["a 777", "tmp/b/ 755", "tmp/b/c 644"]);
        }
    }

    #[test]
    fn the_order_of_adding_makes_no_difference() {
        let written = |names: [&str; 3]| {
            let mut stack = Stack::default();
            stack.begin("all");
            for name in names {
                stack.add(Path::new(name), Entry::bytes(name)).unwrap();
            }
            layers(&stack, Compression::Gzip).remove(0)
        };
        let (one, other) = (written(["/b/a", "/c", "/a"]), written(["/a", "/b/a", "/c"]));
        assert_eq!(one.diff_id, other.diff_id);
        assert_eq!(one.blob.digest(), other.blob.digest());
        assert_eq!(names(&one), ["a 644", "b/ 755", "b/a 644", "c 644"]);
    }

    #[test]
    fn a_place_is_taken_once_and_is_within_the_image() {
        let mut stack = Stack::default();
        stack.begin("all");
        stack.add(Path::new("/a/b"), Entry::bytes("")).unwrap();
        let error = |stack: &mut Stack, path: &str| {
            let result = stack.add(Path::new(path), Entry::bytes(""));
            result.unwrap_err().to_string()
        };
        assert_eq!(
            error(&mut stack, "a/./b"),
            "`/a/b` would be twice in the image"
        );
        assert_eq!(
            error(&mut stack, "/a/b/c"),
            "`/a/b` would be a file and a directory in the image"
        );
        assert!(error(&mut stack, "/a").contains("twice"));
        assert!(error(&mut stack, "/../x").contains("absolute path"));
        assert!(error(&mut stack, "/").contains("absolute path"));
        stack.add(Path::new("/a"), Entry::directory()).unwrap();
        stack.remove(Path::new("/a/b"));
        stack.add(Path::new("/a/b"), Entry::link("c")).unwrap();
    }

    #[test]
    fn work_ends_when_the_caller_says_so() {
        let flag = AtomicBool::new(true);
        let mut stack = Stack::default();
        stack.begin("all");
        stack.add(Path::new("/a"), Entry::bytes("")).unwrap();
        let result = stack.write(Compression::Gzip, 0, &Workplace::new(None, &flag));
        assert!(matches!(result, Err(ImageError::Interrupted)), "{result:?}");
    }
}
