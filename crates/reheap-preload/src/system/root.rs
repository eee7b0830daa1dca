//! Opens files of a system below its root directory: this system's, or that of an image.
//!
//! Symbolic links in an image lead to where they would lead once it runs, never out of it. `/etc` of an image may be a
//! link to an absolute path, and that does not mean a file of this machine.

use super::identity::{self, Identity, path_handle};
use anyhow::Context as _;
use reheap_allocators::target::{Libc, Target};
use reheap_allocators::trust::unmapped_user;
use reheap_command::ui::Failure;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// How many links the kernel follows in one path (path_resolution(7)).
const LINKS_MAX: usize = 40;

/// A system's files.
#[derive(Debug)]
pub struct Root {
    directory: PathBuf,
    handle: OwnedFd,
    is_this_system: bool,
}

/// Where a path of the system is for this process, as long as this value lives: in a directory that is kept open, so
/// that nobody leads out of the root directory by putting a link in that directory's place in the meantime.
#[derive(Debug)]
pub(crate) struct Place {
    path: PathBuf,
    /// The path names it by its number.
    _directory: Option<OwnedFd>,
}

/// The directory itself, whatever has its name by now.
impl AsFd for Root {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

impl Deref for Place {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

/// A dynamic linker and the libc that it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Linker {
    /// The libc of the programs that it loads.
    pub libc: Libc,
    /// The processor of the programs that it loads.
    pub architecture: &'static str,
    pub(crate) path: &'static str,
}

const fn linker(libc: Libc, architecture: &'static str, path: &'static str) -> Linker {
    Linker {
        libc,
        architecture,
        path,
    }
}

/// The paths that programs name as their interpreter: fixed by the ABI of each architecture (glibc's
/// `shlib-versions`, musl's `ldso`).
const LINKERS: [Linker; 14] = [
    linker(Libc::Glibc, "x86_64", "/lib64/ld-linux-x86-64.so.2"),
    linker(Libc::Musl, "x86_64", "/lib/ld-musl-x86_64.so.1"),
    linker(Libc::Glibc, "aarch64", "/lib/ld-linux-aarch64.so.1"),
    linker(Libc::Musl, "aarch64", "/lib/ld-musl-aarch64.so.1"),
    linker(Libc::Glibc, "i386", "/lib/ld-linux.so.2"),
    linker(Libc::Musl, "i386", "/lib/ld-musl-i386.so.1"),
    linker(Libc::Glibc, "x32", "/libx32/ld-linux-x32.so.2"),
    linker(Libc::Glibc, "armhf", "/lib/ld-linux-armhf.so.3"),
    linker(Libc::Musl, "armhf", "/lib/ld-musl-armhf.so.1"),
    linker(Libc::Glibc, "riscv64", "/lib/ld-linux-riscv64-lp64d.so.1"),
    linker(Libc::Musl, "riscv64", "/lib/ld-musl-riscv64.so.1"),
    linker(Libc::Glibc, "ppc64le", "/lib64/ld64.so.2"),
    linker(Libc::Glibc, "s390x", "/lib/ld64.so.1"),
    linker(Libc::Musl, "s390x", "/lib/ld-musl-s390x.so.1"),
];

impl Linker {
    /// What a library for its programs is built for.
    pub fn target(&self) -> Option<Target> {
        Target::of_this_machine(self.libc).filter(|_| self.architecture == std::env::consts::ARCH)
    }
}

impl Root {
    /// The system that runs, or another one whose root directory this is. `instead` is the command to type for the
    /// first.
    ///
    /// # Errors
    /// If it is no directory that can be opened, one that its path does not lead to, or the running system's.
    pub fn of(directory: Option<&Path>, instead: &str) -> anyhow::Result<Self> {
        match directory {
            None => Self::running(),
            Some(directory) => Self::open(directory, instead),
        }
    }

    /// The system that runs.
    ///
    /// # Errors
    /// If its root directory cannot be opened.
    pub(crate) fn running() -> anyhow::Result<Self> {
        let directory = PathBuf::from("/");
        Ok(Self {
            handle: path_handle(&directory).context("cannot open `/`")?,
            directory,
            is_this_system: true,
        })
    }

