//! Programs that are really linked with a libc.a other than the compiler's own, and run.
use std::collections::BTreeSet;

use reheap_elf::{archive, symbols};

use super::*;

/// A directory with a libc.a whose allocator counts its calls. That allocator comes before the members of `original`.
fn libc_that_counts(compiler: &Compiler, original: &Path) -> tempfile::TempDir {
    let directory = tempfile::Builder::new()
        .prefix("derived libc, ")
        .tempdir()
        .unwrap();
    let source = directory.path().join("counting_malloc.c");
    fs::write(&source, include_str!("counting_malloc.c")).unwrap();
    let mut compile = compiler.command_in(&environment());
    compile.args([
        "-O2",
        "-fPIC",
        "-c",
        "counting_malloc.c",
        "-o",
        "counting_malloc.o",
    ]);
    assert!(
        compile
            .current_dir(directory.path())
            .status()
            .unwrap()
            .success()
    );
    let counting = archive::Member {
        name: "counting_malloc.o".to_owned(),
        data: fs::read(directory.path().join("counting_malloc.o")).unwrap(),
    };
    let defined = definitions(&counting);
    let mut members = archive::read(&fs::read(original).unwrap()).unwrap();
    members.retain(|member| definitions(member).is_disjoint(&defined));
    members.push(counting);
    fs::write(
        directory.path().join("libc.a"),
        archive::write(&members).unwrap(),
    )
    .unwrap();
    directory
}

/// The global symbols that an object defines.
fn definitions(member: &archive::Member) -> BTreeSet<String> {
    let (_, symbols) = symbols::read(&member.data).unwrap();
    let defined = symbols
        .into_iter()
        .filter(|symbol| symbol.role.is_definition());
    defined.map(|symbol| symbol.name).collect()
}

fn libc_of_rust() -> PathBuf {
    let output = Command::new("rustc")
        .args(["--print", "sysroot"])
        .output()
        .unwrap();
    let sysroot = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
    let libc = sysroot
        .join("lib/rustlib")
        .join(target().triple())
        .join("lib/self-contained/libc.a");
    assert!(
        libc.is_file(),
        "the tests need `rustup target add {}`",
        target()
    );
    libc
}

/// Links `source` with a libc that counts, runs the program, and gives its output and its ELF type.
fn link_and_run(
    compiler: &Compiler,
    original: &Path,
    pie: Pie,
    source: (&str, &str),
) -> (String, u16) {
    let derived = libc_that_counts(compiler, original);
    let work = tempfile::tempdir().unwrap();
    fs::write(work.path().join(source.0), source.1).unwrap();
    let mut link = compiler.command_in(&environment());
    link.args(
        compiler
            .link_arguments(derived.path(), pie, work.path())
            .unwrap(),
    );
    link.args(["-O2", source.0, "-o", "program"])
        .current_dir(work.path());
    let linked = link.output().unwrap();
    assert!(
        linked.status.success(),
        "{:?}: {}",
        link.get_args(),
        String::from_utf8_lossy(&linked.stderr)
    );
    let bytes = fs::read(work.path().join("program")).unwrap();
    let ran = Command::new(work.path().join("program")).output().unwrap();
    assert!(ran.status.success(), "{:?}", ran.status);
    assert!(
        !has_interpreter(&bytes),
        "a static program has no interpreter"
    );
    (
        String::from_utf8(ran.stdout).unwrap(),
        u16::from_le_bytes([bytes[16], bytes[17]]),
    )
}

/// Whether there is a program header PT_INTERP in a 64-bit little-endian ELF file.
fn has_interpreter(bytes: &[u8]) -> bool {
    let number = |at: usize, size: usize| {
        bytes[at..at + size]
            .iter()
            .rev()
            .fold(0_usize, |sum, &byte| sum << 8 | usize::from(byte))
    };
    let (table, entry_size, entries) = (number(32, 8), number(54, 2), number(56, 2));
    (0..entries).any(|index| number(table + index * entry_size, 4) == 3)
}

const ET_EXEC: u16 = 2;
const ET_DYN: u16 = 3;
const C: (&str, &str) = ("program.c", include_str!("program.c"));
const CXX: (&str, &str) = ("program.cpp", include_str!("program.cpp"));
const C_OUTPUT: &str = "program 1, libc 1, thread text\n";
const CXX_OUTPUT: &str = "new 1, aligned new 1, libc 1, caught 63, refused 1\n";

#[test]
fn a_c_program_takes_its_allocator_from_the_given_libc() {
    let compiler = find(&target(), Language::C, Purpose::Programs, &environment()).unwrap();
    let original = match compiler.original_libc(&environment()) {
        Err(LinkError::NoLibcOfItsOwn { .. }) => libc_of_rust(),
        original => original.unwrap(),
    };
    assert_eq!(
        link_and_run(&compiler, &original, Pie::No, C),
        (C_OUTPUT.to_owned(), ET_EXEC)
    );
    assert_eq!(
        link_and_run(&compiler, &original, Pie::Yes, C),
        (C_OUTPUT.to_owned(), ET_DYN)
    );
}

#[test]
fn a_c_program_takes_even_another_musl_when_it_is_the_given_libc() {
    let compiler = find(&target(), Language::C, Purpose::Programs, &environment()).unwrap();
    assert_eq!(
        link_and_run(&compiler, &libc_of_rust(), Pie::Yes, C),
        (C_OUTPUT.to_owned(), ET_DYN)
    );
}

