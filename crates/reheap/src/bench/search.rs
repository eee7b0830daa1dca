//! Searches for `recommend` in two steps: first the best allocator, then its best tuning.
//!
//! Measuring every allocator with every option at once would spend most of the time on variants that cannot win. The
//! last step measures its variants again, together with the baseline. In the runs that chose it, the best of many looks
//! better than it is.

use crate::bench::measure::Measurement;
use crate::bench::ready::ReadyVariant;
use crate::bench::variants;
use crate::choice::Choice;
use crate::ui;
use reheap_allocators::catalogue::{self, CATALOGUE};
use reheap_allocators::target::Libc;
use reheap_bench::findings::Findings;
use reheap_bench::recommend::{self, Goal, Wish};
use reheap_bench::results::{Benchmark, Ending, LeftOut, Results, Role};
use reheap_bench::stats::Sample;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// The source of variants: preloads of a dynamic program, or links of a Rust project.
pub(crate) trait VariantSource {
    /// What the user has.
    fn baseline(&self) -> anyhow::Result<ReadyVariant>;
    /// The same program with another choice.
    fn candidate(&self, choice: &Choice) -> anyhow::Result<ReadyVariant>;
    /// The libc of what the user has: musl's allocator is hardened, glibc's aborts on some corruptions.
    fn baseline_libc(&self) -> Libc;
    /// The libc of the candidates.
    fn candidate_libc(&self) -> Libc;
    /// Whether the user can set options of the baseline's own allocator without replacing it.
    fn tunes_baseline(&self) -> bool;
}

/// What a search found.
pub(crate) struct Found {
    pub(crate) results: Results,
    /// The last benchmark, for the verdict; `None` if it was interrupted.
    pub(crate) wish: Option<Wish>,
    /// The choices that variants stand for, by the variants' names.
    pub(crate) choices: Vec<(String, Choice)>,
}

impl Found {
    fn interrupted(results: Results) -> Found {
        Found {
            results,
            wish: None,
            choices: Vec::new(),
        }
    }
}

/// A running search.
pub(crate) struct AllocatorSearch<'a> {
    pub(crate) source: &'a dyn VariantSource,
    pub(crate) measurement: &'a Measurement,
    pub(crate) goal: Goal,
}

/// The variants of one step.
struct StepVariants {
    baseline: ReadyVariant,
    ready: Vec<ReadyVariant>,
    choices: Vec<(String, Choice)>,
    left_out: Vec<LeftOut>,
}

impl StepVariants {
    fn new(baseline: ReadyVariant) -> StepVariants {
        StepVariants {
            baseline,
            ready: Vec::new(),
            choices: Vec::new(),
            left_out: Vec::new(),
        }
    }

    /// Adds a choice, if reheap can build it and saw it active.
    fn add(&mut self, search: &AllocatorSearch<'_>, choice: Choice) -> anyhow::Result<()> {
        let source = search.source;
        let ready = source.candidate(&choice);
        search.measurement.go_on()?;
        match ready {
            Ok(ready) => {
                self.choices.push((ready.name.clone(), choice));
                self.ready.push(ready);
            }
            Err(reason) => self.left_out.push(LeftOut {
                name: variants::name(source.candidate_libc(), &choice),
                reason: format!("{reason:#}"),
            }),
        }
        Ok(())
    }

    fn variants(&self) -> Vec<ReadyVariant> {
        std::iter::once(&self.baseline)
            .chain(&self.ready)
            .cloned()
            .collect()
    }
}

/// The median of a run of the baseline.
fn seconds_per_run(benchmark: &Benchmark) -> f64 {
    let runs = benchmark
        .baseline()
        .into_iter()
        .flat_map(|variant| &variant.runs);
    Sample::new(runs.map(|run| run.cost.wall_seconds)).map_or(0.0, |sample| sample.median())
}

/// The share of the time for the first step; the second gets the rest.
const SHARE_OF_ALLOCATORS: f64 = 0.6;

