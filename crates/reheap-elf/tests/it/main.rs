//! The tests of `reheap-elf`, in one executable: it is linked once, and all its tests run at once.

mod allocator_archive;
mod common;
mod derive;
mod identify;
mod identify_damaged;
mod identify_data;
mod identify_large;
mod linkage;
mod memory_functions;
mod memory_functions_aarch64;
mod processors;
mod protections;
mod refusals;
mod workshop;
