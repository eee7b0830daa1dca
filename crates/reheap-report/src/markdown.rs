//! Tables for a pull request.
//!
//! What is claimed stands in the table; single runs and the machine are folded away, so that a comment stays short.
//! Names may hold anything: in a table a `|` or a line break would end the cell, and markup would be obeyed.

use crate::escape::{shell, visible};
use crate::view::{Shown, View, Weight, matrix_row, views};
use crate::{names, numbers, words};
use reheap_bench::analysis::{Comparison, Verdict};
use reheap_bench::figures;
use reheap_bench::overview::{Entry, Matrix, Overview};
use reheap_bench::results::Results;

/// The tables of all benchmarks as GitHub-flavoured Markdown.
pub fn markdown(overview: &Overview<'_>) -> String {
    let views = views(overview);
    let mut page = String::new();
    let mut line = |text: &str| {
        page.push_str(text);
        page.push('\n');
    };
    line(&format!(
        "**{}**",
        plain(&words::headline(&overview.benchmarks))
    ));
    line("");
    for matrix in &overview.matrices {
        line(&format!(
            "#### All benchmarks: {}",
            plain(figures::noun(&matrix.quantity))
        ));
        line("");
        line(&overview_table(matrix, &views));
    }
    for view in &views {
        line(benchmark(view).trim_end());
        line("");
    }
    line(words::LEGEND);
    line("");
    for results in overview.files {
        line(how(results, &views).trim_end());
        line("");
    }
    page.truncate(page.trim_end().len());
    page.push('\n');
    page
}

fn benchmark(view: &View<'_>) -> String {
    let findings = view.findings;
    let mut text = format!("#### {}\n\n", plain(&view.title));
    if findings.rounds() == 0 {
        text.push_str(&words::nothing_measured(findings));
        text.push_str("\n\n");
        return text;
    }
    text.push_str(&table(view));
    text.push('\n');
    for warning in words::warnings(findings) {
        let said: Vec<String> = warning.said.iter().map(|said| plain(said)).collect();
        text.push_str(&format!(
            "> **Warning:** {}. {}\n\n",
            said.join("; "),
            plain(&warning.advice)
        ));
    }
    for left_out in &findings.benchmark.left_out {
        text.push_str(&format!(
            "Left out: {}: {}\n\n",
            plain(&left_out.name),
            plain(&left_out.reason)
        ));
    }
    text.push_str(&format!(
        "{}.\n\n",
        plain(&words::rounds_and_noise(findings))
    ));
    text.push_str(&raw(view));
    text
}

fn table(view: &View<'_>) -> String {
    let mut heading = vec!["variant".to_owned()];
    for quantity in view.columns.iter().map(|analysis| &analysis.quantity) {
        heading.push(plain(figures::noun(quantity)));
        if view.weight(quantity) != Weight::Explains {
            heading.push("ratio".to_owned());
        }
    }
    let mut rows = Vec::new();
    for shown in &view.shown {
        let mut cells = vec![variant(shown)];
        for analysis in &view.columns {
            let (row, quantity) = (&analysis.rows[shown.index], &analysis.quantity);
            if view.weight(quantity) == Weight::Explains {
                cells.push(numbers::median_text(row, quantity));
            } else {
                cells.push(numbers::median_with_spread(row, quantity));
                cells.push(ratio(row.comparison.as_ref()));
            }
        }
        rows.push(cells);
    }
    rows_of(&heading, &rows)
}

/// The name, and below it how often it failed.
fn variant(shown: &Shown<'_>) -> String {
    let name = plain(&shown.variant.name);
    match shown.failures.count() {
        0 => name,
        _ => format!("{name}<br>⚠ {}", plain(&shown.failures.to_string())),
    }
}

/// Bold where a difference is claimed.
fn ratio(comparison: Option<&Comparison>) -> String {
    let Some(comparison) = comparison else {
        return String::new();
    };
    let Some(estimate) = comparison.ratio else {
        return numbers::NONE.to_owned();
    };
    let said = match comparison.verdict {
        Verdict::Better | Verdict::Worse => format!("**{}**", numbers::ratio(estimate.value)),
        _ => format!("\\~{}", numbers::ratio(estimate.value)),
    };
    match numbers::interval(&estimate) {
        Some(interval) => format!("{said} {}", plain(&interval)),
        None => said,
    }
}

