//! Figures in the cells of tables. What is said in sentences is worded by [`reheap_bench::figures`].

use reheap_bench::analysis::{Comparison, Row, Summary};
use reheap_bench::figures;
use reheap_bench::results::Quantity;
use reheap_stats::interval::{CONFIDENCE, Estimate};

/// Stands where there is no figure.
pub(crate) const NONE: &str = "–";

/// The median of a row as text.
pub(crate) fn median_text(row: &Row, quantity: &Quantity) -> String {
    row.median().map_or_else(
        || NONE.to_owned(),
        |median| figures::value(quantity, median),
    )
}

/// The median of a row with its spread: `10.5 s ± 0.4 %`.
pub(crate) fn median_with_spread(row: &Row, quantity: &Quantity) -> String {
    match &row.summary {
        Some(summary) => {
            let value = figures::value(quantity, summary.median.value);
            format!("{value} {}", spread(summary)).trim_end().to_owned()
        }
        None => NONE.to_owned(),
    }
}

/// The median absolute deviation as a part of the median, because a spread is compared with differences, and these are
/// parts too; nothing for a single run.
pub(crate) fn spread(summary: &Summary) -> String {
    let share = summary.sample.median_absolute_deviation() / summary.median.value;
    if summary.sample.count() < 2 || !share.is_finite() {
        return String::new();
    }
    format!("± {}", figures::percent(share))
}

/// A ratio, with as many decimals as make a part of a percent visible.
pub(crate) fn ratio(value: f64) -> String {
    match value {
        v if v < 0.1 => format!("{v:.4}"),
        v if v < 2.0 => format!("{v:.3}"),
        v if v < 10.0 => format!("{v:.2}"),
        v if v < 100.0 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

/// A ratio with what may be said of it, as [`figures::judged`] writes it.
pub(crate) fn judged(comparison: &Comparison) -> String {
    comparison.ratio.map_or_else(
        || NONE.to_owned(),
        |estimate| figures::judged(comparison.verdict, estimate.value, &ratio(estimate.value)),
    )
}

/// The interval of a ratio. None where there were too few rounds for one of 95 %: a narrower one would look more
/// certain than one that holds.
pub(crate) fn interval(estimate: &Estimate) -> Option<String> {
    let interval = &estimate.interval;
    (interval.confidence >= CONFIDENCE)
        .then(|| format!("[{}, {}]", ratio(interval.low), ratio(interval.high)))
}
