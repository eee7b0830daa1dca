//! The projects of the corpus, and what a person read in their sources about each finding.
//!
//! The last three of the projects were added when the rules were done; only the words of one fix changed for them. The
//! others were at hand before: four findings in them were false at first, and the rules were corrected.
//!
//! Chosen for their set-ups: one allocator on some targets, several behind features, none by default, in a library, in
//! modules for Python, in old versions. `swc_malloc` and `rspack_allocator` are what modules for Node depend on for
//! nothing but the allocator.

/// A package of the Rust registry.
pub(super) struct Project {
    pub(super) name: &'static str,
    pub(super) version: &'static str,
    pub(super) sha256: &'static str,
}

/// What is right about one finding.
pub(super) struct Verdict {
    pub(super) project: &'static str,
    pub(super) version: &'static str,
    pub(super) rule: &'static str,
    pub(super) path: &'static str,
    pub(super) line: usize,
    pub(super) is_true: bool,
    /// What the sources say.
    pub(super) because: &'static str,
}

const fn project(name: &'static str, version: &'static str, sha256: &'static str) -> Project {
    Project {
        name,
        version,
        sha256,
    }
}

#[rustfmt::skip] // a table
pub(super) const PROJECTS: &[Project] = &[
    project("boa_cli", "0.22.0", "1a36f47f8342bc37404983a9a93820062dc0e37cc0ea20a643da7fa0b19ab07d"),
    project("cargo-binstall", "1.24.0", "4bbf7f7116fb5b85ca52f0c5950a704aaa5613900c4f9bee02fb285d8bd8cbc4"),
    project("datafusion-cli", "55.2.0", "8d3baca97eeb6be2a942affda86bf512f1c97b82b41475ac98505d8e7ba8fabe"),
    project("datafusion-python", "55.0.0", "bd9ee29752f669b1e59cd2285edf7516cf3a3628630d3590f58114b84875c485"),
    project("difftastic", "0.72.0", "ae78b09b57d6b44e813c02e0a97a2ce04478892a001868be21e4166d2990905a"),
    project("easytier", "2.0.3", "d6bf22b6c9a09f179e8533fb60ad15c8381abd6ffecdab8f43e9c730a072e810"),
    project("fd-find", "10.5.0", "f35becce49c551724fd26d9824ec01d6578868cecbcc4e3d060658f9f8ad1e4d"),
    project("fd-find", "8.7.1", "66cb1e921cbd148d9f3dfb26b644e8ce3833ca0b47a4be07905a6af2a7d20064"),
    project("frawk", "0.4.8", "683934a1e4ffbfe151881e69c1dcdb03d2bb25b32f8ea11186249b7bb64ce03d"),
    project("grcov", "0.10.7", "f518acce97c806c84d1ffb8daa49f1cd2014be49d65900fe37911bec1d85e7f3"),
    project("hgrep", "0.3.9", "3fedd2f73eb0bff60c356415ab4caac249bde28db93fcd1c021445b6d23e20ef"),
    project("hickory-dns", "0.26.3", "2c00f9de6ccb1de862fa8fac2cb03ad826cb7637aeb4406f9ea54b44d6c1e2e1"),
    project("jaq", "3.1.2", "f686343ddd30a3cb6028299b080fb135480532e74b5f6628362c11fdb52f7d22"),
    project("jrsonnet", "0.5.0-pre98", "8d1929431f61ca1c80b16fb8ad9685ac175876ce4c1f6ae748d463fa8b111e27"),
    project("lightningcss", "1.0.0-alpha.72", "d31b760f96e8fdfe1d0c295e4bf76c503d6f15d2d470d53bd8cd1f7aa8c7d934"),
    project("linera-service", "0.15.23", "f8707d2eb20894650603bd881345570b12bc0de0e9d1dd34a71565de416ee15e"),
    project("oha", "1.16.0", "b8da8c2ee4b1659cf4fd9c753171f4e268c06e9025d9bded417091c128f0a496"),
    project("pingap", "0.13.1", "329a50d91a3e8b4c89bb02fc58a9f21922dc6db9d4b9a7a9cc736e6fc9789676"),
    project("polars-cli", "0.9.0", "a9d4c295cc69b103e22237f9d762954cd7660f341d45b5cca88b0710f7961ffd"),
    project("polars-python", "0.55.2", "612ca641fd96d2c79d1c238fc06f6cda79b91ed5a276444190ddff636938b340"),
    project("qsv", "16.1.0", "d8e9ed376c68361f017c1de9086ed14b21b60f41f1d316bd215611b2523a19a6"),
    project("ripgrep", "13.0.0", "f37c9d2c2bc7e00bd2653e13771397b94e452583da9b9494eabef627618d64bf"),
    project("ripgrep", "15.2.0", "a30750b6d0743bfdd2656ebbaf4555aa278c43144b84bc389bcbfa399485ec71"),
    project("rspack_allocator", "0.103.0", "b95a5d3db9be7bc6df0599a1a6b204718cb66091a7f2a41dc28c3965c8741c56"),
    project("rustic-rs", "0.11.4", "2cf37b2da4eba9410b85d369efed9e5765419be5406df3fd498b6bf53621188d"),
    project("shadowsocks-rust", "1.25.0", "859b59925d001f7c6381f419332ab54a592552fe7a8d6b405c226891200ac282"),
    project("skani", "0.4.0", "ad3a759a71bdc340c4f87a280d639b68af8a6d65c57e07ac60da4a913586a848"),
    project("solana-validator", "1.18.26", "54fddc88aac1a6f8c09eb5ddc163d1701f4a61397ac6cced7f6684ec62098720"),
    project("sozu", "2.3.3", "d8369aba960e7ab6688894c8dbc100374f9df68b8364af66ed61853d39366ad6"),
    project("spacetimedb-standalone", "1.3.0", "db9028c5c2a0c6ff5daf38def4f0837b68e3d8275b5cd59325178bb79beb345a"),
    project("sqruff", "0.38.0", "50f95c4c78c4accd77c06084acc735e3fe9f0a69b2ffa60fd2fb1ae1d2db6be3"),
    project("static-web-server", "3.0.0-beta.2", "8303c1f95ee9639a9bcb5efc8eede36df8f6da9b20efeea5b8e114e8f5170daa"),
    project("swc_malloc", "1.2.5", "d222be9e55e86fd6ee32e97c7b12829692329ac8bbed652dcd6c2e1d488af935"),
    project("watchexec-cli", "2.8.0", "a9e73398f1d43104592c8b3aed966fac990773962dc3fd11939ba4cee1d23745"),
    project("wild-linker", "0.10.0", "fc3e3f202308cadd6c3c8612c774511c1537b010b0144b9ec4a25b2d02bc8049"),
    project("xan", "0.61.0", "1f71be74b1d2dc1c5a1ab0a60b593692b371470e8b50e67cd2ba1396efe30dec"),
    project("xwin", "0.10.0", "e3ae2ef8d627ac8d97b3aeb67e4b711520154edca5cc80fbec551415c7b671ef"),
    project("yazi-fm", "26.5.6", "4e2109358bc8fae32717f53eb8f5df37e4f95f5aceaffc683095021c4450bb1a"),
    project("cargo-shear", "1.14.0", "6a9bcb4b513e82026b1e0fedc0a7622654cd726d80559d194ca8c424596b21a8"),
    project("rustowl", "1.0.0-rc.1", "73f58a3ba38dd3ac3db8f0392a793c42459ee2ce9b1867faec90d8f6509c6617"),
    project("sonic-server", "1.10.2", "a1c23d4465e03b1dd5029eebc307d2ca7ebdb71ecd2cb239d7e966ff045d5060"),
];

