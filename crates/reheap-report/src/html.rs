//! One HTML file that needs nothing else: no script, no font, no address that is fetched.
//!
//! Colours and layout are in `templates/report.css`, the order of things in `templates/report.html`; here each part is
//! made ready for them. Charts that would say nothing are left out: no time against memory with one variant, no drift
//! over two rounds.

use crate::chart::{
    self, Dot, Interval, Lines, Mark, Point, Row, Scatter, Series, Steps, Strip, Unit,
};
use crate::escape::{self, data_url, shell, shell_word};
use crate::overview::{self, Entry};
use crate::view::{Shown, View, Weight, views};
use crate::{numbers, words};
use askama::Template;
use reheap_bench::analysis::{self, Analysis, Comparison, Verdict};
use reheap_bench::results::{Activity, Direction, Quantity, Results, Role, Variant};
use reheap_bench::{figures, sweeps};

/// Results that are longer than this as JSON are not put into the page once more.
const RAW_BYTES_MAX: usize = 192 * 1024;
/// With more benchmarks than this, each is folded away below the overview.
const OPEN_MAX: usize = 2;
/// Drift needs this many rounds to be seen.
const ROUNDS_FOR_DRIFT: usize = 4;

/// The report as a page.
pub fn html(all: &[Results]) -> String {
    let views = views(all);
    let matrices = overview::matrices(&views);
    let page = Page {
        style: include_str!("../templates/report.css"),
        subject: words::subject(&views),
        headline: words::headline(&views),
        lead: words::lead(&views, &matrices),
        facts: facts(all, &views),
        legend: words::LEGEND,
        matrices: matrices.into_iter().map(Matrix::of).collect(),
        scaling: scaling(all, &views),
        benchmarks: views
            .iter()
            .enumerate()
            .map(|(index, view)| Part::of(view, index))
            .collect(),
        is_folded: views.len() > OPEN_MAX,
        files: all.iter().map(File::of).collect(),
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
    headline: String,
    lead: Option<String>,
    facts: Vec<(String, &'static str)>,
    legend: &'a str,
    matrices: Vec<Matrix>,
    scaling: Vec<Chart>,
    benchmarks: Vec<Part>,
    is_folded: bool,
    files: Vec<File>,
}

/// A number that matters, and what it counts.
fn facts(all: &[Results], views: &[View<'_>]) -> Vec<(String, &'static str)> {
    let runs: usize = views
        .iter()
        .flat_map(|view| &view.benchmark.variants)
        .map(|variant| variant.runs.len())
        .sum();
    let mut facts = Vec::new();
    if let [view] = views {
        facts.push((view.shown.len().to_string(), "variants"));
        facts.push((view.rounds().to_string(), "rounds"));
    } else {
        facts.push((views.len().to_string(), "benchmarks"));
    }
    facts.push((runs.to_string(), "runs"));
    match all {
        [] => {}
        [results] => {
            facts.push((results.machine.name.clone(), ""));
            facts.push((
                format!(
                    "{} × {}",
                    results.machine.processors, results.machine.processor
                ),
                "",
            ));
        }
        several => facts.push((several.len().to_string(), "machines")),
    }
    facts
}

/// A chart with its caption.
struct Chart {
    title: String,
    caption: String,
    svg: String,
    legend: Vec<Key>,
    class: &'static str,
}

/// What a colour and a shape stand for.
struct Key {
    swatch: String,
    name: String,
}

/// A benchmark.
struct Part {
    id: String,
    title: String,
    /// What is said of it where it is folded away.
    summary: String,
    rounds: String,
    warnings: Vec<Warned>,
    left_out: Vec<(String, String)>,
    nothing: Option<String>,
    columns: Vec<String>,
    rows: Vec<TableRow>,
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
fn with_code(text: &str) -> String {
    let parts: Vec<String> = text.split('`').map(escape::html).collect();
    if parts.len() % 2 == 0 {
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

struct TableRow {
    /// Escaped, with places where it may be broken.
    name: String,
    swatch: String,
    class: &'static str,
    below: Option<String>,
    failed: Option<String>,
    cells: Vec<TableCell>,
}

struct TableCell {
    label: String,
    text: String,
    spread: String,
    class: &'static str,
    verdict: &'static str,
    svg: String,
}

/// What was run as one variant.
struct Ran {
    name: String,
    swatch: String,
    typed: String,
    pairs: Vec<(&'static str, String)>,
}

impl Part {
    fn of(view: &View<'_>, index: usize) -> Part {
        let nothing = (view.rounds() == 0).then(|| words::nothing_measured(view));
        let plots: Vec<Plots> = view
            .analyses
            .iter()
            .map(|analysis| Plots::of(view, analysis))
            .collect();
        Part {
            id: format!("benchmark-{}", index + 1),
            title: view.title(),
            summary: words::headline(std::slice::from_ref(view)),
            rounds: words::rounds_and_noise(view),
            warnings: words::warnings(view).into_iter().map(Warned::of).collect(),
            left_out: view
                .benchmark
                .left_out
                .iter()
                .map(|left| (left.name.clone(), left.reason.clone()))
                .collect(),
            columns: view
                .analyses
                .iter()
                .flat_map(|analysis| columns(view, analysis))
                .collect(),
            rows: view
                .shown
                .iter()
                .map(|shown| table_row(view, shown, &plots))
                .collect(),
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

/// The ratios of a quantity on one axis, if there is anything to compare.
struct Plots {
    axis: Option<chart::Axis>,
    noise: Option<(f64, f64)>,
}

impl Plots {
    fn of(view: &View<'_>, analysis: &Analysis) -> Plots {
        let intervals: Vec<Interval> = view
            .shown
            .iter()
            .filter(|shown| is_drawn(shown, &analysis.quantity))
            .filter_map(|shown| analysis.comparison(shown.index))
            .filter_map(plotted)
            .collect();
        let is_plotted = view.weight(&analysis.quantity) == Weight::Decides
            || analysis.quantity == Quantity::PeakRss;
        Plots {
            axis: (is_plotted && !intervals.is_empty()).then(|| chart::interval_axis(&intervals)),
            noise: analysis
                .noise
                .and_then(|noise| noise.ratio)
                .map(|floor| (floor.low, floor.high)),
        }
    }
}

/// The limit buys its time with as much memory as there is; on an axis with it, all others would fall together.
fn is_drawn(shown: &Shown<'_>, quantity: &Quantity) -> bool {
    shown.variant.role != Role::Limit || !matches!(quantity, Quantity::PeakRss | Quantity::MeanRss)
}

fn plotted(comparison: &Comparison) -> Option<Interval> {
    let estimate = comparison.ratio?;
    Some(Interval {
        ratio: estimate.value,
        low: estimate.interval.low,
        high: estimate.interval.high,
    })
}

fn columns(view: &View<'_>, analysis: &Analysis) -> Vec<String> {
    let heading = figures::noun(&analysis.quantity).to_owned();
    match view.weight(&analysis.quantity) {
        Weight::Explains => vec![heading],
        Weight::Matters if analysis.quantity == Quantity::Wall => vec![heading, "ratio".to_owned()],
        Weight::Decides | Weight::Matters => vec![heading, format!("ratio to {}", view.baseline())],
    }
}

fn table_row(view: &View<'_>, shown: &Shown<'_>, plots: &[Plots]) -> TableRow {
    TableRow {
        name: breakable(&shown.variant.name),
        swatch: shown.tone.swatch(),
        class: match shown.variant.role {
            Role::Limit => "limit",
            _ => "",
        },
        below: match shown.variant.role {
            Role::Baseline => Some("baseline".to_owned()),
            Role::Limit => Some("no allocator to use: the cheapest imaginable".to_owned()),
            _ => words::allocator(shown),
        },
        failed: (shown.failures.count() > 0).then(|| shown.failures.to_string()),
        cells: view
            .analyses
            .iter()
            .zip(plots)
            .flat_map(|(analysis, plots)| cells(view, shown, analysis, plots))
            .collect(),
    }
}

fn cells(view: &View<'_>, shown: &Shown<'_>, analysis: &Analysis, plots: &Plots) -> Vec<TableCell> {
    let row = &analysis.rows[shown.index];
    let quantity = &analysis.quantity;
    let weight = view.weight(quantity);
    let spread = row
        .summary
        .as_ref()
        .filter(|_| plots.axis.is_some())
        .map(numbers::spread);
    let figure = TableCell {
        label: figures::noun(quantity).to_owned(),
        text: numbers::median_text(row, quantity),
        spread: spread.unwrap_or_default(),
        class: if row.summary.is_none() { "empty" } else { "" },
        verdict: "",
        svg: String::new(),
    };
    match weight {
        Weight::Explains => vec![figure],
        Weight::Decides | Weight::Matters => vec![figure, ratio_cell(shown, analysis, plots)],
    }
}

/// The ratio, and below it its place on the column's axis.
fn ratio_cell(shown: &Shown<'_>, analysis: &Analysis, plots: &Plots) -> TableCell {
    let comparison = analysis.rows[shown.index].comparison.as_ref();
    let (text, verdict) = ratio(comparison);
    let title = format!(
        "{}, {}: {text}",
        shown.variant.name,
        figures::noun(&analysis.quantity)
    );
    let axis = plots
        .axis
        .as_ref()
        .filter(|_| is_drawn(shown, &analysis.quantity));
    let estimate = comparison.and_then(|comparison| comparison.ratio);
    let spread = estimate
        .filter(|_| plots.axis.is_some())
        .map(|estimate| numbers::interval(&estimate));
    TableCell {
        label: "ratio".to_owned(),
        class: match (comparison, &plots.axis) {
            (None, Some(_)) => "plot first",
            (None, None) => "first",
            (Some(_), Some(_)) => "plot",
            (Some(_), None) => "",
        },
        verdict,
        text,
        spread: spread.unwrap_or_default(),
        svg: axis.map_or_else(String::new, |axis| {
            chart::interval(
                comparison.and_then(plotted).as_ref(),
                plots.noise,
                axis,
                shown.tone,
                &title,
            )
        }),
    }
}

/// A ratio and the class that says what may be claimed.
fn ratio(comparison: Option<&Comparison>) -> (String, &'static str) {
    let Some(comparison) = comparison else {
        return (String::new(), "");
    };
    let text = comparison.ratio.map_or_else(
        || numbers::NONE.to_owned(),
        |estimate| numbers::ratio(estimate.value),
    );
    match comparison.verdict {
        Verdict::Better => (text, "better"),
        Verdict::Worse => (text, "worse"),
        Verdict::Indistinguishable => ("~".to_owned(), "same"),
    }
}

/// A variant's name, which may be broken at its signs.
fn breakable(name: &str) -> String {
    escape::html(name)
        .replace('+', "+<wbr/>")
        .replace('[', "<wbr/>[")
}

impl Ran {
    fn of(shown: &Shown<'_>) -> Ran {
        let variant: &Variant = shown.variant;
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

fn charts(view: &View<'_>) -> Vec<Chart> {
    let metrics = view.benchmark.metrics.keys().cloned().map(Quantity::Metric);
    let quantities = metrics.chain([Quantity::Wall, Quantity::PeakRss]);
    let strips = quantities.filter_map(|quantity| strip(view, quantity));
    strips.chain(scatter(view)).chain(drift(view)).collect()
}

/// All runs of all variants.
fn strip(view: &View<'_>, quantity: Quantity) -> Option<Chart> {
    let analysis = view.analysis(&quantity)?;
    let output = view.results.settings.output;
    let rows = view
        .shown
        .iter()
        .filter(|shown| is_drawn(shown, &quantity))
        .map(|shown| {
            let failed: Vec<usize> = view
                .benchmark
                .failures(shown.variant, output)
                .map(|run| run.round)
                .collect();
            let row = &analysis.rows[shown.index];
            let marks = shown.variant.runs.iter().filter_map(|run| {
                let value = quantity.of(run)?;
                let is_failure = failed.contains(&run.round);
                let outcome = if is_failure {
                    format!(", {}", run.outcome)
                } else {
                    String::new()
                };
                Some(Mark {
                    value,
                    is_failure,
                    title: format!(
                        "round {}: {}{outcome}",
                        run.round + 1,
                        figures::value(&quantity, value)
                    ),
                })
            });
            Row {
                name: &shown.variant.name,
                tone: shown.tone,
                marks: marks.collect(),
                median: numbers::median(row),
                note: numbers::median_text(row, &quantity),
            }
        });
    let title = format!("{} of every run", capitalised(figures::noun(&quantity)));
    let strip = Strip {
        title: &title,
        unit: unit(&quantity),
        rows: rows.collect(),
    };
    let mut caption = "A dot is a run, a line their median.".to_owned();
    if view.shown.iter().any(|shown| shown.failures.count() > 0) {
        caption.push_str(" A cross is a run that failed.");
    }
    caption.push_str(&cautions(&[strip.axis()]));
    Some(Chart {
        caption,
        svg: strip.draw(),
        legend: Vec::new(),
        class: "",
        title: title.clone(),
    })
}

/// What the benchmark is about, against memory.
fn scatter(view: &View<'_>) -> Option<Chart> {
    let main = view.main_quantity();
    let (across, memory) = (view.analysis(&main)?, view.analysis(&Quantity::PeakRss)?);
    let output = view.results.settings.output;
    let front = analysis::pareto_front(view.benchmark, &main, &Quantity::PeakRss, output);
    let chosen = || {
        view.shown
            .iter()
            .filter(|shown| is_drawn(shown, &Quantity::PeakRss))
    };
    let dots: Vec<Dot<'_>> = chosen()
        .filter_map(|shown| {
            let figure = numbers::median(&across.rows[shown.index])?;
            let bytes = numbers::median(&memory.rows[shown.index])?;
            Some(Dot {
                name: &shown.variant.name,
                tone: shown.tone,
                across: figure,
                bytes,
                is_on_front: front.contains(&shown.index),
                title: format!(
                    "{}: {}, {}",
                    shown.variant.name,
                    figures::value(&main, figure),
                    figures::bytes(bytes)
                ),
            })
        })
        .collect();
    if dots.len() < 2 {
        return None;
    }
    let noun = capitalised(figures::noun(&main));
    let title = match main {
        Quantity::Wall => "Time against memory".to_owned(),
        _ => format!("{noun} against memory"),
    };
    let scatter = Scatter {
        title: &title,
        unit: unit(&main),
        direction: across.direction,
        dots,
    };
    let (axis_across, axis_down) = scatter.axes();
    let corner = match across.direction {
        Direction::Lower => "left",
        Direction::Higher => "right",
    };
    Some(Chart {
        caption: format!(
            "{noun} across, peak memory down: nearer to the lower {corner} is better. No variant beats those on the \
             dashed line, the Pareto front, in both; the hollow ones are beaten or failed.{}",
            cautions(&[axis_across, axis_down])
        ),
        svg: scatter.draw(),
        legend: legend(chosen()),
        class: "",
        title: title.clone(),
    })
}

/// The wall time from round to round, as a part of each variant's own median: what the machine did, all show.
fn drift(view: &View<'_>) -> Option<Chart> {
    let analysis = view.analysis(&Quantity::Wall)?;
    let rounds = view.rounds();
    if rounds < ROUNDS_FOR_DRIFT {
        return None;
    }
    let output = view.results.settings.output;
    let series = view.shown.iter().filter_map(|shown| {
        let median = numbers::median(&analysis.rows[shown.index])?;
        let failed: Vec<usize> = view
            .benchmark
            .failures(shown.variant, output)
            .map(|run| run.round)
            .collect();
        let counting = shown
            .variant
            .runs
            .iter()
            .filter(|run| !failed.contains(&run.round));
        Some(Series {
            name: &shown.variant.name,
            tone: shown.tone,
            points: counting
                .map(|run| {
                    let value = run.cost.wall_seconds / median - 1.0;
                    Point {
                        step: run.round,
                        value,
                        interval: None,
                        title: format!(
                            "{}, round {}: {:+.1} %",
                            shown.variant.name,
                            run.round + 1,
                            value * 100.0
                        ),
                    }
                })
                .collect(),
        })
    });
    let lines = Lines {
        title: "Drift over the rounds",
        unit: Unit::Percent,
        steps: Steps::Rounds(rounds),
        series: series.collect(),
        class: "faint",
    };
    Some(Chart {
        title: "Drift over the rounds".to_owned(),
        caption: "Each run's wall time against its variant's median. What all lines do together, the machine did; the \
                  ratios are taken within a round, so it cancels out."
            .to_owned(),
        svg: lines.draw(),
        legend: legend(view.shown.iter()),
        class: "",
    })
}

/// How what the benchmarks are about, and peak memory, change with each parameter of a sweep.
fn scaling(all: &[Results], views: &[View<'_>]) -> Vec<Chart> {
    let mut charts = Vec::new();
    for results in all {
        let mut parameters: Vec<&String> = results
            .benchmarks
            .iter()
            .flat_map(|b| b.parameters.keys())
            .collect();
        parameters.sort_unstable();
        parameters.dedup();
        let own: Vec<&View<'_>> = views
            .iter()
            .filter(|view| std::ptr::eq(view.results, results))
            .collect();
        let mut quantities: Vec<Quantity> = Vec::new();
        for quantity in own
            .iter()
            .map(|view| view.main_quantity())
            .chain([Quantity::PeakRss])
        {
            if !quantities.contains(&quantity) {
                quantities.push(quantity);
            }
        }
        for parameter in parameters {
            for quantity in &quantities {
                let output = results.settings.output;
                for series in sweeps::series(&results.benchmarks, parameter, quantity, output) {
                    charts.push(scaling_chart(parameter, quantity, &series, &own));
                }
            }
        }
    }
    charts
}

fn scaling_chart(
    parameter: &str,
    quantity: &Quantity,
    series: &sweeps::Series,
    views: &[&View<'_>],
) -> Chart {
    let first = views.iter().find(|view| {
        std::ptr::eq(
            view.benchmark,
            &view.results.benchmarks[series.benchmarks[0]],
        )
    });
    let shown: Vec<&Shown<'_>> = first.iter().flat_map(|view| &view.shown).collect();
    let line = |shown: &&Shown<'_>| {
        series
            .lines
            .iter()
            .find(|line| line.variant == shown.variant.name)
    };
    let drawn: Vec<(&Shown<'_>, &sweeps::Line)> = shown
        .iter()
        .filter_map(|shown| Some((*shown, line(shown)?)))
        .collect();
    let point = |name: &str, step: usize, estimate: &analysis::Estimate| Point {
        step,
        value: estimate.value,
        interval: Some((estimate.interval.low, estimate.interval.high)),
        title: format!(
            "{name}, {parameter}={}: {}",
            series.values[step],
            figures::value(quantity, estimate.value)
        ),
    };
    let title = format!("{} over {parameter}", capitalised(figures::noun(quantity)));
    let lines = Lines {
        title: &title,
        unit: unit(quantity),
        steps: Steps::Named(series.values.clone()),
        class: "strong",
        series: drawn
            .iter()
            .map(|(shown, line)| Series {
                name: &line.variant,
                tone: shown.tone,
                points: line
                    .medians
                    .iter()
                    .enumerate()
                    .filter_map(|(step, median)| Some(point(&line.variant, step, median.as_ref()?)))
                    .collect(),
            })
            .collect(),
    };
    let mut settings: Vec<String> = series
        .fixed
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let limit = series
        .memory_limit_bytes
        .map(|bytes| format!("{} of memory", figures::bytes(bytes as f64)));
    settings.extend(limit);
    settings.insert(0, series.name.clone());
    if let Some(view) = first {
        settings.push(view.results.machine.name.clone());
    }
    let caption = format!(
        "{}. Medians; the area is their 95 % interval.{}",
        settings.join(", "),
        cautions(&[lines.axis()])
    );
    Chart {
        caption,
        svg: lines.draw(),
        legend: legend(drawn.iter().map(|(shown, _)| *shown)),
        class: "",
        title: title.clone(),
    }
}

fn legend<'a>(shown: impl Iterator<Item = &'a Shown<'a>>) -> Vec<Key> {
    shown
        .map(|shown| Key {
            swatch: shown.tone.swatch(),
            name: shown.variant.name.clone(),
        })
        .collect()
}

fn unit(quantity: &Quantity) -> Unit {
    match quantity {
        Quantity::Wall | Quantity::Cpu | Quantity::User | Quantity::System => Unit::Seconds,
        Quantity::PeakRss | Quantity::MeanRss => Unit::Bytes,
        Quantity::MinorFaults | Quantity::Metric(_) => Unit::Plain,
    }
}

/// What a reader has to know of the axes, as a sentence after another.
fn cautions(axes: &[chart::Axis]) -> String {
    let mut cautions: Vec<&str> = axes.iter().filter_map(chart::Axis::caution).collect();
    cautions.dedup();
    cautions
        .iter()
        .map(|caution| format!(" {}.", capitalised(caution)))
        .collect()
}

fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(characters).collect()
    })
}

/// All benchmarks in one table.
struct Matrix {
    title: String,
    /// Escaped, with places where they may be broken.
    variants: Vec<String>,
    rows: Vec<(String, bool, Vec<(String, &'static str)>)>,
}

impl Matrix {
    fn of(matrix: overview::Matrix) -> Matrix {
        let cell = |entry: &Entry| match entry {
            Entry::Missing => (numbers::NONE.to_owned(), "same"),
            Entry::Failed => ("failed".to_owned(), "worse"),
            Entry::Mean(mean) => (numbers::ratio(*mean), ""),
            Entry::Compared(comparison) => ratio(Some(comparison)),
        };
        Matrix {
            title: capitalised(figures::noun(&matrix.quantity)),
            variants: matrix.variants.iter().map(|name| breakable(name)).collect(),
            rows: matrix
                .rows
                .into_iter()
                .map(|row| (row.name, row.is_mean, row.cells.iter().map(cell).collect()))
                .collect(),
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
