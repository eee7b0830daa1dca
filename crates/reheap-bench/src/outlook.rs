//! What fits into the time: how many variants, and how many rounds of them.
//!
//! After the first run of each variant it is known what a round takes. Fewer rounds than a claim needs are worth
//! nothing, so variants that do not fit are left out, and if not even one fits, nothing is measured.

use crate::analysis::SIGNIFICANCE;
use crate::figures::{count, seconds};
use std::fmt;
use std::time::Duration;

/// A variant whose first run took this many times as long as the baseline's is left out before others are.
pub(crate) const MUCH_SLOWER: f64 = 1.5;

/// The fewest rounds in which a difference can be claimed with so many candidates: in each round the variant has one of
/// three ranks, the test is two-sided, and Holm's correction multiplies by the candidates.
pub fn rounds_needed(candidates: usize) -> usize {
    let smallest_p = |rounds: usize| 2.0 * candidates.max(1) as f64 * 3f64.powi(-(rounds as i32));
    (1..)
        .find(|&rounds| smallest_p(rounds) < SIGNIFICANCE)
        .expect("the chance falls to a third with each round")
}

/// What is known of the time before the first round.
#[derive(Clone, Debug)]
pub struct Outlook {
    budget: Duration,
    /// The first run of the baseline, which runs twice in each round.
    baseline: Duration,
    /// The first runs of the candidates.
    candidates: Vec<Duration>,
}

/// How much can be measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// What a round takes as long as no variant leaves.
    pub round: Duration,
    /// The rounds that fit, at least.
    pub rounds: usize,
}

/// Too little time for anything that could be claimed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TooLittleTime {
    /// What the first run of the baseline took.
    pub run: Duration,
    /// The candidates.
    pub candidates: usize,
    /// The rounds that they need.
    pub rounds: usize,
    /// What these rounds take, with the first runs.
    pub all: Duration,
    /// What there is.
    pub budget: Duration,
}

impl Outlook {
    /// After the baseline's first run.
    pub fn new(budget: Duration, baseline: Duration) -> Outlook {
        Outlook {
            budget,
            baseline,
            candidates: Vec::new(),
        }
    }

    /// Whether another candidate can have the rounds that it needs, if a run of it takes as long as the baseline's. So
    /// much time has passed.
    pub fn has_room(&self, elapsed: Duration) -> bool {
        let candidates = self.candidates.len() + 1;
        let rounds = self.round() + self.baseline;
        elapsed + self.baseline + rounds * rounds_needed(candidates) as u32 <= self.budget
    }

    /// Another candidate, whose first run took this long; as long as the baseline's, if it was not run yet.
    pub fn add(&mut self, first_run: Option<Duration>) {
        self.candidates.push(first_run.unwrap_or(self.baseline));
    }

    /// The candidate that has to be left out so that the others get the rounds that they need, as a place among those
    /// that are there; none if all get them. Much slower ones first, and then the last.
    pub fn one_too_many(&self, elapsed: Duration) -> Option<usize> {
        let needed = rounds_needed(self.candidates.len());
        if self.candidates.is_empty() || self.forecast(elapsed).rounds >= needed {
            return None;
        }
        let slow = self.baseline.mul_f64(MUCH_SLOWER);
        let candidates = self.candidates.iter().enumerate();
        let slowest = candidates
            .filter(|(_, time)| **time > slow)
            .max_by_key(|(_, time)| **time);
        Some(slowest.map_or(self.candidates.len() - 1, |(place, _)| place))
    }

    /// Leaves a candidate out, and says how long its first run took.
    pub fn leave_out(&mut self, place: usize) -> Duration {
        self.candidates.remove(place)
    }

    /// How many rounds fit into what is left.
    pub fn forecast(&self, elapsed: Duration) -> Forecast {
        let round = self.round();
        let left = self.budget.saturating_sub(elapsed).as_secs_f64();
        Forecast {
            round,
            rounds: (left / round.as_secs_f64().max(1e-6)) as usize,
        }
    }

