//! Conclusions from the findings.
//!
//! The order of the questions matters. The marker is a proof in itself. Then come addresses of symbols, which are facts
//! about the linked program, and then what a dynamic linker will do. "There is only one allocator in it" comes last.

use super::findings::{Findings, Sighting};
use super::image::{FileType, Image, Note};
use super::signatures::{self, BUMP, GLIBC, GO, MALLOCNG, OLDMALLOC};
use super::{
    Confidence, Evidence, FoundAllocator, Kind, Libc, LibcName, LibcVersion, MallocVerdict,
    MarkerIdentity, Provider, Role, RustGlobalAllocator,
};

/// mallocng came with this version of musl.
const FIRST_MALLOCNG: &str = "1.2.1";

pub(super) fn kind(image: &Image<'_>) -> Kind {
    match image.file_type {
        FileType::Relocatable => Kind::Object,
        // musl's and glibc's libc.so can be started like programs, so the interpreter alone proves nothing.
        FileType::SharedObject
            if !image.is_marked_pie && (image.soname.is_some() || image.interpreter.is_none()) =>
        {
            Kind::SharedLibrary
        }
        FileType::SharedObject | FileType::Executable if image.interpreter.is_some() => {
            Kind::Dynamic
        }
        FileType::SharedObject => Kind::StaticPie,
        FileType::Executable => Kind::Static,
    }
}

/// Drops what other findings explain, and sorts by confidence.
pub(super) fn allocators(kind: Kind, findings: &Findings) -> Vec<FoundAllocator> {
    let has_full_musl = [MALLOCNG, OLDMALLOC]
        .iter()
        .any(|name| findings.allocators.contains_key(name));
    let mut allocators: Vec<FoundAllocator> = findings
        .allocators
        .iter()
        .filter(|(name, _)| **name != BUMP || !has_full_musl)
        .filter_map(|(name, sighting)| {
            Some(FoundAllocator {
                name: (*name).to_owned(),
                version: sighting.version.clone(),
                variant: sighting.variant.map(str::to_owned),
                is_stock: signatures::signature(name).is_stock,
                role: Role::Unknown,
                hardening: Vec::new(),
                confidence: confidence(kind, name, sighting, findings)?,
                evidence: sighting.evidence.iter().cloned().collect(),
            })
        })
        .collect();
    allocators.sort_by_key(|allocator| std::cmp::Reverse(allocator.confidence));
    allocators
}

/// The names of its interface are the allocator's own where something else of it is, or where malloc is one of them.
fn confidence(
    kind: Kind,
    name: &'static str,
    sighting: &Sighting,
    findings: &Findings,
) -> Option<Confidence> {
    let is_malloc = has_places(kind) && findings.malloc_is_entry_point_of(name);
    let has_more = is_malloc || sighting.confidence >= Some(Confidence::Likely);
    if sighting.has_interface && has_more {
        Some(Confidence::Certain)
    } else {
        sighting.confidence
    }
}

/// In an archive every member begins at address 0, so addresses prove nothing.
fn has_places(kind: Kind) -> bool {
    kind != Kind::Archive
}

pub(super) fn libc(
    kind: Kind,
    image: &Image<'_>,
    findings: &Findings,
    marker: Option<&MarkerIdentity>,
) -> Libc {
    let mut libc = match marker {
        Some(marker) => libc_of_marker(marker),
        None => libc_of_file(kind, image, findings),
    };
    if libc.name == LibcName::Glibc && libc.version.is_none() {
        add_needed_glibc(&mut libc, image);
    }
    libc
}

/// A preload's marker tells no version: its symbols do.
fn libc_of_marker(marker: &MarkerIdentity) -> Libc {
    let libc = &marker.marker.libc;
    let (name, version) = libc.split_once(' ').unwrap_or((libc, ""));
    Libc {
        name: match name {
            "musl" => LibcName::Musl,
            "glibc" => LibcName::Glibc,
            _ => LibcName::Unknown,
        },
        version: (!version.is_empty()).then(|| LibcVersion::Exactly(version.to_owned())),
        confidence: Some(Confidence::Certain),
        evidence: vec![Evidence::Note(crate::marker::SECTION.to_owned())],
    }
}

