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
/// What each of them does before it goes, and after it came.
const SCRIPTS: [(&str, &str); 2] = [
    ("preremove", include_str!("preremove.sh")),
    ("postinstall", include_str!("postinstall.sh")),
];
/// The most that an archive may have.
const ARCHIVE_BYTES_MAX: u64 = 15_000_000;

/// What reheap says of itself where there is room for a line.
pub(super) const SUMMARY: &str = "Gives any Linux program a better memory allocator";
/// Its home.
pub(super) const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");

/// `reheap-<version>-<processor>-linux.tar.gz`, with one directory in it.
pub(super) fn tarball(dist: &Dist<'_>, architecture: Architecture, tree: &Path) -> Result<()> {
    let name = tree_name(&dist.version, architecture);
    pack(dist, tree, &name, &format!("{name}.tar.gz"))
}

/// The name of the directory in an archive, and of the archive without its suffix.
fn tree_name(version: &str, architecture: Architecture) -> String {
    format!("reheap-{version}-{architecture}-linux")
}

/// An archive of the files of a directory, which are in a directory of this name in it.
pub(super) fn pack(dist: &Dist<'_>, contents: &Path, directory: &str, archive: &str) -> Result<()> {
    let file = dist.output.join(archive);
    let is_downloaded = dist.extent != Extent::Short(Programs::OfTests);
    let gzip = if is_downloaded { "gzip -9" } else { "gzip -1" };
    let mut tar = dist.command("tar");
    tar.args(["--create", "--sort=name", "--format=gnu"])
        .args(["--owner=0", "--group=0", "--numeric-owner"])
        .arg(format!("--mtime=@{}", dist.epoch))
        .arg(format!("--transform=s,^\\.,{directory},"))
        .arg(format!("--use-compress-program={gzip} --no-name"))
        .arg("--file")
        .arg(&file)
        .arg("--directory")
        .arg(contents)
        .arg(".");
    dist.progress.quietly(archive, &mut tar)?;
    let size = file.metadata()?.len();
    ensure!(
        size <= ARCHIVE_BYTES_MAX || !is_downloaded,
        "`{}` has {size} bytes, and {ARCHIVE_BYTES_MAX} is the most",
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
    let mut description = DESCRIPTION.to_owned();
    for (name, text) in SCRIPTS {
        let script = dist.scratch.join(name);
        files::write(&script, text)?;
        tree::set_attributes(&script, dist.time()?)?; // an .apk keeps its time
        let place = format!("@{}@", name.to_uppercase());
        description = description.replace(&place, &script.display().to_string());
    }
    let description = description
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
    let page = files::read(dist.workspace.root.join("crates/reheap/README.md"))?;
    files::write(
        information.join("METADATA"),
        format!(
            "Metadata-Version: 2.1\nName: reheap\nVersion: {version}\nSummary: {SUMMARY}\n\
             Home-page: {REPOSITORY}\nLicense: MIT OR Apache-2.0\nRequires-Python: >=3.7\n\
             Description-Content-Type: text/markdown\n\n{page}"
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::programs::PROGRAMS;
    use xtask::workspace::Workspace;

    /// `cargo binstall` has only what the package says of the archives of releases.
    #[test]
    fn cargo_binstall_looks_for_the_archives_that_are_made() {
        let packages = Workspace::find().unwrap().packages;
        let package = packages.iter().find(|package| package.name == "reheap");
        let said = &package.unwrap().metadata["binstall"];
        for architecture in Architecture::WITH_PRELOADS {
            let expand = |key: &str, bin: &str| {
                let text = said[key].as_str().unwrap().replace("{ bin }", bin);
                text.replace("{ repo }", REPOSITORY)
                    .replace("{ version }", "1.2.3")
                    .replace("{ target-arch }", architecture.name())
            };
            let name = tree_name("1.2.3", architecture);
            let address = format!("{REPOSITORY}/releases/download/v1.2.3/{name}.tar.gz");
            assert_eq!(expand("pkg-url", ""), address);
            for program in PROGRAMS {
                assert_eq!(expand("bin-dir", program), format!("{name}/bin/{program}"));
            }
        }
    }
}
