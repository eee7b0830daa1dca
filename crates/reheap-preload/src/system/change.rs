//! Changes several files as one: all or none, even if the machine stops in the middle.
//!
//! 1. The journal says what each file was and shall be. From here on, a command that finds the journal can clean up.
//! 2. reheap puts the libraries in place and starts canaries with them. Nothing else loads them yet.
//! 3. reheap writes the new files under other names: a full disk shows here. The present files get second names for the
//!    way back. Files from before reheap get a third name, which they keep until they come back.
//! 4. reheap renames them: `/etc/ld.so.preload` now counts. The record of what is enabled is the last of them.
//! 5. Canaries test whether it has an effect.
//! 6. A list of what is left to delete replaces the journal. This is the moment when the change is done.
//! 7. reheap deletes that, then the journal.
//!
//! If something fails before the sixth step is done, reheap undoes the change. A later command that finds a journal of
//! these steps does the same. The way back is always safe, because reheap deletes the old libraries only after that.
//! From the sixth step on it goes forward. If that step itself fails half way, a crash could leave either journal. Then
//! reheap undoes and deletes nothing, and the next command does what the journal says.

use super::directory_times::DirectoryTimes;
use super::disk::{Contents, Disk, Stage, has_staged, kept};
use super::root::Root;
use super::{JOURNAL, LD_SO_PRELOAD, LIBRARIES, PROFILE_SCRIPT, RECORD, preload_files};
use anyhow::Context as _;
use reheap_command::ui::Failure;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What changes.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Change {
    /// The files, in the order in which they are renamed.
    pub(crate) files: Vec<FileChange>,
    /// Directories to delete on the way back, inner ones first, and files that were kept.
    pub(crate) delete_if_undone: Vec<String>,
    /// What to delete when the change is done.
    pub(crate) delete_if_done: Vec<String>,
}

/// One file of a change; `None` where there is none.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct FileChange {
    pub(crate) path: String,
    pub(crate) before: Option<Contents>,
    pub(crate) after: Option<Contents>,
    #[serde(default)]
    pub(crate) original: Original,
}

/// What becomes of the file that was there before reheap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Original {
    #[default]
    None,
    /// The old file stays next to the one that replaces it.
    Keep,
    /// The old file was kept, and comes back.
    Restore,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Journal {
    Changing(Change),
    Deleting(Vec<String>),
}

impl Journal {
    fn contents(&self) -> Contents {
        let text = serde_json::to_string_pretty(self).expect("strings and numbers are always JSON");
        Contents::new(format!("{text}\n").into_bytes(), 0o644)
    }

    fn read(root: &Root) -> anyhow::Result<Option<Self>> {
        match root.read(JOURNAL) {
            Ok(bytes) => {
                let journal = serde_json::from_slice(&bytes).map_err(|error| {
                    let text = format!("cannot read `{JOURNAL}`, the journal of the current change: {error}");
                    let hint =
                        "delete it, then run `reheap disable`, which removes everything of reheap that it finds";
                    Failure::failed(text).hint(hint)
                })?;
                check_named(JOURNAL, Self::names_another(&journal))?;
                Ok(Some(journal))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read `{JOURNAL}`")),
        }
    }

    /// The first path that no change of reheap's has.
    fn names_another(&self) -> Option<&str> {
        let (files, directories) = match self {
            Self::Changing(change) => (
                &change.files[..],
                [&change.delete_if_undone[..], &change.delete_if_done],
            ),
            Self::Deleting(directories) => (&[][..], [&directories[..], &[]]),
        };
        let mut files = files.iter().map(|file| file.path.as_str());
        let mut directories = directories.into_iter().flatten().map(String::as_str);
        let is_file = |path: &&str| [LD_SO_PRELOAD, PROFILE_SCRIPT, RECORD].contains(path);
        files.find(|path| !is_file(path)).or_else(|| {
            directories.find(|path| !is_of_a_choice(path) && !is_on_the_way(path) && !is_kept(path))
        })
    }
}

/// A directory with the libraries of one choice.
pub(crate) fn is_of_a_choice(directory: &str) -> bool {
    let name = directory
        .strip_prefix(LIBRARIES)
        .and_then(|rest| rest.strip_prefix('/'));
    name.is_some_and(|name| !matches!(name, "" | "." | "..") && !name.contains('/'))
}

/// A directory that may have had to be made for those.
pub(crate) fn is_on_the_way(directory: &str) -> bool {
    let mut way = Path::new(LIBRARIES).ancestors();
    directory != "/" && way.any(|path| path.as_os_str() == directory)
}

/// A file that was there before reheap.
fn is_kept(path: &str) -> bool {
    [LD_SO_PRELOAD, PROFILE_SCRIPT]
        .map(kept)
        .iter()
        .any(|kept| kept == path)
}

/// Refuses what names another path than reheap's own: in an image, somebody else may have written it.
///
/// # Errors
/// If there is one.
pub(crate) fn check_named(file: &str, another: Option<&str>) -> anyhow::Result<()> {
    let Some(path) = another else {
        return Ok(());
    };
    let text = format!("cannot use `{file}`: it names `{path}`, which reheap never changes");
    let hint = "find out who wrote it and delete it, then run `reheap disable`, which removes everything of reheap \
     that it finds";
    Err(Failure::failed(text).hint(hint).into())
}

/// Where a change that did not come to its end has left the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interrupted {
    /// The change will be undone.
    Before,
    /// The change counts, and something is left to delete.
    After,
}

