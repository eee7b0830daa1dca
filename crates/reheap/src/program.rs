//! Finds the program that the kernel will execute for a typed command, and what keeps a preload out of it.
//!
//! `LD_PRELOAD` fails silently. A static program has nothing that reads it, AT_SECURE drops it, and a library for the
//! other libc is "ignored" in one line among many. A script only ever starts another program. So before it starts
//! anything, reheap looks up what the kernel will load in the end: PATH as execvp(3) searches it, `#!` lines as
//! execve(2) and env(1) read them, and then the ELF file itself.

pub(crate) mod libraries;
mod linked;
mod obstacle;
pub(crate) mod script;
mod takers;

use crate::env_vars;
use crate::opened::Opened;
use crate::ui::{self, Failure};
use anyhow::Context as _;
use libraries::Libraries;
use obstacle::LinkAgain;
pub(crate) use obstacle::{Meeting, Obstacle, Remark};
use reheap_allocators::target::{Libc, Target};
use reheap_elf::identify::{Identity, Kind, LibcName, identify};
use script::Line;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, Metadata};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Where execvp(3) looks when PATH is not set (glibc's and musl's defaults agree on these).
const DEFAULT_PATH: &str = "/bin:/usr/bin";
/// How many scripts may follow each other: Linux gives up after five (fs/exec.c).
const SCRIPTS_MAX: usize = 5;

/// A program as the kernel will load it.
#[derive(Debug)]
pub(crate) struct Program {
    /// The scripts that lead to it, first the one that was typed.
    pub(crate) through: Vec<PathBuf>,
    /// The ELF file.
    pub(crate) file: PathBuf,
    /// What it is.
    pub(crate) identity: Identity,
    /// Why the kernel starts it in secure mode, if it does.
    pub(crate) privilege: Option<Privilege>,
    /// What a preload meets in it.
    meeting: Meeting,
    start: Start,
}

/// What runs the file that the user typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    Kernel,
    /// A script without a `#!` line is for the shell (POSIX, "Command Search and Execution").
    Shell,
}

/// What makes the kernel set AT_SECURE, so that the dynamic linker ignores LD_PRELOAD (ld.so(8)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Privilege {
    SetUid,
    SetGid,
    Capabilities,
}

impl fmt::Display for Privilege {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SetUid => "setuid",
            Self::SetGid => "setgid",
            Self::Capabilities => "file capabilities",
        })
    }
}

/// Why there is nothing to run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotRunnable {
    #[error("cannot run `{}`: it was not found", .0.display())]
    NotFound(PathBuf),
    #[error("cannot run `{}`: its first line names `{}`, which was not found", .script.display(), .interpreter.display())]
    NoInterpreter {
        script: PathBuf,
        interpreter: PathBuf,
    },
    #[error("cannot run `{}`: it is not an executable file", .0.display())]
    NotExecutable(PathBuf),
    #[error("cannot run `{}`: its first line is `#!` without an interpreter", .0.display())]
    NoName(PathBuf),
    #[error("cannot run `{}`: it is neither a program nor a script", .0.display())]
    Binary(PathBuf),
    #[error("cannot run `{}`: {reason}", .file.display())]
    Broken { file: PathBuf, reason: String },
    #[error("cannot run `{}`: its interpreter is a script, and more than {SCRIPTS_MAX} others follow", .0.display())]
    TooManyScripts(PathBuf),
}

impl NotRunnable {
    /// The exit code of a shell (POSIX, "Exit Status for Commands").
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::NotFound(_) | Self::NoInterpreter { .. } => 127,
            Self::NotExecutable(_)
            | Self::NoName(_)
            | Self::Binary(_)
            | Self::Broken { .. }
            | Self::TooManyScripts(_) => 126,
        }
    }
}

impl Program {
    /// What a command will run, for reheap to run it: a failure has the exit code of a shell.
    ///
    /// # Errors
    /// As for [`resolve`](Self::resolve).
    pub(crate) fn to_run(command: &OsStr) -> anyhow::Result<Self> {
        Self::resolve(command).map_err(|error| match error.downcast_ref::<NotRunnable>() {
            Some(not_runnable) => Failure::failed(ui::printable(not_runnable.to_string()))
                .code(not_runnable.exit_code())
                .into(),
            None => error,
        })
    }

