//! The catalogue of memory allocators that reheap knows, and their builds for a target.
//!
//! | module | what it knows |
//! |---|---|
//! | [`catalogue`] | the allocators |
//! | [`options`], [`tuning`] | their options, and what a user sets |
//! | [`target`], [`compiler`] | targets, and compilers for them |
//! | [`upstream`] | building an allocator |
//! | [`memory`] | assembling the memory functions |
//! | [`libc`] | putting both into a libc |
//! | [`preload`] | linking it to a shared library for `LD_PRELOAD` |
//! | [`own_library`] | building the libraries of reheap's own, such as the probe |
//! | [`probe`] | whether a preload is active in a program |
//! | [`watch`] | which processes of a command died by a signal |
//! | [`recording`] | the file that these two write into |
//! | [`load`] | why a dynamic linker does not load one |
//! | [`cache`] | keeping all that |
//! | [`machine`] | what a machine lacks for that |

pub mod cache;
pub mod canary;
pub mod catalogue;
pub mod compiler;
pub mod libc;
pub mod load;
pub mod machine;
pub mod memory;
pub mod only;
pub mod options;
pub mod own_library;
pub mod preload;
pub mod probe;
pub mod recording;
pub mod target;
pub mod tuning;
pub mod upstream;
pub mod watch;
