//! Programs that a test compiles, in a directory of their own.

use super::run;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) struct Programs {
    directory: tempfile::TempDir,
}

impl Programs {
    pub(crate) fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory().join(name)
    }

    pub(crate) fn write(&self, name: &str, contents: impl AsRef<[u8]>) {
        fs::write(self.path(name), contents).unwrap();
    }

    /// Runs a command line in the directory; it must succeed.
    #[track_caller]
    pub(crate) fn run(&self, line: &str) {
        let mut words = line.split(' ');
        let mut command = Command::new(words.next().unwrap());
        run(command.args(words).current_dir(self.directory())).succeeded();
    }

    /// Builtins are off, because a compiler may remove a malloc whose block is only freed.
    #[track_caller]
    pub(crate) fn compile(
        &self,
        compiler: &str,
        name: &str,
        source: &str,
        flags: &[&str],
    ) -> PathBuf {
        let file = self.path(&format!("{name}.c"));
        fs::write(&file, source).unwrap();
        let program = self.path(name);
        let mut command = Command::new(compiler);
        command.arg("-fno-builtin").args(flags).arg(file);
        run(command.arg("-o").arg(&program).arg("-ldl")).succeeded();
        program
    }

    /// An executable file with this text.
    pub(crate) fn script(&self, name: &str, text: &str) -> PathBuf {
        let script = self.path(name);
        fs::write(&script, text).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        script
    }
}
