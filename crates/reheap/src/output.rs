//! Where reports go, and how they look there.

use crate::env_vars;
use anyhow::Context as _;
use reheap_allocators::cache::write_by_rename;
use reheap_report::{Colour, Style};
use std::fs;
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::path::Path;
use terminal_size::{Width, terminal_size_of};

/// Writes a file that the user named, whole or not at all.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn write(path: &Path, contents: impl AsRef<[u8]>) -> anyhow::Result<()> {
    if path.exists() && !path.is_file() {
        // Renaming a file into place would replace `/dev/null`.
        let cannot = || format!("cannot write `{}`", path.display());
        return fs::write(path, contents).with_context(cannot);
    }
    Ok(write_by_rename(path, contents.as_ref(), 0o644)?)
}

/// How text looks there: coloured and as wide as the terminal, or neither.
pub(crate) fn style(stream: impl IsTerminal + AsFd, verbose: bool) -> Style {
    let is_colourful = stream.is_terminal() && env_vars::variable(env_vars::NO_COLOR).is_none();
    Style {
        colour: match is_colourful {
            true => Colour::Always,
            false => Colour::Never,
        },
        width: match terminal_size_of(stream) {
            Some((Width(columns), _)) => usize::from(columns),
            None => usize::MAX, // a file or a pipe has no width
        },
        verbose,
    }
}
