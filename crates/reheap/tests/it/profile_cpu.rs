//! `reheap profile` of programs that use their CPU time for one thing.

use crate::common::{reheap, run};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Ways to link a program: with each libc, dynamic and static.
const WAYS: [&str; 4] = ["cc", "musl-gcc", "cc -static", "musl-gcc -static"];
/// How long each program uses the CPU, in milliseconds.
const LONG: &str = "300";

/// A program, and a directory that all users may use.
struct Program {
    directory: tempfile::TempDir,
    file: PathBuf,
}

impl Program {
    fn new(way: &str) -> Self {
        Self::of("cpu_time.c", way)
    }

    fn of(source: &str, way: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let file = directory.path().join("program");
        let source = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/programs/c")
            .join(source);
        let mut words = way.split(' ');
        run(Command::new(words.next().unwrap())
            .args(words)
            .args(["-O1", "-fno-builtin"])
            .arg(source)
            .arg("-o")
            .arg(&file))
        .succeeded();
        Self { directory, file }
    }

    /// Where the time went, and what was said on the terminal.
    fn profile(&self, before: &[&str], work: &str, milliseconds: &str) -> (Value, String) {
        let json = self.directory.path().join("profile.json");
        let command = reheap("profile -o");
        let mut wrapped = match before {
            [] => command,
            [first, rest @ ..] => {
                let mut wrapped = Command::new(first);
                wrapped.args(rest).arg(command.get_program());
                wrapped.args(command.get_args());
                for (name, value) in command.get_envs() {
                    match value {
                        Some(value) => wrapped.env(name, value),
                        None => wrapped.env_remove(name),
                    };
                }
                wrapped
            }
        };
        wrapped
            .arg(&json)
            .arg("--")
            .arg(&self.file)
            .args([work, milliseconds]);
        let said = run(&mut wrapped).succeeded().stderr;
        (time_in(&json), said)
    }
}

fn time_in(json: &Path) -> Value {
    let profile: Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    fs::remove_file(json).unwrap();
    profile["processes"][0]["time"].clone()
}

/// A part of the samples; of what was not told, none.
fn share(time: &Value, part: &Value) -> Option<f64> {
    Some(part.as_f64()? / time["samples"].as_f64().unwrap())
}

/// What puts an ordinary user in front of a command.
fn as_ordinary_user() -> &'static [&'static str] {
    if rustix::process::geteuid().is_root() {
        &["setpriv", "--reuid", "65534", "--clear-groups"]
    } else {
        &[]
    }
}

#[track_caller]
fn assert_sampled(time: &Value, kernel: bool) {
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap();
    let paranoid: i32 = paranoid.trim().parse().unwrap();
    assert!(
        paranoid <= 2 || kernel,
        "these tests need: sudo sysctl kernel.perf_event_paranoid=2"
    );
    let expected = if kernel || paranoid <= 1 {
        "samples"
    } else {
        "user_samples"
    };
    assert_eq!(time["measured"], expected, "{time:#}");
}

#[test]
fn time_in_memory_functions_is_told_by_function() {
    for way in WAYS {
        let program = Program::new(way);
        for (work, function) in [("set", "memset"), ("copy", "memcpy"), ("length", "strlen")] {
            for before in [&[][..], as_ordinary_user()] {
                let (time, _) = program.profile(before, work, LONG);
                let is_root = before.is_empty() && rustix::process::geteuid().is_root();
                assert_sampled(&time, is_root);
                let all = share(&time, &time["in_memory_functions"]);
                let one = share(&time, &time["memory_functions"][function]);
                assert!(
                    all.is_some_and(|share| share > 0.7) && one.is_some_and(|share| share > 0.7),
                    "{way}: {work}: {time:#}"
                );
                let allocator = share(&time, &time["in_allocator"]);
                assert!(
                    allocator.is_some_and(|share| share < 0.1),
                    "{way}: {work}: {time:#}"
                );
            }
        }
    }
}

#[test]
fn time_in_the_allocator_is_told_from_other_time() {
    for way in WAYS {
        let program = Program::new(way);
        let (time, said) = program.profile(&[], "allocate", LONG);
        let allocator = share(&time, &time["in_allocator"]);
        assert!(
            allocator.is_some_and(|share| share > 0.4),
            "{way}: {time:#}"
        );
        assert!(said.contains("CPU shares"), "{said}");
        let (time, _) = program.profile(&[], "compute", LONG);
        let allocator = share(&time, &time["in_allocator"]);
        assert!(
            allocator.is_some_and(|share| share < 0.05),
            "{way}: {time:#}"
        );
        let memory = share(&time, &time["in_memory_functions"]);
        assert!(memory.is_some_and(|share| share < 0.05), "{way}: {time:#}");
    }
}

#[test]
fn page_faults_of_the_program_are_not_the_allocators() {
    let program = Program::new("cc");
    let (time, _) = program.profile(&[], "fault", LONG);
    let kernel = share(&time, &time["in_kernel"]);
    assert!(kernel.is_some_and(|share| share > 0.5), "{time:#}");
    let allocator = share(&time, &time["in_allocator"]);
    assert!(allocator.is_some_and(|share| share < 0.05), "{time:#}");
    assert!(time["minor_faults"].as_u64().unwrap() > 1000, "{time:#}");
    let faults = share(&time, &time["in_page_faults"]);
    if time["measured"] == "samples" {
        assert!(faults.is_some_and(|share| share > 0.3), "{time:#}");
    }
    let (time, said) = program.profile(as_ordinary_user(), "fault", LONG);
    if time["measured"] == "user_samples" {
        assert!(time["in_page_faults"].is_null(), "{time:#}");
        // The line may end between the words.
        let words: Vec<&str> = said.split_whitespace().collect();
        assert!(words.join(" ").contains("is estimated"), "{said}");
    }
}

