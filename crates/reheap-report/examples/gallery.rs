//! Writes all forms of some made-up reports into a folder, to be looked at after a change:
//! `cargo run -p reheap-report --example gallery -- /tmp/gallery`.

use reheap_report::{Colour, HyperfineFormat, Style};
use std::path::PathBuf;

#[path = "../tests/fixtures/mod.rs"]
mod fixtures;

fn main() -> std::io::Result<()> {
    let folder = PathBuf::from(
        std::env::args_os()
            .nth(1)
            .unwrap_or_else(|| "gallery".into()),
    );
    std::fs::create_dir_all(&folder)?;
    let coloured = Style {
        colour: Colour::Always,
        ..Style::default()
    };
    for (name, results) in fixtures::all() {
        for (ending, content) in [
            ("txt", reheap_report::text(&results, Style::default())),
            ("ansi", reheap_report::text(&results, coloured)),
            ("md", reheap_report::markdown(&results)),
            ("csv", reheap_report::csv(&results)),
            (
                "hyperfine1.json",
                reheap_report::hyperfine_json(&results, HyperfineFormat::One),
            ),
            (
                "hyperfine2.json",
                reheap_report::hyperfine_json(&results, HyperfineFormat::Two),
            ),
            ("bencher.json", reheap_report::bencher_json(&results)),
            ("html", reheap_report::html(&results)),
        ] {
            std::fs::write(folder.join(format!("{name}.{ending}")), content)?;
        }
    }
    Ok(())
}
