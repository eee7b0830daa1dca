//! Runs on the host, where nothing of the derived libc may reach it, and generates a part of the program.
use std::fmt::Write as _;
use std::{env, fs, path::Path};

fn main() {
    assert_eq!(
        env::var("TARGET").as_deref(),
        Ok("x86_64-unknown-linux-musl")
    );
    // Linked with the target's flags, this would not be a program of the host.
    let host = env::var("HOST").expect("Cargo sets it");
    assert_eq!(cfg!(target_env = "musl"), host.ends_with("musl"));
    let mut generated = String::from("pub const SQUARES: [(&str, u64); 1000] = [\n");
    for i in 0..1000u64 {
        writeln!(generated, "    (\"square of {i}\", {}),", i * i).expect("a String takes all");
    }
    generated.push_str("];\n");
    let directory = env::var_os("OUT_DIR").expect("Cargo sets it");
    fs::write(Path::new(&directory).join("squares.rs"), generated).expect("OUT_DIR is writable");
    println!("cargo::rerun-if-changed=build.rs");
}
