//! The rules of a recommendation: which candidate is best for a goal, and what is to be said of it.

use super::{ACCEPTED_SLOWDOWN, Choice, Goal, Price, Reason, Wish};
use crate::analysis::{Analysis, Comparison, Failures, Verdict, analyse};
use crate::results::{Benchmark, Outcome, Quantity, Role, Variant};
use crate::stats::Sample;
use crate::stats::interval::Estimate;
use crate::warnings::{few_rounds, output_varies};

/// The candidates of a benchmark, in the quantities that decide.
pub(super) struct Field<'a> {
    benchmark: &'a Benchmark,
    wish: &'a Wish,
    wall: Option<Analysis>,
    cpu: Option<Analysis>,
    peak: Option<Analysis>,
    mean: Option<Analysis>,
}

impl<'a> Field<'a> {
    pub(super) fn of(benchmark: &'a Benchmark, wish: &'a Wish) -> Field<'a> {
        let analysis = |quantity| analyse(benchmark, &quantity, wish.output);
        Field {
            benchmark,
            wish,
            wall: analysis(Quantity::Wall),
            cpu: analysis(Quantity::Cpu),
            peak: analysis(Quantity::PeakRss),
            mean: analysis(Quantity::MeanRss),
        }
    }

    /// Candidates of which all runs count and that can be compared.
    pub(super) fn eligible(&self) -> impl Iterator<Item = usize> {
        let rows = self
            .wall
            .iter()
            .flat_map(|wall| wall.rows.iter().enumerate());
        rows.filter(|(_, row)| row.role == Role::Candidate && row.is_eligible())
            .filter(|(_, row)| row.comparison.is_some())
            .map(|(variant, _)| variant)
    }

    pub(super) fn failed(&self) -> Vec<(String, Failures)> {
        let candidates = self.benchmark.variants.iter();
        candidates
            .filter(|variant| variant.role == Role::Candidate)
            .map(|variant| {
                (
                    variant,
                    Failures::of(self.benchmark, variant, self.wish.output),
                )
            })
            .filter(|(_, failures)| failures.count() > 0)
            .map(|(variant, failures)| (variant.name.clone(), failures))
            .collect()
    }

    pub(super) fn is_hardened(&self, variant: usize) -> bool {
        self.wish
            .hardened
            .contains(&self.benchmark.variants[variant].name)
    }

    fn baseline_is_hardened(&self) -> bool {
        let baseline = self.benchmark.baseline();
        baseline.is_some_and(|baseline| self.wish.hardened.contains(&baseline.name))
    }

    /// The variant that is best for the goal and better than the baseline.
    pub(super) fn best(&self) -> Option<usize> {
        match self.wish.goal {
            Goal::Speed => self.fastest().or_else(|| self.least_cpu()),
            Goal::Memory => {
                let small = self.claimed(&self.peak, Verdict::Better);
                let accepted = small.filter(|&variant| !self.is_too_slow(variant));
                self.least(accepted.collect(), &self.peak, &self.wall)
            }
            Goal::Balanced => self
                .least_cost(self.eligible())
                .filter(|&best| self.cost(best) < 1.0),
            Goal::Security => {
                let hardened = self.eligible().filter(|&variant| self.is_hardened(variant));
                let is_wanted =
                    |best: &usize| !self.baseline_is_hardened() || self.cost(*best) < 1.0;
                self.least_cost(hardened).filter(is_wanted)
            }
        }
    }

    fn fastest(&self) -> Option<usize> {
        let faster = self.claimed(&self.wall, Verdict::Better);
        self.least(faster.collect(), &self.wall, &self.cpu)
    }

    fn least_cpu(&self) -> Option<usize> {
        let saving = self.claimed(&self.cpu, Verdict::Better);
        let as_fast =
            saving.filter(|&variant| verdict(&self.wall, variant) != Some(Verdict::Worse));
        self.least(as_fast.collect(), &self.cpu, &self.wall)
    }

    /// Of several variants the one with the least ratio; those that lie within its interval are told apart by a second
    /// quantity.
    fn least(
        &self,
        variants: Vec<usize>,
        first: &Option<Analysis>,
        second: &Option<Analysis>,
    ) -> Option<usize> {
        let ratio_in =
            |analysis, variant| ratio(analysis, variant).map_or(1.0, |ratio| ratio.value);
        let best = variants
            .iter()
            .filter_map(|&variant| ratio(first, variant))
            .min_by(|left, right| left.value.total_cmp(&right.value))?;
        variants
            .into_iter()
            .filter(|&variant| ratio_in(first, variant) <= best.interval.high)
            .min_by(|&left, &right| ratio_in(second, left).total_cmp(&ratio_in(second, right)))
    }

    /// The variant with the least geometric mean of time and memory; of equal ones, that whose figures are lower, claimed
    /// or not.
    fn least_cost(&self, variants: impl Iterator<Item = usize>) -> Option<usize> {
        let key = |variant: &usize| (self.cost(*variant), self.unclaimed_cost(*variant));
        variants.min_by(|left, right| {
            let (left, right) = (key(left), key(right));
            left.0.total_cmp(&right.0).then(left.1.total_cmp(&right.1))
        })
    }

    /// The geometric mean of the ratios of wall time and peak memory, where what is not claimed is no difference.
    fn cost(&self, variant: usize) -> f64 {
        let claimed = |analysis| match verdict(analysis, variant) {
            Some(Verdict::Better | Verdict::Worse) => {
                ratio(analysis, variant).map_or(1.0, |ratio| ratio.value)
            }
            _ => 1.0,
        };
        (claimed(&self.wall) * claimed(&self.peak)).sqrt()
    }

    fn unclaimed_cost(&self, variant: usize) -> f64 {
        let ratio_in = |analysis| ratio(analysis, variant).map_or(1.0, |ratio| ratio.value);
        (ratio_in(&self.wall) * ratio_in(&self.peak)).sqrt()
    }

    /// The figure that the goal ranks by, claimed or not.
    pub(super) fn figure(&self, variant: usize) -> Option<f64> {
        match self.wish.goal {
            Goal::Speed => Some(ratio(&self.wall, variant)?.value),
            Goal::Memory => Some(ratio(&self.peak, variant)?.value),
            Goal::Balanced | Goal::Security => Some(self.unclaimed_cost(variant)),
        }
    }

    pub(super) fn is_claimed_worse(&self, variant: usize) -> bool {
        match self.wish.goal {
            Goal::Speed => verdict(&self.wall, variant) == Some(Verdict::Worse),
            Goal::Memory => {
                verdict(&self.peak, variant) == Some(Verdict::Worse) || self.is_too_slow(variant)
            }
            Goal::Balanced | Goal::Security => self.cost(variant) > 1.0,
        }
    }

    fn is_too_slow(&self, variant: usize) -> bool {
        verdict(&self.wall, variant) == Some(Verdict::Worse)
            && ratio(&self.wall, variant).is_some_and(|ratio| ratio.value > 1.0 + ACCEPTED_SLOWDOWN)
    }

    fn claimed(&self, analysis: &Option<Analysis>, wanted: Verdict) -> impl Iterator<Item = usize> {
        self.eligible()
            .filter(move |&variant| verdict(analysis, variant) == Some(wanted))
    }

    /// What speaks for a variant, the goal's own quantity first.
    pub(super) fn merits(&self, variant: usize) -> Vec<Reason> {
        let hardened = self.wish.goal == Goal::Security;
        let mut reasons: Vec<Reason> = hardened.then_some(Reason::Hardened).into_iter().collect();
        let mut analyses = [&self.wall, &self.cpu, &self.peak];
        if self.wish.goal == Goal::Memory {
            analyses.rotate_right(1);
        }
        let better = in_quantities(&analyses, variant, Verdict::Better);
        reasons.extend(better.map(|(quantity, ratio)| Reason::Better { quantity, ratio }));
        reasons
    }

    pub(super) fn prices(&self, variant: usize) -> Vec<Price> {
        let analyses = [&self.wall, &self.cpu, &self.peak, &self.mean];
        let worse = in_quantities(&analyses, variant, Verdict::Worse);
        let mut prices: Vec<Price> = worse
            .map(|(quantity, ratio)| Price::Worse { quantity, ratio })
            .collect();
        let size = |variant: &Variant| variant.executable_bytes;
        let (old, new) = (
            self.benchmark.baseline().and_then(size),
            size(&self.benchmark.variants[variant]),
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

    pub(super) fn reason_to_keep(&self) -> Reason {
        if self.eligible().next().is_none() {
            return match output_varies(self.benchmark, self.wish.output) {
                Some(_) => Reason::OutputVaries,
                None => Reason::NoCandidate,
            };
        }
        match self.wish.goal {
            Goal::Security if self.baseline_is_hardened() => return Reason::AlreadyHardened,
            Goal::Security => return Reason::NothingHardened,
            Goal::Memory => {
                let smaller = self.claimed(&self.peak, Verdict::Better).collect();
                let smallest = self.least(smaller, &self.peak, &self.wall);
                if let Some(reason) = smallest.and_then(|variant| self.too_slow(variant)) {
                    return reason;
                }
            }
            Goal::Speed | Goal::Balanced => {}
        }
        let decisive: &[&Option<Analysis>] = match self.wish.goal {
            Goal::Speed => &[&self.wall, &self.cpu],
            Goal::Memory => &[&self.peak],
            _ => &[&self.wall, &self.peak],
        };
        let differs = |verdict: Verdict| {
            decisive
                .iter()
                .any(|analysis| self.claimed(analysis, verdict).next().is_some())
        };
        if differs(Verdict::Better) || differs(Verdict::Worse) {
            return Reason::NothingBetter;
        }
        if let Some(few) = few_rounds(self.benchmark) {
            return Reason::TooFewRounds(few);
        }
        let analysis = decisive[0].as_ref();
        Reason::Indistinguishable {
            noise_floor: analysis.and_then(Analysis::noise_floor),
        }
    }

    fn too_slow(&self, variant: usize) -> Option<Reason> {
        Some(Reason::TooSlow {
            variant: self.benchmark.variants[variant].name.clone(),
            ratio: ratio(&self.wall, variant)?,
        })
    }

    /// The variant that got through where the baseline was ended. There is nothing to compare with, so the medians of
    /// the survivors decide.
    pub(super) fn survivor(&self, outcome: Outcome) -> (Choice, Vec<Reason>) {
        let candidates = self.benchmark.variants.iter().enumerate();
        let best = candidates
            .filter(|(_, variant)| variant.role == Role::Candidate && !variant.runs.is_empty())
            .filter(|(_, variant)| variant.runs.iter().all(|run| run.outcome.is_success()))
            .filter(|&(place, _)| self.wish.goal != Goal::Security || self.is_hardened(place))
            .filter_map(|(place, _)| Some((self.cost_of_survivor(place)?, place)))
            .min_by(|left, right| left.0.total_cmp(&right.0));
        match best {
            Some((_, place)) => (Choice::Take(place), vec![Reason::Survives(outcome)]),
            None => (Choice::Keep, vec![Reason::NoneSurvives(outcome)]),
        }
    }

    fn cost_of_survivor(&self, place: usize) -> Option<f64> {
        let runs = &self.benchmark.variants[place].runs;
        let median = |quantity: Quantity| {
            let figures = runs.iter().filter_map(|run| quantity.of(run));
            Some(Sample::new(figures)?.median())
        };
        let (wall, peak) = (median(Quantity::Wall)?, median(Quantity::PeakRss)?);
        Some(match self.wish.goal {
            Goal::Speed => wall,
            Goal::Memory => peak,
            Goal::Balanced | Goal::Security => wall * peak,
        })
    }
}

fn comparison(analysis: &Option<Analysis>, variant: usize) -> Option<&Comparison> {
    analysis.as_ref()?.comparison(variant)
}

fn ratio(analysis: &Option<Analysis>, variant: usize) -> Option<Estimate> {
    comparison(analysis, variant)?.ratio
}

fn verdict(analysis: &Option<Analysis>, variant: usize) -> Option<Verdict> {
    Some(comparison(analysis, variant)?.verdict)
}

/// The quantities in which a verdict was given, with the ratios.
fn in_quantities<'a>(
    analyses: &'a [&'a Option<Analysis>],
    variant: usize,
    wanted: Verdict,
) -> impl Iterator<Item = (Quantity, Estimate)> + 'a {
    analyses.iter().filter_map(move |analysis| {
        let quantity = analysis.as_ref()?.quantity.clone();
        let is_wanted = verdict(analysis, variant) == Some(wanted);
        ratio(analysis, variant)
            .filter(|_| is_wanted)
            .map(|ratio| (quantity, ratio))
    })
}
