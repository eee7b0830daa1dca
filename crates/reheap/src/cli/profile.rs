//! `reheap profile`: how a command allocates.

use crate::output;
use crate::profiling::{self, Plan};
use crate::ui;
use crate::workshop::{Network, Workshop};
use reheap_profile::profile::{Ending, Profile};
use reheap_report::profile::{self as report, By};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

pub(crate) const EXAMPLES: &str = "Examples:
  reheap profile -- ./server --port 8080
  reheap profile -o profile.json -- python3 train.py";

#[derive(Debug, clap::Args)]
pub(crate) struct ProfileArguments {
    /// Write the profile to this file, as JSON
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write it for pprof: call sites with allocated and live memory
    #[arg(long, value_name = "FILE")]
    pprof: Option<PathBuf>,
    /// Write it as folded stacks, with bytes, for flame graphs
    #[arg(long, value_name = "FILE")]
    folded: Option<PathBuf>,
    /// Write it for the Firefox Profiler
    #[arg(long, value_name = "FILE")]
    firefox: Option<PathBuf>,
    /// Write it as valgrind's DHAT does, for its viewer
    #[arg(long, value_name = "FILE")]
    dhat: Option<PathBuf>,
    /// Sample a stack each time so many bytes were allocated, on average; 0 for none
    #[arg(long, value_name = "BYTES", default_value_t = 512 << 10)]
    every: u64,
    /// Show all processes, threads and sizes
    #[arg(short, long)]
    verbose: bool,
    /// The command to profile
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required = true,
        value_name = "COMMAND"
    )]
    command: Vec<OsString>,
}

/// Makes a file of a profile.
type Form = fn(&Profile) -> Vec<u8>;

impl ProfileArguments {
    fn write(&self, profile: &Profile) -> anyhow::Result<()> {
        let forms: [(_, Form); 5] = [
            (&self.output, |profile| report::to_json(profile).into()),
            (&self.pprof, report::pprof),
            (&self.folded, |profile| {
                report::folded(profile, By::Bytes).into()
            }),
            (&self.firefox, |profile| report::firefox(profile).into()),
            (&self.dhat, |profile| report::dhat(profile).into()),
        ];
        for (path, form) in forms {
            if let Some(path) = path {
                output::write(path, form(profile))?;
            }
        }
        Ok(())
    }
}

/// Runs the command, and says how it allocated.
pub(crate) fn run(arguments: &ProfileArguments) -> anyhow::Result<ExitCode> {
    let workshop = Workshop::new(Network::AsConfigured);
    let plan = Plan {
        command: &arguments.command,
        every: arguments.every,
    };
    let profile = profiling::profile(&plan, &workshop)?;
    arguments.write(&profile)?;
    let file = arguments
        .output
        .as_ref()
        .map(|path| path.display().to_string());
    let style = output::style(std::io::stderr(), arguments.verbose);
    ui::beside(&report::text(&profile, file.as_deref(), style));
    Ok(exit_code(&profile))
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