#[test]
fn what_the_kernel_does_for_the_allocator_is_the_allocators() {
    let program = Program::new("cc");
    let (time, _) = program.profile(&[], "map", LONG);
    if time["measured"] == "samples" {
        let allocator = share(&time, &time["in_kernel_for_allocator"]);
        assert!(allocator.is_some_and(|share| share > 0.5), "{time:#}");
    }
}

#[test]
fn memory_functions_of_a_stripped_static_program_are_not_guessed() {
    let program = Program::new("cc -static -s");
    let (time, said) = program.profile(&[], "set", LONG);
    assert!(time["samples"].as_u64().unwrap() > 100, "{time:#}");
    assert!(time["in_memory_functions"].is_null(), "{time:#}");
    assert!(!said.contains("memory functions"), "{said}");
}

#[test]
fn where_perf_events_are_refused_the_looks_tell_the_allocators_share() {
    let refusing = Program::of("no_perf_events.c", "cc");
    let program = Program::new("musl-gcc");
    let (time, said) = program.profile(&[refusing.file.to_str().unwrap()], "allocate", LONG);
    assert_eq!(time["measured"], "looks", "{time:#}");
    assert!(time["in_memory_functions"].is_null(), "{time:#}");
    let allocator = share(&time, &time["in_allocator"]);
    assert!(allocator.is_some_and(|share| share > 0.3), "{time:#}");
    assert!(said.contains("looks at its threads"), "{said}");
}

/// Most of such a program's time is in the hooks.
#[test]
fn what_the_looks_tell_leaves_out_the_hooks_as_the_samples_do() {
    let refusing = Program::of("no_perf_events.c", "cc");
    let program = Program::new("cc");
    let (time, _) = program.profile(&[], "one block", LONG);
    let sampled = share(&time, &time["in_allocator"]).unwrap();
    let (time, said) = program.profile(&[refusing.file.to_str().unwrap()], "one block", LONG);
    assert_eq!(time["measured"], "looks", "{time:#}");
    // Such as `(28 to 100 %) allocator`.
    let (interval, _) = said.split_once(" %) allocator").unwrap();
    let (_, interval) = interval.rsplit_once('(').unwrap();
    let (least, most) = interval.split_once(" to ").unwrap();
    let [least, most] = [least, most].map(|percent| percent.parse::<f64>().unwrap() / 100.0);
    assert!(least < sampled && sampled < most + 0.1, "{sampled}: {said}");
    assert!(time["in_hooks"].as_u64() > Some(0), "{time:#}");
    assert!(said.starts_with("About "), "{said}");
}

#[test]
fn the_looks_see_what_short_threads_do() {
    let refusing = Program::of("no_perf_events.c", "cc");
    let program = Program::new("musl-gcc");
    let (time, _) = program.profile(&[refusing.file.to_str().unwrap()], "threads", LONG);
    assert_eq!(time["measured"], "looks", "{time:#}");
    let allocator = share(&time, &time["in_allocator"]);
    assert!(allocator.is_some_and(|share| share > 0.1), "{time:#}");
}

/// On a busy machine, a program has begun before reheap asks for samples, and has ended before it looks at them.
#[test]
fn what_a_short_program_does_on_a_busy_machine_is_known() {
    let program = Program::of("chain.c", "musl-gcc");
    std::thread::scope(|scope| {
        for index in 0..24 {
            let program = &program;
            scope.spawn(move || {
                let json = program.directory.path().join(index.to_string());
                let mut command = reheap("profile -o");
                command.arg(&json).arg("--").arg(&program.file);
                run(command.args(["0", "2000000"])).succeeded();
                let time = time_in(&json);
                let is_known =
                    time["measured"] == "samples" && time["samples"].as_u64() >= Some(10);
                let allocator = share(&time, &time["in_allocator"]);
                assert!(!is_known || allocator > Some(0.1), "{time:#}");
            });
        }
    });
}

#[test]
fn a_program_that_barely_ran_has_no_shares() {
    let (_, said) = Program::new("cc").profile(&[], "compute", "0");
    assert!(said.contains("oo short a time on the CPU"), "{said}");
    assert!(!said.contains("CPU shares"), "{said}");
}

/// Ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_time_of_a_running_process_is_sampled() {
    for (way, work, part) in [
        ("cc", "set", "in_memory_functions"),
        ("cc -static", "allocate", "in_allocator"),
        ("musl-gcc -static", "allocate", "in_allocator"),
    ] {
        let program = Program::new(way);
        let mut command = Command::new(&program.file);
        command.args([work, "1000000"]).stdout(Stdio::null());
        let process = Running(command.spawn().unwrap());
        let json = program.directory.path().join("profile.json");
        let mut profile = reheap("profile --seconds 1 -o");
        profile
            .arg(&json)
            .arg("--pid")
            .arg(process.0.id().to_string());
        run(&mut profile).succeeded();
        let time = time_in(&json);
        assert_ne!(time["measured"], "looks", "{way}: {time:#}");
        let share = share(&time, &time[part]);
        assert!(share.is_some_and(|share| share > 0.4), "{way}: {time:#}");
    }
}
