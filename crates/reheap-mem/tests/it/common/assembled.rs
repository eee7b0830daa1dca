//! The functions, assembled into this program under their own names, as safe functions on slices.
//!
//! Every wrapper also checks what C says about the returned pointer.
#![allow(
    unsafe_code,
    reason = "calling assembly; the slices of the wrappers guarantee what C demands"
)]

use std::ffi::{c_int, c_void};
#[cfg(target_arch = "x86_64")]
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

// SAFETY: the text defines functions with the C calling convention, and their data. All names begin with `__reheap_`,
// and nothing else in this program has such names.
#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    include_str!("../../../src/x86_64/macros.s"),
    include_str!("../../../src/x86_64/level.s"),
    include_str!("../../../src/x86_64/copy.s"),
    include_str!("../../../src/x86_64/setting.s"),
    include_str!("../../../src/x86_64/set.s"),
    include_str!("../../../src/x86_64/comparing_blocks.s"),
    include_str!("../../../src/x86_64/compare.s"),
    include_str!("../../../src/x86_64/search.s"),
    include_str!("../../../src/x86_64/last.s"),
    include_str!("../../../src/x86_64/comparing.s"),
    include_str!("../../../src/x86_64/string.s"),
    include_str!("../../../src/x86_64/case.s"),
    include_str!("../../../src/x86_64/case_substring.s"),
    include_str!("../../../src/x86_64/substring.s"),
    include_str!("../../../src/x86_64/span.s"),
    include_str!("../../../src/x86_64/append.s"),
    include_str!("../../../src/x86_64/wide.s"),
    options(raw)
);

// SAFETY: as above. This text has no data.
#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    include_str!("../../../src/aarch64/macros.s"),
    include_str!("../../../src/aarch64/copy.s"),
    include_str!("../../../src/aarch64/compare.s"),
    include_str!("../../../src/aarch64/search.s"),
    include_str!("../../../src/aarch64/last.s"),
    include_str!("../../../src/aarch64/string.s"),
    options(raw)
);

// Here musl keeps its memcpy, and the tests of memcpy are further tests of memmove.
#[cfg(target_arch = "aarch64")]
use raw::__reheap_memmove as __reheap_memcpy;

