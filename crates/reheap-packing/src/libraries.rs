//! The libraries that a dynamic program needs in an image.
//!
//! They keep their paths. But an image has no `ld.so.cache` and no `ld-musl-….path`, so what was only found through
//! these, or through `LD_LIBRARY_PATH` or beside the program, also gets a link in a directory that the dynamic linker
//! always searches. What is in root's home is the other way round, because only root may enter that: the file is in the
//! directory that is always searched, and the link is in the home.

use anyhow::Context as _;
use reheap_allocators::target::Libc;
use reheap_command::ui::Failure;
use reheap_elf::identify::{Identity, LibcName};
use reheap_image::layer::Entry;
use reheap_subject::program::{self, libraries::Libraries};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What glibc loads without saying so in any file: names of hosts and users before 2.34, and the end of a thread.
const LOADED_LATER: [&str; 3] = ["libnss_dns.so.2", "libnss_files.so.2", "libgcc_s.so.1"];
/// The superuser's home in images from scratch, and in all others that anybody knows.
const HOME_OF_ROOT: &str = "/root";
/// Where musl looks if no file says otherwise.
const ALWAYS_SEARCHED_BY_MUSL: &str = "/lib";

/// What a program needs beside itself, by its path in the image.
pub(super) fn of(file: &Path, identity: &Identity) -> anyhow::Result<BTreeMap<PathBuf, Entry>> {
    let shown = file.display();
    let refuse = |reason: String| Failure::failed(format!("cannot pack `{shown}`: {reason}"));
    let libc = match identity.libc.name {
        LibcName::Glibc => Libc::Glibc,
        LibcName::Musl => Libc::Musl,
        other => return Err(refuse(format!("its libraries are of another libc, {other}")).into()),
    };
    if identity.architecture != std::env::consts::ARCH {
        let reason = format!(
            "its libraries are for {}, and this machine has others",
            identity.architecture
        );
        return Err(refuse(reason).into());
    }
    let interpreter = identity.interpreter.as_deref().unwrap_or_default();
    let known = program::libraries_of_this_system();
    let real = fs::canonicalize(file).with_context(|| format!("cannot read `{shown}`"))?;
    let found = known.closure(&real, libc);
    if !found.missing.is_empty() {
        let reason = format!("this machine does not have {}", found.missing.join(", "));
        return Err(refuse(reason).into());
    }
    let mut paths: Vec<PathBuf> = found.loaded.into_iter().skip(1).map(|l| l.path).collect();
    let searched = match libc {
        Libc::Musl => PathBuf::from(ALWAYS_SEARCHED_BY_MUSL),
        Libc::Glibc => {
            let searched =
                directory_of_libc(&paths).with_context(|| format!("`{shown}` has no libc"))?;
            paths.extend(loaded_later(&known, &searched));
            searched
        }
    };
    let mut entries = BTreeMap::from([copy(Path::new(interpreter))?]);
    for path in paths {
        let (path, entry) = copy(&path)?;
        let name = path.file_name().context("a library has a name")?;
        let always_found = searched.join(name);
        if path.starts_with(HOME_OF_ROOT) && !entries.contains_key(&always_found) {
            entries.insert(path, Entry::link(&always_found));
            entries.insert(always_found, entry);
            continue;
        }
        if path.parent() != Some(&searched) {
            let link = || Entry::link(&path);
            entries.entry(always_found).or_insert_with(link);
        }
        entries.insert(path, entry);
    }
    Ok(entries)
}

fn directory_of_libc(paths: &[PathBuf]) -> Option<PathBuf> {
    let libc = paths.iter().find(|path| path.ends_with("libc.so.6"))?;
    Some(libc.parent()?.to_owned())
}

fn loaded_later(known: &Libraries<'_>, directory: &Path) -> Vec<PathBuf> {
    let there = LOADED_LATER.iter().map(|name| directory.join(name));
    let there = there.filter(|path| path.is_file());
    let with_theirs = there.flat_map(|path| known.closure(&path, Libc::Glibc).loaded);
    with_theirs.map(|loaded| loaded.path).collect()
}

/// A file and where it is in the image: where it was asked for, unless the way there leads back.
fn copy(path: &Path) -> anyhow::Result<(PathBuf, Entry)> {
    let cannot = || format!("cannot read `{}`", path.display());
    let real = fs::canonicalize(path).with_context(cannot)?;
    let leads_back = path
        .components()
        .any(|part| part == std::path::Component::ParentDir);
    let place = if leads_back {
        real.clone()
    } else {
        path.to_owned()
    };
    // A link is not enough, because what it leads to may be behind other links.
    Ok((place, Entry::program(&real)))
}