fn libc_of_file(kind: Kind, image: &Image<'_>, findings: &Findings) -> Libc {
    let mut libc = match kind {
        Kind::Dynamic => libc_of_interpreter(image),
        Kind::SharedLibrary => libc_of_needed(image),
        Kind::Static | Kind::StaticPie | Kind::Object | Kind::Archive => None,
    }
    .unwrap_or_else(|| libc_inside(kind, image, findings));
    let is_the_libc = image
        .soname
        .as_ref()
        .is_some_and(|soname| soname.starts_with(b"libc.so"));
    if is_the_libc && libc.version.is_none() {
        libc.version = version_inside(findings, libc.name);
    }
    libc
}

fn libc_of_interpreter(image: &Image<'_>) -> Option<Libc> {
    let path = String::from_utf8_lossy(image.interpreter.as_ref()?).into_owned();
    let file_name = path.rsplit('/').next().unwrap_or_default();
    let name = match file_name {
        _ if file_name.starts_with("ld-musl-") => LibcName::Musl,
        _ if path.starts_with("/system/bin/linker") => LibcName::Bionic,
        _ if ["ld-linux", "ld64.so", "ld.so", "ld-2."]
            .iter()
            .any(|own| file_name.starts_with(own)) =>
        {
            LibcName::Glibc
        }
        _ => LibcName::Unknown,
    };
    Some(Libc {
        name,
        version: None,
        confidence: (name != LibcName::Unknown).then_some(Confidence::Certain),
        evidence: vec![Evidence::Interpreter(path)],
    })
}

fn libc_of_needed(image: &Image<'_>) -> Option<Libc> {
    image
        .needed
        .iter()
        .chain(&image.soname)
        .find_map(|library| {
            let library = String::from_utf8_lossy(library).into_owned();
            let (name, confidence) = match library.as_str() {
                "libc.so.6" => (LibcName::Glibc, Confidence::Certain),
                // Android's has the same name.
                "libc.so" if !image.needed.is_empty() => (LibcName::Musl, Confidence::Possible),
                _ if library.starts_with("libc.musl-") => (LibcName::Musl, Confidence::Certain),
                _ => return None,
            };
            Some(Libc {
                name,
                version: None,
                confidence: Some(confidence),
                evidence: vec![Evidence::Library(library)],
            })
        })
}

/// The libc whose code is in the file.
fn libc_inside(kind: Kind, image: &Image<'_>, findings: &Findings) -> Libc {
    let abi_tag = image.notes.iter().any(is_abi_tag).then(|| Sighting {
        evidence: [Evidence::Note(".note.ABI-tag".to_owned())].into(),
        confidence: Some(Confidence::Likely),
        ..Sighting::default()
    });
    let sighted = |name, allocators: &[&str]| {
        let allocators = allocators
            .iter()
            .filter_map(|name| findings.allocators.get(name));
        let sightings: Vec<&Sighting> = allocators.chain(findings.libcs.get(name)).collect();
        let confidence = sightings
            .iter()
            .filter_map(|sighting| sighting.confidence)
            .max();
        let evidence = sightings
            .iter()
            .flat_map(|sighting| sighting.evidence.iter().cloned())
            .collect();
        (confidence, evidence)
    };
    let musl: (_, Vec<_>) = sighted("musl", &[MALLOCNG, OLDMALLOC, BUMP]);
    let mut glibc: (_, Vec<_>) = sighted("glibc", &[GLIBC]);
    if let Some(tag) = abi_tag {
        glibc.0 = glibc.0.max(tag.confidence);
        glibc.1.extend(tag.evidence);
    }
    let is_static = matches!(kind, Kind::Static | Kind::StaticPie);
    let shows_no_start = image.symbol_table == super::SymbolTable::Full && !findings.has_libc_start;
    let is_go = findings.shows(GO);
    let (name, (confidence, evidence)) = match musl.0.cmp(&glibc.0) {
        std::cmp::Ordering::Greater => (LibcName::Musl, musl),
        std::cmp::Ordering::Less => (LibcName::Glibc, glibc),
        std::cmp::Ordering::Equal if musl.0.is_some() => {
            (LibcName::Unknown, (None, [musl.1, glibc.1].concat()))
        }
        std::cmp::Ordering::Equal if is_static && (shows_no_start || is_go) => {
            (LibcName::None, (Some(Confidence::Likely), Vec::new()))
        }
        std::cmp::Ordering::Equal => (LibcName::Unknown, (None, Vec::new())),
    };
    let version = version_inside(findings, name).or_else(|| {
        let is_mallocng = name == LibcName::Musl && findings.allocators.contains_key(MALLOCNG);
        is_mallocng.then(|| LibcVersion::AtLeast(FIRST_MALLOCNG.to_owned()))
    });
    Libc {
        name,
        version,
        confidence,
        evidence,
    }
}

