//! The probe in real programs of both libcs: what it counts, and what it says of programs that no preload reaches.

use crate::common;
use crate::common::{cache, compile, compiler, program, run, scratch_directory, target};
use reheap_allocators::catalogue;
use reheap_allocators::preload;
use reheap_allocators::probe::{self, Because, Observation, Recording, WhyNot};
use reheap_allocators::target::Libc;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

const BOTH: [Libc; 2] = [Libc::Glibc, Libc::Musl];
/// What one call of `allocate` in `probed.c` takes.
const BLOCKS: u64 = 1000;
const SIGKILL: i32 = 9;

/// A libc with the probe, a preload, and a directory for programs.
struct Bench {
    probe: PathBuf,
    preload: PathBuf,
    libc: Libc,
    directory: tempfile::TempDir,
}

impl Bench {
    fn new(libc: Libc) -> Self {
        let target = target(libc);
        let toolchain = common::toolchain(&target);
        let mimalloc = catalogue::find("mimalloc").unwrap();
        Self {
            probe: probe::LIBRARY.build(&target, &toolchain, &cache()).unwrap(),
            preload: preload::build(mimalloc, &target, &toolchain, &cache()).unwrap(),
            libc,
            directory: scratch_directory(),
        }
    }

    fn preload_name(&self) -> &str {
        self.preload.file_name().unwrap().to_str().unwrap()
    }

    fn compile(&self, source: &Path, arguments: &[&str]) -> PathBuf {
        let output = self.directory.path().join("program");
        compile(&compiler(&target(self.libc)), source, arguments, &output);
        output
    }

    fn observe(&self, command: &mut Command, preload: Option<&Path>) -> (Observation, ExitStatus) {
        let recording = Recording::create().unwrap();
        let preload = preload.map(Path::as_os_str);
        let outcome = run(command.envs(recording.environment(&self.probe, preload)));
        (recording.observation().unwrap(), outcome.status)
    }

    /// Runs `probed.c` with the preload; it must succeed.
    fn probed(&self, what: &str) -> Observation {
        let program = self.compile(&program("probed"), &[]);
        let mut command = Command::new(&program);
        let (observation, status) =
            self.observe(command.arg(what).arg(&program), Some(&self.preload));
        assert!(status.success(), "{status}");
        observation
    }
}

#[test]
fn calls_of_all_threads_are_counted_and_the_preload_is_seen_behind_them() {
    for libc in BOTH {
        let bench = Bench::new(libc);
        let observation = bench.probed("threads");
        assert_eq!(observation.processes, 1);
        assert_eq!(observation.in_front, 0);
        let [provider] = &observation.providers[..] else {
            panic!("{observation:?}");
        };
        assert_eq!(provider.processes, 1);
        assert!(observation.calls["malloc"] >= 4 * BLOCKS, "{observation:?}");
        assert!(observation.calls["free"] >= 4 * BLOCKS, "{observation:?}");
        let calls = observation.calls_total();
        let evidence = observation.active(&bench.preload).unwrap();
        assert_eq!(
            evidence,
            format!("{calls} calls went to {}", bench.preload_name())
        );
    }
}

#[test]
fn every_function_is_counted_by_itself() {
    for libc in BOTH {
        let observation = Bench::new(libc).probed("functions");
        for function in ["calloc", "realloc", "aligned_alloc", "posix_memalign"] {
            assert!(
                observation.calls[function] >= 1,
                "{function}: {observation:?}"
            );
        }
    }
}

#[test]
fn a_forked_child_counts_without_loading_the_probe_again() {
    for libc in BOTH {
        let observation = Bench::new(libc).probed("fork");
        assert_eq!(observation.processes, 1);
        assert!(observation.calls["malloc"] >= BLOCKS, "{observation:?}");
    }
}

#[test]
fn a_program_that_is_executed_counts_as_well() {
    for libc in BOTH {
        let bench = Bench::new(libc);
        let observation = bench.probed("exec");
        assert_eq!(observation.processes, 2);
        assert!(observation.calls["malloc"] >= 5 * BLOCKS, "{observation:?}");
        let evidence = observation.active(&bench.preload).unwrap();
        assert!(
            evidence.contains("calls of 2 processes went to"),
            "{evidence}"
        );
    }
}

#[test]
fn what_a_killed_program_did_is_known() {
    for libc in BOTH {
        let bench = Bench::new(libc);
        let program = bench.compile(&program("probed"), &[]);
        let mut command = Command::new(program);
        let (observation, status) = bench.observe(command.arg("killed"), Some(&bench.preload));
        assert_eq!(status.signal(), Some(SIGKILL));
        assert!(observation.calls["malloc"] >= BLOCKS, "{observation:?}");
        observation.active(&bench.preload).unwrap();
    }
}

