//! `reheap profile`: how a command allocates.

use crate::profiling::{self, Plan, Profiled, Subject};
use anyhow::Context as _;
use clap::builder::{PathBufValueParser, TypedValueParser};
use reheap_command::exit;
use reheap_command::output;
use reheap_command::ui::{self, Failure};
use reheap_profile::profile::{Ending, Profile};
use reheap_report::profile::{self as report, By, Threshold};
use reheap_workshop::workshop::{Network, Workshop};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

pub(crate) const EXAMPLES: &str = "Examples:
  reheap profile -- ./server --port 8080
  reheap profile --html profile.html -- python3 train.py
  reheap profile --pid 4711 --seconds 30
  reheap profile --fail-if 'peak>100MiB' -- ./import data.csv
  reheap profile -o new.json --against old.json --fail-if 'calls>+5%' -- ./import data.csv
  reheap profile diff old.json new.json";

const DIFF_EXAMPLES: &str = "Example:
  reheap profile diff old.json new.json";

/// How long a running process is watched.
const SECONDS: f64 = 10.0;

const STANDARD_OUTPUT: &str = "/dev/stdout";

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ProfileArguments {
    #[command(subcommand)]
    subcommand: Option<Subcommand>,
    /// Write the profile to this file, as JSON; without a file, or with -, to standard output
    #[arg(short, long, visible_alias = "json", value_name = "FILE", value_parser = destination(), num_args = 0..=1, default_missing_value = "-")]
    output: Option<PathBuf>,
    /// Write a page for a browser
    #[arg(long, value_name = "FILE", value_parser = destination())]
    html: Option<PathBuf>,
    /// Write call sites with allocated and live memory, for pprof
    #[arg(long, value_name = "FILE", value_parser = destination())]
    pprof: Option<PathBuf>,
    /// Write folded stacks with bytes, for flame graphs
    #[arg(long, value_name = "FILE", value_parser = destination())]
    folded: Option<PathBuf>,
    /// Write a profile for the Firefox Profiler
    #[arg(long, value_name = "FILE", value_parser = destination())]
    firefox: Option<PathBuf>,
    /// Write a file for the viewer of valgrind's DHAT
    #[arg(long, value_name = "FILE", value_parser = destination())]
    dhat: Option<PathBuf>,
    /// Record every call in this file, for `reheap replay`, `bench` and `recommend`
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Watch this running process instead of a command
    #[arg(long, value_name = "PID", conflicts_with = "command")]
    pid: Option<u32>,
    /// Watch for this long, with --pid
    #[arg(long, value_name = "SECONDS", requires = "pid", default_value_t = SECONDS, value_parser = seconds)]
    seconds: f64,
    /// Sample one stack per so many bytes allocated, on average; 0 samples none
    #[arg(long, value_name = "BYTES", default_value_t = 512 << 10)]
    every: u64,
    /// Exit with code 3 if this is so: 'peak>100MiB' or, with --against, 'calls>+5%'
    #[arg(long, value_name = "CONDITION")]
    fail_if: Vec<Threshold>,
    /// Compare with this earlier profile, for conditions on a change
    #[arg(long, value_name = "FILE", requires = "fail_if")]
    against: Option<PathBuf>,
    /// Show all processes, threads and sizes
    #[arg(short, long)]
    verbose: bool,
    /// The command to profile
    #[arg(
        trailing_var_arg = true,
        required_unless_present = "pid",
        value_name = "COMMAND"
    )]
    command: Vec<OsString>,
}

#[derive(Debug, clap::Subcommand)]
enum Subcommand {
    /// Compare two profiles
    #[command(after_help = DIFF_EXAMPLES)]
    Diff(DiffArguments),
}

#[derive(Debug, clap::Args)]
struct DiffArguments {
    /// The earlier profile, as -o wrote it
    old: PathBuf,
    /// The later one
    new: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Show all figures and call sites
    #[arg(short, long)]
    verbose: bool,
}

/// A file to write; `-` is standard output.
fn destination() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().map(|path| match path.to_str() {
        Some("-") => STANDARD_OUTPUT.into(),
        _ => path,
    })
}

/// Makes a file of a profile.
type Form<'a> = dyn Fn(&Profile) -> Vec<u8> + 'a;

impl ProfileArguments {
    /// Writes all files, and says which could not be written: a long run's result must not be lost with one of them.
    fn write(&self, profile: &Profile) -> Vec<anyhow::Error> {
        let page = |profile: &Profile| report::html(profile, self.file().as_deref()).into();
        let forms: [(_, &Form<'_>); 6] = [
            (&self.output, &|profile| report::to_json(profile).into()),
            (&self.html, &page),
            (&self.pprof, &report::pprof),
            (&self.folded, &|profile| {
                report::folded(profile, By::Bytes).into()
            }),
            (&self.firefox, &|profile| report::firefox(profile).into()),
            (&self.dhat, &|profile| report::dhat(profile).into()),
        ];
        let written = forms.iter().filter_map(|(path, form)| {
            let path = path.as_ref()?;
            output::write(path, form(profile)).err()
        });
        written.collect()
    }

    fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let named = [
            &self.output,
            &self.html,
            &self.pprof,
            &self.folded,
            &self.firefox,
            &self.dhat,
            &self.trace,
        ];
        named.into_iter().flatten()
    }

