//! Writes all forms of some made-up reports into a directory, to be looked at after a change:
//! `cargo run -p reheap-report --example gallery -- /tmp/gallery`.

use reheap_bench::overview::Overview;
use reheap_report::{Colour, Style, profile};
use std::path::PathBuf;

#[path = "../tests/it/fixtures/mod.rs"]
mod fixtures;
#[path = "../tests/it/profiles/mod.rs"]
mod profiles;

fn main() -> std::io::Result<()> {
    let directory = PathBuf::from(
        std::env::args_os()
            .nth(1)
            .unwrap_or_else(|| "gallery".into()),
    );
    std::fs::create_dir_all(&directory)?;
    let coloured = Style {
        colour: Colour::Always,
        ..Style::default()
    };
    for (name, results) in fixtures::all() {
        let overview = Overview::of(&results);
        for (ending, content) in [
            ("txt", reheap_report::text(&overview, Style::default())),
            ("ansi", reheap_report::text(&overview, coloured)),
            ("md", reheap_report::markdown(&overview)),
            ("csv", reheap_report::csv(&overview)),
            ("hyperfine.json", reheap_report::hyperfine_json(&overview)),
            ("bencher.json", reheap_report::bencher_json(&overview)),
            ("html", reheap_report::html(&overview)),
        ] {
            std::fs::write(directory.join(format!("{name}.{ending}")), content)?;
        }
    }
    let hour = [("hour", profiles::hour())];
    for (name, profile) in profiles::all().into_iter().chain(hour) {
        for (ending, content) in [
            ("txt", profile::text(&profile, None, Style::default())),
            ("ansi", profile::text(&profile, None, coloured)),
            ("html", profile::html(&profile, None)),
            ("json", profile::to_json(&profile)),
            ("folded", profile::folded(&profile, profile::By::Bytes)),
            ("dhat.json", profile::dhat(&profile)),
            ("firefox.json", profile::firefox(&profile)),
        ] {
            let file = format!("profile-{name}.{ending}");
            std::fs::write(directory.join(file), content)?;
        }
        let file = format!("profile-{name}.pb.gz");
        std::fs::write(directory.join(file), profile::pprof(&profile))?;
    }
    Ok(())
}
