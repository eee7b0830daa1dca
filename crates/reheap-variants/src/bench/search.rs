//! Searches for `recommend` in two steps: first the best allocator, then its best tuning.
//!
//! Measuring every allocator with every option at once would spend most of the time on variants that cannot win. The
//! last step measures its variants again, together with the baseline. In the runs that chose it, the best of many looks
//! better than it is.

use crate::bench::clock::{Part, refusal};
use crate::bench::measure::{Measurement, too_little_time};
use crate::bench::ready::ReadyVariant;
use crate::bench::variants;
use crate::measured_attacks;
use reheap_allocators::target::Libc;
use reheap_bench::failures::nothing_works;
use reheap_bench::findings::Findings;
use reheap_bench::outlook::{TooLittleTime, TooSlow};
use reheap_bench::recommend::{self, FINALISTS_MAX, Goal, Wish};
use reheap_bench::results::{Benchmark, Ending, LeftOut, Results, Role};
use reheap_command::choice::{Choice, Hardened};
use reheap_command::ui::{self, Failure};
use std::collections::BTreeSet;

/// The source of variants: preloads of a dynamic program, or links of a Rust project.
pub trait VariantSource {
    /// What the user has.
    fn baseline(&self) -> anyhow::Result<ReadyVariant>;
    /// The user's program with another choice.
    fn candidate(&self, choice: &Choice) -> anyhow::Result<ReadyVariant>;
    /// The libc of what the user has: musl's allocator is hardened, glibc's aborts on some corruptions.
    fn baseline_libc(&self) -> Libc;
    /// The libc of the candidates.
    fn candidate_libc(&self) -> Libc;
    /// Whether the user can set options of the baseline's own allocator without replacing it.
    fn tunes_baseline(&self) -> bool;
}

/// What a search found.
pub struct Found {
    /// What was measured.
    pub results: Results,
    /// One for each of the benchmarks; none if one was interrupted, or nothing works.
    pub steps: Vec<Step>,
}

/// What the variants of a benchmark have to be judged by.
pub struct Step {
    /// What the user looks for.
    pub wish: Wish,
    /// The choices that variants stand for, by the variants' names.
    pub choices: Vec<(String, Choice)>,
}

impl Found {
    fn nothing(results: Results) -> Found {
        Found {
            results,
            steps: Vec::new(),
        }
    }
}

/// A running search.
pub struct AllocatorSearch<'a> {
    /// What makes variants ready.
    pub source: &'a dyn VariantSource,
    /// How they are measured.
    pub measurement: &'a Measurement,
    /// What the user wants.
    pub goal: Goal,
    /// The name of the allocator to try first, if something speaks for it: later ones are left out when time is short.
    pub first: Option<&'static str>,
    /// What the user wants to be tried besides.
    pub also: &'a [Choice],
}

/// The variants of one step.
struct StepVariants {
    baseline: ReadyVariant,
    ready: Vec<ReadyVariant>,
    choices: Vec<(String, Choice)>,
    left_out: Vec<LeftOut>,
    /// Why the first of those left out would not work, whatever time there is.
    unusable: Option<String>,
}

impl StepVariants {
    fn new(baseline: ReadyVariant) -> StepVariants {
        StepVariants {
            baseline,
            ready: Vec::new(),
            choices: Vec::new(),
            left_out: Vec::new(),
            unusable: None,
        }
    }

    /// Adds a choice, if there is time for it, reheap can build it and saw it active.
    fn add(&mut self, search: &AllocatorSearch<'_>, choice: Choice) -> anyhow::Result<()> {
        let (source, measurement) = (search.source, search.measurement);
        let room = measurement.clock.room();
        let has_room = room.is_ok();
        let ready = match room {
            Ok(()) => source.candidate(&choice),
            Err(time) => Err(anyhow::Error::msg(time.reason())),
        };
        measurement.go_on()?;
        match ready {
            Ok(ready) => self.add_ready(search, ready, choice),
            Err(error) => {
                let reason = format!("{error:#}");
                if has_room && !error.is::<TooSlow>() {
                    self.unusable.get_or_insert(reason.clone());
                }
                let name = variants::name(source.candidate_libc(), &choice);
                self.left_out.push(LeftOut { name, reason });
            }
        }
        Ok(())
    }

