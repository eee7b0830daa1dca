//! What a benchmark shows, computed once: tables, pages, recommendations and comparisons of two files borrow it, so
//! that no two of them can disagree.

use crate::analysis::{Analysis, Comparison, Failures, Verdict, analyse, figures};
use crate::results::{Benchmark, Quantity, Results, Role};
use crate::sharing::{Sharing, sharing};
use crate::warnings::{Evidence, Warning, warnings};

/// A benchmark, and what it shows. Variants are named by their places in it.
#[derive(Clone, Debug)]
pub struct Findings<'a> {
    /// The file that it is of, or will be.
    pub results: &'a Results,
    /// The benchmark.
    pub benchmark: &'a Benchmark,
    /// One for each quantity that any variant has: the program's own figures first, then the costs.
    pub analyses: Vec<Analysis>,
    /// The runs that do not count, of each variant.
    pub failures: Vec<Failures>,
    /// What to be careful about.
    pub warnings: Vec<Warning>,
    /// How the runs show that other programs took the processor; none if they do not.
    pub sharing: Option<Sharing>,
    /// The variants in the order in which they are shown: the baseline, the others from the best to the worst. The copy
    /// of the baseline is not shown; its figures are the baseline's.
    pub ranked: Vec<usize>,
}

impl<'a> Findings<'a> {
    /// Of a benchmark that need not be among these results yet: while more is measured, it is not.
    pub fn of(results: &'a Results, benchmark: &'a Benchmark) -> Findings<'a> {
        let failures = Failures::of_all(benchmark, results.settings.output);
        let metrics = benchmark.metrics.keys().cloned().map(Quantity::Metric);
        let mut findings = Findings {
            results,
            benchmark,
            analyses: metrics
                .chain(Quantity::COSTS)
                .filter_map(|quantity| analyse(benchmark, &quantity, &failures))
                .collect(),
            sharing: sharing(benchmark, &failures),
            failures,
            warnings: Vec::new(),
            ranked: Vec::new(),
        };
        findings.warnings = warnings(&Evidence {
            results,
            benchmark,
            failures: &findings.failures,
            wall: findings.analysis(&Quantity::Wall),
            main: findings.analysis(&findings.main_quantity()),
            sharing: findings.sharing,
        });
        findings.ranked = findings.ranked();
        findings
    }

    /// What it shows of a quantity; nothing if no variant has a figure of it.
    pub fn analysis(&self, quantity: &Quantity) -> Option<&Analysis> {
        self.analyses
            .iter()
            .find(|analysis| analysis.quantity == *quantity)
    }

    /// That no difference can be told from chance, if there were too few rounds for that.
    pub fn few_rounds(&self) -> Option<&Warning> {
        let is_few = |warning: &&Warning| matches!(warning, Warning::FewRounds { .. });
        self.warnings.iter().find(is_few)
    }

    /// How a variant compares with the baseline in a quantity.
    pub fn comparison(&self, quantity: &Quantity, variant: usize) -> Option<&Comparison> {
        self.analysis(quantity)?.comparison(variant)
    }

    /// What the benchmark is about: the program's own figure where one was found, else its [`Findings::time`].
    pub fn main_quantity(&self) -> Quantity {
        main_quantity(self.benchmark, &self.failures)
    }

    /// The time that counts: wall time, or CPU time where other programs took the processor.
    pub fn time(&self) -> Quantity {
        time(self.benchmark, &self.failures)
    }

    /// The candidate that is better than the baseline by most, and never failed; none if no better one was found.
    pub fn best(&self) -> Option<(usize, &Comparison)> {
        let main = self.main_quantity();
        self.ranked
            .iter()
            .filter(|&&variant| self.never_failed(variant, &[Role::Candidate]))
            .filter_map(|&variant| Some((variant, self.comparison(&main, variant)?)))
            .find(|(_, comparison)| comparison.verdict == Verdict::Better)
    }

    /// The variants that no other one beats in both quantities, from the best in `x` on.
    ///
    /// The baseline takes part; its copy and variants with a run that failed are nothing to choose. Medians decide, so
    /// on the front too two neighbours may be indistinguishable.
    pub fn pareto_front(&self, x: &Quantity, y: &Quantity) -> Vec<usize> {
        let (Some(x), Some(y)) = (self.analysis(x), self.analysis(y)) else {
            return Vec::new();
        };
        let costs = |variant: usize| Some((x.cost(variant)?, y.cost(variant)?));
        let mut points: Vec<(usize, (f64, f64))> = (0..self.failures.len())
            .filter(|&variant| self.never_failed(variant, &[Role::Baseline, Role::Candidate]))
            .filter_map(|variant| Some((variant, costs(variant)?)))
            .collect();
        points.sort_by(|(_, left), (_, right)| {
            let by_x = left.0.total_cmp(&right.0);
            by_x.then(left.1.total_cmp(&right.1))
        });
        let mut least_y = f64::INFINITY;
        points.retain(|&(_, (_, y))| {
            let is_new = y < least_y;
            least_y = least_y.min(y);
            is_new
        });
        points.into_iter().map(|(variant, _)| variant).collect()
    }

    /// Whether a variant has one of these roles, and all its runs count.
    pub(crate) fn never_failed(&self, variant: usize, roles: &[Role]) -> bool {
        let role = self.benchmark.variants[variant].role;
        roles.contains(&role) && self.failures[variant].count() == 0
    }

    /// How many rounds began.
    pub fn rounds(&self) -> usize {
        let runs = self
            .benchmark
            .variants
            .iter()
            .flat_map(|variant| &variant.runs);
        runs.map(|run| run.round + 1).max().unwrap_or(0)
    }

    /// By their ratios, which are what is claimed; those without one by their medians.
    fn ranked(&self) -> Vec<usize> {
        let main = self.analysis(&self.main_quantity());
        let variants = self.benchmark.variants.iter().enumerate();
        let mut ranked: Vec<(bool, bool, f64, usize)> = variants
            .filter(|(_, variant)| variant.role != Role::BaselineCopy)
            .map(|(place, variant)| {
                let is_candidate = variant.role == Role::Candidate;
                let ratio = main.and_then(|main| main.ratio_cost(place));
                let median = main.and_then(|main| main.cost(place));
                let cost = ratio.or(median).unwrap_or(f64::INFINITY);
                (is_candidate, ratio.is_none(), cost, place)
            })
            .collect();
        // Sorting keeps the order of equals, so variants without a figure stay as they were given.
        ranked.sort_by(|left, right| {
            let by_kind = (left.0, left.1).cmp(&(right.0, right.1));
            by_kind.then(left.2.total_cmp(&right.2))
        });
        ranked.into_iter().map(|(.., place)| place).collect()
    }
}

