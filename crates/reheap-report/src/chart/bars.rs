//! Bars: how a figure differs between two settings. A line between two points would suggest what lies between them.

use super::axis::Axis;
use super::drawing::{At, Drawing};
use super::lines::{BOTTOM, HEIGHT, Lines, Point, TOP};

/// The part of a setting's width that its bars take.
const FILLED: f64 = 0.84;
/// The part of a bar's width that stays free.
const FREE: f64 = 0.16;

impl Lines<'_> {
    /// All bars stand on zero, because their lengths are compared.
    pub(super) fn axis_of_bars(&self) -> Axis {
        Axis::of(self.values().chain([0.0]), self.unit, 6)
    }

    /// A group of bars for each of the settings, in it a bar for each variant.
    pub(super) fn draw_bars(&self, names: &[String]) -> String {
        let axis = self.axis_of_bars();
        let mut drawing = Drawing::new(HEIGHT);
        drawing.down(&axis, TOP, BOTTOM);
        let group = 1.0 / names.len() as f64;
        for (step, name) in names.iter().enumerate() {
            let across = (step as f64 + 0.5) * group;
            let down = BOTTOM + 16.0;
            drawing.text("tick mid", At { across, down }, 0.0, name);
        }
        let width = group * FILLED / self.series.len().max(1) as f64;
        for (place, series) in self.series.iter().enumerate() {
            for point in &series.points {
                let start = (point.step as f64 + (1.0 - FILLED) / 2.0) * group;
                let left = start + place as f64 * width;
                let class = series.tone.class();
                draw_bar(
                    &mut drawing,
                    &axis,
                    point,
                    &class,
                    (left, width * (1.0 - FREE)),
                );
            }
        }
        drawing.finish("lines", self.title, &self.in_words())
    }
}

fn draw_bar(drawing: &mut Drawing, axis: &Axis, point: &Point, class: &str, bar: (f64, f64)) {
    let (left, width) = bar;
    let at = |across: f64, value: f64| At {
        across,
        down: BOTTOM - axis.at(value) * (BOTTOM - TOP),
    };
    let (from, to) = (at(left, point.value), at(left + width, 0.0));
    drawing.rectangle(&format!("bar {class}"), from, to, &point.title);
    if let Some((low, high)) = point.interval {
        let middle = left + width / 2.0;
        drawing.line("reach", at(middle, low), at(middle, high));
    }
}
