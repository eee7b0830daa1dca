//! Hooks in programs that no preload reaches: static ones, and those that run already. And another allocator in static ones.
//!
//! A static program has no dynamic linker that would load a library. So reheap starts it under ptrace(2), and while it
//! waits in front of its first instruction, maps the hooks into it and puts jumps to them in the place of the first
//! instructions of its malloc. Then reheap detaches: nothing stops the program afterwards, and a call costs a jump more
//! than with a preload. A process that runs already gets the same, with all its threads stopped, and loses it again
//! when reheap leaves.
//!
//! Rejected: a breakpoint in malloc (a stop per call takes microseconds), uprobes (root, and a trap per call),
//! rewriting the file (changes what is measured, needs space, breaks signatures).
//!
//! If something fails after the start, reheap kills the program, which has not executed an instruction yet, and says
//! why. To run it without hooks is the caller's choice. A running process gets back everything as it was.
//!
//! Another allocator gets into a static program in the same way (`allocator`).
//!
//! Limits:
//!
//! - On aarch64, tests run programs under qemu's user mode, with every byte that reheap would write there; ptrace itself is
//!   tested in an emulated machine (`make test-targets`). No real one ran it. Stripped programs without a marker are
//!   refused there, and so are those that take more than 128 MiB.
//! - A static program that executes another program loses the hooks with its memory.
//! - Attaching interrupts system calls for a moment. The kernel continues them, except the few that ptrace(2) names, such
//!   as `epoll_wait`: these return EINTR, as they do after Ctrl-Z and `fg`.
//! - If reheap is killed while it changes a running process, within milliseconds, the process may crash. If it is killed
//!   between, the hooks stay until the next reheap attaches, which takes them out of the code.
//! - C++'s `operator new` of an allocator that does not call its own malloc there is not hooked.
//!
//! The steps: `reheap_graft` finds the functions in the file and shows that a jump can take their place. Then one module
//! each: `library` reads the hooks; `room` finds room near the program; `layout` computes every byte; `tracee` makes
//! system calls inside the process; `attach` stops a running process and leaves it again.

mod allocator;
mod attach;
mod layout;
mod leftover;
mod library;
mod memory;
mod obstacle;
mod process;
mod registers;
mod room;
mod stopped;
pub(crate) mod sys;
mod tracee;

#[cfg(test)]
mod emulated;

pub use allocator::{Launched, Replacement, spawn_below, wait_for_exec};
pub use attach::{Attached, Left, attach};
pub use library::HooksLibrary;
pub use obstacle::Obstacle;
pub use process::{ProcessError, Target};

use layout::Layout;
use memory::{Memory, write_code};
use nix::errno::Errno;
use nix::sys::ptrace;
use nix::unistd::Pid;
use reheap_graft::{Access, GraftError, Located, Processor, PrologueError, Protection};
use std::fs;
use std::io::{self, Read as _};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Child, Command};
use sys::Stop;
use tracee::Tracee;

/// What reheap put into a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Injection {
    /// How the functions were found.
    pub access: Access,
    /// The hooked functions, by the names of their hooks, and where they are in the process.
    pub functions: Vec<(String, u64)>,
    /// Where the hooks are in the process.
    pub hooks: Range<u64>,
    /// Functions that were located, but have no hook. Their calls stay uncounted.
    pub not_hooked: Vec<String>,
    /// Functions that the program may have, but whose place nothing shows. Their calls stay uncounted.
    pub not_located: Vec<&'static str>,
}

/// A static program that runs with hooks.
#[derive(Debug)]
pub struct Started {
    /// The program, an ordinary child.
    pub child: Child,
    /// What is in it.
    pub injection: Injection,
}

