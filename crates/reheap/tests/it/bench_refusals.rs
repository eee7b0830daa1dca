//! What `reheap bench` refuses, before anything is built or run: with which exit code, and which way out it names.

use crate::common::bench::{Commands, bench};
use crate::common::{Outcome, cache, reheap, run};
use reheap_bench::memory_limit::MemoryLimit;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::process::Command;

/// Runs `reheap bench`, which must refuse as wrong usage and write nothing to standard output.
#[track_caller]
fn refused(line: &str, more: &[&str]) -> Outcome {
    let outcome = run(bench(line).args(more)).ended_with(2);
    assert_eq!(outcome.stdout, "");
    outcome.did_not_say("measuring")
}

#[test]
fn a_command_that_is_not_there_is_named() {
    let text = "reheap: cannot run `no-such-command`: it was not found";
    run(&mut bench("-- no-such-command"))
        .ended_with(1)
        .said(&[text]);
    run(&mut bench(
        "--variant there=true --variant not=no-such-command",
    ))
    .ended_with(1)
    .said(&[text])
    .did_not_say("measuring");
    // Also if only a later value of a parameter leads to it.
    let mut command = bench("--rounds 1 -L n=true,no-such-command --variant a={n}");
    run(&mut command)
        .ended_with(1)
        .said(&[text])
        .did_not_say("measuring");
}

#[test]
fn nothing_to_run_and_a_command_that_nothing_runs_are_refused() {
    refused("", &[]).said(&["there is no command to run", "reheap bench -- COMMAND"]);
    refused("--variant glibc", &[]).said(&["there is no command to run"]);
    refused("--variant a=true -- ls", &[]).said(&["no variant runs `ls`", "--variant glibc"]);
    refused("ls -l", &[]).said(&[
        "[-- COMMAND...]",
        "put `--` before the command and its arguments",
    ]);
}

#[test]
fn an_unknown_variant_is_told_what_there_is() {
    let known = ["a libc is glibc or musl", "mimalloc-secure", "NAME=COMMAND"];
    for (variant, what) in [
        ("uclibc", "unknown variant `uclibc`"),
        ("glibc+jemaloc", "unknown allocator `jemaloc`"),
        (",", "`--variant` needs at least one variant"),
    ] {
        refused("--variant", &[variant, "--", "ls"])
            .said(&[what])
            .said(&known);
    }
    refused("--variant a=", &[]).said(&["NAME=COMMAND"]);
    refused("--variant", &["a='x"]).said(&["a quote is missing"]);
    refused("--variant mimalloc[nonsense=1] -- ls", &[]).said(&["nonsense"]);
}

/// reheap starts commands without a shell, so `cat a | wc` would print three files.
#[test]
fn commands_that_only_a_shell_understands_are_refused_with_the_shell_to_use() {
    refused("--variant b=true --variant", &["a=seq 9 | wc -l"]).said(&[
        "cannot run `seq 9 | wc -l`: only a shell understands `|`",
        "--variant a=\"sh -c 'seq 9 | wc -l'\"",
    ]);
    for (command, part) in [
        ("seq 9 >numbers", ">"),
        ("cd / && ls", "&&"),
        ("ls $HOME", "$HOME"),
    ] {
        let variant = format!("a={command}");
        let text = format!("only a shell understands `{part}`");
        refused("--variant", &[&variant]).said(&[&text]);
    }
    refused(
        "--server",
        &["./a; ./b", "--ready-port", "1", "--load", "true"],
    )
    .said(&[
        "only a shell understands `;`",
        "--server \"sh -c './a; ./b'\"",
    ]);
    refused("--server a --ready-port 1 --load", &["b & c"]).said(&["--load \"sh -c"]);
    // The way out works, and so do quotes.
    for value in ["a=sh -c 'seq 9 | wc -l'", "a=printf %s '9|8'"] {
        run(bench("--rounds 1 --variant").arg(value)).succeeded();
    }
}

#[test]
fn two_variants_of_one_name_are_refused() {
    let text = [
        "found the variant `",
        "how far the baseline differs from itself",
    ];
    refused("--variant a=true --variant a=false", &[]).said(&text);
    refused("--variant glibc,mimalloc,stock -- ls", &[]).said(&text);
}

#[test]
fn parameters_that_measure_nothing_new_are_refused() {
    refused("-L n=1,2 --variant a=true", &[])
        .said(&["no command uses the parameter `n`", "write `{n}`"]);
    refused("-L n=1,2 -L n=4 --variant", &["a=echo {n}"])
        .said(&["found the parameter `n` twice", "-L n=1,2,4"]);
    refused("-L n=1,1 --variant", &["a=echo {n}"]).said(&["has the value `1` twice"]);
    refused("-L n --variant", &["a=echo {n}"]).said(&["the parameter `n`: write NAME=VALUE,VALUE"]);
    refused("--memory-limit 1G,1024M --variant a=true", &[])
        .said(&["memory limit of 1073741824 bytes twice"]);
}

