//! What `reheap run --check` says of programs whose file is hard to see into, that are linked with another allocator,
//! or that nothing can be preloaded into; and that `run` does as it says.

use crate::common::image::{build, in_namespace};
use crate::common::programs::Programs;
use crate::common::suite::is_tested;
use crate::common::{cache_for_all, command, reheap, run};
use serde_json::Value;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const HELLO: &str = "#include <stdio.h>\n#include <stdlib.h>\n\
    int main(void) { char *p = malloc(99); sprintf(p, \"hello\"); puts(p); free(p); return 0; }\n";
const OWN_MALLOC: &str = "#include <stddef.h>\n\
    static char heap[1 << 20]; static size_t used;\n\
    void *malloc(size_t size) { void *block = heap + used; used += (size + 15) / 16 * 16; return block; }\n\
    void free(void *block) { (void)block; }\n";

/// A directory with what a test builds.
struct Workshop(Programs);

impl std::ops::Deref for Workshop {
    type Target = Programs;

    fn deref(&self) -> &Programs {
        &self.0
    }
}

impl Workshop {
    fn new() -> Self {
        Self(Programs::new())
    }

    /// Takes the section table away, as `sstrip` and packers do.
    fn drop_sections(&self, name: &str) {
        self.change(name, |bytes| {
            let place = u64_at(bytes, 40);
            bytes[place..].fill(0);
            bytes[40..48].fill(0); // e_shoff
            bytes[60..64].fill(0); // e_shnum, e_shstrndx
        });
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = fs::read(self.path(name)).unwrap();
        change(&mut bytes);
        fs::write(self.path(name), bytes).unwrap();
    }

    #[track_caller]
    fn check(&self, name: &str, code: i32) -> Value {
        let mut command = reheap("run --check --json -a mimalloc --");
        let outcome = run(command.arg(self.path(name))).ended_with(code);
        serde_json::from_str(&outcome.stdout).unwrap()
    }
}

fn u64_at(bytes: &[u8], at: usize) -> usize {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize
}

/// The allocators that can be preloaded.
fn allocators() -> Vec<String> {
    let listed = run(&mut reheap("list --json")).succeeded().stdout;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let names = listed.as_array().unwrap().iter();
    names
        .map(|row| row["name"].as_str().unwrap().to_owned())
        .filter(|name| is_tested(name))
        .collect()
}

#[test]
fn a_program_without_a_section_table_is_refused_if_it_brings_a_malloc_and_run_if_not() {
    let workshop = Workshop::new();
    workshop.write("hello.c", HELLO);
    workshop.write("own.c", format!("{OWN_MALLOC}{HELLO}"));
    for name in ["hello", "own"] {
        workshop.run(&format!("cc -O1 -fno-builtin {name}.c -o {name}"));
        workshop.drop_sections(name);
    }
    assert_eq!(workshop.check("hello", 0)["verdict"], "works");
    let hello = workshop.path("hello");
    let outcome = run(reheap("run -a mimalloc --").arg(hello)).succeeded();
    assert_eq!(outcome.stdout, "hello\n");

    let refused = workshop.check("own", 1);
    assert_eq!(refused["verdict"], "refused", "{refused}");
    let reason = refused["reason"].as_str().unwrap();
    assert!(reason.contains("`malloc` itself"), "{reason}");
}

#[test]
fn a_stripped_program_that_offers_a_malloc_of_its_own_is_refused() {
    let workshop = Workshop::new();
    workshop.write("own.c", format!("{OWN_MALLOC}{HELLO}"));
    workshop.run("cc -O1 -fno-builtin -s own.c -o own");
    let refused = workshop.check("own", 1);
    assert_eq!(refused["verdict"], "refused", "{refused}");
}

