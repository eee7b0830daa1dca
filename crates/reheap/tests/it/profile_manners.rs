//! `reheap profile` changes nothing that the program could notice, says at once what cannot work, and gets on with
//! processes in odd states.

use crate::common;
use crate::common::command::{EVENT_DEADLINE, run_within};
use crate::common::{cache, reheap, run};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Builds a program of `tests/programs/c`.
fn build(name: &str, flags: &[&str], directory: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/c");
    let program = directory.join(name);
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-fno-builtin", "-pthread", "-w"])
        .args(flags);
    cc.arg(source.join(format!("{name}.c")));
    run(cc.arg("-o").arg(&program)).succeeded();
    program
}

/// A program that runs until it is killed.
struct Running(Child);

impl Running {
    fn start(program: &Path, words: &[&str]) -> Self {
        let mut command = Command::new(program);
        let mut child = command.args(words).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = [0; 5];
        child
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut line)
            .unwrap();
        Self(child)
    }

    fn id(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It runs until it is killed, and is ours.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_program_inherits_what_it_would_inherit_without_reheap() {
    for flags in [&[][..], &["-static"]] {
        let directory = tempfile::tempdir().unwrap();
        build("inherits", flags, directory.path());
        let reheap = path_of_reheap();
        for before in [
            "",
            "trap '' INT HUP PIPE CHLD; exec 0<&-; exec 7</dev/null;",
        ] {
            let said = |wrapper: &str| {
                let mut shell = Command::new("env");
                shell.args(["B=1", "A=2", "odd==", "sh", "-c"]);
                shell.arg(format!(
                    "{before} exec {wrapper} ./inherits x 'y z' 2>/dev/null"
                ));
                shell.env("REHEAP_CACHE_DIR", cache());
                run(shell.current_dir(directory.path())).succeeded().stdout
            };
            let alone = said("");
            assert!(alone.contains("word y z"), "{alone}");
            assert_eq!(alone, said(&format!("'{reheap}' profile --")), "{before}");
        }
    }
}

fn path_of_reheap() -> String {
    reheap("profile").get_program().to_str().unwrap().to_owned()
}

#[test]
fn what_cannot_be_written_is_said_before_the_command_starts() {
    let directory = tempfile::tempdir().unwrap();
    let refused = |flags: &str| {
        let mut command = reheap(&format!("profile {flags} -- touch started"));
        let outcome = run(command.current_dir(directory.path()));
        assert!(!directory.path().join("started").exists(), "{flags}");
        outcome
    };
    refused("-o missing/profile.json")
        .ended_with(1)
        .said(&["cannot write `missing/profile.json`: No such file or directory (os error 2)\n"]);
    refused("--html .")
        .ended_with(1)
        .said(&["cannot write `.`"]);
    for flag in ["--folded", "--pprof"] {
        refused(&format!("--every 0 {flag} stacks"))
            .ended_with(2)
            .said(&["--every 0 samples none"]);
    }
}

#[test]
fn a_full_disk_takes_neither_the_other_files_nor_an_earlier_trace() {
    let directory = tempfile::tempdir().unwrap();
    let program = build("profiled", &[], directory.path());
    let script = "mount -t tmpfs -o size=16k none \"$1\"; cd \"$1\"; \"$REHEAP\" profile --trace calls.rht -- \"$2\"; \
        cp calls.rht \"$3\"; code=0; \"$REHEAP\" profile --html /dev/full -o \"$3/profile.json\" --trace calls.rht -- \
        \"$2\" threads 64 2000 64 || code=$?; test $code = 1; cmp calls.rht \"$3/calls.rht\"; ls";
    let disk = directory.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let arguments = [&disk, program.as_path(), directory.path()];
    let outcome = common::image::in_namespace(script, &arguments).succeeded();
    let outcome = outcome.said(&[
        "reheap: cannot write `/dev/full`: No space left on device",
        "reheap: cannot write the trace `calls.rht`: No space left on device",
        "hint: what was written is in `",
    ]);
    let files: Vec<&str> = outcome.stdout.lines().collect();
    assert!(matches!(files[..], ["calls.rht", part] if part.starts_with("calls.rht.unfinished-")));
    assert!(directory.path().join("profile.json").exists());
}

/// Each program of the chain may get the same place in the recording as the one before the last, with the same number.
#[test]
fn a_program_that_writes_over_what_the_hooks_share_goes_on_and_its_trace_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let hooks = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../reheap-profile/hooks");
    let program = build("overwrites_trace", &[hooks], directory.path());
    let trace = directory.path().join("calls.trace");
    let traced = |what: &str| {
        let mut command = reheap("profile --trace");
        command.arg(&trace).arg("--").arg(&program).arg(what);
        let outcome = run_within(&mut command, EVENT_DEADLINE).ended_with(7);
        assert!(outcome.stdout.starts_with("goes on\n"), "{what}");
        outcome
    };
    let whole = traced("nothing");
    whole.said(&["wrote "]).did_not_say("calls are missing");
    for what in ["threads", "area", "ring", "both", "tail", "head"] {
        traced(what).said(&["; at least ", " calls are missing"]);
    }
    let mut replay = reheap("replay -a stock");
    let replayed = run(replay.arg(&trace)).succeeded();
    let remark = "the recording lacks at least";
    assert!(replayed.stdout.contains(remark), "{replayed:?}");
}

