//! Memory that reheap shares with other processes.

use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A file without a name, mapped whole. It takes memory only where somebody wrote.
#[derive(Debug)]
pub struct SharedMemory {
    file: File,
    start: *mut c_void,
    bytes: usize,
}

// Safety: all access is atomic, or copies bytes that were read through the file.
unsafe impl Send for SharedMemory {}
// Safety: all access is atomic, or copies bytes that were read through the file.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// Makes one of that size, which is zero.
    ///
    /// # Errors
    /// When the system has no such files, or no room for the mapping.
    pub fn create(name: &str, bytes: usize) -> io::Result<Self> {
        let file = File::from(rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC)?);
        // Beyond the limit of file sizes, a signal would end this process (setrlimit(2)).
        let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
        if limit.is_some_and(|limit| limit < bytes as u64) {
            let text = "the limit of file sizes is too low (`ulimit -f`)";
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
        }
        file.set_len(bytes as u64)?;
        Self::map(file, bytes)
    }

    /// Maps so many bytes of a file, which must keep that length: pages of a file that became shorter end a process that
    /// looks at them.
    ///
    /// # Errors
    /// When the system gives no room for the mapping, or the file is shorter.
    pub fn map(file: File, bytes: usize) -> io::Result<Self> {
        if file.metadata()?.len() < bytes as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // Safety: a new mapping, at an address that the kernel chooses.
        let start = unsafe { mmap(std::ptr::null_mut(), bytes, protection, flags, &file, 0)? };
        Ok(Self { file, start, bytes })
    }

    /// The number of its descriptor.
    pub fn descriptor(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Bytes of it; fewer, where it ends before.
    pub fn read(&self, offset: usize, bytes: usize) -> Vec<u8> {
        let mut read = vec![0; bytes];
        // A file in memory that was mapped whole can be read.
        let filled = self.file.read_at(&mut read, offset as u64).unwrap_or(0);
        read.truncate(filled);
        read
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The eight bytes there.
    ///
    /// # Panics
    /// When they are not all inside, or not aligned.
    pub fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(
            offset.is_multiple_of(8) && offset < self.bytes - 7,
            "{offset}"
        );
        // Safety: the mapping is there until `self` is dropped, the word is inside and aligned (just checked), and every
        // process that maps the file accesses such words atomically.
        unsafe { AtomicU64::from_ptr(self.start.byte_add(offset).cast()) }
    }

    /// The four bytes there.
    ///
    /// # Panics
    /// When they are not all inside, or not aligned.
    pub fn half(&self, offset: usize) -> &AtomicU32 {
        assert!(
            offset.is_multiple_of(4) && offset < self.bytes - 3,
            "{offset}"
        );
        // Safety: as for `word`.
        unsafe { AtomicU32::from_ptr(self.start.byte_add(offset).cast()) }
    }

    /// Several words.
    ///
    /// # Panics
    /// When they are not all inside, or not aligned.
    pub fn words(&self, offset: usize, count: usize) -> &[AtomicU64] {
        assert!(
            offset.is_multiple_of(8) && offset + 8 * count <= self.bytes,
            "{offset}"
        );
        // Safety: as for `word`.
        unsafe { std::slice::from_raw_parts(self.start.byte_add(offset).cast(), count) }
    }

    /// Takes words out, and leaves zeroes. Nobody else may use them meanwhile.
    pub fn take(&self, offset: usize, bytes: usize) -> Vec<u8> {
        let taken = self.read(offset, bytes);
        // Through the file, the kernel does it ten times faster than stores of atomic words.
        let zeroes = vec![0; bytes];
        if self.file.write_all_at(&zeroes, offset as u64).is_err() {
            for offset in (offset..offset + bytes).step_by(8) {
                self.word(offset).store(0, Ordering::Relaxed);
            }
        }
        taken
    }

    /// The word there, as it is now.
    pub fn load(&self, offset: usize) -> u64 {
        self.word(offset).load(Ordering::Acquire)
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // Safety: `word` and `half` borrow `self`, so nothing points into the mapping any more.
        let _ = unsafe { munmap(self.start, self.bytes) };
    }
}
