//! Hooks in static programs: started, counted to the last call, and otherwise as they always are.

use crate::common::{
    Link, Recording, compile, compile_with_marker, compile_with_old_marker, ends, hooks,
    scratch_directory, strip,
};
use reheap_graft::{Access, locate};
use reheap_profile::inject::{InjectError, Started, spawn};
use std::collections::BTreeMap;
use std::fs::Permissions;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

const STATIC: [Link; 3] = [Link::Musl, Link::Glibc, Link::GlibcPie];

#[track_caller]
fn start(program: &Path, arguments: &[&str], recording: &Recording) -> Started {
    let bytes = std::fs::read(program).unwrap();
    let located = locate(bytes.as_slice()).unwrap_or_else(|error| panic!("{error}"));
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdout(Stdio::piped())
        .stdin(Stdio::null());
    let hooks = hooks();
    spawn(command, &located, &hooks, &recording.path).unwrap_or_else(|error| panic!("{error}"))
}

/// What `known_counts` did, with that many threads and rounds in each.
#[track_caller]
fn counts(
    program: &Path,
    access: Access,
    threads: u64,
    rounds: u64,
) -> BTreeMap<&'static str, u64> {
    let directory = scratch_directory();
    let recording = Recording::new(directory.path());
    let arguments = [threads.to_string(), rounds.to_string()];
    let mut started = start(program, &[&arguments[0], &arguments[1]], &recording);
    assert_eq!(started.injection.access, access);
    let name = program.to_string_lossy();
    let not_located: &[&str] = match access {
        Access::Code if name.contains("Glibc") => &["valloc", "pvalloc"],
        Access::Marker if name.contains("old") => {
            &["aligned_alloc", "posix_memalign", "memalign", "valloc"]
        }
        _ => &[],
    };
    assert_eq!(started.injection.not_located, not_located);

    let mut said = String::new();
    let mut stdout = started.child.stdout.take().unwrap();
    stdout.read_to_string(&mut said).unwrap();
    assert_eq!(ends(&mut started.child).code(), Some(7), "{program:?}");
    assert_eq!(said, "done\n");
    recording.counts().into_iter().collect()
}

/// Runs `known_counts` and compares every counter.
#[track_caller]
fn counts_exactly(program: &Path, access: Access, threads: u64, rounds: u64) {
    // What the libc itself does: glibc gets blocks when it starts, and one for each thread.
    let without_rounds = counts(program, access, threads, 0);
    let mut counts = counts(program, access, threads, rounds);
    for (name, count) in &mut counts {
        *count -= without_rounds.get(name).unwrap_or(&0);
    }
    let each = threads * rounds;
    let expected = [
        ("aligned_alloc", each),
        ("calloc", each),
        ("free", 4 * each),
        ("malloc", each),
        ("posix_memalign", each),
        ("realloc", each),
    ];
    assert_eq!(counts, BTreeMap::from(expected), "{program:?}");
}

#[test]
fn every_call_of_one_thread_is_counted() {
    let directory = scratch_directory();
    for link in STATIC {
        let program = compile("known_counts", link, directory.path());
        counts_exactly(&program, Access::Symbols, 1, 100_000);
    }
}

#[test]
fn every_call_of_eight_threads_is_counted() {
    let directory = scratch_directory();
    for link in STATIC {
        let program = compile("known_counts", link, directory.path());
        counts_exactly(&program, Access::Symbols, 8, 20_000);
    }
}

#[test]
fn calls_before_main_are_counted() {
    let directory = scratch_directory();
    let program = compile("known_counts", Link::Musl, directory.path());
    let before_main = BTreeMap::from([("malloc", 3), ("free", 3)]);
    assert_eq!(counts(&program, Access::Symbols, 1, 0), before_main);
}

#[test]
fn every_call_of_a_stripped_program_is_counted() {
    let directory = scratch_directory();
    for link in STATIC {
        let program = strip(&compile("known_counts", link, directory.path()));
        counts_exactly(&program, Access::Code, 1, 10_000);
        counts_exactly(&program, Access::Code, 8, 10_000);
    }
}

