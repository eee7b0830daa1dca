//! Reads what is enabled, from the record and from the files, and plans the changes to another state.

use super::change::{Change, FileChange, Original, check_named, is_on_the_way, without_ours};
use super::disk::{Contents, Disk, kept};
use super::libraries::Libraries;
use super::root::Root;
use super::{LD_SO_PRELOAD, LIBRARIES, PROFILE_DIRECTORY, PROFILE_SCRIPT, RECORD, preload_files};
use reheap_allocators::catalogue;
use reheap_allocators::target::Libc;
use reheap_command::ui::Failure;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;

/// The version of this reheap.
const REHEAP: &str = env!("CARGO_PKG_VERSION");

/// What is enabled.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// The version of reheap that wrote it.
    pub reheap: String,
    /// The allocator's name in the catalogue.
    pub allocator: String,
    /// The version of the allocator's sources.
    pub version: String,
    /// The allocator's options.
    pub tuning: BTreeMap<String, String>,
    /// Where the libraries are.
    pub(crate) directory: String,
    /// The library for each libc.
    pub libraries: BTreeMap<String, String>,
    /// The SHA-256 of each; missing in what reheap wrote before it looked at them.
    #[serde(default)]
    pub sha256: BTreeMap<String, String>,
    /// Directories that were not there before, the outermost first.
    pub(crate) directories_made: Vec<String>,
    /// The files that name it.
    pub files: Vec<Managed>,
}

/// A file that was changed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Managed {
    /// The path, from the root.
    pub path: String,
    pub(crate) original: Option<Contents>,
    pub(crate) written: Contents,
}

/// What has become of a file that was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Drift {
    /// The file is as it was written.
    None,
    /// Somebody edited it; our part is in it.
    Edited,
    /// Our part is not in it any more.
    TakenOut,
}

/// The allocator to enable.
#[derive(Debug)]
pub struct Wanted<'a> {
    /// The allocator's name in the catalogue.
    pub allocator: &'a str,
    /// The version of the allocator's sources.
    pub version: &'a str,
    /// The allocator's options.
    pub tuning: BTreeMap<String, String>,
    /// What is put there.
    pub libraries: &'a Libraries,
}

impl Record {
    /// # Errors
    /// If it cannot be read.
    pub fn read(root: &Root) -> anyhow::Result<Option<Self>> {
        let text = |error: &dyn std::error::Error| {
            format!("cannot read `{RECORD}`, the record of what is enabled: {error}")
        };
        match root.read(RECORD) {
            Ok(bytes) => {
                let record: Self = serde_json::from_slice(&bytes).map_err(|error| {
                    let hint =
                        "delete it, then run `reheap disable`, which removes everything of reheap that it finds";
                    Failure::failed(text(&error)).hint(hint)
                })?;
                check_named(RECORD, record.names_another())?;
                Ok(Some(record))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Failure::failed(text(&error)).into()),
        }
    }

    /// What there is to know if another version of reheap made the libraries: an upgrade of reheap leaves them as they are.
    pub fn of_another_reheap(&self) -> Option<String> {
        if self.reheap == REHEAP {
            return None;
        }
        let now = catalogue::find(&self.allocator).map_or("none", |row| row.version);
        let Self {
            reheap,
            allocator,
            version,
            tuning,
            ..
        } = self;
        let options = tuning
            .iter()
            .map(|(key, value)| format!(" -t {key}={value}"));
        let options: String = options.collect();
        Some(format!(
            "{allocator} {version} was enabled by reheap {reheap}, and this is reheap {REHEAP} with {allocator} {now}: \
             to replace the library, run `reheap enable {allocator}{options}`"
        ))
    }

    /// The first path that is none of reheap's.
    fn names_another(&self) -> Option<&str> {
        let mut files = self.files.iter().map(|file| file.path.as_str());
        let mut directories = self.directories_made.iter().map(String::as_str);
        files
            .find(|path| ![LD_SO_PRELOAD, PROFILE_SCRIPT].contains(path))
            .or_else(|| directories.find(|path| !is_on_the_way(path)))
    }