/// A finding that is true.
const fn yes(
    (project, version): (&'static str, &'static str),
    rule: &'static str,
    (path, line): (&'static str, usize),
    because: &'static str,
) -> Verdict {
    Verdict {
        project,
        version,
        rule,
        path,
        line,
        is_true: true,
        because,
    }
}

#[rustfmt::skip] // a table
pub(super) const VERDICTS: &[Verdict] = &[
    yes(("boa_cli", "0.22.0"), "condition-differs", ("src/main.rs", 56),
        "the import has the conditions of line 65 with `dhat`, and so the same targets for which it is missing"),
    yes(("boa_cli", "0.22.0"), "condition-differs", ("src/main.rs", 65),
        "the manifest names the triple x86_64-unknown-linux-gnu, the code asks for processor, system and C library, \
         which other targets of rustc have, too"),
    yes(("boa_cli", "0.22.0"), "condition-differs", ("src/main.rs", 69),
        "`dhat` imports `mimalloc_safe`, which is optional, and only `fast-allocator` enables it"),
    yes(("cargo-shear", "1.14.0"), "condition-differs", ("src/main.rs", 2),
        "neither of the two dependencies is there for wasm, where the feature compiles the static all the same"),
    yes(("datafusion-python", "55.0.0"), "allocator-in-library", ("src/lib.rs", 67),
        "the package is published, its library is an rlib beside the module for Python, and `mimalloc` is on by default"),
    yes(("oha", "1.16.0"), "allocator-in-library", ("src/lib.rs", 53),
        "the static is in the published library and not in the program, under no feature"),
    yes(("rspack_allocator", "0.103.0"), "condition-differs", ("Cargo.toml", 58),
        "the code is off for the family wasm, and wasm32-wali-linux-musl is both of that family and Linux"),
    yes(("shadowsocks-rust", "1.25.0"), "two-allocators", ("src/allocator/mod.rs", 12),
        "five features each bring an allocator, and nothing keeps two of them apart"),
    yes(("skani", "0.4.0"), "condition-differs", ("Cargo.toml", 143),
        "only the program, which needs `cli`, uses it; who depends on the library compiles it for nothing"),
    yes(("wild-linker", "0.10.0"), "two-allocators", ("src/main.rs", 6),
        "`mimalloc` and `dhat` each bring an allocator, and nothing keeps the two apart"),
];
