//! Repositories with CI files, Dockerfiles and scripts as people write them, and what is found in them.

use proptest::prelude::*;
use reheap_adopt::findings::{self, Finding, Rule};
use reheap_adopt::project::Project;
use std::fs;
use std::process::Command;

/// What the three rules find in a project with these files.
fn findings(files: &[(&str, &str)]) -> Vec<Finding> {
    let directory = tempfile::tempdir().unwrap();
    let manifest = "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";
    let of_project = [("Cargo.toml", manifest), ("src/main.rs", "fn main() {}\n")];
    for (name, contents) in of_project.iter().chain(files) {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
    }
    let manifest = directory.path().join("Cargo.toml");
    let project = Project::read(&Command::new("cargo"), &manifest).unwrap();
    let rules = [
        Rule::UntestedTarget,
        Rule::PatchedLibc,
        Rule::MissingPreload,
    ];
    let all = findings::of(&project).into_iter();
    all.filter(|finding| rules.contains(&finding.rule))
        .collect()
}

/// The only finding, with these words.
fn assert_found(files: &[(&str, &str)], rule: Rule, line: usize, words: &[&str]) {
    let found = findings(files);
    let [finding] = &found[..] else {
        panic!("{files:?}: {found:?}");
    };
    assert_eq!((finding.rule, finding.line), (rule, line), "{finding:?}");
    for word in words {
        let text = format!("{}; {}", finding.what, finding.fix);
        assert!(text.contains(word), "`{word}` is not in: {text}");
    }
}

fn assert_clean(files: &[(&str, &str)]) {
    assert_eq!(findings(files), [], "{files:?}");
}

/// A program with an allocator for musl.
const FOR_MUSL: &str = "#[cfg(target_env = \"musl\")]\n#[global_allocator]\n\
    static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;\n\nfn main() {}\n";
const MANIFEST: &str = "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
    [target.'cfg(target_env = \"musl\")'.dependencies]\nmimalloc = \"0.1\"\n";

/// Such a program, with these files.
fn for_musl<'a>(files: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let mut all = vec![("Cargo.toml", MANIFEST), ("src/main.rs", FOR_MUSL)];
    all.extend(files);
    all
}

const ON_UBUNTU: &str = "on: push\njobs:\n  test:\n    runs-on: ubuntu-latest # not musl\n    steps:\n\
    \x20     - uses: actions/checkout@v4\n      - run: cargo test --locked\n";

#[test]
fn an_allocator_for_targets_that_ci_does_not_build_is_found() {
    let words = [
        "`target_env = \"musl\"`",
        "`.github/workflows/ci.yml`",
        "x86_64-unknown-linux-musl",
    ];
    let files = for_musl(&[(".github/workflows/ci.yml", ON_UBUNTU)]);
    assert_found(&files, Rule::UntestedTarget, 2, &words);

    let gitlab = "test:\n  image: rust:1.95\n  script:\n    - |\n      cargo test\n";
    let files = for_musl(&[(".gitlab-ci.yml", gitlab)]);
    assert_found(&files, Rule::UntestedTarget, 2, &["`.gitlab-ci.yml`"]);

    let settings = "[target.x86_64-unknown-linux-musl]\nlinker = \"rust-lld\"\n";
    let files = for_musl(&[
        (".github/workflows/ci.yml", ON_UBUNTU),
        (".cargo/config.toml", settings),
    ]);
    assert_found(&files, Rule::UntestedTarget, 2, &[]);
}

#[test]
fn a_target_counts_as_built_wherever_it_is_named() {
    let matrix = "jobs:\n  build:\n    strategy:\n      matrix:\n        include:\n          - target: x86_64-unknown-linux-musl\n\
                  \x20           os: ubuntu-22.04\n    runs-on: ${{ matrix.os }}\n    steps:\n      - run: cargo build --target ${{ matrix.target }}\n";
    let piece = "jobs:\n  build:\n    runs-on: ubuntu-22.04\n    strategy: { matrix: { arch: [x86_64, aarch64] } }\n    steps:\n\
                 \x20     - run: cargo build --target ${{ matrix.arch }}-unknown-linux-musl\n";
    let image = "jobs:\n  build:\n    runs-on: ubuntu-22.04\n    container: rust:1-alpine\n    steps: [{ run: cargo build }]\n";
    let circle = "jobs:\n  build:\n    docker: [{ image: rust:alpine3.22 }]\n    steps:\n      - run: cargo test\n";
    for workflow in [matrix, piece, image] {
        assert_clean(&for_musl(&[(".github/workflows/ci.yml", workflow)]));
    }
    assert_clean(&for_musl(&[(".circleci/config.yml", circle)]));
    let script = "#!/bin/sh\ncargo build --target=x86_64-unknown-linux-musl --release\n";
    assert_clean(&for_musl(&[
        (".github/workflows/ci.yml", ON_UBUNTU),
        ("ci/release.sh", script),
    ]));
    let pieces = "cargo build --target \"$(uname -m)-unknown-linux-musl\" --release\n";
    assert_clean(&for_musl(&[
        (".github/workflows/ci.yml", ON_UBUNTU),
        ("ci/release.sh", pieces),
    ]));
    let dist = "[dist]\ntargets = [\"aarch64-apple-darwin\", \"x86_64-unknown-linux-musl\"]\n";
    assert_clean(&for_musl(&[
        (".github/workflows/ci.yml", ON_UBUNTU),
        ("dist-workspace.toml", dist),
    ]));
}

