//! The first inputs, made with the compilers of this machine.

use crate::targets::elf;
use crate::targets::program::CODE_START;
use reheap_bench::results::Results;
use reheap_report::{attacks, profile};
use reheap_trace::writer::Writer;
use reheap_trace::{Function, Process, RawEvent};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

#[path = "../../reheap-report/tests/it/fixtures/mod.rs"]
mod fixtures;
#[path = "../../reheap-report/tests/it/matrix/mod.rs"]
mod matrix;
#[path = "../../reheap-report/tests/it/profiles/mod.rs"]
mod profiles;

/// Sources of what is inspected, derived, located and walked.
const SOURCES: [(&str, &str); 12] = [
    ("graft_library.c", include_str!("programs/graft_library.c")),
    ("program.c", include_str!("programs/program.c")),
    ("allocator.c", include_str!("programs/allocator.c")),
    ("libc.c", include_str!("programs/libc.c")),
    ("malloc.c", include_str!("programs/malloc.c")),
    ("memory.c", include_str!("programs/memory.c")),
    ("evidence.c", include_str!("programs/evidence.c")),
    ("start.c", include_str!("programs/start.c")),
    ("family.c", include_str!("programs/family.c")),
    ("glibc.c", include_str!("programs/glibc.c")),
    ("calls.c", include_str!("programs/calls.c")),
    ("branch.c", include_str!("programs/branch.c")),
];

/// First lines of files, with what env(1) makes of them.
const SCRIPTS: [&str; 6] = [
    "#!/bin/sh\n",
    "#! /usr/bin/env python3\n",
    "#!/usr/bin/env -S -i A=b -u C \"perl\" -w\\ts\n",
    "#!/usr/bin/awk -f\n",
    "echo no interpreter\n",
    "\x7fELF\x02\x01\x01",
];

/// Files of a Rust project: a manifest, sources, a Dockerfile, a workflow, a script, a condition.
const PROJECT: [&str; 6] = [
    "[package]\nname = \"a\"\nversion = \"0.1.0\"\n[target.'cfg(target_env = \"musl\")'.dependencies]\n\
     mimalloc = { version = \"0.1\", optional = true } # reheap adopt\n[features]\ndefault = [\"dep:mimalloc\"]\n\
     [[bin]]\nname = \"b\"\n[workspace.metadata.reheap]\nallocator = \"jemalloc\"\n",
    "#![allow(dead_code)]\nuse std::fs;\n#[cfg(all(unix, feature = \"é\"))]\n#[global_allocator]\n\
     static G: mimalloc::MiMalloc = mimalloc::MiMalloc;\nmod a { const R: &str = r#\"x\"#; }\nfn main() {}\n",
    "ARG V=3.22\nFROM alpine:${V:-3} AS base\nRUN apk add \\\n  # why\n  jemalloc && echo \"a b\"\nFROM base\n\
     ENV LD_PRELOAD=\"/usr/lib/libjemalloc.so.2\" A=b\nRUN <<EOF\nar d libc.a malloc.lo\nEOF\nCOPY [\"a\", \"/b\"]\n",
    "jobs:\n  b:\n    strategy: {matrix: {target: [x86_64-unknown-linux-musl]}}\n    steps:\n    - run: |\n        \
     cargo build --target ${{ matrix.target }}\n      env: {LD_PRELOAD: /usr/lib/x.so}\n",
    "export LD_PRELOAD=$(ls /usr/lib/*/lib*.so.2)\nfor f in $(find / -name libc.a); do ar -d \"$f\" 'malloc.lo'; done\n",
    "all(target_os = \"linux\", not(any(target_env = \"gnu\", feature = \"é\")), unix)",
];

const MAPS: &str = "55d0a000-55d0b000 r-xp 00002000 08:01 77                     /usr/bin/a b (deleted)\n\
    Size:                 32 kB\nRss:                  12 kB\nAnonHugePages:         0 kB\nVmFlags: rd ex\n\
    7f0000000000-7f0000010000 rw-p 00000000 00:00 0                          [anon:glibc: malloc arena]\n\
    7f0000020000-7f0000030000 r--s 00000000 08:01 1234      /lib/with\\012line break.so\n\
    ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n";

/// Inputs, by the names of the targets.
#[derive(Debug, Default)]
pub struct Seeds {
    inputs: BTreeMap<&'static str, BTreeMap<String, Vec<u8>>>,
}