#[test]
fn numbers_that_cannot_be_meant_are_refused() {
    refused("--rounds 0 --variant a=true", &[]).said(&["--rounds"]);
    for flag in ["--budget", "--precision", "--time-limit"] {
        for number in ["0", "-1", "1e300", "NaN"] {
            let line = format!("{flag} {number} --variant a=true");
            refused(&line, &[]).said(&[&format!("{flag} needs a number above 0 and up to")]);
        }
        refused(&format!("{flag} soon --variant a=true"), &[]).said(&["soon"]);
    }
    refused("--memory-limit 5 --variant a=true", &[]).said(&["less than a page"]);
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    for line in [
        "--rounds 5 --budget 10 -- ls",
        "--rounds 5 --precision 1 -- ls",
        "--server ./a --ready-port 7 --load ./b -- ls",
        "--load ./b --ready-port 7 -- ls",
        "--server ./a --load ./b --ready-port 7 --ready-line x",
    ] {
        refused(line, &[]).said(&["cannot be used with"]);
    }
    refused("--server ./a --load ./b", &[]).said(&["--ready-port or --ready-line"]);
    refused("--server ./a --ready-port 7", &[]).said(&["--load"]);
    let line = "--server ./a --load ./b --ready-port 7 --ready-within 0";
    refused(line, &[]).said(&["--ready-within needs a number above 0"]);
    refused("--load ./b --ready-line (", &[]).said(&["cannot read the expression `(`"]);
}

#[test]
fn an_expression_or_a_name_for_a_figure_that_cannot_be_is_refused() {
    for (metric, what) in [
        ("rate=(", "`(` is no regular expression"),
        ("rate", "cannot read the metric `rate`: write NAME=REGEX"),
        ("rate=", "cannot read the metric `rate=`: write NAME=REGEX"),
        ("=x", "a metric is written NAME=REGEX"),
        ("rate:more=x", "direction `more`: write `higher` or `lower`"),
        ("wall=x", "cannot be called `wall`"),
    ] {
        refused("--variant a=true --metric", &[metric]).said(&[what]);
    }
    refused("--variant a=true --metric x=1 --metric x=2", &[])
        .said(&["found the metric `x` twice"]);
}

#[test]
fn files_that_could_not_be_written_in_the_end_are_refused_in_the_beginning() {
    refused("--variant a=true --html --csv", &[]).said(&["only one report", "--html report.html"]);
    refused("--variant a=true --html same --csv same", &[]).said(&["two reports would go to"]);
    refused("--variant a=true --html /nowhere/x", &[]).said(&["there is no such directory"]);
    refused("--variant a=true --html /", &[]).said(&["it is a directory"]);
    run(&mut bench("--variant a=true --input /nowhere"))
        .ended_with(1)
        .said(&["cannot read the input `/nowhere`"]);
    refused("--variant a=true --input /", &[]).said(&["it is a directory"]);
}

#[test]
fn a_device_is_written_to_and_not_replaced() {
    let kind = || fs::metadata("/dev/null").unwrap().rdev();
    let before = kind();
    run(&mut bench("--variant a=true --rounds 1 --json /dev/null")).succeeded();
    assert_eq!(kind(), before);
}

#[test]
fn a_report_does_not_replace_a_program() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("app");
    fs::copy("/bin/true", &program).unwrap();
    let script = directory.path().join("script");
    fs::write(&script, "#!/bin/sh\n").unwrap();
    for path in [&program, &script] {
        let before = fs::read(path).unwrap();
        for (line, last) in [
            ("profile --json", "true"),
            ("bench --variant a=true --json", "--rounds=1"),
        ] {
            let mut command = reheap(line);
            let outcome = run(command.arg(path).arg(last)).ended_with(2);
            outcome.said(&["a program is there"]);
            assert!(fs::read(path).unwrap() == before, "{line}");
        }
    }
}

/// The link leads to a file when standard output does, and renaming a file over it would harm every program.
#[test]
fn the_link_of_standard_output_stays_and_leads_to_the_report() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("out");
    for (line, member) in [
        (
            "bench --variant a=true --rounds 1 --json /dev/stdout",
            "\"reheap_bench\": 1",
        ),
        ("profile -o /dev/stdout -- true", "\"every_bytes\":"),
    ] {
        let mut shell = Command::new("sh");
        shell.args(["-c", "exec \"$@\" > \"$0\""]).arg(&file);
        let reheap = reheap(line);
        shell.arg(reheap.get_program()).args(reheap.get_args());
        run(shell.env("REHEAP_CACHE_DIR", cache())).succeeded();
        assert!(fs::symlink_metadata("/dev/stdout").unwrap().is_symlink());
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains(member), "{text}");
    }
}

