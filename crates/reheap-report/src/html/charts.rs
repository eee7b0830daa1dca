//! The charts of a page: what was measured, given to [`crate::chart`], with captions that say how to read it.

use crate::chart::{
    self, Dot, Lines, Mark, MarkKind, Point, Row, Scatter, Series, Steps, Strip, Unit,
};
use crate::numbers;
use crate::view::{Shown, View};
use crate::words::capitalised;
use reheap_bench::figures;
use reheap_bench::overview::Overview;
use reheap_bench::results::{Direction, Quantity};
use reheap_bench::sweeps;
use reheap_bench::warnings::Warning;
use reheap_stats::interval::{CONFIDENCE, Estimate};

/// A chart with its caption.
pub(super) struct Chart {
    pub(super) title: String,
    pub(super) caption: String,
    pub(super) svg: String,
}

/// What a colour and a shape stand for.
pub(super) struct Key {
    pub(super) swatch: String,
    pub(super) name: String,
}

/// The charts of one benchmark.
pub(super) fn charts(view: &View<'_>) -> Vec<Chart> {
    let metrics = view
        .findings
        .benchmark
        .metrics
        .keys()
        .cloned()
        .map(Quantity::Metric);
    let quantities = metrics.chain([view.findings.time(), Quantity::PeakRss]);
    let strips = quantities.filter_map(|quantity| strip(view, quantity));
    strips.chain(scatter(view)).chain(drift(view)).collect()
}

