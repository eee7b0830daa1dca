//! What is in a package, as a bill of materials that scanners read: CycloneDX, by `cargo-cyclonedx`.
//!
//! That tool knows crates. The allocators come from `-sys` crates that the programs do not depend on, so they are added:
//! each crate with the allocators in it, whose versions are what security notices name.

use super::Dist;
use anyhow::{Context as _, Result, ensure};
use reheap_allocators::catalogue::CATALOGUE;
use serde_json::{Value, json};
use std::path::Path;
use xtask::command::stdout_of;
use xtask::files;

/// The text of the bill, the same for all processors.
pub(super) fn make(dist: &Dist<'_>, sources_of_allocators: &Path) -> Result<String> {
    // The tool writes a file beside each manifest of a workspace, so it gets a copy.
    let copy = dist.scratch.join("sbom");
    files::make_empty(&copy)?;
    let mut git = dist.command("git");
    git.current_dir(&dist.workspace.root)
        .args(["checkout-index", "--all", "--prefix"])
        .arg(format!("{}/", copy.display()));
    stdout_of(&mut git)?;
    let mut bill = bill_of(dist, &copy.join("crates/reheap"), &copy)?;
    let of_allocators = bill_of(dist, sources_of_allocators, sources_of_allocators)?;
    let components = bill["components"]
        .as_array_mut()
        .context("a bill of materials has no components")?;
    components.extend(allocators(&of_allocators)?);
    Ok(format!("{bill:#}\n"))
}

/// What the tool says of a package. It takes the time from `SOURCE_DATE_EPOCH`, and then gives no random number.
fn bill_of(dist: &Dist<'_>, package: &Path, root: &Path) -> Result<Value> {
    let mut cyclonedx = dist.command("cargo");
    cyclonedx
        .current_dir(package)
        .args(["cyclonedx", "--quiet", "--format", "json"])
        .args(["--spec-version", "1.5", "--all-features", "--no-build-deps"])
        .args(["--target", "x86_64-unknown-linux-musl"])
        .args(["--override-filename", "bill"]);
    stdout_of(&mut cyclonedx)?;
    let path = package.join("bill.json");
    let text = files::read(&path)?.replace(&root.display().to_string(), "");
    serde_json::from_str(&text).with_context(|| format!("cannot understand `{}`", path.display()))
}

/// The crates of the catalogue, with what is in them.
fn allocators(bill: &Value) -> Result<Vec<Value>> {
    let crates = bill["components"].as_array().into_iter().flatten();
    let mut components: Vec<Value> = crates.cloned().collect();
    for allocator in CATALOGUE {
        let Some(package) = allocator.package() else {
            continue;
        };
        let name = package.name;
        let component = components
            .iter_mut()
            .find(|component| component["name"] == name)
            .with_context(|| format!("`{name}` is not in the bill of materials"))?;
        if component["components"].is_null() {
            component["components"] = json!([]);
        }
        let inner = component["components"].as_array_mut();
        inner.context("components are a list")?.push(json!({
            "type": "library",
            "bom-ref": format!("{}@{}", allocator.name, allocator.version),
            "name": allocator.name,
            "version": allocator.version,
            "licenses": [{ "expression": allocator.licence }],
        }));
    }
    components.retain(|component| component["components"].is_array());
    ensure!(!components.is_empty(), "the bill names no allocator");
    Ok(components)
}

/// Puts the bill where a package has it.
pub(super) fn write_to(bill: &str, directory: &Path, version: &str) -> Result<()> {
    files::write(directory.join(format!("reheap-{version}.cdx.json")), bill)
}
