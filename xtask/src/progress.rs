//! Says on standard error what is being done, and how long it has been going on.

use crate::command::shown;
use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, IsTerminal as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How much of what a command printed is shown if it fails.
const LINES_OF_FAILURE: usize = 40;

/// The clock of a task.
pub struct Progress {
    started: Instant,
}

impl Progress {
    /// Begins to count the seconds.
    pub fn start() -> Progress {
        Progress {
            started: Instant::now(),
        }
    }

    /// One line, with the seconds since the start.
    pub fn say(&self, what: impl AsRef<str>) {
        eprintln!(
            "[{:>3} s] {}",
            self.started.elapsed().as_secs(),
            what.as_ref()
        );
    }

    /// Runs a command with its output shown, after a line that says what it is for.
    pub fn step(&self, what: &str, command: &mut Command) -> Result<()> {
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

impl Progress {
    /// Runs a command and shows one line of what it prints at a time; all that counts of it if it fails.
    pub fn quietly(&self, what: &str, command: &mut Command) -> Result<()> {
        if !std::io::stderr().is_terminal() {
            self.say(what);
        }
        let line = ProgressBar::new_spinner().with_style(
            ProgressStyle::with_template("[{elapsed:>4}] {prefix} {wide_msg:.dim}")
                .context("the template of the line is wrong")?,
        );
        line.set_prefix(what.to_owned());
        line.enable_steady_tick(Duration::from_millis(200));
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", shown(command)))?;
        let output = child.stderr.take().context("there is no standard error")?;
        let mut last = VecDeque::new();
        for text in BufReader::new(output).lines() {
            let text = text.context("cannot read what a command prints")?;
            line.set_message(text.trim().to_owned());
            if last.len() == LINES_OF_FAILURE {
                last.pop_front();
            }
            last.push_back(text);
        }
        let status = child.wait().context("cannot wait for a command")?;
        line.finish_and_clear();
        if !status.success() {
            for text in last {
                eprintln!("{text}");
            }
            bail!("{what}: {} failed ({status})", shown(command));
        }
        if std::io::stderr().is_terminal() {
            self.say(what);
        }
        Ok(())
    }
}
