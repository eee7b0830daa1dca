//! A profile in a terminal: one screen, the verdict first.

use crate::escape::{shell, visible};
use crate::profile::bars::histograms;
use crate::profile::facts::{self, ended};
use crate::profile::number::grouped;
use crate::profile::screen::{Screen, cut, lines};
use crate::profile::sites::{CallSite, Stacks, short_function};
use crate::profile::verdict::Verdict;
use crate::profile::whole::Whole;
use crate::text::{Paint, Style, padded};
use reheap_bench::figures::{bytes, percent};
use reheap_profile::profile::{Process, Profile, Thread};
use std::cmp::Reverse;

/// As wide as the names of facts.
const NAMES: usize = 11;

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
    let whole = Whole::of(profile);
    let rows = match whole.threads.len().max(profile.processes.len()) {
        _ if style.verbose => VERBOSE,
        0 | 1 => ONE_SCREEN,
        _ => CROWDED,
    };
    let mut text = Text {
        screen: Screen::new(style),
        rows,
    };
    text.verdict(&whole, file);
    text.facts(&whole);
    text.processes(profile);
    histograms(&mut text.screen, &whole, rows.bars);
    text.threads(&whole);
    text.sites(&whole);
    text.lost(&whole);
    text.screen.finish()
}

struct Text {
    screen: Screen,
    rows: Rows,
}

impl Text {
    fn verdict(&mut self, whole: &Whole<'_>, file: Option<&str>) {
        let verdict = Verdict::of_whole(whole);
        let most = verdict.most_to_gain();
        let said: Vec<String> = [verdict.sentence()].into_iter().chain(most).collect();
        self.screen.paragraph(&said.join(" "), Paint::Heading);
        if whole.calls() > 0 {
            self.screen
                .paragraph(&verdict.next(whole.profile, file), Paint::Plain);
        }
        self.screen.gap();
        let command = cut(
            &visible(&shell(&whole.profile.command)),
            self.screen.style.width,
        );
        self.screen.line(&command, Paint::Plain);
        self.screen.paragraph(&ended(whole.profile), Paint::Faint);
        self.screen.gap();
    }

    fn facts(&mut self, whole: &Whole<'_>) {
        for fact in facts::facts(whole) {
            let room = self.screen.style.width - NAMES;
            for (at, line) in lines(&fact.said, room).into_iter().enumerate() {
                let name = if at == 0 { fact.name } else { "" };
                let name = padded(name, NAMES);
                self.screen.lines.push(format!("{name}{line}"));
            }
        }
        self.screen.gap();
    }

    fn processes(&mut self, profile: &Profile) {
        if profile.processes.len() < 2 {
            return;
        }
        let mut processes: Vec<&Process> = profile.processes.iter().collect();
        processes.sort_by_key(|process| Reverse(process.counts.requested_bytes));
        let others = processes.split_off(processes.len().min(self.rows.processes));
        let name = |process: &&Process| facts::process_name(process);
        let figures: Vec<_> = processes
            .iter()
            .map(|process| facts::process_figures(process))
            .collect();
        let columns = (0..figures[0].len()).map(|at| {
            let cells = figures.iter().map(|row| row[at].1.clone()).collect();
            (figures[0][at].0, cells)
        });
        let names = processes.iter().map(name).collect();
        self.screen.table("process", names, columns.collect());
        self.screen.others(others.len(), "process");
        self.screen.gap();
    }

    fn threads(&mut self, whole: &Whole<'_>) {
        if whole.threads.len() < 2 {
            return;
        }
        let shown = &whole.threads[..whole.threads.len().min(self.rows.threads)];
        let several = whole.profile.processes.len() > 1;
        let name = |(process, thread): &(&Process, &Thread)| {
            let name = facts::thread_name(thread);
            if several {
                format!("{name} (process {})", process.pid)
            } else {
                name
            }
        };
        let column = |figure: fn(&Thread) -> String| {
            let cells = shown.iter().map(|(_, thread)| figure(thread));
            cells.collect::<Vec<_>>()
        };
        let columns = vec![
            ("blocks", column(|thread| grouped(thread.allocated.blocks))),
            (
                "allocated",
                column(|thread| bytes(thread.allocated.bytes as f64)),
            ),
            (
                "freed blocks",
                column(|thread| grouped(thread.freed.blocks)),
            ),
            (
                "of others",
                column(|thread| grouped(thread.freed_of_others.blocks)),
            ),
        ];
        self.screen
            .table("thread", shown.iter().map(name).collect(), columns);
        self.screen
            .others(whole.threads.len() - shown.len(), "thread");
        self.screen.gap();
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
            (
                "about",
                shown.iter().map(|site| bytes(site.bytes)).collect(),
            ),
            (
                "blocks",
                shown
                    .iter()
                    .map(|site| grouped(site.blocks as u64))
                    .collect(),
            ),
            (
                "not freed",
                shown.iter().map(|site| bytes(site.live_bytes)).collect(),
            ),
        ];
        let columns: Vec<(&str, Vec<String>)> = columns;
        let heading = format!(
            "call site, estimated from {} stacks",
            grouped(stacks.samples())
        );
        self.screen
            .table(&heading, shown.iter().map(site_name).collect(), columns);
        self.screen.others(sites.len() - shown.len(), "call site");
        self.screen.gap();
    }

    fn lost(&mut self, whole: &Whole<'_>) {
        for sentence in facts::lost(whole) {
            self.screen
                .paragraph(&format!("warning: {sentence}"), Paint::Plain);
        }
        let unseen = &whole.profile.unseen;
        for program in unseen.iter().take(self.rows.unseen) {
            let sentence = format!("warning: {}", facts::unseen(program));
            self.screen.paragraph(&sentence, Paint::Plain);
        }
        self.screen
            .others(unseen.len().saturating_sub(self.rows.unseen), "program");
    }
}

/// The function, its place, and who called it.
fn site_name(site: &CallSite<'_>) -> String {
    let place = site
        .place()
        .map_or_else(String::new, |note| format!(" ({note})"));
    let function = short_function(site.function(), 40);
    let callers: String = site
        .callers
        .iter()
        .take(3)
        .map(|frame| format!(" ← {}", short_function(&frame.function, 24)))
        .collect();
    format!("{function}{place}{callers}")
}