/// A thread counts as a process does. Under the lowest limits reheap gets none at all, or not each that it needs.
#[test]
fn where_the_system_gives_no_thread_that_is_said_and_what_to_do() {
    run(&mut reheap("profile -- true")).succeeded(); // makes the hooks
    // The limit is not for root. It stays what it is when the user changes.
    let another_user = if rustix::process::geteuid().is_root() {
        "exec setpriv --reuid 65534 --clear-groups"
    } else {
        "exec"
    };
    let reheap = path_of_reheap();
    let under = |processes: u32, flags: &str| {
        let line =
            format!("ulimit -u {processes}; {another_user} '{reheap}' profile {flags} -- true");
        let mut shell = Command::new("bash");
        shell.args(["-c", &line]).env("REHEAP_CACHE_DIR", cache());
        let outcome = run(&mut shell).ended_with(1);
        outcome.did_not_say("panicked").said(&["reheap: cannot "])
    };
    for flags in ["", "--trace /dev/null"] {
        under(1, flags).said(&[
            "cannot start a thread that watches the command",
            "hint: a limit leaves no room for it: of processes, which counts threads (`ulimit -u`",
        ]);
        for processes in [2, 3] {
            under(processes, flags);
        }
    }
}

#[test]
fn a_limit_of_address_space_is_named_with_what_is_needed_and_what_lifts_it() {
    let directory = tempfile::tempdir().unwrap();
    let shell = |line: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", line]).current_dir(directory.path());
        command.env("REHEAP", path_of_reheap());
        run(command.env("REHEAP_CACHE_DIR", cache()))
    };
    let under = |kib: u64, line: &str| shell(&format!("ulimit -S -v {kib}; {line}"));
    for flags in ["", "--trace calls.trace"] {
        let line = format!("\"$REHEAP\" profile {flags} -- touch there");
        let refused = under(2_000_000, &line).ended_with(1).said(&[
            "of address space",
            "the limit is 1953 MiB",
            "`ulimit -v unlimited`",
        ]);
        assert!(!directory.path().join("there").exists());
        let needed = refused.stderr.split_once("hint: it needs ").unwrap().1;
        let gib: u64 = needed.split_once(" GiB").unwrap().0.parse().unwrap();
        let room_for_programs = 8;
        under((gib + room_for_programs) << 20, &line).succeeded();
        std::fs::remove_file(directory.path().join("there")).unwrap();
        under(2_000_000, &format!("ulimit -v unlimited; {line}")).succeeded();
        std::fs::remove_file(directory.path().join("there")).unwrap();
    }
    // A limit that the command sets itself.
    shell("\"$REHEAP\" profile -- sh -c 'ulimit -v 2000000; exec ls'")
        .succeeded()
        .said(&["was not watched", "with a limit of address space"]);
}

