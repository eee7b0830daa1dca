//! `reheap inspect` on running processes, on container images, and on stripped programs with the catalogue's
//! allocators.

use crate::common;
use crate::common::command::in_time;
use crate::common::programs::Programs;
use crate::common::{reheap, run};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Says that it is in `main`, and waits until its input ends.
const WAITING: &str = "#include <stdio.h>\n#include <stdlib.h>\n\
    int main(int c, char **v) { char *p = malloc(99 + c); sprintf(p, \"%s%.0f\", \"read\" \"y\", 0.0); p[5] = 0; puts(p); fflush(stdout); getchar(); free(p); }\n";
/// What a preload of jemalloc looks like from outside, over glibc's own functions.
const PRELOAD: &str = "#include <stddef.h>\n\
    void *__libc_malloc(size_t); void __libc_free(void *);\n\
    int mallctl(const char *name) { return 0; }\n\
    void *je_malloc(size_t n) { return __libc_malloc(n); }\n\
    void *malloc(size_t n) __attribute__((alias(\"je_malloc\")));\n\
    void free(void *p) { __libc_free(p); }\n";

/// A directory with the two sources.
fn workshop() -> Programs {
    let workshop = Programs::new();
    workshop.write("waiting.c", WAITING);
    workshop.write("preload.c", PRELOAD);
    workshop
}

/// A program that has reached `main` and waits; it ends with this value.
struct Waiting(Child);

