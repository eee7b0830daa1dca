//! Finds the libraries that the dynamic linker will load for a program, without starting anything.
//!
//! `ldd` would tell, but it starts the program's own dynamic linker, and reheap must not run one from an untrusted
//! tree. So reheap follows the order of ld.so(8): `DT_RPATH`, `LD_LIBRARY_PATH`, `DT_RUNPATH`, the cache, the usual
//! directories; musl has a list of directories in place of the cache.
//!
//! A hostile image may name a thousand libraries in ten thousand directories, and let each entry of its cache have the same
//! name of a megabyte. So each of these has a limit, and none is more than programs and systems have.

use crate::open_file::OpenFile;
use reheap_allocators::target::Libc;
use reheap_elf::linkage::{self, Linkage};
use reheap_elf::source::Source as _;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// More than any program has.
const LIBRARIES_MAX: usize = 1000;
const CACHE: &str = "/etc/ld.so.cache";
/// Twenty times as much as a system with thousands of libraries has.
const CACHE_BYTES_MAX: u64 = 4 << 20;
const MUSLS_LIST_BYTES_MAX: u64 = 64 << 10;
/// How often a search may fail for one program. Those with the longest lists of directories fail some ten thousand times.
const MISSES_MAX: usize = 50_000;
/// Linux opens no path that is as long (limits.h).
pub(crate) const PATH_MAX: usize = 4096;

/// Opens a file of the system by its path there.
type Open<'a> = Box<dyn Fn(&Path) -> Option<OpenFile> + 'a>;

/// Where libraries are looked for.
pub struct Libraries<'a> {
    open: Open<'a>,
    /// `LD_LIBRARY_PATH`.
    first: Vec<PathBuf>,
    architecture: String,
    cache: OnceCell<HashMap<String, PathBuf>>,
    usual_of_musl: OnceCell<Vec<PathBuf>>,
    /// What is known of files that were found. There is no end of others.
    known: RefCell<HashMap<PathBuf, Rc<Linkage>>>,
    /// How often something was not found for the latest program.
    misses: Cell<usize>,
}

/// A file that is loaded.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The name by which it was asked for; a program's is its path.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    linkage: Rc<Linkage>,
}

/// All that is loaded, in the order in which names are looked up.
#[derive(Debug, Default)]
pub struct Closure {
    /// The libraries that were found, in the order in which they are searched for a name.
    pub loaded: Vec<Loaded>,
    /// The names that were not found.
    pub missing: Vec<String>,
}

impl<'a> Libraries<'a> {
    /// The libraries of a system whose files are opened by `open`, with the directories that come before all others.
    pub fn new(open: impl Fn(&Path) -> Option<File> + 'a, first: Vec<PathBuf>) -> Self {
        let open = move |path: &Path| OpenFile::new(open(path)?).ok();
        Self::of_image(open, first, std::env::consts::ARCH)
    }

    /// The libraries of a system that may be for another processor, and whose files may be parts of others.
    pub fn of_image(
        open: impl Fn(&Path) -> Option<OpenFile> + 'a,
        mut first: Vec<PathBuf>,
        architecture: &str,
    ) -> Self {
        first.retain(|directory| directory.as_os_str().len() < PATH_MAX);
        Self {
            open: Box::new(open),
            first,
            architecture: architecture.to_owned(),
            cache: OnceCell::new(),
            usual_of_musl: OnceCell::new(),
            known: RefCell::default(),
            misses: Cell::new(0),
        }
    }

    /// Opens a library's file as the program would.
    pub fn open(&self, path: &Path) -> Option<OpenFile> {
        (self.open)(path)
    }