/// Without `DT_SYMTAB` and a section table nobody can say what is in the file.
#[test]
fn what_cannot_be_seen_is_unknown_and_not_run_unless_forced() {
    let workshop = Workshop::new();
    workshop.write("own.c", format!("{OWN_MALLOC}{HELLO}"));
    workshop.run("cc -O1 -fno-builtin own.c -o own");
    workshop.drop_sections("own");
    workshop.change("own", |bytes| {
        const PT_DYNAMIC: u8 = 2;
        const DT_SYMTAB: u64 = 6;
        let headers = (0..usize::from(bytes[56])).map(|index| u64_at(bytes, 32) + index * 56);
        let header = headers.clone().find(|at| bytes[*at] == PT_DYNAMIC).unwrap();
        let (start, size) = (u64_at(bytes, header + 8), u64_at(bytes, header + 32));
        let mut entries = (start..start + size).step_by(16);
        let entry = entries
            .find(|at| u64_at(bytes, *at) == DT_SYMTAB as usize)
            .unwrap();
        bytes[entry..entry + 8].copy_from_slice(&0x6fff_0000_u64.to_le_bytes());
    });
    let unknown = workshop.check("own", 5);
    assert_eq!(unknown["verdict"], "unknown", "{unknown}");
    let own = workshop.path("own");
    let text = run(reheap("run --check --").arg(&own)).ended_with(5).stdout;
    let expected = "verdict    unknown: reheap cannot tell where its malloc comes from: its dynamic symbols cannot be \
     found\nhint       to try it anyway: reheap run --force\n";
    assert!(text.ends_with(expected), "{text}");
    run(reheap("run -a mimalloc --").arg(&own))
        .ended_with(1)
        .said(&[
            "cannot tell whether `",
            "works with mimalloc",
            "hint: to try it anyway: reheap run --force",
        ]);
    let forced = run(reheap("run --check --force --").arg(&own)).ended_with(0);
    assert!(
        forced.stdout.contains("verdict    risky: "),
        "{}",
        forced.stdout
    );
}

#[test]
fn a_packed_program_is_unknown_and_not_called_static() {
    let workshop = Workshop::new();
    // What UPX leaves: no interpreter, no symbols, no sections, and its banner.
    let banner = [
        "$Info: This file is packed",
        " with the UPX executable packer",
    ]
    .concat();
    workshop.write(
        "packed.c",
        format!("const char banner[] = \"{banner}\";\nvoid _start(void) {{ for (;;); }}\n"),
    );
    for flags in ["-static -nostdlib", "-static-pie -nostdlib"] {
        workshop.run(&format!("cc {flags} packed.c -o packed"));
        workshop.drop_sections("packed");
        let unknown = workshop.check("packed", 5);
        assert_eq!(unknown["verdict"], "unknown", "{flags}: {unknown}");
        assert!(
            unknown["hint"].as_str().unwrap().contains("upx -d"),
            "{unknown}"
        );
    }
}

/// What libjemalloc.so.2 is, as far as a program that is linked with it sees.
const LINKED: &str = "#include <stddef.h>\n\
    void *__libc_malloc(size_t); void __libc_free(void *);\n\
    void *malloc(size_t n) { return __libc_malloc(n); }\n\
    void free(void *p) { __libc_free(p); }\n\
    void *mallocx(size_t n, int flags) { return malloc(n + 0 * flags); }\n\
    int mallctl(const char *name) { return name == NULL; }\n";

