//! What the tests of the command line share: the two programs, Cargo projects in temporary directories, and reading
//! back what was linked.
//!
//! Projects lie in the system's directory for temporary files and not below the build directory, where Cargo would take
//! them for members of reheap's own workspace. The cache is one for all tests, so that each allocator is built once.

pub(crate) mod bench;
pub(crate) mod command;
pub(crate) mod image;
pub(crate) mod mirror;
pub(crate) mod multi_call;
pub(crate) mod prebuilt;
pub(crate) mod programs;
pub(crate) mod registry;
pub(crate) mod suite;
pub(crate) mod workshop;

pub(crate) use command::{INSTALL, Outcome, run, run_with_input};
use reheap_allocators::probe::GLIBC_CHECKS;
use reheap_elf::marker::{self, FoundMarker};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The musl target of this machine.
pub(crate) fn target() -> String {
    format!("{}-unknown-linux-musl", std::env::consts::ARCH)
}

/// A variable of Cargo or the `cc` crate for that target, such as `CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_LINKER`.
pub(crate) fn of_target(front: &str, end: &str) -> String {
    format!("{front}{}{end}", target().replace('-', "_").to_uppercase())
}

/// The cache of all tests.
pub(crate) fn cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("reheap-cache")
}

/// The library that has glibc's checks of its heap.
pub(crate) fn library_of_glibcs_checks() -> PathBuf {
    let mut cc = Command::new("cc");
    let found = run(cc.arg(format!("-print-file-name={GLIBC_CHECKS}"))).succeeded();
    let path = PathBuf::from(found.stdout.trim());
    assert!(path.is_absolute(), "{GLIBC_CHECKS} is missing; {INSTALL}");
    path
}

/// Looks at everything in a cache, and counts it: nobody else may write to it.
#[track_caller]
pub(crate) fn assert_closed(cache: &Path) -> usize {
    let mut left = vec![cache.to_owned()];
    let mut seen = 0;
    while let Some(path) = left.pop() {
        let metadata = path.symlink_metadata().unwrap();
        if metadata.is_dir() {
            left.extend(
                fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        }
        let is_lock = path
            .parent()
            .is_some_and(|parent| parent.ends_with("locks"));
        let mode = metadata.permissions().mode();
        // Nothing is ever read from a lock.
        if !metadata.is_symlink() && !is_lock {
            assert_eq!(mode & 0o022, 0, "{mode:o} {}", path.display());
            seen += 1;
        }
    }
    seen
}

/// Words of a command line.
pub(crate) fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// Takes out what would make another build of the machine that the tests run on, and what Cargo sets for tests. Sets the
/// cache.
fn in_a_clean_environment(command: &mut Command) -> &mut Command {
    for name in [
        "RUSTFLAGS",
        "CARGO_ENCODED_RUSTFLAGS",
        "CARGO_BUILD_RUSTFLAGS",
        "CARGO_BUILD_TARGET",
        "CARGO_TARGET_DIR",
        "CARGO_MANIFEST_DIR",
        "LD_LIBRARY_PATH",
        "REHEAP_ALLOCATOR",
        "REHEAP_TUNING",
        "REHEAP_MEMORY_FUNCTIONS",
    ] {
        command.env_remove(name);
    }
    command.env("REHEAP_CACHE_DIR", cache())
}

/// `reheap` with these arguments.
pub(crate) fn reheap(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reheap"));
    in_a_clean_environment(&mut command).args(words(line));
    command
}

/// The command, started by the program of these words.
pub(crate) fn started_by(line: &str, command: &Command) -> Command {
    let words = words(line);
    let mut wrapped = Command::new(words[0]);
    wrapped
        .args(&words[1..])
        .arg(command.get_program())
        .args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(name, value),
            None => wrapped.env_remove(name),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        wrapped.current_dir(directory);
    }
    wrapped
}

/// What a cache has beside its lock and the time of the last look for old entries.
pub(crate) fn kept_in(cache: &Path) -> Vec<String> {
    let entries = fs::read_dir(cache).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let own = ["lock", ".last-look-for-old-entries"];
    names.filter(|name| !own.contains(&&**name)).collect()
}

/// A copy of the preloads in the cache, in a directory that every user may read.
pub(crate) fn cache_for_all(directory: &Path) -> PathBuf {
    let copy = directory.join("cache");
    fs::create_dir(&copy).unwrap();
    let preloads = cache().join("preloads");
    run(Command::new("cp").arg("-a").arg(preloads).arg(&copy)).succeeded();
    run(Command::new("chmod").args(["-R", "go+rX"]).arg(&copy)).succeeded();
    copy
}

/// `cargo reheap` with these arguments, started by Cargo as users start it.
pub(crate) fn cargo_reheap(line: &str) -> Command {
    let programs = Path::new(env!("CARGO_BIN_EXE_cargo-reheap"))
        .parent()
        .unwrap();
    let mut path = programs.as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let mut command = Command::new("cargo");
    in_a_clean_environment(&mut command)
        .env("PATH", path)
        .arg("reheap")
        .args(words(line));
    command
}

/// Wrong usage is found before Cargo or a compiler is started.
#[track_caller]
pub(crate) fn wrong_usage(project: &Project, line: &str, texts: &[&str]) -> Outcome {
    let outcome = run(&mut project.cargo_reheap(line))
        .ended_with(2)
        .said(texts);
    assert!(
        !project.directory.join("target").exists(),
        "something was built"
    );
    outcome
}

