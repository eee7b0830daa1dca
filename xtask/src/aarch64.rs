//! Static programs for the other processor: Rust brings the linker, and all that it links for this target.

use std::process::Command;

/// The target.
pub const TARGET: &str = "aarch64-unknown-linux-musl";

/// Makes a subcommand of Cargo build for it.
pub fn build_for(cargo: &mut Command) -> &mut Command {
    cargo
        .args(["--target", TARGET])
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER", "rust-lld")
}
