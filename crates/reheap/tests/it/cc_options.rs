//! Command lines of compilers that make no program, or that another compiler would have to link.

use crate::common;
use crate::common::{allocator_in, reheap, run};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

const SOURCE: &str = "#include \"table.h\"\n#include <stdlib.h>\n#include <stdio.h>\n\
    int main(void) { int *rows = calloc(ROWS, sizeof *rows); printf(\"%d\\n\", rows[ROWS - 1]); free(rows); }\n";

fn sources() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("table.h"), "#define ROWS 12\n").unwrap();
    fs::write(directory.path().join("table.c"), SOURCE).unwrap();
    directory
}

fn cc(directory: &Path, line: &str) -> Command {
    let mut command = reheap(line);
    command.current_dir(directory);
    command
}

#[test]
fn a_header_alone_becomes_a_precompiled_one() {
    let sources = sources();
    for line in [
        "cc table.h -o table.h.gch",
        "cc -O2 table.h",
        "cc -x c-header table.h -o table.h.gch",
    ] {
        run(&mut cc(sources.path(), line)).succeeded();
        let made = fs::read(sources.path().join("table.h.gch")).unwrap();
        assert!(made.starts_with(b"gpch"), "{line}");
    }
    run(&mut cc(sources.path(), "cc table.c -o table")).succeeded();
    assert_eq!(allocator_in(&sources.path().join("table")), "mimalloc");
}

#[test]
fn a_question_is_answered_by_the_compiler_whatever_stands_beside_it() {
    let sources = sources();
    for line in [
        "cc -B /usr/bin --version",
        "cc --version table.c",
        "cc table.c -print-file-name=crtbegin.o",
        "cc --param max-inline-insns-single=10 -v",
        "cc --sysroot / -dumpmachine",
        "cc -specs /dev/null -dumpversion -o table",
    ] {
        run(&mut cc(sources.path(), line)).succeeded();
        assert!(!sources.path().join("a.out").exists(), "{line}");
    }
}

#[test]
fn the_value_of_an_option_is_not_taken_for_a_source_file() {
    let sources = sources();
    for line in [
        "cc -B /usr/bin --param max-inline-insns-single=10 table.c -o table",
        "cc --param=max-inline-insns-single=10 -include table.h table.c -o table",
    ] {
        run(&mut cc(sources.path(), line)).succeeded();
        assert_eq!(common::prints(&sources.path().join("table")), "0\n");
    }
}

#[test]
fn an_option_for_the_linker_is_not_taken_for_one_of_the_compiler() {
    let sources = sources();
    for option in ["--print-map", "-E", "-S"] {
        let line = format!("cc table.c -Xlinker {option} -o table");
        run(&mut cc(sources.path(), &line)).succeeded();
        assert_eq!(allocator_in(&sources.path().join("table")), "mimalloc");
        fs::remove_file(sources.path().join("table")).unwrap();
    }
}

#[test]
fn the_user_chooses_the_compiler() {
    let sources = sources();
    for (compiler, said) in [("zig", "clang"), ("musl-gcc", "gcc")] {
        let line = format!("cc --compiler {compiler} --version");
        let outcome = run(&mut cc(sources.path(), &line)).succeeded();
        let text = outcome.stdout.to_lowercase();
        assert!(text.contains(said), "{compiler}: {text}");
        let line = format!("cc --compiler={compiler} table.c -o table");
        run(&mut cc(sources.path(), &line)).succeeded();
        assert_eq!(allocator_in(&sources.path().join("table")), "mimalloc");
    }
    run(&mut cc(sources.path(), "cc --compiler /nowhere/cc table.c"))
        .ended_with(1)
        .said(&["`/nowhere/cc` was not found"]);
}

#[test]
fn each_of_several_files_becomes_an_object() {
    let sources = sources();
    let directory = sources.path();
    fs::write(
        directory.join("half.c"),
        "int half(int n) { return n / 2; }\n",
    )
    .unwrap();
    fs::write(
        directory.join("whole.c"),
        "int half(int);\nint main(void) { return half(HALF_OF); }\n",
    )
    .unwrap();
    fs::write(directory.join("wrong.c"), "int wrong(void) { return }\n").unwrap();
    for compiler in ["zig", "musl-gcc"] {
        let with = format!("cc --compiler {compiler}");
        run(&mut cc(
            directory,
            &format!("{with} -O1 -c half.c -DHALF_OF=14 whole.c"),
        ))
        .succeeded();
        run(&mut cc(
            directory,
            &format!("{with} half.o whole.o -o seventh"),
        ))
        .succeeded();
        run(&mut Command::new(directory.join("seventh"))).ended_with(7);
        run(&mut cc(
            directory,
            &format!("{with} -S half.c whole.c -DHALF_OF=1"),
        ))
        .succeeded();
        for made in ["half.o", "whole.o", "half.s", "whole.s"] {
            fs::remove_file(directory.join(made)).unwrap();
        }
        run(&mut cc(directory, &format!("{with} -c wrong.c half.c"))).ended_with(1);
        assert!(directory.join("half.o").exists(), "{compiler}");
    }
}

#[test]
fn what_zig_cannot_link_is_named_with_another_way() {
    let sources = sources();
    for (flags, option) in [
        ("-Wl,--wrap=calloc", "--wrap=calloc"),
        ("-Wl,-Map,table.map", "-Map"),
        ("--coverage", "--coverage"),
    ] {
        let line = format!("cc --compiler zig {flags} table.c -o table");
        run(&mut cc(sources.path(), &line)).ended_with(1).said(&[
            &format!("Zig cannot link a program with `{option}`"),
            "hint: choose another compiler: --compiler <COMPILER>",
        ]);
    }
}

#[test]
fn doctor_names_what_a_compiler_cannot_make() {
    let sources = sources();
    let script = "#!/bin/sh\nfor word do\n  if [ -f \"$word\" ] && grep -q linux/limits.h \"$word\"; then exit 1; fi\ndone\n\
        exec musl-gcc \"$@\"\n";
    let compiler = sources.path().join("poor-cc");
    fs::write(&compiler, script).unwrap();
    fs::set_permissions(&compiler, fs::Permissions::from_mode(0o755)).unwrap();
    let mut doctor = cc(sources.path(), "doctor");
    let variable = format!("CC_{}", common::target().replace('-', "_"));
    let outcome = run(doctor.env(variable, &compiler));
    let mut lines = outcome.stdout.lines();
    let line = lines.find(|line| line.contains("C compiler for programs"));
    let line = line.unwrap_or_default();
    assert!(line.contains("without the kernel's headers"), "{outcome:?}");
    assert!(line.ends_with("--compiler zig"), "{line}");
}
