//! How a program allocates.
//!
//! Hooks in front of a program's malloc count what it does, in memory that they share with reheap (`hooks/`). They get
//! into a dynamic program as a preload, and into a static one by a jump in place of the first instructions of its
//! malloc. What they saw is a [`profile::Profile`], from which `reheap-report` makes every form of report.

mod block_tables;
mod cpu;
mod curve;
pub mod deaths;
mod heap_pages;
pub mod hooks;
mod hooks_clock;
pub mod inject;
pub mod observer;
pub mod others;
pub mod profile;
pub mod recording;
mod samples;
pub mod stacks;
mod tracer;

#[cfg(test)]
mod emulated;
