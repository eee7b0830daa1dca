//! `reheap libc`: a derived libc for any compiler, in the cache or in place.

use anyhow::Context as _;
use reheap_allocators::cache::{sha256, write_by_rename};
use reheap_allocators::target::Target;
use reheap_command::choice::{self, LibcChoiceArguments};
use reheap_command::output::behind_links;
use reheap_command::ui::{self, Failure};
use reheap_elf::derive::{self, DeriveError};
use reheap_workshop::original::{self, kept_beside};
use reheap_workshop::workshop::{Network, Workshop, refuse_missing};
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(crate) const EXAMPLES: &str = "Examples:
  musl-gcc -static app.c -L$(reheap libc -a jemalloc --libc /usr/lib/x86_64-linux-musl/libc.a)
  reheap libc -a mimalloc --target aarch64-unknown-linux-musl
  reheap libc --libc /opt/musl/lib/libc.a --in-place
  reheap libc --libc /opt/musl/lib/libc.a --restore";

#[derive(Debug, clap::Args)]
pub(crate) struct LibcArguments {
    #[command(flatten)]
    choice: LibcChoiceArguments,
    /// The musl target [default: that of this machine]
    #[arg(long, value_name = "TRIPLE")]
    target: Option<String>,
    /// The libc.a to derive from [default: the one that comes with Rust]
    #[arg(long, value_name = "FILE")]
    libc: Option<PathBuf>,
    /// Replace that file and keep the original beside it
    #[arg(long, requires = "libc", conflicts_with = "restore")]
    in_place: bool,
    /// Bring the original back
    #[arg(long, requires = "libc", conflicts_with_all = ["allocator", "tuning", "memory_functions"])]
    restore: bool,
}

/// Makes a derived libc, or undoes `--in-place`.
pub(crate) fn run(arguments: &LibcArguments) -> anyhow::Result<ExitCode> {
    if let (true, Some(file)) = (arguments.restore, &arguments.libc) {
        restore(file)?;
        return Ok(ExitCode::SUCCESS);
    }
    let choice = arguments.choice.check()?;
    if choice.is_stock() {
        let failure = Failure::usage(
            "cannot derive a libc with `stock`: that is the allocator it already has",
        );
        return Err(failure
            .hint("to undo --in-place: reheap libc --libc <file> --restore")
            .into());
    }
    let named = arguments
        .target
        .as_deref()
        .map(|triple| choice::musl_target(Some(triple)))
        .transpose()?;
    if let Some(target) = &named {
        refuse_missing(&choice, target)?;
    }
    let workshop = Workshop::new(Network::AsConfigured);
    let path = match &arguments.libc {
        Some(file) => file.clone(),
        None => workshop.libc_of_rust(&named.map_or_else(|| choice::musl_target(None), Ok)?)?,
    };
    let original = original::find(&path, workshop.search())?;
    let target = Target::musl(original.architecture());
    if named.is_some_and(|named| named != target) {
        let text = format!("`{}` is a libc for {target}", path.display());
        return Err(Failure::usage(text).hint("leave out --target").into());
    }
    let built = workshop.build(&choice, &target)?;
    let replacement = built.replacement(&choice);
    if arguments.in_place {
        let derived = original.derive(&replacement)?;
        replace(&path, &derived.bytes)?;
        let text = format!(
            "`{}` now has {}; undo: --restore",
            path.display(),
            choice.allocator.name
        );
        ui::note(&text);
        return Ok(ExitCode::SUCCESS);
    }
    let directory = original.derived_directory(&replacement, workshop.cache()?)?;
    ui::data(&format!("{}\n", directory.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// Puts new contents in the place of a file. The file itself stays under another name, with its owner, mode and times.
/// A crash before the last step leaves the original in its place.
fn replace(file: &Path, contents: &[u8]) -> anyhow::Result<()> {
    // reheap follows a symbolic link to the file: a link that became a file would hide the original behind it.
    let file =
        &behind_links(file).with_context(|| format!("cannot replace `{}`", file.display()))?;
    let kept = kept_beside(file);
    let cannot = || format!("cannot replace `{}`", file.display());
    let original = fs::metadata(file).with_context(cannot)?;
    match fs::metadata(&kept) {
        // An earlier command was interrupted after it had saved the original.
        Ok(present) if (present.dev(), present.ino()) == (original.dev(), original.ino()) => {}
        Ok(_) if fs::read(&kept).ok() == fs::read(file).ok() => {}
        Ok(_) => {
            let text = format!("`{}` exists and is another file", kept.display());
            return Err(Failure::failed(text)
                .hint("move it away, then try again")
                .into());
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            keep(file, &kept).with_context(cannot)?
        }
        Err(error) => return Err(error).with_context(cannot),
    }
    write_by_rename(file, contents, original.permissions().mode()).with_context(cannot)
}

fn keep(file: &Path, kept: &Path) -> anyhow::Result<()> {
    if fs::hard_link(file, kept).is_ok() {
        return Ok(());
    }
    // The file system has no hard links, so reheap makes a copy, which appears whole.
    let mode = fs::metadata(file)?.permissions().mode();
    Ok(write_by_rename(kept, &fs::read(file)?, mode)?)
}

fn restore(file: &Path) -> anyhow::Result<()> {
    let file =
        &behind_links(file).with_context(|| format!("cannot restore `{}`", file.display()))?;
    let kept = kept_beside(file);
    let cannot = || format!("cannot restore `{}`", file.display());
    let derived = fs::read(file).with_context(cannot)?;
    let marker = match derive::read_original(&derived) {
        Err(DeriveError::AlreadyDerived(marker)) => marker,
        _ => {
            let text = format!(
                "cannot restore `{}`: it is not a derived libc",
                file.display()
            );
            return Err(Failure::failed(text).into());
        }
    };
    let original = fs::read(&kept)
        .with_context(|| format!("cannot read the original `{}`", kept.display()))
        .with_context(cannot)?;
    if sha256(&original) != marker.original_sha256 {
        let text = format!(
            "`{}` is not what `{}` was derived from",
            kept.display(),
            file.display()
        );
        return Err(Failure::failed(text).into());
    }
    fs::rename(&kept, file).with_context(cannot)?;
    ui::note(&format!("restored `{}`", file.display()));
    Ok(())
}
