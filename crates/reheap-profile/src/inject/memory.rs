//! The memory of another process.
//!
//! An aarch64 processor may run old instructions from its cache after new ones were written. The kernel sees to that for
//! both ways to write here: each goes through `access_remote_vm`, which empties the caches for executable memory
//! (`copy_to_user_page` in arch/arm64/mm/flush.c). For memory that becomes executable later, mprotect does it. A thread
//! that stopped comes back through the kernel, and so fetches its next instructions again. process_vm_writev(2) does
//! nothing of that: it must not write code.

use super::InjectError;
use nix::errno::Errno;
use nix::sys::ptrace;
use nix::unistd::Pid;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;

/// An open `/proc/PID/mem`. It belongs to the program that ran when it was opened: after an exec it reads nothing.
#[derive(Debug)]
pub(super) struct Memory(File);

impl Memory {
    pub(super) fn open(pid: Pid) -> io::Result<Self> {
        let path = format!("/proc/{pid}/mem");
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        Ok(Self(file))
    }

    pub(super) fn read(&self, address: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let mut buffer = vec![0; bytes];
        self.0.read_exact_at(&mut buffer, address)?;
        Ok(buffer)
    }

    /// Writes to memory that the process itself may write.
    pub(super) fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, address)
    }
}

/// Writes code of a stopped thread's process, whose pages are not writable. Only a debugger's request may do that
/// everywhere: some systems forbid it through `/proc/PID/mem`.
pub(super) fn write_code(pid: Pid, address: u64, bytes: &[u8]) -> Result<(), InjectError> {
    const WORD: usize = size_of::<libc::c_long>();
    let error = |errno: Errno| InjectError::trace("write the program's code", errno);
    for (index, chunk) in bytes.chunks(WORD).enumerate() {
        let place = (address as usize + index * WORD) as ptrace::AddressType;
        // The rest of the word keeps what it has.
        let mut word = ptrace::read(pid, place).map_err(error)?.to_ne_bytes();
        word[..chunk.len()].copy_from_slice(chunk);
        ptrace::write(pid, place, libc::c_long::from_ne_bytes(word)).map_err(error)?;
    }
    Ok(())
}
