//! What a run of a real command reports, and that nothing of it stays.

use reheap_bench::metrics::Metric;
use reheap_bench::results::{Cost, Direction, Outcome};
use reheap_bench::run::{CommandLine, Finished, Launcher, Limits, RunError};
use std::fs;
use std::hint::black_box;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const MIB: u64 = 1024 * 1024;

fn command(program: &str, arguments: &[&str]) -> CommandLine {
    CommandLine {
        program: program.into(),
        arguments: arguments.iter().map(Into::into).collect(),
        ..CommandLine::default()
    }
}

fn shell_command(script: &str) -> CommandLine {
    command("/bin/sh", &["-c", script])
}

fn run(command: &CommandLine) -> Finished {
    run_within(command, &Limits::default()).unwrap()
}

fn run_within(command: &CommandLine, limits: &Limits) -> Result<Finished, RunError> {
    Launcher::new().unwrap().run(command, limits, &[])
}

/// `sh -c SCRIPT`, which can do everything that a test wants to see and is on every machine.
fn shell(script: &str) -> Finished {
    run(&shell_command(script))
}

fn stdout(finished: &Finished) -> String {
    let all = finished.stdout.whole().expect("a short output");
    String::from_utf8_lossy(&all).into_owned()
}

/// A C program, compiled into a directory.
fn compiled(directory: &Path, source: &str) -> PathBuf {
    let (program, file) = (directory.join("program"), directory.join("program.c"));
    fs::write(&file, source).unwrap();
    let compiler = Command::new("cc")
        .args(["-O0", "-o"])
        .args([&program, &file])
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&compiler.stderr);
    assert!(compiler.status.success(), "{message}");
    program
}

/// Whether a process runs, as a zombie does not.
fn runs(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

const TOUCH_64_MIB: [&str; 4] = ["if=/dev/zero", "of=/dev/null", "bs=64M", "count=1"];

/// Waits for what nothing tells of, and fails where that does not come.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "not within a minute: {what}");
        thread::yield_now();
    }
}

#[test]
fn a_big_parent_does_not_inflate_the_peak_of_a_small_child() {
    let parent = black_box(vec![1_u8; 256 * MIB as usize]);
    let peak = run(&command("/bin/true", &[])).cost.peak_rss_bytes;
    assert!(
        peak > 0 && peak < 16 * MIB,
        "{peak} bytes, beside {} of the parent",
        parent.len()
    );
}

#[test]
fn the_peak_is_what_the_command_touched_not_what_it_ended_with() {
    // dd reads zeros into a buffer of 64 MiB.
    let peak = run(&command("/bin/dd", &TOUCH_64_MIB)).cost.peak_rss_bytes;
    assert!((64 * MIB..80 * MIB).contains(&peak), "{peak} bytes");
}

#[test]
fn the_peak_of_one_run_does_not_show_in_the_next() {
    let launcher = Launcher::new().unwrap();
    let run = |command| launcher.run(&command, &Limits::default(), &[]).unwrap();
    run(command("/bin/dd", &TOUCH_64_MIB));
    let peak = run(command("/bin/true", &[])).cost.peak_rss_bytes;
    assert!(peak < 16 * MIB, "{peak} bytes");
}

#[test]
fn the_launcher_is_smaller_than_any_program() {
    // The kernel lets a command take the peak of its launcher along, so a launcher that measures a launcher shows
    // what the smallest command would be charged. The inner one ends at once, because it gets no command.
    let peak = run(&command("/proc/self/exe", &[])).cost.peak_rss_bytes;
    assert!(peak < MIB / 4, "{peak} bytes");
}

#[test]
fn the_average_of_a_command_that_soon_has_64_mib_is_near_its_peak() {
    // Each pass writes to all of it, so that the passes take nearly all of the time.
    let directory = tempfile::tempdir().unwrap();
    let program = compiled(
        directory.path(),
        "#include <stdlib.h>\n#include <string.h>\n\
         int main(void) {\n\
             char *volatile block = malloc(64 << 20);\n\
             for (int pass = 0; pass < 60; pass++) memset(block, pass, 64 << 20);\n\
             return 0;\n\
         }\n",
    );
    let cost = run(&command(program.to_str().unwrap(), &[])).cost;
    let mean = cost.mean_rss_bytes.unwrap();
    assert!((8 * MIB..=cost.peak_rss_bytes).contains(&mean), "{cost:?}");
}

