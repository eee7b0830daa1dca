//! The rules of a recommendation: which candidate is best for a goal, and what is to be said of it.

use crate::analysis::{Failures, Verdict};
use crate::findings::Findings;
use crate::recommend::advice::{Advice, Goal, Price, Reason, Wish, Withstood};
use crate::recommend::cost::Cost;
use crate::results::{Outcome, Quantity, Role, Variant};
use crate::warnings::Warning;
use reheap_stats::Sample;
use reheap_stats::interval::Estimate;

/// How much slower a variant may be that is recommended for its memory.
pub const ACCEPTED_SLOWDOWN: f64 = 0.02;

/// How many attacks more may succeed under a variant that costs less than the safest.
pub const TOLERATED_ATTACKS: usize = 2;

/// The candidates of a benchmark, who compete for a recommendation.
pub(super) struct Contest<'a> {
    pub(super) findings: &'a Findings<'a>,
    pub(super) wish: &'a Wish,
    /// The time that counts here.
    time: Quantity,
}

impl<'a> Contest<'a> {
    pub(super) fn new(findings: &'a Findings<'a>, wish: &'a Wish) -> Contest<'a> {
        Contest {
            findings,
            wish,
            time: findings.time(),
        }
    }

    /// Candidates of which all runs count and that can be compared.
    pub(super) fn eligible(&self) -> impl Iterator<Item = usize> {
        (0..self.findings.failures.len())
            .filter(|&variant| self.findings.never_failed(variant, &[Role::Candidate]))
            .filter(|&variant| self.findings.comparison(&self.time, variant).is_some())
    }

    pub(super) fn failed(&self) -> Vec<(String, Failures)> {
        let variants = self.findings.benchmark.variants.iter();
        variants
            .zip(&self.findings.failures)
            .filter(|(variant, failures)| variant.role == Role::Candidate && failures.count() > 0)
            .map(|(variant, failures)| (variant.name.clone(), failures.clone()))
            .collect()
    }

    pub(super) fn is_hardened(&self, variant: usize) -> bool {
        let name = &self.findings.benchmark.variants[variant].name;
        self.wish.hardened.contains(name)
    }

    fn baseline_is_hardened(&self) -> bool {
        let baseline = self.findings.benchmark.baseline();
        baseline.is_some_and(|baseline| self.wish.hardened.contains(&baseline.name))
    }

    fn withstood(&self, variant: &Variant) -> Option<Withstood> {
        self.wish.attacked.get(&variant.name).copied()
    }

    fn successes(&self, variant: usize) -> Option<usize> {
        let variant = &self.findings.benchmark.variants[variant];
        Some(self.withstood(variant)?.succeeded)
    }

    /// Whether it is hardened, and about as few attacks succeed under it as under any. Where nothing is known of any,
    /// each hardened one is.
    pub(super) fn is_among_safest(&self, variant: usize) -> bool {
        let hardened = self.eligible().filter(|&variant| self.is_hardened(variant));
        let fewest = hardened.filter_map(|variant| self.successes(variant)).min();
        let is_safe = match (self.successes(variant), fewest) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(successes), Some(fewest)) => successes <= fewest + TOLERATED_ATTACKS,
        };
        is_safe && self.is_hardened(variant)
    }

    /// Whether clearly fewer attacks succeed under it than under the baseline.
    fn is_safer(&self, variant: usize) -> bool {
        let baseline = self
            .findings
            .benchmark
            .baseline()
            .and_then(|variant| self.withstood(variant));
        match (self.successes(variant), baseline) {
            (Some(successes), Some(baseline)) => successes + TOLERATED_ATTACKS < baseline.succeeded,
            _ => false,
        }
    }

    /// The variant that is best for the goal and better than the baseline.
    pub(super) fn best(&self) -> Option<usize> {
        match self.wish.goal {
            Goal::Speed => self.fastest().or_else(|| self.least_cpu()),
            Goal::Memory => {
                let small = self.claimed(&Quantity::PeakRss, Verdict::Better);
                let accepted = small.filter(|&variant| !self.is_too_slow(variant));
                self.least(accepted.collect(), &Quantity::PeakRss, &self.time)
            }
            Goal::Balanced => self
                .least_cost(self.eligible())
                .filter(|&best| self.cost(best) < 1.0),
            Goal::Security => {
                let safest = self
                    .eligible()
                    .filter(|&variant| self.is_among_safest(variant));
                let is_wanted = |best: &usize| {
                    !self.baseline_is_hardened() || self.is_safer(*best) || self.cost(*best) < 1.0
                };
                self.least_cost(safest).filter(is_wanted)
            }
        }
    }

    fn fastest(&self) -> Option<usize> {
        let faster = self.claimed(&self.time, Verdict::Better);
        self.least(faster.collect(), &self.time, &Quantity::Cpu)
    }

    fn least_cpu(&self) -> Option<usize> {
        let saving = self.claimed(&Quantity::Cpu, Verdict::Better);
        let as_fast =
            saving.filter(|&variant| self.verdict(&self.time, variant) != Some(Verdict::Worse));
        self.least(as_fast.collect(), &Quantity::Cpu, &self.time)
    }

    /// Of several variants the one with the least ratio; those that lie within its interval are told apart by a second
    /// quantity.
    fn least(&self, variants: Vec<usize>, first: &Quantity, second: &Quantity) -> Option<usize> {
        let best = variants
            .iter()
            .filter_map(|&variant| self.ratio(first, variant))
            .min_by(|left, right| left.value.total_cmp(&right.value))?;
        variants
            .into_iter()
            .filter(|&variant| self.factor(first, variant) <= best.interval.high)
            .min_by(|&left, &right| {
                let factor = |variant| self.factor(second, variant);
                factor(left).total_cmp(&factor(right))
            })
    }

    /// The variant with the least geometric mean of time and memory; of equal ones, that whose figures are lower,
    /// claimed or not.
    fn least_cost(&self, variants: impl Iterator<Item = usize>) -> Option<usize> {
        let key = |variant: &usize| (self.cost(*variant), self.unclaimed_cost(*variant));
        variants.min_by(|left, right| {
            let (left, right) = (key(left), key(right));
            left.0.total_cmp(&right.0).then(left.1.total_cmp(&right.1))
        })
    }

    /// The geometric mean of the ratios of wall time and peak memory, where what is not claimed is no difference.
    fn cost(&self, variant: usize) -> f64 {
        let claimed = |quantity| match self.verdict(quantity, variant) {
            Some(Verdict::Better | Verdict::Worse) => self.factor(quantity, variant),
            _ => 1.0,
        };
        (claimed(&self.time) * claimed(&Quantity::PeakRss)).sqrt()
    }

    fn unclaimed_cost(&self, variant: usize) -> f64 {
        let factor = |quantity| self.factor(quantity, variant);
        (factor(&self.time) * factor(&Quantity::PeakRss)).sqrt()
    }

    /// The figure that the goal ranks by, claimed or not.
    pub(super) fn figure(&self, variant: usize) -> Option<f64> {
        match self.wish.goal {
            Goal::Speed => Some(self.ratio(&self.time, variant)?.value),
            Goal::Memory => Some(self.ratio(&Quantity::PeakRss, variant)?.value),
            Goal::Balanced | Goal::Security => Some(self.unclaimed_cost(variant)),
        }
    }

    pub(super) fn is_claimed_worse(&self, variant: usize) -> bool {
        match self.wish.goal {
            Goal::Speed => self.verdict(&self.time, variant) == Some(Verdict::Worse),
            Goal::Memory => {
                self.verdict(&Quantity::PeakRss, variant) == Some(Verdict::Worse)
                    || self.is_too_slow(variant)
            }
            Goal::Balanced | Goal::Security => self.cost(variant) > 1.0,
        }
    }

    fn is_too_slow(&self, variant: usize) -> bool {
        self.verdict(&self.time, variant) == Some(Verdict::Worse)
            && self.factor(&self.time, variant) > 1.0 + ACCEPTED_SLOWDOWN
    }

    fn claimed(&self, quantity: &Quantity, wanted: Verdict) -> impl Iterator<Item = usize> {
        self.eligible()
            .filter(move |&variant| self.verdict(quantity, variant) == Some(wanted))
    }

    /// What speaks for a variant, the goal's own quantity first.
    pub(super) fn merits(&self, variant: usize) -> Vec<Reason> {
        let mut reasons = Vec::new();
        if self.wish.goal == Goal::Security {
            let withstood = self.withstood(&self.findings.benchmark.variants[variant]);
            reasons.push(withstood.map_or(Reason::Hardened, Reason::Withstands));
        }
        let mut quantities = vec![self.time.clone(), Quantity::Cpu, Quantity::PeakRss];
        quantities.dedup();
        if self.wish.goal == Goal::Memory {
            quantities.rotate_right(1);
        }
        let better = self.in_quantities(&quantities, variant, Verdict::Better);
        reasons.extend(better.map(|(quantity, ratio)| Reason::Better { quantity, ratio }));
        reasons
    }

    pub(super) fn prices(&self, variant: usize) -> Vec<Price> {
        let mut quantities = vec![
            self.time.clone(),
            Quantity::Cpu,
            Quantity::PeakRss,
            Quantity::MeanRss,
        ];
        quantities.dedup();
        let worse = self.in_quantities(&quantities, variant, Verdict::Worse);
        let mut prices: Vec<Price> = worse
            .map(|(quantity, ratio)| Price::Worse { quantity, ratio })
            .collect();
        let size = |variant: &Variant| variant.executable_bytes;
        let (old, new) = (
            self.findings.benchmark.baseline().and_then(size),
            size(&self.findings.benchmark.variants[variant]),
        );
        if let (Some(old), Some(new)) = (old, new)
            && new > old
        {
            prices.push(Price::LargerExecutable(new - old));
        }
        if self.baseline_is_hardened() && !self.is_hardened(variant) {
            prices.push(Price::LessHardened);
        }
        prices
    }

    /// Its costs of which no difference is claimed.
    pub(super) fn unclaimed(&self, variant: usize) -> Vec<Cost> {
        let costs = Cost::of(self.findings, variant).into_iter();
        costs
            .filter(|cost| !matches!(cost, Cost::Differs { .. }))
            .collect()
    }

    pub(super) fn reason_to_keep(&self) -> Reason {
        if self.eligible().next().is_none() {
            let varies = |warning: &Warning| matches!(warning, Warning::OutputVaries { .. });
            return if self.findings.warnings.iter().any(varies) {
                Reason::OutputVaries
            } else {
                Reason::NoCandidate
            };
        }
        match self.wish.goal {
            Goal::Security if self.baseline_is_hardened() => return Reason::AlreadyHardened,
            Goal::Security => return Reason::NothingHardened,
            Goal::Memory => {
                let smaller = self.claimed(&Quantity::PeakRss, Verdict::Better).collect();
                let smallest = self.least(smaller, &Quantity::PeakRss, &self.time);
                if let Some(reason) = smallest.and_then(|variant| self.too_slow(variant)) {
                    return reason;
                }
            }
            Goal::Speed | Goal::Balanced => {}
        }
        let decisive: &[Quantity] = match self.wish.goal {
            Goal::Speed => &[self.time.clone(), Quantity::Cpu],
            Goal::Memory => &[Quantity::PeakRss],
            _ => &[self.time.clone(), Quantity::PeakRss],
        };
        let differs = |verdict: Verdict| {
            decisive
                .iter()
                .any(|quantity| self.claimed(quantity, verdict).next().is_some())
        };
        if differs(Verdict::Better) || differs(Verdict::Worse) {
            return Reason::NothingBetter;
        }
        if let Some(few) = self.findings.few_rounds() {
            return Reason::TooFewRounds(few.clone());
        }
        let is_shown = |quantity, variant| {
            let comparison = self.findings.comparison(quantity, variant);
            comparison.is_some_and(|comparison| comparison.verdict.is_claimed())
        };
        let mut eligible = self.eligible();
        if eligible.any(|variant| decisive.iter().any(|quantity| is_shown(quantity, variant))) {
            return Reason::Negligible;
        }
        let analysis = self.findings.analysis(&decisive[0]);
        Reason::Indistinguishable {
            visible: analysis.and_then(|analysis| analysis.visible(self.findings.benchmark)),
        }
    }

    fn too_slow(&self, variant: usize) -> Option<Reason> {
        Some(Reason::TooSlow {
            variant: self.findings.benchmark.variants[variant].name.clone(),
            quantity: self.time.clone(),
            ratio: self.ratio(&self.time, variant)?,
        })
    }

    /// The variant that got through where the baseline was ended. There is nothing to compare with, so the medians of
    /// the survivors decide.
    pub(super) fn survivor(&self, outcome: Outcome) -> (Advice, Vec<Reason>) {
        let candidates = self.findings.benchmark.variants.iter().enumerate();
        let best = candidates
            .filter(|(_, variant)| variant.role == Role::Candidate && !variant.runs.is_empty())
            .filter(|(_, variant)| variant.runs.iter().all(|run| run.outcome.is_success()))
            .filter(|&(place, _)| self.wish.goal != Goal::Security || self.is_hardened(place))
            .filter_map(|(place, _)| Some((self.cost_of_survivor(place)?, place)))
            .min_by(|left, right| left.0.total_cmp(&right.0));
        match best {
            Some((_, place)) => (Advice::Take(place), vec![Reason::Survives(outcome)]),
            None => (Advice::Keep, vec![Reason::NoneSurvives(outcome)]),
        }
    }

    fn cost_of_survivor(&self, place: usize) -> Option<f64> {
        let runs = &self.findings.benchmark.variants[place].runs;
        let median = |quantity: Quantity| {
            let figures = runs.iter().filter_map(|run| quantity.of(run));
            Some(Sample::new(figures)?.median())
        };
        let (wall, peak) = (median(self.time.clone())?, median(Quantity::PeakRss)?);
        Some(match self.wish.goal {
            Goal::Speed => wall,
            Goal::Memory => peak,
            Goal::Balanced | Goal::Security => wall * peak,
        })
    }

    fn ratio(&self, quantity: &Quantity, variant: usize) -> Option<Estimate> {
        self.findings.comparison(quantity, variant)?.ratio
    }

    /// The ratio, or 1 where there is none.
    fn factor(&self, quantity: &Quantity, variant: usize) -> f64 {
        self.ratio(quantity, variant)
            .map_or(1.0, |ratio| ratio.value)
    }

    fn verdict(&self, quantity: &Quantity, variant: usize) -> Option<Verdict> {
        let comparison = self.findings.comparison(quantity, variant)?;
        Some(comparison.verdict_for_a_choice())
    }

    /// The quantities in which a verdict was given, with the ratios.
    fn in_quantities(
        &self,
        quantities: &[Quantity],
        variant: usize,
        wanted: Verdict,
    ) -> impl Iterator<Item = (Quantity, Estimate)> {
        let judged = quantities
            .iter()
            .filter(move |quantity| self.verdict(quantity, variant) == Some(wanted));
        judged.filter_map(move |quantity| Some((quantity.clone(), self.ratio(quantity, variant)?)))
    }
}