    /// What the dynamic linker loads for a program: it first, then breadth first what is needed.
    pub fn closure(&self, program: &Path, libc: Libc) -> Closure {
        let mut closure = Closure::default();
        self.misses.set(0);
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
                if self.misses.get() >= MISSES_MAX {
                    return closure;
                }
            }
        }
        closure
    }

    /// The file that the dynamic linker takes for a name in `LD_PRELOAD`, or for one that a preload needs, in a program
    /// whose own libraries are known.
    pub fn find_preload(&self, name: &str, closure: &Closure, libc: Libc) -> Option<PathBuf> {
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
    pub fn missing_for_preload(
        &self,
        needed: &[String],
        program: &Path,
        libc: Libc,
    ) -> Vec<String> {
        let closure = self.closure(program, libc);
        let is_there = |name: &str| {
            is_the_dynamic_linker(name, libc) || self.find_preload(name, &closure, libc).is_some()
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
        let with_rpath = [by, program].into_iter();
        let with_rpath = with_rpath.filter(|_| by.linkage.runpath.is_none());
        let mut directories = with_rpath
            .flat_map(|file| listed(file.linkage.rpath.as_deref(), &file.path))
            .chain(self.first.iter().cloned())
            .chain(listed(by.linkage.runpath.as_deref(), &by.path));
        let at_first = directories.find_map(|directory| self.at(&directory.join(name), name));
        let cached = || match libc {
            Libc::Glibc => self.at(self.cache().get(name)?, name),
            Libc::Musl => None,
        };
        let in_usual_directory = || {
            let mut directories = self.usual_directories(libc);
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
            return Some(known.clone());
        }
        let misses = self.misses.get();
        let is_sought = misses < MISSES_MAX && path.as_os_str().len() < PATH_MAX;
        let file = is_sought.then(|| self.open(path)).flatten();
        let Some(linkage) = file.and_then(|file| linkage::read(&file).ok()) else {
            self.misses.set(misses + 1);
            return None;
        };
        let linkage = Rc::new(linkage);
        let mut known = self.known.borrow_mut();
        known.insert(path.to_owned(), linkage.clone());
        Some(linkage)
    }

    /// What the cache of glibc's dynamic linker lists (ld.so.cache).
    fn cache(&self) -> &HashMap<String, PathBuf> {
        self.cache.get_or_init(|| {
            let bytes = self.text(Path::new(CACHE), CACHE_BYTES_MAX);
            cached(&bytes.unwrap_or_default(), &self.architecture).unwrap_or_default()
        })
    }

    fn usual_directories(&self, libc: Libc) -> Box<dyn Iterator<Item = PathBuf> + '_> {
        let arch = &self.architecture;
        match libc {
            Libc::Glibc => Box::new(
                [
                    &format!("/lib/{arch}-linux-gnu"),
                    &format!("/usr/lib/{arch}-linux-gnu"),
                    "/lib64",
                    "/usr/lib64",
                    "/lib",
                    "/usr/lib",
                ]
                .map(PathBuf::from)
                .into_iter(),
            ),
            Libc::Musl => Box::new(self.usual_of_musl().iter().cloned()),
        }
    }

    fn usual_of_musl(&self) -> &[PathBuf] {
        self.usual_of_musl.get_or_init(|| {
            let list = format!("/etc/ld-musl-{}.path", self.architecture);
            let listed = self.text(Path::new(&list), MUSLS_LIST_BYTES_MAX);
            let listed = listed.unwrap_or_else(|| b"/lib:/usr/local/lib:/usr/lib".to_vec());
            let text = String::from_utf8_lossy(&listed);
            let directories = text.split([':', '\n']);
            directories
                .filter(|directory| !directory.is_empty())
                .map(PathBuf::from)
                .collect()
        })
    }

    /// The beginning of a file.
    fn text(&self, path: &Path, bytes_max: u64) -> Option<Vec<u8>> {
        let file = (self.open)(path)?;
        let mut bytes = vec![0; file.size_bytes().min(bytes_max) as usize];
        file.read_at(0, &mut bytes).ok()?;
        Some(bytes)
    }
}

/// Whether a name is the dynamic linker's. That is already loaded, and musl's is the libc as well.
fn is_the_dynamic_linker(name: &str, libc: Libc) -> bool {
    match libc {
        Libc::Glibc => name.starts_with("ld-linux") || name.starts_with("ld64.so"),
        Libc::Musl => name.starts_with("libc.") || name.starts_with("ld-musl-"),
    }
}

