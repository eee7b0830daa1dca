//! Writes a report as lines for people: every finding with its evidence.
//!
//! A name in a file can hold anything, even sequences that move the cursor of a terminal. So reheap makes control
//! characters visible.

use super::preload::{Preload, State};
use super::report::Report;
use super::running::{ProcessHazard, Running, RunningHazard};
use crate::limits;
use reheap_allocators::{catalogue, target};
use reheap_bench::figures::count;
use reheap_command::ui;
use reheap_elf::identify::{
    Confidence, Evidence, FoundAllocator, Identity, Kind, Libc, LibcName, MallocVerdict,
    MarkerIdentity, Provider, RustGlobalAllocator,
};
use reheap_elf::marker::Marker;
use reheap_proc::memory::Memory;
use std::fmt::{self, Write as _};
use std::path::Path;

const COLUMNS: usize = 100;
/// Where the text of a line begins, behind its label.
const INDENT: usize = 14;

/// All lines about a report.
pub fn block(report: &Report) -> String {
    let mut block = Block {
        lines: format!("{report}\n"),
    };
    match report {
        Report::File { identity, .. } => block.add_identity(identity, &identity.allocators),
        Report::Container {
            identity,
            scripts,
            preload,
            passing,
            ..
        } => {
            if !scripts.is_empty() {
                block.add("through", scripts.join(", "));
            }
            block.add_identity(identity, &with_preloaded(&identity.allocators, preload));
            for preload in preload {
                block.add("preload", preload_text(preload));
            }
            for text in passing.preload_change.iter().chain(&passing.warnings) {
                block.add("preload", text);
            }
        }
        Report::Process(running) => block.add_running(running),
    }
    block.lines
}

struct Block {
    lines: String,
}

impl Block {
    fn add(&mut self, label: &str, text: impl Into<String>) {
        let text = ui::printable(text.into());
        for (index, line) in wrap(&text, COLUMNS - INDENT).into_iter().enumerate() {
            let label = if index == 0 { label } else { "" };
            let line = format!("  {label:<width$}{line}\n", width = INDENT - 2);
            self.lines.push_str(line.trim_end_matches(' '));
        }
    }

    /// Adds what a file is, with the allocators in it and those beside it.
    fn add_identity(&mut self, identity: &Identity, known: &[FoundAllocator]) {
        self.add("is", what_it_is(identity));
        let malloc = Malloc::of(&identity.malloc, known, &identity.libc);
        self.add("malloc", malloc.long());
        if let Some(new) = &identity.operator_new {
            let new = Malloc::of(new, &identity.allocators, &identity.libc);
            self.add("new", new.long());
        }
        if let Some(marker) = &identity.marker {
            self.add("marker", marker_text(marker));
            if let Some(text) = reserved_text(&marker.marker) {
                self.add("reserves", text);
            }
        }
        if let Some(rust) = &identity.rust_global_allocator {
            self.add("rust", rust_text(rust));
        }
        for found in &identity.allocators {
            self.add("found", found_text(found));
        }
        for hazard in &identity.hazards {
            self.add("hazard", hazard.to_string());
        }
        if let Some(protections) = &identity.protections {
            self.add("hardening", protections.to_string());
        }
        self.add("libc", libc_evidence(&identity.libc));
        if let Some(interpreter) = &identity.interpreter {
            self.add("interpreter", interpreter.clone());
        }
        if !identity.needed.is_empty() {
            self.add("needs", identity.needed.join(", "));
        }
        if !identity.exports.is_empty() {
            let names: Vec<String> = identity
                .exports
                .iter()
                .map(|name| demangled(name))
                .collect();
            self.add("offers", names.join(", "));
        }
    }

