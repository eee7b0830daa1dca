//! The workloads, built in every variant that is compared.
//!
//! The baselines are built with plain Cargo, so that nothing of reheap is in them.

use crate::progress::{Progress, shown};
use crate::workspace::{Workspace, musl_target};
use anyhow::{Context, Result, ensure};
use reheap_allocators::catalogue::CATALOGUE;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// A program under `workloads/`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    /// For `--amount`: enough that starting the process does not count.
    pub(crate) amount: u64,
}

pub(crate) const WORKLOADS: [Workload; 2] = [
    Workload {
        name: "churn",
        amount: 4_000_000,
    },
    Workload {
        name: "passwords",
        amount: 1_000_000,
    },
];

/// A way to build a workload.
#[derive(Clone, Debug)]
pub(crate) struct Variant {
    /// As reports write it.
    pub(crate) name: String,
    recipe: Recipe,
}

#[derive(Clone, Copy, Debug)]
enum Recipe {
    /// Cargo for the host.
    Glibc,
    /// Cargo for musl, as it comes.
    Musl,
    /// Cargo for musl, with a crate as global allocator, chosen by a feature of the workloads.
    MuslWithCrate(&'static str),
    /// reheap, with an allocator of the catalogue.
    Reheap(&'static str),
}

/// The name of the variant that ratios to the system's libc are for.
pub(crate) const GLIBC: &str = "glibc";
/// The name of the variant that ratios to musl's own allocator are for.
pub(crate) const STOCK_MUSL: &str = "musl";

/// Which allocators of the catalogue take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Selection {
    /// Those that build quickly.
    Quick,
    /// All.
    All,
    /// All, and the crates that projects use today.
    AllAndCrates,
}

pub(crate) fn variants(selection: Selection) -> Vec<Variant> {
    let mut variants = vec![
        Variant {
            name: GLIBC.to_owned(),
            recipe: Recipe::Glibc,
        },
        Variant {
            name: STOCK_MUSL.to_owned(),
            recipe: Recipe::Musl,
        },
    ];
    if selection == Selection::AllAndCrates {
        let crates = [
            ("mimalloc", "mimalloc-crate"),
            ("tikv-jemallocator", "jemalloc-crate"),
        ];
        variants.extend(crates.map(|(package, feature)| Variant {
            name: format!("musl, crate {package}"),
            recipe: Recipe::MuslWithCrate(feature),
        }));
    }
    variants.extend(reheap_allocators(selection).map(|allocator| Variant {
        name: format!("musl+{allocator}"),
        recipe: Recipe::Reheap(allocator),
    }));
    variants
}

/// The names of the catalogue's allocators that take part; not the libc's own.
pub(crate) fn reheap_allocators(selection: Selection) -> impl Iterator<Item = &'static str> {
    CATALOGUE.iter().filter_map(move |allocator| {
        let recipe = allocator.build.as_ref()?;
        (selection != Selection::Quick || !recipe.builds_slowly).then_some(allocator.name)
    })
}

/// The executables of one variant, in the order of [`WORKLOADS`].
pub(crate) struct Built {
    pub(crate) variant: Variant,
    pub(crate) executables: [PathBuf; WORKLOADS.len()],
}

/// A variant that takes no part, and why.
#[derive(Debug, serde::Serialize)]
pub(crate) struct LeftOut {
    pub(crate) variant: String,
    pub(crate) reason: String,
}

/// Builds the workloads in all variants. One that cannot be built here is left out, unless it is a baseline.
pub(crate) fn build(
    workspace: &Workspace,
    progress: &Progress,
    selection: Selection,
) -> Result<(Vec<Built>, Vec<LeftOut>)> {
    let (mut built, mut left_out) = (Vec::new(), Vec::new());
    for variant in variants(selection) {
        match build_variant(workspace, progress, &variant) {
            Ok(executables) => built.push(Built {
                variant,
                executables,
            }),
            Err(error) if matches!(variant.recipe, Recipe::Glibc | Recipe::Musl) => {
                return Err(error);
            }
            Err(error) => {
                progress.say(format!("left out: {error:#}"));
                left_out.push(LeftOut {
                    variant: variant.name,
                    reason: format!("{error:#}"),
                });
            }
        }
    }
    Ok((built, left_out))
}

fn build_variant(
    workspace: &Workspace,
    progress: &Progress,
    variant: &Variant,
) -> Result<[PathBuf; WORKLOADS.len()]> {
    let target = musl_target()?;
    let (mut command, folder) = match variant.recipe {
        Recipe::Glibc => (cargo_build(workspace), "release".to_owned()),
        Recipe::Musl | Recipe::MuslWithCrate(_) => {
            let mut command = cargo_build(workspace);
            command.args(["--target", target.triple()]);
            (command, format!("{target}/release"))
        }
        Recipe::Reheap(allocator) => {
            let mut command = workspace.cargo_reheap();
            command.args(["build", "--release", "-a", allocator]);
            (command, format!("{target}/release"))
        }
    };
    for workload in WORKLOADS {
        command.args(["-p", workload.name]);
        if let Recipe::MuslWithCrate(feature) = variant.recipe {
            command.args(["--features", &format!("{}/{feature}", workload.name)]);
        }
    }
    progress.step(
        &format!("building the workloads: {}", variant.name),
        &mut command,
    )?;
    let aside = workspace
        .target
        .join("demo")
        .join(variant.name.replace(", ", "+").replace(' ', "-"));
    fs::create_dir_all(&aside)
        .with_context(|| format!("cannot make the folder `{}`", aside.display()))?;
    let executables = WORKLOADS.map(|workload| aside.join(workload.name));
    for (workload, executable) in WORKLOADS.iter().zip(&executables) {
        let from = workspace.target.join(&folder).join(workload.name);
        fs::copy(&from, executable).with_context(|| {
            format!(
                "cannot copy `{}` to `{}`",
                from.display(),
                executable.display()
            )
        })?;
        if let Recipe::Reheap(allocator) = variant.recipe {
            check(workspace, executable, allocator)?;
        }
    }
    Ok(executables)
}

fn cargo_build(workspace: &Workspace) -> Command {
    let mut command = workspace.cargo();
    command.args(["build", "--release"]);
    command
}

/// Asks `reheap inspect` which allocator an executable has: none is claimed to be active before it was seen.
fn check(workspace: &Workspace, executable: &PathBuf, allocator: &str) -> Result<()> {
    let mut command = workspace.reheap();
    command.arg("inspect").arg("--json").arg(executable);
    let output = command
        .output()
        .with_context(|| format!("cannot start {}", shown(&command)))?;
    ensure!(
        output.status.success(),
        "{} failed: {}",
        shown(&command),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    let report: serde_json::Value = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("{} printed no JSON", shown(&command)))?;
    let marker = &report[0]["marker"];
    ensure!(
        marker["allocator"] == allocator && marker["replaced"] == serde_json::json!([]),
        "`{}` was built with {allocator}, but its marker is {marker}",
        executable.display()
    );
    Ok(())
}