    fn open(directory: &Path, instead: &str) -> anyhow::Result<Self> {
        let cannot = || format!("cannot use `{}` as a root directory", directory.display());
        let canonical = directory.canonicalize().with_context(cannot)?;
        let root = Self {
            handle: path_handle(directory).with_context(cannot)?,
            directory: canonical,
            is_this_system: false,
        };
        identity::check_is_not_running(|path| root.directory_identity(path), directory, instead)?;
        let by_name = path_handle(&root.directory).and_then(|named| Identity::of(&named));
        if by_name.with_context(cannot)? != Identity::of(&root.handle).with_context(cannot)? {
            // As `/proc/PID/root` of a container, whose text is `/`: what is meant is not this system.
            let shown = root.directory.display();
            let text = format!(
                "{}: its link names `{shown}`, which is another directory",
                cannot()
            );
            let hint = "give the path that this system has for the directory";
            return Err(Failure::failed(text).hint(hint).into());
        }
        root.directory_identity("/etc").map_err(|error| {
            let why = match error.kind() {
                io::ErrorKind::NotFound => "it has no `/etc`".to_owned(),
                _ => format!("cannot open its `/etc`: {error}"),
            };
            Failure::failed(format!("{}: {why}", cannot()))
        })?;
        Ok(root)
    }

    /// The directory that is `/` there.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Whether it is the system that runs.
    pub fn is_this_system(&self) -> bool {
        self.is_this_system
    }

    /// Where to read and write a path of the system. Its directories must exist; it itself need not, and is no link
    /// that would be followed.
    pub(crate) fn place(&self, path: impl AsRef<Path>) -> io::Result<Place> {
        let path = path.as_ref();
        let (parent, name) = split(path)?;
        if self.is_this_system() {
            return Ok(Place {
                path: path.into(),
                _directory: None,
            });
        }
        let directory = self.handle(parent, OFlags::PATH | OFlags::DIRECTORY)?;
        Ok(Place {
            path: path_of(&directory).join(name),
            _directory: Some(directory),
        })
    }

    /// Where a path of the system is, as a path without links in it, to be shown or handed on.
    pub(crate) fn locate(&self, path: &str) -> io::Result<PathBuf> {
        let (parent, name) = split(Path::new(path))?;
        let directory = self.handle(parent, OFlags::PATH | OFlags::DIRECTORY)?;
        Ok(std::fs::read_link(path_of(&directory))?.join(name))
    }

    /// Where a path of the system is, seen from its root directory, for a program that starts there.
    pub(crate) fn relative(&self, path: &str) -> io::Result<PathBuf> {
        let located = self.locate(path)?;
        let root = std::fs::read_link(path_of(&self.handle))?;
        let below = located.strip_prefix(root);
        let below = below.map_err(|_| io::Error::other("its directory was moved"))?;
        Ok(Path::new(".").join(below))
    }

    /// Whether the path leads to a directory, also by way of links.
    pub(crate) fn is_directory(&self, path: &str) -> bool {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        self.handle(Path::new(path), flags).is_ok()
    }

