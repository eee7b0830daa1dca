//! The recording linker: links with a derived libc, notes the link, and can replay it with another.
//!
//! Cargo is given a small script as the target's linker. The script starts this module through `cargo-reheap`, which puts
//! the folder of the derived libc in front of the link line and runs the linker that would have run without it. So
//! nothing is added to the user's Rust flags, which replaces no flag of theirs and recompiles nothing. The rejected
//! alternative, `-L native=<folder>` in RUSTFLAGS, makes Cargo take another allocator for another build: everything is
//! compiled anew.
//!
//! After a link, the objects that rustc deletes are kept beside a note of the command line. When another allocator is
//! asked for and Cargo finds nothing to do, the link is replayed: a second or less where a rebuild takes minutes.

use crate::ui::Failure;
use crate::{doctests, env_vars};
use anyhow::Context as _;
use reheap_allocators::cache::{sha256, write_by_rename};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, ExitCode};

/// The first argument that tells `cargo-reheap` to be the linker.
pub(crate) const SUBCOMMAND: &str = "__link";

/// What is to be linked with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// The linker that would have been called without reheap.
    pub(crate) linker: PathBuf,
    /// The folder of the derived libc; none for the stock allocator.
    pub(crate) derived: Option<PathBuf>,
    /// The stack of threads that do not choose their own, in bytes; 0 leaves musl's default.
    pub(crate) stack_size_bytes: u64,
    /// The target's triple, which names the folder that records are kept in.
    pub(crate) triple: String,
}

/// A link that was done.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    plan: Option<Plan>,
    directory: PathBuf,
    arguments: Vec<Vec<u8>>,
    output: PathBuf,
    /// SHA-256 of the output, during a replay also of the next one. Where the file is another, somebody else linked it, and
    /// a replay would bring back old code.
    output_sha256: Vec<String>,
    /// Files that are gone after the link: the path on the command line, and the name under which they are kept.
    kept: Vec<(PathBuf, String)>,
    rust_heap: RustHeap,
}

/// Where the Rust code of a program allocates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RustHeap {
    /// Rust's default, the libc's malloc.
    Malloc,
    /// A `#[global_allocator]` of the program.
    Own,
    /// It was optimised beyond recognition.
    Unknown,
}

const RECORDS: &str = ".reheap-links";
const RECORD: &str = "record.json";

