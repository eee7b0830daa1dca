//! Shows how far a measurement is: a bar on a terminal, lines in a log.

mod failures;

use failures::Failures;
use indicatif::{ProgressBar, ProgressStyle};
use reheap_bench::experiment::{Plan, Progress, Stage, Standing, Watch};
use reheap_bench::figures;
use reheap_bench::outlook::{ExpectedEnd, duration};
use reheap_bench::results::Settings;
use reheap_bench::rounds::ROUNDS_BEFORE_PRECISE;
use reheap_bench::run::Finished;
use reheap_bench::server::{Load, Waiting};
use reheap_command::pulse::{self, Pulse};
use reheap_command::ui;
use std::time::{Duration, Instant};

/// Progress of one comparison.
pub(crate) struct Bar {
    bar: ProgressBar,
    pulse: Pulse,
    settings: Settings,
    /// What is compared with.
    baseline: String,
    began: Instant,
    /// When it ends, if that is known.
    ends: Option<Instant>,
    /// How it stands, as a part of a sentence.
    standing: String,
    /// The run that began last.
    under_way: Option<CurrentRun>,
    /// Whether it was said how small a difference will be seen.
    said_visible: bool,
    failures: Failures,
}

impl Bar {
    pub(crate) fn new(plan: &Plan) -> Bar {
        let bar = bar(plan);
        let description = describe(plan);
        if bar.is_hidden() {
            ui::note(&description);
        }
        Bar {
            pulse: Pulse::start(&bar, move || description.clone()),
            bar,
            settings: plan.settings.clone(),
            baseline: plan.variants[0].name.clone(),
            began: Instant::now(),
            ends: None,
            standing: String::new(),
            under_way: None,
            said_visible: false,
            failures: Failures::new(plan),
        }
    }

    /// Removes the bar.
    pub(crate) fn finish(self) {
        drop(self.pulse); // it would draw the bar again
        self.bar.finish_and_clear();
    }

    fn expect(&mut self, end: &ExpectedEnd) {
        self.ends = Instant::now().checked_add(end.left);
    }

    fn say(&self, text: &str) {
        self.bar.suspend(|| ui::note(text));
    }

    /// When it ends, at the latest; none if that is not known.
    fn end(&self) -> Option<(Instant, Bound)> {
        let of_budget = || {
            let is_limited = self.settings.rounds.is_none();
            let end = is_limited.then(|| self.began.checked_add(self.settings.budget()))?;
            Some((end?, Bound::AtMost))
        };
        let expected = self.ends.map(|end| (end, Bound::About));
        expected.or_else(of_budget)
    }
}

impl Watch for Bar {
    fn run_begins(&mut self, progress: &Progress<'_>) {
        let under_way = CurrentRun {
            began: Instant::now(),
            end: self.end(),
            stage: match (progress.stage, self.settings.rounds) {
                (Stage::WarmUp, _) => "warm-up".to_owned(),
                (Stage::Round(round), Some(rounds)) => format!("round {} of {rounds}", round + 1),
                (Stage::Round(round), None) => format!("round {}", round + 1),
            },
            variant: progress.variant.to_owned(),
            standing: self.standing.clone(),
        };
        if let Some((end, _)) = under_way.end {
            let all = end - self.began;
            let share = self.began.elapsed().as_secs_f64() / all.as_secs_f64().max(1e-9);
            self.bar.set_position((share.min(1.0) * 1000.0) as u64);
        }
        self.under_way = Some(under_way.clone());
        self.pulse.now(move || under_way.said());
    }

    fn rounds_begin(&mut self, end: &ExpectedEnd, candidates: usize) {
        let variants = figures::count(candidates + 1, "variant");
        let rounds = figures::count(end.rounds, "round");
        let left = duration(end.left);
        if self.settings.rounds.is_some() {
            self.expect(end);
        }
        self.say(&match self.settings.rounds {
            Some(1) => format!("{rounds} of {variants} takes about {left}"),
            Some(_) => format!("{rounds} of {variants} take about {left}"),
            None if end.rounds <= ROUNDS_BEFORE_PRECISE => {
                format!("{variants}; {left} are enough for about {rounds}")
            }
            None => {
                let precision = figures::percent(self.settings.precision);
                format!(
                    "{variants}; it ends when each interval is narrower than {precision}, or after {left} and about \
                     {rounds}"
                )
            }
        });
    }

