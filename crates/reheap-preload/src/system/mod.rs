//! Gives all dynamic programs of a system another allocator, and undoes that.
//!
//! glibc's dynamic linker reads `/etc/ld.so.preload` for every program; musl's has nothing like it, so there a script
//! in `/etc/profile.d` sets `LD_PRELOAD` for new login sessions. A mistake in the first of these ends every program of
//! the system, including the shell to fix it. So reheap writes it last, when the library is in its final place and
//! canaries have started with it. If anything fails, the old file comes back. See [`change`] for the order of the steps
//! and what a crash between two of them leaves.
//!
//! Every write, deletion and rename goes through [`disk::Disk`], where tests can make each step fail.
//!
//! Rejected: the libraries of distributions (see `reheap_allocators::preload`); a library in the user's cache
//! directory, which a user could replace under setuid programs; `/etc/environment`, which only PAM reads, not for
//! services either.

pub mod canary;
pub mod census;
pub mod change;
mod directory_times;
pub mod disk;
pub mod health;
pub(crate) mod identity;
pub mod libraries;
pub mod processes;
pub mod root;
pub mod state;
#[cfg(test)]
mod tests;

use reheap_command::output::attributes;
use reheap_subject::preload_files::{self, LD_SO_PRELOAD, LIBRARIES};

/// What login shells read.
pub const PROFILE_DIRECTORY: &str = "/etc/profile.d";
/// What sets `LD_PRELOAD` there.
pub const PROFILE_SCRIPT: &str = "/etc/profile.d/reheap.sh";
/// What is enabled, and what was there before. Beside the file that matters most, in a directory that every system has.
pub(crate) const RECORD: &str = "/etc/reheap-enabled.json";
/// What is being changed at the moment.
pub(crate) const JOURNAL: &str = "/etc/reheap-change.json";
