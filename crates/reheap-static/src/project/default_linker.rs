//! Finds the linker that does the work when reheap only adds a derived libc.

use super::linker;
use anyhow::Context as _;
use reheap_command::env_vars;
use reheap_command::ui::Failure;
use std::path::{Path, PathBuf};

/// The linker that the user configured, as reheap can start it.
pub(super) fn usable(linker: PathBuf, rustc: &Path) -> Result<PathBuf, Failure> {
    let text = linker.to_string_lossy();
    // It drops `-lc` and Rust's libc.a, and with them the derived one.
    if text.contains("zigbuild") || text.contains("zigcc") {
        let message = format!(
            "the configured linker `{text}` is cargo-zigbuild's, which ignores a derived libc"
        );
        let hint = "build without cargo-zigbuild: cargo reheap build";
        return Err(Failure::failed(message).hint(hint));
    }
    if linker::is_script(&linker) {
        let message = format!("the configured linker `{text}` is reheap's own");
        let hint = "take it out of Cargo's configuration: `cargo reheap` tells Cargo about it";
        return Err(Failure::failed(message).hint(hint));
    }
    // rustc starts linkers with the directory of its own in PATH, in front. For a relink there is no rustc.
    if text == RUST_LLD {
        Ok(rust_lld(rustc).unwrap_or(linker))
    } else {
        Ok(linker)
    }
}

const RUST_LLD: &str = "rust-lld";

/// The LLD that comes with a Rust compiler.
pub(super) fn rust_lld(rustc: &Path) -> anyhow::Result<PathBuf> {
    let output = env_vars::command(rustc)
        .args(["--print", "sysroot", "--print", "host-tuple"])
        .output()
        .with_context(|| format!("cannot start `{}`", rustc.display()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines = text.lines();
    let (sysroot, host) = (
        lines.next().unwrap_or_default(),
        lines.next().unwrap_or_default(),
    );
    let path = Path::new(sysroot)
        .join("lib/rustlib")
        .join(host)
        .join("bin")
        .join(RUST_LLD);
    if path.is_file() {
        return Ok(path);
    }
    let message =
        "cannot link for another processor: Rust's own linker, rust-lld, is not installed";
    Err(Failure::failed(message).into())
}
