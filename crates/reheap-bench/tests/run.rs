//! What a run of a real command reports.

use reheap_bench::run::{CommandLine, Launcher, Run, RunError};
use std::hint::black_box;
use std::io;
use std::os::unix::process::ExitStatusExt;

const MIB: u64 = 1024 * 1024;

fn command(program: &str, arguments: &[&str]) -> CommandLine {
    CommandLine {
        program: program.into(),
        arguments: arguments.iter().map(Into::into).collect(),
        environment: Vec::new(),
    }
}

fn run(command: &CommandLine) -> Run {
    Launcher::new().unwrap().run(command).unwrap()
}

/// `sh -c SCRIPT`, which can do everything that a test wants to see and is on every machine.
fn shell(script: &str) -> Run {
    run(&command("/bin/sh", &["-c", script]))
}

#[test]
fn a_big_parent_does_not_inflate_the_peak_of_a_small_child() {
    let parent = black_box(vec![1_u8; 256 * MIB as usize]);
    let peak = run(&command("/bin/true", &[])).measurement.peak_rss_bytes;
    assert!(
        peak > 0 && peak < 16 * MIB,
        "{peak} bytes, beside {} of the parent",
        parent.len()
    );
}

#[test]
fn the_peak_is_what_the_command_touched_not_what_it_ended_with() {
    // dd reads zeros into a buffer of 64 MiB.
    let peak = run(&command(
        "/bin/dd",
        &["if=/dev/zero", "of=/dev/null", "bs=64M", "count=1"],
    ))
    .measurement;
    let peak = peak.peak_rss_bytes;
    assert!((64 * MIB..80 * MIB).contains(&peak), "{peak} bytes");
}

#[test]
fn the_peak_of_one_run_does_not_show_in_the_next() {
    let launcher = Launcher::new().unwrap();
    launcher
        .run(&command(
            "/bin/dd",
            &["if=/dev/zero", "of=/dev/null", "bs=64M", "count=1"],
        ))
        .unwrap();
    let peak = launcher
        .run(&command("/bin/true", &[]))
        .unwrap()
        .measurement
        .peak_rss_bytes;
    assert!(peak < 16 * MIB, "{peak} bytes");
}

#[test]
fn the_launcher_is_smaller_than_any_program() {
    // The kernel lets a command take the peak of its launcher along, so a launcher that measures a launcher shows
    // what the smallest command would be charged.
    let launcher = Launcher::new().unwrap();
    let peak = launcher
        .run(&command("/proc/self/exe", &[]))
        .unwrap()
        .measurement
        .peak_rss_bytes;
    assert!(peak < MIB / 4, "{peak} bytes");
}

#[test]
fn output_and_exit_code_are_the_commands_own() {
    let run = shell("echo out; echo err >&2; exit 3");
    assert_eq!(
        (run.stdout.as_slice(), run.stderr.as_slice()),
        (&b"out\n"[..], &b"err\n"[..])
    );
    assert_eq!(run.status.code(), Some(3));
}

#[test]
fn a_command_that_dies_of_a_signal_was_measured() {
    let run = shell("kill -SEGV $$");
    assert_eq!((run.status.code(), run.status.signal()), (None, Some(11)));
    assert!(run.measurement.peak_rss_bytes > 0);
}

#[test]
fn more_output_than_a_pipe_holds_is_kept_whole() {
    let run = run(&command("/bin/dd", &["if=/dev/zero", "bs=1M", "count=3"]));
    assert_eq!(run.stdout.len() as u64, 3 * MIB);
}

#[test]
fn standard_input_is_empty_and_no_file_of_the_launcher_is_left_open() {
    let run = shell("cat; readlink /proc/self/fd/*");
    let open = String::from_utf8_lossy(&run.stdout);
    assert!(
        open.starts_with("/dev/null\n") && !open.contains("reheap"),
        "{open}"
    );
}

#[test]
fn arguments_and_variables_arrive_as_they_were_given() {
    let mut command = command(
        "/bin/sh",
        &[
            "-c",
            "printf '%s|' \"$@\" \"$REHEAP_TEST\"",
            "sh",
            "a b",
            "",
            "'\"$x",
        ],
    );
    command
        .environment
        .push(("REHEAP_TEST".into(), "the value".into()));
    assert_eq!(
        String::from_utf8_lossy(&run(&command).stdout),
        "a b||'\"$x|the value|"
    );
}

#[test]
fn processor_time_is_counted_for_the_commands_own_children_too() {
    let run = shell("i=0; (while [ $i -lt 200000 ]; do i=$((i+1)); done)");
    let measurement = run.measurement;
    assert!(measurement.user_seconds > 0.0, "{measurement:?}");
    assert!(
        measurement.wall_seconds > 0.0 && measurement.minor_faults > 0,
        "{measurement:?}"
    );
    assert_eq!(
        measurement.cpu_seconds(),
        measurement.user_seconds + measurement.system_seconds
    );
}

#[test]
fn a_program_that_does_not_exist_is_named() {
    let error = Launcher::new()
        .unwrap()
        .run(&command("/no/such/program", &[]))
        .unwrap_err();
    assert!(
        matches!(&error, RunError::Start { reason, .. } if reason.kind() == io::ErrorKind::NotFound),
        "{error:?}"
    );
    assert_eq!(
        error.to_string(),
        "cannot start `/no/such/program`: No such file or directory (os error 2)"
    );
}

#[test]
fn a_file_that_is_not_executable_is_refused() {
    let error = Launcher::new()
        .unwrap()
        .run(&command("/dev/null", &[]))
        .unwrap_err();
    assert!(
        matches!(&error, RunError::Start { reason, .. } if reason.kind() == io::ErrorKind::PermissionDenied)
    );
}