/// The version that the libc in the file has of itself.
fn version_inside(findings: &Findings, name: LibcName) -> Option<LibcVersion> {
    let version = match name {
        LibcName::Musl => findings.libc_version.as_ref(),
        LibcName::Glibc => findings
            .glibc_version
            .as_ref()
            .or(findings.libc_version.as_ref()),
        LibcName::Bionic | LibcName::None | LibcName::Unknown => None,
    };
    version.cloned().map(LibcVersion::Exactly)
}

/// glibc's start code carries it; musl's does not.
fn is_abi_tag(note: &Note) -> bool {
    const LINUX: u32 = 0;
    let system = note.description.first_chunk::<4>();
    note.name == b"GNU"
        && note.note_type == 1
        && system.is_some_and(|s| u32::from_le_bytes(*s) == LINUX)
}

fn add_needed_glibc(libc: &mut Libc, image: &Image<'_>) {
    let versions = image.version_needs.iter().filter_map(|name| {
        let number = std::str::from_utf8(name).ok()?.strip_prefix("GLIBC_")?;
        let parts: Option<Vec<u32>> = number.split('.').map(|part| part.parse().ok()).collect();
        Some((parts?, number))
    });
    if let Some((_, number)) = versions.max() {
        libc.version = Some(LibcVersion::AtLeast(number.to_owned()));
        libc.evidence
            .push(Evidence::SymbolVersion(format!("GLIBC_{number}")));
    }
}

/// What is asked about `malloc`: the file's kind and symbols, and everything found.
pub(super) struct Question<'a> {
    pub(super) kind: Kind,
    pub(super) symbol_table: super::SymbolTable,
    pub(super) needed: &'a [String],
    pub(super) findings: &'a Findings,
    pub(super) allocators: &'a [FoundAllocator],
    pub(super) marker: Option<&'a MarkerIdentity>,
}

