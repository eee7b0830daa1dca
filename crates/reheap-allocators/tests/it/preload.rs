//! Preloads of quick allocators are linked, and export the family and nothing else.

use crate::common::{
    cache, compile, compiler as compiler_for, conformance_program, run, target, toolchain,
};
use reheap_allocators::catalogue::{self, Glue};
use reheap_allocators::compiler::{self, Language, Purpose, Search};
use reheap_allocators::own_library::{Base, OwnLibrary};
use reheap_allocators::preload;
use reheap_allocators::target::{Architecture, Libc, Target};
use reheap_allocators::upstream::Toolchain;
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn a_preload_for_each_libc_is_made_once_and_says_what_it_is() {
    let mimalloc = catalogue::find("mimalloc").unwrap();
    for libc in [Libc::Glibc, Libc::Musl] {
        let target = target(libc);
        let toolchain = toolchain(&target);
        let library = preload::build(mimalloc, &target, &toolchain, &cache()).unwrap();
        assert!(preload::is_built(mimalloc, &target, &toolchain, &cache()));
        assert_eq!(library.file_name().unwrap(), "libmimalloc-2.3.2.so");

        let bytes = std::fs::read(&library).unwrap();
        let identity = reheap_elf::identify::identify(&bytes).unwrap();
        let found = identity.marker.expect("a preload has a marker");
        assert_eq!(found.marker.allocator, "mimalloc");
        assert_eq!(found.marker.libc, libc.to_string());
        assert!(found.replaced.is_empty(), "{:?}", found.replaced);
        let again = preload::build(mimalloc, &target, &toolchain, &cache()).unwrap();
        assert_eq!(library, again);
        let found = preload::find_built(mimalloc, &target, &cache());
        assert_eq!(found.unwrap().file_name(), library.file_name());
    }
}

/// mimalloc prints its options where it is asked to in the environment.
fn prints_its_options(program: &Path) -> bool {
    let outcome = run(Command::new(program).env("MIMALLOC_VERBOSE", "1")).succeeded();
    outcome.stderr.contains("mimalloc")
}

/// A program of the conformance suite that is linked with the preload of mimalloc, in a directory where everybody may
/// go.
struct Linked {
    _directory: tempfile::TempDir,
    program: PathBuf,
}

impl Linked {
    /// `plugin` is a library that the program opens.
    fn new(source: &str, plugin: Option<&str>) -> Self {
        let mimalloc = catalogue::find("mimalloc").unwrap();
        let target = target(Libc::Glibc);
        let library = preload::build(mimalloc, &target, &toolchain(&target), &cache()).unwrap();
        let directory = tempfile::tempdir().unwrap();
        set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
        let copy = directory.path().join(library.file_name().unwrap());
        std::fs::copy(&library, &copy).unwrap();
        let cc = compiler_for(&target);
        if let Some(plugin) = plugin {
            let output = directory.path().join("plugin.so");
            let source = conformance_program(plugin);
            compile(&cc, &source, &["-shared", "-fPIC"], &output);
        }
        let program = directory.path().join("program");
        let run_path = format!("-Wl,-rpath,{}", directory.path().display());
        let copy = copy.to_str().unwrap();
        let arguments = ["-Wl,--no-as-needed", copy, &run_path, "-ldl"];
        compile(&cc, &conformance_program(source), &arguments, &program);
        Self {
            _directory: directory,
            program,
        }
    }

    /// Whether the program could be made setuid. Only root can give a program away.
    fn becomes_setuid(&self) -> bool {
        let is_given_away = chown(&self.program, Some(65_534), None).is_ok();
        if is_given_away {
            set_permissions(&self.program, Permissions::from_mode(0o4755)).unwrap();
        }
        is_given_away
    }
}

#[test]
fn who_starts_a_setuid_program_has_no_say_in_how_it_allocates() {
    let linked = Linked::new("first_malloc", None);
    assert!(prints_its_options(&linked.program));
    if linked.becomes_setuid() {
        assert!(!prints_its_options(&linked.program));
    }
}

/// `deepbind kept` succeeds where RTLD_DEEPBIND has its effect, and `deepbind` where it has been taken away.
fn keeps_the_flag(program: &Path) -> bool {
    let succeeds = |arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).env("REHEAP_KEEP_DEEPBIND", "1");
        run(&mut command).status.success()
    };
    let (is_kept, is_stripped) = (succeeds(&["kept"]), succeeds(&[]));
    assert_ne!(is_kept, is_stripped);
    is_kept
}

#[test]
fn who_starts_a_setuid_program_cannot_keep_the_deepbind_flag() {
    let linked = Linked::new("deepbind", Some("deepbind_plugin"));
    assert!(keeps_the_flag(&linked.program));
    if linked.becomes_setuid() {
        assert!(!keeps_the_flag(&linked.program));
    }
}

#[test]
fn a_library_of_one_source_exports_what_it_is_told_to_and_hides_the_rest() {
    let exporting = |exports| OwnLibrary {
        source: Glue {
            name: "answer",
            source: "int hidden(void) { return 42; }\n\
                     __attribute__((visibility(\"default\"))) int answer(void) { return hidden(); }\n",
        },
        exports,
        entry_point: None,
        base: Base::Libc,
    };
    for libc in [Libc::Glibc, Libc::Musl] {
        let target = target(libc);
        let toolchain = toolchain(&target);
        let build = |names| exporting(names).build(&target, &toolchain, &cache());
        let library = build(&["answer"]).unwrap();
        assert_eq!(library.file_name().unwrap(), "libanswer.so");
        let error = build(&["answer", "question"]).unwrap_err();
        assert!(
            format!("{:?}", error).contains("question"),
            "the missing name is named: {error:?}"
        );
    }
}

/// Zig's Clang, too, which does not know each of GCC's flags.
#[test]
fn a_library_that_calls_no_libc_is_built_by_each_compiler_for_each_processor() {
    let library = OwnLibrary {
        source: Glue {
            name: "libcless",
            source: "__attribute__((visibility(\"default\"))) int answer(void) { return 42; }\n",
        },
        exports: &["answer"],
        entry_point: None,
        base: Base::Nothing,
    };
    let here = toolchain(&target(Libc::Glibc));
    for architecture in Architecture::WITH_PRELOADS {
        let target = Target::new(architecture, Libc::Glibc);
        for compiler in [
            format!("{architecture}-linux-gnu-gcc"),
            format!("python3 -m ziglang cc -target {architecture}-linux-gnu.2.17"),
        ] {
            let variable = format!("CC_{}", target.env_suffix());
            let variables = [(variable.into(), compiler.clone().into())];
            let search = Search::new(std::env::vars_os().chain(variables));
            let cc = compiler::find(&target, Language::C, Purpose::Objects, &search);
            let toolchain = Toolchain {
                cc: cc.unwrap_or_else(|error| panic!("{error}; run `xtask/prepare install`")),
                ..here.clone()
            };
            let built = library.build(&target, &toolchain, &cache());
            built.unwrap_or_else(|error| panic!("{compiler}: {error}"));
        }
    }
}
