//! Processes that die by signals, seen from outside.

use crate::common::{Link, compile, scratch_directory};
use reheap_profile::deaths::{Death, End, Stop, WatchError, Watched, watch};
use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Command, Stdio};

/// What the program of these tests does with these arguments.
#[track_caller]
fn watched(link: Link, arguments: &[&str]) -> Watched {
    let directory = scratch_directory();
    let program = compile("dies", link, directory.path());
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::null());
    watch(command, &mut |_| {}).unwrap()
}

#[track_caller]
fn only_death(watched: &Watched) -> &Death {
    assert_eq!(watched.deaths.len(), 1, "{watched:?}");
    &watched.deaths[0]
}

/// The functions of these tests' program on a stack.
fn functions(death: &Death) -> Vec<&str> {
    let own = ["innermost", "middle", "main", "in_thread"];
    let names = death.stack.iter().map(|frame| frame.function.as_str());
    // gcc keeps what is rarely executed apart.
    let names = names.map(|name| name.trim_end_matches(".cold"));
    names.filter(|name| own.contains(name)).collect()
}

#[test]
fn a_death_is_seen_with_its_stack() {
    for link in [Link::Glibc, Link::Musl, Link::Dynamic, Link::MuslDynamic] {
        for (how, signal) in [
            ("abort", libc::SIGABRT),
            ("fault", libc::SIGSEGV),
            ("trap", libc::SIGILL),
        ] {
            let watched = watched(link, &["here", how]);
            assert_eq!(watched.end, End::Killed(signal), "{link:?} {how}");
            let death = only_death(&watched);
            assert_eq!(death.signal, signal);
            assert_eq!(
                death.address,
                (how == "fault").then_some(0x1230),
                "{link:?}"
            );
            assert_eq!(death.is_deliberate, how == "trap", "{link:?}");
            // Debian's musl is built without tables for stacks, so nothing leads out of its abort.
            if how != "abort" || !matches!(link, Link::Musl | Link::MuslDynamic) {
                let expected = ["innermost", "middle", "main"];
                assert_eq!(functions(death), expected, "{link:?} {how}: {death:?}");
            }
            let program = death.program.file_name().unwrap().to_string_lossy();
            assert!(program.starts_with("dies-"), "{program}");
        }
    }
}

#[test]
fn each_process_can_be_looked_at_before_it_ends() {
    let mut command = Command::new("sh");
    command.args(["-c", "true & wait; (exit 3); /bin/echo; kill -KILL $$"]);
    let mut programs = Vec::new();
    let mut look = |stop| {
        if let Stop::BeforeEnd(process) = stop {
            let memory = fs::read_to_string(format!("/proc/{process}/maps")).unwrap();
            let first = memory.lines().next().unwrap_or_default();
            programs.push(first.split('/').next_back().unwrap_or_default().to_owned());
        }
    };
    command.stdout(Stdio::null());
    watch(command, &mut look).unwrap();
    let count = |name| programs.iter().filter(|program| *program == name).count();
    assert_eq!((count("echo"), programs.len()), (1, 4), "{programs:?}");
}

#[test]
fn a_thread_dies_with_its_own_stack() {
    let watched = watched(Link::Dynamic, &["thread", "abort"]);
    assert_eq!(watched.end, End::Killed(libc::SIGABRT));
    assert_eq!(
        functions(only_death(&watched)),
        ["innermost", "middle", "in_thread"]
    );
}

#[test]
fn a_child_dies_and_the_command_goes_on() {
    let watched = watched(Link::Dynamic, &["child", "fault"]);
    assert_eq!(watched.end, End::Exited(5));
    assert_eq!(
        functions(only_death(&watched)),
        ["innermost", "middle", "main"]
    );
}

/// Watches the program `dies` as the init of a PID namespace, where a tracer's signals are lost.
fn watched_as_init(arguments: &[&str]) -> Watched {
    let directory = scratch_directory();
    let program = compile("dies", Link::Dynamic, directory.path());
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--fork", "--pid"]).arg(program);
    command.args(arguments).stdout(Stdio::null());
    watch(command, &mut |_| {}).unwrap()
}

#[test]
fn the_init_of_a_pid_namespace_dies_of_its_faults_too() {
    for (arguments, signal) in [
        (["here", "fault"], libc::SIGSEGV),
        (["here", "trap"], libc::SIGILL),
        (["thread", "fault"], libc::SIGSEGV),
        // The kernel ignores its SIGABRT, so glibc's abort goes on to an instruction that faults.
        (["here", "abort"], libc::SIGSEGV),
    ] {
        let watched = watched_as_init(&arguments);
        let death = only_death(&watched);
        assert_eq!(death.signal, signal, "{arguments:?}");
        assert_eq!(functions(death)[..2], ["innermost", "middle"]);
    }
}

