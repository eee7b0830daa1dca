//! What the kernel tells of processes in /proc.

pub mod maps;
pub mod memory;
pub mod process;
