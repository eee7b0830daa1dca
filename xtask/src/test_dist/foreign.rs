//! The packages for the processor that this machine does not have: what they say of themselves, and whether they work.
//!
//! qemu's user mode runs each program as if it were one of this machine, and that is quick. But the kernel here starts no
//! program for another processor, so what reheap starts needs a whole emulated machine with a kernel of its own.

use super::root::SHOW_MAPS;
use super::{Kind, TestDist, apk, foreign_architecture, outcome};
use crate::dist;
use crate::targets::debian::Debian;
use crate::targets::machine::Machine;
use anyhow::{Result, ensure};
use reheap_allocators::catalogue::{self, CATALOGUE};
use reheap_allocators::preload;
use reheap_allocators::target::Architecture;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::files;

/// Where glibc for AArch64 is here.
const GLIBC: &str = "/usr/aarch64-linux-gnu";
const GCC: &str = "aarch64-linux-gnu-gcc";

/// They reserve terabytes of addresses, of which qemu's user mode keeps tables that take all memory. An emulated machine
/// does not.
const ONLY_IN_MACHINE: [&str; 2] = ["hardened_malloc", "hardened_malloc-light"];

pub(super) fn check(test: &TestDist<'_>) -> Result<()> {
    let architecture = foreign_architecture()?;
    check_descriptions(test, architecture)?;
    let Some(archive) = test.foreign_file(Kind::Tarball)? else {
        return Ok(());
    };
    let tree = test.new_directory("foreign-")?;
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--strip-components=1", "--file"])
        .arg(archive)
        .arg("--directory")
        .arg(&tree);
    outcome::succeed(&mut tar)?;
    dist::require_prebuilt(architecture, &tree)?;
    test.saw("its programs find every allocator");
    // Debian has a libc and a kernel for it here.
    if architecture == Architecture::Aarch64 {
        let programs = test.new_directory("programs-")?;
        let show_maps = compile_for_glibc(&programs)?;
        check_preloads(test, &tree, &show_maps)?;
        check_in_machine(test, &tree, &programs)?;
    }
    Ok(())
}

/// Each kind of package has a field for the processor, and names of its own for processors.
fn check_descriptions(test: &TestDist<'_>, architecture: Architecture) -> Result<()> {
    let name = architecture.name();
    if let Some(file) = test.foreign_file(Kind::Deb)? {
        let mut field = Command::new("dpkg-deb");
        field.arg("--field").arg(&file).arg("Architecture");
        let found = outcome::succeed(&mut field)?.stdout;
        let expected = Kind::Deb.suffix(architecture);
        let is_it = expected == format!("_{}.deb", found.trim());
        ensure!(is_it, "`{}` is for {found}", file.display());
    }
    if let Some(file) = test.foreign_file(Kind::Rpm)? {
        let mut query = Command::new("rpm");
        query.args(["--query", "--queryformat", "%{ARCH} %{OS}", "--package"]);
        let found = outcome::succeed(query.arg(&file))?.stdout;
        let is_it = found == format!("{name} linux");
        ensure!(is_it, "`{}` is for {found}", file.display());
    }
    if let Some(file) = test.foreign_file(Kind::Apk)? {
        apk::check_description(&apk::split(test, &file)?, architecture)?;
    }
    if let Some(file) = test.foreign_file(Kind::Wheel)? {
        let mut unzip = Command::new("unzip");
        unzip.arg("-p").arg(&file).arg("*.dist-info/WHEEL");
        let mut tags = outcome::succeed(&mut unzip)?;
        for system in ["manylinux2014", "musllinux_1_1"] {
            tags = tags.said(&format!("\nTag: py3-none-{system}_{name}\n"))?;
        }
    }
    test.saw(&format!("the packages for {name} say that they are"));
    Ok(())
}

/// A program that prints what it has mapped.
fn compile_for_glibc(directory: &Path) -> Result<PathBuf> {
    let source = directory.join("show-maps.c");
    files::write(&source, SHOW_MAPS)?;
    let program = directory.join("show-maps");
    let mut compiler = Command::new(GCC);
    outcome::succeed(compiler.arg(&source).arg("-o").arg(&program))?;
    Ok(program)
}

