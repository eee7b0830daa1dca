//! The machine and the day that figures are from. A figure without them says nothing.

use anyhow::{Context, Result};
use serde::Serialize;
use std::fmt;
use std::fs;
use std::process::Command;
use std::thread::available_parallelism;
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) processors: usize,
    pub(crate) memory_bytes: u64,
    pub(crate) kernel: String,
    pub(crate) rustc: String,
    /// The mean number of running processes of the minute before: above 0.5 or so, figures are doubtful.
    pub(crate) load_before: f64,
}

impl Machine {
    pub(crate) fn describe() -> Result<Machine> {
        let cpuinfo = read("/proc/cpuinfo")?;
        let meminfo = read("/proc/meminfo")?;
        let memory_kib = field(&meminfo, "MemTotal")
            .and_then(|value| value.trim_end_matches(" kB").parse::<u64>().ok());
        let rustc = Command::new("rustc")
            .arg("--version")
            .output()
            .context("cannot start rustc")?;
        Ok(Machine {
            processor: field(&cpuinfo, "model name")
                .unwrap_or("unknown")
                .to_owned(),
            processors: available_parallelism()
                .context("cannot count the processors")?
                .get(),
            memory_bytes: memory_kib.context("cannot find MemTotal in `/proc/meminfo`")? * 1024,
            kernel: read("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            rustc: String::from_utf8_lossy(&rustc.stdout).trim().to_owned(),
            load_before: first_word(&read("/proc/loadavg")?)
                .parse()
                .context("cannot understand `/proc/loadavg`")?,
        })
    }

    /// The short name that folders get: `x86_64-2-processors`.
    pub(crate) fn short_name(&self) -> String {
        format!("{}-{}-processors", std::env::consts::ARCH, self.processors)
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gib = self.memory_bytes as f64 / (1024.0 * 1024.0 * 1024.0);
        let Machine {
            processor,
            processors,
            kernel,
            rustc,
            load_before,
            ..
        } = self;
        write!(
            out,
            "{processor}, {processors} processors, {gib:.0} GiB, Linux {kernel}, {rustc}, load before {load_before:.2}"
        )
    }
}

fn read(path: &str) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read `{path}`"))
}

/// The value of a line `name : value`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then_some(value.trim())
    })
}

fn first_word(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or_default()
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
        assert!(
            machine.processors > 0
                && machine.memory_bytes > 0
                && machine.rustc.starts_with("rustc ")
        );
    }
}
