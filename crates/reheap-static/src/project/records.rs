//! Records links, so that reheap can relink executables with another derived libc.
//!
//! After a link, reheap keeps the objects that rustc deletes, together with the command line. If the user asks for
//! another allocator and Cargo finds nothing to do, reheap relinks the executable. That takes a second or less; a rebuild
//! takes minutes.

use super::plan::Plan;
use super::response_file::{self, Passing};
use super::rust_heap::RustHeap;
use super::stack;
use anyhow::Context as _;
use reheap_allocators::cache::{open_lock, sha256, write_by_rename};
use reheap_command::ui::Failure;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

/// A link that was done.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    plan: Option<Plan>,
    #[serde(rename = "directory")]
    working_directory: PathBuf,
    /// How the linker got the arguments, which are in a file of their own: they may be megabytes, and a search for a
    /// record reads all of them.
    passing: Passing,
    output: PathBuf,
    /// SHA-256 of the output, during a relink also of the next one. Where the file is another, somebody else linked it,
    /// and a relink would bring back old code.
    output_sha256: Vec<String>,
    /// Files that are gone after the link: the path on the command line, and the name under which they are kept.
    kept: Vec<(PathBuf, String)>,
    rust_heap: RustHeap,
}

const RECORDS: &str = ".reheap-links";
const RECORD: &str = "record.json";
/// The arguments that rustc gave, each followed by a NUL byte, which none of them has.
const ARGUMENTS: &str = "arguments";
/// What the name of a directory begins with that becomes a record.
const UNFINISHED: &str = ".unfinished-";

/// The directory that holds the records of all links below a target's output directory.
pub(super) fn directory_for(output: &Path, triple: &str) -> Option<PathBuf> {
    let directory = output
        .ancestors()
        .find(|directory| directory.ends_with(triple))?;
    Some(directory.join(RECORDS))
}

fn record_directory(records: &Path, output: &Path) -> PathBuf {
    records.join(&sha256(output.as_os_str().as_bytes())[..20])
}

pub(super) fn record(
    records: &Path,
    plan: &Plan,
    arguments: &[OsString],
    passing: Passing,
    output: &Path,
) -> anyhow::Result<()> {
    let directory = record_directory(records, output);
    let cannot = || format!("cannot record the link of `{}`", output.display());
    let unfinished = tempfile::Builder::new()
        .prefix(UNFINISHED)
        .tempdir_in(records)
        .with_context(cannot)?;
    let mut kept = Vec::new();
    for path in arguments.iter().filter_map(vanishing_file) {
        let name = format!("{:04}", kept.len());
        let place = unfinished.path().join(&name);
        fs::hard_link(&path, &place)
            .or_else(|_| fs::copy(&path, &place).map(|_| ()))
            .with_context(cannot)?;
        kept.push((path, name));
    }
    let record = Record {
        plan: Some(plan.clone()),
        working_directory: std::env::current_dir().with_context(cannot)?,
        rust_heap: RustHeap::of_objects(arguments.iter().filter_map(vanishing_file)),
        passing,
        output: output.to_owned(),
        output_sha256: vec![sha256(&fs::read(output).with_context(cannot)?)],
        kept,
    };
    let ended = |argument: &OsString| [argument.as_bytes(), b"\0"].concat();
    let arguments: Vec<u8> = arguments.iter().flat_map(ended).collect();
    fs::write(unfinished.path().join(ARGUMENTS), arguments).with_context(cannot)?;
    fs::write(unfinished.path().join(RECORD), serde_json::to_vec(&record)?).with_context(cannot)?;
    if directory.exists() {
        fs::remove_dir_all(&directory).with_context(cannot)?;
    }
    fs::rename(unfinished.keep(), &directory).with_context(cannot)
}

