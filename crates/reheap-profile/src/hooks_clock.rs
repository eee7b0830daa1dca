//! The hooks' clock: a thread that tells them what time it is.
//!
//! They do not look at a clock themselves, because that would cost more than all the rest: reading one takes 7 ns in a
//! virtual machine. So each lifetime is true to about [`STEP`]. Rejected: the observer's thread. A look at hundreds of
//! processes takes tens of milliseconds, and meanwhile blocks would seem to live for no time.

use crate::recording::Recording;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

const STEP: Duration = Duration::from_millis(1);

/// The thread goes on until this is dropped.
#[derive(Debug)]
pub(crate) struct HooksClock {
    _end: Sender<()>,
}

impl HooksClock {
    /// Starts it, with the time that is 0.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(crate) fn start(recording: Arc<Recording>, start: Instant) -> io::Result<Self> {
        let (end, ended) = mpsc::channel();
        let tick = move || {
            recording.set_now(start.elapsed());
            while ended.recv_timeout(STEP) == Err(RecvTimeoutError::Timeout) {
                recording.set_now(start.elapsed());
            }
        };
        thread::Builder::new().spawn(tick)?;
        Ok(Self { _end: end })
    }
}
