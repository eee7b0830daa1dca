//! Every allocator in a static program for every target that has it: built with Rust's own musl, run in qemu's user mode.
//!
//! `make test` does it for one target and the default allocator.

use anyhow::{Context as _, Result, ensure};
use reheap_allocators::catalogue::{Allocator, CATALOGUE};
use reheap_allocators::target::{Architecture, Libc, Target};
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::command::stdout_of;
use xtask::files;
use xtask::progress::Progress;
use xtask::workspace::Workspace;

const MANIFEST: &str =
    "[package]\nname = \"program\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n";
const PROGRAM: &str = include_str!("static_program.rs");
const PRINTED: &str = "4000 entries\n";
/// qemu keeps an entry for each page that a program reserves: some gigabytes of memory for this much.
const LARGEST_RESERVATION_BYTES: u64 = 1 << 40;

/// qemu's name of a processor, where it is emulated.
fn emulator(architecture: Architecture) -> Option<&'static str> {
    match architecture {
        Architecture::Riscv64 => Some("qemu-riscv64"),
        Architecture::Loongarch64 => Some("qemu-loongarch64"),
        Architecture::Powerpc64le => Some("qemu-ppc64le"),
        Architecture::I686 => Some("qemu-i386"),
        Architecture::Armv7 => Some("qemu-arm"),
        // They have tests of their own.
        Architecture::X86_64 | Architecture::Aarch64 => None,
    }
}

/// Tests them all, and names at the end what could not be tested.
pub(super) fn test(workspace: &Workspace, progress: &Progress) -> Result<()> {
    progress.step(
        "reheap",
        workspace
            .cargo()
            .args(["build", "--locked", "--package", "reheap"]),
    )?;
    let project = workspace.target.join("static-program");
    files::make_directory(project.join("src"))?;
    for (name, text) in [("Cargo.toml", MANIFEST), ("src/main.rs", PROGRAM)] {
        let path = project.join(name);
        files::write(&path, text)?;
    }
    let (mut untested, mut not_run) = (Vec::new(), Vec::new());
    for architecture in Architecture::ALL {
        let Some(emulator) = emulator(architecture) else {
            continue;
        };
        let target = Target::musl(architecture);
        if let Err(error) = require_rust_for(&target) {
            progress.say(format!("{target}: {error:#}"));
            untested.push(target.triple());
            continue;
        }
        let runs = can_run(architecture, emulator)?;
        if !runs {
            not_run.push(target.triple());
        }
        for row in CATALOGUE {
            if row.missing_on(architecture).is_none() {
                progress.say(format!("{target}: {}", row.name));
                Trial {
                    programs: workspace.target.join("debug"),
                    project: &project,
                    target,
                    emulator: runs.then_some(emulator),
                }
                .of(row)
                .with_context(|| format!("{} for {target}", row.name))?;
            }
        }
    }
    for triple in not_run {
        progress.say(format!(
            "{triple}: built and inspected, but not run: Rust's library uses LSX, which qemu has from version 8.1 on"
        ));
    }
    ensure!(
        untested.is_empty(),
        "not tested, because rustup could not install them: {}",
        untested.join(", ")
    );
    Ok(())
}

fn require_rust_for(target: &Target) -> Result<()> {
    let asked = ["--print", "target-libdir", "--target", target.triple()];
    let directory = stdout_of(Command::new("rustc").args(asked))?;
    if !Path::new(directory.trim()).is_dir() {
        stdout_of(Command::new("rustup").args(["target", "add", target.triple()]))?;
    }
    Ok(())
}

/// Whether the emulator has what Rust's library for the processor uses.
fn can_run(architecture: Architecture, emulator: &str) -> Result<bool> {
    const FIRST_WITH_LSX: (u32, u32) = (8, 1);
    let printed = stdout_of(Command::new(emulator).arg("--version"))?;
    let version = printed.split_once("version ").map(|(_, version)| version);
    let mut numbers = version.into_iter().flat_map(|version| version.split('.'));
    let mut number = || numbers.next().and_then(|number| number.parse().ok());
    let version = number()
        .zip(number())
        .with_context(|| format!("`{emulator} --version` printed no version: {printed}"))?;
    Ok(architecture != Architecture::Loongarch64 || version >= FIRST_WITH_LSX)
}

struct Trial<'a> {
    /// The directory of reheap's programs.
    programs: PathBuf,
    project: &'a Path,
    target: Target,
    /// None where it cannot run the program.
    emulator: Option<&'a str>,
}

impl Trial<'_> {
    fn of(&self, row: &Allocator) -> Result<()> {
        let (allocator, triple) = (row.name, self.target.triple());
        stdout_of(
            Command::new(self.programs.join("cargo-reheap"))
                .args(["reheap", "build", "--target", triple, "-a", allocator])
                .current_dir(self.project),
        )?;
        let program = self
            .project
            .join("target")
            .join(triple)
            .join("debug/program");
        let mut inspect = Command::new(self.programs.join("reheap"));
        let inspected = stdout_of(inspect.args(["inspect", "--json"]).arg(&program))?;
        let found: serde_json::Value = serde_json::from_str(&inspected)
            .context("cannot read what `reheap inspect --json` printed")?;
        let text = found.to_string();
        let expected = match allocator {
            "stock" => "musl-mallocng",
            name => name,
        };
        ensure!(
            text.contains(&format!("\"name\":\"{expected}\"")),
            "`reheap inspect` does not name it: {text}"
        );
        // With 32 bits of addresses it cannot be large.
        let is_32_bit = matches!(self.target.arch(), Architecture::I686 | Architecture::Armv7);
        let is_small = row.address_space.bytes(Libc::Musl) <= LARGEST_RESERVATION_BYTES;
        let Some(emulator) = self.emulator.filter(|_| is_32_bit || is_small) else {
            return Ok(());
        };
        let printed = stdout_of(Command::new(emulator).arg(&program))?;
        ensure!(printed == PRINTED, "the program printed `{printed}`");
        Ok(())
    }
}
