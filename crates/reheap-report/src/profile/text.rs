//! A profile in a terminal: one screen, the verdict first.

use crate::escape::{shell, visible};
use crate::profile::facts::{self, ended};
use crate::profile::histogram::{self, Bar, grouped};
use crate::profile::sites::{CallSite, Stacks, short_function};
use crate::profile::verdict::Verdict;
use crate::profile::whole::Whole;
use crate::text::{Cell, Column, Group, Paint, RowName, Style, Table, padded, wrapped};
use reheap_bench::figures::{bytes, percent};
use reheap_profile::profile::{Process, Profile, Thread};
use std::cmp::Reverse;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// As wide as the names of facts.
const NAMES: usize = 11;
/// As wide as a bar of a histogram is at most, and at least.
const BAR: (usize, usize) = (10, 5);
/// What is between two histograms.
const BETWEEN: &str = "   ";

/// How many rows of each kind there are at most.
#[derive(Clone, Copy)]
struct Rows {
    processes: usize,
    bars: usize,
    threads: usize,
    sites: usize,
    unseen: usize,
}

const ONE_SCREEN: Rows = Rows {
    processes: 4,
    bars: 8,
    threads: 4,
    sites: 5,
    unseen: 3,
};

/// With a table more.
const CROWDED: Rows = Rows {
    bars: 6,
    threads: 3,
    sites: 4,
    ..ONE_SCREEN
};

const VERBOSE: Rows = Rows {
    processes: 1000,
    bars: 70,
    threads: 100,
    sites: 40,
    unseen: 100,
};

/// The profile for a terminal; `file` is where it was written, if it was.
pub fn text(profile: &Profile, file: Option<&str>, style: Style) -> String {
    let style = Style {
        width: style.width.clamp(40, 100),
        ..style
    };
    let whole = Whole::of(profile);
    let rows = match whole.threads.len().max(profile.processes.len()) {
        _ if style.verbose => VERBOSE,
        0 | 1 => ONE_SCREEN,
        _ => CROWDED,
    };
    let mut screen = Screen {
        style,
        rows,
        lines: Vec::new(),
    };
    screen.verdict(&whole, file);
    screen.facts(&whole);
    screen.processes(profile);
    screen.histograms(&whole);
    screen.lifetimes_in_allocations(&whole);
    screen.threads(&whole);
    screen.sites(&whole);
    screen.lost(&whole);
    while screen.lines.last().is_some_and(String::is_empty) {
        screen.lines.pop();
    }
    screen.lines.push(String::new());
    screen.lines.join("\n")
}

struct Screen {
    style: Style,
    rows: Rows,
    lines: Vec<String>,
}

impl Screen {
    fn verdict(&mut self, whole: &Whole<'_>, file: Option<&str>) {
        let verdict = Verdict::of_whole(whole);
        let most = verdict.most_to_gain();
        let said: Vec<String> = [verdict.sentence()].into_iter().chain(most).collect();
        self.paragraph(&said.join(" "), Paint::Heading);
        if whole.calls() > 0 {
            self.paragraph(&verdict.next(whole.profile, file), Paint::Plain);
        }
        self.gap();
        let command = cut(&visible(&shell(&whole.profile.command)), self.style.width);
        self.line(&command, Paint::Plain);
        self.paragraph(&ended(whole.profile), Paint::Faint);
        self.gap();
    }

    fn facts(&mut self, whole: &Whole<'_>) {
        for fact in facts::facts(whole) {
            let room = self.style.width - NAMES;
            let said = cut_words(&visible(&fact.said), room);
            for (at, line) in wrapped(&said, room).into_iter().enumerate() {
                let name = if at == 0 { fact.name } else { "" };
                let name = padded(name, NAMES);
                self.lines.push(format!("{name}{line}"));
            }
        }
        self.gap();
    }

    fn processes(&mut self, profile: &Profile) {
        if profile.processes.len() < 2 {
            return;
        }
        let mut processes: Vec<&Process> = profile.processes.iter().collect();
        processes.sort_by_key(|it| Reverse(it.counts.requested_bytes));
        let others = processes.split_off(processes.len().min(self.rows.processes));
        let name = |process: &&Process| facts::process_name(process);
        let figures: Vec<_> = processes
            .iter()
            .map(|it| facts::process_figures(it))
            .collect();
        let columns = (0..figures[0].len()).map(|at| {
            let cells = figures.iter().map(|row| row[at].1.clone()).collect();
            (figures[0][at].0, cells)
        });
        let names = processes.iter().map(name).collect();
        self.table("process", names, columns.collect());
        self.others(others.len(), "process");
        self.gap();
    }

