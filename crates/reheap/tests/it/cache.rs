//! The cache: what is shown of it, and what goes, when, and what never does.

use crate::common::command::{DEADLINE, Running, in_time, make_fifo};
use crate::common::workshop::parsed;
use crate::common::{files_below, reheap, run, target, write};
use serde_json::Value;
use std::fs::{self, File, FileTimes};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

/// `reheap` with a cache of its own.
fn with_cache(cache: &Path, line: &str) -> Command {
    let mut command = reheap(line);
    command.env("REHEAP_CACHE_DIR", cache);
    command
}

#[track_caller]
fn json(cache: &Path, line: &str) -> Value {
    parsed(&run(&mut with_cache(cache, line)).succeeded().stdout)
}

/// The number of entries of a kind that `reheap cache` shows.
#[track_caller]
fn count(cache: &Path, kind: &str) -> u64 {
    let shown = json(cache, "cache --json");
    let kinds = shown["kinds"].as_array().unwrap();
    let of_kind = kinds.iter().find(|of| of["kind"] == kind);
    of_kind.map_or(0, |of| of["entries"].as_u64().unwrap())
}

/// Makes everything look as if it was made and read last so many days ago.
fn age(directory: &Path, days: u32) {
    let then = SystemTime::now() - Duration::from_hours(24) * days;
    let times = FileTimes::new().set_accessed(then).set_modified(then);
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            age(&entry.path(), days);
        }
        if !entry.file_type().unwrap().is_symlink() {
            File::open(entry.path()).unwrap().set_times(times).unwrap();
        }
    }
}

#[test]
fn everything_of_reheaps_and_nothing_else_is_removed_and_built_again() {
    let directory = tempfile::tempdir().unwrap();
    let cache = directory.path().join("home");
    let outside = directory.path().join("outside");
    run(&mut with_cache(&cache, "cache --clean")).succeeded();
    assert!(!cache.exists(), "nothing is made only to be cleaned");

    run(&mut with_cache(&cache, "libc -a rpmalloc")).succeeded();
    // What a user may have there, with names that reheap has as well.
    write(&cache, "notes.txt", "mine");
    write(&cache, "libc/musl-1.2.5/configure", "mine");
    write(&outside, "app-0123456789abcdef/main.c", "mine");
    fs::remove_dir(cache.join("build")).unwrap();
    symlink(&outside, cache.join("build")).unwrap();
    symlink(
        outside.join("app-0123456789abcdef"),
        cache.join("libc/x-0123456789abcdef"),
    )
    .unwrap();
    // What a clean that was cut off in the middle leaves.
    write(&cache, ".removed-Ab12Cd/0/libc.a", "half of it");

    let shown = json(&cache, "cache --json");
    let text = run(&mut with_cache(&cache, "cache")).succeeded();
    text.printed(&["allocators", "1 entry ", "used today", "derived libcs"]);
    assert_eq!(count(&cache, "allocators"), 1);
    let cleaned = json(&cache, "cache --clean --json");
    assert_eq!(cleaned["freed_bytes"], shown["bytes"]);
    assert!(cleaned["freed_bytes"].as_u64().unwrap() > 1_000_000);
    let left = files_below(&cache);
    let of_reheap =
        |path: &PathBuf| path.ends_with("lock") || path.to_string_lossy().starts_with('.');
    let left: Vec<_> = left.into_iter().filter(|path| !of_reheap(path)).collect();
    let mine = ["build", "libc/musl-1.2.5/configure", "notes.txt"].map(PathBuf::from);
    assert_eq!(left, mine);
    assert_eq!(files_below(&outside).len(), 1);

    fs::remove_file(cache.join("build")).unwrap();
    run(&mut with_cache(&cache, "libc -a rpmalloc")).succeeded();
    assert_eq!(count(&cache, "libc"), 1);
}

