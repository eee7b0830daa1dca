//! What happens when this process may open no more files. Alone in its file, because the limit is the whole process's.

use reheap_bench::run::{CommandLine, Launcher, Limits};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs;

fn open_files() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn runs_leave_no_file_open_and_too_few_files_are_an_error_that_says_so() {
    let launcher = Launcher::new().unwrap();
    let command = CommandLine {
        program: "/bin/true".into(),
        ..CommandLine::default()
    };
    let run = || launcher.run(&command, &Limits::default(), &[]);
    run().unwrap();
    let before = open_files();
    for _ in 0..20 {
        run().unwrap();
    }
    assert_eq!(open_files(), before);

    let usual = getrlimit(Resource::Nofile);
    let mut failures = Vec::new();
    // However far it gets, from the first file that it needs to the last.
    for more in 0..16 {
        let limit = Rlimit {
            current: Some(before as u64 - 1 + more),
            ..usual
        };
        setrlimit(Resource::Nofile, limit).unwrap();
        let result = run();
        setrlimit(Resource::Nofile, usual).unwrap();
        failures.extend(result.err().map(|error| error.to_string()));
        assert_eq!(open_files(), before);
    }
    assert!((1..16).contains(&failures.len()), "{failures:?}");
    for failure in failures {
        let expected =
            "cannot start the launcher of `/bin/true`: Too many open files (os error 24)";
        assert_eq!(failure, expected);
    }
}
