//! Time, or what else a benchmark is about, against memory: one place for each variant.
//!
//! The Pareto front joins the variants that no other beats in both; whoever chooses, chooses one of these.

use super::axis::{Axis, Unit};
use super::drawing::{At, Drawing, Tone};
use reheap_bench::results::Direction;

const HEIGHT: f64 = 300.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = HEIGHT - 26.0;
/// The width and the size of letters for which names are kept apart.
const NARROW: f64 = 400.0;
const LETTER: f64 = 6.6;

/// Any quantity across, memory down.
pub(crate) struct Scatter<'a> {
    pub(crate) title: &'a str,
    pub(crate) unit: Unit,
    /// In which direction lies the better of what lies across.
    pub(crate) direction: Direction,
    pub(crate) dots: Vec<Dot<'a>>,
}

/// A variant.
pub(crate) struct Dot<'a> {
    pub(crate) name: &'a str,
    pub(crate) tone: Tone,
    pub(crate) across: f64,
    pub(crate) bytes: f64,
    pub(crate) is_on_front: bool,
    pub(crate) title: String,
}

impl Scatter<'_> {
    pub(crate) fn axes(&self) -> (Axis, Axis) {
        (
            Axis::close(self.dots.iter().map(|dot| dot.across), self.unit, 5),
            Axis::close(self.dots.iter().map(|dot| dot.bytes), Unit::Bytes, 5),
        )
    }

    pub(crate) fn draw(&self) -> String {
        let (time, memory) = self.axes();
        let mut drawing = Drawing::new(HEIGHT);
        drawing.across(&time, TOP, BOTTOM);
        drawing.down(&memory, TOP, BOTTOM);
        let places: Vec<At> = self
            .dots
            .iter()
            .map(|dot| At {
                across: time.at(dot.across),
                down: BOTTOM - memory.at(dot.bytes) * (BOTTOM - TOP),
            })
            .collect();
        drawing.curve("front", &self.front(&places));
        for (dot, &at) in self.dots.iter().zip(&places) {
            let class = if dot.is_on_front {
                "place on-front"
            } else {
                "place"
            };
            drawing.path(
                &format!("{class} {}", dot.tone.class()),
                at,
                dot.tone.shape(),
                &dot.title,
            );
        }
        for label in labels(&self.dots, &places) {
            drawing.text(label.class, label.at, label.shift, label.name);
        }
        drawing.finish("scatter", self.title, &self.in_words())
    }

    /// The front as steps: beyond each place, what it is better than.
    fn front(&self, places: &[At]) -> Vec<At> {
        let mut on_front: Vec<At> = self
            .dots
            .iter()
            .zip(places)
            .filter(|(dot, _)| dot.is_on_front)
            .map(|(_, &at)| at)
            .collect();
        on_front.sort_by(|left, right| left.across.total_cmp(&right.across));
        let end = match self.direction {
            Direction::Lower => 1.0,
            Direction::Higher => 0.0,
        };
        if self.direction == Direction::Higher {
            on_front.reverse();
        }
        let mut steps = Vec::new();
        if let Some(first) = on_front.first() {
            steps.push(At {
                down: TOP,
                ..*first
            });
        }
        for (index, &at) in on_front.iter().enumerate() {
            steps.push(at);
            let across = on_front.get(index + 1).map_or(end, |next| next.across);
            steps.push(At { across, ..at });
        }
        steps
    }

    fn in_words(&self) -> String {
        let dots: Vec<String> = self
            .dots
            .iter()
            .map(|dot| {
                let front = if dot.is_on_front {
                    ", on the Pareto front"
                } else {
                    ""
                };
                format!("{}{front}", dot.title)
            })
            .collect();
        dots.join("; ")
    }
}

struct Label<'a> {
    name: &'a str,
    at: At,
    class: &'static str,
    shift: f64,
}

/// A name beside each place where it meets no other name and no other place; the rest is read from the legend.
fn labels<'a>(dots: &'a [Dot<'a>], places: &[At]) -> Vec<Label<'a>> {
    struct Taken {
        left: f64,
        right: f64,
        top: f64,
        bottom: f64,
    }
    let around = |at: &At, name_width: f64, shift: f64| Taken {
        left: at.across * NARROW + shift,
        right: at.across * NARROW + shift + name_width,
        top: at.down - 8.0,
        bottom: at.down + 8.0,
    };
    let mut taken: Vec<Taken> = places.iter().map(|at| around(at, 14.0, -7.0)).collect();
    let mut labels = Vec::new();
    for (dot, place) in dots.iter().zip(places) {
        let width = dot.name.chars().count() as f64 * LETTER;
        let sides = [
            (10.0, 0.0, "direct"),
            (-10.0 - width, 0.0, "direct end"),
            (-width / 2.0, -16.0, "direct mid"),
            (-width / 2.0, 17.0, "direct mid"),
        ];
        let free = sides.into_iter().find(|(shift, lower, _)| {
            let at = At {
                down: place.down + lower,
                ..*place
            };
            let wanted = around(&at, width, *shift);
            wanted.left >= -2.0
                && wanted.right <= NARROW + 2.0
                && !taken.iter().any(|other| {
                    wanted.left < other.right
                        && other.left < wanted.right
                        && wanted.top < other.bottom
                        && other.top < wanted.bottom
                })
        });
        if let Some((shift, lower, class)) = free {
            let at = At {
                down: place.down + lower,
                ..*place
            };
            taken.push(around(&at, width, shift));
            labels.push(Label {
                name: dot.name,
                at: At {
                    down: at.down + 4.0,
                    ..at
                },
                class,
                shift: match class {
                    "direct" => 10.0,
                    "direct end" => -10.0,
                    _ => 0.0,
                },
            });
        }
    }
    labels
}
