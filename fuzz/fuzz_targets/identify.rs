//! Whatever the bytes are, there is an identity or an error, within libFuzzer's limits of time and memory, and what is
//! concluded agrees with what was found.
#![no_main]

use reheap_elf::bindings::malloc_slots;
use reheap_elf::identify::{Provider, Role, identify};
use reheap_elf::linkage;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(identity) = identify(bytes) {
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
    let _ = linkage::read(bytes);
    let _ = linkage::for_each_name(bytes, &mut |name, _| assert!(!name.is_empty()));
});