impl Question<'_> {
    pub(super) fn malloc(&self) -> MallocVerdict {
        self.by_marker().unwrap_or_else(|| match self.kind {
            Kind::Static | Kind::StaticPie => self.of_static(),
            Kind::Dynamic | Kind::SharedLibrary => self.of_dynamic(),
            Kind::Object | Kind::Archive => self.of_unlinked(),
        })
    }

    fn by_marker(&self) -> Option<MallocVerdict> {
        let marker = self.marker.filter(|marker| marker.is_linked)?;
        let name = marker.marker.allocator.clone();
        let functions = marker.replaced.join(", ");
        if !marker.replaced.contains(&"malloc") {
            let reason = if marker.replaced.is_empty() {
                "the marker shows that malloc, calloc, realloc and free are its own".to_owned()
            } else {
                format!("the marker shows that malloc is its own, but not {functions}")
            };
            return Some(verdict(
                Provider::Allocator { name },
                Confidence::Certain,
                reason,
            ));
        }
        let reason = format!(
            "the marker shows that the program takes {functions} from elsewhere than {name}"
        );
        let other = self.inside();
        Some(match other.provider {
            Provider::Unknown => verdict(Provider::OwnCode, Confidence::Certain, reason),
            _ => MallocVerdict {
                reason: format!("{reason}; {}", other.reason),
                ..other
            },
        })
    }

    /// The marker proves that the program's malloc is not this allocator.
    fn is_ruled_out(&self, found: &FoundAllocator) -> bool {
        self.marker.is_some_and(|marker| {
            marker.is_linked
                && marker.marker.allocator == found.name
                && marker.replaced.contains(&"malloc")
        })
    }

    fn of_static(&self) -> MallocVerdict {
        if !self.findings.malloc_places.is_empty() {
            return self.inside();
        }
        if let Some(go) = self.go() {
            return go;
        }
        if self.findings.is_packed && self.allocators.is_empty() {
            return unknown("it is packed with UPX; unpack it with `upx -d` first");
        }
        if self.symbol_table == super::SymbolTable::Full {
            return verdict(
                Provider::Nobody,
                Confidence::Likely,
                "it has symbols, and none is called malloc",
            );
        }
        let shown: Vec<&FoundAllocator> = self
            .allocators
            .iter()
            .filter(|found| found.confidence >= Confidence::Likely)
            .collect();
        match shown.as_slice() {
            [] => unknown("it is stripped, and no text or table of an allocator is in it"),
            [only] => verdict(
                Provider::Allocator {
                    name: only.name.clone(),
                },
                only.confidence.min(Confidence::Likely),
                "it is stripped, and this is the only allocator that shows in it",
            ),
            several => self.stock_beside_private(several).unwrap_or_else(|| {
                unknown(format!("it is stripped, and {} are in it", self.names()))
            }),
        }
    }

    /// The libc's own malloc, if all other allocators in the file have another purpose.
    ///
    /// The global allocator of a Rust program is such an allocator. If it replaced malloc too, little or nothing of the
    /// libc's would remain. But that is no proof: musl keeps its own allocator for its own blocks.
    fn stock_beside_private(&self, shown: &[&FoundAllocator]) -> Option<MallocVerdict> {
        let mut stock = shown.iter().filter(|found| found.is_stock);
        let stock = stock.next().filter(|_| stock.next().is_none())?;
        let goes_by_other_names = |found: &&&FoundAllocator| {
            let row =
                signatures::row_of(&found.name).and_then(|row| self.findings.allocators.get(row));
            row.is_some_and(|sighting| sighting.has_names_of_its_own)
        };
        let mut others = shown.iter().filter(|found| !found.is_stock);
        let (confidence, why) = if others.all(|found| goes_by_other_names(&found)) {
            let why = "the other one in it was built with names of its own";
            (Confidence::Likely, why)
        } else if self.findings.rust.is_rust {
            let why = "Rust programs mostly use another one for Rust alone";
            (Confidence::Possible, why)
        } else {
            return None;
        };
        let provider = Provider::Allocator {
            name: stock.name.clone(),
        };
        let reason = format!("it is stripped, {} are in it, and {why}", self.names());
        Some(verdict(provider, confidence, reason))
    }

    fn of_dynamic(&self) -> MallocVerdict {
        if !self.findings.malloc_places.is_empty() {
            return self.inside();
        }
        if self.symbol_table == super::SymbolTable::None {
            return unknown("its dynamic symbols cannot be found");
        }
        if self.kind == Kind::SharedLibrary {
            return if self.findings.malloc_is_needed {
                verdict(
                    Provider::Outside,
                    Confidence::Certain,
                    "it takes malloc from the program that loads it",
                )
            } else {
                nobody()
            };
        }
        // The dynamic linker takes the first definition in the order of the list.
        for library in self.needed {
            if library.starts_with("libc.so") || library.starts_with("libc.musl-") {
                break;
            }
            if let Some(name) = signatures::allocator_of_library(library) {
                let provider = Provider::Library {
                    name: name.to_owned(),
                    library: library.clone(),
                };
                return verdict(
                    provider,
                    Confidence::Likely,
                    format!("it needs `{library}` before the libc"),
                );
            }
        }
        if let Some(go) = self.go().filter(|_| !self.findings.malloc_is_needed) {
            return go;
        }
        let reason = "it defines no malloc and needs no library of an allocator that reheap knows";
        verdict(Provider::SharedLibc, Confidence::Likely, reason)
    }

    fn of_unlinked(&self) -> MallocVerdict {
        if !self.findings.malloc_places.is_empty() {
            return self.inside();
        }
        if self.findings.malloc_is_needed {
            verdict(
                Provider::Outside,
                Confidence::Certain,
                "it takes malloc from what it is linked with",
            )
        } else {
            nobody()
        }
    }

    /// The file defines `malloc`; whose is it?
    fn inside(&self) -> MallocVerdict {
        let provider = |allocator: &FoundAllocator| Provider::Allocator {
            name: allocator.name.clone(),
        };
        let rows = || {
            self.allocators
                .iter()
                .map(|found| (found, signatures::row_of(&found.name)))
        };
        let has_places = has_places(self.kind);
        let at_malloc = |row| has_places && self.findings.malloc_is_entry_point_of(row);
        if let Some((found, _)) = rows().find(|(_, row)| row.is_some_and(at_malloc)) {
            let reason = "malloc is at the address of its own function";
            return verdict(provider(found), Confidence::Certain, reason);
        }
        let elsewhere = |row| has_places && self.findings.has_entry_point_of(row);
        let is_elsewhere = |row: Option<&'static str>| row.is_some_and(elsewhere);
        let candidates: Vec<&FoundAllocator> = rows()
            .filter(|(found, row)| {
                found.confidence >= Confidence::Likely
                    && !is_elsewhere(*row)
                    && *row != Some(GO)
                    && !self.is_ruled_out(found)
            })
            .map(|(found, _)| found)
            .collect();
        match candidates.as_slice() {
            [only] => verdict(
                provider(only),
                Confidence::Likely,
                "the file defines malloc, and no other allocator in it can be meant",
            ),
            [] if self.symbol_table == super::SymbolTable::Full => verdict(
                Provider::OwnCode,
                Confidence::Likely,
                "the file defines malloc, and not at an address of an allocator that reheap knows",
            ),
            [] => {
                unknown("the file defines malloc, but no allocator that reheap knows shows in it")
            }
            _ => unknown(format!(
                "the file defines malloc, and {} are in it",
                self.names()
            )),
        }
    }

    fn go(&self) -> Option<MallocVerdict> {
        let mut allocators = self.allocators.iter();
        let go =
            allocators.find(|found| found.name == GO && found.confidence >= Confidence::Likely)?;
        let provider = Provider::Allocator {
            name: GO.to_owned(),
        };
        let reason = "Go code allocates from the heap of its own runtime";
        Some(verdict(provider, go.confidence, reason))
    }

    fn names(&self) -> String {
        let names: Vec<&str> = self
            .allocators
            .iter()
            .map(|allocator| allocator.name.as_str())
            .collect();
        match names.as_slice() {
            [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
            _ => names.concat(),
        }
    }
}

