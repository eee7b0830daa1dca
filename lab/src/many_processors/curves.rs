//! Curves of throughput against threads, both logarithmic, one panel for each program.

use std::fmt::Write as _;

const WIDTH: f64 = 300.0;
const HEIGHT: f64 = 230.0;
const MARGIN: f64 = 34.0;
const COLUMNS: usize = 3;
const COLOURS: [&str; 6] = [
    "#1f77b4", "#888888", "#d62728", "#ff9896", "#2ca02c", "#9467bd",
];
const THREADS_MAX: f64 = 64.0;

/// One program.
pub(super) struct Panel {
    pub(super) title: &'static str,
    /// A name, and for each number of threads the operations in a nanosecond.
    pub(super) lines: Vec<(&'static str, Vec<(u64, f64)>)>,
}

pub(super) fn svg(panels: &[Panel]) -> String {
    let width = WIDTH * COLUMNS as f64;
    let height = HEIGHT * panels.len().div_ceil(COLUMNS) as f64 + MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"{MARGIN}\" y=\"20\">operations \
         in a time, compared with glibc on one thread:</text>\n"
    );
    let names = panels.first().map_or(&[][..], |panel| &panel.lines);
    for ((name, _), (index, colour)) in names.iter().zip(COLOURS.iter().enumerate()) {
        let x = MARGIN + 290.0 + 88.0 * index as f64;
        _ = writeln!(
            svg,
            "<text x=\"{x}\" y=\"20\" fill=\"{colour}\">{name}</text>"
        );
    }
    for (index, panel) in panels.iter().enumerate() {
        let x = WIDTH * (index % COLUMNS) as f64;
        let y = HEIGHT * (index / COLUMNS) as f64 + MARGIN;
        _ = writeln!(svg, "<g transform=\"translate({x} {y})\">");
        draw(&mut svg, panel);
        svg.push_str("</g>\n");
    }
    svg.push_str("</svg>\n");
    svg
}

fn draw(svg: &mut String, panel: &Panel) {
    let first = panel.lines.first().and_then(|(_, points)| points.first());
    let unit = first.map_or(1.0, |(_, throughput)| *throughput);
    let relative = |throughput: f64| throughput / unit;
    let all = panel.lines.iter().flat_map(|(_, points)| points);
    let (low, high) = all.fold((1.0_f64, 10.0_f64), |(low, high), (_, throughput)| {
        (
            low.min(relative(*throughput)),
            high.max(relative(*throughput)),
        )
    });
    let (inner_width, inner_height) = (WIDTH - 2.0 * MARGIN, HEIGHT - 1.5 * MARGIN);
    let top = MARGIN / 2.0;
    let x = |threads: f64| MARGIN + inner_width * threads.log2() / THREADS_MAX.log2();
    let y = |value: f64| top + inner_height * (high / value).ln() / (high / low).ln();
    let bottom = top + inner_height;
    let title = panel.title;
    _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"12\" font-weight=\"bold\">{title}</text>",
        MARGIN + 4.0
    );
    for threads in [1, 2, 4, 8, 16, 32, 64] {
        let x = x(f64::from(threads));
        _ = writeln!(
            svg,
            "<path d=\"M{x:.1} {top:.1}V{bottom:.1}\" stroke=\"#dddddd\"/><text x=\"{x:.1}\" y=\"{:.1}\" \
             text-anchor=\"middle\">{threads}</text>",
            bottom + 14.0
        );
    }
    for power in -4..4 {
        let value = 10.0_f64.powi(power);
        if value < low || value > high {
            continue;
        }
        let y = y(value);
        _ = writeln!(
            svg,
            "<path d=\"M{MARGIN} {y:.1}h{inner_width:.1}\" stroke=\"#dddddd\"/><text x=\"{:.1}\" y=\"{:.1}\" \
             text-anchor=\"end\">{value}</text>",
            MARGIN - 3.0,
            y + 4.0
        );
    }
    for ((_, points), colour) in panel.lines.iter().zip(COLOURS) {
        let points: Vec<String> = points
            .iter()
            .map(|(threads, throughput)| {
                format!("{:.1},{:.1}", x(*threads as f64), y(relative(*throughput)))
            })
            .collect();
        _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>",
            points.join(" ")
        );
    }
}
