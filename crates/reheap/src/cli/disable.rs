//! `reheap disable`: restores the files of a system as they were before `reheap enable`.

use super::enable::{lock, mend, warn, writable_root};
use anyhow::Context as _;
use reheap_command::ui;
use reheap_preload::system::PROFILE_SCRIPT;
use reheap_preload::system::disk::Disk;
use reheap_preload::system::state::{self, Drift, Record};
use std::path::PathBuf;
use std::process::ExitCode;

pub(crate) const EXAMPLES: &str = "\
Files that were there before come back, with their times and attributes. If somebody has edited
one since, reheap removes only its own part.

Examples:
  sudo reheap disable
  reheap disable --root ./image";

#[derive(Debug, clap::Args)]
pub(crate) struct DisableArguments {
    /// The root directory of another system
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
}

/// Undoes what `enable` did.
pub(crate) fn run(arguments: &DisableArguments) -> anyhow::Result<ExitCode> {
    let root = writable_root(arguments.root.as_deref(), "disable")?;
    let _lock = lock(&root)?;
    let disk = Disk::new(&root);
    mend(&disk)?;
    let record = Record::read(&root)?;
    let Some(change) = state::to_disable(&disk, record.as_ref())? else {
        ui::note("nothing is enabled");
        return Ok(ExitCode::SUCCESS);
    };
    let mut notes = Vec::new();
    for file in record.iter().flat_map(|record| &record.files) {
        let path = &file.path;
        match file.drift(disk.read(path)?.as_ref()) {
            Drift::None => {}
            Drift::Edited => notes.push(format!(
                "somebody edited `{path}`: removed reheap's part and kept the rest"
            )),
            Drift::TakenOut => notes.push(format!(
                "`{path}` no longer has reheap's part: left it unchanged"
            )),
        }
    }
    let sets_variable =
        |record: &Record| record.files.iter().any(|file| file.path == PROFILE_SCRIPT);
    let is_in_shells = root.is_this_system() && record.as_ref().is_none_or(sets_variable);
    let name = record.map_or_else(
        || "what an earlier command left behind".to_owned(),
        |record| format!("{} {}", record.allocator, record.version),
    );
    let cleaned = change
        .make(&disk, || Ok(()), || Ok(()))
        .with_context(|| format!("cannot disable {name}"))?;
    warn(cleaned);
    notes.iter().for_each(|note| ui::note(note));
    let of_shells = if is_in_shells {
        "; shells of users who are logged in may still pass on LD_PRELOAD"
    } else {
        ""
    };
    ui::note(&format!(
        "disabled {name}; running programs keep it until they end{of_shells}"
    ));
    Ok(ExitCode::SUCCESS)
}