    /// What a command will run.
    ///
    /// # Errors
    /// [`NotRunnable`] where a shell would give 126 or 127; otherwise when a file cannot be read.
    pub(crate) fn resolve(command: &OsStr) -> anyhow::Result<Self> {
        let mut file = find(command)?;
        let mut through = Vec::new();
        let mut start = Start::Kernel;
        // How many scripts with env as their interpreter come before the one that is executed.
        let mut executed = 0;
        loop {
            let cannot = || format!("cannot read `{}`", file.display());
            let line = script::read(&beginning(&file).with_context(cannot)?);
            if through.len() > SCRIPTS_MAX {
                return Err(NotRunnable::TooManyScripts(find(command)?).into());
            }
            let next = match line {
                Line::Elf => break,
                Line::Interpreter(interpreter) if interpreter.is_empty() => {
                    return Err(NotRunnable::NoName(file).into());
                }
                Line::Interpreter(interpreter) => match find_file(Path::new(&interpreter)) {
                    Err(NotRunnable::NotFound(interpreter)) => {
                        let script = file;
                        return Err(NotRunnable::NoInterpreter {
                            script,
                            interpreter,
                        }
                        .into());
                    }
                    found => found?,
                },
                // If env finds nothing, it says so itself; then the program is env.
                Line::Env { env, name } => match find(&name) {
                    Ok(program) => {
                        executed = through.len() + 1;
                        program
                    }
                    Err(_) => find_file(Path::new(&env))?,
                },
                // The kernel does not execute it (ENOEXEC), nor a script with such an interpreter. Then the caller
                // gives the file to the shell. env does so without a check, so reheap checks only the first file.
                Line::Text | Line::Binary => {
                    if let Some(script) = through.get(executed).cloned() {
                        file = script;
                        through.truncate(executed);
                    }
                    if executed == 0 {
                        if !script::is_text(&beginning(&file)?) {
                            return Err(NotRunnable::Binary(file).into());
                        }
                        start = Start::Shell;
                    }
                    find_file(Path::new("/bin/sh"))?
                }
            };
            through.push(std::mem::replace(&mut file, next));
        }
        let cannot = || format!("cannot read `{}`", file.display());
        let opened = fs::File::open(&file).and_then(Opened::new);
        let identity = identify(&opened.with_context(cannot)?);
        let identity = identity.map_err(|error| NotRunnable::Broken {
            file: file.clone(),
            reason: error.to_string(),
        })?;
        let metadata = fs::metadata(&file).with_context(cannot)?;
        Ok(Self {
            privilege: privilege(&file, &metadata),
            meeting: Meeting::of(&identity, &real(&file), &libraries()),
            through,
            file,
            identity,
            start,
        })
    }

    /// The file to execute and the arguments that come before the user's.
    pub(crate) fn launch(&self) -> (&Path, Vec<&OsStr>) {
        match (self.through.first(), self.start) {
            (None, _) => (&self.file, Vec::new()),
            (Some(script), Start::Kernel) => (script, Vec::new()),
            (Some(script), Start::Shell) => (Path::new("/bin/sh"), vec![script.as_os_str()]),
        }
    }

    /// What a library for this program is built for; `None` where reheap has none.
    pub(crate) fn target(&self) -> Option<Target> {
        let libc = match self.identity.libc.name {
            LibcName::Glibc => Libc::Glibc,
            LibcName::Musl => Libc::Musl,
            LibcName::Bionic | LibcName::None | LibcName::Unknown => return None,
        };
        let is_for_this_machine = self.identity.architecture == std::env::consts::ARCH;
        Target::of_this_machine(libc).filter(|_| is_for_this_machine)
    }

    /// What stands in the way of preloading, the worst first.
    pub(crate) fn obstacles(&self) -> Vec<Obstacle> {
        let identity = &self.identity;
        let mut obstacles = Vec::new();
        match identity.kind {
            Kind::Dynamic => {}
            _ if identity.packed => obstacles.push(Obstacle::Packed),
            Kind::Static | Kind::StaticPie => {
                obstacles.push(Obstacle::Static(LinkAgain::of(identity)));
            }
            kind => obstacles.push(Obstacle::NotAProgram(kind)),
        }
        obstacles.extend(self.privilege.map(Obstacle::Privileged));
        if identity.architecture != std::env::consts::ARCH {
            obstacles.push(Obstacle::OtherArchitecture(identity.architecture.clone()));
        } else if self.target().is_none() && identity.kind == Kind::Dynamic {
            let libc = identity.libc.name.to_string();
            obstacles.push(Obstacle::OtherLibc(libc));
        }
        obstacles.extend(self.meeting.obstacle.clone());
        obstacles
    }

    /// The address space that it needs before it does anything: its own file and those that are loaded for it.
    pub(crate) fn mapped_bytes(&self) -> u64 {
        let (Some(target), Some(interpreter)) = (self.target(), &self.identity.interpreter) else {
            return 0;
        };
        libraries().mapped_bytes(&real(&self.file), Path::new(interpreter), target.libc())
    }

    /// What to know about it if nothing stands in the way.
    pub(crate) fn remarks(&self) -> &[Remark] {
        &self.meeting.remarks
    }

    /// Whether none of its own calls can reach a preload, as far as its file tells. Computed only on request, because
    /// it takes as long as everything else together.
    pub(crate) fn takes_no_malloc(&self) -> Option<Remark> {
        let libc = self.target()?.libc();
        let libraries = takers::only_libraries(&real(&self.file), libc, &libraries())?;
        Some(Remark::TakesNoMalloc { libraries })
    }
}

/// Those of this system, as a program started from here would find them.
fn libraries() -> Libraries<'static> {
    Libraries::new(|path| fs::File::open(path).ok(), env_vars::library_path())
}

/// Without links: `$ORIGIN` is the directory of the file itself (ld.so(8)).
fn real(program: &Path) -> PathBuf {
    fs::canonicalize(program).unwrap_or_else(|_| program.to_owned())
}