pub(crate) mod raw {
    use super::{c_int, c_void};
    unsafe extern "C" {
        pub(crate) fn __reheap_memcpy(
            to: *mut c_void,
            from: *const c_void,
            n: usize,
        ) -> *mut c_void;
        pub(crate) fn __reheap_memmove(
            to: *mut c_void,
            from: *const c_void,
            n: usize,
        ) -> *mut c_void;
        pub(crate) fn __reheap_mempcpy(
            to: *mut c_void,
            from: *const c_void,
            n: usize,
        ) -> *mut c_void;
        pub(crate) fn __reheap_memset(to: *mut c_void, byte: c_int, n: usize) -> *mut c_void;
        pub(crate) fn __reheap_memcmp(a: *const c_void, b: *const c_void, n: usize) -> c_int;
        pub(crate) fn __reheap_bcmp(a: *const c_void, b: *const c_void, n: usize) -> c_int;
        pub(crate) fn __reheap_memchr(s: *const c_void, byte: c_int, n: usize) -> *mut c_void;
        pub(crate) fn __reheap_rawmemchr(s: *const c_void, byte: c_int) -> *mut c_void;
        pub(crate) fn __reheap_memrchr(s: *const c_void, byte: c_int, n: usize) -> *mut c_void;
        pub(crate) fn __reheap_strlen(s: *const c_void) -> usize;
        pub(crate) fn __reheap_strnlen(s: *const c_void, n: usize) -> usize;
        pub(crate) fn __reheap_strchr(s: *const c_void, byte: c_int) -> *mut c_void;
        pub(crate) fn __reheap_strchrnul(s: *const c_void, byte: c_int) -> *mut c_void;
        pub(crate) fn __reheap_strcmp(a: *const c_void, b: *const c_void) -> c_int;
        pub(crate) fn __reheap_strncmp(a: *const c_void, b: *const c_void, n: usize) -> c_int;
        pub(crate) fn __reheap_strcasecmp(a: *const c_void, b: *const c_void) -> c_int;
        pub(crate) fn __reheap_strncasecmp(a: *const c_void, b: *const c_void, n: usize) -> c_int;
        pub(crate) fn __reheap_memmem(
            s: *const c_void,
            n: usize,
            needle: *const c_void,
            length: usize,
        ) -> *mut c_void;
        pub(crate) fn __reheap_strstr(s: *const c_void, needle: *const c_void) -> *mut c_void;
        pub(crate) fn __reheap_strcasestr(s: *const c_void, needle: *const c_void) -> *mut c_void;
        pub(crate) fn __reheap_strspn(s: *const c_void, set: *const c_void) -> usize;
        pub(crate) fn __reheap_strcspn(s: *const c_void, set: *const c_void) -> usize;
        pub(crate) fn __reheap_strncat(
            to: *mut c_void,
            from: *const c_void,
            n: usize,
        ) -> *mut c_void;
        pub(crate) fn __reheap_memccpy(
            to: *mut c_void,
            from: *const c_void,
            byte: c_int,
            n: usize,
        ) -> *mut c_void;
        pub(crate) fn __reheap_wcslen(s: *const i32) -> usize;
        pub(crate) fn __reheap_wcschr(s: *const i32, character: i32) -> *mut c_void;
        pub(crate) fn __reheap_wmemcmp(a: *const i32, b: *const i32, n: usize) -> c_int;
        pub(crate) fn __reheap_wmemset(to: *mut i32, character: i32, n: usize) -> *mut i32;
        pub(crate) fn __reheap_wmemcpy(to: *mut i32, from: *const i32, n: usize) -> *mut i32;
        pub(crate) fn __reheap_wmemmove(to: *mut i32, from: *const i32, n: usize) -> *mut i32;
        pub(crate) fn __reheap_strcpy(to: *mut c_void, from: *const c_void) -> *mut c_void;
        pub(crate) fn __reheap_stpcpy(to: *mut c_void, from: *const c_void) -> *mut c_void;
        pub(crate) fn __reheap_strncpy(
            to: *mut c_void,
            from: *const c_void,
            n: usize,
        ) -> *mut c_void;
        pub(crate) fn __reheap_stpncpy(
            to: *mut c_void,
            from: *const c_void,
            n: usize,
        ) -> *mut c_void;
        pub(crate) fn __reheap_mem_find_level();
        pub(crate) static mut __reheap_mem_level: i8;
        pub(crate) static mut __reheap_mem_search_level: i8;
        pub(crate) static mut __reheap_mem_string_copy_min: usize;
        pub(crate) static mut __reheap_mem_string_set_min: usize;
        pub(crate) static mut __reheap_mem_streaming_min: usize;
        pub(crate) static mut __reheap_mem_unasked: usize;
    }
}
use raw::*;

/// What decides which code runs. Only the tests can set it: in an executable these values have no public names.
#[cfg(target_arch = "x86_64")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Level {
    pub(crate) wide: i8,
    /// The level of the functions that look for a byte.
    pub(crate) search: i8,
    pub(crate) string_copy_min: usize,
    pub(crate) string_set_min: usize,
    pub(crate) streaming_min: usize,
    /// How many bytes the functions go through until they find the level, where it is not known.
    pub(crate) unasked: usize,
}

#[cfg(target_arch = "x86_64")]
impl Level {
    /// SSE2, without string instructions and streaming stores.
    pub(crate) const BASELINE: Self = Self {
        wide: 0,
        search: 0,
        string_copy_min: usize::MAX,
        string_set_min: usize::MAX,
        streaming_min: usize::MAX,
        unasked: usize::MAX,
    };

