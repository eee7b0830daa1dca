//! The first run of each variant. It is not measured, because it fills the page cache. But it shows which variants work,
//! and what a round takes, so it decides which of them take part.
//!
//! With a number of rounds all do. Otherwise those do that fit into the time, as [`crate::outlook`] says.

use crate::experiment::plan::FirstRun;
use crate::experiment::runner::{MeasureError, Runner};
use crate::experiment::watch::{Progress, Stage};
use crate::failures::is_an_end;
use crate::outlook::Outlook;
use crate::results::{LeftOut, Outcome, Role};
use crate::run::Finished;
use std::time::Duration;

/// What the first runs decided.
pub(super) struct FirstRuns<'r, 'a> {
    runner: &'r mut Runner<'a>,
    /// How long that of each variant took; none for those that take no part.
    took: Vec<Option<Duration>>,
    left_out: Vec<LeftOut>,
    made: Vec<(usize, Progress<'a>, Finished)>,
    /// Of how many of these the watch was told.
    told: usize,
}

/// The variants that take part, and those that do not.
pub(super) struct Participants {
    /// How long the first run of each variant took; none for those that take no part.
    pub(super) took: Vec<Option<Duration>>,
    /// Those that do not fit into the time.
    pub(super) left_out: Vec<LeftOut>,
    /// Whether that of the baseline succeeded.
    pub(super) baseline_succeeded: bool,
    /// If no variant works: the first runs, with when they began. More of them would show nothing else.
    pub(super) all_failed: Option<Vec<(usize, Duration, Finished)>>,
}

impl<'r, 'a> FirstRuns<'r, 'a> {
    pub(super) fn new(runner: &'r mut Runner<'a>) -> FirstRuns<'r, 'a> {
        FirstRuns {
            took: vec![None; runner.plan.variants.len()],
            runner,
            left_out: Vec::new(),
            made: Vec::new(),
            told: 0,
        }
    }

    /// Makes those that were not made before.
    pub(super) fn make(&mut self) -> Result<(), MeasureError> {
        match self.runner.plan.settings.rounds {
            Some(_) => self.all()?,
            None => self.what_fits()?,
        }
        if let (0, Some((_, progress, finished))) = (self.told, self.made.first()) {
            self.runner.watch.run_ended(progress, finished);
        }
        Ok(())
    }

    /// What they decided, also if they were broken off.
    pub(super) fn participants(self) -> Participants {
        let nothing_works = !self.anything_works();
        let mut of_baseline = self.made.iter().filter(|(place, ..)| *place == 0);
        let baseline_succeeded = of_baseline.any(|(.., run)| run.outcome.is_success());
        let made = self
            .made
            .into_iter()
            .map(|(place, progress, finished)| (place, progress.elapsed, finished));
        Participants {
            took: self.took,
            left_out: self.left_out,
            baseline_succeeded,
            all_failed: nothing_works.then(|| made.collect()),
        }
    }

    /// Runs each variant once, whatever that takes.
    fn all(&mut self) -> Result<(), MeasureError> {
        for variant in self.runner.plan.places(|role| role != Role::BaselineCopy) {
            self.one(variant, None)?;
        }
        self.copy_takes_part();
        Ok(())
    }

    /// Runs the baseline once, and as many candidates as can have the rounds that they need.
    fn what_fits(&mut self) -> Result<(), MeasureError> {
        let budget = self.runner.plan.settings.budget();
        let baseline = self.one(0, Some(budget))?;
        self.copy_takes_part();
        let mut outlook = Outlook::new(budget, self.runner.plan.share, baseline);
        let candidates = self.runner.plan.places(|role| role == Role::Candidate);
        let mut running: Vec<usize> = Vec::new();
        for &place in &candidates {
            let is_made = self.runner.plan.variants[place].first_run.is_some();
            let elapsed = self.runner.elapsed();
            if !outlook.has_room(elapsed, is_made) {
                let reason = outlook.too_little_time(candidates.len(), elapsed).reason();
                self.leave_out(place, reason);
                continue;
            }
            let most = outlook.longest_first_run();
            let took = self.one(place, Some(most))?;
            if took >= most {
                self.leave_out(place, outlook.cut_off(took).to_string());
                continue;
            }
            outlook.add(Some(took));
            running.push(place);
            while let Some(one) = outlook.one_too_many(self.runner.elapsed()) {
                let reason = match outlook.leave_out(one) {
                    Some(too_slow) => too_slow.to_string(),
                    None => outlook.too_little_time(candidates.len(), elapsed).reason(),
                };
                self.leave_out(running.remove(one), reason);
            }
        }
        if running.is_empty() && !candidates.is_empty() {
            let refusal = outlook.too_little_time(candidates.len(), self.runner.elapsed());
            return Err(MeasureError::TooLittleTime(refusal));
        }
        Ok(())
    }

    /// How long a first run took, which is made now if it was not made before, and ended after this time.
    fn one(&mut self, place: usize, most: Option<Duration>) -> Result<Duration, MeasureError> {
        let (progress, FirstRun { took, finished }) =
            match &self.runner.plan.variants[place].first_run {
                Some(made) => (self.runner.progress(place, Stage::WarmUp), made.clone()),
                None => self.runner.run(place, Stage::WarmUp, most)?,
            };
        self.took[place] = Some(took);
        // Whoever waits for a command that takes too long wants to know that it is not the first one.
        let is_told = finished.outcome == Outcome::TimedOut;
        self.made.push((place, progress, finished));
        if is_told || self.anything_works() {
            self.tell();
        }
        Ok(took)
    }

    fn anything_works(&self) -> bool {
        let served = self.runner.plan.load.is_some();
        let mut made = self.made.iter();
        made.any(|(_, _, finished)| is_an_end(finished.outcome, served))
    }

    /// Tells of the first runs of which nobody was told. As long as all crash, one message says it for all.
    fn tell(&mut self) {
        for (_, progress, finished) in &self.made[self.told..] {
            self.runner.watch.run_ended(progress, finished);
        }
        self.told = self.made.len();
    }

    /// The baseline's copy is the same command, so it needs no first run of its own.
    fn copy_takes_part(&mut self) {
        let baseline = self.took[0];
        for copy in self.runner.plan.places(|role| role == Role::BaselineCopy) {
            self.took[copy] = baseline;
        }
    }

    fn leave_out(&mut self, place: usize, reason: String) {
        let name = self.runner.plan.variants[place].name.clone();
        self.runner.watch.left(&name, &reason);
        self.took[place] = None;
        self.left_out.push(LeftOut { name, reason });
    }
}