fn overview_table(matrix: &Matrix, views: &[View<'_>]) -> String {
    let mut heading = vec!["ratio to the baseline".to_owned()];
    heading.extend(matrix.variants.iter().map(|name| plain(name)));
    let rows: Vec<Vec<String>> = matrix
        .rows
        .iter()
        .map(|row| {
            let mut cells = vec![plain(matrix_row(row, views))];
            cells.extend(row.cells.iter().map(|entry| match entry {
                Entry::Missing => numbers::NONE.to_owned(),
                Entry::Failed => "⚠ failed".to_owned(),
                Entry::Mean(mean) => numbers::ratio(*mean),
                Entry::Compared(comparison) => match (comparison.verdict, comparison.ratio) {
                    (verdict, Some(estimate)) if verdict.is_claimed() => {
                        format!("**{}**", numbers::ratio(estimate.value))
                    }
                    (_, Some(estimate)) => format!("\\~{}", numbers::ratio(estimate.value)),
                    (_, None) => numbers::NONE.to_owned(),
                },
            }));
            cells
        })
        .collect();
    rows_of(&heading, &rows)
}

fn rows_of(heading: &[String], rows: &[Vec<String>]) -> String {
    let mut text = format!(
        "| {} |\n| :-- |{}\n",
        heading.join(" | "),
        " --: |".repeat(heading.len() - 1)
    );
    for row in rows {
        text.push_str(&format!("| {} |\n", row.join(" | ")));
    }
    text
}

/// The wall time of every run.
fn raw(view: &View<'_>) -> String {
    let rows: Vec<Vec<String>> = view
        .findings
        .benchmark
        .variants
        .iter()
        .map(|variant| {
            let walls = variant
                .runs
                .iter()
                .map(|run| figures::seconds(run.cost.wall_seconds));
            vec![plain(&variant.name), walls.collect::<Vec<_>>().join(", ")]
        })
        .collect();
    let table = rows_of(
        &["variant".to_owned(), "wall time of each run".to_owned()],
        &rows,
    );
    format!("<details><summary>All runs</summary>\n\n{table}\n</details>\n\n")
}

/// The machine, the settings, and what to type.
fn how(results: &Results, views: &[View<'_>]) -> String {
    let mut text = format!(
        "<details><summary>{}</summary>\n\n",
        plain(&names::machine(&results.machine))
    );
    for (name, value) in words::machine(&results.machine)
        .into_iter()
        .chain(words::settings(results))
    {
        text.push_str(&format!("- {name}: {}\n", plain(&value)));
    }
    for view in views
        .iter()
        .filter(|view| std::ptr::eq(view.findings.results, results))
        .take(1)
    {
        for shown in &view.shown {
            if let Some(allocator) = words::allocator(shown) {
                text.push_str(&format!(
                    "- {}: {}\n",
                    plain(&shown.variant.name),
                    plain(&allocator)
                ));
            }
        }
    }
    let typed = visible(&shell(&results.typed));
    let fence = "`".repeat(longest_run(&typed, '`').max(2) + 1);
    text.push_str(&format!(
        "\nTo measure again:\n\n{fence}sh\n{typed}\n{fence}\n\n</details>\n\n"
    ));
    text
}

fn longest_run(text: &str, wanted: char) -> usize {
    let mut longest = 0;
    let mut current = 0;
    for character in text.chars() {
        current = if character == wanted { current + 1 } else { 0 };
        longest = longest.max(current);
    }
    longest
}

/// The text with nothing in it that Markdown or HTML would obey.
fn plain(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in visible(text).chars() {
        match character {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '#' => {
                escaped.push('\\');
                escaped.push(character);
            }
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_neither_markup_nor_cells() {
        assert_eq!(plain("a|b`*<i>\n"), "a\\|b\\`\\*&lt;i&gt;␊");
    }

    #[test]
    fn a_fence_is_longer_than_any_in_the_command() {
        assert_eq!(longest_run("a```b`", '`'), 3);
    }
}
