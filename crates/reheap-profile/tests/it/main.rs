//! The tests of `reheap-profile`, in one executable: it is linked once, and all its tests run at once.

mod attach;
mod common;
mod deaths;
mod inject;
mod locate;
mod replay;
mod stacks;
mod stacks_damaged;
mod support;
mod trace_hooks;
mod workshop;