    /// No level is known yet, and no test does so much that it is found.
    pub(crate) const UNKNOWN: Self = Self {
        wide: -128,
        search: -128,
        ..Self::BASELINE
    };

    /// AVX2, without string instructions and streaming stores.
    pub(crate) const WIDE: Self = Self {
        wide: 1,
        search: 1,
        ..Self::BASELINE
    };

    /// AVX-512 in vectors of 32 bytes, without string instructions and streaming stores.
    pub(crate) const MASKED: Self = Self {
        wide: 2,
        search: 2,
        ..Self::BASELINE
    };

    /// AVX-512 in vectors of 64 bytes, without string instructions and streaming stores.
    pub(crate) const WIDEST: Self = Self {
        wide: 3,
        search: 3,
        ..Self::BASELINE
    };

    /// What is chosen now.
    pub(crate) fn current() -> Self {
        // SAFETY: these are plain numbers. `force` writes them, and its callers hold the lock of `Chosen`. The functions
        // write what they find, which is the same in each thread.
        unsafe {
            Self {
                wide: __reheap_mem_level,
                search: __reheap_mem_search_level,
                string_copy_min: __reheap_mem_string_copy_min,
                string_set_min: __reheap_mem_string_set_min,
                streaming_min: __reheap_mem_streaming_min,
                unasked: __reheap_mem_unasked,
            }
        }
    }

    /// Whether this processor can execute it.
    pub(crate) fn is_possible(self) -> bool {
        match self.wide.max(self.search) {
            -128 | 0 => true,
            1 => std::arch::is_x86_feature_detected!("avx2"),
            _ => {
                std::arch::is_x86_feature_detected!("avx512bw")
                    && std::arch::is_x86_feature_detected!("avx512vl")
            }
        }
    }

    fn force(self) {
        // SAFETY: the callers hold the lock of `Chosen`, so no other thread writes these numbers. A function that reads
        // them meanwhile gives the same result with either value.
        unsafe {
            __reheap_mem_level = self.wide;
            __reheap_mem_search_level = self.search;
            __reheap_mem_string_copy_min = self.string_copy_min;
            __reheap_mem_string_set_min = self.string_set_min;
            __reheap_mem_streaming_min = self.streaming_min;
            __reheap_mem_unasked = self.unasked;
        }
    }
}

/// The right to choose the level, as there is one for the whole program.
#[cfg(target_arch = "x86_64")]
pub(crate) struct Chosen {
    initial: Level,
    found: Level,
    _lock: MutexGuard<'static, ()>,
}

#[cfg(target_arch = "x86_64")]
impl Chosen {
    /// Waits until nobody else chooses.
    pub(crate) fn alone() -> Self {
        static LOCK: Mutex<()> = Mutex::new(());
        static INITIAL: OnceLock<Level> = OnceLock::new();
        let lock = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
        let initial = *INITIAL.get_or_init(Level::current);
        // SAFETY: it takes and returns nothing, and writes only the numbers of `Level`.
        unsafe { __reheap_mem_find_level() };
        Self {
            initial,
            found: Level::current(),
            _lock: lock,
        }
    }

    /// What a program begins with.
    pub(crate) fn initial(&self) -> Level {
        self.initial
    }

    /// What the processor can do.
    pub(crate) fn found(&self) -> Level {
        self.found
    }

    /// Chooses this level from now on.
    pub(crate) fn set(&mut self, level: Level) {
        assert!(level.is_possible(), "this processor has no {level:?}");
        level.force();
    }
}

#[cfg(target_arch = "x86_64")]
impl Drop for Chosen {
    fn drop(&mut self) {
        self.found.force();
    }
}

