//! The programs that are built statically, and how their test suites are run.

/// A program on trial.
pub(super) struct StaticRow {
    /// Its name: that of the package, or of the Debian source package.
    pub(super) name: &'static str,
    /// What building it needs of Debian.
    pub(super) packages: &'static [&'static str],
    pub(super) source: Source,
}

/// Where the sources come from, and what is done with them.
pub(super) enum Source {
    /// A package of the Rust registry in this version; `cargo test` gets these flags.
    Crate {
        version: &'static str,
        flags: &'static [&'static str],
    },
    /// A Debian source package in the release's version. The script `lab/trials/static-<name>.sh` builds and tests
    /// it, and says `PASS: test` or `FAIL: test` as automake does; these executables are what it tests.
    Debian {
        executables: &'static [&'static str],
    },
}

impl StaticRow {
    pub(super) fn language(&self) -> &'static str {
        match self.source {
            Source::Crate { .. } => "Rust",
            Source::Debian { .. } => "C",
        }
    }
}

const fn rust(
    name: &'static str,
    version: &'static str,
    flags: &'static [&'static str],
) -> StaticRow {
    StaticRow {
        name,
        packages: &["musl-tools"],
        source: Source::Crate { version, flags },
    }
}

const fn c(name: &'static str, executables: &'static [&'static str]) -> StaticRow {
    StaticRow {
        name,
        packages: &["musl-tools", "make", "dpkg-dev"],
        source: Source::Debian { executables },
    }
}

#[rustfmt::skip] // a table
pub(super) const ROWS: &[StaticRow] = &[
    rust("hexyl", "0.17.0", &[]),
    rust("just", "1.59.0", &[]),
    rust("rayon", "1.12.0", &[]),
    rust("crossbeam-channel", "0.5.17", &[]),
    rust("indexmap", "2.14.2", &[]),
    c("zlib", &["example", "minigzip"]),
    c("bzip2", &["bzip2"]),
    c("xz-utils", &["src/xz/xz", "tests/test_check", "tests/test_lzip_decoder"]),
    c("gzip", &["gzip"]),
    c("pcre2", &["pcre2test", "pcre2grep", "pcre2_jit_test"]),
    c("mawk", &["mawk"]),
];
