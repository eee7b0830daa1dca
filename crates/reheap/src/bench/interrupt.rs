//! Ctrl-C while measuring: the runs so far are kept and reported, a second Ctrl-C ends reheap at once.

use anyhow::Context as _;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A flag that SIGINT or SIGTERM sets from now on.
pub(crate) fn on_signals() -> anyhow::Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order: the first signal finds the flag unset and sets it, the second one finds it set.
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&interrupted))
            .and_then(|_| flag::register(signal, Arc::clone(&interrupted)))
            .context("cannot watch for Ctrl-C")?;
    }
    Ok(interrupted)
}
