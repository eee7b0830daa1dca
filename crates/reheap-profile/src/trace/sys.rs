//! The processor's counter, which `hooks/trace.c` reads too, and memory that a program shares.
#![allow(unsafe_code)]

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;

/// A file in memory, which other processes have in theirs.
#[derive(Debug)]
pub struct SharedMemory {
    words: NonNull<AtomicU64>,
    length: usize,
}

// SAFETY: it is memory of atomics, which any thread may use, and it is unmapped once, when nobody borrows it.
unsafe impl Send for SharedMemory {}
// SAFETY: see above.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// Maps the first `length` words of a file, which must be there as long as this is: pages of a file that became
    /// shorter end a process that looks at them.
    ///
    /// # Errors
    /// When the kernel refuses, or the file is shorter.
    pub fn map(file: &File, length: usize) -> io::Result<Self> {
        let bytes = length.checked_mul(8).ok_or(io::ErrorKind::OutOfMemory)?;
        if file.metadata()?.len() < bytes as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses a place that nothing else has.
        let mapped = unsafe {
            mmap(
                ptr::null_mut(),
                bytes,
                protection,
                MapFlags::SHARED,
                file,
                0,
            )?
        };
        let words = NonNull::new(mapped.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { words, length })
    }

    /// All of it.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: so many words are mapped until `self` is dropped, and pages are aligned for them. Other processes may
        // change them at any time, as other threads may change atomics.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr(), self.length) }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: `map` mapped exactly this, and `words` borrows from `self`.
        // An error would mean that it is not mapped, and then there is nothing to do.
        let _ = unsafe { munmap(self.words.as_ptr().cast(), self.length * 8) };
    }
}

/// Where it is now; `None` on processors whose counter is not known.
pub(super) fn counter() -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every x86-64 processor has the instruction, and Linux lets programs execute it unless one asked not to
        // (PR_SET_TSC), which reheap does not. It changes no memory.
        return Some(unsafe { core::arch::x86_64::_rdtsc() });
    }
    #[cfg(target_arch = "aarch64")]
    {
        let value: u64;
        // SAFETY: Linux lets programs read the virtual counter (Documentation/arch/arm64/booting.rst: CNTKCTL_EL1), and
        // reading it changes nothing.
        unsafe {
            core::arch::asm!("mrs {}, cntvct_el0", out(reg) value, options(nomem, nostack));
        }
        return Some(value);
    }
    #[allow(unreachable_code)]
    None
}

/// Whether it runs at one rate, on all cores alike. The kernel trusts it then for its own clock.
pub(super) fn counter_is_steady() -> bool {
    if cfg!(target_arch = "aarch64") {
        return true;
    }
    // Absent from a container's /sys is no reason for a slower clock if the processor says that its counter is steady.
    let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = flags.lines().find(|line| line.starts_with("flags"));
    let has = |flag: &str| flags.is_some_and(|line| line.split(' ').any(|word| word == flag));
    has("constant_tsc") && has("nonstop_tsc")
}

/// CLOCK_MONOTONIC, in nanoseconds.
pub(super) fn monotonic() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
