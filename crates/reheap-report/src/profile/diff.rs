//! What changed between two profiles: figures, the largest relative changes first, and call sites.
//!
//! Counts are exact, so any change of them is one. Call sites are estimates from samples: one is called changed only if
//! the change is larger than twice its standard error.

use crate::escape::{shell, visible};
use crate::profile::figure::{FIGURES, Figure, Unit};
use crate::profile::screen::{Screen, cut};
use crate::profile::sites::{CallSite, Stacks, place, short_function};
use crate::profile::whole::Whole;
use crate::text::{Paint, Style};
use reheap_bench::figures::{bytes, number, percent};
use reheap_profile::profile::{Frame, Profile};
use serde::Serialize;
use std::collections::BTreeMap;

/// The version of the JSON.
const FORMAT: u32 = 1;
/// Call sites that a terminal shows, and with `verbose`.
const SITES_MAX: (usize, usize) = (10, 100);
/// A change of an estimate is one if it is larger than this many of its standard errors.
const ERRORS: f64 = 2.0;

/// What changed.
#[derive(Serialize)]
struct Difference {
    format: u32,
    old: Source,
    new: Source,
    /// Those that changed, the largest change first.
    figures: Vec<Change>,
    /// Names of figures that are the same.
    same: Vec<&'static str>,
    /// Those that changed, the largest change in bytes first.
    call_sites: Vec<SiteChange>,
}

/// What was compared.
#[derive(Serialize)]
struct Source {
    command: Vec<String>,
    seconds: f64,
}

#[derive(Serialize)]
struct Change {
    name: &'static str,
    #[serde(skip)]
    figure: &'static Figure,
    unit: &'static str,
    old: f64,
    new: f64,
    /// `new / old`; none if the old one is zero.
    ratio: Option<f64>,
}

#[derive(Serialize)]
struct SiteChange {
    function: String,
    place: Option<String>,
    old_bytes: f64,
    new_bytes: f64,
    old_blocks: f64,
    new_blocks: f64,
}

/// What changed from one profile to another, for a terminal.
pub fn diff_text(old: &Profile, new: &Profile, style: Style) -> String {
    let difference = Difference::of(old, new);
    let mut screen = Screen::new(style);
    screen.paragraph(&difference.sentence(), Paint::Heading);
    screen.gap();
    difference.show_sources(&mut screen);
    difference.show_figures(&mut screen);
    difference.show_sites(&mut screen);
    screen.finish()
}

/// The difference of two profiles as JSON.
pub fn diff_json(old: &Profile, new: &Profile) -> String {
    let difference = Difference::of(old, new);
    let mut text = serde_json::to_string_pretty(&difference).expect("all keys are strings");
    text.push('\n');
    text
}

impl Difference {
    fn of(old: &Profile, new: &Profile) -> Difference {
        let source = |profile: &Profile| Source {
            command: profile.command.clone(),
            seconds: profile.seconds,
        };
        let (old_whole, new_whole) = (Whole::of(old), Whole::of(new));
        let mut figures = Vec::new();
        let mut same = Vec::new();
        for figure in &FIGURES {
            let values = figure.of(&old_whole).zip(figure.of(&new_whole));
            match values {
                None => {}
                Some((old, new)) if old == new => same.push(figure.name),
                Some((old, new)) => figures.push(Change::of(figure, old, new)),
            }
        }
        figures.sort_by(|one, other| other.weight().total_cmp(&one.weight()));
        Difference {
            format: FORMAT,
            old: source(old),
            new: source(new),
            figures,
            same,
            call_sites: changed_sites(&old_whole, &new_whole),
        }
    }

    /// The three largest changes.
    fn sentence(&self) -> String {
        let largest = self.figures.iter().take(3);
        let said: Vec<String> = largest.map(Change::in_words).collect();
        if said.is_empty() {
            "All figures are the same.".to_owned()
        } else {
            format!("{}.", crate::words::capitalised(&said.join("; ")))
        }
    }

    fn show_sources(&self, screen: &mut Screen) {
        for (name, source) in [("old", &self.old), ("new", &self.new)] {
            let time = reheap_bench::figures::seconds(source.seconds);
            let line = format!("{name}: {} ({time})", shell(&source.command));
            let line = cut(&visible(&line), screen.style.width);
            screen.line(&line, Paint::Faint);
        }
        screen.gap();
    }

    fn show_figures(&self, screen: &mut Screen) {
        let said = |value: fn(&Change) -> f64| {
            let cells = self.figures.iter();
            cells
                .map(|row| row.figure.said(value(row)))
                .collect::<Vec<_>>()
        };
        let names = self.figures.iter().map(|row| row.figure.noun.to_owned());
        let columns = vec![
            ("old", said(|row| row.old)),
            ("new", said(|row| row.new)),
            ("change", self.figures.iter().map(Change::said).collect()),
        ];
        if !self.figures.is_empty() {
            screen.table("figure", names.collect(), columns);
        }
        if !self.same.is_empty() && !self.figures.is_empty() {
            let count = reheap_bench::figures::count(self.same.len(), "figure");
            let verb = if self.same.len() == 1 { "is" } else { "are" };
            screen.paragraph(&format!("{count} {verb} the same"), Paint::Faint);
        }
        screen.gap();
    }

