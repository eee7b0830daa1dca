//! Preloads of quick allocators are linked, and export the family and nothing else.

use reheap_allocators::cache::Cache;
use reheap_allocators::catalogue::{self, Glue};
use reheap_allocators::compiler::{self, Language, Purpose, Search};
use reheap_allocators::preload;
use reheap_allocators::target::{Architecture, Libc, Target};
use reheap_allocators::upstream::Toolchain;
use std::path::Path;

fn target(libc: Libc) -> Target {
    let architecture = Architecture::ALL
        .into_iter()
        .find(|architecture| architecture.name() == std::env::consts::ARCH);
    Target::new(architecture.expect("a known processor"), libc)
}

fn toolchain(target: &Target) -> Toolchain {
    let search = Search::new(std::env::vars_os());
    let find = |language| compiler::find(target, language, Purpose::Objects, &search);
    Toolchain {
        cargo: "cargo".into(),
        cc: find(Language::C).unwrap(),
        cxx: find(Language::Cxx).map_err(|error| error.to_string()),
        environment: std::env::vars_os().collect(),
    }
}

fn cache() -> Cache {
    Cache::at(Path::new(env!("CARGO_TARGET_TMPDIR")).join("reheap-cache"))
}

#[test]
fn a_preload_for_each_libc_is_made_once_and_says_what_it_is() {
    let mimalloc = catalogue::find("mimalloc").unwrap();
    for libc in [Libc::Glibc, Libc::Musl] {
        let target = target(libc);
        let toolchain = toolchain(&target);
        let library = preload::build(mimalloc, &target, &toolchain, &cache()).unwrap();
        assert!(preload::is_built(mimalloc, &target, &toolchain, &cache()));
        assert_eq!(library.file_name().unwrap(), "libmimalloc-3.3.2.so");

        let bytes = std::fs::read(&library).unwrap();
        let identity = reheap_elf::identify::identify(&bytes).unwrap();
        let found = identity.marker.expect("a preload has a marker");
        assert_eq!(found.marker.allocator, "mimalloc");
        assert_eq!(found.marker.libc, libc.to_string());
        assert!(found.replaced.is_empty(), "{:?}", found.replaced);
        let again = preload::build(mimalloc, &target, &toolchain, &cache()).unwrap();
        assert_eq!(library, again);
    }
}

#[test]
fn a_library_of_one_source_exports_what_it_is_told_to_and_hides_the_rest() {
    let source = Glue {
        name: "answer",
        source: "int hidden(void) { return 42; }\n\
                 __attribute__((visibility(\"default\"))) int answer(void) { return hidden(); }\n",
    };
    for libc in [Libc::Glibc, Libc::Musl] {
        let target = target(libc);
        let toolchain = toolchain(&target);
        let build = |names| preload::build_source(&source, names, &target, &toolchain, &cache());
        let library = build(&["answer"]).unwrap();
        assert_eq!(library.file_name().unwrap(), "libanswer.so");
        let error = build(&["answer", "question"]).unwrap_err();
        assert!(
            format!("{:?}", error).contains("question"),
            "the missing name is named: {error:?}"
        );
    }
}