#[test]
fn a_fault_that_the_init_of_a_pid_namespace_handles_is_left_to_it() {
    let watched = watched_as_init(&["survives"]);
    assert_eq!((watched.end, watched.deaths), (End::Exited(5), Vec::new()));
}

#[test]
fn a_process_may_be_killed_at_any_time_while_it_executes_programs() {
    let directory = scratch_directory();
    let again = directory.path().join("again");
    fs::write(&again, "exec sh \"$0\"\n").unwrap();
    let mut command = Command::new("sh");
    let script = "for i in $(seq 1000); do sh \"$0\" & : $(true); kill -KILL $!; wait $!; done 2> /dev/null; exit 5";
    command.args(["-c", script]).arg(again);
    let watched = watch(command, &mut |_| {}).unwrap();
    assert_eq!((watched.end, watched.deaths), (End::Exited(5), Vec::new()));
}

#[test]
fn nothing_of_a_command_stays_stopped_when_the_watching_fails() {
    let (mut output, writer) = io::pipe().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "true & wait; exec sleep 1000"]);
    command.stdout(writer);
    let watching = AssertUnwindSafe(|| watch(command, &mut |_| panic!("as a mistake would")));
    catch_unwind(watching).unwrap_err();
    // Every process has closed it.
    assert_eq!(io::read_to_string(&mut output).unwrap(), "");
}

#[test]
fn a_survived_signal_is_no_death() {
    let watched = watched(Link::Dynamic, &["survives"]);
    assert_eq!((watched.end, watched.deaths), (End::Exited(5), Vec::new()));
}

#[test]
fn a_handler_that_sends_the_signal_again_does_not_hide_the_fault() {
    let watched = watched(Link::Dynamic, &["reports"]);
    let death = only_death(&watched);
    assert_eq!((death.signal, death.address), (libc::SIGSEGV, Some(0x1230)));
    assert_eq!(functions(death), ["innermost", "middle", "main"]);
}

/// Runtimes use faults, and programs check something after they survived one.
#[test]
fn a_fault_that_a_program_survived_is_not_what_it_dies_of() {
    let watched = watched(Link::Dynamic, &["survives", "abort"]);
    assert_eq!(watched.end, End::Killed(libc::SIGABRT));
    let death = only_death(&watched);
    assert_eq!((death.signal, death.address), (libc::SIGABRT, None));
    assert_eq!(functions(death), ["innermost", "middle", "main"]);
}

#[test]
fn it_is_known_which_processes_died_before_another_began() {
    let one_by_one = watched(Link::Dynamic, &["children", "one by one"]);
    let together = watched(Link::Dynamic, &["children", "together"]);
    let before = |watched: &Watched| -> Vec<usize> {
        let deaths = watched.deaths.iter();
        deaths.map(|death| death.deaths_before).collect()
    };
    assert_eq!(before(&one_by_one), [0, 1]);
    assert_eq!(before(&together), [0, 0]);
}

#[test]
fn signals_of_others_are_no_deaths_of_their_own() {
    let killed = watched(Link::Dynamic, &["killed"]);
    assert_eq!(
        (killed.end, killed.deaths),
        (End::Killed(libc::SIGTERM), Vec::new())
    );
    let real_time = watched(Link::Dynamic, &["real-time"]);
    assert_eq!(
        (real_time.end, real_time.deaths),
        (End::Exited(5), Vec::new())
    );
}

#[test]
fn stops_forks_and_programs_in_threads_work_as_ever() {
    assert_eq!(watched(Link::Dynamic, &["stops"]).end, End::Exited(3));
    let many = watched(Link::Dynamic, &["many"]);
    assert_eq!((many.end, many.killed), (End::Exited(5), Vec::new()));
    assert_eq!(
        watched(Link::Dynamic, &["exec-in-thread"]).end,
        End::Exited(5)
    );
}

/// `watch` waits for all, so it would not return either.
#[test]
fn what_a_command_leaves_behind_is_ended() {
    let watched = watched(Link::Dynamic, &["leaves-child"]);
    assert_eq!(watched.end, End::Exited(7));
    let [program] = watched.killed.as_slice() else {
        panic!("{watched:?}");
    };
    assert!(program.ends_with("dies-Dynamic"), "{program:?}");
}

#[test]
fn a_command_that_cannot_be_started_is_an_error() {
    let directory = scratch_directory();
    // Two threads wait for the child: often enough to see one take what is for the other.
    let paths = [directory.path(), Path::new("/nonexistent")];
    for path in paths.into_iter().cycle().take(400) {
        let error = watch(Command::new(path), &mut |_| {}).unwrap_err();
        assert!(matches!(error, WatchError::Spawn(_)), "{path:?}: {error:?}");
    }
}
