//! The packages of the Rust registry that bring an allocator for `#[global_allocator]`.
//!
//! To add one, add a row. What is said of features is from the manifests of the versions that were current in November
//! 2026.

/// A package with an allocator.
#[derive(Debug, PartialEq, Eq)]
pub struct AllocatorCrate {
    /// Its name in the registry.
    pub package: &'static str,
    /// The allocator, by its name in the catalogue if it is there.
    pub allocator: &'static str,
    /// The type that a static has; none if the package sets the global allocator by itself.
    pub type_name: Option<&'static str>,
    /// The features with which it takes over C's malloc, too.
    pub overrides: &'static [&'static str],
    /// The feature that makes it hardened, and the name of the allocator with it.
    pub hardened: Option<(&'static str, &'static str)>,
    /// The feature with which a library that is loaded later has room for its thread-local storage.
    pub late_tls: Option<&'static str>,
    /// The prefix of the variables and symbols with which it reads its configuration, where it has one.
    pub prefix: Option<&'static str>,
}

const fn row(
    package: &'static str,
    allocator: &'static str,
    type_name: Option<&'static str>,
) -> AllocatorCrate {
    AllocatorCrate {
        package,
        allocator,
        type_name,
        overrides: &[],
        hardened: None,
        late_tls: None,
        prefix: None,
    }
}

const JEMALLOC_OVERRIDES: &[&str] = &[
    "unprefixed_malloc_on_supported_platforms",
    "override_allocator_on_supported_platforms",
];

/// All of them; those that `reheap adopt` sets up come first.
pub const CRATES: [AllocatorCrate; 16] = [
    AllocatorCrate {
        overrides: &["override"],
        hardened: Some(("secure", "mimalloc-secure")),
        late_tls: Some("local_dynamic_tls"),
        ..row("mimalloc", "mimalloc", Some("MiMalloc"))
    },
    AllocatorCrate {
        overrides: JEMALLOC_OVERRIDES,
        late_tls: Some("disable_initial_exec_tls"),
        prefix: Some("_rjem_"),
        ..row("tikv-jemallocator", "jemalloc", Some("Jemalloc"))
    },
    AllocatorCrate {
        late_tls: Some("local_dynamic_tls"),
        ..row("snmalloc-rs", "snmalloc", Some("SnMalloc"))
    },
    row("rpmalloc", "rpmalloc", Some("RpMalloc")),
    AllocatorCrate {
        overrides: JEMALLOC_OVERRIDES,
        late_tls: Some("disable_initial_exec_tls"),
        prefix: Some("_rjem_"),
        ..row("jemallocator", "jemalloc", Some("Jemalloc"))
    },
    row("jemallocator-global", "jemalloc", None),
    AllocatorCrate {
        hardened: Some(("secure", "mimalloc-secure")),
        late_tls: Some("local_dynamic_tls"),
        ..row("mimalloc-safe", "mimalloc", Some("MiMalloc"))
    },
    AllocatorCrate {
        hardened: Some(("secure", "mimalloc-secure")),
        ..row("mimalloc-rust", "mimalloc", Some("GlobalMiMalloc"))
    },
    row("mimallocator", "mimalloc", Some("Mimalloc")),
    row("tcmalloc", "tcmalloc", Some("TCMalloc")),
    row("tcmalloc-better", "tcmalloc", Some("TCMalloc")),
    row("scudo", "scudo", Some("GlobalScudoAllocator")),
    row(
        "hardened_malloc-rs",
        "hardened_malloc",
        Some("HardenedMalloc"),
    ),
    row("dlmalloc", "dlmalloc", Some("GlobalDlmalloc")),
    row("wee_alloc", "wee_alloc", Some("WeeAlloc")),
    row("auto-allocator", "mimalloc", None),
];

/// Versions of a package that are known to crash.
#[derive(Debug)]
pub struct Crash {
    /// The package that projects name.
    pub package: &'static str,
    /// The package that has the code, as in `Cargo.lock`.
    pub source: &'static str,
    /// Its versions.
    pub versions: &'static [&'static str],
    /// Where it matters.
    pub when: When,
    /// After "is known to crash".
    pub what: &'static str,
    /// What to do.
    pub fix: &'static str,
    /// Who says so.
    pub report: &'static str,
}

/// Where a crash matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// With one of these features.
    With(&'static [&'static str]),
    /// In a library that a running program loads, without this feature.
    LoadedWithout(&'static str),
}

/// All that has a report with a cause.
///
/// The versions of mimalloc are from `mimalloc.h` in the packages: libmimalloc-sys 0.1.46 to 0.1.49 have 3.3.0 to 3.3.2,
/// and 2.3 with the feature `v2`. In a program the thread that comes first is the main one, which does not end early.
/// jemalloc 5.3.1 crashes when the C library frees memory of a thread that has ended, which reaches jemalloc only if it
/// is malloc for C, too; 5.4.0 has the repair.
pub const CRASHES: [Crash; 2] = [
    Crash {
        package: "mimalloc",
        source: "libmimalloc-sys",
        versions: &["0.1.46", "0.1.47", "0.1.48", "0.1.49"],
        when: When::LoadedWithout("v2"),
        what: "in a library when the thread that loaded it has ended",
        fix: "add `\"v2\"` to the features of `mimalloc`",
        report: "https://github.com/microsoft/mimalloc/issues/1287",
    },
    Crash {
        package: "tikv-jemallocator",
        source: "tikv-jemalloc-sys",
        versions: &["0.7.0", "0.7.1"],
        when: When::With(JEMALLOC_OVERRIDES),
        what: "when a thread ends while jemalloc serves C code",
        fix: "take the features that replace malloc from `tikv-jemallocator`",
        report: "https://github.com/jemalloc/jemalloc/issues/2981",
    },
];

/// The package of that name, if it brings an allocator.
pub fn find(package: &str) -> Option<&'static AllocatorCrate> {
    CRATES.iter().find(|row| row.package == package)
}

/// The name by which code calls a package.
pub fn identifier(package: &str) -> String {
    package.replace('-', "_")
}
