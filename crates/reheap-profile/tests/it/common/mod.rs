//! What the tests of this crate share: programs that are built here, and a hooks library that only counts.

use reheap_elf::marker::{self, Marker};
use reheap_profile::inject::HooksLibrary;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Far longer than anything takes on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(300);

/// A directory that goes when the value does.
pub(crate) fn scratch_directory() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("the build directory is writable")
}

pub(crate) fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/programs")
        .join(name)
}

/// Copies what was compiled elsewhere for a machine that has no compiler; see `xtask/src/targets.rs`.
fn is_prebuilt(output: &Path) -> bool {
    let Some(directory) = std::env::var_os("REHEAP_TEST_PROGRAMS") else {
        return false;
    };
    let name = output.file_name().expect("it has a name");
    std::fs::copy(Path::new(&directory).join(name), output).expect("it was compiled");
    true
}

/// Runs a tool, which must succeed.
#[track_caller]
pub(crate) fn tool(command: &mut Command) {
    let output = command.output();
    let output = output.unwrap_or_else(|error| {
        panic!("{command:?}: {error}; apt-get install -y gcc libc6-dev musl-tools binutils")
    });
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}:\n{stderr}");
}

/// How a C program is linked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    Glibc,
    GlibcPie,
    Musl,
    Dynamic,
    MuslDynamic,
}

/// Compiles a C program of these tests; builtins are off, because a compiler may remove a malloc.
#[track_caller]
pub(crate) fn compile(name: &str, link: Link, directory: &Path) -> PathBuf {
    let output = directory.join(format!("{name}-{link:?}"));
    if is_prebuilt(&output) {
        return output;
    }
    let (compiler, flag) = match link {
        Link::Glibc => ("cc", "-static"),
        Link::GlibcPie => ("cc", "-static-pie"),
        Link::Musl => ("musl-gcc", "-static"),
        Link::Dynamic => ("cc", "-pie"),
        Link::MuslDynamic => ("musl-gcc", "-pie"),
    };
    let mut command = Command::new(compiler);
    command.args(["-std=gnu11", "-O2", "-fno-builtin", "-pthread", flag]);
    command
        .arg(source(&format!("{name}.c")))
        .arg("-o")
        .arg(&output);
    tool(&mut command);
    output
}

/// A copy of a program without symbols.
#[track_caller]
pub(crate) fn strip(program: &Path) -> PathBuf {
    let stripped = program.with_extension("stripped");
    tool(Command::new("strip").arg(program).arg("-o").arg(&stripped));
    stripped
}

/// Compiles a C program with musl and reheap's marker, which says that musl's malloc is the allocator.
#[track_caller]
pub(crate) fn compile_with_marker(name: &str, directory: &Path) -> PathBuf {
    let marker = Marker {
        allocator: "system".to_owned(),
        allocator_version: "1".to_owned(),
        package: "none".to_owned(),
        tuning: BTreeMap::new(),
        memory_functions: None,
        libc: "musl".to_owned(),
        original_sha256: String::new(),
        reheap: "0".to_owned(),
    };
    let architecture = reheap_elf::Architecture::ALL
        .into_iter()
        .find(|architecture| architecture.name() == std::env::consts::ARCH);
    let note = marker::object_file(&marker, &[], architecture.unwrap().into(), str::to_owned);
    let object = directory.join("marker.o");
    std::fs::write(&object, note).unwrap();
    compile_with_object(name, "marker", &object, directory)
}

/// Compiles a program with a marker of the first type, which says nothing of aligned functions.
#[track_caller]
pub(crate) fn compile_with_old_marker(name: &str, directory: &Path) -> PathBuf {
    let words: String = ["malloc", "calloc", "realloc", "free"]
        .iter()
        .map(|function| format!(".quad {function}-., {function}-.\n"))
        .collect();
    let text = r#"{\"allocator\":\"system\",\"allocator_version\":\"1\",\"package\":\"none\",\"libc\":\"musl\",\"reheap\":\"0\"}"#;
    let note = format!(
        ".section .note.reheap,\"a\",%note\n.p2align 2\n.long 7, 2f-1f, 1\n.asciz \"reheap\"\n.p2align 2\n\
         1:\n{words}.ascii \"{text}\"\n2:\n.p2align 2\n.section .note.GNU-stack,\"\",%progbits\n"
    );
    let assembly = directory.join("old-marker.s");
    std::fs::write(&assembly, note).unwrap();
    compile_with_object(name, "old-marker", &assembly, directory)
}

