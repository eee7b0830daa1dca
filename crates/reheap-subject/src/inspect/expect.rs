//! Decides whether a subject has the allocator that its user expects, for `reheap inspect --expect`.
//!
//! What counts is the allocator of the Rust code, if that has one of its own, and malloc otherwise. What is not known
//! does not match: a check that lets doubt pass is none. Only what an image's script does under a condition is a warning:
//! scripts of well-known images unset `LD_PRELOAD` in cases that do not arise.

use super::preload::{Passing, Preload, State};
use super::report::Report;
use super::text::{Malloc, name_of};
use reheap_allocators::catalogue::{self, CATALOGUE};
use reheap_command::ui::{self, Failure};
use reheap_elf::identify::{
    self, Confidence, FoundAllocator, Identity, Libc, LibcName, LibcVersion, MallocVerdict,
    MarkerIdentity, Provider, RustGlobalAllocator,
};

/// An allocator as a user names it: `mimalloc`, `mimalloc=3`, `musl`.
#[derive(Debug)]
pub struct Expected {
    typed: String,
    family: Family,
    /// Each is a beginning of the version, such as `3` or `3.3`.
    versions: Vec<String>,
    variant: Option<&'static str>,
}

#[derive(Debug, PartialEq, Eq)]
enum Family {
    /// An allocator with this name in the signatures of `identify`.
    Named(String),
    /// Whatever the libc of this name brings along; of any libc without one.
    StockOf(Option<LibcName>),
}

/// Whether a subject has what is expected.
#[derive(Debug)]
pub struct Judgement {
    /// Whether the subject is as expected; `None` where reheap cannot tell.
    pub matches: Option<bool>,
    /// A sentence about the subject, with how reheap knows.
    pub explanation: String,
    /// Why it may be otherwise in a run.
    warnings: Vec<String>,
    /// The command that shows what it is in a run.
    proof: Option<String>,
}

impl Judgement {
    /// What is to be said beside the sentence about this subject.
    pub fn warning(&self, subject: &str) -> Option<String> {
        let reasons = ui::printable(self.warnings.join("; "));
        let proof = self.proof.as_ref().filter(|_| !reasons.is_empty())?;
        Some(format!(
            "warning: `{subject}`: {reasons}\n\nhint: look at a running container: {proof}"
        ))
    }

    /// The sentence, printable whatever is in the subject's name.
    pub fn line(&self) -> String {
        ui::printable(&self.explanation)
    }
}

/// How an allocator compares with the expected one.
#[derive(Debug, PartialEq, Eq)]
enum Comparison {
    Same,
    Another,
    /// reheap cannot tell, for this reason.
    Unknown(String),
}

/// What reheap saw of a subject, file or process.
struct Seen<'a> {
    malloc: &'a MallocVerdict,
    /// The allocators of all files that malloc may be in.
    allocators: Vec<&'a FoundAllocator>,
    /// The allocators of the program's own file.
    own: Vec<&'a FoundAllocator>,
    rust: Option<&'a RustGlobalAllocator>,
    marker: Option<&'a MarkerIdentity>,
    libc: &'a Libc,
    /// Why nobody can tell which libraries an image preloads.
    unread: Option<String>,
    /// What becomes of the preloads of an image.
    passing: Option<&'a Passing>,
}

/// The allocator that a subject's own code uses.
enum Used<'a> {
    Rusts(&'a FoundAllocator, String),
    Malloc,
    Unknown(String),
}

