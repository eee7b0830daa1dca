//! Hands this process over to a program, in the state in which the caller started reheap.
//!
//! Before `main`, Rust's runtime ignores SIGPIPE and opens `/dev/null` where a standard stream is closed.
//! `Command::exec` then sets SIGPIPE to its default and rebuilds the environment: sorted, each name once, only entries
//! with a `=`. So the C library calls a function of this file before the runtime starts, and that function notes the
//! state. The program gets the environment unchanged, except for the variables that reheap sets.
//!
//! That function also changes one thing. If SIGCHLD is ignored, no parent learns how a child ended (wait(2)), so reheap
//! could start no compiler. It gets its default until reheap executes the program.
//!
//! Rejected: reading `/proc/self/status` in `main`, because it shows the state after the runtime changed it.

use std::ffi::{CStr, CString, OsStr, OsString, c_char, c_int};
use std::io;
use std::mem;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::ptr;
use std::sync::atomic::{AtomicU8, Ordering};

/// What there was before the runtime started: the bits below.
static FOUND: AtomicU8 = AtomicU8::new(0);
/// The function has run.
const NOTED: u8 = 1 << 7;
/// SIGPIPE was ignored.
const IGNORED_SIGPIPE: u8 = 1 << 6;
/// SIGCHLD was ignored.
const IGNORED_SIGCHLD: u8 = 1 << 5;
/// The C library's signal for threads was ignored, as in what glibc's posix_spawn(3) starts.
const IGNORED_SETXID: u8 = 1 << 4;
// 1 << N: the standard stream N was closed.

// SAFETY: POSIX declares it so; Rust's `libc` has it for some C libraries only.
unsafe extern "C" {
    static environ: *const *const c_char;
}

/// The C library calls everything in this section before `main`, and so before the runtime (ELF gABI, "Initialization
/// and Termination Functions"). musl passes nothing. glibc passes the arguments of `main`, which stay in registers that
/// the function does not read.
// SAFETY: the section is an array of pointers to functions, and this adds one.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_THE_RUNTIME: extern "C" fn() = note;

extern "C" fn note() {
    let mut found = NOTED;
    for stream in 0..3 {
        // SAFETY: this takes no pointer, and says EBADF of a number that stands for no open file (fcntl(2)).
        if unsafe { libc::fcntl(stream, libc::F_GETFD) } == -1 {
            found |= 1 << stream;
        }
    }
    if is_ignored(libc::SIGPIPE) {
        found |= IGNORED_SIGPIPE;
    }
    if is_ignored(libc::SIGCHLD) {
        found |= IGNORED_SIGCHLD;
        set(libc::SIGCHLD, libc::SIG_DFL);
    }
    if is_setxid_ignored() {
        found |= IGNORED_SETXID;
    }
    FOUND.store(found, Ordering::Relaxed);
}

/// glibc handles it itself once there are threads, and lets nobody ask for it (nptl(7)).
const SIGSETXID: c_int = 33;
/// A signal's action as the kernel has it: the handler comes first, and all zeroes are the default (rt_sigaction(2)).
type KernelAction = [libc::sighandler_t; 4];

fn is_setxid_ignored() -> bool {
    let mut action = KernelAction::default();
    let none = ptr::null::<KernelAction>();
    // SAFETY: a null pointer leaves the action as it is; the other is to as many bytes as the kernel writes.
    let asked = unsafe {
        libc::syscall(
            libc::SYS_rt_sigaction,
            SIGSETXID,
            none,
            &mut action,
            8_usize,
        )
    };
    asked == 0 && action[0] == libc::SIG_IGN
}

fn ignore_setxid() {
    let action: KernelAction = [libc::SIG_IGN, 0, 0, 0];
    let none = ptr::null_mut::<KernelAction>();
    // SAFETY: the action is no function that could be called, and the kernel reads as many bytes as there are.
    unsafe { libc::syscall(libc::SYS_rt_sigaction, SIGSETXID, &action, none, 8_usize) };
}

/// Whether the signal is ignored.
pub fn is_ignored(signal: c_int) -> bool {
    // SAFETY: zeroes are a value of every field of this C struct.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: a null pointer leaves the action as it is; the other is to a struct of this function (sigaction(2)).
    let asked = unsafe { libc::sigaction(signal, ptr::null(), &mut action) };
    asked == 0 && action.sa_sigaction == libc::SIG_IGN
}

/// The action is to ignore the signal, or its default.
fn set(signal: c_int, action: libc::sighandler_t) {
    // SAFETY: neither of the two actions is a function that could be called (signal(2)).
    unsafe { libc::signal(signal, action) };
}

/// Executes the file with these arguments, the first being its name, and with these variables set.
/// Returns only if that fails.
pub fn become_program(
    file: &Path,
    arguments: &[&OsStr],
    variables: &[(OsString, OsString)],
) -> io::Error {
    match prepared(file, arguments, variables) {
        Ok((file, arguments, environment)) => {
            execute(&file, &pointers(&arguments), &pointers(&environment))
        }
        Err(error) => error,
    }
}

fn prepared(
    file: &Path,
    arguments: &[&OsStr],
    variables: &[(OsString, OsString)],
) -> io::Result<(CString, Vec<CString>, Vec<CString>)> {
    let text = |word: &OsStr| CString::new(word.as_bytes());
    let arguments: Result<Vec<_>, _> = arguments.iter().copied().map(text).collect();
    let environment = with_variables(environment(), variables)?;
    Ok((text(file.as_os_str())?, arguments?, environment))
}

