//! Shows how far a measurement is: a bar on a terminal, one line for each comparison elsewhere.

use crate::bench::last_words;
use crate::ui;
use indicatif::{ProgressBar, ProgressStyle};
use reheap_bench::analysis::ended;
use reheap_bench::experiment::{Plan, Progress, Stage, Standing, Watch};
use reheap_bench::figures;
use reheap_bench::outlook::{Forecast, duration};
use reheap_bench::results::{Outcome, Settings};
use reheap_bench::run::Finished;
use reheap_bench::server::Load;
use std::collections::BTreeSet;
use std::io::IsTerminal as _;
use std::time::Duration;

/// Where nothing moves, a line is printed after so long, then after twice as long, and at least so often.
const FIRST_LINE: Duration = Duration::from_secs(2);
const LINE_AT_LEAST_EVERY: Duration = Duration::from_secs(10);

/// Progress of one comparison.
pub(crate) struct Bar {
    bar: ProgressBar,
    settings: Settings,
    /// What is compared with.
    baseline: String,
    /// What is known before the first round.
    forecast: Option<Forecast>,
    /// How it stands, as a part of a sentence.
    standing: String,
    /// When the next line is due, where there is no terminal.
    next_line: Duration,
    /// Whether it was said how small a difference will be seen.
    said_visible: bool,
    /// What the first run of the baseline leads to expect.
    expected: Option<Outcome>,
    /// The variants whose failure was already reported.
    told: BTreeSet<String>,
    /// The metrics of which it was already told that they match no number.
    told_metrics: BTreeSet<String>,
    was_told_to_wait: bool,
}

impl Bar {
    pub(crate) fn new(plan: &Plan) -> Bar {
        let what = describe(plan);
        let bar = if std::io::stderr().is_terminal() {
            spinning(plan)
        } else {
            ui::note(&what);
            ProgressBar::hidden()
        };
        Bar {
            bar,
            settings: plan.settings.clone(),
            baseline: plan.variants[0].name.clone(),
            forecast: None,
            standing: String::new(),
            next_line: FIRST_LINE,
            said_visible: false,
            expected: None,
            told: BTreeSet::new(),
            told_metrics: BTreeSet::new(),
            was_told_to_wait: false,
        }
    }

    /// Removes the bar.
    pub(crate) fn finish(self) {
        self.bar.finish_and_clear();
    }

    fn say(&self, text: &str) {
        self.bar.suspend(|| ui::note(text));
    }

    /// What is left of the time, and the share of it that is gone.
    fn time_left(&self, progress: &Progress<'_>) -> Option<(Duration, f64)> {
        let all = match (self.settings.rounds, &self.forecast) {
            (Some(rounds), Some(forecast)) => forecast.round * (rounds as u32 + 1),
            (Some(_), None) => return None,
            (None, _) => self.settings.budget(),
        };
        let share = progress.elapsed.as_secs_f64() / all.as_secs_f64().max(1e-9);
        Some((all.saturating_sub(progress.elapsed), share.min(1.0)))
    }

    /// How many rounds there will be, as far as it is known.
    fn rounds_at_the_end(&self) -> Option<usize> {
        self.settings.rounds.or(Some(self.forecast?.rounds))
    }
}

impl Bar {
    /// An expression that matches the wrong place would otherwise look like one that matches nothing.
    fn tell_metrics_without_number(&mut self, progress: &Progress<'_>, finished: &Finished) {
        for (name, matched) in &finished.metrics_without_number {
            if self.told_metrics.insert(name.clone()) {
                let matched = last_words::shown(matched);
                let variant = progress.variant;
                let text = format!(
                    "the metric `{name}` has no figure: its expression matched `{matched}` in the output of {variant}, \
                     and that contains no number"
                );
                self.bar.suspend(|| ui::note(&text));
            }
        }
    }
}