/// reheap writes each library, and a program loads it.
fn check_preloads(test: &TestDist<'_>, tree: &Path, program: &Path) -> Result<()> {
    let libraries = test.new_directory("preloads-")?;
    let cache = test.new_directory("cache-")?;
    for allocator in CATALOGUE.iter().filter(|row| row.build.is_some()) {
        let mut preload = Command::new("qemu-aarch64");
        preload
            .arg(tree.join("bin/reheap"))
            .args(["preload", "--json", "--libc", "glibc", "-a"])
            .args([allocator.name, "-o"])
            .arg(&libraries)
            .env("REHEAP_CACHE_DIR", &cache)
            .env_remove("REHEAP_PREBUILT");
        let written = outcome::succeed(&mut preload)?;
        let written: serde_json::Value = serde_json::from_str(&written.stdout)?;
        let library = written["path"].as_str().unwrap_or_default();
        ensure!(Path::new(library).is_file(), "there is no `{library}`");
        if ONLY_IN_MACHINE.contains(&allocator.name) {
            continue;
        }
        let mut loads = Command::new("qemu-aarch64");
        loads
            .args(["-L", GLIBC, "-E", &format!("LD_PRELOAD={library}")])
            .arg(program);
        outcome::succeed(&mut loads)?
            .said(library)?
            .did_not_say("ERROR")?;
    }
    ensure!(
        fs::read_dir(&cache)?.next().is_none(),
        "reheap used its cache"
    );
    test.saw("emulated programs load its allocators");
    Ok(())
}

/// What a person does, on a machine with no compiler.
fn check_in_machine(test: &TestDist<'_>, tree: &Path, programs: &Path) -> Result<()> {
    let debian = Debian::get(test.cache.join("aarch64-debian"))?;
    let (before, behind) = debian.musl_flags();
    let mut compiler = Command::new(GCC);
    compiler.arg("-O2").args(before);
    compiler.arg(programs.join("show-maps.c")).args(behind);
    compiler.arg("-o").arg(programs.join("show-maps-musl"));
    outcome::succeed(&mut compiler)?;

    let directory = test.new_directory("machine-")?;
    let mut machine = Machine::new(&directory, &debian, test.workspace)?;
    machine.add_directory(tree, "usr/local")?;
    machine.add_directory(programs, "programs")?;
    let reheap = |arguments: &str| format!("/usr/local/bin/reheap {arguments}");
    machine.add_command(reheap("list"));
    machine.add_command(reheap("inspect /programs/show-maps-musl"));
    machine.add_command(reheap("run -a jemalloc -- /programs/show-maps"));
    machine.add_command(reheap("run -a mimalloc -- /programs/show-maps-musl"));
    let mut loaded = [
        "preloads/aarch64-unknown-linux-gnu/libjemalloc-",
        "preloads/aarch64-unknown-linux-musl/libmimalloc-",
        "own/aarch64-unknown-linux-",
    ]
    .map(str::to_owned)
    .to_vec();
    for name in ONLY_IN_MACHINE {
        let arguments = format!("run -a {name} -- /programs/show-maps");
        machine.add_command(reheap(&arguments));
        let file = preload::file_name(catalogue::find(name)?);
        loaded.push(format!("preloads/aarch64-unknown-linux-gnu/{file}"));
    }
    machine.add_command(reheap("run --check -a jemalloc -- /programs/show-maps"));
    machine.add_command(reheap("profile -o /tmp/profile -- /programs/show-maps"));
    machine.add_command("/usr/local/bin/cargo-reheap reheap --version");
    let printed = machine.run()?;
    for library in loaded {
        let path = format!("/usr/local/share/reheap/{library}");
        ensure!(printed.contains(&path), "no `{path}` in:\n{printed}");
    }
    test.saw("list, inspect, run and profile in an emulated machine");
    Ok(())
}