#[test]
fn a_process_that_executes_one_program_after_another_is_traced_to_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let program = build("chain", &[], directory.path());
    let mut command = reheap("profile --every 0 --trace");
    command.arg(directory.path().join("calls.trace"));
    command.arg("--").arg(program).args(["30", "20000"]);
    let outcome = run_within(&mut command, EVENT_DEADLINE).succeeded();
    let calls = outcome.stderr.split(": ").nth(2).unwrap();
    let calls = calls.split(' ').next().unwrap();
    let calls: u64 = calls.parse().unwrap();
    assert!(calls >= 31 * 20000, "{}", outcome.stderr);
}

/// The kernel counts for the process, whatever it executes.
#[test]
fn the_time_of_a_program_is_not_that_of_the_one_before_in_the_process() {
    let directory = tempfile::tempdir().unwrap();
    let program = build("chain", &[], directory.path());
    let json = directory.path().join("profile.json");
    let mut command = reheap("profile -o");
    command.arg(&json).arg("--").arg(program);
    run(command.args(["1", "2000"])).succeeded();
    let profile = std::fs::read_to_string(json).unwrap();
    let profile: serde_json::Value = serde_json::from_str(&profile).unwrap();
    let seconds = |index: usize| {
        let time = &profile["processes"][index]["time"];
        ["user_seconds", "system_seconds"].map(|part| time[part].as_f64().unwrap())
    };
    let [first, second] = [0, 1].map(|index| seconds(index).iter().sum::<f64>());
    assert!(first > 0.15, "{first}");
    assert!(second < 0.1, "{second}");
}

/// Whose handlers may come at any time, because its allocator allows that.
#[test]
fn a_program_that_allocates_in_signal_handlers_is_counted_exactly() {
    let directory = tempfile::tempdir().unwrap();
    let allocator = build("reentrant", &["-shared", "-fPIC"], directory.path());
    let flags = ["-Wl,--no-as-needed", allocator.to_str().unwrap()];
    let program = build("interrupted", &flags, directory.path());
    let json = directory.path().join("profile.json");
    for way in ["profile -o", "profile --trace calls.trace -o"] {
        let mut command = reheap(way);
        command.current_dir(directory.path());
        let outcome = run(command.arg(&json).arg("--").arg(&program)).succeeded();
        let own = outcome.stdout.split_whitespace().map(str::parse::<u64>);
        let own: Vec<u64> = own.map(Result::unwrap).collect();
        let profile = std::fs::read_to_string(&json).unwrap();
        let profile: serde_json::Value = serde_json::from_str(&profile).unwrap();
        let process = &profile["processes"][0];
        assert_eq!(process["counts"]["calls"]["malloc"], own[0], "{way}");
        let live = &process["live_at_end"];
        let blocks = live["blocks"].as_u64().unwrap();
        // What the libc and the hooks' own start keep is not many.
        assert!((own[1]..own[1] + 10).contains(&blocks), "{live} of {own:?}");
        assert!(live["bytes"].as_u64().unwrap() >= own[1] * 48, "{live}");
    }
}

#[test]
fn a_small_stack_is_the_commands_affair() {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!(
        "ulimit -s 128; exec '{}' profile -- sh -c 'ulimit -s'",
        path_of_reheap()
    ));
    let outcome = run(shell.env("REHEAP_CACHE_DIR", cache())).succeeded();
    assert_eq!(outcome.stdout, "128\n");
}

