//! Writes a report as one line: whose malloc, what else, and what deserves a closer look.

use super::report::Report;
use super::running::RunningHazard;
use super::text::{self, Malloc};
use reheap_command::ui;
use reheap_elf::identify::{
    Confidence, FoundAllocator, Hazard, Identity, Libc, LibcName, MarkerIdentity, Role,
};
use terminal_size::{Width, terminal_size_of};

/// A name cut shorter than this tells nothing.
const NAME_MIN: usize = 16;

/// The width of the terminal on standard output.
pub fn columns_of_terminal() -> Option<usize> {
    let (Width(columns), _) = terminal_size_of(std::io::stdout())?;
    (columns > 0).then_some(usize::from(columns))
}

/// The line, cut to the terminal if there is one: the beginning of a long path first, then the end.
pub fn line(report: &Report, columns: Option<usize>) -> String {
    let name = report.to_string();
    let facts = ui::printable(facts(report).join("; "));
    let whole = format!("{name}: {facts}");
    let Some(columns) = columns.filter(|columns| whole.chars().count() > *columns) else {
        return whole;
    };
    let left = columns.saturating_sub(facts.chars().count() + 2);
    let name = last_characters(&name, left.max(NAME_MIN));
    first_characters(&format!("{name}: {facts}"), columns)
}

fn facts(report: &Report) -> Vec<String> {
    let mut facts = Vec::new();
    let mut hazards: Vec<&'static str> = match report {
        Report::File { identity, .. } => {
            let malloc = Malloc::of(&identity.malloc, &identity.allocators, &identity.libc);
            facts.extend(of_file(identity, malloc.short()));
            identity.hazards.iter().filter_map(hazard).collect()
        }
        Report::Container {
            identity,
            preload,
            passing,
            ..
        } => {
            let known = text::with_preloaded(&identity.allocators, preload);
            let malloc = Malloc::of(&identity.malloc, &known, &identity.libc);
            let list = text::preloaded_by(&identity.malloc, preload);
            let through = list.map(|list| format!(" through {list}"));
            facts.extend(of_file(
                identity,
                malloc.short() + &through.unwrap_or_default(),
            ));
            facts.extend(preload.iter().filter_map(text::trouble_with));
            facts.extend(passing.preload_change.clone());
            facts.extend(passing.warnings.clone());
            identity.hazards.iter().filter_map(hazard).collect()
        }
        Report::Process(running) => {
            let found: Vec<FoundAllocator> = running
                .allocators
                .iter()
                .map(|mapped| mapped.found.clone())
                .collect();
            facts.push(Malloc::of(&running.malloc, &found, &running.libc).short());
            facts.extend(grafted(running.marker.as_ref()));
            // `--verbose` tells what a library has for itself.
            let own = running.allocators.iter();
            let own = own.filter(|mapped| mapped.file == running.file);
            facts.extend(others(own.map(|mapped| &mapped.found)));
            facts.push(libc(&running.libc));
            let resident = running.memory.resident_bytes.map(text::size);
            facts.extend(resident.map(|size| format!("{size} resident")));
            running.hazards.iter().filter_map(running_hazard).collect()
        }
    };
    hazards.sort_unstable();
    hazards.dedup();
    let label = match hazards.len() {
        0 => return facts,
        1 => "hazard",
        _ => "hazards",
    };
    facts.push(format!("{label}: {}", hazards.join(", ")));
    facts
}

fn of_file(identity: &Identity, malloc: String) -> Vec<String> {
    let mut facts = vec![malloc];
    facts.extend(grafted(identity.marker.as_ref()));
    facts.extend(others(identity.allocators.iter()));
    facts.push(what_it_is(identity));
    facts
}

fn grafted(marker: Option<&MarkerIdentity>) -> Option<String> {
    let is_grafted = marker.is_some_and(|marker| marker.is_grafted);
    is_grafted.then(|| "grafted".to_owned())
}

/// The name of a hazard. The line already says next to the allocator's name that it is unused.
fn hazard(hazard: &Hazard) -> Option<&'static str> {
    match hazard {
        Hazard::UnusedAllocator { .. } => None,
        hazard => Some(hazard.name()),
    }
}

fn running_hazard(found: &RunningHazard) -> Option<&'static str> {
    match found {
        RunningHazard::OfFile { hazard: found, .. } => hazard(found),
        RunningHazard::OfProcess(found) => Some(found.name()),
    }
}

/// The line marks what is only possible.
fn libc(libc: &Libc) -> String {
    let text = text::libc_text(libc);
    match libc.confidence {
        Some(Confidence::Possible) => format!("{text} (possible)"),
        _ => text,
    }
}

/// Allocators besides the program's malloc.
fn others<'a>(allocators: impl Iterator<Item = &'a FoundAllocator>) -> Option<String> {
    let names: Vec<String> = allocators
        .filter(|found| {
            matches!(found.role, Role::Rust | Role::Private | Role::Unused) && !found.is_stock
        })
        .map(|found| {
            let what = match found.role {
                Role::Rust => "Rust: ",
                Role::Unused => "unused: ",
                _ => "private: ",
            };
            format!("{what}{}", text::name_of(found))
        })
        .collect();
    (!names.is_empty()).then(|| names.join(", "))
}

fn what_it_is(identity: &Identity) -> String {
    let known = (identity.libc.name != LibcName::Unknown).then(|| libc(&identity.libc));
    let parts = [Some(identity.kind.to_string()), known];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn last_characters(text: &str, columns: usize) -> String {
    let count = text.chars().count();
    if count <= columns {
        return text.to_owned();
    }
    let rest: String = text.chars().skip(count - columns + 1).collect();
    format!("…{rest}")
}

fn first_characters(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    let beginning: String = text.chars().take(columns.saturating_sub(1)).collect();
    format!("{beginning}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_cut_at_its_beginning_and_a_line_at_its_end() {
        assert_eq!(last_characters("/usr/bin/app", 5), "…/app");
        assert_eq!(last_characters("app", 5), "app");
        assert_eq!(first_characters("one two", 4), "one…");
        assert_eq!(first_characters("one", 4), "one");
    }
}
