//! Checks an executable at the end of a build: reheap claims an allocator only after it has seen it.

use super::rust_heap::RustHeap;
use anyhow::Context as _;
use reheap_allocators::target::Target;
use reheap_command::choice::Choice;
use reheap_command::ui::Failure;
use reheap_elf::identify::{Confidence, Kind, MarkerIdentity, RustGlobalAllocator, identify};
use reheap_elf::{Architecture, family};
use reheap_subject::open_file::OpenFile;
use std::fmt;
use std::fs;
use std::path::Path;

/// What reheap saw in an executable.
#[derive(Debug)]
pub struct Proof {
    kind: Kind,
    /// The processor's name.
    architecture: String,
    size_bytes: u64,
    seen: Seen,
    rust_global_allocator: Option<RustGlobalAllocator>,
}

#[derive(Debug)]
enum Seen {
    Stock,
    Marker(Box<MarkerIdentity>),
    /// A program that never allocates has no allocator in it, and so no marker.
    NoAllocator,
}

/// What helps if an executable is not what it should be. That depends on who made it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Hints {
    /// Where it is not static.
    pub not_static: Option<&'static str>,
    /// Where it has another allocator.
    pub another: Option<&'static str>,
}

impl Hints {
    /// Hints about what Cargo made.
    pub const OF_CARGO: Self = Self {
        not_static: Some("remove `-C target-feature=-crt-static` from the Rust flags"),
        another: Some(
            "a linker in the Rust flags (-C linker=…) replaces reheap's: set it as target.<triple>.linker instead",
        ),
    };
}

/// Reads the executable back; fails where it is not static or not linked with what was chosen.
pub fn of_executable(path: &Path, choice: &Choice, hints: Hints) -> anyhow::Result<Proof> {
    let shown = path.display();
    let cannot = || format!("cannot read `{shown}`");
    let file = fs::File::open(path).and_then(OpenFile::new);
    let file = file.with_context(cannot)?;
    let identity = identify(&file).with_context(cannot)?;
    if !matches!(identity.kind, Kind::Static | Kind::StaticPie) {
        let text = format!(
            "`{shown}` is not a static program ({}), so its malloc comes from elsewhere",
            identity.kind
        );
        return Err(with(hints.not_static, Failure::failed(text)).into());
    }
    let stock = identity
        .allocators
        .iter()
        .find(|found| found.is_stock && found.confidence == Confidence::Certain);
    let seen = match (identity.marker, choice.is_stock()) {
        (None, true) => Seen::Stock,
        (None, false) if stock.is_none() => Seen::NoAllocator,
        (Some(found), false) if is_of(&found, choice, &identity.architecture) => {
            Seen::Marker(Box::new(found))
        }
        (found, _) => {
            let failure = another(path, choice, found.as_ref());
            return Err(with(hints.another, failure).into());
        }
    };
    if let (Seen::Marker(_), Some(stock)) = (&seen, stock) {
        let evidence: Vec<String> = stock.evidence.iter().map(ToString::to_string).collect();
        let text = format!(
            "`{shown}` has only a part of {}: {}",
            stock.name,
            evidence.join(", ")
        );
        return Err(Failure::failed(text).into());
    }
    Ok(Proof {
        kind: identity.kind,
        architecture: identity.architecture,
        size_bytes: file.size_bytes(),
        seen,
        rust_global_allocator: identity.rust_global_allocator,
    })
}

impl Proof {
    /// What a program's Rust code uses in place of malloc, as a clause; nothing where that is malloc or is not known.
    ///
    /// `recorded` is what was seen in the objects that were linked, which tell more than the executable.
    pub(crate) fn rust_heap(&self, recorded: Option<RustHeap>) -> Option<String> {
        let (name, confidence) = match &self.rust_global_allocator {
            Some(RustGlobalAllocator::Custom {
                name, confidence, ..
            }) => (name.as_deref(), Some(*confidence)),
            _ => (None, None),
        };
        let shown = name.map_or(String::new(), |name| format!(", {name}"));
        let own = format!("its Rust code uses the program's own #[global_allocator]{shown}");
        match (recorded.unwrap_or(RustHeap::Unknown), confidence) {
            (RustHeap::Malloc, _) | (RustHeap::Unknown, None) => None,
            (RustHeap::Own, _) => Some(own),
            (RustHeap::Unknown, Some(Confidence::Possible)) => {
                let name = name.unwrap_or("another allocator");
                Some(format!(
                    "it also holds {name}, which its Rust code may use as #[global_allocator]"
                ))
            }
            (RustHeap::Unknown, Some(_)) => Some(own),
        }
    }

    /// Whether the executable is for the processor of this target.
    pub fn is_for(&self, target: &Target) -> bool {
        self.architecture == target.arch().name()
    }

    /// The proof in words, for many executables of different sizes.
    pub(crate) fn without_size(&self) -> String {
        format!("{}, {}", self.kind, self.seen)
    }
}

fn is_of(found: &MarkerIdentity, choice: &Choice, architecture: &str) -> bool {
    let architecture = Architecture::ALL
        .into_iter()
        .find(|known| known.name() == architecture);
    let memory_functions = architecture.and_then(|a| choice.memory_functions.in_marker(a));
    found.marker.memory_functions.as_deref() == memory_functions
        && found.marker.allocator == choice.allocator.plain_name()
        && found.marker.allocator_version == choice.allocator.version
        && found.marker.tuning == choice.tuning.as_given()
}

fn another(path: &Path, choice: &Choice, found: Option<&MarkerIdentity>) -> Failure {
    let seen = found.map_or("musl's own allocator", |found| &found.marker.allocator);
    let (shown, wanted) = (path.display(), choice.allocator.name);
    Failure::failed(format!(
        "`{shown}` was not linked with {wanted}: it has {seen}"
    ))
}

fn with(hint: Option<&str>, failure: Failure) -> Failure {
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, megabytes) = (self.kind, self.size_bytes as f64 / 1e6);
        write!(f, "{kind}, {megabytes:.1} MB, {}", self.seen)
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MarkerIdentity {
            marker, replaced, ..
        } = match self {
            Self::Stock => return f.write_str("musl's own allocator"),
            Self::NoAllocator => return f.write_str("no allocator, because it never allocates"),
            Self::Marker(found) => &**found,
        };
        let options: Vec<String> = marker
            .tuning
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let tuning = if options.is_empty() {
            String::new()
        } else {
            format!(" [{}]", options.join(","))
        };
        let name = format!(
            "{} {}{tuning} in {}",
            marker.allocator, marker.allocator_version, marker.libc
        );
        match replaced.len() {
            0 => f.write_str(&name),
            n if n == family::CORE.len() => {
                write!(f, "the program's own malloc; {name} for musl itself")
            }
            _ => write!(f, "{name}, but the program's own {}", replaced.join(", ")),
        }
    }
}
