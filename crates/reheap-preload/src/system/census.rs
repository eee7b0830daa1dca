//! Finds the programs of a system that a preload would not reach or might break.

use super::root::Root;
use reheap_allocators::target::Libc;
use reheap_elf::identify::{Identity, Kind, LibcName, identify};
use reheap_subject::open_file::OpenFile;
use reheap_subject::program::libraries::Libraries;
use reheap_subject::program::{Obstacle, PreloadOutlook};
use std::collections::{BTreeMap, HashSet};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Where programs are, whatever `PATH` the user's shell has: services count as well.
const DIRECTORIES: [&str; 6] = [
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
];
/// More than any program but those that carry their data along; those are not worth the wait.
const BYTES_MAX: u64 = 200 << 20;
/// Where the program headers are in any file that a linker wrote.
const BEGINNING_BYTES: u64 = 4096;

/// What the census found.
#[derive(Debug, Default)]
pub struct Census {
    /// How many were looked at.
    pub programs: usize,
    /// Programs without a dynamic linker.
    pub static_programs: Vec<String>,
    /// Programs that have their own allocator, or may have one, and what it is.
    pub own_allocators: BTreeMap<String, String>,
}

/// Looks at all programs of the directories that programs are usually in.
pub fn take(root: &Root, libcs: &[Libc]) -> Census {
    let files = files(root);
    let next = AtomicUsize::new(0);
    let census = Mutex::new(Census::default());
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        let open = |path: &Path| root.open_file(path.to_str()?).ok();
        let libraries = Libraries::new(open, Vec::new());
        while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            let Some(seen) = look(root, path) else {
                continue;
            };
            let obstacle = seen.obstacle(path, libcs, &libraries);
            let mut census = census.lock().expect("no thread panics with it");
            census.enter(path, &seen, obstacle);
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            // Where the system gives no thread, the others do its part.
            let _ = thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    let mut census = census.into_inner().expect("no thread panicked with it");
    census.static_programs.sort();
    census
}

impl Census {
    fn enter(&mut self, path: &str, seen: &Seen, obstacle: Option<Obstacle>) {
        self.programs += 1;
        if matches!(seen, Seen::Static) {
            self.static_programs.push(path.to_owned());
        }
        let obstacle = obstacle.map(|obstacle| (path.to_owned(), obstacle.to_string()));
        self.own_allocators.extend(obstacle);
    }
}

impl Seen {
    /// What a preload of one of these libcs meets in it.
    fn obstacle(&self, path: &str, libcs: &[Libc], libraries: &Libraries<'_>) -> Option<Obstacle> {
        let Self::Dynamic(identity) = self else {
            return None;
        };
        let is_concerned = match identity.libc.name {
            LibcName::Glibc => libcs.contains(&Libc::Glibc),
            LibcName::Musl => libcs.contains(&Libc::Musl),
            _ => false,
        };
        let outlook =
            is_concerned.then(|| PreloadOutlook::of(identity, Path::new(path), libraries));
        outlook?.obstacle
    }
}

/// Each file once, by its own name where a link has another.
fn files(root: &Root) -> Vec<String> {
    let names = DIRECTORIES.iter().flat_map(|directory| {
        let names = root.list(directory).into_iter();
        names.map(move |name| format!("{directory}/{name}"))
    });
    let is_link = |path: &String| root.place(path).is_ok_and(|place| place.is_symlink());
    let (links, own): (Vec<String>, Vec<String>) = names.partition(is_link);
    let mut seen = HashSet::new();
    let is_new_program = |path: &String| {
        let Ok(metadata) = root.open_file(path).and_then(|file| file.metadata()) else {
            return false;
        };
        let is_program = metadata.mode() & 0o111 != 0 && metadata.len() <= BYTES_MAX;
        is_program && seen.insert((metadata.dev(), metadata.ino()))
    };
    own.into_iter()
        .chain(links)
        .filter(is_new_program)
        .collect()
}

/// What a program is, as far as it matters here.
enum Seen {
    Static,
    Dynamic(Box<Identity>),
}

fn look(root: &Root, path: &str) -> Option<Seen> {
    let mut file = root.open_file(path).ok()?;
    let mut bytes = Vec::new();
    let mut beginning = (&mut file).take(BEGINNING_BYTES);
    beginning.read_to_end(&mut bytes).ok()?;
    if !bytes.starts_with(b"\x7fELF") {
        return None;
    }
    if is_static(&bytes) {
        return Some(Seen::Static);
    }
    let identity = identify(&OpenFile::new(file).ok()?).ok()?;
    match identity.kind {
        Kind::Static | Kind::StaticPie => Some(Seen::Static),
        Kind::Dynamic => Some(Seen::Dynamic(Box::new(identity))),
        _ => None,
    }
}

/// Whether the beginning of a file shows that it is an executable at a fixed address without a dynamic linker. Those
/// are often the largest programs of a system, and this spares reading them. `Elf64_Ehdr` and `Elf64_Phdr`,
/// little-endian.
fn is_static(beginning: &[u8]) -> bool {
    const CLASS_AND_ORDER: [u8; 2] = [2, 1];
    const ET_EXEC: u64 = 2;
    const PT_INTERP: u64 = 3;
    let number = |offset: usize, size: usize| {
        let bytes = beginning.get(offset..offset.checked_add(size)?)?;
        Some(
            bytes
                .iter()
                .rev()
                .fold(0, |number, &byte| number << 8 | u64::from(byte)),
        )
    };
    let has_interpreter = || {
        let start = usize::try_from(number(0x20, 8)?).ok()?;
        let (size, count) = (number(0x36, 2)? as usize, number(0x38, 2)? as usize);
        let types = (0..count).map(|index| number(start.checked_add(index * size)?, 4));
        let types: Option<Vec<u64>> = types.collect();
        Some(types?.contains(&PT_INTERP))
    };
    beginning.get(4..6) == Some(&CLASS_AND_ORDER)
        && number(0x10, 2) == Some(ET_EXEC)
        && has_interpreter() == Some(false)
}

/// The last part of each path, as many as fit a line, and how many more there are.
pub fn listed<'a>(paths: impl Iterator<Item = &'a String>) -> String {
    const SHOWN_MAX: usize = 8;
    let name = |path: &'a String| {
        let name = Path::new(path).file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    };
    let names: Vec<String> = paths.map(name).collect();
    let shown = names[..names.len().min(SHOWN_MAX)].join(", ");
    match names.len().saturating_sub(SHOWN_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_static_executable_is_known_by_its_first_bytes() {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join("a.c");
        std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
        for (flags, expected) in [
            (&["-static", "-no-pie"][..], true),
            (&["-no-pie"], false),
            (&["-pie"], false),
        ] {
            let program = directory.path().join("a");
            let mut cc = std::process::Command::new("cc");
            cc.args(flags).arg(&source).arg("-o").arg(&program);
            assert!(cc.status().unwrap().success());
            let bytes = std::fs::read(&program).unwrap();
            assert_eq!(is_static(&bytes), expected, "{flags:?}");
            assert!(!is_static(&bytes[..60]));
        }
    }
}
