//! `reheap cc` and `reheap c++` where a compiler stands: alone, in a configure script, in CMake.

use crate::common;
use crate::common::{
    allocator_in, cache, is_static_pie, marker_in, prints, readelf, reheap, run, run_with_input,
};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const HELLO: &str = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\
    int main(int c, char **v) { char *p = malloc(99); strcpy(p, \"hello\"); while (--c) strcat(p, v[c]); puts(p); free(p); }\n";

const HELLO_CXX: &str = "#include <iostream>\n#include <memory>\n#include <stdexcept>\n#include <vector>\n\
    int main() {\n    std::vector<std::string> words(100, std::string(100, 'x'));\n\
    try { if (words.size() == 100) throw std::runtime_error(\"thrown\"); }\n\
    catch (const std::exception &e) { std::cout << \"caught \" << e.what() << std::endl; } }\n";

/// A directory with sources in it.
struct Sources(tempfile::TempDir);

impl Sources {
    fn new(files: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(directory.path().join(name), text).unwrap();
        }
        Self(directory)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A command in the directory.
    fn within(&self, mut command: Command) -> Command {
        command.current_dir(self.0.path());
        command
    }

    fn reheap(&self, line: &str) -> Command {
        self.within(reheap(line))
    }
}

#[test]
fn a_program_is_a_static_pie_with_the_allocator_and_nothing_is_printed() {
    let sources = Sources::new(&[("hello.c", HELLO)]);
    run(&mut reheap("libc -a rpmalloc")).succeeded(); // so that building the allocator is not announced below
    run(&mut sources.reheap("cc -a rpmalloc -O2 hello.c -o warm")).succeeded();
    let outcome = run(&mut sources.reheap("cc -a rpmalloc -O2 hello.c -o hello")).succeeded();
    assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("", ""));
    let hello = sources.path("hello");
    is_static_pie(&hello);
    assert_eq!(
        (allocator_in(&hello).as_str(), prints(&hello).as_str()),
        ("rpmalloc", "hello\n")
    );
    assert_eq!(marker_in(&hello).unwrap().replaced, [""; 0]);
}

#[test]
fn without_an_output_option_it_is_a_out_and_the_default_allocator() {
    let sources = Sources::new(&[("hello.c", HELLO)]);
    run(&mut sources.reheap("cc hello.c")).succeeded();
    assert_eq!(allocator_in(&sources.path("a.out")), "mimalloc");
}

#[test]
fn compiling_and_linking_apart_gives_the_same() {
    let sources = Sources::new(&[
        (
            "main.c",
            "extern char *text(void);\nextern int puts(const char *);\nint main(void) { puts(text()); }",
        ),
        (
            "text.c",
            "#include <string.h>\nchar *text(void) { return strdup(\"apart\"); }",
        ),
    ]);
    for file in ["main", "text"] {
        run(&mut sources.reheap(&format!("cc -O2 -c {file}.c -o {file}.o"))).succeeded();
    }
    run(&mut sources.reheap("cc -a rpmalloc main.o text.o -o apart")).succeeded();
    let apart = sources.path("apart");
    is_static_pie(&apart);
    assert_eq!(
        (allocator_in(&apart).as_str(), prints(&apart).as_str()),
        ("rpmalloc", "apart\n")
    );
}

#[test]
fn stock_links_what_the_compiler_would_link() {
    let sources = Sources::new(&[("hello.c", HELLO)]);
    run(&mut sources.reheap("cc -a stock hello.c -o hello")).succeeded();
    let hello = sources.path("hello");
    assert_eq!(
        (allocator_in(&hello).as_str(), prints(&hello).as_str()),
        ("stock", "hello\n")
    );
}

#[test]
fn position_independence_is_as_asked_for() {
    let sources = Sources::new(&[("hello.c", HELLO)]);
    for (flags, kind) in [
        ("-no-pie", "EXEC ("),
        ("-static-pie", "DYN ("),
        ("-static", "DYN ("),
        ("-static -no-pie", "EXEC ("),
    ] {
        let line = format!("cc -a rpmalloc {flags} hello.c -o hello");
        run(&mut sources.reheap(&line)).succeeded();
        let hello = sources.path("hello");
        assert!(readelf("-hW", &hello).contains(kind), "{flags}");
        assert!(!readelf("-lW", &hello).contains("INTERP"), "{flags}");
        assert_eq!(
            (allocator_in(&hello).as_str(), prints(&hello).as_str()),
            ("rpmalloc", "hello\n"),
            "{flags}"
        );
    }
}

#[test]
fn a_shared_library_is_refused_as_wrong_usage() {
    let sources = Sources::new(&[("hello.c", HELLO)]);
    for line in [
        "cc -shared -fPIC hello.c -o hello.so",
        // As libtool links C++.
        "c++ -fPIC -DPIC -shared -nostdlib hello.c -lstdc++ -lm -lc -o hello.so",
    ] {
        run(&mut sources.reheap(line)).ended_with(2).said(&[
            "cannot make a shared library: reheap links static programs",
            "hint: ",
            "--disable-shared",
            "-DBUILD_SHARED_LIBS=OFF",
        ]);
        assert!(!sources.path("hello.so").exists());
    }
}

/// What Automake and libtool need for a library, a program that uses it, and a test that runs it.
const LIBTOOL_PROJECT: [(&str, &str); 4] = [
    (
        "configure.ac",
        "AC_INIT([small],[1.0])\nAM_INIT_AUTOMAKE([foreign])\nLT_INIT\nAC_PROG_CC\n\
         AC_CONFIG_FILES([Makefile])\nAC_OUTPUT\n",
    ),
    (
        "Makefile.am",
        "lib_LTLIBRARIES = libsmall.la\nlibsmall_la_SOURCES = small.c\nbin_PROGRAMS = app\n\
         app_SOURCES = app.c\napp_LDADD = libsmall.la\nTESTS = app\n",
    ),
    (
        "small.c",
        "#include <string.h>\nchar *small(void) { return strdup(\"small\"); }\n",
    ),
    (
        "app.c",
        "#include <stdio.h>\n#include <stdlib.h>\nchar *small(void);\n\
         int main(void) { char *p = small(); puts(p); free(p); return 0; }\n",
    ),
];

#[test]
fn libtool_is_told_what_to_configure_and_then_builds_and_tests() {
    let sources = Sources::new(&LIBTOOL_PROJECT);
    let within = |program: &str, arguments: &[&str]| {
        let mut command = sources.within(Command::new(program));
        command
            .args(arguments)
            .env("CC", format!("{} cc", env!("CARGO_BIN_EXE_reheap")))
            .env("REHEAP_ALLOCATOR", "rpmalloc")
            .env("REHEAP_CACHE_DIR", cache());
        run(&mut command)
    };
    within("autoreconf", &["-i"]).succeeded();
    within("./configure", &["-C"]).succeeded();
    let outcome = within("make", &[]).ended_with(2);
    outcome.said(&[
        "cannot make a shared library",
        "`./configure --disable-shared`",
    ]);

    within("./configure", &["-C", "--disable-shared"]).succeeded();
    within("make", &["clean"]).succeeded();
    let outcome = within("make", &["check"]).succeeded();
    assert!(outcome.stdout.contains("PASS: app"), "{}", outcome.stdout);
    let app = sources.path("app");
    is_static_pie(&app);
    assert_eq!(
        (allocator_in(&app).as_str(), prints(&app).as_str()),
        ("rpmalloc", "small\n")
    );
}

#[test]
fn source_text_can_come_from_standard_input() {
    let sources = Sources::new(&[]);
    run_with_input(
        &mut sources.reheap("cc -a rpmalloc -x c - -o hello"),
        HELLO.as_bytes(),
    )
    .succeeded();
    assert_eq!(
        (
            allocator_in(&sources.path("hello")).as_str(),
            prints(&sources.path("hello")).as_str()
        ),
        ("rpmalloc", "hello\n")
    );
    let outcome =
        run_with_input(&mut sources.reheap("cc -E -P -"), b"#define A b\nA\n").succeeded();
    assert_eq!(outcome.stdout.trim(), "b");
}

#[test]
fn paths_with_blanks_and_quotes_are_taken_as_they_are() {
    let sources = Sources::new(&[]);
    let directory = sources.path("a 'b' \"c\" $d");
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("it's.c"), HELLO).unwrap();
    let mut command = sources.reheap("cc -a rpmalloc -o");
    let output = directory.join("out put");
    run(command
        .arg(&output)
        .arg(directory.join("it's.c"))
        .env("REHEAP_CACHE_DIR", directory.join("cache")))
    .succeeded();
    assert_eq!(
        (allocator_in(&output).as_str(), prints(&output).as_str()),
        ("rpmalloc", "hello\n")
    );

    let mut command = sources.reheap("cc -a rpmalloc -o");
    let output = sources
        .path("x")
        .with_file_name(std::ffi::OsStr::from_bytes(b"not-utf8-\xff"));
    run(command.arg(&output).arg(directory.join("it's.c"))).succeeded();
    assert_eq!(allocator_in(&output), "rpmalloc");
}

