//! The evidence in a file, or in all members of an archive together, before any conclusion.

use super::code;
use super::image::{Image, Place, Symbol};
use super::masked::Masked;
use super::signatures::{self, Detail, Pattern, SIGNATURES, SymbolMeaning};
use super::{Confidence, Evidence, protections};
use crate::error::ElfError;
use crate::source::Piece;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::sync::LazyLock;

/// Enough to believe it; a C++ namespace alone would give hundreds.
const SYMBOLS_MAX: usize = 6;
const EVIDENCE_MAX: usize = 12;
/// Addresses of a function under all its names. A damaged file can give it a million.
const PLACES_MAX: usize = 4096;
/// How many bytes in front of a match and behind it are examined: the digits before a version, and the longest pattern
/// or glibc's whole banner.
const AROUND_A_MATCH: (u64, u64) = (64, 512);

/// Symbols that matter beside those of [`SIGNATURES`].
const MALLOC: &[u8] = b"malloc";
/// C++'s `operator new` and `operator delete`, on 64-bit and 32-bit processors.
const OPERATORS_NEW: [&str; 2] = ["_Znwm", "_Znwj"];
const OPERATOR_DELETE: &str = "_ZdlPv";
/// What libstdc++ and libc++ define beside their operators, which call malloc.
const CXX_RUNTIME: [&[u8]; 2] = [b"_ZSt15get_new_handlerv", b"__cxa_throw"];
const LIBC_VERSION: &[u8] = b"__libc_version";
const LIBC_START: &[u8] = b"__libc_start_main";
/// Functions by which each libc starts a static program.
const STARTS: [(&[u8], &str); 2] = [(b"__init_libc", "musl"), (b"__libc_setup_tls", "glibc")];
/// rustc's names for the allocator functions; since 1.89 they are mangled and end like this.
///
/// With Rust's default allocator, `__rust_alloc` calls `__rdl_alloc`. With another one it calls `__rg_alloc`; since
/// 1.89 it is that function. Fat link-time optimization makes both look alike, and removes the marker function.
const RUST_DEFAULT: &[u8] = b"__rdl_alloc";
const RUST_CUSTOM: &[u8] = b"__rg_alloc";
const RUST_ALLOC: &[u8] = b"__rust_alloc";
const RUST_NOT_INLINED: &[u8] = b"__rust_no_alloc_shim_is_unstable_v2";

/// One allocator as it was seen.
#[derive(Debug, Default)]
pub(super) struct Sighting {
    pub(super) evidence: BTreeSet<Evidence>,
    pub(super) confidence: Option<Confidence>,
    /// Functions are there by the names of its interface.
    pub(super) has_interface: bool,
    pub(super) version: Option<String>,
    pub(super) variant: Option<&'static str>,
    /// It was built so that none of its functions is called `malloc`.
    pub(super) has_names_of_its_own: bool,
}

impl Sighting {
    fn add(&mut self, evidence: Evidence, confidence: Confidence) {
        self.confidence = self.confidence.max(Some(confidence));
        let is_symbol = |evidence: &Evidence| matches!(evidence, Evidence::Symbol(_));
        let max = if is_symbol(&evidence) {
            SYMBOLS_MAX
        } else {
            EVIDENCE_MAX
        };
        if self.evidence.len() < max {
            self.evidence.insert(evidence);
        }
    }
}

/// The symbols of Rust's global allocator.
#[derive(Debug, Default)]
pub(super) struct RustSymbols {
    pub(super) is_rust: bool,
    pub(super) default: Option<String>,
    pub(super) custom: Option<String>,
    pub(super) alloc: Option<String>,
    pub(super) is_not_inlined: bool,
}

/// Everything that was seen.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) allocators: BTreeMap<&'static str, Sighting>,
    pub(super) libcs: BTreeMap<&'static str, Sighting>,
    /// Of the libc that defines its version as a symbol.
    pub(super) libc_version: Option<String>,
    /// Of the banner that glibc prints.
    pub(super) glibc_version: Option<String>,
    libc_versions_read: usize,
    pub(super) has_libc_start: bool,
    pub(super) malloc_places: BTreeSet<Place>,
    pub(super) malloc_is_exported: bool,
    pub(super) malloc_is_needed: bool,
    exports: BTreeSet<&'static str>,
    pub(super) new_places: BTreeSet<Place>,
    pub(super) new_is_needed: bool,
    pub(super) has_cxx_runtime: bool,
    entry_points: HashMap<&'static str, BTreeSet<Place>>,
    /// The symbol of reheap's marker is there.
    pub(super) defines_marker: bool,
    pub(super) rust: RustSymbols,
    pub(super) is_packed: bool,
    /// As rpmalloc does.
    reads_huge_page_size: bool,
    pub(super) protections: protections::Names,
}

