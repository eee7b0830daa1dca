//! The machine and the day that figures are from. A figure without them says nothing.

use crate::workspace::Workspace;
use anyhow::{Context, Result};
use reheap_bench::machine::describe;
use reheap_bench::run::Launcher;
use serde::Serialize;
use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// What all measurements say of their machine, and the compiler that these were built with.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    #[serde(flatten)]
    machine: reheap_bench::results::Machine,
    rustc: String,
}

impl Machine {
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

    /// The folder for what is measured today on this machine, or on one of that name; made if it is not there.
    pub(crate) fn folder(&self, workspace: &Workspace, name: Option<String>) -> Result<PathBuf> {
        let name = name.unwrap_or_else(|| self.short_name());
        let folder = workspace.root.join("docs/measurements");
        let folder = folder.join(format!("{}-{name}", today()?));
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make the folder `{}`", folder.display()))?;
        Ok(folder)
    }

    /// The short name that folders get: `x86_64-2-processors`.
    fn short_name(&self) -> String {
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
pub(crate) fn today() -> Result<String> {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .context("the clock is before 1970")?
        .as_secs();
    Ok(date(seconds / 86_400))
}

/// The date of a day counted from 1 January 1970, after Howard Hinnant's `civil_from_days`: years begin in March, so
/// that the leap day is the last.
fn date(days: u64) -> String {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(11_016), "2000-02-29");
        assert_eq!(date(20_453), "2025-12-31");
        assert_eq!(date(20_454), "2026-01-01");
    }

    #[test]
    fn this_machine_can_be_described() {
        let machine = Machine::describe().unwrap();
        assert!(machine.rustc.starts_with("rustc "), "{machine}");
    }
}