#[test]
fn nothing_is_said_where_ci_is_missing_or_cannot_be_known() {
    assert_clean(&for_musl(&[]));
    let pages =
        "jobs:\n  pages:\n    runs-on: ubuntu-latest\n    steps:\n      - run: mdbook build\n";
    assert_clean(&for_musl(&[(".github/workflows/pages.yml", pages)]));
    for runner in [
        "self-hosted",
        "[self-hosted, linux]",
        "big-machine",
        "${{ fromJSON(needs.plan.outputs.runner) }}",
    ] {
        let workflow = ON_UBUNTU.replace("ubuntu-latest", runner);
        assert_clean(&for_musl(&[(".github/workflows/ci.yml", &workflow)]));
    }
    let elsewhere =
        format!("{ON_UBUNTU}  more:\n    uses: company/ci/.github/workflows/rust.yml@v2\n");
    assert_clean(&for_musl(&[(".github/workflows/ci.yml", &elsewhere)]));
}

#[test]
fn features_may_be_any_and_the_system_allocator_is_none() {
    let main = "#[cfg(all(feature = \"fast\", unix))]\n#[global_allocator]\nstatic A: mimalloc::MiMalloc = mimalloc::MiMalloc;\nfn main() {}\n";
    let manifest = "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\
                    [features]\nfast = [\"dep:mimalloc\"]\n[dependencies]\nmimalloc = { version = \"0.1\", optional = true }\n";
    let ci = (".github/workflows/ci.yml", ON_UBUNTU);
    assert_clean(&[("Cargo.toml", manifest), ("src/main.rs", main), ci]);
    let system = "#[cfg(windows)]\n#[global_allocator]\nstatic A: std::alloc::System = std::alloc::System;\nfn main() {}\n";
    assert_clean(&[("src/main.rs", system), ci]);
}

#[test]
fn scripts_that_change_the_members_of_a_libc_are_found() {
    let dockerfile = "FROM rust:alpine\nRUN apk add mimalloc-dev\nRUN ar d /usr/lib/libc.a malloc.lo free.lo \\\n  realloc.lo\n";
    assert_found(
        &[("Dockerfile", dockerfile)],
        Rule::PatchedLibc,
        3,
        &["`ar`", "cargo reheap build"],
    );

    let script = "#!/bin/sh\nset -eu\nfor LIBC in $(find / -name libc.a); do\n  {\n    echo \"CREATE libc.a\"\n    echo \"ADDLIB $LIBC\"\n\
                  \x20   echo \"DELETE calloc.lo malloc.lo\"\n    echo \"ADDLIB out/libmimalloc.a\"\n    echo \"SAVE\"\n  } | llvm-ar -M\n  mv libc.a $LIBC\ndone\n";
    assert_found(
        &[("scripts/patch.sh", script)],
        Rule::PatchedLibc,
        10,
        &["script of `ar`"],
    );

    let copy = "jobs:\n  a:\n    steps:\n      - run: |\n          D=$(rustc --print sysroot)/lib/rustlib/x86_64-unknown-linux-musl/lib\n\
                \x20         cp build/libc.a \"$D/self-contained/libc.a\"\n";
    assert_found(
        &[(".github/workflows/a.yml", copy)],
        Rule::PatchedLibc,
        6,
        &["copied over"],
    );
    let weak = "x86_64-linux-musl-objcopy --weaken-symbol=malloc \"$(musl-gcc -print-file-name=libc.a)\" ./libc.a\n";
    assert_found(&[("ci/weaken", weak)], Rule::PatchedLibc, 1, &["`objcopy`"]);
}

