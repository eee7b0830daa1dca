//! The catalogue of memory allocators that reheap knows, and their builds for a target.

pub mod compiler;
pub mod target;
