//! An identity as lines for people.
//!
//! Names in a file can hold anything, also what moves the cursor of a terminal, so control characters are made visible.

use reheap_elf::identify::{
    Confidence, Evidence, FoundAllocator, Identity, Kind, Libc, LibcName, MarkerIdentity, Provider,
    RustGlobalAllocator,
};
use std::path::Path;

const COLUMNS: usize = 100;
/// Where the text of a line begins, behind its label.
const INDENT: usize = 12;
/// Pieces of evidence without `--verbose`.
const EVIDENCE_SHOWN: usize = 2;

/// A path or other text without control characters.
pub(super) fn printable(text: impl AsRef<Path>) -> String {
    let mut printable = String::new();
    for character in text.as_ref().to_string_lossy().chars() {
        if character.is_control() {
            printable.extend(character.escape_default());
        } else {
            printable.push(character);
        }
    }
    printable
}

/// The lines about one file.
pub(super) fn block(file: &Path, identity: &Identity, verbose: bool) -> String {
    let mut lines = format!("{}\n", printable(file));
    let mut add = |label: &str, text: String| {
        for (index, line) in wrap(&printable(text), COLUMNS - INDENT)
            .into_iter()
            .enumerate()
        {
            let label = if index == 0 { label } else { "" };
            lines.push_str(
                format!("  {label:<width$}{line}\n", width = INDENT - 2).trim_end_matches(' '),
            );
        }
    };
    add("is", what_it_is(identity));
    add("malloc", malloc(identity));
    if let Some(marker) = &identity.marker {
        add("marker", marker_text(marker));
    }
    if let Some(rust) = &identity.rust_global_allocator {
        add("rust", rust_text(rust));
    }
    for found in &identity.allocators {
        let text = format!("{}, {}", name_of(found), found.confidence);
        add("found", with_evidence(text, &found.evidence, verbose));
    }
    if verbose {
        add("libc", libc_evidence(&identity.libc));
        if let Some(interpreter) = &identity.interpreter {
            add("interpreter", interpreter.clone());
        }
        if !identity.needed.is_empty() {
            add("needs", identity.needed.join(", "));
        }
    }
    lines
}

fn what_it_is(identity: &Identity) -> String {
    let mut parts = vec![identity.kind.to_string(), identity.architecture.clone()];
    let is_linked = !matches!(identity.kind, Kind::Object | Kind::Archive);
    if is_linked || identity.libc.name != LibcName::Unknown {
        parts.push(libc_text(&identity.libc));
    }
    if is_linked && identity.stripped {
        parts.push("stripped".to_owned());
    }
    if let Some(members) = &identity.members {
        parts.push(counted(members.elf, "object"));
        if members.other > 0 {
            parts.push(format!("{} not ELF", counted(members.other, "member")));
        }
    }
    parts.join(", ")
}

fn counted(number: usize, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{ending}")
}

fn libc_text(libc: &Libc) -> String {
    match (&libc.version, libc.name) {
        (Some(version), name) => format!("{name} {version}"),
        (None, LibcName::None | LibcName::Unknown) => libc.name.to_string(),
        (None, name) => format!("{name} of unknown version"),
    }
}

fn libc_evidence(libc: &Libc) -> String {
    let confidence = libc.confidence.map(|confidence| format!(", {confidence}"));
    let text = format!("{}{}", libc_text(libc), confidence.unwrap_or_default());
    with_evidence(text, &libc.evidence, true)
}

fn malloc(identity: &Identity) -> String {
    let provider = match &identity.malloc.provider {
        Provider::Allocator { name } => {
            let found = identity.allocators.iter().find(|found| found.name == *name);
            found.map_or_else(|| readable_name(name).to_owned(), name_of)
        }
        Provider::Library { name, library } => {
            format!("{name} from the shared library `{library}`")
        }
        Provider::SharedLibc => format!(
            "stock {}, from the shared libc unless another is preloaded",
            identity.libc.name
        ),
        Provider::OwnCode => "its own code".to_owned(),
        Provider::Outside => "from outside".to_owned(),
        Provider::Nobody => "none".to_owned(),
        Provider::Unknown => "unknown".to_owned(),
    };
    let confidence = identity
        .malloc
        .confidence
        .map(|confidence: Confidence| format!(", {confidence}"));
    format!(
        "{provider}{}: {}",
        confidence.unwrap_or_default(),
        identity.malloc.reason
    )
}

fn name_of(found: &FoundAllocator) -> String {
    let name = readable_name(&found.name);
    // The catalogue's `mimalloc-secure` says it in its name.
    let variant = found
        .variant
        .as_deref()
        .filter(|variant| !found.name.contains(variant));
    let words = [Some(name), found.version.as_deref(), variant];
    words.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn readable_name(name: &str) -> &str {
    match name {
        "musl-mallocng" => "stock musl (mallocng)",
        "musl-oldmalloc" => "stock musl (old malloc)",
        "musl-bump" => "stock musl (never frees, as nothing in the program does)",
        "glibc" => "stock glibc",
        "go-runtime" => "Go runtime",
        other => other,
    }
}

fn marker_text(identity: &MarkerIdentity) -> String {
    let marker = &identity.marker;
    let tuning: Vec<String> = marker
        .tuning
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let tuning = match tuning.as_slice() {
        [] => String::new(),
        settings => format!(" [{}]", settings.join(", ")),
    };
    let memory_functions = match &marker.memory_functions {
        None => String::new(),
        Some(whose) => format!(" with {whose} memory functions"),
    };
    let replaced = match identity.replaced.as_slice() {
        [] => String::new(),
        functions => format!("; not in use for {}", functions.join(", ")),
    };
    let linked = if identity.is_linked {
        ""
    } else {
        "; not linked yet"
    };
    format!(
        "{} {}{tuning} from {}, put{memory_functions} into {} by reheap {}{replaced}{linked}",
        marker.allocator, marker.allocator_version, marker.package, marker.libc, marker.reheap
    )
}

fn rust_text(rust: &RustGlobalAllocator) -> String {
    match rust {
        RustGlobalAllocator::System { evidence } => format!("calls malloc: {evidence}"),
        RustGlobalAllocator::Custom {
            name,
            confidence,
            evidence,
        } => {
            let name = name.as_ref().map(|name| format!(", {name} as it seems"));
            let name = name.unwrap_or_default();
            format!("has a global allocator of its own{name}, {confidence}: {evidence}")
        }
        RustGlobalAllocator::Unknown => {
            "the symbols that tell its global allocator are gone".to_owned()
        }
    }
}

fn with_evidence(text: String, evidence: &[Evidence], verbose: bool) -> String {
    let shown = if verbose {
        evidence.len()
    } else {
        EVIDENCE_SHOWN.min(evidence.len())
    };
    let mut pieces: Vec<String> = evidence[..shown].iter().map(Evidence::to_string).collect();
    if evidence.len() > shown {
        pieces.push(format!("{} more", evidence.len() - shown));
    }
    match pieces.as_slice() {
        [] => text,
        pieces => format!("{text}: {}", pieces.join(", ")),
    }
}

/// Breaks at spaces; a word that is longer than a line is left whole, so that it can be copied.
fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_spaces_and_long_words_stay_whole() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(
            wrap("a /very/long/path b", 5),
            ["a", "/very/long/path", "b"]
        );
    }

    #[test]
    fn control_characters_of_a_hostile_file_do_not_reach_the_terminal() {
        assert_eq!(printable("a\u{1b}[2Jb\n"), "a\\u{1b}[2Jb\\n");
    }
}