#[test]
fn the_choice_can_come_from_the_environment_and_flags_win() {
    let sources = Sources::new(&[("hello.c", HELLO)]);
    let from_environment = |line: &str| {
        let mut command = sources.reheap(line);
        command
            .env("REHEAP_ALLOCATOR", "mimalloc3")
            .env("REHEAP_TUNING", "purge_delay=3");
        run(&mut command).succeeded();
        marker_in(&sources.path("hello")).unwrap().marker
    };
    let marker = from_environment("cc hello.c -o hello");
    assert_eq!(
        (
            marker.allocator.as_str(),
            marker.tuning["purge_delay"].as_str()
        ),
        ("mimalloc3", "3")
    );
    let marker = from_environment("cc -a mimalloc -t purge_delay=4 -- hello.c -o hello");
    assert_eq!(
        (
            marker.allocator.as_str(),
            marker.tuning["purge_delay"].as_str()
        ),
        ("mimalloc", "4")
    );
    let mut wrong = sources.reheap("cc hello.c");
    run(wrong.env("REHEAP_ALLOCATOR", "mimaloc"))
        .ended_with(2)
        .said(&["did you mean `-a mimalloc`?"]);
}

#[test]
fn a_program_that_never_allocates_is_no_error() {
    let sources = Sources::new(&[("a.c", "int main(void) { return 7; }")]);
    run(&mut sources.reheap("cc a.c -o a")).succeeded();
    run(&mut Command::new(sources.path("a"))).ended_with(7);
}

