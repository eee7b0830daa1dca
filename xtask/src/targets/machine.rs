//! A machine with an AArch64 processor: qemu, the kernel that Debian has for clouds, and a file system in memory with the
//! tests and one program that runs them.

use super::GCC;
use super::debian::Debian;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where a dynamic program's libc is here, and in the machine.
const LIBRARIES: &str = "/usr/aarch64-linux-gnu/lib";
/// Far longer than it takes.
const SECONDS_MAX: &str = "1800";

/// What goes into the machine.
pub(super) struct Machine {
    directory: PathBuf,
    kernel: PathBuf,
    archive: Archive,
    /// A line for each program that it runs.
    commands: String,
    tests: usize,
}

impl Machine {
    pub(super) fn new(directory: &Path, debian: &Debian, workspace: &Workspace) -> Result<Machine> {
        let mut machine = Machine {
            directory: directory.to_owned(),
            kernel: debian.kernel()?,
            archive: Archive::default(),
            commands: String::new(),
            tests: 0,
        };
        let init = directory.join("init");
        let source = workspace.root.join("xtask/src/targets/init.c");
        super::compile(
            super::compiler_command(GCC).arg("-static").arg(source),
            &init,
        )?;
        machine.add_file(&init, "init")?;
        // Where tests expect to write.
        let scratch = workspace.target.join(super::TARGET).join("tmp");
        for directory in [
            "proc", "sys", "dev", "tmp", "usr", "lib", "tests", "programs",
        ] {
            machine.archive.directory(directory);
        }
        let ancestors: Vec<&Path> = scratch.ancestors().collect();
        for ancestor in ancestors.iter().rev().skip(1) {
            machine.archive.directory(without_root(ancestor));
        }
        for library in ["ld-linux-aarch64.so.1", "libc.so.6"] {
            machine.add_file(
                &Path::new(LIBRARIES).join(library),
                &format!("lib/{library}"),
            )?;
        }
        machine.add_file(&debian.musl(), "lib/ld-musl-aarch64.so.1")?;
        Ok(machine)
    }

    fn add_file(&mut self, file: &Path, name: &str) -> Result<()> {
        let bytes = fs::read(file).with_context(|| format!("cannot read `{}`", file.display()))?;
        self.archive.file(name, &bytes);
        Ok(())
    }

    pub(super) fn add_directory(&mut self, directory: &Path, name: &str) -> Result<()> {
        let cannot = || format!("cannot read `{}`", directory.display());
        for entry in fs::read_dir(directory).with_context(cannot)? {
            let entry = entry.with_context(cannot)?;
            let file = format!("{name}/{}", entry.file_name().to_string_lossy());
            self.add_file(&entry.path(), &file)?;
        }
        Ok(())
    }

    pub(super) fn add_test<'a>(
        &mut self,
        file: &Path,
        name: &str,
        arguments: impl Iterator<Item = &'a str>,
    ) -> Result<()> {
        self.add_file(file, &format!("tests/{name}"))?;
        let arguments: String = arguments.map(|word| format!(" {word}")).collect();
        // One at a time: an emulated processor is slow, and the tests have deadlines.
        self.commands += &format!("/tests/{name} --test-threads=1{arguments}\n");
        self.tests += 1;
        Ok(())
    }

    /// Starts it, and waits until it has run all tests and switched itself off.
    pub(super) fn run(mut self) -> Result<()> {
        self.archive.file("commands", self.commands.as_bytes());
        let file_system = self.directory.join("file-system");
        fs::write(&file_system, self.archive.finish())
            .with_context(|| format!("cannot write `{}`", file_system.display()))?;
        let output = Command::new("timeout")
            .args([SECONDS_MAX, "qemu-system-aarch64"])
            .args([
                "-machine",
                "virt",
                "-cpu",
                "max,pauth-impdef=on",
                "-smp",
                "2",
            ])
            .args(["-m", "2048", "-nographic", "-no-reboot", "-nic", "none"])
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
        eprintln!("{printed}");
        ensure!(
            output.status.success(),
            "the machine failed: {}",
            output.status
        );
        let passed = printed.matches("succeeded: /tests/").count();
        ensure!(
            passed == self.tests,
            "{passed} of {} executables with tests succeeded in the machine",
            self.tests
        );
        Ok(())
    }
}

fn without_root(path: &Path) -> &str {
    path.to_str().unwrap_or_default().trim_start_matches('/')
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
        self.entry(name, 0o040_777, &[]);
    }

    fn file(&mut self, name: &str, bytes: &[u8]) {
        self.entry(name, 0o100_755, bytes);
    }

    fn entry(&mut self, name: &str, mode: u32, bytes: &[u8]) {
        self.entries += 1;
        let name_bytes = name.len() as u32 + 1;
        let fields = [
            self.entries,
            mode,
            0, // user
            0, // group
            1, // links
            0, // time
            bytes.len() as u32,
            0,
            0,
            0,
            0, // devices
            name_bytes,
            0, // check sum
        ];
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
