//! `reheap graft`: another allocator in a static executable that is already linked.

use anyhow::Context as _;
use reheap_allocators::cache::{sha256, write_dressed};
use reheap_command::choice::{AllocatorArguments, AllocatorName, Choice};
use reheap_command::output;
use reheap_command::ui::{self, Failure};
use reheap_graft::{Entry, GraftError, Grafted, UndoError};
use reheap_workshop::grafting::{self, Ungrafted};
use reheap_workshop::workshop::{Network, Workshop};
use serde_json::json;
use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(crate) const EXAMPLES: &str = "\
The file itself stays as it is, unless -o names it. Its checksum and its signature are another file's
afterwards.

Examples:
  reheap graft ./tool
  reheap graft ./tool -o ./tool-fast -t purge_delay=0
  reheap graft --check ./tool
  reheap graft --undo ./tool-fast -o ./tool";

#[derive(Debug, clap::Args)]
#[command(mut_arg("allocator", |argument| argument
    .help("The allocator [default: mimalloc]")
    .value_parser(AllocatorName::Another)))]
pub(crate) struct GraftArguments {
    /// A static executable
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    choice: AllocatorArguments,
    /// The new file [default: FILE.reheap]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write nothing: say whether it can be done, and what would change
    #[arg(long, conflicts_with_all = ["output", "undo"])]
    check: bool,
    /// Write the original of a grafted executable, byte for byte
    #[arg(long, conflicts_with_all = ["allocator", "tuning"])]
    undo: bool,
    /// Also for executables that give their user other rights (setuid, setgid, capabilities)
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Writes the new file, and prints what changed.
pub(crate) fn run(arguments: &GraftArguments) -> anyhow::Result<ExitCode> {
    let (program, file) = read(&arguments.file)?;
    if arguments.undo {
        return undo(arguments, &program, &file);
    }
    let choice = arguments.choice.check()?;
    if !arguments.force && gives_rights(&file)? {
        let text = format!(
            "{}: it gives its user other rights",
            cannot(&arguments.file)
        );
        return Err(Failure::failed(text)
            .hint("--force does it all the same")
            .into());
    }
    let workshop = Workshop::new(Network::AsConfigured);
    let grafted = grafting::graft(&choice, &program, &workshop);
    let grafted = grafted.map_err(|error| match error {
        Ungrafted::Program(error) => refusal(&arguments.file, &error).into(),
        Ungrafted::Library(error) => error,
        Ungrafted::Unproved(error) => error.context(cannot(&arguments.file)),
    })?;
    let output = (!arguments.check).then(|| arguments.output());
    if let Some(output) = &output {
        write(output, &grafted.bytes, &file)?;
    }
    let result = Done {
        file: &arguments.file,
        output: output.as_deref(),
        choice: &choice,
        original: &program,
        grafted: &grafted,
    };
    ui::data(&if arguments.json {
        format!("{:#}\n", result.as_json())
    } else {
        result.as_text()
    })?;
    Ok(ExitCode::SUCCESS)
}

const SETS_RIGHTS: u32 = libc::S_ISUID | libc::S_ISGID;

impl GraftArguments {
    fn output(&self) -> PathBuf {
        self.output.clone().unwrap_or_else(|| {
            let mut name = OsString::from(&self.file);
            name.push(".reheap");
            name.into()
        })
    }
}

fn cannot(file: &Path) -> String {
    format!("cannot graft an allocator into `{}`", file.display())
}

fn read(path: &Path) -> anyhow::Result<(Vec<u8>, File)> {
    let cannot = || format!("cannot read `{}`", path.display());
    // A pipe would wait for a writer.
    if path.metadata().with_context(cannot)?.is_file() {
        let mut file = File::open(path).with_context(cannot)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).with_context(cannot)?;
        return Ok((bytes, file));
    }
    anyhow::bail!("{}: it is not a regular file", cannot())
}

