//! Preloads in the cache: shared libraries with an allocator, for `LD_PRELOAD`.
//!
//! A preload consists of the same upstream objects and glue as a derived libc, compiled for a library. The shared
//! libraries of distributions would be quicker to get, but each exports something else (C++ operators,
//! `pthread_create`, no `aligned_alloc`). Alpine's `libmimalloc.so` is the secure build. None has a known version.
//!
//! Each libc needs a library of its own: glibc and musl lay out `errno`, thread-local storage and locks differently.

use crate::built::BuiltAllocator;
use crate::cache::{Cache, CacheError, hash, note_use};
use crate::catalogue::file::{AllocatorFile, FileError};
use crate::catalogue::{Allocator, Recipe};
use crate::foreign::{self, Foreign};
use crate::link_kind::LinkKind;
use crate::target::{Libc, Target};
use crate::tuning::{Tuning, presets};
use crate::upstream::{self, BuildError, Toolchain, Wrappers};
use reheap_elf::archive::Member;
use reheap_elf::derive::DeriveError;
use reheap_elf::family;
use reheap_elf::marker::{self, Marker, PRELOAD_DESCRIPTION_BYTES, RetuneError};
use reheap_elf::preload_objects::{AuditError, HEADER_BYTES};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// Flags for the compiler driver that links.
///
/// With them, calls inside the library bypass the dynamic linker, its tables are read-only once the program runs, and
/// an undefined symbol is an error now instead of in the program. Zig's own runtime library brings debug information,
/// which is four times as large as an allocator and has paths of the build machine.
pub(crate) const LINK_FLAGS: [&str; 8] = [
    "-shared",
    "-pthread",
    "-static-libgcc",
    "-Wl,--strip-debug",
    "-Wl,-Bsymbolic",
    "-Wl,-z,defs",
    "-Wl,-z,now",
    "-Wl,-z,relro",
];

/// glibc before 2.34 has dlsym there; later versions and musl have an empty library.
pub(crate) const LIBRARIES: [&str; 1] = ["-ldl"];

/// Why there is no preload.
#[derive(Debug, thiserror::Error)]
pub enum PreloadError {
    /// The allocator or the library could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The allocator's objects do not fit together.
    #[error("cannot link the preload of {allocator}")]
    Bind {
        /// The allocator.
        allocator: &'static str,
        /// What does not fit.
        source: DeriveError,
    },
    /// What was linked is not a preload.
    #[error("cannot use the library `{name}`")]
    Audit {
        /// The library's file name.
        name: String,
        /// What is wrong with it.
        source: AuditError,
    },
    /// A preload cannot have this tuning.
    #[error("cannot tune the library `{}`", .library.display())]
    Tune {
        /// The library.
        library: PathBuf,
        /// Why not.
        source: RetuneError,
    },
    /// The user's file is not usable any more.
    #[error(transparent)]
    File(#[from] FileError),
    /// The cache is not usable.
    #[error(transparent)]
    Cache(#[from] CacheError),
}

/// What a preload for glibc exports beside the family. musl has none of these. `glue/fork.c` needs the last one.
const OF_GLIBC: [&str; 17] = [
    "cfree",
    "__libc_malloc",
    "__libc_calloc",
    "__libc_realloc",
    "__libc_free",
    "__libc_memalign",
    "__libc_valloc",
    "__libc_pvalloc",
    "malloc_trim",
    "mallinfo",
    "mallinfo2",
    "malloc_info",
    "malloc_stats",
    "mallopt",
    "dlopen",
    "dlmopen",
    "__register_atfork",
];

/// What a preload for musl exports beside the family: the glue for forks must see these calls.
const OF_MUSL: [&str; 2] = ["fflush", "fork"];

/// The names that every preload exports: the malloc family, and what the libc has beside it.
pub fn exports(libc: Libc) -> Vec<&'static str> {
    let mut names = family::PUBLIC.to_vec();
    names.push("pvalloc");
    match libc {
        Libc::Glibc => names.extend(OF_GLIBC),
        Libc::Musl => names.extend(OF_MUSL),
    }
    names
}

/// The names that the preload of an allocator exports: those of [`exports`], and functions of its own.
fn exports_of(allocator: &Allocator, libc: Libc) -> Vec<&'static str> {
    let own = allocator.build.as_ref().map(|recipe| recipe.interface);
    [&exports(libc), own.unwrap_or_default()].concat()
}