#[test]
fn output_and_exit_code_are_the_commands_own() {
    let finished = shell("echo out; echo err >&2; exit 3");
    assert_eq!(stdout(&finished), "out\n");
    assert_eq!(finished.stderr.whole().unwrap(), &b"err\n"[..]);
    assert_eq!(finished.outcome, Outcome::Exited(3));
}

#[test]
fn the_output_is_known_by_its_hash() {
    // sha256sum of coreutils is the reference.
    let reference = shell("printf 'the output' | sha256sum");
    let reference = stdout(&reference);
    let finished = shell("printf 'the output'");
    assert_eq!(
        Some(finished.stdout.sha256.as_str()),
        reference.split(' ').next()
    );
}

#[test]
fn a_command_that_dies_of_a_signal_was_measured() {
    let finished = shell("kill -SEGV $$");
    assert_eq!(finished.outcome, Outcome::Signalled(11));
    assert!(finished.cost.peak_rss_bytes > 0);
}

#[test]
fn gigabytes_of_output_are_read_without_being_kept() {
    let finished = run(&command(
        "/bin/dd",
        &["if=/dev/zero", "bs=1M", "count=1024"],
    ));
    assert_eq!(finished.outcome, Outcome::Exited(0));
    assert_eq!(finished.stdout.bytes, 1024 * MIB);
    assert_eq!(finished.stdout.whole(), None);
    let kept = finished.stdout.head.capacity() + finished.stdout.tail.capacity();
    assert!(kept < 2 * MIB as usize, "{kept} bytes");
}

#[test]
fn standard_input_is_empty_and_no_file_of_the_launcher_is_left_open() {
    let finished = shell("cat; readlink /proc/self/fd/*");
    let open = stdout(&finished);
    assert!(
        open.starts_with("/dev/null\n") && !open.contains("reheap"),
        "{open}"
    );
}

#[test]
fn an_input_is_read_from_its_beginning_by_each_run() {
    let directory = tempfile::tempdir().unwrap();
    let input = directory.path().join("input");
    fs::write(&input, "the input").unwrap();
    let mut cat = command("/bin/cat", &[]);
    cat.input = Some(input);
    for _ in 0..2 {
        assert_eq!(stdout(&run(&cat)), "the input");
    }
}

#[test]
fn an_input_that_cannot_be_opened_is_not_taken_for_the_program() {
    let mut cat = command("/bin/cat", &[]);
    cat.input = Some("/no/such/input".into());
    let error = run_within(&cat, &Limits::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot open the input `/no/such/input` of `/bin/cat`: No such file or directory (os error 2)"
    );
}

#[test]
fn arguments_and_variables_arrive_as_they_were_given() {
    let script = "printf '%s|' \"$@\" \"$REHEAP_TEST\"";
    let mut command = command("/bin/sh", &["-c", script, "sh", "a b", "", "'\"$x"]);
    command
        .environment
        .push(("REHEAP_TEST".into(), "the value".into()));
    assert_eq!(stdout(&run(&command)), "a b||'\"$x|the value|");
}

#[test]
fn processor_time_is_counted_for_the_commands_own_children_too() {
    let cost: Cost = shell("i=0; (while [ $i -lt 200000 ]; do i=$((i+1)); done)").cost;
    assert!(cost.user_seconds > 0.0, "{cost:?}");
    assert!(cost.wall_seconds > 0.0 && cost.minor_faults > 0, "{cost:?}");
    assert_eq!(cost.cpu_seconds(), cost.user_seconds + cost.system_seconds);
}

#[test]
fn a_program_that_does_not_exist_is_named() {
    let error = run_within(&command("/no/such/program", &[]), &Limits::default()).unwrap_err();
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
    let error = run_within(&command("/dev/null", &[]), &Limits::default()).unwrap_err();
    assert!(
        matches!(&error, RunError::Start { reason, .. } if reason.kind() == io::ErrorKind::PermissionDenied)
    );
}

#[test]
fn what_a_command_leaves_in_the_background_is_ended_though_it_holds_the_output_open() {
    let finished = shell("sleep 1000 & echo $!");
    assert_eq!(finished.outcome, Outcome::Exited(0));
    assert!(!runs(&stdout(&finished)));
}

