//! The program of an image that somebody else built, and whether a preload gets into it.

use anyhow::Context as _;
use reheap_allocators::target::{Architecture, Libc, Target};
use reheap_command::ui;
use reheap_elf::identify::{Identity, identify};
use reheap_elf::linkage;
use reheap_elf::source::Source as _;
use reheap_image::read::ReadError;
use reheap_image::tree::Covered;
use reheap_subject::container::{ContainerError, Contents, EntryPoint, Loader};
use reheap_subject::inspect;
use reheap_subject::open_file::OpenFile;
use reheap_subject::other_preloads;
use reheap_subject::program::{self, Caller, Obstacle, PreloadOutlook};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The program that an image starts, and what a preload meets in it.
pub(super) struct Judged<'a> {
    pub(super) program: EntryPoint,
    identity: Identity,
    pub(super) target: Option<Target>,
    pub(super) obstacles: Vec<Obstacle>,
    /// A link that a layer covers, if there is one.
    pub(super) covered: Option<Covered>,
    loader: Loader<'a>,
}

impl<'a> Judged<'a> {
    pub(super) fn of(contents: &'a Contents<'_>, settings: &Value) -> Result<Self, ContainerError> {
        let program = contents.main_program()?;
        let damaged = |error: &dyn std::fmt::Display| ReadError::Damaged {
            what: "program",
            reason: format!("`{}`: {error}", ui::printable(&program.path)),
        };
        let identity = identify(&program.file).map_err(|error| damaged(&error))?;
        let loader = Loader::new(contents, &program, &identity);
        let known = Architecture::WITH_PRELOADS.map(Architecture::name);
        let target = program::target_of(&identity, &known);
        let outlook = PreloadOutlook::of(&identity, &program.path, &loader.libraries);
        let privilege = caller(contents, settings).gains(
            program.mode,
            program.owner.0,
            program.owner.1,
            || program.has_capabilities,
        );
        let mut obstacles = program::obstacles(&identity, privilege, &outlook, &known);
        obstacles.extend(other_preload(contents, &program, &identity, &loader)?);
        Ok(Self {
            program,
            identity,
            target,
            obstacles,
            covered: contents.covered(),
            loader,
        })
    }

    /// The program's file.
    pub(super) fn program_bytes(&self) -> anyhow::Result<Vec<u8>> {
        let file = &self.program.file;
        let mut bytes = vec![0; file.size_bytes() as usize];
        file.read_at(0, &mut bytes)?;
        Ok(bytes)
    }

    /// Whether the program is static and nothing else is in the way. What is preloaded does not reach it.
    pub(super) fn is_static(&self) -> bool {
        let is_no_matter =
            |o: &Obstacle| matches!(o, Obstacle::Static(_) | Obstacle::OtherPreload { .. });
        matches!(self.obstacles.first(), Some(Obstacle::Static(_)))
            && self.obstacles.iter().all(is_no_matter)
    }

    /// What of the image a library would need that is not there. The program needs its dynamic linker too, which is the
    /// libc of musl.
    pub(super) fn missing(&self, library: &Path, target: &Target) -> anyhow::Result<Vec<String>> {
        let cannot_read = || format!("cannot read `{}`", library.display());
        let opened = inspect::open(library).with_context(cannot_read)?;
        let needed = linkage::read(&opened).with_context(cannot_read)?.needed;
        let found = |path: &&String| self.loader.libraries.open(Path::new(path)).is_some();
        let interpreter = self.identity.interpreter.iter();
        let mut missing: Vec<String> = interpreter.filter(|path| !found(path)).cloned().collect();
        let program = &self.program.path;
        let libc = target.libc();
        missing.extend(
            self.loader
                .libraries
                .missing_for_preload(&needed, program, libc),
        );
        Ok(missing)
    }

