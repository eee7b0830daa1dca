//! reheap's own libraries, each of one C source. They are compiled and linked like preloads, and kept beside them.

use crate::cache::{Cache, CacheError, hash};
use crate::catalogue::Glue;
use crate::preload::{self, LINK_FLAGS, PreloadError};
use crate::target::Target;
use crate::upstream::{self, LinkKind, Toolchain, Wrappers};
use reheap_elf::archive::Member;
use std::fs;
use std::path::{Path, PathBuf};

/// A library of one C source.
#[derive(Debug, Clone, Copy)]
pub struct OwnLibrary {
    /// The source.
    pub source: Glue,
    /// The functions that it exports; it exports nothing else.
    pub exports: &'static [&'static str],
    /// The function that runs when the dynamic linker gets the file as a program.
    pub entry_point: Option<&'static str>,
}

/// An empty library, for processes that reheap leaves alone.
pub const NOTHING: OwnLibrary = OwnLibrary {
    source: Glue {
        name: "nothing",
        source: "// Empty, for processes that reheap leaves alone.\n",
    },
    exports: &[],
    entry_point: None,
};

impl OwnLibrary {
    /// The file for a target, built now or taken from the cache.
    ///
    /// # Errors
    /// When the compiler fails, when the library exports other names than it should, or when the cache cannot be
    /// written.
    pub fn build(
        &self,
        target: &Target,
        toolchain: &Toolchain,
        cache: &Cache,
    ) -> Result<PathBuf, PreloadError> {
        let name = self.source.name;
        let key = hash([toolchain.cc.identity.as_bytes()]);
        let entry = format!("{}{}", self.entry_prefix(target), &key[..16]);
        let is_whole = |entry: &Path| preload::is_whole(&entry.join(self.file_name()));
        let directory = cache.whole_entry("preloads", &entry, is_whole, |unfinished| {
            let objects = tempfile::tempdir_in(unfinished)
                .map_err(CacheError::new("make a directory in", unfinished))?;
            let wrappers = Wrappers::write(objects.path(), &toolchain.cc, None)?;
            let kind = LinkKind::Preload;
            upstream::compile_glue(
                &self.source,
                kind,
                &[],
                toolchain,
                &wrappers,
                objects.path(),
            )?;
            let object = objects.path().join(format!("{name}.o"));
            let member = Member {
                name: format!("{name}.o"),
                data: fs::read(&object).map_err(CacheError::new("read", &object))?,
            };
            preload::link(
                &[member],
                &self.file_name(),
                self.exports,
                &self.link_flags(),
                toolchain,
                unfinished,
            )
        })?;
        Ok(directory.join(self.file_name()))
    }

    /// The same, if any compiler has built it before. It does for these libraries what [`preload::find_built`] does for
    /// preloads.
    pub fn find_built(&self, target: &Target, cache: &Cache) -> Option<PathBuf> {
        preload::find(&self.entry_prefix(target), &self.file_name(), cache)
    }

    fn file_name(&self) -> String {
        format!("lib{}.so", self.source.name)
    }

    fn link_flags(&self) -> Vec<String> {
        let flag = self.entry_point.map(|name| format!("-Wl,-e,{name}"));
        flag.into_iter().collect()
    }

    /// How the names of all its entries begin, whichever compiler made them.
    fn entry_prefix(&self, target: &Target) -> String {
        let Glue { name, source } = self.source;
        let link_flags = LINK_FLAGS.join(" ") + " " + &self.link_flags().join(" ");
        let flags = upstream::glue_flags(LinkKind::Preload).join(" ");
        let parts = [source, &self.exports.join(" "), &link_flags, &flags];
        let key = hash(parts.map(str::as_bytes));
        format!("{name}-{target}-{}-", &key[..8])
    }
}
