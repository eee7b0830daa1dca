//! Whether a library runs with every glibc from 2.17 on, or with every musl from 1.1.24 on.
//!
//! A library for other machines must not ask for what only the newest libc has. Zig is told which glibc to link for
//! ([`Target::zig_triple`]). It has only one musl, 1.2.5, so [`OF_MUSL`] lists what libraries of reheap may take from it.

use crate::target::{Libc, OLDEST_GLIBC, Target};
use reheap_elf::{imports, linkage};

/// Functions and variables of musl 1.1.24 that reheap's libraries use. Before you add one, look whether that version has
/// it: `nm -D` of its `libc.so` shows.
const OF_MUSL: &[&str] = &[
    "__errno_location",
    "__libc_start_main",
    "__sched_cpucount",
    "_exit",
    "abort",
    "access",
    "alarm",
    "aligned_alloc",
    "atexit",
    "atol",
    "bcmp",
    "calloc",
    "clock_gettime",
    "clock_nanosleep",
    "close",
    "creat",
    "dladdr",
    "dlopen",
    "dlsym",
    "environ",
    "execve",
    "exit",
    "fclose",
    "fflush",
    "fflush_unlocked",
    "fgets",
    "fopen",
    "fork",
    "fprintf",
    "fputs",
    "free",
    "fstat",
    "fsync",
    "fwrite",
    "getauxval",
    "getenv",
    "geteuid",
    "getpid",
    "getrusage",
    "gettimeofday",
    "longjmp",
    "madvise",
    "malloc",
    "malloc_usable_size",
    "memalign",
    "memchr",
    "memcmp",
    "memcpy",
    "memmove",
    "memset",
    "mincore",
    "mmap",
    "mprotect",
    "mremap",
    "munmap",
    "nanosleep",
    "open",
    "pathconf",
    "posix_memalign",
    "prctl",
    "pread",
    "printf",
    "pthread_atfork",
    "pthread_attr_destroy",
    "pthread_attr_init",
    "pthread_attr_setdetachstate",
    "pthread_attr_setstacksize",
    "pthread_cond_signal",
    "pthread_cond_timedwait",
    "pthread_cond_wait",
    "pthread_create",
    "pthread_join",
    "pthread_key_create",
    "pthread_key_delete",
    "pthread_mutex_destroy",
    "pthread_mutex_init",
    "pthread_mutex_lock",
    "pthread_mutex_trylock",
    "pthread_mutex_unlock",
    "pthread_mutexattr_destroy",
    "pthread_mutexattr_init",
    "pthread_mutexattr_settype",
    "pthread_once",
    "pthread_self",
    "pthread_setname_np",
    "pthread_setspecific",
    "pthread_sigmask",
    "read",
    "readlink",
    "realloc",
    "realpath",
    "sbrk",
    "sched_getaffinity",
    "sched_getcpu",
    "sched_setaffinity",
    "sched_yield",
    "secure_getenv",
    "setjmp",
    "sigfillset",
    "sleep",
    "snprintf",
    "stat",
    "stderr",
    "stdin",
    "stdout",
    "strcat",
    "strchr",
    "strcmp",
    "strcspn",
    "strerror",
    "strerror_r",
    "strlen",
    "strncasecmp",
    "strncmp",
    "strncpy",
    "strpbrk",
    "strrchr",
    "strspn",
    "strstr",
    "strtok",
    "strtol",
    "strtoul",
    "syscall",
    "sysconf",
    "sysinfo",
    "waitpid",
    "write",
    "writev",
];

/// The libraries of glibc. From 2.34 on, libc.so.6 has what the others had, and they are empty.
const LIBRARIES_OF_GLIBC: [&str; 4] = ["libc.so.6", "libpthread.so.0", "libdl.so.2", "ld-linux"];

/// The name that musl answers to, whatever its file is called.
const LIBRARY_OF_MUSL: &str = "libc.so";

/// Why a library does not run on all systems that it is for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotPortable {
    /// It is damaged.
    #[error("it is damaged: {0}")]
    Damaged(String),
    /// It asks for a later glibc.
    #[error("it needs `{0}`, and glibc {OLDEST_GLIBC} does not have that")]
    LaterVersion(String),
    /// It takes a function that an early musl may not have.
    #[error(
        "it takes `{0}` from musl, which is not among the names that are known to be in musl 1.1.24"
    )]
    UnknownName(String),
    /// It asks for a library that may not be there.
    #[error("it needs `{0}`")]
    Library(String),
}

/// Whether a library for that target runs with every libc that it is for.
///
/// # Errors
/// The first thing that an older libc lacks.
pub fn check(library: &[u8], target: &Target) -> Result<(), NotPortable> {
    let imports = imports::read(library).map_err(|e| NotPortable::Damaged(e.to_string()))?;
    let linkage = linkage::read(library).map_err(|e| NotPortable::Damaged(e.to_string()))?;
    let is_of_libc = |name: &str| match target.libc() {
        Libc::Glibc => LIBRARIES_OF_GLIBC
            .iter()
            .any(|known| name.starts_with(known)),
        Libc::Musl => name == LIBRARY_OF_MUSL,
    };
    if let Some(name) = linkage.needed.into_iter().find(|name| !is_of_libc(name)) {
        return Err(NotPortable::Library(name));
    }
    match target.libc() {
        Libc::Glibc => {
            let later = |version: &String| !is_in_oldest_glibc(version);
            let found = imports.versions.into_iter().find(later);
            found.map_or(Ok(()), |version| Err(NotPortable::LaterVersion(version)))
        }
        Libc::Musl => {
            let unknown = |name: &String| !OF_MUSL.contains(&name.as_str());
            let found = imports.names.into_iter().find(unknown);
            found.map_or(Ok(()), |name| Err(NotPortable::UnknownName(name)))
        }
    }
}

fn is_in_oldest_glibc(version: &str) -> bool {
    let numbers =
        |text: &str| -> Option<Vec<u32>> { text.split('.').map(|n| n.parse().ok()).collect() };
    let asked = version.strip_prefix("GLIBC_").and_then(numbers);
    asked.is_some_and(|asked| Some(asked) <= numbers(OLDEST_GLIBC))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_as_numbers_and_others_than_glibcs_are_not_in_it() {
        for version in ["GLIBC_2.2.5", "GLIBC_2.9", "GLIBC_2.17"] {
            assert!(is_in_oldest_glibc(version), "{version}");
        }
        for version in [
            "GLIBC_2.18",
            "GLIBC_2.34",
            "GLIBC_3",
            "GLIBC_PRIVATE",
            "GCC_3.0",
        ] {
            assert!(!is_in_oldest_glibc(version), "{version}");
        }
    }
}
