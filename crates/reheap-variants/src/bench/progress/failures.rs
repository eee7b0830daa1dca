//! Tells of runs that fail, and of metrics without a figure, when that happens for the first time.

use crate::bench::last_words;
use reheap_bench::analysis::ended;
use reheap_bench::experiment::{Plan, Progress};
use reheap_bench::results::Outcome;
use reheap_bench::run::Finished;
use std::collections::BTreeSet;

/// What was told already of a comparison.
#[derive(Debug)]
pub(super) struct Failures {
    /// What the first run of the baseline leads to expect.
    expected: Option<Outcome>,
    /// Whether the variants are servers under a load.
    is_server: bool,
    /// The variants whose failure was already reported.
    variants: BTreeSet<String>,
    /// The metrics of which it was already told that they match no number.
    metrics: BTreeSet<String>,
}

impl Failures {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            // A load generator that fails was not served, so there is nothing to agree on.
            expected: plan.load.as_ref().map(|_| Outcome::Exited(0)),
            is_server: plan.load.is_some(),
            variants: BTreeSet::new(),
            metrics: BTreeSet::new(),
        }
    }

    /// What there is to say of metrics. An expression that matches the wrong place would otherwise look like one that
    /// matches nothing.
    pub(super) fn metrics_without_number(
        &mut self,
        progress: &Progress<'_>,
        finished: &Finished,
    ) -> Vec<String> {
        let mut texts = Vec::new();
        for (name, matched) in &finished.metrics_without_number {
            if self.metrics.insert(name.clone()) {
                let matched = last_words::shown(matched);
                let variant = progress.variant;
                texts.push(format!(
                    "the metric `{name}` has no figure: its expression matched `{matched}` in the output of {variant}, \
                     and that contains no number"
                ));
            }
        }
        texts
    }

    /// What there is to say of a run, if it is the first of its variant that failed.
    pub(super) fn of_run(
        &mut self,
        progress: &Progress<'_>,
        finished: &Finished,
    ) -> Option<String> {
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
        if is_as_expected || !self.variants.insert(progress.variant.to_owned()) {
            return None;
        }
        let words = last_words::quoted(finished);
        let ended = ended(outcome);
        let mut text = if self.is_server {
            let program = finished.program.display();
            format!("{}: `{program}` {ended}{words}", progress.variant)
        } else {
            format!("{} {ended}{words}", progress.variant)
        };
        if let Some(hint) = last_words::hint(finished) {
            text.push_str(&format!("\nhint: {hint}"));
        }
        Some(text)
    }
}
