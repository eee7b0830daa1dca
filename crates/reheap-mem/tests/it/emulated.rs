//! The functions for AArch64 in an emulator: the tests of this directory, compiled for it and run by qemu.
#![cfg(target_arch = "x86_64")]

use std::process::Command;

const TARGET: &str = "aarch64-unknown-linux-musl";

/// Runs the tests of these modules on that processor.
#[track_caller]
fn pass_on(processor: &str, modules: &[&str]) {
    let output = Command::new(env!("CARGO"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["test", "--locked", "--target", TARGET])
        .args(["--test", "it", "--"])
        .args(modules)
        // Rust brings this linker, and for this target all that it links.
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER", "rust-lld")
        .env(
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUNNER",
            format!("qemu-aarch64 -cpu {processor}"),
        )
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let has_run = |module: &&str| printed.contains(&format!("\ntest {module}"));
    assert!(
        output.status.success() && modules.iter().all(has_run),
        "{modules:?} on {processor}; `xtask/prepare install` installs what they need\n{printed}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn the_first_aarch64_processors_execute_every_function() {
    // It has nothing that came after ARMv8.0-A.
    let modules = [
        "compare::",
        "copy::",
        "properties::",
        "search::",
        "string::",
    ];
    pass_on("cortex-a53", &modules);
}

#[test]
fn a_processor_that_tags_memory_sees_no_access_to_a_granule_of_somebody_else() {
    pass_on("max", &["granules::"]);
}
