//! `cargo lab count-programs`: how many instructions programs for AArch64 execute with each libc and allocator.
//!
//! It needs no such processor: a plugin of qemu counts (`lab/instructions.c`). Counts are no times, but all that can be
//! known without one. The memory that the programs need is not: the emulator's own cannot be told from it.

use crate::emulator;
use crate::machine::today;
use crate::measurement;
use crate::programs::{REAL, RustProgram, rust_program};
use crate::table::Table;
use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::aarch64::TARGET;
use xtask::command::stdout_of;
use xtask::files;
use xtask::progress::Progress;
use xtask::workspace::Workspace;

/// The raw data, and the table that is made from them.
pub(crate) const RAW: &str = "programs-aarch64.json";
pub(crate) const PAGE: &str = "programs-aarch64.md";
const GLIBC_TARGET: &str = "aarch64-unknown-linux-gnu";
const GLIBC_GCC: &str = "aarch64-linux-gnu-gcc";
/// Where Debian has the libraries that programs for that target load.
const GLIBC_ROOT: &str = "/usr/aarch64-linux-gnu";
/// A processor that has nothing newer than ARMv8.0-A.
const PROCESSOR: &str = "cortex-a53";
/// Addresses differ from run to run, and so what an allocator does with them.
const RUNS: usize = 3;
/// The first of them is what the others are compared with.
const VARIANTS: [(&str, Made); 12] = [
    ("glibc", Made::Glibc),
    ("glibc+mimalloc", Made::Preloaded("mimalloc")),
    ("glibc+jemalloc", Made::Preloaded("jemalloc")),
    ("musl", Made::Musl("stock")),
    ("musl, crate mimalloc", Made::Crate("mimalloc-crate")),
    (
        "musl, crate tikv-jemallocator",
        Made::Crate("jemalloc-crate"),
    ),
    ("musl+mimalloc", Made::Musl("mimalloc")),
    ("musl+mimalloc3", Made::Musl("mimalloc3")),
    ("musl+jemalloc", Made::Musl("jemalloc")),
    ("musl+snmalloc", Made::Musl("snmalloc")),
    ("musl+rpmalloc", Made::Musl("rpmalloc")),
    ("musl+mimalloc-secure", Made::Musl("mimalloc-secure")),
];

