//! `reheap inspect --expect`: what matches, what does not, and that nothing unknown passes.

use crate::common::command::in_time;
use crate::common::programs::Programs;
use crate::common::{Outcome, Project, cargo_reheap, reheap, run};
use serde_json::{Value, json};
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};

const WAITING: &str = "#include <stdio.h>\n#include <stdlib.h>\n\
    int main(void) { char *p = malloc(64); puts(\"ready\"); fflush(stdout); getchar(); free(p); return 0; }\n";

/// The outcome for one subject, which must end with this code.
#[track_caller]
fn expect(allocator: &str, subject: &Path, code: i32) -> Outcome {
    let mut command = reheap(&format!("inspect --expect {allocator}"));
    run(command.arg(subject)).ended_with(code)
}

/// Checks what is said about one subject.
#[track_caller]
fn says(allocator: &str, subject: &Path, code: i32, text: &str) {
    let outcome = expect(allocator, subject, code);
    let line = format!("`{}` {text}", subject.display());
    assert!(outcome.stdout.starts_with(&line), "{}", outcome.stdout);
    assert_eq!(outcome.stdout.lines().count(), 1, "{}", outcome.stdout);
}

/// A static program with an allocator, linked by reheap.
fn linked_with(workshop: &Programs, allocator: &str) -> std::path::PathBuf {
    workshop.write("waiting.c", WAITING);
    let mut command = reheap(&format!(
        "cc -a {allocator} -O2 -fno-builtin waiting.c -o {allocator}"
    ));
    run(command.current_dir(workshop.directory())).succeeded();
    workshop.path(allocator)
}

#[test]
fn the_marker_proves_allocator_version_and_hardening() {
    let workshop = Programs::new();
    let app = linked_with(&workshop, "mimalloc3");
    for name in ["mimalloc", "mimalloc3", "mimalloc=3", "mimalloc3=3.3"] {
        says(name, &app, 0, "has mimalloc3 3.3.");
    }
    says("mimalloc=2", &app, 3, "has mimalloc3 3.3.");
    says("mimalloc=3.30", &app, 3, "has mimalloc3 3.3.");
    let outcome = expect("jemalloc", &app, 3);
    let text = ", not jemalloc: the marker shows that malloc";
    assert!(outcome.stdout.contains(text), "{}", outcome.stdout);
    let outcome = expect("mimalloc-secure", &app, 3);
    let text = ", not mimalloc-secure: ";
    assert!(outcome.stdout.contains(text), "{}", outcome.stdout);

    let secure = linked_with(&workshop, "mimalloc-secure");
    for name in ["mimalloc", "mimalloc-secure"] {
        says(name, &secure, 0, "has mimalloc-secure ");
    }
    says("stock", &secure, 3, "has mimalloc-secure ");

    let light = linked_with(&workshop, "hardened_malloc-light");
    for name in ["hardened_malloc", "hardened_malloc-light"] {
        says(name, &light, 0, "has hardened_malloc-light ");
    }
    let full = linked_with(&workshop, "hardened_malloc");
    let outcome = expect("hardened_malloc-light", &full, 3);
    let text = ", not hardened_malloc-light: ";
    assert!(outcome.stdout.contains(text), "{}", outcome.stdout);
}

#[test]
fn a_libcs_own_allocator_is_stock_and_has_the_libcs_name() {
    let workshop = Programs::new();
    let musl = linked_with(&workshop, "stock");
    for name in ["stock", "musl", "musl-mallocng"] {
        says(name, &musl, 0, "has stock musl (mallocng)");
    }
    says("glibc", &musl, 3, "has stock musl (mallocng), not glibc: ");
    says(
        "mimalloc",
        &musl,
        3,
        "has stock musl (mallocng), not mimalloc: ",
    );

    let glibc = workshop.compile("cc", "dynamic", WAITING, &[]);
    for name in ["stock", "glibc"] {
        says(name, &glibc, 0, "has stock glibc: it defines no malloc");
    }
    says("jemalloc", &glibc, 3, "has stock glibc, not jemalloc: ");
    // The file needs at least a version, and so does not tell which it gets.
    let outcome = expect("glibc=2", &glibc, 3);
    assert!(outcome.stdout.contains("is unknown"), "{}", outcome.stdout);
}

