//! `reheap attack`: the attacks are real, and the outcomes are what they say.

use crate::common::command::{EVENT_DEADLINE, Running, make_fifo, wait_for_end};
use crate::common::{INSTALL, Outcome, reheap, run, started_by};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A shared library in a directory of its own.
struct Library {
    directory: tempfile::TempDir,
}

impl Library {
    fn of(source: &str) -> Library {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("library.c"), source).unwrap();
        let mut cc = Command::new("cc");
        cc.args([
            "-O1",
            "-fPIC",
            "-shared",
            "-fno-builtin",
            "library.c",
            "-o",
            "library.so",
        ]);
        let outcome = cc.current_dir(directory.path()).output();
        let outcome = outcome.unwrap_or_else(|error| panic!("cannot start cc: {error}; {INSTALL}"));
        let said = String::from_utf8_lossy(&outcome.stderr);
        assert!(outcome.status.success(), "{said}");
        Library { directory }
    }

    /// The variant that preloads it.
    fn variant(&self, name: &str) -> String {
        let library = self.directory.path().join("library.so");
        format!("{name}=env LD_PRELOAD={}", library.display())
    }
}

fn attack(arguments: &[&str]) -> Outcome {
    run(reheap("attack").env_remove("LD_PRELOAD").args(arguments))
}

