//! `reheap run --verify`: the command is started, watched until its allocator was seen at work, and ended.
//!
//! In front of the library stands the probe that `reheap bench` uses too, which counts the calls that reach it and asks
//! whose malloc is behind it. The command is ended as soon as both hold: the program itself, not a script or wrapper that
//! leads to it, has the library in its memory; and calls of every process so far went there. If it ends before, what its
//! processes did until then decides. Programs that were not there yet, such as those that a server starts for its first
//! request, are not vouched for.

use crate::bench::interrupt;
use crate::preload;
use crate::process::{Existence, Process};
use crate::program::Program;
use crate::setup::{self, Choice};
use crate::ui::Failure;
use anyhow::Context as _;
use reheap_allocators::probe::{Observation, Recording};
use rustix::process::{Pid, Signal};
use serde::Serialize;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// After this a program that has not called malloc will not do so for this purpose.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a program has to end when it is asked to.
const GRACE: Duration = Duration::from_secs(5);
const INTERVAL: Duration = Duration::from_millis(5);

/// What was seen.
#[derive(Debug, Serialize)]
pub(super) struct Proof {
    pub(super) allocator: &'static str,
    pub(super) version: &'static str,
    /// The program that has it.
    pub(super) program: String,
    /// Calls of the malloc family that were seen to reach the library.
    pub(super) calls: u64,
    /// How many processes loaded it.
    pub(super) processes: u64,
    /// The same as a clause.
    pub(super) seen: String,
    /// Whether the program was still running, and so was ended.
    pub(super) ended: bool,
}

/// Starts the command and looks.
///
/// # Errors
/// If it cannot be started, or its calls do not reach the library.
pub(super) fn verify(
    program: &Program,
    choice: &Choice,
    command: &[OsString],
) -> anyhow::Result<Proof> {
    let target = program.target().context("there is no library for it")?;
    let library = setup::build_preload(choice, &target, &setup::cache()?)?;
    let probe = setup::build_probe(&target)?;
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let recording = Recording::create(&folder.path().join("recording"))?;
    let mut environment =
        preload::environment(choice, preload::library(choice, program)?.as_deref());
    let preload = environment
        .iter()
        .position(|(name, _)| name == preload::LD_PRELOAD);
    let preload = preload.map(|position| environment.remove(position).1);
    environment.extend(recording.environment(&probe, preload.as_deref()));

    let (file, first_arguments) = program.launch();
    let shown = program.file.display();
    let child = Command::new(file)
        .args(first_arguments)
        .args(&command[1..])
        .envs(environment)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot run `{shown}`"))?;
    let mut watched = Watched { child };
    let ended = watched.watch(program, &library, &recording)?;
    drop(watched);
    let observation = recording.observation()?;
    let name = choice.allocator.name;
    let seen = observation.active(&library).map_err(|why| {
        Failure::failed(format!(
            "`{shown}` does not get its memory from {name}: {why}"
        ))
    })?;
    Ok(Proof {
        allocator: name,
        version: choice.allocator.version,
        program: shown.to_string(),
        calls: observation.calls_total(),
        processes: observation.processes,
        seen,
        ended,
    })
}

/// The command in a process group of its own; it ends when this does.
struct Watched {
    child: Child,
}

impl Watched {
    /// Until all is seen, or the command ends, or it takes too long; says whether it was still running.
    fn watch(
        &mut self,
        program: &Program,
        library: &Path,
        recording: &Recording,
    ) -> anyhow::Result<bool> {
        let interrupted = interrupt::on_signals()?;
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            if interrupted.load(Ordering::Relaxed) {
                return Err(Failure::failed("interrupted").code(130).into());
            }
            if self.child.try_wait()?.is_some() {
                return Ok(false);
            }
            let observation = recording.observation()?;
            if is_proved(&observation, library) && self.has(program, library) {
                return Ok(true);
            }
            std::thread::sleep(INTERVAL);
        }
        Ok(true)
    }

    /// Whether the process is the program by now, and has the library.
    fn has(&self, program: &Program, library: &Path) -> bool {
        let Ok(process) = Process::open(self.child.id()) else {
            return false;
        };
        let is_program = process.executable().is_ok_and(|(path, existence)| {
            existence == Existence::Present && is_same_file(&path, &program.file)
        });
        let Ok(inode) = library.metadata().map(|metadata| metadata.ino()) else {
            return false;
        };
        is_program
            && process.maps().is_ok_and(|maps| {
                maps.iter().any(|mapping| {
                    let has_name =
                        mapping.path.as_deref().and_then(Path::file_name) == library.file_name();
                    has_name
                        && (mapping.inode == inode
                            || mapping
                                .path
                                .as_deref()
                                .is_some_and(|path| is_same_file(path, library)))
                })
            })
    }
}

fn is_proved(observation: &Observation, library: &Path) -> bool {
    observation.elsewhere == 0 && observation.in_front == 0 && observation.active(library).is_ok()
}

fn is_same_file(a: &Path, b: &Path) -> bool {
    matches!((a.metadata(), b.metadata()), (Ok(a), Ok(b)) if a.dev() == b.dev() && a.ino() == b.ino())
}

impl Drop for Watched {
    /// The whole group, so that nothing that was started for this stays.
    fn drop(&mut self) {
        let group = Pid::from_child(&self.child);
        // Where there is nobody left to send it to, all is well.
        let _ = rustix::process::kill_process_group(group, Signal::TERM);
        let asked = Instant::now();
        // The one that was started may be gone long before what it started.
        while asked.elapsed() < GRACE {
            let _ = self.child.try_wait(); // a zombie counts as one of the group
            if rustix::process::test_kill_process_group(group).is_err() {
                break;
            }
            std::thread::sleep(INTERVAL);
        }
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
        let _ = self.child.wait();
    }
}
