//! Finds other preloads that do not work together with an allocator.
//!
//! A preload that replaces other functions works beside an allocator, in either order (`tests/it/other_preloads.rs`). One
//! that replaces malloc does not. Behind the allocator, a sanitizer ends the program, and a memory debugger or a
//! profiler silently sees nothing. Another allocator gets only the calls to functions that the first one lacks.

use crate::open_file::OpenFile;
use crate::program::Obstacle;
use reheap_allocators::preload::glibc_library_directories;
use reheap_allocators::tuning::Variable;
use reheap_command::env_vars;
use reheap_elf::identify::identify;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The first library in `LD_PRELOAD` that has a malloc of its own, unless it is one of reheap's. Those are alike: the
/// last one requested comes first and serves everything.
pub fn obstacle() -> Option<Obstacle> {
    first(has_a_malloc)
}

/// The first library in `LD_PRELOAD` that has a malloc of its own, also if it is one of reheap's: where a command is to
/// run with the malloc of its libc too.
pub fn obstacle_to_stock() -> Option<Obstacle> {
    first(exports_a_malloc)
}

fn first(is_obstacle: fn(&OpenFile) -> bool) -> Option<Obstacle> {
    let list = env_vars::variable(env_vars::LD_PRELOAD)?;
    // Blanks and colons separate (ld.so(8)).
    list.as_bytes()
        .split(|byte| byte.is_ascii_whitespace() || *byte == b':')
        .map(|name| Path::new(OsStr::from_bytes(name)))
        .find(|name| find(name).is_some_and(|file| is(&file, is_obstacle)))
        .map(|name| Obstacle::OtherPreload {
            list: env_vars::LD_PRELOAD,
            library: name.display().to_string(),
        })
}

/// A variable that the dynamic linker needs if `LD_AUDIT` names libraries.
///
/// glibc then lays out thread-local storage before it has seen the preloads, and theirs must fit into what it reserves
/// for late libraries: 512 bytes besides its own. jemalloc has 2 KiB.
pub fn room_beside_audit_libraries() -> Option<(OsString, OsString)> {
    const TUNABLE: &str = "glibc.rtld.optional_static_tls"; // glibc 2.32 and later
    const BYTES: usize = 8192;
    env_vars::variable("LD_AUDIT")?;
    let name = Variable::GlibcTunables.name();
    let present = env_vars::variable(name);
    if present
        .as_ref()
        .is_some_and(|present| present.to_string_lossy().contains(TUNABLE))
    {
        return None; // the user knows better
    }
    let setting = format!("{TUNABLE}={BYTES}");
    let value = Variable::GlibcTunables.merged(present.as_deref(), &setting);
    Some((name.into(), value))
}

/// Whether a library is what `what` says. If reheap cannot read the file, the dynamic linker does not preload it either.
fn is(file: &Path, what: fn(&OpenFile) -> bool) -> bool {
    let file = File::open(file).and_then(OpenFile::new).ok();
    file.is_some_and(|file| what(&file))
}

/// Whether a library has a malloc of its own that is not one of reheap's.
pub fn has_a_malloc(library: &OpenFile) -> bool {
    exports_a_malloc(library) && identify(library).is_ok_and(|identity| identity.marker.is_none())
}

fn exports_a_malloc(library: &OpenFile) -> bool {
    let identity = identify(library);
    identity.is_ok_and(|identity| identity.exports.iter().any(|name| name == "malloc"))
}

/// Where the dynamic linker finds it, except for what only its cache knows.
fn find(name: &Path) -> Option<PathBuf> {
    if name.as_os_str().as_bytes().contains(&b'/') {
        return name.is_file().then(|| name.to_owned());
    }
    let usual = ["/", "/usr", "/usr/local"].map(Path::new);
    let usual = usual.iter().flat_map(|root| {
        glibc_library_directories(std::env::consts::ARCH).map(|directory| root.join(directory))
    });
    let mut candidates = env_vars::library_path()
        .into_iter()
        .chain(usual)
        .map(|directory| directory.join(name));
    candidates.find(|file| file.is_file())
}