impl Seeds {
    /// Makes all of them.
    ///
    /// # Panics
    /// If a compiler is missing.
    pub fn make() -> Self {
        let workshop = Workshop::new();
        let mut seeds = Self::default();
        seeds.add_elf_files(&workshop);
        seeds.add_programs(&workshop);
        seeds.add_grafts(&workshop);
        seeds.add("libraries", "of-two", list_of_libraries());
        seeds.add_images(&workshop);
        seeds.add("trace", "calls", chunks_of_a_trace());
        for (name, profile) in profiles::all() {
            seeds.add("profile", name, profile::to_json(&profile).into());
        }
        seeds.add(
            "attacks",
            "of-two-variants",
            attacks::to_json(&matrix::results()).into(),
        );
        for (index, text) in PROJECT.into_iter().enumerate() {
            seeds.add("project", &index.to_string(), text.into());
        }
        seeds.add("manifest", "of-one-file", manifest().into());
        for (index, script) in SCRIPTS.into_iter().enumerate() {
            seeds.add("script", &index.to_string(), script.into());
        }
        seeds.add("maps", "of-others", MAPS.into());
        let own = fs::read("/proc/self/maps").expect("each process has a list of its mappings");
        seeds.add("maps", "own", own);
        for (name, results) in fixtures::all() {
            for (index, results) in results.into_iter().enumerate() {
                let text = shortened(results).to_json();
                seeds.add("results", &format!("{name}-{index}"), text.into());
            }
        }
        seeds
    }

    /// Those of a target.
    pub fn of(&self, target: &str) -> impl Iterator<Item = (&str, &[u8])> {
        let inputs = self.inputs.get(target).into_iter().flatten();
        inputs.map(|(name, bytes)| (name.as_str(), bytes.as_slice()))
    }

    fn add(&mut self, target: &'static str, name: &str, bytes: Vec<u8>) {
        let inputs = self.inputs.entry(target).or_default();
        inputs.insert(name.to_owned(), bytes);
    }

    fn add_elf_files(&mut self, workshop: &Workshop) {
        for (name, source) in SOURCES {
            workshop.write(name, source);
        }
        for command in [
            "gcc -O1 program.c -o dynamic",
            "gcc -O1 -shared -fPIC program.c -o library.so",
            "gcc -O1 -m32 -nostdlib -c -fno-builtin -x c /dev/null -o object-32",
            "musl-gcc -O1 -static program.c -o static",
            "strip -o stripped static",
            "gcc -O1 -fno-builtin -c program.c allocator.c libc.c malloc.c memory.c",
            "ar rcs libc.a libc.o malloc.o memory.o",
            "gcc -O1 -shared -fPIC evidence.c -o evidence",
            "aarch64-linux-gnu-gcc -O1 -march=armv8.1-a -shared -fPIC evidence.c -o evidence-aarch64",
            "cp program.o an-object-with-a-name-that-is-long.o",
            "ar rcs members.a an-object-with-a-name-that-is-long.o program.o",
        ] {
            workshop.run(command);
        }
        for name in [
            "dynamic",
            "library.so",
            "static",
            "stripped",
            "program.o",
            "object-32",
            "libc.a",
            "evidence",
            "evidence-aarch64",
        ] {
            self.add("identify", name, workshop.read(name));
        }
        for name in ["libc.a", "members.a"] {
            self.add("archive", name, workshop.read(name));
        }
        for name in ["dynamic", "library.so"] {
            let bytes = without_sections(workshop.read(name));
            self.add("identify", &format!("{name}-without-sections"), bytes);
        }
        let both = behind_length(&workshop.read("libc.a"), &workshop.read("allocator.o"));
        self.add("derive", "libc-and-allocator", both);
    }

    /// Programs whose malloc can be located by each kind of evidence, and whose stacks can be walked and named.
    fn add_programs(&mut self, workshop: &Workshop) {
        let [libc, allocator] = ["libc.a", "allocator.o"].map(|name| workshop.read(name));
        workshop.write("derived.a", elf::derived(&libc, &allocator));
        for command in [
            "gcc -O1 -static -nostdlib -fno-builtin start.c derived.a -o derived",
            "aarch64-linux-gnu-gcc -O1 -static -nostdlib -fno-builtin start.c allocator.c -o aarch64 \
             -Dmi_malloc=malloc -Dmi_calloc=calloc -Dmi_realloc=realloc -Dmi_free=free",
            "musl-gcc -O1 -static -s -fno-builtin family.c -o family",
            "gcc -O2 -s -static -nostdlib -fno-builtin glibc.c -o glibc",
            "gcc -O2 -g calls.c -o calls",
            "gcc -O2 -g -gdwarf-4 -gz calls.c -o calls-compressed",
            "aarch64-linux-gnu-gcc -O2 -g -mbranch-protection=standard calls.c -o calls-aarch64",
            "gcc -O1 -static-pie -nostdlib branch.c -o branch",
        ] {
            workshop.run(command);
        }
        for name in ["static", "family", "glibc", "dynamic", "derived", "aarch64"] {
            self.add("locate", name, workshop.read(name));
        }
        self.add("identify", "derived", workshop.read("derived"));
        for name in ["calls", "calls-compressed", "calls-aarch64", "branch"] {
            let (program, stack) = (workshop.read(name), workshop.code_addresses(name));
            self.add("stacks", name, behind_length(&program, &stack));
            let program = without_sections(program);
            let name = format!("{name}-without-sections");
            self.add("stacks", &name, behind_length(&program, &stack));
        }
    }

