//! Shows a plan as a unified diff, which `git apply` reads.

use diffy::{DiffOptions, Line, Patch};
use reheap_adopt::adoption::{Change, Plan};
use reheap_adopt::project::Project;
use reheap_command::ui;

/// The whole diff.
pub(super) fn unified(project: &Project, plan: &Plan, is_colourful: bool) -> String {
    let mut all = String::new();
    for change in plan.changes() {
        let name = super::relative(project, &change.path);
        let old = if change.before.is_some() {
            format!("a/{name}")
        } else {
            "/dev/null".to_owned()
        };
        let new = if change.after.is_some() {
            format!("b/{name}")
        } else {
            "/dev/null".to_owned()
        };
        let mut options = DiffOptions::new();
        options
            .set_original_filename(old)
            .set_modified_filename(new);
        for line in patch(&options, change).to_string().split_inclusive('\n') {
            all += &if is_colourful {
                coloured(line)
            } else {
                line.to_owned()
            };
        }
    }
    all
}

/// `Cargo.toml +3, src/main.rs +6`
pub(super) fn short(project: &Project, plan: &Plan) -> String {
    let files = plan.changes().map(|change| {
        let patch = patch(&DiffOptions::new(), change);
        let lines = patch.hunks().iter().flat_map(|hunk| hunk.lines());
        let (mut more, mut less) = (0, 0);
        for line in lines {
            match line {
                Line::Insert(_) => more += 1,
                Line::Delete(_) => less += 1,
                Line::Context(_) => {}
            }
        }
        let mut words = vec![super::relative(project, &change.path)];
        words.extend((more > 0).then(|| format!("+{more}")));
        words.extend((less > 0).then(|| format!("-{less}")));
        words.join(" ")
    });
    files.collect::<Vec<_>>().join(", ")
}

fn patch<'a>(options: &DiffOptions, change: &'a Change) -> Patch<'a, str> {
    options.create_patch(
        change.before.as_deref().unwrap_or_default(),
        change.after.as_deref().unwrap_or_default(),
    )
}

/// A line as `git diff` colours it. Only people see it, so nothing else in it reaches the terminal.
fn coloured(line: &str) -> String {
    let text = line.trim_end_matches(['\n', '\r']);
    let end = &line[text.len()..];
    let shown: Vec<String> = text.split('\t').map(ui::printable).collect();
    let shown = shown.join("\t");
    let colour = match text.as_bytes().first() {
        _ if text.starts_with("+++") || text.starts_with("---") => "1",
        Some(b'+') => "32",
        Some(b'-') => "31",
        Some(b'@') => "36",
        _ => return shown + end,
    };
    format!("\u{1b}[{colour}m{shown}\u{1b}[m{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_an_escape_sequence_is_shown_and_keeps_its_tabs() {
        assert_eq!(
            coloured("+\ta\u{1b}[2J\r\n"),
            "\u{1b}[32m+\ta\\u{1b}[2J\u{1b}[m\r\n"
        );
        assert_eq!(coloured(" a\u{9b}\n"), " a\\u{9b}\n");
    }
}
