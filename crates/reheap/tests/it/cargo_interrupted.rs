//! Two builds at once, and builds that are killed in the middle: what is there afterwards is old or new, never
//! half-made.
//!
//! The middle is found without a clock: a compiler or linker of the test's own says through a FIFO that it was called,
//! and then waits at another one until somebody writes to that.

use crate::common;
use crate::common::command::{DEADLINE, Running, in_time, make_fifo, try_until};
use crate::common::{
    HELLO, Outcome, Project, allocator_in, cache, files_below, prints, run, started_by, target,
};
use rustix::process::{Signal, kill_process_group};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a script does to say that it is there and to stay there, while a file `stop` lies beside it. It starts no process
/// to wait: one that is only just starting could miss the Ctrl-C, and would wait for ever.
const STOPS: &str = "if [ -e \"${0%/*}/stop\" ]; then echo > \"${0%/*}/reached\"; read -r line < \"${0%/*}/go-on\"; fi";

fn fifos(project: &Project) {
    for name in ["reached", "go-on"] {
        make_fifo(&project.directory.join(name));
    }
}

/// The command as a shell with job control starts it: where the tests themselves run in the background, Ctrl-C is
/// ignored, and children inherit that.
fn as_from_a_terminal(command: &Command) -> Command {
    started_by("env --default-signal=INT", command)
}

/// Starts a command in a process group of its own, sends the group a Ctrl-C as soon as a script has stopped, and gives
/// what the command left.
#[track_caller]
fn interrupt_when_stopped(project: &Project, command: &mut Command) -> Outcome {
    project.write("stop", "");
    let mut command = as_from_a_terminal(command);
    let running = Running::start(command.process_group(0).stdin(Stdio::null()));
    running.says_through(&project.directory.join("reached"));
    kill_process_group(running.pid(), Signal::INT).unwrap();
    let outcome = running.finish(DEADLINE);
    fs::remove_file(project.directory.join("stop")).unwrap();
    outcome
}

/// The calls for the first file that an allocator is made of, and for the first of its glue.
const UPSTREAM: &str = "*rpmalloc.c*";
const GLUE: &str = "*\\ family.c\\ *";

/// A C compiler that notes each call, and stops at those with such arguments. It does not say that it is `musl-gcc`,
/// which would be called directly then.
fn compiler(project: &Project, stops_at: &str) -> PathBuf {
    fifos(project);
    let script = format!(
        "[ \"$*\" = -v ] && exit 0\necho \"$*\" >> \"${{0%/*}}/calls\"\n\
         case \"$*\" in {stops_at}) {STOPS};; esac\nexec musl-gcc \"$@\""
    );
    project.script("noting-cc", &script)
}

fn build_with(project: &Project, compiler: impl AsRef<OsStr>) -> Command {
    let mut build = project.cargo_reheap("build -a rpmalloc");
    build.env(format!("CC_{}", target().replace('-', "_")), compiler);
    build.env("REHEAP_CACHE_DIR", project.directory.join("cache"));
    build
}

/// The compiler with flags of its own, which make other objects.
fn with_flags(compiler: &Path, flags: &str) -> String {
    format!("{} {flags}", compiler.display())
}

#[track_caller]
fn app_has_rpmalloc(project: &Project) {
    let app = project.app();
    let (allocator, printed) = (allocator_in(&app), prints(&app));
    assert_eq!((&*allocator, &*printed), ("rpmalloc", "hello\n"));
}

