//! The results as a page to read.

use super::dynamic_rows;
use super::records::{DynamicTrial, Records, Verdict};
use super::static_rows;
use crate::grafts::{self, Expected};
use crate::machine::Machine;
use anyhow::Result;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// A table of each kind, in the order of its rows. A program that has not been tried yet is not in it.
pub(super) fn page(
    machine: &Machine,
    records: &Records,
    allocators: &[&str],
    grafted: &[&str],
) -> Result<String> {
    let mut text = format!(
        "# Real programs under every allocator\n\n{machine}.\nMade by `cargo lab trials`, last on {}; the same as data, \
         with the digests of what was compared, in trials.json.\n",
        records.day,
    );
    if !records.dynamic.is_empty() {
        dynamic_table(&mut text, records, allocators)?;
    }
    if !records.built.is_empty() {
        static_table(&mut text, records, allocators)?;
    }
    if !records.graft.is_empty() {
        graft_table(&mut text, records, grafted)?;
        refused_grafts(&mut text, records)?;
    }
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

fn graft_table(text: &mut String, records: &Records, allocators: &[&str]) -> Result<()> {
    let grafted = records.graft.values().flat_map(|trial| trial.with.values());
    let verdicts = grafted.map(|grafted| &grafted.verdict);
    writeln!(
        text,
        "\n## Grafted programs\n\n{}.\n\nEach is an executable as its project released it (those of the registries are pinned by SHA-256), \
         with its own malloc from musl or glibc. It runs\ntwice as it is and must do the same both times, and then as \
         `reheap graft` wrote it. **same** means the same exit codes,\nstandard output and, where the plain runs agree on \
         it, standard error; that `reheap inspect` finds the allocator in the new file;\nand that `--undo` gives the \
         released file, byte for byte. The work is in `lab/src/grafts/rows.rs`.\n",
        summary(records.graft.len(), verdicts),
    )?;
    writeln!(
        text,
        "| program | released as | MB | what it does | found by | functions | KiB more | {} |",
        allocators.join(" | ")
    )?;
    writeln!(
        text,
        "| --- | --- | --: | --- | --- | --: | --: |{}",
        " --- |".repeat(allocators.len())
    )?;
    for row in grafts::ROWS {
        let (Some(trial), Expected::Works { does, .. }) =
            (records.graft.get(row.name), &row.expected)
        else {
            continue;
        };
        let megabytes = trial.bytes as f64 / 1e6;
        let done = trial
            .with
            .values()
            .find_map(|grafted| grafted.done.as_ref());
        let (found_by, functions, more) = done.map_or_else(Default::default, |done| {
            let more = done.more_bytes.div_ceil(1024);
            (
                done.found_by.as_str(),
                done.functions.len().to_string(),
                more.to_string(),
            )
        });
        write!(
            text,
            "| {} | {} | {megabytes:.1} | {does} | {found_by} | {functions} | {more} |",
            row.name, trial.origin
        )?;
        for allocator in allocators {
            let cell = trial.with.get(*allocator);
            let cell = cell.map_or(String::new(), |with| match &with.verdict {
                Verdict::Refused(_) => "**refused**".to_owned(),
                verdict => escaped(&verdict.cell()),
            });
            write!(text, " {cell} |")?;
        }
        text.push('\n');
    }
    Ok(())
}

/// What reheap will not change, with its reason, and whether the row of the program says so too.
fn refused_grafts(text: &mut String, records: &Records) -> Result<()> {
    text.push_str(
        "\n## Refused to graft\n\n| program | released as | MB | reason | expected |\n| --- | --- | --: | --- | --- |\n",
    );
    for row in grafts::ROWS {
        let Some(trial) = records.graft.get(row.name) else {
            continue;
        };
        let mut verdicts = trial.with.values().map(|grafted| &grafted.verdict);
        let Some(reason) = verdicts.find_map(|verdict| match verdict {
            Verdict::Refused(reason) => Some(reason),
            _ => None,
        }) else {
            continue;
        };
        let is_expected =
            matches!(row.expected, Expected::Refused(because) if reason.contains(because));
        writeln!(
            text,
            "| {} | {} | {:.1} | {} | {} |",
            row.name,
            trial.origin,
            trial.bytes as f64 / 1e6,
            escaped(reason),
            if is_expected { "yes" } else { "**no**" }
        )?;
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
