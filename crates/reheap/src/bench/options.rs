//! The flags of every command that measures, and what they say once checked.

use crate::bench::variants::words;
use crate::ui::Failure;
use anyhow::Context as _;
use reheap_bench::results::{OutputCheck, Settings};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How to measure.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Measuring")]
pub(crate) struct MeasuringArguments {
    /// Run exactly this many rounds, however long they take
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rounds: Option<u32>,
    /// Without --rounds, how long a comparison may take
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    budget: f64,
    /// Without --rounds, stop when each interval of the times is narrower than this
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0)]
    precision: f64,
    /// Take the order of the runs from this number, as an earlier report names it
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// End a run that takes longer, and count it as failed
    #[arg(long, value_name = "SECONDS", default_value_t = 600.0)]
    time_limit: f64,
    /// Accept output that differs from the baseline's
    #[arg(long)]
    ignore_output: bool,
    /// Give each run this file as standard input; without it the input is empty
    #[arg(long, value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,
    /// Read a figure from the output: the first group of the expression, in its last match; for a
    /// figure that is better when lower: NAME:lower=REGEX
    #[arg(long, value_name = "NAME=REGEX")]
    pub(crate) metric: Vec<String>,
    /// Run under each of these memory limits
    #[arg(long, value_name = "BYTES,…", value_delimiter = ',', value_parser = bytes)]
    pub(crate) memory_limit: Vec<u64>,
    /// Run with each of these values in place of {NAME} in the commands
    #[arg(short = 'L', long = "parameter", value_name = "NAME=VALUE,…")]
    parameter: Vec<String>,
}

impl MeasuringArguments {
    /// The settings, with a seed.
    pub(crate) fn settings(&self) -> anyhow::Result<Settings> {
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

    /// All combinations of the values of all parameters; one without any where there are none.
    pub(crate) fn sweep(&self) -> anyhow::Result<Vec<BTreeMap<String, String>>> {
        let mut settings = vec![BTreeMap::new()];
        for parameter in &self.parameter {
            let (name, values) = parameter
                .split_once('=')
                .filter(|(name, values)| !name.is_empty() && !values.is_empty())
                .ok_or_else(|| {
                    let text =
                        format!("a parameter is given as NAME=VALUE,VALUE, not `{parameter}`");
                    Failure::usage(text)
                })?;
            settings = settings
                .iter()
                .flat_map(|setting| {
                    values.split(',').map(move |value| {
                        let mut setting = setting.clone();
                        setting.insert(name.to_owned(), value.trim().to_owned());
                        setting
                    })
                })
                .collect();
        }
        Ok(settings)
    }
}

/// Puts the values of a sweep into a command.
pub(crate) fn substitute(text: &str, parameters: &BTreeMap<String, String>) -> String {
    let mut text = text.to_owned();
    for (name, value) in parameters {
        text = text.replace(&format!("{{{name}}}"), value);
    }
    text
}

/// A server to measure while another program keeps it busy.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Servers")]
pub(crate) struct ServerArguments {
    /// Start this server under each variant, instead of COMMAND
    #[arg(
        long,
        value_name = "COMMAND",
        requires = "load",
        conflicts_with = "command"
    )]
    pub(crate) server: Option<String>,
    /// The server is ready when it takes connections at this port of 127.0.0.1
    #[arg(
        long,
        value_name = "PORT",
        requires = "server",
        conflicts_with = "ready_line"
    )]
    pub(crate) ready_port: Option<u16>,
    /// The server is ready when it prints a line that matches
    #[arg(long, value_name = "REGEX", requires = "server")]
    pub(crate) ready_line: Option<String>,
    /// The program that keeps the server busy; its end ends a run, its output has the metrics
    #[arg(long, value_name = "COMMAND", requires = "server")]
    pub(crate) load: Option<String>,
}

impl ServerArguments {
    /// The server and its load as words.
    pub(crate) fn commands(&self) -> anyhow::Result<Option<(Vec<String>, Vec<String>)>> {
        let (Some(server), Some(load)) = (&self.server, &self.load) else {
            return Ok(None);
        };
        if self.ready_port.is_none() && self.ready_line.is_none() {
            let failure = Failure::usage("when is the server ready?");
            return Err(failure
                .hint("say it by --ready-port or --ready-line")
                .into());
        }
        Ok(Some((words(server)?, words(load)?)))
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
        _ => return Err(format!("`{unit}` is no unit of memory: K, M or G")),
    };
    let number: f64 = number
        .parse()
        .map_err(|_| format!("`{text}` is no amount of memory: 256M, 1.5G"))?;
    let bytes = number * f64::from(1_u32 << shift);
    if bytes < 4096.0 {
        return Err(format!("{text} is less than a page of memory: 256M, 1.5G"));
    }
    Ok(bytes as u64)
}