#[test]
fn a_process_that_cannot_be_watched_is_refused_with_one_reason() {
    let mut ended = Command::new("true").spawn().unwrap();
    let status = || std::fs::read_to_string(format!("/proc/{}/status", ended.id())).unwrap();
    while !status().contains("State:\tZ") {
        std::thread::yield_now();
    }
    let id = ended.id();
    let outcome = run(reheap("profile --pid").arg(id.to_string())).ended_with(1);
    assert_eq!(
        outcome.stderr.lines().next().unwrap(),
        format!(
            "reheap: cannot profile process {id}: process {id} has ended, and only waits for its parent to notice"
        )
    );
    ended.wait().unwrap();
}

#[test]
fn a_running_process_with_a_limit_of_address_space_is_refused_until_that_is_lifted() {
    let directory = tempfile::tempdir().unwrap();
    let program = build("faults", &[], directory.path());
    let line = format!("ulimit -S -v 2000000; exec {}", program.display());
    let program = Running::start(Path::new("sh"), &["-c", &line]);
    let mut command = reheap("profile --seconds 0.1 --pid");
    command.arg(program.id());
    let lifting = format!("prlimit --pid {} --as=unlimited", program.id());
    run(&mut command).ended_with(1).said(&[
        "of address space, though little memory, and its limit is 1953 MiB",
        &format!("hint: lift it with `{lifting}`"),
    ]);
    run(Command::new("sh").args(["-c", &lifting])).succeeded();
    run(&mut command).succeeded();
}

#[test]
fn a_program_that_handles_its_own_faults_can_be_watched_at_any_time() {
    for flags in [&[][..], &["-static"]] {
        let directory = tempfile::tempdir().unwrap();
        let mut program = Running::start(&build("faults", flags, directory.path()), &[]);
        for _ in 0..12 {
            let mut command = reheap("profile --seconds 0.1 --pid");
            run(command.arg(program.id())).succeeded();
        }
        assert!(program.0.try_wait().unwrap().is_none(), "it has ended");
    }
}

#[test]
fn what_a_killed_reheap_left_in_a_process_is_taken_out() {
    for flags in [&[][..], &["-static"]] {
        let directory = tempfile::tempdir().unwrap();
        let program = build("profiled", flags, directory.path());
        let mut program = Running::start(&program, &["forever"]);
        let maps = || std::fs::read_to_string(format!("/proc/{}/maps", program.0.id())).unwrap();
        let mut command = reheap("profile --seconds 600 --pid");
        let mut first = command.arg(program.id()).spawn().unwrap();
        while !maps().contains("memfd:reheap-profile") {
            assert!(first.try_wait().unwrap().is_none(), "it has ended");
            std::thread::yield_now();
        }
        // The jumps follow; once a second reheap is refused, they are there.
        let second = || run(reheap("profile --seconds 0.2 --pid").arg(program.id()));
        let refused = second().ended_with(1);
        assert!(refused.stderr.contains("already"), "{}", refused.stderr);
        first.kill().unwrap();
        first.wait().unwrap();
        let outcome = second().succeeded();
        assert!(
            outcome.stderr.contains("an earlier reheap was killed"),
            "{}",
            outcome.stderr
        );
        let outcome = second().succeeded();
        assert!(!outcome.stderr.contains("an earlier"), "{}", outcome.stderr);
        assert!(program.0.try_wait().unwrap().is_none(), "it has ended");
    }
}

/// The table has the name that the user knows, also where that is a link to a file with another.
/// Its thread returns into a hook when reheap has left.
#[test]
fn a_process_in_which_a_hook_waits_keeps_the_memory_of_the_hooks() {
    let directory = tempfile::tempdir().unwrap();
    let program = build("waits_for_size", &[], directory.path());
    let mut command = Command::new(program);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut running = Running(command.spawn().unwrap());
    let mut lines = BufReader::new(running.0.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    let mut profile = reheap("profile --seconds 0.5 --pid");
    run(profile.arg(running.id()))
        .succeeded()
        .said(&["stay mapped in it"]);
    assert_eq!(lines.next().unwrap().unwrap(), "waits");
    let mut input = running.0.stdin.take().unwrap();
    input.write_all(b"\n").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "goes on");
    assert!(running.0.wait().unwrap().success());
}

