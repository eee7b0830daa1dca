//! What the kernel tells of processes in /proc (proc(5)).
//!
//! No crate that reads it into strings: names of programs and paths of libraries need not be UTF-8.

pub mod by_number;
pub mod maps;
pub mod memory;
pub mod pagemap;
pub mod process;
pub mod stat;
pub mod status;
pub mod tree;
