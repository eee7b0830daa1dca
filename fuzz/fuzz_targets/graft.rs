#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| reheap_fuzz::run("graft", bytes));
