//! Shows how far a measurement is: a bar on a terminal, one line for each comparison elsewhere.

use crate::ui;
use indicatif::{ProgressBar, ProgressStyle};
use reheap_bench::analysis::ended;
use reheap_bench::experiment::{Plan, Progress, Stage, Watch};
use reheap_bench::figures;
use reheap_bench::results::{Outcome, Settings};
use reheap_bench::run::Finished;
use std::collections::BTreeSet;
use std::io::IsTerminal as _;
use std::time::Duration;

/// How much output of a failed run reheap quotes: lines, and characters of each.
const LAST_WORDS: usize = 4;
const LINE_MAX: usize = 160;

/// Progress of one comparison.
pub(crate) struct Bar {
    bar: ProgressBar,
    settings: Settings,
    /// What the first run of the baseline leads to expect.
    expected: Option<Outcome>,
    /// The variants whose failure was already reported.
    told: BTreeSet<String>,
}

impl Bar {
    pub(crate) fn new(plan: &Plan) -> Bar {
        let what = describe(plan);
        let bar = if std::io::stderr().is_terminal() {
            spinning(what)
        } else {
            ui::note(&what);
            ProgressBar::hidden()
        };
        Bar {
            bar,
            settings: plan.settings.clone(),
            expected: None,
            told: BTreeSet::new(),
        }
    }

    /// Removes the bar.
    pub(crate) fn finish(self) {
        self.bar.finish_and_clear();
    }

    /// The share of the rounds or of the time that is done, from 0 to 1.
    fn share(&self, progress: &Progress<'_>) -> f64 {
        match (self.settings.rounds, progress.stage) {
            (Some(rounds), stage) => {
                let before = match stage {
                    Stage::WarmUp => 0,
                    Stage::Round(round) => round + 1,
                };
                let position = progress.position as f64 / progress.variants as f64;
                (before as f64 + position) / (rounds + 1) as f64
            }
            (None, _) => progress.elapsed.as_secs_f64() / self.settings.budget_seconds,
        }
    }
}

impl Watch for Bar {
    fn run_begins(&mut self, progress: &Progress<'_>) {
        let stage = match (progress.stage, self.settings.rounds) {
            (Stage::WarmUp, _) => "warm-up".to_owned(),
            (Stage::Round(round), Some(rounds)) => format!("round {} of {rounds}", round + 1),
            (Stage::Round(round), None) => format!("round {}", round + 1),
        };
        self.bar
            .set_message(format!("{stage}, {}", progress.variant));
        let thousandths = (self.share(progress) * 1000.0) as u64;
        self.bar.set_position(thousandths.min(1000));
    }

    /// A figure comes from many runs, so what one of them printed about its failure is lost unless reheap prints it
    /// now.
    fn run_ended(&mut self, progress: &Progress<'_>, finished: &Finished) {
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
        let mut text = format!("{} {}", progress.variant, ended(outcome));
        let last_words = match finished.stderr.last_lines(LAST_WORDS) {
            nothing if nothing.is_empty() => finished.stdout.last_lines(LAST_WORDS),
            lines => lines,
        };
        if !last_words.is_empty() {
            text.push_str("; its last output was:");
        }
        for line in last_words.lines() {
            text.push_str("\n  ");
            text.extend(ui::printable(line).chars().take(LINE_MAX));
        }
        self.bar.suspend(|| ui::note(&text));
    }
}

fn spinning(what: String) -> ProgressBar {
    let template = "{spinner} {prefix}: {msg} {wide_bar} {elapsed} ({eta} left)";
    let style = ProgressStyle::with_template(template)
        .expect("the template has only known keys")
        .progress_chars("━╸─");
    let bar = ProgressBar::new(1000).with_style(style).with_prefix(what);
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

fn describe(plan: &Plan) -> String {
    let count = plan.variants.len() - 1; // the copy of the baseline is not one to choose
    let mut what = format!("measuring {}", figures::count(count, "variant"));
    for (name, value) in &plan.parameters {
        what.push_str(&format!(", {name} = {value}"));
    }
    if let Some(bytes) = plan.memory_limit_bytes {
        what.push_str(&format!(
            ", within {:.0} MiB",
            bytes as f64 / f64::from(1 << 20)
        ));
    }
    match plan.settings.rounds {
        Some(rounds) => format!("{what}, {}", figures::count(rounds, "round")),
        None => format!("{what}, up to {:.0} s", plan.settings.budget_seconds),
    }
}
