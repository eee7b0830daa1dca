//! The tests of `reheap-bench`, in one executable: it is linked once, and all its tests run at once.

mod experiment;
mod memory_limit;
mod run;
mod server;
