//! Starts canaries: programs that get a library before every program of a system does, and that reheap inspects as they
//! run.
//!
//! There are three kinds: one of our own with threads and a forked child, which needs only the dynamic linker and the
//! libc; the system's shell; and its `cat`, as the simplest program there is. Each answers a line and then waits for
//! the end of its input. In between, its memory map shows whether it has the library. The first kind also shows whose
//! malloc it calls.

use super::PROFILE_SCRIPT;
use super::root::{Linker, Root};
use reheap_allocators::target::Libc;
use reheap_command::sys;
use reheap_elf::identify::{Kind, LibcName, identify};
use reheap_proc::maps::Mapping;
use reheap_proc::process::Process;
use reheap_subject::open_file::OpenFile;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Far longer than any of them needs on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(60);
const WORD: &str = "canary";
const SHELL_SCRIPT: &str = "read a; echo \"$a\"; read b; exit 0";

/// The canaries of one libc, and the library that they are started with.
#[derive(Debug)]
pub struct Canaries<'a> {
    /// The system.
    pub root: &'a Root,
    /// The dynamic linker that starts them.
    pub linker: Linker,
    /// The library, as a path of the system.
    pub library: &'a str,
    /// The canary of our own, as a path of the system.
    pub own: &'a str,
    /// How long each of them may need for an answer, and for the end of its output.
    pub output_limit: Duration,
    /// How long each may need to end after that.
    pub end_limit: Duration,
}

/// What brings the library in.
#[derive(Debug, Clone, Copy)]
pub enum BroughtBy<'a> {
    /// `LD_PRELOAD` with this in it.
    Variable(&'a str),
    /// `/etc/ld.so.preload`, as it is now.
    File,
    /// The script for login shells, as it is now.
    Script,
}

/// How a program of the system can be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    Here,
    WithItsRoot,
    /// Only programs that need no other file of their own start: by naming everything to the dynamic linker, from the root directory.
    ByLinker,
}