/// The main quantity of a benchmark while it is measured, as [`Findings::main_quantity`] is later.
pub(crate) fn main_quantity(benchmark: &Benchmark, failures: &[Failures]) -> Quantity {
    let has_it = |name: &&String| {
        let variants = benchmark.variants.iter().zip(failures);
        let quantity = Quantity::Metric((*name).clone());
        variants
            .into_iter()
            .any(|(variant, failures)| !figures(variant, &quantity, failures).is_empty())
    };
    match benchmark.metrics.keys().find(has_it) {
        Some(name) => Quantity::Metric(name.clone()),
        None => time(benchmark, failures),
    }
}

fn time(benchmark: &Benchmark, failures: &[Failures]) -> Quantity {
    match sharing(benchmark, failures) {
        Some(_) => Quantity::Cpu,
        None => Quantity::Wall,
    }
}

/// What these benchmarks are about, and peak memory. Where CPU time counts in one of them, it counts in all: a mean of
/// wall times and CPU times would be none.
pub(crate) fn decisive_quantities<'a>(
    benchmarks: impl IntoIterator<Item = &'a Findings<'a>>,
) -> Vec<Quantity> {
    let mut quantities: Vec<Quantity> = Vec::new();
    let main = benchmarks.into_iter().map(Findings::main_quantity);
    for quantity in main.chain([Quantity::PeakRss]) {
        if !quantities.contains(&quantity) {
            quantities.push(quantity);
        }
    }
    if quantities.contains(&Quantity::Cpu) {
        quantities.retain(|quantity| *quantity != Quantity::Wall);
    }
    quantities
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::{Simulated, lose_runs, results};

    const MIB: f64 = 1024.0 * 1024.0;

    #[test]
    fn the_front_holds_what_nothing_else_beats_in_both() {
        let mut benchmark = Simulated::quiet(20, 3).run(&[
            ("base", Role::Baseline, 1.0, 50.0 * MIB),
            ("copy", Role::BaselineCopy, 1.0, 50.0 * MIB),
            ("fast", Role::Candidate, 0.7, 80.0 * MIB),
            ("beaten", Role::Candidate, 1.1, 60.0 * MIB),
            ("small", Role::Candidate, 1.3, 30.0 * MIB),
            ("crashes", Role::Candidate, 0.5, 30.0 * MIB),
        ]);
        lose_runs(&mut benchmark.variants[5], 4..5);
        let results = results(vec![benchmark]);
        let findings = Findings::of(&results, &results.benchmarks[0]);
        let front = findings.pareto_front(&Quantity::Wall, &Quantity::PeakRss);
        assert_eq!(front, [2, 0, 4]);
    }

    #[test]
    fn the_best_variant_comes_first_and_one_that_failed_is_never_the_best() {
        let mut benchmark = Simulated::quiet(20, 3).run(&[
            ("base", Role::Baseline, 1.0, MIB),
            ("copy", Role::BaselineCopy, 1.0, MIB),
            ("slow", Role::Candidate, 1.5, MIB),
            ("fast", Role::Candidate, 0.7, MIB),
            ("crashes", Role::Candidate, 0.5, MIB),
        ]);
        lose_runs(&mut benchmark.variants[4], 4..5);
        let results = results(vec![benchmark]);
        let findings = Findings::of(&results, &results.benchmarks[0]);
        assert_eq!(findings.ranked, [0, 4, 3, 2]);
        assert_eq!(findings.best().unwrap().0, 3);
    }
}