/// The preload of an allocator for a libc, built now or taken from the cache.
///
/// # Errors
/// Those of [`upstream::build`]. [`PreloadError::Bind`] and [`PreloadError::Audit`] mean that the built objects do not
/// link to a preload.
pub fn build(
    allocator: &'static Allocator,
    target: &Target,
    toolchain: &Toolchain,
    cache: &Cache,
) -> Result<PathBuf, PreloadError> {
    let names = exports_of(allocator, target.libc());
    let file_name = file_name(allocator);
    let entry = entry_name(allocator, target, toolchain);
    let is_whole = |entry: &Path| is_whole(&entry.join(&file_name));
    let directory = cache.whole_entry("preloads", &entry, is_whole, |unfinished| {
        let built = upstream::build(allocator, target, LinkKind::Preload, toolchain, cache)?;
        let members = members(allocator, target, &built)?;
        link(
            &members,
            &file_name,
            &names,
            &[],
            &LIBRARIES,
            toolchain,
            unfinished,
        )
    })?;
    Ok(directory.join(file_name))
}

/// The objects of a library with an allocator, with the marker.
pub(crate) fn members(
    allocator: &'static Allocator,
    target: &Target,
    built: &BuiltAllocator,
) -> Result<Vec<Member>, PreloadError> {
    let tuning = Tuning::default();
    let marker = marker(allocator, &tuning, target);
    let tuning = tuning.baked(allocator);
    let objects = built.objects()?;
    reheap_elf::preload_objects::objects(&objects, target.arch(), &marker, &tuning).map_err(
        |source| PreloadError::Bind {
            allocator: allocator.name,
            source,
        },
    )
}

/// A user's own library, copied into the cache: the file may change while it is in use, and its path may be one that
/// `LD_PRELOAD` cannot hold.
///
/// # Errors
/// When the file has changed since its row was made, or the cache cannot be written.
pub fn copy(file: &AllocatorFile, cache: &Cache) -> Result<PathBuf, PreloadError> {
    let entry = format!("{}-{}", file.name, &file.sha256[..16]);
    let directory = cache.entry("preloads", &entry, |unfinished| {
        let path = unfinished.join(&file.name);
        fs::write(&path, file.bytes()?).map_err(CacheError::new("write", &path))?;
        Ok::<(), PreloadError>(())
    })?;
    Ok(directory.join(&file.name))
}

/// The bytes of a preload with options baked in, for programs that get no environment variable. The user's own variables
/// still win. This needs no linker, so a library that was built elsewhere will do.
///
/// # Errors
/// When the file cannot be read, or is not a preload that this version of reheap made.
pub fn tuned(
    library: &Path,
    allocator: &Allocator,
    tuning: &Tuning,
    target: &Target,
) -> Result<Vec<u8>, PreloadError> {
    let bytes = fs::read(library).map_err(CacheError::new("read", library))?;
    let marker = marker(allocator, tuning, target);
    marker::retune(&bytes, &marker, &tuning.baked(allocator)).map_err(|source| PreloadError::Tune {
        library: library.to_owned(),
        source,
    })
}

/// Whether the cache has the preload, so that [`build`] returns at once.
pub fn is_built(
    allocator: &'static Allocator,
    target: &Target,
    toolchain: &Toolchain,
    cache: &Cache,
) -> bool {
    let entry = entry_name(allocator, target, toolchain);
    let entry = cache.root().join("preloads").join(entry);
    is_whole(&entry.join(file_name(allocator)))
}

/// Whether a library is complete. A full disk or a power failure may have cut it off, and a dynamic linker then goes on
/// without it, or the program dies. An unreadable library counts as whole: making it again would not help.
pub(crate) fn is_whole(library: &Path) -> bool {
    let mut header = [0; HEADER_BYTES];
    let size = File::open(library).and_then(|mut file| {
        file.read_exact(&mut header)?;
        Ok(file.metadata()?.len())
    });
    match size {
        Ok(size) => reheap_elf::preload_objects::is_whole(&header, size),
        Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
    }
}

/// The preload of an allocator that any compiler has built before, from the same sources with the same flags.
///
/// Asking the compilers for their versions takes longer than most programs run, and every compiler makes a library that
/// works.
pub fn find_built(
    allocator: &'static Allocator,
    target: &Target,
    cache: &Cache,
) -> Option<PathBuf> {
    let prefix = entry_prefix(allocator, target);
    find(&prefix, &file_name(allocator), cache)
}