/// Runs a test at every level that this processor has, and with the string instructions and streaming stores from
/// counts on that short blocks reach.
#[cfg(target_arch = "x86_64")]
pub(crate) fn at_every_level(mut test: impl FnMut(Level)) {
    let mut chosen = Chosen::alone();
    let early = |level: Level| Level {
        string_copy_min: 300,
        string_set_min: 300,
        streaming_min: 600,
        ..level
    };
    let wides = [Level::BASELINE, Level::WIDE, Level::MASKED, Level::WIDEST];
    let mut levels: Vec<Level> = wides
        .into_iter()
        .flat_map(|wide| [wide, early(wide)])
        .chain([Level::UNKNOWN])
        .collect();
    levels.retain(|level| level.is_possible());
    levels.push(chosen.found());
    for level in levels {
        chosen.set(level);
        test(level);
    }
}

/// Runs a test. There is one path, so there are no levels.
#[cfg(target_arch = "aarch64")]
pub(crate) fn at_every_level(mut test: impl FnMut(())) {
    test(());
}

type Copying = unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> *mut c_void;

fn copy_by(function: Copying, to: &mut [u8], from: &[u8], returns: usize) {
    assert_eq!(to.len(), from.len());
    // SAFETY: both slices have that length. One is borrowed mutably, so they do not overlap.
    let result = unsafe { function(to.as_mut_ptr().cast(), from.as_ptr().cast(), from.len()) };
    assert_eq!(result as usize, to.as_ptr() as usize + returns);
}

pub(crate) fn memcpy(to: &mut [u8], from: &[u8]) {
    copy_by(__reheap_memcpy, to, from, 0);
}

#[cfg(target_arch = "x86_64")]
pub(crate) fn mempcpy(to: &mut [u8], from: &[u8]) {
    copy_by(__reheap_mempcpy, to, from, from.len());
}

/// Moves `length` bytes within a block.
pub(crate) fn memmove(block: &mut [u8], to: usize, from: usize, length: usize) {
    let (target, source) = (&mut block[to..][..length], from);
    let to = target.as_mut_ptr();
    let from = block[source..][..length].as_ptr();
    // SAFETY: both ranges are inside `block`: the slicing above has checked that. They may overlap (C11 7.24.2.2).
    let result = unsafe { __reheap_memmove(to.cast(), from.cast(), length) };
    assert_eq!(result.cast(), to);
}

#[cfg(target_arch = "x86_64")]
pub(crate) fn memset(block: &mut [u8], byte: c_int) {
    // SAFETY: pointer and length are those of the slice.
    let result = unsafe { __reheap_memset(block.as_mut_ptr().cast(), byte, block.len()) };
    assert_eq!(result.cast(), block.as_mut_ptr());
}

pub(crate) fn memcmp(a: &[u8], b: &[u8]) -> c_int {
    assert_eq!(a.len(), b.len());
    // SAFETY: both slices have that length, by the assertion.
    unsafe { __reheap_memcmp(a.as_ptr().cast(), b.as_ptr().cast(), a.len()) }
}

pub(crate) fn bcmp(a: &[u8], b: &[u8]) -> c_int {
    assert_eq!(a.len(), b.len());
    // SAFETY: both slices have that length, by the assertion.
    unsafe { __reheap_bcmp(a.as_ptr().cast(), b.as_ptr().cast(), a.len()) }
}

/// Where in the block an address lies.
fn position(block: &[u8], found: *mut c_void) -> Option<usize> {
    (!found.is_null()).then(|| found as usize - block.as_ptr() as usize)
}

pub(crate) fn memchr(block: &[u8], byte: c_int) -> Option<usize> {
    memchr_within(block, byte, block.len())
}

/// Looks for a byte with a count that may lie behind the block, if the byte is in the block (C11 7.24.5.1).
pub(crate) fn memchr_within(block: &[u8], byte: c_int, count: usize) -> Option<usize> {
    assert!(count <= block.len() || block.contains(&(byte as u8)));
    // SAFETY: by the assertion the function finds what it looks for before it leaves the slice.
    position(block, unsafe {
        __reheap_memchr(block.as_ptr().cast(), byte, count)
    })
}

