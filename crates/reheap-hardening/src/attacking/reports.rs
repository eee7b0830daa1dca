//! Writes what attacks showed: into files, and to standard output.

use reheap_command::output;
use reheap_command::ui::{self, Failure};
use reheap_report::attacks::{Results, html, markdown, text, to_json};
use reheap_variants::bench::outputs::{Destination, Form, Outputs};

/// Refuses forms that only benchmarks have.
pub fn check(outputs: &Outputs) -> Result<(), Failure> {
    let mut forms = outputs.forms.iter().map(|(form, _)| form);
    if forms.any(|form| matches!(form, Form::Csv | Form::Hyperfine | Form::Bencher)) {
        Err(
            Failure::usage("results of `reheap attack` have no such form")
                .hint("use --html or --markdown"),
        )
    } else {
        Ok(())
    }
}

/// Writes every form that the user asked for. If none goes to standard output, the matrix does.
pub fn write(results: &Results, outputs: &Outputs) -> anyhow::Result<()> {
    let mut written = Ok(());
    for (form, destination) in &outputs.forms {
        let text = match form {
            Form::Html => html(results),
            Form::Markdown => markdown(results),
            _ => to_json(results),
        };
        match destination {
            Destination::StandardOutput => ui::data(&text)?,
            // If a file cannot be written, the user must still get the matrix.
            Destination::File(path) => match output::write(path, &text) {
                Ok(()) if *form == Form::Json => {
                    let path = path.display();
                    ui::note(&format!(
                        "wrote {path}; for a page: reheap report {path} --html FILE"
                    ));
                }
                Ok(()) => ui::note(&format!("wrote {}", path.display())),
                Err(error) => written = written.and(Err(error)),
            },
        }
    }
    if outputs.to_standard_output() == 0 {
        let style = output::style(std::io::stdout(), outputs.verbose);
        ui::data(&text(results, style))?;
    }
    written
}
