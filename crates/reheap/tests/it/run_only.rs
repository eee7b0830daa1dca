//! `reheap run --only`: one program of all that a command starts has the library, and no other.

use crate::common::{glibc_linker, reheap, run};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Prints its name, whether it has the library, what it hands on, and its arguments; then starts the first of them as a
/// command with the rest as that command's.
const TELLER: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int count, char **words) {
    char line[4096];
    int has = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps)) has |= strstr(line, "libmimalloc-") != NULL;
    fclose(maps);
    const char *preload = getenv("LD_PRELOAD");
    const char *slash = strrchr(words[0], '/');
    printf("%s %s", slash ? slash + 1 : words[0], has ? "has it" : "has none");
    if (preload && strstr(preload, "libmimalloc-")) printf(" and hands it on");
    for (int i = 2; i < count; i++) printf(" [%s]", words[i]);
    puts("");
    fflush(stdout);
    if (count < 2) return 3;
    int status = system(words[1]);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}
"#;

struct Programs {
    directory: tempfile::TempDir,
}

impl Programs {
    fn new(compiler: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join("teller.c");
        fs::write(&source, TELLER).unwrap();
        let programs = Self { directory };
        let first = programs.path("first");
        run(Command::new(compiler).arg(&source).arg("-o").arg(&first)).succeeded();
        for name in ["second", "third"] {
            fs::copy(&first, programs.path(name)).unwrap();
        }
        programs
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A script of the shell.
    fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        write_script(&path, &format!("#!/bin/sh\n{text}\n"));
        path
    }

    /// What the three say, each of which starts the next by way of a shell.
    #[track_caller]
    fn say(&self, only: &Path) -> Vec<String> {
        let mut command = reheap("run -a mimalloc --only");
        command.arg(only).arg("--").arg(self.path("first"));
        let second = format!(
            "{} {}",
            self.path("second").display(),
            self.path("third").display()
        );
        command
            .args([&second, "with a blank", ""])
            .env_remove("LD_PRELOAD");
        let outcome = run(&mut command).ended_with(3);
        outcome.stdout.lines().map(str::to_owned).collect()
    }
}

