//! A machine with an AArch64 processor: qemu, the kernel that Debian has for clouds, and a file system in memory with
//! programs and one that runs them.

use super::GCC;
use super::debian::Debian;
use anyhow::{Context as _, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use xtask::files;
use xtask::workspace::Workspace;

/// Where a dynamic program's libc is here, and in the machine.
const LIBRARIES: &str = "/usr/aarch64-linux-gnu/lib";
/// All of glibc that programs and preloads need; those built for old versions name libraries that are empty today.
const GLIBC: [&str; 4] = [
    "ld-linux-aarch64.so.1",
    "libc.so.6",
    "libpthread.so.0",
    "libdl.so.2",
];
const QEMU: &str =
    "-machine virt -cpu max,pauth-impdef=on -smp 2 -m 2048 -nographic -no-reboot -nic none";
/// Far longer than it takes.
const SECONDS_MAX: &str = "1800";

/// What goes into the machine.
pub(crate) struct Machine {
    directory: PathBuf,
    kernel: PathBuf,
    archive: Archive,
    /// A line for each program that it runs.
    commands: Vec<String>,
}

impl Machine {
    /// One with glibc and musl. It keeps what it needs in `directory`.
    pub(crate) fn new(directory: &Path, debian: &Debian, workspace: &Workspace) -> Result<Machine> {
        let mut machine = Machine {
            directory: directory.to_owned(),
            kernel: debian.kernel()?,
            archive: Archive::default(),
            commands: Vec::new(),
        };
        let init = directory.join("init");
        let source = workspace.root.join("xtask/src/targets/init.c");
        super::compile(
            super::compiler_command(GCC).arg("-static").arg(source),
            &init,
        )?;
        machine.add_file(&init, "init")?;
        for directory in ["proc", "sys", "dev", "tmp", "usr", "lib"] {
            machine.archive.directory(directory);
        }
        for library in GLIBC {
            machine.add_file(
                &Path::new(LIBRARIES).join(library),
                &format!("lib/{library}"),
            )?;
        }
        machine.add_file(&debian.musl(), "lib/ld-musl-aarch64.so.1")?;
        Ok(machine)
    }

    fn add_file(&mut self, file: &Path, name: &str) -> Result<()> {
        let bytes = files::read_bytes(file)?;
        self.archive.file(name, &bytes);
        Ok(())
    }

    /// An empty directory, and those that it is in.
    pub(crate) fn make_directory(&mut self, path: &Path) {
        let ancestors: Vec<&Path> = path.ancestors().collect();
        for ancestor in ancestors.iter().rev() {
            let name = ancestor.to_str().unwrap_or_default().trim_matches('/');
            if !name.is_empty() {
                self.archive.directory(name);
            }
        }
    }

    /// A copy of a directory, with all that is in it.
    pub(crate) fn add_directory(&mut self, directory: &Path, name: &str) -> Result<()> {
        self.make_directory(Path::new(name));
        for path in files::entries(directory)? {
            let last = path.file_name().unwrap_or_default().to_string_lossy();
            let name = format!("{name}/{last}");
            if path.is_dir() {
                self.add_directory(&path, &name)?;
            } else {
                self.add_file(&path, &name)?;
            }
        }
        Ok(())
    }

    pub(super) fn add_test<'a>(
        &mut self,
        file: &Path,
        name: &str,
        arguments: impl Iterator<Item = &'a str>,
    ) -> Result<()> {
        self.make_directory(Path::new("tests"));
        self.add_file(file, &format!("tests/{name}"))?;
        let arguments: String = arguments.map(|word| format!(" {word}")).collect();
        // One at a time: an emulated processor is slow, and the tests have deadlines.
        self.add_command(format!("/tests/{name} --test-threads=1{arguments}"));
        Ok(())
    }

    /// A command, with blanks between its words.
    pub(crate) fn add_command(&mut self, command: impl Into<String>) {
        self.commands.push(command.into());
    }

    /// Starts it, and waits until it has run all commands and switched itself off. It returns what they printed; each must
    /// have succeeded.
    pub(crate) fn run(mut self) -> Result<String> {
        let commands = self.commands.join("\n") + "\n";
        self.archive.file("commands", commands.as_bytes());
        let file_system = self.directory.join("file-system");
        files::write(&file_system, self.archive.finish())?;
        let output = Command::new("timeout")
            .args([SECONDS_MAX, "qemu-system-aarch64"])
            .args(QEMU.split(' '))
            .arg("-kernel")
            .arg(&self.kernel)
            .arg("-initrd")
            .arg(&file_system)
            .args(["-append", "console=ttyAMA0 quiet panic=-1"])
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .context("cannot start qemu-system-aarch64: apt-get install qemu-system-arm")?;
        let printed = String::from_utf8_lossy(&output.stdout);
        ensure!(
            output.status.success(),
            "the machine failed: {}\n{printed}",
            output.status
        );
        let succeeded = printed.matches("succeeded: /").count();
        let expected = self.commands.len();
        ensure!(
            succeeded == expected,
            "{succeeded} of {expected} commands succeeded in the machine:\n{printed}"
        );
        Ok(printed.into_owned())
    }
}

/// A file system for the kernel to begin with: the format "newc" of cpio (Documentation/driver-api/early-userspace/
/// buffer-format.rst in the kernel).
#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    fn directory(&mut self, name: &str) {
        self.entry(name, 0o040_755, &[]);
    }

    fn file(&mut self, name: &str, bytes: &[u8]) {
        self.entry(name, 0o100_755, bytes);
    }

    fn entry(&mut self, name: &str, mode: u32, bytes: &[u8]) {
        self.entries += 1;
        let (number, size) = (self.entries, bytes.len() as u32);
        let name_size = name.len() as u32 + 1;
        // Between them: user, group, links, time; four numbers of devices; at the end a check sum.
        let fields = [number, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name_size, 0];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08x}").bytes());
        }
        self.bytes.extend(name.bytes());
        self.bytes.push(0);
        self.fill();
        self.bytes.extend(bytes);
        self.fill();
    }

    fn fill(&mut self) {
        let filled = self.bytes.len().next_multiple_of(4);
        self.bytes.resize(filled, 0);
    }

    fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }
}
