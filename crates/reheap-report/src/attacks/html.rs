//! The matrix as a page that needs nothing else: no script, no font, no address that is fetched.

use crate::attacks::matrix::{Matrix, Share};
use crate::attacks::results::{Outcome, Results};
use crate::attacks::words::{self, SUMS};
use crate::escape::data_url;
use askama::Template;

/// The page.
pub fn html(results: &Results) -> String {
    let matrix = Matrix::of(results);
    let tallies = matrix.tallies();
    let page = Page {
        style: include_str!("../../templates/attacks.css"),
        how: words::how(results),
        machine: words::machine(results),
        warning: words::warning(results),
        legend: words::LEGEND
            .iter()
            .map(|(outcome, meaning)| (class(*outcome), words::outcome(*outcome), *meaning))
            .collect(),
        variants: results
            .variants
            .iter()
            .zip(&tallies)
            .map(|(variant, tally)| Column {
                name: breakable(&variant.name),
                version: variant
                    .allocator
                    .as_ref()
                    .map_or("", |allocator| &allocator.version),
                malloc_in: &variant.malloc_in,
                stopped: tally.stopped,
                succeeded: tally.succeeded,
                bars: bars(tally),
            })
            .collect(),
        rows: rows(&matrix),
        sums: SUMS
            .iter()
            .map(|(name, say)| (*name, tallies.iter().map(say).collect()))
            .collect(),
        left_out: results
            .left_out
            .iter()
            .map(|left_out| (left_out.name.as_str(), left_out.reason.as_str()))
            .collect(),
        raw: data_url("application/json", &compact(results)),
    };
    let mut text = page
        .render()
        .expect("a string takes all that is written to it");
    text.push('\n');
    text
}

fn compact(results: &Results) -> String {
    serde_json::to_string(results).expect("results have only string keys")
}

#[derive(Template)]
#[template(path = "attacks.html")]
struct Page<'a> {
    style: &'a str,
    how: String,
    machine: String,
    warning: Option<&'static str>,
    legend: Vec<(&'static str, &'static str, &'static str)>,
    variants: Vec<Column<'a>>,
    rows: Vec<Row<'a>>,
    sums: Vec<(&'static str, Vec<String>)>,
    left_out: Vec<(&'a str, &'a str)>,
    raw: String,
}

struct Column<'a> {
    /// In pieces between which a line may end.
    name: Vec<String>,
    version: &'a str,
    malloc_in: &'a str,
    stopped: usize,
    succeeded: usize,
    /// Class and share of a hundred for each outcome.
    bars: Vec<(&'static str, f64)>,
}

struct Row<'a> {
    name: &'a str,
    cwe: u16,
    error: &'a str,
    gain: &'a str,
    cells: Vec<CellView>,
}

struct CellView {
    class: &'static str,
    word: &'static str,
    /// `14/21`; empty where all runs agree.
    share: String,
    /// Where it succeeded in some runs, but mostly not.
    successes: String,
    /// Outcome, runs, message.
    endings: Vec<(&'static str, String, String)>,
}

fn rows<'a>(matrix: &Matrix<'a>) -> Vec<Row<'a>> {
    let attacks = matrix.results.attacks.iter().enumerate();
    let row = |(index, attack): (usize, &'a crate::attacks::Attack)| Row {
        name: &attack.name,
        cwe: attack.cwe,
        error: &attack.error,
        gain: &attack.gain,
        cells: matrix
            .columns
            .iter()
            .map(|column| CellView::of(&column[index]))
            .collect(),
    };
    attacks.map(row).collect()
}

impl CellView {
    fn of(share: &Share<'_>) -> CellView {
        let of = share.of;
        CellView {
            class: class(share.outcome),
            word: words::outcome(share.outcome),
            share: if share.is_unanimous() {
                String::new()
            } else {
                format!("{}/{of}", share.runs)
            },
            successes: match share.outcome {
                Outcome::Succeeded => String::new(),
                _ if share.successes == 0 => String::new(),
                _ => format!("succeeded {}/{of}", share.successes),
            },
            endings: share
                .endings
                .iter()
                .map(|ending| {
                    let word = words::outcome(ending.outcome);
                    (word, format!("{}/{of}", ending.runs), ending.said.clone())
                })
                .collect(),
        }
    }
}

fn class(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Stopped => "stopped",
        Outcome::NoEffect => "without-effect",
        Outcome::Crashed => "crashed",
        Outcome::Succeeded => "succeeded",
    }
}

fn bars(tally: &crate::attacks::Tally) -> Vec<(&'static str, f64)> {
    let part = |count: usize| count as f64 * 100.0 / tally.of.max(1) as f64;
    vec![
        (class(Outcome::Stopped), part(tally.stopped)),
        (class(Outcome::NoEffect), part(tally.without_effect)),
        (class(Outcome::Crashed), part(tally.crashed)),
        (class(Outcome::Succeeded), part(tally.succeeded)),
    ]
}

/// A name's pieces: each ends behind a sign that a line may end at.
fn breakable(name: &str) -> Vec<String> {
    name.split_inclusive(['+', '-', ',', '[', '='])
        .map(str::to_owned)
        .collect()
}
