//! How far a measurement is: a bar on a terminal, a line for each comparison elsewhere.

use crate::ui;
use indicatif::{ProgressBar, ProgressStyle};
use reheap_bench::experiment::{Plan, Progress, Stage, Watch};
use reheap_bench::results::Settings;
use std::io::IsTerminal as _;
use std::time::Duration;

/// Progress of one comparison.
pub(crate) struct Bar {
    bar: ProgressBar,
    settings: Settings,
}

impl Bar {
    pub(crate) fn new(plan: &Plan) -> Bar {
        let what = describe(plan);
        if !std::io::stderr().is_terminal() {
            ui::note(&what);
            return Bar {
                bar: ProgressBar::hidden(),
                settings: plan.settings.clone(),
            };
        }
        let template = "{spinner} {prefix}: {msg} {wide_bar} {elapsed} ({eta} left)";
        let style = ProgressStyle::with_template(template)
            .expect("the template has only known keys")
            .progress_chars("━╸─");
        let bar = ProgressBar::new(1000).with_style(style).with_prefix(what);
        bar.enable_steady_tick(Duration::from_millis(100));
        Bar {
            bar,
            settings: plan.settings.clone(),
        }
    }

    /// Takes the bar away.
    pub(crate) fn finish(self) {
        self.bar.finish_and_clear();
    }

    /// How much is done, from 0 to 1: of the rounds, or of the time.
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
}

fn describe(plan: &Plan) -> String {
    let count = plan.variants.len() - 1; // the copy of the baseline is not one to choose
    let variants = if count == 1 { "variant" } else { "variants" };
    let mut what = format!("measuring {count} {variants}");
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
        Some(rounds) => format!("{what}, {rounds} rounds"),
        None => format!("{what}, up to {:.0} s", plan.settings.budget_seconds),
    }
}
