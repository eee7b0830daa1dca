//! What glibc's functions around malloc say under a preload: `malloc_trim`, `mallinfo`, `malloc_info`, `malloc_stats`
//! and `mallopt` answer for the allocator that is active, and not for glibc's empty heap.

use crate::common::suite::{allocators, program, scratch_directory};
use crate::common::{reheap, run};
use std::ffi::OsStr;
use std::process::Command;

/// Small blocks, large ones, and some that are mapped one by one.
const SIZES: [&str; 3] = ["1000", "100000", "8000000"];

/// Prints the bytes that an XML document gives for the system's memory now, and for what of it is free.
const READ_XML: &str = "import sys, xml.etree.ElementTree as tree\n\
    root = tree.parse(sys.argv[1]).getroot()\n\
    assert root.tag == 'malloc' and root.get('version') == '1'\n\
    print(root.find('system[@type=\"current\"]').get('size'), root.find('total[@type=\"rest\"]').get('size'))";

/// Asks by way of the program's own scope, as a C extension would.
const PYTHON: &str = "import ctypes\n\
    libc = ctypes.CDLL(None)\n\
    class Figures(ctypes.Structure):\n\
    \x20   _fields_ = [(name, ctypes.c_size_t) for name in 'arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost'.split()]\n\
    libc.mallinfo2.restype = Figures\n\
    resident = lambda: int(open('/proc/self/statm').read().split()[1]) * 4096\n\
    before = libc.mallinfo2().uordblks\n\
    words = [bytes(2000) for _ in range(40000)]\n\
    full = libc.mallinfo2().uordblks\n\
    assert full > before + 70000000, (before, full)\n\
    del words\n\
    assert libc.malloc_trim(0) in (0, 1)\n\
    assert libc.mallinfo2().uordblks < full - 40000000, libc.mallinfo2().uordblks\n\
    print('ok')";

/// `gives` is 1 where malloc_trim returns freed memory to the system, `keeps` where mallopt takes a trim threshold.
#[track_caller]
fn figures_are_the_allocators(allocator: &str, gives: &str, keeps: &str) {
    let directory = scratch_directory();
    let executable = directory.path().join("program");
    run(Command::new("cc")
        .args(["-std=gnu11", "-O2", "-fno-builtin"])
        .arg(program("c/heap_figures.c"))
        .args([OsStr::new("-o"), executable.as_os_str()]))
    .succeeded();
    for size in SIZES {
        let outcome = run(reheap(&format!("run -a {allocator} --"))
            .arg(&executable)
            .args([size, gives, keeps]))
        .succeeded();
        let xml = outcome.stdout.strip_prefix("ok heap_figures\n");
        let xml = xml.unwrap_or_else(|| panic!("{size}: {}", outcome.stdout));
        let file = directory.path().join("info.xml");
        std::fs::write(&file, xml).unwrap();
        let read = run(Command::new("python3").args(["-c", READ_XML]).arg(&file)).succeeded();
        let [now, rest] = read.stdout.split_whitespace().collect::<Vec<_>>()[..] else {
            panic!("{}", read.stdout)
        };
        let (now, rest): (u64, u64) = (now.parse().unwrap(), rest.parse().unwrap());
        assert!(now > 0 && rest <= now, "{xml}");
        for line in ["system bytes     = ", "in use bytes     = "] {
            assert!(outcome.stderr.contains(line), "{size}: {}", outcome.stderr);
        }
    }
}

#[track_caller]
fn python_sees_them(allocator: &str) {
    let command = ["python3", "-c", PYTHON];
    let outcome = run(reheap(&format!("run -a {allocator} --"))
        .args(command)
        .env("PYTHONMALLOC", "malloc"))
    .succeeded();
    assert_eq!(outcome.stdout, "ok\n", "{}", outcome.stderr);
}

macro_rules! heap_figures {
    ($allocator:literal, gives $gives:literal, keeps $keeps:literal) => {
        #[test]
        fn figures_are_the_allocators() {
            super::figures_are_the_allocators($allocator, $gives, $keeps);
        }

        #[test]
        fn python_sees_them() {
            super::python_sees_them($allocator);
        }
    };
}

allocators! {
    mimalloc("mimalloc", gives "1", keeps "1"): heap_figures;
    jemalloc("jemalloc", gives "1", keeps "1"): heap_figures;
    hardened_malloc_light("hardened_malloc-light", gives "0", keeps "0"): heap_figures;
    + test_all {
        mimalloc3("mimalloc3", gives "1", keeps "1"): heap_figures;
        mimalloc_secure("mimalloc-secure", gives "1", keeps "1"): heap_figures;
        mimalloc2_secure("mimalloc2-secure", gives "1", keeps "1"): heap_figures;
        rpmalloc("rpmalloc", gives "0", keeps "0"): heap_figures;
        snmalloc("snmalloc", gives "0", keeps "0"): heap_figures;
        snmalloc_checks("snmalloc-checks", gives "0", keeps "0"): heap_figures;
        hardened_malloc("hardened_malloc", gives "0", keeps "0"): heap_figures;
    }
}