/// Why hooks could not get into a process, or out of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InjectError {
    /// The program could not be started at all.
    #[error("it cannot be started: {0}")]
    Spawn(io::Error),
    /// The hooks are for another processor than this machine's, or the program is.
    #[error("the program and the hooks must be for this machine's processor")]
    Processor,
    /// A request of ptrace(2) failed.
    #[error("reheap cannot {what}: {errno}")]
    Trace {
        /// What reheap wanted to do with the process.
        what: &'static str,
        /// Why it could not.
        errno: Errno,
    },
    /// The system keeps the process from being traced.
    #[error(transparent)]
    Obstacle(#[from] Obstacle),
    /// A file under `/proc/PID` cannot be used.
    #[error("`{path}` cannot be used: {error}")]
    Proc {
        /// The file.
        path: String,
        /// Why.
        error: io::Error,
    },
    /// A system call inside the process failed.
    #[error("the process cannot {what}: {errno}")]
    SystemCall {
        /// What it should do.
        what: &'static str,
        /// Why it could not.
        errno: Errno,
    },
    /// The allocator does not fit into it.
    #[error(transparent)]
    Graft(#[from] GraftError),
    /// The process has no auxiliary vector where the kernel puts it.
    #[error("its auxiliary vector is not on its stack")]
    AuxiliaryVector,
    /// The hooks could not open the recording.
    #[error("the hooks cannot open the recording: {0}")]
    Recording(Errno),
    /// The hooks' own code ended in a signal.
    #[error("the hooks ended in signal {0} when they opened the recording")]
    Crashed(i32),
    /// The process ended meanwhile.
    #[error("the process ended before the hooks were in it")]
    Ended,
    /// Nothing is free in reach of a jump.
    #[error("there are no {bytes} free bytes of address space near the program's code")]
    NoRoom {
        /// How much is needed.
        bytes: u64,
    },
    /// The library is linked for smaller pages than this system has.
    #[error("the hooks are linked for pages smaller than this system's {page_bytes} bytes")]
    SharedPage {
        /// The system's page size.
        page_bytes: u64,
    },
    /// A jump cannot take the place of a function's first instructions.
    #[error("`{name}` cannot be hooked: {reason}")]
    Prologue {
        /// The function.
        name: String,
        /// Why.
        reason: PrologueError,
    },
    /// The process runs another program than the file that was examined.
    #[error("the process does not have the examined code of `{name}` at {address:#x}")]
    OtherCode {
        /// The function.
        name: String,
        /// Where it should be.
        address: u64,
    },
    /// The program would gain rights when it starts, which a traced program does not.
    #[error("it has {0}, and a program that reheap starts this way would run without")]
    Privileged(&'static str),
    /// Another jump is where reheap left its own.
    #[error("the code at {address:#x} changed while the hooks were in it, so reheap left it alone")]
    CodeChanged {
        /// Where.
        address: u64,
    },
}

impl InjectError {
    fn trace(what: &'static str, errno: Errno) -> Self {
        Self::Trace { what, errno }
    }
}

/// Starts a program with hooks in it. The child has the environment, files, signals and everything else that `command`
/// gives it; it is an ordinary child of the calling process, and no longer traced.
///
/// # Errors
/// When the program cannot be started, or the hooks cannot get into it. It has not executed an instruction then, and is
/// gone.
pub fn spawn(
    command: Command,
    located: &Located,
    hooks: &HooksLibrary,
    recording: &Path,
) -> Result<Started, InjectError> {
    spawn_by(command, |_| {}, located, hooks, recording)
}

/// Starts a program with hooks in it, as [`spawn`] does. `last` is what the child does after everything else, such as
/// executing the program itself.
///
/// # Errors
/// Those of [`spawn`].
pub fn spawn_by(
    mut command: Command,
    last: impl FnOnce(&mut Command),
    located: &Located,
    hooks: &HooksLibrary,
    recording: &Path,
) -> Result<Started, InjectError> {
    if [located.processor, hooks.processor()] != [Processor::native(); 2] {
        return Err(InjectError::Processor);
    }
    let (mut mask_reader, mask_writer) = io::pipe().map_err(InjectError::Spawn)?;
    sys::trace_from_start(&mut command, mask_writer.into());
    last(&mut command);
    let child = command.spawn().map_err(InjectError::Spawn)?;
    drop(command);
    let mut mask = [0; 8];
    let pid = Pid::from_raw(child.id() as i32);
    let injection = mask_reader
        .read_exact(&mut mask)
        .map_err(InjectError::Spawn)
        .and_then(|()| wait_for_start(pid))
        .and_then(|()| at_start(pid, u64::from_ne_bytes(mask), located, hooks, recording));
    match injection {
        Ok(injection) => Ok(Started { child, injection }),
        Err(error) => {
            kill(child);
            Err(error)
        }
    }
}

fn kill(mut child: Child) {
    let pid = Pid::from_raw(child.id() as i32);
    // It is ours and not reaped, so it is still there.
    if child.kill().is_ok() {
        while let Ok(stop) = sys::wait(pid) {
            if matches!(stop, Stop::Exited(_) | Stop::Killed(_)) {
                break;
            }
        }
    }
}

/// Waits until the program is in front of its first instruction. If this process ends now, so does the program.
fn wait_for_start(pid: Pid) -> Result<(), InjectError> {
    let error = |errno| InjectError::trace("wait for the program's start", errno);
    match sys::wait(pid).map_err(error)? {
        Stop::Signal(libc::SIGTRAP) => {}
        Stop::Signal(_) | Stop::Event | Stop::SystemCall => {
            return Err(error(Errno::EINTR));
        }
        Stop::Exited(_) | Stop::Killed(_) => return Err(InjectError::Ended),
    }
    ptrace::setoptions(pid, TRACED).map_err(error)
}

/// How a program is traced before its first instruction: it ends with its tracer.
const TRACED: ptrace::Options =
    ptrace::Options::PTRACE_O_EXITKILL.union(ptrace::Options::PTRACE_O_TRACESYSGOOD);

fn at_start(
    pid: Pid,
    mask: u64,
    located: &Located,
    hooks: &HooksLibrary,
    recording: &Path,
) -> Result<Injection, InjectError> {
    check_privileges(pid)?;
    let memory = process::memory(pid)?;
    let bias = process::entry(pid)?.wrapping_sub(located.entry);
    check_code(&memory, located, bias)?;
    let mappings = process::mappings(pid)?;
    let token = layout::Token::default(); // nobody will look for it
    let layout = layout::lay_out(located, bias, hooks, &mappings, page_bytes(), token)?;
    let mut tracee = Tracee::borrow(pid, Some(mask))?;
    open_hooks(&mut tracee, &memory, &layout, recording)?;
    for jump in layout.changes() {
        write_code(pid, jump.address, &jump.jump)?;
    }
    let signal = tracee.held_signal();
    tracee.give_back()?;
    sys::resume(pid, sys::Resume::Detach, signal)
        .map_err(|errno| InjectError::trace("detach from it", errno))?;
    Ok(injection(located, &layout))
}

fn injection(located: &Located, layout: &Layout) -> Injection {
    let addresses = layout.jumps.iter().map(|jump| jump.address);
    let is_hooked = |name: &str| layout.hooked.iter().any(|hooked| hooked == name);
    let names = located.functions.iter().map(|function| &function.name);
    Injection {
        access: located.access,
        functions: names
            .filter(|name| is_hooked(name))
            .cloned()
            .zip(addresses)
            .collect(),
        hooks: layout.range(),
        not_hooked: layout.not_hooked.clone(),
        not_located: located.not_located.clone(),
    }
}

fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

/// The kernel gives a traced program no rights that its tracer lacks, and says nothing.
fn check_privileges(pid: Pid) -> Result<(), InjectError> {
    let path = format!("/proc/{pid}/exe");
    let metadata = fs::metadata(&path).map_err(|error| InjectError::Proc {
        path: path.clone(),
        error,
    })?;
    let has_bit = |bit| metadata.mode() & bit != 0;
    if has_bit(libc::S_ISUID) && metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(InjectError::Privileged("the set-user-ID bit"));
    }
    if has_bit(libc::S_ISGID) && metadata.gid() != rustix::process::getegid().as_raw() {
        return Err(InjectError::Privileged("the set-group-ID bit"));
    }
    let mut none: [u8; 0] = [];
    match rustix::fs::getxattr(&path, "security.capability", &mut none) {
        Ok(size) if size > 0 => Err(InjectError::Privileged("file capabilities")),
        _ => Ok(()),
    }
}

/// Shows that the process runs the code that was examined.
fn check_code(memory: &Memory, located: &Located, bias: u64) -> Result<(), InjectError> {
    for function in &located.functions {
        let address = function.address.wrapping_add(bias);
        let code = memory.read(address, function.code.len());
        if !code.is_ok_and(|code| code == function.code) {
            return Err(InjectError::OtherCode {
                name: function.name.clone(),
                address,
            });
        }
    }
    for call in &located.own_frees {
        let address = call.address.wrapping_add(bias);
        let code = memory.read(address, call.code.len());
        if !code.is_ok_and(|code| code == call.code) {
            let name = "free".to_owned();
            return Err(InjectError::OtherCode { name, address });
        }
    }
    Ok(())
}

/// What [`open_hooks`] mapped in the process.
type Mapped = Vec<Range<u64>>;

/// Maps the block and lets the hooks open the recording. No jump leads there yet. Undoes everything if that fails.
fn open_hooks(
    tracee: &mut Tracee,
    memory: &Memory,
    layout: &Layout,
    recording: &Path,
) -> Result<Mapped, InjectError> {
    let first = layout.jumps.first().expect("something is hooked");
    with_system_calls(tracee, memory, first.address, |calls| {
        calls.map(Some(layout.base), layout.bytes.len() as u64)?;
        let opened = fill(calls, layout).and_then(|()| call_attach(calls, layout, recording));
        match opened {
            Ok(mut mapped) => {
                mapped.push(layout.range());
                Ok(mapped)
            }
            Err(error) => {
                // The first error is what matters; this one would only follow from it.
                let _ = calls.unmap(&layout.range());
                Err(error)
            }
        }
    })
}

/// Writes the block and makes its code executable, and no longer writable.
fn fill(calls: &mut Calls<'_>, layout: &Layout) -> Result<(), InjectError> {
    calls.write(layout.base, &layout.bytes)?;
    for (range, protection) in &layout.protections {
        calls.protect(range, *protection)?;
    }
    Ok(())
}

/// Lets the hooks open the recording, on a stack of their own.
fn call_attach(
    calls: &mut Calls<'_>,
    layout: &Layout,
    recording: &Path,
) -> Result<Mapped, InjectError> {
    const STACK_BYTES: u64 = 64 << 10;
    let path = [recording.as_os_str().as_bytes(), &[0]].concat();
    let stack = calls.map(None, STACK_BYTES)?;
    let opened = calls.write(stack, &path).and_then(|()| {
        let top = stack + STACK_BYTES;
        calls.tracee.call(layout.caller, layout.attach, stack, top)
    });
    let unmapped = calls.unmap(&(stack..stack + STACK_BYTES));
    let (result, mapped) = opened?;
    unmapped?;
    match result {
        0 => Ok(mapped),
        errno => Err(InjectError::Recording(Errno::from_raw(-errno))),
    }
}

/// System calls of the process about its memory.
struct Calls<'a> {
    tracee: &'a mut Tracee,
    memory: &'a Memory,
    site: u64,
}

