//! Small programs of reheap's own, each of one C source: compiled for one libc, and given an allocator as any program
//! gets one.

use crate::cache::{CacheError, hash};
use crate::target::Target;
use crate::upstream::{self, BuildError, Toolchain, Wrappers};
use std::fs;
use std::path::Path;

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

impl Program {
    /// Compiles it, linked with the target's shared libc, to a file in `directory`.
    ///
    /// # Errors
    /// When the compiler fails, or the directory cannot be written.
    pub(crate) fn compile(
        &self,
        target: &Target,
        toolchain: &Toolchain,
        directory: &Path,
    ) -> Result<(), BuildError> {
        let scratch = tempfile::tempdir_in(directory)
            .map_err(CacheError::new("make a directory in", directory))?;
        let wrappers = Wrappers::write(scratch.path(), &toolchain.cc, None)?;
        let source = scratch.path().join(format!("{}.c", self.name));
        fs::write(&source, self.source).map_err(CacheError::new("write", &source))?;
        let mut cc = toolchain.command(&wrappers.cc);
        cc.current_dir(scratch.path())
            .args(self.compiler_flags)
            .arg("-g0")
            .arg(&source)
            .arg("-o")
            .arg(directory.join(self.name));
        upstream::run(&mut cc, || format!("compile `{}` for {target}", self.name))?;
        Ok(())
    }

    /// A hash of everything that goes into it, except the compiler.
    pub(crate) fn key(&self) -> String {
        let flags = self.compiler_flags.join(" ");
        hash([self.source.as_bytes(), flags.as_bytes()])
    }
}
