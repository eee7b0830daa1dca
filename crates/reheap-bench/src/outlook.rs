//! What fits into the time: how many variants, and how many rounds of them.
//!
//! After the first run of each variant it is known what a round takes. Fewer rounds than a claim needs are worth
//! nothing, so variants that do not fit are left out, and if not even one fits, nothing is measured.

use crate::analysis::SIGNIFICANCE;
use crate::figures::{count, number, seconds};
use crate::results::Settings;
use crate::rounds::ROUNDS_BEFORE_PRECISE;
use std::fmt;
use std::time::Duration;

/// A variant whose first run took this many times as long as the baseline's is left out before others are.
const MUCH_SLOWER: f64 = 1.5;

/// The fewest rounds in which a difference can be claimed with so many candidates: in each round the variant has one of
/// three ranks, the test is two-sided, and Holm's correction multiplies by the candidates.
pub fn rounds_needed(candidates: usize) -> usize {
    let smallest_p = |rounds: usize| 2.0 * candidates.max(1) as f64 * 3f64.powi(-(rounds as i32));
    (1..)
        .find(|&rounds| smallest_p(rounds) < SIGNIFICANCE)
        .expect("the chance falls to a third with each round")
}

/// A candidate's first run is ended after this part of the time, if it also takes so many times as long as the
/// baseline's.
const FIRST_RUN_SHARE: u32 = 6;
const FIRST_RUN_TIMES: u32 = 10;

/// What part of the time that the user gave a measurement gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// What the user gave.
    pub given: Duration,
    /// The part, above 0 and up to 1.
    pub part: f64,
}

/// What is known of the time before the first round.
#[derive(Clone, Debug)]
pub struct Outlook {
    budget: Duration,
    share: Share,
    /// The first run of the baseline, which runs twice in each round.
    baseline: Duration,
    /// The first runs of the candidates.
    candidates: Vec<Duration>,
    /// The shortest first run of those that were left out because they are too slow.
    too_slow: Option<Duration>,
}

/// Too little time for anything that could be claimed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TooLittleTime {
    /// What the first run of the baseline took.
    pub run: Duration,
    /// Whether that is all of the time, after which it was ended.
    pub is_cut: bool,
    /// What that of the fastest candidate took, if all are much slower.
    pub candidate: Option<Duration>,
    /// The candidates.
    pub candidates: usize,
    /// The rounds that they need.
    pub rounds: usize,
    /// What these rounds take, with the first runs.
    pub all: Duration,
    /// What is left.
    pub left: Duration,
    /// What it is a part of.
    share: Share,
}

impl Outlook {
    /// After the baseline's first run.
    pub fn new(budget: Duration, share: Share, baseline: Duration) -> Outlook {
        Outlook {
            budget,
            share,
            baseline,
            candidates: Vec::new(),
            too_slow: None,
        }
    }

    /// After this time the first run of a candidate is ended: the candidate is too slow.
    pub fn longest_first_run(&self) -> Duration {
        (self.budget / FIRST_RUN_SHARE).max(self.baseline * FIRST_RUN_TIMES)
    }

    /// A candidate whose first run was ended after this time is left out for that.
    pub fn cut_off(&mut self, first_run: Duration) -> TooSlow {
        TooSlow {
            was_cut_off: true,
            ..self.too_slow(first_run)
        }
    }

    fn too_slow(&mut self, first_run: Duration) -> TooSlow {
        self.too_slow = Some(
            self.too_slow
                .map_or(first_run, |before| before.min(first_run)),
        );
        TooSlow {
            first_run,
            was_cut_off: false,
            baseline: self.baseline,
        }
    }

    /// Whether another candidate can have the rounds that it needs, if a run of it takes as long as the baseline's. So
    /// much time has passed. Its first run is still to be made, or was made before.
    pub fn has_room(&self, elapsed: Duration, first_run_is_made: bool) -> bool {
        let candidates = self.candidates.len() + 1;
        let rounds = (self.round() + self.baseline) * rounds_needed(candidates) as u32;
        let first_run = if first_run_is_made {
            Duration::ZERO
        } else {
            self.baseline
        };
        elapsed + first_run + rounds <= self.budget
    }

