//! The machine and the day that figures are from. A figure without them says nothing.

use anyhow::{Context, Result};
use reheap_bench::machine::describe;
use reheap_bench::run::Launcher;
use serde::Serialize;
use std::fmt;
use std::process::Command;
use std::time::SystemTime;

/// What all measurements say of their machine, and the compiler that these were built with.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    #[serde(flatten)]
    machine: reheap_bench::results::Machine,
    rustc: String,
}

impl Machine {
    /// Asks the system, and rustc for its version.
    pub(crate) fn describe() -> Result<Machine> {
        let rustc = Command::new("rustc")
            .arg("--version")
            .output()
            .context("cannot start rustc")?;
        Ok(Machine {
            machine: describe(&Launcher::new()?),
            rustc: String::from_utf8_lossy(&rustc.stdout).trim().to_owned(),
        })
    }

    /// The short name that directories get: `x86_64-2-processors`.
    pub(crate) fn short_name(&self) -> String {
        let machine = &self.machine;
        format!("{}-{}-processors", machine.architecture, machine.processors)
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine { machine, rustc } = self;
        let gib = machine.memory_bytes as f64 / (1024.0 * 1024.0 * 1024.0);
        write!(
            out,
            "{}, {} processors, {gib:.0} GiB, {}, {rustc}",
            machine.processor, machine.processors, machine.kernel
        )?;
        // Above 0.5 or so, figures are doubtful.
        match machine.load_average {
            Some(load) => write!(out, ", load before {load:.2}"),
            None => Ok(()),
        }
    }
}

/// Today, as `2026-01-31`, in UTC.
pub(crate) fn today() -> String {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let (date, _) = now
        .split_once('T')
        .expect("RFC 3339 has a time behind the date");
    date.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_can_be_described() {
        let machine = Machine::describe().unwrap();
        assert!(machine.rustc.starts_with("rustc "), "{machine}");
    }
}
