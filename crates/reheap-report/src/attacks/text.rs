//! The matrix in a terminal.

use crate::attacks::matrix::{Matrix, Share};
use crate::attacks::results::{Outcome, Results};
use crate::attacks::words::{self, SUMS};
use crate::escape::visible;
use crate::text::{Cell, Column, Group, Paint, RowName, Style, Table, wrapped};

/// Wider than that, an eye loses the line.
const WIDTH_MAX: usize = 160;

/// The matrix, what its words mean, and how it came about.
pub fn text(results: &Results, style: Style) -> String {
    let matrix = Matrix::of(results);
    let width = style.width.clamp(40, WIDTH_MAX);
    let mut lines = table(&matrix).lines(width, style.colour);
    lines.push(String::new());
    for (outcome, meaning) in words::LEGEND {
        let text = format!("{}: {meaning}", words::outcome(outcome));
        lines.extend(paragraph(&text, width));
    }
    lines.push(String::new());
    for left_out in &results.left_out {
        let text = format!("left out: {}: {}", left_out.name, left_out.reason);
        lines.extend(paragraph(&text, width));
    }
    if let Some(warning) = words::warning(results) {
        lines.extend(paragraph(&format!("warning: {warning}"), width));
    }
    lines.extend(paragraph(&words::how(results), width));
    if style.verbose {
        lines.push(String::new());
        lines.extend(endings(&matrix, width));
    }
    lines.push(String::new());
    lines.join("\n")
}

fn table(matrix: &Matrix<'_>) -> Table {
    let attacks = matrix
        .results
        .attacks
        .iter()
        .map(|attack| format!("{} ({})", attack.name, words::cwe(attack.cwe)));
    let rows = attacks.chain(SUMS.map(|(name, _)| name.to_owned()));
    let row = |name| RowName {
        name,
        notes: Vec::new(),
    };
    let tallies = matrix.tallies();
    let variants = matrix.results.variants.iter();
    let columns = variants.zip(&matrix.columns).zip(&tallies);
    let groups = columns.map(|((variant, shares), tally)| {
        let of_attacks = shares.iter().map(painted);
        let sums = SUMS.map(|(_, say)| Cell::plain(say(tally)));
        let column = Column {
            heading: variant.name.clone(),
            cells: of_attacks.chain(sums).collect(),
        };
        Group {
            columns: vec![column],
        }
    });
    Table {
        heading: "attack".to_owned(),
        groups: groups.collect(),
        rows: rows.map(row).collect(),
    }
}

fn painted(share: &Share<'_>) -> Cell {
    let paint = match share.outcome {
        Outcome::Stopped => Paint::Better,
        Outcome::Succeeded => Paint::Worse,
        Outcome::NoEffect => Paint::Faint,
        Outcome::Crashed => Paint::Plain,
    };
    Cell::painted(words::cell(share), paint)
}

/// What was seen in each cell, for those who ask.
fn endings(matrix: &Matrix<'_>, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for (variant, shares) in matrix.results.variants.iter().zip(&matrix.columns) {
        lines.extend(paragraph(
            &format!("{}: malloc is in {}", variant.name, variant.malloc_in),
            width,
        ));
        for (attack, share) in matrix.results.attacks.iter().zip(shares) {
            for ending in &share.endings {
                let (word, name) = (words::outcome(ending.outcome), &attack.name);
                let text = format!(
                    "  {name}: {word} {}/{}: {}",
                    ending.runs, share.of, ending.said
                );
                lines.extend(paragraph(&text, width));
            }
        }
    }
    lines
}

/// Lines of a text in which others' names and messages may be.
fn paragraph(text: &str, width: usize) -> Vec<String> {
    wrapped(&visible(text), width)
}