#[test]
fn scripts_that_read_or_make_archives_are_fine() {
    let script = "ar t /usr/lib/libc.a | head\nar x /usr/lib/libc.a\nar rcs libmine.a a.o\nar rcs build/libc.a a.o\nar d mylibc.a malloc.o\n# ar d libc.a malloc.lo\n\
                  objcopy --weaken libmine.a\ncp libmine.a /usr/lib/\nls -l /usr/lib/libc.a\nnm libc.a\necho tar d libc.a\n";
    assert_clean(&[("scripts/build.sh", script)]);
    let toolchain = "FROM scratch\nCOPY --from=musl /usr/lib/libc.a /usr/lib/libc.a\nCOPY --from=musl /usr/lib/libc.a /usr/lib/\n";
    assert_clean(&[("Dockerfile", toolchain)]);
}

/// A Dockerfile whose preload is not there, the line, and words of the finding.
fn assert_not_there(dockerfile: &str, line: usize, words: &[&str]) {
    assert_found(
        &[("Dockerfile", dockerfile)],
        Rule::MissingPreload,
        line,
        words,
    );
}

#[test]
fn what_a_script_only_prints_changes_no_libc() {
    let script =
        "#!/bin/sh\necho \"usage: ar d /usr/lib/libc.a malloc.lo\"\nprintf 'ar d libc.a x'\n";
    assert_clean(&[("scripts/help.sh", script)]);
}

#[test]
fn a_preload_of_another_distribution_is_found() {
    assert_not_there(
        "FROM node:20-alpine\nRUN apk add --no-cache jemalloc2\nENV LD_PRELOAD=/usr/lib/x86_64-linux-gnu/libjemalloc.so.2\n",
        3,
        &[
            "Debian's path",
            "`/usr/lib/libjemalloc.so.2`",
            "apk add jemalloc",
        ],
    );
    assert_not_there(
        "FROM python:3.12-slim AS base\nRUN apt-get update && \\\n    apt-get install -y --no-install-recommends libjemalloc2\n\
         FROM base\nENV LD_PRELOAD=\"/usr/lib/libjemalloc.so.2\" A=b\n",
        5,
        &[
            "not where Debian has it",
            "x86_64-linux-gnu/libjemalloc.so.2",
        ],
    );
    let compose = "services:\n  web:\n    image: python:3.12-alpine\n    environment:\n      LD_PRELOAD: /usr/lib/x86_64-linux-gnu/libmimalloc.so.2\n";
    assert_found(
        &[("compose.yaml", compose)],
        Rule::MissingPreload,
        5,
        &["Debian's path"],
    );
}

#[test]
fn a_preload_that_nothing_installs_is_found() {
    assert_not_there(
        "FROM debian:12 AS build\nRUN apt-get update && apt-get install -y libjemalloc2\nFROM debian:12-slim\n\
         RUN apt-get install -y ca-certificates\nENV LD_PRELOAD=/usr/lib/x86_64-linux-gnu/libjemalloc.so.2\nCMD [\"/app\"]\n",
        5,
        &["nothing here installs", "apt-get install libjemalloc2"],
    );
    assert_not_there(
        "ARG V=3.22\nFROM alpine:$V\nCOPY . /app\nENV LD_PRELOAD libmimalloc.so.2\n",
        4,
        &["apk add mimalloc2"],
    );
    assert_not_there(
        "FROM ubuntu\nRUN apt-get install -y libjemalloc2\nENV LD_PRELOAD=/usr/lib/x86_64-linux-gnu/libjemalloc.so\n",
        3,
        &[
            "-dev package",
            "write `/usr/lib/x86_64-linux-gnu/libjemalloc.so.2`",
        ],
    );
    assert_not_there(
        "FROM alpine\nRUN apk add jemalloc\nENV LD_PRELOAD=/usr/lib/libjemalloc.so\n",
        3,
        &["-dev package", "write `/usr/lib/libjemalloc.so.2`"],
    );
}

