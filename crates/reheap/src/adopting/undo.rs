//! `reheap adopt --undo`: takes out what carries adopt's mark, and names what stays.

use super::options::SetUpArguments;
use super::{choosing, diff, files};
use reheap_adopt::adoption::removal;
use reheap_adopt::project::Project;
use reheap_command::env_vars;
use reheap_command::exit;
use reheap_command::output;
use reheap_command::ui;
use std::io;
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn run(path: Option<&Path>, arguments: &SetUpArguments) -> anyhow::Result<ExitCode> {
    let project = super::project(path)?;
    let removal = removal::of_project(&project).map_err(|error| choosing::of_project(&error))?;
    if removal.is_empty() {
        ui::note("there is nothing here that `reheap adopt` put in");
        return Ok(ExitCode::SUCCESS);
    }
    let has_changes = removal.plan.changes().next().is_some();
    if arguments.dry_run {
        let is_colourful = output::is_colourful(&io::stdout());
        ui::data(&diff::unified(&project, &removal.plan, is_colourful))?;
    } else if has_changes {
        let _lock = files::lock(&project.root)?;
        files::check_writable(&removal.plan)?;
        files::write(&removal.plan)?;
        ui::note(&format!("edited {}", diff::short(&project, &removal.plan)));
        prune_lock(&project);
    }
    for left in &removal.left {
        let place = format!("{}:{}", super::relative(&project, &left.path), left.line);
        ui::note(&format!("{place}: {}; this stays", left.why));
    }
    Ok(if removal.left.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(exit::FAILED)
    })
}

/// Lets Cargo take the packages out of `Cargo.lock` that nothing needs any more.
fn prune_lock(project: &Project) {
    if !project.root.join("Cargo.lock").is_file() {
        return;
    }
    let mut cargo = env_vars::cargo();
    cargo.current_dir(&project.root);
    cargo.args(["metadata", "--format-version", "1", "--offline"]);
    let is_done = cargo.output().is_ok_and(|output| output.status.success());
    if !is_done {
        ui::note("Cargo.lock still names the allocator's packages; the next build takes them out");
    }
}