impl AllocatorSearch<'_> {
    /// Searches within the budget of the measurement.
    pub(crate) fn run(&self) -> anyhow::Result<Found> {
        // Building allocators happens once and does not count; measuring does.
        let mut left = Duration::try_from_secs_f64(self.measurement.settings.budget_seconds)?;
        let mut results = self.measurement.without_benchmarks();
        let baseline = ReadyVariant {
            role: Role::Baseline,
            ..self.source.baseline()?
        };
        self.measurement.go_on()?;
        let mut step = StepVariants::new(baseline);
        for row in CATALOGUE.iter().filter(|row| row.build.is_some()) {
            step.add(self, Choice::of(row.name, &[])?)?;
        }
        ui::note("step 1 of 2: allocators");
        let benchmark = self.measure(
            "allocators",
            &step.variants(),
            &step.left_out,
            &mut left,
            SHARE_OF_ALLOCATORS,
        )?;
        results.benchmarks.push(benchmark);
        let benchmark = &results.benchmarks[0];
        if benchmark.ended == Ending::Interrupted {
            return Ok(Found::interrupted(results));
        }
        let finalists = recommend::finalists(
            &Findings::of(&results, benchmark),
            &self.wish(&step.baseline.name, &step.choices),
        );
        let finalists: Vec<String> = finalists
            .iter()
            .map(|&i| benchmark.variants[i].name.clone())
            .collect();
        let seconds_per_run = seconds_per_run(benchmark);
        let tuned = self.tuned(&step, &finalists)?;
        let round = Duration::from_secs_f64(seconds_per_run * tuned.ready.len() as f64);
        let is_affordable = self.measurement.settings.rounds.is_some() || left > round * 4;
        if tuned.ready.len() > finalists.len() && is_affordable {
            ui::note("step 2 of 2: tuning");
            let benchmark =
                self.measure("tuning", &tuned.variants(), &tuned.left_out, &mut left, 1.0)?;
            let interrupted = benchmark.ended == Ending::Interrupted;
            results.benchmarks.push(benchmark);
            if interrupted {
                return Ok(Found::interrupted(results));
            }
            step = tuned;
        } else if tuned.ready.len() > finalists.len() {
            ui::note(
                "skipped step 2 of 2, tuning: the time is used up; use --budget to allow more",
            );
        }
        Ok(Found {
            results,
            wish: Some(self.wish(&step.baseline.name, &step.choices)),
            choices: step.choices,
        })
    }

    /// Measures one step with a share of the time that is left.
    fn measure(
        &self,
        step: &str,
        variants: &[ReadyVariant],
        left_out: &[LeftOut],
        left: &mut Duration,
        share: f64,
    ) -> anyhow::Result<Benchmark> {
        let began = Instant::now();
        let measurement = self.measurement;
        let mut settings = measurement.settings.clone();
        settings.budget_seconds = (left.as_secs_f64() * share).max(1.0);
        let parameters = measurement.first_parameters();
        let memory = measurement.first_memory_limit_bytes();
        let mut benchmark =
            measurement.benchmark(variants, left_out, parameters, memory, settings)?;
        benchmark.name = format!("{}: {step}", benchmark.name);
        *left = left.saturating_sub(began.elapsed());
        Ok(benchmark)
    }

    /// The finalists, and each of them with every option that is worth trying, one at a time.
    fn tuned(&self, step: &StepVariants, finalists: &[String]) -> anyhow::Result<StepVariants> {
        let mut tuned = StepVariants::new(step.baseline.clone());
        let of_finalists = step
            .choices
            .iter()
            .filter(|(name, _)| finalists.contains(name));
        let mut choices: Vec<Choice> = of_finalists.map(|(_, choice)| choice.clone()).collect();
        for choice in &choices {
            tuned.add(self, choice.clone())?;
        }
        if self.source.tunes_baseline() {
            choices.push(Choice::of("stock", &[])?);
        }
        for choice in choices {
            let row = catalogue::find(choice.allocator.name)?;
            for option in row.tuning {
                for value in option.worth_trying {
                    tuned.add(
                        self,
                        Choice::of(row.name, &[format!("{}={value}", option.key)])?,
                    )?;
                }
            }
        }
        Ok(tuned)
    }

    fn wish(&self, baseline: &str, choices: &[(String, Choice)]) -> Wish {
        let hardened = choices
            .iter()
            .filter(|(_, choice)| choice.allocator.is_hardened && !choice.is_stock());
        let mut hardened: BTreeSet<String> = hardened.map(|(name, _)| name.clone()).collect();
        // For security, some hardening is not enough. For every other goal, choosing a plain allocator loses the
        // hardening.
        if self.source.baseline_libc() == Libc::Musl || self.goal != Goal::Security {
            let stock = choices.iter().filter(|(_, choice)| choice.is_stock());
            hardened.extend(stock.map(|(name, _)| name.clone()));
            hardened.insert(baseline.to_owned());
        }
        Wish {
            goal: self.goal,
            hardened,
        }
    }
}