/// Debian 12 has these files: `dpkg -L libjemalloc2 libmimalloc2.0 libtcmalloc-minimal4 libgoogle-perftools4`.
#[test]
fn what_to_write_is_there_after_what_to_install() {
    for (path, package, file) in [
        (
            "/usr/lib/libjemalloc.so",
            "libjemalloc2",
            "libjemalloc.so.2",
        ),
        (
            "/usr/lib/libmimalloc.so",
            "libmimalloc2.0",
            "libmimalloc.so.2",
        ),
        (
            "/usr/lib/libtcmalloc_minimal.so.4",
            "libtcmalloc-minimal4",
            "libtcmalloc_minimal.so.4",
        ),
        (
            "/usr/lib/libtcmalloc.so",
            "libgoogle-perftools4",
            "libtcmalloc.so.4",
        ),
    ] {
        let dockerfile = format!("FROM debian:12\nENV LD_PRELOAD={path}\n");
        let install = format!("apt-get install {package}`");
        let write = format!("write `/usr/lib/x86_64-linux-gnu/{file}`");
        assert_not_there(&dockerfile, 2, &[&install, &write]);
        let fixed = format!(
            "FROM debian:12\nRUN apt-get install -y {package}\nENV LD_PRELOAD=/usr/lib/x86_64-linux-gnu/{file}\n"
        );
        assert_clean(&[("Dockerfile", &fixed)]);
    }
    assert_not_there(
        "FROM debian:12\nENV LD_PRELOAD=libmimalloc.so\n",
        2,
        &["`apt-get install libmimalloc2.0` brings it as `libmimalloc.so.2`"],
    );
}

#[test]
fn a_preload_with_the_number_of_another_version_is_found() {
    let old = "ENV LD_PRELOAD=/usr/lib/x86_64-linux-gnu/libjemalloc.so.1\n";
    assert_not_there(
        &format!("FROM debian:12-slim\n{old}"),
        2,
        &["`apt-get install libjemalloc2` brings it as `libjemalloc.so.2`"],
    );
    for dockerfile in [
        &format!("FROM debian:12-slim\nRUN apt-get install -y libjemalloc2\n{old}"),
        "FROM alpine\nRUN apk add jemalloc\nENV LD_PRELOAD=/usr/lib/libjemalloc.so.1\n",
    ] {
        assert_not_there(
            dockerfile,
            3,
            &[
                "libjemalloc.so.1` is not in `",
                "which has another version",
                "libjemalloc.so.2`",
            ],
        );
    }
    assert_not_there(
        "FROM debian:12\nENV LD_PRELOAD=/usr/lib/libjemalloc.so.1\n",
        2,
        &["write `/usr/lib/x86_64-linux-gnu/libjemalloc.so.2`"],
    );
    // Debian 9 has that one, and Debian 13 another mimalloc.
    for dockerfile in [
        &format!("FROM debian:9\nRUN apt-get install -y libjemalloc1\n{old}"),
        &format!("FROM debian:9\nRUN apt-get install -y redis-server\n{old}"),
        "FROM debian:13\nRUN apt-get install -y libmimalloc3\nENV LD_PRELOAD=libmimalloc.so.3\n",
        "FROM debian:12\nRUN apt-get install -y libmimalloc2.0\nENV LD_PRELOAD=libmimalloc.so.2.0\n",
    ] {
        assert_clean(&[("Dockerfile", dockerfile)]);
    }
}

#[test]
fn a_preload_that_no_machine_or_not_every_machine_has_is_found() {
    assert_not_there(
        "FROM --platform=$TARGETPLATFORM debian:12\nRUN apt-get install -y libjemalloc2\n\
         ENV LD_PRELOAD=/usr/lib/x86_64-linux-gnu/libjemalloc.so.2\n",
        3,
        &["only there on x86_64", "`libjemalloc.so.2`"],
    );
    assert_not_there(
        "FROM debian:12\nRUN apt-get install -y libjemalloc2\nENV LD_PRELOAD=/usr/lib/*/libjemalloc.so.2\n",
        3,
        &["`/usr/lib/*/libjemalloc.so.2` is no path"],
    );
    let script =
        "#!/bin/sh\nexport LD_PRELOAD=/usr/lib/*-linux-gnu/libjemalloc.so.2\nexec \"$@\"\n";
    assert_found(
        &[("docker/entrypoint.sh", script)],
        Rule::MissingPreload,
        2,
        &["no path"],
    );
    let unit = "[Service]\nEnvironment=\"LD_PRELOAD=/usr/lib/*/libjemalloc.so.2\"\n";
    assert_found(
        &[("etc/app.service", unit)],
        Rule::MissingPreload,
        2,
        &["no path"],
    );
}

