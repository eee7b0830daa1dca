//! `cargo reheap install`: what is in the installed program is what was asked for, and what is said of it is true.

use crate::common::{HELLO, Project, allocator_in, is_static_pie, prints, run};
use std::path::Path;
use std::process::Command;

const OWN: &str = "struct Own;\nunsafe impl std::alloc::GlobalAlloc for Own {\n\
    unsafe fn alloc(&self, l: std::alloc::Layout) -> *mut u8 { unsafe { std::alloc::System.alloc(l) } }\n\
    unsafe fn dealloc(&self, p: *mut u8, l: std::alloc::Layout) { unsafe { std::alloc::System.dealloc(p, l) } } }\n\
    #[global_allocator] static OWN: Own = Own;\nfn main() { println!(\"{}\", String::from(\"own\")); }";
const TOLD: &str =
    "its Rust code uses the program's own #[global_allocator]; its C code and musl use rpmalloc";

/// Makes a repository of a project's files, and gives its address: Cargo builds from there as it does from a registry,
/// in a temporary directory.
fn repository(project: &Project) -> String {
    project.write(".gitignore", "target\ninstalled\n");
    for arguments in [
        &["init", "-q"][..],
        &["add", "."],
        &[
            "-c",
            "user.name=x",
            "-c",
            "user.email=x@y",
            "commit",
            "-qm",
            "all",
        ],
    ] {
        run(Command::new("git")
            .args(arguments)
            .current_dir(&project.directory))
        .succeeded();
    }
    format!("file://{}", project.directory.display())
}

/// Checks an installed program.
fn has(app: &Path, allocator: &str, output: &str) {
    is_static_pie(app);
    assert_eq!(
        (allocator_in(app).as_str(), prints(app).as_str()),
        (allocator, output)
    );
}

#[test]
fn a_program_with_its_own_global_allocator_is_told_of_wherever_it_comes_from() {
    let project = Project::new(OWN);
    let app = project.directory.join("installed/bin/app");
    let from = repository(&project);
    let line = format!("install -a rpmalloc --git {from} --root installed");
    let outcome = run(&mut project.cargo_reheap(&line)).succeeded();
    outcome.said(&["reheap: installed/bin/app: static-pie, ", TOLD]);
    has(&app, "rpmalloc", "own\n");
    let again = run(&mut project.cargo_reheap("install -a rpmalloc --path . --root installed"));
    again.succeeded().said(&[TOLD]);
    has(&app, "rpmalloc", "own\n");

    let project = Project::new(HELLO);
    let line = format!(
        "install -a rpmalloc --git {} --root installed",
        repository(&project)
    );
    run(&mut project.cargo_reheap(&line))
        .succeeded()
        .did_not_say("global_allocator");
}

#[test]
fn an_allocator_that_fat_lto_hides_is_told_of_by_its_code() {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/rust/own_mimalloc");
    let project = Project::new(HELLO);
    let mut install = project.cargo_reheap("install -a rpmalloc --root installed --path");
    install
        .arg(programs)
        .env("CARGO_PROFILE_RELEASE_LTO", "fat");
    install.env("CARGO_TARGET_DIR", project.directory.join("target"));
    run(&mut install)
        .succeeded()
        .said(&["it also holds mimalloc, which its Rust code may use as #[global_allocator]"]);
}

#[test]
fn what_was_built_with_another_allocator_is_linked_again_before_it_stays() {
    let project = Project::new(HELLO);
    let app = project.directory.join("installed/bin/app");
    run(&mut project.cargo_reheap("build --release -a mimalloc")).succeeded();
    run(&mut project.cargo_reheap("install -a rpmalloc --path . --root installed"))
        .succeeded()
        .said(&["reheap: installed/bin/app: static-pie, ", "rpmalloc"]);
    has(&app, "rpmalloc", "hello\n");
    for (allocator, flags) in [("stock", "--force"), ("mimalloc", "-q")] {
        let line = format!("install -a {allocator} --path . {flags} --root installed");
        run(&mut project.cargo_reheap(&line)).succeeded();
        has(&app, allocator, "hello\n");
    }
}

#[test]
fn what_cargo_leaves_alone_is_not_claimed_to_have_the_allocator() {
    let project = Project::new(HELLO);
    let from = repository(&project);
    let install = |allocator: &str, more: &str| {
        let line = format!("install -a {allocator} --git {from} --root installed {more}");
        run(&mut project.cargo_reheap(&line)).succeeded()
    };
    let app = project.directory.join("installed/bin/app");
    let nothing = "Cargo installed nothing: installed programs keep their allocator";
    install("rpmalloc", "").did_not_say(nothing);
    install("mimalloc", "").said(&[nothing]);
    has(&app, "rpmalloc", "hello\n");
    install("mimalloc", "--force").did_not_say(nothing);
    has(&app, "mimalloc", "hello\n");
    // Where it is installed is Cargo's to choose.
    let mut elsewhere = project.cargo_reheap(&format!("install -a rpmalloc --git {from}"));
    run(elsewhere.env("CARGO_INSTALL_ROOT", "elsewhere"))
        .succeeded()
        .said(&["reheap: elsewhere/bin/app: static-pie, "]);
    has(
        &project.directory.join("elsewhere/bin/app"),
        "rpmalloc",
        "hello\n",
    );
    // The configuration of the directory where one happens to be is not asked, that in Cargo's home is.
    let nowhere = "install.root = \"nowhere/\"\nbuild.target-dir = \"nowhere\"\n";
    project.write(".cargo/config.toml", nowhere);
    let other = Project::new(HELLO);
    other.write("home/config.toml", "install.root = \"configured/\"\n");
    let mut configured = project.cargo_reheap(&format!("install -a rpmalloc --git {from}"));
    run(configured.env("CARGO_HOME", other.directory.join("home")))
        .succeeded()
        .said(&["configured/bin/app: static-pie, "]);
    has(
        &other.directory.join("configured/bin/app"),
        "rpmalloc",
        "hello\n",
    );
    assert!(!project.directory.join("nowhere").exists());
    let list = run(&mut project.cargo_reheap("install --list --root installed")).succeeded();
    assert!(list.stdout.contains("    app\n"), "{}", list.stdout);
    list.did_not_say(nothing);
}
