//! Lines: how a figure changes with a parameter, or from round to round.

use super::axis::{Axis, Unit};
use super::drawing::{At, Drawing, Tone};

pub(super) const HEIGHT: f64 = 280.0;
/// Beyond this many rounds a line has no dots.
const MANY: usize = 40;
pub(super) const TOP: f64 = 12.0;
pub(super) const BOTTOM: f64 = HEIGHT - 28.0;

/// A chart of lines.
pub(crate) struct Lines<'a> {
    pub(crate) title: &'a str,
    pub(crate) unit: Unit,
    pub(crate) steps: Steps,
    pub(crate) series: Vec<Series<'a>>,
    /// `faint` for many rounds, `strong` for a few settings.
    pub(crate) class: &'static str,
}

/// What lies across.
pub(crate) enum Steps {
    /// Settings in their order, each with its name, equally far apart: a sweep over 1, 2, 4, 8 reads best so.
    Named(Vec<String>),
    /// Rounds from 1 to this.
    Rounds(usize),
}

/// The line of a variant.
pub(crate) struct Series<'a> {
    pub(crate) name: &'a str,
    pub(crate) tone: Tone,
    pub(crate) points: Vec<Point>,
}

/// A figure at one step.
pub(crate) struct Point {
    /// Which step, from 0.
    pub(crate) step: usize,
    pub(crate) value: f64,
    /// Where it may lie as well.
    pub(crate) interval: Option<(f64, f64)>,
    pub(crate) title: String,
}

impl Lines<'_> {
    pub(crate) fn axis(&self) -> Axis {
        match self.as_bars() {
            Some(_) => self.axis_of_bars(),
            None => Axis::of(self.values(), self.unit, 6),
        }
    }

    /// All that has to be seen: the figures, and where they may lie as well.
    pub(super) fn values(&self) -> impl Iterator<Item = f64> {
        let points = self.series.iter().flat_map(|series| &series.points);
        points.flat_map(|point| {
            let (low, high) = point.interval.unwrap_or((point.value, point.value));
            [low, point.value, high]
        })
    }

    /// The names of the settings if there are two, which are drawn as bars.
    pub(crate) fn as_bars(&self) -> Option<&[String]> {
        match &self.steps {
            Steps::Named(names) if names.len() == 2 => Some(names),
            _ => None,
        }
    }

    pub(crate) fn draw(&self) -> String {
        if let Some(names) = self.as_bars() {
            return self.draw_bars(names);
        }
        let axis = self.axis();
        let mut drawing = Drawing::new(HEIGHT);
        drawing.down(&axis, TOP, BOTTOM);
        self.steps.draw(&mut drawing);
        for series in &self.series {
            self.draw_series(&mut drawing, &axis, series);
        }
        let class = format!("lines {}", self.class);
        drawing.finish(&class, self.title, &self.in_words())
    }

    fn draw_series(&self, drawing: &mut Drawing, axis: &Axis, series: &Series<'_>) {
        let place = |step: usize, value: f64| At {
            across: self.steps.at(step),
            down: BOTTOM - axis.at(value) * (BOTTOM - TOP),
        };
        let tone = series.tone.class();
        let upper = series
            .points
            .iter()
            .filter_map(|point| point.interval.map(|(_, high)| place(point.step, high)));
        let lower = series
            .points
            .iter()
            .rev()
            .filter_map(|point| point.interval.map(|(low, _)| place(point.step, low)));
        let band: Vec<At> = upper.chain(lower).collect();
        if band.len() > 2 {
            drawing.area(&format!("band {tone}"), &band);
        }
        let line: Vec<At> = series
            .points
            .iter()
            .map(|point| place(point.step, point.value))
            .collect();
        drawing.curve(&format!("curve {tone}"), &line);
        for (point, &at) in series.points.iter().zip(&line) {
            match self.steps {
                Steps::Named(_) => drawing.path(
                    &format!("place {tone}"),
                    at,
                    series.tone.shape(),
                    &point.title,
                ),
                Steps::Rounds(rounds) if rounds > MANY => {}
                Steps::Rounds(_) => drawing.dot(&format!("run {tone}"), at, 2.2, &point.title),
            }
        }
    }

    pub(super) fn in_words(&self) -> String {
        let series: Vec<String> = self
            .series
            .iter()
            .map(|series| {
                let points: Vec<&str> = series
                    .points
                    .iter()
                    .map(|point| point.title.as_str())
                    .collect();
                match self.steps {
                    Steps::Named(_) => points.join(", "),
                    Steps::Rounds(_) => format!("{}: {} rounds", series.name, points.len()),
                }
            })
            .collect();
        series.join("; ")
    }
}

impl Steps {
    fn at(&self, step: usize) -> f64 {
        let count = match self {
            Steps::Named(names) => names.len(),
            Steps::Rounds(count) => *count,
        };
        match count {
            0 | 1 => 0.5,
            count => 0.03 + 0.94 * step as f64 / (count - 1) as f64,
        }
    }

    fn draw(&self, drawing: &mut Drawing) {
        let named: Vec<(usize, String)> = match self {
            Steps::Named(names) => names.iter().cloned().enumerate().collect(),
            Steps::Rounds(count) => {
                let every = count.div_ceil(8).max(1);
                (0..*count)
                    .step_by(every)
                    .map(|round| (round, (round + 1).to_string()))
                    .collect()
            }
        };
        for (step, name) in named {
            let at = |down| At {
                across: self.at(step),
                down,
            };
            drawing.line("grid", at(TOP), at(BOTTOM));
            drawing.text("tick mid", at(BOTTOM + 16.0), 0.0, &name);
        }
    }
}
