//! Makes the first inputs of the fuzz targets with the compilers of this machine: `cargo run --example seeds`.

use reheap_profile::trace::writer::Writer;
use reheap_profile::trace::{Function, Process, RawEvent};
use std::fs;
use std::path::Path;
use std::process::Command;

const PROGRAM: &str = "#include <stdio.h>\n#include <stdlib.h>\n\
    int main(int c, char **v) { char *p = malloc(c); printf(\"%p %f\", p, c / 3.0); free(p); return 0; }\n";

/// An allocator with all that the derived libc asks of one; the fuzzer makes it worse.
const ALLOCATOR: &str = "#include <stddef.h>\n\
    static char heap[1 << 20]; static size_t top;\n\
    void *mi_malloc(size_t n) { void *p = heap + top; top += (n + 15) & -16; return p; }\n\
    void *mi_calloc(size_t n, size_t m) { return mi_malloc(n * m); }\n\
    void *mi_realloc(void *p, size_t n) { return mi_malloc(n); }\n\
    void mi_free(void *p) {}\n";

/// The smallest libc.a that reheap takes for musl's.
const LIBC: &str = "const char __libc_version[] = \"1.2.5\";\nvoid __init_tp(void) {}\n";
const LIBC_MALLOC: &str = "#include <stddef.h>\n\
    void *__libc_malloc_impl(size_t n) { return 0; }\n\
    void *malloc(size_t n) { return __libc_malloc_impl(n); }\nvoid *calloc(size_t n, size_t m) { return malloc(n * m); }\n\
    void *realloc(void *p, size_t n) { return malloc(n); }\nvoid free(void *p) {}\n";

fn main() {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let directory = directory.path();
    let run = |command: &str| {
        let mut words = command.split(' ');
        let program = words.next().unwrap_or_default();
        let status = Command::new(program)
            .args(words)
            .current_dir(directory)
            .status();
        assert!(
            status.is_ok_and(|s| s.success()),
            "`{command}` failed; are gcc, musl-gcc, ar and strip installed?"
        );
    };
    for (name, source) in [
        ("program.c", PROGRAM),
        ("allocator.c", ALLOCATOR),
        ("a-libc.c", LIBC),
        ("malloc.c", LIBC_MALLOC),
    ] {
        fs::write(directory.join(name), source).expect("a temporary file can be written");
    }
    for command in [
        "gcc -O1 program.c -o dynamic",
        "gcc -O1 -shared -fPIC program.c -o library.so",
        "gcc -O1 -m32 -nostdlib -c -fno-builtin -x c /dev/null -o object-32",
        "musl-gcc -O1 -static program.c -o static",
        "strip -o stripped static",
        "gcc -O1 -c program.c allocator.c a-libc.c malloc.c",
        "ar rcs libc.a a-libc.o malloc.o",
        "cp program.o an-object-with-a-name-that-is-long.o",
        "ar rcs members.a an-object-with-a-name-that-is-long.o program.o",
    ] {
        run(command);
    }
    let read = |name: &str| fs::read(directory.join(name)).expect("it was just made");
    let libc = read("libc.a");
    let length = u32::try_from(libc.len())
        .expect("a small archive")
        .to_le_bytes();
    let seeds = [
        (
            "identify",
            vec![
                "dynamic",
                "library.so",
                "static",
                "stripped",
                "program.o",
                "object-32",
                "libc.a",
            ],
        ),
        ("archive", vec!["libc.a", "members.a"]),
    ];
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let write = |target: &str, name: &str, bytes: &[u8]| {
        let directory = corpus.join(target);
        fs::create_dir_all(&directory).expect("the directory of a corpus can be made");
        fs::write(directory.join(name), bytes).expect("a seed can be written");
    };
    for (target, names) in seeds {
        for name in names {
            write(target, name, &read(name));
        }
    }
    // As `sstrip` and packers leave files: everything is found by way of the dynamic segment.
    for name in ["dynamic", "library.so"] {
        let mut bytes = read(name);
        bytes[40..48].fill(0); // e_shoff
        bytes[60..64].fill(0); // e_shnum, e_shstrndx
        write("identify", &format!("{name}-without-sections"), &bytes);
    }
    run("tar cf layer.tar program.c");
    let layer = reheap_image::blob::Blob::of_bytes(read("layer.tar"));
    let configuration = format!(
        r#"{{"architecture":"amd64","os":"linux","config":{{"Env":["A=b"]}},"history":[{{}}],"rootfs":{{"diff_ids":["{}"]}}}}"#,
        layer.digest()
    );
    let manifest = r#"[{"Config":"config.json","Layers":["layer.tar"],"RepoTags":["app:1"]}]"#;
    for (name, text) in [
        ("config.json", configuration.as_str()),
        ("manifest.json", manifest),
    ] {
        fs::write(directory.join(name), text).expect("a temporary file can be written");
    }
    run("tar cf image.tar config.json manifest.json layer.tar");
    run("gzip --keep image.tar");
    write("image", "docker.tar", &read("image.tar"));
    write("image", "docker.tar.gz", &read("image.tar.gz"));
    write("trace", "calls", &chunks_of_a_trace());
    write(
        "derive",
        "libc-and-allocator",
        &[&length[..], &libc, &read("allocator.o")].concat(),
    );
}

/// What the target `trace` makes a file of: of each chunk the kind, its length, and its payload.
fn chunks_of_a_trace() -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).expect("memory can be written");
    let process = Process::default();
    let stream = writer.begin_process(&process);
    let stream = stream.expect("memory can be written");
    let event = |time: u64, function: Function, block| RawEvent {
        nanoseconds: time * 1000,
        block,
        size: 16 << (time % 5),
        alignment: 64,
        function: function as u32,
    };
    for round in 0..50 {
        use Function::{AlignedAlloc, Free, Malloc, Realloc};
        let block = 1000 + round;
        let calls = [
            event(4 * round, Malloc, block),
            event(4 * round + 1, AlignedAlloc, 2 * block),
            event(4 * round + 2, Realloc, 3 * block),
        ];
        writer.push(stream, 0, &calls);
        writer.push(stream, 1, &[event(4 * round + 3, Free, block)]);
    }
    let ended = writer.end_process(stream, 0);
    ended.expect("memory can be written");
    let (trace, _) = writer.finish().expect("memory can be written");
    let mut chunks = Vec::new();
    let mut rest = &trace[16..];
    while let Some((head, after)) = rest.split_at_checked(20) {
        let length = usize::from(u16::from_le_bytes([head[12], head[13]]));
        chunks.extend_from_slice(&[head[4], head[12], head[13]]);
        chunks.extend_from_slice(&after[..length]);
        rest = &after[length..];
    }
    chunks
}
