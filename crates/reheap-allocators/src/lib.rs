//! The catalogue of memory allocators that reheap knows, and their builds for a target.
//!
//! | module | what it knows |
//! |---|---|
//! | [`catalogue`] | the allocators |
//! | [`options`], [`tuning`] | their options, and what a user sets |
//! | [`target`], [`compiler`] | targets, and compilers for them |
//! | [`upstream`] | building an allocator |
//! | [`memory`] | assembling the memory functions |
//! | [`libc`] | putting allocator and memory functions into a libc |
//! | [`preload`] | linking an allocator to a shared library for `LD_PRELOAD` |
//! | [`graft`] | linking an allocator to a library that goes into finished executables |
//! | [`portable`] | whether a library runs with every libc that it is for |
//! | [`own_library`] | building reheap's own libraries, such as the probe |
//! | [`program`] | compiling reheap's own small programs |
//! | [`checker`] | checking an allocator in a user's file |
//! | [`probe`] | whether a preload is active in a program |
//! | [`watch`] | which processes of a command a signal ended |
//! | [`recording`] | the file that these two write into |
//! | [`load`] | why a dynamic linker does not load a preload |
//! | [`shell`] | words of the shell's language |
//! | [`cache`] | keeping what was built |
//! | [`trust`] | who could replace a file that gets executed |
//! | [`prebuilt`] | what was built elsewhere and came with the package |
//! | [`machine`] | what this machine lacks, and how to get it |

pub mod built;
pub mod cache;
pub mod canary;
pub mod catalogue;
pub mod checker;
pub mod compiler;
pub mod complaints;
mod foreign;
pub mod graft;
pub mod libc;
pub mod link_kind;
pub mod load;
pub mod machine;
pub mod memory;
pub mod only;
pub mod options;
pub mod own_library;
pub mod portable;
pub mod prebuilt;
pub mod preload;
pub mod probe;
pub mod program;
pub mod recording;
pub mod shell;
pub mod target;
pub mod trust;
pub mod tuning;
pub mod upstream;
mod verified;
pub mod watch;
