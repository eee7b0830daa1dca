//! Whatever the bytes are, there is an identity or an error, within libFuzzer's limits of time and memory.
#![no_main]

use reheap_elf::identify::identify;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(identity) = identify(bytes) {
        for found in &identity.allocators {
            assert!(!found.evidence.is_empty(), "{found:?} was found by nothing");
        }
    }
});
