//! A profile as one page that fetches nothing: what is on the terminal's screen, the curves, and flame graphs.
//!
//! The page stays small however long the command ran: points of a curve are thinned out, and what is narrow or rare is
//! left out of graphs and tables. Wherever that happens, the page says so.

use crate::chart::{Memory, Moment};
use crate::escape::{html as escaped, shell};
use crate::profile::facts::{self, ended};
use crate::profile::flame::Flame;
use crate::profile::folded::By;
use crate::profile::histogram::{self, Bar, short_seconds};
use crate::profile::number::grouped;
use crate::profile::sites::{Stacks, short_function};
use crate::profile::verdict::Verdict;
use crate::profile::whole::Whole;
use askama::Template;
use reheap_bench::figures::{bytes, percent};
use reheap_profile::profile::{Point, Process, Profile};
use std::cmp::Reverse;

/// Points of a curve.
const POINTS_MAX: usize = 700;
/// Bars of a histogram.
const BARS_MAX: usize = 24;
/// Rows of a table.
const ROWS_MAX: usize = 60;
/// Functions that are named of those that called a call site.
const CALLERS_MAX: usize = 6;
/// Letters of a name that are shown.
const LETTERS_MAX: usize = 300;

/// The profile as a page; `file` is where it was written, if it was.
pub fn html(profile: &Profile, file: Option<&str>) -> String {
    let whole = Whole::of(profile);
    let verdict = Verdict::of_whole(&whole);
    let stacks = Stacks::of(&whole);
    let sampled = match profile.every_bytes {
        Some(every) => format!(
            "Estimates from {} sampled stacks: one every {} on average, and fewer where a thread would sample thousands in a \
             second.",
            grouped(stacks.samples()),
            histogram::short_bytes(every)
        ),
        None => String::new(),
    };
    let page = Page {
        style: concat!(
            include_str!("../../templates/report.css"),
            include_str!("../../templates/profile.css")
        ),
        script: include_str!("../../templates/profile.js"),
        command: cut(&shell(&profile.command)),
        verdict: unbroken(&verdict.sentence()),
        most_to_gain: verdict.most_to_gain().as_deref().map(unbroken),
        next: (whole.calls() > 0).then(|| crate::html::with_code(&verdict.next(profile, file))),
        ended: ended(profile),
        warnings: warnings(&whole),
        facts: facts::facts(&whole)
            .into_iter()
            .map(|fact| (fact.name, unbroken(&fact.said)))
            .collect(),
        curve: whole.largest.and_then(|process| Curve::of(&whole, process)),
        histograms: histograms(&whole),
        processes: processes(profile),
        threads: threads(&whole),
        flames: [By::Bytes, By::Blocks]
            .into_iter()
            .filter_map(|by| Flame::of(&stacks, by))
            .collect(),
        sampled,
        sites: sites(&stacks),
        reheap: profile.reheap.clone(),
    };
    let mut text = page
        .render()
        .expect("a string takes all that is written to it");
    text.push('\n');
    text
}

