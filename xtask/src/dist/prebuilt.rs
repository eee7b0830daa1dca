//! The allocators, built once for every machine: by Zig, for the oldest glibc and musl that are in use.

use super::{Dist, Extent};
use anyhow::{Context as _, Result};
use reheap_allocators::cache::Cache;
use reheap_allocators::checker::CHECKER;
use reheap_allocators::compiler::{self, Language, Search};
use reheap_allocators::own_library::{self, OwnLibrary};
use reheap_allocators::portable::{self, NotPortable};
use reheap_allocators::prebuilt::{self, File, Kind, LeftOut, Own, Produced, Selection};
use reheap_allocators::program;
use reheap_allocators::target::{Architecture, Libc, Target};
use reheap_allocators::upstream::Toolchain;
use std::fs;
use std::path::{Path, PathBuf};
use xtask::files;

/// Those that the hooks are written for.
const HOOKS_ARE_FOR: &[Architecture] = &[Architecture::X86_64, Architecture::Aarch64];

/// A directory of prebuilt files for each processor, by its name.
pub(super) fn make(dist: &Dist<'_>, architectures: &[Architecture]) -> Result<PathBuf> {
    let all = dist.scratch.join("prebuilt");
    // Nothing that a user's compiler made may get in, so this cache is not the user's.
    let cache = Cache::at(dist.kept.join("cache"));
    for &architecture in architectures {
        let directory = all.join(architecture.name());
        files::make_empty(&directory)?;
        let mut produced = Produced::default();
        for libc in [Libc::Glibc, Libc::Musl] {
            let target = Target::new(architecture, libc);
            dist.progress.say(format!("allocators for {target}"));
            let selection = dist.extent.selection();
            produced.extend(make_for(&target, &cache, &directory, selection)?);
        }
        // The short form leaves most out, and whoever installs it misses what it should have.
        if dist.extent == Extent::Whole {
            for LeftOut { path, reason } in &produced.left_out {
                dist.progress.say(format!("left out: {path}: {reason}"));
            }
        }
        prebuilt::write(&directory, produced)?;
    }
    Ok(all)
}

fn make_for(
    target: &Target,
    cache: &Cache,
    directory: &Path,
    selection: Selection,
) -> Result<Produced> {
    let hooks = own_library::hooks(
        reheap_profile::hooks::SOURCE,
        reheap_profile::hooks::EXPORTS,
    );
    let libraries: &[OwnLibrary] = if HOOKS_ARE_FOR.contains(&target.arch()) {
        &[hooks]
    } else {
        &[]
    };
    let replayer = program::replayer(
        reheap_trace::replay::SOURCE,
        &reheap_trace::replay::COMPILER_FLAGS,
    );
    let own = Own {
        libraries,
        programs: &[replayer, CHECKER],
    };
    let toolchain = toolchain(target)?;
    let mut produced = prebuilt::produce(target, &toolchain, cache, directory, selection, &own)
        .with_context(|| format!("cannot build what is for {target}"))?;
    let mut files = Vec::new();
    for file in produced.files {
        let path = directory.join(&file.path);
        let bytes = files::read_bytes(&path)?;
        match runs_everywhere(&bytes, &file, target) {
            Ok(()) => files.push(file),
            Err(reason) => {
                fs::remove_file(&path)?;
                produced.left_out.push(LeftOut {
                    path: file.path,
                    reason: reason.to_string(),
                });
            }
        }
    }
    produced.files = files;
    Ok(produced)
}

fn toolchain(target: &Target) -> Result<Toolchain> {
    let search = Search::new(std::env::vars_os());
    Ok(Toolchain {
        cargo: std::env::var_os("CARGO").map_or_else(|| "cargo".into(), PathBuf::from),
        cc: compiler::find_zig(target, Language::C, &search)?,
        cxx: Ok(compiler::find_zig(target, Language::Cxx, &search)?),
        environment: std::env::vars_os().collect(),
    })
}

/// A library or a program must run with every libc that it is for.
fn runs_everywhere(bytes: &[u8], file: &File, target: &Target) -> Result<(), NotPortable> {
    match file.kind {
        Kind::Preload | Kind::Graft | Kind::Own | Kind::Program => portable::check(bytes, target),
        Kind::Static | Kind::MemoryFunctions => Ok(()),
    }
}