#[test]
fn a_daemon_is_ended_though_it_left_the_session_and_its_parent() {
    // Forks twice, with a session of its own and without output, as daemon(7) describes it.
    let script = "import os, time\n\
        if os.fork() == 0:\n\
        \x20   os.setsid()\n\
        \x20   if os.fork() == 0:\n\
        \x20       os.write(1, str(os.getpid()).encode())\n\
        \x20       os.closerange(0, 3)\n\
        \x20       time.sleep(1000)\n\
        \x20   os._exit(0)\n\
        os.wait()\n";
    let finished = run(&command("/usr/bin/env", &["python3", "-c", script]));
    // The daemon may be ended before it says who it is; then there is nobody left to look for.
    let daemon = stdout(&finished);
    assert!(!runs(&daemon), "{daemon}");
    assert_eq!(finished.outcome, Outcome::Exited(0));
}

#[test]
fn many_orphans_do_not_become_the_commands_end() {
    let finished = shell("i=0; while [ $i -lt 100 ]; do (true &); i=$((i+1)); done; exit 9");
    assert_eq!(finished.outcome, Outcome::Exited(9));
}

#[test]
fn a_run_that_takes_too_long_is_ended_with_its_children() {
    let limits = Limits {
        time: Some(Duration::from_millis(100)),
        ..Limits::default()
    };
    let script = shell_command("sleep 1000 & echo $!; wait; echo never");
    let finished = run_within(&script, &limits).unwrap();
    assert_eq!(finished.outcome, Outcome::TimedOut);
    assert!(!runs(&stdout(&finished)));
}

#[test]
fn a_command_that_ignores_being_asked_is_killed() {
    let limits = Limits {
        time: Some(Duration::from_millis(100)),
        ..Limits::default()
    };
    let stubborn = shell_command("trap '' TERM; while :; do sleep 1000; done");
    assert_eq!(
        run_within(&stubborn, &limits).unwrap().outcome,
        Outcome::TimedOut
    );
}

#[test]
fn an_interrupted_run_is_ended_and_is_no_result() {
    let interrupted = AtomicBool::new(false);
    let limits = Limits {
        interrupted: Some(&interrupted),
        ..Limits::default()
    };
    let directory = tempfile::tempdir().unwrap();
    let pid_file = directory.path().join("pid");
    // Renamed when it is written, so that it is never read half.
    let script = format!(
        "echo $$ > {0}.new; mv {0}.new {0}; sleep 1000",
        pid_file.display()
    );
    let error = thread::scope(|scope| {
        let run = scope.spawn(|| run_within(&shell_command(&script), &limits));
        wait_until("the command has started", || pid_file.exists());
        interrupted.store(true, Ordering::Relaxed);
        run.join().unwrap().unwrap_err()
    });
    assert!(matches!(error, RunError::Interrupted), "{error:?}");
    assert!(!runs(&fs::read_to_string(pid_file).unwrap()));
}

/// Set for a test that was started in a terminal.
const IN_A_TERMINAL: &str = "REHEAP_TEST_IN_A_TERMINAL";

#[test]
fn a_command_has_no_terminal_and_a_process_group_of_its_own() {
    let has_terminal = fs::File::open("/dev/tty").is_ok();
    assert!(has_terminal || std::env::var_os(IN_A_TERMINAL).is_none());
    let script = "(: < /dev/tty) 2>&-; echo $?; read pid name state parent group rest < /proc/self/stat; \
                  echo $pid $group";
    let text = stdout(&shell(script));
    let ids: Vec<&str> = text.split_whitespace().collect();
    let [tty, pid, group] = ids[..] else {
        panic!("{text}");
    };
    assert!(tty != "0" && pid == group, "{text}");
}

#[test]
fn a_command_has_no_terminal_even_if_reheap_has_one() {
    let spawn = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";
    let output = Command::new("python3")
        .args(["-c", spawn])
        .arg(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "run::a_command_has_no_terminal_and_a_process_group_of_its_own",
        ])
        .env(IN_A_TERMINAL, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}"
    );
}