#[test]
fn every_call_of_a_stripped_program_with_a_marker_is_counted() {
    let directory = scratch_directory();
    let program = strip(&compile_with_marker("known_counts", directory.path()));
    counts_exactly(&program, Access::Marker, 1, 10_000);
    counts_exactly(&program, Access::Marker, 8, 1000);
}

#[test]
fn an_old_marker_leads_to_the_four_functions_that_it_names() {
    let directory = scratch_directory();
    let program = strip(&compile_with_old_marker("known_counts", directory.path()));
    let without_rounds = counts(&program, Access::Marker, 8, 0);
    let counts = counts(&program, Access::Marker, 8, 1000);
    for (name, each_round) in [("malloc", 1), ("calloc", 1), ("realloc", 1), ("free", 4)] {
        let rounds = counts[name] - without_rounds.get(name).unwrap_or(&0);
        assert_eq!(rounds, each_round * 8000, "{name}");
    }
}

#[test]
fn allocators_with_names_of_their_own_are_counted_by_them() {
    let directory = scratch_directory();
    for link in [Link::Musl, Link::Glibc] {
        let program = compile("own_names", link, directory.path());
        let recording = Recording::new(&directory.path().join(format!("{link:?}")));
        let mut started = start(&program, &["1000"], &recording);
        assert_eq!(ends(&mut started.child).code(), Some(0));
        let expected = [
            ("je_malloc", 1000),
            ("je_calloc", 1000),
            ("je_mallocx", 1000),
            ("je_rallocx", 1000),
            ("je_sdallocx", 3000),
            ("mi_malloc_aligned", 1000),
            ("mi_zalloc_aligned", 1000),
            ("mi_realloc_aligned", 1000),
            ("mi_free", 2000),
        ];
        for (name, count) in expected {
            assert_eq!(recording.count(name), count, "{link:?}: {name}");
        }
        assert!(
            recording.count("malloc") >= 1,
            "{link:?}: the libc's own, besides"
        );
    }
}

/// What `manners` says when it is started as given, and how it ends.
fn manners(program: &Path, what: &str, recording: Option<&Recording>) -> (String, ExitStatus) {
    let mut command = Command::new(program);
    command
        .arg(what)
        .env("OF_THE_TEST", "a value")
        .current_dir("/usr");
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = match recording {
        None => command.spawn().unwrap(),
        Some(recording) => {
            let located = locate(std::fs::read(program).unwrap().as_slice()).unwrap();
            let hooks = hooks();
            let started = spawn(command, &located, &hooks, &recording.path);
            started.unwrap_or_else(|error| panic!("{error}")).child
        }
    };
    let mut said = String::new();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_to_string(&mut said).unwrap();
    (said, ends(&mut child))
}

#[test]
fn a_program_finds_everything_as_without_hooks() {
    let directory = scratch_directory();
    for link in STATIC {
        let program = compile("manners", link, directory.path());
        for what in ["state", "signals", "fork", "killed", "large"] {
            let recording = Recording::new(&directory.path().join(format!("{link:?}-{what}")));
            let without = manners(&program, what, None);
            let with = manners(&program, what, Some(&recording));
            assert_eq!(with, without, "{link:?} {what}");
            let least = match what {
                "signals" => 1000,
                "fork" => 10,
                "large" => 4000,
                _ => 0,
            };
            assert!(recording.count("malloc") >= least, "{link:?} {what}");
        }
    }
}

