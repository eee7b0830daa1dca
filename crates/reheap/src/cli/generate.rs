//! `reheap generate`: man page and completions, from the same definitions as the flags.

use super::{CargoReheap, Reheap};
use crate::ui;
use clap::CommandFactory as _;
use clap_complete::Shell;
use std::process::ExitCode;

pub(crate) const EXAMPLES: &str = "Examples:
  reheap generate man > reheap.1
  reheap generate bash > /etc/bash_completion.d/reheap
  reheap generate man --of cargo-reheap > cargo-reheap.1";

#[derive(Debug, clap::Args)]
pub(crate) struct GenerateArguments {
    /// What to print
    what: What,
    /// Which program it is for
    #[arg(long, default_value = "reheap", value_name = "PROGRAM")]
    of: Program,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum What {
    Man,
    Bash,
    Zsh,
    Fish,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Program {
    Reheap,
    CargoReheap,
}

/// Prints what was asked for.
pub(crate) fn run(arguments: &GenerateArguments) -> anyhow::Result<ExitCode> {
    let (mut command, name) = match arguments.of {
        Program::Reheap => (Reheap::command(), "reheap"),
        Program::CargoReheap => (CargoReheap::command(), "cargo-reheap"),
    };
    let mut out = Vec::new();
    let shell = match arguments.what {
        What::Man => {
            man_pages(&command, &mut out)?;
            None
        }
        What::Bash => Some(Shell::Bash),
        What::Zsh => Some(Shell::Zsh),
        What::Fish => Some(Shell::Fish),
    };
    if let Some(shell) = shell {
        clap_complete::generate(shell, &mut command, name, &mut out);
    }
    ui::data(&String::from_utf8_lossy(&out))?;
    Ok(ExitCode::SUCCESS)
}

/// One page: the program, then each subcommand with all its flags.
fn man_pages(command: &clap::Command, out: &mut Vec<u8>) -> anyhow::Result<()> {
    let mut command = command.clone();
    command.build();
    clap_mangen::Man::new(command.clone()).render(out)?;
    for subcommand in command.get_subcommands().filter(|c| c.get_name() != "help") {
        let page = clap_mangen::Man::new(subcommand.clone());
        page.render_synopsis_section(out)?;
        page.render_description_section(out)?;
        page.render_options_section(out)?;
        page.render_extra_section(out)?;
    }
    Ok(())
}