/// Set for the reheap that is to be killed: the file in which its command says who it is.
const TO_BE_KILLED: &str = "REHEAP_TEST_TO_BE_KILLED";

#[test]
fn a_command_does_not_outlive_a_reheap_that_is_killed() {
    if let Some(file) = std::env::var_os(TO_BE_KILLED) {
        let file = Path::new(&file).display();
        shell(&format!(
            "echo $$ > {file}.new; mv {file}.new {file}; exec sleep 1000"
        ));
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pid");
    let mut reheap = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "run::a_command_does_not_outlive_a_reheap_that_is_killed",
        ])
        .env(TO_BE_KILLED, &file)
        .spawn()
        .unwrap();
    wait_until("the command has started", || file.exists());
    reheap.kill().unwrap();
    reheap.wait().unwrap();
    let pid = fs::read_to_string(&file).unwrap();
    wait_until("the command has ended", || !runs(&pid));
}

#[test]
fn a_figure_far_behind_in_a_line_is_read_however_the_line_is_written() {
    let metrics = [Metric::parse("rate=^.*rate (.*)", Direction::Higher).unwrap()];
    let report = "head -c 100000 /dev/zero | tr '\\0' x";
    let at_once = format!("echo \"$({report}) rate 5\"");
    let in_pieces = format!("{report}; echo ' rate 5'");
    let progress = "for state in $(seq 20000); do printf 'rate %s\\r' \"$state\"; done".to_owned();
    for (script, rate) in [(at_once, 5.0), (in_pieces, 5.0), (progress, 20000.0)] {
        let launcher = Launcher::new().unwrap();
        let finished = launcher
            .run(&shell_command(&script), &Limits::default(), &metrics)
            .unwrap();
        assert_eq!(finished.metrics.get("rate"), Some(&rate), "{script}");
    }
}

#[test]
fn metrics_are_read_from_the_output() {
    let metric = |text| Metric::parse(text, Direction::Higher).unwrap();
    let metrics = [
        metric("rate=^rate (.*)"),
        metric("missing=^never (.*)"),
        metric("word=^word (.*)"),
    ];
    let script = shell_command(
        "echo rate 1; echo 'rate 2,000.5 per second'; echo rate 3 >&2; echo word fast >&2",
    );
    let launcher = Launcher::new().unwrap();
    let finished = launcher.run(&script, &Limits::default(), &metrics).unwrap();
    let found: Vec<_> = finished.metrics.into_iter().collect();
    assert_eq!(found, [("rate".to_owned(), 2000.5)]);
    let found: Vec<_> = finished.metrics_without_number.into_iter().collect();
    assert_eq!(found, [("word".to_owned(), "fast".to_owned())]);
}

#[test]
fn counters_are_read_unless_the_processor_shows_none_or_the_system_forbids_it() {
    // What the kernel drives: a processor's own counters have an event for instructions, software and tracepoints none.
    let devices = fs::read_dir("/sys/bus/event_source/devices").unwrap();
    let has_counters = devices.flatten().any(|device| {
        let events = device.path().join("events");
        ["instructions", "inst_retired"].map(|event| events.join(event).exists()) != [false; 2]
    });
    let launcher = Launcher::new().unwrap();
    let finished = launcher
        .run(&command("/bin/true", &[]), &Limits::default(), &[])
        .unwrap();
    match launcher.no_counters_because() {
        None => assert!(finished.counters.unwrap().instructions.unwrap() > 10_000),
        Some(reason) => {
            let shows_none = reason.starts_with("the processor shows none");
            assert_eq!(shows_none, !has_counters, "{reason}");
            assert_eq!(finished.counters, None);
        }
    }
}

#[test]
fn runs_do_not_disturb_each_other_when_they_run_at_the_same_time() {
    let launcher = Launcher::new().unwrap();
    let outputs = thread::scope(|scope| {
        let run = |number| {
            let script = shell_command(&format!("sleep 1000 & echo {number}"));
            stdout(&launcher.run(&script, &Limits::default(), &[]).unwrap())
        };
        let threads: Vec<_> = (0..8)
            .map(|number| scope.spawn(move || run(number)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect::<Vec<_>>()
    });
    let expected: Vec<String> = (0..8).map(|number| format!("{number}\n")).collect();
    assert_eq!(outputs, expected);
}