impl Expected {
    /// Reads `ALLOCATOR[=VERSION]`.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let (name, version) = match text.split_once('=') {
            Some((name, version)) => (name, Some(version)),
            None => (text, None),
        };
        if !known_names().any(|known| known == name) {
            return Err(unknown_name(name).into());
        }
        let is_version = |text: &str| !text.is_empty() && text.split('.').all(is_number);
        if let Some(version) = version.filter(|version| !is_version(version)) {
            let message = format!("cannot read the version `{version}`: it is not of the form 3.3");
            return Err(Failure::usage(message).into());
        }
        let (base, major, variant) = parts_of(name);
        Ok(Self {
            typed: text.to_owned(),
            family: match base {
                "stock" => Family::StockOf(None),
                "glibc" => Family::StockOf(Some(LibcName::Glibc)),
                "musl" => Family::StockOf(Some(LibcName::Musl)),
                _ => Family::Named(base.to_owned()),
            },
            versions: major
                .into_iter()
                .chain(version)
                .map(str::to_owned)
                .collect(),
            variant,
        })
    }

    /// The expectation as the user typed it.
    pub fn typed(&self) -> &str {
        &self.typed
    }

    /// Compares a subject with it.
    pub fn judge(&self, report: &Report) -> Judgement {
        let seen = Seen::of(report);
        let (comparison, has, how) = match seen.used() {
            Used::Unknown(reason) => (Comparison::Unknown(reason.clone()), None, reason),
            Used::Rusts(found, how) => {
                let comparison = self.compare(found, &seen);
                (comparison, Some(name_of(found)), how)
            }
            Used::Malloc => {
                let (comparison, has) = self.compare_malloc(&seen);
                (comparison, has, seen.malloc.reason.clone())
            }
        };
        let has = has.map(|has| format!("has {has}"));
        let typed = &self.typed;
        let (matches, words) = match (&comparison, has) {
            (Comparison::Same, has) => (Some(true), has.unwrap_or_default()),
            (Comparison::Another, Some(has)) => (Some(false), format!("{has}, not {typed}")),
            (Comparison::Another, None) => (Some(false), format!("does not have {typed}")),
            (Comparison::Unknown(reason), Some(has)) => {
                let words = format!("{has}, and whether that is {typed} is unknown ({reason})");
                (None, words)
            }
            (Comparison::Unknown(_), None) => (
                None,
                format!("has an unknown allocator, perhaps not {typed}"),
            ),
        };
        Judgement {
            matches,
            explanation: format!(
                "`{report}` {words}: {how}{}{}",
                seen.of_c_code(),
                seen.change_of_preloads()
            ),
            warnings: seen
                .passing
                .map(|of| of.warnings.clone())
                .unwrap_or_default(),
            proof: seen.passing.map(|of| of.proof.clone()),
        }
    }

    fn compare_malloc(&self, seen: &Seen<'_>) -> (Comparison, Option<String>) {
        let allocators: Vec<FoundAllocator> = seen.allocators.iter().copied().cloned().collect();
        let malloc = Malloc::of(seen.malloc, &allocators, seen.libc);
        let has = Some(malloc.name().to_owned());
        let is_doubtful = seen.malloc.confidence == Some(Confidence::Possible);
        if let Some(reason) = &seen.unread {
            return (Comparison::Unknown(reason.clone()), has);
        }
        let comparison = match &seen.malloc.provider {
            _ if is_doubtful => Comparison::Unknown("it is only possible".to_owned()),
            Provider::Allocator { name } | Provider::Library { name, .. } => {
                match seen.allocators.iter().find(|found| found.name == *name) {
                    Some(found) => self.compare(found, seen),
                    None => self.compare_parts(name, None, None, seen),
                }
            }
            Provider::SharedLibc => match seen.libc.name {
                LibcName::Glibc => self.compare_parts("glibc", None, None, seen),
                LibcName::Musl => self.compare_parts("musl", None, None, seen),
                _ => Comparison::Unknown("its libc is unknown".to_owned()),
            },
            Provider::OwnCode => return (Comparison::Another, Some("a malloc of its own".into())),
            Provider::Outside => {
                return (Comparison::Another, Some("malloc from outside".into()));
            }
            Provider::Nobody => return (Comparison::Another, Some("no malloc".into())),
            Provider::Unknown => return (Comparison::Unknown(String::new()), None),
        };
        (comparison, has)
    }

    fn compare(&self, found: &FoundAllocator, seen: &Seen<'_>) -> Comparison {
        let version = found.version.as_deref();
        self.compare_parts(&found.name, version, found.variant.as_deref(), seen)
    }

    fn compare_parts(
        &self,
        name: &str,
        version: Option<&str>,
        variant: Option<&str>,
        seen: &Seen<'_>,
    ) -> Comparison {
        let (base, _, named) = parts_of(name);
        let stock = stock_of(base);
        let is_of_family = match &self.family {
            Family::Named(family) => family == base,
            Family::StockOf(None) => stock.is_some(),
            Family::StockOf(libc) => stock == *libc,
        };
        if !is_of_family {
            return Comparison::Another;
        }
        let of_libc = match &seen.libc.version {
            Some(LibcVersion::Exactly(version)) => Some(version.as_str()),
            Some(LibcVersion::AtLeast(_)) | None => None,
        };
        let version = version.or(of_libc.filter(|_| stock.is_some()));
        for expected in &self.versions {
            match compare_versions(expected, version) {
                Comparison::Same => {}
                other => return other,
            }
        }
        let is_marked = seen
            .marker
            .is_some_and(|marker| marker.marker.allocator == name);
        let Some(expected) = self.variant else {
            return Comparison::Same;
        };
        if named == Some(expected) || variant.is_some_and(|v| v.contains(expected)) {
            Comparison::Same
        } else if is_marked {
            // reheap says in the marker what it put in.
            Comparison::Another
        } else {
            Comparison::Unknown(format!("nothing in it shows a {expected} build"))
        }
    }
}

