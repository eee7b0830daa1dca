//! The launcher: an executable of some hundred bytes that starts a command and waits for it.
//!
//! `wait4` says how much memory a process had at its peak, but Linux lets `execve` take the peak of the process image
//! that it replaces along: a command that is started by a program of 300 MiB never shows less than 300 MiB. So the
//! command has to be started by something smaller than any command, and even a program that prints one line is 2 MiB
//! with a dynamic libc. Hence machine code, in an ELF file that is made here and executed from memory: two pages. The
//! code is in `launcher/`.
//!
//! Rejected: `VmHWM` at exit, because it takes ptrace to be there in time, which slows signals down and misses the
//! processes that the command starts; `sh`, which is larger than what reheap measures; a second program beside reheap,
//! which gets lost. The launcher also reads the clock, so its own start is not in the wall time.
//!
//! It is also what keeps a run together. Whatever the command starts stays below the launcher, because orphans become
//! children of the nearest ancestor that is a "child subreaper" (prctl(2)), also when they left the command's process
//! group and session as daemons do. So the launcher knows whether anything is left when the command has ended, and says
//! so in its report. `run` finds all of it by walking down from the launcher, without global state in this process and
//! without a cgroup, which takes rights. The launcher stays until nothing is left. If the thread that started it dies,
//! the kernel ends the launcher, and with it the command.
//!
//! It gives up the terminal, but stays in the session. With `setsid` it would lose the terminal too; but where the
//! kernel's autogroups are on (sched(7)), each session has its own share of the processors, and to switch between the
//! shares takes time: on a busy machine /bin/true took 0.41 ms instead of 0.28, and each run 5 ms instead of 0.4.
//!
//! Protocol, all in the launcher's arguments and its standard input:
//!
//! - `argv[1]` is the file that the command gets as standard input, `argv[2]` the path of the program, and the
//!   command's arguments begin at `argv[2]`.
//! - Standard input is the report, a pipe; [`Report`] says what comes through it. It is closed when the launcher ends.
//! - The launcher's exit code is 0 after a whole report, the error code if the system gives no process for the command,
//!   and 255 after another error.
//!
//! To add an architecture: a file in `launcher/`, and its `global_asm!` and its name in the `cfg`s here.

// `pre_exec`, `global_asm!` and the slice over the two symbols that it defines; see the comment at each.
#![allow(unsafe_code)]

use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

/// Makes a command write this to a file before it becomes its program.
pub(crate) fn write_before_exec(command: &mut Command, file: File, text: &'static [u8]) {
    // Safety: between fork and exec only functions may run that are async-signal-safe, because another thread may have
    // held any lock when this one forked. `write` is (signal-safety(7)), rustix adds no lock and no memory to it, and
    // an `Errno` becomes an `io::Error` without allocating.
    unsafe {
        command.pre_exec(move || match rustix::io::write(&file, text) {
            Ok(_) => Ok(()),
            Err(errno) => Err(io::Error::from(errno)),
        });
    }
}

/// Writes to a file from a new process, which does nothing else.
pub(crate) fn write_in_child(file: File, text: &'static [u8]) -> io::Result<()> {
    // An error that `write` does not know, so that the process ends before it becomes a program, and we see why.
    const DONE: i32 = Errno::CANCELED.raw_os_error();
    let mut command = Command::new("/");
    write_before_exec(&mut command, file, text);
    // Safety: the function runs between fork and exec; it only makes a number an error, and allocates nothing.
    unsafe { command.pre_exec(|| Err(io::Error::from_raw_os_error(DONE))) };
    match command.spawn() {
        Ok(_) => unreachable!("a process that ends before exec was started"),
        Err(error) if error.raw_os_error() == Some(DONE) => Ok(()),
        Err(error) => Err(error),
    }
}

// Safety: this is data for this process, in a section of read-only data; nothing here jumps there.
#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    include_str!("launcher/elf_header.s"),
    include_str!("launcher/x86_64.s"),
    machine = const 62, // EM_X86_64
);

// Safety: this is data for this process, in a section of read-only data; nothing here jumps there.
#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    include_str!("launcher/elf_header.s"),
    include_str!("launcher/aarch64.s"),
    machine = const 183, // EM_AARCH64
);

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
unsafe extern "C" {
    #[link_name = "reheap_launcher_start"]
    static LAUNCHER_START: u8;
    #[link_name = "reheap_launcher_end"]
    static LAUNCHER_END: u8;
}

/// The launcher as an executable file, or nothing where there is none for this architecture.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) fn launcher() -> Option<&'static [u8]> {
    let (start, end) = (&raw const LAUNCHER_START, &raw const LAUNCHER_END);
    // Safety: both symbols stand in one section, the end behind the start, because the `global_asm!` above emits them
    // in this order between `.pushsection` and `.popsection`; the bytes between are read-only data that is never freed.
    Some(unsafe { std::slice::from_raw_parts(start, end.offset_from_unsigned(start)) })
}

/// The launcher as an executable file, or nothing where there is none for this architecture.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) fn launcher() -> Option<&'static [u8]> {
    None
}

/// What the launcher writes when the command has ended: one array of eight-byte words.
///
/// | bytes | content |
/// | --- | --- |
/// | 0..8 | the negative error code; only there if the command could not be started |
/// | 8..24, 24..40 | `struct timespec` of the monotonic clock, before the start and after the end |
/// | 40..44 | the wait status |
/// | 44..48 | 1 if anything that the command started still runs, 0 if nothing is left |
/// | 48..192 | `struct rusage` as the kernel lays it out: 18 words |
///
/// Both parts are written at once, and a pipe does not divide what is shorter than 512 bytes (POSIX).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) exec_error: i32,
    pub(crate) wall: Duration,
    pub(crate) wait_status: i32,
    pub(crate) is_something_left: bool,
    pub(crate) user: Duration,
    pub(crate) system: Duration,
    pub(crate) peak_rss_kib: u64,
    pub(crate) minor_faults: u64,
    pub(crate) major_faults: u64,
    pub(crate) voluntary_context_switches: u64,
    pub(crate) involuntary_context_switches: u64,
}

impl Report {
    const BYTES: usize = 192;
    const BYTES_WITHOUT_ERROR: usize = 184;

    /// The report, once it is there as a whole.
    pub(crate) fn parse(received: &[u8]) -> Option<Report> {
        if received.len() < Report::BYTES_WITHOUT_ERROR {
            return None;
        }
        let mut bytes = [0; Report::BYTES];
        let start = Report::BYTES.checked_sub(received.len())?;
        bytes[start..].copy_from_slice(received);
        Some(Report::from_bytes(&bytes))
    }

    fn from_bytes(bytes: &[u8; Report::BYTES]) -> Report {
        let (words, _) = bytes.as_chunks::<8>();
        let word = |offset_bytes: usize| u64::from_le_bytes(words[offset_bytes / 8]);
        let clock = |offset_bytes| Duration::new(word(offset_bytes), word(offset_bytes + 8) as u32);
        let cpu = |offset_bytes| {
            Duration::from_secs(word(offset_bytes)) + Duration::from_micros(word(offset_bytes + 8))
        };
        Report {
            exec_error: -(word(0) as i64 as i32),
            wall: clock(24).saturating_sub(clock(8)),
            wait_status: word(40) as u32 as i32,
            is_something_left: word(40) >> 32 != 0,
            user: cpu(48),
            system: cpu(64),
            peak_rss_kib: word(80),
            minor_faults: word(112),
            major_faults: word(120),
            voluntary_context_switches: word(176),
            involuntary_context_switches: word(184),
        }
    }
}