pub(crate) fn memrchr(block: &[u8], byte: c_int) -> Option<usize> {
    // SAFETY: pointer and length are those of the slice.
    position(block, unsafe {
        __reheap_memrchr(block.as_ptr().cast(), byte, block.len())
    })
}

pub(crate) fn rawmemchr(block: &[u8], byte: c_int) -> usize {
    assert!(block.contains(&(byte as u8)));
    // SAFETY: by the assertion the function finds what it looks for before it leaves the slice.
    let found = unsafe { __reheap_rawmemchr(block.as_ptr().cast(), byte) };
    position(block, found).unwrap()
}

pub(crate) fn strlen(string: &[u8]) -> usize {
    assert!(string.contains(&0));
    // SAFETY: by the assertion the string ends within the slice.
    unsafe { __reheap_strlen(string.as_ptr().cast()) }
}

pub(crate) fn strnlen(string: &[u8], count: usize) -> usize {
    assert!(count <= string.len() || string.contains(&0));
    // SAFETY: by the assertion the string, or the count, ends within the slice.
    unsafe { __reheap_strnlen(string.as_ptr().cast(), count) }
}

pub(crate) fn strchr(string: &[u8], byte: c_int) -> Option<usize> {
    assert!(string.contains(&0));
    // SAFETY: by the assertion the string ends within the slice.
    position(string, unsafe {
        __reheap_strchr(string.as_ptr().cast(), byte)
    })
}

pub(crate) fn strchrnul(string: &[u8], byte: c_int) -> usize {
    assert!(string.contains(&0));
    // SAFETY: by the assertion the string ends within the slice.
    let found = unsafe { __reheap_strchrnul(string.as_ptr().cast(), byte) };
    position(string, found).unwrap()
}

pub(crate) fn strcmp(a: &[u8], b: &[u8]) -> c_int {
    assert!(a.contains(&0) && b.contains(&0));
    // SAFETY: by the assertion both strings end within their slices.
    unsafe { __reheap_strcmp(a.as_ptr().cast(), b.as_ptr().cast()) }
}

pub(crate) fn strncmp(a: &[u8], b: &[u8], count: usize) -> c_int {
    assert!(count <= a.len() || a.contains(&0));
    assert!(count <= b.len() || b.contains(&0));
    // SAFETY: by the assertions both strings, or the count, end within their slices.
    unsafe { __reheap_strncmp(a.as_ptr().cast(), b.as_ptr().cast(), count) }
}

#[cfg(target_arch = "x86_64")]
pub(crate) fn strcasecmp(a: &[u8], b: &[u8]) -> c_int {
    assert!(a.contains(&0) && b.contains(&0));
    // SAFETY: by the assertion both strings end within their slices.
    unsafe { __reheap_strcasecmp(a.as_ptr().cast(), b.as_ptr().cast()) }
}

#[cfg(target_arch = "x86_64")]
pub(crate) fn strncasecmp(a: &[u8], b: &[u8], count: usize) -> c_int {
    assert!(count <= a.len() || a.contains(&0));
    assert!(count <= b.len() || b.contains(&0));
    // SAFETY: by the assertions both strings, or the count, end within their slices.
    unsafe { __reheap_strncasecmp(a.as_ptr().cast(), b.as_ptr().cast(), count) }
}

#[cfg(target_arch = "x86_64")]
pub(crate) fn memmem(block: &[u8], needle: &[u8]) -> Option<usize> {
    let (s, n) = (block.as_ptr().cast(), block.len());
    // SAFETY: pointers and lengths are those of the slices.
    position(block, unsafe {
        __reheap_memmem(s, n, needle.as_ptr().cast(), needle.len())
    })
}

#[cfg(target_arch = "x86_64")]
pub(crate) fn strstr(string: &[u8], needle: &[u8]) -> Option<usize> {
    // One look, as a test may search a long string many times.
    assert!(string.ends_with(&[0]) && needle.ends_with(&[0]));
    // SAFETY: by the assertion both strings end within their slices.
    position(string, unsafe {
        __reheap_strstr(string.as_ptr().cast(), needle.as_ptr().cast())
    })
}

