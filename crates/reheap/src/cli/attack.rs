//! `reheap attack`: which memory errors each allocator stops.

use reheap_command::interrupt;
use reheap_command::ui;
use reheap_hardening::attacking::attacks;
use reheap_hardening::attacking::reports;
use reheap_hardening::attacking::running::{self, Plan, Unusable};
use reheap_hardening::attacking::targets;
use reheap_report::attacks::Attack;
use reheap_variants::bench::outputs::{Form, Outputs, destinations};
use reheap_variants::bench::variants;
use reheap_workshop::workshop::{Network, Workshop};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

pub(crate) const EXAMPLES: &str = "Examples:
  reheap attack
  reheap attack --variant glibc,musl,musl+mimalloc,glibc+mimalloc-secure --html attacks.html
  reheap attack --attack double-free,overflow-8 --variant glibc --verbose
  reheap attack --variant glibc --variant mine='env LD_PRELOAD=./libmine.so'
  reheap attack --list";

#[derive(Debug, clap::Args)]
pub(crate) struct AttackArguments {
    /// The variants to attack: glibc, musl (static), glibc+jemalloc (preloaded), musl+mimalloc[purge_delay=0]
    /// (static), or NAME=COMMAND, which starts the attacked program [default: each libc with each allocator]
    #[arg(long, value_name = "VARIANT,…")]
    variant: Vec<String>,
    /// Run only these attacks [default: all]
    #[arg(long, value_name = "ATTACK,…", value_delimiter = ',')]
    attack: Vec<String>,
    /// Run each attack this often under each variant
    #[arg(long, value_name = "N", default_value_t = 21, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: u32,
    /// List the attacks, and run none
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    output: OutputArguments,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Output; without a file, or with -, to standard output")]
struct OutputArguments {
    /// How each run ended, to be read by `reheap report`
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
    /// A page with the matrix, in one file
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    html: Option<PathBuf>,
    /// The matrix as a table
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    markdown: Option<PathBuf>,
    /// Also show the allocators' messages
    #[arg(long)]
    verbose: bool,
}

/// Attacks and reports.
pub(crate) fn run(arguments: &AttackArguments) -> anyhow::Result<ExitCode> {
    let attacks = attacks::chosen(&arguments.attack)?;
    if arguments.list {
        ui::data(&list(&attacks))?;
        return Ok(ExitCode::SUCCESS);
    }
    let typed = variants::parse(&arguments.variant)?;
    let output = &arguments.output;
    let forms = [
        (Form::Json, &output.json),
        (Form::Html, &output.html),
        (Form::Markdown, &output.markdown),
    ];
    let outputs = Outputs {
        forms: destinations(forms.into_iter())?,
        verbose: output.verbose,
    };
    let interrupted = interrupt::on_signals()?;
    let workshop = Workshop::new(Network::AsConfigured);
    let (targets, left_out) = targets::prepare(&typed, &workshop)?;
    let plan = Plan {
        attacks,
        targets,
        left_out,
        runs: arguments.runs,
        unusable: if typed.is_empty() {
            Unusable::LeftOut
        } else {
            Unusable::Refused
        },
    };
    let results = running::run(&plan, &interrupted)?;
    reports::write(&results, &outputs)?;
    Ok(ExitCode::SUCCESS)
}

/// A line for each attack: its name, its number in the Common Weakness Enumeration, what happens.
fn list(attacks: &[Attack]) -> String {
    let mut text = String::new();
    for Attack {
        name,
        cwe,
        error,
        gain,
    } in attacks
    {
        let cwe = format!("CWE-{cwe}");
        let _ = writeln!(text, "{name:<20} {cwe:<8} {error}; wanted: {gain}"); // writing to a String cannot fail
    }
    text
}