    pub(crate) fn libraries_and_hashes(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        let libraries = self.libraries.iter();
        libraries.map(|(libc, path)| (&**path, self.sha256.get(libc).map(String::as_str)))
    }

    fn managed(&self, path: &str) -> Option<&Managed> {
        self.files.iter().find(|file| file.path == path)
    }

    fn contents(&self) -> Contents {
        let text = serde_json::to_string_pretty(self).expect("strings and numbers are always JSON");
        Contents::new(format!("{text}\n").into_bytes(), 0o644)
    }
}

impl Managed {
    /// How the file that is there now differs from what was written.
    pub fn drift(&self, present: Option<&Contents>) -> Drift {
        match present.map(Contents::bytes) {
            Some(bytes) if bytes == self.written.bytes() => Drift::None,
            Some(bytes) if without_ours(&self.path, bytes) != bytes => Drift::Edited,
            _ => Drift::TakenOut,
        }
    }
}

/// A file that may be changed, as it is.
struct Present {
    path: &'static str,
    contents: Option<Contents>,
    /// What was there before reheap, under the name that it was kept by.
    kept: Option<Contents>,
}

impl Present {
    fn read(disk: &Disk, path: &'static str) -> anyhow::Result<Self> {
        Ok(Self {
            path,
            contents: disk.read(path)?,
            kept: disk.kept(path)?,
        })
    }

    /// The file without reheap: what it was, or, where somebody has edited it since, what is left without our part.
    fn original(&self, record: Option<&Record>) -> Option<Contents> {
        let managed = record.and_then(|record| record.managed(self.path));
        let present = self.contents.as_ref()?;
        if let Some(managed) = managed.filter(|file| file.drift(Some(present)) == Drift::None) {
            return managed.original.clone();
        }
        let rest = without_ours(self.path, present.bytes());
        let was_there = self.kept.is_some() || managed.is_some_and(|file| file.original.is_some());
        let is_only_ours = rest.trim_ascii().is_empty() && rest.len() < present.bytes().len();
        if is_only_ours && !was_there {
            None
        } else {
            Some(present.with(rest))
        }
    }

    /// The change to a text with our part in it, or to what was there before reheap.
    fn change_to(self, after: Option<Contents>, is_ours: OurPart, change: &mut Change) {
        let bytes =
            |contents: &Option<Contents>| contents.as_ref().map(|file| file.bytes().to_vec());
        let is_untouched = || {
            let present = bytes(&self.contents);
            present.is_some_and(|bytes| without_ours(self.path, &bytes) == bytes)
        };
        let has_kept = self.kept.is_some();
        let (original, after) = match is_ours {
            OurPart::In if is_untouched() => (Original::Keep, after),
            // One with other contents was edited by another of its names, or is older than what was edited here.
            OurPart::Out if has_kept && bytes(&self.kept) == bytes(&after) => {
                (Original::Restore, self.kept)
            }
            _ => (Original::None, after),
        };
        if original == Original::Keep {
            change.delete_if_undone.push(kept(self.path));
        }
        if is_ours == OurPart::Out && has_kept {
            change.delete_if_done.push(kept(self.path));
        }
        change.add(self.path, self.contents, after, original);
    }
}

/// Whether our part shall be in a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OurPart {
    In,
    Out,
}