#[cfg(target_arch = "x86_64")]
pub(crate) fn strcasestr(string: &[u8], needle: &[u8]) -> Option<usize> {
    assert!(string.contains(&0) && needle.contains(&0));
    // SAFETY: by the assertion both strings end within their slices.
    position(string, unsafe {
        __reheap_strcasestr(string.as_ptr().cast(), needle.as_ptr().cast())
    })
}

#[cfg(target_arch = "x86_64")]
pub(crate) fn strspn(string: &[u8], set: &[u8]) -> usize {
    assert!(string.contains(&0) && set.contains(&0));
    // SAFETY: by the assertion both strings end within their slices.
    unsafe { __reheap_strspn(string.as_ptr().cast(), set.as_ptr().cast()) }
}

#[cfg(target_arch = "x86_64")]
pub(crate) fn strcspn(string: &[u8], set: &[u8]) -> usize {
    assert!(string.contains(&0) && set.contains(&0));
    // SAFETY: by the assertion both strings end within their slices.
    unsafe { __reheap_strcspn(string.as_ptr().cast(), set.as_ptr().cast()) }
}

/// Copies a string, with its end, into `to`, which must have room for it.
pub(crate) fn strcpy(to: &mut [u8], from: &[u8]) {
    assert!(from.iter().position(|&b| b == 0).unwrap() < to.len());
    // SAFETY: by the assertion the string ends within its slice, and there is room for it.
    let result = unsafe { __reheap_strcpy(to.as_mut_ptr().cast(), from.as_ptr().cast()) };
    assert_eq!(result.cast(), to.as_mut_ptr());
}

/// Copies a string, with its end, into `to`, which must have room for it. Returns the position of the end.
pub(crate) fn stpcpy(to: &mut [u8], from: &[u8]) -> usize {
    assert!(from.iter().position(|&b| b == 0).unwrap() < to.len());
    // SAFETY: by the assertion the string ends within its slice, and there is room for it.
    let end = unsafe { __reheap_stpcpy(to.as_mut_ptr().cast(), from.as_ptr().cast()) };
    position(to, end).unwrap()
}

/// Moves a string, with its end, to the beginning of the slice that it is in, and gives the position of the end.
///
/// ISO C allows no such overlap (C11 7.24.2.3), musl's loops do what is meant.
pub(crate) fn strcpy_to_the_front(slice: &mut [u8], from: usize) -> usize {
    assert!(slice[from..].contains(&0));
    let to = slice.as_mut_ptr();
    // SAFETY: by the assertion the string ends within the slice, and its copy lies in front of it. The text is assembly,
    // which knows no pointers that must not overlap.
    let end = unsafe { __reheap_stpcpy(to.cast(), to.add(from).cast()) };
    position(slice, end).unwrap()
}

/// Fills `to` with a string and zeros behind it.
pub(crate) fn strncpy(to: &mut [u8], from: &[u8]) {
    assert!(from.len() >= to.len() || from.contains(&0));
    // SAFETY: by the assertion the string, or the count, ends within the slice.
    let result =
        unsafe { __reheap_strncpy(to.as_mut_ptr().cast(), from.as_ptr().cast(), to.len()) };
    assert_eq!(result.cast(), to.as_mut_ptr());
}

/// Copies a string into `to` and fills that with zeroes. Returns the position of the first zero, or of the end of `to`.
pub(crate) fn stpncpy(to: &mut [u8], from: &[u8]) -> usize {
    assert!(from.len() >= to.len() || from.contains(&0));
    // SAFETY: by the assertion the string, or the count, ends within the slice.
    let end = unsafe { __reheap_stpncpy(to.as_mut_ptr().cast(), from.as_ptr().cast(), to.len()) };
    position(to, end).unwrap()
}