#[derive(Template)]
#[template(path = "profile.html")]
struct Page {
    style: &'static str,
    script: &'static str,
    command: String,
    verdict: String,
    most_to_gain: Option<String>,
    /// Escaped.
    next: Option<String>,
    ended: String,
    warnings: Vec<String>,
    facts: Vec<(&'static str, String)>,
    curve: Option<Curve>,
    histograms: Vec<Histogram>,
    processes: Option<Table>,
    threads: Option<Table>,
    flames: Vec<Flame>,
    sampled: String,
    sites: Option<Table>,
    reheap: String,
}

/// Memory over time.
struct Curve {
    caption: String,
    svg: String,
    live: String,
    resident: Option<String>,
}

struct Histogram {
    title: &'static str,
    caption: &'static str,
    /// The first column.
    of: &'static str,
    has_rounding: bool,
    has_bytes: bool,
    rows: Vec<HistogramRow>,
}

struct HistogramRow {
    range: String,
    /// How long the bar is, in percent.
    length: String,
    part: String,
    blocks: String,
    bytes: String,
    rounding: String,
}

/// A table of names and figures.
struct Table {
    title: &'static str,
    columns: Vec<&'static str>,
    rows: Vec<TableRow>,
    /// What was left out.
    left_out: Option<String>,
}

struct TableRow {
    name: String,
    below: String,
    cells: Vec<String>,
}

fn warnings(whole: &Whole<'_>) -> Vec<String> {
    let unseen = &whole.profile.unseen;
    let told = unseen.iter().take(ROWS_MAX);
    let mut warnings = facts::lost(whole);
    warnings.extend(told.map(|program| cut(&facts::unseen(program))));
    let others = unseen.len().saturating_sub(ROWS_MAX);
    if others > 0 {
        warnings.push(format!(
            "{} more programs were not watched",
            grouped(others as u64)
        ));
    }
    warnings
}

impl Curve {
    fn of(whole: &Whole<'_>, process: &Process) -> Option<Curve> {
        if process.curve.len() < 2 {
            return None;
        }
        let (peak, curve) = (&process.peak, &process.curve);
        let seconds = curve
            .iter()
            .map(|moment| moment.seconds)
            .fold(0.0, f64::max);
        let mut live = moments(curve, |moment| Some(moment.live.bytes));
        reach(&mut live, (peak.seconds, peak.live.bytes as f64));
        let resident = moments(curve, |moment| moment.resident_bytes);
        let said_peak = format!(
            "{} live at most, at {}",
            bytes(peak.live.bytes as f64),
            short_seconds(peak.seconds)
        );
        let mut caption = match whole.profile.processes.len() {
            0 | 1 => String::new(),
            _ => format!(
                "Process {}, which had the highest peak. ",
                facts::process_name(process)
            ),
        };
        caption.push_str(&format!("{said_peak}."));
        if curve.len() > POINTS_MAX {
            let shown = curve.len().div_ceil(stretch(curve.len()));
            let step = short_seconds(seconds / shown as f64);
            let all = grouped(curve.len() as u64);
            caption.push_str(&format!(
                " Of {all} points, the highest of each {step} are shown."
            ));
        }
        let chart = Memory {
            title: "Memory over time",
            seconds,
            live,
            peak: (peak.live.bytes > 0)
                .then(|| ((peak.seconds, peak.live.bytes as f64), said_peak.clone())),
            resident,
        };
        Some(Curve {
            svg: chart.draw(&said_peak),
            caption,
            live: Memory::LIVE.swatch(),
            resident: (!chart.resident.is_empty()).then(|| Memory::RESIDENT.swatch()),
        })
    }
}

/// A curve with few enough points: of each stretch of time the highest.
fn moments(curve: &[Point], figure: impl Fn(&Point) -> Option<u64>) -> Vec<Moment> {
    let known = curve
        .iter()
        .filter_map(|moment| figure(moment).map(|bytes| (moment.seconds, bytes as f64)));
    let all: Vec<Moment> = known.collect();
    let highest = |part: &[Moment]| {
        part.iter()
            .copied()
            .max_by(|one, other| one.1.total_cmp(&other.1))
    };
    all.chunks(stretch(all.len())).filter_map(highest).collect()
}

/// Of how many points one is shown.
fn stretch(points: usize) -> usize {
    points.div_ceil(POINTS_MAX).max(1)
}

/// Leads a curve through the peak, which may have lasted too short a time to be seen otherwise.
fn reach(curve: &mut Vec<Moment>, peak: Moment) {
    if curve.iter().all(|moment| moment.1 < peak.1) {
        let place = curve.partition_point(|moment| moment.0 < peak.0);
        curve.insert(place, peak);
    }
}

fn histograms(whole: &Whole<'_>) -> Vec<Histogram> {
    let (counts, not_freed) = (&whole.counts, whole.live_at_end.blocks);
    let all = [
        Histogram::of(
            "Sizes",
            "What was asked for; rounding is the part of what the allocator gave that nobody asked for.",
            "size",
            &histogram::sizes(counts, BARS_MAX),
        ),
        Histogram::of(
            "Lifetimes",
            "How long blocks lived, true to about a millisecond.",
            "lifetime",
            &histogram::lifetimes(counts, not_freed, BARS_MAX),
        ),
        Histogram::of(
            "Lifetimes in allocations",
            "How many blocks the same thread allocated before it was freed.",
            "allocations",
            &histogram::lifetimes_in_allocations(counts, not_freed, BARS_MAX),
        ),
    ];
    all.into_iter()
        .filter(|table| !table.rows.is_empty())
        .collect()
}

impl Histogram {
    fn of(title: &'static str, caption: &'static str, of: &'static str, bars: &[Bar]) -> Histogram {
        let most = bars.iter().map(|bar| bar.share).fold(0.0, f64::max);
        let row = |bar: &Bar| HistogramRow {
            range: bar.range.clone(),
            length: format!(
                "{:.2}",
                if most > 0.0 {
                    bar.share / most * 100.0
                } else {
                    0.0
                }
            ),
            part: percent(bar.share),
            blocks: grouped(bar.blocks),
            bytes: bar
                .bytes
                .map_or_else(String::new, |size| bytes(size as f64)),
            rounding: bar.rounding.map_or_else(String::new, percent),
        };
        Histogram {
            title,
            caption,
            of,
            has_rounding: bars.iter().any(|bar| bar.rounding.is_some()),
            has_bytes: bars.iter().any(|bar| bar.bytes.is_some()),
            rows: bars.iter().map(row).collect(),
        }
    }
}

fn processes(profile: &Profile) -> Option<Table> {
    if profile.processes.len() < 2 {
        return None;
    }
    let mut processes: Vec<&Process> = profile.processes.iter().collect();
    processes.sort_by_key(|process| Reverse(process.counts.requested_bytes));
    let columns = facts::process_figures(processes[0]).map(|(name, _)| name);
    let row = |process: &&Process| TableRow {
        name: cut(&facts::process_name(process)),
        below: process.allocator.as_deref().map_or_else(String::new, cut),
        cells: facts::process_figures(process).map(|(_, text)| text).into(),
    };
    Some(Table {
        title: "Processes",
        columns: columns.into(),
        rows: processes.iter().take(ROWS_MAX).map(row).collect(),
        left_out: left_out(processes.len(), "processes that allocated less"),
    })
}

fn threads(whole: &Whole<'_>) -> Option<Table> {
    if whole.threads.is_empty() {
        return None;
    }
    let several = whole.profile.processes.len() > 1;
    let rows = whole
        .threads
        .iter()
        .take(ROWS_MAX)
        .map(|(process, thread)| TableRow {
            name: cut(&facts::thread_name(thread)),
            below: if several {
                format!("process {}", process.pid)
            } else {
                String::new()
            },
            cells: vec![
                grouped(thread.allocated.blocks),
                bytes(thread.allocated.bytes as f64),
                grouped(thread.freed.blocks),
                bytes(thread.freed.bytes as f64),
                grouped(thread.freed_of_others.blocks),
            ],
        });
    Some(Table {
        title: "Threads",
        columns: vec!["blocks", "allocated", "freed blocks", "freed", "of others"],
        rows: rows.collect(),
        left_out: left_out(whole.threads.len(), "threads that allocated less"),
    })
}

fn sites(stacks: &Stacks<'_>) -> Option<Table> {
    let sites = stacks.call_sites();
    let all = stacks.bytes();
    let rows = sites.iter().take(ROWS_MAX).map(|site| {
        let callers: String = site
            .callers
            .iter()
            .take(CALLERS_MAX)
            .map(|caller| format!(" ← {}", short_function(&caller.function, 60)))
            .collect();
        let place = site.place().unwrap_or_default();
        TableRow {
            name: cut(&short_function(site.function(), 100)),
            below: cut(&format!("{place}{callers}")),
            cells: vec![
                percent(if all > 0.0 { site.bytes / all } else { 0.0 }),
                bytes(site.bytes),
                grouped(site.blocks.round() as u64),
                bytes(site.live_bytes),
                grouped(site.samples),
            ],
        }
    });
    let rows: Vec<TableRow> = rows.collect();
    (!rows.is_empty()).then(|| Table {
        title: "Call sites",
        columns: vec!["part", "about", "blocks", "not freed", "samples"],
        rows,
        left_out: left_out(sites.len(), "call sites with fewer bytes"),
    })
}

fn left_out(all: usize, what: &str) -> Option<String> {
    let count = all.saturating_sub(ROWS_MAX);
    (count > 0).then(|| format!("{} {what} are left out.", grouped(count as u64)))
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(LETTERS_MAX) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// The text with every figure on one line with its unit.
fn unbroken(text: &str) -> String {
    const UNITS: [&str; 9] = ["%", "s", "ms", "µs", "ns", "B", "KiB", "MiB", "GiB"];
    let is_unit = |word: &str| UNITS.contains(&word.trim_end_matches([';', '.', ',', ')']));
    let mut whole = String::with_capacity(text.len());
    for word in text.split(' ') {
        let follows_figure = whole.ends_with(|character: char| character.is_ascii_digit());
        if follows_figure && is_unit(word) {
            whole.push('\u{a0}');
        } else if !whole.is_empty() {
            whole.push(' ');
        }
        whole.push_str(word);
    }
    whole
}

/// A name that may be broken behind the signs between its parts, escaped.
fn breakable(name: &str) -> String {
    escaped(name)
        .replace("::", "::<wbr/>")
        .replace('_', "_<wbr/>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_reaches_its_peak() {
        let mut curve = vec![(0.0, 1.0), (2.0, 5.0), (4.0, 2.0)];
        reach(&mut curve, (3.0, 5.0));
        assert_eq!(curve.len(), 3);
        reach(&mut curve, (3.0, 9.0));
        assert_eq!(curve[2], (3.0, 9.0));
        assert!(curve.is_sorted_by_key(|moment| moment.0));
    }
}