#[test]
fn a_program_that_takes_no_preload_is_refused_and_never_shown_as_equal() {
    let commands = Commands::new();
    let source = commands.write("a.c", "int main(void) { return 0; }\n");
    let program = commands.path("static");
    let mut compile = Command::new("cc");
    compile.args(["-static", "-s"]);
    run(compile.arg(source).arg("-o").arg(&program)).succeeded();
    run(bench("--variant glibc,mimalloc --").arg(&program))
        .ended_with(1)
        .said(&["it is stripped", "hint: build it", "reheap cc"]);

    let setuid = commands.path("setuid");
    fs::copy("/bin/true", &setuid).unwrap();
    fs::set_permissions(&setuid, fs::Permissions::from_mode(0o4755)).unwrap();
    let setuid = if is_root() && std::os::unix::fs::chown(&setuid, Some(65_534), None).is_ok() {
        // Giving a file away takes the bit away.
        fs::set_permissions(&setuid, fs::Permissions::from_mode(0o4755)).unwrap();
        setuid
    } else {
        "/bin/su".into()
    };
    run(bench("--variant glibc,mimalloc --").arg(setuid))
        .ended_with(1)
        .said(&["it has more rights than its caller (setuid)"]);
}

#[test]
fn an_allocator_that_would_not_be_active_is_refused_or_left_out_aloud() {
    let commands = Commands::new();
    let source = commands.write(
        "own.c",
        "#include <stddef.h>\n\
         static char heap[1 << 20]; static size_t used;\n\
         void *malloc(size_t size) { void *block = heap + used; used += (size + 15) / 16 * 16; return block; }\n\
         void free(void *block) { (void)block; }\n\
         int main(void) { char *block = malloc(9); block[0] = 1; free(block); return 0; }\n",
    );
    let own = commands.path("own");
    let mut compile = Command::new("cc");
    run(compile.arg("-fno-builtin").arg(source).arg("-o").arg(&own)).succeeded();
    run(bench("--rounds 1 --variant glibc,mimalloc --").arg(&own))
        .ended_with(1)
        .said(&[
            "glibc+mimalloc would not be active",
            "has a malloc of its own",
        ]);
    // Nothing of it is ever allocated.
    run(&mut bench("--rounds 1 --variant glibc,mimalloc -- true"))
        .ended_with(1)
        .said(&["it was loaded, but never called"]);
    run(&mut bench("--rounds 1 --variant musl+mimalloc -- ls"))
        .ended_with(2)
        .said(&["it is linked with glibc", "--variant glibc+mimalloc"]);
}

/// A copy of reheap that every user may execute, and what starts it as a user with little rights.
fn for_nobody(commands: &Commands) -> Vec<String> {
    // Nobody may not be allowed into the build directory.
    let program = commands.path("reheap");
    fs::copy(env!("CARGO_BIN_EXE_reheap"), &program).unwrap();
    fs::set_permissions(program.parent().unwrap(), fs::Permissions::from_mode(0o755)).unwrap();
    let before: &[&str] = if is_root() {
        &[
            "setpriv",
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
        ]
    } else {
        &[]
    };
    let words = before.iter().map(|word| (*word).to_owned());
    words.chain([program.display().to_string()]).collect()
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn where_the_system_gives_no_process_that_is_the_reason() {
    let commands = Commands::new();
    let reheap = for_nobody(&commands).join(" ");
    let under = |processes: u32| {
        // The limit is not for root. It stays what it is when the user changes.
        let line =
            format!("ulimit -u {processes}; exec {reheap} bench --rounds 1 --variant a=true");
        run(Command::new("bash").args(["-c", &line]))
    };
    for processes in 1..=3 {
        let outcome = under(processes).ended_with(1);
        let said = outcome.said(&["Resource temporarily unavailable"]).stderr;
        assert_eq!(said.matches("os error").count(), 1, "{said}");
    }
}

#[test]
fn without_the_right_to_make_a_cgroup_a_memory_limit_is_refused_in_one_line() {
    let commands = Commands::new();
    let reheap = for_nobody(&commands);
    let mut command = Command::new(&reheap[0]);
    command.args(&reheap[1..]);
    command.args(["bench", "--rounds", "1", "--memory-limit", "64M"]);
    let outcome = run(command.args(["--variant", "a=true"]));
    if !is_root() && MemoryLimit::prepare(64 << 20).is_ok() {
        outcome.succeeded(); // a part of the tree is this user's
        return;
    }
    let line = outcome.ended_with(1).stderr;
    assert!(line.starts_with("reheap: cannot limit memory: "), "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
    assert!(line.matches("os error").count() <= 1, "{line}");
}