fn json(outcome: &Outcome) -> Value {
    let text = &outcome.stdout;
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Attack, outcome and message of all endings of a variant.
fn endings(results: &Value, variant: usize) -> Vec<(String, String, String)> {
    let cells = results["variants"][variant]["cells"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let of_cell = |cell: &Value| -> Vec<_> {
        let endings = cell["endings"].as_array().unwrap().iter();
        let of_ending = |ending: &Value| {
            (
                text(&cell["attack"]),
                text(&ending["outcome"]),
                text(&ending["said"]),
            )
        };
        endings.map(of_ending).collect()
    };
    cells.iter().flat_map(of_cell).collect()
}

#[test]
fn every_attack_succeeds_under_an_allocator_without_any_protection() {
    let gullible = Library::of(include_str!("../programs/gullible.c"));
    let variant = gullible.variant("gullible");
    let outcome = attack(&["--variant", &variant, "--json"]).succeeded();
    let results = json(&outcome);
    let endings = endings(&results, 0);
    let failed: Vec<_> = endings
        .iter()
        .filter(|(_, outcome, _)| outcome != "succeeded")
        .collect();
    assert!(failed.is_empty(), "{failed:#?}");
    let runs = |cell: &Value| -> u64 {
        let endings = cell["endings"].as_array().unwrap().iter();
        endings.map(|ending| ending["runs"].as_u64().unwrap()).sum()
    };
    let cells = results["variants"][0]["cells"].as_array().unwrap();
    assert!(cells.len() > 30, "{}", cells.len());
    assert!(cells.iter().all(|cell| runs(cell) == 21), "{cells:#?}");
    assert_eq!(results["variants"][0]["malloc_in"], "library.so");
    // Blocks of one size are side by side, always.
    let distances = results["variants"][0]["starts"]["distances"].as_object();
    assert_eq!(distances.unwrap().keys().collect::<Vec<_>>(), ["64"]);
    let small = results["variants"][0]["starts"]["small"]
        .as_array()
        .unwrap();
    assert_eq!(small.len(), 200);
}

#[test]
fn glibc_and_musl_stop_what_they_are_known_to_stop_in_words_or_without() {
    let arguments = ["--variant", "glibc,musl", "--runs", "5", "--json"];
    let attacks = "double-free,overflow-1";
    let outcome = attack(&[&arguments[..], &["--attack", attacks]].concat()).succeeded();
    let results = json(&outcome);
    let expected = |attack: &str, outcome: &str, said: &str| {
        (attack.to_owned(), outcome.to_owned(), said.to_owned())
    };
    let message = "free(): double free detected in tcache 2 (SIGABRT)";
    assert_eq!(
        endings(&results, 0)[0],
        expected("double-free", "stopped", message)
    );
    let overflow = endings(&results, 1).pop().unwrap();
    assert_eq!((&*overflow.0, &*overflow.1), ("overflow-1", "stopped"));
    let trap = match std::env::consts::ARCH {
        "x86_64" => "SIGSEGV by the instruction hlt",
        _ => "SIGSEGV by the instruction strb to address 0",
    };
    assert_eq!(overflow.2, trap);
    assert_eq!(results["variants"][1]["malloc_in"], "attacker");
}

#[test]
fn an_allocator_of_the_catalogue_is_preloaded_and_linked_and_seen() {
    let variants = "glibc+mimalloc,musl+mimalloc[purge_delay=0]";
    let outcome = attack(&[
        "--variant",
        variants,
        "--runs",
        "3",
        "--attack",
        "uaf-call,poisoned-list",
        "--json",
    ]);
    let results = json(&outcome.succeeded());
    for variant in 0..2 {
        for (attack, outcome, said) in endings(&results, variant) {
            assert_eq!(outcome, "succeeded", "{attack}: {said}");
        }
    }
    let preloaded = results["variants"][0]["malloc_in"].as_str().unwrap();
    assert!(preloaded.starts_with("libmimalloc"), "{preloaded}");
    assert_eq!(results["variants"][1]["tuning"]["purge_delay"], "0");
}

#[test]
fn a_free_with_a_wrong_size_is_stopped_where_the_allocator_checks_sizes() {
    let names = [
        "hardened_malloc",
        "hardened_malloc-light",
        "snmalloc-checks",
    ];
    let variants = names.map(|name| format!("glibc+{name},musl+{name}"));
    let variants = format!("{},glibc+jemalloc,musl+jemalloc", variants.join(","));
    let arguments = ["--runs", "2", "--attack", "sized-free", "--json"];
    let outcome = attack(&[&["--variant", &variants], &arguments[..]].concat()).succeeded();
    let results = json(&outcome);
    let said: Vec<_> = (0..8)
        .map(|variant| endings(&results, variant).remove(0))
        .collect();
    for (_, outcome, said) in &said[..4] {
        assert_eq!(outcome, "stopped");
        assert!(said.contains("sized deallocation mismatch"), "{said}");
    }
    for (_, outcome, said) in &said[4..6] {
        assert_eq!(outcome, "stopped");
        assert!(
            said.contains("or what was freed is no block, or of another size"),
            "{said}"
        );
    }
    // jemalloc would believe a size, so it gets none.
    for (_, outcome, said) in &said[6..] {
        assert_eq!(outcome, "no-effect", "{said}");
    }
}

/// glibc maps the first block of that size, and unmaps it when it is freed. What a program does later is another matter.
#[test]
fn large_blocks_are_attacked_as_in_a_program_that_has_run_for_a_while() {
    let attacks = "double-free-large,stale-data-large";
    let arguments = ["--variant", "glibc", "--runs", "2", "--json", "--attack"];
    let outcome = attack(&[&arguments[..], &[attacks]].concat()).succeeded();
    let endings = endings(&json(&outcome), 0);
    let [(_, twice, said), (_, stale, _)] = &endings[..] else {
        panic!("{endings:?}");
    };
    let message = "double free or corruption (!prev) (SIGABRT)";
    assert_eq!((&**twice, &**said), ("stopped", message));
    assert_eq!(stale, "succeeded");
}

#[test]
fn an_overflow_is_committed_also_where_no_other_block_is_near() {
    let library = Library::of(include_str!("../programs/lonely.c"));
    let attacks = "overflow-1,overflow-8,overflow-64,overflow-64-old,underflow-1,underflow-8,underflow-64,overread";
    let variant = library.variant("lonely");
    let outcome = attack(&[
        "--variant",
        &variant,
        "--attack",
        attacks,
        "--runs",
        "2",
        "--json",
    ]);
    let endings = endings(&json(&outcome.succeeded()), 0);
    assert_eq!(endings.len(), 8, "{endings:?}");
    for (attack, outcome, said) in &endings {
        let expected = match &**attack {
            "overread" => ("no-effect", "no block is next to the one that was misused"),
            _ => (
                "stopped",
                "lonely: the bytes beside a block changed (SIGABRT)",
            ),
        };
        assert_eq!((&**outcome, &**said), expected, "{attack}");
    }
}

#[test]
fn an_allocator_that_speaks_only_when_asked_is_asked() {
    let variants = "glibc+mimalloc-secure,musl+mimalloc-secure";
    let arguments = ["--runs", "2", "--attack", "double-free", "--json"];
    let outcome = attack(&[&["--variant", variants], &arguments[..]].concat()).succeeded();
    let results = json(&outcome);
    for variant in 0..2 {
        for (_, outcome, said) in endings(&results, variant) {
            assert_eq!(outcome, "no-effect", "{said}");
            assert!(
                said.starts_with("mimalloc: error: double free detected"),
                "{said}"
            );
        }
    }
}

#[test]
fn a_malloc_that_the_environment_brings_is_not_taken_for_glibcs() {
    let library = Library::of(include_str!("../programs/gullible.c"));
    let path = library.directory.path().join("library.so");
    for variants in [
        &[][..],
        &["--variant", "glibc"],
        &["--variant", "glibc+mimalloc"],
    ] {
        let mut attack = reheap("attack --runs 1 --attack double-free");
        attack.args(variants).env("LD_PRELOAD", &path);
        let shown = path.display();
        run(&mut attack).ended_with(1).said(&[
            &format!("cannot attack dynamic programs: LD_PRELOAD names `{shown}`, which has a malloc of its own"),
            &format!("hint: unset LD_PRELOAD; to attack that library: reheap attack --variant own='env LD_PRELOAD={shown}'"),
        ]);
    }
    // A preload of reheap's own does not stand in the way of others, but is there all the same.
    let mut attack = reheap("attack --runs 1 --attack double-free --variant glibc");
    attack.env_remove("LD_PRELOAD");
    let within = format!("{} run -a mimalloc --", env!("CARGO_BIN_EXE_reheap"));
    run(&mut started_by(&within, &attack)).ended_with(1).said(&[
        "the program did not get `glibc`: its malloc was in `",
        "hint: unset LD_PRELOAD; `reheap status` says",
    ]);
}

#[test]
fn a_program_that_answers_something_else_ends_it_with_advice() {
    let directory = tempfile::tempdir().unwrap();
    let path = script(
        directory.path(),
        "[ \"$2\" = addresses ] && exit 7\nexec \"$@\"",
    );
    let variant = format!("odd={}", path.display());
    attack(&["--variant", &variant, "--attack", "double-free", "--runs", "1"])
        .ended_with(1)
        .said(&[
            "the program under `odd` did not say where its blocks are; the command ended with exit code 7",
            "hint: try again, or name the other variants with `--variant`",
        ]);
}

#[test]
fn a_program_that_hangs_is_named_so_and_ended() {
    let source = "#include <unistd.h>\nvoid free(void *block) { if (block) for (;;) pause(); }\n";
    let library = Library::of(source);
    let variant = library.variant("hanging");
    let arguments = [
        "--variant",
        &variant,
        "--runs",
        "2",
        "--attack",
        "double-free",
    ];
    let outcome = attack(&[&arguments[..], &["--json"]].concat()).succeeded();
    let endings = endings(&json(&outcome), 0);
    let expected = (
        "double-free".to_owned(),
        "crashed".to_owned(),
        "hung".to_owned(),
    );
    assert_eq!(endings, [expected]);
}

#[test]
fn without_random_addresses_it_says_so() {
    let library = Library::of(include_str!("../programs/gullible.c"));
    let variant = library.variant("gullible");
    let mut attack = reheap("attack --runs 1 --attack predict-next");
    attack
        .env_remove("LD_PRELOAD")
        .args(["--variant", &variant]);
    let outcome = run(&mut started_by("setarch -R", &attack)).succeeded();
    let text = &outcome.stdout;
    assert!(text.contains("WITHOUT random addresses"), "{text}");
    assert!(text.contains("Address randomisation is off"), "{text}");
    assert!(text.contains(" 0 bits"), "{text}");
}

#[test]
fn an_allocator_that_cannot_start_is_left_out_unless_it_was_asked_for() {
    // snmalloc reserves 256 GiB of address space.
    let limited = |flags: &str| {
        let mut attack = reheap(&format!("attack --runs 1 --attack double-free {flags}"));
        attack.env_remove("LD_PRELOAD");
        run(&mut started_by("prlimit --as=20000000000", &attack))
    };
    let results = json(&limited("--json").succeeded());
    let names = |list: &str| -> Vec<String> {
        let list = results[list].as_array().unwrap().iter();
        let name = |entry: &Value| entry["name"].as_str().unwrap().to_owned();
        list.map(name).collect()
    };
    let has = |list: &str, name: &str| names(list).iter().any(|other| other == name);
    for name in ["glibc+snmalloc", "musl+snmalloc"] {
        assert!(has("left_out", name) && !has("variants", name), "{name}");
    }
    for name in ["glibc", "musl", "glibc+jemalloc", "musl+mimalloc-secure"] {
        assert!(has("variants", name), "{name}: {:?}", names("left_out"));
    }
    limited("--variant glibc,glibc+snmalloc")
        .ended_with(1)
        .said(&["cannot run the program under `glibc+snmalloc`; the command "]);
}

#[test]
fn all_forms_are_written_at_once_and_the_terminal_still_gets_the_matrix() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name).display().to_string();
    let (page, table, raw) = (file("a.html"), file("a.md"), file("a.json"));
    let forms = ["--html", &page, "--markdown", &table, "--json", &raw];
    let what = [
        "--variant",
        "glibc",
        "--attack",
        "double-free",
        "--runs",
        "2",
    ];
    let wrote = format!("wrote {raw}; for a page: reheap report {raw} --html FILE");
    let outcome = attack(&[&what[..], &forms[..]].concat()).succeeded();
    let outcome = outcome.said(&[&wrote]);
    assert!(
        outcome.stdout.contains("double-free (CWE-415)"),
        "{}",
        outcome.stdout
    );
    let read = |path: &str| fs::read_to_string(path).unwrap();
    assert!(read(&page).contains("double free detected in tcache 2"));
    assert!(read(&table).contains("| double-free (CWE-415) | stopped |"));
    assert!(read(&raw).contains("\"reheap_attack\": 1"));
    let report = |forms: &[&str]| run(reheap("report").arg(&raw).args(forms));
    assert_eq!(report(&["--html"]).succeeded().stdout, read(&page));
    assert_eq!(report(&["--markdown"]).succeeded().stdout, read(&table));
    assert_eq!(report(&[]).succeeded().stdout, outcome.stdout);
    report(&["--csv"])
        .ended_with(2)
        .said(&["results of `reheap attack` have no such form"]);
    report(&[&raw])
        .ended_with(2)
        .said(&["has results of `reheap attack`", "hint: give it alone"]);
    // Results are not overwritten by a report that somebody mixed up with them.
    let outcome = attack(&[&what[..], &["--html", &raw]].concat()).ended_with(2);
    outcome.said(&["it holds measurement results"]);
}

