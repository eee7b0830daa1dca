//! Defines the flags of every measuring command, and the checked options that they become.

use crate::bench::duplicates::first_duplicate;
use crate::bench::ready::command_line;
use crate::bench::sweep::{self, Parameters};
use crate::bench::variants::words;
use anyhow::Context as _;
use regex::bytes::Regex;
use reheap_bench::memory_limit::MemoryLimit;
use reheap_bench::metrics::Metric;
use reheap_bench::results::{Direction, OutputCheck, Quantity, Settings};
use reheap_bench::server::{Load, ReadySign};
use reheap_command::ui::Failure;
use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How to measure.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Measuring")]
pub struct MeasuringArguments {
    /// Run exactly this many rounds, however long they take
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rounds: Option<u32>,
    /// Spend at most this long on all runs, without --rounds
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 60.0,
        allow_negative_numbers = true,
        conflicts_with = "rounds"
    )]
    budget: f64,
    /// Stop when each interval of the times is narrower than this, without --rounds
    #[arg(
        long,
        value_name = "PERCENT",
        default_value_t = 2.0,
        allow_negative_numbers = true,
        conflicts_with = "rounds"
    )]
    precision: f64,
    /// Shuffle the runs by this number, to repeat the order of an earlier report that names it
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// End a run that takes longer, and count it as failed
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 600.0,
        allow_negative_numbers = true
    )]
    time_limit: f64,
    /// Accept output that differs from the baseline's
    #[arg(long)]
    ignore_output: bool,
    /// Give each run this file as standard input; without it the input is empty
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Read a figure from the output: the first group of the expression, in its last match; for a
    /// figure that is better when lower: NAME:lower=REGEX
    #[arg(long, value_name = "NAME=REGEX")]
    metric: Vec<String>,
    /// Run under each of these memory limits
    #[arg(long, value_name = "BYTES,…", value_delimiter = ',', value_parser = bytes)]
    memory_limit: Vec<u64>,
    /// Run with each of these values in place of {NAME} in the commands
    #[arg(short = 'L', long = "parameter", value_name = "NAME=VALUE,…")]
    parameter: Vec<String>,
}

/// How to measure, checked.
pub struct Measuring {
    pub(crate) settings: Settings,
    /// The file for standard input, with its whole path.
    pub(crate) input: Option<PathBuf>,
    pub(crate) metrics: Vec<Metric>,
    /// All combinations of the values of all parameters; one empty combination if there are no parameters.
    pub sweep: Vec<Parameters>,
    /// The memory limits; a single `None` if the user set none.
    pub(crate) memory_limits_bytes: Vec<Option<u64>>,
}

impl Measuring {
    /// How many comparisons are asked for.
    pub fn comparisons(&self) -> usize {
        self.sweep.len() * self.memory_limits_bytes.len()
    }
}

impl MeasuringArguments {
    /// Everything that reheap can check before it builds anything.
    pub fn check(&self) -> anyhow::Result<Measuring> {
        Ok(Measuring {
            settings: self.settings()?,
            input: self.input()?,
            metrics: self.metrics()?,
            sweep: sweep::combinations(&self.parameter)?,
            memory_limits_bytes: self.memory_limits_bytes()?,
        })
    }

    /// The settings, with a seed.
    fn settings(&self) -> anyhow::Result<Settings> {
        Ok(Settings {
            seed: self.seed.unwrap_or_else(seed_from_the_clock),
            rounds: self.rounds.map(|rounds| rounds as usize),
            budget_seconds: positive(self.budget, "--budget")?,
            precision: positive(self.precision, "--precision")? / 100.0,
            time_limit_seconds: Some(positive(self.time_limit, "--time-limit")?),
            output: if self.ignore_output {
                OutputCheck::Ignored
            } else {
                OutputCheck::Same
            },
        })
    }

    fn input(&self) -> anyhow::Result<Option<PathBuf>> {
        let Some(path) = &self.input else {
            return Ok(None);
        };
        let shown = path.display();
        let cannot = || format!("cannot read the input `{shown}`");
        let input = File::open(path).with_context(cannot)?;
        if input.metadata().with_context(cannot)?.is_dir() {
            let text = format!("cannot read the input `{shown}`: it is a directory");
            return Err(Failure::usage(text).into());
        }
        Ok(Some(std::path::absolute(path)?))
    }

    /// What to read from the output. A higher figure is better, unless `:lower` follows its name.
    fn metrics(&self) -> anyhow::Result<Vec<Metric>> {
        let metric = |text: &String| {
            let (name, pattern) = match text.split_once('=') {
                Some((name, pattern)) if !pattern.is_empty() => (name, pattern),
                _ => {
                    let text = format!("cannot read the metric `{text}`: write NAME=REGEX");
                    return Err(Failure::usage(text).into());
                }
            };
            let (name, direction) = match name.split_once(':') {
                None => (name, Direction::Higher),
                Some((name, "higher")) => (name, Direction::Higher),
                Some((name, "lower")) => (name, Direction::Lower),
                Some((_, other)) => {
                    let text = format!(
                        "cannot read the metric's direction `{other}`: write `higher` or `lower`"
                    );
                    return Err(Failure::usage(text).into());
                }
            };
            Metric::parse(&format!("{name}={pattern}"), direction)
                .map_err(|error| Failure::usage(error.to_string()).into())
        };
        let metrics: anyhow::Result<Vec<Metric>> = self.metric.iter().map(metric).collect();
        let metrics = metrics?;
        let names = metrics.iter().map(|metric| metric.name.as_str());
        if let Some(name) = first_duplicate(names.clone()) {
            return Err(Failure::usage(format!("found the metric `{name}` twice")).into());
        }
        for name in names {
            if !matches!(Quantity::named(name), Quantity::Metric(_)) {
                let text =
                    format!("a metric cannot be called `{name}`: reheap always measures that");
                return Err(Failure::usage(text).into());
            }
        }
        Ok(metrics)
    }

