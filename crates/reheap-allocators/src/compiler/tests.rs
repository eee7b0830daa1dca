mod linking;

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::cache::Cache;
use crate::target::Architecture;

const X86_64: Architecture = Architecture::X86_64;

fn target() -> Target {
    Target::musl(X86_64)
}

fn environment() -> Search {
    Search::new(std::env::vars_os())
}

/// The environment of the tests with a PATH of its own and a few variables more.
fn environment_with(path: &Path, variables: &[(&str, &OsStr)]) -> Search {
    let mut search = environment();
    for tool in ["CC", "CXX", "AR"] {
        search
            .environment
            .remove(OsStr::new(&format!("{tool}_{}", target().triple())));
        search
            .environment
            .remove(OsStr::new(&format!("{tool}_{}", target().env_suffix())));
    }
    search.environment.insert("PATH".into(), path.into());
    for (name, value) in variables {
        search
            .environment
            .insert((*name).into(), (*value).to_owned());
    }
    search
}

fn write_script(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_c_compiler_for_musl_makes_objects_and_programs() {
    for purpose in [Purpose::Objects, Purpose::Programs] {
        let compiler = find(&target(), Language::C, purpose, &environment()).unwrap();
        assert!(compiler.program.is_absolute());
        assert!(
            compiler.identity.starts_with(compiler.kind.name()),
            "{}",
            compiler.identity
        );
    }
}

#[test]
fn the_identity_names_no_directory() {
    for language in [Language::C, Language::Cxx] {
        let compiler = find(&target(), language, Purpose::Objects, &environment()).unwrap();
        assert!(
            !compiler.identity.contains('/') || compiler.kind == Kind::Zig,
            "{}",
            compiler.identity
        );
    }
}

#[test]
fn nothing_on_path_lists_everything_that_was_tried() {
    let empty = tempfile::tempdir().unwrap();
    let error = find(
        &target(),
        Language::C,
        Purpose::Objects,
        &environment_with(empty.path(), &[]),
    )
    .unwrap_err();
    let candidates: Vec<_> = error
        .tried
        .iter()
        .map(|rejected| rejected.candidate.as_str())
        .collect();
    for expected in [
        "CC_x86_64_unknown_linux_musl",
        "cc",
        "x86_64-linux-musl-gcc",
        "musl-gcc",
        "zig",
        "python3 -m ziglang",
    ] {
        assert!(
            candidates.contains(&expected),
            "{expected} in {candidates:?}"
        );
    }
    assert!(
        error
            .tried
            .iter()
            .all(|rejected| rejected.reason == Reason::NotFound),
        "{error}"
    );
    assert!(
        error
            .to_string()
            .starts_with("cannot find a C compiler for `x86_64-unknown-linux-musl`: "),
        "{error}"
    );
}

#[test]
fn a_compiler_that_the_user_names_and_that_uses_glibc_is_refused_and_nothing_else_is_tried() {
    let Some(host) = environment().program("cc") else {
        panic!("the tests need a C compiler for the host")
    };
    let found = find(&target(), Language::C, Purpose::Objects, &environment());
    if found.is_ok_and(|compiler| compiler.kind == Kind::NativeMusl) {
        return; // here `cc` is a musl compiler
    }
    for name in [
        "CC_x86_64_unknown_linux_musl",
        "CC_x86_64-unknown-linux-musl",
    ] {
        let path = environment().variable("PATH").unwrap().to_owned();
        let search = environment_with(Path::new(&path), &[(name, host.as_os_str())]);
        let error = find(&target(), Language::C, Purpose::Objects, &search).unwrap_err();
        assert_eq!(error.tried.len(), 1, "{error}");
        assert_eq!(error.tried[0].reason, Reason::OtherLibc { libc: "glibc" });
    }
}

#[test]
fn a_named_compiler_may_come_with_arguments() {
    let real = find(&target(), Language::C, Purpose::Objects, &environment()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let script = real.write_wrapper(directory.path()).unwrap();
    let mut value = script.into_os_string();
    value.push("  -O1 -fPIC");
    let path = environment().variable("PATH").unwrap().to_owned();
    let search = environment_with(
        Path::new(&path),
        &[("CC_x86_64_unknown_linux_musl", &value)],
    );
    let compiler = find(&target(), Language::C, Purpose::Objects, &search).unwrap();
    assert_eq!(compiler.kind, Kind::FromEnvironment);
    assert!(
        compiler
            .arguments
            .ends_with(&["-O1".into(), "-fPIC".into()])
    );
    assert!(
        compiler.identity.ends_with("-O1 -fPIC"),
        "{}",
        compiler.identity
    );
}

#[test]
fn a_named_compiler_that_is_not_there_is_an_error_with_its_name() {
    let empty = tempfile::tempdir().unwrap();
    let value = OsStr::new("/nowhere/musl-gcc");
    let search = environment_with(empty.path(), &[("CC_x86_64_unknown_linux_musl", value)]);
    let error = find(&target(), Language::C, Purpose::Objects, &search).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot find a C compiler for `x86_64-unknown-linux-musl`: `CC_x86_64_unknown_linux_musl=/nowhere/musl-gcc` was not found"
    );
}

#[test]
fn a_compiler_for_another_processor_is_refused() {
    let real = find(&target(), Language::C, Purpose::Objects, &environment()).unwrap();
    if real.kind == Kind::Zig {
        return; // Zig compiles for any processor
    }
    let directory = tempfile::tempdir().unwrap();
    let script = real.write_wrapper(directory.path()).unwrap();
    let other = Target::musl(Architecture::Aarch64);
    let search = Search::new(
        [(
            "CC_aarch64_unknown_linux_musl".into(),
            script.into_os_string(),
        )]
        .into_iter()
        .chain(std::env::vars_os().filter(|(name, _)| !name.as_bytes().starts_with(b"CC_"))),
    );
    let error = find(&other, Language::C, Purpose::Objects, &search).unwrap_err();
    assert_eq!(error.tried[0].reason, Reason::OtherProcessor, "{error}");
}

#[test]
fn a_program_that_fails_is_refused_with_its_first_complaint() {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("broken-cc");
    write_script(
        &script,
        "#!/bin/sh\necho 'broken-cc: error: no licence' >&2\nexit 1\n",
    );
    let search = environment_with(
        directory.path(),
        &[("CC_x86_64_unknown_linux_musl", script.as_os_str())],
    );
    let error = find(&target(), Language::C, Purpose::Objects, &search).unwrap_err();
    assert_eq!(
        error.tried[0].reason,
        Reason::DoesNotCompile {
            message: "broken-cc: error: no licence".to_owned()
        }
    );
}

#[test]
fn a_wrapper_keeps_every_argument_as_it_is_in_a_directory_with_spaces_and_quotes() {
    let directory = tempfile::tempdir().unwrap();
    let odd = directory
        .path()
        .join(OsStr::from_bytes(b"it's \"a\" $HOME \xff directory"));
    fs::create_dir(&odd).unwrap();
    let echo = odd.join("echo arguments");
    write_script(&echo, "#!/bin/sh\nfor a do printf '<%s>' \"$a\"; done\n");
    let compiler = Compiler {
        kind: Kind::CrossGcc,
        language: Language::C,
        target: target(),
        program: echo,
        arguments: vec!["-B".into(), "a b'c".into()],
        identity: String::new(),
        linking: Linking::Driver,
    };
    let wrapper = compiler.write_wrapper(&odd).unwrap();
    assert_eq!(
        fs::metadata(&wrapper).unwrap().permissions().mode() & 0o777,
        0o755
    );
    let output = Command::new(&wrapper)
        .args(["x y", "", "*", "-DA=\"b\"", "--target=t"])
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "<-B><a b'c><x y><><*><-DA=\"b\"><--target=t>"
    );
}

