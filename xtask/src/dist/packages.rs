//! The tree as an archive, as packages of Linux distributions, and as a wheel for Python.

use super::{Dist, Extent, Programs, tree};
use anyhow::{Result, bail, ensure};
use reheap_allocators::target::Architecture;
use std::fs;
use std::path::Path;
use xtask::command::stdout_of;
use xtask::files;

/// What nfpm makes of one description.
const SYSTEM_PACKAGES: [&str; 3] = ["deb", "rpm", "apk"];
const DESCRIPTION: &str = include_str!("nfpm.yaml");
/// What each of them does before it goes.
const PREREMOVE: &str = include_str!("preremove.sh");
/// The most that an archive may have.
const TARBALL_BYTES_MAX: u64 = 15_000_000;

/// `reheap-<version>-<processor>-linux.tar.gz`, with one directory in it.
pub(super) fn tarball(dist: &Dist<'_>, architecture: Architecture, tree: &Path) -> Result<()> {
    let name = format!("reheap-{}-{architecture}-linux", dist.version);
    let file = dist.output.join(format!("{name}.tar.gz"));
    let is_downloaded = dist.extent != Extent::Short(Programs::OfTests);
    let gzip = if is_downloaded { "gzip -9" } else { "gzip -1" };
    let mut tar = dist.command("tar");
    tar.args(["--create", "--sort=name", "--format=gnu"])
        .args(["--owner=0", "--group=0", "--numeric-owner"])
        .arg(format!("--mtime=@{}", dist.epoch))
        .arg(format!("--transform=s,^\\.,{name},"))
        .arg(format!("--use-compress-program={gzip} --no-name"))
        .arg("--file")
        .arg(&file)
        .arg("--directory")
        .arg(tree)
        .arg(".");
    dist.progress.quietly(&format!("{name}.tar.gz"), &mut tar)?;
    let size = file.metadata()?.len();
    ensure!(
        size <= TARBALL_BYTES_MAX || !is_downloaded,
        "`{}` has {size} bytes, and {TARBALL_BYTES_MAX} is the most",
        file.display()
    );
    Ok(())
}

/// Packages for Debian, Fedora and Alpine.
pub(super) fn system_packages(
    dist: &Dist<'_>,
    architecture: Architecture,
    tree: &Path,
) -> Result<()> {
    let go_name = match architecture {
        Architecture::X86_64 => "amd64",
        Architecture::Aarch64 => "arm64",
        other => bail!("there are no packages for {other}: reheap does not run on it"),
    };
    let preremove = dist.scratch.join("preremove.sh");
    files::write(&preremove, PREREMOVE)?;
    tree::set_attributes(&preremove, dist.time()?)?; // an .apk keeps its time
    let description = DESCRIPTION
        .replace("@PREREMOVE@", &preremove.display().to_string())
        .replace("@ARCHITECTURE@", go_name)
        .replace("@VERSION@", &dist.version)
        .replace("@TREE@", &tree.display().to_string());
    let path = dist.scratch.join(format!("nfpm-{architecture}.yaml"));
    files::write(&path, description)?;
    for packager in SYSTEM_PACKAGES {
        let mut nfpm = dist.command("nfpm");
        nfpm.args(["package", "--packager", packager, "--config"])
            .arg(&path)
            .arg("--target")
            .arg(&dist.output);
        dist.progress
            .quietly(&format!("{packager} for {architecture}"), &mut nfpm)?;
    }
    Ok(())
}

/// A wheel: its scripts go to the environment's `bin`, and `share` beside it. A static executable serves every libc.
pub(super) fn wheel(dist: &Dist<'_>, architecture: Architecture, tree: &Path) -> Result<()> {
    let version = &dist.version;
    let contents = dist.scratch.join("wheel").join(architecture.name());
    files::make_empty(&contents)?;
    let data = contents.join(format!("reheap-{version}.data"));
    fs::create_dir_all(&data)?;
    for (from, to) in [("bin", "scripts"), ("share", "data/share")] {
        let place = data.join(to);
        fs::create_dir_all(place.parent().unwrap_or(&data))?;
        let mut copy = dist.command("cp");
        copy.args(["-r", "--preserve=mode"]).arg(tree.join(from));
        stdout_of(copy.arg(&place))?;
    }
    let information = contents.join(format!("reheap-{version}.dist-info"));
    files::write(
        information.join("METADATA"),
        format!(
            "Metadata-Version: 2.1\nName: reheap\nVersion: {version}\nSummary: {}\nLicense: {}\nRequires-Python: >=3.7\n",
            "Gives any Linux program a better memory allocator", "MIT OR Apache-2.0"
        ),
    )?;
    let tags = ["manylinux2014", "musllinux_1_1"]
        .map(|system| format!("Tag: py3-none-{system}_{architecture}\n"))
        .concat();
    files::write(
        information.join("WHEEL"),
        format!("Wheel-Version: 1.0\nGenerator: reheap\nRoot-Is-Purelib: false\n{tags}"),
    )?;
    tree::set_attributes(&contents, dist.time()?)?;
    let mut pack = dist.command("python3");
    pack.args(["-m", "wheel", "pack", "--dest-dir"])
        .arg(&dist.output)
        .arg(&contents);
    dist.progress
        .quietly(&format!("wheel for {architecture}"), &mut pack)
}