#[test]
fn without_a_preload_the_libc_is_behind_the_probe() {
    for libc in BOTH {
        let bench = Bench::new(libc);
        let program = bench.compile(&program("probed"), &[]);
        let (observation, _) = bench.observe(Command::new(program).arg("threads"), None);
        let WhyNot::OtherProvider(provider) = observation.active(&bench.preload).unwrap_err()
        else {
            panic!("{observation:?}");
        };
        let name = provider.file_name().unwrap().to_str().unwrap();
        assert!(
            name.starts_with("libc.so") || name.starts_with("ld-musl-"),
            "{provider:?}"
        );
    }
}

fn library_of_glibcs_checks() -> PathBuf {
    let name = probe::GLIBC_CHECKS;
    let found = run(Command::new("cc").arg(format!("-print-file-name={name}"))).succeeded();
    let path = PathBuf::from(found.stdout.trim());
    assert!(path.is_absolute(), "`apt-get install libc6` has {name}");
    path
}

/// The library's functions are only where programs look for them: under the versions that they were linked with.
#[test]
fn glibcs_library_for_debugging_counts_only_where_its_checks_are_on() {
    let library = library_of_glibcs_checks();
    let name = probe::GLIBC_CHECKS;
    let active = |what: &str, tunables: &str| {
        let bench = Bench::new(Libc::Glibc);
        let program = bench.compile(&program("probed"), &[]);
        let mut command = Command::new(&program);
        command
            .arg(what)
            .arg(&program)
            .env("GLIBC_TUNABLES", tunables);
        let (observation, status) = bench.observe(&mut command, Some(&library));
        assert!(status.success(), "{status}");
        observation.active(&library)
    };
    for (what, calls) in [("functions", " calls"), ("exec", " calls of 2 processes")] {
        let seen = active(what, "glibc.malloc.check=3").unwrap();
        let expected = format!("{calls} went to {name}, with its checks on");
        assert!(seen.ends_with(&expected), "{seen}");
        let unseen = active(what, "glibc.malloc.perturb=85").unwrap_err();
        assert_eq!(unseen, WhyNot::ChecksOff);
    }
}

/// With glibc's library alone, the children of a program with threads wait for ever.
#[test]
fn a_program_with_threads_may_fork_with_glibcs_checks() {
    let bench = Bench::new(Libc::Glibc);
    let program = bench.compile(&common::conformance_program("fork_stdio"), &[]);
    let library = library_of_glibcs_checks();
    let mut command = Command::new(program);
    let command = command.env("GLIBC_TUNABLES", "glibc.malloc.check=3");
    let (observation, status) = bench.observe(command, Some(&library));
    assert!(status.success(), "{status}");
    observation.active(&library).unwrap();
}

#[test]
fn a_program_with_its_own_malloc_is_told_from_one_that_loads_nothing() {
    for libc in BOTH {
        let bench = Bench::new(libc);
        let program = bench.compile(&program("own_malloc"), &[]);
        let (observation, status) =
            bench.observe(&mut Command::new(&program), Some(&bench.preload));
        assert!(status.success(), "{status}");
        assert_eq!((observation.processes, observation.in_front), (1, 1));
        let why_not = observation.active(&bench.preload).unwrap_err();
        assert_eq!(why_not, WhyNot::OwnAllocator(program));
    }
}

#[test]
fn a_program_with_its_own_malloc_among_others_is_named() {
    for libc in BOTH {
        let bench = Bench::new(libc);
        let own = bench.directory.path().join("own");
        std::fs::rename(bench.compile(&program("own_malloc"), &[]), &own).unwrap();
        let program = bench.compile(&program("probed"), &[]);
        let mut command = Command::new(program);
        let (observation, _) = bench.observe(command.arg("exec").arg(&own), Some(&bench.preload));
        assert_eq!((observation.processes, observation.in_front), (2, 1));
        let evidence = observation.active(&bench.preload).unwrap();
        let expected = format!("of 1 of 2 processes went to {}", bench.preload_name());
        assert!(evidence.contains(&expected), "{evidence}");
        assert!(evidence.contains(own.to_str().unwrap()), "{evidence}");
    }
}

#[test]
fn a_program_that_takes_the_address_of_malloc_has_none_of_its_own() {
    for libc in BOTH {
        let bench = Bench::new(libc);
        let program = bench.compile(&program("probed"), &["-no-pie", "-fno-pie"]);
        let mut command = Command::new(program);
        let (observation, _) = bench.observe(command.arg("threads"), Some(&bench.preload));
        assert_eq!(observation.in_front, 0, "{observation:?}");
        observation.active(&bench.preload).unwrap();
    }
}

#[test]
fn a_static_program_loads_nothing() {
    for libc in BOTH {
        let bench = Bench::new(libc);
        let program = bench.compile(&program("probed"), &["-static"]);
        let (observation, status) =
            bench.observe(Command::new(program).arg("threads"), Some(&bench.preload));
        assert!(status.success(), "{status}");
        assert_eq!(observation.processes, 0);
        let why_not = observation.active(&bench.preload).unwrap_err();
        assert_eq!(why_not, WhyNot::NeverLoaded);
    }
}

