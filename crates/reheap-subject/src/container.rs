//! Finds the program that a container image starts, in the image's files and without a container engine.
//!
//! `reheap-image` reads images and finds files in their layers. Here are the rules by which a container's command becomes
//! a program: PATH, scripts, and what a shell or an init program starts in its own place. On the way the environment
//! may change, and with it what is preloaded.

mod environment;
mod loader;
mod scripts;
mod shell;
mod starters;

use crate::open_file::OpenFile;
use crate::preload_files::{self, LD_SO_PRELOAD};
use crate::program::libraries::PATH_MAX;
use crate::program::script::{self, Line};
use reheap_command::env_vars::LD_PRELOAD;
use reheap_command::ui;
use reheap_elf::identify::{Identity, Kind, LibcName};
use reheap_elf::source::Source as _;
use reheap_image::Workplace;
use reheap_image::added;
use reheap_image::read::{ReadError, StoredImage};
use reheap_image::tree::{Covered, Found, Tree};
use scripts::Script;
use serde_json::Value;
use starters::Started;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

pub(crate) use environment::Environment;
pub use loader::Loader;

/// What a shell searches if an image sets no PATH (OCI runtimes agree with Docker on it).
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// More than any image has in its PATH. Each costs a search in all layers.
const DIRECTORIES_MAX: usize = 1000;
/// More than any image preloads. Each may be a file that has to be unpacked with its whole layer.
const PRELOADS_MAX: usize = 32;
const LD_SO_PRELOAD_BYTES_MAX: u64 = 1 << 20;
/// More than any script has in front of the program that it starts.
const SCRIPT_BYTES_MAX: u64 = 1 << 20;
/// How many scripts may follow each other, as for the kernel.
const SCRIPTS_MAX: usize = 5;
/// How many programs may start each other in their own place: an init program, a script, a shell, `env`.
const STARTERS_MAX: usize = 6;
/// Why reheap cannot tell the program of an image.
#[derive(Debug, thiserror::Error)]
pub enum ContainerError {
    /// The image cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A file of the image cannot be kept.
    #[error("the image cannot be read: {0}")]
    Io(#[from] std::io::Error),
    /// The image names no command.
    #[error("the image has neither an entry point nor a command")]
    NoEntryPoint,
    /// No file of the image has the name of the command.
    #[error("the image's entry point `{name}` is not in it{}", because(.covered.as_deref()))]
    NotInImage {
        /// The command.
        name: String,
        /// A link that may have led to it.
        covered: Option<Box<Covered>>,
    },
    /// What it starts is no program that reheap can follow.
    #[error("its program `{0}` is neither ELF nor a script that begins with `#!`")]
    NoProgram(String),
    /// More are named than anybody needs.
    #[error("the image preloads more than {0} libraries")]
    TooManyPreloads(usize),
}

/// That a link is covered, as the end of a sentence about what is missing.
pub fn because(covered: Option<&Covered>) -> String {
    covered.map_or_else(String::new, |covered| format!(": {covered}"))
}

/// A library that an image preloads.
#[derive(Debug)]
pub struct Preloaded {
    /// What names it: `LD_PRELOAD` or `/etc/ld.so.preload`.
    pub list: &'static str,
    /// The library's path, from the root of the image.
    pub name: String,
}

/// The program of an image.
#[derive(Debug)]
pub struct EntryPoint {
    /// The program's path in the image.
    pub path: PathBuf,
    /// Scripts that lead to it.
    pub(crate) through: Vec<PathBuf>,
    /// The program, or a copy of it in a file without a name.
    pub file: OpenFile,
    /// What is left for it of the image's environment.
    pub environment: Environment,
    /// The program's permission bits.
    pub mode: u32,
    /// The user and the group that it belongs to.
    pub owner: (u32, u32),
    /// Whether its file gives it rights that its starter does not have (capabilities(7)).
    pub has_capabilities: bool,
    /// Whether what starts it may wait for it: an init program, a script without `exec`.
    has_parent: bool,
}

impl EntryPoint {
    /// The command that shows which allocator it has in a running container.
    pub fn proof(&self) -> String {
        let first = "$(docker inspect -f '{{.State.Pid}}' CONTAINER)";
        if self.has_parent {
            format!("reheap inspect $(pgrep --ns {first} --nslist pid)")
        } else {
            format!("reheap inspect {first}")
        }
    }
}

impl Preloaded {
    fn of(list: &'static str, name: String) -> Self {
        Self { list, name }
    }
}

/// Looks at what is in an image.
///
/// # Errors
/// Those of `find` and `look`, and [`ContainerError`] when the image cannot be read.
pub(crate) fn look_into<T, E: From<ContainerError>>(
    find: impl FnOnce(&Workplace<'_>) -> Result<StoredImage, E>,
    look: impl FnOnce(&Contents<'_>) -> Result<T, E>,
) -> Result<T, E> {
    let never = AtomicBool::new(false);
    let workplace = Workplace::new(None, &never);
    let image = find(&workplace)?;
    let read = || -> Result<_, ReadError> {
        Ok((Tree::read(&image.layers, &workplace)?, image.settings()?))
    };
    let (tree, settings) = read().map_err(ContainerError::from)?;
    look(&Contents::new(&tree, &settings, &workplace))
}

/// The files of an image and its configuration.
pub struct Contents<'a> {
    tree: &'a Tree,
    workplace: &'a Workplace<'a>,
    /// Entry point and command together: what is executed.
    command: Vec<String>,
    environment: Environment,
    directory: &'a Path,
    failure: RefCell<Option<ContainerError>>,
}

impl<'a> Contents<'a> {
    /// The contents of an image whose configuration is `settings`.
    pub fn new(tree: &'a Tree, settings: &'a Value, workplace: &'a Workplace<'a>) -> Self {
        let config = &settings["config"];
        let keys = ["Entrypoint", "Cmd"].into_iter();
        let words = keys.flat_map(|key| config[key].as_array().into_iter().flatten());
        let directory = config["WorkingDir"].as_str().unwrap_or("/");
        Self {
            tree,
            workplace,
            command: words.filter_map(Value::as_str).map(str::to_owned).collect(),
            environment: Environment::new(&added::environment(config)),
            directory: Path::new(directory),
            failure: RefCell::default(),
        }
    }

    /// The contents as if the image preloaded this library in front of its others.
    pub fn with_preload(self, library: &str) -> Self {
        Self {
            environment: self.environment.with_preload(library),
            ..self
        }
    }

    /// A link that a layer covers, so that what it led to is not found.
    pub fn covered(&self) -> Option<Covered> {
        self.tree.covered()
    }

    /// The program that the kernel executes first.
    pub(crate) fn entry_point(&self) -> Result<EntryPoint, ContainerError> {
        let command = self.command.first().ok_or(ContainerError::NoEntryPoint)?;
        self.program_of(command, self.environment.clone())
    }

    /// The program that the container is for, as far as the command tells: init programs and scripts of shells execute
    /// what comes after them.
    pub fn main_program(&self) -> Result<EntryPoint, ContainerError> {
        let mut words = self.command.clone();
        let mut program = self.entry_point()?;
        for _ in 0..STARTERS_MAX {
            program.has_parent |= starters::may_wait(&program.path, &words[0]);
            let started = self.started(&mut program, &words)?;
            let Some(started) = started.filter(|words| !words.is_empty()) else {
                break;
            };
            match self.program_of(&started[0], program.environment.clone()) {
                Ok(found) => {
                    program = EntryPoint {
                        has_parent: program.has_parent,
                        ..found
                    }
                }
                // A shell reads it as its own script.
                Err(ContainerError::NoProgram(_)) if starters::is_shell(&program.path) => {
                    program.through.push(PathBuf::from(&started[0]));
                }
                Err(ContainerError::NotInImage { .. }) => break,
                Err(error) => return Err(error),
            }
            words = started;
        }
        Ok(program)
    }

    /// The command that a program starts in its place, if it is there for that.
    fn started(
        &self,
        program: &mut EntryPoint,
        words: &[String],
    ) -> Result<Option<Vec<String>>, ContainerError> {
        let (called, arguments) = (&words[0], &words[1..]);
        let include = |file: &str| self.text(Path::new(file)).ok();
        let started = match program.through.last() {
            Some(file) if starters::is_shell(&program.path) => {
                let script = Script {
                    text: &self.text(file)?,
                    file: Some(file),
                    arguments,
                    include: &include,
                };
                return Ok(script.follow(&mut program.environment));
            }
            None => starters::command_of(&program.path, called, arguments),
            // Its own name is the one that counts, and not that of the script.
            Some(_) => starters::command_of(&program.path, "", arguments),
        };
        Ok(match started {
            None => None,
            Some(Started::Program { command, changes }) => {
                let by = starters::shown(words, &command);
                program.environment.apply_all(changes, &by);
                Some(command)
            }
            Some(Started::Text { text, arguments }) => {
                let script = Script {
                    text: &text,
                    file: None,
                    arguments: &arguments,
                    include: &include,
                };
                script.follow(&mut program.environment)
            }
        })
    }

    /// The text of a script, or its beginning.
    fn text(&self, path: &Path) -> Result<String, ContainerError> {
        let path = Path::new("/").join(self.directory).join(path);
        let Some(file) = self.file(&path)? else {
            return Ok(String::new());
        };
        let mut bytes = vec![0; file.size_bytes().min(SCRIPT_BYTES_MAX) as usize];
        let read = file.read_at(0, &mut bytes);
        read.map_err(|error| ReadError::Damaged {
            what: "script",
            reason: error.to_string(),
        })?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn program_of(
        &self,
        command: &str,
        mut environment: Environment,
    ) -> Result<EntryPoint, ContainerError> {
        let (mut path, mut found) = self.executable(command, &environment)?;
        let mut through = Vec::new();
        loop {
            let next = match script::read(&found.beginning) {
                Line::Interpreter(name) => {
                    self.executable(&name.to_string_lossy(), &environment)?
                }
                Line::Env { name, .. } => {
                    let argument = script::argument(&found.beginning).unwrap_or_default();
                    let argument = String::from_utf8_lossy(argument).into_owned();
                    if let Some(Started::Program { changes, .. }) = starters::env(&[argument]) {
                        let by = format!("the first line of `{}`", ui::printable(&path));
                        environment.apply_all(changes, &by);
                    }
                    self.executable(&name.to_string_lossy(), &environment)?
                }
                Line::Text | Line::Binary => {
                    return Err(ContainerError::NoProgram(ui::printable(&path)));
                }
                Line::Elf => {
                    return Ok(EntryPoint {
                        path,
                        through,
                        mode: found.mode,
                        owner: found.owner,
                        has_capabilities: found.has_capabilities,
                        file: OpenFile::part(found.file, found.start, found.size_bytes)?,
                        environment,
                        has_parent: false,
                    });
                }
            };
            through.push(std::mem::replace(&mut path, next.0));
            found = next.1;
            if through.len() > SCRIPTS_MAX {
                return Err(ReadError::LinkLoop(ui::printable(command)).into());
            }
        }
    }

    /// The file that a command names, and where it is in the end.
    fn executable(
        &self,
        command: &str,
        environment: &Environment,
    ) -> Result<(PathBuf, Found), ContainerError> {
        for place in self.places(command, environment) {
            if let Some(found) = self.executable_at(&place, command)? {
                return Ok(found);
            }
        }
        Err(ContainerError::NotInImage {
            name: ui::printable(command),
            covered: self.tree.covered().map(Box::new),
        })
    }

    /// Where a command is, by a path that may lead through links.
    pub fn place_of(&self, command: &str) -> Result<Option<PathBuf>, ContainerError> {
        for place in self.places(command, &self.environment) {
            if self.executable_at(&place, command)?.is_some() {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    /// Where a command may be, as a shell looks for it.
    fn places<'b>(
        &'b self,
        command: &'b str,
        environment: &'b Environment,
    ) -> impl Iterator<Item = PathBuf> + use<'b> {
        let path = environment.value("PATH").unwrap_or(DEFAULT_PATH);
        let directories: Vec<&Path> = if command.contains('/') {
            vec![self.directory]
        } else {
            path.split(':')
                .take(DIRECTORIES_MAX)
                .map(Path::new)
                .collect()
        };
        let directories = directories.into_iter();
        directories.map(move |directory| Path::new("/").join(directory).join(command))
    }

    /// A file that somebody may execute. The others are passed over in PATH, as shells do.
    fn executable_at(
        &self,
        place: &Path,
        command: &str,
    ) -> Result<Option<(PathBuf, Found)>, ContainerError> {
        let Some(path) = self.find_in(Path::new("/"), place)? else {
            return Ok(None);
        };
        let found = self.open(&path)?;
        let found = found.filter(|found| found.mode & 0o111 != 0 || command.contains('/'));
        Ok(found.map(|found| (path, found)))
    }

    fn find_in(&self, directory: &Path, name: &Path) -> Result<Option<PathBuf>, ContainerError> {
        let path = Path::new("/").join(directory).join(name);
        if path.as_os_str().len() < PATH_MAX {
            Ok(self.tree.resolve(&path)?)
        } else {
            Ok(None)
        }
    }

    /// The libraries that the dynamic linker is to preload for a program, in its order. musl's reads only the variable.
    pub fn preloads(
        &self,
        environment: &Environment,
        program: &Identity,
    ) -> Result<Vec<Preloaded>, ContainerError> {
        let list = environment.preloads();
        let names = list.split([':', ' ', '\t', '\n']);
        let names = names.filter(|name| !name.is_empty()).map(str::to_owned);
        let preloads = names.map(|name| Preloaded::of(LD_PRELOAD, name));
        let mut preloads: Vec<_> = preloads.take(PRELOADS_MAX + 1).collect();
        if program.kind == Kind::Dynamic && program.libc.name == LibcName::Glibc {
            let names = preload_files::names(&self.system_preloads()?).into_iter();
            preloads.extend(names.map(|name| Preloaded::of(LD_SO_PRELOAD, name)));
        }
        if preloads.len() <= PRELOADS_MAX {
            Ok(preloads)
        } else {
            Err(ContainerError::TooManyPreloads(PRELOADS_MAX))
        }
    }

    fn system_preloads(&self) -> Result<Vec<u8>, ContainerError> {
        let Some(file) = self.file(Path::new(LD_SO_PRELOAD))? else {
            return Ok(Vec::new());
        };
        let size = file.size_bytes();
        let damaged = |reason| ReadError::Damaged {
            what: LD_SO_PRELOAD,
            reason,
        };
        if size > LD_SO_PRELOAD_BYTES_MAX {
            return Err(damaged(format!("it has {size} bytes")).into());
        }
        let mut bytes = vec![0; size as usize];
        let read = file.read_at(0, &mut bytes);
        read.map_err(|error| damaged(error.to_string()))?;
        Ok(bytes)
    }

    fn open(&self, path: &Path) -> Result<Option<Found>, ContainerError> {
        Ok(self.tree.open(path, self.workplace)?)
    }

    /// A file, for somebody who only asks whether it is there: why it cannot be opened is noted.
    pub fn noting(&self, path: &Path) -> Option<OpenFile> {
        match self.file(path) {
            Ok(file) => file,
            Err(error) => {
                self.failure.replace(Some(error));
                None
            }
        }
    }

    /// Why a file could not be opened that is there, as when the disk is full.
    pub fn noted(&self) -> Result<(), ContainerError> {
        self.failure.take().map_or(Ok(()), Err)
    }

    /// A file by any of its paths.
    pub fn file(&self, path: &Path) -> Result<Option<OpenFile>, ContainerError> {
        let Some(path) = self.find_in(Path::new("/"), path)? else {
            return Ok(None);
        };
        let Some(found) = self.open(&path)? else {
            return Ok(None);
        };
        Ok(Some(OpenFile::part(
            found.file,
            found.start,
            found.size_bytes,
        )?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use reheap_image::read::{self, Location, Wanted};
    use serde_json::json;

    /// A saved image with a layer, a link and a script in it.
    fn image() -> Vec<u8> {
        image_with(&json!({"Entrypoint": ["/app"]}))
    }

    fn image_with(config: &Value) -> Vec<u8> {
        let add = |archive: &mut tar::Builder<Vec<u8>>, path: &str, contents: &[u8]| {
            let mut header = tar::Header::new_ustar();
            header.set_size(contents.len() as u64);
            header.set_mode(0o755);
            archive.append_data(&mut header, path, contents).unwrap();
        };
        let mut layer = tar::Builder::new(Vec::new());
        add(&mut layer, "usr/app", b"#!/usr/interpreter\n");
        add(&mut layer, "usr/interpreter", b"\x7fELF");
        let mut link = tar::Header::new_ustar();
        link.set_entry_type(tar::EntryType::Symlink);
        link.set_size(0);
        layer.append_link(&mut link, "app", "usr/app").unwrap();
        let layer = layer.into_inner().unwrap();
        let mut image = tar::Builder::new(Vec::new());
        let manifest = br#"[{"Config":"config.json","Layers":["layer.tar"]}]"#;
        add(&mut image, "manifest.json", manifest);
        let config = json!({"config": config}).to_string();
        add(&mut image, "config.json", config.as_bytes());
        add(&mut image, "layer.tar", &layer);
        image.into_inner().unwrap()
    }

    fn entry_point_in(bytes: &[u8]) -> Result<EntryPoint, ContainerError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        let find = |workplace: &Workplace<'_>| {
            let location = Location::new(file.path());
            Ok(read::open(&location, Wanted::First, workplace)?)
        };
        look_into(find, |contents| contents.entry_point())
    }

    #[test]
    fn an_entry_point_is_followed_through_links_and_scripts() {
        let found = entry_point_in(&image()).unwrap();
        assert_eq!(found.path, Path::new("/usr/interpreter"));
        assert_eq!(found.through, [Path::new("/usr/app")]);
        assert_eq!(found.file.size_bytes(), 4);
    }

    #[test]
    fn a_long_command_in_a_long_path_is_not_in_the_image() {
        let of = |command: &str, path: &str| {
            let environment = ["PATH=/none".to_owned(), format!("PATH={path}")];
            entry_point_in(&image_with(
                &json!({"Entrypoint": [command], "Env": environment}),
            ))
        };
        assert_eq!(
            of("app", "/x:/usr").unwrap().through,
            [Path::new("/usr/app")]
        );
        // Together the candidates have hundreds of gigabytes.
        let (command, path) = ("x".repeat(1 << 20), "/a:".repeat(1 << 18));
        for command in [&command, &format!("/{command}")] {
            let found = of(command, &path);
            assert!(
                matches!(found, Err(ContainerError::NotInImage { .. })),
                "{found:?}"
            );
        }
    }

    #[test]
    fn a_name_of_an_image_makes_no_line_of_its_own() {
        let image = image_with(&json!({"Entrypoint": ["/x\nreheap: all is well"]}));
        let error = entry_point_in(&image).unwrap_err().to_string();
        assert!(error.contains("`/x\\nreheap: all is well`"), "{error}");
    }

    proptest! {
        #[test]
        fn a_damaged_image_is_an_error_and_never_a_panic(
            changes in prop::collection::vec((any::<usize>(), any::<u8>()), 1..8),
            length in any::<usize>(),
        ) {
            let mut bytes = image();
            for (offset, value) in changes {
                let length = bytes.len();
                bytes[offset % length] = value;
            }
            bytes.truncate(length % (2 * bytes.len()) + 2);
            let _ = entry_point_in(&bytes);
        }
    }
}
