//! Calls the memory functions of reheap and of musl, for an emulator that writes down each instruction.
//!
//! Linked statically with musl, the program has both. It calls `mark` before and after each call of a function, and at
//! last prints the address of `mark`, and one row of CSV for each call. Whoever has the addresses of all instructions can
//! count those between two marks. The first call is of a function that does nothing: it tells what the calling costs.
//! `cargo lab count-memory` does all of that.
#![allow(
    unsafe_code,
    reason = "calling foreign functions; `Blocks` makes calls that stay within its memory"
)]
#![allow(clippy::print_stdout, reason = "a program whose output is its table")]

#[path = "../../tests/it/common/assembled.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod assembled;

use assembled::raw;
use std::ffi::{c_char, c_int, c_void};

/// Up to three arguments, each in a register, and a result in one: so are all these functions called (System V ABI for
/// x86-64, "Parameter Passing"; Procedure Call Standard for the Arm 64-bit Architecture, "Parameter passing").
type Address = unsafe extern "C" fn(usize, usize, usize) -> usize;
type Arguments = [usize; 3];

unsafe extern "C" {
    fn memmove(to: *mut c_void, from: *const c_void, n: usize) -> *mut c_void;
    fn memcmp(a: *const c_void, b: *const c_void, n: usize) -> c_int;
    fn memchr(s: *const c_void, byte: c_int, n: usize) -> *mut c_void;
    fn memrchr(s: *const c_void, byte: c_int, n: usize) -> *mut c_void;
    fn strlen(s: *const c_char) -> usize;
    fn strnlen(s: *const c_char, n: usize) -> usize;
    fn strchr(s: *const c_char, byte: c_int) -> *mut c_char;
    fn strchrnul(s: *const c_char, byte: c_int) -> *mut c_char;
    fn strcmp(a: *const c_char, b: *const c_char) -> c_int;
    fn strncmp(a: *const c_char, b: *const c_char, n: usize) -> c_int;
    fn strcpy(to: *mut c_char, from: *const c_char) -> *mut c_char;
    fn stpcpy(to: *mut c_char, from: *const c_char) -> *mut c_char;
    fn strncpy(to: *mut c_char, from: *const c_char, n: usize) -> *mut c_char;
    fn stpncpy(to: *mut c_char, from: *const c_char, n: usize) -> *mut c_char;
}

/// What the blocks hold: `x`, this at last, and a zero behind.
const LAST: u8 = b'y';
const NOWHERE: usize = b'z' as usize;

/// What a function is called with: the addresses of two blocks with the same bytes, and their size without the zero.
struct Function {
    name: &'static str,
    own: Address,
    of_musl: Address,
    arguments: fn(usize, usize, usize) -> Arguments,
}

macro_rules! function {
    ($name:ident, $own:ident, $arguments:expr) => {
        Function {
            name: stringify!($name),
            // SAFETY: both addresses are those of functions, and `Address` says why these can be called by this type.
            own: unsafe { std::mem::transmute::<*const (), Address>(raw::$own as *const ()) },
            // SAFETY: the same.
            of_musl: unsafe { std::mem::transmute::<*const (), Address>($name as *const ()) },
            arguments: $arguments,
        }
    };
}

static FUNCTIONS: [Function; 14] = [
    function!(memmove, __reheap_memmove, |a, b, n| [a, b, n]),
    function!(memcmp, __reheap_memcmp, |a, b, n| [a, b, n]),
    function!(memchr, __reheap_memchr, |a, _, n| [a, LAST.into(), n]),
    function!(memrchr, __reheap_memrchr, |a, _, n| [a, NOWHERE, n]),
    function!(strlen, __reheap_strlen, |a, _, _| [a, 0, 0]),
    function!(strnlen, __reheap_strnlen, |a, _, n| [a, n, 0]),
    function!(strchr, __reheap_strchr, |a, _, _| [a, LAST.into(), 0]),
    function!(strchrnul, __reheap_strchrnul, |a, _, _| [a, NOWHERE, 0]),
    function!(strcmp, __reheap_strcmp, |a, b, _| [a, b, 0]),
    function!(strncmp, __reheap_strncmp, |a, b, n| [a, b, n]),
    function!(strcpy, __reheap_strcpy, |a, b, _| [a, b, 0]),
    function!(stpcpy, __reheap_stpcpy, |a, b, _| [a, b, 0]),
    function!(strncpy, __reheap_strncpy, |a, b, n| [a, b, n + 8]),
    function!(stpncpy, __reheap_stpncpy, |a, b, n| [a, b, n + 8]),
];

const SIZES: [usize; 8] = [1, 7, 16, 31, 64, 200, 1000, 4000];
/// How far behind a multiple of 64 the two blocks begin.
const OFFSETS: [(usize, usize); 4] = [(0, 0), (1, 1), (3, 14), (8, 4)];
const ROOM: usize = 8192;

#[repr(align(64))]
struct Blocks([u8; ROOM], [u8; ROOM]);

impl Blocks {
    /// Fills two blocks and gives their addresses.
    fn filled(&mut self, size: usize, offsets: (usize, usize)) -> (usize, usize) {
        let fill = |room: &mut [u8; ROOM], offset: usize| {
            room.fill(0);
            let block = &mut room[offset..][..size];
            block.fill(b'x');
            block[size - 1] = LAST;
            block.as_mut_ptr().expose_provenance()
        };
        (fill(&mut self.0, offsets.0), fill(&mut self.1, offsets.1))
    }
}

#[inline(never)]
extern "C" fn mark() {
    // SAFETY: there is no instruction in it.
    unsafe { std::arch::asm!("", options(nostack)) };
}

extern "C" fn nothing(_: usize, _: usize, _: usize) -> usize {
    0
}

#[inline(never)]
fn call_marked(function: Address, [a, b, c]: Arguments) {
    mark();
    // SAFETY: the arguments are those of `Function::arguments` for blocks of `Blocks`, which end with zeros inside of them
    // and are large enough for what is written.
    unsafe { function(a, b, c) };
    mark();
}

fn main() {
    let mut blocks = Box::new(Blocks([0; ROOM], [0; ROOM]));
    let mut rows = vec!["nothing,0,0,0,nobody".to_owned()];
    call_marked(nothing, [0; 3]);
    for function in &FUNCTIONS {
        for size in SIZES {
            for offsets in OFFSETS {
                for (whose, address) in [("reheap", function.own), ("musl", function.of_musl)] {
                    let (a, b) = blocks.filled(size, offsets);
                    call_marked(address, (function.arguments)(a, b, size));
                    let (a, b) = offsets;
                    rows.push(format!("{},{size},{a},{b},{whose}", function.name));
                }
            }
        }
    }
    println!("{:x}", mark as extern "C" fn() as usize);
    println!("{}", rows.join("\n"));
}