    fn histograms(&mut self, whole: &Whole<'_>) {
        let (counts, not_freed) = (&whole.counts, whole.live_at_end.blocks);
        let sizes = histogram::sizes(counts, self.rows.bars);
        let lifetimes = histogram::lifetimes(counts, not_freed, self.rows.bars);
        if sizes.is_empty() && lifetimes.is_empty() {
            return;
        }
        let (widest, narrowest) = BAR;
        let side_by_side = (narrowest..=widest).rev().find_map(|bar| {
            let (one, other) = (bars("size", &sizes, bar), bars("lifetime", &lifetimes, bar));
            let needed = width_of(&one) + BETWEEN.width() + width_of(&other);
            (needed <= self.style.width).then_some((one, other))
        });
        if let Some((one, other)) = side_by_side {
            let (left, right) = (width_of(&one), width_of(&other));
            let (mut sizes, mut lifetimes) = (one.into_iter(), other.into_iter());
            let heading = (sizes.next(), lifetimes.next());
            let side_by_side = |(one, other): (Option<String>, Option<String>)| {
                let one = padded(&one.unwrap_or_default(), if right == 0 { 0 } else { left });
                let between = if left == 0 { "" } else { BETWEEN };
                format!("{one}{between}{}", other.unwrap_or_default())
            };
            self.line(&side_by_side(heading), Paint::Heading);
            for _ in 0..sizes.len().max(lifetimes.len()) {
                let line = side_by_side((sizes.next(), lifetimes.next()));
                self.line(&line, Paint::Plain);
            }
            self.gap();
            return;
        }
        self.histogram("size", &sizes);
        self.histogram("lifetime", &lifetimes);
    }

    /// A histogram that is not beside another.
    fn histogram(&mut self, heading: &str, all: &[Bar]) {
        let mut lines = self.narrow_bars(heading, all).into_iter();
        if let Some(heading) = lines.next() {
            self.line(&heading, Paint::Heading);
        }
        lines.for_each(|line| self.line(&line, Paint::Plain));
        self.gap();
    }

    /// The lifetimes once more, in allocations: they do not depend on how fast the machine is.
    fn lifetimes_in_allocations(&mut self, whole: &Whole<'_>) {
        if !self.style.verbose {
            return;
        }
        let (counts, not_freed) = (&whole.counts, whole.live_at_end.blocks);
        let bars = histogram::lifetimes_in_allocations(counts, not_freed, self.rows.bars);
        self.histogram("lifetime in allocations", &bars);
    }

    /// A histogram without what finds no room.
    fn narrow_bars(&self, heading: &str, all: &[Bar]) -> Vec<String> {
        let without_rounding = all.iter().cloned().map(|bar| Bar {
            rounding: None,
            ..bar
        });
        let without_rounding: Vec<Bar> = without_rounding.collect();
        let (widest, narrowest) = BAR;
        let complete = (narrowest..=widest)
            .rev()
            .map(|bar| bars(heading, all, bar));
        let others = [narrowest, 0].map(|bar| bars(heading, &without_rounding, bar));
        let mut layouts = complete.chain(others);
        let room = self.style.width;
        let fitting = layouts.find(|lines| width_of(lines) <= room);
        fitting.unwrap_or_else(|| {
            let lines = bars(heading, &without_rounding, 0);
            lines.iter().map(|line| cut(line, room)).collect()
        })
    }

    fn threads(&mut self, whole: &Whole<'_>) {
        if whole.threads.len() < 2 {
            return;
        }
        let shown = &whole.threads[..whole.threads.len().min(self.rows.threads)];
        let several = whole.profile.processes.len() > 1;
        let name = |(process, thread): &(&Process, &Thread)| {
            let name = thread.name.as_deref().unwrap_or("");
            match several {
                true => format!("{} {name} (process {})", thread.tid, process.pid),
                false => format!("{} {name}", thread.tid),
            }
        };
        let column = |figure: fn(&Thread) -> String| {
            let cells = shown.iter().map(|(_, thread)| figure(thread));
            cells.collect::<Vec<_>>()
        };
        let columns = vec![
            ("blocks", column(|it| grouped(it.allocated.blocks))),
            ("allocated", column(|it| bytes(it.allocated.bytes as f64))),
            ("freed blocks", column(|it| grouped(it.freed.blocks))),
            ("of others", column(|it| grouped(it.freed_of_others.blocks))),
        ];
        self.table("thread", shown.iter().map(name).collect(), columns);
        self.others(whole.threads.len() - shown.len(), "thread");
        self.gap();
    }

    fn sites(&mut self, whole: &Whole<'_>) {
        let stacks = Stacks::of(whole);
        let all = stacks.bytes();
        let sites = stacks.call_sites();
        if sites.is_empty() {
            return;
        }
        let shown = &sites[..sites.len().min(self.rows.sites)];
        let part = |site: &CallSite<'_>| percent(if all > 0.0 { site.bytes / all } else { 0.0 });
        let columns = vec![
            ("part", shown.iter().map(part).collect()),
            ("about", shown.iter().map(|it| bytes(it.bytes)).collect()),
            (
                "blocks",
                shown.iter().map(|it| grouped(it.blocks as u64)).collect(),
            ),
            (
                "not freed",
                shown.iter().map(|it| bytes(it.live_bytes)).collect(),
            ),
        ];
        let columns: Vec<(&str, Vec<String>)> = columns;
        self.table("call site", shown.iter().map(site_name).collect(), columns);
        self.others(sites.len() - shown.len(), "call site");
        self.gap();
    }

