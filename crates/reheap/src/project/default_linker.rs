//! Finds the linker that does the work when reheap only adds a derived libc.

use crate::env_vars;
use crate::ui::Failure;
use anyhow::Context as _;
use std::path::{Path, PathBuf};

/// cargo-zigbuild's linker drops `-lc` and Rust's libc.a, and with them the derived one.
pub(super) fn refuse_zigbuild(linker: PathBuf) -> anyhow::Result<PathBuf> {
    let text = linker.to_string_lossy();
    if text.contains("zigbuild") || text.contains("zigcc") {
        let message = format!(
            "the configured linker `{text}` is cargo-zigbuild's, which ignores a derived libc"
        );
        return Err(Failure::failed(message)
            .hint("build without cargo-zigbuild: cargo reheap build")
            .into());
    }
    Ok(linker)
}

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
        .join("bin/rust-lld");
    if path.is_file() {
        return Ok(path);
    }
    let message =
        "cannot link for another processor: Rust's own linker, rust-lld, is not installed";
    Err(Failure::failed(message).into())
}