/// Rounds a size up as musl's malloc does, so it contains musl's table.
const ROUND_UP: &str = r#"
#include <stdio.h>
#include <stdlib.h>
static const unsigned short classes[] = {
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 18, 20, 25, 31, 36, 42, 50, 63, 72, 84, 102, 127, 146, 170, 204, 255, 292,
    340, 409, 511, 584, 682, 818, 1023, 1169, 1364, 1637, 2047, 2340, 2730, 3276, 4095, 4680, 5460, 6552, 8191,
};
int main(int argc, char **argv) {
    unsigned units = argc > 1 ? atoi(argv[1]) : 100, class = 0;
    while (classes[class] < units) class++;
    unsigned *volatile rounded = malloc(sizeof *rounded);
    *rounded = classes[class];
    printf("%u\n", *rounded);
    free(rounded);
}
"#;

#[test]
fn a_table_of_musls_malloc_in_a_program_is_not_taken_for_its_code() {
    let sources = Sources::new(&[
        ("a.c", ROUND_UP),
        (
            "never.c",
            &ROUND_UP
                .replace("malloc(sizeof *rounded)", "&units")
                .replace("free(rounded);", ""),
        ),
    ]);
    for options in ["-O2", "-O2 -s"] {
        run(&mut sources.reheap(&format!("cc {options} a.c -o a"))).succeeded();
        let program = sources.path("a");
        assert_eq!(allocator_in(&program), "mimalloc");
        assert_eq!(prints(&program), "102\n");
        run(&mut sources.reheap(&format!("cc {options} never.c -o never"))).succeeded();
        assert_eq!(prints(&sources.path("never")), "102\n");
    }
}

