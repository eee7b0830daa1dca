//! `reheap image` and `cargo reheap image`: a container image from programs, or an allocator for an image that is there,
//! without a container engine.

use reheap_command::choice::{AllocatorName, Choice, StaticArguments};
use reheap_command::ui::Failure;
use reheap_packing::added::Change;
use reheap_packing::options::{Options, PackingArguments};
use reheap_packing::programs::{self, Dynamic};
use reheap_static::project::{Origin, Packing};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

pub(crate) const EXAMPLES: &str = "Examples:\n  \
    reheap image target/x86_64-unknown-linux-musl/release/app -o app.tar\n  \
    reheap image app --port 8080 --env RUST_LOG=info --file config.toml:/etc/app/ -o app.tar\n  \
    reheap image x86_64/app aarch64/app -o app.tar\n  \
    reheap image app --format docker -o app.tar && docker load -i app.tar\n  \
    reheap image app --push registry.example.org/team/app:1.0\n  \
    reheap image --add jemalloc python.tar -o python-jemalloc.tar -t narenas=4\n  \
    reheap image --add mimalloc docker://redis:7 --push registry.example.org/team/redis:7\n  \
    reheap image --remove python-jemalloc.tar -o python.tar";

pub(crate) const CARGO_EXAMPLES: &str = "Examples:\n  \
    cargo reheap image --release -o app.tar\n  \
    cargo reheap image --release --bin server --port 8080 -o server.tar\n  \
    cargo reheap image --release --target x86_64-unknown-linux-musl \\\n    \
    --target aarch64-unknown-linux-musl -o app.tar";

/// What only an image of programs can have.
const OF_PROGRAMS: [&str; 10] = [
    "base",
    "entrypoint",
    "env",
    "port",
    "label",
    "file",
    "user",
    "ca_certificates",
    "tzdata",
    "with_libraries",
];

#[derive(Debug, clap::Args)]
pub(crate) struct ImageArguments {
    /// The programs; the first is the one that starts. Those for other processors become images of
    /// other platforms. With --add or --remove: an image, as a file, a directory or docker://NAME:TAG
    #[arg(value_name = "BINARY|IMAGE", required = true)]
    programs: Vec<PathBuf>,
    /// Add an allocator to an image that somebody else built
    #[arg(long, value_name = "ALLOCATOR", value_parser = AllocatorName::Another, hide_possible_values = true, conflicts_with_all = OF_PROGRAMS)]
    add: Option<String>,
    /// An option of the allocator to add; `reheap list NAME` shows them
    #[arg(short, long, value_name = "KEY=VALUE", requires = "add")]
    tuning: Vec<String>,
    /// Take off what --add put on an image, so that it has its old digest again
    #[arg(long, conflicts_with = "add", conflicts_with_all = OF_PROGRAMS)]
    remove: bool,
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

/// Packs programs that are there, or changes an image.
pub(crate) fn run(arguments: &ImageArguments) -> anyhow::Result<ExitCode> {
    if let Some(allocator) = &arguments.add {
        let choice = Choice::of(allocator, &arguments.tuning)?;
        let tuning = arguments
            .tuning
            .iter()
            .map(|option| format!(" -t {option}"));
        let command = format!(
            "reheap image --add {allocator}{}",
            tuning.collect::<String>()
        );
        change(arguments)?.add(&choice, command)?;
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.remove {
        change(arguments)?.remove()?;
        return Ok(ExitCode::SUCCESS);
    }
    let options = arguments.packing.check()?;
    pack(&arguments.programs, &options, &Origin::default())
}

fn change(arguments: &ImageArguments) -> anyhow::Result<Change<'_>> {
    match arguments.programs.as_slice() {
        [image] => Change::new(image, &arguments.packing),
        _ => {
            Err(Failure::usage("give one image to add an allocator to or to remove it from").into())
        }
    }
}

/// Builds a project, and packs its programs.
pub(crate) fn run_for_cargo(arguments: &CargoImageArguments) -> anyhow::Result<ExitCode> {
    let options = arguments.packing.check()?;
    let has_entry_point = arguments.packing.has_entry_point();
    let sessions = Packing::new(&arguments.linked_with.wishes(), &arguments.cargo)?;
    match sessions.build(has_entry_point)? {
        Ok((programs, origin)) => pack(&programs, &options, &origin),
        Err(code) => Ok(code),
    }
}

fn pack(files: &[PathBuf], options: &Options, origin: &Origin) -> anyhow::Result<ExitCode> {
    // The libraries may be in the base.
    let dynamic = if options.with_libraries || options.base.is_some() {
        Dynamic::PackWithLibraries
    } else {
        Dynamic::Refuse
    };
    let programs = programs::read(files, dynamic)?;
    reheap_packing::pack(&programs, options, origin)?;
    Ok(ExitCode::SUCCESS)
}