#[test]
fn what_is_unknown_does_not_match_and_says_why() {
    let workshop = Programs::new();
    let app = linked_with(&workshop, "mimalloc3");
    run(Command::new("objcopy")
        .args(["-S", "-R", ".note.reheap"])
        .arg(&app))
    .succeeded();
    let outcome = expect("mimalloc", &app, 0);
    assert!(
        outcome.stdout.contains("it is stripped"),
        "{}",
        outcome.stdout
    );
    for name in ["mimalloc=3.3", "mimalloc-secure"] {
        let outcome = expect(name, &app, 3);
        let text = format!("whether that is {name} is unknown (");
        assert!(outcome.stdout.contains(&text), "{}", outcome.stdout);
    }

    // Nothing in it is a text of an allocator, and it has its own malloc.
    let own = "char heap[64]; void *malloc(unsigned long n) { return heap; } void free(void *p) {}\n\
               int main(void) { return !malloc(1); }\n";
    let own = workshop.compile("musl-gcc", "own", own, &["-static", "-s"]);
    let outcome = expect("mimalloc", &own, 3);
    assert!(outcome.stdout.contains("unknown"), "{}", outcome.stdout);
    let outcome = run(reheap("inspect --json --expect mimalloc").arg(&own)).ended_with(3);
    let json: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(json[0]["matches"], Value::Null);
}

const GLOBAL: &str = "#[global_allocator]\nstatic A: mimalloc::MiMalloc = mimalloc::MiMalloc;\n\
    fn main() { println!(\"{}\", String::from(\"hello\")); }\n";

#[test]
fn of_a_rust_program_its_global_allocator_counts_and_that_of_its_c_code_is_named() {
    let project = Project::new(GLOBAL);
    project.append(
        "Cargo.toml",
        "[dependencies]\nmimalloc = { version = \"=0.1.52\", default-features = false }\n",
    );
    let mut build = cargo_reheap("build -a stock");
    run(build.current_dir(&project.directory)).succeeded();
    let mut build = Command::new("cargo");
    build
        .env_remove("CARGO_BUILD_TARGET")
        .env_remove("CARGO_TARGET_DIR");
    run(build.arg("build").current_dir(&project.directory)).succeeded();
    for (app, libc) in [
        (project.app(), "stock musl (mallocng)"),
        (project.directory.join("target/debug/app"), "stock glibc"),
    ] {
        let of_c = format!("; C code in it uses another one, {libc}\n");
        for stripped in [false, true] {
            if stripped {
                run(Command::new("strip").arg(&app)).succeeded();
            }
            says("mimalloc", &app, 0, "has mimalloc 3.x: ");
            says("mimalloc=3", &app, 0, "has mimalloc 3.x: ");
            says("mimalloc=2", &app, 3, "has mimalloc 3.x, not mimalloc=2: ");
            says("stock", &app, 3, "has mimalloc 3.x, not stock: ");
            let outcome = expect("mimalloc-secure", &app, 3);
            for text in ["nothing in it shows a secure build", &of_c] {
                assert!(outcome.stdout.contains(text), "{}", outcome.stdout);
            }
        }
    }
}

#[test]
fn a_global_allocator_that_reheap_cannot_name_is_unknown() {
    let source = "use std::alloc::{GlobalAlloc, Layout, System};\nstruct Own;\nunsafe impl GlobalAlloc for Own {\n    \
        unsafe fn alloc(&self, l: Layout) -> *mut u8 { unsafe { System.alloc(l) } }\n    \
        unsafe fn dealloc(&self, p: *mut u8, l: Layout) { unsafe { System.dealloc(p, l) } } }\n\
        #[global_allocator] static OWN: Own = Own;\nfn main() { println!(\"{}\", String::from(\"own\")); }\n";
    let project = Project::new(source);
    let mut build = cargo_reheap("build -a rpmalloc");
    run(build.current_dir(&project.directory)).succeeded();
    for name in ["rpmalloc", "stock"] {
        let outcome = expect(name, &project.app(), 3);
        let text = "its Rust code has a #[global_allocator] of its own, and nothing shows which";
        assert!(outcome.stdout.contains(text), "{}", outcome.stdout);
    }
}