/// Writes the script that Cargo is to call, and gives its path.
///
/// Its name tells rustc which dialect of arguments the linker speaks (rustc's `-C linker-flavor`): so it is the linker's.
pub(crate) fn write_script(folder: &Path, linker: &Path) -> anyhow::Result<PathBuf> {
    let name = linker.file_name().context("the linker has no file name")?;
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    let mut script = b"#!/bin/sh\nexec '".to_vec();
    for &byte in program.as_os_str().as_bytes() {
        match byte {
            b'\'' => script.extend_from_slice(b"'\\''"),
            other => script.push(other),
        }
    }
    script.extend_from_slice(format!("' {SUBCOMMAND} \"$@\"\n").as_bytes());
    fs::create_dir_all(folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
    let path = folder.join(name);
    if fs::read(&path).is_ok_and(|present| present == script) {
        return Ok(path);
    }
    write_by_rename(&path, &script, 0o755)?;
    Ok(path)
}

/// Links as rustc asks and as the plan in the environment says.
pub(crate) fn run(arguments: &[OsString]) -> anyhow::Result<ExitCode> {
    let Some(plan) = env_vars::variable(env_vars::LINK_PLAN) else {
        // Cargo kept the script as its linker, but was not started by reheap.
        let error = Command::new("cc").args(arguments).exec();
        return Err(error).context("cannot start `cc`");
    };
    let plan: Plan = serde_json::from_slice(plan.as_bytes())
        .with_context(|| format!("cannot read {}", env_vars::LINK_PLAN))?;
    let expanded = expand_response_files(arguments)?;
    let status = plan.command(&expanded, None)?.status();
    let status = status.with_context(|| format!("cannot start `{}`", plan.linker.display()))?;
    if status.success()
        && !links_shared(&expanded)
        && let Some(output) = output_of(&expanded)
    {
        match records_folder(&output, &plan.triple) {
            Some(records) => record(&records, &plan, &expanded, &output)?,
            None => doctests::check(&output)?,
        }
    }
    let code = status.code().unwrap_or(1);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

impl Plan {
    /// The linker's command line; `substitute` replaces arguments when a link is replayed.
    fn command(
        &self,
        arguments: &[OsString],
        substitute: Option<&dyn Fn(&OsString) -> OsString>,
    ) -> anyhow::Result<Command> {
        let mut all: Vec<OsString> = match substitute {
            Some(substitute) => arguments.iter().map(substitute).collect(),
            None => arguments.to_vec(),
        };
        // A shared library has the libc and the heap of the program that loads it. With `-L` it would get a second one.
        if links_shared(&all) {
            let mut command = Command::new(&self.linker);
            command.args(all);
            return Ok(command);
        }
        if let Some(folder) = &self.derived {
            let mut option = OsString::from("-L");
            option.push(folder);
            // In front of everything, because the linker takes the first libc.a that it finds; only what makes LLD the
            // linker that it is to be has to stay first.
            let position = if all.first().is_some_and(|a| a == "-flavor") {
                2
            } else {
                0
            };
            all.insert(position.min(all.len()), option);
        }
        if self.stack_size_bytes > 0 {
            let bytes = self.stack_size_bytes;
            if speaks_as_linker(&self.linker) {
                all.push("-z".into());
                all.push(format!("stack-size={bytes}").into());
            } else {
                all.push(format!("-Wl,-z,stack-size={bytes}").into());
            }
        }
        let mut command = Command::new(&self.linker);
        command.args(all);
        Ok(command)
    }
}

/// Whether the program takes a linker's arguments and not a compiler driver's.
fn speaks_as_linker(linker: &Path) -> bool {
    let name = linker.file_name().unwrap_or_default().to_string_lossy();
    matches!(&*name, "ld" | "mold" | "wild") || name.ends_with("lld") || name.starts_with("ld.")
}

/// Whether a shared library is made: a procedural macro on a system whose own libc is musl, or a cdylib without
/// `crt-static`.
fn links_shared(arguments: &[OsString]) -> bool {
    arguments.iter().any(|argument| argument == "-shared")
}

fn output_of(arguments: &[OsString]) -> Option<PathBuf> {
    let position = arguments.iter().position(|argument| argument == "-o")?;
    arguments.get(position + 1).map(PathBuf::from)
}

/// rustc's response files: an argument per line, blanks and backslashes escaped by a backslash.
fn expand_response_files(arguments: &[OsString]) -> anyhow::Result<Vec<OsString>> {
    let mut expanded = Vec::new();
    for argument in arguments {
        let Some(path) = argument.as_bytes().strip_prefix(b"@") else {
            expanded.push(argument.clone());
            continue;
        };
        let path = Path::new(std::ffi::OsStr::from_bytes(path));
        let text = fs::read(path)
            .with_context(|| format!("cannot read the response file `{}`", path.display()))?;
        expanded.extend(parse_response_file(&text));
    }
    Ok(expanded)
}

fn parse_response_file(text: &[u8]) -> Vec<OsString> {
    let mut arguments = Vec::new();
    let mut current = Vec::new();
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => current.extend(bytes.next()),
            b'\n' => arguments.push(OsString::from_vec(std::mem::take(&mut current))),
            other => current.push(other),
        }
    }
    if !current.is_empty() {
        arguments.push(OsString::from_vec(current));
    }
    arguments
}

/// The folder that holds the records of all links below a target's output folder.
fn records_folder(output: &Path, triple: &str) -> Option<PathBuf> {
    let folder = output.ancestors().find(|folder| folder.ends_with(triple))?;
    Some(folder.join(RECORDS))
}

fn record_folder(records: &Path, output: &Path) -> PathBuf {
    records.join(&sha256(output.as_os_str().as_bytes())[..20])
}

