//! What is said of the protections of real files, compared with what `readelf` says of them.

use crate::workshop::{PROGRAM, Workshop};
use reheap_elf::identify::{Protections, Relro, Stack, identify};
use std::path::Path;
use std::process::Command;

/// A program with a buffer that the compiler can check.
const COPIES: &str = r#"
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv) {
    char buffer[64];
    strcpy(buffer, argv[0]);
    memcpy(buffer + 8, argv[0], argc);
    puts(buffer);
    return 0;
}
"#;

fn protections(bytes: &[u8]) -> Protections {
    identify(bytes).unwrap().protections.unwrap()
}

/// What `readelf` prints about a file.
fn readelf(flags: &str, file: &Path) -> String {
    let mut command = Command::new("readelf");
    let output = command.args(["--wide", flags]).arg(file).output();
    let output = output.expect("`xtask/prepare install` installs what the tests need");
    assert!(output.status.success());
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Compares the protections with what `readelf` prints.
#[track_caller]
fn is_as_readelf_says(file: &Path) -> Protections {
    let found = protections(&std::fs::read(file).unwrap());
    let shown = file.display();
    let headers = readelf("--program-headers", file);
    let segment = |name: &str| {
        let mut lines = headers.lines().map(str::trim_start);
        lines.find(|line| line.starts_with(name)).map(str::to_owned)
    };
    let flags_of = |line: &str| -> String {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields[6..fields.len() - 1].concat()
    };
    assert_eq!(
        found.relro != Relro::None,
        segment("GNU_RELRO").is_some(),
        "{shown}"
    );
    let stack = match segment("GNU_STACK") {
        None => Stack::Unstated,
        Some(line) if flags_of(&line).contains('E') => Stack::Executable,
        Some(_) => Stack::NotExecutable,
    };
    assert_eq!(found.stack, stack, "{shown}:\n{headers}");
    let loads = headers
        .lines()
        .filter(|line| line.trim_start().starts_with("LOAD"));
    let is_writable_code = loads
        .map(flags_of)
        .any(|flags| flags.contains('W') && flags.contains('E'));
    assert_eq!(found.writable_code, is_writable_code, "{shown}:\n{headers}");
    let header = readelf("--file-header", file);
    assert_eq!(
        found.position_independent,
        header.contains("DYN ("),
        "{shown}"
    );
    let dynamic = readelf("--dynamic", file);
    let binds_now = dynamic.contains("BIND_NOW")
        || dynamic
            .lines()
            .any(|line| line.contains("FLAGS_1") && line.contains("NOW"));
    assert_eq!(found.binds_now, binds_now, "{shown}:\n{dynamic}");
    assert_eq!(
        found.text_relocations,
        dynamic.contains("TEXTREL"),
        "{shown}"
    );
    let symbols = readelf("--symbols", file);
    assert_eq!(
        found.stack_protector.is_some(),
        symbols.contains("__stack_chk_fail"),
        "{shown}"
    );
    let notes = readelf("--notes", file);
    for (name, said) in [
        ("ibt", "IBT"),
        ("shstk", "SHSTK"),
        ("bti", "BTI"),
        ("pac", "PAC"),
    ] {
        let mut properties = notes.lines().filter(|line| line.contains("feature"));
        let is_said = properties.any(|line| line.contains(said));
        assert_eq!(
            found.control_flow.contains(&name),
            is_said,
            "{shown}:\n{notes}"
        );
    }
    found
}

#[test]
fn what_flags_of_the_compiler_change_is_seen_and_is_as_readelf_says() {
    let workshop = Workshop::with(&["gcc", "musl-gcc", "readelf"]);
    workshop.write("copies.c", COPIES);
    let built = |name: &str, command: &str| {
        workshop.run(&format!("{command} copies.c -o {name}"));
        is_as_readelf_says(&workshop.path(name))
    };
    let strong = built(
        "strong",
        "gcc -O2 -fstack-protector-all -D_FORTIFY_SOURCE=2 -pie -fPIE -Wl,-z,relro,-z,now -fcf-protection=none",
    );
    assert_eq!(strong.relro, Relro::Full);
    assert_eq!(strong.stack, Stack::NotExecutable);
    assert!(strong.position_independent && strong.binds_now);
    assert_eq!(strong.stack_protector.as_deref(), Some("__stack_chk_fail"));
    assert!(
        strong.fortified.iter().any(|name| name == "__strcpy_chk"),
        "{strong:?}"
    );

    let lazy = built(
        "lazy",
        "gcc -O2 -fno-stack-protector -U_FORTIFY_SOURCE -no-pie -Wl,-z,relro,-z,lazy",
    );
    assert_eq!((lazy.relro, lazy.binds_now), (Relro::Partial, false));
    assert!(!lazy.position_independent);
    assert_eq!((lazy.stack_protector, lazy.fortified), (None, Vec::new()));

    let weak = built("weak", "gcc -O2 -no-pie -Wl,-z,norelro -z execstack");
    assert_eq!((weak.relro, weak.stack), (Relro::None, Stack::Executable));

    let writable = built("writable", "musl-gcc -O0 -Wl,-N -static -no-pie");
    assert!(writable.writable_code, "{writable:?}");

    for (name, command, is_anywhere) in [
        ("static", "musl-gcc -O2 -static -no-pie", false),
        ("static-glibc", "gcc -O2 -static -no-pie", false),
        ("static-pie", "gcc -O2 -static-pie -fPIE", true),
        ("library", "gcc -O2 -shared -fPIC", true),
    ] {
        let found = built(name, command);
        assert_eq!(found.position_independent, is_anywhere, "{name}");
        assert_eq!(found.stack, Stack::NotExecutable, "{name}");
        assert_ne!(found.relro, Relro::None, "{name}");
    }
    // musl's own objects may carry no such property, so it can only be lost.
    let branches = built(
        "branches",
        "gcc -O2 -fcf-protection=full -nostdlib -shared -fPIC -Wl,-z,ibt,-z,shstk",
    );
    if cfg!(target_arch = "x86_64") {
        assert_eq!(branches.control_flow, ["ibt", "shstk"]);
    }
}

#[test]
fn files_of_other_compilers_are_as_readelf_says() {
    let workshop = Workshop::with(&["readelf", "rustc", "go"]);
    for file in [
        std::env::current_exe().unwrap(),
        "/bin/sh".into(),
        "/bin/cat".into(),
    ] {
        is_as_readelf_says(&file.canonicalize().unwrap());
    }
    workshop.write(
        "a.rs",
        "fn main() { println!(\"{:?}\", std::env::args()); }\n",
    );
    workshop.run("rustc -O a.rs -o rust");
    let rust = is_as_readelf_says(&workshop.path("rust"));
    assert_eq!(rust.relro, Relro::Full);
    let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    workshop.run(&format!("rustc -O --target {target} a.rs -o rust-musl"));
    is_as_readelf_says(&workshop.path("rust-musl"));
    workshop.write(
        "a.go",
        "package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(\"a\") }\n",
    );
    workshop.run("go build -o go a.go");
    let go = is_as_readelf_says(&workshop.path("go"));
    assert_eq!(go.stack_protector, None);
}

#[test]
fn a_stripped_file_has_what_its_headers_say_and_no_statement_about_names() {
    let workshop = Workshop::with(&["musl-gcc", "gcc", "strip"]);
    workshop.write("a.c", PROGRAM);
    workshop.run("gcc -O2 -static -fstack-protector-all a.c -o whole");
    let whole = workshop.identify("whole").protections.unwrap();
    assert!(whole.stack_protector.is_some());
    let stripped = workshop.stripped("whole").protections.unwrap();
    assert_eq!(stripped.stack_protector, None);
    assert!(
        stripped
            .to_string()
            .ends_with("no stack protector symbol found"),
        "{stripped}"
    );
    let expected = Protections {
        stack_protector: None,
        ..whole
    };
    assert_eq!(stripped, expected);
    // Without sections the table of called functions cannot be found.
    let bare = protections(&workshop.without_sections("stripped"));
    assert_eq!(bare.relro, Relro::Present);
    assert_eq!(bare.stack, stripped.stack);
}

#[test]
fn what_is_not_linked_is_not_protected_yet() {
    let workshop = Workshop::with(&["gcc", "ar"]);
    workshop.write("a.c", PROGRAM);
    workshop.run("gcc -c a.c -o a.o");
    workshop.run("ar rcs a.a a.o");
    for name in ["a.o", "a.a"] {
        assert_eq!(workshop.identify(name).protections, None);
    }
}
