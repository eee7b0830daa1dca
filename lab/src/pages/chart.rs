//! The chart of the front page: time and peak memory of each variant over glibc's. Bars are means over programs, with a
//! dot for each. Micro benchmarks are rings beside them.
//!
//! Bars begin at zero and both halves have the same scale, so lengths may be compared. A benchmark beyond the scale is
//! only a number, because a logarithmic scale would make 4 look like 2. Colours are chosen for a white
//! and for a black page; the picture brings its own background, because a page need not follow the reader's setting.
//!
//! Not one of the charts of `reheap report`: those are laid out by the page that they are in, and this is a file.

use super::ratios::{Benchmark, Kind, Of, Ratios, Shown};
use std::fmt::Write as _;

const WIDTH: f64 = 980.0;
const ROW: f64 = 30.0;
const BAR: f64 = 16.0;
/// Space before a variant of another kind.
const GAP: f64 = 10.0;
/// Where the first row begins.
const TOP: f64 = 96.0;
const BOTTOM: f64 = 64.0;
const MARGIN: f64 = 28.0;
/// How wide the bars may become.
const PANEL: f64 = 224.0;
const PANELS: [(Of, &str, f64); 2] = [
    (Of::Time, "Time", 304.0),
    (Of::Memory, "Peak memory", 676.0),
];

const STYLE: &str = "\
.page{fill:#fff;stroke:#d1d9e0}.text{fill:#1f2328}.quiet{fill:#59636e}.grid{stroke:#e3e8ed}.one{stroke:#59636e;stroke-dasharray:3 3}\
.stock{fill:#cf3f4f}.known{fill:#a3adb8}.reheap{fill:#1a7f5a}.dot{fill:#1f2328;fill-opacity:.55;stroke:#fff;stroke-width:.8}\
.ring{fill:none;stroke:#1f2328;stroke-opacity:.55}\
@media (prefers-color-scheme:dark){\
.page{fill:#0d1117;stroke:#30363d}.text{fill:#e6edf3}.quiet{fill:#9198a1}.grid{stroke:#232a33}.one{stroke:#9198a1}\
.stock{fill:#e5636f}.known{fill:#5a6470}.reheap{fill:#35b587}.dot{fill:#fff;fill-opacity:.65;stroke:#0d1117}.ring{stroke:#fff;stroke-opacity:.65}}";

/// A row of the chart.
pub(crate) struct Bar<'a> {
    pub(crate) label: String,
    pub(crate) kind: Kind,
    /// Whether there is space above it.
    pub(crate) begins_group: bool,
    /// Time and memory, relative to the baseline.
    pub(crate) ratios: [Option<f64>; 2],
    /// The variant, and the benchmarks in which it has a dot.
    pub(crate) variant: &'a str,
    pub(crate) dots: &'a [Benchmark],
}

/// The chart of these variants, in this order: means over the programs, relative to glibc.
pub(crate) fn svg(title: &str, ratios: &Ratios, shown: &[Shown], day: &str) -> String {
    let common = ratios.common(shown);
    let bars = shown.iter().enumerate().map(|(index, row)| Bar {
        label: row.label.to_owned(),
        kind: row.kind,
        begins_group: index > 0 && shown[index - 1].kind != row.kind,
        ratios: PANELS.map(|(of, _, _)| Ratios::mean(&common, row.variant, of)),
        variant: row.variant,
        dots: &ratios.benchmarks,
    });
    let bars: Vec<Bar<'_>> = bars.collect();
    draw(title, "glibc", &bars, &notes(ratios, &common, day))
}