/// The names that other files take from the one that provides malloc.
fn offered_names() -> impl Iterator<Item = &'static str> {
    let operators = OPERATORS_NEW.into_iter().chain([OPERATOR_DELETE]);
    crate::family::PUBLIC.iter().copied().chain(operators)
}

/// Names of symbols that identification makes use of, and the length of the longest. Large programs have hundreds of
/// thousands of longer names, which need not be looked up.
struct WantedNames {
    names: HashSet<&'static [u8]>,
    bytes_max: usize,
}

static WANTED: LazyLock<WantedNames> = LazyLock::new(|| {
    let others = [
        MALLOC,
        LIBC_VERSION,
        LIBC_START,
        crate::marker::SYMBOL.as_bytes(),
    ];
    let names: HashSet<&[u8]> = (others.into_iter())
        .chain(offered_names().map(str::as_bytes))
        .chain(CXX_RUNTIME)
        .chain(STARTS.map(|(start, _)| start))
        .chain(signatures::telling_names())
        .map(signatures::own_name)
        .collect();
    let bytes_max = names.iter().map(|name| name.len()).max().unwrap_or(0);
    WantedNames { names, bytes_max }
});

/// Whether identification may make use of a symbol of that name.
pub(super) fn is_wanted(name: &[u8]) -> bool {
    let own_name = signatures::own_name(name);
    own_name.len() <= WANTED.bytes_max && WANTED.names.contains(own_name)
        || name.ends_with(RUST_DEFAULT)
        || name.ends_with(RUST_CUSTOM)
        || name.ends_with(RUST_ALLOC)
        || name.ends_with(RUST_NOT_INLINED)
        || signatures::has_telling_prefix(own_name)
}

impl Findings {
    /// Adds what one ELF file shows.
    pub(super) fn add(&mut self, image: &Image<'_>) -> Result<(), ElfError> {
        image.for_each_symbol(&mut |symbol| {
            self.protections.add(&symbol);
            if is_wanted(symbol.name) {
                self.add_symbol(&symbol, image)
            } else {
                Ok(())
            }
        })?;
        let mut masked = Masked::default();
        for range in &image.data {
            let mut next = range.start;
            image
                .view()
                .walk(range.clone(), AROUND_A_MATCH, &mut |piece| {
                    masked.fill(piece.bytes);
                    self.add_piece(piece, &masked, &mut next);
                })?;
        }
        if self.reads_huge_page_size
            && let Some(what) = code::rpmalloc(image)?
        {
            let sighting = self.allocators.entry(signatures::RPMALLOC).or_default();
            sighting.add(Evidence::Code(what.to_owned()), Confidence::Likely);
        }
        if let Some(sighting) = self.allocators.get_mut(signatures::MALLOCNG)
            && let Some(what) = code::mallocng(image)?
        {
            sighting.add(Evidence::Code(what.to_owned()), Confidence::Certain);
        }
        Ok(())
    }

    /// Whether more than a hint shows an allocator.
    pub(super) fn shows(&self, allocator: &'static str) -> bool {
        let sighting = self.allocators.get(allocator);
        sighting.is_some_and(|sighting| sighting.confidence >= Some(Confidence::Likely))
    }

    /// Adds the matches that begin in a piece. The search continues after the last one, as in one long text.
    fn add_piece(&mut self, piece: &Piece<'_>, masked: &Masked, next: &mut u64) {
        let start = next.saturating_sub(piece.offset) as usize;
        let start = start.max(piece.own.start);
        for (pattern, found) in signatures::search().all(masked, start) {
            if found.start >= piece.own.end {
                return;
            }
            *next = piece.offset + found.end as u64;
            self.add_match(pattern, piece.bytes, found);
        }
    }

    /// Whether `malloc` is at the address of a function that is this allocator's own.
    pub(super) fn malloc_is_entry_point_of(&self, allocator: &'static str) -> bool {
        self.entry_places(allocator)
            .any(|place| self.malloc_places.contains(place))
    }

    /// Whether the file has a function that is this allocator's own malloc, at any address.
    pub(super) fn has_entry_point_of(&self, allocator: &'static str) -> bool {
        self.entry_places(allocator).next().is_some()
    }

