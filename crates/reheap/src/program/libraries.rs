//! Finds the libraries that the dynamic linker will load for a program, without starting anything.
//!
//! `ldd` would tell, but it starts the program's own dynamic linker, and reheap must not run one from an untrusted
//! tree. So reheap follows the order of ld.so(8): `DT_RPATH`, `LD_LIBRARY_PATH`, `DT_RUNPATH`, the cache, the usual
//! directories; musl has a list of directories in place of the cache.

use crate::opened::Opened;
use reheap_allocators::target::Libc;
use reheap_elf::linkage::{self, Linkage};
use reheap_elf::source::Source as _;
use std::cell::{OnceCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// More than any program has.
const LIBRARIES_MAX: usize = 1000;
const CACHE: &str = "/etc/ld.so.cache";
const CACHE_BYTES_MAX: u64 = 64 << 20;

/// Opens a file of the system by its path there.
type Open<'a> = Box<dyn Fn(&Path) -> Option<Opened> + 'a>;

/// Where libraries are looked for.
pub(crate) struct Libraries<'a> {
    open: Open<'a>,
    /// `LD_LIBRARY_PATH`.
    first: Vec<PathBuf>,
    architecture: String,
    cache: OnceCell<HashMap<String, PathBuf>>,
    known: RefCell<HashMap<PathBuf, Option<Rc<Linkage>>>>,
}

/// A file that is loaded.
#[derive(Debug, Clone)]
pub(crate) struct Loaded {
    /// The name by which it was asked for; a program's is its path.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    linkage: Rc<Linkage>,
}

/// All that is loaded, in the order in which names are looked up.
#[derive(Debug, Default)]
pub(crate) struct Closure {
    pub(crate) loaded: Vec<Loaded>,
    /// The names that were not found.
    pub(crate) missing: Vec<String>,
}

impl<'a> Libraries<'a> {
    /// Those of a system whose files are opened by `open`, with the directories that come before all others.
    pub(crate) fn new(open: impl Fn(&Path) -> Option<File> + 'a, first: Vec<PathBuf>) -> Self {
        let open = move |path: &Path| Opened::new(open(path)?).ok();
        Self::of_image(open, first, std::env::consts::ARCH)
    }

    /// Those of a system that may be for another processor, and whose files may be parts of others.
    pub(crate) fn of_image(
        open: impl Fn(&Path) -> Option<Opened> + 'a,
        first: Vec<PathBuf>,
        architecture: &str,
    ) -> Self {
        Self {
            open: Box::new(open),
            first,
            architecture: architecture.to_owned(),
            cache: OnceCell::new(),
            known: RefCell::default(),
        }
    }

    pub(crate) fn open(&self, path: &Path) -> Option<Opened> {
        (self.open)(path)
    }

    /// What the dynamic linker loads for a program: it first, then breadth first what is needed.
    pub(crate) fn closure(&self, program: &Path, libc: Libc) -> Closure {
        let mut closure = Closure::default();
        let Some(linkage) = self.linkage(program) else {
            return closure;
        };
        closure.loaded.push(Loaded {
            name: program.display().to_string(),
            path: program.to_owned(),
            linkage,
        });
        let mut asked = HashSet::new();
        let mut next = 0;
        while next < closure.loaded.len().min(LIBRARIES_MAX) {
            let by = closure.loaded[next].clone();
            next += 1;
            for name in &by.linkage.needed {
                if is_the_dynamic_linker(name, libc) || !asked.insert(name.clone()) {
                    continue;
                }
                match self.find(name, &by, &closure.loaded[0], libc) {
                    Some(found) => closure.loaded.push(found),
                    None => closure.missing.push(name.clone()),
                }
            }
        }
        closure
    }

    /// The file that the dynamic linker takes for a name in `LD_PRELOAD`, or for one that a preload needs.
    pub(crate) fn find_preload(&self, name: &str, program: &Path, libc: Libc) -> Option<PathBuf> {
        let closure = self.closure(program, libc);
        let mut loaded = closure.loaded.iter();
        if let Some(loaded) = loaded.find(|loaded| loaded.name == name) {
            return Some(loaded.path.clone());
        }
        // It names no directories of its own.
        let preload = Loaded {
            name: String::new(),
            path: PathBuf::new(),
            linkage: Rc::default(),
        };
        let found = self.find(name, &preload, closure.loaded.first()?, libc)?;
        Some(found.path)
    }