    /// Programs that get another allocator, and the library with it.
    fn add_grafts(&mut self, workshop: &Workshop) {
        workshop.run(
            "gcc -O1 -shared -fPIC -fno-builtin -nostdlib -ftls-model=initial-exec -Wl,-Bsymbolic \
             graft_library.c -o graft_library.so",
        );
        workshop.run("gcc -O1 -static-pie program.c -o static-pie");
        let library = workshop.read("graft_library.so");
        for name in ["static", "family", "static-pie", "dynamic"] {
            let both = behind_length(&workshop.read(name), &library);
            self.add("graft", name, both);
        }
    }

    fn add_images(&mut self, workshop: &Workshop) {
        workshop.run("tar cf layer.tar program.c");
        let layer = reheap_image::blob::Blob::of_bytes(workshop.read("layer.tar"));
        let configuration = format!(
            r#"{{"architecture":"amd64","os":"linux","config":{{"Env":["A=b"]}},"history":[{{}}],"rootfs":{{"diff_ids":["{}"]}}}}"#,
            layer.digest()
        );
        let manifest = r#"[{"Config":"config.json","Layers":["layer.tar"],"RepoTags":["app:1"]}]"#;
        workshop.write("config.json", &configuration);
        workshop.write("manifest.json", manifest);
        workshop.run("tar cf image.tar config.json manifest.json layer.tar");
        workshop.run("gzip --keep image.tar");
        self.add("image", "docker.tar", workshop.read("image.tar"));
        self.add("image", "docker.tar.gz", workshop.read("image.tar.gz"));
        self.add_layouts(workshop);
    }

    /// Two layers: a script and its interpreter, a preload, links of both kinds, and what removes them, packed in each way.
    fn add_layouts(&mut self, workshop: &Workshop) {
        workshop.write("script", "#!/usr/bin/env sh\n");
        workshop.write("preload", "/usr/lib/p.so\n");
        for command in [
            "mkdir -p usr/bin usr/lib etc",
            "cc -s -Wl,-z,noseparate-code program.c -o usr/bin/dash",
            "cc -s -shared -Wl,-z,noseparate-code program.c -o usr/lib/p.so",
            "ln -s usr/bin bin",
            "ln -s dash usr/bin/sh",
            "cp script a",
            "cp preload etc/ld.so.preload",
            "ln a b",
            "tar --blocking-factor=1 -cf lower.tar bin usr etc a b",
            "rm b etc/ld.so.preload",
            "touch .wh.b etc/.wh..wh..opq",
            "tar --blocking-factor=1 -cf upper.tar .wh.b etc bin",
            "gzip --keep upper.tar",
        ] {
            workshop.run(command);
        }
        let [lower, upper, packed] =
            ["lower.tar", "upper.tar", "upper.tar.gz"].map(|name| workshop.read(name));
        let configuration = r#"{"architecture":"amd64","os":"linux","config":{"Entrypoint":["a"],"Env":["PATH=/bin:/","LD_PRELOAD=p.so"]},"rootfs":{"diff_ids":["@0","@1"]}}"#;
        let image = |kind: &str| {
            format!(
                r#"{{"schemaVersion":2,"config":{{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"@3"}},"layers":[
            {{"mediaType":"application/vnd.oci.image.layer.v1.tar","digest":"@0"}},
            {{"mediaType":"application/vnd.oci.image.layer.v1.tar{kind}","digest":"@2"}}]}}"#
            )
        };
        let inner = r#"{"manifests":[{"digest":"@4","platform":{"architecture":"amd64","os":"linux"}},
            {"digest":"@0","platform":{"architecture":"arm64","os":"linux","variant":"v8"}},
            {"digest":"@0","platform":{"architecture":"unknown","os":"unknown"}}]}"#;
        let index = r#"{"manifests":[{"digest":"@5","annotations":{"org.opencontainers.image.ref.name":"a"}}]}"#;
        for (name, kind, packed) in [
            ("gzip", "+gzip", packed),
            ("zstd", "+zstd", stored_as_zstd(&upper)),
        ] {
            let image = image(kind);
            let texts = [configuration, &image, inner, index].map(str::as_bytes);
            let files = [&[&lower[..], &upper, &packed], &texts[..]].concat();
            let files = files.into_iter().map(|file| {
                let length = u16::try_from(file.len())
                    .expect("a small file")
                    .to_le_bytes();
                [&length[..], file].concat()
            });
            self.add("layout", name, files.flatten().collect());
        }
    }
}

