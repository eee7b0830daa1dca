//! A directory in which a test builds what it identifies.

use reheap_elf::identify::{Identity, identify};
use reheap_elf::source::{ReadError, Source};
use std::cell::Cell;
use std::path::PathBuf;
use std::process::Command;

/// A program that allocates.
pub(crate) const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    char *text = malloc(argc * 100);
    snprintf(text, 100, "%s %f", argv[0], argc / 3.0);
    puts(text);
    free(text);
    return 0;
}
"#;

/// A file that counts what is read of it.
pub(crate) struct Counted {
    pub(crate) bytes: Vec<u8>,
    pub(crate) reads: Cell<usize>,
    pub(crate) bytes_read: Cell<usize>,
}

impl Counted {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            reads: Cell::new(0),
            bytes_read: Cell::new(0),
        }
    }
}

impl Source for Counted {
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        self.reads.set(self.reads.get() + 1);
        self.bytes_read.set(self.bytes_read.get() + buffer.len());
        self.bytes.read_at(offset, buffer)
    }
}

/// A directory with the files of one test.
pub(crate) struct Workshop(tempfile::TempDir);

impl Workshop {
    /// A directory, if these tools are there.
    #[track_caller]
    pub(crate) fn with(tools: &[&str]) -> Self {
        for tool in tools {
            let is_there = Command::new(tool).arg("--version").output().is_ok();
            assert!(
                is_there,
                "`{tool}` is missing; `xtask/prepare install` installs what the tests need"
            );
        }
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, contents: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), contents).unwrap();
    }

    /// Runs a command in the directory; words are separated by spaces.
    pub(crate) fn run(&self, command: &str) {
        let mut words = command.split(' ');
        let program = words.next().unwrap();
        let output = Command::new(program)
            .args(words)
            .current_dir(self.0.path())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{command}:\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    pub(crate) fn identify(&self, name: &str) -> Identity {
        identify(&self.bytes(name)).unwrap()
    }

    /// A copy without a section table, as `sstrip` and packers leave files.
    pub(crate) fn without_sections(&self, name: &str) -> Vec<u8> {
        let mut bytes = self.bytes(name);
        without_sections(&mut bytes);
        bytes
    }

    pub(crate) fn stripped(&self, name: &str) -> Identity {
        self.run(&format!("strip -o stripped {name}"));
        self.identify("stripped")
    }
}

/// Takes the section table out of the header of a 64-bit file, and overwrites the table itself.
pub(crate) fn without_sections(bytes: &mut [u8]) {
    let place = u64::from_le_bytes(bytes[40..48].try_into().unwrap()) as usize;
    bytes[place..].fill(0);
    bytes[40..48].fill(0); // e_shoff
    bytes[60..64].fill(0); // e_shnum, e_shstrndx
}