    /// Which of the names that a preload needs the dynamic linker would not find for a program.
    pub(crate) fn missing_for_preload(
        &self,
        needed: &[String],
        program: &Path,
        libc: Libc,
    ) -> Vec<String> {
        let is_there = |name: &str| {
            is_the_dynamic_linker(name, libc) || self.find_preload(name, program, libc).is_some()
        };
        let missing = needed.iter().filter(|name| !is_there(name));
        missing.cloned().collect()
    }

    /// The address space that a program needs before it does anything: its own file, its libraries and its dynamic
    /// linker.
    pub(crate) fn mapped_bytes(&self, program: &Path, interpreter: &Path, libc: Libc) -> u64 {
        let closure = self.closure(program, libc);
        let loaded = closure.loaded.iter().map(|loaded| &loaded.linkage);
        let loaded = loaded.map(|linkage| linkage.mapped_bytes);
        let interpreter = self.linkage(interpreter);
        let interpreter = interpreter.map(|linkage| linkage.mapped_bytes);
        loaded.chain(interpreter).fold(0, u64::saturating_add)
    }

    fn find(&self, name: &str, by: &Loaded, program: &Loaded, libc: Libc) -> Option<Loaded> {
        if name.contains('/') {
            return self.at(Path::new(name), name);
        }
        let mut directories = Vec::new();
        if by.linkage.runpath.is_none() {
            for file in [by, program] {
                directories.extend(listed(file.linkage.rpath.as_deref(), &file.path));
            }
        }
        directories.extend(self.first.iter().cloned());
        directories.extend(listed(by.linkage.runpath.as_deref(), &by.path));
        let at_first = directories
            .iter()
            .find_map(|directory| self.at(&directory.join(name), name));
        let cached = || {
            let path = self.cache(libc).get(name)?;
            self.at(path, name)
        };
        let in_usual_directory = || {
            let mut directories = self.usual_directories(libc).into_iter();
            directories.find_map(|directory| self.at(&directory.join(name), name))
        };
        at_first.or_else(cached).or_else(in_usual_directory)
    }

    fn at(&self, path: &Path, name: &str) -> Option<Loaded> {
        Some(Loaded {
            name: name.to_owned(),
            path: path.to_owned(),
            linkage: self.linkage(path)?,
        })
    }

    fn linkage(&self, path: &Path) -> Option<Rc<Linkage>> {
        if let Some(known) = self.known.borrow().get(path) {
            return known.clone();
        }
        let file = self.open(path);
        let linkage = file.and_then(|file| linkage::read(&file).ok()).map(Rc::new);
        let mut known = self.known.borrow_mut();
        known.insert(path.to_owned(), linkage.clone());
        linkage
    }

    fn cache(&self, libc: Libc) -> &HashMap<String, PathBuf> {
        self.cache.get_or_init(|| match libc {
            Libc::Glibc => {
                let bytes = self.text(Path::new(CACHE)).unwrap_or_default();
                cached(&bytes, &self.architecture).unwrap_or_default()
            }
            Libc::Musl => HashMap::new(),
        })
    }

    fn usual_directories(&self, libc: Libc) -> Vec<PathBuf> {
        let arch = &self.architecture;
        match libc {
            Libc::Glibc => [
                &format!("/lib/{arch}-linux-gnu"),
                &format!("/usr/lib/{arch}-linux-gnu"),
                "/lib64",
                "/usr/lib64",
                "/lib",
                "/usr/lib",
            ]
            .map(PathBuf::from)
            .to_vec(),
            Libc::Musl => {
                let listed = self.text(Path::new(&format!("/etc/ld-musl-{arch}.path")));
                let listed = listed.unwrap_or_else(|| b"/lib:/usr/local/lib:/usr/lib".to_vec());
                let listed = String::from_utf8_lossy(&listed).into_owned();
                let directories = listed
                    .split([':', '\n'])
                    .filter(|directory| !directory.is_empty());
                directories.map(PathBuf::from).collect()
            }
        }
    }

    fn text(&self, path: &Path) -> Option<Vec<u8>> {
        let file = (self.open)(path)?;
        let mut bytes = vec![0; file.size_bytes().min(CACHE_BYTES_MAX) as usize];
        file.read_at(0, &mut bytes).ok()?;
        Some(bytes)
    }
}