impl Canaries<'_> {
    /// Starts them all, and says the names of those that passed; `None` if what brings the library in has no effect on
    /// programs as they can be started here.
    ///
    /// # Errors
    /// What the first failing one did wrong.
    pub fn run(&self, by: BroughtBy) -> Result<Option<Vec<String>>, String> {
        let start = self.start();
        match (start, by) {
            // Users who cannot log in do not read the script.
            (_, BroughtBy::Script) if self.root.open_file("/bin/sh").is_err() => {
                return Ok(Some(Vec::new()));
            }
            (Start::ByLinker, BroughtBy::File | BroughtBy::Script) => return Ok(None),
            (_, BroughtBy::Script) => {
                let line = format!(". {PROFILE_SCRIPT}; exec {} {}", self.linker.path, self.own);
                let mut command = self.command(start, "/bin/sh", by)?;
                command.args(["-c", &line]);
                return Ok(Some(vec![self.check(command, "a login shell's child")?]));
            }
            _ => {}
        }
        let mut command = self.command(start, self.linker.path, by)?;
        if start == Start::ByLinker {
            command.args([OsString::from("--library-path"), self.library_path()]);
        }
        command.arg(self.path(start, self.own)?);
        let mut passed = vec![self.check(command, "a program with threads and a fork")?];
        if start == Start::ByLinker {
            return Ok(Some(passed));
        }
        for (paths, arguments) in [
            (&["/bin/sh", "/usr/bin/sh"], &["-c", SHELL_SCRIPT][..]),
            (&["/bin/cat", "/usr/bin/cat"], &[][..]),
        ] {
            let Some(path) = paths.iter().find(|path| self.takes_library(path)) else {
                continue;
            };
            let mut command = self.command(start, path, by)?;
            command.args(arguments);
            passed.push(self.check(command, path)?);
        }
        Ok(Some(passed))
    }

    /// Whether a file is a dynamic program of this libc.
    fn takes_library(&self, path: &str) -> bool {
        let file = self.root.open_file(path).and_then(OpenFile::new);
        let libc = match self.linker.libc {
            Libc::Glibc => LibcName::Glibc,
            Libc::Musl => LibcName::Musl,
        };
        let found = file.ok().and_then(|file| identify(&file).ok());
        found.is_some_and(|found| found.kind == Kind::Dynamic && found.libc.name == libc)
    }

    fn start(&self) -> Start {
        if self.root.is_this_system() {
            return Start::Here;
        }
        // The dynamic linker says its version, or how it is used: whatever it says, it was started.
        let mut command = Command::new(self.linker.path);
        command
            .arg("--version")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let is_allowed =
            sys::change_root(&mut command, self.root).is_ok() && command.status().is_ok();
        if is_allowed {
            Start::WithItsRoot
        } else {
            Start::ByLinker
        }
    }

    fn path(&self, start: Start, path: &str) -> Result<PathBuf, String> {
        match start {
            Start::Here | Start::WithItsRoot => Ok(path.into()),
            Start::ByLinker => {
                let relative = self.root.relative(path);
                relative.map_err(|error| format!("`{path}` cannot be found: {error}"))
            }
        }
    }

    /// Where the libc is, for a dynamic linker that does not have its own root.
    fn library_path(&self) -> OsString {
        let multiarch = format!("{}-linux-gnu", self.linker.architecture);
        let directories = ["/lib", "/lib64", "/usr/lib", "/usr/lib64"].map(str::to_owned);
        let of_debian = ["/lib", "/usr/lib"].map(|directory| format!("{directory}/{multiarch}"));
        let found = directories
            .iter()
            .chain(&of_debian)
            .filter_map(|directory| {
                let inside = self.root.relative(&format!("{directory}/x")).ok()?;
                Some(inside.parent()?.to_owned())
            });
        std::env::join_paths(found).unwrap_or_default()
    }

    /// The root directory is the one that was opened: by now its name may be another one's, with other programs.
    fn command(&self, start: Start, program: &str, by: BroughtBy) -> Result<Command, String> {
        let mut command = Command::new(self.path(start, program)?);
        command.env_clear().env("PATH", "/usr/bin:/bin");
        if let BroughtBy::Variable(value) = by {
            match start {
                Start::ByLinker => command
                    .arg("--preload")
                    .arg(self.path(start, self.library)?),
                _ => command.env("LD_PRELOAD", value),
            };
        }
        let prepared = match start {
            Start::Here => Ok(()),
            Start::WithItsRoot => sys::change_root(&mut command, self.root),
            Start::ByLinker => sys::start_in(&mut command, self.root),
        };
        prepared.map_err(|error| format!("`{program}` cannot be started: {error}"))?;
        Ok(command)
    }

    /// Starts one, and gives its name when all is well.
    ///
    /// It and what it forks are a process group, which is ended in any case: a child that hangs keeps standard error
    /// open, and reading that would wait for it.
    fn check(&self, mut command: Command, name: &str) -> Result<String, String> {
        let mut child = command
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{name} does not start: {error}"))?;
        let answered = self.answers_and_ends(&mut child);
        // It was not waited for yet, so the number is its group's still. It may have ended already.
        let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
        let mut stderr = Vec::new();
        // If it cannot be read, the message lacks it.
        let _ = child
            .stderr
            .take()
            .map(|mut pipe| pipe.read_to_end(&mut stderr));
        let stderr = String::from_utf8_lossy(&stderr);
        let status = child.wait().map_err(|error| format!("{name}: {error}"))?;
        let said = match stderr.trim() {
            "" => String::new(),
            text => format!(
                "; it printed: {}",
                text.lines().take(5).collect::<Vec<_>>().join(" / ")
            ),
        };
        if let Err(why) = answered {
            return Err(format!("{name} {why}{said}"));
        }
        if !status.success() {
            return Err(format!("{name} ended with {status}{said}"));
        }
        // A dynamic linker that cannot load a library says so and goes on.
        if stderr.contains(self.library) {
            return Err(format!("{name} ran, but not without errors{said}"));
        }
        Ok(name.to_owned())
    }

    /// Whether it lived, answered, had the library and ended.
    fn answers_and_ends(&self, child: &mut Child) -> Result<(), String> {
        let mut stdin = child.stdin.take().expect("it is piped");
        let stdout = child.stdout.take().expect("it is piped");
        let lines = lines_of(stdout).map_err(unwatched)?;
        // One that has ended cannot be written to; that it gives no answer is what counts.
        let _ = stdin.write_all(format!("{WORD}\n").as_bytes());
        let answer = match lines.recv_timeout(self.output_limit) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => {
                return Err(format!("hung for {:?}", self.output_limit));
            }
            Err(RecvTimeoutError::Disconnected) => return Err("ended too early".to_owned()),
        };
        let process = Process::open(child.id()).map_err(|error| error.to_string())?;
        let mappings = process.mappings();
        let mappings = mappings.map_err(|error| format!("cannot be inspected: {error}"))?;
        self.check_memory(&answer, &mappings)?;
        drop(stdin);
        match lines.recv_timeout(self.output_limit) {
            Err(RecvTimeoutError::Disconnected) => {}
            Err(RecvTimeoutError::Timeout) => return Err("did not end".to_owned()),
            Ok(line) => return Err(format!("printed `{line}` without being asked")),
        }
        // What the library does at the end of a process comes after the output was closed.
        if self.ends(child).map_err(unwatched)? {
            Ok(())
        } else {
            Err("did not end".to_owned())
        }
    }

    /// Whether it ends by itself. It keeps its number: waiting for it is left to the caller.
    fn ends(&self, child: &Child) -> io::Result<bool> {
        let (sender, receiver) = mpsc::channel();
        let id = Pid::from_child(child);
        let wait = move || {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            // It fails only where the caller has waited for it already, because this took too long.
            let _ = rustix::io::retry_on_intr(|| waitid(WaitId::Pid(id), options));
            let _ = sender.send(()); // then nobody waits any more
        };
        thread::Builder::new().spawn(wait)?;
        Ok(receiver.recv_timeout(self.end_limit).is_ok())
    }

    fn check_memory(&self, answer: &str, mappings: &[Mapping]) -> Result<(), String> {
        // The kernel shows a path without the links that lead to it, and from this process's root.
        let located = self.root.locate(self.library).unwrap_or_default();
        let is_library = |mapping: &&Mapping| mapping.listed_file().as_ref() == Some(&located);
        if !mappings.iter().any(|mapping| is_library(&mapping)) {
            return Err(format!("does not have `{}` in its memory", self.library));
        }
        if answer == WORD {
            return Ok(());
        }
        let Ok(malloc) = u64::from_str_radix(answer, 16) else {
            return Err(format!("answered `{answer}`"));
        };
        let there = |mapping: &&Mapping| (mapping.start..mapping.end).contains(&malloc);
        if mappings
            .iter()
            .filter(is_library)
            .any(|mapping| there(&mapping))
        {
            Ok(())
        } else {
            let other = mappings.iter().find(there).and_then(Mapping::listed_file);
            let other = other.unwrap_or_else(|| Path::new("somewhere else").to_owned());
            Err(format!("gets malloc from `{}`", other.display()))
        }
    }
}

