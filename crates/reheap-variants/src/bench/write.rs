//! Writes results into files and to standard output.

use crate::bench::outputs::{Destination, Form, Outputs};
use reheap_bench::overview::Overview;
use reheap_bench::results::Results;
use reheap_command::output;
use reheap_command::ui;
use reheap_report::Style;

/// Writes every format that the user asked for. If none goes to standard output, the tables do.
pub fn all(overview: &Overview<'_>, outputs: &Outputs) -> anyhow::Result<()> {
    // If a file cannot be written, the user must still get the tables.
    let written = files(overview, outputs);
    if outputs.to_standard_output() == 0 {
        ui::data(&table(overview, outputs))?;
    }
    written
}

/// Writes every format that the user asked for, and nothing else.
pub fn files(overview: &Overview<'_>, outputs: &Outputs) -> anyhow::Result<()> {
    for (form, destination) in &outputs.forms {
        let text = rendered(*form, overview);
        match destination {
            Destination::StandardOutput => ui::data(&text)?,
            Destination::File(path) => {
                output::write(path, &text)?;
                ui::note(&format!("wrote {}", path.display()));
            }
        }
    }
    Ok(())
}

/// The tables as standard output shows them.
pub fn table(overview: &Overview<'_>, outputs: &Outputs) -> String {
    reheap_report::text(overview, style(outputs))
}

/// What a search tried before its last benchmark, as standard output shows it.
pub fn tried_before_last(overview: &Overview<'_>, outputs: &Outputs) -> String {
    reheap_report::tried_before_last(overview, style(outputs))
}

fn rendered(form: Form, overview: &Overview<'_>) -> String {
    match form {
        Form::Json => overview.files.iter().map(Results::to_json).collect(),
        Form::Html => reheap_report::html(overview),
        Form::Markdown => reheap_report::markdown(overview),
        Form::Csv => reheap_report::csv(overview),
        Form::Hyperfine => reheap_report::hyperfine_json(overview),
        Form::Bencher => reheap_report::bencher_json(overview),
    }
}

fn style(outputs: &Outputs) -> Style {
    output::style(std::io::stdout(), outputs.verbose)
}
