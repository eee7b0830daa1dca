//! Contents of a section by its name, for what other tools leave in programs.

use crate::error::ElfError;
use crate::source::{Source, View};
use crate::tables::Tables;

/// Longer than the names that anybody looks for.
const NAME_BYTES_MAX: usize = 64;

/// The contents of the first section of that name, if there is one and it is not longer than that.
///
/// # Errors
/// When the bytes are not ELF, are damaged, or cannot be read.
pub fn contents<S: Source + ?Sized>(
    source: &S,
    name: &str,
    bytes_max: u64,
) -> Result<Option<Vec<u8>>, ElfError> {
    let view = View::of(&source);
    let tables = Tables::of(view)?;
    let Some(mut names) = tables.section_names()? else {
        return Ok(None);
    };
    let mut sections = tables.sections();
    while let Some(section) = sections.next()? {
        if names.text(u64::from(section.name), NAME_BYTES_MAX)? == Some(name.as_bytes()) {
            let range = section.range(view);
            let range = range.filter(|range| range.end - range.start <= bytes_max);
            return Ok(range.map(|range| view.bytes(range)).transpose()?);
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_found_by_its_name() {
        let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let found = |name, max| contents(program.as_slice(), name, max).unwrap();
        let linker = found(".interp", 100).unwrap();
        assert!(linker.starts_with(b"/lib") && linker.ends_with(b"\0"));
        assert_eq!(found(".interp", 3), None);
        assert_eq!(found(".inter", 100), None);
    }
}
