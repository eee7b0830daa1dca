//! `reheap link-names`: programs that are reheap by another name.

use crate::common::{cache, reheap, run};
use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn a_link_runs_a_program_with_the_allocator_that_it_is_named_after() {
    let directory = tempfile::tempdir().unwrap();
    let made = run(reheap("link-names").arg(directory.path()))
        .succeeded()
        .stdout;
    let link = directory.path().join("mimalloc-run");
    assert!(made.lines().any(|line| Path::new(line) == link), "{made}");
    let again = run(reheap("link-names").arg(directory.path()))
        .succeeded()
        .stdout;
    assert_eq!(made, again);

    let mut command = Command::new(&link);
    command.args(["sh", "-c", "cat /proc/self/maps; exit 7"]);
    command
        .env("REHEAP_CACHE_DIR", cache())
        .env_remove("LD_PRELOAD");
    let maps = run(&mut command).ended_with(7).stdout;
    assert!(maps.contains("/libmimalloc-2.3.2.so"), "{maps}");
    run(&mut Command::new(&link))
        .ended_with(2)
        .said(&["reheap run"]);
    let help = run(Command::new(&link).arg("--help")).succeeded().stdout;
    assert!(help.contains("--check"), "{help}");
}

#[test]
fn a_file_that_is_not_reheaps_is_never_replaced_and_nothing_else_made() {
    let directory = tempfile::tempdir().unwrap();
    let own = directory.path().join("jemalloc-run");
    fs::write(&own, "mine").unwrap();
    run(reheap("link-names").arg(directory.path()))
        .ended_with(1)
        .said(&["jemalloc-run`: another file has that name"]);
    assert_eq!(fs::read_to_string(&own).unwrap(), "mine");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    run(&mut reheap("link-names /no/such/directory"))
        .ended_with(1)
        .said(&["it is not a directory"]);
    run(reheap("link-names").arg(&own)).ended_with(1);
}
