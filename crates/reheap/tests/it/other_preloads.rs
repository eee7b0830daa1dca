//! Allocators together with what else people preload: both must do their work, whichever comes first.
//!
//! A preload may call malloc before the allocator is ready, from within a function that the allocator calls:
//! libfaketime's clock did. So each pair runs a program that uses threads, forks and checks the other preload's effect;
//! a hang is found by a deadline. libSegFault left glibc with 2.35, so a library that does what it did is compiled
//! here.

use crate::common::command::run_within;
use crate::common::suite::{allocators, is_tested, program, scratch_directory};
use crate::common::{Outcome, reheap, run};
use reheap_allocators::catalogue::CATALOGUE;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A hang before `main` is not seen by the deadline that the program sets for itself.
const DEADLINE: Duration = Duration::from_secs(240);

/// Which of the two libraries stands first in `LD_PRELOAD`.
#[derive(Debug, Clone, Copy)]
enum First {
    Allocator,
    Other,
}

/// The program under test, with a directory for what a test needs beside it.
struct Trial {
    directory: tempfile::TempDir,
    allocator: &'static str,
    executable: PathBuf,
}

impl Trial {
    #[track_caller]
    fn new(allocator: &'static str) -> Self {
        let directory = scratch_directory();
        let executable = directory.path().join("program");
        run(Command::new("cc")
            .args(["-std=gnu11", "-O2", "-fno-builtin", "-pthread"])
            .arg(program("c/other_preloads.c"))
            .args([OsStr::new("-o"), executable.as_os_str()]))
        .succeeded();
        // A build of the allocator must not see the other preload.
        run(&mut reheap(&format!("run -a {allocator} -- true"))).succeeded();
        Self {
            directory,
            allocator,
            executable,
        }
    }

    fn compile_library(&self, name: &str, source: &str) -> PathBuf {
        let file = self.directory.path().join(format!("{name}.c"));
        fs::write(&file, source).unwrap();
        let library = self.directory.path().join(format!("{name}.so"));
        run(Command::new("cc")
            .args(["-shared", "-fPIC", "-O2"])
            .arg(&file)
            .args([OsStr::new("-o"), library.as_os_str()]))
        .succeeded();
        library
    }

    /// A command that runs the program with the allocator and the library, in this order or the other.
    fn command(&self, library: &Path, first: First) -> Command {
        let mut command = reheap(&format!("run -a {} --", self.allocator));
        match first {
            First::Allocator => {
                command.env("LD_PRELOAD", library);
            }
            First::Other => {
                let script = format!(
                    "LD_PRELOAD=\"{}:$LD_PRELOAD\" exec \"$@\"",
                    library.display()
                );
                command.args(["sh", "-c", &script, "sh"]);
            }
        }
        command.arg(&self.executable).arg(self.allocator);
        command
    }
}

#[track_caller]
fn says(outcome: &Outcome, name: &str) {
    let (stdout, stderr) = (&outcome.stdout, &outcome.stderr);
    assert!(
        outcome.status.success() && stdout.ends_with(&format!("ok {name}\n")),
        "{}\n--- stdout\n{stdout}--- stderr\n{stderr}",
        outcome.status
    );
}

/// A file of a Debian package, in the directory for libraries of this architecture where the name has no directory.
#[track_caller]
fn installed(package: &str, path: &str) -> PathBuf {
    let path = if path.starts_with('/') {
        PathBuf::from(path)
    } else {
        let directory = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
        Path::new(&directory).join(path)
    };
    assert!(
        path.exists(),
        "cannot find `{}`; install it: apt-get install -y --no-install-recommends {package}",
        path.display()
    );
    path
}

#[track_caller]
fn works_with_faketime(allocator: &'static str, first: First) {
    let trial = Trial::new(allocator);
    for name in ["libfaketime.so.1", "libfaketimeMT.so.1"] {
        let library = installed("libfaketime", &format!("faketime/{name}"));
        let mut command = trial.command(&library, first);
        command.env("FAKETIME", "@2001-02-03 04:05:06");
        says(
            &run_within(command.args(["faketime", "2001"]), DEADLINE),
            "faketime",
        );
    }
}