#[test]
fn the_list_has_every_attack_in_a_line() {
    let list = attack(&["--list"]).succeeded().stdout;
    assert!(list.lines().count() > 30, "{list}");
    for line in list.lines() {
        assert!(line.contains(" CWE-"), "{line}");
    }
    let one = attack(&["--list", "--attack", "uaf-call"])
        .succeeded()
        .stdout;
    assert!(
        one.starts_with("uaf-call ") && one.lines().count() == 1,
        "{one}"
    );
}

#[test]
fn the_catalogue_says_how_its_allocators_fared() {
    let text = run(&mut reheap("list stock")).succeeded().stdout;
    let line = text
        .lines()
        .find(|line| line.starts_with("  attacks "))
        .unwrap();
    assert!(line.starts_with("  attacks    glibc stops "), "{line}");
    let of_glibc = line.split_whitespace().nth(3).unwrap();
    let table = run(&mut reheap("list")).succeeded().stdout;
    let mut lines = table.lines();
    let row = lines.find(|line| line.starts_with("stock ")).unwrap();
    assert!(row.contains(&format!(" {of_glibc}, ")), "{row}");
    let rows = json(&run(&mut reheap("list --json")).succeeded());
    let mut rows = rows.as_array().unwrap().iter();
    let mimalloc = rows.find(|row| row["name"] == "mimalloc").unwrap();
    for variant in ["glibc+mimalloc", "musl+mimalloc"] {
        let counts = &mimalloc["attacks"][variant];
        let count = |name: &str| counts[name].as_u64().unwrap();
        assert!(count("of") > 30, "{counts}");
        assert!(count("succeeded") > count("stopped"), "{counts}");
    }
}