/// The file of a command, as execvp(3) finds it.
fn find(command: &OsStr) -> Result<PathBuf, NotRunnable> {
    if command.as_bytes().contains(&b'/') {
        return find_file(Path::new(command));
    }
    let path = env_vars::path().unwrap_or_else(|| OsString::from(DEFAULT_PATH));
    let mut present = None;
    for directory in std::env::split_paths(&path) {
        // An empty entry is the working directory. Thanks to the `./`, nothing searches for it as a name again.
        let file = match directory.as_os_str().is_empty() {
            true => Path::new(".").join(command),
            false => directory.join(command),
        };
        match find_file(&file) {
            Ok(file) if !command.is_empty() => return Ok(file),
            Err(NotRunnable::NotExecutable(file)) if !file.is_dir() => {
                present.get_or_insert(file);
            }
            _ => {}
        }
    }
    Err(match present {
        Some(file) => NotRunnable::NotExecutable(file),
        None => NotRunnable::NotFound(command.into()),
    })
}

fn find_file(path: &Path) -> Result<PathBuf, NotRunnable> {
    let metadata = fs::metadata(path).map_err(|_| NotRunnable::NotFound(path.to_owned()))?;
    let may_execute =
        rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok() && has_execute_bit(&metadata);
    match metadata.is_file() && may_execute {
        true => Ok(path.to_owned()),
        false => Err(NotRunnable::NotExecutable(path.to_owned())),
    }
}

/// For the superuser access(2) looks at more than execve(2) does on some file systems.
fn has_execute_bit(metadata: &Metadata) -> bool {
    metadata.permissions().mode() & 0o111 != 0
}

/// As much of a file as the kernel looks at to tell what it is.
fn beginning(file: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = fs::File::open(file)?;
    file.take(script::BEGINNING_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// What the kernel would start this file in secure mode for.
fn privilege(file: &Path, metadata: &Metadata) -> Option<Privilege> {
    let gives_none = rustix::fs::statvfs(file).is_ok_and(|system| {
        system
            .f_flag
            .contains(rustix::fs::StatVfsMountFlags::NOSUID)
    });
    if gives_none {
        return None;
    }
    let has_capabilities = || {
        let mut value = [0_u8; 64];
        rustix::fs::getxattr(file, "security.capability", &mut value).is_ok_and(|size| size > 0)
    };
    let caller = Caller {
        uid: rustix::process::getuid().as_raw(),
        gid: rustix::process::getgid().as_raw(),
    };
    caller.gains(
        metadata.mode(),
        metadata.uid(),
        metadata.gid(),
        has_capabilities,
    )
}

struct Caller {
    uid: u32,
    gid: u32,
}

impl Caller {
    /// Secure mode is for programs that get another identity than the caller's (security/commoncap.c). A setuid-root
    /// program that root runs is not in it, and root gains nothing by capabilities.
    fn gains(
        &self,
        mode: u32,
        owner: u32,
        group: u32,
        has_capabilities: impl FnOnce() -> bool,
    ) -> Option<Privilege> {
        const SET_UID: u32 = 0o4000;
        const SET_GID_AND_EXECUTE: u32 = 0o2010;
        if mode & SET_UID != 0 && owner != self.uid {
            Some(Privilege::SetUid)
        } else if mode & SET_GID_AND_EXECUTE == SET_GID_AND_EXECUTE && group != self.gid {
            Some(Privilege::SetGid)
        } else if self.uid != 0 && has_capabilities() {
            Some(Privilege::Capabilities)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secure_mode_is_for_who_gains_an_identity() {
        let user = Caller {
            uid: 1000,
            gid: 1000,
        };
        let root = Caller { uid: 0, gid: 0 };
        let none = || false;
        assert_eq!(user.gains(0o4755, 0, 0, none), Some(Privilege::SetUid));
        assert_eq!(user.gains(0o4755, 1000, 0, none), None);
        assert_eq!(root.gains(0o4755, 0, 0, none), None);
        assert_eq!(user.gains(0o2755, 0, 0, none), Some(Privilege::SetGid));
        // Without the group's execute bit it once meant mandatory locking.
        assert_eq!(user.gains(0o2745, 0, 0, none), None);
        assert_eq!(
            user.gains(0o755, 0, 0, || true),
            Some(Privilege::Capabilities)
        );
        assert_eq!(root.gains(0o755, 0, 0, || true), None);
    }

    #[test]
    fn a_command_without_a_slash_is_searched_and_one_with_it_is_not() {
        assert!(find(OsStr::new("sh")).unwrap().is_absolute());
        let missing = find(OsStr::new("./no-such-program")).unwrap_err();
        assert_eq!(missing.exit_code(), 127);
        assert_eq!(find(OsStr::new("/")).unwrap_err().exit_code(), 126);
        assert_eq!(find(OsStr::new("")).unwrap_err().exit_code(), 127);
    }

    #[test]
    fn the_test_itself_is_a_dynamic_program_without_obstacles() {
        let program = Program::resolve(std::env::current_exe().unwrap().as_os_str()).unwrap();
        assert_eq!(program.obstacles(), []);
        assert!(program.through.is_empty());
    }
}