#[track_caller]
fn works_with_eatmydata(allocator: &'static str, first: First) {
    let trial = Trial::new(allocator);
    let library = installed("libeatmydata1", "libeatmydata.so.1");
    let mut command = trial.command(&library, first);
    says(&run_within(command.arg("eatmydata"), DEADLINE), "eatmydata");
}

/// `fakeroot` starts the daemon that its library asks, and puts the library into `LD_PRELOAD`.
#[track_caller]
fn works_with_fakeroot(allocator: &'static str, first: First) {
    let trial = Trial::new(allocator);
    let fakeroot = installed("fakeroot", "/usr/bin/fakeroot");
    let file = trial.directory.path().join("file");
    fs::write(&file, "").unwrap();
    let inner = match first {
        // What `fakeroot` has put there, and in front of that the allocator.
        First::Allocator => {
            let mut command = reheap(&format!("run -a {} --", trial.allocator));
            command.arg(&trial.executable).arg(trial.allocator);
            command
        }
        First::Other => trial.command(
            &installed("libfakeroot", "libfakeroot/libfakeroot-sysv.so"),
            first,
        ),
    };
    let mut command = Command::new(fakeroot);
    command.arg("--").arg(inner.get_program());
    command.args(inner.get_args()).arg("fakeroot").arg(&file);
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    says(&run_within(&mut command, DEADLINE), "fakeroot");
}

#[track_caller]
fn works_with_stdbuf(allocator: &'static str, first: First) {
    let trial = Trial::new(allocator);
    let library = installed("coreutils", "/usr/libexec/coreutils/libstdbuf.so");
    let mut command = trial.command(&library, first);
    command.env("_STDBUF_O", "L"); // what stdbuf(1) sets
    says(&run_within(command.arg("stdbuf"), DEADLINE), "stdbuf");
}

/// A proxy on the loopback interface that connects nobody and says hello to one client.
fn proxy() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        let mut byte = [0];
        while !request.ends_with(b"\r\n\r\n") && client.read(&mut byte).unwrap() == 1 {
            request.extend(byte);
        }
        assert!(request.starts_with(b"CONNECT 192.0.2.1:80 "));
        client.write_all(b"HTTP/1.0 200 OK\r\n\r\nhello").unwrap();
        // Until the client closes, or is gone.
        let _ = client.read(&mut byte);
    });
    port
}

#[track_caller]
fn works_with_proxychains(allocator: &'static str, first: First) {
    let trial = Trial::new(allocator);
    let library = installed("libproxychains4", "libproxychains.so.4");
    let settings = trial.directory.path().join("proxychains.conf");
    let text = format!(
        "strict_chain\nquiet_mode\n[ProxyList]\nhttp 127.0.0.1 {}\n",
        proxy()
    );
    fs::write(&settings, text).unwrap();
    let mut command = trial.command(&library, first);
    command.env("PROXYCHAINS_CONF_FILE", &settings);
    says(
        &run_within(command.args(["proxychains", "hello"]), DEADLINE),
        "proxychains",
    );
}

#[track_caller]
fn works_with_uid_wrapper(allocator: &'static str, first: First) {
    let trial = Trial::new(allocator);
    let library = installed("libuid-wrapper", "libuid_wrapper.so");
    let mut command = trial.command(&library, first);
    command.env("UID_WRAPPER", "1").env("UID_WRAPPER_ROOT", "1");
    let outcome = run_within(command.arg("uid_wrapper"), DEADLINE);
    says(&outcome, "uid_wrapper");
}

#[track_caller]
fn works_with_torsocks(allocator: &'static str, first: First) {
    let trial = Trial::new(allocator);
    let library = installed("torsocks", "torsocks/libtorsocks.so");
    let mut command = trial.command(&library, first);
    says(&run_within(command.arg("torsocks"), DEADLINE), "torsocks");
}

