//! A plot of the memory functions: one panel each, size against time, both logarithmic.
//!
//! A few lines of SVG by hand: all sizes stand at fixed places, and nothing else of a plotting library would be used.

use std::fmt::Write as _;

const PANEL_WIDTH: f64 = 340.0;
const PANEL_HEIGHT: f64 = 240.0;
const MARGIN: f64 = 36.0;
const COLUMNS: usize = 3;

/// One row of the example's CSV.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) function: String,
    pub(crate) size: usize,
    pub(crate) placement: String,
    pub(crate) reheap_ns: f64,
    /// None if musl does not have the function.
    pub(crate) musl_ns: Option<f64>,
    pub(crate) glibc_ns: Option<f64>,
}

/// Name, colour and column of a library.
type Library = (&'static str, &'static str, fn(&Row) -> Option<f64>);
const LIBRARIES: [Library; 3] = [
    ("musl", "#888888", |row| row.musl_ns),
    ("glibc", "#1f77b4", |row| row.glibc_ns),
    ("reheap", "#d62728", |row| Some(row.reheap_ns)),
];

/// The plot of all rows with equal sizes in a batch.
pub(crate) fn svg(rows: &[Row]) -> String {
    let rows: Vec<&Row> = rows
        .iter()
        .filter(|row| row.placement == "spread")
        .collect();
    let mut functions: Vec<&str> = rows.iter().map(|row| row.function.as_str()).collect();
    functions.dedup();
    let width = PANEL_WIDTH * COLUMNS as f64;
    let height = PANEL_HEIGHT * functions.len().div_ceil(COLUMNS) as f64 + MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"{MARGIN}\" y=\"22\">ns per call against bytes:</text>\n"
    );
    for (index, (name, colour, _)) in LIBRARIES.iter().enumerate() {
        let x = MARGIN + 150.0 + 60.0 * index as f64;
        _ = writeln!(
            svg,
            "<text x=\"{x}\" y=\"22\" fill=\"{colour}\">{name}</text>"
        );
    }
    for (index, function) in functions.iter().enumerate() {
        let x = PANEL_WIDTH * (index % COLUMNS) as f64;
        let y = PANEL_HEIGHT * (index / COLUMNS) as f64 + MARGIN;
        let of_function: Vec<&Row> = rows
            .iter()
            .copied()
            .filter(|row| row.function == *function)
            .collect();
        _ = writeln!(svg, "<g transform=\"translate({x} {y})\">");
        panel(&mut svg, function, &of_function);
        svg.push_str("</g>\n");
    }
    svg.push_str("</svg>\n");
    svg
}

fn panel(svg: &mut String, function: &str, rows: &[&Row]) {
    let size_max = rows.iter().map(|row| row.size).max().unwrap_or(1) as f64;
    let times = rows
        .iter()
        .flat_map(|row| LIBRARIES.iter().filter_map(|(_, _, of)| of(row)));
    let time_max = times.fold(10.0, f64::max);
    let (inner_width, inner_height) = (PANEL_WIDTH - 1.5 * MARGIN, PANEL_HEIGHT - 1.5 * MARGIN);
    // From half a nanosecond on: no call takes less.
    let x = |size: f64| MARGIN + inner_width * size.log2() / size_max.log2();
    let y = |ns: f64| {
        inner_height * (1.0 - (ns / 0.5).log10() / (time_max / 0.5).log10()) + MARGIN / 2.0
    };
    let bottom = inner_height + MARGIN / 2.0;

    _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"12\" font-weight=\"bold\">{function}</text>",
        MARGIN + 4.0
    );
    for (size, label) in [
        (1, "1"),
        (16, "16"),
        (256, "256"),
        (4096, "4 Ki"),
        (1 << 16, "64 Ki"),
        (1 << 20, "1 Mi"),
        (1 << 24, "16 Mi"),
    ] {
        if f64::from(size) <= size_max {
            let x = x(f64::from(size));
            _ = writeln!(
                svg,
                "<path d=\"M{x:.1} {:.1}V{bottom:.1}\" stroke=\"#dddddd\"/><text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
                MARGIN / 2.0,
                bottom + 14.0
            );
        }
    }
    let mut ns = 1.0;
    while ns <= time_max {
        let y = y(ns);
        _ = writeln!(
            svg,
            "<path d=\"M{MARGIN} {y:.1}h{inner_width:.1}\" stroke=\"#dddddd\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            MARGIN - 3.0,
            y + 4.0,
            power(ns)
        );
        ns *= 10.0;
    }
    for (_, colour, of) in LIBRARIES {
        let points: Vec<String> = rows
            .iter()
            .filter_map(|row| Some(format!("{:.1},{:.1}", x(row.size as f64), y(of(row)?))))
            .collect();
        _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.2\"/>",
            points.join(" ")
        );
    }
}

fn power(ns: f64) -> String {
    match ns {
        ns if ns >= 1e6 => format!("{:.0} ms", ns / 1e6),
        ns if ns >= 1e3 => format!("{:.0} µs", ns / 1e3),
        ns => format!("{ns:.0}"),
    }
}