#[test]
fn the_wrapper_of_zig_speaks_gcc() {
    let directory = tempfile::tempdir().unwrap();
    let echo = directory.path().join("zig");
    write_script(&echo, "#!/bin/sh\nprintf '%s ' \"$@\"\n");
    let started_with = |architecture, arguments: &str| {
        let compiler = Compiler {
            kind: Kind::Zig,
            language: Language::C,
            target: Target::musl(architecture),
            program: echo.clone(),
            arguments: vec!["cc".into()],
            identity: String::new(),
            linking: Linking::Zig,
        };
        let wrapper = compiler.write_wrapper(directory.path()).unwrap();
        let output = Command::new(&wrapper)
            .args(arguments.split(' '))
            .output()
            .unwrap();
        String::from_utf8(output.stdout)
            .unwrap()
            .trim_end()
            .to_owned()
    };
    let said = |architecture, arguments: &str| {
        started_with(architecture, arguments).replacen(" -fno-stack-protector", "", 1)
    };
    assert_eq!(
        said(X86_64, "--target=x86_64-unknown-linux-musl -c a.c"),
        "cc -c a.c"
    );
    assert_eq!(
        said(X86_64, "-target x86_64-linux-musl -c a.c"),
        "cc -c a.c"
    );
    assert_eq!(said(X86_64, "-march=x86-64 a.c"), "cc -mcpu=x86_64 a.c");
    assert_eq!(
        said(X86_64, "-march=x86-64-v3 -mtune=generic a.c"),
        "cc -mcpu=x86_64_v3 a.c"
    );
    assert_eq!(said(X86_64, "-march=haswell a.c"), "cc -march=haswell a.c");
    let aarch64 = Architecture::Aarch64;
    assert_eq!(said(aarch64, "-march=armv8-a a.c"), "cc -mcpu=generic a.c");
    assert_eq!(
        said(aarch64, "-march=armv8-a+crc a.c"),
        "cc -mcpu=generic+crc a.c"
    );
    assert_eq!(
        said(aarch64, "-march=armv8.1-a+crypto a.c"),
        "cc -mcpu=generic+v8_1a+crypto a.c"
    );
    assert_eq!(
        started_with(X86_64, "-O1 a.c"),
        "cc -fno-stack-protector -O1 a.c"
    );
    assert_eq!(
        started_with(X86_64, "-O1 -fstack-protector-strong a.c"),
        "cc -O1 -fstack-protector-strong a.c"
    );
}