#[track_caller]
fn compile_with_object(name: &str, way: &str, object: &Path, directory: &Path) -> PathBuf {
    let output = directory.join(format!("{name}-{way}"));
    let mut command = Command::new("musl-gcc");
    command.args(["-std=gnu11", "-O2", "-fno-builtin", "-pthread", "-static"]);
    command
        .arg(source(&format!("{name}.c")))
        .arg(object)
        .arg("-o")
        .arg(&output);
    tool(&mut command);
    output
}

/// The hooks library of these tests, compiled once.
#[track_caller]
pub(crate) fn hooks() -> HooksLibrary {
    static HOOKS: OnceLock<HooksLibrary> = OnceLock::new();
    let library = HOOKS.get_or_init(|| {
        let directory = scratch_directory();
        let output = directory.path().join("hooks.so");
        if is_prebuilt(&output) {
            return HooksLibrary::parse(&std::fs::read(output).unwrap()).unwrap();
        }
        let mut command = Command::new("cc");
        command.args([
            "-O2",
            "-fPIC",
            "-shared",
            "-nostdlib",
            "-fvisibility=hidden",
        ]);
        command.args(["-fno-stack-protector", "-Wl,-Bsymbolic"]);
        command.arg(source("hooks.c")).arg("-o").arg(&output);
        tool(&mut command);
        HooksLibrary::parse(&std::fs::read(output).unwrap()).unwrap()
    });
    library.clone()
}

/// The names of the counters, in the order of the hooks library.
pub(crate) const COUNTERS: [&str; 26] = [
    "malloc",
    "calloc",
    "realloc",
    "free",
    "aligned_alloc",
    "posix_memalign",
    "memalign",
    "valloc",
    "pvalloc",
    "reallocarray",
    "je_malloc",
    "je_calloc",
    "je_realloc",
    "je_mallocx",
    "je_rallocx",
    "je_sdallocx",
    "je_free",
    "mi_malloc",
    "mi_zalloc",
    "mi_calloc",
    "mi_realloc",
    "mi_free",
    "mi_malloc_aligned",
    "mi_zalloc_aligned",
    "mi_realloc_aligned",
    "inside",
];

/// What the hooks write to.
pub(crate) struct Recording {
    pub(crate) path: PathBuf,
    file: File,
}

impl Recording {
    pub(crate) fn new(directory: &Path) -> Self {
        std::fs::create_dir_all(directory).unwrap();
        let path = directory.join("recording");
        let file = File::create_new(&path).unwrap();
        file.set_len(1 << 20).unwrap();
        let file = File::options()
            .read(true)
            .write(true)
            .open(&path)
            .unwrap_or(file);
        Self { path, file }
    }

    pub(crate) fn count(&self, name: &str) -> u64 {
        let index = COUNTERS.iter().position(|counter| *counter == name);
        let mut word = [0; 8];
        let offset = 8 * index.expect("a counter") as u64;
        self.file.read_exact_at(&mut word, offset).unwrap();
        u64::from_le_bytes(word)
    }

    /// All counters that are not zero.
    pub(crate) fn counts(&self) -> Vec<(&'static str, u64)> {
        COUNTERS
            .into_iter()
            .map(|name| (name, self.count(name)))
            .filter(|(_, count)| *count > 0)
            .collect()
    }
}

/// Waits until a condition holds.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < DEADLINE, "waited too long until {what}");
        sleep(Duration::from_millis(2));
    }
}

/// Waits until a process ends by itself.
#[track_caller]
pub(crate) fn ends(child: &mut Child) -> ExitStatus {
    let mut status = None;
    wait_until("the program ends", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    status.expect("it ended")
}
