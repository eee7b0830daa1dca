//! Plug-ins that are opened with RTLD_DEEPBIND, as PHP and Apache open theirs: with every allocator of the catalogue,
//! they and the program get their memory from it.
//!
//! A plug-in that finds glibc's malloc behind the preload's back works until a block crosses the border. So a small
//! program lets blocks cross it in both directions, and PHP works with its extensions. The plug-in lies in a directory
//! that only the program's RUNPATH names: glibc's dlopen looks at who calls it.

use crate::common::command::run_within;
use crate::common::suite::{RUN_DEADLINE, allocators, program, scratch_directory};
use crate::common::{reheap, run};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program that opens `plugins/plugin.so` beside it by that file's name alone.
struct Built {
    _directory: tempfile::TempDir,
    executable: PathBuf,
}

#[track_caller]
fn build() -> Built {
    let directory = scratch_directory();
    let compile = |source: &str, output: &Path, flags: &[&str]| {
        run(Command::new("cc")
            .args(["-std=gnu11", "-O2", "-fno-builtin"])
            .arg(program(&format!("c/{source}.c")))
            .args([OsStr::new("-o"), output.as_os_str()])
            .args(flags)
            .arg("-ldl"))
        .succeeded();
    };
    let plugins = directory.path().join("plugins");
    fs::create_dir(&plugins).unwrap();
    compile(
        "deepbind_plugin",
        &plugins.join("plugin.so"),
        &["-shared", "-fPIC"],
    );
    let executable = directory.path().join("deepbind");
    let run_path = "-Wl,-rpath,$ORIGIN/plugins,--enable-new-dtags";
    compile("deepbind", &executable, &[run_path]);
    Built {
        _directory: directory,
        executable,
    }
}

fn with(allocator: &str, flags: &[&str], command: &[&OsStr]) -> Command {
    let mut reheap = reheap(&format!("run -a {allocator}"));
    reheap.args(flags);
    reheap.arg("--").args(command);
    reheap.env_remove("REHEAP_KEEP_DEEPBIND");
    reheap
}

#[track_caller]
fn is_ok(command: &mut Command) {
    let outcome = run(command).succeeded();
    assert_eq!(outcome.stdout, "ok deepbind\n", "{}", outcome.stderr);
}

#[track_caller]
fn blocks_go_both_ways(allocator: &str) {
    let built = build();
    let executable = built.executable.as_os_str();
    is_ok(&mut with(allocator, &[], &[executable]));
    is_ok(&mut with(allocator, &[], &[executable, "dlmopen".as_ref()]));
}

#[track_caller]
fn the_flag_is_kept(allocator: &str) {
    let built = build();
    let command = [built.executable.as_os_str(), "kept".as_ref()];
    is_ok(&mut with(allocator, &["--keep-deepbind"], &command));
    is_ok(with(allocator, &[], &command).env("REHEAP_KEEP_DEEPBIND", "1"));
    let stripped = run_within(&mut with(allocator, &[], &command), RUN_DEADLINE);
    assert!(stripped.stdout.contains("check failed: !is_ours"));
    let empty = run_within(
        with(allocator, &[], &command).env("REHEAP_KEEP_DEEPBIND", ""),
        RUN_DEADLINE,
    );
    assert!(empty.stdout.contains("check failed: !is_ours"));
}

