//! What a command did, and what it should have done.

use anyhow::{Context as _, Result, ensure};
use std::process::{Command, Stdio};
use xtask::command::shown;

/// How a command ended, and what it printed.
pub(super) struct Outcome {
    command: String,
    code: Option<i32>,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// Runs a command to its end, without input.
pub(super) fn of(command: &mut Command) -> Result<Outcome> {
    let shown = shown(command);
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {shown}\n\nhint: xtask/prepare test-dist"))?;
    Ok(Outcome {
        command: shown,
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// Runs a command that must succeed.
pub(super) fn succeed(command: &mut Command) -> Result<Outcome> {
    of(command)?.succeeded()
}

impl Outcome {
    pub(super) fn succeeded(self) -> Result<Outcome> {
        self.ended_with(0)
    }

    pub(super) fn ended_with(self, code: i32) -> Result<Outcome> {
        ensure!(
            self.code == Some(code),
            "it should have ended with {code}: {}",
            self.report()
        );
        Ok(self)
    }

    pub(super) fn has_failed(&self) -> bool {
        self.code != Some(0)
    }

    pub(super) fn failed(self) -> Result<Outcome> {
        ensure!(self.has_failed(), "it should fail: {}", self.report());
        Ok(self)
    }

    /// On standard output or error.
    pub(super) fn said(self, text: &str) -> Result<Outcome> {
        ensure!(
            self.stdout.contains(text) || self.stderr.contains(text),
            "it should say `{text}`: {}",
            self.report()
        );
        Ok(self)
    }

    pub(super) fn did_not_say(self, text: &str) -> Result<Outcome> {
        ensure!(
            !self.stdout.contains(text) && !self.stderr.contains(text),
            "it should not say `{text}`: {}",
            self.report()
        );
        Ok(self)
    }

    fn report(&self) -> String {
        let Outcome {
            command,
            code,
            stdout,
            stderr,
        } = self;
        format!("{command}\ncode: {code:?}\nstdout: {stdout}\nstderr: {stderr}")
    }
}