/// The change to another allocator; `None` if everything is that way already.
///
/// # Errors
/// If a file cannot be read or is none.
pub fn to_enable(
    disk: &Disk,
    record: Option<&Record>,
    wanted: &Wanted,
) -> anyhow::Result<Option<Change>> {
    let libraries = wanted.libraries;
    let mut change = Change::default();
    let mut managed = Vec::new();
    for path in [LD_SO_PRELOAD, PROFILE_SCRIPT] {
        let present = Present::read(disk, path)?;
        let original = present.original(record);
        let (after, is_ours) = match text(disk.root, path, original.as_ref(), libraries) {
            Some(text) => {
                let written = match &original {
                    Some(original) => original.with(text),
                    None => Contents::new(text, 0o644),
                };
                managed.push(Managed {
                    path: path.to_owned(),
                    original,
                    written: written.clone(),
                });
                (Some(written), OurPart::In)
            }
            None => (original, OurPart::Out),
        };
        present.change_to(after, is_ours, &mut change);
    }
    let missing = disk.missing_directories(LIBRARIES);
    let made_before = record.map_or(&[][..], |record| &record.directories_made);
    let next = Record {
        reheap: REHEAP.to_owned(),
        allocator: wanted.allocator.to_owned(),
        version: wanted.version.to_owned(),
        tuning: wanted.tuning.clone(),
        directory: libraries.directory.clone(),
        libraries: libraries.files(),
        sha256: libraries.hashes(),
        directories_made: [made_before, &missing].concat(),
        files: managed,
    };
    change.add(
        RECORD,
        disk.read(RECORD)?,
        Some(next.contents()),
        Original::None,
    );
    if change.files.is_empty() && libraries.are_whole(disk.root) {
        return Ok(None);
    }
    // One that is there already may be named by a file, also where there is no record of it.
    let is_new = !disk.root.is_directory(&libraries.directory);
    change
        .delete_if_undone
        .extend(is_new.then(|| libraries.directory.clone()));
    change.delete_if_undone.extend(missing.into_iter().rev());
    let others = directories(disk.root)
        .into_iter()
        .filter(|directory| *directory != libraries.directory);
    change.delete_if_done.extend(others);
    Ok(Some(change))
}

/// What a file shall say; `None` if it shall say nothing of us.
fn text(
    root: &Root,
    path: &str,
    original: Option<&Contents>,
    libraries: &Libraries,
) -> Option<Vec<u8>> {
    let others = original.map_or(&[][..], Contents::bytes);
    let has = |libc| libraries.libcs().any(|of| of == libc);
    if path == LD_SO_PRELOAD && has(Libc::Glibc) {
        return Some(preload_files::with_library(
            others,
            &libraries.file(Libc::Glibc),
        ));
    }
    if path == PROFILE_SCRIPT && has(Libc::Musl) && root.is_directory(PROFILE_DIRECTORY) {
        let script = preload_files::profile_script(&libraries.for_variable(Libc::Musl));
        return Some([others, script.as_bytes()].concat());
    }
    None
}

/// The change back to what was before reheap; `None` if nothing of it is there.
///
/// # Errors
/// If a file cannot be read or is none.
pub fn to_disable(disk: &Disk, record: Option<&Record>) -> anyhow::Result<Option<Change>> {
    let mut change = Change::default();
    for path in [LD_SO_PRELOAD, PROFILE_SCRIPT] {
        let present = Present::read(disk, path)?;
        let after = present.original(record);
        present.change_to(after, OurPart::Out, &mut change);
    }
    change.add(RECORD, disk.read(RECORD)?, None, Original::None);
    change.delete_if_done.extend(directories(disk.root));
    if let Some(record) = record {
        change
            .delete_if_done
            .extend(record.directories_made.iter().rev().cloned());
    }
    let is_empty = change.files.is_empty() && change.delete_if_done.is_empty();
    Ok((!is_empty).then_some(change))
}

impl Change {
    fn add(
        &mut self,
        path: &str,
        before: Option<Contents>,
        after: Option<Contents>,
        original: Original,
    ) {
        if before != after {
            self.files.push(FileChange {
                path: path.to_owned(),
                before,
                after,
                original,
            });
        }
    }
}

/// All directories with libraries.
pub(crate) fn directories(root: &Root) -> Vec<String> {
    let names = root.list(LIBRARIES).into_iter();
    names.map(|name| format!("{LIBRARIES}/{name}")).collect()
}

/// Whether everybody may read a file.
pub fn is_for_all(root: &Root, path: &str) -> bool {
    let metadata = root.open_file(path).and_then(|file| file.metadata());
    metadata.is_ok_and(|metadata| metadata.mode() & 0o004 != 0)
}
