//! The functions of three libraries under one type.
#![allow(
    unsafe_code,
    reason = "calling foreign functions; `Room` makes calls that stay within its memory"
)]

use crate::assembled::raw;
use std::ffi::{CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::Command;

/// What the arguments of a function are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// `(to, from, count)`
    Copy,
    /// `(to, from)` of a string.
    CopyString,
    /// `(to, from, count)`, where the two overlap.
    Move,
    /// `(to, byte, count)`
    Set,
    /// `(a, b, count)`, of equal blocks.
    Compare,
    /// `(block, byte, count)`, where the byte is the last one.
    Find,
    /// `(block, byte, count)`, where the byte is the first one.
    FindLast,
    /// `(string, count)`
    Length,
    /// `(string, needle)`, where the needle is the last bytes.
    Substring,
    /// `(block, count, needle, its length)`, the same.
    Subblock,
    /// `(string, set)`, where no byte of the string is in the set of two.
    SpanWithout,
    /// `(string, set)`, where all bytes are in the set of ten.
    SpanWith,
    /// `(to, from, byte, count)`
    CopyUpTo,
    /// `(string)` of characters of four bytes; sizes are in bytes.
    WideLength,
    /// `(a, b, count)` of such characters, of equal blocks.
    WideCompare,
    /// `(to, character, count)` of such characters.
    WideSet,
}

/// One function.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    pub(crate) largest_size: usize,
    own: Address,
}

/// All of these functions take at most four arguments, each in a register, and return something in a register; so all
/// of them can be called as this (System V ABI for x86-64, "Parameter Passing").
type Address = unsafe extern "C" fn(usize, usize, usize, usize) -> usize;

/// Arguments.
pub(crate) type Call = [usize; 4];

const MIB: usize = 1 << 20;

macro_rules! function {
    ($name:literal, $own:ident, $shape:ident, $largest:expr) => {
        Function {
            name: $name,
            shape: Shape::$shape,
            largest_size: $largest,
            // SAFETY: the address is that of a function, and `Address` says why all of these can be called by this
            // type.
            own: unsafe { std::mem::transmute::<*const (), Address>(raw::$own as *const ()) },
        }
    };
}

pub(crate) static ALL: &[Function] = &[
    function!("memcpy", __reheap_memcpy, Copy, 64 * MIB),
    function!("memmove", __reheap_memmove, Move, 64 * MIB),
    function!("memset", __reheap_memset, Set, 64 * MIB),
    function!("memcmp", __reheap_memcmp, Compare, MIB),
    function!("bcmp", __reheap_bcmp, Compare, MIB),
    function!("memchr", __reheap_memchr, Find, MIB),
    function!("memrchr", __reheap_memrchr, FindLast, MIB),
    function!("strlen", __reheap_strlen, Length, MIB),
    function!("strnlen", __reheap_strnlen, Length, MIB),
    function!("strchr", __reheap_strchr, Find, MIB),
    function!("strcmp", __reheap_strcmp, Compare, MIB),
    function!("strncmp", __reheap_strncmp, Compare, MIB),
    function!("strcpy", __reheap_strcpy, CopyString, MIB),
    function!("stpcpy", __reheap_stpcpy, CopyString, MIB),
    function!("strcasecmp", __reheap_strcasecmp, Compare, MIB),
    function!("strncasecmp", __reheap_strncasecmp, Compare, MIB),
    function!("strstr", __reheap_strstr, Substring, MIB),
    function!("strcasestr", __reheap_strcasestr, Substring, MIB),
    function!("memmem", __reheap_memmem, Subblock, MIB),
    function!("strcspn", __reheap_strcspn, SpanWithout, MIB),
    function!("strspn", __reheap_strspn, SpanWith, MIB),
    function!("memccpy", __reheap_memccpy, CopyUpTo, MIB),
    function!("wcslen", __reheap_wcslen, WideLength, MIB),
    function!("wmemcmp", __reheap_wmemcmp, WideCompare, MIB),
    function!("wmemset", __reheap_wmemset, WideSet, MIB),
];

unsafe extern "C" {
    fn dlopen(path: *const c_char, mode: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}
const RTLD_NOW: c_int = 2;

/// A function of one library.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate(Address);

impl Candidate {
    /// Calls it, with arguments that `Room` made for it.
    #[inline(always)]
    pub(crate) fn call(&self, [a, b, c, d]: Call) {
        // SAFETY: `Room::prepare` makes arguments whose blocks and strings are in its memory, which outlives the call.
        unsafe { (self.0)(a, b, c, d) };
    }
}

/// The libraries that are not linked into this program.
pub(crate) struct Variants {
    musl: *mut c_void,
}

impl Variants {
    /// Makes a shared library of the members of musl's libc.a that define the functions.
    ///
    /// Nothing of musl but them is in it: they need nothing but each other.
    pub(crate) fn load(libc: &Path) -> Self {
        let directory = std::env::temp_dir().join(format!("measure-memory-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let library = directory.join("musl.so");
        let mut link = Command::new("cc");
        link.args(["-shared", "-nostdlib", "-Wl,-Bsymbolic", "-o"])
            .arg(&library);
        for function in ALL {
            link.arg(format!("-Wl,-u,{}", function.name));
        }
        assert!(link.arg(libc).status().unwrap().success());
        let path = CString::new(library.as_os_str().as_bytes()).unwrap();
        // SAFETY: the path ends with a NUL. The library has no constructors: it was linked with `-nostdlib` from
        // members that have none.
        let musl = unsafe { dlopen(path.as_ptr(), RTLD_NOW) };
        assert!(!musl.is_null(), "cannot load `{}`", library.display());
        std::fs::remove_dir_all(&directory).unwrap();
        Self { musl }
    }

    /// reheap's, musl's, glibc's.
    pub(crate) fn of(&self, function: &Function) -> [Option<Candidate>; 3] {
        let name = CString::new(function.name).unwrap();
        let look_up = |library: *mut c_void| {
            // SAFETY: `library` is the handle that `load` got, or null for the libraries of this program
            // (RTLD_DEFAULT).
            let address = unsafe { dlsym(library, name.as_ptr()) };
            (!address.is_null()).then(|| {
                // SAFETY: a function of that C name is at this address; `Address` says why it can be called by this
                // type.
                Candidate(unsafe { std::mem::transmute::<*mut c_void, Address>(address) })
            })
        };
        [
            Some(Candidate(function.own)),
            look_up(self.musl),
            look_up(std::ptr::null_mut()),
        ]
    }
}
