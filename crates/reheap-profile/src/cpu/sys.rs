//! perf_event_open(2) and the rings that the kernel writes samples into.

// A system call without a wrapper, and memory that the kernel shares; see the comment at each.
#![allow(unsafe_code)]

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::c_void;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

/// `struct perf_event_attr` up to `sample_max_stack` (`PERF_ATTR_SIZE_VER5`), as words.
pub(super) type Attributes = [u64; 14];

/// Where the kernel says how far it has written (`struct perf_event_mmap_page`).
const HEAD: usize = 1024;
/// Where it looks how far has been read.
const TAIL: usize = 1032;
/// `_IO('$', 5)`.
const SET_OUTPUT: libc::Ioctl = 0x2405;

/// An event of a thread on a CPU. It does not survive an exec of this process.
pub(super) fn open(attributes: &Attributes, tid: u32, cpu: u32) -> io::Result<OwnedFd> {
    const CLOSE_ON_EXEC: libc::c_ulong = 8; // PERF_FLAG_FD_CLOEXEC
    // Safety: the kernel reads as many bytes of the attributes as their second half-word says, which is their size.
    let result = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            ptr::from_ref(attributes),
            libc::c_long::from(tid),
            libc::c_long::from(cpu),
            -1 as libc::c_long, // in no group
            CLOSE_ON_EXEC,
        )
    };
    match i32::try_from(result) {
        // Safety: the kernel just gave this descriptor, and nobody else has it.
        Ok(descriptor) if descriptor >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What an event of one CPU writes into.
#[derive(Debug)]
pub(super) struct Ring {
    event: OwnedFd,
    start: *mut c_void,
    page_bytes: usize,
    data_bytes: usize,
}

// Safety: nothing of the mapping is bound to a thread, and each access goes through `&mut self`.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps a ring of that many pages, a power of two.
    ///
    /// # Errors
    /// When that is more memory than the user may lock, among others.
    pub(super) fn map(event: &OwnedFd, pages: usize) -> io::Result<Self> {
        let page_bytes = rustix::param::page_size();
        let data_bytes = pages * page_bytes;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let event = event.try_clone()?;
        let bytes = page_bytes + data_bytes;
        // Safety: a new mapping, at an address that the kernel chooses.
        let start = unsafe {
            mmap(
                ptr::null_mut(),
                bytes,
                protection,
                MapFlags::SHARED,
                &event,
                0,
            )?
        };
        Ok(Self {
            event,
            start,
            page_bytes,
            data_bytes,
        })
    }

    /// Lets another event of the same CPU write into this ring too.
    pub(super) fn share(&self, other: &OwnedFd) -> io::Result<()> {
        // Safety: the request takes a number, no pointer.
        let result = unsafe { libc::ioctl(other.as_raw_fd(), SET_OUTPUT, self.event.as_raw_fd()) };
        match result {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Takes out all records.
    pub(super) fn take(&mut self) -> Vec<u8> {
        let head = self.position(HEAD).load(Ordering::Acquire);
        let tail = self.position(TAIL).load(Ordering::Relaxed);
        let unread = usize::try_from(head.wrapping_sub(tail)).unwrap_or(0);
        let mut taken = vec![0; unread.min(self.data_bytes)];
        let from = (tail % self.data_bytes as u64) as usize;
        let (first, rest) = taken.split_at_mut(unread.min(self.data_bytes - from));
        // Safety: the data begins behind the first page, both pieces are inside it (`first` ends at its end at most, and
        // `rest` is no longer than the data), and the kernel does not write between tail and head.
        unsafe {
            let data = self.start.byte_add(self.page_bytes).cast::<u8>();
            ptr::copy_nonoverlapping(data.add(from), first.as_mut_ptr(), first.len());
            ptr::copy_nonoverlapping(data, rest.as_mut_ptr(), rest.len());
        }
        self.position(TAIL).store(head, Ordering::Release);
        taken
    }

    fn position(&mut self, offset: usize) -> &AtomicU64 {
        // Safety: both offsets are aligned and in the first page, which is mapped until `self` is dropped.
        unsafe { AtomicU64::from_ptr(self.start.byte_add(offset).cast()) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // Safety: `position` borrows `self`, so nothing points into the mapping any more.
        let _ = unsafe { munmap(self.start, self.page_bytes + self.data_bytes) };
    }
}