    fn entry_places(&self, allocator: &'static str) -> impl Iterator<Item = &Place> {
        self.entry_points.get(allocator).into_iter().flatten()
    }

    /// The functions of the malloc family that other files can take from this one.
    pub(super) fn exports(&self) -> Vec<String> {
        self.exports.iter().map(|name| (*name).to_owned()).collect()
    }

    /// The allocator that has `operator new` at the address of a function of its own.
    pub(super) fn new_is_entry_point(&self) -> Option<&'static str> {
        let rows = SIGNATURES.iter().map(|row| row.allocator);
        let mut of_an_allocator = rows.filter(|row| {
            self.entry_places(row)
                .any(|place| self.new_places.contains(place))
        });
        of_an_allocator.next()
    }

    fn add_symbol(&mut self, symbol: &Symbol<'_>, image: &Image<'_>) -> Result<(), ElfError> {
        let name = symbol.name;
        let is_new = OPERATORS_NEW.iter().any(|new| new.as_bytes() == name);
        let Some(place) = symbol.place else {
            self.malloc_is_needed |= name == MALLOC;
            self.new_is_needed |= is_new;
            return Ok(());
        };
        if is_new {
            insert(&mut self.new_places, place);
        }
        self.defines_marker |= name == crate::marker::SYMBOL.as_bytes();
        self.has_cxx_runtime |= CXX_RUNTIME.contains(&name);
        if symbol.is_dynamic {
            let offered = offered_names().find(|offered| offered.as_bytes() == name);
            self.exports.extend(offered);
        }
        match name {
            MALLOC => {
                insert(&mut self.malloc_places, place);
                self.malloc_is_exported |= symbol.is_dynamic;
            }
            LIBC_START => self.has_libc_start = true,
            LIBC_VERSION
                if self.libc_version.is_none() && self.libc_versions_read < LIBC_VERSIONS_MAX =>
            {
                self.libc_versions_read += 1;
                self.libc_version = version_at(image, place)?;
            }
            _ => {}
        }
        let text = || String::from_utf8_lossy(name).into_owned();
        if let Some((_, libc)) = STARTS.iter().find(|(start, _)| *start == name) {
            let evidence = Evidence::Symbol(text());
            self.libcs
                .entry(libc)
                .or_default()
                .add(evidence, Confidence::Certain);
        }
        let rust = &mut self.rust;
        for (ending, slot) in [
            (RUST_DEFAULT, &mut rust.default),
            (RUST_CUSTOM, &mut rust.custom),
            (RUST_ALLOC, &mut rust.alloc),
        ] {
            if name.ends_with(ending) {
                rust.is_rust = true;
                slot.get_or_insert_with(text);
            }
        }
        rust.is_not_inlined |= name.ends_with(RUST_NOT_INLINED);

        let own_name = signatures::own_name(name);
        for row in SIGNATURES {
            if row
                .entry_points
                .iter()
                .any(|entry| entry.as_bytes() == own_name)
            {
                insert(self.entry_points.entry(row.allocator).or_default(), place);
            }
        }
        for meaning in signatures::meanings_of_symbol(name) {
            match meaning {
                SymbolMeaning::Signature(allocator) => {
                    let sighting = self.allocators.entry(allocator).or_default();
                    sighting.add(Evidence::Symbol(text()), Confidence::Certain);
                }
                SymbolMeaning::Interface(allocator) => {
                    let sighting = self.allocators.entry(allocator).or_default();
                    sighting.add(Evidence::Symbol(text()), Confidence::Possible);
                    sighting.has_interface = true;
                }
                SymbolMeaning::Detail(allocator, detail) => self.add_detail(allocator, detail),
            }
        }
        Ok(())
    }

    fn add_detail(&mut self, allocator: &'static str, detail: Detail) {
        let sighting = self.allocators.entry(allocator).or_default();
        match detail {
            Detail::MajorVersion(major) => {
                sighting.version.get_or_insert_with(|| format!("{major}.x"));
            }
            Detail::Variant(variant) => {
                let is_debug = sighting.variant == Some(signatures::DEBUG);
                sighting.variant = sighting.variant.filter(|_| is_debug).or(Some(variant));
            }
            Detail::NamesOfItsOwn => sighting.has_names_of_its_own = true,
        }
    }

    fn add_match(&mut self, pattern: Pattern, memory: &[u8], found: Range<usize>) {
        // A string of a C program begins after the end of another one. Otherwise the words may be part of a longer text
        // about the allocator.
        let begins_a_literal = found.start == 0 || memory[found.start - 1] == 0;
        let text = || {
            Evidence::Text(
                String::from_utf8_lossy(&memory[found.clone()])
                    .trim_end()
                    .to_owned(),
            )
        };
        // A pattern that ends with a blank is the beginning of messages. If nothing follows, a program searches for the
        // text, as reheap's own catalogue does.
        let is_cut_off =
            memory[found.end - 1] == b' ' && memory.get(found.end).is_none_or(|&byte| byte == 0);
        let strength = if begins_a_literal && !is_cut_off {
            Confidence::Likely
        } else {
            Confidence::Possible
        };
        match pattern {
            Pattern::Text(allocator) => self
                .allocators
                .entry(allocator)
                .or_default()
                .add(text(), strength),
            Pattern::Table(allocator, what) => {
                let evidence = Evidence::Table(what.to_owned());
                let sighting = self.allocators.entry(allocator).or_default();
                sighting.add(evidence, Confidence::Likely);
            }
            Pattern::Detail(allocator, detail) if begins_a_literal => {
                self.add_detail(allocator, detail)
            }
            Pattern::Detail(..) => {}
            Pattern::Libc(libc) => self.libcs.entry(libc).or_default().add(text(), strength),
            Pattern::GlibcBanner => self.add_glibc_banner(memory, found),
            Pattern::JemallocVersion => self.add_jemalloc_version(memory, found),
            Pattern::Gperftools => {
                let version = version_prefix(&memory[found.end - 2..]).map(str::to_owned);
                let sighting = self.allocators.entry("tcmalloc").or_default();
                sighting.add(text(), strength);
                sighting.version = version.or(sighting.version.take());
            }
            Pattern::GoBuildInfo => {
                let info = &memory[found.start..];
                // Programs that read Go's executables contain the beginning too.
                let confidence = if is_go_build_info(info) {
                    Confidence::Likely
                } else {
                    Confidence::Possible
                };
                let text = String::from_utf8_lossy(&memory[found.start + 1..found.end]);
                let evidence = Evidence::Text(text.trim_start().to_owned());
                let sighting = self.allocators.entry(signatures::GO).or_default();
                sighting.add(evidence, confidence);
                sighting.version = go_version(info).or(sighting.version.take());
            }
            Pattern::GoFunction => {
                let sighting = self.allocators.entry(signatures::GO).or_default();
                sighting.add(text(), Confidence::Possible);
            }
            Pattern::RustLibrary => {
                let commit = memory.get(found.end..found.end + 40);
                self.rust.is_rust |= commit.is_some_and(|c| c.iter().all(u8::is_ascii_hexdigit));
            }
            Pattern::HugePageSize => self.reads_huge_page_size = true,
            Pattern::Upx => self.is_packed = true,
        }
    }

    /// `GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36.`
    fn add_glibc_banner(&mut self, memory: &[u8], found: Range<usize>) {
        let line = &memory[found.start..memory.len().min(found.start + 200)];
        let line = line
            .split(|&byte| byte == b'\n' || byte == 0)
            .next()
            .unwrap_or_default();
        let version = String::from_utf8_lossy(line)
            .rsplit_once(" version ")
            .and_then(|(_, rest)| version_prefix(rest.as_bytes()).map(str::to_owned));
        let evidence = Evidence::Text(String::from_utf8_lossy(line).into_owned());
        self.libcs
            .entry("glibc")
            .or_default()
            .add(evidence, Confidence::Likely);
        self.glibc_version = self.glibc_version.take().or(version);
    }

    /// `5.3.1-0-g81034ce1f1373e37dc865038e1bc8eeecf559ce8`: what jemalloc calls `JEMALLOC_VERSION`.
    fn add_jemalloc_version(&mut self, memory: &[u8], found: Range<usize>) {
        let commit = memory.get(found.end..found.end + 40);
        let start = memory[..found.start]
            .iter()
            .rposition(|byte| !byte.is_ascii_digit() && *byte != b'.')
            .map_or(0, |before| before + 1);
        // A package of the Rust registry has it in its own version, after a `+`. Programs that only name the package
        // contain that.
        let is_of_a_package = start > 0 && memory[start - 1] == b'+';
        let number = version_prefix(&memory[start..found.start]).filter(|_| !is_of_a_package);
        if let (Some(commit), Some(number)) = (commit, number)
            && commit.iter().all(u8::is_ascii_hexdigit)
            && number.split('.').count() == 3
        {
            let sighting = self.allocators.entry("jemalloc").or_default();
            let text = String::from_utf8_lossy(&memory[start..found.end + 40]).into_owned();
            // Programs that look for jemalloc contain this too.
            sighting.add(Evidence::Text(text), Confidence::Possible);
            sighting.version = Some(number.to_owned());
        }
    }
}

