//! The requests of ptrace(2) and waitpid(2) for a command with all that it starts, and a child that waits to be traced.

// `pre_exec`, and system calls with pointers; see the comment at each.
#![allow(unsafe_code)]

use nix::errno::Errno;
use nix::sys::ptrace::Options;
use nix::unistd::Pid;
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::ptr;

/// What happened to a traced thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// It executes a program.
    Executed,
    /// It began, or started another.
    Began,
    /// It stopped with its process, as after Ctrl-Z, until somebody sends SIGCONT.
    StoppedWithItsProcess,
    /// A signal of that number is about to be delivered.
    Signal(i32),
    /// It is about to end, and still has its memory.
    Ends,
    /// It exited with that code.
    Exited(i32),
    /// That signal killed it.
    Killed(i32),
}

/// Waits for any thread that this one traces.
pub(super) fn wait_for_any() -> Result<(Pid, Event), Errno> {
    wait(-1)
}

/// Waits for one thread; `None` if it ended, and then somebody else still has to wait for it.
pub(super) fn wait_for_stop(thread: Pid) -> Result<Option<Event>, Errno> {
    use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WSTOPPED | WaitPidFlag::WNOWAIT;
    match waitid(Id::Pid(thread), flags) {
        Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) => Ok(None),
        // EINVAL: a real-time signal, which nix does not know.
        Ok(_) | Err(Errno::EINTR | Errno::EINVAL) => {
            wait(thread.as_raw()).map(|(_, event)| Some(event))
        }
        Err(errno) => Err(errno),
    }
}

fn wait(which: i32) -> Result<(Pid, Event), Errno> {
    loop {
        let mut status = 0;
        // Safety: `status` lives across the call, which writes one number to it.
        let result = unsafe { libc::waitpid(which, &mut status, libc::__WALL | libc::__WNOTHREAD) };
        match Errno::result(result) {
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
            Ok(thread) => return Ok((Pid::from_raw(thread), decode(status))),
        }
    }
}

fn decode(status: i32) -> Event {
    const EVENT_STOP: i32 = 128; // PTRACE_EVENT_STOP
    const STOPS: [i32; 4] = [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
    if libc::WIFEXITED(status) {
        return Event::Exited(libc::WEXITSTATUS(status));
    }
    if libc::WIFSIGNALED(status) {
        return Event::Killed(libc::WTERMSIG(status));
    }
    match (libc::WSTOPSIG(status), status >> 16) {
        (signal, 0) => Event::Signal(signal),
        (_, libc::PTRACE_EVENT_EXEC) => Event::Executed,
        (_, libc::PTRACE_EVENT_EXIT) => Event::Ends,
        (signal, EVENT_STOP) if STOPS.contains(&signal) => Event::StoppedWithItsProcess,
        _ => Event::Began,
    }
}

/// Traces a process up to its exec. It dies with this one.
///
/// It does not stop when it ends: if there is no exec, `Command::spawn` waits for it in another thread, and would take
/// the stop for the end.
pub(super) fn seize(pid: Pid) -> Result<(), Errno> {
    nix::sys::ptrace::seize(
        pid,
        Options::PTRACE_O_EXITKILL | Options::PTRACE_O_TRACEEXEC,
    )
}

/// Traces a stopped process up to its end, and all that it starts. They die with this one.
pub(super) fn trace_all(pid: Pid) -> Result<(), Errno> {
    let options = Options::PTRACE_O_EXITKILL
        | Options::PTRACE_O_TRACECLONE
        | Options::PTRACE_O_TRACEEXEC
        | Options::PTRACE_O_TRACEEXIT
        | Options::PTRACE_O_TRACEFORK
        | Options::PTRACE_O_TRACEVFORK;
    nix::sys::ptrace::setoptions(pid, options)
}

/// The number that a thread had before it executed a program: it got that of its process.
pub(super) fn former_number(thread: Pid) -> Result<Pid, Errno> {
    let number = nix::sys::ptrace::getevent(thread)?;
    Ok(Pid::from_raw(number as i32))
}

/// Leaves a thread stopped, but tells when it goes on.
pub(super) fn listen(thread: Pid) -> Result<(), Errno> {
    // Safety: the request takes no pointers (ptrace(2)).
    let result = unsafe {
        libc::ptrace(
            libc::PTRACE_LISTEN as _,
            thread.as_raw(),
            ptr::null_mut::<libc::c_void>(),
            ptr::null_mut::<libc::c_void>(),
        )
    };
    Errno::result(result).map(drop)
}

/// Where a signal comes from (sigaction(2)).
#[derive(Debug, Clone, Copy)]
pub(super) struct Source {
    /// Above 0 if the kernel sent it.
    pub(super) code: i32,
    /// The address of the fault, if it was one.
    pub(super) address: u64,
}

/// The source of the signal that a thread is about to get.
pub(super) fn source(thread: Pid) -> Result<Source, Errno> {
    let info = nix::sys::ptrace::getsiginfo(thread)?;
    // Safety: the kernel filled all of `info`, and any bits are an address that nobody uses as a pointer.
    let address = unsafe { info.si_addr() };
    Ok(Source {
        code: info.si_code,
        address: address.addr() as u64,
    })
}

/// The two ends of what a child and its tracer say to each other.
pub(super) struct Gate {
    child: PipeReader,
    go_on: PipeWriter,
}

impl Gate {
    /// Waits until the child waits, and gives its number.
    pub(super) fn wait_for_child(&self) -> io::Result<Pid> {
        let mut number = [0; 4];
        (&self.child).read_exact(&mut number)?;
        Ok(Pid::from_raw(i32::from_ne_bytes(number)))
    }

    /// Lets the child go on.
    pub(super) fn open(mut self) -> io::Result<()> {
        self.go_on.write_all(&[1])
    }
}

/// Lets the child of a command wait before it executes its program.
pub(super) fn hold_before_exec(mut command: Command) -> io::Result<(Command, Gate)> {
    let (child, number) = io::pipe()?;
    let (open, go_on) = io::pipe()?;
    // If the tracer is gone, the child must not wait for itself.
    let tracers_end = go_on.as_raw_fd();
    // Safety: between fork and exec only functions may run that are async-signal-safe, because another thread may have
    // held any lock when this one forked. These are bare system calls, and an error is made without allocating. In the
    // child nothing else has the closed descriptor: its copy of `Gate` is never dropped.
    unsafe {
        command.pre_exec(move || {
            rustix::io::close(tracers_end);
            let pid = rustix::process::getpid().as_raw_nonzero().get();
            rustix::io::write(&number, &pid.to_ne_bytes())?;
            let mut byte = [0];
            match rustix::io::read(&open, &mut byte)? {
                1 => Ok(()),
                _ => Err(io::Error::from_raw_os_error(libc::ECANCELED)),
            }
        });
    }
    Ok((command, Gate { child, go_on }))
}