    /// Whether so many candidates can have their first runs and the rounds that they need, if a run of each takes as long
    /// as the baseline's.
    pub fn has_room_for(&self, candidates: usize) -> bool {
        let runs = candidates + rounds_needed(candidates) * (2 + candidates);
        self.baseline * runs as u32 <= self.budget
    }

    /// Another candidate, whose first run took this long; as long as the baseline's, if it was not run yet.
    pub fn add(&mut self, first_run: Option<Duration>) {
        self.candidates.push(first_run.unwrap_or(self.baseline));
    }

    /// The candidate that has to be left out so that the others get the rounds that they need, as a place among those
    /// that are there; none if all get them. Much slower ones first, and then the last.
    pub fn one_too_many(&self, elapsed: Duration) -> Option<usize> {
        let needed = rounds_needed(self.candidates.len());
        if self.candidates.is_empty() || self.rounds_that_fit(elapsed) >= needed {
            return None;
        }
        let slow = self.baseline.mul_f64(MUCH_SLOWER);
        let candidates = self.candidates.iter().enumerate();
        let slowest = candidates
            .filter(|(_, time)| **time > slow)
            .max_by_key(|(_, time)| **time);
        Some(slowest.map_or(self.candidates.len() - 1, |(place, _)| place))
    }

    /// Leaves a candidate out, and says if that is because it is too slow.
    pub fn leave_out(&mut self, place: usize) -> Option<TooSlow> {
        let took = self.candidates.remove(place);
        (took > self.baseline.mul_f64(MUCH_SLOWER)).then(|| self.too_slow(took))
    }

    /// How many rounds fit into what is left.
    fn rounds_that_fit(&self, elapsed: Duration) -> usize {
        let left = self.budget.saturating_sub(elapsed).as_secs_f64();
        (left / self.round().as_secs_f64().max(1e-6)) as usize
    }

    /// What so many candidates would take, if a run of each takes as long as the baseline's; if all are too slow, what
    /// one of them would take.
    pub fn too_little_time(&self, candidates: usize, elapsed: Duration) -> TooLittleTime {
        let candidate = self.too_slow.filter(|_| self.candidates.is_empty());
        let candidates = if candidate.is_some() { 1 } else { candidates };
        let rounds = rounds_needed(candidates);
        let untried = candidates.saturating_sub(self.candidates.len()) as u32;
        let tried: Duration = self.candidates.iter().sum();
        let all_candidates = tried + candidate.unwrap_or(self.baseline) * untried;
        let round = self.baseline * 2 + all_candidates;
        TooLittleTime {
            run: self.baseline,
            is_cut: self.baseline >= self.budget,
            candidate,
            candidates,
            rounds,
            all: self.baseline + all_candidates + round * rounds as u32,
            left: self.budget.saturating_sub(elapsed),
            share: self.share,
        }
    }

    fn round(&self) -> Duration {
        self.baseline * 2 + self.candidates.iter().sum::<Duration>()
    }
}

/// When the rounds are expected to end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExpectedEnd {
    /// After how many rounds.
    pub rounds: usize,
    /// How long these take from now on.
    pub left: Duration,
}

impl ExpectedEnd {
    /// After so many rounds and so much time, if each round from now on takes this long, and the widest interval is this
    /// part of its ratio.
    pub fn of(
        settings: &Settings,
        rounds: usize,
        elapsed: Duration,
        round: Duration,
        width: Option<f64>,
    ) -> ExpectedEnd {
        let seconds = round.as_secs_f64().max(1e-6);
        let at_the_end = settings.rounds.unwrap_or_else(|| {
            let left = settings.budget().saturating_sub(elapsed);
            let fit = rounds + (left.as_secs_f64() / seconds) as usize;
            // An interval's width falls with the root of the number of rounds.
            let precise = width
                .map(|width| rounds as f64 * (width / settings.precision).powi(2))
                .map_or(usize::MAX, |rounds| rounds as usize);
            fit.min(precise.max(ROUNDS_BEFORE_PRECISE))
        });
        let left = at_the_end.saturating_sub(rounds) as f64 * seconds;
        ExpectedEnd {
            rounds: at_the_end.max(rounds),
            left: Duration::try_from_secs_f64(left).unwrap_or(Duration::MAX),
        }
    }
}

