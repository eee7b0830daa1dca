//! `reheap image` and `cargo reheap image`: a container image from programs, without a container engine.

use crate::choice::StaticArguments;
use crate::packing::options::{Options, PackingArguments};
use crate::packing::programs::{self, Dynamic};
use crate::packing::{self, Origin};
use crate::project::Packing;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

pub(crate) const EXAMPLES: &str = "Examples:\n  \
    reheap image target/x86_64-unknown-linux-musl/release/app -o app.tar\n  \
    reheap image app --port 8080 --env RUST_LOG=info --file config.toml:/etc/app/ -o app.tar\n  \
    reheap image x86_64/app aarch64/app -o app.tar\n  \
    reheap image app --format docker -o app.tar && docker load -i app.tar";

pub(crate) const CARGO_EXAMPLES: &str = "Examples:\n  \
    cargo reheap image --release -o app.tar\n  \
    cargo reheap image --release --bin server --port 8080 -o server.tar\n  \
    cargo reheap image --release --target x86_64-unknown-linux-musl \\\n    \
    --target aarch64-unknown-linux-musl -o app.tar";

#[derive(Debug, clap::Args)]
pub(crate) struct ImageArguments {
    /// The programs; the first is the one that starts. Those for other processors become images of
    /// other platforms
    #[arg(value_name = "BINARY", required = true)]
    programs: Vec<PathBuf>,
    #[command(flatten)]
    packing: PackingArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CargoImageArguments {
    #[command(flatten)]
    linked_with: StaticArguments,
    #[command(flatten)]
    packing: PackingArguments,
    /// Any flags of `cargo build`; several `--target`s become one image for several platforms
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CARGO FLAGS"
    )]
    cargo: Vec<OsString>,
}

/// Packs programs that are there.
pub(crate) fn run(arguments: &ImageArguments) -> anyhow::Result<ExitCode> {
    let options = arguments.packing.check()?;
    pack(&arguments.programs, &options, &Origin::default())
}

/// Builds a project, and packs its programs.
pub(crate) fn run_for_cargo(arguments: &CargoImageArguments) -> anyhow::Result<ExitCode> {
    let options = arguments.packing.check()?;
    let linked_with = &arguments.linked_with;
    let choice = linked_with.libc.check()?;
    let has_entry_point = arguments.packing.has_entry_point();
    let sessions = Packing::new(&choice, &arguments.cargo, linked_with.stack_size)?;
    match sessions.build(has_entry_point)? {
        Ok((programs, origin)) => pack(&programs, &options, &origin),
        Err(code) => Ok(code),
    }
}

fn pack(files: &[PathBuf], options: &Options, origin: &Origin) -> anyhow::Result<ExitCode> {
    let dynamic = match options.with_libraries {
        true => Dynamic::PackWithLibraries,
        false => Dynamic::Refuse,
    };
    let programs = programs::read(files, dynamic)?;
    packing::pack(&programs, options, origin)?;
    Ok(ExitCode::SUCCESS)
}