    fn lost(&mut self, whole: &Whole<'_>) {
        let width = self.style.width;
        for sentence in facts::lost(&whole.lost) {
            self.paragraph(&format!("warning: {sentence}"), Paint::Plain);
        }
        let unseen = &whole.profile.unseen;
        for program in unseen.iter().take(self.rows.unseen) {
            let sentence = format!("warning: {}", facts::unseen(program));
            self.paragraph(&cut_words(&visible(&sentence), width), Paint::Plain);
        }
        self.others(unseen.len().saturating_sub(self.rows.unseen), "program");
    }

    /// A table of which the names are cut to the room that the figures leave.
    fn table(&mut self, heading: &str, names: Vec<String>, columns: Vec<(&str, Vec<String>)>) {
        let Style { width, colour, .. } = self.style;
        let columns: Vec<Column> = columns
            .into_iter()
            .map(|(heading, cells)| Column {
                heading: heading.to_owned(),
                cells: cells.into_iter().map(Cell::plain).collect(),
            })
            .collect();
        let groups: Vec<Group> = columns
            .into_iter()
            .map(|column| Group {
                columns: vec![column],
            })
            .collect();
        let taken: usize = groups.iter().map(Group::width).sum();
        let room = match width.saturating_sub(taken) {
            room if room >= 20 => room,
            _ => 20,
        };
        let name = |name: String| RowName {
            name: cut(visible(&name).trim_end(), room),
            notes: Vec::new(),
        };
        let table = Table {
            heading: heading.to_owned(),
            rows: names.into_iter().map(name).collect(),
            groups,
        };
        self.lines.extend(table.lines(width, colour));
    }

    fn others(&mut self, count: usize, noun: &str) {
        if count > 0 {
            let others = reheap_bench::figures::count(count, &format!("other {noun}"));
            let how = if self.style.verbose {
                ""
            } else {
                "; --verbose shows more"
            };
            self.paragraph(&format!("{others}{how}"), Paint::Faint);
        }
    }

    fn line(&mut self, text: &str, paint: Paint) {
        let line = paint.on(text.trim_end(), self.style.colour);
        self.lines.push(line);
    }

    fn paragraph(&mut self, text: &str, paint: Paint) {
        let text = cut_words(&visible(text), self.style.width);
        for line in wrapped(&text, self.style.width) {
            self.line(&line, paint);
        }
    }

    fn gap(&mut self) {
        if self.lines.last().is_some_and(|line| !line.is_empty()) {
            self.lines.push(String::new());
        }
    }
}

fn width_of(lines: &[String]) -> usize {
    lines.iter().map(|line| line.width()).max().unwrap_or(0)
}

/// A histogram: a heading and a line for each bar; nothing without bars.
fn bars(heading: &str, all: &[Bar], width: usize) -> Vec<String> {
    if all.is_empty() {
        return Vec::new();
    }
    let counts: Vec<String> = all.iter().map(|it| grouped(it.blocks)).collect();
    let ranges = all.iter().map(|it| it.range.width());
    let for_ranges = ranges.max().unwrap_or(0).max(heading.width());
    let for_counts = counts.iter().map(|it| it.width()).max().unwrap_or(0);
    let for_counts = for_counts.max("blocks".len());
    let has_rounding = all.iter().any(|it| it.rounding.is_some());
    let most = all.iter().map(|it| it.share).fold(0.0, f64::max);
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
        let rounding = match has_rounding {
            true => format!("  {rounding:>8}"),
            false => String::new(),
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

/// The function, its place, and who called it.
fn site_name(site: &CallSite<'_>) -> String {
    let place = site
        .place()
        .map_or_else(String::new, |it| format!(" ({it})"));
    let function = short_function(site.function(), 40);
    let callers = site.callers.iter().take(3);
    let callers: String = callers
        .map(|frame| format!(" ← {}", short_function(&frame.function, 24)))
        .collect();
    format!("{function}{place}{callers}")
}

/// The text with no more columns than this; what is missing at its end is an ellipsis.
fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut short = String::new();
    let mut used = 1;
    for character in text.chars() {
        used += character.width().unwrap_or(0);
        if used > width {
            break;
        }
        short.push(character);
    }
    short.push('…');
    short
}

/// The text with no word that is wider than this.
fn cut_words(text: &str, width: usize) -> String {
    let words: Vec<String> = text.split(' ').map(|word| cut(word, width)).collect();
    words.join(" ")
}