/// A candidate that is left out because it is so much slower than the baseline that it does not fit into the time.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub struct TooSlow {
    /// What its first run took, or when it was ended.
    pub first_run: Duration,
    was_cut_off: bool,
    baseline: Duration,
}

impl fmt::Display for TooSlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times = self.first_run.as_secs_f64() / self.baseline.as_secs_f64();
        write!(
            f,
            "too slow for the time: its first run took {}{}, {} times the baseline's",
            duration(self.first_run),
            if self.was_cut_off { " or more" } else { "" },
            number(times)
        )
    }
}

impl TooLittleTime {
    /// Why a variant was left out.
    pub fn reason(&self) -> String {
        let (all, seconds) = (count(self.candidates + 1, "variant"), self.enough_seconds());
        format!("no time: {all} need `--budget {seconds}`")
    }

    /// A budget in seconds of which the share is enough, as a round number. What was given was not enough.
    pub fn enough_seconds(&self) -> u64 {
        let Share { given, part } = self.share;
        enough_seconds(self.all.div_f64(part).max(given))
    }
}

impl fmt::Display for TooLittleTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at_least = if self.is_cut { "at least " } else { "" };
        write!(f, "one run takes {at_least}{}", duration(self.run))?;
        if let Some(candidate) = self.candidate {
            write!(
                f,
                ", and {} or more with the fastest other variant",
                duration(candidate)
            )?;
        }
        write!(
            f,
            "; {} of {} take {}, and {} are left",
            count(self.rounds, "round"),
            count(self.candidates + 1, "variant"),
            duration(self.all),
            duration(self.left),
        )
    }
}

/// A budget in seconds that is enough for what takes so long, as a round number.
pub fn enough_seconds(time: Duration) -> u64 {
    let step = match time.as_secs() {
        ..100 => 10,
        100..1000 => 50,
        _ => 500,
    };
    // A tenth more, because runs vary.
    let seconds = time.mul_f64(1.1).as_secs() + 1;
    seconds.div_ceil(step) * step
}