fn write_script(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn only_the_named_program_has_the_library_and_does_not_hand_it_on() {
    for compiler in ["cc", "musl-gcc"] {
        let programs = Programs::new(compiler);
        let said = programs.say(Path::new("second"));
        let expected = [
            "first has none [with a blank] []",
            "second has it",
            "third has none",
        ];
        assert_eq!(said, expected, "{compiler}");
        let said = programs.say(Path::new("first"));
        let expected = [
            "first has it [with a blank] []",
            "second has none",
            "third has none",
        ];
        assert_eq!(said, expected, "{compiler}");
    }
}

#[test]
fn a_name_with_a_slash_is_that_file_only_and_a_link_has_its_own_name() {
    let programs = Programs::new("cc");
    let said = programs.say(&programs.path("third"));
    assert_eq!(said[1..], ["second has none", "third has it"]);

    fs::create_dir(programs.path("elsewhere")).unwrap();
    let other = programs.path("elsewhere/third");
    fs::copy(programs.path("third"), &other).unwrap();
    assert_eq!(programs.say(&other)[2], "third has none");

    let link = programs.path("link");
    std::os::unix::fs::symlink("third", &link).unwrap();
    assert_eq!(programs.say(&link)[2], "third has it");

    fs::remove_file(programs.path("third")).unwrap();
    std::os::unix::fs::symlink("first", programs.path("third")).unwrap();
    let said = programs.say(Path::new("third"));
    assert_eq!(
        said,
        [
            "first has none [with a blank] []",
            "second has none",
            "third has it"
        ]
    );
}

#[test]
fn a_program_that_the_dynamic_linker_is_told_to_run_works_without_the_library() {
    let programs = Programs::new("cc");
    let mut command = reheap("run -a mimalloc --only second --");
    command.arg(programs.path("first"));
    command.arg(format!(
        "{} {} {}",
        glibc_linker(),
        programs.path("second").display(),
        programs.path("third").display()
    ));
    let outcome = run(command.env_remove("LD_PRELOAD")).ended_with(3);
    let said: Vec<&str> = outcome.stdout.lines().collect();
    assert_eq!(
        said,
        ["first has none", "second has none", "third has none"]
    );
}

#[test]
fn what_cannot_be_given_to_one_program_is_refused() {
    let programs = Programs::new("cc");
    let only = |flags: &str, program: &Path| {
        let mut command = reheap(&format!("run {flags} --only"));
        run(command.arg(program).args(["--", "true"]))
    };
    only("-a stock", Path::new("true")).ended_with(2);
    only("-a mimalloc --verify", Path::new("true")).ended_with(2);
    let script = programs.script("script", "");
    let without_hint = only("-a mimalloc", &script).ended_with(2).stderr;
    assert!(
        without_hint.contains("is a script, not a program: name the program that it starts")
            && !without_hint.contains("hint:"),
        "{without_hint}"
    );
    fs::create_dir(programs.path("wrapper")).unwrap();
    let first = programs.path("first").display().to_string();
    let wrapper = programs.directory.path().join("wrapper/first");
    write_script(&wrapper, &format!("#!{first}\n"));
    only("-a mimalloc", &wrapper)
        .ended_with(2)
        .said(&[&format!("hint: --only {first}\n")]);
    let fixed = programs.path("static");
    let source = programs.path("teller.c");
    run(Command::new("cc")
        .arg("-static")
        .arg(source)
        .arg("-o")
        .arg(&fixed))
    .succeeded();
    only("-a mimalloc", &fixed)
        .ended_with(1)
        .said(&["it is static"]);
    let of_musl = Programs::new("musl-gcc");
    only("-a mimalloc", &of_musl.path("first"))
        .ended_with(1)
        .said(&["has another libc"]);
}

#[test]
fn a_program_that_is_not_there_is_warned_of() {
    let programs = Programs::new("cc");
    let only = |flags: &str, name: &Path| {
        let mut command = reheap(&format!("run -a mimalloc {flags} --only"));
        command.env_remove("LD_PRELOAD").arg(name);
        run(command.args(["--", "sh", "-c", "exit 7"]))
    };
    let missing = programs.path("missing");
    only("", &missing).ended_with(7).said(&[&format!(
        "warning: there is no `{}`, so no program will have mimalloc unless the command creates it\n",
        missing.display()
    )]);
    let in_no_directory = "`no-such-program` is not in PATH, so no program will have mimalloc";
    only("", Path::new("no-such-program"))
        .ended_with(7)
        .said(&["warning: ", in_no_directory]);
    only("", &programs.path("teller.c"))
        .ended_with(7)
        .said(&["warning: `", "teller.c` is not an executable file, so "]);
    only("", Path::new("true"))
        .ended_with(7)
        .did_not_say("warning");
}

/// pyenv's shims do so.
#[test]
fn a_script_in_path_may_start_the_program_of_its_name() {
    let programs = Programs::new("cc");
    fs::create_dir(programs.path("shims")).unwrap();
    let second = programs.path("second");
    programs.script("shims/second", &format!("exec {} \"$@\"", second.display()));
    let path = format!(
        "{}:{}",
        programs.path("shims").display(),
        std::env::var("PATH").unwrap()
    );
    let only = |flags: &str| {
        let mut command = reheap(&format!("run -a mimalloc {flags} --only second -- second"));
        run(command.env_remove("LD_PRELOAD").env("PATH", &path))
    };
    let outcome = only("").ended_with(3);
    assert_eq!(outcome.stdout, "second has it\n");
    outcome.said(&[
        "warning: `",
        "/shims/second` is a script, so no program will have mimalloc",
    ]);
    only("--check").ended_with(5);
}

#[test]
fn a_check_looks_at_the_named_program_and_not_at_the_command() {
    let programs = Programs::new("cc");
    let check = |name: &Path| {
        let mut command = reheap("run -a mimalloc --check --only");
        command.env_remove("LD_PRELOAD").arg(name);
        run(command.args(["--", "sh", "-c", "exit 7"]))
    };
    let second = programs.path("second");
    let said = check(&second).succeeded().stdout;
    assert!(
        said.contains(&format!("program    {}\n", second.display())),
        "{said}"
    );
    assert!(said.contains("verdict    works\n"), "{said}");
    let said = check(Path::new("no-such-program")).ended_with(5).stdout;
    let reason = "verdict    unknown: `no-such-program` is not in PATH";
    assert!(
        said.contains(reason) && said.contains("--only <path>"),
        "{said}"
    );
}
