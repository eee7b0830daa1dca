//! The watch in programs of both libcs: it sees deaths by whatever function the parent asks, and changes no answer.

use crate::common::{cache, compile, compiler, program, run, scratch_directory, target, toolchain};
use reheap_allocators::preload;
use reheap_allocators::target::Libc;
use reheap_allocators::watch::{self, Seen, Watch};
use std::path::{Path, PathBuf};
use std::process::Command;

const BOTH: [Libc; 2] = [Libc::Glibc, Libc::Musl];
const SIGUSR1: i32 = 10;

struct Bench {
    library: PathBuf,
    program: PathBuf,
    _directory: tempfile::TempDir,
}

impl Bench {
    fn new(libc: Libc) -> Self {
        let target = target(libc);
        let directory = scratch_directory();
        let output = directory.path().join("watched");
        compile(&compiler(&target), &program("watched"), &[], &output);
        // By way of a path that leads the shell, which is a program of glibc, past the library for musl.
        let library = watch::LIBRARY
            .build(&target, &toolchain(&target), &cache())
            .unwrap();
        let library = preload::path_for_variable(&library, &target, || None, &cache()).unwrap();
        Self {
            library,
            program: output,
            _directory: directory,
        }
    }

    /// Runs `watched.c`, which must find that all is as without the watch.
    fn seen(&self, what: &str) -> Seen {
        let watch = Watch::create().unwrap();
        let mut command = Command::new(&self.program);
        run(command
            .arg(what)
            .envs(watch.environment(&self.library, None)))
        .succeeded();
        watch.seen().unwrap()
    }
}

#[test]
fn a_death_is_seen_by_whatever_function_the_parent_asks() {
    for libc in BOTH {
        let bench = Bench::new(libc);
        for function in [
            "wait",
            "waitpid",
            "without a place",
            "wait3",
            "wait4",
            "waitid",
        ] {
            let seen = bench.seen(function);
            let [death] = seen.deaths.as_slice() else {
                panic!("{libc}, {function}: {seen:?}");
            };
            assert_eq!(death.signal, SIGUSR1);
            let parent = seen.program_of(death.parent).unwrap();
            assert!(parent.ends_with("watched"), "{parent:?}");
            let child = seen
                .started
                .iter()
                .find(|process| process.is_forked)
                .unwrap();
            assert_eq!(death.process, Some(child.process));
            assert!(
                seen.started.iter().all(|process| process.is_over),
                "{seen:?}"
            );
        }
    }
}

#[test]
fn a_death_inside_of_the_libc_is_seen_without_its_number() {
    for libc in BOTH {
        let bench = Bench::new(libc);
        for function in ["system", "pclose"] {
            let seen = bench.seen(function);
            let [death] = seen.deaths.as_slice() else {
                panic!("{libc}, {function}: {seen:?}");
            };
            assert_eq!((death.process, death.signal), (None, SIGUSR1));
        }
    }
}

#[test]
fn a_death_that_nobody_asks_of_is_an_end_out_of_order() {
    for libc in BOTH {
        let seen = Bench::new(libc).seen("nobody");
        assert_eq!(seen.deaths, []);
        let is_over = |is_forked| {
            let mut started = seen.started.iter();
            started
                .find(|process| process.is_forked == is_forked)
                .unwrap()
                .is_over
        };
        assert_eq!((is_over(false), is_over(true)), (true, false));
    }
}

#[test]
fn what_is_no_recording_is_refused() {
    let watch = Watch::create().unwrap();
    assert_eq!(watch.seen().unwrap(), Seen::default());
    let [(_, path), _] = watch.environment(Path::new("/library"), None);
    std::fs::write(path, "something else").unwrap();
    let error = watch.seen().unwrap_err().to_string();
    assert!(error.contains("is damaged"), "{error}");
}