    /// Each file gets one thing, can be written, and will have something in it.
    fn check_files(&self) -> anyhow::Result<()> {
        let mut seen = BTreeSet::new();
        if let Some(twice) = self.files().find(|path| !seen.insert(*path)) {
            let text = format!("`{}` is to be written twice", twice.display());
            return Err(Failure::usage(text).into());
        }
        let of_sites = [("--pprof", &self.pprof), ("--folded", &self.folded)];
        let empty = of_sites.into_iter().find(|(_, path)| path.is_some());
        if let (0, Some((flag, _))) = (self.every, empty) {
            let text = format!("{flag} writes sampled stacks, and --every 0 samples none");
            let failure =
                Failure::usage(text).hint("leave --every away, or give a distance in bytes");
            return Err(failure.into());
        }
        self.files().try_for_each(|path| output::check(path))
    }

    /// The profile's file, as the user would name it again.
    fn file(&self) -> Option<String> {
        let path = self.output.as_ref()?;
        (path != Path::new(STANDARD_OUTPUT)).then(|| path.display().to_string())
    }

    /// What is violated, or cannot be checked.
    fn violations(&self, profile: &Profile, old: Option<&Profile>) -> Vec<String> {
        let violation = |threshold: &Threshold| match report::violation(threshold, old, profile) {
            Ok(violation) => violation,
            Err(unchecked) => Some(format!("{threshold}: {unchecked}")),
        };
        self.fail_if.iter().filter_map(violation).collect()
    }
}

/// Runs the command, or watches the process, and says how it allocated.
pub(crate) fn run(arguments: &ProfileArguments) -> anyhow::Result<ExitCode> {
    if let Some(Subcommand::Diff(arguments)) = &arguments.subcommand {
        return diff(arguments);
    }
    if arguments.against.is_none()
        && let Some(change) = arguments.fail_if.iter().find(|bound| bound.is_change())
    {
        let text = format!("`{change}` is a change: there must be something to compare with");
        let failure = Failure::usage(text).hint("give an earlier profile: --against <file>");
        return Err(failure.into());
    }
    arguments.check_files()?;
    let old = arguments.against.as_deref().map(read).transpose()?;
    let workshop = Workshop::new(Network::AsConfigured);
    let Profiled { profile, trace } = profiling::profile(&plan(arguments), &workshop)?;
    let style = output::style(std::io::stderr(), arguments.verbose);
    ui::beside(&report::text(&profile, arguments.file().as_deref(), style));
    let mut failures = arguments.write(&profile);
    failures.extend(trace.err());
    let violations = arguments.violations(&profile, old.as_ref());
    for violation in &violations {
        ui::note(&format!("violated: {violation}"));
    }
    let report = |_, error| Some(ui::report(error));
    let failed = failures.iter().fold(None, report);
    Ok(failed.unwrap_or_else(|| {
        if violations.is_empty() {
            exit_code(&profile)
        } else {
            ExitCode::from(exit::THRESHOLD_VIOLATED)
        }
    }))
}

fn plan(arguments: &ProfileArguments) -> Plan<'_> {
    Plan {
        subject: match arguments.pid {
            Some(pid) => Subject::Process {
                pid,
                time: Duration::from_secs_f64(arguments.seconds),
            },
            None => Subject::Command(&arguments.command),
        },
        every: arguments.every,
        trace: arguments.trace.as_deref(),
    }
}

/// A time on the command line; a day is the most.
pub(super) fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if seconds > 0.0 && seconds <= 86_400.0 => Ok(seconds),
        Ok(_) => Err("it must be more than 0 and at most 86400".to_owned()),
        Err(_) => Err("it is not a number".to_owned()),
    }
}

fn diff(arguments: &DiffArguments) -> anyhow::Result<ExitCode> {
    let (old, new) = (read(&arguments.old)?, read(&arguments.new)?);
    ui::data(&if arguments.json {
        report::diff_json(&old, &new)
    } else {
        let style = output::style(std::io::stdout(), arguments.verbose);
        report::diff_text(&old, &new, style)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// A profile that `-o` wrote.
pub(super) fn read(path: &Path) -> anyhow::Result<Profile> {
    let cannot = || format!("cannot read the profile `{}`", path.display());
    let text = fs::read_to_string(path).with_context(cannot)?;
    report::from_json(&text).with_context(cannot)
}

/// The command's own, as a shell has it.
fn exit_code(profile: &Profile) -> ExitCode {
    let code = match profile.ending {
        Ending::Exited(code) => code,
        Ending::Killed(signal) => 128 + signal,
        Ending::Detached => 0,
    };
    // An exit code has eight bits, and signals end at 64.
    ExitCode::from(code as u8)
}