#[test]
fn what_the_compiler_says_and_its_exit_code_pass_through() {
    let sources = Sources::new(&[("bad.c", "int main(void) { return nonsense; }")]);
    run(&mut sources.reheap("cc bad.c -o bad"))
        .ended_with(1)
        .said(&["bad.c:1", "nonsense"]);
    let outcome = run(&mut sources.reheap("cc --version")).succeeded();
    assert!(
        outcome.stdout.contains("Free Software Foundation") || outcome.stdout.contains("clang"),
        "{}",
        outcome.stdout
    );
    run(&mut sources.reheap("cc missing.c"))
        .ended_with(1)
        .said(&["missing.c"]);
}

#[test]
fn a_compilers_flags_are_not_taken_for_reheaps() {
    let sources = Sources::new(&[("hello.c", HELLO)]);
    run(&mut sources.reheap("cc -ansi -traditional-cpp -c hello.c -o hello.o")).succeeded();
    run(&mut sources.reheap("cc -a rpmalloc hello.o -o hello -lm -lpthread")).succeeded();
    assert_eq!(allocator_in(&sources.path("hello")), "rpmalloc");
}

#[test]
fn the_stack_size_of_threads_is_eight_mebibytes_or_what_is_asked_for() {
    let sources = Sources::new(&[("hello.c", HELLO)]);
    for (flag, size) in [
        ("", "0x800000"),
        ("--stack-size 262144", "0x040000"),
        ("--stack-size=0", "0x000000"),
    ] {
        run(&mut sources.reheap(&format!("cc -a rpmalloc {flag} hello.c -o hello"))).succeeded();
        let headers = readelf("-lW", &sources.path("hello"));
        let line = headers
            .lines()
            .find(|line| line.contains("GNU_STACK"))
            .unwrap();
        assert_eq!(line.split_whitespace().nth(5), Some(size), "{flag}");
    }
}

#[test]
fn another_libc_can_be_named_and_what_is_none_is_refused() {
    let sources = Sources::new(&[("hello.c", HELLO), ("libc.a", "")]);
    let mut rust = Command::new("rustc");
    rust.args(["--print", "target-libdir", "--target", &common::target()]);
    let rust = run(&mut rust).succeeded().stdout;
    let rust = Path::new(rust.trim()).join("self-contained/libc.a");
    let mut command = sources.reheap("cc -a rpmalloc --libc");
    run(command.arg(&rust).args(["hello.c", "-o", "hello"])).succeeded();
    let marker = marker_in(&sources.path("hello")).unwrap().marker;
    assert_eq!(
        (
            marker.libc.as_str(),
            prints(&sources.path("hello")).as_str()
        ),
        ("musl 1.2.5", "hello\n")
    );

    let outcome = run(&mut sources.reheap("cc --libc libc.a hello.c -o none")).ended_with(1);
    outcome.said(&["cannot derive a libc from `libc.a`: the file is empty"]);
    let glibc = run(Command::new("gcc").arg("-print-file-name=libc.a"))
        .succeeded()
        .stdout;
    let outcome = run(&mut sources.reheap(&format!("cc --libc {} hello.c -o none", glibc.trim())))
        .ended_with(1);
    outcome.said(&["it is not a musl libc"]);
    assert!(!sources.path("none").exists());
}