    fn add_running(&mut self, running: &Running) {
        let deleted = if running.file_is_deleted {
            ", deleted"
        } else {
            ""
        };
        self.add("runs", format!("{}{deleted}", running.file));
        let libc = libc_text(&running.libc);
        self.add(
            "is",
            format!("{}, {}, {libc}", running.kind, running.architecture),
        );
        let found: Vec<_> = running
            .allocators
            .iter()
            .map(|mapped| mapped.found.clone())
            .collect();
        let malloc = Malloc::of(&running.malloc, &found, &running.libc);
        self.add("malloc", malloc.long());
        if let Some(rust) = &running.rust_global_allocator {
            self.add("rust", rust_text(rust));
        }
        for mapped in &running.allocators {
            let text = format!("in {}: {}", mapped.file, found_text(&mapped.found));
            self.add("found", text);
        }
        if let Some(protections) = &running.protections {
            self.add("hardening", protections.to_string());
        }
        for preload in &running.preload {
            let state = if preload.is_loaded {
                ""
            } else {
                ", not loaded"
            };
            self.add("preload", format!("{}{state}", preload.entry));
        }
        for (name, value) in &running.tuning {
            self.add("tuning", format!("{name}={value}"));
        }
        self.add("threads", running.threads.to_string());
        self.add("memory", memory_text(&running.memory));
        for area in &running.memory.areas {
            let resident = size(area.resident_bytes);
            let mapped = size(area.mapped_bytes);
            let times = if area.count == 1 {
                String::new()
            } else {
                format!("{} times, ", area.count)
            };
            self.add(
                "area",
                format!("{}: {times}{resident} resident of {mapped}", area.name),
            );
        }
        for hazard in &running.hazards {
            self.add("hazard", running_hazard_text(hazard));
        }
        if !running.unread_files.is_empty() {
            self.add("not read", running.unread_files.join(", "));
        }
    }
}

fn memory_text(memory: &Memory) -> String {
    let sizes = [
        ("resident", memory.resident_bytes),
        ("at most", memory.resident_bytes_max),
        ("anonymous", memory.anonymous_bytes),
        ("of files", memory.file_bytes),
        ("shared", memory.shared_bytes),
        ("swapped", memory.swapped_bytes),
        ("in huge pages", Some(memory.huge_page_bytes)),
        ("in reserved huge pages", memory.reserved_huge_page_bytes),
    ];
    let is_always_told = |name: &str| matches!(name, "resident" | "at most" | "in huge pages");
    let mut parts: Vec<String> = sizes
        .into_iter()
        .filter_map(|(name, bytes)| Some((name, bytes?)))
        .filter(|(name, bytes)| *bytes > 0 || is_always_told(name))
        .map(|(name, bytes)| format!("{} {name}", size(bytes)))
        .collect();
    if memory.huge_pages_allowed == Some(false) {
        parts.push("huge pages not allowed".to_owned());
    }
    parts.join(", ")
}

/// The allocators in a file, and those that an image preloads beside it.
pub(super) fn with_preloaded(own: &[FoundAllocator], preload: &[Preload]) -> Vec<FoundAllocator> {
    let preloaded = preload.iter().filter_map(|preload| match &preload.state {
        State::Loaded { allocator, .. } => allocator.as_deref().cloned(),
        _ => None,
    });
    own.iter().cloned().chain(preloaded).collect()
}

/// What names the library whose malloc it is, if that is one which an image preloads.
pub(super) fn preloaded_by(malloc: &MallocVerdict, preload: &[Preload]) -> Option<&'static str> {
    let Provider::Library { library, .. } = &malloc.provider else {
        return None;
    };
    let is_it = |preload: &&Preload| matches!(&preload.state, State::Loaded { path, .. } if path == Path::new(library));
    preload.iter().find(is_it).map(|preload| preload.list)
}

/// What keeps a library that an image is to preload from being loaded.
pub(super) fn trouble_with(preload: &Preload) -> Option<String> {
    let why = match preload.state {
        State::Loaded { .. } => return None,
        State::Missing => "is not in the image",
        State::OfAnother => "its program cannot load",
        State::Ignored => "a static program ignores",
    };
    let Preload { entry, list, .. } = preload;
    Some(format!("{list} names `{entry}`, which {why}"))
}

fn preload_text(preload: &Preload) -> String {
    match &preload.state {
        State::Loaded { path, allocator } => {
            let allocator = allocator
                .as_deref()
                .map(|found| format!(": {}", name_of(found)));
            let allocator = allocator.unwrap_or_default();
            format!("{} is `{}`{allocator}", preload.entry, path.display())
        }
        _ => trouble_with(preload).unwrap_or_default(),
    }
}

fn running_hazard_text(hazard: &RunningHazard) -> String {
    match hazard {
        RunningHazard::OfFile { file, hazard } => format!("{hazard} (in `{file}`)"),
        RunningHazard::OfProcess(process @ ProcessHazard::PreloadNotLoaded { entry }) => {
            format!(
                "{}: `{entry}` should be preloaded but is not loaded",
                process.name()
            )
        }
        RunningHazard::OfProcess(process @ ProcessHazard::SeveralMallocs { files }) => format!(
            "{}: calls go to {}; a block must be freed where it was made",
            process.name(),
            files.join(" and ")
        ),
    }
}

