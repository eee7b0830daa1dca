//! What all charts are drawn with: lines, shapes and texts on a ground that is percent across and pixels down; and the
//! colours and shapes of variants.
//!
//! A chart has no `viewBox`, so it is not scaled as a picture: across, everything lies at a percentage of the width
//! that the page gives it; down, at pixels. Letters keep their size on a telephone as on a wide screen, which no
//! drawing library's SVG does, and a page needs each chart only once. Lines and areas, whose points cannot be given in
//! percent, go into an inner `<svg>` that is stretched across, with strokes that are not.
//!
//! Colours are classes (`t0`, `t1`, …) that the page's style sheet knows for light and dark; each variant has also a
//! shape, so that nothing is said by colour alone.

use super::axis::Axis;
use crate::escape::html;
use std::fmt::{self, Write as _};

/// How many candidates have a colour of their own; the style sheet has as many.
const COLOURS: usize = 7;

/// The colour and shape of a variant, the same in all of a page's charts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    /// What the others are compared with.
    Baseline,
    /// One to choose from: the first, the second, ….
    Candidate(usize),
}

impl Tone {
    /// The class that gives it its colour.
    pub(crate) fn class(self) -> String {
        match self {
            Tone::Baseline => "t-base".to_owned(),
            Tone::Candidate(index) => format!("t{}", index % COLOURS),
        }
    }

    /// The outline of its shape, around 0,0.
    pub(super) fn shape(self) -> &'static str {
        const CIRCLE: &str = "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0z";
        const SQUARE: &str = "M-4.5-4.5h9v9h-9z";
        const TRIANGLE: &str = "M0-5.6L5.4 4.2H-5.4z";
        const DIAMOND: &str = "M0-6.2L6.2 0L0 6.2L-6.2 0z";
        const TURNED: &str = "M0 5.6L5.4-4.2H-5.4z";
        const PLUS: &str = "M-1.8-5.6h3.6v3.8h3.8v3.6h-3.8v3.8h-3.6v-3.8h-3.8v-3.6h3.8z";
        const STAR: &str =
            "M0-6.4L1.9-2.1L6.1-2L2.9 1.2L3.8 5.8L0 3.4L-3.8 5.8L-2.9 1.2L-6.1-2L-1.9-2.1z";
        match self {
            Tone::Baseline => SQUARE,
            Tone::Candidate(index) => {
                let shapes = [CIRCLE, TRIANGLE, DIAMOND, TURNED, PLUS, STAR];
                shapes[index % shapes.len()]
            }
        }
    }

    /// Its shape for a line of text.
    pub(crate) fn swatch(self) -> String {
        format!(
            r#"<svg class="swatch {}" viewBox="-8 -8 16 16" width="16" height="16" aria-hidden="true"><path d="{}"/></svg>"#,
            self.class(),
            self.shape()
        )
    }
}

/// A drawing: across in percent, down in pixels.
pub(super) struct Drawing {
    pub(super) height: f64,
    body: String,
}

/// Where something lies in a [`Drawing`].
#[derive(Clone, Copy)]
pub(super) struct At {
    /// From the left, as a part of one.
    pub(super) across: f64,
    /// From the top, in pixels.
    pub(super) down: f64,
}

impl Drawing {
    pub(super) fn new(height: f64) -> Drawing {
        Drawing {
            height,
            body: String::new(),
        }
    }

    pub(super) fn line(&mut self, class: &str, from: At, to: At) {
        self.push(format_args!(
            r#"<line class="{class}" x1="{}" y1="{}" x2="{}" y2="{}"/>"#,
            Percent(from.across),
            Short(from.down),
            Percent(to.across),
            Short(to.down)
        ));
    }

    /// Writes a text; the class says where it is anchored, `shift` moves it by pixels.
    pub(super) fn text(&mut self, class: &str, at: At, shift: f64, text: &str) {
        self.push(format_args!(
            r#"<text class="{class}" x="{}" dx="{}" y="{}">{}</text>"#,
            Percent(at.across),
            Short(shift),
            Short(at.down),
            html(text)
        ));
    }