/// How a program gets its allocator.
#[derive(Clone, Copy)]
enum Made {
    /// By plain Cargo, with glibc's own.
    Glibc,
    /// By plain Cargo, with this allocator in a preload of reheap.
    Preloaded(&'static str),
    /// As the crate of this feature, in a static executable with stock musl.
    Crate(&'static str),
    /// By reheap, in musl.
    Musl(&'static str),
}

#[derive(Serialize, Deserialize)]
struct Results {
    date: String,
    emulator: String,
    programs: Vec<Program>,
}

#[derive(Serialize, Deserialize)]
struct Program {
    name: String,
    arguments: Vec<String>,
    variants: Vec<Variant>,
}

#[derive(Serialize, Deserialize)]
struct Variant {
    name: String,
    /// Of each run.
    instructions: Vec<u64>,
}

/// Builds and counts everything, and writes both files.
pub(crate) fn run(workspace: &Workspace, directory: &Path) -> Result<()> {
    let progress = Progress::start();
    workspace.build_reheap(&progress)?;
    let counting = Counting::prepare(workspace, &progress)?;
    let programs = programs(workspace)
        .iter()
        .map(|program| counting.program(program))
        .collect::<Result<Vec<_>>>()?;
    let results = Results {
        date: today(),
        emulator: emulator::version("qemu-aarch64")?,
        programs,
    };
    let raw = files::json(&results)?;
    let files = [(PAGE, page(&raw)?), (RAW, raw)];
    measurement::write(&progress, &workspace.root.join(directory), &files)
}

/// The programs, with so little work that an emulator needs seconds.
fn programs(workspace: &Workspace) -> [RustProgram; 4] {
    let program = |package, manifest, amount: &str| RustProgram {
        arguments: ["--threads", "1", "--amount", amount]
            .map(String::from)
            .to_vec(),
        ..rust_program(workspace, package, manifest)
    };
    [
        program("churn", "Cargo.toml", "1000000"),
        program("passwords", "Cargo.toml", "200000"),
        program("json", "Cargo.toml", "10"),
        program("tokenize", REAL, "3000"),
    ]
}

/// What builds and counts.
struct Counting<'a> {
    workspace: &'a Workspace,
    progress: &'a Progress,
    /// A directory of its own.
    place: PathBuf,
    plugin: PathBuf,
}

impl<'a> Counting<'a> {
    fn prepare(workspace: &'a Workspace, progress: &'a Progress) -> Result<Self> {
        let place = workspace.target.join("program-counts");
        files::make_directory(&place)?;
        let plugin = emulator::plugin(workspace, progress, "instructions", &place)?;
        Ok(Self {
            workspace,
            progress,
            place,
            plugin,
        })
    }

    fn program(&self, program: &RustProgram) -> Result<Program> {
        let mut variants = Vec::new();
        let mut output = None;
        for (name, made) in VARIANTS {
            let what = format!("{} as {name}", program.package);
            let mut command = self.command(program, made, &what)?;
            command.args(&program.arguments);
            self.progress.say(format!("counting {what}"));
            let mut instructions = Vec::new();
            for _ in 0..RUNS {
                let (count, printed) = self.count(&mut command).context(what.clone())?;
                let expected = output.get_or_insert_with(|| printed.clone());
                ensure!(*expected == printed, "{what} printed something else");
                instructions.push(count);
            }
            variants.push(Variant {
                name: name.to_owned(),
                instructions,
            });
        }
        Ok(Program {
            name: program.name.to_owned(),
            arguments: program.arguments.clone(),
            variants,
        })
    }

    /// qemu with the plugin and the program, without the program's arguments.
    fn command(&self, program: &RustProgram, made: Made, what: &str) -> Result<Command> {
        let mut command = Command::new("qemu-aarch64");
        let plugin = format!(
            "file={},out={}",
            self.plugin.display(),
            self.out().display()
        );
        command.args(["-cpu", PROCESSOR, "-L", GLIBC_ROOT, "-plugin", &plugin]);
        if let Made::Preloaded(allocator) = made {
            let preload = format!("LD_PRELOAD={}", self.preload(allocator)?.display());
            command.args(["-E", &preload]);
        }
        command.arg(self.build(program, made, what)?);
        Ok(command)
    }

    /// Where the plugin writes to.
    fn out(&self) -> PathBuf {
        self.place.join("count")
    }

    fn build(&self, program: &RustProgram, made: Made, what: &str) -> Result<PathBuf> {
        let target = match made {
            Made::Glibc | Made::Preloaded(_) => GLIBC_TARGET,
            Made::Crate(_) | Made::Musl(_) => TARGET,
        };
        let mut build = match made {
            Made::Glibc | Made::Preloaded(_) => {
                let mut cargo = self.workspace.cargo();
                cargo.arg("build");
                cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", GLIBC_GCC);
                cargo
            }
            Made::Crate(feature) => {
                let mut cargo = self.workspace.cargo_reheap();
                cargo.args(["build", "-a", "stock", "--features", feature]);
                cargo
            }
            Made::Musl(allocator) => {
                let mut cargo = self.workspace.cargo_reheap();
                cargo.args(["build", "-a", allocator]);
                cargo
            }
        };
        build.args(["--target", target]);
        build.args(program.cargo_flags(self.workspace));
        self.progress
            .quietly(&format!("building {what}"), &mut build)?;
        let built = self.workspace.target.join(target).join("release");
        Ok(built.join(program.executable))
    }

    /// A preload for glibc.
    fn preload(&self, allocator: &str) -> Result<PathBuf> {
        let mut command = self.workspace.reheap();
        command.args(["preload", "-a", allocator, "--libc", "glibc", "--arch"]);
        command.args(["aarch64", "--json", "-o"]).arg(&self.place);
        let printed = stdout_of(&mut command)?;
        #[derive(Deserialize)]
        struct Written {
            path: PathBuf,
        }
        let written: Written = serde_json::from_str(&printed)
            .context("cannot understand what reheap preload printed")?;
        Ok(written.path)
    }

    /// Runs it, and gives the count and what it printed.
    fn count(&self, command: &mut Command) -> Result<(u64, String)> {
        let printed = stdout_of(command)?;
        let count = files::read(self.out())?
            .trim()
            .parse()
            .context("the count is no number")?;
        Ok((count, printed))
    }
}

/// The table of these raw data.
pub(crate) fn page(raw: &str) -> Result<String> {
    let results: Results = serde_json::from_str(raw).context("cannot understand the raw data")?;
    let mut header = vec!["instructions / glibc's".to_owned()];
    header.extend(results.programs.iter().map(|program| program.name.clone()));
    header.push("mean".to_owned());
    let mut table = Table::with_header(header);
    let mut spread: f64 = 0.0;
    for (row, (name, _)) in VARIANTS.iter().enumerate() {
        let mut cells = vec![(*name).to_owned()];
        let mut logarithms = Vec::new();
        for program in &results.programs {
            let variant = program.variants.get(row).context("a variant is missing")?;
            ensure!(variant.name == *name, "`{}` is not `{name}`", variant.name);
            let (least, median, most) = sorted(variant).context("nothing was counted")?;
            let (_, baseline, _) = sorted(&program.variants[0]).context("nothing was counted")?;
            spread = spread.max((most - least) / median);
            logarithms.push((median / baseline).ln());
            cells.push(match row {
                0 => format!("{:.0} million", median / 1e6),
                _ => format!("{:.2}", median / baseline),
            });
        }
        cells.push(match row {
            0 => String::new(),
            _ => {
                let mean = logarithms.iter().sum::<f64>() / logarithms.len() as f64;
                format!("{:.2}", mean.exp())
            }
        });
        table.push(cells);
    }
    let commands: Vec<String> = results
        .programs
        .iter()
        .map(|program| format!("`{} {}`", program.name, program.arguments.join(" ")))
        .collect();
    Ok(format!(
        "# Instructions of programs for AArch64\n\nMade by `cargo lab count-programs` on {}; raw data in \
         [{RAW}]({RAW}).\n\nCounted by {} (`-cpu {PROCESSOR}`), without the kernel's. Counts are not times: no AArch64 \
         processor was at hand, so \
         neither time\nnor memory was measured. Medians of {RUNS} runs, of which the least and the most differ by {:.1} % at \
         most; the last column\nis the geometric mean. `musl` is stock musl, `musl+…` is what reheap links, and `glibc+…` has \
         reheap's preload.\n\nPrograms: {}.\n\n{}",
        results.date,
        results.emulator,
        100.0 * spread,
        commands.join(", "),
        table.render()
    ))
}

/// The least, the median and the most.
fn sorted(variant: &Variant) -> Option<(f64, f64, f64)> {
    let mut counts = variant.instructions.clone();
    counts.sort_unstable();
    let (least, most) = (*counts.first()?, *counts.last()?);
    Some((least as f64, counts[counts.len() / 2] as f64, most as f64))
}