impl Watch for Bar {
    fn run_begins(&mut self, progress: &Progress<'_>) {
        let round = match (progress.stage, self.settings.rounds) {
            (Stage::WarmUp, _) => format!("warm-up, {}", progress.variant),
            (Stage::Round(round), Some(rounds)) => format!("round {} of {rounds}", round + 1),
            (Stage::Round(round), None) => format!("round {}", round + 1),
        };
        // What matters most comes first, because a narrow terminal cuts the end.
        let mut message = String::new();
        if let Some((left, share)) = self.time_left(progress) {
            message.push_str(&format!("{} left; ", duration(left)));
            self.bar.set_position((share * 1000.0) as u64);
        }
        message.push_str(&round);
        if !self.standing.is_empty() {
            message.push_str(&format!("; {}", self.standing));
        }
        if self.bar.is_hidden() && progress.elapsed >= self.next_line {
            let pause = progress.elapsed.min(LINE_AT_LEAST_EVERY);
            self.next_line = progress.elapsed + pause;
            ui::note(&message);
        }
        self.bar.set_message(message);
    }

    fn rounds_begin(&mut self, forecast: &Forecast, candidates: usize) {
        self.forecast = Some(*forecast);
        let variants = figures::count(candidates + 1, "variant");
        let rounds = figures::count(forecast.rounds, "round");
        self.say(&match self.settings.rounds {
            Some(asked) => {
                let all = duration(forecast.round * asked as u32);
                format!("{rounds} of {variants} take about {all}")
            }
            None => {
                let budget = duration(self.settings.budget());
                format!("{variants}; {budget} are enough for about {rounds}")
            }
        });
    }

    fn standing(&mut self, standing: &Standing<'_>) {
        self.standing = match standing.leader {
            Some((leader, ratio)) => {
                let ratio = figures::number(ratio);
                format!("best so far: {leader}, {ratio} of {}", self.baseline)
            }
            None => format!("best so far: {}", self.baseline),
        };
        let Some((visible, end)) = standing.visible.zip(self.rounds_at_the_end()) else {
            return;
        };
        if self.said_visible || standing.rounds >= end {
            return;
        }
        self.said_visible = true;
        // The width of an interval falls with the root of the number of rounds.
        let at_the_end = visible * (standing.rounds as f64 / end as f64).sqrt();
        self.say(&format!(
            "after {}, differences above about {} can be seen; at the end, above about {}",
            figures::count(standing.rounds, "round"),
            figures::percent(visible),
            figures::percent(at_the_end)
        ));
    }

    fn left(&mut self, variant: &str, reason: &str) {
        self.say(&format!("{variant}: {reason}"));
    }

    /// A figure comes from many runs, so what one of them printed about its failure is lost unless reheap prints it
    /// now.
    fn run_ended(&mut self, progress: &Progress<'_>, finished: &Finished) {
        self.tell_metrics_without_number(progress, finished);
        let outcome = finished.outcome;
        let is_as_expected = match self.expected {
            Some(expected) => outcome == expected,
            None => outcome.is_success(),
        };
        // As in the later judgement: all variants may agree on an exit code, but never on a crash.
        self.expected.get_or_insert(match outcome {
            Outcome::Exited(_) => outcome,
            _ => Outcome::Exited(0),
        });
        if is_as_expected || !self.told.insert(progress.variant.to_owned()) {
            return;
        }
        let words = last_words::quoted(finished);
        let mut text = format!("{} {}{words}", progress.variant, ended(outcome));
        if let Some(hint) = last_words::hint(finished) {
            text.push_str(&format!("\nhint: {hint}"));
        }
        self.say(&text);
    }

    fn waits_for_server(&mut self, load: &Load) {
        if !std::mem::replace(&mut self.was_told_to_wait, true) {
            self.bar.suspend(|| ui::note(&waiting_for(load)));
        }
    }
}

/// What reheap waits for when a server needs some seconds.
pub(crate) fn waiting_for(load: &Load) -> String {
    format!(
        "waiting for the server: {}; reheap waits {} s (--ready-within)",
        load.ready.missing(),
        load.ready_within.as_secs_f64()
    )
}

fn spinning(plan: &Plan) -> ProgressBar {
    let template = "{spinner} {bar:12} {prefix}{wide_msg}";
    let style = ProgressStyle::with_template(template)
        .expect("the template has only known keys")
        .progress_chars("━╸─");
    let bar = ProgressBar::new(1000)
        .with_style(style)
        .with_prefix(conditions(plan));
    bar.enable_steady_tick(Duration::from_millis(100));
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