    fn show_sites(&self, screen: &mut Screen) {
        let (few, many) = SITES_MAX;
        let count = if screen.style.verbose { many } else { few };
        let shown = &self.call_sites[..self.call_sites.len().min(count)];
        if shown.is_empty() {
            return;
        }
        let name = |site: &SiteChange| {
            let function = short_function(&site.function, 60);
            match &site.place {
                Some(place) => format!("{function} ({place})"),
                None => function,
            }
        };
        let change = |site: &SiteChange| {
            let change = site.new_bytes - site.old_bytes;
            let sign = if change < 0.0 { "-" } else { "+" };
            format!("{sign}{}", bytes(change.abs()))
        };
        let columns = vec![
            (
                "old",
                shown.iter().map(|site| bytes(site.old_bytes)).collect(),
            ),
            (
                "new",
                shown.iter().map(|site| bytes(site.new_bytes)).collect(),
            ),
            ("change", shown.iter().map(change).collect()),
        ];
        screen.table("call site", shown.iter().map(name).collect(), columns);
        screen.others(self.call_sites.len() - shown.len(), "call site");
    }
}

impl Change {
    fn of(figure: &'static Figure, old: f64, new: f64) -> Change {
        Change {
            name: figure.name,
            figure,
            unit: match figure.unit {
                Unit::Count => "count",
                Unit::Bytes => "bytes",
                Unit::Seconds => "seconds",
                Unit::Share => "share",
            },
            old,
            new,
            ratio: (old > 0.0).then(|| new / old),
        }
    }

    /// How large it is, as growth and decrease alike; from or to nothing is the largest.
    fn weight(&self) -> f64 {
        match self.ratio {
            Some(ratio) if ratio > 0.0 => ratio.ln().abs(),
            _ => f64::INFINITY,
        }
    }

    /// `+12 %`, `× 3.40`, `from 0`.
    fn said(&self) -> String {
        match self.ratio {
            None => "from 0".to_owned(),
            Some(ratio) if reheap_bench::figures::is_said_in_times(ratio) => {
                format!("× {}", number(ratio))
            }
            Some(ratio) => {
                let sign = if ratio > 1.0 { "+" } else { "-" };
                format!("{sign}{}", percent((ratio - 1.0).abs()))
            }
        }
    }

    fn in_words(&self) -> String {
        let noun = self.figure.noun;
        match self.ratio {
            None => format!("{noun}: {}, before 0", self.figure.said(self.new)),
            Some(ratio) => reheap_bench::figures::change_of(noun, ratio),
        }
    }
}

/// A call site is the same one if its function and module are: lines move with every edit.
type Key<'a> = Option<(&'a str, Option<&'a str>)>;

/// What is known of a call site in both profiles: bytes with their standard error, and blocks.
#[derive(Default)]
struct Both<'a> {
    frame: Option<&'a Frame>,
    bytes: [f64; 2],
    bytes_error: [f64; 2],
    blocks: [f64; 2],
}

fn changed_sites(old: &Whole<'_>, new: &Whole<'_>) -> Vec<SiteChange> {
    // Without stacks of both, there is nothing to compare.
    if old.profile.every_bytes.is_none() || new.profile.every_bytes.is_none() {
        return Vec::new();
    }
    let (old, new) = (Stacks::of(old).call_sites(), Stacks::of(new).call_sites());
    let mut all: BTreeMap<Key<'_>, Both<'_>> = BTreeMap::new();
    for (side, sites) in [&old, &new].into_iter().enumerate() {
        for site in sites {
            let both = all.entry(key(site)).or_default();
            both.frame = site.frame;
            both.bytes[side] += site.bytes;
            both.blocks[side] += site.blocks;
            both.bytes_error[side] = both.bytes_error[side].hypot(site.bytes_error);
        }
    }
    let mut changed: Vec<Both<'_>> = all.into_values().filter(Both::is_beyond_chance).collect();
    changed.sort_by(|one, other| other.change().total_cmp(&one.change()));
    changed.iter().map(Both::told).collect()
}

fn key<'a>(site: &CallSite<'a>) -> Key<'a> {
    let frame = site.frame?;
    Some((&frame.function, frame.module.as_deref()))
}

impl Both<'_> {
    fn change(&self) -> f64 {
        (self.bytes[1] - self.bytes[0]).abs()
    }

    fn is_beyond_chance(&self) -> bool {
        let [old, new] = self.bytes_error;
        self.change() > ERRORS * old.hypot(new)
    }

    fn told(&self) -> SiteChange {
        SiteChange {
            function: self.frame.map_or("?", |frame| &frame.function).to_owned(),
            place: self.frame.and_then(place),
            old_bytes: self.bytes[0],
            new_bytes: self.bytes[1],
            old_blocks: self.blocks[0],
            new_blocks: self.blocks[1],
        }
    }
}
