//! Where the malloc family is in executables: the symbols are the reference for everything else.

mod common;

use common::{Link, compile, scratch_directory, tool};
use reheap_profile::inject::{Access, LocateError, Located, locate};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

fn located(program: &Path) -> Result<Located, LocateError> {
    locate(std::fs::read(program).unwrap().as_slice())
}

fn addresses(located: &Located) -> BTreeMap<String, u64> {
    let functions = located.functions.iter();
    functions
        .map(|function| (function.name.clone(), function.address))
        .collect()
}

fn strip(program: &Path) -> PathBuf {
    let stripped = program.with_extension("stripped");
    tool(Command::new("strip").arg(program).arg("-o").arg(&stripped));
    stripped
}

/// A Rust program for a target, with std and so with much of its libc.
fn rust_program(target: &str, directory: &Path) -> PathBuf {
    let (source, output) = (directory.join("program.rs"), directory.join(target));
    std::fs::write(
        &source,
        "fn main() { println!(\"{:?}\", vec![std::env::args()]); }",
    )
    .unwrap();
    let mut command = Command::new("rustc");
    command
        .args(["-O", "--target", target])
        .arg(&source)
        .arg("-o")
        .arg(&output);
    tool(&mut command);
    output
}

#[test]
fn a_stripped_program_shows_the_same_functions_as_its_symbols() {
    let directory = scratch_directory();
    let mut programs: Vec<(PathBuf, usize)> = vec![
        (compile("known_counts", Link::Musl, directory.path()), 6),
        (compile("known_counts", Link::Glibc, directory.path()), 6),
        (compile("known_counts", Link::GlibcPie, directory.path()), 6),
        (compile("forever", Link::Glibc, directory.path()), 6),
    ];
    let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    programs.push((rust_program(&target, directory.path()), 6));
    for (program, count) in programs {
        let reference = located(&program).unwrap();
        assert_eq!(reference.access, Access::Symbols);
        let stripped =
            located(&strip(&program)).unwrap_or_else(|error| panic!("{program:?}: {error}"));
        assert_eq!(stripped.access, Access::Code);
        let (reference, found) = (addresses(&reference), addresses(&stripped));
        assert_eq!(found.len(), count, "{program:?}: {found:x?}");
        for (name, address) in found {
            assert_eq!(reference.get(&name), Some(&address), "{program:?}: {name}");
        }
    }
}
