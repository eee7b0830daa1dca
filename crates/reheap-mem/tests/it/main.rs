//! The tests of `reheap-mem`, in one executable: it is linked once, and all its tests run at once.

mod append;
mod case;
mod common;
mod compare;
mod copy;
mod emulated;
mod granules;
mod huge;
mod level;
mod processors;
mod properties;
mod search;
mod set;
mod span;
mod string;
mod substring;
mod wide;
