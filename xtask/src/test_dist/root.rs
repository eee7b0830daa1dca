//! Systems to install into: Debian's smallest, and one with musl and busybox.

use super::TestDist;
use super::outcome::{self, Outcome};
use anyhow::{Context as _, Result};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::files;

/// Prints the memory that it has mapped. busybox cannot: Debian has it only as a static executable.
pub(super) const SHOW_MAPS: &str = r#"
#include <stdio.h>
int main(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    for (int c; maps && (c = getc(maps)) != EOF;) putchar(c);
    return maps ? 0 : 1;
}
"#;
/// As in Alpine.
const PROFILE: &str =
    "for script in /etc/profile.d/*.sh; do [ ! -r \"$script\" ] || . \"$script\"; done\n";
/// What logs and package databases keep of their own accord; and the caches of users and of root, which no package may
/// remove.
const NOT_COMPARED: [&str; 6] = [
    "./var/lib/dpkg/",
    "./var/lib/rpm",
    "./var/log/",
    "/.cache/reheap/",
    "./var/cache/reheap/",
    "./tmp/",
];
/// Without downloaded packages and lists, and what only people read.
const PACK: &str = "--create --numeric-owner --sort=name --exclude=./var/cache/apt/* \
    --exclude=./var/lib/apt/lists/* --exclude=./usr/share/doc/* --exclude=./usr/share/locale/* \
    --exclude=./proc/* --exclude=./sys/* --file";
/// Seconds; more than anything here takes, so that nothing waits for ever.
const TIME_LIMIT: &str = "900";

/// A directory that a program can take for its whole system.
pub(super) struct Root {
    directory: PathBuf,
}

impl Root {
    /// Debian, with nothing but what dpkg needs.
    pub(super) fn debian(test: &TestDist<'_>, suite: &str) -> Result<Root> {
        let archive = debian_archive(test, suite)?;
        let directory = test.new_directory(suite)?;
        let mut tar = Command::new("tar");
        tar.args(["--extract", "--numeric-owner", "--file"])
            .arg(&archive)
            .arg("--directory")
            .arg(&directory);
        outcome::succeed(&mut tar)?;
        Ok(Root { directory })
    }

    /// busybox, this machine's `sh` and `cat`, and the libraries that they, the programs of the tests and the libraries for
    /// old systems need.
    pub(super) fn glibc(test: &TestDist<'_>) -> Result<Root> {
        let root = Root::bare(test, "glibc")?;
        let programs = ["/bin/sh", "/bin/cat"];
        for program in programs {
            // busybox has put links to itself there.
            fs::remove_file(root.path(program))?;
            files::copy(Path::new(program), &root.path(program))?;
        }
        let mut ldd = Command::new("ldd");
        ldd.args(programs)
            .arg(test.workspace.target.join("debug/reheap"));
        let listed = outcome::succeed(&mut ldd)?.stdout;
        // `libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f0e5c000000)`
        let words = listed.split_whitespace();
        for library in words.filter(|word| word.starts_with("/lib") && !word.ends_with(':')) {
            files::copy(Path::new(library), &root.path(library))?;
        }
        let libraries = format!("/lib/{}-linux-gnu", std::env::consts::ARCH);
        for name in ["libpthread.so.0", "libdl.so.2"] {
            let library = format!("{libraries}/{name}");
            files::copy(Path::new(&library), &root.path(&library))?;
        }
        Ok(root)
    }

    /// What Alpine has at its core: musl, busybox, no glibc, and `show-maps` for want of a dynamic program.
    pub(super) fn musl(test: &TestDist<'_>) -> Result<Root> {
        let root = Root::bare(test, "musl")?;
        let architecture = std::env::consts::ARCH;
        files::copy(
            Path::new(&format!("/usr/lib/{architecture}-linux-musl/libc.so")),
            &root.path(&format!("lib/ld-musl-{architecture}.so.1")),
        )?;
        fs::create_dir(root.path("etc/profile.d"))?;
        files::write(root.path("etc/profile"), PROFILE)?;
        let source = test.scratch.path().join("show-maps.c");
        files::write(&source, SHOW_MAPS)?;
        let mut compiler = Command::new("musl-gcc");
        compiler
            .arg(&source)
            .arg("-o")
            .arg(root.path("bin/show-maps"));
        outcome::succeed(&mut compiler)?;
        Ok(root)
    }

