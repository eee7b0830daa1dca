//! Debian's packages for AArch64, unpacked in a directory: nothing of this system changes, and apt gets lists of its own.

use anyhow::{Context as _, Result};
use std::path::PathBuf;
use std::process::Command;
use xtask::command::stdout_of;
use xtask::files;

/// Depends on the newest kernel, which has its number in its name.
const KERNEL: &str = "linux-image-cloud-arm64";
const MUSL: [&str; 2] = ["musl", "musl-dev"];

/// Packages that are there.
pub(crate) struct Debian {
    directory: PathBuf,
}

impl Debian {
    /// Gets a kernel and a musl, unless they are there.
    pub(crate) fn get(directory: PathBuf) -> Result<Debian> {
        let debian = Debian { directory };
        if debian.kernel().is_ok() && debian.musl().exists() {
            return Ok(debian);
        }
        let lists = debian.directory.join("lists/partial");
        files::make_directory(&lists)?;
        stdout_of(debian.apt("apt-get").args(["--quiet", "update"]))?;
        let shown = stdout_of(debian.apt("apt-cache").args(["show", KERNEL]))?;
        let kernel = dependency(&shown)
            .with_context(|| format!("cannot get a kernel: apt knows no `{KERNEL}` for arm64"))?;
        let download = ["--quiet", "download", kernel];
        stdout_of(debian.apt("apt-get").args(download).args(MUSL))?;
        for file in files::entries(&debian.directory)? {
            if file.extension().is_some_and(|end| end == "deb") {
                let mut unpack = Command::new("dpkg-deb");
                stdout_of(unpack.arg("-x").arg(file).arg(&debian.directory))?;
            }
        }
        Ok(debian)
    }

    fn apt(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let shown = self.directory.display();
        for option in [
            "APT::Architecture=arm64".to_owned(),
            "APT::Architectures=arm64".to_owned(),
            "APT::Sandbox::User=root".to_owned(),
            format!("Dir::State::lists={shown}/lists"),
            format!("Dir::Cache={shown}"),
        ] {
            command.args(["-o", &option]);
        }
        command.current_dir(&self.directory);
        command
    }

    /// The kernel's file.
    pub(super) fn kernel(&self) -> Result<PathBuf> {
        let boot = self.directory.join("boot");
        let is_kernel = |file: &PathBuf| {
            let name = file.file_name().unwrap_or_default();
            name.to_string_lossy().starts_with("vmlinuz")
        };
        let kernel = files::entries(&boot)?.into_iter().find(is_kernel);
        kernel.with_context(|| format!("there is no kernel in `{}`", boot.display()))
    }

    /// musl's library, which is its dynamic linker as well.
    pub(super) fn musl(&self) -> PathBuf {
        self.directory.join("lib/aarch64-linux-musl/libc.so")
    }

    /// Flags with which GCC for glibc makes a dynamic program of musl, in front of the source and behind it.
    pub(crate) fn musl_flags(&self) -> (Vec<String>, [String; 3]) {
        let path = |path: &str| self.directory.join(path).display().to_string();
        let before = [
            "-fPIE",
            "-pie",
            // Its helpers for atomic operations ask glibc for the processor's abilities.
            "-mno-outline-atomics",
            "-nostdlib",
            "-nostdinc",
            "-Wl,--dynamic-linker=/lib/ld-musl-aarch64.so.1",
            "-isystem",
        ];
        let mut before = before.map(str::to_owned).to_vec();
        before.push(path("usr/include/aarch64-linux-musl"));
        before.push(path("usr/lib/aarch64-linux-musl/Scrt1.o"));
        let directory = format!("-L{}", path("lib/aarch64-linux-musl"));
        // By this name, without a directory, musl knows itself.
        let behind = [directory, "-l:libc.so".to_owned(), "-lgcc".to_owned()];
        (before, behind)
    }
}

/// The first package that another depends on, by what apt-cache shows.
fn dependency(shown: &str) -> Option<&str> {
    let line = shown
        .lines()
        .find_map(|line| line.strip_prefix("Depends: "))?;
    line.split([' ', ',']).next()
}
