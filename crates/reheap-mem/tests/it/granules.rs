//! On a processor that tags memory (MTE), an access to 16 bytes of somebody else is a crash, also within a page. What a
//! function reads beyond the end of a string must lie in the same granule as that end.
#![cfg(target_arch = "aarch64")]
#![allow(
    unsafe_code,
    reason = "tagging memory; each block says why it is sound"
)]

use crate::common::assembled::*;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::ffi::{c_int, c_ulong};

const GRANULE: usize = 16;
const ROOM: usize = 4096;
/// `arch/arm64/include/uapi/asm/mman.h`
const PROT_MTE: ProtFlags = ProtFlags::from_bits_retain(0x20);

unsafe extern "C" {
    fn prctl(option: c_int, two: c_ulong, three: c_ulong, four: c_ulong, five: c_ulong) -> c_int;
    fn fork() -> c_int;
    fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn _exit(status: c_int) -> !;
}

/// Makes this thread die of an access through a pointer whose tag is not that of the memory.
fn check_tags() {
    const PR_SET_TAGGED_ADDR_CTRL: c_int = 55;
    const PR_TAGGED_ADDR_ENABLE: c_ulong = 1;
    const PR_MTE_TCF_SYNC: c_ulong = 2;
    // SAFETY: the call changes how this thread's own tagged pointers are checked, and touches no memory.
    let result = unsafe {
        prctl(
            PR_SET_TAGGED_ADDR_CTRL,
            PR_TAGGED_ADDR_ENABLE | PR_MTE_TCF_SYNC,
            0,
            0,
            0,
        )
    };
    assert_eq!(result, 0, "this processor does not tag memory");
}

/// Memory in which only one block at a time may be touched.
struct Tagged {
    room: *mut u8,
    tag: usize,
}

impl Tagged {
    /// `tag`: what the block's granules get; all others have 0.
    fn new(tag: usize) -> Self {
        // SAFETY: the kernel chooses an address that nothing uses.
        let room = unsafe {
            let access = ProtFlags::READ | ProtFlags::WRITE | PROT_MTE;
            mmap_anonymous(std::ptr::null_mut(), ROOM, access, MapFlags::PRIVATE).unwrap()
        };
        Self {
            room: room.cast(),
            tag,
        }
    }

    /// Tags the granules in which these bytes of the room are.
    fn tag(&mut self, offset: usize, length: usize, tag: usize) {
        let first = offset / GRANULE * GRANULE;
        for granule in (first..(offset + length).next_multiple_of(GRANULE)).step_by(GRANULE) {
            assert!(granule < ROOM);
            let address = (self.room as usize + granule) | (tag << 56);
            // SAFETY: the granule lies in the room, which `new` mapped with tags. No reference into it is left: `block`
            // borrows `self`.
            unsafe {
                std::arch::asm!(".arch_extension memtag", "stg {0}, [{0}]", in(reg) address, options(nostack));
            }
        }
    }

    /// A block of the room, through a pointer with the tag. Nothing else in the room may be touched through it.
    fn block(&mut self, offset: usize, length: usize) -> &mut [u8] {
        self.tag(0, ROOM, 0);
        self.tag(offset, length, self.tag);
        let start = self
            .room
            .with_addr((self.room as usize + offset) | (self.tag << 56));
        // SAFETY: the block lies in the room, which stays mapped until `drop`, and was zeroed by the kernel. Its granules
        // have the pointer's tag. The borrow of `self` is the only one.
        unsafe { std::slice::from_raw_parts_mut(start, length) }
    }

    /// A block with these bytes.
    fn filled(&mut self, offset: usize, bytes: &[u8]) -> &mut [u8] {
        let block = self.block(offset, bytes.len());
        block.copy_from_slice(bytes);
        block
    }
}

impl Drop for Tagged {
    fn drop(&mut self) {
        // SAFETY: `new` made this mapping. `block` borrows `self`, so no reference into it is left.
        unsafe { munmap(self.room.cast(), ROOM).unwrap() }
    }
}