    /// A file's contents; links are followed.
    pub(crate) fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open_file(path)?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// A regular file; links are followed.
    pub fn open_file(&self, path: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let file = File::from(self.handle(Path::new(path), flags)?);
        if file.metadata()?.is_file() {
            Ok(file)
        } else {
            Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it is not a file",
            ))
        }
    }

    /// What tells a directory of the system from others; links are followed.
    pub(crate) fn directory_identity(&self, path: &str) -> io::Result<Identity> {
        match path {
            "/" => Identity::of(&self.handle), // also before Linux 5.6
            path => Identity::of(&self.handle(Path::new(path), OFlags::PATH | OFlags::DIRECTORY)?),
        }
    }

    /// A directory, to be locked.
    pub fn open_directory(&self, path: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        Ok(self.handle(Path::new(path), flags)?.into())
    }

    /// The names in a directory, sorted; none where it is missing.
    pub(crate) fn list(&self, path: &str) -> Vec<String> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let Ok(directory) = self.handle(Path::new(path), flags) else {
            return Vec::new();
        };
        // Not by a path in /proc, which a root directory may lack when its package manager removes reheap.
        let entries = rustix::fs::Dir::read_from(&directory).into_iter().flatten();
        let names =
            entries.filter_map(|entry| entry.ok()?.file_name().to_owned().into_string().ok());
        let mut names: Vec<String> = names
            .filter(|name| !matches!(name.as_str(), "." | ".."))
            .collect();
        names.sort();
        names
    }

    fn handle(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC;
        if self.is_this_system() {
            return Ok(rustix::fs::open(path, flags, Mode::empty())?); // also before Linux 5.6
        }
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        Ok(rustix::fs::openat2(
            &self.handle,
            path,
            flags,
            Mode::empty(),
            resolve,
        )?)
    }

    /// The dynamic linkers for this machine, and those for others.
    pub fn linkers(&self) -> (Vec<Linker>, Vec<Linker>) {
        let here = LINKERS
            .into_iter()
            .filter(|linker| self.open_file(linker.path).is_ok());
        here.partition(|linker| linker.target().is_some())
    }

    /// What each process of the system loads, and what says how to undo that, must not be for others to replace.
    ///
    /// # Errors
    /// The first directory on the way to the path that somebody but its owner, root, may write.
    pub fn check_owners(&self, path: &str) -> anyhow::Result<()> {
        let way = self.way_to(path)?;
        for (index, directory) in way.iter().enumerate() {
            let shown = self.shown(directory);
            let failure =
                |why: &str| Failure::failed(format!("cannot work below `{shown}`: {why}"));
            let metadata = self.metadata(directory)?;
            let owner = metadata.uid();
            // In a user namespace, the directories of the system outside seem to be nobody's.
            let is_of_outside = index + 1 < way.len() && Some(owner) == unmapped_user();
            if !is_trusted(owner) && !is_of_outside {
                let why = format!("it belongs to user {owner}, who could replace what is there");
                return Err(failure(&why).hint(format!("chown root {shown}")).into());
            }
            if metadata.mode() & 0o022 != 0 {
                let why =
                    "users other than its owner may write there, and could replace what is there";
                return Err(failure(why).hint(format!("chmod go-w {shown}")).into());
            }
        }
        Ok(())
    }

    /// Programs of every user must get to what they are to load.
    ///
    /// # Errors
    /// The first directory on the way to the path that not everybody may enter.
    pub fn check_entry(&self, path: &str) -> anyhow::Result<()> {
        // The mode of an image's root directory here says nothing about its mode later.
        for directory in self.way_to(path)?.iter().skip(1) {
            if self.metadata(directory)?.mode() & 0o001 == 0 {
                let shown = self.shown(directory);
                let text = format!(
                    "cannot work below `{shown}`: not every user may enter it, so some programs would not find the \
                     library"
                );
                let hint = format!("chmod o+x {shown}");
                return Err(Failure::failed(text).hint(hint).into());
            }
        }
        Ok(())
    }

    /// The directories by which a path is reached, also those that links lead through, as far as they are there.
    fn way_to(&self, path: &str) -> anyhow::Result<Vec<PathBuf>> {
        let parts = |path: &Path| -> Vec<OsString> {
            let parts = path.components().rev();
            parts.map(|part| part.as_os_str().to_owned()).collect()
        };
        let mut at = PathBuf::from("/");
        let mut way = vec![at.clone()];
        let mut rest = parts(Path::new(path));
        let mut links = 0;
        while let Some(part) = rest.pop() {
            if part == "/" {
                at = "/".into();
            }
            if part == ".." {
                at.pop();
            }
            if ["/", "..", "."].iter().any(|name| part == *name) {
                continue;
            }
            let next = at.join(part);
            let link = self.place(&next).and_then(|place| place.read_link());
            match link {
                Ok(target) if links < LINKS_MAX => {
                    links += 1;
                    rest.extend(parts(&target));
                }
                // It is not a link.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                    way.push(next.clone());
                    at = next;
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                Err(error) => {
                    let shown = self.shown(&next);
                    return Err(error).with_context(|| format!("cannot find `{shown}`"));
                }
                Ok(_) => anyhow::bail!("cannot find `{path}`: it has too many links"),
            }
        }
        Ok(way)
    }

    fn metadata(&self, path: &Path) -> anyhow::Result<Metadata> {
        let handle = self.handle(path, OFlags::PATH);
        let metadata = handle.and_then(|handle| File::from(handle).metadata());
        metadata.with_context(|| format!("cannot inspect `{}`", self.shown(path)))
    }

    /// A path of the system as one that can be typed here.
    fn shown(&self, path: &Path) -> String {
        let below = path.strip_prefix("/").unwrap_or(path);
        let shown: PathBuf = self.directory.join(below).components().collect(); // no slash at the end
        shown.display().to_string()
    }
}

/// The directory and the name in it.
fn split(path: &Path) -> io::Result<(&Path, &OsStr)> {
    let parts = path.parent().zip(path.file_name());
    parts.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it has no file name"))
}

/// What an open file can be reached by, wherever its name has gone.
fn path_of(handle: &OwnedFd) -> PathBuf {
    format!("/proc/self/fd/{}", handle.as_raw_fd()).into()
}

/// Root, or whoever unpacked the image.
fn is_trusted(owner: u32) -> bool {
    owner == 0 || owner == rustix::process::geteuid().as_raw()
}