impl<'a> Seen<'a> {
    fn of(report: &'a Report) -> Self {
        match report {
            Report::File { identity, .. } => Self::of_file(identity),
            Report::Container {
                identity,
                preload,
                passing,
                ..
            } => Self::of_file(identity).with_preloads(preload, passing),
            Report::Process(running) => {
                let mapped = running.allocators.iter();
                let own = mapped.clone().filter(|mapped| mapped.file == running.file);
                Self {
                    malloc: &running.malloc,
                    own: own.map(|mapped| &mapped.found).collect(),
                    allocators: mapped.map(|mapped| &mapped.found).collect(),
                    rust: running.rust_global_allocator.as_ref(),
                    marker: None,
                    libc: &running.libc,
                    unread: None,
                    passing: None,
                }
            }
        }
    }

    /// The first library that has a malloc gives it to a program that takes it from libraries. One that the image lacks
    /// may be that library: somebody may mount it.
    fn with_preloads(mut self, preloads: &'a [Preload], passing: &'a Passing) -> Self {
        if !matches!(
            self.malloc.provider,
            Provider::SharedLibc | Provider::Library { .. }
        ) {
            return self;
        }
        self.passing = Some(passing);
        self.unread = passing.preload_unknown.clone();
        for preload in preloads {
            match &preload.state {
                State::Missing => {
                    let library = &preload.entry;
                    self.unread = Some(format!(
                        "it preloads `{library}`, which the image does not have"
                    ));
                    return self;
                }
                State::Loaded {
                    allocator: Some(found),
                    ..
                } => {
                    self.allocators.push(found);
                    return self;
                }
                State::Loaded { .. } | State::OfAnother | State::Ignored => {}
            }
        }
        self
    }

    fn of_file(identity: &'a Identity) -> Self {
        Self {
            malloc: &identity.malloc,
            allocators: identity.allocators.iter().collect(),
            own: identity.allocators.iter().collect(),
            rust: identity.rust_global_allocator.as_ref(),
            marker: identity.marker.as_ref(),
            libc: &identity.libc,
            unread: None,
            passing: None,
        }
    }

    fn is_malloc(&self, found: &FoundAllocator) -> bool {
        match &self.malloc.provider {
            Provider::Allocator { name } | Provider::Library { name, .. } => *name == found.name,
            _ => false,
        }
    }

    fn used(&self) -> Used<'a> {
        const OWN: &str = "its Rust code has a #[global_allocator] of its own";
        match self.rust {
            None | Some(RustGlobalAllocator::System { .. }) => Used::Malloc,
            Some(RustGlobalAllocator::Custom {
                name: Some(name),
                confidence,
                evidence,
            }) => match self.own.iter().find(|found| found.name == *name) {
                Some(found) if *confidence >= Confidence::Likely => {
                    Used::Rusts(found, format!("{OWN}, {evidence}"))
                }
                Some(found) => {
                    let how = "no other allocator in it can be that of its Rust code";
                    Used::Rusts(found, format!("{how}, {evidence}"))
                }
                None => Used::Unknown(format!("{OWN}, and that is not one that reheap can read")),
            },
            Some(RustGlobalAllocator::Custom { name: None, .. }) => {
                Used::Unknown(format!("{OWN}, and nothing shows which"))
            }
            Some(RustGlobalAllocator::Unknown) => {
                let others = self.own.iter().filter(|found| {
                    found.confidence >= Confidence::Likely
                        && !found.is_stock
                        && !self.is_malloc(found)
                });
                let others: Vec<String> = others.map(|found| name_of(found)).collect();
                if others.is_empty() {
                    Used::Malloc
                } else {
                    Used::Unknown(format!(
                        "its Rust code may use malloc or {}, and the symbols that tell are gone",
                        others.join(" or ")
                    ))
                }
            }
        }
    }

    /// What takes the preloads of an image away, or sets others.
    fn change_of_preloads(&self) -> String {
        let change = self.passing.and_then(|of| of.preload_change.as_ref());
        change
            .map(|change| format!("; {change}"))
            .unwrap_or_default()
    }

    /// What C code uses, where Rust code has something else.
    fn of_c_code(&self) -> String {
        let Used::Rusts(found, _) = self.used() else {
            return String::new();
        };
        if self.is_malloc(found) || self.malloc.provider == Provider::Nobody {
            return String::new();
        }
        let allocators: Vec<FoundAllocator> = self.allocators.iter().copied().cloned().collect();
        let malloc = Malloc::of(self.malloc, &allocators, self.libc);
        format!("; C code in it uses another one, {}", malloc.name())
    }
}

