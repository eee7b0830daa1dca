//! Memory over time: what a program uses, and what the kernel gave for it.

use super::axis::{Axis, Unit};
use super::drawing::{At, Drawing, Tone};
use super::lines::{BOTTOM, HEIGHT, TOP};

/// Memory at a time, in seconds and bytes.
pub(crate) type Moment = (f64, f64);

/// The curves of a process.
pub(crate) struct Memory<'a> {
    pub(crate) title: &'a str,
    /// Where the axis of time ends.
    pub(crate) seconds: f64,
    pub(crate) live: Vec<Moment>,
    /// Empty if it was not observed.
    pub(crate) resident: Vec<Moment>,
    /// What is marked, and its text.
    pub(crate) peak: Option<(Moment, String)>,
}

impl Memory<'_> {
    /// The colour and shape of live bytes.
    pub(crate) const LIVE: Tone = Tone::Candidate(0);
    /// The colour and shape of resident memory.
    pub(crate) const RESIDENT: Tone = Tone::Candidate(1);

    pub(crate) fn draw(&self, in_words: &str) -> String {
        let moments = self
            .live
            .iter()
            .chain(&self.resident)
            .chain(self.peak.iter().map(|(peak, _)| peak));
        let axis = Axis::of(
            moments.map(|(_, bytes)| *bytes).chain([0.0]),
            Unit::Bytes,
            6,
        );
        let time = Axis::linear(0.0, self.seconds.max(1e-9), Unit::Seconds, 6);
        let place = |(seconds, bytes): Moment| At {
            across: time.at(seconds),
            down: BOTTOM - axis.at(bytes) * (BOTTOM - TOP),
        };
        let mut drawing = Drawing::new(HEIGHT);
        drawing.down(&axis, TOP, BOTTOM);
        drawing.across(&time, TOP, BOTTOM);
        let places = |moments: &[Moment]| moments.iter().copied().map(place).collect::<Vec<At>>();
        let live = places(&self.live);
        let mut area = live.clone();
        if let (Some(first), Some(last)) = (live.first(), live.last()) {
            let down = BOTTOM;
            area.extend([At { down, ..*last }, At { down, ..*first }]);
        }
        if !live.is_empty() {
            drawing.area(&format!("band {}", Memory::LIVE.class()), &area);
            drawing.curve(&format!("curve {}", Memory::LIVE.class()), &live);
        }
        if !self.resident.is_empty() {
            let class = format!("curve {}", Memory::RESIDENT.class());
            drawing.curve(&class, &places(&self.resident));
        }
        if let Some((peak, text)) = &self.peak {
            let class = format!("place {}", Memory::LIVE.class());
            drawing.path(&class, place(*peak), Memory::LIVE.shape(), text);
        }
        drawing.finish("lines", self.title, in_words)
    }
}
