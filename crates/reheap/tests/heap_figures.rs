//! What glibc's functions around malloc say under a preload: `malloc_trim`, `mallinfo`, `malloc_info`, `malloc_stats` and
//! `mallopt` answer for the allocator that is active, and not for glibc's empty heap.
#[allow(dead_code, reason = "what is for static executables is not used here")]
mod support;

use std::ffi::OsStr;
use std::process::Command;
use support::{BUILD_DEADLINE, program, reheap, scratch_folder, succeed};

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
    let folder = scratch_folder();
    let executable = folder.path().join("program");
    succeed(
        Command::new("cc")
            .args(["-std=gnu11", "-O2", "-fno-builtin"])
            .arg(program("c/heap_figures.c"))
            .args([OsStr::new("-o"), executable.as_os_str()]),
        BUILD_DEADLINE,
    );
    for size in SIZES {
        let outcome = succeed(
            reheap()
                .args(["run", "-a", allocator, "--"])
                .arg(&executable)
                .args([size, gives, keeps]),
            BUILD_DEADLINE,
        );
        let xml = outcome.stdout.strip_prefix("ok heap_figures\n");
        let xml = xml.unwrap_or_else(|| panic!("{size}: {}", outcome.stdout));
        let file = folder.path().join("info.xml");
        std::fs::write(&file, xml).unwrap();
        let read = succeed(
            Command::new("python3").args(["-c", READ_XML]).arg(&file),
            BUILD_DEADLINE,
        );
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
    let outcome = succeed(
        reheap()
            .args(["run", "-a", allocator, "--"])
            .args(command)
            .env("PYTHONMALLOC", "malloc"),
        BUILD_DEADLINE,
    );
    assert_eq!(outcome.stdout, "ok\n", "{}", outcome.stderr);
}

macro_rules! allocators {
    ($($module:ident $name:literal gives $gives:literal keeps $keeps:literal;)*) => {
        $(
            mod $module {
                #[test]
                fn figures_are_the_allocators() {
                    super::figures_are_the_allocators($name, $gives, $keeps);
                }

                #[test]
                fn python_sees_them() {
                    super::python_sees_them($name);
                }
            }
        )*
    };
}

allocators! {
    mimalloc "mimalloc" gives "1" keeps "1";
    mimalloc3 "mimalloc3" gives "1" keeps "1";
    mimalloc_secure "mimalloc-secure" gives "1" keeps "1";
    jemalloc "jemalloc" gives "1" keeps "1";
    rpmalloc "rpmalloc" gives "0" keeps "0";
    snmalloc "snmalloc" gives "0" keeps "0";
}