/// The libc that an allocator belongs to.
fn stock_of(name: &str) -> Option<LibcName> {
    match name {
        "glibc" => Some(LibcName::Glibc),
        _ if name == "musl" || name.starts_with("musl-") => Some(LibcName::Musl),
        _ => None,
    }
}

/// What the catalogue appends to the name of an allocator in the signatures.
const VARIANTS: [&str; 3] = ["secure", "checks", "light"];

/// The name of an allocator in the signatures, and what the catalogue adds to it: `mimalloc3`, `mimalloc-secure`.
fn parts_of(name: &str) -> (&str, Option<&str>, Option<&'static str>) {
    let split = VARIANTS.into_iter().find_map(|variant| {
        let plain = name.strip_suffix(variant)?.strip_suffix('-')?;
        Some((plain, variant))
    });
    let plain = split.map_or(name, |(plain, _)| plain);
    let base = plain.trim_end_matches(|c: char| c.is_ascii_digit());
    let major = &plain[base.len()..];
    if identify::allocators().any(|known| known == base) {
        (
            base,
            Some(major).filter(|major| !major.is_empty()),
            split.map(|(_, variant)| variant),
        )
    } else {
        (name, None, None)
    }
}

fn known_names() -> impl Iterator<Item = &'static str> {
    let of_catalogue = CATALOGUE.iter().map(|row| row.name);
    of_catalogue.chain(identify::allocators()).chain(["musl"])
}

fn unknown_name(name: &str) -> Failure {
    let failure = Failure::usage(format!("unknown allocator `{name}`"));
    match catalogue::nearest(name, known_names()) {
        Some(nearest) => failure.hint(format!("did you mean `{nearest}`?")),
        None => {
            let mut names: Vec<&str> = known_names().collect();
            names.sort_unstable();
            names.dedup();
            failure.hint(format!("reheap knows {}", names.join(", ")))
        }
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a version begins with the components of the expected one. In `3.x`, the rest is unknown.
fn compare_versions(expected: &str, version: Option<&str>) -> Comparison {
    let Some(version) = version else {
        return Comparison::Unknown("its version is unknown".to_owned());
    };
    let mut components = version.split(['.', '-', '+']);
    for wanted in expected.split('.') {
        match components.next() {
            Some("x") => return Comparison::Unknown(format!("its version is {version}")),
            Some(component) if component == wanted => {}
            _ => return Comparison::Another,
        }
    }
    Comparison::Same
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_matches_by_whole_components() {
        let compare = |expected, version| compare_versions(expected, Some(version));
        assert_eq!(compare("3", "3.3.2"), Comparison::Same);
        assert_eq!(compare("3.3", "3.3.2"), Comparison::Same);
        assert_eq!(compare("3.3", "3.30.1"), Comparison::Another);
        assert_eq!(compare("3.3.2.1", "3.3.2"), Comparison::Another);
        assert_eq!(compare("3", "3.x"), Comparison::Same);
        assert_eq!(compare("2", "3.x"), Comparison::Another);
        assert!(matches!(compare("3.3", "3.x"), Comparison::Unknown(_)));
        assert!(matches!(
            compare_versions("3", None),
            Comparison::Unknown(_)
        ));
    }

    #[test]
    fn the_catalogues_names_are_those_of_the_signatures_with_more_in_them() {
        assert_eq!(parts_of("mimalloc3"), ("mimalloc", Some("3"), None));
        assert_eq!(
            parts_of("mimalloc-secure"),
            ("mimalloc", None, Some("secure"))
        );
        assert_eq!(
            parts_of("mimalloc2-secure"),
            ("mimalloc", Some("2"), Some("secure"))
        );
        assert_eq!(
            parts_of("hardened_malloc-light"),
            ("hardened_malloc", None, Some("light"))
        );
        assert_eq!(parts_of("musl-mallocng"), ("musl-mallocng", None, None));
        assert_eq!(parts_of("stock"), ("stock", None, None));
        for name in known_names() {
            let expected = Expected::parse(name).unwrap();
            assert_eq!(expected.typed(), name);
        }
    }
}
