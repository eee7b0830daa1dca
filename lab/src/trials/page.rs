//! The results as a page to read.

use super::dynamic_rows;
use super::records::{DynamicTrial, Records, Verdict};
use super::static_rows;
use crate::machine::Machine;
use anyhow::Result;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Both tables, each in the order of its rows. A program that has not been tried yet is not in it.
pub(super) fn page(machine: &Machine, records: &Records, allocators: &[&str]) -> Result<String> {
    let mut text = format!(
        "# Real programs under every allocator\n\n{machine}.\nMade by `cargo lab trials`, last on {}; the same as data, \
         with the digests of what was compared, in trials.json.\n",
        records.day,
    );
    dynamic_table(&mut text, records, allocators)?;
    static_table(&mut text, records, allocators)?;
    explanations(&mut text, records)?;
    Ok(text)
}

fn dynamic_table(text: &mut String, records: &Records, allocators: &[&str]) -> Result<()> {
    let verdicts = || {
        let under = records.dynamic.values().flat_map(|trial| &trial.under);
        under.map(|(_, under)| &under.verdict)
    };
    writeln!(
        text,
        "\n## Dynamic programs\n\n{}.\n\nEach script of `lab/trials` runs twice as it is and must print the same both \
         times. Then it runs under `reheap run` with each\nallocator: **same** means the same exit code, the same \
         standard output and, where the plain runs agree on it, the same\nstandard error. A second run with the dynamic \
         linker's log (`LD_DEBUG=bindings`) proves that the program calls the\nallocator's malloc.\n",
        summary(records.dynamic.len(), verdicts()),
    )?;
    head(text, allocators)?;
    for row in dynamic_rows::ROWS {
        let Some(trial) = records.dynamic.get(row.name) else {
            continue;
        };
        let package = row.packages[0];
        let version = trial.packages.get(package).map_or("", String::as_str);
        write!(
            text,
            "| {} | {package} {version} | {} |",
            row.name, row.does
        )?;
        for allocator in allocators {
            let under = trial.under.get(*allocator);
            write!(
                text,
                " {} |",
                under.map_or(String::new(), |u| escaped(&u.verdict.cell()))
            )?;
        }
        text.push('\n');
    }
    Ok(())
}

fn static_table(text: &mut String, records: &Records, allocators: &[&str]) -> Result<()> {
    let verdicts = || {
        let with = records.built.values().flat_map(|trial| &trial.with);
        with.map(|(_, with)| &with.verdict)
    };
    writeln!(
        text,
        "\n## Static programs\n\n{}.\n\nEach is built with musl's own allocator, without reheap, and then by `cargo reheap \
         test` or `reheap cc` with each\nallocator, and runs its own test suite. **same** means that the same tests \
         pass and the same fail, and that\n`reheap inspect` proves the allocator in every executable that was \
         tested.\n",
        summary(records.built.len(), verdicts()),
    )?;
    head(text, allocators)?;
    for row in static_rows::ROWS {
        let Some(trial) = records.built.get(row.name) else {
            continue;
        };
        let failed = match trial.stock.failed.len() {
            0 => String::new(),
            failed => format!(", {failed} fail with musl's allocator too"),
        };
        let version = &trial.version;
        let tests = trial.stock.passed + trial.stock.failed.len();
        write!(
            text,
            "| {} | {} {version} | {tests} tests{failed} |",
            row.name,
            row.language()
        )?;
        for allocator in allocators {
            let with = trial.with.get(*allocator);
            write!(
                text,
                " {} |",
                with.map_or(String::new(), |w| escaped(&w.verdict.cell()))
            )?;
        }
        text.push('\n');
    }
    Ok(())
}

fn head(text: &mut String, allocators: &[&str]) -> Result<()> {
    writeln!(
        text,
        "| program | version | what it does | {} |",
        allocators.join(" | ")
    )?;
    writeln!(
        text,
        "| --- | --- | --- |{}",
        " --- |".repeat(allocators.len())
    )?;
    Ok(())
}

/// Why programs were refused, and what the log of the dynamic linker says beyond the table.
fn explanations(text: &mut String, records: &Records) -> Result<()> {
    let refused = records.dynamic.iter().flat_map(|(name, trial)| {
        let under = trial.under.values();
        let reasons: BTreeSet<&String> = under
            .filter_map(|under| match &under.verdict {
                Verdict::Refused(reason) => Some(reason),
                _ => None,
            })
            .collect();
        reasons.into_iter().map(move |reason| (name, reason))
    });
    let refused: Vec<String> = refused
        .map(|(name, reason)| format!("- {name}: {reason}\n"))
        .collect();
    if !refused.is_empty() {
        write!(text, "\n## Refused\n\n{}", refused.concat())?;
    }
    let bound: Vec<String> = records
        .dynamic
        .iter()
        .filter_map(|(name, trial)| {
            let elsewhere = elsewhere(trial);
            (!elsewhere.is_empty()).then(|| format!("- {name}: {}\n", elsewhere.join(", ")))
        })
        .collect();
    if !bound.is_empty() {
        write!(
            text,
            "\n## Bound elsewhere\n\nFunctions of the malloc family that something in the program got from another library \
             than the allocator's:\n\n{}",
            bound.concat()
        )?;
    }
    Ok(())
}

fn elsewhere(trial: &DynamicTrial) -> Vec<String> {
    let evidence = trial
        .under
        .values()
        .filter_map(|under| under.evidence.as_ref());
    let all: BTreeSet<&String> = evidence.flat_map(|evidence| &evidence.elsewhere).collect();
    all.into_iter().cloned().collect()
}

/// How many programs, and how many of their runs were what.
fn summary<'a>(programs: usize, verdicts: impl Iterator<Item = &'a Verdict>) -> String {
    let (mut same, mut refused, mut wrong) = (0, 0, 0);
    for verdict in verdicts {
        match verdict {
            Verdict::Same => same += 1,
            Verdict::Refused(_) => refused += 1,
            _ => wrong += 1,
        }
    }
    format!("{programs} programs: {same} runs the same, {refused} refused, {wrong} not the same")
}

/// A cell may hold no bar and no line feed.
fn escaped(cell: &str) -> String {
    cell.replace('|', "\\|").replace('\n', " ")
}
