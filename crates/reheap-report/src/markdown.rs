//! Tables for a pull request.
//!
//! What is claimed stands in the table; single runs and the machine are folded away, so that a comment stays short.
//! Names may hold anything: in a table a `|` or a line break would end the cell, and markup would be obeyed.

use crate::escape::{shell, visible};
use crate::view::{Shown, View, Weight, views};
use crate::{names, numbers, words};
use reheap_bench::analysis::Comparison;
use reheap_bench::figures;
use reheap_bench::findings::Findings;
use reheap_bench::overview::{Entry, Matrix, Overview};
use reheap_bench::results::Results;
use reheap_bench::verdict;

/// The tables of all benchmarks as GitHub-flavoured Markdown.
pub fn markdown(overview: &Overview<'_>) -> String {
    let views = views(overview);
    let mut page = String::new();
    let mut line = |text: &str| {
        page.push_str(text);
        page.push('\n');
    };
    let is_one = overview.benchmarks.len() == 1;
    if !is_one {
        line(&bold(&verdict::verdict(overview)));
        line("");
    }
    for matrix in &overview.matrices {
        line(&overview_table(matrix, &views));
    }
    for view in &views {
        line(benchmark(view).trim_end());
        line("");
    }
    line(&plain(words::LEGEND));
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
    text.push_str(&format!("{}\n\n", bold(&verdict::of_one(findings))));
    text.push_str(&table(view));
    text.push('\n');
    let warnings = warnings(findings);
    text.extend(
        warnings
            .first()
            .map(|worst| format!("> **Warning:** {worst}\n\n")),
    );
    for left_out in &findings.benchmark.left_out {
        text.push_str(&format!(
            "Left out: {}: {}\n\n",
            plain(&left_out.name),
            plain(&left_out.reason)
        ));
    }
    text.push_str(&format!("{}.\n\n", plain(&words::rounds(findings))));
    text.push_str(&folded(view, warnings.get(1..).unwrap_or_default()));
    text
}

/// Each with what helps, the gravest first.
fn warnings(findings: &Findings<'_>) -> Vec<String> {
    let warnings = words::warnings(findings).into_iter();
    warnings
        .map(|warned| plain(&format!("{}. {}", warned.said.join("; "), warned.advice)))
        .collect()
}

fn table(view: &View<'_>) -> String {
    let mut heading = vec!["variant".to_owned()];
    let columns = view.columns(Weight::Matters);
    for analysis in &columns {
        heading.push(plain(figures::noun(&analysis.quantity)));
        if view.said_of(analysis) <= Weight::Matters {
            heading.push("ratio".to_owned());
        }
    }
    let mut rows = Vec::new();
    for shown in &view.shown {
        let mut cells = vec![variant(shown)];
        for analysis in &columns {
            let row = &analysis.rows[shown.index];
            cells.push(numbers::median_with_spread(row, &analysis.quantity));
            if view.said_of(analysis) <= Weight::Matters {
                cells.push(ratio(row.comparison.as_ref()));
            }
        }
        rows.push(cells);
    }
    rows_of(&heading, &rows)
}

/// The name, and below it how often it failed, and why it left.
fn variant(shown: &Shown<'_>) -> String {
    let mut lines = vec![plain(&shown.variant.name)];
    if shown.failures.count() > 0 {
        lines.push(format!("⚠ {}", plain(&shown.failures.to_string())));
    }
    lines.extend(shown.variant.left.map(|left| left.to_string()));
    lines.join("<br>")
}

/// A ratio and its interval.
fn ratio(comparison: Option<&Comparison>) -> String {
    let Some(comparison) = comparison else {
        return String::new();
    };
    let interval = comparison.ratio.as_ref().and_then(numbers::interval);
    match interval {
        Some(interval) => format!("{} {}", judged(comparison), plain(&interval)),
        None => judged(comparison),
    }
}

/// A ratio with what may be said of it: bold where a difference is claimed.
fn judged(comparison: &Comparison) -> String {
    let text = plain(&numbers::judged(comparison));
    if comparison.verdict.is_claimed() && comparison.ratio.is_some() {
        format!("**{text}**")
    } else {
        text
    }
}

fn overview_table(matrix: &Matrix, views: &[View<'_>]) -> String {
    let mut heading = vec![format!("{}, ratio", plain(figures::noun(&matrix.quantity)))];
    let has_mean = matrix.has_means();
    heading.extend(has_mean.then(|| "geometric mean".to_owned()));
    heading.extend(
        matrix
            .benchmarks
            .iter()
            .map(|&place| plain(&views[place].title)),
    );
    let rows = matrix.rows.iter().map(|row| {
        let mean = row
            .mean
            .map_or_else(|| numbers::NONE.to_owned(), numbers::ratio);
        let mut cells = vec![plain(&row.variant)];
        cells.extend(has_mean.then_some(mean));
        cells.extend(row.cells.iter().map(|entry| match entry {
            Entry::Missing => numbers::NONE.to_owned(),
            Entry::Failed => "⚠ failed".to_owned(),
            Entry::Compared(comparison) => judged(comparison),
        }));
        cells
    });
    rows_of(&heading, &rows.collect::<Vec<_>>())
}

fn bold(text: &str) -> String {
    format!("**{}**", plain(text))
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

/// The wall time of every run, and what else there is to be careful about.
fn folded(view: &View<'_>, warnings: &[String]) -> String {
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
    let (mut summary, mut list) = ("All runs".to_owned(), String::new());
    if !warnings.is_empty() {
        summary.push_str(&format!(
            ", and {}",
            figures::count(warnings.len(), "more warning")
        ));
        list.extend(warnings.iter().map(|warning| format!("- {warning}\n")));
        list.push('\n');
    }
    format!("<details><summary>{summary}</summary>\n\n{list}{table}\n</details>\n\n")
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
