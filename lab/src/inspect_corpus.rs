//! How often `reheap inspect` is right: its verdicts on real files against the truth about them.
//!
//! A file that cannot be fetched is left out and named, because packages are withdrawn; a wrong verdict is a row of the
//! table like any other, because hiding it would make the figure worthless.

mod fetched;
mod rows;

use crate::machine::{Machine, today};
use crate::measurement;
use anyhow::{Context, Result};
use rows::{HELD_OUT, ROWS, Row};
use serde::Deserialize;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use xtask::progress::Progress;
use xtask::workspace::Workspace;

/// The fastest of these counts, as everything else on the machine only ever adds.
const TIMES: usize = 3;

/// What is read of the JSON.
#[derive(Deserialize)]
struct Identity {
    kind: String,
    malloc: Malloc,
    allocators: Vec<Allocator>,
}

#[derive(Deserialize)]
struct Malloc {
    provider: Provider,
    confidence: Option<String>,
}

#[derive(Deserialize)]
struct Provider {
    by: String,
    name: Option<String>,
}

#[derive(Deserialize)]
struct Allocator {
    name: String,
    version: Option<String>,
    variant: Option<String>,
    is_stock: bool,
    confidence: String,
}

/// A verdict beside the truth.
struct Judged<'a> {
    row: &'a Row,
    bytes: u64,
    kind: String,
    malloc: String,
    confidence: String,
    brings: Vec<String>,
    details: Vec<String>,
    time: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Judgement {
    Right,
    Unknown,
    Wrong,
}

impl Judged<'_> {
    fn of_malloc(&self) -> Judgement {
        match self.malloc.as_str() {
            found if found == self.row.malloc => Judgement::Right,
            "unknown" => Judgement::Unknown,
            _ => Judgement::Wrong,
        }
    }

    /// An allocator that was not found is unknown; one that is not there is wrong.
    fn of_brings(&self) -> Judgement {
        let mut found = self.brings.iter();
        if self.brings == self.row.brings {
            Judgement::Right
        } else if found.all(|name| self.row.brings.contains(&name.as_str())) {
            Judgement::Unknown
        } else {
            Judgement::Wrong
        }
    }
}

impl Judgement {
    fn word(self) -> &'static str {
        match self {
            Self::Right => "right",
            Self::Unknown => "unknown",
            Self::Wrong => "wrong",
        }
    }
}

/// Fetches and builds the corpus, inspects it, and writes the tables.
pub(crate) fn run(workspace: &Workspace, directory: &Path) -> Result<()> {
    let machine = Machine::describe()?;
    let progress = Progress::start();
    workspace.build_reheap(&progress)?;
    let corpus = workspace.target.join("inspect-corpus");
    let mut judged = Vec::new();
    let mut left_out = Vec::new();
    for row in ROWS.iter().chain(HELD_OUT) {
        match row.file(&corpus) {
            Ok(file) => judged.push(judge(workspace, row, &file)?),
            Err(error) => left_out.push(format!("{}: {error:#}", row.origin())),
        }
    }
    let directory = workspace.root.join(directory);
    let files = [
        ("inspect-corpus.md", markdown(&machine, &judged, &left_out)?),
        ("inspect-corpus.csv", csv(&judged)?),
    ];
    measurement::write(&progress, &directory, &files)
}

fn judge<'a>(workspace: &Workspace, row: &'a Row, file: &Path) -> Result<Judged<'a>> {
    let mut fastest = Duration::MAX;
    let mut output = Vec::new();
    for _ in 0..TIMES {
        let started = Instant::now();
        output = workspace
            .reheap()
            .args(["inspect", "--json"])
            .arg(file)
            .output()
            .context("cannot start reheap")?
            .stdout;
        fastest = fastest.min(started.elapsed());
    }
    let [identity] = serde_json::from_slice::<[Identity; 1]>(&output)
        .with_context(|| format!("cannot understand what was said of {}", row.origin()))?;
    let mut brings: Vec<String> = Vec::new();
    let mut details = Vec::new();
    for found in &identity.allocators {
        if found.is_stock || found.confidence == "possible" {
            continue;
        }
        brings.push(found.name.clone());
        let words = [found.version.as_deref(), found.variant.as_deref()];
        details.extend(words.into_iter().flatten().map(str::to_owned));
    }
    brings.sort();
    let provider = identity.malloc.provider;
    Ok(Judged {
        row,
        bytes: fs::metadata(file).context("cannot look at the file")?.len(),
        kind: identity.kind,
        malloc: provider.name.unwrap_or(provider.by),
        confidence: identity.malloc.confidence.unwrap_or_default(),
        brings,
        details,
        time: fastest,
    })
}