/// Whether the size of an address and the flags follow Go's magic.
fn is_go_build_info(info: &[u8]) -> bool {
    matches!(info.get(14..16), Some([4 | 8, 0..=3]))
}

/// Go's `buildinfo`: 16 bytes of magic and flags, 16 that are no longer used, then the length and text of the version.
fn go_version(info: &[u8]) -> Option<String> {
    const INLINE_STRINGS: u8 = 2;
    if info.get(15)? & INLINE_STRINGS == 0 {
        return None;
    }
    let length = usize::from(*info.get(32)?);
    let version = std::str::from_utf8(info.get(33..33 + length)?).ok()?;
    // Experiments that were switched on follow after a space.
    let number = version.strip_prefix("go")?.split(' ').next()?;
    (number.len() < 20).then(|| number.to_owned())
}

fn insert(places: &mut BTreeSet<Place>, place: Place) {
    if places.len() < PLACES_MAX {
        places.insert(place);
    }
}

fn version_at(image: &Image<'_>, place: Place) -> Result<Option<String>, ElfError> {
    let contents = image.contents_from(place, VERSION_BYTES_MAX as u64)?;
    Ok(contents.and_then(|text| version_prefix(&text).map(str::to_owned)))
}

/// A libc has one, which may be in both tables of symbols. Each further one would be looked for in all segments.
const LIBC_VERSIONS_MAX: usize = 8;
/// More than any version has.
const VERSION_BYTES_MAX: usize = 20;

