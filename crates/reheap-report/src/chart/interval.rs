//! A ratio to the baseline with its interval, as one line of a table: the column of them is a forest plot.
//!
//! Whoever reads down the column sees at once what differs from the baseline (the interval does not touch the line at
//! 1) and by how much, which a column of numbers does not show.

use super::axis::{Axis, Unit};
use super::drawing::{At, Drawing, Tone};

const HEIGHT: f64 = 26.0;

/// A ratio that may lie anywhere between `low` and `high`.
pub(crate) struct Interval {
    pub(crate) ratio: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// One axis for all rows of a column; it always has 1 on it.
pub(crate) fn interval_axis(rows: &[Interval]) -> Axis {
    let (low, high) = rows
        .iter()
        .flat_map(|row| [row.low, row.high, row.ratio])
        .filter(|value| value.is_finite() && *value > 0.0)
        .fold((1.0_f64, 1.0_f64), |(low, high), value| {
            (low.min(value), high.max(value))
        });
    // Equal factors look equal: half as long and twice as long are the same step.
    let room = (high / low).powf(0.06).max(1.01);
    Axis::logarithmic(low / room, high * room, Unit::Plain)
}

/// Draws one row.
pub(crate) fn interval(row: Option<&Interval>, axis: &Axis, tone: Tone, title: &str) -> String {
    let mut drawing = Drawing::new(HEIGHT);
    let middle = HEIGHT / 2.0;
    let one = axis.at(1.0);
    drawing.line(
        "one",
        At {
            across: one,
            down: 0.0,
        },
        At {
            across: one,
            down: HEIGHT,
        },
    );
    let class = tone.class();
    match row {
        Some(row) => {
            let at = |value| At {
                across: axis.at(value),
                down: middle,
            };
            drawing.line(&format!("whisker {class}"), at(row.low), at(row.high));
            drawing.path(
                &format!("place {class}"),
                at(row.ratio),
                tone.shape(),
                title,
            );
        }
        None => drawing.path(
            &format!("place {class}"),
            At {
                across: one,
                down: middle,
            },
            tone.shape(),
            title,
        ),
    }
    drawing.finish("interval", title, "")
}
