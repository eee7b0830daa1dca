//! Finds what is wrong with an enabled allocator.
//!
//! A problem keeps programs from having the allocator, makes them print an error, or waits for a command to finish it.
//! Everything else that a reader should know is a note. If somebody added a line of their own to a file, that does no
//! harm, and `reheap status` in a monitoring job must not fail.

use super::change::{self, Interrupted};
use super::disk::Disk;
use super::libraries;
use super::root::Root;
use super::state::{self, Drift, Record};
use super::{LD_SO_PRELOAD, PROFILE_SCRIPT, preload_files};
use reheap_allocators::cache;
use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt as _;

/// The findings, each with what to do.
#[derive(Debug, Default)]
pub struct Findings {
    /// Problems that need a fix.
    pub problems: Vec<String>,
    /// What is worth knowing.
    pub notes: Vec<String>,
    /// What has become of each file that was changed.
    pub files: Vec<(String, Drift)>,
}

/// Looks at everything that the record names, and for what it does not name. `ours` is what `/etc/ld.so.preload` names
/// of reheap's.
///
/// # Errors
/// If a file cannot be read or is none.
pub fn check(root: &Root, record: Option<&Record>, ours: &[String]) -> anyhow::Result<Findings> {
    let mut findings = Findings::default();
    findings.check_journal(root)?;
    let disk = Disk::new(root);
    for managed in record.iter().flat_map(|record| &record.files) {
        let drift = managed.drift(disk.read(&managed.path)?.as_ref());
        findings.enter_drift(&managed.path, drift);
        findings.files.push((managed.path.clone(), drift));
    }
    let mut libraries: BTreeMap<&str, Option<&str>> =
        ours.iter().map(|library| (&**library, None)).collect();
    if let Some(record) = record {
        findings.notes.extend(record.of_another_reheap());
        libraries.extend(record.libraries_and_hashes());
        findings.check_links(root, record);
        findings.check_readers(root, record);
    }
    for (library, hash) in libraries {
        let known = record.filter(|record| {
            record
                .libraries
                .values()
                .any(|recorded| recorded == library)
        });
        findings.check_library(root, library, known.map(|record| (record, hash)));
    }
    if record.is_none() && findings.problems.is_empty() && is_left_over(&disk, ours)? {
        let problem = "found reheap files that no `enable` recorded: `reheap disable` removes them";
        findings.problems.push(problem.to_owned());
    }
    Ok(findings)
}

impl Findings {
    fn check_journal(&mut self, root: &Root) -> anyhow::Result<()> {
        if is_being_changed(root) {
            let note = "another reheap command is changing the system now: this report may soon be out of date";
            self.notes.push(note.to_owned());
            return Ok(());
        }
        let problem = match change::interrupted(root)? {
            None => return Ok(()),
            Some(Interrupted::Before) => {
                "a change was interrupted: the next `reheap enable` or `disable` undoes it first"
            }
            Some(Interrupted::After) => {
                "an interrupted command left files: the next `reheap enable` or `disable` deletes them"
            }
        };
        self.problems.push(problem.to_owned());
        Ok(())
    }

    fn enter_drift(&mut self, path: &str, drift: Drift) {
        match drift {
            Drift::None => {}
            Drift::Edited => self.notes.push(format!(
                "somebody edited `{path}`: `reheap disable` will remove only its own part"
            )),
            Drift::TakenOut => self.problems.push(format!(
                "`{path}` no longer has reheap's part: run `reheap enable` again, or `reheap disable`"
            )),
        }
    }

    /// `known` is the record and the hash in it, for a library that it names.
    fn check_library(
        &mut self,
        root: &Root,
        library: &str,
        known: Option<(&Record, Option<&str>)>,
    ) {
        let remedy = "run `reheap enable` again, or `reheap disable`";
        let bytes = match root.read(library) {
            Ok(bytes) => bytes,
            Err(error) => {
                let what = match error.kind() {
                    io::ErrorKind::NotFound => "is missing".to_owned(),
                    _ => format!("cannot be read ({error})"),
                };
                return self.problems.push(format!("`{library}` {what}: {remedy}"));
            }
        };
        match known {
            Some((_, Some(hash))) if cache::sha256(&bytes) != hash => {
                self.problems.push(format!(
                    "`{library}` is not the file that `enable` wrote ({} bytes, sha256 {} instead of {}): {remedy}",
                    bytes.len(),
                    shortened(&cache::sha256(&bytes)),
                    shortened(hash)
                ));
            }
            Some((record, None)) => self.notes.push(format!(
                "cannot check whether `enable` wrote `{library}`, because reheap {} recorded no hash of it: run \
                 `reheap enable` again",
                record.reheap
            )),
            _ => {}
        }
        let metadata = root.open_file(library).and_then(|file| file.metadata());
        if metadata.is_ok_and(|metadata| metadata.mode() & 0o004 == 0) {
            self.problems.push(format!(
                "`{library}` is not world-readable: programs of users who cannot read it print an error whenever \
                 they start: {remedy}"
            ));
        }
        let directory = library
            .rsplit_once('/')
            .map_or("/", |(directory, _)| directory);
        if let Err(error) = root.check_entry(directory) {
            let problem = format!("{error:#}");
            if !self.problems.contains(&problem) {
                self.problems.push(problem); // it is the same one for each libc
            }
        }
    }

    /// Where both libcs are, `LD_PRELOAD` names a link.
    fn check_links(&mut self, root: &Root, record: &Record) {
        if record.libraries.len() < 2 {
            return;
        }
        let names = record.libraries.values();
        let Some(name) = names.filter_map(|path| path.rsplit('/').next()).next() else {
            return;
        };
        for (path, target) in libraries::links(&record.directory, name) {
            if !Disk::is_link(root, &path, &target) {
                self.problems.push(format!(
                    "`{path}` is not a link to `{target}`: run `reheap enable` again, or `reheap disable`"
                ));
            }
        }
    }

    /// glibc silently skips a file that it may not read.
    fn check_readers(&mut self, root: &Root, record: &Record) {
        let is_set = record.files.iter().any(|file| file.path == LD_SO_PRELOAD);
        if is_set && !state::is_for_all(root, LD_SO_PRELOAD) {
            self.notes.push(format!(
                "`{LD_SO_PRELOAD}` is not world-readable: programs of users who cannot read it start without the \
                 library"
            ));
        }
    }
}

/// Whether a command holds the lock. A user who may not open the directory cannot tell.
fn is_being_changed(root: &Root) -> bool {
    let tried = root
        .open_directory("/etc")
        .map(|directory| directory.try_lock_shared());
    matches!(tried, Ok(Err(std::fs::TryLockError::WouldBlock)))
}

fn is_left_over(disk: &Disk, ours: &[String]) -> anyhow::Result<bool> {
    let script = disk.read(PROFILE_SCRIPT)?;
    let sets = script.is_some_and(|file| preload_files::library_of_script(file.bytes()).is_some());
    let has_kept = disk.kept(LD_SO_PRELOAD)?.is_some() || disk.kept(PROFILE_SCRIPT)?.is_some();
    Ok(!ours.is_empty() || sets || has_kept || !state::directories(disk.root).is_empty())
}

/// The beginning of a hash: as much as a person compares.
fn shortened(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}