/// Appends a string, or so much of it, to the one in `to`, which must have room for that.
#[cfg(target_arch = "x86_64")]
pub(crate) fn strncat(to: &mut [u8], from: &[u8], count: usize) {
    assert!(from.len() >= count || from.contains(&0));
    let end = from.iter().take(count).position(|&b| b == 0);
    let room = to.len() - to.iter().position(|&b| b == 0).unwrap();
    assert!(end.unwrap_or(count) < room);
    // SAFETY: by the assertions the string, or the count, ends within its slice, and there is room for it.
    let result = unsafe { __reheap_strncat(to.as_mut_ptr().cast(), from.as_ptr().cast(), count) };
    assert_eq!(result.cast(), to.as_mut_ptr());
}

/// Copies up to a byte, or so many; the position behind that byte.
#[cfg(target_arch = "x86_64")]
pub(crate) fn memccpy(to: &mut [u8], from: &[u8], byte: c_int, count: usize) -> Option<usize> {
    let length = from
        .iter()
        .position(|&b| b == byte as u8)
        .map_or(count, |at| count.min(at + 1));
    assert!(length <= to.len() && length <= from.len());
    let (start, from) = (to.as_mut_ptr().cast(), from.as_ptr().cast());
    // SAFETY: by the assertion the byte, or the count, is within both slices.
    let end = unsafe { __reheap_memccpy(start, from, byte, count) };
    position(to, end)
}

/// A string of wide characters, at any address: the slice has their bytes.
#[cfg(target_arch = "x86_64")]
pub(crate) fn wcslen(string: &[u8]) -> usize {
    assert!(string.chunks_exact(4).any(|character| character == [0; 4]));
    // SAFETY: by the assertion the string ends within the slice. The function asks for no alignment.
    unsafe { __reheap_wcslen(string.as_ptr().cast()) }
}

/// The position in characters.
#[cfg(target_arch = "x86_64")]
pub(crate) fn wcschr(string: &[u8], character: i32) -> Option<usize> {
    assert!(string.chunks_exact(4).any(|character| character == [0; 4]));
    // SAFETY: as above.
    let found = unsafe { __reheap_wcschr(string.as_ptr().cast(), character) };
    position(string, found).map(|bytes| bytes / 4)
}

#[cfg(target_arch = "x86_64")]
pub(crate) fn wmemcmp(a: &[i32], b: &[i32]) -> c_int {
    assert_eq!(a.len(), b.len());
    // SAFETY: both slices have that length, by the assertion.
    unsafe { __reheap_wmemcmp(a.as_ptr(), b.as_ptr(), a.len()) }
}

#[cfg(target_arch = "x86_64")]
pub(crate) fn wmemset(block: &mut [i32], character: i32) {
    // SAFETY: pointer and length are those of the slice.
    let result = unsafe { __reheap_wmemset(block.as_mut_ptr(), character, block.len()) };
    assert_eq!(result, block.as_mut_ptr());
}

#[cfg(target_arch = "x86_64")]
pub(crate) fn wmemcpy(to: &mut [i32], from: &[i32]) {
    assert_eq!(to.len(), from.len());
    // SAFETY: both slices have that length. One is borrowed mutably, so they do not overlap.
    let result = unsafe { __reheap_wmemcpy(to.as_mut_ptr(), from.as_ptr(), from.len()) };
    assert_eq!(result, to.as_mut_ptr());
}

/// Moves so many characters within a block.
#[cfg(target_arch = "x86_64")]
pub(crate) fn wmemmove(block: &mut [i32], to: usize, from: usize, count: usize) {
    assert!(to.max(from) + count <= block.len());
    let start = block.as_mut_ptr();
    // SAFETY: both ranges are inside `block`, by the assertion. They may overlap (C11 7.29.4.4.4).
    let result = unsafe { __reheap_wmemmove(start.add(to), start.add(from), count) };
    assert_eq!(result as usize, start as usize + 4 * to);
}