/// The directories of a list, for a file of this path.
fn listed<'a>(list: Option<&'a str>, file: &'a Path) -> impl Iterator<Item = PathBuf> + 'a {
    let origin = file.parent().unwrap_or(Path::new("/")).to_string_lossy();
    let directories = list.unwrap_or_default().split(':');
    directories
        .filter(|directory| !directory.is_empty() && directory.len() < PATH_MAX)
        .map(move |directory| {
            // It begins at `/`, so nothing is before it or between two of them.
            let directory = directory.replacen("${ORIGIN}", &origin, 1);
            PathBuf::from(directory.replacen("$ORIGIN", &origin, 1))
        })
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
    // A text may be the end of another one, but all texts of a real cache together are no longer than this.
    let mut left = 4 * table.len();
    let mut text = |at: u32| {
        let rest = table.get(at as usize..)?;
        let end = rest.iter().take(left).position(|&byte| byte == 0)?;
        left -= end;
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
    use std::io::Write as _;
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

    /// A cache whose names are also the paths, and begin at these places of its texts.
    fn cache(names: impl ExactSizeIterator<Item = usize>, texts: &[u8]) -> Vec<u8> {
        let count = names.len();
        let mut cache = b"glibc-ld.so.cache1.1".to_vec();
        cache.extend(
            [count as u32, texts.len() as u32]
                .map(u32::to_ne_bytes)
                .concat(),
        );
        cache.resize(48, 0);
        let flags = if ARCH == "aarch64" { 0x0a03 } else { 0x0303 };
        for name in names {
            let at = (48 + 24 * count + name) as u32;
            cache.extend([flags, at, at, 0, 0, 0].map(u32::to_ne_bytes).concat());
        }
        cache.extend(texts);
        cache
    }

    #[test]
    fn a_cache_whose_names_are_ends_of_the_same_megabyte_is_a_damaged_one() {
        let texts = [b"a".repeat(1 << 20), vec![0]].concat();
        let hostile = cache(0..50_000, &texts);
        assert!(cached(&hostile, ARCH).is_none());
        let small = cached(&cache([0, 3].into_iter(), b"/a/b.so\0"), ARCH).unwrap();
        assert_eq!(small["b.so"], Path::new("b.so"));
    }

    /// A program that needs libraries, and where it looks for them.
    fn program(needed: &[String], runpath: &str) -> Vec<u8> {
        let (mut names, mut dynamic) = (vec![0], Vec::new());
        let mut add = |tag: u64, text: &str| {
            dynamic.extend([tag, names.len() as u64]);
            names.extend(text.as_bytes());
            names.push(0);
        };
        needed.iter().for_each(|name| add(1, name)); // DT_NEEDED
        add(29, runpath); // DT_RUNPATH
        dynamic.extend([5, 64 + 2 * 56, 0, 0]); // DT_STRTAB
        let at = 64 + 2 * 56 + names.len().next_multiple_of(8) as u64;
        let bytes = 8 * dynamic.len() as u64;
        names.resize(names.len().next_multiple_of(8), 0);
        let mut elf = b"\x7fELF\x02\x01\x01".to_vec();
        elf.resize(16, 0);
        elf.extend([3, 0, 62, 0, 1, 0, 0, 0]);
        elf.extend([0, 64, 0].map(u64::to_le_bytes).concat());
        elf.extend([0, 0, 64, 56, 2, 64, 0, 0].map(u16::to_le_bytes).concat());
        for (kind, start, size) in [(1, 0, at + bytes), (2, at, bytes)] {
            let words = [kind, start, start, start, size, size, 8];
            elf.extend(words.map(u64::to_le_bytes).concat());
        }
        elf.extend(names);
        elf.extend(dynamic.into_iter().flat_map(u64::to_le_bytes));
        elf
    }

    /// A system with these files, which counts how often each is opened.
    fn system<'a>(
        files: &'a [(&str, Vec<u8>)],
        opened: &'a RefCell<Vec<PathBuf>>,
    ) -> Libraries<'a> {
        let open = |path: &Path| {
            opened.borrow_mut().push(path.to_owned());
            let (_, contents) = files.iter().find(|(name, _)| Path::new(name) == path)?;
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(contents).unwrap();
            OpenFile::new(file).ok()
        };
        Libraries::of_image(open, Vec::new(), ARCH)
    }

    #[test]
    fn names_and_directories_do_not_multiply_the_work() {
        let names: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
        let directories: Vec<String> = (0..10_000).map(|number| format!("/{number}")).collect();
        let files = [("/app", program(&names, &directories.join(":")))];
        let opened = RefCell::default();
        let libraries = system(&files, &opened);
        let closure = libraries.closure(Path::new("/app"), Libc::Musl);
        assert_eq!(closure.loaded.len(), 1);
        assert!(opened.borrow().len() <= MISSES_MAX + 2);
        assert_eq!(libraries.known.borrow().len(), 1);
        // The next program is searched for as if it were the first one.
        opened.borrow_mut().clear();
        libraries.closure(Path::new("/app"), Libc::Glibc);
        assert!(opened.borrow().len() > MISSES_MAX / 2);
    }

    #[test]
    fn what_a_libc_reads_is_read_once_and_never_for_the_other_libc() {
        let list = format!("/etc/ld-musl-{ARCH}.path");
        let files = [
            ("/app", program(&["b.so", "c.so"].map(str::to_owned), "")),
            (CACHE, cache([0, 3].into_iter(), b"/a/b.so\0")),
            (&list, b"/x:/y\n/z".to_vec()),
            ("/z/c.so", program(&[], "")),
            ("b.so", program(&[], "")),
        ];
        let opened = RefCell::default();
        let libraries = system(&files, &opened);
        let missing = |libc| libraries.closure(Path::new("/app"), libc).missing;
        assert_eq!(missing(Libc::Musl), ["b.so"]);
        assert_eq!(missing(Libc::Glibc), ["c.so"]);
        missing(Libc::Musl);
        let count = |file: &str| {
            let opened = opened.borrow();
            opened
                .iter()
                .filter(|path| *path == Path::new(file))
                .count()
        };
        assert_eq!((count(&list), count(CACHE)), (1, 1));
    }

    #[test]
    fn directories_of_a_list_are_seen_from_the_file_that_has_it() {
        let file = Path::new("/opt/app/bin/app");
        let directories = listed(Some("$ORIGIN/../lib:/usr/lib::${ORIGIN}"), file);
        assert!(
            directories.eq(["/opt/app/bin/../lib", "/usr/lib", "/opt/app/bin"].map(PathBuf::from))
        );
        assert_eq!(listed(None, file).count(), 0);
    }
}
