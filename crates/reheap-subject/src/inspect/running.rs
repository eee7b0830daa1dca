//! Collects what `inspect` tells about a running process.

use super::file::{self, FileError};
use super::hardening;
use crate::open_file::OpenFile;
use crate::process_scope::{self, Conclusion, Contents, Object, Scope};
use reheap_command::env_vars::LD_PRELOAD;
use reheap_command::ui;
use reheap_elf::bindings;
use reheap_elf::identify::{
    Confidence, FoundAllocator, Hazard, Identity, Kind, Libc, MallocVerdict, MarkerIdentity,
    Protections, Provider, Role, RustGlobalAllocator,
};
use reheap_elf::marker::{self, FoundMarker};
use reheap_proc::maps::Mapping;
use reheap_proc::memory::Memory;
use reheap_proc::process::{Existence, Process, ProcessError};
use serde::Serialize;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Environment variables that allocators read. The others are private.
const TUNING_PREFIXES: [&str; 15] = [
    "MALLOC_",
    "GLIBC_TUNABLES",
    "MIMALLOC_",
    "JE_MALLOC_CONF",
    "_RJEM_MALLOC_CONF",
    "TCMALLOC_",
    "HEAPPROFILE",
    "HEAPCHECK",
    "SCUDO_OPTIONS",
    "RPMALLOC_",
    "ASAN_OPTIONS",
    "GOGC",
    "GOMEMLIMIT",
    "LD_BIND_NOW",
    "PYTHONMALLOC",
];

/// Everything about one process.
#[derive(Debug, Serialize)]
pub struct Running {
    pub(super) pid: u32,
    pub(super) name: String,
    pub(super) file: String,
    pub(super) file_is_deleted: bool,
    pub(super) kind: Kind,
    pub(super) architecture: String,
    pub(super) libc: Libc,
    pub(super) malloc: MallocVerdict,
    /// Every allocator in the files that are mapped.
    pub(super) allocators: Vec<MappedAllocator>,
    pub(super) rust_global_allocator: Option<RustGlobalAllocator>,
    /// What reheap has linked or put into the executable, or into its process.
    pub(super) marker: Option<MarkerIdentity>,
    /// The executable's protections.
    pub(super) protections: Option<Protections>,
    pub(super) preload: Vec<Preload>,
    pub(super) tuning: BTreeMap<String, String>,
    pub(super) threads: u64,
    pub(super) memory: Memory,
    pub(super) hazards: Vec<RunningHazard>,
    pub(super) mapped_files: Vec<String>,
    pub(super) unread_files: Vec<String>,
}

/// An allocator and the file that it is in.
#[derive(Debug, Serialize)]
pub(crate) struct MappedAllocator {
    pub(super) file: String,
    #[serde(flatten)]
    pub(super) found: FoundAllocator,
}

/// An entry of `LD_PRELOAD` or `/etc/ld.so.preload`.
#[derive(Debug, Serialize)]
pub(crate) struct Preload {
    pub(super) entry: String,
    pub(super) is_loaded: bool,
}

/// What can go wrong in a process.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum RunningHazard {
    /// A hazard of a file that is mapped.
    OfFile {
        file: String,
        #[serde(flatten)]
        hazard: Hazard,
    },
    OfProcess(ProcessHazard),
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case", tag = "hazard")]
pub(crate) enum ProcessHazard {
    /// A preload was requested but is not loaded.
    PreloadNotLoaded { entry: String },
    /// Calls of malloc from different files go to different allocators.
    SeveralMallocs { files: Vec<String> },
}

impl ProcessHazard {
    /// What it is called, in a word or two.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::PreloadNotLoaded { .. } => "preload",
            Self::SeveralMallocs { .. } => "several mallocs",
        }
    }
}

/// Identities of files that several processes have mapped, by device, inode and time of the last change.
#[derive(Debug, Default)]
pub struct Files {
    known: RefCell<HashMap<(u64, u64, i64), Rc<Contents>>>,
}

