//! The style `reheap`: the choice is a table of Cargo.toml that `cargo reheap` reads, and the sources stay as they are.

use super::{Plan, Refusal, manifests};
use crate::project::Project;
use std::path::PathBuf;

/// What the table says.
#[derive(Debug, Clone)]
pub struct Chosen {
    /// The allocator, by its name in the catalogue.
    pub allocator: String,
    /// Its options and their values.
    pub tuning: Vec<(String, String)>,
    /// The stack size of threads, in bytes, if one was given.
    pub stack_size: Option<u64>,
    /// The targets, if some were given: triples, or one `cfg(…)`.
    pub targets: Vec<String>,
}

/// Where the table is: the manifest, and its keys.
pub fn place(project: &Project, only: Option<&str>) -> (PathBuf, &'static str) {
    let member = only.and_then(|name| project.packages.iter().find(|package| package.name == name));
    let root = project.root.join("Cargo.toml");
    let is_workspace = project.manifest.document.get("workspace").is_some();
    match member.filter(|member| member.manifest.text.path != root) {
        Some(member) => (member.manifest.text.path.clone(), "package"),
        None if is_workspace => (root, "workspace"),
        None => (root, "package"),
    }
}

/// Plans it.
///
/// # Errors
/// If the table is there already, or cannot be added.
pub fn plan(
    plan: &mut Plan,
    project: &Project,
    only: Option<&str>,
    chosen: &Chosen,
) -> Result<(), Refusal> {
    let (path, owner) = place(project, only);
    let text = plan.text(&path)?;
    let document = manifests::parsed(&text)?;
    let metadata = document.get(owner).and_then(|table| table.get("metadata"));
    if metadata.and_then(|table| table.get("reheap")).is_some() {
        let what = format!(
            "`{}` has a table `[{owner}.metadata.reheap]` already",
            path.display()
        );
        return Err(Refusal::new(what).hint("edit that table"));
    }
    let string = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let mut lines = vec![("allocator", string(&chosen.allocator))];
    if !chosen.tuning.is_empty() {
        let options = chosen.tuning.iter().map(|(key, value)| {
            let is_number = value
                .parse::<i64>()
                .is_ok_and(|number| number.to_string() == *value);
            let value = if is_number || value == "true" || value == "false" {
                value.clone()
            } else {
                string(value)
            };
            format!("{} = {value}", manifests::dotted(std::slice::from_ref(key)))
        });
        let options: Vec<String> = options.collect();
        lines.push(("tuning", format!("{{ {} }}", options.join(", "))));
    }
    lines.extend(
        chosen
            .stack_size
            .map(|bytes| ("stack-size", bytes.to_string())),
    );
    if !chosen.targets.is_empty() {
        let targets: Vec<String> = chosen.targets.iter().map(|target| string(target)).collect();
        lines.push(("targets", format!("[{}]", targets.join(", "))));
    }
    for (key, value) in lines {
        plan.edit(&path, |text| {
            manifests::add(text, &[owner, "metadata", "reheap"], key, &value)
        })?;
    }
    Ok(())
}