#[test]
fn nothing_is_removed_while_another_reheap_builds() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    for name in ["reached", "go-on"] {
        make_fifo(&path(name));
    }
    // A compiler that stops at rpmalloc's source, the first time.
    write(directory.path(), "stop", "");
    let compiler = write(
        directory.path(),
        "cc",
        "#!/bin/sh\nd=${0%/*}\ncase \"$*\" in *rpmalloc.c*) rm \"$d/stop\" && { echo > \"$d/reached\"; cat \"$d/go-on\"; };; esac\nexec musl-gcc \"$@\"\n",
    );
    fs::set_permissions(&compiler, fs::Permissions::from_mode(0o755)).unwrap();
    let mut build = with_cache(&path("cache"), "libc -a rpmalloc");
    build.env(format!("CC_{}", target().replace('-', "_")), compiler);
    let build = Running::start(build.stdin(Stdio::null()));
    build.says_through(&path("reached"));
    run(&mut with_cache(&path("cache"), "cache --clean"))
        .ended_with(1)
        .said(&["another reheap is using it", "hint: try again"]);
    let go_on = path("go-on");
    in_time("a compiler that reads", || fs::write(go_on, "")).unwrap();
    build.finish(DEADLINE).succeeded();
    let cache = directory.path().join("cache");
    run(&mut with_cache(&cache, "cache --clean")).succeeded();
    assert_eq!(count(&cache, "libc"), 0);
}

#[test]
fn the_preload_of_a_running_program_stays_for_what_it_starts_later() {
    let directory = tempfile::tempdir().unwrap();
    let cache = directory.path().join("cache");
    let path = |name: &str| directory.path().join(name);
    for name in ["reached", "go-on"] {
        make_fifo(&path(name));
    }
    let mut waits = with_cache(&cache, "run -a rpmalloc -- sh -c");
    waits
        .arg("echo > reached; read line < go-on; exec cat /proc/self/maps")
        .current_dir(directory.path());
    let waits = Running::start(waits.stdin(Stdio::null()));
    waits.says_through(&path("reached"));
    let cleaned = json(&cache, "cache --clean --json");
    assert_eq!(cleaned["in_use"].as_array().unwrap().len(), 2, "{cleaned}");
    let text = run(&mut with_cache(&cache, "cache --clean")).succeeded();
    text.printed(&["removed 0 entries", "a running program uses it: "]);
    let go_on = path("go-on");
    in_time("a shell that reads", || fs::write(go_on, "\n")).unwrap();
    let outcome = waits.finish(DEADLINE).succeeded();
    assert_eq!(outcome.stderr.matches("cannot be preloaded").count(), 0);
    outcome.printed(&["librpmalloc"]);
    run(&mut with_cache(&cache, "cache --clean")).succeeded();
    assert_eq!(count(&cache, "preloads"), 0);
}

#[test]
fn what_was_not_used_for_long_goes_by_itself() {
    let directory = tempfile::tempdir().unwrap();
    let cache = directory.path().join("cache");
    let used = || run(&mut with_cache(&cache, "libc -a rpmalloc")).succeeded();
    used();
    write(&cache, "libc/old-0123456789abcdef/libc.a", "old");
    write(&cache, "tools/ziglang-0.0.0/zig", "old");
    age(&cache, 80);
    // An entry that is used counts as new, and the others are not old enough.
    used();
    assert_eq!(count(&cache, "libc"), 2);
    age(&cache.join("tools"), 100);
    age(&cache.join("libc/old-0123456789abcdef"), 100);
    let old = File::open(cache.join("libc/old-0123456789abcdef")).unwrap();
    old.set_modified(SystemTime::now() - Duration::from_hours(24) * 100)
        .unwrap();
    // It was looked for old ones today.
    used();
    assert_eq!(count(&cache, "libc"), 2);
    File::open(cache.join(".last-look-for-old-entries"))
        .unwrap()
        .set_modified(SystemTime::now() - Duration::from_hours(25))
        .unwrap();
    used();
    assert_eq!((count(&cache, "libc"), count(&cache, "tools")), (1, 1));
    assert_eq!(count(&cache, "allocators"), 1);
}