fn record(
    records: &Path,
    plan: &Plan,
    arguments: &[OsString],
    output: &Path,
) -> anyhow::Result<()> {
    let folder = record_folder(records, output);
    let cannot = || format!("cannot record the link of `{}`", output.display());
    fs::create_dir_all(records).with_context(cannot)?;
    let unfinished = tempfile::Builder::new()
        .prefix(".unfinished-")
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
        directory: std::env::current_dir().with_context(cannot)?,
        rust_heap: rust_heap(arguments),
        arguments: arguments.iter().map(|a| a.as_bytes().to_vec()).collect(),
        output: output.to_owned(),
        output_sha256: vec![sha256(&fs::read(output).with_context(cannot)?)],
        kept,
    };
    fs::write(unfinished.path().join(RECORD), serde_json::to_vec(&record)?).with_context(cannot)?;
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(cannot)?;
    }
    fs::rename(unfinished.keep(), &folder).with_context(cannot)
}

/// The file in an argument that will not be there for a replay: an object of the crate itself, which rustc deletes, or
/// anything in the temporary folder that rustc makes for a link.
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
    let is_temporary = path
        .parent()
        .and_then(Path::file_name)
        .is_some_and(|folder| {
            let folder = folder.as_bytes();
            folder.len() == 11
                && folder.starts_with(b"rustc")
                && folder[5..].iter().all(u8::is_ascii_alphanumeric)
        });
    ((is_object || is_temporary) && path.is_file()).then_some(path)
}

/// Looks through the program's own objects for the allocator shim that rustc makes for every program. With Rust's
/// default allocator the shim defines `__rust_alloc` and forwards it to `__rdl_alloc`; with a `#[global_allocator]` the
/// crate that sets it defines `__rust_alloc`, and the shim only the symbol below. Fat LTO makes one object of both.
fn rust_heap(arguments: &[OsString]) -> RustHeap {
    use reheap_elf::symbols::{Symbol, read};
    const ONLY_IN_THE_SHIM: &str = "__rust_no_alloc_shim_is_unstable";
    let mut heap = RustHeap::Unknown;
    for path in arguments.iter().filter_map(vanishing_file) {
        // `symbols.o` names everything that a link must keep, in every program.
        let bytes = fs::read(&path).unwrap_or_default();
        let Ok((_, symbols)) = read(&bytes) else {
            continue;
        };
        // Names are mangled: something stands in front, and behind the shim's a version.
        let mut definitions = symbols.iter().filter(|s| s.role.is_definition());
        let is_shim = definitions.any(|s| s.name.contains(ONLY_IN_THE_SHIM));
        let forwards = |s: &Symbol| s.name.ends_with("__rdl_alloc") && !s.role.is_definition();
        let allocates = |s: &Symbol| s.name.ends_with("__rust_alloc") && s.role.is_definition();
        if is_shim && symbols.iter().any(forwards) {
            return RustHeap::Malloc;
        }
        if !is_shim && symbols.iter().any(allocates) {
            heap = RustHeap::Own;
        }
    }
    heap
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
    /// By Cargo, as planned.
    AsBuilt,
    /// It was replayed now.
    Again,
    /// By another plan, and not replayed yet.
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
        when: match record.plan.as_ref() == Some(plan) {
            true => When::AsBuilt,
            false => When::Outdated,
        },
    }))
}

/// Links an executable of Cargo's anew if it was last linked by another plan.
pub(crate) fn ensure(executable: &Path, plan: &Plan, records: &Path) -> anyhow::Result<Linked> {
    let _lock = lock(records)?;
    let (folder, mut record) = recorded(records, executable, plan)?;
    let rust_heap = record.rust_heap;
    let mut when = When::AsBuilt;
    if record.plan.as_ref() != Some(plan) {
        replay(&folder, &mut record, executable, plan)
            .with_context(|| format!("cannot link `{}` again", executable.display()))?;
        when = When::Again;
    }
    Ok(Linked { rust_heap, when })
}

