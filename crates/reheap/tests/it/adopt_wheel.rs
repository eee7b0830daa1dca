//! What `--wheel` says of thread-local storage, tried: many modules in one Python, and modules in a program of musl.

use crate::common;
use crate::common::programs::Programs;
use crate::common::{run, target};
use reheap_adopt::crates;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// More than there is room for in a program that is running, if each insists on the fast kind.
const MODULES: usize = 40;

const MODULE: &str = "#[global_allocator]\nstatic GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;\n\n\
    #[unsafe(no_mangle)]\npub extern \"C\" fn fill(blocks: usize) -> usize {\n    \
    let all: Vec<Vec<u8>> = (0..blocks).map(|size| vec![1; size % 512 + 1]).collect();\n    \
    all.iter().map(Vec::len).sum()\n}\n";

const LOAD_IN_PYTHON: &str = "import ctypes, sys\nfor path in sys.argv[1:]:\n    \
    assert ctypes.CDLL(path).fill(512) == 512 * 513 // 2\n";

const LOAD: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char **paths) {
    for (int i = 1; i < count; i++) {
        void *module = dlopen(paths[i], RTLD_NOW);
        size_t (*fill)(size_t) = module ? (size_t (*)(size_t))dlsym(module, "fill") : 0;
        if (!fill) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
        if (fill(512) != 512 * 513 / 2) return 2;
    }
    return 0;
}
"#;

/// A shared library with mimalloc, and its copies: the dynamic linker loads each file once.
fn modules(programs: &Programs, features: &[&str], triple: &str) -> Vec<PathBuf> {
    let lock = "tests/programs/rust/own_mimalloc/Cargo.lock";
    let lock = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(lock)).unwrap();
    programs.write("Cargo.lock", lock.replace("own_mimalloc", "module"));
    programs.write(
        "Cargo.toml",
        format!(
            "[package]\nname = \"module\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[lib]\ncrate-type = [\"cdylib\"]\n\
             path = \"module.rs\"\n\n[dependencies]\nmimalloc = {{ version = \"0.1\", features = {features:?} }}\n\n[workspace]\n"
        ),
    );
    programs.write("module.rs", MODULE);
    let mut build = Command::new("cargo");
    build
        .args(["build", "--locked", "--target", triple])
        .current_dir(programs.directory())
        .env_remove("RUSTFLAGS")
        .env("CARGO_TARGET_DIR", programs.path("target"));
    if triple.ends_with("musl") {
        build
            .env("RUSTFLAGS", without_libgcc(programs))
            .env(common::of_target("CARGO_TARGET_", "_LINKER"), "musl-gcc");
    }
    run(&mut build).succeeded();
    let built = programs.path(&format!("target/{triple}/debug/libmodule.so"));
    let name = format!("{triple}{}", features.len());
    let copies = (0..MODULES).map(|index| programs.path(&format!("{name}-{index}.so")));
    let copies: Vec<PathBuf> = copies.collect();
    for copy in &copies {
        fs::copy(&built, copy).unwrap();
    }
    copies
}

/// Flags for a shared library of musl. This machine's libgcc needs glibc; Rust's own library for unwinding does not.
fn without_libgcc(programs: &Programs) -> String {
    let sysroot = run(Command::new("rustc").args(["--print", "sysroot"])).succeeded();
    let libraries = format!("lib/rustlib/{}/lib/self-contained", target());
    let unwind = Path::new(sysroot.stdout.trim())
        .join(libraries)
        .join("libunwind.a");
    programs.write(
        "libgcc_s.so",
        format!("INPUT({} -lgcc)\n", unwind.display()),
    );
    let directory = programs.directory().display();
    format!("-C target-feature=-crt-static -L native={directory}")
}

fn late_tls() -> &'static str {
    crates::find("mimalloc").unwrap().late_tls.unwrap()
}

#[test]
fn many_modules_fit_into_one_python_only_with_the_feature() {
    let programs = Programs::new();
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let load = |modules: &[PathBuf]| {
        run(Command::new("python3")
            .args(["-c", LOAD_IN_PYTHON])
            .args(modules))
    };
    let insisting = modules(&programs, &[], &triple);
    load(&insisting)
        .ended_with(1)
        .said(&["cannot allocate memory in static TLS block"]);

    let late = modules(&programs, &[late_tls()], &triple);
    load(&late).succeeded();
    let report = common::reheap("inspect").arg(&late[0]).output().unwrap();
    let report = String::from_utf8(report.stdout).unwrap();
    assert!(report.contains("Rust: mimalloc"), "{report}");
}

#[test]
fn musl_loads_a_module_only_with_the_feature() {
    let programs = Programs::new();
    let loader = programs.compile("musl-gcc", "load", LOAD, &[]);
    let load = |modules: &[PathBuf]| run(Command::new(&loader).args(modules));
    let insisting = modules(&programs, &[], &target());
    load(&insisting[..1])
        .ended_with(1)
        .said(&["initial-exec TLS resolves to dynamic definition"]);

    load(&modules(&programs, &[late_tls()], &target())).succeeded();
}
