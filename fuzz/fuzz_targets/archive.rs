//! What is read from an archive can be written, and reads back the same.
//!
//! Only objects whose symbols can be read are written, as everywhere in reheap: the writer makes an index of them and
//! does not survive a damaged one.
#![no_main]

use reheap_elf::{archive, symbols};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(members) = archive::read(bytes) else {
        return;
    };
    if members
        .iter()
        .all(|member| symbols::read(&member.data).is_ok())
    {
        let written = archive::write(&members).expect("objects that can be read can be written");
        let again = archive::read(&written).expect("what was written can be read");
        let contents = |members: Vec<archive::Member>| -> Vec<_> {
            members.into_iter().map(|m| m.data).collect()
        };
        assert_eq!(contents(members), contents(again));
    }
});
