//! Holds what the commands `reheap` and `cargo reheap` are: arguments, plans, terminal output and exit codes. Nothing
//! else.
//!
//! One executable has both, and looks at the name that started it. It is the only user of this library.

mod adopting;
mod cli;
mod profiling;

use std::process::ExitCode;

/// Entry point of `reheap`, which may be called `cargo-reheap`.
pub fn main_reheap() -> ExitCode {
    with_stack(|| cli::run(std::env::args_os().collect()))
}

/// Does all work in a thread if `ulimit -s` leaves the first one little stack: that limit is meant for the command.
fn with_stack(work: impl FnOnce() -> ExitCode + Send) -> ExitCode {
    const STACK_BYTES: usize = 8 << 20;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Stack).current;
    if limit.is_none_or(|limit| limit >= STACK_BYTES as u64 / 8) {
        return work();
    }
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().stack_size(STACK_BYTES);
        match builder
            .spawn_scoped(scope, work)
            .map(|thread| thread.join())
        {
            Ok(Ok(code)) => code,
            // The system gives no thread, or the thread has said why it panicked.
            _ => ExitCode::FAILURE,
        }
    })
}
