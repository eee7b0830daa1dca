//! Archives, libcs and ELF files.

use reheap_elf::archive::{self, Member};
use reheap_elf::bindings::malloc_slots;
use reheap_elf::derive::{
    AllocatorObjects, DeriveError, MemoryFunctions, OriginalLibc, derive_libc, read_original,
};
use reheap_elf::identify::{self, Provider, Role};
use reheap_elf::marker::Marker;
use reheap_elf::{imports, linkage, symbols};
use std::collections::BTreeMap;

/// What is read from an archive can be written, and reads back the same.
///
/// Only objects whose symbols can be read are written, as everywhere in reheap: the writer makes an index of them and
/// does not survive a damaged one.
pub(crate) fn archive(bytes: &[u8]) {
    let Ok(members) = archive::read(bytes) else {
        return;
    };
    if members
        .iter()
        .all(|member| symbols::read(&member.data).is_ok())
    {
        let written = archive::write(&members).expect("objects that can be read can be written");
        let again = archive::read(&written).expect("what was written can be read");
        let contents =
            |members: Vec<Member>| -> Vec<_> { members.into_iter().map(|m| m.data).collect() };
        assert_eq!(contents(members), contents(again));
    }
}

/// Deriving from any libc.a and any allocator object gives an error, or a derived libc that is recognised as one.
///
/// The input is libc.a behind its length, and the allocator's object, which also has the memory functions.
pub(crate) fn derive(bytes: &[u8]) {
    let Some((libc, allocator)) = super::two(bytes) else {
        return;
    };
    let Ok(original) = read_original(libc) else {
        return;
    };
    let (objects, marker) = (objects(allocator), marker(&original));
    let _ = derive_libc(&original, &objects, None, &marker, &[]);
    let memory = Some(memory_functions(allocator));
    let derive = || derive_libc(&original, &objects, memory.as_ref(), &marker, &[]);
    let Ok(derived) = derive() else {
        return;
    };
    let again = derive().expect("deriving twice gives the same");
    assert_eq!(derived.bytes, again.bytes);
    assert!(matches!(
        read_original(&derived.bytes),
        Err(DeriveError::AlreadyDerived(_))
    ));
    if let Ok(identity) = identify::identify(&derived.bytes) {
        assert_eq!(identity.marker.map(|found| found.marker), Some(marker));
    }
}

/// The libc that is derived from these, which are not damaged.
pub(crate) fn derived(libc: &[u8], allocator: &[u8]) -> Vec<u8> {
    let original = read_original(libc).expect("it is a libc of musl");
    let marker = marker(&original);
    let derived = derive_libc(&original, &objects(allocator), None, &marker, &[]);
    derived.expect("they fit together").bytes
}

fn marker(original: &OriginalLibc) -> Marker {
    Marker {
        allocator: "mimalloc".to_owned(),
        allocator_version: "3.3.2".to_owned(),
        package: "libmimalloc-sys 0.1.49".to_owned(),
        tuning: BTreeMap::new(),
        memory_functions: None,
        libc: format!("musl {}", original.version),
        original_sha256: "0".repeat(64),
        reheap: "0.1.0".to_owned(),
    }
}

/// Memory functions that are all this one object. In a libc without any, nothing changes.
fn memory_functions(object: &[u8]) -> MemoryFunctions {
    let names = ["memcpy", "__memrchr"].map(|name| (name.to_owned(), format!("fast_{name}")));
    MemoryFunctions {
        objects: vec![Member {
            name: "memory.o".to_owned(),
            data: object.to_vec(),
        }],
        names: names.into(),
    }
}

/// An object as the whole of mimalloc.
fn objects(allocator: &[u8]) -> AllocatorObjects {
    let entry_points =
        ["malloc", "calloc", "realloc", "free"].map(|f| (f.to_owned(), format!("mi_{f}")));
    AllocatorObjects {
        upstream: vec![Member {
            name: "allocator.o".to_owned(),
            data: allocator.to_vec(),
        }],
        glue: Vec::new(),
        entry_points: entry_points.into(),
        redirects: BTreeMap::new(),
        interface: Vec::new(),
    }
}

/// Whatever the bytes are, there is an identity or an error, within libFuzzer's limits of time and memory, and what is
/// concluded agrees with what was found.
pub(crate) fn identify(bytes: &[u8]) {
    if let Ok(identity) = identify::identify(bytes) {
        for found in &identity.allocators {
            assert!(!found.evidence.is_empty(), "{found:?} was found by nothing");
            let provides = Provider::Allocator {
                name: found.name.clone(),
            };
            if found.role == Role::Malloc {
                assert_eq!(identity.malloc.provider, provides, "{identity:?}");
            }
        }
    }
    // A handful in practice; a limit where a file says otherwise.
    assert!(malloc_slots(bytes).len() <= 64);
    let _ = imports::read(bytes);
    let _ = linkage::read(bytes);
    let _ = linkage::for_each_name(bytes, &mut |name, _| assert!(!name.is_empty()));
}

/// Any file is read as the list of libraries that ldconfig(8) writes, or refused.
pub(crate) fn libraries(bytes: &[u8]) {
    for (name, path) in reheap_subject::readers::listed_libraries(bytes) {
        assert!(!name.contains('\0') && !path.as_os_str().as_encoded_bytes().contains(&0));
    }
}