/// A time as people say it: `0.8 s`, `14 s`, `6 minutes`.
pub fn duration(time: Duration) -> String {
    match time.as_secs_f64() {
        short if short < 1.0 => seconds(short),
        short if short < 9.95 => format!("{short:.1} s"),
        medium if medium < 119.5 => format!("{medium:.0} s"),
        long if long < 7200.0 => format!("{:.0} minutes", long / 60.0),
        long if long < 48.0 * 3600.0 => format!("{:.1} hours", long / 3600.0),
        long => format!("{:.0} days", long / 86400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Of all the time that was given.
    fn of_all(budget: Duration, baseline: Duration) -> Outlook {
        let share = Share {
            given: budget,
            part: 1.0,
        };
        Outlook::new(budget, share, baseline)
    }

    #[test]
    fn the_rounds_that_a_claim_needs_grow_slowly_with_the_candidates() {
        assert_eq!(
            [0, 1, 2, 3, 6, 7, 18, 19].map(rounds_needed),
            [4, 4, 4, 5, 5, 6, 6, 7]
        );
    }

    #[test]
    fn there_is_room_for_as_many_as_get_their_rounds() {
        let mut outlook = of_all(60 * SECOND, 4 * SECOND);
        // One candidate: its first run, and 4 rounds of 3 runs.
        assert!(outlook.has_room(4 * SECOND, false));
        outlook.add(None);
        assert!(!outlook.has_room(8 * SECOND, false));
        assert_eq!(outlook.rounds_that_fit(8 * SECOND), 4);
        assert!(!of_all(60 * SECOND, 15 * SECOND).has_room(15 * SECOND, false));
        assert!(of_all(56 * SECOND, 4 * SECOND).has_room(8 * SECOND, true));
    }

    #[test]
    fn the_slowest_is_left_out_before_the_last() {
        let mut outlook = of_all(60 * SECOND, SECOND);
        for seconds in [1, 20, 40, 1] {
            outlook.add(Some(seconds * SECOND));
        }
        assert_eq!(outlook.one_too_many(Duration::ZERO), Some(2));
        assert_eq!(outlook.leave_out(2).unwrap().first_run, 40 * SECOND);
        assert_eq!(outlook.one_too_many(Duration::ZERO), Some(1));
        outlook.leave_out(1);
        assert_eq!(outlook.one_too_many(Duration::ZERO), None);
        assert_eq!(outlook.one_too_many(50 * SECOND), Some(1));
    }

    /// The rounds at the end, and the seconds left, after 20 rounds of a second.
    fn end(rounds: Option<usize>, budget_seconds: f64, width: Option<f64>) -> (usize, u64) {
        let settings = Settings {
            rounds,
            budget_seconds,
            precision: 0.02,
            ..crate::simulated::results(Vec::new()).settings
        };
        let end = ExpectedEnd::of(&settings, 20, 20 * SECOND, SECOND, width);
        (end.rounds, end.left.as_secs())
    }

    #[test]
    fn rounds_end_with_the_time_or_when_the_intervals_will_be_narrow() {
        assert_eq!(end(None, 60.0, None), (60, 40));
        assert_eq!(end(None, 60.0, Some(0.2)), (60, 40));
        // Three times as narrow takes nine times as many rounds.
        assert_eq!(end(None, 1e6, Some(0.06)), (180, 160));
        assert_eq!(end(None, 1e6, Some(0.001)), (20, 0));
        assert_eq!(end(Some(25), 1e6, Some(0.001)), (25, 5));
    }

    #[test]
    fn what_is_missing_is_said_with_a_budget_that_is_enough() {
        let refused = of_all(60 * SECOND, 14 * SECOND).too_little_time(7, 14 * SECOND);
        assert_eq!(
            refused.to_string(),
            "one run takes 14 s; 6 rounds of 8 variants take 14 minutes, and 46 s are left"
        );
        assert_eq!(refused.enough_seconds(), 1000);
    }

    #[test]
    fn a_budget_that_is_named_is_more_than_the_one_that_was_not_enough() {
        let share = Share {
            given: 60 * SECOND,
            part: 0.6,
        };
        let outlook = Outlook::new(36 * SECOND, share, SECOND);
        assert!(outlook.has_room_for(4) && !outlook.has_room_for(5));
        // 40 s are less than 60 s, but the part of a first step is only 36 s.
        assert_eq!(outlook.too_little_time(5, 30 * SECOND).enough_seconds(), 80);
        // What took the time was something else than runs.
        assert_eq!(outlook.too_little_time(1, 30 * SECOND).enough_seconds(), 70);
    }

    #[test]
    fn if_all_others_are_too_slow_the_time_is_that_of_the_fastest() {
        let mut outlook = of_all(60 * SECOND, SECOND);
        assert_eq!(outlook.longest_first_run(), 10 * SECOND);
        outlook.too_slow(20 * SECOND);
        outlook.too_slow(30 * SECOND);
        let refused = outlook.too_little_time(2, 51 * SECOND);
        assert_eq!(
            refused.to_string(),
            "one run takes 1.0 s, and 20 s or more with the fastest other variant; 4 rounds of 2 variants take 109 s, and 9.0 s \
             are left"
        );
        assert_eq!(refused.enough_seconds(), 150);
    }

    #[test]
    fn times_are_said_as_people_say_them() {
        let times = [0.0123, 0.8, 4.02, 14.4, 118.0, 360.0, 9000.0, 1e6];
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
                "2.5 hours",
                "12 days"
            ]
        );
    }
}
