//! The check at the end of a build: an allocator is claimed only after it was seen.

use crate::setup::Choice;
use crate::ui::Failure;
use anyhow::Context as _;
use object::{Object as _, ObjectSymbol as _};
use reheap_elf::family;
use reheap_elf::marker::{self, FoundMarker};
use std::fmt;
use std::fs;
use std::path::Path;

/// What was seen in an executable.
#[derive(Debug)]
pub(crate) struct Proof {
    position_independent: bool,
    size_bytes: u64,
    marker: Option<FoundMarker>,
    is_stock: bool,
}

/// Reads the executable back; fails where it is not static or not linked with what was chosen.
pub(crate) fn of_executable(path: &Path, choice: &Choice) -> anyhow::Result<Proof> {
    let shown = path.display();
    let bytes = fs::read(path).with_context(|| format!("cannot read `{shown}`"))?;
    let file = object::File::parse(&*bytes).with_context(|| format!("cannot read `{shown}`"))?;
    if file.section_by_name(".interp").is_some() {
        let text = format!(
            "`{shown}` is a dynamic executable, so it takes its malloc from the system's libc"
        );
        return Err(Failure::failed(text)
            .hint("remove `-C target-feature=-crt-static` from the Rust flags")
            .into());
    }
    let marker =
        marker::read(&bytes).with_context(|| format!("cannot read the marker of `{shown}`"))?;
    let stock_symbol = file
        .symbols()
        .filter(|symbol| symbol.is_definition())
        .find_map(|symbol| {
            symbol
                .name()
                .ok()
                .filter(|name| family::STOCK.contains(name))
        });
    match (&marker, choice.is_stock()) {
        (None, true) => {}
        // A program that never allocates has no allocator in it, and so no marker.
        (None, false) if stock_symbol.is_none() => {}
        (Some(found), false)
            if found.marker.allocator == choice.allocator.name
                && found.marker.tuning == choice.tuning.as_given() => {}
        (found, _) => {
            let name = choice.allocator.name;
            let seen = found.as_ref().map_or("no marker", |f| &f.marker.allocator);
            let text = format!("`{shown}` was not linked with {name}: it has {seen}");
            let hint = "a linker set in RUSTFLAGS (-C linker=…) takes the place of reheap's: set it as target.<triple>.linker";
            return Err(Failure::failed(text).hint(hint).into());
        }
    }
    if let (Some(_), Some(symbol)) = (&marker, stock_symbol) {
        let text = format!("`{shown}` holds a part of musl's own allocator: `{symbol}`");
        return Err(Failure::failed(text).into());
    }
    Ok(Proof {
        position_independent: matches!(file.kind(), object::ObjectKind::Dynamic),
        size_bytes: bytes.len() as u64,
        marker,
        is_stock: choice.is_stock(),
    })
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.position_independent {
            "static-pie"
        } else {
            "static"
        };
        write!(f, "{kind}, {:.1} MB, ", self.size_bytes as f64 / 1e6)?;
        let Some(FoundMarker { marker, replaced }) = &self.marker else {
            return f.write_str(if self.is_stock {
                "musl's own allocator"
            } else {
                "no allocator, as it never allocates"
            });
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
