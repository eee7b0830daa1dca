//! The tests of `reheap-allocators`, in one executable: it is linked once, and all its tests run at once.

mod canary;
mod common;
mod load;
mod portable;
mod prebuilt;
mod preload;
mod probe;
mod upstream;
mod watch;
