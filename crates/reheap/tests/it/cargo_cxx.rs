//! Rust projects with C++ code in them, and with C code that other build systems compile.

use crate::common::{Project, allocator_in, prints, run};
use std::process::Command;

/// A text index in C++: it has a global object with a heap, threads, and exceptions of its own and of the library.
const INDEX: &str = r#"
#include <map>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

struct Stopwords {
    std::vector<std::string> words;
    Stopwords() { words.assign({"the", "of", "a word that no small string has room for"}); }
};
static const Stopwords stopwords;
static std::map<std::string, int> counts;
static thread_local std::string refused;

struct Refused : std::runtime_error { using std::runtime_error::runtime_error; };
struct Ended { int *ends; ~Ended() { ++*ends; } };

static bool keep(const std::string &word) {
    for (const std::string &stop : stopwords.words)
        if (word == stop) throw Refused("refused: " + word + ", which is among the words that say little");
    return word.at(0) != '-';
}

extern "C" int count_words(const char *text, int threads) {
    std::mutex lock;
    std::vector<std::thread> running;
    int all_refused = 0;
    for (int i = 0; i < threads; i++) running.emplace_back([&] {
        std::istringstream words(text);
        std::string word;
        while (words >> word) {
            try {
                if (!keep(word)) continue;
                std::lock_guard<std::mutex> guard(lock);
                ++counts[word];
            } catch (const Refused &why) {
                refused = why.what();
                std::lock_guard<std::mutex> guard(lock);
                all_refused += refused.size() > 9;
            }
        }
    });
    for (std::thread &thread : running) thread.join();
    return all_refused;
}
extern "C" int count_of(const char *word) {
    try { return counts.at(word); } catch (const std::out_of_range &) { return -1; }
}
extern "C" void with_ended(void (*work)(), int *ends) { Ended ended{ends}; work(); }
"#;

const CALLER: &str = r#"
use std::ffi::{CStr, c_char};
unsafe extern "C" {
    fn count_words(text: *const c_char, threads: i32) -> i32;
    fn count_of(word: *const c_char) -> i32;
}
unsafe extern "C-unwind" {
    fn with_ended(work: extern "C-unwind" fn(), ends: *mut i32);
}
extern "C-unwind" fn fails() { std::panic::resume_unwind(Box::new("a panic")) }
fn of(word: &CStr) -> i32 { unsafe { count_of(word.as_ptr()) } }
fn report() -> String {
    let refused = unsafe { count_words(c"the origin of the species -x".as_ptr(), 4) };
    let mut ends = 0;
    let counted: *mut i32 = &mut ends;
    if cfg!(panic = "unwind") {
        assert!(std::panic::catch_unwind(|| unsafe { with_ended(fails, counted) }).is_err());
    }
    format!("{refused} {} {} {} {ends}", of(c"origin"), of(c"the"), of(c"-x"))
}
fn main() { println!("{}", report()) }
#[test]
fn words_are_counted() { assert_eq!(report(), "12 4 -1 -1 1") }
"#;

fn with_index(build: &str) -> Project {
    let project = Project::new(CALLER);
    project.append(
        "Cargo.toml",
        "[build-dependencies]\ncc = \"1\"\ncmake = \"0.1\"\n\
         [profile.small]\ninherits = \"release\"\nlto = \"fat\"\npanic = \"abort\"\n",
    );
    project.write("index/index.cpp", INDEX);
    project.write("build.rs", build);
    project
}

