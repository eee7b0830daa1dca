//! What is read from an archive can be written, and reads back the same.
#![no_main]

use reheap_elf::archive;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(members) = archive::read(bytes)
        && let Ok(written) = archive::write(&members)
    {
        let again = archive::read(&written).expect("what was written can be read");
        let contents = |members: &[archive::Member]| {
            members.iter().map(|m| m.data.clone()).collect::<Vec<_>>()
        };
        assert_eq!(contents(&members), contents(&again));
    }
});
