//! Memory between two pages that may not be touched: reading or writing too far is a crash.
#![cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, reason = "many tests are of x86-64 alone")
)]
#![allow(
    unsafe_code,
    reason = "mapping memory; each block says why it is sound"
)]

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mmap_anonymous, mprotect, munmap};

const PAGE: usize = 4096;

/// Some pages, with one before and one after them that may not be touched.
pub(crate) struct Guarded {
    mapping: *mut u8,
    length: usize,
}

impl Guarded {
    /// A block of at least so many bytes; a whole number of pages.
    pub(crate) fn new(length: usize) -> Self {
        let length = length.next_multiple_of(PAGE);
        let all = length + 2 * PAGE;
        // SAFETY: the kernel chooses an address that nothing uses. `mprotect` then closes the first and the last page
        // of this mapping, to which there is no reference yet.
        let mapping = unsafe {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
            let mapping = mmap_anonymous(std::ptr::null_mut(), all, access, flags).unwrap();
            let last = mapping.byte_add(all - PAGE);
            mprotect(mapping, PAGE, MprotectFlags::empty()).unwrap();
            mprotect(last, PAGE, MprotectFlags::empty()).unwrap();
            mapping.cast()
        };
        Self { mapping, length }
    }

    /// What lies between the guards.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: `new` mapped these bytes behind the first page, and they stay mapped until `drop`. The kernel zeroed
        // them, so they are initialised. The borrow of `self` is the only one.
        unsafe { std::slice::from_raw_parts_mut(self.mapping.add(PAGE), self.length) }
    }

    /// The bytes as wide characters.
    pub(crate) fn characters(&mut self) -> &mut [i32] {
        // SAFETY: as in `bytes`; a page begins at a multiple of four, and any four bytes are an `i32`.
        unsafe { std::slice::from_raw_parts_mut(self.mapping.add(PAGE).cast(), self.length / 4) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: `new` made this mapping. `bytes` borrows `self`, so no reference into it is left.
        unsafe { munmap(self.mapping.cast(), self.length + 2 * PAGE).unwrap() }
    }
}

/// Puts two strings of the same length around the end of a page, the one so far before it and the other so much later or
/// earlier, and makes a byte near that end the largest in the second one. `check` gets both, and where they differ.
pub(crate) fn around_the_end_of_a_page(
    first: &[u8],
    second: &[u8],
    mut check: impl FnMut(&[u8], &[u8], usize),
) {
    let (mut a, mut b) = (Guarded::new(3 * PAGE), Guarded::new(3 * PAGE));
    let (a, b) = (a.bytes(), b.bytes());
    let length = first.len();
    for before in [0, 1, 15, 31, 33, 63, 65, 130, 280, 700, 1290] {
        for shift in [-64, -33, -1, 0, 1, 17, 40] {
            let i = PAGE - before;
            let j = PAGE.saturating_add_signed(shift) - before;
            a[i..][..length].copy_from_slice(first);
            b[j..][..length].copy_from_slice(second);
            let begin = before.saturating_sub(100);
            for at in (begin..before + 100).filter(|&at| at + 1 < length) {
                b[j + at] = 255;
                check(&a[i..], &b[j..], at);
                b[j + at] = second[at];
            }
        }
    }
}

/// A large block that takes little memory: the same two mebibytes again and again, and at last two others.
pub(crate) struct Repeated {
    mapping: *mut u8,
    length: usize,
}

const UNIT: usize = 2 << 20;

impl Repeated {
    /// A block of at least so many bytes; a whole number of units.
    pub(crate) fn new(length: usize) -> Self {
        let length = length.next_multiple_of(UNIT);
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let unit = || {
            let file = memfd_create("unit", MemfdFlags::CLOEXEC).unwrap();
            ftruncate(&file, UNIT as u64).unwrap();
            file
        };
        let (first, last) = (unit(), unit());
        // SAFETY: the kernel chooses an address that nothing uses. Each MAP_FIXED mapping replaces one unit inside that
        // range, to which there is no reference yet. The mappings keep the files open.
        let mapping: *mut u8 = unsafe {
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
            let mapping = mmap_anonymous(std::ptr::null_mut(), length, access, flags).unwrap();
            for offset in (0..length).step_by(UNIT) {
                let file = if offset + UNIT == length {
                    &last
                } else {
                    &first
                };
                let flags = MapFlags::SHARED | MapFlags::FIXED;
                mmap(mapping.byte_add(offset), UNIT, access, flags, file, 0).unwrap();
            }
            mapping.cast()
        };
        Self { mapping, length }
    }

    /// All bytes of the block. Most bytes have many addresses, which a function that reads one block and writes another does not
    /// notice.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: `new` mapped these bytes, and they stay mapped until `drop`. Most of them have several addresses in
        // the slice, so callers use it for the assembly and for reads of single bytes only.
        unsafe { std::slice::from_raw_parts_mut(self.mapping, self.length) }
    }
}

impl Drop for Repeated {
    fn drop(&mut self) {
        // SAFETY: `new` made this mapping. `bytes` borrows `self`, so no reference into it is left.
        unsafe { munmap(self.mapping.cast(), self.length).unwrap() }
    }
}
