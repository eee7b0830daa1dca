//! Finds the prebuilt files: those that the environment names, or those that were installed with this program.

use reheap_allocators::prebuilt::{MANIFEST, Prebuilt, PrebuiltError};
use reheap_allocators::trust::{Distrusted, Trust};
use reheap_command::env_vars;
use reheap_command::ui::Failure;
use std::io::ErrorKind::{NotADirectory, NotFound};
use std::path::{Path, PathBuf};

/// The way from the directory with the program to the files of its package.
const BESIDE_PROGRAM: &str = "../share/reheap";

/// Opens the prebuilt files. Without any, reheap builds what it needs.
pub(crate) fn open() -> anyhow::Result<Option<Prebuilt>> {
    if let Some(directory) = env_vars::variable(env_vars::PREBUILT) {
        let directory = std::path::absolute(directory)?;
        return Ok(Some(open_named(&directory)?));
    }
    match of_package() {
        Some(directory) => Ok(Some(Prebuilt::open_installed(&directory).map_err(failure)?)),
        None => Ok(None),
    }
}

/// Whoever can write on the way to the package's files can replace this program too. That says nothing about others.
fn open_named(directory: &Path) -> Result<Prebuilt, Failure> {
    if let Err(distrusted) = Trust::of_this_process().check(directory) {
        let shown = directory.display();
        let text = format!("cannot use the prebuilt files of `{shown}`: {distrusted}");
        return Err(Failure::failed(text).hint(hint_about(&distrusted)));
    }
    Prebuilt::open(directory).map_err(|error| {
        let name = env_vars::PREBUILT;
        let hint = match error.distrust() {
            Some(distrusted) => hint_about(distrusted),
            None => format!(
                "{name} names that directory: set it to one with a `{MANIFEST}`, or unset it"
            ),
        };
        Failure::failed(error.to_string()).hint(hint)
    })
}

/// The directory of the package that this program came in. The program may be started through a link.
fn of_package() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let program = program.canonicalize().ok()?;
    let directory = program.parent()?.join(BESIDE_PROGRAM);
    // A directory without a manifest is somebody else's. If nobody may look, opening it says so.
    let is_absent = directory
        .join(MANIFEST)
        .symlink_metadata()
        .is_err_and(|error| matches!(error.kind(), NotFound | NotADirectory));
    (!is_absent).then(|| directory.canonicalize().unwrap_or(directory))
}

fn hint_about(distrusted: &Distrusted) -> String {
    (distrusted.command()).unwrap_or_else(|| "use a copy that belongs to you".to_owned())
}

/// An error about a file, with the way out.
pub(crate) fn failure(error: PrebuiltError) -> Failure {
    if let Some(distrusted) = error.distrust() {
        return Failure::failed(error.to_string()).hint(hint_about(distrusted));
    }
    let hint = match env_vars::variable(env_vars::PREBUILT) {
        Some(_) => format!(
            "{} names where it is: set it to whole files, or unset it",
            env_vars::PREBUILT
        ),
        None => "install reheap again: its package has the right files".to_owned(),
    };
    Failure::failed(error.to_string()).hint(hint)
}
