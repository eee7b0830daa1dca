//! The tests of `reheap-trace`, in one executable.

mod trace;