/// The library in an entry whose name begins like this.
pub(crate) fn find(prefix: &str, file_name: &str, cache: &Cache) -> Option<PathBuf> {
    let preloads = cache.root().join("preloads");
    let entries = fs::read_dir(&preloads).ok()?;
    let names = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with(prefix));
    let libraries = names.map(|name| preloads.join(name).join(file_name));
    let found = libraries.filter(|library| is_whole(library)).max();
    found
        .as_deref()
        .and_then(Path::parent)
        .inspect(|entry| note_use(entry));
    found
}

/// A path for `LD_PRELOAD` that leads a process of the library's libc to the library. A process of the other libc finds
/// nothing there that could harm it.
///
/// The programs that a program starts inherit the variable. On many systems one of them, such as the shell, uses the
/// other libc. A library for the wrong libc ends that process, because its own libraries or symbols are missing. glibc
/// expands `$LIB` in the variable (ld.so(8)) and musl reads it as a name, so one path means two files. musl silently
/// ignores a missing file. glibc prints a message in each process, so it gets the library of `nothing`, if there is
/// one; and glibc for other processors, such as 32-bit ones, gets an empty library ([`foreign`]).
///
/// # Errors
/// When the links cannot be made in the cache.
pub fn path_for_variable(
    library: &Path,
    target: &Target,
    nothing: impl FnOnce() -> Option<PathBuf>,
    cache: &Cache,
) -> Result<PathBuf, CacheError> {
    let foreign = foreign::libraries(target.arch(), Path::new("/"));
    let name = name_in_run(library, target, &foreign);
    let file_name = library.file_name().unwrap_or_default();
    let entry = cache.entry("run", &name, |unfinished| {
        let link = |directory: &str, file: &Path| {
            let directory = unfinished.join(directory);
            let path = directory.join(file_name);
            fs::create_dir_all(&directory)
                .and_then(|()| std::os::unix::fs::symlink(file, &path))
                .map_err(CacheError::new("make the link", &path))
        };
        let of_glibc = match target.libc() {
            Libc::Glibc => Some(library.to_owned()),
            Libc::Musl => {
                link("$LIB", library)?;
                nothing()
            }
        };
        let is_own = |directory: &String| !foreign.contains_key(directory.as_str());
        let own = glibc_library_directories(target.arch());
        for directory in own.iter().filter(|directory| is_own(directory)) {
            if let Some(of_glibc) = &of_glibc {
                link(directory, of_glibc)?;
            }
        }
        for (directory, bytes) in &foreign {
            write(&unfinished.join(directory), file_name, bytes)?;
        }
        Ok::<(), CacheError>(())
    })?;
    Ok(entry.join("$LIB").join(file_name))
}

/// Of an entry for [`path_for_variable`]. Another system with the same cache may have other directories.
fn name_in_run(library: &Path, target: &Target, foreign: &Foreign) -> String {
    let mut ingredients = vec![library.as_os_str().as_encoded_bytes()];
    for (directory, bytes) in foreign {
        ingredients.extend([directory.as_bytes(), bytes]);
    }
    format!("{target}-{}", &hash(ingredients)[..16])
}

fn write(directory: &Path, file_name: &OsStr, bytes: &[u8]) -> Result<(), CacheError> {
    let path = directory.join(file_name);
    fs::create_dir_all(directory)
        .and_then(|()| fs::write(&path, bytes))
        .map_err(CacheError::new("write", &path))
}

/// `LD_PRELOAD` with a library in front of the others.
pub(crate) fn in_front(library: &Path, others: Option<&OsStr>) -> (OsString, OsString) {
    let mut list = library.as_os_str().to_owned();
    if let Some(others) = others.filter(|others| !others.is_empty()) {
        list.push(":");
        list.push(others);
    }
    ("LD_PRELOAD".into(), list)
}

/// Whether `LD_PRELOAD` can name that path. ld.so(8) reads blanks and colons as separators and expands what follows a
/// dollar sign. There is no quoting. A link in a temporary directory would work, but must stay as long as the program may
/// start others.
pub fn fits_into_variable(path: &Path) -> bool {
    let is_special = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b':' | b'$');
    !path.as_os_str().as_encoded_bytes().iter().any(is_special)
}