/// Documents, text, a data base and numbers of a language: four extensions, and each frees what the other side
/// allocated.
const PHP: &str = r#"
$document = new DOMDocument();
$document->loadXML('<list>' . str_repeat('<item name="n">text</item>', 5000) . '</list>');
$path = new DOMXPath($document);
echo $path->query('//item')->length, "\n";
$copy = simplexml_load_string($document->saveXML());
echo count($copy->item), "\n";
echo strlen(mb_convert_encoding(str_repeat("\xe4\xf6", 50000), 'UTF-8', 'ISO-8859-1')), "\n";
echo mb_strtoupper(str_repeat('äöü', 3)), ' ', mb_ereg_replace('(\w+) (\w+)', '\2 \1', 'two one'), "\n";
$base = new PDO('sqlite::memory:');
$base->exec('create table words(number integer, word text)');
$insert = $base->prepare('insert into words values(?, ?)');
for ($n = 0; $n < 2000; $n++) $insert->execute([$n, str_repeat("word $n ", 20)]);
echo $base->query('select count(distinct word), sum(length(word)) from words')->fetch(PDO::FETCH_NUM)[1], "\n";
$format = new NumberFormatter('de_DE', NumberFormatter::DECIMAL);
for ($n = 0; $n < 2000; $n++) $text = $format->format($n * 1234.5);
echo $text, ' ', (new Collator('de_DE'))->compare('Ärger', 'Zorn'), "\n";
"#;

#[track_caller]
fn php_works(allocator: &str) {
    let wanted = "apt-get install php-cli php-mbstring php-xml php-sqlite3 php-intl";
    let listed = run(Command::new("php").arg("-m")).stdout;
    for extension in ["dom", "SimpleXML", "mbstring", "pdo_sqlite", "intl"] {
        let is_there = listed.lines().any(|line| line == extension);
        assert!(is_there, "php has no extension {extension}; {wanted}");
    }
    // The first time, reheap says that it builds the library.
    run(&mut with(allocator, &[], &["true".as_ref()])).succeeded();
    let alone = run(Command::new("php").args(["-r", PHP])).succeeded();
    let command = ["php", "-r", PHP].map(OsStr::new);
    let outcome = run(&mut with(allocator, &[], &command)).succeeded();
    assert_eq!(outcome.stdout, alone.stdout);
    assert_eq!(outcome.stderr, alone.stderr);
    assert!(outcome.stdout.contains("5000\n5000\n200000\n"));
}

macro_rules! opening_plugins {
    ($allocator:literal) => {
        #[test]
        fn blocks_go_both_ways_between_a_program_and_its_plugin() {
            super::blocks_go_both_ways($allocator);
        }

        #[test]
        fn the_flag_is_kept_on_demand_by_option_and_by_variable() {
            super::the_flag_is_kept($allocator);
        }

        #[test]
        fn php_works_with_extensions_as_without_an_allocator() {
            super::php_works($allocator);
        }
    };
}

// Variants of an allocator differ in nothing that matters here.
allocators! {
    mimalloc("mimalloc"): opening_plugins;
    jemalloc("jemalloc"): opening_plugins;
    hardened_malloc_light("hardened_malloc-light"): opening_plugins;
    + test_all {
        mimalloc3("mimalloc3"): opening_plugins;
        mimalloc_secure("mimalloc-secure"): opening_plugins;
        mimalloc2_secure("mimalloc2-secure"):;
        rpmalloc("rpmalloc"): opening_plugins;
        snmalloc("snmalloc"): opening_plugins;
        snmalloc_checks("snmalloc-checks"):;
        hardened_malloc("hardened_malloc"):;
    }
}

/// Tried with the probe in front of the preload, and in a program that gets the preload by the other library.
#[test]
fn verify_and_only_strip_the_flag_too() {
    let built = build();
    let executable = built.executable.as_os_str();
    let verified = run(&mut with("mimalloc", &["--verify"], &[executable])).succeeded();
    assert!(verified.stdout.starts_with("verified: "));
    let shell = ["sh".as_ref(), "-c".as_ref(), executable];
    is_ok(&mut with("mimalloc", &["--only", "deepbind"], &shell));
    let kept = ["sh", "-c", "\"$0\" kept"].map(OsStr::new);
    let kept = [&kept[..], &[executable]].concat();
    let flags = ["--keep-deepbind", "--only", "deepbind"];
    is_ok(&mut with("mimalloc", &flags, &kept));
}
