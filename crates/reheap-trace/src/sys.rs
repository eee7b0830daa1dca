//! The processor's counter, and memory that is shared with other processes.
#![allow(unsafe_code)]

pub(crate) mod counter;
pub(crate) mod shared_memory;
