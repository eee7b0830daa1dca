//! The files of the corpus and the truth about each, stated by hand.
//!
//! The truth must not come from what `inspect` looks at. It is taken from how the file was made: a package's declared
//! dependencies, the project's own sources, or our own build. Where a project could have changed since, what the file
//! imports was looked at too: mimalloc and jemalloc both need `madvise`.

/// One file.
pub(super) struct Row {
    pub(super) source: Source,
    /// Its path in the package.
    pub(super) file: &'static str,
    /// Who provides malloc, as in the JSON of `reheap inspect`.
    pub(super) malloc: &'static str,
    /// Allocators that are in it and do not come with a libc.
    pub(super) brings: &'static [&'static str],
    /// How we know.
    pub(super) because: &'static str,
}

/// Where a file comes from.
pub(super) enum Source {
    /// A package of the Debian release that this runs on.
    Debian(&'static str),
    /// A package of npm and its version.
    Npm(&'static str, &'static str),
    /// A wheel of PyPI and its version.
    PyPi(&'static str, &'static str),
    /// A Rust program with this global allocator, built here: a name for it, lines of its manifest, the expression, the
    /// libc, and what is done to it.
    Rust {
        name: &'static str,
        dependency: &'static str,
        allocator: &'static str,
        libc: &'static str,
        symbols: Symbols,
    },
    /// A C program, built here with this command.
    C {
        name: &'static str,
        command: &'static str,
        symbols: Symbols,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Symbols {
    Kept,
    Stripped,
}

const STATIC_GLIBC: &str = "Debian links it with -static against libc6-dev";
const DEBIAN_RUST: &str = "a Rust program without a crate of an allocator among its packages";
const PLAIN_C: &str = "depends on libc6 and on no package with an allocator";
const NO_MADVISE: &str = "no global allocator in its source for this target; imports no madvise";

const fn fetched(
    source: Source,
    file: &'static str,
    malloc: &'static str,
    brings: &'static [&'static str],
    because: &'static str,
) -> Row {
    Row {
        source,
        file,
        malloc,
        brings,
        because,
    }
}

const fn rust(
    name: &'static str,
    (dependency, allocator): (&'static str, &'static str),
    libc: &'static str,
    symbols: Symbols,
    brings: &'static [&'static str],
) -> Row {
    Row {
        source: Source::Rust {
            name,
            dependency,
            allocator,
            libc,
            symbols,
        },
        file: "",
        malloc: match libc.as_bytes()[0] {
            b'm' => "musl-mallocng",
            _ => "shared-libc",
        },
        brings,
        because: "built here: a global allocator for Rust, malloc of the libc",
    }
}

const fn c(
    name: &'static str,
    command: &'static str,
    symbols: Symbols,
    malloc: &'static str,
) -> Row {
    Row {
        source: Source::C {
            name,
            command,
            symbols,
        },
        file: "",
        malloc,
        brings: &[],
        because: "built here",
    }
}

const MI_1: (&str, &str) = (
    "mimalloc = { version = \"=0.1.25\", default-features = false }\n\
     libmimalloc-sys = { version = \"=0.1.22\", default-features = false }",
    "mimalloc::MiMalloc = mimalloc::MiMalloc",
);
const MI_207: (&str, &str) = (
    "mimalloc = { version = \"=0.1.32\", default-features = false }\n\
     libmimalloc-sys = { version = \"=0.1.28\", default-features = false }",
    "mimalloc::MiMalloc = mimalloc::MiMalloc",
);
const MI_217: (&str, &str) = (
    "mimalloc = \"=0.1.43\"\nlibmimalloc-sys = \"=0.1.39\"",
    "mimalloc::MiMalloc = mimalloc::MiMalloc",
);
const MI_3: (&str, &str) = (
    "mimalloc = \"=0.1.52\"",
    "mimalloc::MiMalloc = mimalloc::MiMalloc",
);
const MI_3_SECURE: (&str, &str) = (
    "mimalloc = { version = \"=0.1.52\", features = [\"secure\"] }",
    "mimalloc::MiMalloc = mimalloc::MiMalloc",
);
const JE_531: (&str, &str) = (
    "tikv-jemallocator = \"=0.7.0\"",
    "tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc",
);
const RPMALLOC: (&str, &str) = (
    "rpmalloc = \"=0.2.2\"",
    "rpmalloc::RpMalloc = rpmalloc::RpMalloc",
);
const SNMALLOC: (&str, &str) = (
    "snmalloc-rs = \"=0.7.6\"",
    "snmalloc_rs::SnMalloc = snmalloc_rs::SnMalloc",
);
const SNMALLOC_02: (&str, &str) = (
    "snmalloc-rs = \"=0.2.28\"",
    "snmalloc_rs::SnMalloc = snmalloc_rs::SnMalloc",
);
const SCUDO: (&str, &str) = (
    "scudo = \"=0.1.3\"",
    "scudo::GlobalScudoAllocator = scudo::GlobalScudoAllocator",
);

use Source::{Debian, Npm, PyPi};
use Symbols::{Kept, Stripped};

#[rustfmt::skip] // a table
pub(super) static ROWS: &[Row] = &[
    fetched(Debian("redis-tools"), "usr/bin/redis-check-rdb", "jemalloc", &[], "depends on libjemalloc2"),
    fetched(Debian("varnish"), "usr/sbin/varnishd", "jemalloc", &[], "depends on libjemalloc2"),
    fetched(Debian("bind9"), "usr/sbin/named", "jemalloc", &[], "depends on libjemalloc2"),
    fetched(Debian("ceph-common"), "usr/bin/ceph-dencoder", "tcmalloc", &[], "depends on libgoogle-perftools4"),
    fetched(Debian("libjemalloc2"), "usr/lib/x86_64-linux-gnu/libjemalloc.so.2", "jemalloc", &["jemalloc"],
        "it is that library"),
    fetched(Debian("libtcmalloc-minimal4"), "usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4.5.10", "tcmalloc", &["tcmalloc"],
        "it is that library"),
    fetched(Debian("libgoogle-perftools4"), "usr/lib/x86_64-linux-gnu/libtcmalloc.so.4.5.10", "tcmalloc", &["tcmalloc"],
        "it is that library"),
    fetched(Debian("libgoogle-perftools4"), "usr/lib/x86_64-linux-gnu/libprofiler.so.0.5.5", "nobody", &[],
        "the profiler without the allocator"),
    fetched(Debian("libmimalloc2.0"), "usr/lib/x86_64-linux-gnu/libmimalloc.so.2.0", "mimalloc", &["mimalloc"],
        "it is that library"),
    fetched(Debian("libtbbmalloc2"), "usr/lib/x86_64-linux-gnu/libtbbmalloc.so.2.8", "outside", &["tbbmalloc"],
        "it has scalable_malloc; the replacement of malloc is libtbbmalloc_proxy"),
    fetched(Debian("libtbbmalloc2"), "usr/lib/x86_64-linux-gnu/libtbbmalloc_proxy.so.2.8", "tbbmalloc", &["tbbmalloc"],
        "its part that replaces malloc"),
    fetched(Debian("mold"), "usr/bin/mold", "mimalloc", &["mimalloc"],
        "its build links its own mimalloc statically (MOLD_USE_MIMALLOC)"),
    fetched(Debian("chromium"), "usr/lib/chromium/chromium", "partition_alloc", &["partition_alloc"],
        "PartitionAlloc is everything's malloc in Chromium"),
    fetched(Debian("firefox-esr"), "usr/lib/firefox-esr/firefox-esr", "mozjemalloc", &["mozjemalloc"],
        "mozjemalloc is linked into the executable"),
    fetched(Debian("musl"), "lib/x86_64-linux-musl/libc.so", "musl-mallocng", &[], "it is musl 1.2.3"),
    fetched(Debian("libc6"), "lib/x86_64-linux-gnu/libc.so.6", "glibc", &[], "it is glibc"),
    fetched(Debian("libasan8"), "usr/lib/x86_64-linux-gnu/libasan.so.8.0.0", "address-sanitizer", &["address-sanitizer"],
        "it is that library"),
    fetched(Debian("libtsan2"), "usr/lib/x86_64-linux-gnu/libtsan.so.2.0.0", "thread-sanitizer", &["thread-sanitizer"],
        "it is that library"),
    fetched(Debian("libclang-rt-14-dev"), "usr/lib/llvm-14/lib/clang/14.0.6/lib/linux/libclang_rt.scudo_standalone-x86_64.so",
        "scudo", &["scudo"], "it is that library"),
    fetched(Debian("busybox-static"), "bin/busybox", "glibc", &[], STATIC_GLIBC),
    fetched(Debian("bash-static"), "bin/bash-static", "glibc", &[], STATIC_GLIBC),
    fetched(Debian("zsh-static"), "bin/zsh-static", "glibc", &[], STATIC_GLIBC),
    fetched(Debian("sash"), "bin/sash", "glibc", &[], STATIC_GLIBC),
    fetched(Debian("e2fsck-static"), "sbin/e2fsck.static", "glibc", &[], STATIC_GLIBC),
    fetched(Debian("tini"), "usr/bin/tini-static", "glibc", &[], STATIC_GLIBC),
    fetched(Debian("qemu-user-static"), "usr/bin/qemu-aarch64-static", "glibc", &[], STATIC_GLIBC),
    fetched(Debian("age"), "usr/bin/age-keygen", "go-runtime", &["go-runtime"], "a Go program"),
    fetched(Debian("docker.io"), "usr/bin/docker", "shared-libc", &["go-runtime"],
        "a Go program with cgo: C's malloc is the libc's"),
    fetched(Debian("ripgrep"), "usr/bin/rg", "shared-libc", &[], "its source sets jemalloc for musl only"),
    fetched(Debian("fd-find"), "usr/bin/fdfind", "shared-libc", &[], "Debian builds it without the use-jemalloc feature"),
    fetched(Debian("hyperfine"), "usr/bin/hyperfine", "shared-libc", &[], DEBIAN_RUST),
    fetched(Debian("bat"), "usr/bin/batcat", "shared-libc", &[], DEBIAN_RUST),
    fetched(Debian("memcached"), "usr/bin/memcached", "shared-libc", &[], PLAIN_C),
    fetched(Debian("dash"), "bin/dash", "shared-libc", &[], PLAIN_C),
    fetched(Debian("haproxy"), "usr/sbin/haproxy", "shared-libc", &[], PLAIN_C),
    fetched(Debian("squid"), "usr/sbin/squid", "shared-libc", &[], PLAIN_C),
    fetched(Debian("postgresql-15"), "usr/lib/postgresql/15/bin/postgres", "shared-libc", &[], PLAIN_C),
    fetched(Debian("mariadb-server-core"), "usr/sbin/mariadbd", "shared-libc", &[], PLAIN_C),
    fetched(Debian("trafficserver"), "usr/bin/traffic_server", "shared-libc", &[], PLAIN_C),
    fetched(Debian("python3.11-minimal"), "usr/bin/python3.11", "shared-libc", &[], PLAIN_C),
    fetched(Npm("@biomejs/cli-linux-x64", "2.6.8"), "package/biome", "shared-libc", &["jemalloc"],
        "crates/biome_cli/Cargo.toml: tikv-jemallocator on Unix"),
    fetched(Npm("@biomejs/cli-linux-x64-musl", "2.6.6"), "package/biome", "musl-mallocng", &["jemalloc"], "the same, on musl"),
    fetched(Npm("@rspack/binding-linux-x64-gnu", "2.3.2"), "package/rspack.linux-x64-gnu.node", "outside", &["mimalloc"],
        "its crate rspack_allocator sets mimalloc"),
    fetched(Npm("@rspack/binding-linux-x64-musl", "2.3.2"), "package/rspack.linux-x64-musl.node", "outside", &["mimalloc"],
        "its crate rspack_allocator sets mimalloc"),
    fetched(Npm("@next/swc-linux-x64-gnu", "16.4.6"), "package/next-swc.linux-x64-gnu.node", "outside", &["mimalloc"],
        "its crate turbo-tasks-malloc sets mimalloc"),
    fetched(Npm("@rollup/rollup-linux-x64-gnu", "4.68.7"), "package/rollup.linux-x64-gnu.node", "nobody", &["mimalloc"],
        "rust/bindings_napi sets mimalloc; all of it is Rust"),
    fetched(Npm("@oxlint/linux-x64-gnu", "1.43.0"), "package/oxlint.linux-x64-gnu.node", "outside", &["mimalloc"],
        "apps/oxlint sets mimalloc-safe"),
    fetched(Npm("@oxc-parser/binding-linux-x64-gnu", "0.158.0"), "package/parser.linux-x64-gnu.node", "outside", &["mimalloc"],
        "napi/parser sets mimalloc-safe"),
    fetched(Npm("@rolldown/binding-linux-x64-gnu", "1.3.2"), "package/rolldown-binding.linux-x64-gnu.node", "outside",
        &["mimalloc"], "crates/rolldown_binding sets mimalloc-safe"),
    fetched(Npm("@napi-rs/canvas-linux-x64-gnu", "1.1.1"), "package/skia.linux-x64-gnu.node", "outside", &["mimalloc"],
        "its lib.rs sets mimalloc-safe"),
    fetched(Npm("@swc/core-linux-x64-gnu", "1.16.22"), "package/swc.linux-x64-gnu.node", "outside", &[], NO_MADVISE),
    fetched(Npm("@tailwindcss/oxide-linux-x64-gnu", "4.3.5"), "package/tailwindcss-oxide.linux-x64-gnu.node", "outside", &[],
        NO_MADVISE),
    fetched(Npm("lightningcss-linux-x64-gnu", "1.33.0"), "package/lightningcss.linux-x64-gnu.node", "outside", &[],
        "node/Cargo.toml: jemallocator on macOS only"),
    fetched(Npm("turbo-linux-64", "2.8.17"), "turbo-linux-x64/bin/turbo", "musl-mallocng", &[],
        "a musl build of before mimalloc was set (its pull request 13237)"),
    fetched(Npm("@oven/bun-linux-x64", "1.4.5"), "package/bin/bun", "shared-libc", &["mimalloc"],
        "mimalloc for JavaScript and Zig, not as malloc"),
    fetched(Npm("@esbuild/linux-x64", "0.28.2"), "package/bin/esbuild", "go-runtime", &["go-runtime"], "a Go program"),
    fetched(Npm("lefthook-linux-x64", "2.2.2"), "package/bin/lefthook", "go-runtime", &["go-runtime"], "a Go program"),
    fetched(Npm("@cloudflare/workerd-linux-64", "1.20261117.1"), "package/bin/workerd", "tcmalloc", &["tcmalloc"],
        "its Bazel build sets malloc = tcmalloc"),
    fetched(Npm("@sentry/cli-linux-x64", "3.8.0"), "package/bin/sentry-cli", "musl-mallocng", &[],
        "a musl build without a global allocator"),
    fetched(Npm("@dprint/linux-x64-musl", "0.57.4"), "package/dprint", "musl-mallocng", &[],
        "a musl build without a global allocator"),
    fetched(PyPi("ruff", "0.17.5"), "ruff-0.17.5.data/scripts/ruff", "shared-libc", &["jemalloc"],
        "crates/ruff/src/main.rs: tikv-jemallocator on x86_64"),
    fetched(PyPi("ty", "0.0.104"), "ty-0.0.104.data/scripts/ty", "shared-libc", &["jemalloc"],
        "crates/ty/src/main.rs: tikv-jemallocator"),
    fetched(PyPi("uv", "0.13.8"), "uv-0.13.8.data/scripts/uv", "shared-libc", &["jemalloc"],
        "its crate uv-performance-memory-allocator: tikv-jemallocator"),
    fetched(PyPi("polars-runtime-32", "2.1.0"), "_polars_runtime_32/_polars_runtime.abi3.so", "outside", &["jemalloc"],
        "its Python bindings set jemalloc on Unix"),
    fetched(PyPi("pyarrow", "26.0.1"), "pyarrow/libarrow.so.2600", "outside", &["jemalloc", "mimalloc"],
        "Arrow bundles both (ARROW_JEMALLOC, ARROW_MIMALLOC)"),
    fetched(PyPi("duckdb", "2.0.0"), "_duckdb.cpython-311-x86_64-linux-gnu.so", "outside", &["jemalloc"],
        "its extension jemalloc, on by default on Linux"),
    fetched(PyPi("granian", "2.8.7"), "granian/_granian.cpython-311-x86_64-linux-gnu.so", "outside", &["jemalloc"],
        "its wheels are built with the feature jemalloc"),
    fetched(PyPi("zizmor", "1.32.0"), "zizmor-1.32.0.data/scripts/zizmor", "shared-libc", &["jemalloc"],
        "crates/zizmor/src/main.rs: tikv-jemallocator"),
    fetched(PyPi("pyrefly", "1.4.1"), "pyrefly-1.4.1.data/scripts/pyrefly", "shared-libc", &["jemalloc"],
        "pyrefly/bin/main.rs: tikv-jemallocator on Linux"),
    fetched(PyPi("rerun-sdk", "0.41.0"), "rerun_cli/rerun", "shared-libc", &["mimalloc"],
        "its crate re_memory wraps mimalloc"),
    fetched(PyPi("scalene", "2.4.0"), "scalene/libscalene.so", "own-code", &[],
        "a sampling allocator of its own over the libc's"),
    fetched(PyPi("orjson", "3.13.0"), "orjson/orjson.cpython-311-x86_64-linux-gnu.so", "outside", &[],
        "takes Python's allocator"),
    fetched(PyPi("tokenizers", "0.23.3"), "tokenizers/tokenizers.abi3.so", "outside", &[],
        "no global allocator in its source"),
    fetched(PyPi("watchfiles", "1.3.0"), "watchfiles/_rust_notify.abi3.so", "outside", &[],
        "no global allocator in its source"),
    fetched(PyPi("maturin", "1.16.0"), "maturin-1.16.0.data/scripts/maturin", "musl-mallocng", &[],
        "a musl build without a global allocator"),
    fetched(PyPi("ziglang", "0.17.0"), "ziglang/zig", "own-code", &[], "a Zig program: its standard library's allocators"),
    rust("mimalloc-1.7.1", MI_1, "gnu", Stripped, &["mimalloc"]),
    rust("mimalloc-1.7.1", MI_1, "musl", Stripped, &["mimalloc"]),
    rust("mimalloc-2.0.7", MI_207, "musl", Stripped, &["mimalloc"]),
    rust("mimalloc-2.1.7", MI_217, "gnu", Stripped, &["mimalloc"]),
    rust("mimalloc-2.1.7", MI_217, "musl", Stripped, &["mimalloc"]),
    rust("mimalloc-3.3.2", MI_3, "gnu", Kept, &["mimalloc"]),
    rust("mimalloc-3.3.2", MI_3, "musl", Kept, &["mimalloc"]),
    rust("mimalloc-3.3.2", MI_3, "musl", Stripped, &["mimalloc"]),
    rust("mimalloc-3.3.2-secure", MI_3_SECURE, "musl", Stripped, &["mimalloc"]),
    rust("jemalloc-5.3.1", JE_531, "gnu", Kept, &["jemalloc"]),
    rust("jemalloc-5.3.1", JE_531, "musl", Kept, &["jemalloc"]),
    rust("jemalloc-5.3.1", JE_531, "musl", Stripped, &["jemalloc"]),
    rust("rpmalloc-1.4.3", RPMALLOC, "gnu", Stripped, &["rpmalloc"]),
    rust("rpmalloc-1.4.3", RPMALLOC, "musl", Kept, &["rpmalloc"]),
    rust("rpmalloc-1.4.3", RPMALLOC, "musl", Stripped, &["rpmalloc"]),
    rust("snmalloc-0.7", SNMALLOC, "gnu", Stripped, &["snmalloc"]),
    rust("snmalloc-0.2", SNMALLOC_02, "gnu", Stripped, &["snmalloc"]),
    rust("scudo", SCUDO, "gnu", Stripped, &["scudo"]),
    c("musl-static", "musl-gcc -O2 -static", Kept, "musl-mallocng"),
    c("musl-static-small", "musl-gcc -Os -static", Stripped, "musl-mallocng"),
    c("glibc-static", "gcc -O2 -static", Stripped, "glibc"),
    c("glibc-static-pie", "gcc -O1 -static-pie", Stripped, "glibc"),
];

/// Files that were fetched when the signatures were settled. Most of [`ROWS`] were at hand while they were written.
#[rustfmt::skip] // a table
pub(super) static HELD_OUT: &[Row] = &[
    fetched(Debian("knot-resolver"), "usr/sbin/kresd", "jemalloc", &[], "depends on libjemalloc2"),
    fetched(Debian("php8.2-cli"), "usr/bin/php8.2", "shared-libc", &[], PLAIN_C),
    fetched(Debian("stress-ng"), "usr/bin/stress-ng", "shared-libc", &[], PLAIN_C),
    fetched(Debian("chrony"), "usr/sbin/chronyd", "shared-libc", &[], PLAIN_C),
    fetched(Npm("@oxc-transform/binding-linux-x64-gnu", "0.158.0"), "package/transform.linux-x64-gnu.node", "outside",
        &["mimalloc"], "napi/transform sets mimalloc-safe"),
    fetched(Npm("@oxc-minify/binding-linux-x64-gnu", "0.157.0"), "package/minify.linux-x64-gnu.node", "outside", &["mimalloc"],
        "napi/minify sets mimalloc-safe"),
    fetched(Npm("@tauri-apps/cli-linux-x64-gnu", "2.12.5"), "package/cli.linux-x64-gnu.node", "outside", &[],
        "no global allocator in its source"),
    fetched(PyPi("datafusion", "55.0.0"), "datafusion/_internal.abi3.so", "outside", &["mimalloc"],
        "its feature mimalloc is on by default"),
    fetched(PyPi("prek", "0.5.11"), "prek-0.5.11.data/scripts/prek", "shared-libc", &[],
        "its pull request 1772, which would set jemalloc again, was closed"),
    fetched(PyPi("fastexcel", "0.21.0"), "fastexcel/_fastexcel.abi3.so", "outside", &[], "no global allocator in its source"),
];