#[test]
fn no_arguments_are_wrong_usage_and_wrong_ones_too() {
    let sources = Sources::new(&[("hello.c", HELLO)]);
    run(&mut sources.reheap("cc"))
        .ended_with(2)
        .said(&["no compiler arguments", "hint: reheap cc"]);
    run(&mut sources.reheap("c++"))
        .ended_with(2)
        .said(&["no compiler arguments"]);
    run(&mut sources.reheap("cc -a"))
        .ended_with(2)
        .said(&["error: a value is required for '--allocator"])
        .did_not_say("reheap: error");
    run(&mut sources.reheap("cc -t purge_dealy=1 hello.c"))
        .ended_with(2)
        .said(&["did you mean `-t purge_delay=…`?"]);
}

#[test]
fn a_configure_script_takes_it_for_a_compiler() {
    // What scripts made by Autoconf do: does the compiler work, what does it make, which functions are there, which
    // not.
    let configure = "set -e\n\
        echo 'int main(void) { return 0; }' > conftest.c\n$CC conftest.c\n[ -f a.out ] && ./a.out\n\
        $CC $CFLAGS -c conftest.c && [ -f conftest.o ]\n\
        $CC -E conftest.c > /dev/null\n\
        has() { echo \"char $1(void); int main(void) { return $1(); }\" > conftest.c; $CC -o conftest conftest.c 2> /dev/null; }\n\
        has reallocarray && echo '#define HAVE_REALLOCARRAY 1' > config.h\n\
        if has mallinfo; then echo '#define HAVE_MALLINFO 1' >> config.h; fi\n\
        $CC $CFLAGS -o hello hello.c\n";
    let sources = Sources::new(&[("configure", configure), ("hello.c", HELLO)]);
    let mut command = Command::new("sh");
    command
        .arg("configure")
        .env("CFLAGS", "-O2 -Wall -Werror")
        .env("REHEAP_CACHE_DIR", cache());
    command
        .env("CC", format!("{} cc", env!("CARGO_BIN_EXE_reheap")))
        .env("REHEAP_ALLOCATOR", "rpmalloc");
    run(&mut sources.within(command)).succeeded();
    assert_eq!(
        fs::read_to_string(sources.path("config.h")).unwrap(),
        "#define HAVE_REALLOCARRAY 1\n"
    );
    assert_eq!(
        (
            allocator_in(&sources.path("hello")).as_str(),
            prints(&sources.path("hello")).as_str()
        ),
        ("rpmalloc", "hello\n")
    );
}

#[test]
fn cmake_takes_both_for_compilers() {
    let sources = Sources::new(&[
        (
            "CMakeLists.txt",
            "cmake_minimum_required(VERSION 3.10)\nproject(mixed C CXX)\nfind_package(Threads REQUIRED)\n\
          add_library(part STATIC part.c)\nadd_executable(app app.cpp)\ntarget_link_libraries(app part Threads::Threads)\n",
        ),
        (
            "part.c",
            "#include <string.h>\nchar *part(void) { return strdup(\"C and\"); }",
        ),
        (
            "app.cpp",
            "#include <iostream>\n#include <thread>\nextern \"C\" char *part();\n\
          int main() { std::thread([] { std::cout << part() << std::string(\" C++\") << std::endl; }).join(); }",
        ),
    ]);
    let reheap = env!("CARGO_BIN_EXE_reheap");
    let mut configure = sources.within(Command::new("cmake"));
    configure
        .args(["-S", ".", "-B", "build"])
        .env("REHEAP_ALLOCATOR", "rpmalloc")
        .env("REHEAP_CACHE_DIR", cache());
    run(configure
        .env("CC", format!("{reheap} cc"))
        .env("CXX", format!("{reheap} c++")))
    .succeeded();
    let mut build = sources.within(Command::new("cmake"));
    run(build
        .args(["--build", "build"])
        .env("REHEAP_ALLOCATOR", "rpmalloc")
        .env("REHEAP_CACHE_DIR", cache()))
    .succeeded();
    let app = sources.path("build/app");
    assert_eq!(
        (allocator_in(&app).as_str(), prints(&app).as_str()),
        ("rpmalloc", "C and C++\n")
    );
}