    /// What so many candidates would take, if a run of each takes as long as the baseline's.
    pub fn too_little_time(&self, candidates: usize) -> TooLittleTime {
        let rounds = rounds_needed(candidates);
        let runs = 1 + candidates + rounds * (2 + candidates);
        TooLittleTime {
            run: self.baseline,
            candidates,
            rounds,
            all: self.baseline * runs as u32,
            budget: self.budget,
        }
    }

    fn round(&self) -> Duration {
        self.baseline * 2 + self.candidates.iter().sum::<Duration>()
    }
}

impl TooLittleTime {
    /// Why a variant was left out.
    pub fn reason(&self) -> String {
        let (all, seconds) = (count(self.candidates + 1, "variant"), self.enough_seconds());
        format!("no time: {all} need `--budget {seconds}`")
    }

    /// A budget in seconds that is enough, as a round number.
    pub fn enough_seconds(&self) -> u64 {
        let step = match self.all.as_secs() {
            ..100 => 10,
            100..1000 => 50,
            _ => 500,
        };
        // A tenth more, because runs vary.
        let seconds = self.all.mul_f64(1.1).as_secs() + 1;
        seconds.div_ceil(step) * step
    }
}

impl fmt::Display for TooLittleTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "one run takes {}; {} of {} take {}, and {} are left",
            duration(self.run),
            count(self.rounds, "round"),
            count(self.candidates + 1, "variant"),
            duration(self.all),
            duration(self.budget),
        )
    }
}

/// A time as people say it: `0.8 s`, `14 s`, `6 minutes`.
pub fn duration(time: Duration) -> String {
    match time.as_secs_f64() {
        short if short < 1.0 => seconds(short),
        short if short < 9.95 => format!("{short:.1} s"),
        medium if medium < 119.5 => format!("{medium:.0} s"),
        long if long < 7200.0 => format!("{:.0} minutes", long / 60.0),
        long => format!("{:.1} hours", long / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_rounds_that_a_claim_needs_grow_slowly_with_the_candidates() {
        assert_eq!(
            [0, 1, 2, 3, 6, 7, 18, 19].map(rounds_needed),
            [4, 4, 4, 5, 5, 6, 6, 7]
        );
    }

    #[test]
    fn there_is_room_for_as_many_as_get_their_rounds() {
        let mut outlook = Outlook::new(60 * SECOND, 4 * SECOND);
        // One candidate: its first run, and 4 rounds of 3 runs.
        assert!(outlook.has_room(4 * SECOND));
        outlook.add(None);
        assert!(!outlook.has_room(8 * SECOND));
        assert_eq!(outlook.forecast(8 * SECOND).rounds, 4);
        assert!(!Outlook::new(60 * SECOND, 15 * SECOND).has_room(15 * SECOND));
    }

    #[test]
    fn the_slowest_is_left_out_before_the_last() {
        let mut outlook = Outlook::new(60 * SECOND, SECOND);
        for seconds in [1, 20, 40, 1] {
            outlook.add(Some(seconds * SECOND));
        }
        assert_eq!(outlook.one_too_many(Duration::ZERO), Some(2));
        assert_eq!(outlook.leave_out(2), 40 * SECOND);
        assert_eq!(outlook.one_too_many(Duration::ZERO), Some(1));
        outlook.leave_out(1);
        assert_eq!(outlook.one_too_many(Duration::ZERO), None);
        assert_eq!(outlook.one_too_many(50 * SECOND), Some(1));
    }

    #[test]
    fn what_is_missing_is_said_with_a_budget_that_is_enough() {
        let refused = Outlook::new(60 * SECOND, 14 * SECOND).too_little_time(7);
        assert_eq!(
            refused.to_string(),
            "one run takes 14 s; 6 rounds of 8 variants take 14 minutes, and 60 s are left"
        );
        assert_eq!(refused.enough_seconds(), 1000);
    }

    #[test]
    fn times_are_said_as_people_say_them() {
        let times = [0.0123, 0.8, 4.02, 14.4, 118.0, 360.0, 9000.0];
        let said = times.map(|time| duration(Duration::from_secs_f64(time)));
        assert_eq!(
            said,
            [
                "12.3 ms",
                "800 ms",
                "4.0 s",
                "14 s",
                "118 s",
                "6 minutes",
                "2.5 hours"
            ]
        );
    }
}
