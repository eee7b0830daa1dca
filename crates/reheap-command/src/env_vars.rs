//! Names the environment variables that reheap reads, each next to the flag that does the same.

use reheap_allocators::compiler::{self, Search};
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `--allocator`: for `CC="reheap cc"` and the like, where the user cannot give a flag.
pub(crate) const ALLOCATOR: &str = "REHEAP_ALLOCATOR";
/// `--tuning`, several separated by spaces.
pub(crate) const TUNING: &str = "REHEAP_TUNING";
/// `--memory-functions`.
pub(crate) const MEMORY_FUNCTIONS: &str = "REHEAP_MEMORY_FUNCTIONS";
/// `--keep-deepbind`, whatever its value: the preload itself reads it (`dlopen.c`), so it also works with `enable`.
pub const KEEP_DEEPBIND: &str = "REHEAP_KEEP_DEEPBIND";
/// The cache directory; without it `reheap` in [`cache_home`], and where that cannot be made `reheap-<user>` among the temporary
/// files.
pub const CACHE_DIR: &str = "REHEAP_CACHE_DIR";
/// A directory of prebuilt allocators; without it `share/reheap` beside the directory of this program, if it is there.
pub const PREBUILT: &str = "REHEAP_PREBUILT";
/// What the dynamic linker loads first (ld.so(8)).
pub const LD_PRELOAD: &str = "LD_PRELOAD";
/// The time of everything in an image, in seconds since 1970 (reproducible-builds.org).
pub const SOURCE_DATE_EPOCH: &str = "SOURCE_DATE_EPOCH";
/// The logins for registries, as podman and skopeo name them (containers-auth.json(5)).
pub const REGISTRY_AUTH_FILE: &str = "REGISTRY_AUTH_FILE";
/// The directory of Docker's logins for registries.
pub const DOCKER_CONFIG: &str = "DOCKER_CONFIG";
/// The certificates that TLS trusts, as OpenSSL names them.
pub const SSL_CERT_FILE: &str = "SSL_CERT_FILE";
/// No colours, whatever its value (no-color.org).
pub(crate) const NO_COLOR: &str = "NO_COLOR";
/// Whether reheap is where it wants a compiler. Set by reheap for every compiler, not by users.
pub const STARTED_AS_COMPILER: &str = compiler::STARTED_BY_REHEAP;
/// What the recording linker must do: a `Plan` of `reheap-static` for each package, as JSON. Set by `cargo reheap`, not by users.
pub const LINK_PLAN: &str = "REHEAP_LINK_PLAN";
/// What the recording linker must find in doctests, as JSON. Set by `cargo reheap test`, not by users.
pub const DOCTESTS: &str = "REHEAP_DOCTESTS";
/// The directory of the compilers that `cargo reheap` has named for Cargo in variables `CC_…` and `CXX_…`: for what Cargo
/// starts, nobody has named them.
pub const ADDED_COMPILERS: &str = "REHEAP_ADDED_COMPILERS";

/// Where the system's programs have their caches (Filesystem Hierarchy Standard 3.0, 5.5).
const SYSTEM_CACHES: &str = "/var/cache";

/// A variable, unless it is unset or empty.
pub fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The directory for the caches of all programs: `/var/cache` for root, the user's own for others (XDG base directory
/// specification). `None` without a home directory.
///
/// What root starts may change its user and start others with the preload. They cannot read what is in root's home.
pub fn cache_home() -> Option<PathBuf> {
    let named = variable("XDG_CACHE_HOME").map(PathBuf::from);
    // The specification: a relative path is invalid.
    let named = named.filter(|directory| directory.is_absolute());
    if named.is_none() && is_root_of_this_system() {
        return Some(PathBuf::from(SYSTEM_CACHES));
    }
    let home = std::env::home_dir().filter(|home| !home.as_os_str().is_empty());
    named.or_else(|| Some(home?.join(".cache")))
}

/// Whether this is root, and not a user who is root only in a namespace (user_namespaces(7)): other users' files belong
/// to nobody there.
fn is_root_of_this_system() -> bool {
    let is_roots = || std::fs::metadata(SYSTEM_CACHES).is_ok_and(|caches| caches.uid() == 0);
    rustix::process::geteuid().is_root() && is_roots()
}

/// The directory for temporary files.
pub fn temporary_directory() -> PathBuf {
    std::env::temp_dir()
}

/// The whole environment, for crates that may not read it themselves, without what another reheap has added for Cargo.
pub fn all() -> impl Iterator<Item = (OsString, OsString)> {
    let added = variable(ADDED_COMPILERS);
    std::env::vars_os().filter(move |(name, value)| {
        let name = name.as_encoded_bytes();
        let is_compiler = name.starts_with(b"CC_") || name.starts_with(b"CXX_");
        let is_added = added
            .as_ref()
            .is_some_and(|added| Path::new(value).starts_with(added));
        !(is_compiler && is_added)
    })
}

/// A program that the environment names, or the usual one: `CARGO`, `RUSTC`.
pub fn program(variable_name: &str, usual: &str) -> PathBuf {
    variable(variable_name).map_or_else(|| usual_program(usual), PathBuf::from)
}

/// The program of that name on PATH, but never one that anybody could have put there.
pub fn usual_program(name: &str) -> PathBuf {
    let search = Search::new(all());
    // Not the bare name: the system would look for that in all of PATH.
    search
        .program(name)
        .unwrap_or_else(|| Path::new("/usr/bin").join(name))
}

/// A command that finds other programs as [`usual_program`] does, and so does what it starts.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    match Search::new(all()).environment().get(OsStr::new("PATH")) {
        Some(path) => command.env("PATH", path),
        None => command.env_remove("PATH"),
    };
    command
}

/// Cargo.
pub fn cargo() -> Command {
    command(program("CARGO", "cargo"))
}

/// Rust's compiler.
pub fn rustc() -> Command {
    command(program("RUSTC", "rustc"))
}

/// The directory of the package that Cargo builds, in what Cargo starts for that (Cargo book, "Environment Variables").
pub fn linked_package() -> Option<PathBuf> {
    variable("CARGO_MANIFEST_DIR").map(PathBuf::from)
}

/// Where the dynamic linker looks for libraries first, with whole paths (ld.so(8)).
pub fn library_path() -> Vec<PathBuf> {
    let list = variable("LD_LIBRARY_PATH").unwrap_or_default();
    let here = std::env::current_dir().unwrap_or_default();
    let directories = library_directories(&list);
    directories.map(|directory| here.join(directory)).collect()
}

/// The directories of a value of `LD_LIBRARY_PATH`. An empty value names none; in any other, an empty part is the
/// working directory.
pub fn library_directories(list: &OsStr) -> impl Iterator<Item = PathBuf> {
    std::env::split_paths(list).filter(|_| !list.is_empty())
}

/// Where the shell searches for programs. An empty value counts, and means the working directory.
pub fn path() -> Option<OsString> {
    std::env::var_os("PATH")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_empty_part_of_a_list_is_the_working_directory() {
        let directories = |list: &str| library_directories(list.as_ref()).collect::<Vec<_>>();
        assert!(directories("").is_empty());
        assert_eq!(directories(":/a"), [Path::new(""), Path::new("/a")]);
    }
}
