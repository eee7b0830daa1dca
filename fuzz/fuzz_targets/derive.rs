//! Deriving from any libc.a and any allocator object gives an error, or a derived libc that is recognised as one.
//!
//! The input is a 32-bit little-endian length, so many bytes of libc.a, and the allocator's object.
#![no_main]

use reheap_elf::archive::Member;
use reheap_elf::derive::{AllocatorObjects, DeriveError, derive_libc, read_original};
use reheap_elf::identify::identify;
use reheap_elf::marker::Marker;
use std::collections::BTreeMap;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((length, rest)) = bytes.split_first_chunk::<4>() else {
        return;
    };
    let length = u32::from_le_bytes(*length) as usize;
    let (libc, allocator) = rest.split_at(length.min(rest.len()));
    let Ok(original) = read_original(libc) else {
        return;
    };
    let marker = Marker {
        allocator: "mimalloc".to_owned(),
        allocator_version: "3.3.2".to_owned(),
        package: "libmimalloc-sys 0.1.49".to_owned(),
        tuning: BTreeMap::new(),
        memory_functions: None,
        libc: format!("musl {}", original.version),
        original_sha256: "0".repeat(64),
        reheap: "0.1.0".to_owned(),
    };
    let entry_points =
        ["malloc", "calloc", "realloc", "free"].map(|f| (f.to_owned(), format!("mi_{f}")));
    let objects = AllocatorObjects {
        upstream: vec![Member {
            name: "allocator.o".to_owned(),
            data: allocator.to_vec(),
        }],
        glue: Vec::new(),
        entry_points: entry_points.into(),
        redirects: BTreeMap::new(),
    };
    let Ok(derived) = derive_libc(&original, &objects, None, &marker, &[]) else {
        return;
    };
    let again = derive_libc(&original, &objects, None, &marker, &[])
        .expect("deriving twice gives the same");
    assert_eq!(derived.bytes, again.bytes);
    assert!(matches!(
        read_original(&derived.bytes),
        Err(DeriveError::AlreadyDerived(_))
    ));
    if let Ok(identity) = identify(&derived.bytes) {
        assert_eq!(identity.marker.map(|found| found.marker), Some(marker));
    }
});