    fn add_ready(&mut self, search: &AllocatorSearch<'_>, ready: ReadyVariant, choice: Choice) {
        let clock = &search.measurement.clock;
        clock.add(ready.first_run.as_ref().map(|first_run| first_run.took));
        self.choices.push((ready.name.clone(), choice));
        self.ready.push(ready);
    }

    fn variants(&self) -> Vec<ReadyVariant> {
        std::iter::once(&self.baseline)
            .chain(&self.ready)
            .cloned()
            .collect()
    }
}

/// Says that only the first step fits into the time.
fn say_skipped(time: &TooLittleTime) {
    let seconds = time.enough_seconds();
    ui::note(&format!(
        "skipped step 2 of 2, tuning: no time is left; it needs `--budget {seconds}`"
    ));
}

/// The part of the time for the first step, if that is enough; the second gets the rest.
const PART_OF_ALLOCATORS: f64 = 0.6;
/// The second step takes what is left, which is at least its part.
const PART_OF_TUNING: Part = Part {
    of_left: 1.0,
    of_given: 1.0 - PART_OF_ALLOCATORS,
};

impl AllocatorSearch<'_> {
    /// Searches within the time of the measurement.
    pub fn run(&self) -> anyhow::Result<Found> {
        let mut results = self.measurement.without_benchmarks();
        let baseline = ReadyVariant {
            role: Role::Baseline,
            ..self.source.baseline()?
        };
        self.measurement.go_on()?;
        self.measurement.refuse_unserved(&baseline)?;
        let hardened = match self.goal {
            Goal::Security => Hardened::Only,
            Goal::Speed | Goal::Memory | Goal::Balanced => Hardened::LeftOut,
        };
        let mut choices = Choice::to_try(hardened)?;
        choices.sort_by_key(|choice| Some(choice.allocator.name) != self.first);
        choices.splice(0..0, self.also.iter().cloned());
        let mut step = StepVariants::new(baseline);
        let part = self.part_of_allocators(&step, choices.len());
        self.begin(&step, part, choices.len());
        if let Err(time) = self.measurement.clock.room() {
            return Err(refusal(&time).into());
        }
        for choice in choices {
            step.add(self, choice)?;
        }
        if let (true, Some(reason)) = (step.ready.is_empty(), &step.unusable) {
            let text = format!("there is no allocator to recommend: {reason}");
            return Err(Failure::failed(text).into());
        }
        ui::note("step 1 of 2: allocators");
        let measured = self.measure("allocators", &step, part);
        let benchmark = measured.map_err(|error| match too_little_time(&error) {
            Some(time) => refusal(time).into(),
            None => error,
        })?;
        results.benchmarks.push(benchmark);
        let benchmark = &results.benchmarks[0];
        if benchmark.ended == Ending::Interrupted || nothing_works(benchmark).is_some() {
            return Ok(Found::nothing(results));
        }
        let finalists = recommend::finalists(&Findings::of(&results, benchmark), &self.wish(&step));
        let finalists: Vec<String> = finalists
            .iter()
            .map(|&i| benchmark.variants[i].name.clone())
            .collect();
        let tuned = self.tuned(&step, &finalists);
        if self.measurement.go_on().is_err() {
            // What was measured before is worth keeping.
            results.benchmarks[0].ended = Ending::Interrupted;
            return Ok(Found::nothing(results));
        }
        let mut steps = vec![self.judged(step)];
        if let Some(tuned) = tuned? {
            ui::note("step 2 of 2: tuning");
            match self.measure("tuning", &tuned, PART_OF_TUNING) {
                Ok(benchmark) => {
                    let interrupted = benchmark.ended == Ending::Interrupted;
                    results.benchmarks.push(benchmark);
                    if interrupted {
                        return Ok(Found::nothing(results));
                    }
                    steps.push(self.judged(tuned));
                }
                Err(error) => match too_little_time(&error) {
                    Some(time) => say_skipped(time),
                    None => return Err(error),
                },
            }
        }
        Ok(Found { results, steps })
    }

    /// The part of the time for the allocators. If they need more than theirs, or the rest is not enough to tune any, it
    /// is all of it: comparing them comes first.
    fn part_of_allocators(&self, step: &StepVariants, candidates: usize) -> Part {
        let is_enough = |part, candidates| {
            let first_run = step.baseline.first_run.as_ref();
            let outlook = first_run.and_then(|run| self.measurement.clock.outlook(part, run.took));
            outlook.is_none_or(|outlook| outlook.has_room_for(candidates))
        };
        let (first, rest) = (
            Part::of_all(PART_OF_ALLOCATORS),
            Part::of_all(1.0 - PART_OF_ALLOCATORS),
        );
        if is_enough(first, candidates) && is_enough(rest, FINALISTS_MAX + 1) {
            first
        } else {
            Part::of_all(1.0)
        }
    }

    /// Begins to count the time of a step, if the baseline was tried out.
    fn begin(&self, step: &StepVariants, part: Part, wanted: usize) {
        if let Some(first_run) = &step.baseline.first_run {
            self.measurement
                .clock
                .begin_step(part, first_run.took, wanted);
        }
    }

    /// Measures one step in a part of the time.
    fn measure(&self, name: &str, step: &StepVariants, part: Part) -> anyhow::Result<Benchmark> {
        let measurement = self.measurement;
        let parameters = measurement.first_parameters();
        let memory = measurement.first_memory_limit_bytes();
        let (variants, left_out) = (step.variants(), &step.left_out);
        let mut benchmark = measurement.benchmark(&variants, left_out, parameters, memory, part)?;
        benchmark.name = format!("{}: {name}", benchmark.name);
        Ok(benchmark)
    }

    /// The finalists, and each of them with every option that is worth trying, one at a time. None if there is nothing
    /// to try, or no time for it.
    fn tuned(
        &self,
        step: &StepVariants,
        finalists: &[String],
    ) -> anyhow::Result<Option<StepVariants>> {
        let mut tuned = StepVariants::new(step.baseline.clone());
        let of_finalists = step.choices.iter().zip(&step.ready);
        let of_finalists: Vec<_> = of_finalists
            .filter(|((name, _), _)| finalists.contains(name))
            .collect();
        let mut choices: Vec<&Choice> =
            of_finalists.iter().map(|((_, choice), _)| choice).collect();
        let stock = Choice::of("stock", &[])?;
        // No option of the libc's own allocator makes it a hardened one.
        let tunes_baseline = self.source.tunes_baseline() && step.baseline.allocator.is_some();
        if tunes_baseline && self.goal != Goal::Security {
            choices.push(&stock);
        }
        let mut to_try = Vec::new();
        for choice in choices {
            let row = choice.allocator;
            for option in row.tuning {
                for value in option.worth_trying {
                    let option = format!("{}={value}", option.key);
                    to_try.push(Choice::of(row.name, &[option])?);
                }
            }
        }
        self.begin(&tuned, PART_OF_TUNING, finalists.len() + to_try.len());
        for ((_, choice), ready) in of_finalists {
            tuned.add_ready(self, ready.clone(), choice.clone());
        }
        if let (false, Err(time)) = (to_try.is_empty(), self.measurement.clock.room()) {
            say_skipped(&time);
            return Ok(None);
        }
        for choice in to_try {
            tuned.add(self, choice)?;
        }
        Ok((tuned.ready.len() > finalists.len()).then_some(tuned))
    }

    fn judged(&self, step: StepVariants) -> Step {
        Step {
            wish: self.wish(&step),
            choices: step.choices,
        }
    }

    fn wish(&self, step: &StepVariants) -> Wish {
        let (baseline, choices) = (&step.baseline, &step.choices);
        let hardened = choices
            .iter()
            .filter(|(_, choice)| choice.allocator.is_hardened && !choice.is_stock());
        let mut hardened: BTreeSet<String> = hardened.map(|(name, _)| name.clone()).collect();
        // For security, some hardening is not enough. For every other goal, choosing a plain allocator loses the
        // hardening.
        if self.source.baseline_libc() == Libc::Musl || self.goal != Goal::Security {
            let stock = choices.iter().filter(|(_, choice)| choice.is_stock());
            hardened.extend(stock.map(|(name, _)| name.clone()));
            // Nothing is known of an allocator that the program brings along.
            hardened.extend(baseline.allocator.as_ref().map(|_| baseline.name.clone()));
        }
        let names = choices.iter().map(|(name, _)| name.as_str());
        Wish {
            goal: self.goal,
            hardened,
            attacked: measured_attacks::withstood(names.chain([baseline.name.as_str()])),
        }
    }
}