#[test]
fn writing_a_wrapper_again_leaves_the_file_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let compiler = find(&target(), Language::C, Purpose::Objects, &environment()).unwrap();
    let wrapper = compiler.write_wrapper(directory.path()).unwrap();
    let before = fs::metadata(&wrapper).unwrap().modified().unwrap();
    assert_eq!(compiler.write_wrapper(directory.path()).unwrap(), wrapper);
    assert_eq!(fs::metadata(&wrapper).unwrap().modified().unwrap(), before);
    assert_eq!(
        fs::read_dir(wrapper.parent().unwrap()).unwrap().count(),
        1,
        "no temporary file is left"
    );
}

#[test]
fn each_compiler_and_each_version_of_it_has_a_wrapper_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let wrapper = |name: &str, version: &str| {
        let program = directory.path().join(name);
        write_script(&program, &format!("#!/bin/sh\necho {name}\n"));
        let compiler = Compiler {
            kind: Kind::CrossGcc,
            language: Language::C,
            target: target(),
            program,
            arguments: Vec::new(),
            identity: version.to_owned(),
            linking: Linking::Driver,
        };
        compiler.write_wrapper(directory.path()).unwrap()
    };
    let (one, two) = (wrapper("one", "gcc 12"), wrapper("two", "gcc 12"));
    for (wrapper, said) in [(&one, "one\n"), (&two, "two\n")] {
        // No build system can take that apart.
        assert!(wrapper.ends_with("cc"));
        let output = Command::new(wrapper).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), said);
    }
    assert_eq!(wrapper("one", "gcc 12"), one);
    assert_ne!(wrapper("one", "gcc 13"), one);
}

#[test]
fn an_archiver_is_found_and_its_wrapper_makes_an_archive() {
    let directory = tempfile::tempdir().unwrap();
    let archiver = find_archiver(&target(), &environment()).unwrap();
    let wrapper = archiver.write_wrapper(directory.path()).unwrap();
    fs::write(directory.path().join("member"), "text").unwrap();
    let status = Command::new(wrapper)
        .args(["rcs", "a.a", "member"])
        .current_dir(directory.path())
        .status()
        .unwrap();
    assert!(status.success());
    assert!(
        fs::read(directory.path().join("a.a"))
            .unwrap()
            .starts_with(b"!<arch>\n")
    );
}

#[test]
fn a_compiler_of_its_own_libc_says_where_its_cxx_library_is() {
    let directory = tempfile::tempdir().unwrap();
    let search = environment();
    let cache = Cache::at(directory.path().join("cache"));
    let library_of = |name: &str, answer: &str| {
        let program = directory.path().join(name);
        write_script(&program, &format!("#!/bin/sh\n{answer}\n"));
        let compiler = Compiler {
            kind: Kind::CrossGcc,
            language: Language::Cxx,
            target: target(),
            program,
            arguments: Vec::new(),
            identity: String::new(),
            linking: Linking::Driver,
        };
        compiler.cxx_library(&search, &cache)
    };
    let only_one =
        "case $1 in *=libc++.a) echo /opt/llvm/lib/libc++.a ;; *) echo \"${1#*=}\" ;; esac";
    let found = library_of("clang", only_one).unwrap();
    assert_eq!(found, Path::new("/opt/llvm/lib"));
    let error = library_of("objects-only", "echo \"${1#*=}\"").unwrap_err();
    assert!(
        error.to_string().contains("has none for static programs"),
        "{error}"
    );
}

#[test]
fn the_names_of_cxx_libraries_are_known_in_every_form_of_a_link_line() {
    for argument in ["-lstdc++", "-lc++", "-Wl,-Bstatic,-lc++abi"] {
        assert!(names_cxx_library(OsStr::new(argument)), "{argument}");
    }
    for argument in ["-lc", "-lm", "-lstdc++fs", "/tmp/libc++.a", "-L/c++"] {
        assert!(!names_cxx_library(OsStr::new(argument)), "{argument}");
    }
}