    /// A version of glibc that a library needs and the image's libc does not have: this machine may have built it.
    pub(super) fn missing_version(&self, library: &Path) -> anyhow::Result<Option<String>> {
        let closure = self
            .loader
            .libraries
            .closure(&self.program.path, Libc::Glibc);
        let mut loaded = closure.loaded.into_iter();
        let libc = loaded.find(|loaded| loaded.name == "libc.so.6");
        let Some(libc) = libc.and_then(|libc| self.loader.libraries.open(&libc.path)) else {
            return Ok(None);
        };
        let present = versions(&contents_of(&libc));
        let bytes =
            fs::read(library).with_context(|| format!("cannot read `{}`", library.display()))?;
        let needed = versions(&bytes);
        let lacking = needed.difference(&present).last();
        Ok(lacking.map(|version| String::from_utf8_lossy(version).into_owned()))
    }
}

/// Who runs the program, by number; a name is looked up as an engine does.
fn caller(contents: &Contents<'_>, settings: &Value) -> Caller {
    let user = settings["config"]["User"].as_str().unwrap_or_default();
    let (user, group) = match user.split_once(':') {
        Some((user, group)) => (user, Some(group)),
        None => (user, None),
    };
    let text = |path: &str| {
        let file = contents.file(Path::new(path)).ok().flatten();
        file.map(|file| contents_of(&file)).unwrap_or_default()
    };
    // name:password:number:…
    let number = |path: &str, name: &str, field: usize| -> Option<u32> {
        let text = String::from_utf8_lossy(&text(path)).into_owned();
        let mut lines = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
        let found = lines.find(|fields| fields.first() == Some(&name))?;
        found.get(field)?.parse().ok()
    };
    let uid = match user {
        "" => Some(0),
        name => name.parse().ok().or_else(|| number("/etc/passwd", name, 2)),
    };
    let gid = match group {
        Some(name) => name.parse().ok().or_else(|| number("/etc/group", name, 2)),
        None if user.is_empty() => Some(0),
        None => number("/etc/passwd", user, 3),
    };
    // A number that nobody has: whatever a file gives, is gained.
    Caller {
        uid: uid.unwrap_or(u32::MAX),
        gid: gid.unwrap_or(u32::MAX),
    }
}

/// The first library that the image preloads and that has a malloc of its own.
fn other_preload(
    contents: &Contents<'_>,
    program: &EntryPoint,
    identity: &Identity,
    loader: &Loader<'_>,
) -> Result<Option<Obstacle>, ContainerError> {
    let preloads = contents.preloads(&program.environment, identity)?;
    let mut with_malloc = preloads.into_iter().filter(|preload| {
        let library = loader.find(&preload.name);
        library.is_some_and(|(_, library)| other_preloads::has_a_malloc(&library))
    });
    Ok(with_malloc.next().map(|preload| Obstacle::OtherPreload {
        list: preload.list,
        library: preload.name,
    }))
}

/// The bytes of a small file, or the beginning of a large one.
pub(super) fn contents_of(file: &OpenFile) -> Vec<u8> {
    const BYTES_MAX: u64 = 8 << 20;
    let mut bytes = vec![0; file.size_bytes().min(BYTES_MAX) as usize];
    match file.read_at(0, &mut bytes) {
        Ok(()) => bytes,
        Err(_) => Vec::new(),
    }
}

/// The names of versions in a library, such as `GLIBC_2.34`: glibc refuses a library that needs one that it lacks.
pub(super) fn versions(bytes: &[u8]) -> BTreeSet<Vec<u8>> {
    const PREFIX: &[u8] = b"\0GLIBC_2.";
    let starts = bytes.windows(PREFIX.len()).enumerate();
    let starts = starts.filter(|(_, part)| *part == PREFIX);
    let name = |(start, _): (usize, &[u8])| {
        let rest = &bytes[start + 1..];
        let end = rest.iter().position(|&byte| byte == 0)?;
        Some(rest[..end.min(32)].to_vec())
    };
    starts.filter_map(name).collect()
}
