//! `reheap doctor`: shows what this machine has and what it lacks, for each command.

use clap::builder::PossibleValuesParser;
use reheap_allocators::machine::{Check, Finding, Fix, Item, Machine, Rights, Unusable};
use reheap_command::choice;
use reheap_command::{env_vars, exit, pulse, ui};
use reheap_preload::system::root::Root;
use reheap_preload::system::state::Record;
use reheap_workshop::workshop::{Network, Workshop};
use rustix::fs::Mode;
use serde_json::json;
use std::fmt::Write as _;
use std::process::ExitCode;

pub(crate) const EXAMPLES: &str = "Examples:\n  reheap doctor\n  reheap doctor --fix\n  \
     reheap doctor --fix rust-target c-objects\n  \
     reheap doctor --json | jq '.[] | select(.state == \"lacking\") | .fix'\n\n\
     Exit code 1 means that something is missing; with --fix, that it still is.";

#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArguments {
    /// What to check [default: everything]
    #[arg(value_name = "ITEM", value_parser = PossibleValuesParser::new(Item::ALL.map(Item::name)))]
    items: Vec<String>,
    /// Install what is missing, after saying what; never asks for a password
    #[arg(long)]
    fix: bool,
    /// The target to build programs for [default: the musl target of this machine]
    #[arg(long, value_name = "TRIPLE")]
    target: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Checks, fixes if asked to, and prints what it found.
pub(crate) fn run(arguments: &DoctorArguments) -> anyhow::Result<ExitCode> {
    let workshop = Workshop::new(Network::AsConfigured);
    let machine = Machine {
        target: choice::musl_target(arguments.target.as_deref())?,
        search: workshop.search().clone(),
        cache: workshop.cache()?.root().to_owned(),
        cargo: env_vars::program("CARGO", "cargo"),
        rustc: env_vars::program("RUSTC", "rustc"),
        rights: Rights::of_this_process(),
        prebuilt: prebuilt(&workshop),
    };
    let chosen = |item: &Item| {
        arguments.items.is_empty() || arguments.items.iter().any(|name| name == item.name())
    };
    let items = Item::ALL.into_iter().filter(chosen);
    let checks: Vec<Check> = if arguments.fix {
        mend(&machine, items)
    } else {
        pulse::while_showing("checking this machine", || {
            items.map(|item| machine.check(item)).collect()
        })
    };
    ui::data(&if arguments.json {
        let rows: Vec<_> = checks.iter().map(as_json).collect();
        format!("{:#}\n", serde_json::Value::from(rows))
    } else {
        checks.iter().map(as_text).collect()
    })?;
    if let Some(note) = note_about_system()? {
        ui::note(&note);
    }
    Ok(if checks.iter().all(Check::is_good) {
        ExitCode::SUCCESS
    } else {
        if !arguments.fix && checks.iter().any(|c| matches!(c.fix, Some(Fix::Run(_)))) {
            ui::note("`reheap doctor --fix` runs the commands after `fix:`");
        }
        ExitCode::from(exit::FAILED)
    })
}

/// What there is to say about the allocator that is enabled in this system.
fn note_about_system() -> anyhow::Result<Option<String>> {
    let root = Root::of(None, "reheap doctor")?;
    let record = Record::read(&root)?;
    Ok(record.and_then(|record| record.of_another_reheap()))
}

/// What there is in prebuilt files, all of which are read.
fn prebuilt(workshop: &Workshop) -> Result<String, Unusable> {
    match workshop.check_prebuilt() {
        Ok(Some(prebuilt)) => {
            let (directory, count) = (prebuilt.directory().display(), prebuilt.files().count());
            Ok(format!(
                "{count} in `{directory}`, so that preloads need no compiler"
            ))
        }
        Ok(None) => Ok("none, so reheap builds what it needs".to_owned()),
        Err(error) => Err(Unusable {
            reason: format!("{error:#}"),
            remedy: ui::hint_of(&error).unwrap_or_default().to_owned(),
        }),
    }
}

/// Runs each fix that needs no password, and checks again. One fix may repair several items, so reheap checks each item
/// only after it has finished those before.
fn mend(machine: &Machine, items: impl Iterator<Item = Item>) -> Vec<Check> {
    keep_others_out();
    let mut failed: Vec<Fix> = Vec::new();
    let check_item = |item: Item| {
        pulse::while_showing(&format!("checking: {}", item.title()), || {
            machine.check(item)
        })
    };
    let mut checks = Vec::new();
    for item in items {
        let mut check = check_item(item);
        if let Some(fix @ Fix::Run(_)) = &check.fix
            && !failed.contains(fix)
        {
            match apply(machine, item, fix) {
                Ok(()) => check = check_item(item),
                Err(reason) => {
                    ui::note(&reason);
                    failed.push(fix.clone());
                }
            }
        }
        checks.push(check);
    }
    checks
}

/// Lets nobody else write to what the commands will install, whatever the umask was: reheap executes it.
fn keep_others_out() {
    let writers = Mode::WGRP | Mode::WOTH;
    let umask = rustix::process::umask(writers);
    rustix::process::umask(umask | writers);
}

fn apply(machine: &Machine, item: Item, fix: &Fix) -> Result<(), String> {
    let Fix::Run(commands) = fix else {
        return Ok(());
    };
    ui::note(&format!("{} is missing; running: {fix}", item.title()));
    for line in commands {
        let mut command = line.command(&machine.search);
        // Standard output is only for the result of the checks.
        command.stdout(std::io::stderr());
        match command.status() {
            Ok(status) if status.success() => {}
            Ok(status) => return Err(format!("`{line}` failed: {status}")),
            Err(error) => return Err(format!("cannot start `{line}`: {error}")),
        }
    }
    Ok(())
}

fn as_text(check: &Check) -> String {
    let title = check.item.title();
    let mut text = String::new();
    // Writing to a String cannot fail.
    match &check.finding {
        Finding::Good(found) => {
            let _ = writeln!(text, "ok       {title:<28}  {found}");
        }
        Finding::Lacking(reason) => {
            let _ = writeln!(
                text,
                "missing  {title:<28}  for: {}",
                check.item.needed_by()
            );
            for line in reason.split("; ") {
                let _ = writeln!(text, "         {line}");
            }
            if let Some(fix) = &check.fix {
                let _ = writeln!(text, "         {}: {fix}", label(fix));
            }
        }
    }
    text
}

fn label(fix: &Fix) -> &'static str {
    match fix {
        Fix::Run(_) => "fix",
        Fix::ByHand(_) => "by hand",
    }
}

fn as_json(check: &Check) -> serde_json::Value {
    let (state, text) = match &check.finding {
        Finding::Good(found) => ("good", found),
        Finding::Lacking(reason) => ("lacking", reason),
    };
    let fix = check
        .fix
        .as_ref()
        .map(|fix| json!({"kind": label(fix).replace(' ', "-"), "command": fix.to_string()}));
    json!({
        "item": check.item.name(),
        "title": check.item.title(),
        "state": state,
        "found": text,
        "needed_by": check.item.needed_by(),
        "fix": fix,
    })
}
