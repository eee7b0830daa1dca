//! `reheap check-memory`: a command under the strictest allocators.

use reheap_command::exit;
use reheap_command::ui::{self, Failure};
use reheap_hardening::memory_check::{self, Plan};
use reheap_workshop::workshop::{Network, Workshop};
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

pub(crate) const EXAMPLES: &str = "\
Exit codes: 0 nothing was noticed; 1 it could not be done; 3 an allocator noticed an error,
a process died by a signal, or the command ended otherwise than by itself.

Examples:
  reheap check-memory -- ./parser --selftest
  reheap check-memory -a mimalloc-secure --runs 10 -- ./parser damaged.bin
  reheap check-memory -a 'stock[debug=full]' -a 'mimalloc-secure[guard_pages=1]' -- ./parser
  reheap check-memory --time-limit 20 -- ./server";

#[derive(Debug, clap::Args)]
pub(crate) struct CheckMemoryArguments {
    /// Try this allocator; may be repeated [default: all hardened ones, and glibc's own checks]
    #[arg(short, long = "allocator", value_name = "NAME")]
    allocators: Vec<String>,
    /// Run the command this often with each allocator
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
    /// End a run after this time, as of a server, and count what was found until then [default: an
    /// error after 10 minutes as the command is; then, 20 times as long as it takes, and at least a minute]
    #[arg(long, value_name = "SECONDS", value_parser = super::profile::seconds)]
    time_limit: Option<f64>,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
    /// The command to check; what it prints is not shown
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) fn run(arguments: &CheckMemoryArguments) -> anyhow::Result<ExitCode> {
    let plan = Plan {
        allocators: &arguments.allocators,
        runs: arguments.runs.into(),
        time_limit: arguments.time_limit.map(Duration::from_secs_f64),
        command: &arguments.command,
    };
    let report = memory_check::check(&plan, &Workshop::new(Network::AsConfigured))?;
    ui::data(&if arguments.json {
        format!("{}\n", serde_json::to_string_pretty(&report)?)
    } else {
        report.text()
    })?;
    if report.has_findings() {
        return Ok(ExitCode::from(exit::THRESHOLD_VIOLATED));
    }
    let not_checked: Vec<&str> = report.not_checked().collect();
    if not_checked.is_empty() {
        Ok(ExitCode::SUCCESS)
    } else {
        let names = not_checked.join(", ");
        Err(Failure::failed(format!("not tried: {names}")).into())
    }
}
