//! Checks where results and reports go before anything runs. A mistake found later would lose hours of measuring.

use crate::bench::duplicates::first_duplicate;
use anyhow::Context as _;
use reheap_command::output;
use reheap_command::ui::Failure;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Where the raw results go, and reports of them.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Output; without a file, or with -, to standard output")]
pub struct OutputArguments {
    /// All runs, to be read by `reheap report`
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
    #[command(flatten)]
    reports: ReportArguments,
}

/// Where reports go.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Output; without a file, or with -, to standard output")]
pub struct ReportArguments {
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
    /// Show all quantities and all warnings in the tables
    #[arg(long)]
    verbose: bool,
}

/// A format of the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Results that reheap reads again.
    Json,
    /// A page.
    Html,
    /// Tables for a text.
    Markdown,
    /// Each run in a line.
    Csv,
    /// What hyperfine writes.
    Hyperfine,
    /// What Bencher reads.
    Bencher,
}

/// Formats and the files that they go to, checked before anything runs.
#[derive(Debug, Clone)]
pub struct Outputs {
    /// The forms, in the order of the command line.
    pub forms: Vec<(Form, Destination)>,
    /// Whether the tables show everything.
    pub verbose: bool,
}

/// Where a format goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// What the user sees or pipes.
    StandardOutput,
    /// A file, in place of what was there.
    File(PathBuf),
}

impl OutputArguments {
    /// The formats that the user asked for.
    ///
    /// # Errors
    /// If two go to standard output, or a file's directory does not exist.
    pub fn check(&self) -> anyhow::Result<Outputs> {
        let json = [(Form::Json, &self.json)].into_iter();
        self.reports.checked(json.chain(self.reports.forms()))
    }
}

impl ReportArguments {
    /// The formats that the user asked for; errors are those of [`OutputArguments::check`].
    pub fn check(&self) -> anyhow::Result<Outputs> {
        self.checked(self.forms().into_iter())
    }

    fn checked<'a>(
        &self,
        asked: impl Iterator<Item = (Form, &'a Option<PathBuf>)>,
    ) -> anyhow::Result<Outputs> {
        Ok(Outputs {
            forms: destinations(asked)?,
            verbose: self.verbose,
        })
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

/// Formats and where they go, checked before anything runs.
///
/// # Errors
/// If two go to one place, or a file's directory does not exist.
pub fn destinations<'a>(
    asked: impl Iterator<Item = (Form, &'a Option<PathBuf>)>,
) -> anyhow::Result<Vec<(Form, Destination)>> {
    let mut forms = Vec::new();
    for (form, path) in asked {
        let Some(path) = path else { continue };
        let destination = if path.as_os_str() == "-" {
            Destination::StandardOutput
        } else {
            Destination::File(writable(form, path)?)
        };
        forms.push((form, destination));
    }
    match first_duplicate(forms.iter().map(|(_, destination)| destination)) {
        None => Ok(forms),
        Some(Destination::StandardOutput) => {
            let failure = Failure::usage("only one report can go to standard output");
            let hint = "give the others a file: --html report.html";
            Err(failure.hint(hint).into())
        }
        Some(Destination::File(path)) => {
            let text = format!("two reports would go to `{}`", path.display());
            Err(Failure::usage(text).into())
        }
    }
}

/// The whole path of a file that reheap can and may write.
fn writable(form: Form, path: &Path) -> anyhow::Result<PathBuf> {
    let path = std::path::absolute(path).context("cannot find the current directory")?;
    let shown = path.display();
    let refuse = |reason: String| Err(Failure::usage(format!("cannot write `{shown}`: {reason}")));
    if path.is_dir() {
        refuse("it is a directory".to_owned())?;
    }
    if output::is_program(&path) {
        refuse("a program is there".to_owned())?;
    }
    // reheap follows a link: it writes to the target, not in place of the link.
    let file = output::behind_links(&path).or_else(|error| refuse(error.to_string()))?;
    if output::is_of_the_system(&path) {
        return Ok(path); // a device, a pipe, `/dev/stdout`
    }
    let path = file;
    let Some(directory) = path.parent().filter(|directory| directory.is_dir()) else {
        return Ok(refuse("there is no such directory".to_owned())?);
    };
    if let Err(reason) = tempfile::tempfile_in(directory) {
        refuse(reason.to_string())?;
    }
    if form != Form::Json && holds_results(&path) {
        let failure = Failure::usage(format!(
            "cannot write `{shown}`: it holds measurement results"
        ));
        let hint = "name a new file after the flag: reheap report results.json --html report.html";
        return Err(failure.hint(hint).into());
    }
    Ok(path)
}

/// Whether `reheap bench --json` or `reheap attack --json` wrote this file: it begins with the member that has the format's version.
fn holds_results(path: &Path) -> bool {
    let mut beginning = [0; 64];
    let Ok(count) = File::open(path).and_then(|mut file| file.read(&mut beginning)) else {
        return false;
    };
    let beginning = String::from_utf8_lossy(&beginning[..count]);
    beginning.contains("\"reheap_bench\"") || beginning.contains("\"reheap_attack\"")
}

impl Outputs {
    /// How many formats go to standard output.
    pub fn to_standard_output(&self) -> usize {
        let destinations = self.forms.iter();
        destinations
            .filter(|(_, destination)| *destination == Destination::StandardOutput)
            .count()
    }
}
