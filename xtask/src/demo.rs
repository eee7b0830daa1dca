//! `make demo`: from a machine with Rust to tables, in a few minutes.

use crate::comparison::{compare, legend};
use crate::machine::Machine;
use crate::prerequisites;
use crate::progress::Progress;
use crate::variants::{self, Selection};
use crate::workspace::Workspace;
use anyhow::Result;

const ROUNDS: usize = 7;

pub(crate) fn run(workspace: &Workspace, all: bool) -> Result<()> {
    let progress = Progress::start();
    let machine = Machine::describe()?;
    let selection = if all {
        Selection::All
    } else {
        Selection::Quick
    };
    progress.step(
        "building reheap",
        workspace
            .cargo()
            .args(["build", "--release", "-p", "reheap"]),
    )?;
    prerequisites::install_missing(workspace, &progress)?;
    let (built, left_out) = variants::build(workspace, &progress, selection)?;
    let comparisons = compare(&built, &progress, ROUNDS, 1)?;
    progress.say("done");
    for comparison in &comparisons {
        print!("\n{}\n\n{}", comparison.title(), comparison.table()?);
    }
    println!("\n{}\n{machine}", legend(ROUNDS));
    for left_out in left_out {
        println!("left out: {}: {}", left_out.variant, left_out.reason);
    }
    Ok(())
}