    /// A small round mark; whoever points at it reads the text.
    pub(super) fn dot(&mut self, class: &str, at: At, radius: f64, title: &str) {
        self.push(format_args!(
            r#"<circle class="{class}" cx="{}" cy="{}" r="{}"><title>{}</title></circle>"#,
            Percent(at.across),
            Short(at.down),
            Short(radius),
            html(title)
        ));
    }

    /// An outline, drawn around a place.
    pub(super) fn path(&mut self, class: &str, at: At, outline: &str, title: &str) {
        self.push(format_args!(
            r#"<svg x="{}" y="{}" overflow="visible"><path class="{class}" d="{outline}"><title>{}</title></path></svg>"#,
            Percent(at.across),
            Short(at.down),
            html(title)
        ));
    }

    /// A bar; whoever points at it reads the text.
    pub(super) fn rectangle(&mut self, class: &str, from: At, to: At, title: &str) {
        self.push(format_args!(
            r#"<rect class="{class}" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>"#,
            Percent(from.across),
            Short(from.down),
            Percent((to.across - from.across).max(0.0)),
            Short(to.down - from.down),
            html(title)
        ));
    }

    /// A line through several points.
    pub(super) fn curve(&mut self, class: &str, points: &[At]) {
        self.stretched(class, "polyline", points);
    }

    /// What several points enclose.
    pub(super) fn area(&mut self, class: &str, points: &[At]) {
        self.stretched(class, "polygon", points);
    }

    fn stretched(&mut self, class: &str, element: &str, points: &[At]) {
        let height = self.height;
        self.push(format_args!(
            r#"<svg width="100%" height="{0}" viewBox="0 0 100 {0}" preserveAspectRatio="none"><{element} class="{class}" vector-effect="non-scaling-stroke" points=""#,
            Short(height)
        ));
        for (index, point) in points.iter().enumerate() {
            let space = if index == 0 { "" } else { " " };
            self.push(format_args!(
                "{space}{},{}",
                Short(point.across * 100.0),
                Short(point.down)
            ));
        }
        self.push(format_args!(r#""/></svg>"#));
    }

    fn push(&mut self, text: fmt::Arguments<'_>) {
        self.body
            .write_fmt(text)
            .expect("a string takes all that is written to it");
    }

    /// Ticks of an axis along the lower edge, with lines up to `top`.
    pub(super) fn across(&mut self, axis: &Axis, top: f64, bottom: f64) {
        for tick in &axis.ticks {
            let at = |down| At {
                across: tick.at,
                down,
            };
            self.line("grid", at(top), at(bottom));
            self.text("tick mid", at(bottom + 16.0), 0.0, &tick.label);
        }
    }

    /// Ticks of an axis along the left edge; their labels stand in the margin that the page leaves.
    pub(super) fn down(&mut self, axis: &Axis, top: f64, bottom: f64) {
        for tick in &axis.ticks {
            let at = |across| At {
                across,
                down: bottom - tick.at * (bottom - top),
            };
            self.line("grid", at(0.0), at(1.0));
            let label = At {
                down: at(0.0).down + 4.0,
                ..at(0.0)
            };
            self.text("tick end", label, -8.0, &tick.label);
        }
    }

    /// The whole picture, with a text for those who cannot see it.
    pub(super) fn finish(self, class: &str, title: &str, description: &str) -> String {
        format!(
            r#"<svg class="chart {class}" role="img" width="100%" height="{}"><title>{}</title><desc>{}</desc>{}</svg>"#,
            Short(self.height),
            html(title),
            html(description),
            self.body
        )
    }
}

/// A part of one as a percentage.
struct Percent(f64);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", Short(self.0 * 100.0))
    }
}

/// A number with no more digits than a screen can show.
struct Short(f64);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rounded = (self.0 * 100.0).round() / 100.0;
        // Minus zero would be written as such.
        write!(f, "{}", if rounded == 0.0 { 0.0 } else { rounded })
    }
}
