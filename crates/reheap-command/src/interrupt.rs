//! Catches Ctrl-C and other requests to end, for commands that must clean up first.
//!
//! `bench` keeps and reports the runs so far, `run --verify` ends what it started, `enable` undoes what it did. A
//! second request ends reheap at once. In both cases the exit code is that of a shell: 128 plus the signal's number.
//!
//! For the first request, a flag that a signal handler sets would be enough. But when reheap ends, only what it started
//! itself ends with it, and a command may have started more. Finding and killing that needs more than a handler may do.
//! So a thread waits for signals.

use crate::sys::handover;
use crate::ui::Failure;
use anyhow::Context as _;
use reheap_bench::run;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;

/// The signal that came first. Signals are the whole process's, and so is this.
static FIRST: AtomicI32 = AtomicI32::new(0);
/// Set once a second one came, which ends the process.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// A flag that SIGINT, SIGTERM or a closed terminal (SIGHUP) sets from now on. With nohup(1), which ignores SIGHUP, the
/// last means nothing.
pub fn on_signals() -> anyhow::Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let awaited = [SIGINT, SIGTERM].into_iter();
    let awaited = awaited.chain((!handover::is_ignored(SIGHUP)).then_some(SIGHUP));
    let mut signals = Signals::new(awaited).context("cannot watch for Ctrl-C")?;
    let flag = Arc::clone(&interrupted);
    let wait = move || {
        for signal in signals.forever() {
            // Set before the flag, so that code that sees the flag also sees the signal.
            let is_first = FIRST.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst);
            flag.store(true, Ordering::SeqCst);
            if is_first.is_err() {
                IS_ENDING.store(true, Ordering::SeqCst);
                run::kill_everything();
                low_level::exit(128 + signal);
            }
        }
    };
    let thread = thread::Builder::new().spawn(wait);
    thread.map_err(|error| Failure::no_thread("watches for Ctrl-C", &error))?;
    Ok(interrupted)
}

/// Waits for the end if a second signal came. What fails because its processes were killed is not worth reporting.
pub fn wait_if_ending() {
    while IS_ENDING.load(Ordering::SeqCst) {
        thread::park();
    }
}

/// The exit code after the flag was set, or after what reheap runs was ended in the same way.
pub fn exit_code() -> u8 {
    let signal = match FIRST.load(Ordering::SeqCst) {
        0 => SIGINT, // it reached only what reheap runs, or that first
        signal => signal,
    };
    u8::try_from(128 + signal).expect("the three signals have small numbers")
}

/// The error after the flag was set.
pub fn failure(text: &str) -> Failure {
    Failure::failed(text).code(exit_code())
}
