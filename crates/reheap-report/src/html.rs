//! One HTML file that needs nothing else: no script, no font, no address that is fetched.
//!
//! Colours and layout are in `templates/report.css`, the order of things in `templates/report.html`; here each part is
//! made ready for them. Charts that would say nothing are left out: no time against memory with one variant, no drift
//! over two rounds.

mod charts;
mod results_table;

use crate::escape::{self, data_url, shell, shell_word};
use crate::names;
use crate::numbers;
use crate::view::{Shown, View, views};
use crate::words::{self, capitalised};
use askama::Template;
use charts::{Chart, Key, charts, scaling, scaling_legend};
use reheap_bench::figures;
use reheap_bench::findings::Findings;
use reheap_bench::overview::{self, Entry, Overview};
use reheap_bench::results::{Activity, Results};
use reheap_bench::verdict;
use results_table::{ResultsTable, breakable, ratio};

/// Results that are longer than this as JSON are not put into the page once more.
const RAW_BYTES_MAX: usize = 192 * 1024;
/// With more benchmarks than this, each is folded away below the overview.
const OPEN_MAX: usize = 2;

/// The report as a page.
pub fn html(overview: &Overview<'_>) -> String {
    let views = views(overview);
    let benchmarks = &overview.benchmarks;
    let page = Page {
        style: include_str!("../templates/report.css"),
        subject: words::subject(benchmarks),
        verdict: verdict::verdict(overview).replace(" %", "\u{a0}%"),
        facts: facts(overview),
        legend: words::LEGEND,
        matrices: overview
            .matrices
            .iter()
            .map(|matrix| Matrix::of(matrix, &views))
            .collect(),
        scaling_legend: scaling_legend(overview, &views),
        scaling: scaling(overview, &views),
        benchmarks: views
            .iter()
            .enumerate()
            .map(|(index, view)| Part::of(view, index))
            .collect(),
        is_folded: views.len() > OPEN_MAX,
        files: overview.files.iter().map(File::of).collect(),
    };
    let mut text = page
        .render()
        .expect("a string takes all that is written to it");
    text.push('\n');
    text
}

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    style: &'a str,
    subject: String,
    verdict: String,
    facts: Vec<(String, &'static str)>,
    legend: &'a str,
    matrices: Vec<Matrix>,
    scaling_legend: Vec<Key>,
    scaling: Vec<Chart>,
    benchmarks: Vec<Part>,
    is_folded: bool,
    files: Vec<File>,
}

/// A number that matters, and what it counts.
fn facts(overview: &Overview<'_>) -> Vec<(String, &'static str)> {
    let (all, benchmarks) = (overview.files, &overview.benchmarks);
    let runs: usize = benchmarks
        .iter()
        .flat_map(|findings| &findings.benchmark.variants)
        .map(|variant| variant.runs.len())
        .sum();
    let mut facts = Vec::new();
    if let [findings] = benchmarks.as_slice() {
        facts.push((findings.ranked.len().to_string(), "variants"));
        facts.push((findings.rounds().to_string(), "rounds"));
    } else {
        facts.push((benchmarks.len().to_string(), "benchmarks"));
    }
    facts.push((runs.to_string(), "runs"));
    match (all, names::machines(all).len()) {
        ([results, ..], 1) => {
            facts.push((results.machine.name.clone(), ""));
            facts.push((
                format!(
                    "{} × {}",
                    results.machine.processors, results.machine.processor
                ),
                "",
            ));
        }
        ([], _) => {}
        (_, several) => facts.push((several.to_string(), "machines")),
    }
    facts
}

/// A benchmark.
struct Part {
    id: String,
    title: String,
    /// What is said of it where it is folded away.
    summary: Vec<String>,
    rounds: String,
    warnings: Vec<Warned>,
    left_out: Vec<(String, String)>,
    nothing: Option<String>,
    table: ResultsTable,
    charts: Vec<Chart>,
    ran: Vec<Ran>,
}

/// A warning, escaped.
struct Warned {
    said: Vec<String>,
    advice: String,
}

impl Warned {
    fn of(warned: words::Warned) -> Warned {
        Warned {
            said: warned.said.iter().map(|said| with_code(said)).collect(),
            advice: with_code(&warned.advice),
        }
    }
}

/// The text, escaped; what stands between backticks is code.
pub(crate) fn with_code(text: &str) -> String {
    let parts: Vec<String> = text.split('`').map(escape::html).collect();
    if parts.len().is_multiple_of(2) {
        return parts.join("`");
    }
    let marked = parts
        .iter()
        .enumerate()
        .map(|(index, part)| match index % 2 {
            0 => part.clone(),
            _ => format!("<code>{part}</code>"),
        });
    marked.collect()
}