#[test]
fn processes_and_several_subjects_are_checked_alike() {
    let workshop = Programs::new();
    let app = linked_with(&workshop, "rpmalloc");
    let glibc = workshop.compile("cc", "dynamic", WAITING, &[]);
    let mut child = Command::new(&app)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let ready = in_time("a line from the program", move || {
        let mut line = [0; 6];
        stdout.read_exact(&mut line).map(|()| line)
    });
    assert_eq!(ready.unwrap(), *b"ready\n");
    let pid = child.id().to_string();
    let of_process = run(reheap("inspect --expect rpmalloc").arg(&pid));
    let other = run(reheap("inspect --expect glibc").arg(&pid));
    child.kill().unwrap();
    child.wait().unwrap();
    let text = format!("`{pid} rpmalloc` has rpmalloc ");
    let of_process = of_process.succeeded();
    assert!(
        of_process.stdout.starts_with(&text),
        "{}",
        of_process.stdout
    );
    other.ended_with(3);

    let mut command = reheap("inspect --json --expect rpmalloc");
    let outcome = run(command.args([&app, &glibc])).ended_with(3);
    let judged: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let keys = |index: usize| [&judged[index]["expected"], &judged[index]["matches"]];
    assert_eq!(keys(0), [&json!("rpmalloc"), &json!(true)]);
    assert_eq!(keys(1), [&json!("rpmalloc"), &json!(false)]);
    assert_eq!(judged[1]["malloc"]["provider"]["by"], "shared-libc");

    // What cannot be read is worse than what is another one.
    let mut command = reheap("inspect --expect rpmalloc");
    let nothing = workshop.path("nothing");
    run(command.args([&app, &glibc, &nothing]))
        .ended_with(1)
        .said(&["there is no such file"]);
}

#[test]
fn an_image_is_judged_by_what_it_preloads() {
    let workshop = Programs::new();
    workshop.compile("cc", "app", WAITING, &[]);
    for line in [
        "image app --with-libraries -o plain.tar",
        "image --add jemalloc plain.tar -o added.tar",
        "image app --with-libraries --env LD_PRELOAD=/lib/nothing.so -o broken.tar",
    ] {
        run(reheap(line).current_dir(workshop.directory())).succeeded();
    }
    let image = |name: &str| workshop.path(name);
    expect("glibc", &image("plain.tar"), 0);
    expect("jemalloc", &image("plain.tar"), 3);
    expect("jemalloc=5.3", &image("added.tar"), 0);
    expect("glibc", &image("added.tar"), 3);
    for name in ["glibc", "jemalloc"] {
        let outcome = expect(name, &image("broken.tar"), 3);
        let text = "is unknown (it preloads `/lib/nothing.so`, which the image does not have)";
        assert!(outcome.stdout.contains(text), "{}", outcome.stdout);
    }
}

#[test]
fn a_wrong_name_or_version_is_wrong_usage() {
    for (typed, texts) in [
        (
            "mimaloc",
            [
                "unknown allocator `mimaloc`",
                "hint: did you mean `mimalloc`?",
            ],
        ),
        ("zzz", ["unknown allocator `zzz`", "hint: reheap knows "]),
        (
            "mimalloc=new",
            ["cannot read the version `new`", "of the form 3.3"],
        ),
        (
            "mimalloc=",
            ["cannot read the version ``", "of the form 3.3"],
        ),
    ] {
        let line = format!("inspect --expect {typed} /proc/self/exe");
        run(&mut reheap(&line)).ended_with(2).said(&texts);
    }
}