#[test]
fn a_program_that_is_linked_with_a_shared_allocator_works_unless_it_takes_blocks_by_other_names() {
    let workshop = Workshop::new();
    workshop.write("lib.c", LINKED);
    workshop.write("hello.c", HELLO);
    workshop.write(
        "asks.c",
        format!(
            "int mallctl(const char *);\n{}",
            HELLO.replace("return 0", "return mallctl(\"a\")")
        ),
    );
    workshop.write(
        "takes.c",
        format!(
            "void *mallocx(unsigned long, int);\n{}",
            HELLO.replace("malloc(99)", "mallocx(99, 0)")
        ),
    );
    workshop.write("between.c", "#include <stddef.h>\nvoid *mallocx(size_t, int);\nvoid *between(void) { return mallocx(9, 0); }\n");
    workshop.run(
        "cc -fno-builtin -shared -fPIC -Wl,-soname,libjemalloc.so.2 lib.c -o libjemalloc.so.2",
    );
    workshop
        .run("cc -shared -fPIC between.c ./libjemalloc.so.2 -Wl,-rpath,$ORIGIN -o libbetween.so");
    let origin = "-Wl,--no-as-needed -Wl,-rpath,$ORIGIN -L. -l:libjemalloc.so.2";
    for name in ["hello", "asks", "takes"] {
        workshop.run(&format!("cc {name}.c {origin} -o {name}"));
    }
    workshop
        .run("cc hello.c -Wl,--no-as-needed -Wl,-rpath,$ORIGIN -L. -l:libbetween.so -o through");

    for (name, note) in [
        (
            "hello",
            "replaces `libjemalloc.so.2`, which it is linked with",
        ),
        (
            "asks",
            "mallctl still answers for that jemalloc, which is empty, unless the preload is jemalloc",
        ),
    ] {
        let works = workshop.check(name, 0);
        assert_eq!(works["verdict"], "works", "{works}");
        let told = works["notes"][0].as_str().unwrap();
        assert!(told.contains(note), "{told}");
        let program = workshop.path(name);
        let outcome = run(reheap("run -a mimalloc --").arg(program)).succeeded();
        assert_eq!(outcome.stdout, "hello\n");
    }
    for name in ["takes", "through"] {
        let refused = workshop.check(name, 1);
        let reason = refused["reason"].as_str().unwrap();
        assert_eq!(
            reason,
            "it uses `mallocx` of `libjemalloc.so.2`: another allocator would free blocks of jemalloc"
        );
    }
    fs::remove_file(workshop.path("libbetween.so")).unwrap();
    fs::rename(
        workshop.path("libjemalloc.so.2"),
        workshop.path("elsewhere.so"),
    )
    .unwrap();
    // The system may have a jemalloc of its own, where `hello` then finds all that it needs.
    let mut elsewhere = reheap("run --check --json --");
    let outcome = run(elsewhere.arg(workshop.path("takes")));
    let verdict: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_ne!(verdict["verdict"], "works", "{verdict}");
}

/// SWI-Prolog does so: it works without that library, too.
#[test]
fn a_program_may_tell_a_linked_tcmalloc_of_its_threads() {
    let workshop = Workshop::new();
    workshop.write(
        "lib.c",
        "#include <stddef.h>\n\
        void *__libc_malloc(size_t); void __libc_free(void *);\n\
        void *malloc(size_t n) { return __libc_malloc(n); }\n\
        void free(void *p) { __libc_free(p); }\n\
        void MallocExtension_MarkThreadIdle(void) {}\n\
        size_t MallocExtension_GetThreadCacheSize(void) { return 0; }\n",
    );
    workshop.write(
        "rests.c",
        format!(
            "__attribute__((weak)) void MallocExtension_MarkThreadIdle(void);\n\
            __attribute__((weak)) unsigned long MallocExtension_GetThreadCacheSize(void);\n{}",
            HELLO.replace(
                "return 0",
                "MallocExtension_MarkThreadIdle(); return (int)MallocExtension_GetThreadCacheSize()"
            )
        ),
    );
    let name = "libtcmalloc_minimal.so.4";
    workshop.run(&format!(
        "cc -fno-builtin -shared -fPIC -Wl,-soname,{name} lib.c -o {name}"
    ));
    workshop.run(&format!(
        "cc rests.c -Wl,--no-as-needed -Wl,-rpath,$ORIGIN -L. -l:{name} -o rests"
    ));
    assert_eq!(workshop.check("rests", 0)["verdict"], "works");
    let outcome = run(reheap("run -a jemalloc --").arg(workshop.path("rests"))).succeeded();
    assert_eq!(outcome.stdout, "hello\n");
}

#[test]
fn cxx_code_that_takes_operator_new_from_a_linked_allocator_is_refused() {
    let workshop = Workshop::new();
    let operators = "#include <cstdlib>\n#include <new>\n\
        extern \"C\" void *malloc(std::size_t n) noexcept { extern void *own(std::size_t); return own(n); }\n\
        static char heap[1 << 20]; static std::size_t used;\n\
        void *own(std::size_t n) { void *p = heap + used; used += (n + 15) & -16; return p; }\n\
        extern \"C\" void free(void *) noexcept {}\n\
        void *operator new(std::size_t n) { return own(n); }\n\
        void operator delete(void *) noexcept {}\n\
        void operator delete(void *, std::size_t) noexcept {}\n";
    workshop.write("lib.cc", operators);
    workshop.write(
        "main.cc",
        "int main(int n, char **) { int *p = new int(n); int v = *p; delete p; return v - 1; }\n",
    );
    workshop.run(
        "g++ -fno-builtin -shared -fPIC -Wl,-soname,libtcmalloc.so.4 lib.cc -o libtcmalloc.so.4",
    );
    workshop.run("g++ -O0 main.cc -Wl,-rpath,$ORIGIN -L. -l:libtcmalloc.so.4 -o program");
    let refused = workshop.check("program", 1);
    assert_eq!(
        refused["reason"],
        "its C++ code uses operator new of `libtcmalloc.so.4`: only its other code would change"
    );
}

