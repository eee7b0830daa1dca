//! The program `cargo-reheap`, which Cargo starts for `cargo reheap`.
fn main() -> std::process::ExitCode {
    reheap_cli::main_cargo_reheap()
}
