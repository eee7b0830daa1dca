//! Ctrl-C while measuring: the runs so far are kept and reported, a second Ctrl-C ends reheap at once.
//!
//! A flag that a signal handler sets would do for the first one. But with reheap ends only what it started itself, and a
//! command may have started more; to find and kill that takes more than a handler may do. So a thread waits for signals.

use anyhow::Context as _;
use reheap_bench::run;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// A flag that SIGINT, SIGTERM or a closed terminal (SIGHUP) sets from now on.
pub(crate) fn on_signals() -> anyhow::Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM]).context("cannot watch for Ctrl-C")?;
    let flag = Arc::clone(&interrupted);
    thread::spawn(move || {
        for signal in signals.forever() {
            if flag.swap(true, Ordering::Relaxed) {
                run::kill_everything();
                low_level::exit(128 + signal);
            }
        }
    });
    Ok(interrupted)
}
