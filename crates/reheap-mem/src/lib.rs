//! Fast memory functions for static musl executables, as assembly that the user's C compiler assembles.
//!
//! A dynamic glibc chooses its memcpy by IFUNC when it loads a program. A static musl executable has no IFUNC. As a
//! static-pie it cannot keep the choice in a function pointer either: no pointer in its data is right until it has
//! relocated itself, and musl calls memcpy and memset before that. So these functions branch on one byte. It says "not
//! known yet" until they have done so much work that asking CPUID pays (`x86_64/level.s`): in a virtual machine the answer
//! takes longer than a small program runs. They only read the byte where the block is long enough to gain from it.
//!
//! The text is hand-written assembly. The alternatives were worse:
//! - Rust: the user's machine makes the objects when it derives a libc. It always has a C compiler for the target,
//!   because the allocators need one, but it may lack Rust's target. And a crate that defines memcpy must keep the
//!   compiler from turning its loops into calls of memcpy.
//! - C with intrinsics: every compiler would make another function of it, so the tests and measurements here would not
//!   cover what users get. Two assemblers make the same code, up to the padding between labels.
//! - The `memchr` crate: it keeps its choice in a function pointer.
//!
//! GNU as and Clang's assembler both accept the text. So does `global_asm!`, with which the tests call it.
//!
//! On AArch64 there is nothing to choose: each function has one path, in the Advanced SIMD that every ARMv8.0-A has. There
//! is no memcpy, mempcpy and memset for it, because musl's own memcpy and memset are good assembly, and its mempcpy calls
//! memcpy. The rest of musl's functions are C loops there. Those that ignore case, look for substrings or sets, append, or
//! handle wide characters have a text for x86-64 only so far; elsewhere musl's stay.
//!
//! Not every function of musl is worth one: its strcat is strlen and strcpy, its strrchr is strlen and memrchr, and its
//! strpbrk, strtok and strsep are strcspn.
//!
//! To add a function, put its code into a file of `x86_64/` or `aarch64/`, or of both, its name into the lists below and its
//! declaration into `tests/it/common/assembled.rs`. Then write a test that compares it with a loop. A linker takes a whole text
//! or nothing of it, unless it collects garbage, so a text has only functions that programs use together.
#![no_std]
#![forbid(unsafe_code)]

/// An assembly file with some of the functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    /// What it is about; the name of its object.
    pub name: &'static str,
    /// The text.
    pub text: &'static str,
    /// The functions that it defines, each under [`PREFIX`] and its name, as a hidden symbol.
    pub functions: &'static [Function],
}

/// A function of C or POSIX.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: &'static str,
    /// A name under which musl's own functions call it.
    pub internal_name: Option<&'static str>,
}

/// The prefix of the names in the texts.
pub const PREFIX: &str = "__reheap_";

const fn function(name: &'static str) -> Function {
    Function {
        name,
        internal_name: None,
    }
}

const fn function_of_musl(name: &'static str, internal_name: &'static str) -> Function {
    Function {
        name,
        internal_name: Some(internal_name),
    }
}

/// One text of these files, behind the macros of all.
macro_rules! x86_64 {
    ($($name:literal),*) => {
        concat!(
            "    .intel_syntax noprefix\n", // the default of `global_asm!`
            include_str!("x86_64/macros.s"),
            $(include_str!(concat!("x86_64/", $name, ".s"))),*
        )
    };
}

/// The texts for x86-64.
pub static SOURCES_X86_64: [Source; 13] = [
    Source {
        name: "level",
        text: x86_64!("level"),
        functions: &[],
    },
    Source {
        name: "copy",
        text: x86_64!("copy"),
        functions: &[function("memcpy"), function("memmove"), function("mempcpy")],
    },
    Source {
        name: "set",
        text: x86_64!("setting", "set"),
        functions: &[function("memset")],
    },
    Source {
        name: "compare",
        text: x86_64!("comparing_blocks", "compare"),
        functions: &COMPARE,
    },
    Source {
        name: "search",
        text: x86_64!("search"),
        functions: &SEARCH,
    },
    Source {
        name: "last",
        text: x86_64!("last"),
        functions: &LAST,
    },
    Source {
        name: "string",
        text: x86_64!("comparing", "string"),
        functions: &STRING,
    },
    Source {
        name: "case",
        text: x86_64!("comparing", "case"),
        functions: &[
            function("strcasecmp"),
            function_of_musl("strcasecmp_l", "__strcasecmp_l"),
            function("strncasecmp"),
            function_of_musl("strncasecmp_l", "__strncasecmp_l"),
        ],
    },
    Source {
        name: "case_substring",
        text: x86_64!("case_substring"),
        functions: &[function("strcasestr")],
    },
    Source {
        name: "substring",
        text: x86_64!("substring"),
        functions: &[function("memmem"), function("strstr")],
    },
    Source {
        name: "span",
        text: x86_64!("span"),
        functions: &[function("strspn"), function("strcspn")],
    },
    Source {
        name: "append",
        text: x86_64!("append"),
        functions: &[function("strncat"), function("memccpy")],
    },
    Source {
        name: "wide",
        text: x86_64!("comparing_blocks", "setting", "wide"),
        functions: &[
            function("wcslen"),
            function("wcschr"),
            function("wmemcmp"),
            function("wmemset"),
            function("wmemcpy"),
            function("wmemmove"),
        ],
    },
];

macro_rules! aarch64 {
    ($name:literal) => {
        concat!(
            "    .arch armv8-a\n", // and so no instruction that came later
            include_str!("aarch64/macros.s"),
            include_str!(concat!("aarch64/", $name, ".s"))
        )
    };
}

/// The texts for 64-bit Arm.
pub static SOURCES_AARCH64: [Source; 5] = [
    Source {
        name: "copy",
        text: aarch64!("copy"),
        functions: &[function("memmove")],
    },
    Source {
        name: "compare",
        text: aarch64!("compare"),
        functions: &COMPARE,
    },
    Source {
        name: "search",
        text: aarch64!("search"),
        functions: &SEARCH,
    },
    Source {
        name: "last",
        text: aarch64!("last"),
        functions: &LAST,
    },
    Source {
        name: "string",
        text: aarch64!("string"),
        functions: &STRING,
    },
];

static COMPARE: [Function; 2] = [function("memcmp"), function("bcmp")];

static SEARCH: [Function; 6] = [
    function("memchr"),
    function("rawmemchr"),
    function("strlen"),
    function("strnlen"),
    function("strchr"),
    function_of_musl("strchrnul", "__strchrnul"),
];

static LAST: [Function; 1] = [function_of_musl("memrchr", "__memrchr")];

static STRING: [Function; 6] = [
    function("strcmp"),
    function("strncmp"),
    function("strcpy"),
    function_of_musl("stpcpy", "__stpcpy"),
    function("strncpy"),
    function_of_musl("stpncpy", "__stpncpy"),
];
