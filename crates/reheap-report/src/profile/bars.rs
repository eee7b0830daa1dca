//! Histograms for a terminal: two beside each other where they find room.

use crate::profile::histogram::{self, Bar};
use crate::profile::number::grouped;
use crate::profile::screen::{Screen, cut};
use crate::profile::whole::Whole;
use crate::text::{Paint, padded};
use reheap_bench::figures::percent;
use unicode_width::UnicodeWidthStr as _;

/// As wide as a bar is at most, and at least.
const BAR: (usize, usize) = (10, 5);
/// What is between two histograms.
const BETWEEN: &str = "   ";

pub(crate) fn histograms(screen: &mut Screen, whole: &Whole<'_>, bars_max: usize) {
    let (counts, not_freed) = (&whole.counts, whole.live_at_end.blocks);
    let sizes = histogram::sizes(counts, bars_max);
    let lifetimes = histogram::lifetimes(counts, not_freed, bars_max);
    if sizes.is_empty() && lifetimes.is_empty() {
        return;
    }
    match side_by_side(&sizes, &lifetimes, screen.style.width) {
        Some(lines) => {
            for (at, line) in lines.iter().enumerate() {
                let paint = if at == 0 {
                    Paint::Heading
                } else {
                    Paint::Plain
                };
                screen.line(line, paint);
            }
            screen.gap();
        }
        None => {
            histogram(screen, "size", &sizes);
            histogram(screen, "lifetime", &lifetimes);
        }
    }
    if screen.style.verbose {
        // Once more: in allocations, they do not depend on how fast the machine is.
        let bars = histogram::lifetimes_in_allocations(counts, not_freed, bars_max);
        histogram(screen, "lifetime in allocations", &bars);
    }
}

/// Both histograms with bars as wide as can be; none if even narrow ones find no room.
fn side_by_side(sizes: &[Bar], lifetimes: &[Bar], room: usize) -> Option<Vec<String>> {
    let (widest, narrowest) = BAR;
    (narrowest..=widest).rev().find_map(|bar| {
        let (one, other) = (bars("size", sizes, bar), bars("lifetime", lifetimes, bar));
        let (left, right) = (width_of(&one), width_of(&other));
        if left + BETWEEN.width() + right > room {
            return None;
        }
        let line = |at: usize| {
            let of = |lines: &[String]| lines.get(at).cloned().unwrap_or_default();
            let between = if left == 0 { "" } else { BETWEEN };
            format!("{}{between}{}", padded(&of(&one), left), of(&other))
        };
        Some((0..one.len().max(other.len())).map(line).collect())
    })
}

/// A histogram that is not beside another.
fn histogram(screen: &mut Screen, heading: &str, all: &[Bar]) {
    let mut lines = narrow_bars(heading, all, screen.style.width).into_iter();
    if let Some(heading) = lines.next() {
        screen.line(&heading, Paint::Heading);
    }
    lines.for_each(|line| screen.line(&line, Paint::Plain));
    screen.gap();
}

/// A histogram without what finds no room.
fn narrow_bars(heading: &str, all: &[Bar], room: usize) -> Vec<String> {
    let without_rounding: Vec<Bar> = all
        .iter()
        .cloned()
        .map(|bar| Bar {
            rounding: None,
            ..bar
        })
        .collect();
    let (widest, narrowest) = BAR;
    let complete = (narrowest..=widest)
        .rev()
        .map(|bar| bars(heading, all, bar));
    let others = [narrowest, 0].map(|bar| bars(heading, &without_rounding, bar));
    let mut layouts = complete.chain(others);
    let fitting = layouts.find(|lines| width_of(lines) <= room);
    fitting.unwrap_or_else(|| {
        let lines = bars(heading, &without_rounding, 0);
        lines.iter().map(|line| cut(line, room)).collect()
    })
}

fn width_of(lines: &[String]) -> usize {
    lines.iter().map(|line| line.width()).max().unwrap_or(0)
}

/// A histogram: a heading and a line for each bar; nothing without bars.
fn bars(heading: &str, all: &[Bar], width: usize) -> Vec<String> {
    if all.is_empty() {
        return Vec::new();
    }
    let counts: Vec<String> = all.iter().map(|bar| grouped(bar.blocks)).collect();
    let ranges = all.iter().map(|bar| bar.range.width());
    let for_ranges = ranges.max().unwrap_or(0).max(heading.width());
    let for_counts = counts
        .iter()
        .map(|count| count.width())
        .max()
        .unwrap_or(0)
        .max("blocks".len());
    let has_rounding = all.iter().any(|bar| bar.rounding.is_some());
    let most = all.iter().map(|bar| bar.share).fold(0.0, f64::max);
    let column = if has_rounding { "  rounding" } else { "" };
    let mut lines = vec![format!(
        "{}  {}  {:>6}  {:>for_counts$}{column}",
        padded(heading, for_ranges),
        " ".repeat(width),
        "part",
        "blocks"
    )];
    for (bar, count) in all.iter().zip(&counts) {
        let rounding = bar.rounding.map_or_else(String::new, percent);
        let rounding = if has_rounding {
            format!("  {rounding:>8}")
        } else {
            String::new()
        };
        lines.push(format!(
            "{}  {}  {:>6}  {count:>for_counts$}{rounding}",
            padded(&bar.range, for_ranges),
            padded(&block(bar.share / most, width), width),
            percent(bar.share),
        ));
    }
    lines
}

/// A part of the width, in eighths of a letter.
fn block(length: f64, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let length = if length.is_finite() {
        length.clamp(0.0, 1.0)
    } else {
        0.0
    };
    let eighths = (length * (width * 8) as f64).round() as usize;
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}