#[test]
fn a_cxx_program_with_exceptions_is_static_and_has_the_allocator() {
    let sources = Sources::new(&[("hello.cpp", HELLO_CXX)]);
    run(&mut sources.reheap("c++ -a rpmalloc -O1 hello.cpp -o hello")).succeeded();
    let hello = sources.path("hello");
    is_static_pie(&hello);
    assert_eq!(
        (allocator_in(&hello).as_str(), prints(&hello).as_str()),
        ("rpmalloc", "caught thrown\n")
    );
    assert_eq!(marker_in(&hello).unwrap().replaced, [""; 0]);
}

#[test]
fn a_compiler_that_does_not_work_is_named_with_the_way_to_get_one() {
    let sources = Sources::new(&[("hello.c", HELLO)]);
    let mut command = sources.reheap("cc hello.c");
    command.env(
        format!("CC_{}", common::target().replace('-', "_")),
        "/nowhere/cc",
    );
    run(&mut command)
        .ended_with(1)
        .said(&["/nowhere/cc", "hint: reheap doctor --fix"]);
}

#[test]
fn reheap_is_refused_as_the_compiler_that_it_needs_itself() {
    // It ends after four calls, whatever reheap does.
    let script = format!(
        "#!/bin/sh\necho >> calls\n[ $(wc -l < calls) -lt 5 ] || exit 7\nexec {} cc \"$@\"\n",
        env!("CARGO_BIN_EXE_reheap")
    );
    let script = script.replace("calls", "\"${0%/*}\"/calls");
    let sources = Sources::new(&[("hello.c", HELLO), ("wrapper", &script)]);
    let wrapper = sources.path("wrapper");
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
    let variable = format!("CC_{}", common::target().replace('-', "_"));
    let mut command = sources.reheap("cc -a rpmalloc hello.c -o hello");
    run(command.env(&variable, &wrapper))
        .ended_with(1)
        .said(&[&variable, "starts reheap, which needs a compiler"]);
}

