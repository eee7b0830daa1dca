//! Which members and functions of an archive are its allocator.

use crate::common::Workshop;
use reheap_elf::allocator_archive::{AllocatorArchive, AllocatorArchiveError, read};

/// Compiles each source to an object of that name, and makes an archive of them.
fn archive(sources: &[(&str, &str)]) -> Result<AllocatorArchive, AllocatorArchiveError> {
    let workshop = Workshop::new();
    let mut objects = Vec::new();
    for (name, source) in sources {
        workshop.compile(name, source, "-fno-builtin -w");
        objects.push(format!("{name}.o"));
    }
    workshop.run(&format!("ar rcs all.a {}", objects.join(" ")));
    read(&workshop.read("all.a"))
}

/// The six primitives with a prefix, as C.
fn primitives(prefix: &str) -> String {
    [
        "malloc",
        "calloc",
        "realloc",
        "free",
        "aligned_alloc",
        "usable_size",
    ]
    .map(|name| format!("void *{prefix}{name}() {{ return helper(); }}\n"))
    .concat()
}

#[test]
fn members_that_the_allocator_does_not_need_stay_out() {
    let found = archive(&[
        ("operators", "void new_() { cxx_library(); }"),
        ("allocator", &primitives("mi_")),
        ("helper", "void *helper() { pthread_atfork(); return 0; }"),
    ])
    .unwrap();
    let names: Vec<&str> = found.members.iter().map(|m| m.name.as_str()).collect();
    assert_eq!(names, ["allocator.o", "helper.o"]);
    assert_eq!(found.entry_points["malloc_usable_size"], "mi_usable_size");
    assert_eq!(found.entry_points["memalign"], "mi_aligned_alloc");
    assert_eq!(Vec::from_iter(&found.needs), ["pthread_atfork"]);
}

#[test]
fn public_names_come_before_those_with_a_prefix() {
    let both = primitives("mi_") + &primitives("").replace(" usable_size", " malloc_usable_size");
    let found = archive(&[("allocator", &both)]).unwrap();
    assert_eq!(found.entry_points["malloc"], "malloc");
}

#[test]
fn an_archive_without_a_whole_family_is_refused() {
    let other = archive(&[("other", "void f() {}")]);
    assert_eq!(other, Err(AllocatorArchiveError::NoMalloc));
    let half = archive(&[("half", "void *malloc() { return 0; } void free() {}")]);
    let missing = vec!["calloc", "realloc", "memalign", "malloc_usable_size"];
    assert_eq!(half, Err(AllocatorArchiveError::Incomplete(missing)));
}