#[test]
fn a_program_is_called_as_it_was_started() {
    let directory = tempfile::tempdir().unwrap();
    let program = build("chain", &[], directory.path());
    std::os::unix::fs::symlink(program, directory.path().join("linked")).unwrap();
    let mut command = reheap("profile -- sh -c");
    command.arg("./linked 1 20000; :");
    run(command.current_dir(directory.path()))
        .succeeded()
        .said(&[" linked "]);
}

/// The program's blocks are so large that the stacks of most are sampled, and all of them fit into the ring. It ends before reheap has
/// read them.
#[test]
fn the_stacks_of_a_program_that_ends_at_once_are_all_there() {
    let directory = tempfile::tempdir().unwrap();
    let program = build("burst", &[], directory.path());
    let json = directory.path().join("profile.json");
    let mut command = reheap("profile -o");
    run(command.arg(&json).arg("--").arg(program).arg("300")).succeeded();
    let profile = std::fs::read_to_string(json).unwrap();
    let profile: serde_json::Value = serde_json::from_str(&profile).unwrap();
    let process = &profile["processes"][0];
    let stacks = process["sites"]["stacks"].as_array().unwrap();
    let samples = stacks
        .iter()
        .map(|stack| stack["samples"].as_u64().unwrap());
    assert!(samples.sum::<u64>() >= 100, "{stacks:?}");
    assert_eq!(process["lost"]["stacks"], 0);
}

#[test]
fn a_process_that_ends_while_it_is_watched_is_not_waited_for() {
    let mut process = Command::new("sleep").arg("2").spawn().unwrap();
    let mut command = reheap("profile --seconds 100 --pid");
    let outcome = run_within(
        command.arg(process.id().to_string()),
        Duration::from_secs(60),
    );
    process.wait().unwrap();
    let outcome = outcome.succeeded().said(&[", and ended"]);
    outcome.did_not_say("goes on");
}

#[test]
fn an_unknown_flag_in_front_of_a_command_is_wrong_usage() {
    for line in ["profile", "run", "run --check", "check-memory"] {
        for rest in ["--frobnicate -- true", "--frobnicate true"] {
            let outcome = run(&mut reheap(&format!("{line} {rest}"))).ended_with(2);
            outcome.said(&["unexpected argument '--frobnicate'"]);
        }
        let outcome = run(&mut reheap(&format!("{line} env --frobnicate")));
        assert_ne!(
            outcome.code(),
            Some(2),
            "behind the command, it is the command's"
        );
    }
}

#[test]
fn a_profile_may_go_to_standard_output() {
    for flags in ["--json", "--json -", "-o -"] {
        let outcome = run(&mut reheap(&format!("profile {flags} -- true"))).succeeded();
        let profile: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
        assert_eq!(profile["command"][0], "true");
    }
}

#[test]
fn a_user_without_a_home_has_a_cache_among_the_temporary_files() {
    let directory = tempfile::tempdir().unwrap();
    let profile = || {
        let mut command = reheap("profile -- true");
        command.env_remove("REHEAP_CACHE_DIR");
        command.env("XDG_CACHE_HOME", "/dev/null/no-home");
        command.env("TMPDIR", directory.path());
        command
    };
    run(&mut profile()).succeeded();
    let user = rustix::process::geteuid();
    let cache = directory.path().join(format!("reheap-{user}"));
    common::assert_closed(&cache);
    // As somebody else could have made it before.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(&cache, open).unwrap();
    run(&mut profile()).ended_with(1).said(&[
        "cannot use the cache: cannot trust",
        "REHEAP_CACHE_DIR=<directory>",
    ]);
    let mut elsewhere = profile();
    run(elsewhere.env("REHEAP_CACHE_DIR", "/proc/reheap"))
        .ended_with(1)
        .said(&[
            "cannot use the cache: cannot make the directory `/proc/reheap/",
            "hint: set another one: REHEAP_CACHE_DIR=<directory>",
        ]);
}