/// Digits and dots at the beginning, if they look like a version.
fn version_prefix(text: &[u8]) -> Option<&str> {
    let text = &text[..text.len().min(VERSION_BYTES_MAX)];
    let end = text
        .iter()
        .position(|byte| !byte.is_ascii_digit() && *byte != b'.')
        .unwrap_or(text.len());
    let version = std::str::from_utf8(&text[..end])
        .ok()?
        .trim_end_matches('.');
    let looks_like_one = version.contains('.') && version.starts_with(|c: char| c.is_ascii_digit());
    looks_like_one.then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_ends_where_digits_and_dots_end() {
        assert_eq!(version_prefix(b"1.2.5\0"), Some("1.2.5"));
        assert_eq!(version_prefix(b"2.36.\n"), Some("2.36"));
        assert_eq!(version_prefix(b"12"), None);
        assert_eq!(version_prefix(b".5"), None);
        assert_eq!(version_prefix(b""), None);
    }

    #[test]
    fn a_jemalloc_version_needs_a_number_before_it_and_a_commit_after_it() {
        let version_of = |text: &[u8]| {
            let mut findings = Findings::default();
            for (pattern, found) in signatures::search().all(&Masked::of(text), 0) {
                findings.add_match(pattern, text, found);
            }
            findings
                .allocators
                .remove("jemalloc")
                .and_then(|sighting| sighting.version)
        };
        let commit = "54eaed1d8b56b1aa528be3bdd1877e59c56fa90c";
        assert_eq!(
            version_of(format!("\05.3.0{}g{commit}\0", "-0-").as_bytes()),
            Some("5.3.0".to_owned())
        );
        assert_eq!(
            version_of(format!("5.3.0{}g{commit}", "-0-").as_bytes()),
            Some("5.3.0".to_owned())
        );
        assert_eq!(
            version_of(format!("0.6.0+5.3.0{}g{commit}", "-0-").as_bytes()),
            None
        );
        assert_eq!(version_of(format!("5.3.0{}gcc", "-0-").as_bytes()), None);
        assert_eq!(version_of(format!("{}g{commit}", "-0-").as_bytes()), None);
    }

    #[test]
    fn a_go_version_is_read_and_a_damaged_one_is_not() {
        let mut info = [
            vec![0xff],
            b" Go ".to_vec(),
            b"buildinf:".to_vec(),
            vec![8, 2],
        ]
        .concat();
        info.resize(32, 0);
        info.push(8);
        info.extend_from_slice(b"go1.22.3");
        assert_eq!(go_version(&info), Some("1.22.3".to_owned()));
        assert_eq!(go_version(&info[..36]), None);
        assert_eq!(go_version(&info[..15]), None);
    }
}
