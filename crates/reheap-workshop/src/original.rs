//! The libc.a that a derived one is made from, and where `reheap libc --in-place` keeps it.

use reheap_allocators::compiler::Search;
use reheap_allocators::libc::{LibcError, Original};
use reheap_command::output::behind_links;
use reheap_command::ui::Failure;
use reheap_elf::derive::DeriveError;
use std::path::{Path, PathBuf};

/// Finds out what the libc.a to derive from is. If it was replaced in place, the hint says how to get the original back.
pub fn find(file: &Path, search: &Search) -> anyhow::Result<Original> {
    let error = match Original::find(file, search) {
        Ok(original) => return Ok(original),
        Err(error) => error,
    };
    let is_derived = matches!(
        &error,
        LibcError::Derive {
            source: DeriveError::AlreadyDerived(_),
            ..
        }
    );
    let kept = behind_links(file).map(|file| kept_beside(&file));
    if !is_derived || !kept.is_ok_and(|kept| kept.is_file()) {
        return Err(error.into());
    }
    let failure = Failure::failed(format!("{:#}", anyhow::Error::new(error)));
    let command = format!("reheap libc --libc {} --restore", file.display());
    Err(failure
        .hint(format!("bring the original back first: {command}"))
        .into())
}

/// The path that keeps the original of a file.
pub fn kept_beside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".reheap-original");
    name.into()
}