/// What was run as one variant.
struct Ran {
    name: String,
    swatch: String,
    typed: String,
    pairs: Vec<(&'static str, String)>,
}

/// The result of one of several benchmarks, and what one would overlook without opening it.
fn summary(findings: &Findings<'_>) -> Vec<String> {
    let mut lines = vec![verdict::of_one(findings)];
    if !findings.warnings.is_empty() {
        lines.push(figures::count(findings.warnings.len(), "warning"));
    }
    lines
}

impl Part {
    fn of(view: &View<'_>, index: usize) -> Part {
        let findings = view.findings;
        let nothing = (findings.rounds() == 0).then(|| words::nothing_measured(findings));
        Part {
            id: format!("benchmark-{}", index + 1),
            title: view.title.clone(),
            summary: summary(findings),
            rounds: words::rounds(findings),
            warnings: words::warnings(findings)
                .into_iter()
                .map(Warned::of)
                .collect(),
            left_out: findings
                .benchmark
                .left_out
                .iter()
                .map(|left| (left.name.clone(), left.reason.clone()))
                .collect(),
            table: ResultsTable::of(view),
            charts: if nothing.is_some() {
                Vec::new()
            } else {
                charts(view)
            },
            nothing,
            ran: view.shown.iter().map(Ran::of).collect(),
        }
    }
}

impl Ran {
    fn of(shown: &Shown<'_>) -> Ran {
        let variant = shown.variant;
        let mut typed: Vec<String> = variant
            .environment
            .iter()
            .map(|(name, value)| format!("{}={}", name, shell_word(value)))
            .collect();
        typed.push(shell(&variant.command));
        let mut pairs = Vec::new();
        pairs.extend(words::allocator(shown).map(|allocator| ("allocator", allocator)));
        if !variant.tuning.is_empty() {
            let tuning: Vec<String> = variant
                .tuning
                .iter()
                .map(|(key, value)| format!("{key}={value}"))
                .collect();
            pairs.push(("tuning", tuning.join(", ")));
        }
        if let Activity::Seen(evidence) = &variant.activity {
            pairs.push(("seen active", evidence.clone()));
        }
        if let Some(bytes) = variant.executable_bytes {
            pairs.push(("executable", figures::bytes(bytes as f64)));
        }
        Ran {
            name: variant.name.clone(),
            swatch: shown.tone.swatch(),
            typed: typed.join(" "),
            pairs,
        }
    }
}

/// All benchmarks in one table.
struct Matrix {
    title: String,
    benchmarks: Vec<String>,
    has_mean: bool,
    rows: Vec<MatrixRow>,
}

struct MatrixRow {
    /// Escaped, with places where it may be broken.
    name: String,
    mean: String,
    /// A text, and the class that says what may be claimed.
    cells: Vec<(String, &'static str)>,
}

impl Matrix {
    fn of(matrix: &overview::Matrix, views: &[View<'_>]) -> Matrix {
        let cell = |entry: &Entry| match entry {
            Entry::Missing => (numbers::NONE.to_owned(), ""),
            Entry::Failed => ("failed".to_owned(), "worse"),
            Entry::Compared(comparison) => ratio(Some(comparison)),
        };
        let row = |row: &overview::MatrixRow| MatrixRow {
            name: breakable(&row.variant),
            mean: row
                .mean
                .map_or_else(|| numbers::NONE.to_owned(), numbers::ratio),
            cells: row.cells.iter().map(cell).collect(),
        };
        let benchmarks = matrix.benchmarks.iter();
        Matrix {
            title: capitalised(figures::noun(&matrix.quantity)),
            benchmarks: benchmarks
                .map(|&place| views[place].title.clone())
                .collect(),
            has_mean: matrix.has_means(),
            rows: matrix.rows.iter().map(row).collect(),
        }
    }
}

/// Where and how one file was measured.
struct File {
    machine: Vec<(&'static str, String)>,
    settings: Vec<(&'static str, String)>,
    typed: String,
    /// The name and the address of the file itself, where it is short.
    raw: Option<(String, String)>,
}

impl File {
    fn of(results: &Results) -> File {
        let json = serde_json::to_string(results).expect("all keys are strings");
        File {
            machine: words::machine(&results.machine),
            settings: words::settings(results),
            typed: shell(&results.typed),
            raw: (json.len() <= RAW_BYTES_MAX).then(|| {
                (
                    format!("{}.json", file_name(results)),
                    data_url("application/json", &json),
                )
            }),
        }
    }
}

/// The machine's name as far as any file system takes it.
fn file_name(results: &Results) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || "-_.".contains(c) {
            c
        } else {
            '-'
        }
    };
    let name: String = results.machine.name.chars().map(plain).take(60).collect();
    format!("reheap-{name}")
}
