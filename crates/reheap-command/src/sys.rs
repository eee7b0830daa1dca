//! Wraps the system calls that this crate needs and that have no safe function.

// `pre_exec`, and all of `handover`; see the comments there.
#![allow(unsafe_code)]

pub mod handover;

use rustix::thread::UnshareFlags;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Makes a command start in an open directory, whatever has that directory's name by then. A relative path to the
/// program begins there.
///
/// # Errors
/// If the process has too many files open.
pub fn start_in(command: &mut Command, directory: impl AsFd) -> io::Result<()> {
    let directory = directory.as_fd().try_clone_to_owned()?;
    // SAFETY: between fork and exec only functions may run that are async-signal-safe, because another thread may have
    // held any lock when this one forked. This is a bare system call: rustix adds no lock and no memory to it, and an
    // `Errno` becomes an `io::Error` without allocating.
    unsafe {
        command.pre_exec(move || Ok(rustix::process::fchdir(&directory)?));
    }
    Ok(())
}

/// Makes a command run with another root directory: by its right to change it, or else in a user namespace of its own,
/// where everybody has that right (user_namespaces(7)).
///
/// # Errors
/// If the process has too many files open; starting the command fails where neither is allowed.
pub fn change_root(command: &mut Command, root: impl AsFd) -> io::Result<()> {
    start_in(command, root)?;
    // SAFETY: as in `start_in`: these are bare system calls, and the paths are C strings already. `unshare` gives the
    // child, which has one thread, a user namespace and takes no file descriptors or memory away.
    unsafe {
        command.pre_exec(|| {
            if rustix::process::chroot(c".").is_err() {
                rustix::thread::unshare_unsafe(UnshareFlags::NEWUSER)?;
                rustix::process::chroot(c".")?;
            }
            Ok(rustix::process::chdir(c"/")?)
        });
    }
    Ok(())
}