fn verdict(provider: Provider, confidence: Confidence, reason: impl Into<String>) -> MallocVerdict {
    MallocVerdict {
        provider,
        confidence: Some(confidence),
        reason: reason.into(),
    }
}

fn unknown(reason: impl Into<String>) -> MallocVerdict {
    MallocVerdict {
        provider: Provider::Unknown,
        confidence: None,
        reason: reason.into(),
    }
}

fn nobody() -> MallocVerdict {
    verdict(
        Provider::Nobody,
        Confidence::Certain,
        "it neither defines nor needs malloc",
    )
}

/// Lets the marker speak for the allocator that it names.
pub(super) fn add_marker(allocators: &mut Vec<FoundAllocator>, marker: &MarkerIdentity) {
    let said = &marker.marker;
    let evidence = Evidence::Note(crate::marker::SECTION.to_owned());
    // The catalogue has names such as `mimalloc-secure` for what the signatures call `mimalloc`.
    let index = allocators
        .iter()
        .position(|found| !found.is_stock && said.allocator.starts_with(&found.name))
        .unwrap_or_else(|| {
            allocators.push(FoundAllocator {
                name: String::new(),
                version: None,
                variant: None,
                is_stock: false,
                role: Role::Unknown,
                hardening: Vec::new(),
                confidence: Confidence::Certain,
                evidence: Vec::new(),
            });
            allocators.len() - 1
        });
    let found = &mut allocators[index];
    found.name.clone_from(&said.allocator);
    found.version = Some(said.allocator_version.clone());
    // reheap puts no debug builds in, so the text that shows one is somebody else's.
    found
        .variant
        .take_if(|variant| *variant == signatures::DEBUG);
    found.confidence = Confidence::Certain;
    found.evidence.insert(0, evidence);
    allocators[..=index].rotate_right(1);
}