impl Files {
    fn contents(&self, file: &File) -> Result<Rc<Contents>, FileError> {
        let metadata = file.metadata().map_err(file::io_error)?;
        let key = (metadata.dev(), metadata.ino(), metadata.mtime());
        if let Some(known) = self.known.borrow().get(&key) {
            return Ok(known.clone());
        }
        let file = file.try_clone().and_then(OpenFile::new);
        let file = file.map_err(file::io_error)?;
        let contents = Rc::new(Contents {
            identity: hardening::identify(&file)?,
            malloc_slots: bindings::malloc_slots(&file),
        });
        self.known.borrow_mut().insert(key, contents.clone());
        Ok(contents)
    }
}

/// Looks at a process.
///
/// # Errors
/// [`ProcessError`], also when the process ends meanwhile.
pub(super) fn inspect(pid: u32, files: &Files) -> Result<Running, InspectProcessError> {
    let process = Process::open(pid)?;
    let (path, existence) = process.executable()?;
    let status = process.status()?;
    let mappings = process.mappings()?;
    let environment = process.environment()?;
    let executable = process.open_executable()?;
    let unreadable = |error| InspectProcessError::Executable {
        path: path.clone(),
        error,
    };
    let mut contents = files.contents(&executable).map_err(unreadable)?;
    if let Some(marker) = grafted(&process, &mappings, &contents.identity) {
        let file = executable.try_clone().and_then(OpenFile::new);
        let file = file.map_err(|error| unreadable(file::io_error(error)))?;
        let identity = hardening::identify_grafted(&file, marker);
        contents = Rc::new(Contents {
            identity: identity.map_err(|error| unreadable(error.into()))?,
            malloc_slots: Vec::new(),
        });
    }
    let inode = executable.metadata().map_or(0, |metadata| metadata.ino());
    let mut objects = process_scope::objects(&mappings);
    for object in &mut objects {
        object.contents = if object.inode == inode {
            Some(contents.clone())
        } else {
            contents_of(object, &process, &mappings, files)
        };
    }
    let preload = preloads(&process, &environment, &objects);
    let search = MallocSearch {
        process: &process,
        objects: &objects,
        executable: objects.iter().position(|object| object.inode == inode),
        preloads: preload.iter().filter_map(|(_, index)| *index).collect(),
    };
    let conclusion = search.malloc(&contents.identity);
    // All of this describes one program only if the process still runs it.
    if process.executable()?.0 != path {
        return Err(ProcessError::Ended.into());
    }
    let identity = &contents.identity;
    let file_of = |object: &Object| object.path.to_string_lossy().into_owned();
    let preload: Vec<Preload> = preload
        .into_iter()
        .map(|(entry, index)| Preload {
            is_loaded: index.is_some() || entry.contains('$'),
            entry,
        })
        .collect();
    Ok(Running {
        pid,
        name: status.name().to_owned(),
        file: path.to_string_lossy().into_owned(),
        file_is_deleted: existence == Existence::Deleted,
        kind: identity.kind,
        architecture: identity.architecture.clone(),
        libc: libc(identity, &objects),
        hazards: hazards(&objects, inode, &preload, &conclusion),
        allocators: allocators(&objects, conclusion.provider),
        malloc: conclusion.verdict,
        rust_global_allocator: identity.rust_global_allocator.clone(),
        marker: identity.marker.clone(),
        protections: identity.protections.clone(),
        preload,
        tuning: tuning(&environment),
        threads: status.number("Threads").unwrap_or(1),
        memory: Memory::of(&status, &mappings),
        mapped_files: objects.iter().map(file_of).collect(),
        unread_files: objects
            .iter()
            .filter(|object| object.contents.is_none())
            .map(file_of)
            .collect(),
    })
}

