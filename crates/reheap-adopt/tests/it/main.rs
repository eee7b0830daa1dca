//! The tests of `reheap-adopt`, in one executable: it is linked once, and all its tests run at once.

mod adoption;
mod ci;
mod common;
mod conditions;
mod findings;
mod required_features;
mod sources;
mod wheel;
mod workflows;
mod written;
