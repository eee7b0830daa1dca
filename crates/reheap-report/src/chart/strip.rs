//! Strip plots: every run as a dot, one row for each variant, on one axis.
//!
//! All runs, because a bar of the mean hides the two things that matter: how far runs lie apart, and whether they fall
//! into two groups. A dot that would lie on another is moved up or down, never sideways.

use super::axis::{Axis, Unit};
use super::drawing::{At, Drawing, Tone};

const ROW: f64 = 46.0;
const RADIUS: f64 = 3.4;
/// Beyond this many runs dots are smaller and fainter, so that it is seen where they lie close.
const MANY: usize = 50;
const RADIUS_OF_MANY: f64 = 2.0;
/// How far a dot may be moved up or down.
const REACH: f64 = 10.5;
/// The width for which dots are kept apart; on a wider page they lie further apart.
const NARROW: f64 = 330.0;
/// How many letters of a name and of a note have room in one line there.
const LETTERS: usize = 44;

/// A strip plot.
pub(crate) struct Strip<'a> {
    pub(crate) title: &'a str,
    pub(crate) unit: Unit,
    pub(crate) rows: Vec<Row<'a>>,
}

/// The runs of a variant.
pub(crate) struct Row<'a> {
    pub(crate) name: &'a str,
    pub(crate) tone: Tone,
    pub(crate) marks: Vec<Mark>,
    pub(crate) median: Option<f64>,
    /// The median in words, at the right end.
    pub(crate) note: String,
}

/// A run.
pub(crate) struct Mark {
    pub(crate) value: f64,
    pub(crate) kind: MarkKind,
    /// What a reader who points at it sees.
    pub(crate) title: String,
}

/// What a mark looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MarkKind {
    /// A dot.
    Run,
    /// A dot without colour.
    Outlier,
    /// A cross.
    Failure,
}

impl Strip<'_> {
    pub(crate) fn has(&self, kind: MarkKind) -> bool {
        let mut marks = self.rows.iter().flat_map(|row| &row.marks);
        marks.any(|mark| mark.kind == kind)
    }

    pub(crate) fn axis(&self) -> Axis {
        let values = self
            .rows
            .iter()
            .flat_map(|row| row.marks.iter().map(|mark| mark.value));
        Axis::of(values, self.unit, 5)
    }

    pub(crate) fn draw(&self) -> String {
        let axis = self.axis();
        let bottom = self.rows.len() as f64 * ROW + 4.0;
        let mut drawing = Drawing::new(bottom + 22.0);
        drawing.across(&axis, 0.0, bottom);
        for (index, row) in self.rows.iter().enumerate() {
            row.draw(&mut drawing, &axis, index as f64 * ROW);
        }
        drawing.finish("strip", self.title, &self.in_words())
    }

    fn in_words(&self) -> String {
        let rows: Vec<String> = self
            .rows
            .iter()
            .map(|row| format!("{}: {}, {} runs", row.name, row.note, row.marks.len()))
            .collect();
        rows.join("; ")
    }
}

impl Row<'_> {
    fn draw(&self, drawing: &mut Drawing, axis: &Axis, top: f64) {
        let class = self.tone.class();
        let middle = top + 31.0;
        drawing.text(
            "name",
            At {
                across: 0.0,
                down: top + 13.0,
            },
            0.0,
            &shortened(self.name, LETTERS.saturating_sub(self.note.chars().count())),
        );
        drawing.text(
            "note end",
            At {
                across: 1.0,
                down: top + 13.0,
            },
            0.0,
            &self.note,
        );
        drawing.line(
            "lane",
            At {
                across: 0.0,
                down: middle,
            },
            At {
                across: 1.0,
                down: middle,
            },
        );
        let (radius, class_of_run) = if self.marks.len() > MANY {
            (RADIUS_OF_MANY, format!("run many {class}"))
        } else {
            (RADIUS, format!("run {class}"))
        };
        let places: Vec<f64> = self.marks.iter().map(|mark| axis.at(mark.value)).collect();
        for (mark, (&across, shift)) in self
            .marks
            .iter()
            .zip(places.iter().zip(spread(&places, radius)))
        {
            let at = At {
                across,
                down: middle + shift,
            };
            match mark.kind {
                MarkKind::Run => drawing.dot(&class_of_run, at, radius, &mark.title),
                MarkKind::Outlier => drawing.dot("run outlier", at, radius, &mark.title),
                MarkKind::Failure => {
                    drawing.path("failure", at, "M-4-4L4 4M-4 4L4-4", &mark.title);
                }
            }
        }
        if let Some(median) = self.median {
            let across = axis.at(median);
            drawing.line(
                &format!("median {class}"),
                At {
                    across,
                    down: middle - 10.0,
                },
                At {
                    across,
                    down: middle + 10.0,
                },
            );
        }
    }
}

/// The text with its middle left out where it is longer than this.
fn shortened(text: &str, letters: usize) -> String {
    let count = text.chars().count();
    if count <= letters {
        return text.to_owned();
    }
    let kept = letters.saturating_sub(1) / 2;
    let (start, end) = (text.chars().take(kept), text.chars().skip(count - kept));
    start.chain(['…']).chain(end).collect()
}

/// How far each dot is moved down, so that it lies on no other as long as there is room.
fn spread(places: &[f64], radius: f64) -> Vec<f64> {
    let step = 1.5 * radius;
    let lanes_on_a_side = (REACH / step) as i32;
    let shifts: Vec<f64> = std::iter::once(0.0)
        .chain(
            (1..=lanes_on_a_side)
                .flat_map(|lane| [-step * f64::from(lane), step * f64::from(lane)]),
        )
        .collect();
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by(|&left, &right| places[left].total_cmp(&places[right]));
    let mut last_in_lane = vec![f64::NEG_INFINITY; shifts.len()];
    let mut moved = vec![0.0; places.len()];
    for index in order {
        let place = places[index] * NARROW;
        let free = last_in_lane
            .iter()
            .position(|last| place - last >= 1.7 * radius);
        // Where no lane is free, the one whose last dot is furthest away.
        let lane = free.unwrap_or_else(|| {
            let lanes = 0..shifts.len();
            lanes
                .min_by(|&left, &right| last_in_lane[left].total_cmp(&last_in_lane[right]))
                .unwrap_or(0)
        });
        last_in_lane[lane] = place;
        moved[index] = shifts[lane];
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::{shortened, spread};

    #[test]
    fn a_long_name_keeps_its_beginning_and_its_end() {
        assert_eq!(shortened("musl+mimalloc[purge_delay=0]", 11), "musl+…ay=0]");
        assert_eq!(shortened("musl", 4), "musl");
    }

    #[test]
    fn dots_that_lie_apart_stay_in_the_middle() {
        assert_eq!(spread(&[0.1, 0.5, 0.9], 2.0), [0.0, 0.0, 0.0]);
    }

    #[test]
    fn equal_dots_are_moved_apart() {
        assert_eq!(spread(&[0.5, 0.5, 0.5], 2.0), [0.0, -3.0, 3.0]);
    }
}
