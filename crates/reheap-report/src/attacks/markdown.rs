//! The matrix for documents and pull requests.

use crate::attacks::matrix::Matrix;
use crate::attacks::results::{Outcome, Results};
use crate::attacks::words::{self, SUMS};
use crate::escape::visible;
use std::fmt::Write as _;

/// A table of variants and attacks. Attacks are rows, because there are more of them.
pub fn markdown(results: &Results) -> String {
    let matrix = Matrix::of(results);
    let mut text = String::new();
    let mut line = |cells: Vec<String>| {
        let _ = writeln!(text, "| {} |", cells.join(" | ")); // writing to a String cannot fail
    };
    let names = results.variants.iter().map(|variant| code(&variant.name));
    line(headed("attack", names));
    line(headed("---", results.variants.iter().map(|_| "---".into())));
    for (index, attack) in results.attacks.iter().enumerate() {
        let name = format!("{} ({})", escaped(&attack.name), words::cwe(attack.cwe));
        let cells = matrix.columns.iter().map(|column| {
            let said = words::cell(&column[index]);
            match column[index].outcome {
                Outcome::Succeeded => format!("**{said}**"),
                _ => said,
            }
        });
        line(headed(&name, cells));
    }
    let tallies = matrix.tallies();
    for (name, say) in SUMS {
        line(headed(&format!("*{name}*"), tallies.iter().map(say)));
    }
    for (outcome, meaning) in words::LEGEND {
        let _ = write!(text, "\n- **{}**: {meaning}", words::outcome(outcome));
    }
    text.push('\n');
    for left_out in &results.left_out {
        let (name, reason) = (code(&left_out.name), escaped(&left_out.reason));
        let _ = write!(text, "\nLeft out: {name}: {reason}\n");
    }
    if let Some(warning) = words::warning(results) {
        let _ = write!(text, "\n**{warning}**\n");
    }
    let (how, machine) = (words::how(results), escaped(&words::machine(results)));
    let _ = write!(text, "\n{how}. {machine}.\n");
    text
}

fn headed(first: &str, rest: impl Iterator<Item = String>) -> Vec<String> {
    std::iter::once(first.to_owned()).chain(rest).collect()
}

fn code(name: &str) -> String {
    format!("`{}`", visible(name).replace('`', "'").replace('|', "\\|"))
}

fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for character in visible(text).chars() {
        if "\\`*_{}[]<>#|".contains(character) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}