/// Makes the child of a command execute the file in the same way, instead of what the command says. To be called after
/// everything else that the child shall do.
///
/// `Command` would change more than it must: glibc's posix_spawn(3) leaves two signals ignored, and the environment would
/// be sorted.
pub fn execute_in_child(
    command: &mut Command,
    file: &Path,
    arguments: &[&OsStr],
    variables: &[(OsString, OsString)],
) -> io::Result<()> {
    let (file, arguments, environment) = prepared(file, arguments, variables)?;
    let lists = Lists(
        pointers(&arguments),
        pointers(&environment),
        [arguments, environment],
    );
    // SAFETY: between fork and exec only functions may run that are async-signal-safe, because another thread may have
    // held any lock when this one forked. `execute` makes system calls, and an error is made without allocating.
    unsafe {
        command.pre_exec(move || {
            let Lists(arguments, environment, _) = &lists;
            Err(execute(&file, arguments, environment))
        });
    }
    Ok(())
}

/// Two lists of pointers, and the texts that they lead to.
struct Lists(
    Vec<*const c_char>,
    Vec<*const c_char>,
    #[expect(dead_code)] [Vec<CString>; 2],
);

// SAFETY: nobody changes the texts, and they are freed together with the pointers.
unsafe impl Send for Lists {}
// SAFETY: as above.
unsafe impl Sync for Lists {}

fn execute(file: &CStr, arguments: &[*const c_char], environment: &[*const c_char]) -> io::Error {
    let found = FOUND.load(Ordering::Relaxed);
    if found & NOTED != 0 {
        close_at_exec(found);
        let was = |bit: u8| {
            if found & bit != 0 {
                libc::SIG_IGN
            } else {
                libc::SIG_DFL
            }
        };
        set(libc::SIGPIPE, was(IGNORED_SIGPIPE));
        set(libc::SIGCHLD, was(IGNORED_SIGCHLD));
        if found & IGNORED_SETXID != 0 {
            ignore_setxid();
        }
    }
    // SAFETY: each list ends with a null pointer, and all others are to C strings that live in the caller.
    unsafe { libc::execve(file.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
    let error = io::Error::last_os_error();
    set(libc::SIGPIPE, libc::SIG_IGN); // as the runtime has it, because the error is still to be written
    error
}

/// Closes what the runtime has opened, unless executing fails.
fn close_at_exec(found: u8) {
    for stream in (0..3).filter(|stream| found & (1 << stream) != 0) {
        // SAFETY: this takes no pointer; it is a flag of `/dev/null`, which nobody else in this process has opened
        // there.
        unsafe { libc::fcntl(stream, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
}

/// All entries, in their order, whatever is in them.
fn environment() -> Vec<CString> {
    // SAFETY: nobody in this program changes the environment, so it is the list that the kernel made (execve(2)).
    let mut next = unsafe { environ };
    let mut entries = Vec::new();
    if next.is_null() {
        return entries; // clearenv(3) leaves that
    }
    loop {
        // SAFETY: the list ends with a null pointer, and nothing behind that is read.
        let entry = unsafe { *next };
        if entry.is_null() {
            return entries;
        }
        // SAFETY: each entry is a C string, of the same list.
        entries.push(unsafe { CStr::from_ptr(entry) }.to_owned());
        // SAFETY: there is one more entry, or the null pointer.
        next = unsafe { next.add(1) };
    }
}

/// The entries with these variables, each in the place of the first that has its name. Further ones of that name go:
/// some programs read the first of them, others the last.
fn with_variables(
    mut entries: Vec<CString>,
    variables: &[(OsString, OsString)],
) -> io::Result<Vec<CString>> {
    for (name, value) in variables {
        let start = [name.as_bytes(), b"="].concat();
        let entry = CString::new([&start, value.as_bytes()].concat())?;
        let is_of_it = |entry: &CString| entry.as_bytes().starts_with(&start);
        let place = entries.iter().position(is_of_it).unwrap_or(entries.len());
        entries.retain(|entry| !is_of_it(entry));
        entries.insert(place, entry);
    }
    Ok(entries)
}

fn pointers(texts: &[CString]) -> Vec<*const c_char> {
    let all = texts.iter().map(|text| text.as_ptr());
    all.chain([ptr::null()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(entries: &[&str], variables: &[(&str, &str)]) -> Vec<String> {
        let entries = entries.iter().map(|&entry| CString::new(entry).unwrap());
        let variables: Vec<_> = variables
            .iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        let changed = with_variables(entries.collect(), &variables).unwrap();
        let texts = changed.into_iter().map(CString::into_string);
        texts.collect::<Result<_, _>>().unwrap()
    }

    #[test]
    fn a_variable_takes_the_place_of_its_first_entry_and_nothing_else_changes() {
        let odd = ["B=1", "odd", "", "=x", "A=1", "B=2"];
        assert_eq!(changed(&odd, &[]), odd);
        assert_eq!(
            changed(&odd, &[("A", "new"), ("NEW", "")]),
            ["B=1", "odd", "", "=x", "A=new", "B=2", "NEW="]
        );
        assert_eq!(
            changed(&odd, &[("B", "new"), ("odd", "1")]),
            ["B=new", "odd", "", "=x", "A=1", "odd=1"]
        );
        assert_eq!(changed(&[], &[("A", "1"), ("A", "2")]), ["A=2"]);
    }

    #[test]
    fn somebody_looked_before_the_runtime_started() {
        assert_ne!(FOUND.load(Ordering::Relaxed) & NOTED, 0);
    }
}