pub(super) fn rust_global_allocator(
    findings: &Findings,
    allocators: &[FoundAllocator],
    put_in: Option<&str>,
    malloc: &MallocVerdict,
) -> Option<RustGlobalAllocator> {
    let rust = &findings.rust;
    let evidence = |symbol: &String| Evidence::Symbol(symbol.clone());
    let custom = |symbol, confidence| {
        // What reheap put in is the program's malloc, which a global allocator may or may not call.
        let of_the_program = |found: &&FoundAllocator| {
            !found.is_stock && put_in.is_none_or(|put_in| !put_in.starts_with(&found.name))
        };
        let mut own = allocators.iter().filter(of_the_program);
        let only = own.next().filter(|_| own.next().is_none());
        RustGlobalAllocator::Custom {
            name: only.map(|found| found.name.clone()),
            confidence,
            evidence: evidence(symbol),
        }
    };
    match (&rust.custom, &rust.default, &rust.alloc) {
        (Some(symbol), _, _) => Some(custom(symbol, Confidence::Certain)),
        (None, Some(symbol), _) => Some(RustGlobalAllocator::System {
            evidence: evidence(symbol),
        }),
        (None, None, Some(symbol)) if rust.is_not_inlined => {
            Some(custom(symbol, Confidence::Likely))
        }
        _ if rust.is_rust => Some(beside_malloc(allocators, malloc).map_or(
            RustGlobalAllocator::Unknown,
            |found| RustGlobalAllocator::Custom {
                name: Some(found.name.clone()),
                confidence: Confidence::Possible,
                evidence: found.evidence[0].clone(),
            },
        )),
        _ => None,
    }
}

/// The only allocator in the file whose purpose cannot be malloc.
fn beside_malloc<'a>(
    allocators: &'a [FoundAllocator],
    malloc: &MallocVerdict,
) -> Option<&'a FoundAllocator> {
    let is_malloc = |found: &FoundAllocator| match &malloc.provider {
        Provider::Allocator { name } => *name == found.name,
        Provider::Unknown => true,
        _ => false,
    };
    let mut others = allocators.iter().filter(|found| {
        !found.is_stock
            && found.name != GO
            && found.confidence >= Confidence::Likely
            && !found.evidence.is_empty()
            && !is_malloc(found)
    });
    others.next().filter(|_| others.next().is_none())
}

/// Who provides C++'s `operator new`.
pub(super) fn operator_new(findings: &Findings, malloc: &MallocVerdict) -> Option<MallocVerdict> {
    if findings.new_places.is_empty() {
        return findings.new_is_needed.then(|| {
            verdict(
                Provider::Outside,
                Confidence::Certain,
                "it takes operator new from the C++ library or what is loaded before it",
            )
        });
    }
    if let Some(name) = findings.new_is_entry_point() {
        let provider = Provider::Allocator {
            name: name.to_owned(),
        };
        let reason = "operator new is at the address of its own function";
        return Some(verdict(provider, Confidence::Certain, reason));
    }
    if matches!(malloc.provider, Provider::Allocator { .. }) && !findings.has_cxx_runtime {
        return Some(MallocVerdict {
            confidence: malloc.confidence.min(Some(Confidence::Likely)),
            reason: "the file defines operator new beside the malloc of its allocator".to_owned(),
            ..malloc.clone()
        });
    }
    if findings.has_cxx_runtime {
        return Some(MallocVerdict {
            provider: malloc.provider.clone(),
            confidence: malloc.confidence.min(Some(Confidence::Likely)),
            reason: "operator new is the C++ library's, which calls malloc".to_owned(),
        });
    }
    Some(unknown(
        "the file defines operator new, and not at an address of an allocator that reheap knows",
    ))
}