/// What an interrupted earlier command left.
///
/// # Errors
/// If the journal cannot be read.
pub(crate) fn interrupted(root: &Root) -> anyhow::Result<Option<Interrupted>> {
    Ok(match Journal::read(root)? {
        Some(Journal::Changing(_)) => Some(Interrupted::Before),
        Some(Journal::Deleting(_)) => Some(Interrupted::After),
        None => [LD_SO_PRELOAD, PROFILE_SCRIPT, RECORD, JOURNAL]
            .iter()
            .any(|path| has_staged(root, path))
            .then_some(Interrupted::After),
    })
}

impl Change {
    /// Makes the change. `prepare` puts in place what it needs, `verify` looks whether it has an effect.
    ///
    /// # Errors
    /// The first thing that went wrong; then everything is as it was, unless the error says otherwise. When it is done,
    /// what could not be deleted is `Ok(Err(…))`: the next command tries again.
    pub fn make(
        &self,
        disk: &Disk,
        prepare: impl FnOnce() -> anyhow::Result<()>,
        verify: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<anyhow::Result<()>> {
        let times = DirectoryTimes::of(disk);
        let cleaned = self.make_in_order(disk, prepare, verify);
        let restored = times.restore(disk);
        // Of two errors, the first one matters.
        cleaned.map(|cleaned| cleaned.and(restored))
    }

    fn make_in_order(
        &self,
        disk: &Disk,
        prepare: impl FnOnce() -> anyhow::Result<()>,
        verify: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<anyhow::Result<()>> {
        let made = disk
            .write(JOURNAL, &Journal::Changing(self.clone()).contents())
            .and_then(|()| prepare())
            .and_then(|()| self.stage(disk))
            .and_then(|()| self.put_in_place(disk))
            .and_then(|()| verify());
        if let Err(error) = made {
            return Err(self.undone(disk, error));
        }
        match disk.put_in_place(JOURNAL, Stage::After) {
            Ok(()) => Ok(delete(disk, &self.delete_if_done)),
            // It was replaced, though it may not have come to the disk. If it has, going back would leave files that
            // name what the journal has deleted; if it has not, deleting would leave the journal nothing to go back to.
            Err(error) if matches!(Journal::read(disk.root), Ok(Some(Journal::Deleting(_)))) => {
                Ok(Err(error))
            }
            Err(error) => Err(self.undone(disk, error)),
        }
    }

    /// Undoes it because of an error, and gives that back.
    fn undone(&self, disk: &Disk, error: anyhow::Error) -> anyhow::Error {
        match self.undo(disk) {
            Ok(()) => error,
            Err(second) => error.context(format!(
                "reheap could not undo everything ({second:#}): run `reheap disable` to try again"
            )),
        }
    }

    fn stage(&self, disk: &Disk) -> anyhow::Result<()> {
        for file in &self.files {
            file.stage(disk)?;
        }
        let journal = Journal::Deleting(self.delete_if_done.clone());
        disk.stage(JOURNAL, Stage::After, &journal.contents())
    }

    fn put_in_place(&self, disk: &Disk) -> anyhow::Result<()> {
        self.files.iter().try_for_each(|file| match &file.after {
            Some(_) => disk.put_in_place(&file.path, Stage::After),
            None => disk.delete(&file.path),
        })
    }

    /// The way back, from wherever it stopped.
    fn undo(&self, disk: &Disk) -> anyhow::Result<()> {
        for file in self.files.iter().rev() {
            file.undo(disk)?;
        }
        delete_paths(disk, &self.delete_if_undone)?;
        delete_staged(disk)?;
        disk.delete(JOURNAL)
    }
}

impl FileChange {
    fn stage(&self, disk: &Disk) -> anyhow::Result<()> {
        if let Some(before) = &self.before
            && !disk.link_aside(&self.path, Stage::Before)?
        {
            disk.stage(&self.path, Stage::Before, before)?;
        }
        if self.original == Original::Keep {
            // Where it cannot be, the record has its contents.
            disk.link_aside(&self.path, Stage::Original)?;
        }
        let Some(after) = &self.after else {
            return Ok(());
        };
        if self.original == Original::Restore && disk.stage_original(&self.path)? {
            return Ok(());
        }
        disk.stage(&self.path, Stage::After, after)
    }

    fn undo(&self, disk: &Disk) -> anyhow::Result<()> {
        let present = disk.read(&self.path)?;
        let is = |contents: &Option<Contents>| {
            present.as_ref().map(Contents::bytes) == contents.as_ref().map(Contents::bytes)
        };
        if is(&self.before) {
            return Ok(());
        }
        if is(&self.after) {
            return match &self.before {
                None => disk.delete(&self.path),
                Some(_) if has_staged(disk.root, &self.path) => {
                    disk.put_in_place(&self.path, Stage::Before)
                }
                Some(before) => disk.write(&self.path, before),
            };
        }
        // Somebody has edited it since. reheap removes only its own part, and adds back what the earlier state had.
        let Some(present) = present else {
            return Ok(());
        };
        let rest = without_ours(&self.path, present.bytes());
        let earlier = self.before.as_ref().and_then(|before| {
            preload_files::names(before.bytes())
                .into_iter()
                .find(|name| preload_files::is_ours(name))
        });
        let bytes = match earlier.filter(|_| self.path == LD_SO_PRELOAD) {
            Some(library) => preload_files::with_library(&rest, &library),
            None => rest,
        };
        if bytes == present.bytes() {
            Ok(())
        } else {
            disk.write(&self.path, &present.with(bytes))
        }
    }
}

/// A file's bytes without reheap's part.
pub(crate) fn without_ours(path: &str, bytes: &[u8]) -> Vec<u8> {
    match path {
        LD_SO_PRELOAD => preload_files::without_library(bytes),
        PROFILE_SCRIPT => preload_files::without_script(bytes),
        _ => bytes.to_vec(),
    }
}

/// Cleans up after an interrupted command, and says how.
///
/// # Errors
/// If the journal cannot be read or a file not be written. What could not be deleted, which nothing uses, is
/// `Ok(Err(…))`: a command can go on, and what it makes counts it among what is to be deleted.
pub fn recover(disk: &Disk) -> anyhow::Result<anyhow::Result<Option<Interrupted>>> {
    let found = interrupted(disk.root)?;
    let deleted = match Journal::read(disk.root)? {
        Some(Journal::Changing(change)) => {
            change.undo(disk)?;
            Ok(())
        }
        // Whoever wrote it may not have seen it come to the disk; only then is there no way back.
        Some(Journal::Deleting(directories)) => disk
            .bring_to_disk(JOURNAL)
            .and_then(|()| delete(disk, &directories)),
        None => delete_staged(disk),
    };
    Ok(deleted.map(|()| found))
}

/// The last step.
fn delete(disk: &Disk, paths: &[String]) -> anyhow::Result<()> {
    delete_paths(disk, paths)?;
    delete_staged(disk)?;
    disk.delete(JOURNAL)
}

fn delete_paths(disk: &Disk, paths: &[String]) -> anyhow::Result<()> {
    paths.iter().try_for_each(|path| match path {
        file if is_kept(file) => disk.delete(file),
        directory if is_of_a_choice(directory) => disk.delete_tree(directory),
        directory => disk.delete_if_empty(directory),
    })
}

fn delete_staged(disk: &Disk) -> anyhow::Result<()> {
    [LD_SO_PRELOAD, PROFILE_SCRIPT, RECORD, JOURNAL]
        .into_iter()
        .try_for_each(|path| disk.delete_staged(path))
}
