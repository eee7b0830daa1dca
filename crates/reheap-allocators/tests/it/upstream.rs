//! Builds of allocators are the same for every user.

use crate::common::{cache, scratch_directory, target, toolchain};
use reheap_allocators::built::BuiltAllocator;
use reheap_allocators::cache::Cache;
use reheap_allocators::catalogue;
use reheap_allocators::link_kind::LinkKind;
use reheap_allocators::target::Libc;
use reheap_allocators::upstream;
use std::fs;

fn built(cache: &Cache) -> BuiltAllocator {
    let target = target(Libc::Musl);
    let allocator = catalogue::find("mimalloc").unwrap();
    let toolchain = toolchain(&target);
    upstream::build(allocator, &target, LinkKind::Executable, &toolchain, cache).unwrap()
}

#[test]
fn cargos_configuration_does_not_change_an_allocator() {
    let directory = scratch_directory();
    let configuration = directory.path().join(".cargo/config.toml");
    fs::create_dir(configuration.parent().unwrap()).unwrap();
    let text = format!(
        "[build]\nrustflags = [\"-C\", \"force-frame-pointers=yes\"]\n\
         [profile.release]\nopt-level = 0\ndebug = true\n\
         [profile.release.package.\"*\"]\nopt-level = 1\n\
         [env]\nCFLAGS = \"-finstrument-functions\"\n\"CC_{}\" = \"/nowhere/cc\"\n",
        target(Libc::Musl).triple()
    );
    fs::write(configuration, text).unwrap();
    let (usual, other) = (
        built(&cache()),
        built(&Cache::at(directory.path().join("cache"))),
    );
    assert_eq!(usual.key(), other.key());
    let (usual, other) = (usual.objects().unwrap(), other.objects().unwrap());
    // The objects themselves would be pages of numbers in a message.
    assert!(usual.upstream == other.upstream);
    assert!(usual.glue == other.glue);
}
