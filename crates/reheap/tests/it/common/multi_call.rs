//! The programs of the C suite as one executable, because linking each by itself is most of the work of their tests.
//!
//! Like busybox, the executable has a link for each program, and runs the one that it is called by. So each run is a
//! process of its own. Programs that define `malloc` or have work done before `main` cannot be in there.

use super::command::run_within;
use super::run;
use super::suite::{RUN_DEADLINE, program, scratch_directory};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a program shows, and the name of its source.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Check(pub(crate) &'static str, pub(crate) &'static str);

impl Check {
    pub(crate) fn source(self) -> &'static str {
        self.1
    }

    /// What the program prints. A source that only includes another prints the name of that.
    fn printed(self) -> String {
        let name = match self.source() {
            "fork_in_handler_threads" => "fork_in_handler",
            "at_rest_of_jemalloc" => "at_rest",
            source => source,
        };
        format!("ok {name}\n")
    }
}

pub(crate) struct MultiCall {
    directory: tempfile::TempDir,
}

impl MultiCall {
    /// Compiles the programs and links them. The compiler has its flags.
    #[track_caller]
    pub(crate) fn build(compiler: impl Fn() -> Command, checks: &[Check]) -> Self {
        Self::build_and_change(compiler, checks, |_| {})
    }

    /// The same, and then something is done to the executable.
    #[track_caller]
    pub(crate) fn build_and_change(
        compiler: impl Fn() -> Command,
        checks: &[Check],
        change: impl FnOnce(&Path),
    ) -> Self {
        let built = Self {
            directory: scratch_directory(),
        };
        let mut main = "#include <stdlib.h>\n#include <string.h>\n".to_owned();
        let mut calls = String::new();
        let mut link = compiler();
        for check in checks {
            let name = check.source();
            let object = built.path(&format!("{name}.o"));
            let mut compile = compiler();
            compile.arg("-c").arg(format!("-Dmain=main_of_{name}"));
            compile.args((!cfg!(feature = "test_all")).then_some("-DSAMPLE"));
            compile.arg(program(&format!("c/{name}.c")));
            run(compile.arg("-o").arg(&object)).succeeded();
            link.arg(object);
            writeln!(main, "int main_of_{name}(int, char **);").unwrap();
            let call = format!("return main_of_{name}(count, arguments);");
            writeln!(calls, "\tif (strcmp(name, \"{name}\") == 0)\n\t\t{call}").unwrap();
        }
        write!(
            main,
            "int main(int count, char **arguments)\n{{\n\
             \tconst char *slash = strrchr(arguments[0], '/');\n\
             \tconst char *name = slash ? slash + 1 : arguments[0];\n{calls}\tabort();\n}}\n"
        )
        .unwrap();
        let source = built.path("multi_call.c");
        fs::write(&source, main).unwrap();
        let executable = built.path("multi_call");
        run(link.arg(source).arg("-o").arg(&executable).arg("-ldl")).succeeded();
        change(&executable);
        for check in checks {
            fs::hard_link(&executable, built.path(check.source())).unwrap();
        }
        built
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Runs each program as `command` starts it, and names all that fail.
    #[track_caller]
    pub(crate) fn all_pass(&self, checks: &[Check], command: impl Fn(&Path) -> Command) {
        let failures: String = checks
            .iter()
            .filter_map(|check| {
                let executable = self.path(check.source());
                let outcome = run_within(&mut command(&executable), RUN_DEADLINE);
                let passed = outcome.code() == Some(0) && outcome.stdout == check.printed();
                (!passed).then(|| format!("not so: {} ({}): {outcome:#?}\n", check.0, check.1))
            })
            .collect();
        assert!(failures.is_empty(), "{failures}");
    }
}