#[test]
fn a_preload_that_is_or_may_be_there_is_fine() {
    let path = "ENV LD_PRELOAD=/usr/lib/x86_64-linux-gnu/libjemalloc.so.2\n";
    for before in [
        "FROM debian:12\nRUN apt-get update && apt-get install -y curl libjemalloc2=5.3.0-1\n",
        "FROM python:3.12-slim AS base\nRUN apt-get install -y libjemalloc2\nFROM base AS run\n",
        "FROM debian:12\nRUN apt-get install -y dnsutils\n",
        "FROM debian:12\nRUN apt-get install -y $PACKAGES\n",
        "FROM debian:12\nRUN xargs apt-get install -y < packages.txt\n",
        "FROM debian:12\nCOPY --from=build /usr/lib/x86_64-linux-gnu/libjemalloc.so.2 /usr/lib/x86_64-linux-gnu/\n",
        "FROM debian:12\nCOPY root/ /\n",
        "FROM debian:12\nCOPY . .\n",
        "FROM debian:12\nCOPY setup.sh /tmp/\nRUN /tmp/setup.sh\n",
        "FROM debian:12\nRUN <<EOF\napt-get update\napt-get install -y libjemalloc2\nEOF\n",
        "FROM company/base:12\n",
        "FROM gcr.io/distroless/cc-debian12\n",
        "FROM $BASE\n",
    ] {
        assert_clean(&[("Dockerfile", &format!("{before}{path}"))]);
    }
    for dockerfile in [
        "FROM alpine\nRUN apk add --no-cache jemalloc\nENV LD_PRELOAD=/usr/lib/libjemalloc.so.2\n",
        "FROM alpine\nRUN apk add -U mimalloc2 tini\nENV LD_PRELOAD=/usr/lib/libmimalloc.so.2\n",
        "FROM debian:12\nRUN apt-get install -y libjemalloc2 && ln -s /usr/lib/*/libjemalloc.so.2 /usr/lib/libjemalloc.so.2\n\
         ENV LD_PRELOAD=/usr/lib/libjemalloc.so.2\n",
        "FROM debian:12\nARG TARGETARCH\nRUN apt-get install -y libjemalloc2\nENV LD_PRELOAD=libjemalloc.so.2\n",
        "FROM debian:12\nENV LD_PRELOAD=$LIBRARY:/opt/agent/lib.so\n",
        "FROM debian:12\n# ENV LD_PRELOAD=/usr/lib/*/x.so\nRUN LD_PRELOAD= ls\n",
    ] {
        assert_clean(&[("Dockerfile", dockerfile)]);
    }
    let compose = "services:\n  web:\n    image: debian:12\n    volumes: [./lib:/usr/lib/x86_64-linux-gnu]\n    environment:\n\
                   \x20     - LD_PRELOAD=/usr/lib/x86_64-linux-gnu/libjemalloc.so.2\n";
    assert_clean(&[("compose.yaml", compose)]);
    let computed = "lib=\"$(ldconfig -p | awk '/jemalloc/ {print $4}')\"\nexport LD_PRELOAD=\"$lib\"\n[ -e /x ] && LD_PRELOAD=$(ls /usr/lib/*/lib*.so) app\n";
    assert_clean(&[("docker/run.sh", computed)]);
}

/// Pieces that put parsers into unusual states.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("FROM debian\n".to_owned()),
        Just("FROM ${A:-".to_owned()),
        Just("ENV LD_PRELOAD=/usr/lib/*/libjemalloc.so.2\n".to_owned()),
        Just("LD_PRELOAD: libjemalloc.so\n".to_owned()),
        Just("    image: \"alpine\n".to_owned()),
        Just("- name: LD_PRELOAD\n value:".to_owned()),
        Just("RUN <<EOF\n".to_owned()),
        Just("COPY [\"".to_owned()),
        Just("ar d libc.a\n".to_owned()),
        Just("cp libc.a ".to_owned()),
        Just("cargo build\nruns-on:".to_owned()),
        Just("-unknown-linux-musl".to_owned()),
        Just("\\\n".to_owned()),
        "[ -~\n\t$'\"\\\\{}]{0,12}",
        "\\PC{0,4}",
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Many files for one project, because asking Cargo takes most of the time.
    #[test]
    fn no_text_makes_it_panic(texts in prop::collection::vec(pieces(), 30)) {
        let names: Vec<String> = (0..texts.len())
            .map(|index| match index % 4 {
                0 => format!("{index}.Dockerfile"),
                1 => format!(".github/workflows/{index}.yml"),
                2 => format!("ci/{index}.sh"),
                _ => format!("{index}.yaml"),
            })
            .collect();
        let files: Vec<(&str, &str)> =
            names.iter().zip(&texts).map(|(name, text)| (name.as_str(), text.as_str())).collect();
        findings(&for_musl(&files));
    }
}