/// What `reheap run` has mapped into a static program: its file has nothing of it.
fn grafted(process: &Process, mappings: &[Mapping], identity: &Identity) -> Option<FoundMarker> {
    /// More than an allocator has of constants.
    const BYTES_MAX: u64 = 1 << 20;
    let is_static = matches!(identity.kind, Kind::Static | Kind::StaticPie);
    if !is_static || identity.marker.is_some() {
        return None;
    }
    let is_constant = |mapping: &&Mapping| {
        let has_no_file = mapping.path.as_os_str().is_empty() && mapping.inode == 0;
        let is_read_only = mapping.is_readable && !mapping.is_writable && !mapping.is_executable;
        has_no_file && is_read_only && mapping.bytes() <= BYTES_MAX
    };
    let mut marker = mappings.iter().filter(is_constant).find_map(|mapping| {
        let bytes = process.bytes(mapping.start, mapping.bytes())?;
        marker::in_memory(&bytes, mapping.start)
    })?;
    marker.follow_jumps(|address, size| process.bytes(address, size));
    marker.is_grafted.then_some(marker)
}

fn contents_of(
    object: &Object,
    process: &Process,
    mappings: &[Mapping],
    files: &Files,
) -> Option<Rc<Contents>> {
    let shows_it = |mapping: &&Mapping| {
        mapping.inode == object.inode && mapping.listed_file().as_ref() == Some(&object.path)
    };
    let mapping = mappings.iter().find(shows_it)?;
    files.contents(&process.open_mapped(mapping)?).ok()
}

/// Why a process cannot be inspected.
#[derive(Debug, thiserror::Error)]
pub enum InspectProcessError {
    /// /proc does not tell.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// Its executable is no program that reheap can read.
    #[error("its executable `{}`: {error}", ui::printable(.path))]
    Executable {
        /// The executable.
        path: PathBuf,
        /// Why reheap cannot.
        error: FileError,
    },
}

struct MallocSearch<'a> {
    process: &'a Process,
    objects: &'a [Object],
    executable: Option<usize>,
    preloads: Vec<usize>,
}

impl MallocSearch<'_> {
    fn malloc(self, identity: &Identity) -> Conclusion {
        let (Kind::Dynamic | Kind::SharedLibrary, Some(executable)) =
            (identity.kind, self.executable)
        else {
            return Conclusion {
                verdict: identity.malloc.clone(),
                provider: self.executable,
                several: Vec::new(),
            };
        };
        let slots: Vec<(usize, u64)> = self
            .objects
            .iter()
            .enumerate()
            .filter_map(|(index, object)| {
                Some((index, object.load_address?, object.contents.as_ref()?))
            })
            .flat_map(|(index, start, contents)| {
                let slots = contents.malloc_slots.iter();
                slots.map(move |slot| (index, start.wrapping_add(*slot)))
            })
            .collect();
        let addresses: Vec<u64> = slots.iter().map(|(_, address)| *address).collect();
        let words: HashMap<u64, u64> = self
            .process
            .words(&addresses)
            .unwrap_or_default()
            .into_iter()
            .collect();
        let bound: Vec<(usize, u64)> = slots
            .into_iter()
            .filter_map(|(index, address)| Some((index, *words.get(&address)?)))
            .collect();
        let scope = Scope {
            objects: self.objects,
            executable,
            preloads: self.preloads,
        };
        let conclusion = scope.malloc(&bound);
        // A Go program that also calls C has two; the runtime's is the one that counts, as for its file.
        match &identity.malloc.provider {
            Provider::Allocator { name } if name == "go-runtime" => Conclusion {
                verdict: identity.malloc.clone(),
                ..conclusion
            },
            _ => conclusion,
        }
    }
}

/// Each requested preload, and the object that it became.
fn preloads(
    process: &Process,
    environment: &[(OsString, OsString)],
    objects: &[Object],
) -> Vec<(String, Option<usize>)> {
    let is_glibc = objects
        .iter()
        .any(|object| object.file_name() == Some("libc.so.6"));
    let of_environment = preload_variable(environment, is_glibc);
    let of_environment = of_environment.map(|value| value.as_bytes().to_vec());
    let of_system = process
        .read_its(Path::new("/etc/ld.so.preload"))
        .filter(|_| is_glibc);
    let mut found = Vec::new();
    for list in [of_environment, of_system].into_iter().flatten() {
        let lines = list.split(|&byte| byte == b'\n');
        let lines = lines.map(|line| line.split(|&byte| byte == b'#').next().unwrap_or_default());
        let entries = lines.flat_map(|line| line.split(|byte| b" :\t".contains(byte)));
        for entry in entries.filter(|entry| !entry.is_empty()) {
            let path = Path::new(OsStr::from_bytes(entry));
            let entry = path.to_string_lossy().into_owned();
            let inode = process.inode_of(path);
            let index = objects
                .iter()
                .position(|object| Some(object.inode) == inode || object.is_called(&entry));
            found.push((entry, index));
        }
    }
    found
}