/// What the glibc of each distribution expands `$LIB` to (ld.so(8)).
pub fn glibc_library_directories(architecture: impl std::fmt::Display) -> [String; 3] {
    let multiarch = format!("lib/{architecture}-linux-gnu");
    ["lib".to_owned(), "lib64".to_owned(), multiarch]
}

/// A file name that the user recognises in `/proc/PID/maps`.
pub fn file_name(allocator: &Allocator) -> String {
    match allocator.file() {
        Some(file) => file.name.clone(),
        None => format!("lib{}.so", allocator.stem()),
    }
}

fn entry_name(allocator: &'static Allocator, target: &Target, toolchain: &Toolchain) -> String {
    let Some(recipe) = &allocator.build else {
        return allocator.name.to_owned(); // reheap never builds `stock`
    };
    let built = upstream::entry_name(allocator, recipe, target, LinkKind::Preload, toolchain);
    let key = hash([built.as_bytes()]);
    format!("{}{}", entry_prefix(allocator, target), &key[..16])
}

/// How the names of all entries of a preload begin, whichever compiler made them.
fn entry_prefix(allocator: &Allocator, target: &Target) -> String {
    let key = key(allocator, target);
    let stem = allocator.stem();
    format!("{stem}-{target}-{}-", &key[..8])
}

/// A hash of everything that goes into a preload, except the compilers.
pub(crate) fn key(allocator: &Allocator, target: &Target) -> String {
    let ingredients = match &allocator.build {
        Some(recipe) => upstream::ingredients_for(recipe, LinkKind::Preload, target),
        None => String::new(),
    };
    let marker = serde_json::to_vec(&marker(allocator, &Tuning::default(), target))
        .expect("a struct of strings is always JSON");
    let names = exports_of(allocator, target.libc()).join(" ");
    let flags = LINK_FLAGS.join(" ");
    hash([
        ingredients.as_bytes(),
        presets(allocator).as_bytes(),
        &marker,
        names.as_bytes(),
        flags.as_bytes(),
        &PRELOAD_DESCRIPTION_BYTES.to_le_bytes(),
    ])
}

fn marker(allocator: &Allocator, tuning: &Tuning, target: &Target) -> Marker {
    let recipe = allocator.build.as_ref();
    Marker {
        allocator: allocator.plain_name().to_owned(),
        allocator_version: allocator.version.to_owned(),
        package: recipe.map_or_else(String::new, Recipe::origin),
        tuning: tuning.as_given(),
        memory_functions: None,
        libc: target.libc().to_string(),
        original_sha256: String::new(),
        reheap: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// Links objects to a shared library that exports `names`, and reads it back.
pub(crate) fn link(
    objects: &[Member],
    file_name: &str,
    names: &[&str],
    more_flags: &[String],
    libraries: &[&str],
    toolchain: &Toolchain,
    directory: &Path,
) -> Result<(), PreloadError> {
    let scratch = tempfile::tempdir_in(directory)
        .map_err(CacheError::new("make a directory in", directory))?;
    let write = |name: &str, contents: &[u8]| {
        let path = scratch.path().join(name);
        fs::write(&path, contents).map_err(CacheError::new("write", &path))
    };
    // The version script of GNU ld and lld: one anonymous version; everything outside it is local.
    let globals: String = names.iter().map(|name| format!("{name}; ")).collect();
    let heading = if globals.is_empty() { "" } else { "global: " };
    let script = format!("{{ {heading}{globals}local: *; }};\n");
    write("exports.map", script.as_bytes())?;
    for object in objects {
        write(&object.name, &object.data)?;
    }
    let wrappers = Wrappers::write(scratch.path(), &toolchain.cc, None)?;
    let library = directory.join(file_name);
    let mut cc = toolchain.command(&wrappers.cc);
    cc.current_dir(scratch.path())
        .args(LINK_FLAGS)
        .args(more_flags)
        .arg("-Wl,--version-script=exports.map")
        .arg(format!("-Wl,-soname,{file_name}"))
        .args(objects.iter().map(|object| &object.name))
        .args(libraries)
        .arg("-o")
        .arg(&library);
    upstream::run(&mut cc, || format!("link `{file_name}`"))?;

    let bytes = fs::read(&library).map_err(CacheError::new("read", &library))?;
    reheap_elf::preload_objects::audit(&bytes, names).map_err(|source| PreloadError::Audit {
        name: file_name.to_owned(),
        source,
    })
}