/// The file in an argument that will not be there for a relink: an object of the crate itself, which rustc deletes, or
/// anything in the temporary directory that rustc makes for a link.
fn vanishing_file(argument: &OsString) -> Option<PathBuf> {
    let bytes = argument.as_bytes();
    let start = bytes.iter().position(|&b| b == b'/')?;
    if start > 0 && !matches!(bytes[start - 1], b'=' | b',') {
        return None;
    }
    let path = PathBuf::from(OsString::from_vec(bytes[start..].to_vec()));
    let in_rustlib = path
        .components()
        .any(|c| c == Component::Normal("rustlib".as_ref()));
    let is_object = path.extension().is_some_and(|e| e == "o") && !in_rustlib;
    ((is_object || response_file::is_in_rustcs_directory(&path)) && path.is_file()).then_some(path)
}

/// What came of making sure that an executable is linked as planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Linked {
    pub(crate) rust_heap: RustHeap,
    pub(crate) when: When,
}

/// When a link was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// Cargo linked it as planned.
    AsBuilt,
    /// reheap relinked it just now.
    Relinked,
    /// It was linked by another plan, and not relinked yet.
    Outdated,
}

/// How an executable of Cargo's was linked; nothing if there is no record of it.
pub(crate) fn look_up(
    executable: &Path,
    plan: &Plan,
    records: &Path,
) -> anyhow::Result<Option<Linked>> {
    let found = find_record(records, executable)?;
    Ok(found.map(|(_, record)| Linked {
        rust_heap: record.rust_heap,
        when: if record.plan.as_ref() == Some(plan) {
            When::AsBuilt
        } else {
            When::Outdated
        },
    }))
}

/// Relinks an executable of Cargo's if its last link followed another plan.
pub(crate) fn ensure(executable: &Path, plan: &Plan, records: &Path) -> anyhow::Result<Linked> {
    let _lock = lock(records)?;
    let (directory, mut record) = recorded(records, executable, plan)?;
    let rust_heap = record.rust_heap;
    let mut when = When::AsBuilt;
    if record.plan.as_ref() != Some(plan) {
        check_unchanged(executable, &record, plan)?;
        relink_in_place(&directory, &mut record, executable, plan)
            .with_context(|| format!("cannot relink `{}`", executable.display()))?;
        when = When::Relinked;
    }
    Ok(Linked { rust_heap, when })
}

/// Relinks what an executable of Cargo's was made of, by this plan, into another file. The executable stays.
pub fn link_beside(
    executable: &Path,
    plan: &Plan,
    records: &Path,
    output: &Path,
) -> anyhow::Result<()> {
    let _lock = lock(records)?;
    let (directory, record) = recorded(records, executable, plan)?;
    check_unchanged(executable, &record, plan)?;
    relink(&directory, &record, plan, output)
        .with_context(|| format!("cannot link `{}`", output.display()))
}

/// The directory of records that knows an executable.
///
/// It is below the target's directory, where the executable is. But if `build.build-dir` is set, rustc made the file
/// there, and the executable is its second name. reheap asks Cargo for that directory only when it needs it.
pub(crate) fn records_of(
    executable: &Path,
    triple: &str,
    build_directory: impl FnOnce() -> Option<PathBuf>,
) -> anyhow::Result<PathBuf> {
    let beside = directory_for(executable, triple);
    let beside = beside.with_context(|| {
        let shown = executable.display();
        format!("cannot find the link of `{shown}`: it is not in a directory `{triple}`")
    })?;
    if find_record(&beside, executable)?.is_some() {
        return Ok(beside);
    }
    let below = build_directory().map(|directory| directory.join(triple).join(RECORDS));
    if let Some(below) = below
        && find_record(&below, executable)?.is_some()
    {
        return Ok(below);
    }
    Ok(beside)
}

fn recorded(records: &Path, executable: &Path, plan: &Plan) -> anyhow::Result<(PathBuf, Record)> {
    let found = find_record(records, executable)?;
    Ok(found.ok_or_else(|| not_recorded(executable, plan))?)
}