/// Writes a file below a directory.
pub(crate) fn write(directory: &Path, path: &str, contents: impl AsRef<[u8]>) -> PathBuf {
    let path = directory.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, contents).unwrap();
    path
}

/// A Cargo project in a directory of its own.
pub(crate) struct Project {
    _temporary: tempfile::TempDir,
    pub(crate) directory: PathBuf,
}

/// The least that allocates and says so.
pub(crate) const HELLO: &str =
    "fn main() { println!(\"{}\", vec![\"hello\"; std::env::args().count()].concat()); }\n";

impl Project {
    /// A project with one program `app` of that source.
    pub(crate) fn new(main: &str) -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let directory = temporary.path().to_owned();
        Self::at(temporary, directory, main)
    }

    /// A project with one program `app` of that source, in a directory of that name.
    pub(crate) fn named(name: &OsStr, main: &str) -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let directory = temporary.path().join(name);
        Self::at(temporary, directory, main)
    }

    fn at(temporary: tempfile::TempDir, directory: PathBuf, main: &str) -> Self {
        let project = Self {
            _temporary: temporary,
            directory,
        };
        project.write(
            "Cargo.toml",
            "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2024\"\n",
        );
        project.write("src/main.rs", main);
        project
    }

    pub(crate) fn write(&self, path: &str, contents: impl AsRef<[u8]>) {
        write(&self.directory, path, contents);
    }

    /// Adds to the end of a file.
    pub(crate) fn append(&self, path: &str, contents: &str) {
        let mut text = fs::read_to_string(self.directory.join(path)).unwrap();
        text.push_str(contents);
        self.write(path, text);
    }

    /// An executable shell script.
    pub(crate) fn script(&self, path: &str, text: &str) -> PathBuf {
        self.write(path, format!("#!/bin/sh\n{text}\n"));
        let path = self.directory.join(path);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// `cargo reheap` in the project's directory.
    pub(crate) fn cargo_reheap(&self, line: &str) -> Command {
        let mut command = cargo_reheap(line);
        command.current_dir(&self.directory);
        command
    }

    /// A path below the target's output directory.
    pub(crate) fn output(&self, path: &str) -> PathBuf {
        self.directory.join("target").join(target()).join(path)
    }

    /// The executable `app` of a debug build.
    pub(crate) fn app(&self) -> PathBuf {
        self.output("debug/app")
    }
}

/// The marker of an executable, if it has one.
#[track_caller]
pub(crate) fn marker_in(executable: &Path) -> Option<FoundMarker> {
    let bytes = fs::read(executable)
        .unwrap_or_else(|error| panic!("cannot read `{}`: {error}", executable.display()));
    marker::read(&bytes).unwrap()
}

/// The allocator in an executable, as its marker says, or `stock`.
#[track_caller]
pub(crate) fn allocator_in(executable: &Path) -> String {
    marker_in(executable).map_or("stock".to_owned(), |found| found.marker.allocator)
}

/// Starts an executable, which must succeed, and gives what it prints.
#[track_caller]
pub(crate) fn prints(executable: &Path) -> String {
    run(&mut Command::new(executable)).succeeded().stdout
}

/// What `readelf` prints of a file.
#[track_caller]
pub(crate) fn readelf(flags: &str, file: &Path) -> String {
    run(Command::new("readelf").arg(flags).arg(file))
        .succeeded()
        .stdout
}

/// The size of PT_GNU_STACK, which musl takes for the stack of threads.
#[track_caller]
pub(crate) fn stack_size(executable: &Path) -> u64 {
    let headers = readelf("-lW", executable);
    let line = headers.lines().find(|line| line.contains("GNU_STACK"));
    let size = line.unwrap().split_whitespace().nth(5).unwrap();
    u64::from_str_radix(size.trim_start_matches("0x"), 16).unwrap()
}

/// Checks that the system would load the file by itself, at any address.
#[track_caller]
pub(crate) fn is_static_pie(file: &Path) {
    let headers = readelf("-hlW", file);
    assert!(
        headers.contains("DYN (") && !headers.contains("INTERP"),
        "{headers}"
    );
}

/// All files below a directory, as paths relative to it, sorted.
pub(crate) fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(next) = directories.pop() {
        for entry in fs::read_dir(&next).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.is_symlink() {
                directories.push(path);
            } else {
                files.push(path.strip_prefix(directory).unwrap().to_owned());
            }
        }
    }
    files.sort();
    files
}

/// Makes a dynamic 32-bit program from a C source. Debian's compiler brings the 32-bit parts of its own library only in
/// packages that take away the cross compilers, so this does without them.
pub(crate) fn compile_for_32_bits(source: &Path, output: &Path) {
    const LIBRARIES: &str = "/usr/lib32";
    let of_libc = |name: &str| Path::new(LIBRARIES).join(name);
    assert!(of_libc("crt1.o").exists(), "no 32-bit libc; {INSTALL}");
    let mut cc = Command::new("cc");
    cc.args(["-m32", "-nostdlib", "-fno-builtin", "-w"])
        .args([of_libc("crt1.o"), of_libc("crti.o")]);
    cc.arg(source).arg("-lc").arg(of_libc("crtn.o"));
    run(cc.arg("-o").arg(output)).succeeded();
}

/// The dynamic linker that programs of glibc name.
pub(crate) fn glibc_linker() -> &'static str {
    match std::env::consts::ARCH {
        "aarch64" => "/lib/ld-linux-aarch64.so.1",
        _ => "/lib64/ld-linux-x86-64.so.2",
    }
}
