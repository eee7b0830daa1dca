//! Puts the libraries of one choice into their final place: a directory that is named after its contents. So another
//! choice never overwrites a file that a process is about to load.
//!
//! If a system has programs of both libcs, `LD_PRELOAD` reaches both. Then one path means two files: glibc expands
//! `$LIB` (ld.so(8)), and musl reads it as a name (see `reheap_allocators::preload::path_for_variable`).

use super::LIBRARIES;
use super::disk::{Contents, Disk};
use super::root::Root;
use reheap_allocators::cache;
use reheap_allocators::preload::glibc_library_directories;
use reheap_allocators::target::Libc;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt as _;

/// The permissions of libraries: everybody's programs load them.
const MODE: u32 = 0o755;

/// A library that was built.
#[derive(Debug, Clone)]
pub struct Library {
    /// The libc of the programs that load it.
    pub libc: Libc,
    /// The file.
    pub bytes: Vec<u8>,
    /// A canary of the same libc.
    pub canary: Vec<u8>,
}

/// The libraries of one choice.
#[derive(Debug)]
pub struct Libraries {
    /// Where they are.
    pub(crate) directory: String,
    file_name: String,
    libraries: Vec<Library>,
}

impl Libraries {
    /// One library for each libc.
    pub fn new(allocator: &str, version: &str, libraries: Vec<Library>) -> Self {
        let mut all = Vec::new();
        for library in &libraries {
            all.extend_from_slice(library.libc.to_string().as_bytes());
            all.extend_from_slice(&library.bytes);
        }
        let hash = &cache::sha256(&all)[..12];
        Self {
            directory: format!("{LIBRARIES}/{allocator}-{version}-{hash}"),
            file_name: format!("lib{allocator}-{version}.so"),
            libraries,
        }
    }

    /// The libcs that they are for.
    pub fn libcs(&self) -> impl Iterator<Item = Libc> {
        self.libraries.iter().map(|library| library.libc)
    }

    /// The file for programs of a libc.
    pub fn file(&self, libc: Libc) -> String {
        format!("{}/{}", self.directory_of(libc), self.file_name)
    }

    /// Where the library for this libc is.
    pub fn directory_of(&self, libc: Libc) -> String {
        format!("{}/{libc}", self.directory)
    }

    pub(crate) fn files(&self) -> BTreeMap<String, String> {
        self.libcs()
            .map(|libc| (libc.to_string(), self.file(libc)))
            .collect()
    }

    /// The path for `LD_PRELOAD`.
    pub fn for_variable(&self, libc: Libc) -> String {
        match self.libraries.len() {
            1 => self.file(libc),
            _ => format!("{}/$LIB/{}", self.directory, self.file_name),
        }
    }

    /// Where that of the canaries is.
    pub fn canary(&self, libc: Libc) -> String {
        format!("{}/canary", self.directory_of(libc))
    }

    /// The SHA-256 of each, by libc.
    pub(crate) fn hashes(&self) -> BTreeMap<String, String> {
        let libraries = self.libraries.iter();
        libraries
            .map(|library| (library.libc.to_string(), cache::sha256(&library.bytes)))
            .collect()
    }

    fn links(&self) -> Vec<(String, String)> {
        match self.libraries.len() {
            1 => Vec::new(),
            _ => links(&self.directory, &self.file_name),
        }
    }

    /// Writes everything that is not there yet, the canaries too.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn write(&self, disk: &Disk) -> anyhow::Result<()> {
        let links = self.links();
        let mut directories = BTreeSet::new();
        let files = self.libcs().map(|libc| self.file(libc));
        for path in files.chain(links.iter().map(|(path, _)| path.clone())) {
            let (directory, _) = path
                .rsplit_once('/')
                .expect("a path of a file in a directory");
            directories.extend(disk.missing_directories(directory));
        }
        for directory in directories {
            disk.make_directory(&directory)?; // in order, so parents come first
        }
        for library in &self.libraries {
            let file = self.file(library.libc);
            if !is_whole(disk.root, &file, &library.bytes) {
                disk.write(&file, &Contents::new(library.bytes.clone(), MODE))?;
            }
            let canary = Contents::new(library.canary.clone(), 0o755);
            disk.write(&self.canary(library.libc), &canary)?;
        }
        for (path, target) in links {
            disk.link(&path, &target)?;
        }
        Ok(())
    }

    /// Removes the canaries again.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn delete_canaries(&self, disk: &Disk) -> anyhow::Result<()> {
        self.libcs()
            .try_for_each(|libc| disk.delete(&self.canary(libc)))
    }

    /// Whether all of them are in place, as they were built.
    pub(crate) fn are_whole(&self, root: &Root) -> bool {
        let is_there = |library: &Library| is_whole(root, &self.file(library.libc), &library.bytes);
        self.libraries.iter().all(is_there)
            && self
                .links()
                .iter()
                .all(|(path, target)| Disk::is_link(root, path, target))
    }
}

/// The links by which the path with `$LIB` leads to each library, where there is one for both libcs, and where each
/// leads.
pub(crate) fn links(directory: &str, file_name: &str) -> Vec<(String, String)> {
    let of_glibc =
        glibc_library_directories(std::env::consts::ARCH).map(|directory| (directory, Libc::Glibc));
    let of_musl = ("$LIB".to_owned(), Libc::Musl);
    let link = |(inner, libc): (String, Libc)| {
        let up = "../".repeat(1 + inner.matches('/').count());
        (
            format!("{directory}/{inner}/{file_name}"),
            format!("{up}{libc}/{file_name}"),
        )
    };
    of_glibc.into_iter().chain([of_musl]).map(link).collect()
}

fn is_whole(root: &Root, file: &str, bytes: &[u8]) -> bool {
    let mode = root.open_file(file).and_then(|file| file.metadata());
    mode.is_ok_and(|metadata| metadata.mode() & 0o7777 == MODE)
        && root.read(file).is_ok_and(|present| present == bytes)
}
