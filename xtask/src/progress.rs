//! Says on standard error what is being done, and how long it has been going on.

use anyhow::{Context, Result, bail};
use std::process::Command;
use std::time::Instant;

/// The clock of a task.
pub(crate) struct Progress {
    started: Instant,
}

impl Progress {
    pub(crate) fn start() -> Progress {
        Progress {
            started: Instant::now(),
        }
    }

    /// One line, with the seconds since the start.
    pub(crate) fn say(&self, what: impl AsRef<str>) {
        eprintln!(
            "[{:>3} s] {}",
            self.started.elapsed().as_secs(),
            what.as_ref()
        );
    }

    /// Runs a command with its output shown, after a line that says what it is for.
    pub(crate) fn step(&self, what: &str, command: &mut Command) -> Result<()> {
        self.say(what);
        let status = command
            .status()
            .with_context(|| format!("cannot start {}", shown(command)))?;
        if !status.success() {
            bail!("{what}: {} failed ({status})", shown(command));
        }
        Ok(())
    }
}

/// A command as one would type it.
pub(crate) fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    format!("`{}`", words.join(" "))
}