    /// busybox and nothing else, so no libc.
    fn bare(test: &TestDist<'_>, name: &str) -> Result<Root> {
        let root = Root {
            directory: test.new_directory(name)?,
        };
        for name in ["bin", "lib", "usr/bin", "proc", "dev", "tmp", "etc"] {
            fs::create_dir_all(root.path(name))?;
        }
        fs::set_permissions(&root.directory, fs::Permissions::from_mode(0o755))?;
        fs::set_permissions(root.path("tmp"), fs::Permissions::from_mode(0o1777))?;
        root.add_busybox()?;
        let mut applets = Command::new("chroot");
        applets
            .arg(&root.directory)
            .args(["/bin/busybox", "--install", "-s", "/bin"]);
        outcome::succeed(&mut applets)?;
        let mut node = Command::new("mknod");
        node.args(["--mode=666"])
            .arg(root.path("dev/null"))
            .args(["c", "1", "3"]);
        outcome::succeed(&mut node)?;
        Ok(root)
    }

    /// A static busybox as `/bin/busybox`.
    pub(super) fn add_busybox(&self) -> Result<()> {
        let found = ["/bin/busybox", "/usr/bin/busybox"]
            .map(Path::new)
            .into_iter()
            .find(|path| path.exists());
        let busybox = found.context("there is no busybox\n\nhint: xtask/prepare test-dist")?;
        files::copy(busybox, &self.path("bin/busybox"))
    }

    pub(super) fn path(&self, relative: &str) -> PathBuf {
        self.directory.join(relative.trim_start_matches('/'))
    }

    /// A command in this root, with processes, mounts and a network of its own, so without a network.
    fn command(&self, words: &[&str]) -> Command {
        self.entered(&["--net"], words)
    }

    fn entered(&self, more: &[&str], words: &[&str]) -> Command {
        let mut command = Command::new("timeout");
        command
            .args(["--kill-after=5", TIME_LIMIT])
            .args(["unshare", "--mount", "--pid", "--fork", "--kill-child"])
            .args(["--mount-proc", "--wd=/"])
            .args(more)
            .arg(format!("--root={}", self.directory.display()))
            .args(["env", "-i", "HOME=/root", "LC_ALL=C.UTF-8"])
            .arg("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .args(words);
        command
    }

    /// Runs a command in this root, without a network.
    pub(super) fn run(&self, words: &[&str]) -> Result<Outcome> {
        outcome::of(&mut self.command(words))
    }

    /// Runs a command in this root that must succeed.
    pub(super) fn succeed(&self, words: &[&str]) -> Result<Outcome> {
        self.run(words)?.succeeded()
    }

    /// Runs a command in this root without a network, as a user without rights whose home is `/tmp`.
    pub(super) fn run_as_nobody(&self, words: &[&str]) -> Result<Outcome> {
        let words = [&["env", "HOME=/tmp"], words].concat();
        let nobody = ["--net", "--setuid=65534", "--setgid=65534"];
        outcome::of(&mut self.entered(&nobody, &words))
    }

    /// Runs a command in this root, which reaches servers on this machine.
    pub(super) fn run_with_network(&self, words: &[&str]) -> Result<Outcome> {
        outcome::of(&mut self.entered(&[], words))
    }

    /// Copies a file to this place.
    pub(super) fn add(&self, file: &Path, place: &str) -> Result<()> {
        files::copy(file, &self.path(place))
    }

    /// All files, to be compared with those at another time.
    pub(super) fn files(&self) -> Result<BTreeSet<String>> {
        let mut find = Command::new("find");
        find.args([".", "-xdev", "-not", "-type", "d"])
            .current_dir(&self.directory);
        let found = outcome::succeed(&mut find)?;
        let kept = found
            .stdout
            .lines()
            .filter(|file| !NOT_COMPARED.iter().any(|part| file.contains(part)));
        Ok(kept.map(str::to_owned).collect())
    }

    /// As an archive, for an image.
    pub(super) fn archive(&self, file: &Path) -> Result<()> {
        pack(&self.directory, file)
    }
}

/// The archive of a Debian, which debootstrap makes the first time.
fn debian_archive(test: &TestDist<'_>, suite: &str) -> Result<PathBuf> {
    let archive = test.cache.join(format!("{suite}.tar"));
    if !archive.exists() {
        let directory = test.new_directory(suite)?;
        let mut debootstrap = Command::new("debootstrap");
        debootstrap
            .args(["--variant=minbase", suite])
            .arg(&directory);
        test.progress
            .quietly(&format!("  debootstrap {suite}"), &mut debootstrap)?;
        let finished = test.scratch.path().join("finished.tar");
        pack(&directory, &finished)?;
        fs::rename(&finished, &archive)
            .with_context(|| format!("cannot write `{}`", archive.display()))?;
        fs::remove_dir_all(&directory)?;
    }
    Ok(archive)
}

fn pack(directory: &Path, file: &Path) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.args(PACK.split(' '))
        .arg(file)
        .arg("--directory")
        .arg(directory)
        .arg(".");
    outcome::succeed(&mut tar)?;
    Ok(())
}
