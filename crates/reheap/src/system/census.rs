//! Which programs of a system a preload would not reach, or might break.

use super::root::Root;
use crate::program;
use reheap_allocators::target::Libc;
use reheap_elf::identify::{Identity, Kind, LibcName, identify};
use std::collections::{BTreeMap, HashSet};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Where programs lie, whatever `PATH` the shell that asks has: what services start counts as well.
const FOLDERS: [&str; 6] = [
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
];
/// More than any program but those that carry their data along; those are not worth the wait.
const BYTES_MAX: u64 = 200 << 20;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Census {
    pub(crate) programs: usize,
    /// Programs without a dynamic linker.
    pub(crate) static_programs: Vec<String>,
    /// Programs that bring an allocator, and what it is.
    pub(crate) own_allocators: BTreeMap<String, String>,
}

/// Looks at all programs of the folders that programs are usually in.
pub(crate) fn take(root: &Root, libcs: &[Libc]) -> Census {
    let files = files(root);
    let next = AtomicUsize::new(0);
    let census = Mutex::new(Census::default());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let Some(identity) = look(root, path) else {
                        continue;
                    };
                    let mut census = census.lock().expect("no thread panics with it");
                    census.enter(path, &identity, libcs);
                }
            });
        }
    });
    let mut census = census.into_inner().expect("no thread panicked with it");
    census.static_programs.sort();
    census
}

impl Census {
    fn enter(&mut self, path: &str, identity: &Identity, libcs: &[Libc]) {
        let is_concerned = match identity.libc.name {
            LibcName::Glibc => libcs.contains(&Libc::Glibc),
            LibcName::Musl => libcs.contains(&Libc::Musl),
            _ => false,
        };
        match identity.kind {
            Kind::Static | Kind::StaticPie => self.static_programs.push(path.to_owned()),
            Kind::Dynamic if is_concerned => {
                let own = program::own_allocator(identity);
                self.own_allocators
                    .extend(own.map(|what| (path.to_owned(), what)));
            }
            Kind::Dynamic => {}
            _ => return,
        }
        self.programs += 1;
    }
}

/// Each file once, by whichever name comes first.
fn files(root: &Root) -> Vec<String> {
    let mut seen = HashSet::new();
    let mut files = Vec::new();
    for folder in FOLDERS {
        for name in root.list(folder) {
            let path = format!("{folder}/{name}");
            let Ok(metadata) = root.open_file(&path).and_then(|file| file.metadata()) else {
                continue;
            };
            let is_program = metadata.mode() & 0o111 != 0 && metadata.len() <= BYTES_MAX;
            if is_program && seen.insert((metadata.dev(), metadata.ino())) {
                files.push(path);
            }
        }
    }
    files
}

fn look(root: &Root, path: &str) -> Option<Identity> {
    let mut file = root.open_file(path).ok()?;
    let mut bytes = vec![0; 4];
    file.read_exact(&mut bytes).ok()?;
    if bytes != *b"\x7fELF" {
        return None;
    }
    file.read_to_end(&mut bytes).ok()?;
    identify(&bytes).ok()
}

/// The last part of each path, as many as fit a line, and how many more there are.
pub(crate) fn listed<'a>(paths: impl Iterator<Item = &'a String>) -> String {
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