/// A directory in which the inputs are built.
struct Workshop(tempfile::TempDir);

impl Workshop {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory can be made"))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, contents: impl AsRef<[u8]>) {
        fs::write(self.path().join(name), contents).expect("a temporary file can be written");
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path().join(name)).expect("it was just made")
    }

    fn run(&self, command: &str) {
        let mut words = command.split(' ');
        let program = words.next().unwrap_or_default();
        let mut started = Command::new(program);
        let status = started.args(words).current_dir(self.path()).status();
        assert!(
            status.is_ok_and(|status| status.success()),
            "`{command}` failed; `xtask/prepare install` installs what the tests need"
        );
    }

    /// Where the functions of a program are when its code is mapped for the target `stacks`.
    fn code_addresses(&self, program: &str) -> Vec<u8> {
        let mut nm = Command::new("nm");
        let listed = nm
            .arg(self.path().join(program))
            .output()
            .expect("it belongs to the compiler")
            .stdout;
        let listed = String::from_utf8_lossy(&listed);
        let addresses = listed.lines().filter_map(|line| {
            let (address, kind) = line.split_once(' ')?;
            let address = u64::from_str_radix(address, 16).ok()?;
            // A call somewhere in the function.
            kind.to_lowercase()
                .starts_with('t')
                .then_some(CODE_START + address + 8)
        });
        addresses.flat_map(u64::to_le_bytes).collect()
    }
}

/// As `sstrip` and packers leave files: what is found in them is found by way of segments.
fn without_sections(mut elf: Vec<u8>) -> Vec<u8> {
    elf[40..48].fill(0); // e_shoff
    elf[60..64].fill(0); // e_shnum, e_shstrndx
    elf
}

/// A 32-bit little-endian length, so many bytes, and the rest.
fn behind_length(first: &[u8], rest: &[u8]) -> Vec<u8> {
    let length = u32::try_from(first.len()).expect("a small file");
    [&length.to_le_bytes(), first, rest].concat()
}

/// Three rounds of three variants: longer results only take longer.
fn shortened(mut results: Results) -> Results {
    results.benchmarks.truncate(4);
    for benchmark in &mut results.benchmarks {
        benchmark.variants.truncate(3);
        for variant in &mut benchmark.variants {
            variant.runs.retain(|run| run.round < 3);
        }
    }
    results
}

/// A frame of Zstandard with one block that is stored as it is (RFC 8878, 3.1.1).
fn stored_as_zstd(bytes: &[u8]) -> Vec<u8> {
    const SINGLE_SEGMENT_WITH_SIZE_OF_2_BYTES: u8 = 0x60;
    let length = u16::try_from(bytes.len()).expect("a small file");
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, SINGLE_SEGMENT_WITH_SIZE_OF_2_BYTES];
    frame.extend((length - 256).to_le_bytes());
    let last_block = u32::from(length) << 3 | 1;
    frame.extend(&last_block.to_le_bytes()[..3]);
    frame.extend(bytes);
    frame
}

/// As ldconfig(8) writes it: a head, three numbers for each library, and the names and paths that they lead to.
fn list_of_libraries() -> Vec<u8> {
    let flags = if cfg!(target_arch = "aarch64") {
        0x0a03_u32
    } else {
        0x0303
    };
    const TEXT_AT: u32 = 48 + 2 * 24;
    let text = b"liba.so.1\0libb.so.2\0/lib/lib.so\0";
    let words = |words: &[u32]| {
        words
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect::<Vec<u8>>()
    };
    let mut list = b"glibc-ld.so.cache1.1".to_vec();
    list.extend(words(&[2, text.len() as u32, 0, 0, 0, 0, 0]));
    for name in [0, 10] {
        list.extend(words(&[flags, TEXT_AT + name, TEXT_AT + 20, 0, 0, 0]));
    }
    list.extend(text);
    list
}

/// As `make dist` writes it, for a file.
fn manifest() -> String {
    let reheap = env!("CARGO_PKG_VERSION");
    format!(
        r#"{{"version":1,"reheap":"{reheap}","files":[{{"path":"preloads/x86_64-unknown-linux-gnu/liba-1.so",
        "sha256":"00","size":64,"kind":"preload","target":"x86_64-unknown-linux-gnu","allocator":"a","version":"1",
        "options":{{"b":"c"}},"origin":"a 1","compiler":"gcc","key":"k"}}],"left_out":[{{"path":"d","reason":"e"}}]}}"#
    )
}

/// What the target `trace` makes a file of: of each chunk the kind, its length, and its payload.
fn chunks_of_a_trace() -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).expect("memory can be written");
    let process = Process::default();
    let stream = writer
        .begin_process(&process)
        .expect("memory can be written");
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