/// Offsets in a granule, and lengths of up to some granules.
fn places() -> impl Iterator<Item = (usize, usize)> {
    let lengths = (0..100).chain([127, 128, 129, 200, 300]);
    lengths.flat_map(|length| (0..GRANULE).map(move |offset| (3 * GRANULE + offset, length)))
}

fn string(length: usize) -> Vec<u8> {
    let mut string: Vec<u8> = (0..length).map(|i| (i % 251 + 1) as u8).collect();
    string.push(0);
    string
}

#[test]
fn an_access_beyond_the_granule_is_fatal() {
    check_tags();
    let mut room = Tagged::new(1);
    let block = room.block(GRANULE, GRANULE);
    let behind = block.as_ptr().wrapping_add(GRANULE);
    // SAFETY: the child only reads a byte of the room, which is mapped, and ends. It takes no lock of another thread.
    let status = unsafe {
        let child = fork();
        if child == 0 {
            behind.read_volatile();
            _exit(0);
        }
        let mut status = 0;
        assert_eq!(waitpid(child, &raw mut status, 0), child);
        status
    };
    assert_eq!(
        status & 0x7f,
        11,
        "the child did not die of SIGSEGV: {status:#x}"
    );
}

#[test]
fn searches_stay_in_the_granules_of_the_block() {
    check_tags();
    let mut room = Tagged::new(1);
    for (offset, length) in places() {
        let block = room.filled(offset, &string(length));
        assert_eq!(strlen(block), length);
        assert_eq!(rawmemchr(block, 0), length);
        assert_eq!(strchr(block, 255), None);
        assert_eq!(strchrnul(block, 255), length);
        assert_eq!(strnlen(block, usize::MAX), length);
        assert_eq!(memchr_within(block, 0, usize::MAX), Some(length));
        // Without an end, the count is one.
        let unterminated = room.filled(offset, &string(length)[..length]);
        assert_eq!(strnlen(unterminated, length), length);
        assert_eq!(memchr(unterminated, 255), None);
        assert_eq!(memrchr(unterminated, 255), None);
    }
}

#[test]
fn comparisons_stay_in_the_granules_of_both_blocks() {
    check_tags();
    let (mut first, mut second) = (Tagged::new(1), Tagged::new(2));
    for (offset, length) in places() {
        let text = string(length);
        for other in GRANULE..2 * GRANULE {
            let (a, b) = (first.filled(offset, &text), second.filled(other, &text));
            assert_eq!(strcmp(a, b), 0);
            assert_eq!(strcmp(b, a), 0);
            assert_eq!(strncmp(a, b, usize::MAX), 0);
            let (a, b) = (
                first.filled(offset, &text[..length]),
                second.filled(other, &text[..length]),
            );
            assert_eq!(strncmp(a, b, length), 0);
            assert_eq!(strncmp(b, a, length), 0);
            assert_eq!(memcmp(a, b), 0);
            assert_eq!(bcmp(a, b), 0);
            // The other one ends before.
            let shorter = second.filled(other, &string(length / 2));
            let a = first.filled(offset, &text);
            assert_eq!(strcmp(a, shorter) > 0, length > 0);
            assert_eq!(strcmp(shorter, a) < 0, length > 0);
        }
    }
}

#[test]
fn copies_stay_in_the_granules_of_both_blocks() {
    check_tags();
    let (mut source, mut target) = (Tagged::new(1), Tagged::new(2));
    for (offset, length) in places() {
        let text = string(length);
        for other in [16, 17, 23, 24, 31] {
            let (from, to) = (
                source.filled(offset, &text),
                target.block(other, length + 1),
            );
            strcpy(to, from);
            assert_eq!(to, text);
            to.fill(9);
            assert_eq!(stpcpy(to, from), length);
            assert_eq!(to, text);
            to.fill(9);
            memcpy(to, from);
            assert_eq!(to, text);
            let from = source.filled(offset, &text[..length]);
            let to = target.block(other, length);
            strncpy(to, from);
            assert_eq!(to, &text[..length]);
            let to = target.block(other, length + 40);
            assert_eq!(stpncpy(to, source.filled(offset, &text)), length);
            assert!(to[length..].iter().all(|&byte| byte == 0));
        }
    }
}
