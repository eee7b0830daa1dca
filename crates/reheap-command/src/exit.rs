//! Defines the exit codes, which mean the same in all commands.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitCode, ExitStatus};

/// reheap could not do what the user asked for.
pub const FAILED: u8 = 1;
/// Wrong usage: the user cannot have meant this.
pub const WRONG_USAGE: u8 = 2;
/// `bench compare`: a threshold is violated. `inspect --expect`: an allocator is another one, or unknown.
pub const THRESHOLD_VIOLATED: u8 = 3;
/// `bench`, `recommend`: a variant failed. `run --verify`: the command crashes with and without the allocator.
pub const COMMAND_FAILED: u8 = 4;
/// reheap cannot tell.
pub const UNKNOWN: u8 = 5;
/// `run --verify`: the command has the allocator, and something that it started runs without it.
pub const PARTIAL: u8 = 6;

/// The exit code of a command that did the work, or what a shell makes of the signal that ended it.
pub fn passed_on(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    let code = code.and_then(|code| u8::try_from(code).ok());
    ExitCode::from(code.unwrap_or(FAILED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_ended_a_command_is_passed_on_as_a_shell_does() {
        for (status, code) in [(0, 0), (3 << 8, 3), (15, 143), (11, 139)] {
            let passed_on = passed_on(ExitStatus::from_raw(status));
            assert_eq!(passed_on, ExitCode::from(code), "{status}");
        }
    }
}