    fn standing(&mut self, standing: &Standing<'_>) {
        self.expect(&standing.end);
        self.standing = match standing.leader {
            Some((leader, ratio)) => {
                let ratio = figures::number(ratio);
                format!("best so far: {leader}, {ratio} of {}", self.baseline)
            }
            None => format!("best so far: {}", self.baseline),
        };
        let end = &standing.end;
        let Some(visible) = standing.visible else {
            return;
        };
        if self.said_visible || standing.rounds >= end.rounds {
            return;
        }
        self.said_visible = true;
        // The width of an interval falls with the root of the number of rounds.
        let at_the_end = visible * (standing.rounds as f64 / end.rounds as f64).sqrt();
        self.say(&format!(
            "after {}, differences above about {} can be seen; at the end, after about {} more, above about {}",
            figures::count(standing.rounds, "round"),
            figures::percent(visible),
            duration(end.left),
            figures::percent(at_the_end)
        ));
    }

    fn left(&mut self, variant: &str, reason: &str) {
        self.say(&format!("{variant}: {reason}"));
    }

    /// A figure comes from many runs, so what one of them printed about its failure is lost unless reheap prints it
    /// now.
    fn run_ended(&mut self, progress: &Progress<'_>, finished: &Finished) {
        for text in self.failures.metrics_without_number(progress, finished) {
            self.say(&text);
        }
        if let Some(text) = self.failures.of_run(progress, finished) {
            self.say(&text);
        }
    }

    fn waits_for_server(&mut self, load: &Load, waiting: Waiting) {
        let Some(under_way) = self.under_way.clone() else {
            return; // only a run waits
        };
        match waiting {
            Waiting::Since(began) => {
                let what = format!("{}: {}", under_way.variant, waiting_for(load));
                self.pulse.now(pulse::so_far(&what, began));
            }
            Waiting::Over => self.pulse.now(move || under_way.said()),
        }
    }
}

/// How well an end is known.
#[derive(Clone, Copy)]
enum Bound {
    AtMost,
    About,
}

/// A run, and what is known meanwhile.
#[derive(Clone)]
struct CurrentRun {
    began: Instant,
    end: Option<(Instant, Bound)>,
    stage: String,
    variant: String,
    standing: String,
}

/// What is left is not said if it is less.
const SHORTEST_LEFT: Duration = Duration::from_millis(100);
/// A run that takes longer is said to be under way.
const LONG_RUN: Duration = Duration::from_secs(2);

impl CurrentRun {
    /// What matters most comes first, because a narrow terminal cuts the end.
    fn said(&self) -> String {
        let since = self.began.elapsed();
        let mut said = String::new();
        if let Some((end, bound)) = self.end {
            let left = end.saturating_duration_since(Instant::now());
            let at_most = match bound {
                Bound::AtMost => "at most ",
                Bound::About => "",
            };
            if left >= SHORTEST_LEFT {
                said.push_str(&format!("{at_most}{} left; ", duration(left)));
            }
        }
        said.push_str(&self.stage);
        if since >= LONG_RUN || self.standing.is_empty() {
            said.push_str(&format!(", {}", self.variant));
        }
        if since >= LONG_RUN {
            said.push_str(&format!(" runs for {}", duration(since)));
        }
        if !self.standing.is_empty() {
            said.push_str(&format!("; {}", self.standing));
        }
        said
    }
}

/// What reheap waits for when a server needs some seconds.
pub(crate) fn waiting_for(load: &Load) -> String {
    format!(
        "waiting for the server, at most {} s (--ready-within): {}",
        load.ready_within.as_secs_f64(),
        load.ready.missing()
    )
}

fn bar(plan: &Plan) -> ProgressBar {
    let template = "{spinner} {bar:12} {prefix}{wide_msg}";
    let style = ProgressStyle::with_template(template)
        .expect("the template has only known keys")
        .progress_chars("━╸─");
    let bar = ProgressBar::new(1000)
        .with_style(style)
        .with_prefix(conditions(plan));
    if !bar.is_hidden() {
        bar.enable_steady_tick(pulse::TICK);
    }
    bar
}

fn describe(plan: &Plan) -> String {
    let count = plan.variants.len() - 1; // the copy of the baseline is not one to choose
    let what = format!("measuring {}", figures::count(count, "variant"));
    let rounds = plan.settings.rounds.map_or_else(String::new, |rounds| {
        format!(", {}", figures::count(rounds, "round"))
    });
    match conditions(plan).as_str() {
        "" => format!("{what}{rounds}"),
        conditions => format!("{}: {what}{rounds}", conditions.trim_end_matches("; ")),
    }
}

/// The values of a sweep, and the memory limit: `n = 4; within 64 MiB; `. Nothing without them.
fn conditions(plan: &Plan) -> String {
    let values = plan.parameters.iter();
    let values = values.map(|(name, value)| format!("{name} = {value}; "));
    let limit = plan.memory_limit_bytes.map(|bytes| {
        let mebibytes = bytes as f64 / f64::from(1 << 20);
        format!("within {mebibytes:.0} MiB; ")
    });
    values.chain(limit).collect()
}