/// A program that starts others, and some to be started.
struct Starting {
    bench: Bench,
    starter: PathBuf,
}

impl Starting {
    fn new(libc: Libc) -> Self {
        let bench = Bench::new(libc);
        let starter = bench.directory.path().join("starts");
        std::fs::rename(bench.compile(&program("starts"), &[]), &starter).unwrap();
        Self { bench, starter }
    }

    fn of_static(&self) -> PathBuf {
        let file = self.bench.directory.path().join("static");
        let compiled = self.bench.compile(&program("probed"), &["-static"]);
        std::fs::rename(compiled, &file).unwrap();
        file
    }

    /// Names the programs that ran without the preload, when the starter gets these words.
    fn without(&self, words: &[&str], program: &Path) -> Vec<(PathBuf, Because)> {
        let mut command = Command::new(&self.starter);
        command.args(words).arg(program).arg("threads");
        let (observation, status) = self.bench.observe(&mut command, Some(&self.bench.preload));
        let exists = program.exists();
        assert_eq!(status.success(), exists, "{words:?}: {status}");
        let without = observation.without.into_iter();
        without
            .map(|missed| (missed.program, missed.because))
            .collect()
    }
}

const WAYS: [&str; 10] = [
    "execve",
    "execv",
    "execvp",
    "execvpe",
    "execl",
    "execlp",
    "execle",
    "fexecve",
    "posix_spawn",
    "posix_spawnp",
];

#[test]
fn a_program_that_is_started_without_the_preload_is_known_however_it_is_started() {
    for libc in BOTH {
        let starting = Starting::new(libc);
        let of_static = starting.of_static();
        let worker = starting.bench.compile(&program("probed"), &[]);
        for way in WAYS {
            assert_eq!(starting.without(&[way], &worker), [], "{way}");
            let missing = Path::new("/no/such/program");
            assert_eq!(starting.without(&[way], missing), [], "{way}");
            let without = starting.without(&[way], &of_static);
            assert_eq!(without, [(of_static.clone(), Because::NotLoaded)], "{way}");
            let without = starting.without(&["nothing", way], &worker);
            assert_eq!(without, [(worker.clone(), Because::NoVariable)], "{way}");
        }
    }
}

/// The recording is given to somebody else, as it is for a program that goes on as another user. Only root can.
#[test]
fn a_program_that_cannot_write_into_the_recording_is_known() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    for libc in BOTH {
        let starting = Starting::new(libc);
        let worker = starting.bench.compile(&program("probed"), &[]);
        let recording = Recording::create().unwrap();
        let Bench { probe, preload, .. } = &starting.bench;
        let variables = recording.environment(probe, Some(preload.as_os_str()));
        let (_, path) = &variables[0];
        std::os::unix::fs::chown(path, Some(65534), None).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let mut command = Command::new(&starting.starter);
        run(command
            .args(["execve"])
            .arg(&worker)
            .arg("threads")
            .envs(variables))
        .succeeded();
        let observation = recording.observation().unwrap();
        assert_eq!(observation.without, []);
        assert_eq!(observation.unheard, [worker]);
    }
}

#[test]
fn a_script_stands_for_its_interpreter() {
    for libc in BOTH {
        let starting = Starting::new(libc);
        let of_static = starting.of_static();
        let script = starting.bench.directory.path().join("script");
        std::fs::write(&script, format!("#! {} x\n", of_static.display())).unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        let without = starting.without(&["execv"], &script);
        assert_eq!(without, [(of_static, Because::NotLoaded)]);
    }
}

#[test]
fn a_program_with_a_malloc_of_its_own_runs_without_the_preload() {
    for libc in BOTH {
        let starting = Starting::new(libc);
        let own = starting.bench.compile(&program("own_malloc"), &[]);
        let without = starting.without(&["posix_spawn"], &own);
        assert_eq!(without, [(own, Because::OwnMalloc)]);
    }
}

#[test]
fn the_processor_time_of_killed_programs_counts_too() {
    for libc in BOTH {
        assert_ne!(Bench::new(libc).probed("fork").time, Duration::ZERO);
        let bench = Bench::new(libc);
        let program = bench.compile(&program("probed"), &[]);
        let mut command = Command::new(program);
        let (observation, _) = bench.observe(command.arg("killed"), Some(&bench.preload));
        assert_ne!(observation.time, Duration::ZERO);
    }
}

#[test]
fn what_is_no_recording_is_refused() {
    let recording = Recording::create().unwrap();
    assert_eq!(recording.observation().unwrap().processes, 0);
    let [(_, path), _] = recording.environment(Path::new("/library"), None);
    std::fs::write(path, "something else").unwrap();
    let error = recording.observation().unwrap_err().to_string();
    assert!(error.contains("is damaged"), "{error}");
}
