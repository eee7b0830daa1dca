//! The way from a typed command to the file that the kernel will load: PATH as execvp(3) searches it, and `#!` lines as
//! execve(2) and env(1) read them.
//!
//! It reads the first bytes of each file and no more, so a command can be started a hundred times without reading an
//! executable of a hundred megabytes as often. What is in the file, [`super::Program`] tells.

use super::script::{self, Line};
use anyhow::Context as _;
use reheap_command::env_vars;
use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Where execvp(3) looks when PATH is not set (glibc's and musl's defaults agree on these).
const DEFAULT_PATH: &str = "/bin:/usr/bin";
/// How many scripts may follow each other: Linux gives up after five (fs/exec.c).
const SCRIPTS_MAX: usize = 5;

/// How the kernel gets from a command to its program.
#[derive(Debug)]
pub struct Route {
    /// The scripts that lead to it, first the one that was typed.
    pub through: Vec<PathBuf>,
    /// The ELF file.
    pub file: PathBuf,
    start: Start,
}

/// What runs the file that the user typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    Kernel,
    /// A script without a `#!` line is for the shell (POSIX, "Command Search and Execution").
    Shell,
}

/// Why there is nothing to run.
#[derive(Debug, thiserror::Error)]
pub enum NotRunnable {
    /// There is no such file.
    #[error("cannot run `{}`: it was not found", .0.display())]
    NotFound(PathBuf),
    /// A script's interpreter is not there.
    #[error("cannot run `{}`: its first line names `{}`, which was not found", .script.display(), .interpreter.display())]
    NoInterpreter {
        /// The script.
        script: PathBuf,
        /// What its first line names.
        interpreter: PathBuf,
    },
    /// It has no such permission.
    #[error("cannot run `{}`: it is not an executable file", .0.display())]
    NotExecutable(PathBuf),
    /// Its first line names no interpreter.
    #[error("cannot run `{}`: its first line is `#!` without an interpreter", .0.display())]
    NoName(PathBuf),
    /// It is neither a program nor a script.
    #[error("cannot run `{}`: it is neither a program nor a script", .0.display())]
    Binary(PathBuf),
    /// It is an ELF file that no system executes.
    #[error("cannot run `{}`: {reason}", .file.display())]
    Broken {
        /// The file.
        file: PathBuf,
        /// Why not.
        reason: String,
    },
    /// Each is the next one's interpreter.
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

impl Route {
    /// The file that was typed.
    pub fn typed(&self) -> &Path {
        self.through.first().unwrap_or(&self.file)
    }

    /// How a command gets to its program.
    ///
    /// # Errors
    /// [`NotRunnable`] where a shell would give 126 or 127; otherwise when a file cannot be read.
    pub fn find(command: &OsStr) -> anyhow::Result<Self> {
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
        Ok(Self {
            through,
            file,
            start,
        })
    }

    /// The file to execute and the arguments that come before the user's.
    pub fn launch(&self) -> (&Path, Vec<&OsStr>) {
        match (self.through.first(), self.start) {
            (None, _) => (&self.file, Vec::new()),
            (Some(script), Start::Kernel) => (script, Vec::new()),
            (Some(script), Start::Shell) => (Path::new("/bin/sh"), vec![script.as_os_str()]),
        }
    }
}

impl Route {
    /// The file to execute, and all words that it gets for that command, first its name.
    pub fn words<'a>(&'a self, command: &'a [OsString]) -> (&'a Path, Vec<&'a OsStr>) {
        let (file, first_arguments) = self.launch();
        let name: &OsStr = if first_arguments.is_empty() {
            &command[0]
        } else {
            file.as_os_str()
        };
        let mut words = vec![name];
        words.extend(first_arguments);
        words.extend(command[1..].iter().map(OsString::as_os_str));
        (file, words)
    }
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
        let file = if directory.as_os_str().is_empty() {
            Path::new(".").join(command)
        } else {
            directory.join(command)
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
    if metadata.is_file() && may_execute {
        Ok(path.to_owned())
    } else {
        Err(NotRunnable::NotExecutable(path.to_owned()))
    }
}

/// Whether anybody may execute the file. For the superuser access(2) looks at more than execve(2) does on some file
/// systems.
fn has_execute_bit(metadata: &Metadata) -> bool {
    metadata.permissions().mode() & 0o111 != 0
}

/// The beginning of a file: as much as the kernel looks at to tell what it is.
fn beginning(file: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = fs::File::open(file)?;
    file.take(script::BEGINNING_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_without_a_slash_is_searched_and_one_with_it_is_not() {
        assert!(find(OsStr::new("sh")).unwrap().is_absolute());
        let missing = find(OsStr::new("./no-such-program")).unwrap_err();
        assert_eq!(missing.exit_code(), 127);
        assert_eq!(find(OsStr::new("/")).unwrap_err().exit_code(), 126);
        assert_eq!(find(OsStr::new("")).unwrap_err().exit_code(), 127);
    }
}