impl Waiting {
    fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let line = in_time("a line from the program", move || {
            let mut line = [0; 6];
            stdout.read_exact(&mut line).map(|()| line)
        });
        assert_eq!(line.unwrap(), *b"ready\n");
        Self(child)
    }

    fn inspected(&self) -> Value {
        inspected(&self.0.id().to_string(), 0)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the JSON says about one subject.
#[track_caller]
fn inspected(subject: &str, code: i32) -> Value {
    let mut command = reheap("inspect --json");
    let outcome = run(command.arg(subject)).ended_with(code);
    let json: Value = serde_json::from_str(&outcome.stdout).unwrap();
    json[0].clone()
}

#[test]
fn a_process_has_the_libcs_malloc_where_nothing_is_preloaded() {
    let workshop = workshop();
    workshop.run("gcc -O1 waiting.c -o waiting");
    let process = Waiting::start(&mut Command::new(workshop.path("waiting"))).inspected();
    assert_eq!(
        process["malloc"]["provider"]["by"], "shared-libc",
        "{process}"
    );
    assert_eq!(process["name"], "waiting");
    assert_eq!(process["threads"], 1);
    assert_eq!(process["hazards"], json!([]));
    assert!(
        process["libc"]["version"]["exactly"].is_string(),
        "{process}"
    );
    assert!(process["memory"]["resident_bytes"].as_u64() > Some(0));
}

#[test]
fn a_preload_that_is_bound_is_the_processs_malloc_and_a_broken_one_is_a_hazard() {
    let workshop = workshop();
    workshop.run("gcc -O1 waiting.c -o waiting");
    workshop.run("gcc -O1 -fno-builtin -shared -fPIC preload.c -o preload.so");
    let preload = workshop.path("preload.so");
    let preloads = format!("{}:/no/such/library.so", preload.display());
    let mut command = Command::new(workshop.path("waiting"));
    command
        .env("LD_PRELOAD", preloads)
        .env("MALLOC_CONF", "narenas:1")
        .env("UNRELATED", "secret");
    let process = Waiting::start(&mut command).inspected();
    let provider = &process["malloc"]["provider"];
    assert_eq!(provider["by"], "library", "{process}");
    assert_eq!(provider["name"], "jemalloc");
    assert_eq!(provider["library"], preload.to_str().unwrap());
    assert_eq!(process["malloc"]["confidence"], "certain");
    assert_eq!(process["preload"][0]["is_loaded"], true);
    assert_eq!(process["hazards"][0]["hazard"], "preload-not-loaded");
    assert_eq!(process["hazards"][0]["entry"], "/no/such/library.so");
    assert_eq!(process["tuning"], json!({ "MALLOC_CONF": "narenas:1" }));
}

#[test]
fn of_several_variables_the_one_counts_that_the_dynamic_linker_takes() {
    let workshop = workshop();
    // Twice the same variable, as no shell makes it.
    let twice = r#"
        #include <unistd.h>
        int main(int count, char **arguments) {
            (void)count;
            return execve(arguments[1], arguments + 1, arguments + 2);
        }
    "#;
    workshop.write("twice.c", twice);
    let preload = r#"
        static char heap[1 << 20], *next = heap;
        int mallctl(const char *name) { return 0; }
        void *je_malloc(unsigned long n) { char *p = next; next += (n + 15) / 16 * 16; return p; }
        void *malloc(unsigned long n) __attribute__((alias("je_malloc")));
        void free(void *p) { }
    "#;
    workshop.write("preload.c", preload);
    workshop.run("gcc -O1 twice.c -o twice");
    for (compiler, used) in [("gcc", 1), ("musl-gcc", 0)] {
        workshop.run(&format!("{compiler} -O1 waiting.c -o waiting"));
        workshop.run(&format!(
            "{compiler} -O1 -fno-builtin -shared -fPIC preload.c -o preload.so"
        ));
        let mut values = ["LD_PRELOAD=/no/such.so".to_owned(), String::new()];
        values.swap(0, 1 - used);
        values[used] = format!("LD_PRELOAD={}", workshop.path("preload.so").display());
        let mut command = Command::new(workshop.path("twice"));
        command.arg(workshop.path("waiting")).args(values);
        let process = Waiting::start(&mut command).inspected();
        let provider = &process["malloc"]["provider"];
        assert_eq!(provider["name"], "jemalloc", "{compiler}: {process}");
        assert_eq!(process["hazards"], json!([]), "{compiler}");
    }
}

#[test]
fn a_static_program_is_told_by_its_executable_also_after_that_was_deleted() {
    let workshop = workshop();
    workshop.run("musl-gcc -O2 -static waiting.c -o waiting");
    let waiting = Waiting::start(&mut Command::new(workshop.path("waiting")));
    assert_eq!(waiting.inspected()["file_is_deleted"], false);
    fs::remove_file(workshop.path("waiting")).unwrap();
    let process = waiting.inspected();
    assert_eq!(process["file_is_deleted"], true);
    assert_eq!(process["kind"], "static");
    assert_eq!(process["malloc"]["provider"]["name"], "musl-mallocng");
}

#[test]
fn a_process_that_has_ended_is_refused_and_all_that_run_are_lines() {
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    run(reheap("inspect").arg(child.id().to_string()))
        .ended_with(1)
        .said(&["there is no such file, and no such process"]);

    let workshop = workshop();
    workshop.run("gcc -O1 waiting.c -o waiting");
    let waiting = Waiting::start(&mut Command::new(workshop.path("waiting")));
    let outcome = run(&mut reheap("inspect --all-pids"));
    let line = format!("{} waiting: stock glibc; ", waiting.0.id());
    let mut lines = outcome.stdout.lines();
    assert!(lines.any(|own| own.starts_with(&line)), "{outcome:?}");
}

#[test]
fn an_allocator_that_stays_unknown_is_exit_code_5() {
    let workshop = workshop();
    workshop.write(
        "own.c",
        "char heap[99];\nvoid *malloc(unsigned long n) { return heap; }\n",
    );
    workshop.run("gcc -O1 -fno-builtin -nostdlib -shared -fPIC -s own.c -o own.so");
    let library = workshop.path("own.so");
    let identity = inspected(library.to_str().unwrap(), 5);
    assert_eq!(identity["malloc"]["provider"]["by"], "unknown");
}

#[test]
fn a_line_is_enough_by_default_and_verbose_tells_the_evidence() {
    let workshop = workshop();
    workshop.run("musl-gcc -O2 -static waiting.c -o waiting");
    let waiting = workshop.path("waiting");
    let outcome = run(reheap("inspect").arg(&waiting)).succeeded();
    let expected = format!(
        "{}: stock musl (mallocng); static, musl 1.2.1 or later\n",
        waiting.display()
    );
    assert_eq!(outcome.stdout, expected);
    let outcome = run(reheap("inspect --verbose").arg(&waiting)).succeeded();
    let words: Vec<&str> = outcome.stdout.split_whitespace().collect();
    let words = words.join(" ");
    assert!(words.contains("the table of size classes"), "{outcome:?}");
}

/// Without its marker, as if somebody else had linked it.
fn without_marker(program: &Path) {
    let mut bytes = fs::read(program).unwrap();
    let name = b"reheap\0\0";
    let places: Vec<usize> = (0..bytes.len() - name.len())
        .filter(|&place| bytes[place..].starts_with(name))
        .collect();
    for place in places {
        bytes[place] = b'x';
    }
    fs::write(program, bytes).unwrap();
}

#[test]
fn allocators_of_the_catalogue_are_known_in_stripped_programs_without_a_marker() {
    let workshop = workshop();
    for (allocator, name, version) in [
        ("mimalloc", "mimalloc", Some("2.x")),
        ("mimalloc3", "mimalloc", Some("3.x")),
        ("mimalloc-secure", "mimalloc", Some("3.x")),
        ("mimalloc2-secure", "mimalloc", Some("2.x")),
        ("hardened_malloc", "hardened_malloc", None),
        ("hardened_malloc-light", "hardened_malloc", None),
        ("snmalloc-checks", "snmalloc", None),
        ("rpmalloc", "rpmalloc", None),
    ] {
        let mut command = reheap(&format!("cc -a {allocator} -O2 waiting.c -o waiting"));
        run(command.current_dir(workshop.directory())).succeeded();
        workshop.run("strip waiting");
        without_marker(&workshop.path("waiting"));
        let identity = inspected(workshop.path("waiting").to_str().unwrap(), 0);
        assert_eq!(identity["marker"], Value::Null);
        let found = &identity["allocators"][0];
        assert_eq!(found["name"], name, "{allocator}: {identity}");
        assert_eq!(found["version"].as_str(), version, "{allocator}");
        assert_eq!(found["role"], "malloc", "{allocator}: {identity}");
        let variant = match allocator.split_once('-') {
            Some((_, variant)) if variant != "light" => Value::from(variant),
            None if allocator == "hardened_malloc" => Value::from("default"),
            _ => Value::Null,
        };
        assert_eq!(found["variant"], variant, "{allocator}");
    }
}

/// A layer of an image.
fn layer(files: &[(&str, &[u8])], links: &[(&str, &str)]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (path, contents) in files {
        let mut header = tar::Header::new_ustar();
        header.set_size(contents.len() as u64);
        header.set_mode(0o755);
        archive.append_data(&mut header, path, *contents).unwrap();
    }
    for (path, target) in links {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        archive.append_link(&mut header, path, target).unwrap();
    }
    archive.into_inner().unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn text(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

#[test]
fn the_entry_point_of_a_saved_image_is_found_through_layers_and_links() {
    let workshop = workshop();
    workshop.run("musl-gcc -O2 -static waiting.c -o waiting");
    let program = fs::read(workshop.path("waiting")).unwrap();
    let config = json!({ "config": {
        "Cmd": ["app", "--flag"],
        "Env": ["PATH=/nowhere:/bin", "LD_PRELOAD=/lib/libx.so"],
    } });
    let manifest = json!([{ "Config": "config.json", "Layers": ["1/layer.tar", "2/layer.tar"] }]);
    let below = layer(
        &[("usr/bin/app", &program), ("usr/bin/hidden", b"old")],
        &[("bin", "usr/bin")],
    );
    let above = layer(&[("usr/bin/.wh.hidden", b"")], &[]);
    let image = layer(
        &[
            ("manifest.json", &text(&manifest)),
            ("config.json", &text(&config)),
            ("1/layer.tar", &below),
            ("2/layer.tar", &gzip(&above)),
        ],
        &[],
    );
    for (name, bytes) in [("image.tar", image.clone()), ("image.tar.gz", gzip(&image))] {
        workshop.write(name, bytes);
        let identity = inspected(workshop.path(name).to_str().unwrap(), 0);
        assert_eq!(identity["entry_point"], "/usr/bin/app");
        assert_eq!(identity["malloc"]["provider"]["name"], "musl-mallocng");
        let ignored = json!([{"entry": "/lib/libx.so", "list": "LD_PRELOAD", "state": "ignored"}]);
        assert_eq!(identity["preload"], ignored);
    }
}

#[test]
fn the_entry_point_of_an_oci_layout_may_be_a_script() {
    let workshop = workshop();
    workshop.run("musl-gcc -O2 -static waiting.c -o waiting");
    let program = fs::read(workshop.path("waiting")).unwrap();
    let layer = layer(
        &[
            ("srv/start", b"#!/bin/sh\nexec app\n"),
            ("bin/sh", &program),
        ],
        &[],
    );
    let config = json!({ "config": { "Entrypoint": ["./start"], "WorkingDir": "/srv" } });
    let manifest = json!({
        "config": { "digest": "sha256:c0" },
        "layers": [{ "digest": "sha256:1a" }],
    });
    let index = json!({ "manifests": [
        { "digest": "sha256:aa", "platform": { "architecture": "unknown", "os": "unknown" } },
        { "digest": "sha256:bb", "platform": { "architecture": "riscv64", "os": "linux" } },
    ] });
    fs::create_dir_all(workshop.path("blobs/sha256")).unwrap();
    workshop.write("oci-layout", "{\"imageLayoutVersion\":\"1.0.0\"}");
    workshop.write("index.json", text(&index));
    workshop.write("blobs/sha256/bb", text(&manifest));
    workshop.write("blobs/sha256/c0", text(&config));
    workshop.write("blobs/sha256/1a", gzip(&layer));
    let identity = inspected(workshop.directory().to_str().unwrap(), 0);
    assert_eq!(identity["entry_point"], "/bin/sh");
    assert_eq!(identity["scripts"], json!(["/srv/start"]));
}

#[test]
fn a_damaged_image_is_refused_with_what_is_wrong() {
    let workshop = workshop();
    let config = json!({ "config": { "Entrypoint": ["/app"] } });
    let refused = |layers: Value, parts: &[(&str, &[u8])], reason: &str| {
        let manifest = text(&json!([{ "Config": "config.json", "Layers": layers }]));
        let config = text(&config);
        let mut files: Vec<(&str, &[u8])> =
            vec![("manifest.json", &manifest), ("config.json", &config)];
        files.extend(parts);
        workshop.write("image.tar", layer(&files, &[]));
        run(reheap("inspect").arg(workshop.path("image.tar")))
            .ended_with(1)
            .said(&[reason]);
    };
    refused(json!(["a"]), &[], "the image lacks `a`");
    refused(
        json!([]),
        &[],
        "the image's entry point `/app` is not in it",
    );
    let zstd: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd, 0, 0];
    refused(json!(["a"]), &[("a", zstd)], "the image cannot be read");
    let script = layer(&[("app", b"text")], &[]);
    let text = "its program `/app` is neither ELF nor a script that begins with `#!`";
    refused(json!(["a"]), &[("a", &script)], text);
    let in_a_circle = layer(&[], &[("app", "/app")]);
    refused(json!(["a"]), &[("a", &in_a_circle)], "lead in a circle");
    refused(json!(["a"]), &[("a", &script[..300])], "the image");
}

/// Whose process it is has nothing to do with it where root itself lacks a right.
#[test]
fn a_process_that_may_not_be_looked_at_is_told_with_the_real_reason() {
    let is_root = rustix::process::geteuid().is_root();
    let mut sleep = Command::new("sleep");
    sleep.arg("600");
    if is_root {
        sleep = Command::new("setpriv");
        sleep.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        sleep.args(["sh", "-c", "echo ready; exec sleep 600"]);
    }
    let (child, reason) = if is_root {
        (
            Some(Waiting::start(&mut sleep)),
            "permission denied: you are root without CAP_SYS_PTRACE",
        )
    } else {
        (
            None,
            "permission denied: it belongs to user 0, and you are user ",
        )
    };
    let pid = child.as_ref().map_or(1, |child| child.0.id()).to_string();
    let mut reheap = if is_root {
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace"]);
        command.arg(env!("CARGO_BIN_EXE_reheap"));
        command
    } else {
        reheap("")
    };
    run(reheap.args(["inspect", &pid]))
        .ended_with(1)
        .said(&[reason])
        .did_not_say("it belongs to user 65534");
    run(reheap.arg("--all-pids")).said(&[": permission denied: "]);
}

#[test]
fn a_thread_of_the_kernel_is_called_one_whoever_asks() {
    let is_kernel_thread = |pid: &String| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.contains("PPid:\t2\n")
    };
    let names = fs::read_dir("/proc").unwrap();
    let mut pids = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    // A container has none.
    let Some(pid) = pids.find(is_kernel_thread) else {
        assert!(
            !fs::read_to_string("/proc/2/status")
                .unwrap_or_default()
                .contains("kthreadd")
        );
        return;
    };
    run(reheap("inspect").arg(&pid))
        .ended_with(1)
        .said(&["it is a kernel thread, not a program"]);
}

#[test]
fn one_line_names_hazards_and_keeps_doubts() {
    let workshop = workshop();
    let source = "void *mi_malloc(unsigned long n) { return 0; }\n\
        void *malloc(unsigned long) __attribute__((alias(\"mi_malloc\")));\n\
        static __thread char heap[100];\nchar *own_heap(void) { return heap; }\n";
    workshop.write("half.c", source);
    workshop.run("gcc -fno-builtin -shared -fPIC -ftls-model=initial-exec half.c -o half.so");
    let outcome = run(reheap("inspect").arg(workshop.path("half.so"))).succeeded();
    let line = outcome.stdout.trim_end();
    assert!(
        line.ends_with("; hazards: half replaced, static TLS"),
        "{line}"
    );

    // Android's libc has the same name as musl's, so a library that needs it is musl's only possibly.
    workshop.write("empty.c", "int nothing;\n");
    workshop.run("gcc -shared -fPIC -nostdlib -Wl,-soname,libc.so empty.c -o libc.so");
    workshop.run("gcc -shared -fPIC -nostdlib -Wl,--no-as-needed empty.c ./libc.so -o needs.so");
    let outcome = run(reheap("inspect").arg(workshop.path("needs.so"))).succeeded();
    let line = outcome.stdout.trim_end();
    assert!(
        line.ends_with("musl of unknown version (possible)"),
        "{line}"
    );
}

#[test]
fn symbols_are_shown_to_people_as_their_source_has_them_and_to_programs_as_they_are() {
    let workshop = workshop();
    let source = "namespace snmalloc { void *allocate(unsigned long n) { return (void *)n; } }\n\
        void *operator new(unsigned long n) { return snmalloc::allocate(n); }\n";
    workshop.write("a.cc", source);
    workshop.run("g++ -O0 -shared -fPIC a.cc -o a.so");
    let library = workshop.path("a.so");
    let shown = run(reheap("inspect --verbose").arg(&library)).stdout;
    assert!(shown.contains("symbol `snmalloc::allocate`"), "{shown}");
    assert!(shown.contains("offers      operator new"), "{shown}");
    let mut json = reheap("inspect --json");
    let data = run(json.arg(&library)).stdout;
    assert!(
        data.contains("_ZN8snmalloc8allocateEm") && data.contains("_Znwm"),
        "{data}"
    );
}

#[test]
fn the_verbose_form_has_a_blank_behind_each_label() {
    let shown = run(&mut reheap("inspect --verbose /bin/sh"))
        .succeeded()
        .stdout;
    let mut lines = shown.lines();
    let line = lines
        .find(|line| line.starts_with("  interpreter"))
        .unwrap();
    assert!(line.starts_with("  interpreter /lib"), "{shown}");
}

#[test]
fn an_empty_archive_is_called_empty() {
    let workshop = workshop();
    workshop.run("ar rcs empty.a");
    run(reheap("inspect").arg(workshop.path("empty.a")))
        .ended_with(1)
        .said(&["the archive is empty: it has no members"]);
}

/// Prints what becomes of freed blocks, and in which order small blocks come.
const REUSE: &str = r#"
#include <stdio.h>
#include <stdlib.h>
static const char *reuse(size_t size)
{
    char *volatile block = malloc(size), *volatile next;
    free(block);
    for (int i = 0; i < 100; i++)
        if ((next = malloc(size)) == block) return "reused";
    return "held back";
}
int main(void)
{
    int ascending = 0;
    for (char *volatile last = malloc(64), *volatile next; ascending < 50 && (next = malloc(64)) > last; ascending++)
        last = next;
    printf("small %s, large %s, order %s\n", reuse(32), reuse(1 << 20), ascending == 50 ? "kept" : "random");
    return 0;
}
"#;

/// Tried with the marker and without: then only what is compiled in tells the builds apart.
#[test]
fn the_hardening_of_hardened_malloc_is_what_each_build_does() {
    let programs = Programs::new();
    programs.write("reuse.c", REUSE);
    for (allocator, does, quarantine, has_random_order) in [
        (
            "hardened_malloc",
            "small held back, large held back, order random\n",
            "quarantine",
            true,
        ),
        (
            "hardened_malloc-light",
            "small reused, large held back, order kept\n",
            "quarantine of large blocks",
            false,
        ),
    ] {
        let mut compile = reheap(&format!(
            "cc -a {allocator} -O1 -fno-builtin reuse.c -o reuse"
        ));
        run(compile.current_dir(programs.directory())).succeeded();
        let program = programs.path("reuse");
        let outcome = run(&mut Command::new(&program)).succeeded();
        assert_eq!(outcome.stdout, does, "{allocator}");
        let unmarked = programs.path("unmarked");
        let mut objcopy = Command::new("objcopy");
        objcopy.args(["--remove-section", reheap_elf::marker::SECTION]);
        run(objcopy.args([&program, &unmarked])).succeeded();
        for file in [program, unmarked] {
            let identity = inspected(file.to_str().unwrap(), 0);
            let hardening = identity["allocators"][0]["hardening"].as_array().unwrap();
            let has = |text: &str| hardening.iter().any(|known| known == text);
            let is_a_quarantine = |text: &&Value| text.as_str().unwrap().contains("quarantine");
            let quarantines: Vec<&Value> = hardening.iter().filter(is_a_quarantine).collect();
            assert_eq!(quarantines, [quarantine], "{}", file.display());
            assert_eq!(
                has("randomised order"),
                has_random_order,
                "{}",
                file.display()
            );
        }
    }
}

#[test]
fn the_hardening_of_executable_and_allocator_is_one_line_each_and_data() {
    let workshop = workshop();
    let file = |name: &str| workshop.path(name).to_str().unwrap().to_owned();
    for (name, command) in [
        (
            "weak",
            "gcc -O1 -no-pie -fno-stack-protector -z execstack -Wl,-z,norelro",
        ),
        (
            "strong",
            "gcc -O2 -fstack-protector-all -D_FORTIFY_SOURCE=2 -pie -fPIE -Wl,-z,relro,-z,now",
        ),
    ] {
        let words = common::words(command);
        let mut gcc = Command::new(words[0]);
        gcc.args(&words[1..])
            .arg(workshop.path("waiting.c"))
            .args(["-o", &file(name)]);
        run(&mut gcc).succeeded();
    }
    let line = |subject: &str| {
        let outcome = run(reheap("inspect --verbose").arg(subject)).succeeded();
        let mut lines = outcome.stdout.lines().map(str::to_owned);
        lines
            .find(|line| line.starts_with("  hardening "))
            .unwrap_or(outcome.stdout)
    };
    assert_eq!(
        line(&file("weak")),
        "  hardening   no RELRO, executable stack, no PIE, no stack protector symbol found"
    );
    let strong = line(&file("strong"));
    let expected = "  hardening   full RELRO, NX stack, PIE, stack protector, ";
    assert!(
        strong.starts_with(expected) && strong.contains(" fortified function"),
        "{strong}"
    );
    let data = &inspected(&file("strong"), 0)["protections"];
    assert_eq!(data["relro"], "full");
    assert_eq!(data["stack"], "not-executable");
    assert_eq!(data["position_independent"], true);
    assert_eq!(data["stack_protector"], "__stack_chk_fail");
    assert_eq!(
        inspected(&file("weak"), 0)["protections"]["stack_protector"],
        Value::Null
    );
    // Of a process, that of its executable.
    let waiting = Waiting::start(&mut Command::new(file("weak")));
    assert_eq!(waiting.inspected()["protections"]["stack"], "executable");
    // What the catalogue says of the allocator.
    let program = file("with-rpmalloc");
    let mut compile = reheap("cc -a rpmalloc");
    run(compile
        .arg(workshop.path("waiting.c"))
        .args(["-o", &program]))
    .succeeded();
    let found = &inspected(&program, 0)["allocators"][0];
    let catalogued = reheap_allocators::catalogue::find("rpmalloc")
        .unwrap()
        .hardening;
    assert_eq!(found["hardening"], json!([catalogued]));
}