/// A size for people: `12 KiB`, `3.4 GiB`.
pub(super) fn size(bytes: u64) -> String {
    let mut number = bytes as f64 / 1024.0;
    for unit in ["KiB", "MiB"] {
        if number < 1024.0 {
            let decimals = usize::from(unit != "KiB" && number < 10.0);
            return format!("{number:.decimals$} {unit}");
        }
        number /= 1024.0;
    }
    format!("{number:.1} GiB")
}

fn found_text(found: &FoundAllocator) -> String {
    let mut text = format!("{}, {}, {}", name_of(found), found.confidence, found.role);
    if !found.hardening.is_empty() {
        text.push_str(&format!("; hardening: {}", found.hardening.join(", ")));
    }
    with_evidence(text, &found.evidence)
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
        parts.push(count(members.elf, "object"));
        if members.other > 0 {
            parts.push(format!("{} not ELF", count(members.other, "member")));
        }
    }
    parts.join(", ")
}

pub(super) fn libc_text(libc: &Libc) -> String {
    match (&libc.version, libc.name) {
        (Some(version), name) => format!("{name} {version}"),
        (None, LibcName::None | LibcName::Unknown) => libc.name.to_string(),
        (None, name) => format!("{name} of unknown version"),
    }
}

fn libc_evidence(libc: &Libc) -> String {
    let confidence = libc.confidence.map(|confidence| format!(", {confidence}"));
    let text = format!("{}{}", libc_text(libc), confidence.unwrap_or_default());
    with_evidence(text, &libc.evidence)
}

/// Who provides a function, in words.
pub(super) struct Malloc<'a> {
    verdict: &'a MallocVerdict,
    provider: String,
}

impl<'a> Malloc<'a> {
    pub(super) fn of(
        verdict: &'a MallocVerdict,
        allocators: &[FoundAllocator],
        libc: &Libc,
    ) -> Self {
        let named = |name: &str| {
            let found = allocators.iter().find(|found| found.name == name);
            found.map_or_else(|| readable_name(name).to_owned(), name_of)
        };
        let provider = match &verdict.provider {
            Provider::Allocator { name } => named(name),
            Provider::Library { name, library } => {
                let file_name = library.rsplit('/').next().unwrap_or(library);
                format!("{} from {file_name}", named(name))
            }
            Provider::SharedLibc => format!("stock {}", libc.name),
            Provider::OwnCode => "its own code".to_owned(),
            Provider::Outside => "from outside".to_owned(),
            Provider::Nobody => "none".to_owned(),
            Provider::Unknown => "unknown".to_owned(),
        };
        Self { verdict, provider }
    }

    /// The name alone.
    pub(super) fn name(&self) -> &str {
        &self.provider
    }

    /// The name, and how sure it is unless it is certain.
    pub(super) fn short(&self) -> String {
        let doubt = match self.verdict.confidence {
            Some(Confidence::Certain) | None => String::new(),
            Some(confidence) => format!(" ({confidence})"),
        };
        match &self.verdict.provider {
            Provider::Unknown => format!("malloc unknown: {}", self.verdict.reason),
            Provider::Outside => format!("malloc from outside{doubt}"),
            Provider::Nobody => format!("no malloc{doubt}"),
            _ => format!("{}{doubt}", self.provider),
        }
    }

    fn long(&self) -> String {
        let confidence = self.verdict.confidence;
        let doubt = confidence.map(|confidence| format!(", {confidence}"));
        let doubt = doubt.unwrap_or_default();
        format!("{}{doubt}: {}", self.provider, self.verdict.reason)
    }
}

/// The name of an allocator with what is known of its version and variant.
pub(super) fn name_of(found: &FoundAllocator) -> String {
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
        "musl-bump" => "stock musl (never frees, because nothing in the program does)",
        "glibc" => "stock glibc",
        "go-runtime" => "Go runtime",
        other => other,
    }
}

/// How much `ulimit -v` must leave the allocator, if that is more than a program needs for itself.
fn reserved_text(marker: &Marker) -> Option<String> {
    const WORTH_TELLING_BYTES: u64 = 1 << 30;
    let libc = [target::Libc::Glibc, target::Libc::Musl]
        .into_iter()
        .find(|libc| marker.libc.split(' ').next() == Some(&libc.to_string()))?; // a version follows
    let bytes = catalogue::find(&marker.allocator)
        .ok()?
        .address_space
        .bytes(libc);
    (bytes >= WORTH_TELLING_BYTES).then(|| {
        let shown = limits::shown(bytes);
        format!("{shown} of address space when it starts, which counts against `ulimit -v`")
    })
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
    let how = if identity.is_grafted {
        "grafted"
    } else {
        "put"
    };
    format!(
        "{} {}{tuning} from {}, {how}{memory_functions} into {} by reheap {}{replaced}{linked}",
        marker.allocator, marker.allocator_version, marker.package, marker.libc, marker.reheap
    )
}