/// A relink makes the executable that was linked. If another one has replaced it, a relink would bring old code back.
fn check_unchanged(executable: &Path, record: &Record, plan: &Plan) -> anyhow::Result<()> {
    let contents =
        fs::read(executable).with_context(|| format!("cannot read `{}`", executable.display()))?;
    if record.output_sha256.contains(&sha256(&contents)) {
        Ok(())
    } else {
        Err(changed(executable, plan).into())
    }
}

/// Another program has written to it since, such as `strip`.
fn changed(executable: &Path, plan: &Plan) -> Failure {
    let (shown, triple) = (executable.display(), &plan.triple);
    Failure::failed(format!(
        "cannot relink `{shown}`: it has changed since reheap linked it"
    ))
    .hint(format!(
        "cargo clean --target {triple}; to strip programs, set `strip = true` in the profile"
    ))
}

fn not_recorded(executable: &Path, plan: &Plan) -> Failure {
    let (shown, triple) = (executable.display(), &plan.triple);
    Failure::failed(format!("`{shown}` was not linked by reheap")).hint(format!(
        "a linker in the Rust flags (-C linker=…) replaces reheap's: set it as target.{triple}.linker instead; \
         otherwise make Cargo link again: cargo clean --target {triple}"
    ))
}

/// Held while rustc's linker links and the link is recorded. Cargo lets no two links write one file, so many may hold it.
pub(super) fn lock_for_a_link(records: &Path) -> anyhow::Result<File> {
    fs::create_dir_all(records)
        .with_context(|| format!("cannot make the directory `{}`", records.display()))?;
    lock_by(records, File::lock_shared)
}

/// Held while an executable is checked and linked again: by one command at a time, and while Cargo links nothing.
fn lock(records: &Path) -> anyhow::Result<Option<File>> {
    let directory = records.is_dir().then_some(records);
    directory
        .map(|records| lock_by(records, File::lock))
        .transpose()
}

fn lock_by(records: &Path, lock: fn(&File) -> io::Result<()>) -> anyhow::Result<File> {
    let path = records.join("lock");
    let cannot = || format!("cannot lock `{}`", path.display());
    let file = open_lock(&path).with_context(cannot)?;
    lock(&file).with_context(cannot)?;
    Ok(file)
}

/// Removes the records of executables that are gone, and what interrupted links left.
pub(super) fn remove_stale(records: &Path) -> anyhow::Result<()> {
    let _lock = lock(records)?;
    for entry in fs::read_dir(records).into_iter().flatten().flatten() {
        let directory = entry.path();
        let is_unfinished = entry
            .file_name()
            .as_bytes()
            .starts_with(UNFINISHED.as_bytes());
        if is_unfinished || read_record(&directory).is_some_and(|record| is_gone(&record, records))
        {
            fs::remove_dir_all(&directory)
                .with_context(|| format!("cannot remove `{}`", directory.display()))?;
        }
    }
    Ok(())
}

/// Whether the executable of a record is no longer where the record is. Containers see a project at another path than
/// their host does, so only the path below the target's directory counts.
fn is_gone(record: &Record, records: &Path) -> bool {
    let present = || {
        let directory = records.parent()?;
        let triple = directory.file_name()?;
        let mut above = record.output.ancestors();
        let above = above.find(|directory| directory.ends_with(triple))?;
        let below = record.output.strip_prefix(above).ok()?;
        Some(directory.join(below).exists())
    };
    present() == Some(false)
}