/// All runs of all variants.
fn strip(view: &View<'_>, quantity: Quantity) -> Option<Chart> {
    let analysis = view.findings.analysis(&quantity)?;
    let rows = view.shown.iter().map(|shown| {
        let row = &analysis.rows[shown.index];
        let sample = row.summary.as_ref().map(|summary| &summary.sample);
        let outliers: Vec<f64> = sample
            .map(|sample| sample.outliers().collect())
            .unwrap_or_default();
        let marks = shown.variant.runs.iter().filter_map(|run| {
            let value = quantity.of(run)?;
            let is_failure = shown.failures.rounds.contains(&run.round);
            let outcome = if is_failure {
                format!(", {}", run.outcome)
            } else {
                String::new()
            };
            Some(Mark {
                value,
                kind: if is_failure {
                    MarkKind::Failure
                } else if outliers.contains(&value) {
                    MarkKind::Outlier
                } else {
                    MarkKind::Run
                },
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
            median: row.median(),
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
    if strip.has(MarkKind::Outlier) {
        caption.push_str(" Grey dots are outliers.");
    }
    if strip.has(MarkKind::Failure) {
        caption.push_str(" A cross is a run that failed.");
    }
    caption.push_str(&cautions(&[strip.axis()]));
    Some(Chart {
        caption,
        svg: strip.draw(),
        title: title.clone(),
    })
}

/// What the benchmark is about, against memory.
fn scatter(view: &View<'_>) -> Option<Chart> {
    let main = view.findings.main_quantity();
    let (across, memory) = (
        view.findings.analysis(&main)?,
        view.findings.analysis(&Quantity::PeakRss)?,
    );
    let front = view.findings.pareto_front(&main, &Quantity::PeakRss);
    let dots: Vec<Dot<'_>> = view
        .shown
        .iter()
        .filter_map(|shown| {
            let figure = across.rows[shown.index].median()?;
            let bytes = memory.rows[shown.index].median()?;
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
        title: title.clone(),
    })
}

/// The wall time from round to round, as a part of each variant's own median: what the machine did, all show.
fn drift(view: &View<'_>) -> Option<Chart> {
    let analysis = view.findings.analysis(&Quantity::Wall)?;
    let rounds = view.findings.rounds();
    let is_drift = |warning: &Warning| matches!(warning, Warning::Drift { .. });
    if !view.findings.warnings.iter().any(is_drift) {
        return None;
    }
    let series = view.shown.iter().filter_map(|shown| {
        let median = analysis.rows[shown.index].median()?;
        let counting = shown
            .variant
            .runs
            .iter()
            .filter(|run| !shown.failures.rounds.contains(&run.round));
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
    })
}

/// How what the benchmarks are about, and peak memory, change with each parameter of a sweep.
pub(super) fn scaling(overview: &Overview<'_>, views: &[View<'_>]) -> Vec<Chart> {
    let chart = |series: &sweeps::Series| scaling_chart(series, &views[series.sweep.benchmarks[0]]);
    overview.series.iter().map(chart).collect()
}

/// The chart of a series; the first of its benchmarks tells which variants are drawn, and how.
fn scaling_chart(series: &sweeps::Series, first: &View<'_>) -> Chart {
    let sweeps::Sweep {
        parameter, values, ..
    } = &series.sweep;
    let quantity = &series.quantity;
    let line = |shown: &&Shown<'_>| {
        series
            .lines
            .iter()
            .find(|line| line.variant == shown.variant.name)
    };
    let drawn: Vec<(&Shown<'_>, &sweeps::Line)> = first
        .shown
        .iter()
        .filter_map(|shown| Some((shown, line(&shown)?)))
        .collect();
    let point = |name: &str, step: usize, estimate: &Estimate| Point {
        step,
        value: estimate.value,
        interval: (estimate.interval.confidence >= CONFIDENCE)
            .then_some((estimate.interval.low, estimate.interval.high)),
        title: format!(
            "{name}, {parameter}={}: {}",
            values[step],
            figures::value(quantity, estimate.value)
        ),
    };
    let title = format!("{} over {parameter}", capitalised(figures::noun(quantity)));
    let lines = Lines {
        title: &title,
        unit: unit(quantity),
        steps: Steps::Named(values.clone()),
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
    let benchmark = first.findings.benchmark;
    let mut settings = vec![benchmark.name.clone()];
    let fixed = benchmark.parameters.iter();
    settings.extend(
        fixed
            .filter(|(name, _)| *name != parameter)
            .map(|(name, value)| format!("{name}={value}")),
    );
    let limit = benchmark.memory_limit_bytes;
    settings.extend(limit.map(|bytes| format!("{} of memory", figures::bytes(bytes as f64))));
    settings.push(first.findings.results.machine.name.clone());
    let interval = match lines.as_bars() {
        Some(_) => "line",
        None => "area",
    };
    let mut points = lines.series.iter().flat_map(|series| &series.points);
    let medians = if points.any(|point| point.interval.is_some()) {
        format!("Medians; the {interval} is their 95 % interval")
    } else {
        "Medians".to_owned()
    };
    let caption = format!(
        "{}. {medians}.{}",
        settings.join(", "),
        cautions(&[lines.axis()])
    );
    Chart {
        caption,
        svg: lines.draw(),
        title: title.clone(),
    }
}

/// What the colours of [`scaling`] stand for; the charts of a benchmark have those of its table.
pub(super) fn scaling_legend(overview: &Overview<'_>, views: &[View<'_>]) -> Vec<Key> {
    let mut names: Vec<&str> = Vec::new();
    let mut keys = Vec::new();
    for series in &overview.series {
        for shown in &views[series.sweep.benchmarks[0]].shown {
            let name = shown.variant.name.as_str();
            if !names.contains(&name) {
                names.push(name);
                keys.push(Key {
                    swatch: shown.tone.swatch(),
                    name: name.to_owned(),
                });
            }
        }
    }
    keys
}

fn unit(quantity: &Quantity) -> Unit {
    match quantity {
        Quantity::Wall | Quantity::Cpu | Quantity::User | Quantity::System => Unit::Seconds,
        Quantity::PeakRss | Quantity::MeanRss => Unit::Bytes,
        Quantity::MinorFaults | Quantity::Instructions | Quantity::Metric(_) => Unit::Plain,
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
