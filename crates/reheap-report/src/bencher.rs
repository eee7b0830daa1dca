//! Bencher Metric Format: what `bencher run --adapter json` reads, and what anything that stores benchmarks can read.
//!
//! An object of benchmarks, each with measures, each with `value` and optionally `lower_value` and `upper_value`
//! (<https://bencher.dev/docs/reference/bencher-metric-format/>). Bencher has `latency` in nanoseconds built in; the
//! others are made when they are first seen, with the unit in their name, because the format has no place for it. Names
//! of benchmarks have at most 1024 characters, those of measures 64.

use crate::view::{Weight, views};
use reheap_bench::overview::Overview;
use reheap_bench::results::Quantity;
use reheap_stats::interval::CONFIDENCE;
use serde::Serialize;
use std::collections::BTreeMap;

const BENCHMARK_NAME: usize = 1024;
const MEASURE_NAME: usize = 64;

#[derive(Serialize)]
struct Metric {
    value: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    lower_value: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    upper_value: Option<f64>,
}

/// The medians of all variants in Bencher Metric Format, with their intervals where there are enough rounds for 95 %.
pub fn bencher_json(overview: &Overview<'_>) -> String {
    let mut benchmarks: BTreeMap<String, BTreeMap<String, Metric>> = BTreeMap::new();
    for view in views(overview) {
        for shown in &view.shown {
            let name = format!("{}: {}", view.title, shown.variant.name);
            let name = cut(&name, BENCHMARK_NAME);
            let measures = view
                .columns(Weight::OnRequest)
                .into_iter()
                .filter_map(|analysis| {
                    let median = analysis.rows[shown.index].summary.as_ref()?.median;
                    let (measure, in_unit) = measure(&analysis.quantity);
                    let is_sure = median.interval.confidence >= CONFIDENCE;
                    let bound = |bound| is_sure.then(|| in_unit(bound));
                    let metric = Metric {
                        value: in_unit(median.value),
                        lower_value: bound(median.interval.low),
                        upper_value: bound(median.interval.high),
                    };
                    Some((cut(&measure, MEASURE_NAME), metric))
                });
            benchmarks.entry(name).or_default().extend(measures);
        }
    }
    let mut text = serde_json::to_string_pretty(&benchmarks).expect("all keys are strings");
    text.push('\n');
    text
}

/// The name of a measure, and how its figures come into its unit.
fn measure(quantity: &Quantity) -> (String, fn(f64) -> f64) {
    let name = quantity.name();
    match quantity {
        Quantity::Wall => ("latency".to_owned(), |seconds| (seconds * 1e9).round()),
        Quantity::Cpu | Quantity::User | Quantity::System => {
            (format!("{name}-seconds"), |seconds| seconds)
        }
        Quantity::PeakRss | Quantity::MeanRss => (format!("{name}-bytes"), |bytes| bytes),
        Quantity::MinorFaults | Quantity::Instructions | Quantity::Metric(_) => {
            (name.to_owned(), |count| count)
        }
    }
}

fn cut(name: &str, characters: usize) -> String {
    name.chars().take(characters).collect()
}
