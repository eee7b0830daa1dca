//! Charts as SVG text, made by hand.

mod axis;
mod bars;
mod drawing;
mod interval;
mod lines;
mod memory;
mod scatter;
mod strip;

pub(crate) use axis::{Axis, Unit};
pub(crate) use drawing::Tone;
pub(crate) use interval::{Interval, interval, interval_axis};
pub(crate) use lines::{Lines, Point, Series, Steps};
pub(crate) use memory::{Memory, Moment};
pub(crate) use scatter::{Dot, Scatter};
pub(crate) use strip::{Mark, MarkKind, Row, Strip};