/// Links what an executable of Cargo's was made of once more, by this plan, into another file. The executable stays.
pub(crate) fn link_beside(
    executable: &Path,
    plan: &Plan,
    records: &Path,
    output: &Path,
) -> anyhow::Result<()> {
    let _lock = lock(records)?;
    let (folder, record) = recorded(records, executable, plan)?;
    relink(&folder, &record, plan, output)
        .with_context(|| format!("cannot link `{}`", output.display()))
}

/// The folder of records that knows an executable.
///
/// It is below the target's folder that the executable is in; but where `build.build-dir` is set, rustc made the file
/// there, and the executable is its second name. Cargo is asked for that folder only when it is needed.
pub(crate) fn records_of(
    executable: &Path,
    triple: &str,
    build_folder: impl FnOnce() -> Option<PathBuf>,
) -> anyhow::Result<PathBuf> {
    let beside = records_folder(executable, triple);
    let beside = beside.with_context(|| {
        let shown = executable.display();
        format!("cannot find the link of `{shown}`: it is not in a folder `{triple}`")
    })?;
    if find_record(&beside, executable)?.is_some() {
        return Ok(beside);
    }
    let below = build_folder().map(|folder| folder.join(triple).join(RECORDS));
    if let Some(below) = below
        && find_record(&below, executable)?.is_some()
    {
        return Ok(below);
    }
    Ok(beside)
}

/// The record of an executable that is still the one that was linked.
fn recorded(records: &Path, executable: &Path, plan: &Plan) -> anyhow::Result<(PathBuf, Record)> {
    let (folder, record) =
        find_record(records, executable)?.ok_or_else(|| not_recorded(executable, plan))?;
    let contents =
        fs::read(executable).with_context(|| format!("cannot read `{}`", executable.display()))?;
    if !record.output_sha256.contains(&sha256(&contents)) {
        return Err(not_recorded(executable, plan).into());
    }
    Ok((folder, record))
}

fn not_recorded(executable: &Path, plan: &Plan) -> Failure {
    let (shown, triple) = (executable.display(), &plan.triple);
    Failure::failed(format!("`{shown}` was not linked by reheap")).hint(format!(
        "a linker in the Rust flags (-C linker=…) takes the place of reheap's: set it as target.{triple}.linker; \
         otherwise make Cargo link again: cargo clean --target {triple}"
    ))
}

/// Held while an executable is checked and linked again, so that two commands at once do it one after the other.
fn lock(records: &Path) -> anyhow::Result<Option<File>> {
    if !records.is_dir() {
        return Ok(None);
    }
    let path = records.join("lock");
    let cannot = || format!("cannot take the lock `{}`", path.display());
    let file = File::create(&path).with_context(cannot)?;
    file.lock().with_context(cannot)?;
    Ok(Some(file))
}

/// The record of a link whose output is the same file: Cargo makes hard links of what rustc made.
fn find_record(records: &Path, executable: &Path) -> anyhow::Result<Option<(PathBuf, Record)>> {
    let identity = |path: &Path| fs::metadata(path).ok().map(|m| (m.dev(), m.ino(), m.len()));
    let wanted = identity(executable);
    let Ok(entries) = fs::read_dir(records) else {
        return Ok(None);
    };
    // A copied project brings its records along; they name the files of the project that it was copied from.
    let own_folder = records
        .parent()
        .and_then(|folder| fs::canonicalize(folder).ok());
    let is_own = |output: &Path| {
        let output = fs::canonicalize(output).ok();
        own_folder
            .as_ref()
            .zip(output)
            .is_some_and(|(folder, output)| output.starts_with(folder))
    };
    let mut same_contents = None;
    for entry in entries {
        let folder = entry?.path();
        let Some(record) = fs::read(folder.join(RECORD))
            .ok()
            .and_then(|b| serde_json::from_slice::<Record>(&b).ok())
        else {
            continue;
        };
        if !is_own(&record.output) {
            continue;
        }
        let found = identity(&record.output);
        if found.is_some() && found == wanted {
            return Ok(Some((folder, record)));
        }
        // On file systems without hard links Cargo copies.
        if found.map(|f| f.2) == wanted.map(|w| w.2)
            && same_contents.is_none()
            && fs::read(&record.output).ok() == fs::read(executable).ok()
        {
            same_contents = Some((folder, record));
        }
    }
    Ok(same_contents)
}