/// A chart of these bars, whose ratios are relative to this baseline, with two lines below.
pub(crate) fn draw(title: &str, baseline: &str, bars: &[Bar<'_>], notes: &[String; 2]) -> String {
    let means = bars.iter().map(|bar| bar.ratios);
    let largest = means.flatten().flatten().fold(1.0_f64, f64::max);
    let scale = Scale {
        reach: (largest * 1.08).max(2.0),
    };
    let mut tops = Vec::new();
    let mut y = TOP;
    for bar in bars {
        if bar.begins_group {
            y += GAP;
        }
        tops.push(y);
        y += ROW;
    }
    let (end, height) = (y, y + BOTTOM);

    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         role=\"img\" font-family=\"-apple-system,'Segoe UI','Noto Sans','DejaVu Sans',sans-serif\" font-size=\"14\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n\
         <rect class=\"page\" x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"8\"/>\n\
         <text class=\"text\" x=\"{MARGIN}\" y=\"34\" font-size=\"17\" font-weight=\"600\">{title}</text>\n",
        WIDTH - 1.0,
        height - 1.0
    );
    for (_, name, left) in PANELS {
        panel(&mut svg, name, baseline, left, &scale, end);
    }
    for (row, top) in bars.iter().zip(&tops) {
        let weight = if row.kind == Kind::Known { 400 } else { 600 };
        let base = top + ROW / 2.0 + 5.0;
        _ = writeln!(
            svg,
            "<text class=\"text\" x=\"{MARGIN}\" y=\"{base}\" font-weight=\"{weight}\">{}</text>",
            row.label
        );
        for ((of, _, left), mean) in PANELS.into_iter().zip(row.ratios) {
            let Some(mean) = mean else { continue };
            let class = match row.kind {
                Kind::Stock => "stock",
                Kind::Known => "known",
                Kind::Reheap => "reheap",
            };
            _ = writeln!(
                svg,
                "<text class=\"text\" x=\"{}\" y=\"{base}\" text-anchor=\"end\" font-weight=\"{weight}\">{}</text>\n\
                 <rect class=\"{class}\" x=\"{left}\" y=\"{}\" width=\"{:.1}\" height=\"{BAR}\" rx=\"2\"/>",
                left - 10.0,
                times(mean),
                top + (ROW - BAR) / 2.0,
                scale.width(mean)
            );
            dots(
                &mut svg,
                row.dots,
                row.variant,
                of,
                left,
                top + ROW / 2.0,
                &scale,
            );
        }
    }
    for (note, y) in notes.iter().zip([end + 30.0, end + 48.0]) {
        _ = writeln!(
            svg,
            "<text class=\"quiet\" x=\"{MARGIN}\" y=\"{y}\" font-size=\"12\">{note}</text>"
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// How long a ratio is.
struct Scale {
    /// The ratio at the end of the panel.
    reach: f64,
}

impl Scale {
    fn width(&self, ratio: f64) -> f64 {
        PANEL * ratio / self.reach
    }
}

/// The name, the grid and the line of the baseline.
fn panel(svg: &mut String, name: &str, baseline: &str, left: f64, scale: &Scale, end: f64) {
    _ = writeln!(
        svg,
        "<text class=\"text\" x=\"{left}\" y=\"62\" font-weight=\"600\">{name}<tspan class=\"quiet\" font-weight=\"400\" \
         font-size=\"12\" dx=\"8\">shorter is better</tspan></text>"
    );
    let mut ratio = 0.0;
    while ratio <= scale.reach {
        let x = left + scale.width(ratio);
        let is_one = ratio == 1.0;
        _ = writeln!(
            svg,
            "<path class=\"{}\" d=\"M{x:.1} {}V{end}\"/><text class=\"quiet\" x=\"{x:.1}\" y=\"{}\" font-size=\"12\" \
             text-anchor=\"middle\">{}</text>",
            if is_one { "one" } else { "grid" },
            TOP - 8.0,
            TOP - 13.0,
            match ratio {
                0.0 => "0".to_owned(),
                1.0 => baseline.to_owned(),
                ratio => format!("{ratio}×"),
            }
        );
        ratio += 1.0;
    }
}

/// A dot for each program and a ring for each micro benchmark. The largest ratio beyond the panel is
/// written beside it.
fn dots(
    svg: &mut String,
    benchmarks: &[Benchmark],
    variant: &str,
    of: Of,
    left: f64,
    middle: f64,
    scale: &Scale,
) {
    let mut most = 0.0_f64;
    for benchmark in benchmarks {
        let Some(ratio) = benchmark.ratio(variant, of) else {
            continue;
        };
        if ratio.value > scale.reach {
            most = most.max(ratio.value);
            continue;
        }
        let class = if benchmark.is_micro { "ring" } else { "dot" };
        _ = writeln!(
            svg,
            "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{middle}\" r=\"3\"><title>{}: {}</title></circle>",
            left + scale.width(ratio.value),
            benchmark.title,
            times(ratio.value)
        );
    }
    if most > 0.0 {
        _ = writeln!(
            svg,
            "<text class=\"quiet\" x=\"{}\" y=\"{}\" font-size=\"12\">▸ to {}</text>",
            left + PANEL + 6.0,
            middle + 4.0,
            times(most)
        );
    }
}

fn notes(ratios: &Ratios, common: &[&Benchmark], day: &str) -> [String; 2] {
    let apart = ratios.apart(common);
    let titles: Vec<&str> = common
        .iter()
        .map(|benchmark| benchmark.title.as_str())
        .collect();
    let counts = ratios.benchmarks.iter().map(|benchmark| benchmark.rounds);
    let (least, most) = (counts.clone().min().unwrap_or(0), counts.max().unwrap_or(0));
    let rounds = if least == most {
        most.to_string()
    } else {
        format!("{least} to {most}")
    };
    let mut dots = "Dots: each program".to_owned();
    if !apart.is_empty() {
        dots += &format!(", also {}, which not all variants ran", apart.join(", "));
    }
    if ratios.micro().next().is_some() {
        dots += "; rings: micro benchmarks, which are not in the bars";
    }
    [
        format!("Bars: geometric mean of {}.", titles.join(", ")),
        format!("{dots}. Medians of {rounds} interleaved rounds, {day}."),
    ]
}

/// A ratio as people say it: 0.73×, 4.0×, 31×.
pub(crate) fn times(ratio: f64) -> String {
    match ratio {
        ratio if ratio < 1.995 => format!("{ratio:.2}×"),
        ratio if ratio < 9.95 => format!("{ratio:.1}×"),
        ratio => format!("{ratio:.0}×"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_benchmark_beyond_the_scale_is_written_as_a_number() {
        let ratios = Ratios {
            benchmarks: vec![
                Benchmark::example("usual", &[("slow", 1.0, 1.0)]),
                Benchmark::example("worst case", &[("slow", 30.6, 1.0)]),
            ],
        };
        let slow = Shown {
            variant: "slow",
            label: "slow",
            kind: Kind::Stock,
        };
        let chart = svg("A title", &ratios, &[slow], "2026-01-31");
        assert!(chart.contains(">5.5×</text>"), "{chart}");
        assert!(chart.contains("▸ to 31×</text>"), "{chart}");
        assert!(chart.contains("<title>usual: 1.00×</title>"), "{chart}");
    }

    #[test]
    fn a_ratio_has_two_or_three_digits() {
        let shown = [0.7349, 1.0, 1.999, 4.03, 30.55].map(times);
        assert_eq!(shown, ["0.73×", "1.00×", "2.0×", "4.0×", "31×"]);
    }
}
