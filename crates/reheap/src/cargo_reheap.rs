//! The program `cargo-reheap`, which Cargo starts for `cargo reheap`. It becomes the `reheap` beside it.
//!
//! Both commands have most of their code in common, and two executables with all of it would make each package five
//! megabytes larger and each build minutes longer. A link would do as well, but neither wheels nor `cargo install` have
//! links.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let failure = become_reheap();
    // If it cannot be written, there is nobody left to tell.
    let _ = writeln!(std::io::stderr(), "reheap: {failure}");
    ExitCode::FAILURE
}

/// Returns only if that fails, with the reason.
fn become_reheap() -> String {
    let reheap = match std::env::current_exe() {
        Ok(program) => program.with_file_name("reheap"),
        Err(error) => return format!("cannot find the path of this program: {error}"),
    };
    let mut command = Command::new(&reheap);
    let arguments = std::env::args_os().skip(1);
    let error = command.arg0("cargo-reheap").args(arguments).exec();
    format!(
        "cannot start `{}`: {error}\n\nhint: keep `cargo-reheap` and `reheap` in one directory",
        reheap.display()
    )
}
