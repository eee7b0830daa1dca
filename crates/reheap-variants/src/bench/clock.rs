//! Keeps the time that `--budget` gives, over all steps of a command.
//!
//! What counts are reading the program and runs of the command, also those before the first round. Building does not
//! count, because it happens once.

use reheap_bench::outlook::{Outlook, Share, TooLittleTime, TooSlow};
use reheap_bench::results::Settings;
use reheap_command::ui::Failure;
use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

/// A part of the time, for some of the measurements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// The share of what is left now.
    pub(crate) of_left: f64,
    /// The share of what the user gave, if nothing but measurements took time.
    pub(crate) of_given: f64,
}

impl Part {
    /// A part of all the time, none of which is used up.
    pub(crate) fn of_all(part: f64) -> Part {
        Part {
            of_left: part,
            of_given: part,
        }
    }
}

/// The time of a command.
pub(crate) struct Clock {
    /// The time that the user gave; `None` if they asked for a number of rounds.
    budget: Option<Duration>,
    spent: Cell<Duration>,
    step: RefCell<Option<Step>>,
}

/// Variants that are made ready to be measured together.
struct Step {
    began: Duration,
    outlook: Outlook,
    wanted: usize,
}

impl Clock {
    pub(crate) fn new(settings: &Settings) -> Clock {
        Clock {
            budget: settings.rounds.is_none().then(|| settings.budget()),
            spent: Cell::new(Duration::ZERO),
            step: RefCell::new(None),
        }
    }

    /// Does something whose time counts.
    pub(crate) fn count<T>(&self, work: impl FnOnce() -> T) -> (T, Duration) {
        let began = Instant::now();
        let result = work();
        let took = began.elapsed();
        self.spent.set(self.spent.get() + took);
        (result, took)
    }

    /// What is left of the time; none if there is no limit.
    pub(crate) fn left(&self) -> Option<Duration> {
        Some(self.budget?.saturating_sub(self.spent.get()))
    }

    /// Begins a step in which so many candidates are wanted. A run of the baseline takes so long.
    pub(crate) fn begin_step(&self, part: Part, baseline: Duration, wanted: usize) {
        let outlook = self.outlook(part, baseline);
        *self.step.borrow_mut() = outlook.map(|outlook| Step {
            began: self.spent.get(),
            outlook,
            wanted,
        });
    }

    /// What fits into this part of the time, if a run of the baseline takes so long; none if there is no limit.
    pub(crate) fn outlook(&self, part: Part, baseline: Duration) -> Option<Outlook> {
        let time = self.left()?.mul_f64(part.of_left);
        let share = Share {
            given: self.budget?,
            part: part.of_given,
        };
        Some(Outlook::new(time, share, baseline))
    }

    /// Whether another candidate can be tried out and measured in this step.
    ///
    /// # Errors
    /// If not: what is missing.
    pub(crate) fn room(&self) -> Result<(), TooLittleTime> {
        let step = self.step.borrow();
        let Some(step) = step.as_ref() else {
            return Ok(());
        };
        let elapsed = self.spent.get() - step.began;
        if step.outlook.has_room(elapsed, false) {
            Ok(())
        } else {
            Err(step.outlook.too_little_time(step.wanted, elapsed))
        }
    }

    /// Ends the step before anything of it was measured.
    pub(crate) fn give_up_step(&self) {
        *self.step.borrow_mut() = None;
    }

    /// How long a variant may take that is tried out: this part of the time that is left or, if the baseline was tried
    /// out, as long as the first run of a candidate.
    pub(crate) fn limit_of_trials(&self, share: f64) -> Option<Duration> {
        let step = self.step.borrow();
        let of_candidates = step.as_ref().map(|step| step.outlook.longest_first_run());
        of_candidates.or_else(|| Some(self.left()?.mul_f64(share)))
    }

    /// Whether a candidate of this step that was tried out so long is too slow for it.
    pub(crate) fn too_slow(&self, first_run: Duration) -> Option<TooSlow> {
        let mut step = self.step.borrow_mut();
        let outlook = &mut step.as_mut()?.outlook;
        (first_run >= outlook.longest_first_run()).then(|| outlook.cut_off(first_run))
    }

    /// A candidate of this step is ready; it took so long when it was tried out, if it was.
    pub(crate) fn add(&self, first_run: Option<Duration>) {
        if let Some(step) = self.step.borrow_mut().as_mut() {
            step.outlook.add(first_run);
        }
    }
}

/// The refusal to measure anything, with what to type instead.
pub(crate) fn refusal(time: &TooLittleTime) -> Failure {
    let seconds = time.enough_seconds();
    let failure = Failure::failed(time.to_string());
    let fewer = if time.candidates > 1 {
        ", or fewer variants"
    } else {
        ""
    };
    failure.hint(format!("use --budget {seconds}{fewer}"))
}
