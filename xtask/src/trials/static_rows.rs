//! The programs that are built statically.

pub(super) struct StaticRow {
    pub(super) name: &'static str,
    pub(super) packages: &'static [&'static str],
}

impl StaticRow {
    pub(super) fn language(&self) -> &'static str {
        "Rust"
    }
}

pub(super) const ROWS: &[StaticRow] = &[];
