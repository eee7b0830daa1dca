//! Prebuilt files: reheap on a machine that can build nothing, where it looks for them, and that it uses only what is as
//! the manifest says.

use crate::common;
use crate::common::image::{Image, in_namespace, musl_linker};
use crate::common::prebuilt::produce;
use crate::common::suite::program;
use crate::common::{Project, allocator_in, cache, reheap, run};
use reheap_allocators::target::{Libc, Target};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A copy of reheap as a package installs it, with prebuilt files.
struct Installed(tempfile::TempDir);

impl Installed {
    fn new() -> Self {
        let prefix = tempfile::tempdir().unwrap();
        let installed = Self(prefix);
        for directory in ["bin", "share/reheap"] {
            fs::create_dir_all(installed.path(directory)).unwrap();
        }
        let program = env!("CARGO_BIN_EXE_reheap");
        fs::copy(program, installed.path("bin/reheap")).unwrap();
        produce(&installed.path("share/reheap"));
        installed
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    /// A library in the package.
    fn preload(&self, name: &str) -> PathBuf {
        let target = Target::of_this_machine(Libc::Glibc).unwrap();
        let directory = self.path("share/reheap/preloads").join(target.triple());
        let mut files = fs::read_dir(directory).unwrap();
        files
            .find_map(|entry| {
                let path = entry.unwrap().path();
                let file = path.file_name().unwrap().to_string_lossy().into_owned();
                file.starts_with(&format!("lib{name}-")).then_some(path)
            })
            .unwrap()
    }

    /// `reheap` with these arguments, started by this path.
    fn reheap_at(&self, program: &Path, line: &str) -> Command {
        let usual = reheap(line);
        let mut command = Command::new(program);
        command.args(usual.get_args());
        for (name, value) in usual.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }

    fn reheap(&self, line: &str) -> Command {
        self.reheap_at(&self.path("bin/reheap"), line)
    }
}

const SHOW_MAPS: &str = "run -a rpmalloc -- cat /proc/self/maps";

/// The libraries with rpmalloc that a process has, by their real paths.
fn rpmalloc_in(maps: &str) -> Vec<PathBuf> {
    let paths = maps
        .lines()
        .filter_map(|line| line.find('/').map(|at| &line[at..]));
    let mut paths: Vec<PathBuf> = paths
        .filter(|path| path.contains("/librpmalloc-"))
        .map(PathBuf::from)
        .collect();
    paths.dedup();
    paths
}

#[test]
fn the_environment_comes_first_then_the_package_then_the_cache() {
    let (package, named) = (Installed::new(), Installed::new());
    let maps = |command: &mut Command| rpmalloc_in(&run(command).succeeded().stdout);
    let of = |installed: &Installed| vec![installed.preload("rpmalloc")];

    assert_eq!(maps(&mut package.reheap(SHOW_MAPS)), of(&package));
    let directory = named.path("share/reheap");
    let mut command = package.reheap(SHOW_MAPS);
    assert_eq!(maps(command.env("REHEAP_PREBUILT", directory)), of(&named));

    let link = package.path("reheap");
    std::os::unix::fs::symlink(package.path("bin/reheap"), &link).unwrap();
    assert_eq!(maps(&mut package.reheap_at(&link, SHOW_MAPS)), of(&package));

    fs::remove_dir_all(package.path("share")).unwrap();
    let of_cache = maps(&mut package.reheap(SHOW_MAPS));
    assert!(
        of_cache[0].starts_with(cache().canonicalize().unwrap()),
        "{of_cache:?}"
    );
}

#[test]
fn the_catalogue_says_where_each_library_comes_from() {
    let package = Installed::new();
    let empty = tempfile::tempdir().unwrap();
    let of_rpmalloc = |command: &mut Command| -> Value {
        let list = run(command.env("REHEAP_CACHE_DIR", empty.path())).succeeded();
        let list: Value = serde_json::from_str(&list.stdout).unwrap();
        let mut rows = list.as_array().unwrap().iter();
        let row = rows.find(|row| row["name"] == "rpmalloc").unwrap();
        row["comes_from"].clone()
    };
    let everywhere = json!({"glibc": "prebuilt", "musl": "prebuilt", "static": "prebuilt"});
    assert_eq!(of_rpmalloc(&mut package.reheap("list --json")), everywhere);
    let nowhere = json!({"glibc": "build", "musl": "build", "static": "build"});
    assert_eq!(of_rpmalloc(&mut reheap("list --json")), nowhere);
    run(&mut reheap("run -a rpmalloc -- true")).succeeded();
    let list = run(&mut reheap("list --json")).succeeded().stdout;
    assert!(list.contains("\"glibc\": \"cache\""), "{list}");
    let text = run(&mut package.reheap("list rpmalloc")).succeeded().stdout;
    assert!(text.contains("  library    prebuilt\n"), "{text}");
}

#[test]
fn only_a_build_that_would_be_used_is_in_the_cache() {
    let row = |command: &mut Command| -> Value {
        let list = run(command).succeeded().stdout;
        let list: Value = serde_json::from_str(&list).unwrap();
        let mut rows = list.as_array().unwrap().iter();
        rows.find(|row| row["name"] == "rpmalloc").unwrap().clone()
    };
    run(&mut reheap("run -a rpmalloc -- true")).succeeded();
    run(&mut reheap("libc -a rpmalloc")).succeeded();
    let current = row(&mut reheap("list --json"));
    assert_eq!(current["comes_from"]["glibc"], "cache");
    assert_eq!(current["comes_from"]["static"], "cache");

    let outdated = tempfile::tempdir().unwrap();
    let version = current["version"].as_str().unwrap();
    let entry = format!(
        "allocators/rpmalloc-{version}-{}-0123456789abcdef",
        common::target()
    );
    fs::create_dir_all(outdated.path().join(entry)).unwrap();
    let list = row(reheap("list --json").env("REHEAP_CACHE_DIR", outdated.path()));
    assert_eq!(list["comes_from"]["static"], "build");

    // Whoever names a compiler gets a library from that one.
    let compiler = outdated.path().join("compiler");
    fs::write(&compiler, "#!/bin/sh\nexec cc -DANOTHER \"$@\"\n").unwrap();
    fs::set_permissions(&compiler, fs::Permissions::from_mode(0o755)).unwrap();
    let target = Target::of_this_machine(Libc::Glibc).unwrap();
    let name = format!("CC_{}", target.triple().replace('-', "_"));
    let list = row(reheap("list --json").env(name, compiler));
    assert_eq!(list["comes_from"]["glibc"], "build");
}

#[test]
fn the_catalogue_says_why_a_library_is_not_prebuilt() {
    let package = Installed::new();
    let manifest = package.path("share/reheap/manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    let mut value: Value = serde_json::from_str(&text).unwrap();
    let files = value["files"].as_array_mut().unwrap();
    let is_it = |file: &Value| {
        let path = file["path"].as_str().unwrap();
        path.contains("-gnu/libhardened_malloc-light")
    };
    let at = files.iter().position(is_it).unwrap();
    let path = files.remove(at)["path"].clone();
    value["left_out"] = json!([{"path": path, "reason": "no compiler took it"}]);
    fs::write(&manifest, value.to_string()).unwrap();
    let text = run(&mut package.reheap("list hardened_malloc-light"))
        .succeeded()
        .stdout;
    assert!(
        text.contains("glibc is not prebuilt: no compiler took it\n"),
        "{text}"
    );
    let list = run(&mut package.reheap("list --json")).succeeded().stdout;
    assert!(
        list.contains("\"glibc\": \"no compiler took it\""),
        "{list}"
    );
}

#[test]
fn a_finished_executable_gets_its_allocator_without_a_compiler() {
    let package = Installed::new();
    let directory = tempfile::tempdir().unwrap();
    let (tool, cache) = (
        directory.path().join("tool"),
        directory.path().join("cache"),
    );
    run(Command::new("musl-gcc")
        .arg("-static")
        .arg(program("hello.c"))
        .arg("-o")
        .arg(&tool))
    .succeeded();
    let mut graft = package.reheap("graft");
    graft.arg(&tool).env("REHEAP_CACHE_DIR", &cache);
    run(graft.env("PATH", directory.path()))
        .succeeded()
        .did_not_say("building");
    let grafted = directory.path().join("tool.reheap");
    assert_eq!(allocator_in(&grafted), "mimalloc");
    run(&mut Command::new(grafted)).succeeded();
}

#[test]
fn a_file_that_is_not_as_the_manifest_says_is_refused_by_name_although_another_could_be_built() {
    let package = Installed::new();
    let library = package.preload("rpmalloc");
    let whole = fs::read(&library).unwrap();
    let mut changed = whole.clone();
    let middle = changed.len() / 2;
    changed[middle] ^= 1;
    for (contents, reason) in [
        (Some(changed.as_slice()), "somebody changed it"),
        (Some(&whole[..middle]), "bytes, and `manifest.json` says"),
        (None, "it is missing, and `manifest.json` lists it"),
    ] {
        match contents {
            Some(contents) => fs::write(&library, contents).unwrap(),
            None => fs::remove_file(&library).unwrap(),
        }
        let name = format!("cannot use the prebuilt file `{}`", library.display());
        for line in [
            "run -a rpmalloc -- true",
            "run -a rpmalloc --verify -- true",
            "bench --variant glibc+rpmalloc --rounds 2 -- true",
        ] {
            run(&mut package.reheap(line)).ended_with(1).said(&[
                &name,
                reason,
                "hint: install reheap again",
            ]);
        }
        // The others are whole.
        run(&mut package.reheap("run -a mimalloc -- true")).succeeded();
    }
}

#[test]
fn doctor_says_whether_the_files_of_the_package_are_whole_and_of_this_version() {
    let package = Installed::new();
    let doctor = || run(&mut package.reheap("doctor prebuilt"));
    doctor().succeeded().printed(&[
        "ok       prebuilt files",
        "so that preloads need no compiler",
    ]);

    let manifest = package.path("share/reheap/manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    let mut value: Value = serde_json::from_str(&text).unwrap();
    let this = value["reheap"].as_str().unwrap().to_owned();
    value["reheap"] = "0.0.9".into();
    fs::write(&manifest, value.to_string()).unwrap();
    let differ = format!("they belong to reheap 0.0.9, and this is reheap {this}");
    doctor()
        .ended_with(1)
        .printed(&[&differ, "by hand: install reheap again"]);

    fs::write(&manifest, text).unwrap();
    let library = package.preload("rpmalloc");
    fs::write(&library, "cut off").unwrap();
    let cut = format!("cannot use the prebuilt file `{}`", library.display());
    doctor()
        .ended_with(1)
        .printed(&[&cut, "by hand: install reheap again"]);

    run(&mut reheap("doctor prebuilt"))
        .succeeded()
        .printed(&["none, so reheap builds what it needs"]);
}

#[test]
fn files_of_the_package_that_may_not_be_read_are_an_error_and_not_their_absence() {
    let package = Installed::new();
    let closed = package.path("share/reheap");
    let open_to_all = fs::Permissions::from_mode(0o755);
    fs::set_permissions(package.path(""), open_to_all).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o600)).unwrap();
    let mut command = Command::new(package.path("bin/reheap"));
    if rustix::process::geteuid().is_root() {
        command = Command::new("setpriv");
        command
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(package.path("bin/reheap"));
    }
    run(command.args(["list", "rpmalloc"]).current_dir("/"))
        .ended_with(1)
        .said(&[
            &format!("cannot use the prebuilt files of `{}", closed.display()),
            "Permission denied",
            "hint: install reheap again",
        ]);
}

#[test]
fn the_environment_must_name_a_directory_of_prebuilt_files() {
    let empty = tempfile::tempdir().unwrap();
    let manifest = empty.path().join("manifest.json");
    let refused = format!("cannot use the prebuilt files of `{}`", manifest.display());
    let hint = "hint: REHEAP_PREBUILT names that directory";
    let command = |line: &str| {
        let mut command = reheap(line);
        command.env("REHEAP_PREBUILT", empty.path());
        command
    };
    let line = "run -a rpmalloc -- true";
    let missing = run(&mut command(line)).ended_with(1);
    missing.said(&[&refused, "there is no such file", hint]);
    fs::write(&manifest, r#"{"version": 7}"#).unwrap();
    let unknown = run(&mut command(line)).ended_with(1);
    unknown.said(&[&refused, "it has version 7", hint]);
    // What needs no library does not look.
    run(&mut command("run -a stock -- true")).succeeded();
}

/// `run` keeps only links there, which lead each libc to its library.
#[test]
fn a_cache_that_can_keep_nothing_is_an_error_with_a_way_out() {
    let package = Installed::new();
    let mut command = package.reheap("run -a rpmalloc -- true");
    run(command.env("REHEAP_CACHE_DIR", "/proc/reheap"))
        .ended_with(1)
        .said(&[
            "cannot use the cache: cannot make the directory `/proc/reheap/run`",
            "hint: set another one: REHEAP_CACHE_DIR=<directory>",
        ]);
}

#[test]
fn the_first_build_of_a_project_compiles_no_allocator() {
    let package = Installed::new();
    let project = Project::new("fn main() { println!(\"{}\", vec![1; 1000].len()); }");
    let cache = tempfile::tempdir().unwrap();
    for (flags, name) in [("", "mimalloc"), (" -a rpmalloc", "rpmalloc")] {
        let mut command = project.cargo_reheap(&format!("build{flags}"));
        command
            .env("REHEAP_CACHE_DIR", cache.path())
            .env("REHEAP_PREBUILT", package.path("share/reheap"));
        run(&mut command).succeeded().did_not_say("building");
        assert_eq!(allocator_in(&project.app()), name);
    }
    for built in ["allocators", "memory-functions", "build"] {
        assert!(!cache.path().join(built).exists(), "{built}");
    }
}

/// A machine with a shell, `cat`, and reheap with its package; and with another system below `/target`.
fn bare_machine() -> Image {
    let (machine, target) = (Image::of_glibc(), Image::of_glibc());
    for image in [&machine, &target] {
        image.copy(&musl_linker());
    }
    machine.with_reheap_at("opt/reheap/bin/reheap");
    let package = machine.path("opt/reheap/share/reheap");
    fs::create_dir_all(&package).unwrap();
    produce(&package);
    let of_musl =
        "#include <stdlib.h>\nint main(void) { void *volatile block = malloc(9); free(block); }\n";
    let source = machine.path("musl.c");
    fs::write(&source, of_musl).unwrap();
    run(Command::new("musl-gcc")
        .arg(&source)
        .arg("-o")
        .arg(machine.path("bin/musl")))
    .succeeded();
    for directory in ["proc", "dev", "tmp", "root"] {
        fs::create_dir(machine.path(directory)).unwrap();
    }
    let copied = Command::new("cp")
        .arg("-a")
        .arg(target.directory.path())
        .arg(machine.path("target"))
        .status();
    assert!(copied.unwrap().success());
    machine
}

/// Runs a script in a root directory without a compiler and a namespace without a network.
fn on(machine: &Image, script: &str) -> common::Outcome {
    fs::write(machine.path("script"), script).unwrap();
    let around = "
        chroot=$(command -v chroot)
        setsid=$(command -v setsid)
        mount --bind /dev \"$1/dev\"
        exec unshare -npf --mount-proc=\"$1/proc\" \\
            env -i PATH=/opt/reheap/bin:/bin HOME=/root \"$setsid\" \"$chroot\" \"$1\" /bin/sh -eu /script";
    in_namespace(around, &[machine.directory.path()])
}

#[track_caller]
fn prints(outcome: &common::Outcome, texts: &[&str]) {
    assert_eq!(outcome.code(), Some(0), "{outcome:?}");
    for text in texts {
        let (stdout, stderr) = (&outcome.stdout, &outcome.stderr);
        assert!(stdout.contains(text), "no `{text}` in:\n{stdout}\n{stderr}");
    }
}

#[test]
fn programs_run_are_checked_and_are_compared_on_a_machine_that_can_build_nothing() {
    let machine = bare_machine();
    let script = "
        for tool in cargo rustc cc gcc clang zig python3; do
            ! command -v $tool || exit 70
        done
        for allocator in mimalloc rpmalloc hardened_malloc-light; do
            reheap run -a $allocator -- cat /proc/self/maps | while read -r line; do
                case $line in *lib$allocator-*) echo \"cat has $allocator\"; break;; esac
            done
            reheap run -a $allocator -- musl && echo \"musl ran with $allocator\"
        done
        reheap run --check -a rpmalloc -- sh -c 'cat /script'
        reheap run --check -a rpmalloc -- musl
        reheap run --verify -a mimalloc -- sh -c 'cat /script >/dev/null'
        reheap bench --rounds 2 --variant glibc,glibc+rpmalloc -- cat /script
        reheap profile --trace /tmp/trace -- cat /script
        reheap replay --allocator rpmalloc /tmp/trace
        reheap inspect /opt/reheap/share/reheap/preloads/*/librpmalloc-*.so
        reheap list rpmalloc";
    prints(
        &on(&machine, script),
        &[
            "cat has mimalloc",
            "cat has rpmalloc",
            "cat has hardened_malloc-light",
            "musl ran with mimalloc",
            "musl ran with rpmalloc",
            "musl ran with hardened_malloc-light",
            "verdict    works",
            "glibc+rpmalloc",
            "rpmalloc 1.4.3: small code",
            "shared library, musl",
            "shared library, glibc",
        ],
    );
}

#[test]
fn an_allocator_is_put_under_a_system_on_a_machine_that_can_build_nothing() {
    let machine = bare_machine();
    let script = "
        reheap enable mimalloc -t purge_delay=7 --root /target
        reheap status --root /target
        cat /target/etc/reheap-enabled.json > /record
        reheap disable --root /target
        reheap preload -a mimalloc -t purge_delay=7 -o /tmp
        reheap preload -a mimalloc --libc musl -o /opt
        MIMALLOC_VERBOSE=1 LD_PRELOAD=$(echo /tmp/libmimalloc-*.so) reheap --version 2>&1
        MIMALLOC_VERBOSE=1 LD_PRELOAD=$(echo /opt/libmimalloc-*.so) musl 2>&1";
    prints(
        &on(&machine, script),
        &[
            "export LD_PRELOAD=/tmp/libmimalloc-",
            "with purge_delay=7 in it",
            "option 'purge_delay': 7",
            "mimalloc: process done",
        ],
    );
    let record = machine.read("record");
    let mut record: Value = serde_json::from_str(&record).unwrap();
    record["reheap"] = "0.0.9".into();
    fs::write(machine.path("etc/reheap-enabled.json"), record.to_string()).unwrap();
    let by_another = "reheap: mimalloc 2.3.2 was enabled by reheap 0.0.9, and this is reheap ";
    on(&machine, "reheap doctor")
        .ended_with(1)
        .said(&[by_another, "run `reheap enable mimalloc -t purge_delay=7`"]);
    let other = match std::env::consts::ARCH {
        "x86_64" => "aarch64",
        _ => "x86_64",
    };
    let line = format!("reheap preload -a mimalloc --libc glibc --arch {other} -o /tmp");
    let reason = format!(
        "there is no prebuilt mimalloc for `{other}-unknown-linux-gnu`: cannot find a C compiler"
    );
    on(&machine, &line).ended_with(1).said(&[&reason]);
}
