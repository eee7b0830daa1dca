//! Prebuilt files for tests: made with this machine's compilers, from the cache of all tests.

use super::cache;
use reheap_allocators::cache::Cache;
use reheap_allocators::compiler::{self, Language, Purpose, Search};
use reheap_allocators::prebuilt::{self, Own, Produced, Selection};
use reheap_allocators::target::{Libc, Target};
use reheap_allocators::upstream::Toolchain;
use reheap_allocators::{own_library, program};
use reheap_profile::hooks;
use reheap_trace::replay;
use std::path::Path;

/// Those of the tests: all of them would have to be built first.
const ALLOCATORS: Selection = Selection::Only(&["mimalloc", "rpmalloc", "hardened_malloc-light"]);

/// What `make dist` makes of some allocators, for this processor, with this machine's compilers.
pub(crate) fn produce(directory: &Path) {
    let own = Own {
        libraries: &[own_library::hooks(hooks::SOURCE, hooks::EXPORTS)],
        programs: &[program::replayer(replay::SOURCE, &replay::COMPILER_FLAGS)],
    };
    let mut produced = Produced::default();
    for libc in [Libc::Glibc, Libc::Musl] {
        let target = Target::of_this_machine(libc).unwrap();
        let search = Search::new(std::env::vars_os());
        let find = |language| compiler::find(&target, language, Purpose::Objects, &search);
        let toolchain = Toolchain {
            cargo: "cargo".into(),
            cc: find(Language::C).unwrap(),
            cxx: find(Language::Cxx).map_err(|error| error.to_string()),
            environment: std::env::vars_os().collect(),
        };
        let cache = Cache::at(cache());
        let of_target = prebuilt::produce(&target, &toolchain, &cache, directory, ALLOCATORS, &own);
        produced.extend(of_target.unwrap());
    }
    prebuilt::write(directory, produced).unwrap();
}
