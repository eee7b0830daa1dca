//! The program `reheap`.
fn main() -> std::process::ExitCode {
    reheap_cli::main_reheap()
}
