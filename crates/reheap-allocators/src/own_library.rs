//! reheap's own libraries, each of one C source. They are compiled and linked like preloads, and kept beside them.

use crate::cache::{Cache, CacheError, hash};
use crate::catalogue::Glue;
use crate::link_kind::LinkKind;
use crate::preload::{self, LIBRARIES, LINK_FLAGS, PreloadError};
use crate::target::Target;
use crate::upstream::{self, Toolchain, Wrappers};
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
    /// What it may call.
    pub base: Base,
}

/// What the code of a library may call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// Its libc.
    Libc,
    /// Nothing but what it asks the dynamic linker for, if there is one. So it is the same for every libc, and serves
    /// programs that have none.
    Nothing,
}

/// For code that calls no libc: the compiler must not take functions for the libc's. Frame pointers lead from such a
/// library to its caller. Every compiler knows these flags, for every processor.
const FREESTANDING: [&str; 5] = [
    "-ffreestanding",
    "-fno-builtin",
    "-fno-stack-protector",
    "-fno-omit-frame-pointer",
    "-fcf-protection=none",
];

impl Base {
    fn compiler_flags(self) -> Vec<String> {
        match self {
            Self::Libc => Vec::new(),
            Self::Nothing => FREESTANDING.map(str::to_owned).to_vec(),
        }
    }

    fn link_flags(self) -> Vec<String> {
        match self {
            Self::Libc => Vec::new(),
            Self::Nothing => ["-nostdlib", "-Wl,--as-needed"].map(str::to_owned).to_vec(),
        }
    }
}

/// An empty library, for processes that reheap leaves alone.
pub const NOTHING: OwnLibrary = OwnLibrary {
    source: Glue {
        name: "nothing",
        source: "// Empty, for processes that reheap leaves alone.\n",
    },
    exports: &[],
    entry_point: None,
    base: Base::Libc,
};

/// The hooks of `reheap profile`, from their source: one library, whatever libc a program has.
pub const fn hooks(source: &'static str, exports: &'static [&'static str]) -> OwnLibrary {
    OwnLibrary {
        source: Glue {
            name: "reheap-hooks",
            source,
        },
        exports,
        entry_point: None,
        base: Base::Nothing,
    }
}

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
                &self.base.compiler_flags(),
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
                &LIBRARIES,
                toolchain,
                unfinished,
            )
        })?;
        Ok(directory.join(self.file_name()))
    }

    /// The library in the cache, if any compiler has built it before. It does for these libraries what
    /// [`preload::find_built`] does for preloads.
    pub fn find_built(&self, target: &Target, cache: &Cache) -> Option<PathBuf> {
        preload::find(&self.entry_prefix(target), &self.file_name(), cache)
    }

    pub(crate) fn file_name(&self) -> String {
        format!("lib{}.so", self.source.name)
    }

    fn link_flags(&self) -> Vec<String> {
        let flag = self.entry_point.map(|name| format!("-Wl,-e,{name}"));
        flag.into_iter().chain(self.base.link_flags()).collect()
    }

    /// How the names of all its entries begin, whichever compiler made them.
    fn entry_prefix(&self, target: &Target) -> String {
        format!("{}-{target}-{}-", self.source.name, &self.key()[..8])
    }

    /// A hash of everything that goes into it, except the compiler.
    pub(crate) fn key(&self) -> String {
        let source = self.source.source;
        let link_flags = LINK_FLAGS.join(" ") + " " + &self.link_flags().join(" ");
        let own_flags = self.base.compiler_flags().join(" ");
        let flags = upstream::glue_flags(LinkKind::Preload).join(" ") + " " + &own_flags;
        let parts = [source, &self.exports.join(" "), &link_flags, &flags];
        hash(parts.map(str::as_bytes))
    }
}