/// The entries of the cache, also hidden and half-made ones.
fn entries(project: &Project, kind: &str) -> Vec<String> {
    let directory = project.directory.join("cache").join(kind);
    let mut names: Vec<String> = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn two_builds_at_once_with_an_empty_cache_build_the_allocator_once() {
    let (first, second) = (Project::new(HELLO), Project::new(HELLO));
    let compiler = compiler(&first, UPSTREAM);
    let mut other = second.cargo_reheap("build -a rpmalloc");
    other.env(format!("CC_{}", target().replace('-', "_")), &compiler);
    other.env("REHEAP_CACHE_DIR", first.directory.join("cache"));
    std::thread::scope(|scope| {
        scope.spawn(|| run(&mut build_with(&first, &compiler)).succeeded());
        scope.spawn(|| run(&mut other).succeeded());
    });
    for project in [&first, &second] {
        app_has_rpmalloc(project);
    }
    let calls = fs::read_to_string(first.directory.join("calls")).unwrap();
    let of_glue = calls
        .lines()
        .filter(|call| call.contains(" family.c "))
        .count();
    assert_eq!(of_glue, 1, "{calls}");
    for kind in ["allocators", "libc"] {
        assert_eq!(
            entries(&first, kind).len(),
            1,
            "{:?}",
            entries(&first, kind)
        );
    }
}

#[test]
fn an_interrupted_build_of_an_allocator_leaves_nothing_that_looks_whole_and_is_done_again() {
    let project = Project::new(HELLO);
    let compiler = compiler(&project, UPSTREAM);
    let outcome = interrupt_when_stopped(&project, &mut build_with(&project, &compiler));
    assert_ne!(outcome.code(), Some(0));
    for kind in ["allocators", "libc"] {
        let whole: Vec<String> = entries(&project, kind)
            .into_iter()
            .filter(|name| !name.starts_with('.'))
            .collect();
        assert_eq!(whole, [""; 0]);
    }
    assert!(!project.app().exists());

    run(&mut build_with(&project, &compiler)).succeeded();
    app_has_rpmalloc(&project);
    for kind in ["allocators", "libc"] {
        let left: Vec<String> = entries(&project, kind)
            .into_iter()
            .filter(|name| name.starts_with('.'))
            .collect();
        assert_eq!(
            left, [""; 0],
            "what the interrupted build left is cleared away"
        );
    }
}

#[test]
fn what_an_interrupted_build_compiled_stays_out_of_another_compilers_build() {
    let project = Project::new(HELLO);
    let compiler = compiler(&project, GLUE);
    let instrumented = with_flags(&compiler, "-finstrument-functions");
    let outcome = interrupt_when_stopped(&project, &mut build_with(&project, instrumented));
    assert_ne!(outcome.code(), Some(0));
    run(&mut build_with(&project, &compiler)).succeeded();
    app_has_rpmalloc(&project);
    for (kind, there) in [("build", 0), ("allocators", 1), ("libc", 1)] {
        let entries = entries(&project, kind);
        let abandoned = "what the interrupted build left is cleared away";
        assert_eq!(entries.len(), there, "{abandoned}: {entries:?}");
    }
}

#[test]
fn builds_with_two_compilers_at_once_leave_each_other_alone() {
    let (first, second) = (Project::new(HELLO), Project::new(HELLO));
    let compiler = compiler(&first, GLUE);
    first.write("stop", "");
    let running = Running::start(build_with(&first, &compiler).stdin(Stdio::null()));
    running.says_through(&first.directory.join("reached"));
    fs::remove_file(first.directory.join("stop")).unwrap();
    let mut other = build_with(&second, with_flags(&compiler, "-fno-plt"));
    let other = run(other.env("REHEAP_CACHE_DIR", first.directory.join("cache")));
    let go_on = first.directory.join("go-on");
    in_time("a compiler that reads", || fs::write(go_on, "")).unwrap();
    running.finish(DEADLINE).succeeded();
    other.succeeded();
    for project in [&first, &second] {
        app_has_rpmalloc(project);
    }
}

/// A project with a linker that can be stopped.
fn linked_by_a_script() -> Project {
    let project = Project::new(HELLO);
    fifos(&project);
    project.script("my-cc", &format!("{STOPS}\nexec cc \"$@\""));
    project.write(
        ".cargo/config.toml",
        format!("[target.{}]\nlinker = \"./my-cc\"\n", target()),
    );
    project
}

#[test]
fn an_interrupted_relink_leaves_the_old_executable_and_is_done_again() {
    let project = linked_by_a_script();
    run(&mut project.cargo_reheap("build -a mimalloc")).succeeded();
    let before = fs::read(project.app()).unwrap();
    let outcome = interrupt_when_stopped(&project, &mut project.cargo_reheap("build -a rpmalloc"));
    assert_ne!(outcome.code(), Some(0));
    assert!(fs::read(project.app()).unwrap() == before);
    assert_eq!(
        (
            allocator_in(&project.app()).as_str(),
            prints(&project.app()).as_str()
        ),
        ("mimalloc", "hello\n")
    );

    run(&mut project.cargo_reheap("build -a rpmalloc"))
        .succeeded()
        .said(&["relinked without compiling"]);
    app_has_rpmalloc(&project);
    let left: Vec<PathBuf> = files_below(&project.output("debug/deps"))
        .into_iter()
        .filter(|file| file.to_string_lossy().starts_with(".reheap-"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn an_interrupted_first_link_is_done_again() {
    let project = linked_by_a_script();
    let outcome = interrupt_when_stopped(&project, &mut project.cargo_reheap("build -a rpmalloc"));
    assert_ne!(outcome.code(), Some(0));
    assert!(!project.app().exists());
    run(&mut project.cargo_reheap("build -a rpmalloc")).succeeded();
    app_has_rpmalloc(&project);
}

/// The one record of a project's links.
fn record(project: &Project) -> PathBuf {
    let directory = project.output(".reheap-links");
    let files = files_below(&directory);
    let records: Vec<_> = files
        .iter()
        .filter(|f| f.ends_with("record.json"))
        .collect();
    assert_eq!(records.len(), 1, "{files:?}");
    directory.join(records[0])
}

#[test]
fn a_relink_cut_off_between_its_last_steps_is_done_again() {
    let project = Project::new(HELLO);
    run(&mut project.cargo_reheap("build -a mimalloc")).succeeded();
    let old = fs::read(project.app()).unwrap();
    run(&mut project.cargo_reheap("build -a rpmalloc")).succeeded();
    // As if the power had failed after rustc's output was replaced, but not yet Cargo's second name for it, and before
    // the record was told.
    let mut text: serde_json::Value =
        serde_json::from_slice(&fs::read(record(&project)).unwrap()).unwrap();
    text["plan"] = serde_json::Value::Null;
    fs::write(record(&project), text.to_string()).unwrap();
    fs::remove_file(project.app()).unwrap();
    fs::write(project.app(), old).unwrap();

    run(&mut project.cargo_reheap("build -a rpmalloc"))
        .succeeded()
        .said(&["relinked"]);
    app_has_rpmalloc(&project);
}

#[test]
fn a_lost_or_damaged_record_is_an_error_with_the_way_out_and_no_wrong_program() {
    let project = Project::new(HELLO);
    run(&mut project.cargo_reheap("build -a mimalloc")).succeeded();
    let whole = fs::read(record(&project)).unwrap();
    fs::write(record(&project), &whole[..whole.len() / 2]).unwrap();
    let outcome = run(&mut project.cargo_reheap("build -a rpmalloc")).ended_with(1);
    outcome.said(&[
        "was not linked by reheap",
        &format!("cargo clean --target {}", target()),
    ]);
    assert_eq!(allocator_in(&project.app()), "mimalloc");
    run(Command::new("cargo")
        .args(["clean", "--target", &target()])
        .current_dir(&project.directory))
    .succeeded();
    run(&mut project.cargo_reheap("build -a rpmalloc")).succeeded();
    assert_eq!(allocator_in(&project.app()), "rpmalloc");
}

/// Whether a command waits for the lock of a project's records (proc_locks(5)).
fn somebody_waits_for_the_records(project: &Project) -> bool {
    let lock = fs::metadata(project.output(".reheap-links/lock")).unwrap();
    let inode = format!(":{} ", lock.ino());
    let locks = fs::read_to_string("/proc/locks").unwrap();
    locks
        .lines()
        .any(|line| line.contains("-> FLOCK") && line.contains(&inode))
}

#[test]
fn a_build_that_links_changed_sources_waits_for_a_relink_of_the_old_ones() {
    let project = linked_by_a_script();
    run(&mut project.cargo_reheap("build -a rpmalloc")).succeeded();
    project.write("stop", "");
    let mut relink = project.cargo_reheap("build -a mimalloc");
    let relink = Running::start(relink.stdin(Stdio::null()));
    relink.says_through(&project.directory.join("reached"));
    fs::remove_file(project.directory.join("stop")).unwrap();

    project.write("src/main.rs", HELLO.replace("hello", "changed"));
    let mut build = project.cargo_reheap("build -a rpmalloc");
    let build = Running::start(build.stdin(Stdio::null()));
    try_until("waiting for the records", build.pid(), || {
        somebody_waits_for_the_records(&project)
            .then_some(())
            .ok_or("nobody waits")
    });
    let go_on = project.directory.join("go-on");
    in_time("a linker that reads", || fs::write(go_on, "")).unwrap();
    relink.finish(DEADLINE).succeeded();
    build.finish(DEADLINE).succeeded();
    let app = project.app();
    let (allocator, printed) = (allocator_in(&app), prints(&app));
    assert_eq!((&*allocator, &*printed), ("rpmalloc", "changed\n"));
}

#[test]
fn records_of_executables_that_are_gone_and_of_interrupted_links_go_with_the_next_build() {
    let project = Project::new(HELLO);
    project.write("examples/passing.rs", HELLO);
    run(&mut project.cargo_reheap("build -a stock --bins --examples")).succeeded();
    let records = || {
        let mut names: Vec<_> = fs::read_dir(project.output(".reheap-links"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.retain(|name| name != "lock");
        names
    };
    assert_eq!(records().len(), 2);
    fs::remove_dir_all(project.output("debug/examples")).unwrap();
    project.write("examples/passing.rs", "");
    let unfinished = project.output(".reheap-links/.unfinished-Ab12Cd");
    fs::create_dir(unfinished).unwrap();
    run(&mut project.cargo_reheap("build -a stock")).succeeded();
    assert_eq!(records().len(), 1, "{:?}", records());
    // The one of the executable that is there.
    run(&mut project.cargo_reheap("build -a rpmalloc"))
        .succeeded()
        .said(&["relinked"]);
}

#[test]
fn a_cleared_cache_is_filled_again() {
    let project = Project::new(HELLO);
    let mut build = project.cargo_reheap("build -a rpmalloc");
    // The allocators of the shared cache; what is made of them is this test's own.
    let own = project.directory.join("cache");
    fs::create_dir_all(&own).unwrap();
    run(&mut common::reheap("libc -a rpmalloc")).succeeded();
    std::os::unix::fs::symlink(cache().join("allocators"), own.join("allocators")).unwrap();
    run(build.env("REHEAP_CACHE_DIR", &own)).succeeded();
    fs::remove_dir_all(own.join("libc")).unwrap();
    fs::remove_dir_all(own.join("linkers")).unwrap();
    run(&mut build).succeeded();
    app_has_rpmalloc(&project);
}

/// The one entry of the test's own cache with such a name.
#[track_caller]
fn entry(project: &Project, kind: &str, name: &str) -> PathBuf {
    let mut names = entries(project, kind);
    names.retain(|entry| entry.starts_with(name));
    assert_eq!(names.len(), 1, "{kind}: {names:?}");
    project.directory.join("cache").join(kind).join(&names[0])
}

#[test]
fn what_an_entry_of_the_cache_has_lost_is_made_again() {
    let project = Project::new(HELLO);
    let mut build = build_with(&project, "musl-gcc");
    run(&mut build).succeeded();
    let libc = entry(&project, "libc", "rpmalloc");
    let of_memory = entry(&project, "memory-functions", &target());
    let mut objects = files_below(&of_memory).into_iter();
    let object = objects.find(|file| file.extension() == Some("o".as_ref()));
    let of_memory = of_memory.join(object.unwrap());
    let glue = entry(&project, "allocators", "rpmalloc").join("glue/family.o");
    let lose_libc = || fs::remove_file(libc.join("libc.a")).unwrap();
    let damages: [&dyn Fn(); 4] = [
        &lose_libc,
        &|| fs::write(libc.join("libc.a"), "").unwrap(),
        &|| {
            lose_libc();
            fs::remove_file(&glue).unwrap();
        },
        &|| {
            lose_libc();
            fs::remove_file(&of_memory).unwrap();
        },
    ];
    for damage in damages {
        damage();
        project.append("src/main.rs", "// changed\n");
        run(&mut build).succeeded();
        app_has_rpmalloc(&project);
    }
    assert!(glue.is_file() && of_memory.is_file());
}