fn positive(number: f64, flag: &str) -> anyhow::Result<f64> {
    if number.is_finite() && number > 0.0 {
        return Ok(number);
    }
    Err(Failure::usage(format!("{flag} takes a number above 0, not {number}")).into())
}

fn seed_from_the_clock() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::from(now.unwrap_or(Duration::ZERO).subsec_nanos())
}

/// Where the raw results go, and reports of them.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Output; without a file, or with -, to standard output")]
pub(crate) struct OutputArguments {
    /// All runs, to be read by `reheap report`
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
    #[command(flatten)]
    reports: ReportArguments,
}

/// Where reports go.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Output; without a file, or with -, to standard output")]
pub(crate) struct ReportArguments {
    /// A page with charts, in one file
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    html: Option<PathBuf>,
    /// Tables for a pull request
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    markdown: Option<PathBuf>,
    /// A line for each run
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    csv: Option<PathBuf>,
    /// The JSON of hyperfine
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    hyperfine: Option<PathBuf>,
    /// The Bencher Metric Format
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    bencher: Option<PathBuf>,
}

/// A form of the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Json,
    Html,
    Markdown,
    Csv,
    Hyperfine,
    Bencher,
}

/// Forms and the files that they go to, checked before anything runs.
#[derive(Debug, Clone)]
pub(crate) struct Outputs(pub(crate) Vec<(Form, Destination)>);

/// Where a form goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Destination {
    StandardOutput,
    File(PathBuf),
}

impl OutputArguments {
    /// The forms that were asked for.
    ///
    /// # Errors
    /// If two go to standard output, or a file's folder is not there: hours of measuring would be lost at their end.
    pub(crate) fn check(&self) -> anyhow::Result<Outputs> {
        Outputs::check(
            [(Form::Json, &self.json)]
                .into_iter()
                .chain(self.reports.forms()),
        )
    }
}

impl ReportArguments {
    /// The forms that were asked for; errors as those of [`OutputArguments::check`].
    pub(crate) fn check(&self) -> anyhow::Result<Outputs> {
        Outputs::check(self.forms().into_iter())
    }

    fn forms(&self) -> [(Form, &Option<PathBuf>); 5] {
        [
            (Form::Html, &self.html),
            (Form::Markdown, &self.markdown),
            (Form::Csv, &self.csv),
            (Form::Hyperfine, &self.hyperfine),
            (Form::Bencher, &self.bencher),
        ]
    }
}

impl Outputs {
    fn check<'a>(
        asked: impl Iterator<Item = (Form, &'a Option<PathBuf>)>,
    ) -> anyhow::Result<Outputs> {
        let mut outputs = Vec::new();
        for (form, path) in asked {
            let Some(path) = path else { continue };
            if path.as_os_str() == "-" {
                outputs.push((form, Destination::StandardOutput));
                continue;
            }
            let path = std::path::absolute(path).context("cannot find the current folder")?;
            if path.is_dir() {
                let text = format!("cannot write `{}`: it is a folder", path.display());
                return Err(Failure::usage(text).into());
            }
            if !path.parent().is_some_and(Path::is_dir) {
                let text = format!("cannot write `{}`: there is no such folder", path.display());
                return Err(Failure::usage(text).into());
            }
            outputs.push((form, Destination::File(path)));
        }
        let outputs = Outputs(outputs);
        if outputs.to_standard_output() > 1 {
            let failure = Failure::usage("only one form can go to standard output");
            return Err(failure
                .hint("give the others a file: --html report.html")
                .into());
        }
        Ok(outputs)
    }
}

impl Outputs {
    /// How many forms go to standard output.
    pub(crate) fn to_standard_output(&self) -> usize {
        let destinations = self.0.iter();
        destinations
            .filter(|(_, destination)| *destination == Destination::StandardOutput)
            .count()
    }
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
        assert!(bytes("5T").unwrap_err().contains("no unit"));
        assert!(bytes("M").unwrap_err().contains("no amount"));
    }

    #[test]
    fn values_of_a_sweep_go_where_their_name_stands_in_braces() {
        let parameters = BTreeMap::from([("threads".to_owned(), "4".to_owned())]);
        assert_eq!(
            substitute("-j{threads} {other}", &parameters),
            "-j4 {other}"
        );
    }
}