    /// The limits. reheap set each of them once to see whether it can.
    fn memory_limits_bytes(&self) -> anyhow::Result<Vec<Option<u64>>> {
        if let Some(bytes) = first_duplicate(self.memory_limit.iter()) {
            let text = format!("found the memory limit of {bytes} bytes twice");
            return Err(Failure::usage(text).into());
        }
        for &bytes in &self.memory_limit {
            MemoryLimit::prepare(bytes)?;
        }
        let limits = self.memory_limit.iter().copied().map(Some);
        Ok(match self.memory_limit.as_slice() {
            [] => vec![None],
            _ => limits.collect(),
        })
    }
}

/// A server to measure while another program keeps it busy.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Servers")]
pub struct ServerArguments {
    /// Start this server under each variant, instead of COMMAND
    #[arg(
        long,
        value_name = "COMMAND",
        requires = "load",
        conflicts_with = "command"
    )]
    server: Option<String>,
    /// The server is ready when it takes connections at this port of 127.0.0.1
    #[arg(
        long,
        value_name = "PORT",
        requires = "load",
        conflicts_with = "ready_line"
    )]
    ready_port: Option<u16>,
    /// The server is ready when it prints a line that matches
    #[arg(long, value_name = "REGEX", requires = "load")]
    ready_line: Option<String>,
    /// The time that the server may take to be ready
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 30.0,
        allow_negative_numbers = true,
        requires = "load"
    )]
    ready_within: f64,
    /// The program that keeps the server busy; its end ends a run, its output has the metrics
    #[arg(long, value_name = "COMMAND", conflicts_with = "command")]
    load: Option<String>,
}

/// How long a server may take to stop.
const STOP_WITHIN: Duration = Duration::from_secs(10);

/// A server and the load that keeps it busy, as words that a sweep may change.
#[derive(Debug, Clone)]
pub struct Server {
    /// `None` if each variant is a server of its own.
    pub words: Vec<OsString>,
    /// What makes requests of a server.
    pub load: Vec<OsString>,
    pub(crate) ready: ReadySign,
    ready_within: Duration,
}

impl ServerArguments {
    /// The server, if the user measures one.
    pub fn check(&self) -> anyhow::Result<Option<Server>> {
        let Some(load) = &self.load else {
            return Ok(None);
        };
        let ready = match (self.ready_port, &self.ready_line) {
            (Some(port), _) => ReadySign::Port(port),
            (None, Some(line)) => ReadySign::Line(Regex::new(line).map_err(|error| {
                Failure::usage(format!("cannot read the expression `{line}`: {error}"))
            })?),
            (None, None) => {
                let failure = Failure::usage("cannot tell when the server is ready");
                return Err(failure.hint("add --ready-port or --ready-line").into());
            }
        };
        let words = |flag: &str, text: &str| -> anyhow::Result<Vec<OsString>> {
            Ok(words(flag, text)?.into_iter().map(OsString::from).collect())
        };
        let server = self.server.as_deref();
        Ok(Some(Server {
            words: server.map_or(Ok(Vec::new()), |server| words("--server ", server))?,
            load: words("--load ", load)?,
            ready,
            ready_within: Duration::from_secs_f64(positive(self.ready_within, "--ready-within")?),
        }))
    }
}

impl Server {
    /// The load with the values of a sweep.
    pub(crate) fn load(&self, parameters: &Parameters) -> anyhow::Result<Load> {
        Ok(Load {
            command: command_line(&self.load, parameters)?,
            ready: self.ready.clone(),
            ready_within: self.ready_within,
            stop_within: STOP_WITHIN,
        })
    }
}

/// `384M`, `1.5G`, `65536`: powers of 1024.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let unit_at = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let shift = match unit.trim_end_matches(['B', 'b']).trim_end_matches('i') {
        "" => 0,
        "K" | "k" => 10,
        "M" | "m" => 20,
        "G" | "g" => 30,
        _ => return Err(format!("`{unit}` is not a unit of memory: use K, M or G")),
    };
    let number: f64 = number
        .parse()
        .map_err(|_| format!("`{text}` is not an amount of memory: write it like 256M or 1.5G"))?;
    let bytes = number * f64::from(1_u32 << shift);
    if bytes < 4096.0 {
        return Err(format!(
            "{text} is less than a page of memory: use more, such as 256M or 1.5G"
        ));
    }
    Ok(bytes as u64)
}

/// Thirty years in seconds, which clocks can represent.
const NUMBER_MAX: f64 = 1e9;

fn positive(number: f64, flag: &str) -> anyhow::Result<f64> {
    if number > 0.0 && number <= NUMBER_MAX {
        return Ok(number);
    }
    let text = format!("{flag} needs a number above 0 and up to {NUMBER_MAX}");
    Err(Failure::usage(text).into())
}

fn seed_from_the_clock() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::from(now.unwrap_or(Duration::ZERO).subsec_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_given_in_powers_of_1024() {
        assert_eq!(bytes("256M"), Ok(256 << 20));
        assert_eq!(bytes("1.5GiB"), Ok(3 << 29));
        assert_eq!(bytes("65536"), Ok(65536));
        assert!(bytes("5").unwrap_err().contains("less than a page"));
        assert!(bytes("5T").unwrap_err().contains("not a unit"));
        assert!(bytes("M").unwrap_err().contains("not an amount"));
    }
}