#[test]
fn a_program_that_is_linked_with_a_sanitizer_is_refused() {
    let workshop = Workshop::new();
    workshop.write("hello.c", HELLO);
    workshop.run("cc -fsanitize=address hello.c -o hello");
    let refused = workshop.check("hello", 1);
    let reason = refused["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("it is linked with `libasan.so"),
        "{reason}"
    );
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Server {
    fn connect(&mut self, socket: &Path) -> UnixStream {
        command::connect(&mut self.0, || UnixStream::connect(socket))
    }
}

/// What the server says to one command, up to `end`.
fn asked(stream: &mut UnixStream, request: &str, end: &str) -> String {
    stream
        .set_read_timeout(Some(command::EVENT_DEADLINE))
        .unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    while !answer.ends_with(end.as_bytes()) {
        let count = stream.read(&mut piece).unwrap();
        assert!(count > 0, "it hung up after {answer:?}");
        answer.extend_from_slice(&piece[..count]);
    }
    String::from_utf8(answer).unwrap()
}

/// Debian's Redis is linked with libjemalloc.so.2.
#[test]
fn redis_works_with_every_allocator_without_force() {
    let checked = run(&mut reheap("run --check --json -- redis-server"));
    let hint = "install it: apt-get install redis-server";
    assert_eq!(checked.code(), Some(0), "{}{hint}", checked.stderr);
    let checked: Value = serde_json::from_str(&checked.stdout).unwrap();
    assert_eq!(checked["verdict"], "works", "{checked}");
    for allocator in allocators() {
        run(&mut reheap(&format!("run -a {allocator} -- true"))).succeeded(); // the library is built by now
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("socket");
        let mut command = reheap(&format!(
            "run -a {allocator} -- redis-server --port 0 --daemonize no"
        ));
        let cache = cache_for_all(directory.path());
        command
            .env("REHEAP_CACHE_DIR", &cache)
            .env_remove("LD_PRELOAD");
        command.args(["--save", "", "--dir"]).arg(directory.path());
        command.arg("--unixsocket").arg(&socket);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut server = Server(command.spawn().unwrap());
        let mut stream = server.connect(&socket);
        assert_eq!(asked(&mut stream, "PING\r\n", "\r\n"), "+PONG\r\n");
        assert_eq!(asked(&mut stream, "SET key value\r\n", "\r\n"), "+OK\r\n");
        assert_eq!(
            asked(&mut stream, "GET key\r\n", "value\r\n"),
            "$5\r\nvalue\r\n"
        );
        let memory = asked(
            &mut stream,
            "INFO memory\r\n",
            "lazyfreed_objects:0\r\n\r\n",
        );
        assert!(memory.contains("used_memory:"), "{memory}");
        let maps = fs::read_to_string(format!("/proc/{}/maps", server.0.id())).unwrap();
        let library = cache
            .join("preloads")
            .join(&allocator)
            .display()
            .to_string();
        assert!(
            maps.contains(&library),
            "{allocator}: no {library} in\n{maps}"
        );
    }
}

const GO: &str = r#"package main

/*
#include <stdlib.h>
#include <string.h>
#define __USE_GNU
#include <dlfcn.h>
static const char *provider(void) {
	Dl_info info;
	void *block = malloc(100);
	memset(block, 1, 100);
	free(block);
	return dladdr((void *)malloc, &info) ? info.dli_fname : "nobody";
}
*/
import "C"

import "fmt"

func main() {
	texts := map[int]string{}
	for n := 0; n < 10000; n++ {
		texts[n] = fmt.Sprint(n)
	}
	done := make(chan string)
	for n := 0; n < 4; n++ {
		go func() { done <- C.GoString(C.provider()) }()
	}
	<-done
	<-done
	<-done
	fmt.Println(len(texts), <-done)
}
"#;

/// Compiles a Go program of the standard library and C alone, without asking anybody for modules.
fn go_build(workshop: &Workshop, source: &str, cgo: &str) {
    workshop.write("main.go", source);
    let mut go = Command::new("go");
    go.args(["build", "-o", "program", "main.go"])
        .env("CGO_ENABLED", cgo)
        .env("GO111MODULE", "off")
        .env("GOFLAGS", "")
        .env("GOPROXY", "off")
        .env(
            "GOCACHE",
            Path::new(env!("CARGO_TARGET_TMPDIR")).join("go-cache"),
        );
    run(go.current_dir(workshop.directory())).succeeded();
}

#[test]
fn a_go_program_that_calls_c_works_with_every_allocator_and_is_told_what_changes() {
    let workshop = Workshop::new();
    go_build(&workshop, GO, "1");
    let program = workshop.path("program");
    let only_c = "its Go code keeps the heap of Go's runtime: only allocations of C code change";
    let checked = workshop.check("program", 0);
    assert_eq!(checked["verdict"], "works", "{checked}");
    assert_eq!(checked["notes"][0], only_c);
    for allocator in allocators() {
        let mut command = reheap(&format!("run -a {allocator} --"));
        let outcome = run(command.arg(&program).env_remove("LD_PRELOAD")).succeeded();
        let (count, provider) = outcome.stdout.trim().split_once(' ').unwrap();
        assert_eq!(count, "10000");
        assert!(
            provider.contains(&format!("/lib{allocator}-")),
            "{provider}"
        );
        outcome.said(&[only_c]);
    }
}

#[test]
fn static_programs_are_refused_if_nothing_can_take_the_place_of_their_malloc() {
    let workshop = Workshop::new();
    let go = "package main\nfunc main() { println(1) }\n";
    go_build(&workshop, go, "0");
    workshop.write("hello.c", HELLO);
    workshop.write("own.c", format!("{OWN_MALLOC}{HELLO}"));
    workshop.run("musl-gcc -static -fno-builtin own.c -o own");
    workshop.run("cc -static -s hello.c -o stripped");
    workshop.run(&format!(
        "{} cc -a mimalloc -- hello.c -o linked",
        env!("CARGO_BIN_EXE_reheap")
    ));
    let link = Some("build it with another one: `cargo reheap build -a`, `reheap cc -a`");
    for (name, reason, hint) in [
        ("program", "Go program", None),
        ("own", "neither musl's nor glibc's", None),
        ("stripped", "does not know all of glibc's malloc", link),
        ("linked", "reheap has linked it with an allocator", link),
    ] {
        let refused = workshop.check(name, 1);
        assert!(
            refused["reason"].as_str().unwrap().contains(reason),
            "{refused}"
        );
        assert_eq!(refused["hint"].as_str(), hint, "{name}: {refused}");
    }
    workshop.run("musl-gcc -static hello.c -o hello");
    assert_eq!(workshop.check("hello", 0)["verdict"], "works");
}

/// What root starts may change its user, as services do, and then start others with the preload.
#[test]
fn the_cache_of_root_is_where_other_users_can_read_it() {
    build("mimalloc");
    let script = "mount -t tmpfs -o mode=755 none /var/cache
        mkdir -m 700 /var/cache/closed
        REHEAP_CACHE_DIR=/var/cache/closed/cache \"$REHEAP\" run --check -- true
        mkdir -m 755 /var/cache/reheap
        cp -a \"$REHEAP_CACHE_DIR/preloads\" /var/cache/reheap
        unset REHEAP_CACHE_DIR XDG_CACHE_HOME
        umask 077
        \"$REHEAP\" run --check -- true
        \"$REHEAP\" run -a mimalloc -- cat /proc/self/maps
        find /var/cache/reheap/run ! -perm -004 -printf 'closed: %p\\n'";
    in_namespace(script, &[])
        .succeeded()
        .printed(&[
            "verdict    risky: only root can read what is in `/var/cache/closed`",
            "hint       set another cache: REHEAP_CACHE_DIR=/var/cache/reheap\n",
            "verdict    works\n",
            "/var/cache/reheap/preloads/mimalloc",
        ])
        .did_not_print("closed: ");
}