#[test]
fn cxx_code_throws_and_starts_threads_with_every_allocator_that_is_linked() {
    let project = with_index(
        "fn main() { cc::Build::new().cpp(true).std(\"c++17\").file(\"index/index.cpp\").compile(\"index\"); }",
    );
    run(&mut project.cargo_reheap("build")).succeeded();
    assert_eq!(prints(&project.app()), "12 4 -1 -1 1\n");
    for allocator in ["snmalloc", "hardened_malloc"] {
        let line = format!("build -a {allocator}");
        let outcome = run(&mut project.cargo_reheap(&line)).succeeded();
        outcome.said(&["relinked without compiling"]);
        assert_eq!(allocator_in(&project.app()), allocator);
        assert_eq!(prints(&project.app()), "12 4 -1 -1 1\n");
    }
    run(&mut project.cargo_reheap("test -a rpmalloc"))
        .succeeded()
        .said(&["rpmalloc"]);
    // Fat LTO, and no unwinding in Rust: C++ still unwinds its own frames.
    run(&mut project.cargo_reheap("build --profile small -a jemalloc")).succeeded();
    let app = project.output("small/app");
    assert_eq!(prints(&app), "12 4 -1 -1 0\n");
    assert_eq!(allocator_in(&app), "jemalloc");
}

#[test]
fn a_library_that_cmake_builds_is_linked_also_if_its_crate_names_the_library_of_gcc() {
    let project = with_index(
        "fn main() {\n\
         let built = cmake::build(\"index\");\n\
         println!(\"cargo:rustc-link-search=native={}/lib\", built.display());\n\
         println!(\"cargo:rustc-link-lib=static=index\");\n\
         println!(\"cargo:rustc-link-lib=dylib=stdc++\");\n}",
    );
    project.write(
        "index/CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.13)\nproject(index CXX)\nset(CMAKE_CXX_STANDARD 17)\n\
         add_library(index STATIC index.cpp)\ninstall(TARGETS index ARCHIVE DESTINATION lib)\n",
    );
    run(&mut project.cargo_reheap("build --release -a mimalloc-secure")).succeeded();
    let app = project.output("release/app");
    assert_eq!(prints(&app), "12 4 -1 -1 1\n");
    assert_eq!(allocator_in(&app), "mimalloc-secure");
}

#[test]
fn a_configure_script_runs_in_a_build_script_as_it_does_without_reheap() {
    let project = Project::new(
        "unsafe extern \"C\" { fn depth(leaves: u32) -> u32; }\nfn main() { println!(\"{}\", unsafe { depth(1000) }) }\n",
    );
    project.append("Cargo.toml", "[build-dependencies]\nautotools = \"0.2\"\n");
    project.write(
        "build.rs",
        "fn main() {\n\
         let built = autotools::build(\"tree\");\n\
         println!(\"cargo:rustc-link-search=native={}/lib\", built.display());\n\
         println!(\"cargo:rustc-link-lib=static=tree\");\n}",
    );
    project.write(
        "tree/configure.ac",
        "AC_INIT([tree], [1])\nAC_CONFIG_AUX_DIR([aux])\nAC_CANONICAL_HOST\nAM_INIT_AUTOMAKE([foreign])\n\
         AM_PROG_AR\nAC_PROG_CC\nAC_PROG_RANLIB\nAC_CONFIG_FILES([Makefile])\nAC_OUTPUT\n",
    );
    project.write(
        "tree/Makefile.am",
        "lib_LIBRARIES = libtree.a\nlibtree_a_SOURCES = tree.c\n",
    );
    project.write(
        "tree/tree.c",
        "#include <stdlib.h>\nstruct node { struct node *left, *right; };\n\
         static struct node *grow(unsigned leaves) {\n\
         struct node *node = calloc(1, sizeof *node);\n\
         if (leaves > 1) { node->left = grow(leaves / 2); node->right = grow(leaves - leaves / 2); }\n\
         return node; }\n\
         static unsigned fell(struct node *node) {\n\
         if (!node) return 0;\n\
         unsigned left = fell(node->left), right = fell(node->right);\n\
         free(node);\n\
         return 1 + (left > right ? left : right); }\n\
         unsigned depth(unsigned leaves) { return fell(grow(leaves)); }\n",
    );
    let mut generate = Command::new("autoreconf");
    generate
        .arg("-i")
        .current_dir(project.directory.join("tree"));
    run(&mut generate).succeeded();
    run(&mut project.cargo_reheap("build -a rpmalloc")).succeeded();
    assert_eq!(prints(&project.app()), "11\n");
}