fn replay(
    folder: &Path,
    record: &mut Record,
    executable: &Path,
    plan: &Plan,
) -> anyhow::Result<()> {
    let output_folder = record.output.parent().context("the output has no folder")?;
    let unfinished = tempfile::Builder::new()
        .prefix(".reheap-")
        .tempdir_in(output_folder)?;
    let new_output = unfinished.path().join("output");
    relink(folder, record, plan, &new_output)?;
    // A crash between here and the last step must not leave a record that claims to know what the file is.
    record.plan = None;
    let new_sha256 = sha256(&fs::read(&new_output)?);
    record.output_sha256.push(new_sha256.clone());
    write_by_rename(&folder.join(RECORD), &serde_json::to_vec(record)?, 0o644)?;
    fs::rename(&new_output, &record.output)?;
    if executable != record.output {
        let second_name = unfinished.path().join("second-name");
        fs::hard_link(&record.output, &second_name)
            .or_else(|_| fs::copy(&record.output, &second_name).map(|_| ()))?;
        fs::rename(&second_name, executable)?;
    }
    record.plan = Some(plan.clone());
    record.output_sha256 = vec![new_sha256];
    write_by_rename(&folder.join(RECORD), &serde_json::to_vec(record)?, 0o644)?;
    Ok(())
}

/// Runs a recorded link again, by another plan and into another file.
fn relink(folder: &Path, record: &Record, plan: &Plan, new_output: &Path) -> anyhow::Result<()> {
    let substitute = |argument: &OsString| -> OsString {
        if Path::new(argument) == record.output {
            return new_output.into();
        }
        for (path, name) in &record.kept {
            if let Some(front) = argument
                .as_bytes()
                .strip_suffix(path.as_os_str().as_bytes())
            {
                let mut replaced = OsString::from_vec(front.to_vec());
                replaced.push(folder.join(name));
                return replaced;
            }
        }
        argument.clone()
    };
    let arguments: Vec<OsString> = record
        .arguments
        .iter()
        .cloned()
        .map(OsString::from_vec)
        .collect();
    let mut command = plan.command(&arguments, Some(&substitute))?;
    let output = command
        .current_dir(&record.directory)
        .output()
        .with_context(|| format!("cannot start `{}`", plan.linker.display()))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Failure::failed(format!("`{}` failed:\n{text}", plan.linker.display())).into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_file_is_read_as_rustc_writes_it() {
        let text = b"-o\n/a\\ folder/with\\\\backslash\n-lc\n";
        assert_eq!(
            parse_response_file(text),
            ["-o", "/a folder/with\\backslash", "-lc"]
        );
    }

    #[test]
    fn the_programs_name_tells_the_dialect_of_its_arguments() {
        for linker in ["/usr/bin/ld", "rust-lld", "/opt/ld.lld", "mold"] {
            assert!(speaks_as_linker(Path::new(linker)), "{linker}");
        }
        for driver in ["cc", "/usr/bin/x86_64-linux-musl-gcc", "clang", "musl-gcc"] {
            assert!(!speaks_as_linker(Path::new(driver)), "{driver}");
        }
    }

    #[test]
    fn records_lie_below_the_folder_of_the_target() {
        let output = Path::new("/p/target/x86_64-unknown-linux-musl/release/deps/app-1");
        let folder = records_folder(output, "x86_64-unknown-linux-musl").unwrap();
        assert_eq!(
            folder,
            Path::new("/p/target/x86_64-unknown-linux-musl/.reheap-links")
        );
        assert_eq!(
            records_folder(
                Path::new("/tmp/doctest/rust_out"),
                "x86_64-unknown-linux-musl"
            ),
            None
        );
    }
}
