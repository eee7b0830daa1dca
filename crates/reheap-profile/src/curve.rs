//! How much memory a process had over time, in few enough points.
//!
//! In a long run seconds lie between two points, and what was live for moments would mostly fall between them. So there
//! are two kinds: points at regular times, which know resident memory too, and the highest moment between two of these.

use crate::profile::Point;
use std::time::Duration;

/// How many points of each kind there are at most. With more, one of two goes.
const POINTS_MAX: usize = 800;
/// The time between two points, at first.
const FIRST_STEP: Duration = Duration::from_millis(5);

/// The points of a process.
#[derive(Debug)]
pub(crate) struct Curve {
    regular: Vec<Point>,
    highs: Vec<Point>,
    /// The highest since the last regular point.
    high: Option<Point>,
    step: Duration,
    next: Duration,
}

impl Curve {
    pub(crate) fn new() -> Self {
        Self {
            regular: Vec::new(),
            highs: Vec::new(),
            high: None,
            step: FIRST_STEP,
            next: Duration::ZERO,
        }
    }

    /// How many regular points there are.
    pub(crate) fn len(&self) -> usize {
        self.regular.len()
    }

    /// Whether it is time for a regular point.
    pub(crate) fn is_due(&self, now: Duration) -> bool {
        now >= self.next
    }

    /// Whether so much is more than at any moment since the last regular point, and then.
    pub(crate) fn is_high(&self, live_bytes: u64) -> bool {
        let highest = self.high.or(self.regular.last().copied());
        highest.is_none_or(|highest| live_bytes > highest.live.bytes)
    }

    /// Adds a moment, if it is the highest since the last regular point.
    pub(crate) fn raise(&mut self, high: Point) {
        if self.is_high(high.live.bytes) {
            self.high = Some(high);
        }
    }

    /// Adds a regular point.
    pub(crate) fn add(&mut self, point: Point, now: Duration) {
        let high = self.high.take();
        let high = high.filter(|high| high.live.bytes > point.live.bytes);
        self.highs.extend(high);
        self.regular.push(point);
        if self.highs.len() > POINTS_MAX {
            self.highs = self.highs.chunks(2).filter_map(higher).collect();
        }
        if self.regular.len() > POINTS_MAX {
            self.regular = self.regular.iter().step_by(2).copied().collect();
            self.step *= 2;
        }
        self.next = now + self.step;
    }

    /// All points, in the order of time.
    pub(crate) fn points(mut self) -> Vec<Point> {
        self.regular.append(&mut self.highs);
        self.regular.extend(self.high);
        let by_time = |one: &Point, other: &Point| one.seconds.total_cmp(&other.seconds);
        self.regular.sort_by(by_time);
        self.regular
    }
}

fn higher(points: &[Point]) -> Option<Point> {
    points.iter().copied().max_by_key(|point| point.live.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Live;

    fn at(now: Duration, bytes: u64) -> Point {
        Point {
            seconds: now.as_secs_f64(),
            live: Live { blocks: 1, bytes },
            allocations: 1,
            resident_bytes: None,
        }
    }

    /// A process that is looked at each millisecond for an hour, with so much live in one of these.
    fn of_an_hour(moment: u64, peak: u64) -> Vec<Point> {
        let mut curve = Curve::new();
        for look in 0..3_600_000 {
            let now = Duration::from_millis(look);
            let bytes = if look == moment { peak } else { 100 + look % 7 };
            if curve.is_high(bytes) {
                curve.raise(at(now, bytes));
            }
            if curve.is_due(now) {
                curve.add(at(now, bytes), now);
            }
        }
        curve.points()
    }

    #[test]
    fn a_peak_of_a_moment_in_a_long_run_is_in_the_curve() {
        for moment in [1, 1_234, 777_777, 3_599_001] {
            let points = of_an_hour(moment, 5_000);
            assert!(points.len() <= 2 * POINTS_MAX);
            assert!(points.is_sorted_by_key(|point| point.seconds));
            let highest = higher(&points).unwrap();
            assert_eq!(highest.live.bytes, 5_000);
            assert_eq!(highest.seconds, Duration::from_millis(moment).as_secs_f64());
        }
    }
}
