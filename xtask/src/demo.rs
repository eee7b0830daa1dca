//! `make demo`: from a machine with Rust to tables, in a few minutes.

use crate::prerequisites;
use crate::programs;
use crate::progress::Progress;
use crate::workspace::Workspace;
use anyhow::Result;
use reheap_allocators::catalogue::CATALOGUE;

const ROUNDS: &str = "8";

pub(crate) fn run(workspace: &Workspace, all: bool) -> Result<()> {
    let progress = Progress::start();
    progress.step(
        "building reheap",
        workspace
            .cargo()
            .args(["build", "--release", "-p", "reheap"]),
    )?;
    prerequisites::install_missing(workspace, &progress)?;
    let allocators = CATALOGUE.iter().filter_map(|allocator| {
        let recipe = allocator.build.as_ref()?;
        (all || !recipe.builds_slowly).then_some(allocator.name)
    });
    let mut variants = "glibc,musl".to_owned();
    for allocator in allocators {
        variants.push_str(&format!(",musl+{allocator}"));
    }
    for program in programs::small(workspace) {
        let mut command = workspace.cargo_reheap();
        command.args(["bench", "--name", program.package, "--rounds", ROUNDS]);
        command.args(["--variant", &variants]);
        command.args(
            program
                .sweep
                .map(|sweep| ["-L", sweep])
                .into_iter()
                .flatten(),
        );
        command.args(program.cargo_flags(workspace));
        command.arg("--").args(&program.arguments);
        progress.step(
            &format!("comparing allocators with {}", program.package),
            &mut command,
        )?;
    }
    progress.say("done");
    Ok(())
}
