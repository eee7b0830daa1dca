//! `reheap preload`: writes a preload for those who deploy it by other means.

use anyhow::Context as _;
use reheap_allocators::cache::{sha256, write_by_rename};
use reheap_allocators::preload;
use reheap_allocators::target::{Architecture, Libc, Target};
use reheap_command::choice::{AllocatorArguments, AllocatorName, Choice};
use reheap_command::ui::{self, Failure};
use reheap_elf::identify::{self, LibcVersion};
use reheap_workshop::preloading;
use reheap_workshop::workshop::{Network, Workshop};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(crate) const EXAMPLES: &str = "\
The library stays where you put it: nothing else on the machine changes.

Examples:
  reheap preload -a jemalloc -o /usr/local/lib/reheap
  reheap preload -a mimalloc -t purge_delay=0 --libc musl --arch aarch64 -o ./files
  reheap preload -a jemalloc -o . --json | jq -r .path";

#[derive(Debug, clap::Args)]
#[command(mut_arg("allocator", |argument| argument
    .help("The allocator (see `reheap list`) [default: mimalloc]")
    .value_parser(AllocatorName::Another)))]
pub(crate) struct PreloadArguments {
    #[command(flatten)]
    choice: AllocatorArguments,
    /// The libc of the programs that are to load it [default: that of this system's programs]
    #[arg(long, value_name = "LIBC")]
    libc: Option<LibcName>,
    /// The processor: x86_64 or aarch64 [default: this machine's]
    #[arg(long, value_name = "ARCH", hide_possible_values = true)]
    arch: Option<ArchitectureName>,
    /// The directory to write it into, made if it is missing; a library of the same name there is replaced
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum LibcName {
    Glibc,
    Musl,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ArchitectureName {
    #[value(name = "x86_64", alias = "amd64")]
    X86_64,
    #[value(name = "aarch64", alias = "arm64")]
    Aarch64,
}

impl PreloadArguments {
    fn target(&self) -> anyhow::Result<Target> {
        let libc = match self.libc {
            Some(LibcName::Glibc) => Libc::Glibc,
            Some(LibcName::Musl) => Libc::Musl,
            None => preloading::libc_of_this_system()?,
        };
        match self.arch {
            Some(ArchitectureName::X86_64) => Ok(Target::new(Architecture::X86_64, libc)),
            Some(ArchitectureName::Aarch64) => Ok(Target::new(Architecture::Aarch64, libc)),
            None => Target::of_this_machine(libc).ok_or_else(|| {
                let text = "there is no library for this machine's processor";
                Failure::failed(text)
                    .hint("name another: --arch x86_64")
                    .into()
            }),
        }
    }
}

/// Writes the library and prints what to do with it.
pub(crate) fn run(arguments: &PreloadArguments) -> anyhow::Result<ExitCode> {
    let choice = arguments.choice.check()?;
    if choice.is_stock() {
        let text =
            "cannot write a preload of `stock`: it is the allocator that programs already have";
        return Err(Failure::usage(text)
            .hint("choose another: `reheap list` shows all")
            .into());
    }
    let target = arguments.target()?;
    let output = &arguments.output;
    if output.exists() && !output.is_dir() {
        let text = format!("{}: it is not a directory", cannot_write_into(output));
        return Err(Failure::failed(text).into());
    }
    let workshop = Workshop::new(Network::AsConfigured);
    let bytes = workshop.tuned_preload(&choice, &target)?;
    let path = made_directory(output)?.join(preload::file_name(choice.allocator));
    write_by_rename(&path, &bytes, 0o755)?;
    let written = Written {
        choice: &choice,
        target: &target,
        oldest: oldest_glibc(&bytes)?,
        path: &path,
        bytes: &bytes,
    };
    ui::data(&if arguments.json {
        format!("{:#}\n", written.as_json())
    } else {
        written.as_text()
    })?;
    if written.variable().is_none() {
        ui::note(
            "LD_PRELOAD allows no blank, colon or dollar sign in a path: copy the file elsewhere",
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn cannot_write_into(directory: &Path) -> String {
    format!("cannot write a library into `{}`", directory.display())
}

/// Where the library goes, as a program that has another working directory must name it.
fn made_directory(given: &Path) -> anyhow::Result<PathBuf> {
    let made = fs::create_dir_all(given).and_then(|()| given.canonicalize());
    made.with_context(|| cannot_write_into(given))
}

/// The oldest glibc that has all the symbol versions that the library needs. `None` for musl, which has no versions.
fn oldest_glibc(library: &[u8]) -> anyhow::Result<Option<String>> {
    let identity = identify::identify(library).context("cannot read the library")?;
    Ok(match identity.libc.version {
        Some(LibcVersion::AtLeast(version)) => Some(version),
        _ => None,
    })
}

/// A library that is where the user wants it.
struct Written<'a> {
    choice: &'a Choice,
    target: &'a Target,
    oldest: Option<String>,
    path: &'a Path,
    bytes: &'a [u8],
}

impl Written<'_> {
    /// What loads it as `LD_PRELOAD`; none where that cannot hold its path.
    fn variable(&self) -> Option<String> {
        let path = self.path.to_string_lossy().into_owned();
        preload::fits_into_variable(self.path).then_some(path)
    }

    fn as_text(&self) -> String {
        let (libc, arch) = (self.target.libc(), self.target.arch());
        let libc = match &self.oldest {
            Some(version) => format!("{libc} {version} or later"),
            None => libc.to_string(),
        };
        let mut text = format!("{}\n", self.path.display());
        text.push_str(&format!("  for programs on {arch} with {libc}\n"));
        if !self.choice.tuning.is_empty() {
            let tuning = self.choice.tuning.as_given();
            let options: Vec<String> = tuning.iter().map(|(k, v)| format!("{k}={v}")).collect();
            let options = options.join(" ");
            text.push_str(&format!(
                "  with {options} in it; the allocator's own environment variables still win\n"
            ));
        }
        if let Some(path) = self.variable() {
            text.push_str(&format!(
                "\nIn a shell or a script:  export LD_PRELOAD={path}\n"
            ));
            text.push_str(&format!(
                "In a systemd unit:       Environment=LD_PRELOAD={path}\n"
            ));
            text.push_str(&format!("In a Dockerfile:         ENV LD_PRELOAD={path}\n"));
        }
        text
    }

    fn as_json(&self) -> serde_json::Value {
        json!({
            "path": self.path.to_string_lossy(),
            "sha256": sha256(self.bytes),
            "size": self.bytes.len(),
            "allocator": self.choice.allocator.name,
            "version": self.choice.allocator.version,
            "tuning": self.choice.tuning.as_given(),
            "libc": self.target.libc().to_string(),
            "libc_at_least": self.oldest,
            "architecture": self.target.arch().to_string(),
            "environment": {"LD_PRELOAD": self.variable()},
        })
    }
}
