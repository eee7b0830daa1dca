//! Holds what the programs `reheap` and `cargo-reheap` share: arguments, plans, terminal output and exit codes. Nothing
//! else.
//!
//! It is a library only so that two executables can be made from it; it has no other users.
mod bench;
mod choice;
mod cli;
mod container;
mod env_vars;
mod exit;
mod inspect;
mod interrupt;
mod limits;
mod opened;
mod other_preloads;
mod output;
mod preloading;
mod process;
mod profiling;
mod program;
mod project;
mod pulse;
mod replaying;
mod sys;
mod system;
mod ui;
mod workshop;

use std::process::ExitCode;

/// Entry point of `reheap`.
pub fn main_reheap() -> ExitCode {
    cli::run_reheap(std::env::args_os().collect())
}

/// Entry point of `cargo-reheap`.
pub fn main_cargo_reheap() -> ExitCode {
    cli::run_cargo_reheap(std::env::args_os().collect())
}
