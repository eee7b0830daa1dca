//! Modules of Python and Node as projects make them, and what an allocator needs in them.

use reheap_adopt::adoption::wheel::{self, Language, Needs};
use reheap_adopt::condition::{Build, Condition};
use reheap_adopt::crates;
use reheap_adopt::project::Project;
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

/// A project of these files, beside a library without a line.
fn with_project<T>(files: &[(&str, &str)], see: impl FnOnce(&Project) -> T) -> T {
    let directory = tempfile::tempdir().unwrap();
    for (name, contents) in [("src/lib.rs", "")].iter().chain(files) {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
    }
    let manifest = directory.path().join("Cargo.toml");
    see(&Project::read(&Command::new("cargo"), &manifest).unwrap())
}

fn manifest(rest: &str) -> String {
    format!("[package]\nname = \"words\"\nversion = \"0.1.0\"\nedition = \"2021\"\n{rest}")
}

const CDYLIB: &str = "[lib]\ncrate-type = [\"cdylib\"]\n";

fn languages(files: &[(&str, &str)]) -> Vec<Language> {
    with_project(files, |project| {
        let modules = wheel::modules(project);
        modules.iter().map(|module| module.language).collect()
    })
}

#[test]
fn modules_are_known_by_dependencies_and_by_the_files_of_their_tools() {
    let pyo3 = manifest(&format!("{CDYLIB}[dependencies]\npyo3 = \"0.27\"\n"));
    assert_eq!(languages(&[("Cargo.toml", &pyo3)]), [Language::Python]);
    let napi = manifest(&format!(
        "{CDYLIB}[dependencies]\nnapi = {{ version = \"3\" }}\n"
    ));
    assert_eq!(languages(&[("Cargo.toml", &napi)]), [Language::Node]);
    let plain = manifest(CDYLIB);
    let maturin = ("pyproject.toml", "[tool.maturin]\nbindings = \"cffi\"\n");
    assert_eq!(
        languages(&[("Cargo.toml", &plain), maturin]),
        [Language::Python]
    );
    let cli = (
        "package.json",
        "{ \"napi\": { \"binaryName\": \"words\" } }\n",
    );
    assert_eq!(languages(&[("Cargo.toml", &plain), cli]), [Language::Node]);
}

#[test]
fn other_libraries_are_no_modules() {
    assert_eq!(languages(&[("Cargo.toml", &manifest(CDYLIB))]), []);
    let for_rust = manifest("[dependencies]\npyo3 = \"0.27\"\n");
    assert_eq!(languages(&[("Cargo.toml", &for_rust)]), []);
    let in_tests = manifest(&format!("{CDYLIB}[dev-dependencies]\npyo3 = \"0.27\"\n"));
    assert_eq!(languages(&[("Cargo.toml", &in_tests)]), []);
    let other_tool = ("pyproject.toml", "[tool.ruff]\n# [tool.maturin]\n");
    assert_eq!(
        languages(&[("Cargo.toml", &manifest(CDYLIB)), other_tool]),
        []
    );
}

/// What a package needs in a module of Python, with these files.
fn needs(package: &str, files: &[(&str, &str)]) -> Option<Needs> {
    let pyo3 = manifest(&format!("{CDYLIB}[dependencies]\npyo3 = \"0.27\"\n"));
    let mut all = vec![("Cargo.toml", pyo3.as_str())];
    all.extend(files);
    with_project(&all, |project| {
        let module = wheel::modules(project)[0];
        module.needs(crates::find(package).unwrap(), project.repository(), None)
    })
}

fn holds(condition: &Condition, triple: &str) -> bool {
    condition.holds(&Build {
        target: cfg_expr::targets::get_builtin_target_by_triple(triple).unwrap(),
        features: &BTreeSet::new(),
        others: &BTreeSet::new(),
    })
}

#[test]
fn each_allocator_gets_the_feature_that_its_package_has() {
    assert_eq!(needs("mimalloc", &[]).unwrap().feature, "local_dynamic_tls");
    let jemalloc = needs("tikv-jemallocator", &[]).unwrap();
    assert_eq!(jemalloc.feature, "disable_initial_exec_tls");
    assert_eq!(
        jemalloc.environment,
        [("JEMALLOC_SYS_WITH_LG_PAGE".to_owned(), "16".to_owned())]
    );
    let snmalloc = needs("snmalloc-rs", &[]).unwrap();
    assert_eq!(snmalloc.feature, "local_dynamic_tls");
    assert_eq!(needs("rpmalloc", &[]), None);
    let notes = needs("mimalloc", &[]).unwrap().notes.join("\n");
    assert!(notes.contains("stay in Python's own heap"), "{notes}");
    assert!(!notes.contains("GCC 4.8"), "{notes}");
}

#[test]
fn wheels_whose_compiler_is_too_old_for_mimalloc_keep_their_allocator() {
    let workflow = "jobs:\n  wheels:\n    steps:\n      - uses: PyO3/maturin-action@v1\n        with:\n          target: aarch64\n\
                    \x20         manylinux: MANYLINUX\n";
    let with = |manylinux: &str, package: &str| {
        let workflow = workflow.replace("MANYLINUX", manylinux);
        needs(package, &[(".github/workflows/wheels.yml", &workflow)]).unwrap()
    };
    let condition = with("manylinux2014", "mimalloc").condition(&Condition::always());
    assert!(
        !holds(&condition, "aarch64-unknown-linux-gnu"),
        "{condition}"
    );
    assert!(
        holds(&condition, "aarch64-unknown-linux-musl")
            && holds(&condition, "x86_64-unknown-linux-gnu")
    );
    assert_eq!(with("2_28", "mimalloc").except, None);
    assert_eq!(with("auto\n          args: --zig", "mimalloc").except, None);
    assert_eq!(with("manylinux2014", "tikv-jemallocator").except, None);
}

#[test]
fn a_toolchain_that_refuses_dates_is_told_to_take_them() {
    let config = "[env]\nCFLAGS = \"-Werror=date-time -O2\"\n";
    let needs = needs("mimalloc", &[(".cargo/config.toml", config)]).unwrap();
    let own = (
        "CFLAGS_x86_64_unknown_linux_gnu".to_owned(),
        "-Wno-error=date-time".to_owned(),
    );
    assert!(needs.environment.contains(&own), "{needs:?}");
}

#[test]
fn users_hear_of_rust_programs_and_of_musl() {
    let napi =
        manifest("[lib]\ncrate-type = [\"cdylib\", \"rlib\"]\n[dependencies]\nneon = \"1\"\n");
    let notes = |files: &[(&str, &str)]| {
        let mut all = vec![("Cargo.toml", napi.as_str())];
        all.extend(files);
        with_project(&all, |project| {
            let module = wheel::modules(project)[0];
            let mimalloc = crates::find("mimalloc").unwrap();
            module
                .needs(mimalloc, project.repository(), None)
                .unwrap()
                .notes
                .join("\n")
        })
    };
    let alone = notes(&[]);
    assert!(
        alone.contains("programs that link it get mimalloc, too"),
        "{alone}"
    );
    assert!(alone.contains("target-feature=-crt-static"), "{alone}");
    let config = "[target.x86_64-unknown-linux-musl]\nrustflags = [\"-C\", \"target-feature=-crt-static\"]\n";
    assert!(!notes(&[(".cargo/config.toml", config)]).contains("crt-static"));
}
