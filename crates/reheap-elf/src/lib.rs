//! Musl libc archives and ELF files as values: read, derive, audit, mark, identify.
//!
//! Bytes in, bytes out: nothing here opens a file, prints, or reads the environment. So tests and fuzzers need only
//! byte slices. The crate derives and links 64-bit little-endian ELF (x86-64 and AArch64).
//!
//! | module | what it knows |
//! |---|---|
//! | [`archive`] | `ar` archives: members in, members out |
//! | [`allocator_archive`] | an archive with an allocator that somebody else built |
//! | [`symbols`] | the symbol table of one relocatable object |
//! | [`rewrite`] | renaming, aliasing and hiding symbols of an object without touching its code |
//! | [`family`] | the names of the malloc family and of what a musl libc hides behind them |
//! | [`derive`](mod@derive) | the derived libc: take the stock allocator out, put another one in, audit |
//! | [`preload_objects`] | the objects of a preload, and what it must export |
//! | [`identify`](mod@identify) | what an ELF file is: kind, libc, allocators, who provides malloc, and how we know |
//! | [`marker`] | the ELF note that says what reheap put in, and whether the program uses it |
//! | [`baked`] | objects that carry baked-in tuning |
//! | [`empty`] | empty libraries for other processors |
//! | [`bindings`] | where a linked file keeps the address of its malloc |
//! | [`imports`] | which functions and versions a library takes from its libc |
//! | [`linkage`] | which libraries and names a linked file takes from others |
//! | [`error`] | why a file cannot be read as ELF |
//! | [`source`] | reading bytes on demand, so that a file of any size needs little memory |
#![forbid(unsafe_code)]

pub mod allocator_archive;
mod architecture;
pub mod archive;
pub mod baked;
pub mod bindings;
pub mod derive;
pub mod empty;
pub mod error;
pub mod family;
pub mod identify;
pub mod imports;
pub mod linkage;
pub mod marker;
pub mod preload_objects;
pub mod rewrite;
pub mod sections;
pub mod source;
pub mod stack;
pub mod symbols;
mod tables;

pub use architecture::{Architecture, Class, Platform};