/// An environment may have it more than once. glibc goes through all of it and keeps the last, musl asks getenv(3).
fn preload_variable(environment: &[(OsString, OsString)], is_glibc: bool) -> Option<&OsStr> {
    let is_it = |(name, _): &&(OsString, OsString)| name == LD_PRELOAD;
    let mut values = environment.iter().filter(is_it).map(|(_, value)| &**value);
    if is_glibc {
        values.next_back()
    } else {
        values.next()
    }
}

/// The mapped libc knows its version better than a file that needs it.
fn libc(identity: &Identity, objects: &[Object]) -> Libc {
    objects
        .iter()
        .filter(|object| object.is_libc())
        .filter_map(|object| object.contents.as_deref())
        .map(|contents| &contents.identity.libc)
        .find(|libc| libc.version.is_some())
        .unwrap_or(&identity.libc)
        .clone()
}

/// A file's malloc is unused if calls go to another file.
fn allocators(objects: &[Object], provider: Option<usize>) -> Vec<MappedAllocator> {
    let mut mapped = Vec::new();
    for (index, object) in objects.iter().enumerate() {
        let identity = object
            .contents
            .as_deref()
            .map(|contents| &contents.identity);
        for found in identity
            .into_iter()
            .flat_map(|identity| &identity.allocators)
        {
            if found.confidence < Confidence::Likely {
                continue;
            }
            let mut found = found.clone();
            if found.role == Role::Malloc && provider != Some(index) {
                found.role = Role::Unused;
            }
            mapped.push(MappedAllocator {
                file: object.path.to_string_lossy().into_owned(),
                found,
            });
        }
    }
    mapped
}

fn hazards(
    objects: &[Object],
    executable: u64,
    preload: &[Preload],
    conclusion: &Conclusion,
) -> Vec<RunningHazard> {
    let mut hazards: Vec<RunningHazard> = Vec::new();
    if !conclusion.several.is_empty() {
        let file = |&index: &usize| objects[index].path.to_string_lossy().into_owned();
        hazards.push(RunningHazard::OfProcess(ProcessHazard::SeveralMallocs {
            files: conclusion.several.iter().map(file).collect(),
        }));
    }
    for missing in preload.iter().filter(|preload| !preload.is_loaded) {
        let entry = missing.entry.clone();
        hazards.push(RunningHazard::OfProcess(ProcessHazard::PreloadNotLoaded {
            entry,
        }));
    }
    for object in objects {
        let of_file = object
            .contents
            .iter()
            .flat_map(|contents| &contents.identity.hazards);
        // A library that is already loaded has its thread-local storage, and runs on this processor.
        let still_matters = |hazard: &&Hazard| {
            let is_over = matches!(
                hazard,
                Hazard::InitialExecTls { .. } | Hazard::AboveBaseline { .. }
            );
            !is_over && (object.inode == executable || matches!(hazard, Hazard::TwoHeaps { .. }))
        };
        hazards.extend(
            of_file
                .filter(still_matters)
                .map(|hazard| RunningHazard::OfFile {
                    file: object.path.to_string_lossy().into_owned(),
                    hazard: hazard.clone(),
                }),
        );
    }
    hazards
}

fn tuning(environment: &[(OsString, OsString)]) -> BTreeMap<String, String> {
    environment
        .iter()
        .map(|(name, value)| (name.to_string_lossy(), value.to_string_lossy()))
        .filter(|(name, _)| {
            TUNING_PREFIXES
                .iter()
                .any(|prefix| name.starts_with(prefix))
        })
        .map(|(name, value)| (name.into_owned(), value.into_owned()))
        .collect()
}
