//! Wraps the system calls that this crate needs and that have no safe function.

// `pre_exec`, and all of `handover`; see the comments there.
#![allow(unsafe_code)]

pub(crate) mod handover;

use rustix::thread::UnshareFlags;
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

/// Makes a command run with another root directory: by its right to change it, or else in a user namespace of its own,
/// where everybody has that right (user_namespaces(7)).
///
/// # Errors
/// If the path cannot be one; starting the command fails where neither is allowed.
pub(crate) fn change_root(command: &mut Command, root: &Path) -> io::Result<()> {
    let root = CString::new(root.as_os_str().as_bytes())?;
    // SAFETY: between fork and exec only functions may run that are async-signal-safe, because another thread may have
    // held any lock when this one forked. These are bare system calls: rustix adds no lock to them, and no memory
    // either, as the path is a C string already; an `Errno` becomes an `io::Error` without allocating. `unshare` gives
    // the child, which has one thread, a user namespace and takes no file descriptors or memory away.
    unsafe {
        command.pre_exec(move || {
            if rustix::process::chroot(root.as_c_str()).is_err() {
                rustix::thread::unshare_unsafe(UnshareFlags::NEWUSER)?;
                rustix::process::chroot(root.as_c_str())?;
            }
            rustix::process::chdir(c"/")?;
            Ok(())
        });
    }
    Ok(())
}
