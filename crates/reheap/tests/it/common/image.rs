//! What the tests of `reheap enable` share: root directories made of this machine's files, and mount namespaces.

use super::{Outcome, cache, glibc_linker, reheap, run};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) const LIBRARIES: &str = "usr/local/lib/reheap";

/// A root directory with a dynamic linker, a shell and `cat`.
pub(crate) struct Image {
    pub(crate) directory: tempfile::TempDir,
}

pub(crate) fn musl_linker() -> String {
    format!("/lib/ld-musl-{}.so.1", std::env::consts::ARCH)
}

impl Image {
    pub(crate) fn empty() -> Self {
        let directory = tempfile::tempdir().unwrap();
        // As a root directory is; temporary ones are private.
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let image = Self { directory };
        for path in ["etc/profile.d", "bin", "usr/bin"] {
            fs::create_dir_all(image.path(path)).unwrap();
        }
        image
    }

    pub(crate) fn of_glibc() -> Self {
        let image = Self::empty();
        image.copy("/bin/sh");
        image.copy("/bin/cat");
        image.copy(glibc_linker());
        let libraries = run(Command::new("ldd").arg("/bin/cat")).succeeded().stdout;
        for path in libraries
            .split_whitespace()
            .filter(|word| word.starts_with('/'))
        {
            image.copy(path);
        }
        image
    }

    /// Without programs, as an image may be that is made from one file.
    pub(crate) fn of_musl() -> Self {
        let image = Self::empty();
        image.copy(&musl_linker());
        image
    }

    /// A copy of reheap with what it needs to start where this image is the root directory.
    pub(crate) fn with_reheap(&self) {
        self.with_reheap_at("bin/reheap");
        fs::create_dir(self.path("proc")).unwrap();
    }

    /// Puts reheap at this path, with the libraries that it needs.
    pub(crate) fn with_reheap_at(&self, path: &str) {
        let program = env!("CARGO_BIN_EXE_reheap");
        let libraries = run(Command::new("ldd").arg(program)).succeeded().stdout;
        let files = libraries.split_whitespace();
        for path in files.filter(|word| word.starts_with('/')) {
            self.copy(path);
        }
        fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
        fs::copy(program, self.path(path)).unwrap();
    }

    pub(crate) fn copy(&self, file: &str) {
        let to = self.path(file);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(file, to).unwrap();
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.directory.path().join(path.trim_start_matches('/'))
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    pub(crate) fn reheap(&self, line: &str) -> Outcome {
        run(reheap(line).arg("--root").arg(self.directory.path()))
    }

    #[track_caller]
    pub(crate) fn status(&self) -> Value {
        let outcome = self.reheap("status --json");
        let status: Value = serde_json::from_str(&outcome.stdout)
            .unwrap_or_else(|error| panic!("{error}: {outcome:?}"));
        let is_well = status["problems"].as_array().unwrap().is_empty();
        outcome.ended_with(if is_well { 0 } else { 1 });
        status
    }

    /// Path, mode and contents of everything.
    pub(crate) fn snapshot(&self) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
        let mut snapshot = BTreeMap::new();
        let mut directories = vec![self.directory.path().to_owned()];
        while let Some(next) = directories.pop() {
            for entry in fs::read_dir(next).unwrap() {
                let path = entry.unwrap().path();
                let metadata = path.symlink_metadata().unwrap();
                let bytes = match (metadata.is_dir(), metadata.is_file()) {
                    (true, _) => {
                        directories.push(path.clone());
                        Vec::new()
                    }
                    (_, true) => fs::read(&path).unwrap(),
                    _ => fs::read_link(&path)
                        .unwrap()
                        .into_os_string()
                        .into_encoded_bytes(),
                };
                snapshot.insert(path, (metadata.permissions().mode(), bytes));
            }
        }
        snapshot
    }

    /// Compiles a program of the image.
    pub(crate) fn compile(&self, path: &str, source: &str) {
        let file = self.path("source.c");
        fs::write(&file, source).unwrap();
        run(Command::new("cc").arg(&file).arg("-o").arg(self.path(path))).succeeded();
        fs::remove_file(file).unwrap();
    }
}

/// Runs a script in mount namespaces of its own, as root or as what seems to be root; `$REHEAP` is the program.
pub(crate) fn in_namespace(script: &str, arguments: &[&Path]) -> Outcome {
    let flags = if rustix::process::geteuid().is_root() {
        "-m"
    } else {
        "-rm"
    };
    let mut command = Command::new("unshare");
    command
        .args([flags, "sh", "-euc", script, "sh"])
        .args(arguments)
        .env("REHEAP", env!("CARGO_BIN_EXE_reheap"))
        .env("REHEAP_CACHE_DIR", cache())
        .env_remove("LD_PRELOAD");
    run(&mut command)
}

/// Builds the libraries before, so that a snapshot shows only what the command does.
pub(crate) fn build(allocator: &str) {
    let image = Image::of_glibc();
    image.copy(&musl_linker());
    image.reheap(&format!("enable {allocator}")).succeeded();
}