#[test]
fn a_program_of_somebody_else_says_the_same_with_hooks() {
    const BUSYBOX: &str = "/bin/busybox";
    let bytes = std::fs::read(BUSYBOX);
    let bytes = bytes.unwrap_or_else(|error| {
        panic!("{BUSYBOX}: {error}; apt-get install -y --no-install-recommends busybox-static")
    });
    let located = locate(bytes.as_slice()).unwrap_or_else(|error| panic!("{error}"));
    let directory = scratch_directory();
    let hooks = hooks();
    for (index, script) in [
        "seq 1 20000 | sort -r | tail -n 3",
        "for i in $(seq 1 200); do echo $i; done | wc -l; (exit 3)",
        "find /usr/share/doc -name 'c*' | sort | md5sum; awk 'BEGIN { while (i++ < 50000) a[i] = i; print a[777] }'",
    ]
    .into_iter()
    .enumerate()
    {
        let command = || {
            let mut command = Command::new(BUSYBOX);
            command.args(["sh", "-c", script]);
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            command
        };
        let without = command().output().unwrap();
        let recording = Recording::new(&directory.path().join(index.to_string()));
        let started = spawn(command(), &located, &hooks, &recording.path);
        let started = started.unwrap_or_else(|error| panic!("{error}"));
        let with = started.child.wait_with_output().unwrap();
        assert_eq!(with, without, "{script}");
        assert!(recording.count("malloc") > 0 && recording.count("free") > 0, "{script}");
    }
}

#[test]
fn without_its_recording_the_program_does_not_run_at_all() {
    let directory = scratch_directory();
    let program = compile("manners", Link::Musl, directory.path());
    let located = locate(std::fs::read(&program).unwrap().as_slice()).unwrap();
    let mut command = Command::new(&program);
    let (mut reader, writer) = std::io::pipe().unwrap();
    command.arg("state").stdout(writer);
    let hooks = hooks();
    let error = spawn(command, &located, &hooks, &directory.path().join("missing")).unwrap_err();
    assert!(
        matches!(error, InjectError::Recording(errno) if errno as i32 == libc::ENOENT),
        "{error}"
    );
    let mut said = String::new();
    reader.read_to_string(&mut said).unwrap();
    assert_eq!(said, "", "it printed something");
}

#[test]
fn another_program_than_the_examined_one_is_not_touched() {
    let directory = scratch_directory();
    let examined = compile("manners", Link::Musl, directory.path());
    let other = compile("known_counts", Link::Musl, directory.path());
    let located = locate(std::fs::read(examined).unwrap().as_slice()).unwrap();
    let recording = Recording::new(directory.path());
    let mut command = Command::new(other);
    command.stdout(Stdio::null());
    let hooks = hooks();
    let error = spawn(command, &located, &hooks, &recording.path).unwrap_err();
    assert!(matches!(error, InjectError::OtherCode { .. }), "{error}");
}

#[test]
fn a_missing_program_is_an_ordinary_error() {
    let directory = scratch_directory();
    let examined = compile("manners", Link::Musl, directory.path());
    let located = locate(std::fs::read(examined).unwrap().as_slice()).unwrap();
    let recording = Recording::new(directory.path());
    let command = Command::new(directory.path().join("missing"));
    let hooks = hooks();
    let error = spawn(command, &located, &hooks, &recording.path).unwrap_err();
    assert!(
        matches!(&error, InjectError::Spawn(error) if error.kind() == ErrorKind::NotFound),
        "{error}"
    );
}

#[test]
fn a_program_that_would_gain_rights_is_refused() {
    let directory = scratch_directory();
    let program = compile("manners", Link::Musl, directory.path());
    let located = locate(std::fs::read(&program).unwrap().as_slice()).unwrap();
    let own = rustix::process::getegid().as_raw();
    // Only root may give a file away; anybody may set the bit on a file of their own, where it means nothing.
    let is_root = std::os::unix::fs::chown(&program, None, Some(own + 1)).is_ok();
    std::fs::set_permissions(&program, Permissions::from_mode(0o2755)).unwrap();
    let recording = Recording::new(directory.path());
    let mut command = Command::new(&program);
    command.arg("state").stdout(Stdio::null());
    let hooks = hooks();
    match spawn(command, &located, &hooks, &recording.path) {
        Err(error) => assert!(
            is_root && matches!(error, InjectError::Privileged(_)),
            "{error}"
        ),
        Ok(mut started) => {
            assert!(!is_root);
            assert_eq!(ends(&mut started.child).code(), Some(0));
        }
    }
}
