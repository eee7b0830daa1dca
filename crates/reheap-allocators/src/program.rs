//! Small programs of reheap's own, each of one C source: compiled for one libc, and given an allocator as any dynamic
//! program gets one.

use crate::cache::{Cache, CacheError, hash};
use crate::target::{Libc, Target};
use crate::upstream::{self, BuildError, Toolchain, Wrappers};
use std::fs;
use std::path::{Path, PathBuf};

/// A program of one C source.
#[derive(Debug, Clone, Copy)]
pub struct Program {
    /// Its name, and that of its file.
    pub name: &'static str,
    /// The source.
    pub source: &'static str,
    /// Flags for the compiler.
    pub compiler_flags: &'static [&'static str],
}

/// The program that performs traces for `reheap replay`, from its source.
pub const fn replayer(source: &'static str, compiler_flags: &'static [&'static str]) -> Program {
    Program {
        name: "replayer",
        source,
        compiler_flags,
    }
}

/// Zig's own start files bring debug information, with paths of the machine that built them.
const LINK_FLAGS: [&str; 1] = ["-Wl,--strip-debug"];

/// What a program for musl has besides, because it is linked as a shared library.
const START: &str = include_str!("../glue/start.c");
const START_FLAGS: [&str; 3] = ["-fPIC", "-shared", "-Wl,-e,reheap_start"];

impl Program {
    /// The file for a target, compiled now or taken from the cache.
    ///
    /// # Errors
    /// When the compiler fails, or the cache cannot be written.
    pub fn build(
        &self,
        target: &Target,
        toolchain: &Toolchain,
        cache: &Cache,
    ) -> Result<PathBuf, BuildError> {
        let key = self.key(target);
        let key = hash([key.as_bytes(), toolchain.cc.identity.as_bytes()]);
        let entry = format!("{}-{target}-{}", self.name, &key[..16]);
        let directory = cache.entry("programs", &entry, |unfinished| {
            self.compile(target, toolchain, unfinished)
        })?;
        Ok(directory.join(self.name))
    }

    fn compile(
        &self,
        target: &Target,
        toolchain: &Toolchain,
        directory: &Path,
    ) -> Result<(), BuildError> {
        let scratch = tempfile::tempdir_in(directory)
            .map_err(CacheError::new("make a directory in", directory))?;
        let wrappers = Wrappers::write(scratch.path(), &toolchain.cc, None)?;
        let mut cc = toolchain.command(&wrappers.cc);
        cc.current_dir(scratch.path())
            .args(self.compiler_flags)
            .args(LINK_FLAGS)
            .arg("-g0");
        let mut sources = vec![(self.name, self.source)];
        if target.libc() == Libc::Musl {
            sources.push(("start", START));
            cc.args(START_FLAGS);
        }
        for (name, text) in sources {
            let source = format!("{name}.c");
            let path = scratch.path().join(&source);
            fs::write(&path, text).map_err(CacheError::new("write", &path))?;
            cc.arg(source);
        }
        cc.arg("-o").arg(directory.join(self.name));
        upstream::run(&mut cc, || format!("compile `{}` for {target}", self.name))?;
        Ok(())
    }

    /// A hash of everything that goes into it, except the compiler.
    pub(crate) fn key(&self, target: &Target) -> String {
        let flags = [self.compiler_flags, &LINK_FLAGS].concat().join(" ");
        let start_flags = START_FLAGS.join(" ");
        let start = match target.libc() {
            Libc::Musl => [START, &start_flags],
            Libc::Glibc => ["", ""],
        };
        hash([self.source, &flags, start[0], start[1]].map(str::as_bytes))
    }
}