#[test]
fn a_compiler_in_path_that_is_reheap_does_not_wait_for_the_allocator_that_it_is_to_build() {
    let script = format!(
        "#!/bin/sh\nexec {} cc \"$@\"\n",
        env!("CARGO_BIN_EXE_reheap")
    );
    let sources = Sources::new(&[("cc", &script)]);
    let cc = sources.path("cc");
    fs::set_permissions(&cc, fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", sources.path("").display());
    let mut build = sources.reheap("libc -a rpmalloc --memory-functions stock");
    build.env("REHEAP_CACHE_DIR", sources.path("cache"));
    run(build.env("PATH", path))
        .ended_with(1)
        .said(&["reheap is not a compiler for itself"]);
}

#[test]
fn a_script_that_tries_a_flag_may_write_to_dev_null() {
    let sources = Sources::new(&[("hello.c", HELLO)]);
    run(&mut sources.reheap("cc hello.c -o /dev/null")).succeeded();
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
}

#[test]
fn a_response_file_is_read_for_what_is_made_and_where() {
    let sources = Sources::new(&[
        ("hello.c", HELLO),
        ("links", "-O1 hello.c -o linked"),
        ("compiles", "-c hello.c -o object.o"),
        ("shares", "-shared -fPIC hello.c -o lib.so"),
    ]);
    run(&mut sources.reheap("cc @links")).succeeded();
    assert_eq!(allocator_in(&sources.path("linked")), "mimalloc");
    run(&mut sources.reheap("cc @compiles")).succeeded();
    assert!(sources.path("object.o").is_file());
    let outcome = run(&mut sources.reheap("cc @shares"));
    assert_eq!(outcome.code(), Some(2), "{}", outcome.stderr);
}

#[test]
fn a_flag_without_its_value_is_the_compilers_error_and_takes_nothing_of_reheaps() {
    let sources = Sources::new(&[("hello.c", HELLO)]);
    let outcome = run(&mut sources.reheap("cc hello.c -o"));
    assert_eq!(outcome.code(), Some(1));
    assert!(outcome.stderr.contains("-o"), "{}", outcome.stderr);
    assert_eq!(fs::read_dir(sources.0.path()).unwrap().count(), 1);
}

#[test]
fn a_target_behind_the_compilers_arguments_is_wrong_usage() {
    let sources = Sources::new(&[("hello.c", HELLO)]);
    let late = "cc -O2 --target x86_64-unknown-linux-musl hello.c -o hello";
    let outcome = run(&mut sources.reheap(late));
    assert_eq!(outcome.code(), Some(2));
    let hint = "hint: put it first: --target x86_64-unknown-linux-musl";
    assert!(outcome.stderr.contains(hint), "{}", outcome.stderr);
    run(&mut sources.reheap("cc -### hello.c -o hello")).succeeded();
    assert!(!sources.path("hello").exists());
}

#[test]
fn a_libc_among_the_arguments_makes_a_program_also_without_default_libraries() {
    let sources = Sources::new(&[("hello.c", HELLO)]);
    for libraries in [
        "-lc -lgcc",
        "-l c -lgcc",
        "-Wl,--start-group,-lc,-lgcc,--end-group",
    ] {
        let line = format!("cc -a rpmalloc -nodefaultlibs hello.c {libraries} -o hello");
        run(&mut sources.reheap(&line)).succeeded();
        let hello = sources.path("hello");
        is_static_pie(&hello);
        assert_eq!(
            (allocator_in(&hello).as_str(), prints(&hello).as_str()),
            ("rpmalloc", "hello\n"),
            "{libraries}"
        );
        fs::remove_file(hello).unwrap();
    }
    // The libc is where its start files are.
    let libc = libc_of_musl_gcc();
    for (start, kind) in [("crt1.o", "EXEC ("), ("rcrt1.o", "DYN (")] {
        let start = libc.with_file_name(start);
        let mut cc = sources.reheap("cc -a rpmalloc -nostdlib -o hello hello.c");
        run(cc.arg(start).arg("-lc")).succeeded();
        let hello = sources.path("hello");
        assert!(readelf("-hW", &hello).contains(kind));
        assert_eq!(
            (allocator_in(&hello).as_str(), prints(&hello).as_str()),
            ("rpmalloc", "hello\n")
        );
    }
}

/// The libc.a that `musl-gcc` links.
fn libc_of_musl_gcc() -> PathBuf {
    let mut musl = Command::new("musl-gcc");
    musl.args([
        "-static",
        "-Wl,--trace",
        "-x",
        "c",
        "-o",
        "/dev/null",
        "/dev/null",
    ]);
    let traced = run(&mut musl);
    let text = traced.stdout + &traced.stderr;
    let mut words = text.split(['(', ')', '\n']);
    let libc = words.find(|word| word.ends_with("/libc.a"));
    libc.unwrap_or_else(|| panic!("no libc.a in {text}")).into()
}

#[test]
fn a_libc_of_the_users_is_refused_with_a_hint_about_c() {
    let sources = Sources::new(&[("hello.c", HELLO)]);
    let mut cc = sources.reheap("cc -a rpmalloc hello.c -o hello");
    run(cc.arg(libc_of_musl_gcc())).ended_with(1).said(&[
        "it has musl's own allocator",
        "hint: leave out the libc that the arguments name",
    ]);
}

#[test]
fn an_output_that_cannot_be_written_is_the_compilers_error() {
    let sources = Sources::new(&[("hello.c", HELLO)]);
    let outcome = run(&mut sources.reheap("cc -a rpmalloc hello.c -o nowhere/hello"));
    assert_eq!(outcome.code(), Some(1));
    outcome.said(&["nowhere/hello"]);
}

#[test]
fn relocatable_objects_and_assembly_are_left_to_the_compiler() {
    let sources = Sources::new(&[("hello.c", HELLO)]);
    run(&mut sources.reheap("cc -S hello.c -o hello.s")).succeeded();
    run(&mut sources.reheap("cc -c hello.s -o hello.o")).succeeded();
    run(&mut sources.reheap("cc --compile hello.c -o long.o")).succeeded();
    run(&mut sources.reheap("cc --assemble hello.c -o long.s")).succeeded();
    run(&mut sources.reheap("cc --preprocess hello.c -o long.i")).succeeded();
    run(&mut sources.reheap("cc -r -nostdlib hello.o -o both.o")).succeeded();
    assert!(readelf("-hW", &sources.path("both.o")).contains("REL ("));
    assert_eq!(
        fs::metadata(sources.path("hello.o"))
            .unwrap()
            .permissions()
            .mode()
            & 0o111,
        0
    );
}

#[test]
fn a_full_cache_is_named_with_a_way_out() {
    let sources = Sources::new(&[("hello.c", HELLO)]);
    fs::create_dir(sources.path("full")).unwrap();
    let script = "mount -t tmpfs -o size=4k,mode=755 none \"$1\"; export REHEAP_CACHE_DIR=\"$1\"; cd \"$2\"; \
        if \"$REHEAP\" cc hello.c -o hello; then exit 3; fi; test ! -e hello";
    let directories = [&sources.path("full"), sources.0.path()];
    let outcome = common::image::in_namespace(script, &directories).succeeded();
    outcome.said(&[
        "cannot build mimalloc: ",
        "No space left on device",
        "hint: make room for the cache\n      or set another one: REHEAP_CACHE_DIR=<directory>",
    ]);
}

/// The macros that a C++ source sees, among them those of the library.
fn macros(sources: &Sources, flags: &str) -> BTreeSet<String> {
    let line = format!("c++ {flags} -dM -E names.cpp");
    let outcome = run(&mut sources.reheap(&line)).succeeded();
    outcome.stdout.lines().map(str::to_owned).collect()
}

#[test]
fn a_cxx_source_sees_no_macro_that_the_flags_do_not_ask_for() {
    let sources = Sources::new(&[("names.cpp", "#include <string>\n")]);
    let optimised = macros(&sources, "-O2");
    let of_optimiser = |line: &String| {
        ["__OPTIMIZE__", "__NO_INLINE__"]
            .iter()
            .any(|name| line.contains(name))
    };
    for flags in ["-O0", "-O", "-O1", "-g -O3", "-O2 -fsanitize=undefined"] {
        let seen = macros(&sources, flags);
        let differ = seen.symmetric_difference(&optimised);
        let differ: Vec<_> = differ.filter(|line| !of_optimiser(line)).collect();
        assert!(differ.is_empty(), "{flags}: {differ:?}");
    }
    let own = "-Werror -O1 -DNDEBUG -D_DEBUG=2 -D_FORTIFY_SOURCE=1 -fstack-protector-strong \
               -D_LIBCPP_HARDENING_MODE=_LIBCPP_HARDENING_MODE_FAST";
    let seen = macros(&sources, own);
    for name in [
        "NDEBUG 1",
        "_DEBUG 2",
        "_FORTIFY_SOURCE 1",
        "_LIBCPP_HARDENING_MODE _LIBCPP_HARDENING_MODE_FAST",
    ] {
        assert!(seen.contains(&format!("#define {name}")), "{name}");
    }
    // Zig has one strength of it.
    let protected = macros(&sources, "-O1 -fstack-protector-strong");
    assert!(protected.iter().any(|line| line.contains("__SSP")));
}

#[test]
fn the_cxx_library_aborts_in_no_check_that_nobody_asked_for() {
    let end = "#include <cstdio>\n#include <vector>\n\
        int main() { std::vector<int> ranks{3, 1, 2}; int *past = &ranks[ranks.size()]; int sum = 0;\n\
        for (int *at = &ranks[0]; at != past; at++) sum += *at; std::printf(\"%d\\n\", sum); }\n";
    let sources = Sources::new(&[("end.cpp", end)]);
    for flags in ["", "-O", "-O -g"] {
        let line = format!("c++ {flags} end.cpp -o end");
        run(&mut sources.reheap(&line)).succeeded();
        assert_eq!(prints(&sources.path("end")), "6\n", "{flags}");
    }
}
