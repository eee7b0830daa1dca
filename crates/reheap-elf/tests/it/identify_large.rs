//! What is read of large files, and what is found all the same.

use crate::workshop::{Counted, Workshop};
use reheap_elf::identify::identify;

const CODE_BYTES: usize = 16 << 20;

/// A library with much code, and with a text of an allocator in it and in its data.
fn library(workshop: &Workshop) {
    let assembly = format!(
        ".text\n.skip {CODE_BYTES}, 0x90\n.byte 0\n.asciz \"<jemalloc>: in code\"\n\
         .section .rodata\n.asciz \"Scudo ERROR: in data\"\n"
    );
    workshop.write("large.s", assembly);
    workshop.run("cc -shared -nostdlib large.s -o large.so");
}

fn allocators_in(file: &Counted) -> Vec<String> {
    let found = identify(file).unwrap().allocators;
    found.into_iter().map(|found| found.name).collect()
}

#[test]
fn code_is_not_searched_for_texts_where_sections_say_what_is_code() {
    let workshop = Workshop::with(&["cc"]);
    library(&workshop);
    let file = Counted::new(workshop.bytes("large.so"));
    assert_eq!(allocators_in(&file), ["scudo"]);
    let read = file.bytes_read.get();
    assert!(read < CODE_BYTES / 8, "{read} bytes");
}

#[test]
fn everything_is_searched_where_no_sections_say_what_is_code() {
    let workshop = Workshop::with(&["cc"]);
    library(&workshop);
    let file = Counted::new(workshop.without_sections("large.so"));
    assert_eq!(allocators_in(&file), ["jemalloc", "scudo"]);
}
