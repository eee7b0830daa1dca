//! `reheap generate`: prints the man page and completions, from the same definitions as the flags.

use super::{CargoReheap, Reheap};
use clap::CommandFactory as _;
use clap_complete::Shell;
use reheap_command::ui;
use std::io::Write as _;
use std::process::ExitCode;

pub(crate) const EXAMPLES: &str = "Examples:
  reheap generate man > reheap.1
  reheap generate bash > /etc/bash_completion.d/reheap
  reheap generate man --of cargo-reheap > cargo-reheap.1";

#[derive(Debug, clap::Args)]
pub(crate) struct GenerateArguments {
    /// What to print
    what: What,
    /// The program that it is for
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

/// Prints what the user asked for.
pub(crate) fn run(arguments: &GenerateArguments) -> anyhow::Result<ExitCode> {
    let (mut command, name) = match arguments.of {
        Program::Reheap => (Reheap::command(), "reheap"),
        Program::CargoReheap => (CargoReheap::command(), "cargo-reheap"),
    };
    let mut out = Vec::new();
    let shell = match arguments.what {
        What::Man => {
            let mut pages = Vec::new();
            man_pages(&command, &mut pages)?;
            out = in_ascii(&String::from_utf8_lossy(&pages)).into_bytes();
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

/// Without preconv(1), troff reads bytes as Latin-1; groff_char(7) has a name for every character.
fn in_ascii(page: &str) -> String {
    let mut text = String::with_capacity(page.len());
    for character in page.chars() {
        if character.is_ascii() {
            text.push(character);
        } else {
            text.push_str(&format!("\\[u{:04X}]", u32::from(character)));
        }
    }
    text
}

/// One page: the program, then a section for each subcommand with all its flags.
///
/// clap_mangen writes a page for each subcommand and refers to them; here they are sections, so titles go one level
/// down.
fn man_pages(command: &clap::Command, out: &mut Vec<u8>) -> anyhow::Result<()> {
    let mut command = command.clone();
    command.build();
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    for line in String::from_utf8_lossy(&page).lines() {
        match line.strip_suffix("(1)").and_then(|l| l.rsplit_once("\\-")) {
            Some((_, subcommand)) => writeln!(out, "\\fB{subcommand}\\fR")?,
            None if line == ".SH EXTRA" => writeln!(out, ".SH EXAMPLES")?,
            None => writeln!(out, "{line}")?,
        }
    }
    for subcommand in command.get_subcommands().filter(|c| c.get_name() != "help") {
        let mut sections = Vec::new();
        let man = clap_mangen::Man::new(subcommand.clone());
        man.render_synopsis_section(&mut sections)?;
        man.render_description_section(&mut sections)?;
        man.render_options_section(&mut sections)?;
        man.render_extra_section(&mut sections)?;
        writeln!(
            out,
            ".SH \"{}\"",
            subcommand.get_bin_name().unwrap_or_default().to_uppercase()
        )?;
        for line in String::from_utf8_lossy(&sections).lines() {
            match line.strip_prefix(".SH ") {
                Some("EXTRA") => {}
                Some(title) => writeln!(out, ".SS {title}")?,
                None if line.starts_with(".ie ") || line.starts_with(".el ") => {}
                None => writeln!(out, "{line}")?,
            }
        }
    }
    Ok(())
}