fn markdown(machine: &Machine, judged: &[Judged<'_>], left_out: &[String]) -> Result<String> {
    let count = |of: fn(&Judged<'_>) -> Judgement, which: Judgement| {
        judged.iter().filter(|judged| of(judged) == which).count()
    };
    let is_held_out = |judged: &&Judged<'_>| {
        let mut held_out = HELD_OUT.iter();
        held_out.any(|row| std::ptr::eq(row, judged.row))
    };
    let held_out: Vec<&Judged<'_>> = judged.iter().filter(is_held_out).collect();
    let is_right = |judged: &&&Judged<'_>| {
        judged.of_malloc() == Judgement::Right && judged.of_brings() == Judgement::Right
    };
    let held_out_right = held_out.iter().filter(is_right).count();
    let numbers = |of: fn(&Judged<'_>) -> Judgement| {
        let [right, unknown, wrong] = [Judgement::Right, Judgement::Unknown, Judgement::Wrong]
            .map(|judgement| count(of, judgement));
        format!("{right} right, {unknown} unknown, {wrong} wrong")
    };
    let mut text = format!(
        "# reheap inspect on real files\n\n{machine}.\nMade by `cargo lab inspect-corpus` on {}; the same as \
         data in inspect-corpus.csv. n = {} files.\n\n- who provides malloc: {}\n- allocators in the file: {}\n",
        today(),
        judged.len(),
        numbers(|judged| judged.of_malloc()),
        numbers(|judged| judged.of_brings()),
    );
    writeln!(
        text,
        "- held out: {held_out_right} of {} right in both; the others were at hand while the signatures were written",
        held_out.len(),
    )?;
    if let Some(slowest) = judged.iter().max_by_key(|judged| judged.time) {
        writeln!(
            text,
            "- time: at most {:.2} s, for {:.0} MB (fastest of {TIMES}, reading the file included)",
            slowest.time.as_secs_f64(),
            slowest.bytes as f64 / 1e6,
        )?;
    }
    text.push_str("\nThe truth is stated by hand in `lab/src/inspect_corpus/rows.rs`, with how we know.\n\n## Not right\n\n");
    for judged in judged {
        let row = judged.row;
        if judged.of_malloc() != Judgement::Right {
            writeln!(
                text,
                "- {} `{}`: malloc is {}, the verdict {}",
                row.origin(),
                row.file,
                row.malloc,
                judged.malloc
            )?;
        }
        if judged.of_brings() != Judgement::Right {
            let (truth, found) = (listed(row.brings), listed(&judged.brings));
            writeln!(
                text,
                "- {} `{}`: brings {truth}, found {found}",
                row.origin(),
                row.file
            )?;
        }
    }
    for left_out in left_out {
        writeln!(text, "- left out: {left_out}")?;
    }
    text.push_str("\n## All\n\n| file | kind | malloc | confidence | brings | detail | MB | ms |\n| --- | --- | --- | --- | --- | --- | --: | --: |\n");
    for judged in judged {
        writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {:.1} | {} |",
            judged.row.origin(),
            judged.kind,
            judged.malloc,
            judged.confidence,
            listed(&judged.brings),
            judged.details.join(" "),
            judged.bytes as f64 / 1e6,
            judged.time.as_millis(),
        )?;
    }
    Ok(text)
}

fn listed(names: &[impl AsRef<str>]) -> String {
    match names {
        [] => "none".to_owned(),
        names => {
            let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
            names.join(" and ")
        }
    }
}

/// Everything that was seen, for other tools.
fn csv(judged: &[Judged<'_>]) -> Result<String> {
    let mut table = csv::Writer::from_writer(Vec::new());
    table.write_record([
        "origin",
        "file",
        "bytes",
        "kind",
        "malloc_truth",
        "malloc_verdict",
        "confidence",
        "malloc",
        "brings_truth",
        "brings_found",
        "brings",
        "detail",
        "milliseconds",
        "truth_from",
    ])?;
    for judged in judged {
        let row = judged.row;
        table.write_record([
            &row.origin(),
            row.file,
            &judged.bytes.to_string(),
            &judged.kind,
            row.malloc,
            &judged.malloc,
            &judged.confidence,
            judged.of_malloc().word(),
            &row.brings.join(" "),
            &judged.brings.join(" "),
            judged.of_brings().word(),
            &judged.details.join(" "),
            &format!("{:.1}", judged.time.as_secs_f64() * 1e3),
            row.because,
        ])?;
    }
    String::from_utf8(table.into_inner()?).context("the table is not UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_corpus_has_at_least_sixty_files_and_no_file_twice() {
        assert!(ROWS.len() >= 60, "{}", ROWS.len());
        let mut names: Vec<String> = ROWS
            .iter()
            .chain(HELD_OUT)
            .map(|row| format!("{} {}", row.origin(), row.file))
            .collect();
        names.sort();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