fn rust_text(rust: &RustGlobalAllocator) -> String {
    match rust {
        RustGlobalAllocator::System { evidence } => {
            format!("calls malloc: {}", evidence_text(evidence))
        }
        RustGlobalAllocator::Custom {
            name,
            confidence,
            evidence,
        } => {
            let name = name.as_ref().map(|name| format!(", probably {name}"));
            let name = name.unwrap_or_default();
            let evidence = evidence_text(evidence);
            format!("has a global allocator of its own{name}, {confidence}: {evidence}")
        }
        RustGlobalAllocator::Unknown => {
            "unknown: the symbols that name its global allocator are gone".to_owned()
        }
    }
}

fn with_evidence(text: String, evidence: &[Evidence]) -> String {
    let pieces: Vec<String> = evidence.iter().map(evidence_text).collect();
    match pieces.as_slice() {
        [] => text,
        pieces => format!("{text}: {}", pieces.join(", ")),
    }
}

/// A symbol as its source has it, so that it can be read and looked up.
fn evidence_text(evidence: &Evidence) -> String {
    match evidence {
        Evidence::Symbol(symbol) => Evidence::Symbol(demangled(symbol)).to_string(),
        other => other.to_string(),
    }
}

/// The name of a C++ or Rust function without its parameters; other names, and names that would become endless, stay as
/// they are.
fn demangled(symbol: &str) -> String {
    let mut text = Bounded(String::new());
    let is_whole = if let Ok(rust) = rustc_demangle::try_demangle(symbol) {
        write!(text, "{rust:#}").is_ok()
    } else if let Ok(cxx) = cpp_demangle::Symbol::new(symbol) {
        let options = cpp_demangle::DemangleOptions::new().no_params();
        cxx.structured_demangle(&mut text, &options).is_ok()
    } else {
        false
    };
    if is_whole { text.0 } else { symbol.to_owned() }
}

/// A text that ends with an error: a few letters of a mangled name can stand for a million.
struct Bounded(String);

impl Bounded {
    const BYTES_MAX: usize = 512;
}

impl fmt::Write for Bounded {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        if self.0.len() + piece.len() > Self::BYTES_MAX {
            return Err(fmt::Error);
        }
        self.0.push_str(piece);
        Ok(())
    }
}

/// Breaks at spaces. A word longer than a line stays whole, so that the user can copy it.
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
    fn symbols_are_shown_as_their_source_has_them() {
        for (symbol, shown) in [
            ("_Znwm", "operator new"),
            ("_ZdlPv", "operator delete"),
            ("_ZN8snmalloc5Alloc5allocEm", "snmalloc::Alloc::alloc"),
            (
                "_RNvCsfLfy6EI15iL_7___rustc11___rdl_alloc",
                "__rustc::__rdl_alloc",
            ),
            (
                "_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE",
                "core::fmt::Write::write_fmt",
            ),
            ("malloc", "malloc"),
            ("_Z", "_Z"),
        ] {
            assert_eq!(demangled(symbol), shown);
        }
        // Each substitution doubles what the one before stands for.
        let doubling: String = (0..30)
            .map(|n| {
                format!(
                    "3bazIS{0}_S{0}_E",
                    char::from_digit(n, 36).unwrap().to_ascii_uppercase()
                )
            })
            .collect();
        let symbol = format!("_ZN3foo{doubling}E");
        assert!(demangled(&symbol).len() <= symbol.len().max(Bounded::BYTES_MAX));
    }

    #[test]
    fn every_label_is_followed_by_a_blank() {
        let mut block = Block {
            lines: String::new(),
        };
        block.add("interpreter", "/lib64/ld-linux-x86-64.so.2");
        assert_eq!(block.lines, "  interpreter /lib64/ld-linux-x86-64.so.2\n");
    }

    #[test]
    fn sizes_have_as_many_digits_as_matter() {
        let sizes = [0, 12 << 10, 5 << 20, 500 << 20, 3 << 30].map(size);
        assert_eq!(sizes, ["0 KiB", "12 KiB", "5.0 MiB", "500 MiB", "3.0 GiB"]);
    }
}