/// Whether who runs it gets rights by that, of its owner or group or by capabilities(7).
fn gives_rights(program: &File) -> io::Result<bool> {
    let has_capabilities = rustix::fs::fgetxattr(program, "security.capability", &mut [0; 64]);
    Ok(has_capabilities.is_ok() || program.metadata()?.mode() & SETS_RIGHTS != 0)
}

/// Writes an executable with the mode, owner and attributes of the one that it is made of. Where a link leads to a file, that
/// file is replaced.
fn write(output: &Path, contents: &[u8], like: &File) -> anyhow::Result<()> {
    let cannot = || format!("cannot write `{}`", output.display());
    if output::is_of_the_system(output) {
        anyhow::bail!("{}: it is not a regular file", cannot());
    }
    let path = output::behind_links(output).with_context(cannot)?;
    write_dressed(&path, contents, 0o600, |new| dress(new, like))?;
    Ok(())
}

fn dress(new: &File, like: &File) -> io::Result<()> {
    let metadata = like.metadata()?;
    let has_its_owner = fchown(new, Some(metadata.uid()), Some(metadata.gid())).is_ok();
    output::attributes::copy(like, new)?; // before the mode, of which an access control list is a part
    // It must not give the rights of somebody else.
    let kept = if has_its_owner { 0o7777 } else { 0o777 };
    new.set_permissions(Permissions::from_mode(metadata.mode() & kept))
}

fn refusal(file: &Path, error: &GraftError) -> Failure {
    let failure = Failure::failed(format!("{}: {error}", cannot(file)));
    match grafting::way_out(error, file) {
        Some(way_out) => failure.hint(way_out),
        None => failure,
    }
}

fn undo(arguments: &GraftArguments, program: &[u8], file: &File) -> anyhow::Result<ExitCode> {
    let original = reheap_graft::undo(program).map_err(|error: UndoError| {
        let path = arguments.file.display();
        Failure::failed(format!("cannot undo the graft of `{path}`: {error}"))
    })?;
    let output = arguments.output.as_ref().unwrap_or(&arguments.file);
    write(output, &original, file)?;
    let sha256 = sha256(&original);
    ui::data(&if arguments.json {
        format!(
            "{:#}\n",
            json!({"path": output.to_string_lossy(), "sha256": sha256})
        )
    } else {
        format!(
            "{}: the original again (SHA-256 {sha256})\n",
            output.display()
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

/// What was done, or would be.
struct Done<'a> {
    file: &'a Path,
    /// None if nothing was written.
    output: Option<&'a Path>,
    choice: &'a Choice,
    original: &'a [u8],
    grafted: &'a Grafted,
}

impl Done<'_> {
    fn names(&self) -> Vec<&str> {
        let entries = self.grafted.entries.iter();
        entries.map(|entry: &Entry| entry.name.as_str()).collect()
    }

    fn as_text(&self) -> String {
        let allocator = self.choice.allocator;
        let what = format!("{} {}", allocator.name, allocator.version);
        let (first, lead) = match self.output {
            Some(output) => {
                let output = output.display();
                let first = format!("{output}: {what} in place of its own allocator");
                (first, "lead there now")
            }
            None => {
                let file = self.file.display();
                let first = format!("{file}: {what} can take the place of its own allocator");
                (first, "would lead there")
            }
        };
        let more = self.grafted.bytes.len() - self.original.len();
        format!(
            "{first}\n  {} {lead}, found by {}\n  {} KiB larger\n",
            self.names().join(", "),
            self.grafted.access,
            more.div_ceil(1024),
        )
    }

    fn as_json(&self) -> serde_json::Value {
        json!({
            "path": self.output.map(Path::to_string_lossy),
            "allocator": self.choice.allocator.name,
            "version": self.choice.allocator.version,
            "tuning": self.choice.tuning.as_given(),
            "functions": self.names(),
            "found_by": self.grafted.access.to_string(),
            "sha256": sha256(&self.grafted.bytes),
            "size": self.grafted.bytes.len(),
            "original": {"sha256": sha256(self.original), "size": self.original.len()},
        })
    }
}