/// Allocates in every function that is no more than a system call, and looks the libc's up under a lock, which no thread
/// can take twice.
const GREEDY: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *behind(const char *name) {
    pthread_mutex_lock(&lock);
    free(malloc(300000));
    void *function = dlsym(RTLD_NEXT, name);
    pthread_mutex_unlock(&lock);
    return function;
}
#define GREEDY(name)                                                              \
    long greedy_##name(long, long, long, long, long, long, long) __asm__(#name);  \
    long greedy_##name(long a, long b, long c, long d, long e, long f, long g) {  \
        return ((__typeof__(&greedy_##name))behind(#name))(a, b, c, d, e, f, g);  \
    }
GREEDY(syscall) GREEDY(mmap) GREEDY(munmap) GREEDY(mremap) GREEDY(mprotect) GREEDY(madvise) GREEDY(mincore)
GREEDY(open) GREEDY(creat) GREEDY(close) GREEDY(read) GREEDY(write) GREEDY(writev) GREEDY(fsync) GREEDY(access)
GREEDY(readlink) GREEDY(prctl) GREEDY(getpid) GREEDY(gettid) GREEDY(getrusage) GREEDY(sched_yield)
GREEDY(sched_getaffinity) GREEDY(sched_setaffinity) GREEDY(sleep) GREEDY(clock_gettime) GREEDY(getrandom)
"#;

#[track_caller]
fn works_with_a_library_that_allocates_in_system_calls(allocator: &'static str, first: First) {
    let trial = Trial::new(allocator);
    let library = trial.compile_library("greedy", GREEDY);
    let mut command = trial.command(&library, first);
    says(&run_within(command.arg("greedy"), DEADLINE), "greedy");
}

/// What a preload may take from glibc: the glue, and any allocator. Of the functions that other preloads replace, these
/// make no system call, or are called for an error, a fork, or an option that is off.
const FROM_GLIBC: [&str; 35] = [
    "__environ",
    "__errno_location",
    "__libc_single_threaded",
    "abort",
    "dlsym",
    "environ",
    "fprintf",
    "fputs",
    "fwrite",
    "getauxval",
    "memchr",
    "memcpy",
    "memmove",
    "memset",
    "pthread_key_create",
    "pthread_key_delete",
    "pthread_mutex_destroy",
    "pthread_mutex_init",
    "pthread_mutex_lock",
    "pthread_mutex_trylock",
    "pthread_mutex_unlock",
    "pthread_once",
    "pthread_setspecific",
    "secure_getenv",
    "snprintf",
    "stderr",
    "stdout",
    "strchr",
    "strcmp",
    "strlen",
    "strncasecmp",
    "strncmp",
    "strstr",
    "strtol",
    "sysconf",
];

/// What preloads take from glibc beside that, by the beginning of the name of the allocator.
const FROM_GLIBC_BY_ALLOCATOR: [(&str, &[&str]); 4] = [
    // The thread that gives memory back is off unless `background_thread` turns it on.
    (
        "jemalloc",
        &[
            "__ctype_b_loc",
            "__cxa_atexit",
            "__sched_cpucount",
            "gettimeofday",
            "pthread_cond_signal",
            "pthread_cond_timedwait",
            "pthread_cond_wait",
            "pthread_create",
            "pthread_getname_np",
            "pthread_join",
            "pthread_mutexattr_destroy",
            "pthread_mutexattr_init",
            "pthread_mutexattr_settype",
            "pthread_self",
            "pthread_setname_np",
            "pthread_sigmask",
            "sbrk",
            "sched_getcpu",
            "sigfillset",
            "strerror_r",
            "strncpy",
            "strtok",
        ],
    ),
    ("mimalloc", &["pathconf", "realpath"]),
    // It reads how large huge pages are, if it is to use them.
    ("rpmalloc", &["fclose", "fgets", "fopen"]),
    ("snmalloc", &["_setjmp", "longjmp"]),
];

/// A new name here is a function that another preload may have replaced, in the middle of a malloc. One that only makes
/// a system call belongs into the glue `kernel.c`.
#[test]
fn a_preload_takes_no_system_call_from_the_libc() {
    let directory = scratch_directory();
    let names = CATALOGUE.iter().map(|allocator| allocator.name);
    for name in names.filter(|name| is_tested(name)) {
        let mut command = reheap(&format!("preload -a {name} --libc glibc --json -o"));
        let written = run(command.arg(directory.path())).succeeded();
        let written: serde_json::Value = serde_json::from_str(&written.stdout).unwrap();
        let mut nm = Command::new("nm");
        nm.args(["--dynamic", "--undefined-only", "--format=posix"]);
        let symbols = run(nm.arg(written["path"].as_str().unwrap())).succeeded();
        let own = FROM_GLIBC_BY_ALLOCATOR.iter();
        let own = own.filter(|(allocator, _)| name.starts_with(allocator));
        let own: Vec<&str> = own.flat_map(|(_, names)| *names).copied().collect();
        for line in symbols.stdout.lines() {
            let (symbol, kind) = line.split_once(' ').unwrap();
            let symbol = symbol.split('@').next().unwrap();
            let is_weak = kind.starts_with('w');
            assert!(
                is_weak || FROM_GLIBC.contains(&symbol) || own.contains(&symbol),
                "{name}: {symbol}"
            );
        }
    }
}

/// What glibc's `debug/segfault.c` did: handlers on a stack of their own, and a trace, for which the first call of
/// backtrace(3) loads a library.
const CRASH_HANDLER: &str = r#"
#include <execinfo.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
static void tell(int number) {
    void *frames[64];
    (void)number;
    backtrace_symbols_fd(frames, backtrace(frames, 64), 2);
    write(1, "ok crash\n", 9);
    _exit(0);
}
__attribute__((constructor)) static void install(void) {
    stack_t stack = { .ss_sp = malloc(2 * SIGSTKSZ), .ss_size = 2 * SIGSTKSZ };
    sigaltstack(&stack, NULL);
    struct sigaction action = { .sa_handler = tell, .sa_flags = SA_ONSTACK };
    sigaction(SIGSEGV, &action, NULL);
}
"#;

#[track_caller]
fn works_with_a_crash_handler(allocator: &'static str, first: First) {
    let trial = Trial::new(allocator);
    let library = trial.compile_library("crash_handler", CRASH_HANDLER);
    let mut command = trial.command(&library, first);
    let outcome = run_within(command.arg("crash"), DEADLINE);
    says(&outcome, "crash");
    assert!(
        outcome.stderr.contains("program"),
        "no trace: {}",
        outcome.stderr
    );
}

/// An audit library that allocates in each of its functions, in its own copy of the libc (rtld-audit(7)).
const AUDIT: &str = r#"
#define _GNU_SOURCE
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
unsigned la_version(unsigned version) { free(malloc(100)); return version; }
unsigned la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie) {
    char *name = strdup(map->l_name);
    (void)space, (void)cookie;
    if (strstr(name, "libc.so")) write(2, "audited\n", 8);
    free(name);
    return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}
uintptr_t la_symbind64(Elf64_Sym *symbol, unsigned index, uintptr_t *from, uintptr_t *to, unsigned *flags, const char *name) {
    (void)index, (void)from, (void)to, (void)flags, (void)name;
    free(malloc(10));
    return symbol->st_value;
}
"#;

#[track_caller]
fn works_with_an_audit_library(allocator: &'static str) {
    let trial = Trial::new(allocator);
    let library = trial.compile_library("audit", AUDIT);
    let mut command = reheap(&format!("run -a {allocator} --"));
    command.arg(&trial.executable).args([allocator, "audit"]);
    let outcome = run_within(command.env("LD_AUDIT", library), DEADLINE);
    says(&outcome, "audit");
    assert!(outcome.stderr.contains("audited\n"), "{}", outcome.stderr);
}

/// A library with a malloc of its own, and what reheap says about it.
#[track_caller]
fn is_refused(preload: &OsStr, named: &str) {
    for arguments in [["--check"].as_slice(), &[]] {
        let mut command = reheap("run");
        command.args(arguments).args(["--", "true"]);
        let outcome = run_within(command.env("LD_PRELOAD", preload), DEADLINE);
        assert_eq!(outcome.status.code(), Some(1), "{outcome:?}");
        let said = format!("{}{}", outcome.stdout, outcome.stderr);
        assert!(
            said.contains(&format!(
                "LD_PRELOAD names `{named}`, which has a malloc of its own"
            )),
            "{said}"
        );
    }
}

/// glibc's own checks of the heap, by a name that the dynamic linker finds and by a path, behind one that it does not
/// find.
#[test]
fn a_preload_with_a_malloc_of_its_own_is_refused_by_name() {
    let name = "libc_malloc_debug.so.0";
    let library = installed("libc6", name);
    is_refused(OsStr::new(name), name);
    let mut list = OsString::from("libnot-there.so ");
    list.push(&library);
    is_refused(&list, &library.display().to_string());
}

#[test]
fn a_sanitizer_that_replaces_malloc_is_refused_and_one_that_does_not_is_not() {
    let library = |name: &str| {
        let mut cc = Command::new("cc");
        let output = run(cc.arg(format!("-print-file-name={name}"))).succeeded();
        fs::canonicalize(output.stdout.trim()).unwrap()
    };
    let address = library("libasan.so");
    is_refused(address.as_os_str(), &address.display().to_string());
    let mut command = reheap("run -- true");
    let undefined = library("libubsan.so");
    run(command.env("LD_PRELOAD", undefined)).succeeded();
}

#[test]
fn an_allocator_of_reheaps_may_be_there_already() {
    let mut command = reheap("run -a rpmalloc --");
    command.arg(env!("CARGO_BIN_EXE_reheap"));
    command.args(["run", "-a", "mimalloc", "--", "true"]);
    run(&mut command).succeeded();
}

macro_rules! other_preloads {
    ($allocator:literal) => {
        use super::First::{Allocator, Other};

        #[test]
        fn works_with_libfaketime_before_and_behind() {
            super::works_with_faketime($allocator, Allocator);
            super::works_with_faketime($allocator, Other);
        }

        #[test]
        fn works_with_libeatmydata_before_and_behind() {
            super::works_with_eatmydata($allocator, Allocator);
            super::works_with_eatmydata($allocator, Other);
        }

        #[test]
        fn works_with_fakeroot_before_and_behind() {
            super::works_with_fakeroot($allocator, Allocator);
            super::works_with_fakeroot($allocator, Other);
        }

        #[test]
        fn works_with_stdbuf_before_and_behind() {
            super::works_with_stdbuf($allocator, Allocator);
            super::works_with_stdbuf($allocator, Other);
        }

        #[test]
        fn works_with_proxychains_before_and_behind() {
            super::works_with_proxychains($allocator, Allocator);
            super::works_with_proxychains($allocator, Other);
        }

        #[test]
        fn works_with_uid_wrapper_before_and_behind() {
            super::works_with_uid_wrapper($allocator, Allocator);
            super::works_with_uid_wrapper($allocator, Other);
        }

        #[test]
        fn works_with_torsocks_before_and_behind() {
            super::works_with_torsocks($allocator, Allocator);
            super::works_with_torsocks($allocator, Other);
        }

        #[test]
        fn works_with_a_library_that_allocates_in_system_calls_before_and_behind() {
            super::works_with_a_library_that_allocates_in_system_calls($allocator, Allocator);
            super::works_with_a_library_that_allocates_in_system_calls($allocator, Other);
        }

        #[test]
        fn works_with_a_library_that_handles_crashes_before_and_behind() {
            super::works_with_a_crash_handler($allocator, Allocator);
            super::works_with_a_crash_handler($allocator, Other);
        }

        #[test]
        fn works_with_an_audit_library() {
            super::works_with_an_audit_library($allocator);
        }
    };
}

// Variants of an allocator differ in nothing that matters here.
allocators! {
    mimalloc("mimalloc"): other_preloads;
    jemalloc("jemalloc"): other_preloads;
    hardened_malloc_light("hardened_malloc-light"): other_preloads;
    + test_all {
        mimalloc3("mimalloc3"): other_preloads;
        mimalloc_secure("mimalloc-secure"): other_preloads;
        mimalloc2_secure("mimalloc2-secure"):;
        rpmalloc("rpmalloc"): other_preloads;
        snmalloc("snmalloc"): other_preloads;
        snmalloc_checks("snmalloc-checks"):;
        hardened_malloc("hardened_malloc"):;
    }
}
