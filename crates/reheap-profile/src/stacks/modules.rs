//! The files whose code runs in the watched processes.

use super::elf::{Bytes, Elf};
use reheap_proc::maps::{self, Mapping};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Which of [`Modules`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModuleId(u32);

/// A file with code, or memory with code and without a file.
#[derive(Debug)]
pub struct Module {
    /// Its path; `[vdso]` and the like for what has none, and `[anonymous]` for code that a program made itself.
    pub path: PathBuf,
    /// What is in the file; `None` if it could not be read.
    pub elf: Option<Arc<Elf>>,
}

impl Module {
    /// The last part of the path: what people call it.
    pub fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or(self.path.as_os_str());
        name.to_string_lossy().into_owned()
    }
}

/// What makes two mappings the same file. The device is left out: file systems such as btrfs and overlayfs show another
/// in `/proc/PID/maps` than for the file. A file that is deleted keeps its number, because it stays open here.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct FileKey {
    path: PathBuf,
    inode: u64,
}

/// All modules of all processes, each once.
#[derive(Debug, Default)]
pub struct Modules {
    modules: Vec<Module>,
    by_file: HashMap<FileKey, ModuleId>,
}

impl Modules {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// One of them.
    ///
    /// # Panics
    /// If the identifier is of other modules.
    pub fn get(&self, id: ModuleId) -> &Module {
        &self.modules[id.0 as usize]
    }

    /// The module that a mapping is of. Its file is opened, if this is its first; `pid` is the process, if it still
    /// runs.
    pub fn of(&mut self, mapping: &Mapping, pid: Option<u32>) -> ModuleId {
        let named = !mapping.path.as_os_str().is_empty();
        let key = FileKey {
            path: if named {
                mapping.path.clone()
            } else {
                PathBuf::from("[anonymous]")
            },
            inode: mapping.inode,
        };
        if let Some(id) = self.by_file.get(&key) {
            return *id;
        }
        let bytes = match mapping.inode {
            0 if mapping.path == Path::new("[vdso]") => vdso(mapping.end - mapping.start),
            0 => None,
            _ => open(mapping, pid).map(Bytes::File),
        };
        let id = ModuleId(u32::try_from(self.modules.len()).expect("fewer than 2^32 files"));
        self.modules.push(Module {
            path: key.path.clone(),
            elf: bytes.and_then(Elf::parse).map(Arc::new),
        });
        self.by_file.insert(key, id);
        id
    }
}

/// The very file that is mapped. A path may be of another one by now: of a package's new version, or in another root
/// directory than that of the process.
fn open(mapping: &Mapping, pid: Option<u32>) -> Option<File> {
    let mut candidates = Vec::new();
    if let Some(pid) = pid {
        let process = PathBuf::from(format!("/proc/{pid}"));
        if !mapping.is_deleted {
            let in_root = mapping.path.strip_prefix("/").unwrap_or(&mapping.path);
            candidates.push(process.join("root").join(in_root));
        }
        candidates.push(process.join("exe"));
        candidates.push(process.join(format!("map_files/{:x}-{:x}", mapping.start, mapping.end)));
    }
    if !mapping.is_deleted {
        candidates.push(mapping.path.clone());
    }
    candidates
        .into_iter()
        .find_map(|path| open_inode(&path, mapping.inode))
}

fn open_inode(path: &Path, inode: u64) -> Option<File> {
    // Before it is opened: opening a pipe would wait for ever.
    let is_it = |metadata: fs::Metadata| metadata.is_file() && metadata.ino() == inode;
    if !is_it(fs::metadata(path).ok()?) {
        return None;
    }
    let file = File::open(path).ok()?;
    is_it(file.metadata().ok()?).then_some(file)
}

/// The vdso is not in a file, but the kernel gives all processes the same, this one too.
fn vdso(size: u64) -> Option<Bytes> {
    let own = maps::parse(&fs::read("/proc/self/maps").ok()?)
        .into_iter()
        .find(|mapping| mapping.path == Path::new("[vdso]"))?;
    if own.end - own.start != size {
        return None; // of a program of 32 bits
    }
    let mut memory = File::open("/proc/self/mem").ok()?;
    memory.seek(SeekFrom::Start(own.start)).ok()?;
    let mut bytes = vec![0; usize::try_from(size).ok()?];
    memory.read_exact(&mut bytes).ok()?;
    Some(Bytes::Memory(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_process_and_its_vdso_are_read_once() {
        let text = fs::read("/proc/self/maps").expect("it is there");
        let mut modules = Modules::new();
        let mut own = Vec::new();
        for mapping in maps::parse(&text)
            .iter()
            .filter(|mapping| mapping.is_executable)
        {
            let id = modules.of(mapping, Some(std::process::id()));
            assert_eq!(modules.of(mapping, None), id);
            let name = modules.get(id).name();
            if mapping.inode != 0 || name == "[vdso]" {
                let elf = modules.get(id).elf.as_ref();
                assert!(elf.is_some_and(|elf| elf.build_id().is_some()), "{name}");
                own.push(name);
            }
        }
        assert!(own.iter().any(|name| name == "[vdso]"), "{own:?}");
        assert!(
            own.iter().any(|name| name.starts_with("libc.so")),
            "{own:?}"
        );
    }

    #[test]
    fn another_file_at_the_same_path_is_not_taken() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("program");
        let program = std::env::current_exe().expect("this program");
        fs::copy(&program, &path).expect("it can be copied");
        let mapping = |inode| Mapping {
            start: 0x1000,
            end: 0x2000,
            is_executable: true,
            offset: 0,
            inode,
            path: path.clone(),
            ..Mapping::default()
        };
        let inode = fs::metadata(&path).expect("it is there").ino();
        let mut modules = Modules::new();
        let right = modules.of(&mapping(inode), None);
        let wrong = modules.of(&mapping(inode + 1), None);
        assert!(modules.get(right).elf.is_some());
        assert!(modules.get(wrong).elf.is_none());
    }
}