/// Lets the process make system calls by an instruction that takes the place of code at `site` meanwhile.
fn with_system_calls<T>(
    tracee: &mut Tracee,
    memory: &Memory,
    site: u64,
    work: impl FnOnce(&mut Calls<'_>) -> Result<T, InjectError>,
) -> Result<T, InjectError> {
    let pid = tracee.pid();
    let original = memory
        .read(site, registers::SYSTEM_CALL.len())
        .map_err(|error| process::memory_error(pid, error))?;
    write_code(pid, site, &registers::SYSTEM_CALL)?;
    let result = work(&mut Calls {
        tracee,
        memory,
        site,
    });
    let restored = write_code(pid, site, &original);
    let result = result?;
    restored.map(|()| result)
}

impl Calls<'_> {
    /// Maps memory that may be read and written: there, or anywhere.
    fn map(&mut self, address: Option<u64>, bytes: u64) -> Result<u64, InjectError> {
        let there = match address {
            Some(_) => libc::MAP_FIXED_NOREPLACE,
            None => 0,
        };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | there;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let arguments = [
            address.unwrap_or(0),
            bytes,
            protection as u64,
            flags as u64,
            u64::MAX,
            0,
        ];
        let mapped = self
            .tracee
            .system_call(self.site, "map memory", libc::SYS_mmap, arguments)?;
        match address {
            // Linux before 4.17 takes the address as a wish.
            Some(address) if address != mapped => {
                self.unmap(&(mapped..mapped + bytes))?;
                Err(InjectError::NoRoom { bytes })
            }
            _ => Ok(mapped),
        }
    }

    fn unmap(&mut self, range: &Range<u64>) -> Result<(), InjectError> {
        let arguments = [range.start, range.end - range.start, 0, 0, 0, 0];
        self.tracee
            .system_call(self.site, "unmap memory", libc::SYS_munmap, arguments)
            .map(drop)
    }

    fn protect(&mut self, range: &Range<u64>, protection: Protection) -> Result<(), InjectError> {
        let protection = match protection {
            Protection::Read => libc::PROT_READ,
            Protection::Write => libc::PROT_READ | libc::PROT_WRITE,
            Protection::Execute => libc::PROT_READ | libc::PROT_EXEC,
        };
        let bytes = range.end - range.start;
        let arguments = [range.start, bytes, protection as u64, 0, 0, 0];
        let what = "make memory executable";
        self.tracee
            .system_call(self.site, what, libc::SYS_mprotect, arguments)
            .map(drop)
    }

    /// Does not come back, except with the error that the process has ended.
    fn exit(&mut self, code: i32) -> Result<(), InjectError> {
        let arguments = [code as u64, 0, 0, 0, 0, 0];
        self.tracee
            .system_call(self.site, "end", libc::SYS_exit_group, arguments)
            .map(drop)
    }

    fn write(&self, address: u64, bytes: &[u8]) -> Result<(), InjectError> {
        let pid = self.tracee.pid();
        let written = self.memory.write(address, bytes);
        written.map_err(|error| process::memory_error(pid, error))
    }
}