/// It is already loaded, and musl's is the libc as well.
fn is_the_dynamic_linker(name: &str, libc: Libc) -> bool {
    match libc {
        Libc::Glibc => name.starts_with("ld-linux") || name.starts_with("ld64.so"),
        Libc::Musl => name.starts_with("libc.") || name.starts_with("ld-musl-"),
    }
}

/// The directories of a list, for a file of this path.
fn listed(list: Option<&str>, file: &Path) -> Vec<PathBuf> {
    let origin = file.parent().unwrap_or(Path::new("/")).to_string_lossy();
    let directories = list.unwrap_or_default().split(':');
    directories
        .filter(|directory| !directory.is_empty())
        .map(|directory| {
            let directory = directory.replace("${ORIGIN}", &origin);
            PathBuf::from(directory.replace("$ORIGIN", &origin))
        })
        .collect()
}

/// The libraries in glibc's cache (`sysdeps/generic/dl-cache.h`: `struct cache_file_new`), for a processor.
pub(crate) fn cached(bytes: &[u8], architecture: &str) -> Option<HashMap<String, PathBuf>> {
    const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
    const HEADER_BYTES: usize = 48;
    const ENTRY_BYTES: usize = 24;
    // `FLAG_ELF_LIBC6` and that of the architecture
    let flags: u32 = match architecture {
        "aarch64" => 0x0a03,
        _ => 0x0303,
    };
    // Before 2.2 there was another table in front of it, and up to 2.32 there still could be.
    let start = bytes.windows(MAGIC.len()).position(|part| part == MAGIC)?;
    let table = &bytes[start..];
    let number = |at: usize| {
        let bytes = table.get(at..at + 4)?;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?))
    };
    let text = |at: u32| {
        let rest = table.get(at as usize..)?;
        let end = rest.iter().position(|&byte| byte == 0)?;
        std::str::from_utf8(&rest[..end]).ok()
    };
    let count = number(MAGIC.len())? as usize;
    let mut libraries = HashMap::new();
    for entry in 0..count.min(table.len() / ENTRY_BYTES) {
        let at = HEADER_BYTES + entry * ENTRY_BYTES;
        if number(at)? == flags {
            let (name, path) = (text(number(at + 4)?)?, text(number(at + 8)?)?);
            // The first is for the most able processor; which of them is taken makes no difference for names.
            libraries
                .entry(name.to_owned())
                .or_insert_with(|| PathBuf::from(path));
        }
    }
    Some(libraries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::env::consts::ARCH;
    use std::process::Command;

    fn of_this_system() -> Libraries<'static> {
        Libraries::new(|path| File::open(path).ok(), Vec::new())
    }

    /// ldd(1) asks the dynamic linker itself.
    #[test]
    fn the_libraries_of_a_program_are_those_that_ldd_names() {
        let program = std::env::current_exe().unwrap();
        let closure = of_this_system().closure(&program, Libc::Glibc);
        assert_eq!(closure.missing, Vec::<String>::new());
        let output = Command::new("ldd").arg(&program).output().unwrap();
        let told = String::from_utf8(output.stdout).unwrap();
        let mut told: Vec<&str> = told
            .lines()
            .filter(|line| line.contains("=>"))
            .filter_map(|line| line.split_whitespace().next())
            .collect();
        let loaded = closure.loaded[1..].iter();
        let mut found: Vec<&str> = loaded.map(|loaded| loaded.name.as_str()).collect();
        told.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, told);
    }

    #[test]
    fn a_damaged_cache_is_an_empty_one_and_never_a_panic() {
        let cache = std::fs::read(CACHE).unwrap();
        assert!(cached(&cache, ARCH).unwrap().contains_key("libc.so.6"));
        for length in (0..cache.len()).step_by(997) {
            let _ = cached(&cache[..length], ARCH);
        }
        assert!(cached(b"text", ARCH).is_none());
    }

    #[test]
    fn directories_of_a_list_are_seen_from_the_file_that_has_it() {
        let file = Path::new("/opt/app/bin/app");
        let directories = listed(Some("$ORIGIN/../lib:/usr/lib::${ORIGIN}"), file);
        assert_eq!(
            directories,
            ["/opt/app/bin/../lib", "/usr/lib", "/opt/app/bin"].map(PathBuf::from)
        );
        assert!(listed(None, file).is_empty());
    }
}