#[test]
fn what_cannot_be_attacked_is_wrong_usage() {
    attack(&["--attack", "double-fre"])
        .ended_with(2)
        .said(&["unknown attack `double-fre`", "reheap attack --list"]);
    attack(&["--variant", "glibc+jemaloc"])
        .ended_with(2)
        .said(&["unknown allocator `jemaloc`"]);
    attack(&["--variant", "glibc,glibc"])
        .ended_with(2)
        .said(&["found the variant `glibc` twice"]);
    attack(&["--runs", "0"]).ended_with(2);
}

#[test]
fn without_a_compiler_it_names_the_matrix_that_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let programs = directory.path().join("bin");
    fs::create_dir(&programs).unwrap();
    for program in ["/bin/sh", "/usr/bin/env"] {
        let name = Path::new(program).file_name().unwrap();
        symlink(program, programs.join(name)).unwrap();
    }
    let variants = [
        "",
        "--variant glibc",
        "--variant musl",
        "--variant glibc+mimalloc",
    ];
    for variant in variants.into_iter().chain(["--variant own=env"]) {
        let mut attack = reheap(&format!("attack --runs 1 --attack double-free {variant}"));
        let cache = directory.path().join("cache");
        attack.env("PATH", &programs).env("REHEAP_CACHE_DIR", cache);
        let outcome = run(attack.env_remove("LD_PRELOAD")).ended_with(1);
        outcome.said(&[
            "reheap: cannot compile the attacked program: cannot find a C compiler for `",
            "\n\nhint: ",
            "\n      or see what attacks showed when this reheap was made: `reheap list` and docs/attacks.md\n",
        ]);
    }
}

fn script(directory: &Path, text: &str) -> PathBuf {
    let path = directory.join("script");
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn ctrl_c_leaves_no_process_and_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    make_fifo(&path("fifo"));
    let (fifo, ids) = (path("fifo"), path("ids"));
    let text = format!(
        "[ \"$2\" = where ] && exec \"$@\"\necho $$ >> {}\necho begun > {}\nexec sleep 1000",
        ids.display(),
        fifo.display()
    );
    let variant = format!("hanging={}", script(directory.path(), &text).display());
    let mut command = reheap("attack --runs 3 --attack double-free");
    command
        .env_remove("LD_PRELOAD")
        .args(["--variant", &variant]);
    command.arg("--json").arg(path("results.json"));
    let running = Running::start(command.stdin(Stdio::null()));
    assert!(running.says_through(&fifo).starts_with("begun\n"));
    kill_process(running.pid(), Signal::INT).unwrap();
    running
        .finish(EVENT_DEADLINE)
        .ended_with(130)
        .said(&["interrupted"]);
    assert!(!path("results.json").exists());
    for id in fs::read_to_string(ids).unwrap().lines() {
        wait_for_end(Pid::from_raw(id.parse().unwrap()).unwrap());
    }
}