/// Lines as they come; the channel closes at the end.
fn lines_of(output: impl io::Read + Send + 'static) -> io::Result<Receiver<String>> {
    let (sender, receiver) = mpsc::channel();
    let read = move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return; // nobody waits for it any more
            }
        }
    };
    thread::Builder::new().spawn(read)?;
    Ok(receiver)
}

fn unwatched(error: io::Error) -> String {
    format!("cannot be watched: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canaries_in(root: &Root) -> Canaries<'_> {
        Canaries {
            root,
            linker: Linker {
                libc: Libc::Glibc,
                architecture: std::env::consts::ARCH,
                path: "",
            },
            library: "",
            own: "",
            output_limit: DEADLINE,
            end_limit: DEADLINE,
        }
    }

    /// Checks the shell with a script; the shell itself is the library that it must have.
    fn check_shell(
        script: &str,
        output_limit: Duration,
        end_limit: Duration,
    ) -> Result<String, String> {
        let root = Root::running().unwrap();
        let shell = Path::new("/bin/sh").canonicalize().unwrap();
        let mut canaries = canaries_in(&root);
        canaries.library = shell.to_str().unwrap();
        canaries.output_limit = output_limit;
        canaries.end_limit = end_limit;
        let mut command = Command::new(&shell);
        command.args(["-c", script]);
        canaries.check(command, "the shell")
    }

    /// A limit for what never comes, so that nothing depends on how fast the machine is.
    const SOON: Duration = Duration::from_millis(1);
    const ANSWER: &str = "read a; echo \"$a\"; read b;";

    #[test]
    fn a_child_that_hangs_is_ended_with_the_canary_that_waits_for_it() {
        let script = "tail -f /dev/null & wait";
        let error = check_shell(script, SOON, DEADLINE).unwrap_err();
        assert!(error.starts_with("the shell hung for 1ms"), "{error}");
    }

    #[test]
    fn a_canary_that_has_answered_must_end_too() {
        let script = format!("{ANSWER} exec > /dev/null; tail -f /dev/null");
        let error = check_shell(&script, DEADLINE, SOON).unwrap_err();
        assert!(error.starts_with("the shell did not end"), "{error}");
    }

    #[test]
    fn what_a_canary_leaves_behind_is_not_waited_for() {
        let script = format!("tail -f /dev/null > /dev/null & {ANSWER} exit 0");
        assert_eq!(
            check_shell(&script, DEADLINE, DEADLINE).unwrap(),
            "the shell"
        );
    }

    /// A root directory whose program prints a word.
    fn make_root(directory: &Path, word: &str) {
        std::fs::create_dir_all(directory.join("etc")).unwrap();
        let source = directory.join("program.c");
        let text =
            format!("int puts(const char *);\nint main(void) {{ return puts(\"{word}\") < 0; }}\n");
        std::fs::write(&source, text).unwrap();
        let mut cc = Command::new("cc");
        cc.args(["-static", "-o"]).arg(directory.join("program"));
        assert!(cc.arg(source).status().unwrap().success());
    }

    /// The owner of the directory above may rename it while libraries are built.
    #[test]
    fn programs_start_in_the_directory_that_was_opened_also_when_its_name_is_anothers() {
        let above = tempfile::tempdir().unwrap();
        let path = |name: &str| above.path().join(name);
        make_root(&path("image"), "ours");
        make_root(&path("other"), "an attacker's");
        let root = Root::of(Some(&path("image")), "").unwrap();
        std::fs::rename(path("image"), path("aside")).unwrap();
        std::fs::rename(path("other"), path("image")).unwrap();
        let canaries = canaries_in(&root);
        for start in [Start::WithItsRoot, Start::ByLinker] {
            let mut command = canaries
                .command(start, "/program", BroughtBy::File)
                .unwrap();
            let output = command.output().unwrap();
            assert_eq!(
                String::from_utf8_lossy(&output.stdout),
                "ours\n",
                "{start:?}"
            );
        }
    }
}