fn read_record(directory: &Path) -> Option<Record> {
    let bytes = fs::read(directory.join(RECORD)).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// The record of a link whose output is the same file: Cargo makes hard links of what rustc made.
fn find_record(records: &Path, executable: &Path) -> anyhow::Result<Option<(PathBuf, Record)>> {
    let identity = |path: &Path| fs::metadata(path).ok().map(|m| (m.dev(), m.ino(), m.len()));
    let wanted = identity(executable);
    let Ok(entries) = fs::read_dir(records) else {
        return Ok(None);
    };
    // A copied project brings its records along; they name the files of the project that it was copied from.
    let own_directory = records
        .parent()
        .and_then(|directory| fs::canonicalize(directory).ok());
    let is_own = |output: &Path| {
        let output = fs::canonicalize(output).ok();
        own_directory
            .as_ref()
            .zip(output)
            .is_some_and(|(directory, output)| output.starts_with(directory))
    };
    let mut same_contents = None;
    for entry in entries {
        let directory = entry?.path();
        let Some(record) = read_record(&directory) else {
            continue;
        };
        if !is_own(&record.output) {
            continue;
        }
        let found = identity(&record.output);
        if found.is_some() && found == wanted {
            return Ok(Some((directory, record)));
        }
        // On file systems without hard links Cargo copies.
        if found.map(|f| f.2) == wanted.map(|w| w.2)
            && same_contents.is_none()
            && fs::read(&record.output).ok() == fs::read(executable).ok()
        {
            same_contents = Some((directory, record));
        }
    }
    Ok(same_contents)
}

fn relink_in_place(
    directory: &Path,
    record: &mut Record,
    executable: &Path,
    plan: &Plan,
) -> anyhow::Result<()> {
    let output_directory = record
        .output
        .parent()
        .context("the output has no directory")?;
    let unfinished = tempfile::Builder::new()
        .prefix(".reheap-")
        .tempdir_in(output_directory)?;
    let new_output = unfinished.path().join("output");
    relink(directory, record, plan, &new_output)?;
    // A crash between here and the last step must not leave a record that claims to know what the file is.
    record.plan = None;
    let new_sha256 = sha256(&fs::read(&new_output)?);
    record.output_sha256.push(new_sha256.clone());
    write_by_rename(&directory.join(RECORD), &serde_json::to_vec(record)?, 0o644)?;
    fs::rename(&new_output, &record.output)?;
    if executable != record.output {
        let second_name = unfinished.path().join("second-name");
        fs::hard_link(&record.output, &second_name)
            .or_else(|_| fs::copy(&record.output, &second_name).map(|_| ()))?;
        fs::rename(&second_name, executable)?;
    }
    record.plan = Some(plan.clone());
    record.output_sha256 = vec![new_sha256];
    write_by_rename(&directory.join(RECORD), &serde_json::to_vec(record)?, 0o644)?;
    Ok(())
}

/// Runs a recorded link again, by another plan and into another file.
fn relink(directory: &Path, record: &Record, plan: &Plan, new_output: &Path) -> anyhow::Result<()> {
    let substitute = |argument: &[u8]| -> OsString {
        if argument == record.output.as_os_str().as_bytes() {
            return new_output.into();
        }
        for (path, name) in &record.kept {
            if let Some(front) = argument.strip_suffix(path.as_os_str().as_bytes()) {
                let mut replaced = OsString::from_vec(front.to_vec());
                replaced.push(directory.join(name));
                return replaced;
            }
        }
        OsString::from_vec(argument.to_vec())
    };
    let file = directory.join(ARGUMENTS);
    let recorded = fs::read(&file).with_context(|| format!("cannot read `{}`", file.display()))?;
    let arguments: Vec<OsString> = recorded
        .split_inclusive(|byte| *byte == 0)
        .map(|ended| substitute(&ended[..ended.len() - 1]))
        .collect();
    let words = plan.words(&arguments)?;
    let output = response_file::run(&plan.linker, &words, record.passing, |command| {
        command.current_dir(&record.working_directory).output()
    })?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Failure::failed(format!("`{}` failed:\n{text}", plan.linker.display())).into());
    }
    stack::set_if_ignored(new_output, &words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_lie_below_the_directory_of_the_target() {
        let output = Path::new("/p/target/x86_64-unknown-linux-musl/release/deps/app-1");
        let directory = directory_for(output, "x86_64-unknown-linux-musl").unwrap();
        assert_eq!(
            directory,
            Path::new("/p/target/x86_64-unknown-linux-musl/.reheap-links")
        );
        assert_eq!(
            directory_for(
                Path::new("/tmp/doctest/rust_out"),
                "x86_64-unknown-linux-musl"
            ),
            None
        );
    }
}