#[test]
fn a_cxx_program_takes_its_allocator_from_the_given_libc() {
    let compiler = find(&target(), Language::Cxx, Purpose::Programs, &environment()).unwrap();
    let original = match compiler.original_libc(&environment()) {
        Err(LinkError::NoLibcOfItsOwn { .. }) => libc_of_rust(),
        original => original.unwrap(),
    };
    assert_eq!(
        link_and_run(&compiler, &original, Pie::No, CXX),
        (CXX_OUTPUT.to_owned(), ET_EXEC)
    );
    assert_eq!(
        link_and_run(&compiler, &original, Pie::Yes, CXX),
        (CXX_OUTPUT.to_owned(), ET_DYN)
    );
}

#[test]
fn zig_takes_its_allocator_from_the_given_libc() {
    let compiler = zig(Language::C);
    assert_eq!(
        link_and_run(&compiler, &libc_of_rust(), Pie::No, C),
        (C_OUTPUT.to_owned(), ET_EXEC)
    );
    assert_eq!(
        link_and_run(&compiler, &libc_of_rust(), Pie::Yes, C),
        (C_OUTPUT.to_owned(), ET_DYN)
    );
    assert!(matches!(
        compiler.original_libc(&environment()),
        Err(LinkError::NoLibcOfItsOwn { .. })
    ));
}

#[test]
fn zig_is_found_in_the_directory_of_tools_when_there_is_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let zig = zig(Language::C).program;
    let package = directory.path().join("ziglang");
    std::os::unix::fs::symlink(zig.parent().unwrap(), &package).unwrap();
    let search = environment_with(&directory.path().join("empty"), &[]);
    assert!(find(&target(), Language::C, Purpose::Objects, &search).is_err());
    let search = search.with_tools(directory.path().to_owned());
    let compiler = find(&target(), Language::C, Purpose::Objects, &search).unwrap();
    assert_eq!(compiler.kind, Kind::Zig);
    assert_eq!(compiler.program, package.join("zig"));
}

/// Zig, named by the user as `zig cc` would be: it is known for what it is.
fn zig(language: Language) -> Compiler {
    let found = match environment().program("zig") {
        Some(zig) => Ok(zig),
        None => find::zig_in_python_package(&environment()),
    };
    let program = found.expect("the tests need Zig: `python3 -m pip install ziglang==0.14.1`");
    let path = environment().variable("PATH").unwrap().to_owned();
    let subcommand = if language == Language::C { "cc" } else { "c++" };
    let mut value = program.into_os_string();
    value.push(format!(" {subcommand} -target {}", target().zig_triple()));
    let name = if language == Language::C {
        "CC_x86_64_unknown_linux_musl"
    } else {
        "CXX_x86_64_unknown_linux_musl"
    };
    let compiler = find(
        &target(),
        language,
        Purpose::Programs,
        &environment_with(Path::new(&path), &[(name, &value)]),
    );
    compiler.unwrap()
}

#[test]
fn the_script_musl_gcc_is_taken_apart_also_when_the_user_names_it() {
    let script = environment()
        .program("musl-gcc")
        .expect("no `musl-gcc`; `xtask/prepare install` installs what the tests need");
    let path = environment().variable("PATH").unwrap().to_owned();
    let mut value = script.into_os_string();
    value.push(" -O1");
    let search = environment_with(
        Path::new(&path),
        &[("CC_x86_64_unknown_linux_musl", &value)],
    );
    let compiler = find(&target(), Language::C, Purpose::Programs, &search).unwrap();
    assert_eq!(compiler.arguments.last().unwrap(), "-O1");
    assert!(matches!(compiler.linking, Linking::Specs { .. }));
    let original = compiler.original_libc(&search).unwrap();
    assert_eq!(
        link_and_run(&compiler, &original, Pie::Yes, C),
        (C_OUTPUT.to_owned(), ET_DYN)
    );
}

#[test]
fn a_compiler_without_a_cxx_library_links_nothing() {
    let mut compiler = find(&target(), Language::Cxx, Purpose::Objects, &environment()).unwrap();
    compiler.kind = Kind::HostGccWithMuslHeaders;
    let error = compiler
        .link_arguments(Path::new("/derived"), Pie::Yes, Path::new("/support"))
        .unwrap_err();
    assert!(matches!(error, LinkError::ObjectsOnly { .. }), "{error}");
}

#[test]
fn each_musl_has_specs_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = |name: &str| {
        let musl = directory.path().join(name);
        fs::create_dir(&musl).unwrap();
        fs::write(musl.join("rcrt1.o"), "").unwrap();
        let specs = musl.join("musl-gcc.specs");
        fs::write(&specs, format!("*startfile:\n{}/crti.o\n", musl.display())).unwrap();
        let compiler = Compiler {
            kind: Kind::MuslGcc,
            language: Language::C,
            target: target(),
            program: "/usr/bin/gcc".into(),
            arguments: Vec::new(),
            identity: String::new(),
            linking: Linking::Specs { specs },
        };
        let derived = Path::new("/derived");
        let arguments = compiler.link_arguments(derived, Pie::Yes, directory.path());
        arguments.unwrap()
    };
    let of_each = [("old", arguments("old")), ("new", arguments("new"))];
    for (name, arguments) in of_each {
        let specs = arguments.windows(2).find(|words| words[0] == "-specs");
        let text = fs::read_to_string(&specs.unwrap()[1]).unwrap();
        let start = directory.path().join(name).join("rcrt1.o");
        assert!(text.contains(start.to_str().unwrap()), "{text}");
    }
}
